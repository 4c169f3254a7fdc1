"""Published experiments: runs them, and says of each claim whether it was met.

Ctrl-C, or a run that was cut short, ends those under way; what waits is not begun. Claims are judged on what there is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from tailback import library
from tailback.executors import report_progress
from tailback.executors.calls import Call, OnShare
from tailback.files.out_folder import OutFolder, replace_file
from tailback.recorded.run import Recorded
from tailback.report.reproduction import render_front, render_reproduction
from tailback.results import Result
from tailback.running import Interrupted, claimed, run
from tailback.scenario import load
from tailback.study.driver import Driver, executor_on, result_of
from tailback.study.published import Check, Claim, Experiment, Sensitivity, load_published
from tailback.study.reproduction import AllReproductions, Measured, Reproduction, Row, Spread, Variant

ALL_EXPERIMENTS = "all"
"""Stands for every experiment where a name is expected."""

Runner = Callable[[str, Mapping[str, str], Callable[[float], None]], Result]
"""Runs a scenario with overrides (`setting` -> text) and gives its result; is handed a place to report its
progress. That raises KeyboardInterrupt when the run is to end.
"""
Key = tuple[str, tuple[tuple[str, str], ...]]
"""A scenario with its overrides."""
CheckName = tuple[str | int, int]
"""Of a claim or a sensitivity table, and the number of a check in it."""


def names(name: str) -> list[str]:
    return list(library.published()) if name == ALL_EXPERIMENTS else [name]


def planned_runs(name: str, quick: bool = False, only: Sequence[str] = ()) -> int:
    """How many runs an experiment, or some of its claims, will take.

    Raises:
        InputError: there is no experiment or claim of that name.
    """
    experiment = _part_of(name, only)
    return len(experiment.runs) + len(extra_runs(experiment, quick))


def reproduce(
    name: str,
    out: str | Path | OutFolder | None = None,
    strict: bool = False,
    quick: bool = False,
    only: Sequence[str] = (),
    jobs: int = 1,
    progress: OnShare | None = None,
    runner: Runner | None = None,
    on: str | None = None,
) -> Reproduction:
    """Run a published experiment, `jobs` runs at a time; or `on` a Ray cluster, as `tailback.sweep`.

    `out`: a folder, new or empty, for reproduce.html, reproduce.json and one folder a run (under runs/); None
    writes nothing. `quick` runs each scenario for a fraction of its time: the verdicts are then only a first
    look, and say so. `only` names the claims to check, by their ids; nothing else is run. `progress` is told
    what is running. `runner` runs in threads of this process: it may know more than can be sent to another.
    InputError when there is no experiment or claim of that name, or `out` cannot be used; nothing was run then.
    OSError when it cannot be written; runs that are complete are there then, and reproduce.json, which comes last,
    is not.
    """
    experiment = _part_of(name, only)
    ids = [claim.id for claim in experiment.claims] if only else []
    with nullcontext() if out is None else claimed(out) as folder:
        path = None if folder is None else folder.path
        done = Reproduction(name, experiment, quick, strict, ids, folder=path)
        _carry_out({"": done}, runner, progress, jobs, on)
    return done


def reproduce_all(
    out: str | Path | OutFolder,
    strict: bool = False,
    quick: bool = False,
    jobs: int = 1,
    progress: OnShare | None = None,
    runner: Runner | None = None,
    on: str | None = None,
) -> AllReproductions:
    """Runs every published experiment as `reproduce` does.

    `out`: a folder, new or empty, for the front page reproduce.html, reproduce.json, and a folder for each
    experiment with its own page. InputError when it cannot be used; nothing was run then.
    """
    with claimed(out) as folder:
        every = {
            f"{name}: ": Reproduction(name, load_published(name), quick, strict, folder=folder.path / name)
            for name in names(ALL_EXPERIMENTS)
        }
        _carry_out(every, runner, progress, jobs, on)
        done = AllReproductions(quick, list(every.values()))
        _write_pages(folder.path, render_front(done), done.as_json())
    return done


def _part_of(name: str, only: Sequence[str]) -> Experiment:
    experiment = load_published(name)
    return experiment.only(only) if only else experiment


@dataclass
class ExtraRun:
    """A run that no claim names, for an end of a spread or a variant of a sensitivity table, and what is checked on
    it.
    """

    title: str
    sets: dict[str, str]
    checks: dict[CheckName, Check] = field(default_factory=dict)

    def measure(self, result: Recorded) -> dict[CheckName, float]:
        return {name: check.on(result) for name, check in self.checks.items()}


def extra_runs(experiment: Experiment, quick: bool) -> dict[Key, ExtraRun]:
    """Each once. A quick reproduction has none: it is a first look, and most of what is varied would not even have
    begun.
    """
    found: dict[Key, ExtraRun] = {}
    known = _claimed_runs(experiment)

    def want(title: str, run: str, sets: Mapping[str, str], name: CheckName, check: Check) -> None:
        key = _key(experiment, run, sets)
        if not quick and key not in known:
            whole = {**experiment.runs[run].overrides(False), **sets}
            found.setdefault(key, ExtraRun(title, whole)).checks[name] = check

    for one, claim in experiment.carried():
        for value in one.between:
            for number, check in enumerate(claim.checks):
                for name in check.runs(claim.run):
                    title = f"{name}, {one.path} {value}"
                    want(title, name, one.at(value, name), (claim.id, number), check)
    for table, item in enumerate(experiment.sensitivity):
        for value in item.varied:
            for number, check in enumerate(item.show):
                # Two tables may vary the same setting of a run, with others set differently.
                title = f"{item.run}, table {table + 1}, {item.of(value)}"
                want(title, item.run, _sets_of_variant(item, value), (table, number), check)
    return found


def _key(experiment: Experiment, name: str, sets: Mapping[str, str]) -> Key:
    one = experiment.runs[name]
    return one.scenario, tuple(sorted({**one.overrides(False), **sets}.items()))


def _sets_of_variant(item: Sensitivity, value: str) -> dict[str, str]:
    """The variant that is assumed is the run itself, however long that is."""
    if value == item.assumed:
        return {}
    return {**item.set, **item.varied[value], "run.duration": item.duration}


def _claimed_runs(experiment: Experiment) -> dict[Key, str]:
    return {_key(experiment, name, {}): name for name in experiment.runs}


def _carry_out(
    every: Mapping[str, Reproduction],
    runner: Runner | None,
    progress: OnShare | None,
    jobs: int,
    on: str | None,
) -> None:
    """Runs experiments, and judges and writes each as soon as its runs have ended; they have labels, which come
    before the names under which runs report their progress.
    """
    calls: list[tuple[str, Call]] = []
    asked: dict[str, tuple[str, str | Key]] = {}
    left = dict.fromkeys(every, 0)
    extra: dict[str, dict[Key, dict[CheckName, float]]] = {label: {} for label in every}

    def add(
        label: str,
        what: str | Key,
        title: str,
        scenario: str,
        sets: dict[str, str],
        keep: Callable[[Result], Any],
    ) -> None:
        title = label + title
        calls.append((title, (_run, runner or engine, title, scenario, sets, keep)))
        asked[title] = label, what
        left[label] += 1

    for label, done in every.items():
        for name, one in done.experiment.runs.items():
            # From a cluster results come back, and are written here.
            folder = None if done.folder is None or on is not None else done.folder / "runs" / name
            add(label, name, name, one.scenario, one.overrides(done.quick), partial(_kept, folder))
        for key, wanted in extra_runs(done.experiment, done.quick).items():
            add(label, key, wanted.title, key[0], wanted.sets, wanted.measure)
    with (
        executor_on(on, None) as executor,
        Driver(
            jobs=jobs,
            executor=executor,
            threads=runner is not None,
            finishes=True,
            is_cut_short=lambda gave: gave is None or not gave[1],
            share=progress or (lambda what, share: None),
        ) as driver,
    ):
        for title, future in driver.futures(calls):
            label, what = asked[title]
            done, gave = every[label], result_of(title, future)
            if gave is not None:
                if not isinstance(what, str):
                    extra[label] |= {what: gave[0]} if gave[1] else {}
                else:
                    done.results[what] = gave[0]
                    if done.folder is not None and on is not None:
                        gave[0].write(done.folder / "runs" / what)
            left[label] -= 1
            if not left[label]:
                _conclude(done, extra[label])
    for label, done in every.items():
        if left[label]:
            _conclude(done, extra[label])


def engine(scenario: str, sets: Mapping[str, str], progress: Callable[[float], None]) -> Result:
    """The runner that is none but Tailback's own."""
    checked = load(scenario, sets=[f"{setting}={value}" for setting, value in sets.items()])
    return run(checked, progress=lambda state: progress(min(1.0, state.time_ps / checked.run.duration)))


