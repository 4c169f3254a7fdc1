"""Runs the cells of a lab, and writes what they predict and, where it is there, how far from what was measured."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tailback.errors import InputError, Problem
from tailback.executors import report_progress
from tailback.executors.calls import OnShare
from tailback.files.out_folder import OutFolder, replace_file
from tailback.measured.cells import Blocked, Cell, Lab, Plan, Quantity
from tailback.running import claimed, run
from tailback.scenario import load
from tailback.study.driver import Driver, result_of
from tailback.study.run import reporting
from tailback.version import __version__

if TYPE_CHECKING:
    from rich.table import Table

QUICK = 0.25
"""Share of a run's time that a quick prediction simulates."""
VOID, BLOCKED, MET, MISSED = "VOID", "BLOCKED", "met", "missed"


@dataclass(frozen=True)
class Predicted:
    """Prediction of a measured column: mean over the seeds, and range (largest minus least)."""

    mean: float
    spread: float


@dataclass
class Outcome:
    """A cell and what came of it."""

    cell: Cell
    why: str = ""
    """Why there is no prediction at all."""
    blocked: Mapping[str, str] = field(default_factory=dict)
    predicted: dict[str, Predicted] = field(default_factory=dict)

    def of(self, quantity: str) -> str:
        """Why a column has no prediction."""
        return self.why or self.blocked.get(quantity, "the run shows none")


@dataclass(frozen=True)
class Compared:
    cell: str
    line: int
    quantity: Quantity
    measured: float
    predicted: Predicted | None
    verdict: str
    """met, missed, VOID, BLOCKED, or empty: not judged."""
    why: str
    calibrated: bool

    @property
    def distance(self) -> float | None:
        """|ln(predicted / measured)|."""
        if self.predicted is None or self.predicted.mean <= 0 or self.measured <= 0:
            return None
        return abs(math.log(self.predicted.mean / self.measured))


@dataclass
class Predictions:
    lab: Lab
    seeds: Sequence[int]
    quick: bool
    outcomes: list[Outcome]
    source_sha256: str
    interrupted: bool = False

    def csv(self) -> bytes:
        """Each cell's settings, and every measured column as predicted. Nothing measured goes into it."""
        keys = [column.name for column in self.lab.keys]
        names = [one.name for one in self.lab.quantities]
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(
            [*keys, *(part for name in names for part in (name, f"{name}_spread")), "status", "why"]
        )
        for outcome in self.outcomes:
            values = [_written(outcome.cell.values[key]) for key in keys]
            for name in names:
                one = outcome.predicted.get(name)
                values += ["", ""] if one is None else [f"{one.mean:.6g}", f"{one.spread:.3g}"]
            why = outcome.why or "; ".join(
                f"{name}: {text}" for name, text in sorted(outcome.blocked.items())
            )
            writer.writerow([*values, BLOCKED if outcome.why else "predicted", why])
        return text.getvalue().encode()

    def compared(self) -> list[Compared]:
        return [one for outcome in self.outcomes for one in compare_cell(self.lab, outcome)]

    def as_json(self) -> dict[str, Any]:
        return {
            "lab": self.lab.name,
            "version": __version__,
            "seeds": list(self.seeds),
            "quick": self.quick,
            "complete": not self.interrupted,
            "cells": len(self.outcomes),
            "cells_sha256": self.source_sha256,
            "predictions_sha256": hashlib.sha256(self.csv()).hexdigest(),
            "calibrated": dict(self.lab.fitted_to),
            "quantities": [row.as_json() for row in summed_up(self.compared())],
        }

    def table(self) -> Table:
        return as_table(self.lab, self.compared())


def compare_cell(lab: Lab, outcome: Outcome) -> list[Compared]:
    """The measured values of a cell."""
    found = []
    for quantity in lab.quantities:
        if quantity.name not in outcome.cell.measured:
            continue
        measured = outcome.cell.measured[quantity.name]
        predicted = outcome.predicted.get(quantity.name)
        name = outcome.cell.name
        if name in lab.misread:
            verdict, why = VOID, lab.misread[name]
        elif predicted is None:
            verdict, why = BLOCKED, outcome.of(quantity.name)
        else:
            holds = quantity.holds(predicted.mean, measured)
            verdict, why = "" if holds is None else MET if holds else MISSED, ""
        fitted = name in lab.fitted_to
        found.append(Compared(name, outcome.cell.line, quantity, measured, predicted, verdict, why, fitted))
    return found


@dataclass(frozen=True)
class Summed:
    """A measured column over all cells that have it."""

    quantity: Quantity
    calibrated: bool
    predicted: int
    met: int
    blocked: int
    void: int
    within_15: int
    median: float | None
    """Of |ln(predicted / measured)|."""

    def as_json(self) -> dict[str, Any]:
        return {
            "quantity": self.quantity.name,
            "calibrated": self.calibrated,
            "tolerance": self.quantity.tolerance,
            "predicted": self.predicted,
            "met": self.met,
            "within_15_percent": self.within_15,
            "median_log_distance": self.median,
            "blocked": self.blocked,
            "void": self.void,
        }


