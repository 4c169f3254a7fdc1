"""`reproduce`: run a published experiment and say of each claim whether it was met."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from tailback.files.out_folder import OutFolder, replace_file
from tailback.recorded.run import Recorded
from tailback.report.reproduction import render_reproduction
from tailback.reproduce.experiments import Claim, Experiment, Sensitivity, load_published
from tailback.reproduce.outcome import Measured, Reproduction, Row, Spread, Variant
from tailback.reproduce.runs import Progress, Runner, Runs
from tailback.reproduce.spread import ends, spreads_of
from tailback.results import Result
from tailback.running import claimed


def reproduce(
    name: str,
    out: str | Path | OutFolder | None = None,
    strict: bool = False,
    quick: bool = False,
    only: Sequence[str] = (),
    jobs: int = 1,
    progress: Progress | None = None,
    runner: Runner | None = None,
    on: str | None = None,
) -> Reproduction:
    """Run a published experiment, `jobs` runs at a time; or `on` a Ray cluster, as `tailback.sweep`.

    `out`: a folder, new or empty, for reproduce.html, reproduce.json and one folder a run (under runs/); None
    writes nothing. `quick` runs each scenario for a fraction of its time: the verdicts are then only a first
    look, and say so. `only` names the claims to check, by their ids; nothing else is run. InputError when
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
        with Runs(runner, progress, jobs, on) as runs:
            return Begun(done, runs).finish()


class Begun:
    """An experiment whose runs are under way, or wait for their turn."""

    def __init__(self, done: Reproduction, runs: Runs, label: str = "") -> None:
        """Starts them; `label` comes before the names under which they report their progress."""
        self._done = done
        self._on_cluster = runs.on_cluster
        self._runs = {}
        for key, plan in done.experiment.runs.items():
            folder = None if done.folder is None else done.folder / "runs" / key
            # From a cluster results come back, and are written here.
            keep = partial(_kept, None if runs.on_cluster else folder)
            self._runs[key] = runs.start(label + key, plan.scenario, plan.overrides(done.quick), keep)
        self._ends = [
            (end, runs.start(label + end.title, end.key[0], dict(end.key[1]), end.measure))
            for end in ends(done)
        ]
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
                if done.folder is not None and self._on_cluster:
                    result.write(done.folder / "runs" / key)
            done.interrupted |= result is None or not result.complete
        spreads = spreads_of(done, [(end, waiting.wait()) for end, waiting in self._ends])
        done.rows = [
            judge(claim, done.results, done.quick, spreads.get(claim.id, []))
            for claim in done.experiment.claims
        ]
        if not done.quick:
            self._tables()
        if done.folder is not None:
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
        InputError: there is no experiment or claim of that name.
    """
    experiment = load_published(name)
    if only:
        experiment = experiment.only(only)
    done = Reproduction(name, experiment, quick, False)
    return len(experiment.runs) + len(_variants(done)) + len(ends(done))


def judge(claim: Claim, results: Mapping[str, Recorded], quick: bool, spread: Sequence[Spread] = ()) -> Row:
    """Measure a claim. What cannot be measured counts as missed, but in a quick run as too short to say. What
    is met with a calibrated constant, and with neither end of its spread, is missed.
    """
    if any(run not in results or not results[run].complete for run in claim.runs):
        return Row(claim, [], "not run", quick)
    measured = [Measured(check, check.value(results, claim.run)) for check in claim.checks]
    verdicts = [one.holds for one in measured]
    if all(verdicts):
        met = Row(claim, measured, "met", quick, list(spread))
        return replace(met, verdict="missed") if met.on_a_knifes_edge else met
    if quick and False not in verdicts:
        return Row(claim, measured, "too short", quick)
    return Row(claim, measured, "missed", quick, list(spread))


@dataclass
class _Varied:
    """A run that only sensitivity tables need, and its entries in them: number of the table, and variant."""

    title: str
    scenario: str
    sets: dict[str, str]
    entries: dict[tuple[int, str], Sensitivity]

    def measure(self, result: Recorded) -> dict[tuple[int, str], list[Measured] | None]:
        """Measured values of each entry."""
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


def _measure(item: Sensitivity, result: Recorded) -> list[Measured] | None:
    if not result.complete:
        return None
    return [Measured(check, check.value({item.run: result}, item.run)) for check in item.show]


def _kept(folder: Path | None, result: Result) -> Result:
    if folder is not None:
        result.write(folder)
    return result
