"""`reproduce`: run a published experiment and say of each claim whether it was met."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from rich.table import Table
from rich.text import Text

from tailback.experiments import Check, Claim, Experiment, Sensitivity, list_published, load_published
from tailback.results import Result
from tailback.run import claim as claim_folder
from tailback.run import run
from tailback.scenario import load

__all__ = ["Measured", "Reproduction", "Row", "Variant", "list_published", "reproduce"]

Verdict = Literal["met", "missed", "too short", "not run"]
Progress = Callable[[str, float], None]
"""Called with what is running and the share of it that is done, 0 to 1."""
Runner = Callable[[str, Mapping[str, str], Callable[[float], None]], Result]
"""Runs a scenario with overrides (`path` -> text) and gives its result; is handed a place to report its
progress.
"""


@dataclass(frozen=True)
class Measured:
    """A check with what was measured; `holds` is None when nothing could be."""

    check: Check
    value: float

    @property
    def holds(self) -> bool | None:
        """Whether the bound holds."""
        return self.check.holds(self.value)

    def as_json(self) -> dict[str, Any]:
        """For reproduce.json."""
        bounds = self.check.model_dump(
            include={"at_least", "at_most", "equals", "between"}, exclude_none=True
        )
        return {
            "measure": self.check.measure,
            "params": self.check.params,
            "run": self.check.run,
            "kind": self.check.kind,
            "relative_to": self.check.relative_to,
            "value": self.value if math.isfinite(self.value) else None,
            "bound": bounds,
            "holds": self.holds,
            "why": self.check.why,
        }


@dataclass(frozen=True)
class Row:
    """A claim and its verdict: `too short` only in quick runs, `not run` when the run was interrupted."""

    claim: Claim
    measured: list[Measured]
    verdict: Verdict
    quick: bool

    @property
    def why_missed(self) -> str:
        """The reason of a miss, as far as it is known; else empty. It is about full runs."""
        return self.claim.if_missed if self.verdict == "missed" and not self.quick else ""


@dataclass(frozen=True)
class Variant:
    """One value of a sensitivity table's setting, and what was measured with it."""

    value: str
    assumed: bool
    measured: list[Measured]


@dataclass
class Reproduction:
    """What `reproduce` gives: a row a claim, the sensitivity tables, and the runs behind them."""

    name: str
    experiment: Experiment
    quick: bool
    strict: bool
    only: list[str] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    sensitivity: list[tuple[Sensitivity, list[Variant]]] = field(default_factory=list)
    results: dict[str, Result] = field(default_factory=dict)
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
            measured = _measured(row.measured)
            if row.why_missed:
                measured.append(f"\n{row.why_missed}", style="italic")
            table.add_row(row.claim.id, Text(says), measured, verdict, row.claim.kind)
        return table

    def sensitivity_tables(self) -> list[Table]:
        """One table a varied assumption."""
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
        """What reproduce.json holds; the same seed gives the same text."""
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
                    "verdict": row.verdict,
                    "why_missed": row.why_missed,
                    "checks": [one.as_json() for one in row.measured],
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


def _measured(measured: list[Measured]) -> Text:
    words = Text()
    for number, one in enumerate(measured):
        sign, style = {True: ("✓", "green"), False: ("✗", "red"), None: ("?", "yellow")}[one.holds]
        words.append("\n" if number else "")
        words.append(sign, style=style)
        words.append(
            f" {one.check.name_in_words}: {one.check.in_words(one.value)} ({one.check.bound_in_words})"
            + (f", {one.check.kind}" if one.check.kind else "")
        )
    return words