def summed_up(compared: Sequence[Compared]) -> list[Summed]:
    rows = []
    for fitted in (False, True):
        kept = [one for one in compared if one.calibrated is fitted]
        for quantity in dict.fromkeys(one.quantity for one in kept):
            of = [one for one in kept if one.quantity == quantity]
            there = [one for one in of if one.predicted is not None and one.verdict != VOID]
            distances = [one.distance for one in there if one.distance is not None]
            rows.append(
                Summed(
                    quantity,
                    fitted,
                    len(there),
                    sum(one.verdict == MET for one in there),
                    sum(one.verdict == BLOCKED for one in of),
                    sum(one.verdict == VOID for one in of),
                    sum(
                        one.predicted is not None
                        and abs(one.predicted.mean - one.measured) <= 0.15 * one.measured
                        for one in there
                    ),
                    statistics.median(distances) if distances else None,
                )
            )
    return rows


def as_table(lab: Lab, compared: Sequence[Compared]) -> Table:
    from rich.table import Table

    table = Table(title=lab.title, box=None, padding=(0, 2, 0, 0))
    for name in ("Quantity", "Cells are", "Within", "Met", "Within 15 %", "Median |ln|", "BLOCKED", "VOID"):
        table.add_column(name, no_wrap=True)
    for row in summed_up(compared):
        met = f"{row.met} of {row.predicted}" if row.quantity.tolerance else "not judged"
        table.add_row(
            row.quantity.name,
            "calibrated" if row.calibrated else "predicted",
            row.quantity.tolerance,
            met,
            f"{row.within_15} of {row.predicted}",
            "" if row.median is None else f"{row.median:.3f}",
            str(row.blocked or ""),
            str(row.void or ""),
        )
    return table


def predict(
    lab: Lab,
    cells: Sequence[Cell],
    source: bytes,
    place: str,
    out: str | Path | OutFolder,
    *,
    quick: bool = False,
    seeds: Sequence[int] | None = None,
    jobs: int = 1,
    progress: OnShare | None = None,
) -> Predictions:
    """Runs the cells, each setting once a seed, `jobs` at a time, and writes predictions.csv, predictions.json
    and, where something was measured, comparison.csv into `out`. `source` is the table as it was read,
    from `place`.

    Raises:
        InputError: `out` cannot be used, or a cell asks for what no scenario may have; nothing was run then.
        OSError, RunFailed: a run has no result; nothing is written.
    """
    seeds = tuple(seeds or ((1,) if quick else lab.seeds))
    plans = [lab.express(cell.values) for cell in cells]
    runs = _runs(cells, plans, quick)
    _check(place, runs)
    done = Predictions(lab, seeds, quick, [], hashlib.sha256(source).hexdigest())
    with claimed(out) as folder:
        figures = _carry_out(place, runs, seeds, jobs, progress, done)
        for cell, plan in zip(cells, plans, strict=True):
            if isinstance(plan, Blocked):
                done.outcomes.append(Outcome(cell, why=plan.why))
                continue
            found = figures.get(_identity(plan, cell), [])
            names = {name for one in found for name in one}
            known = {one.name for one in lab.quantities} - set(plan.blocked)
            predicted = {
                name: _over_seeds([one[name] for one in found if name in one]) for name in names & known
            }
            done.outcomes.append(Outcome(cell, blocked=plan.blocked, predicted=predicted))
        if not done.interrupted:
            _write(folder.path, done)
    return done


def planned(lab: Lab, cells: Sequence[Cell], quick: bool, seeds: Sequence[int] | None = None) -> int:
    """How many runs the cells take."""
    plans = [lab.express(cell.values) for cell in cells]
    return len(_runs(cells, plans, quick)) * len(seeds or ((1,) if quick else lab.seeds))


@dataclass(frozen=True)
class _Run:
    title: str
    scenario: Mapping[str, Any]
    files: Mapping[str, str]
    measure: Callable[[Any, Mapping[str, Any]], dict[str, float]]
    values: Mapping[str, Any]
    line: int

    def told(self, place: str, error: InputError) -> list[Problem]:
        """The problems of its scenario, by the line of the cell that it was made of."""
        return [
            Problem(f"{place}:{self.line}", (), f"the cell's scenario cannot be: {problem}")
            for problem in error.problems
        ]


def _identity(plan: Plan, cell: Cell) -> str:
    """Cells that are the same run, whatever they are called."""
    asked = [plan.scenario, plan.duration_s, plan.files, repr(plan.measure)]
    return json.dumps(asked, sort_keys=True, default=str)


