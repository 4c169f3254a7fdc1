"""`reproduce`: run a published experiment and say of each claim whether it was met."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from rich.table import Table
from rich.text import Text

from tailback.experiments import Check, Claim, Experiment, Sensitivity, list_published, load_published
from tailback.out_folder import OutFolder, replace_file
from tailback.results import Result
from tailback.run import claimed, run
from tailback.runs import Progress, Runner, Runs
from tailback.scenario import load

__all__ = [
    "Begun",
    "Measured",
    "Reproduction",
    "Row",
    "Variant",
    "list_published",
    "planned_runs",
    "reproduce",
]

Verdict = Literal["met", "missed", "too short", "not run"]


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

    def tables(self) -> list[Table]:
        """The claims, then what the assumptions decide."""
        return [self.table(), *self.sensitivity_tables()]

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
    out: str | Path | OutFolder | None = None,
    strict: bool = False,
    quick: bool = False,
    only: Sequence[str] = (),
    jobs: int = 1,
    progress: Progress | None = None,
    runner: Runner | None = None,
) -> Reproduction:
    """Run a published experiment, `jobs` runs at a time.

    `out`: a folder, new or empty, for reproduce.html, reproduce.json and one folder a run (under runs/); None
    writes nothing. `quick` runs each scenario for a fraction of its time: the verdicts are then only a first
    look, and say so. `only` names the claims to check, by their ids; nothing else is run. ScenarioError when
    there is no experiment or claim of that name, or `out` cannot be used; nothing was run then. OSError when
    it cannot be written; runs that are complete are there then, and reproduce.json, which comes last, is not.
    """
    experiment = load_published(name)
    if only:
        experiment = experiment.only(only)
    ids = [claim.id for claim in experiment.claims] if only else []
    with nullcontext() if out is None else claimed(out) as folder:
        done = Reproduction(
            name, experiment, quick, strict, ids, folder=None if folder is None else folder.path
        )
        with Runs(runner or engine, progress, jobs) as runs:
            return Begun(done, runs).finish()


class Begun:
    """An experiment whose runs are under way, or wait for their turn."""

    def __init__(self, done: Reproduction, runs: Runs, label: str = "") -> None:
        """Starts them; `label` comes before the names under which they report their progress."""
        self._done = done
        self._runs = {}
        for key, plan in done.experiment.runs.items():
            folder = None if done.folder is None else done.folder / "runs" / key
            keep = partial(_kept, folder)
            self._runs[key] = runs.start(label + key, plan.scenario, plan.overrides(done.quick), keep)
        self._varied = [
            (shared, runs.start(label + shared.title, shared.scenario, shared.sets, shared.measure))
            for shared in _variants(done)
        ]

    def finish(self) -> Reproduction:
        """Waits for the runs, judges the claims, and writes the report where there is a folder."""
        done = self._done
        for key, waiting in self._runs.items():
            result = waiting.wait()
            if result is not None:
                done.results[key] = result
            done.interrupted |= result is None or not result.complete
        done.rows = [judge(claim, done.results, done.quick) for claim in done.experiment.claims]
        if not done.quick:
            self._tables()
        if done.folder is not None:
            from tailback.report.reproduction import render_reproduction

            done.folder.mkdir(parents=True, exist_ok=True)  # not there yet if no run of it was begun
            write_pages(done.folder, render_reproduction(done), done.as_json())
        return done

    def _tables(self) -> None:
        """The sensitivity tables whose variants are all there."""
        done = self._done
        measured_of: dict[tuple[int, str], list[Measured] | None] = {}
        for shared, waiting in self._varied:
            measured_of |= waiting.wait() or dict.fromkeys(shared.entries)
        for number, item in enumerate(done.experiment.sensitivity):
            variants = []
            for value in item.varied:
                if (number, value) in measured_of:
                    measured = measured_of[number, value]
                else:
                    result = done.results.get(_same(done.experiment, item, value) or "")
                    measured = None if result is None else _measure(item, result)
                if measured is None:
                    done.interrupted = True
                    break
                variants.append(Variant(value, value == item.assumed, measured))
            else:
                done.sensitivity.append((item, variants))


def write_pages(folder: Path, page: str, figures: Mapping[str, Any]) -> None:
    """Writes reproduce.html, and then reproduce.json: a folder without that was not done to its end."""
    replace_file(folder / "reproduce.html", page.encode())
    text = json.dumps(figures, indent=1, sort_keys=True, allow_nan=False) + "\n"
    replace_file(folder / "reproduce.json", text.encode())


def planned_runs(name: str, quick: bool = False, only: Sequence[str] = ()) -> int:
    """How many runs an experiment, or some of its claims, will take.

    Raises:
        ScenarioError: there is no experiment or claim of that name.
    """
    experiment = load_published(name)
    if only:
        experiment = experiment.only(only)
    return len(experiment.runs) + len(_variants(Reproduction(name, experiment, quick, False)))


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


@dataclass
class _Varied:
    """A run that only sensitivity tables need, and its entries in them: number of the table, and variant."""

    title: str
    scenario: str
    sets: dict[str, str]
    entries: dict[tuple[int, str], Sensitivity]

    def measure(self, result: Result) -> dict[tuple[int, str], list[Measured] | None]:
        """What each entry shows of it."""
        return {entry: _measure(item, result) for entry, item in self.entries.items()}


def _variants(done: Reproduction) -> list[_Varied]:
    """The runs that only the sensitivity tables need, each once. In a quick run there are none: most of what
    is varied would not even have begun.
    """
    if done.quick:
        return []
    found: list[_Varied] = []
    for number, item in enumerate(done.experiment.sensitivity):
        scenario = done.experiment.runs[item.run].scenario
        for value in item.varied:
            if _same(done.experiment, item, value) is not None:
                continue
            sets = _sets(done.experiment, item, value)
            same = next((one for one in found if (one.scenario, one.sets) == (scenario, sets)), None)
            if same is None:
                # Two tables may vary the same setting of a run, with others set differently.
                title = f"{item.run}, table {number + 1}, {item.of(value)}"
                found.append(_Varied(title, scenario, sets, {(number, value): item}))
            else:
                same.entries[number, value] = item
    return found


def _sets(experiment: Experiment, item: Sensitivity, value: str) -> dict[str, str]:
    base = experiment.runs[item.run]
    return {**base.overrides(False), **item.set, **item.varied[value], "run.duration": item.duration}


def _same(experiment: Experiment, item: Sensitivity, value: str) -> str | None:
    """The run of the claims that a variant is, if it is one."""
    if value == item.assumed:
        return item.run
    wanted = (experiment.runs[item.run].scenario, _sets(experiment, item, value))
    runs = experiment.runs.items()
    return next((key for key, run in runs if (run.scenario, run.overrides(False)) == wanted), None)


def _measure(item: Sensitivity, result: Result) -> list[Measured] | None:
    if not result.complete:
        return None
    return [Measured(check, check.value({item.run: result}, item.run)) for check in item.show]


def _kept(folder: Path | None, result: Result) -> Result:
    if folder is not None:
        result.write(folder)
    return result


def engine(scenario: str, sets: Mapping[str, str], progress: Callable[[float], None]) -> Result:
    """The runner that is none but Tailback's own."""
    checked = load(scenario, sets=[f"{path}={value}" for path, value in sets.items()])
    return run(checked, progress=lambda state: progress(min(1.0, state.time_ps / checked.run.duration)))