def reproduce(
    name: str,
    out: str | Path | None = None,
    strict: bool = False,
    quick: bool = False,
    only: Sequence[str] = (),
    progress: Progress | None = None,
    runner: Runner | None = None,
) -> Reproduction:
    """Run a published experiment.

    `out`: a folder, new or empty, for reproduce.html, reproduce.json and one folder a run (under runs/); None
    writes nothing. `quick` runs each scenario for a fraction of its time: the verdicts are then only a first
    look, and say so. `only` names the claims to check, by their ids; nothing else is run. ScenarioError when
    there is no experiment or claim of that name, or `out` cannot be used; nothing was run then.
    """
    experiment = load_published(name)
    if only:
        experiment = experiment.only(only)
    run_one = _Runs(runner or _engine, progress or (lambda what, share: None))
    ids = [claim.id for claim in experiment.claims] if only else []
    done = Reproduction(name, experiment, quick, strict, ids)
    folder = None if out is None else claim_folder(Path(out))
    for key, plan in experiment.runs.items():
        result = run_one(key, plan.scenario, plan.overrides(quick))
        done.results[key] = result
        if folder is not None:
            result.write(folder / "runs" / key)
        if not result.complete:
            done.interrupted = True
            break
    done.rows = [judge(claim, done.results, quick) for claim in experiment.claims]
    # In a quick run most of what is varied would not even have begun.
    if not done.interrupted and not quick:
        _vary(done, run_one)
    if folder is not None:
        from tailback.report.reproduction import render_reproduction

        done.folder = folder
        text = json.dumps(done.as_json(), indent=1, sort_keys=True, allow_nan=False) + "\n"
        (folder / "reproduce.json").write_text(text, encoding="utf-8")
        (folder / "reproduce.html").write_text(render_reproduction(done), encoding="utf-8")
    return done


def judge(claim: Claim, results: Mapping[str, Result], quick: bool) -> Row:
    """Measure a claim. What cannot be measured counts as missed, but in a quick run as too short to say."""
    if any(run not in results or not results[run].complete for run in claim.runs):
        return Row(claim, [], "not run", quick)
    measured = [Measured(check, check.value(results, claim.run)) for check in claim.checks]
    verdicts = [one.holds for one in measured]
    if all(verdicts):
        return Row(claim, measured, "met", quick)
    if quick and False not in verdicts:
        return Row(claim, measured, "too short", quick)
    return Row(claim, measured, "missed", quick)


def _vary(done: Reproduction, run_one: _Runs) -> None:
    for item in done.experiment.sensitivity:
        base = done.experiment.runs[item.run]
        variants = []
        for value, overrides in item.varied.items():
            sets = {**base.overrides(done.quick), **item.set, **overrides, "run.duration": item.duration}
            same = item.run if value == item.assumed else _run_of(done.experiment, base.scenario, sets)
            if same is not None:
                result = done.results[same]
            else:
                result = run_one(f"{item.run}, {item.path} {value}".replace("  ", " "), base.scenario, sets)
            if not result.complete:
                done.interrupted = True
                return
            measured = [Measured(check, check.value({item.run: result}, item.run)) for check in item.show]
            variants.append(Variant(value, value == item.assumed, measured))
        done.sensitivity.append((item, variants))


def _run_of(experiment: Experiment, scenario: str, sets: Mapping[str, str]) -> str | None:
    """The run that is this very scenario with these overrides, if there is one."""
    runs = experiment.runs.items()
    return next((key for key, run in runs if (run.scenario, run.overrides(False)) == (scenario, sets)), None)


class _Runs:
    """Runs scenarios one after the other and reports each one's progress under its name."""

    def __init__(self, runner: Runner, progress: Progress) -> None:
        self._runner = runner
        self._progress = progress

    def __call__(self, title: str, scenario: str, sets: Mapping[str, str]) -> Result:
        self._progress(title, 0.0)
        result = self._runner(scenario, sets, lambda share: self._progress(title, share))
        self._progress(title, 1.0)
        return result


def _engine(scenario: str, sets: Mapping[str, str], progress: Callable[[float], None]) -> Result:
    checked = load(scenario, sets=[f"{path}={value}" for path, value in sets.items()])
    return run(checked, progress=lambda state: progress(min(1.0, state.time_ps / checked.run.duration)))