def _runs(cells: Sequence[Cell], plans: Sequence[Plan | Blocked], quick: bool) -> dict[str, _Run]:
    runs: dict[str, _Run] = {}
    for cell, plan in zip(cells, plans, strict=True):
        if isinstance(plan, Blocked):
            continue
        duration = plan.duration_s * (QUICK if quick and not plan.whole else 1.0)
        more = {**plan.scenario.get("run", {}), "duration": f"{duration * 1e6:.0f}us"}
        scenario = {**plan.scenario, "run": more}
        run = _Run(cell.name, scenario, plan.files, plan.measure, cell.values, cell.line)
        runs.setdefault(_identity(plan, cell), run)
    return runs


def _check(place: str, runs: Mapping[str, _Run]) -> None:
    """InputError with whatever the cells ask for that no scenario may have."""
    problems = []
    for one in runs.values():
        try:
            if not one.files:  # those are read when they are there
                load(one.scenario)
        except InputError as error:
            problems += one.told(place, error)
    if problems:
        raise InputError(problems)


def _carry_out(
    place: str,
    runs: Mapping[str, _Run],
    seeds: Sequence[int],
    jobs: int,
    progress: OnShare | None,
    done: Predictions,
) -> dict[str, list[dict[str, float]]]:
    numbered = list(runs.values())
    calls = [
        ((number, seed), (_one, number, one, seed)) for number, one in enumerate(numbered) for seed in seeds
    ]

    def title(place: tuple[int, int]) -> str:
        return f"{numbered[place[0]].title}, seed {place[1]}"

    def share(place: tuple[int, int], share: float) -> None:
        if progress is not None:
            progress(title(place), share)

    ended: dict[tuple[int, int], dict[str, float]] = {}
    with Driver(jobs=jobs, finishes=True, is_cut_short=lambda found: found is None, share=share) as driver:
        for at, future in driver.futures(calls):
            try:
                found = result_of(title(at), future)
            except InputError as error:
                raise InputError(numbered[at[0]].told(place, error)) from None
            if found is not None:
                ended[at] = found
    done.interrupted = len(ended) < len(calls)
    # In the order of the seeds, not that in which they ended.
    return {
        key: [ended[number, seed] for seed in seeds if (number, seed) in ended]
        for number, key in enumerate(runs)
    }


def _one(number: int, asked: _Run, seed: int) -> dict[str, float] | None:
    """A task: the figures of a run, None where it was ended before its end."""
    duration = asked.scenario["run"]["duration"]
    step = reporting((number, seed), float(duration.removesuffix("us")) * 1e6)
    try:
        report_progress(((number, seed), 0.0))
        if asked.files:
            with tempfile.TemporaryDirectory() as folder:
                for name, text in asked.files.items():
                    (Path(folder) / name).write_text(text)
                file = Path(folder) / "scenario.yaml"
                file.write_text(yaml.safe_dump(dict(asked.scenario)))
                result = run(file, seed=seed, progress=step)
        else:
            result = run(asked.scenario, seed=seed, progress=step)
    except KeyboardInterrupt:
        return None
    found = asked.measure(result, asked.values)
    return {name: float(value) for name, value in found.items() if math.isfinite(value)}


def _over_seeds(values: Sequence[float]) -> Predicted:
    return Predicted(statistics.fmean(values), max(values) - min(values))


def _written(value: Any) -> str:
    return "" if value is None else str(value)


def _write(folder: Path, done: Predictions) -> None:
    """predictions.json comes last: a folder without it was not done to its end."""
    replace_file(folder / "predictions.csv", done.csv())
    compared = done.compared()
    if compared:
        replace_file(folder / "comparison.csv", comparison_csv(compared))
    text = json.dumps(done.as_json(), indent=1, sort_keys=True, allow_nan=False) + "\n"
    replace_file(folder / "predictions.json", text.encode())


def comparison_csv(compared: Sequence[Compared]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        [
            "cell",
            "line",
            "quantity",
            "measured",
            "predicted",
            "spread",
            "ratio",
            "within",
            "verdict",
            "cells_are",
            "why",
        ]
    )
    for one in compared:
        predicted = one.predicted
        ratio = "" if predicted is None or not one.measured else f"{predicted.mean / one.measured:.4g}"
        figures = ["", ""] if predicted is None else [f"{predicted.mean:.6g}", f"{predicted.spread:.3g}"]
        kind = "calibrated" if one.calibrated else "predicted"
        writer.writerow(
            [
                one.cell,
                one.line,
                one.quantity.name,
                f"{one.measured:g}",
                *figures,
                ratio,
                one.quantity.tolerance,
                one.verdict,
                kind,
                one.why,
            ]
        )
    return text.getvalue().encode()
