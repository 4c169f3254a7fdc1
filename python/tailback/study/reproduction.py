"""Outcome of a reproduction: claims with their verdicts, as data, as tables of the terminal and as JSON."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from rich.table import Table
from rich.text import Text
from tailback import text
from tailback.recorded.run import Recorded
from tailback.study.published import Calibrated, Check, Claim, Experiment, Sensitivity

Verdict = Literal["met", "missed", "too short", "not run"]


@dataclass(frozen=True)
class Measured:
    """A check with what was measured; `holds` is None when nothing could be."""

    check: Check
    value: float

    @property
    def holds(self) -> bool | None:
        return self.check.holds(self.value)

    def as_json(self) -> dict[str, Any]:
        bounds = self.check.model_dump(
            include={"at_least", "at_most", "equals", "between"}, exclude_none=True
        )
        return {
            "measure": self.check.metric,
            "params": self.check.params,
            "run": self.check.run,
            "kind": self.check.kind,
            "chosen": self.check.chosen,
            "relative_to": self.check.relative_to,
            "value": self.value if math.isfinite(self.value) else None,
            "bound": bounds,
            "holds": self.holds,
            "why": self.check.why,
        }


@dataclass(frozen=True)
class Spread:
    """A claim checked with a calibrated constant at each end of the range that its calibration allows."""

    of: Calibrated
    ends: list[list[Measured]]
    """For each end, the claim's checks."""

    @property
    def verdicts(self) -> list[Verdict]:
        return ["met" if all(one.holds for one in end) else "missed" for end in self.ends]

    @property
    def in_words(self) -> str:
        """'with bridge.costs.qdisc 160ns to 226ns: missed at both'."""
        low, high = self.verdicts
        words = (
            f"{low} at both"
            if low == high
            else f"{low} at {self.of.between[0]}, {high} at {self.of.between[1]}"
        )
        return f"with {self.of.path} {self.of.between[0]} to {self.of.between[1]}: {words}"

    def as_json(self) -> dict[str, Any]:
        return {
            "path": self.of.path,
            "between": self.of.between,
            "verdicts": self.verdicts,
            "checks": [[one.as_json()["value"] for one in end] for end in self.ends],
        }


@dataclass(frozen=True)
class Row:
    """A claim and its verdict: `too short` only in quick runs, `not run` when the run was interrupted.

    `spread`: how it comes out with calibrated constants at the ends of what is left open.
    """

    claim: Claim
    measured: list[Measured]
    verdict: Verdict
    quick: bool
    spread: list[Spread] = field(default_factory=list)

    @property
    def on_a_knifes_edge(self) -> str:
        """Path of the constant whose fitted value meets the claim and both ends of its range miss; else empty."""
        edges = [one.of.path for one in self.spread if one.verdicts == ["missed", "missed"]]
        return edges[0] if edges and all(one.holds for one in self.measured) else ""

    @property
    def why_missed(self) -> str:
        """The reason of a miss, as far as it is known; else empty. It is about full runs."""
        if self.verdict != "missed" or self.quick:
            return ""
        if self.on_a_knifes_edge:
            path = self.on_a_knifes_edge
            return (
                f"A knife's edge: met with the value of {path} that was fitted, and with neither neighbour."
            )
        return self.claim.if_missed

    @property
    def settled_by(self) -> str:
        """Of a miss, the measurement in the lab that would tell; else empty."""
        return self.claim.settled_by if self.why_missed else ""

    def interval(self, number: int) -> str:
        """Of a check, in words: the values that it has over all spreads; empty where that is one."""
        values = [end[number].value for one in self.spread for end in one.ends]
        known = [value for value in (*values, self.measured[number].value) if math.isfinite(value)]
        if not values or not known:
            return ""
        check = self.measured[number].check
        low, high = check.in_words(min(known)), check.in_words(max(known))
        return "" if low == high else f"{low} to {high}"


@dataclass(frozen=True)
class Variant:
    """One value of a sensitivity table's setting, and what was measured with it."""

    value: str
    assumed: bool
    measured: list[Measured]