def _run(
    runner: Runner, title: str, scenario: str, sets: Mapping[str, str], keep: Callable[[Result], Any]
) -> tuple[Any, bool] | None:
    """A task: what is kept of its result, and whether that is complete; None when the run was ended before it had
    one.
    """
    try:
        report_progress((title, 0.0))
        result = runner(scenario, sets, lambda share: report_progress((title, share)))
    except Interrupted as interrupted:
        result = interrupted.result
    except KeyboardInterrupt:
        return None
    return keep(result), result.complete


def _kept(folder: Path | None, result: Result) -> Result:
    if folder is not None:
        result.write(folder)
    return result


def _conclude(done: Reproduction, extra: Mapping[Key, Mapping[CheckName, float]]) -> None:
    """Judges the claims, and writes the report where there is a folder."""
    experiment, claimed_runs = done.experiment, _claimed_runs(done.experiment)
    # In the order of the experiment, not that in which they ended.
    done.results = {name: done.results[name] for name in experiment.runs if name in done.results}
    done.interrupted = len(extra) < len(extra_runs(experiment, done.quick)) or any(
        name not in done.results or not done.results[name].complete for name in experiment.runs
    )

    def value(key: Key, name: CheckName, check: Check) -> float | None:
        """None where the run did not come to its end."""
        if key in claimed_runs:
            result = done.results.get(claimed_runs[key])
            return check.on(result) if result is not None and result.complete else None
        return extra[key][name] if key in extra else None

    spreads: dict[str, list[Spread]] = {}
    for one, claim in [] if done.quick else experiment.carried():
        ends = []
        for at in one.between:
            end = []
            for number, check in enumerate(claim.checks):
                keys = [_key(experiment, name, one.at(at, name)) for name in check.runs(claim.run)]
                values = [value(key, (claim.id, number), check) for key in keys]
                known = [part for part in values if part is not None]
                end += [Measured(check, check.relative(known))] if len(known) == len(values) else []
            ends.append(end)
        if all(len(end) == len(claim.checks) for end in ends):
            spreads.setdefault(claim.id, []).append(Spread(one, ends))
    done.rows = [
        judge(claim, done.results, done.quick, spreads.get(claim.id, [])) for claim in experiment.claims
    ]
    for table, item in enumerate([] if done.quick else experiment.sensitivity):
        variants = []
        for at in item.varied:
            key = _key(experiment, item.run, _sets_of_variant(item, at))
            shown = [value(key, (table, number), check) for number, check in enumerate(item.show)]
            measured = [
                Measured(check, got) for check, got in zip(item.show, shown, strict=True) if got is not None
            ]
            if len(measured) == len(shown):
                variants.append(Variant(at, at == item.assumed, measured))
        if len(variants) == len(item.varied):
            done.sensitivity.append((item, variants))
    if done.folder is not None:
        done.folder.mkdir(parents=True, exist_ok=True)  # not there yet if no run of it was begun
        _write_pages(done.folder, render_reproduction(done), done.as_json())


def judge(claim: Claim, results: Mapping[str, Recorded], quick: bool, spread: Sequence[Spread] = ()) -> Row:
    """Metric a claim. What cannot be measured counts as missed, but in a quick run as too short to say. What
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


def _write_pages(folder: Path, page: str, figures: Mapping[str, Any]) -> None:
    """Writes reproduce.html, and then reproduce.json: a folder without that was not done to its end."""
    replace_file(folder / "reproduce.html", page.encode())
    text = json.dumps(figures, indent=1, sort_keys=True, allow_nan=False) + "\n"
    replace_file(folder / "reproduce.json", text.encode())