@dataclass
class Reproduction:
    """Result of `reproduce`: a row per claim, the sensitivity tables, and the runs behind them."""

    name: str
    experiment: Experiment
    quick: bool
    strict: bool
    only: list[str] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    sensitivity: list[tuple[Sensitivity, list[Variant]]] = field(default_factory=list)
    results: dict[str, Recorded] = field(default_factory=dict)
    folder: Path | None = None
    interrupted: bool = False

    @property
    def exit_status(self) -> int:
        """130 when interrupted; 1 when `strict` and a claim was missed; else 0."""
        if self.interrupted:
            return 130
        return 1 if self.strict and any(row.verdict == "missed" for row in self.rows) else 0

    def table(self) -> Table:
        """A row a claim: what the paper says, what was measured, the verdict, and what kind of statement it
        is.
        """
        title = self.experiment.title + (
            " (quick runs: verdicts are only a first look)" if self.quick else ""
        )
        table = Table(title=title, title_justify="left", show_lines=True)
        table.add_column("", no_wrap=True)
        table.add_column("The paper says", ratio=4)
        table.add_column("Measured", ratio=5)
        table.add_column("Verdict", no_wrap=True)
        table.add_column("Kind", no_wrap=True)
        for row in self.rows:
            style = {"met": "green", "missed": "red"}.get(row.verdict, "yellow")
            verdict = Text(row.verdict + (" (quick)" if self.quick else ""), style=style)
            says = f"{row.claim.says} ({row.claim.where})"
            measured = _measured(row)
            for spread in row.spread:
                measured.append(f"\n{spread.in_words}", style="dim")
            if row.why_missed:
                measured.append(f"\n{row.why_missed}", style="italic")
            if row.settled_by:
                measured.append(f"\nWhat would settle it: {row.settled_by}", style="italic")
            table.add_row(row.claim.id, Text(says), measured, verdict, row.claim.counted_as)
        return table

    def tables(self) -> list[Table]:
        return [self.table(), *self.sensitivity_tables()]

    def sensitivity_tables(self) -> list[Table]:
        tables = []
        for item, variants in self.sensitivity:
            kind = f"{item.kind_in_words}: " if item.kind_in_words else ""
            table = Table(title=f"{kind}{item.title}", title_justify="left")
            table.add_column(item.head)
            for check in item.show:
                head = check.name_in_words + (f"\n({check.bound_in_words})" if check.bounds else "")
                table.add_column(head, justify="right")
            for variant in variants:
                cells = [
                    Text(
                        one.check.in_words(one.value),
                        style={True: "green", False: "red", None: ""}[one.holds],
                    )
                    for one in variant.measured
                ]
                table.add_row(variant.value + (f" ({item.mark})" if variant.assumed else ""), *cells)
            tables.append(table)
        return tables

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "title": self.experiment.title,
            "source": self.experiment.source,
            "quick": self.quick,
            "only": self.only,
            "interrupted": self.interrupted,
            "claims": [
                {
                    "id": row.claim.id,
                    "says": row.claim.says,
                    "where": row.claim.where,
                    "runs": row.claim.runs,
                    "kind": row.claim.kind,
                    "counted_as": row.claim.counted_as,
                    "verdict": row.verdict,
                    "why_missed": row.why_missed,
                    "settled_by": row.settled_by,
                    "checks": [one.as_json() for one in row.measured],
                    "spread": [one.as_json() for one in row.spread],
                }
                for row in self.rows
            ],
            "sensitivity": [
                {
                    "title": item.title,
                    "kind": item.kind,
                    "path": item.path,
                    "variants": [
                        {
                            "value": variant.value,
                            "assumed": variant.assumed,
                            "measured": [one.as_json() for one in variant.measured],
                        }
                        for variant in variants
                    ],
                }
                for item, variants in self.sensitivity
            ],
        }


@dataclass
class AllReproductions:
    """Result of `reproduce all`: each experiment's claims, in the order of their names."""

    quick: bool
    experiments: list[Reproduction] = field(default_factory=list)

    @property
    def interrupted(self) -> bool:
        return any(one.interrupted for one in self.experiments)

    @property
    def exit_status(self) -> int:
        """130 when interrupted; 1 when `strict` and a claim was missed; else 0."""
        return max((one.exit_status for one in self.experiments), default=0)

    @property
    def headline(self) -> str:
        """'61 of 72 claims of 5 documents met, 11 missed'."""
        rows = [row for one in self.experiments for row in one.rows]
        met, missed = (sum(row.verdict == verdict for row in rows) for verdict in ("met", "missed"))
        claims, documents = text.plural(len(rows), "claim"), text.plural(len(self.experiments), "document")
        if self.quick:
            return f"A quick look: {met} of {claims} of {documents} hold in short runs"
        return f"{met} of {claims} of {documents} met, {missed} missed"

    def tables(self) -> list[Table]:
        title = "\n".join([self.headline, *self.counts])
        table = Table(title=title, title_justify="left")
        for head, width in (("", None), ("What is said", 4), ("Verdict", None), ("Kind", None)):
            table.add_column(head, ratio=width, no_wrap=width is None)
        for one in self.experiments:
            table.add_section()
            table.add_row("", Text(one.experiment.title, style="bold"), "", "")
            for row in one.rows:
                style = {"met": "green", "missed": "red"}.get(row.verdict, "yellow")
                table.add_row(
                    row.claim.id, row.claim.says, Text(row.verdict, style=style), row.claim.counted_as
                )
        return [table]

    @property
    def counts(self) -> list[str]:
        """'predicted: 20 of 30 met', for each of what claims are counted as."""
        rows = [row for one in self.experiments for row in one.rows]
        kinds = sorted({row.claim.counted_as for row in rows})
        of = {kind: [row.verdict == "met" for row in rows if row.claim.counted_as == kind] for kind in kinds}
        return [f"{kind}: {sum(met)} of {len(met)} met" for kind, met in of.items()]

    def as_json(self) -> dict[str, Any]:
        return {
            "quick": self.quick,
            "interrupted": self.interrupted,
            "headline": self.headline,
            "counts": self.counts,
            "experiments": [one.as_json() for one in self.experiments],
        }


def _measured(row: Row) -> Text:
    words = Text()
    for number, one in enumerate(row.measured):
        interval = row.interval(number)
        sign, style = {True: ("✓", "green"), False: ("✗", "red"), None: ("?", "yellow")}[one.holds]
        words.append("\n" if number else "")
        words.append(sign, style=style)
        words.append(
            f" {one.check.name_in_words}: {one.check.in_words(one.value)}"
            + (f", {interval}" if interval else "")
            + f" ({one.check.bound_in_words}"
            + (f", chosen{one.check.met_from(one.value)})" if one.check.chosen else ")")
            + (f", {one.check.kind}" if one.check.kind else "")
        )
    return words
