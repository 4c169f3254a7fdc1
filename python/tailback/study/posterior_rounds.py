"""Fits: settings that a lab does not tell, inferred from what it measured. Runs take two rounds, of which the second
is drawn where the first has the posterior; then the best fit is run.
"""

from __future__ import annotations

import importlib.util
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from tailback import interrupts
from tailback.errors import InputError
from tailback.executors import BorrowedExecutor
from tailback.files.out_folder import OutFolder
from tailback.recorded.bins import Array
from tailback.study.driver import executor_on, study_folder
from tailback.study.emulator import Emulated, emulate
from tailback.study.fit_design import Fit, Measured, Output, read_fit
from tailback.study.fit_result import FitResult
from tailback.study.grid import SweepProgress, sweep
from tailback.study.inference import infer, with_runs
from tailback.study.points import Point, Sample
from tailback.study.posterior import log_likelihood, posterior
from tailback.study.sweep_design import Design
from tailback.study.sweep_result import SweepResult


class FitInterrupted(KeyboardInterrupt):
    """Ctrl-C before all runs had ended. What is complete is in the folder, and need not be run again."""


def fit(
    measured: Measured | Fit | None = None,
    scenario: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    *,
    free: Mapping[str, Any] | None = None,
    out: str | os.PathLike[str] | OutFolder | None = None,
    resume: bool = False,
    jobs: int | None = None,
    executor: Executor | None = None,
    on: str | None = None,
    progress: SweepProgress | None = None,
    **more: Any,
) -> FitResult:
    """Infers settings from what a lab has measured, and predicts what it has held out.

    Args:
        measured: A file of observations, YAML or CSV, or a list of them; or the file of a whole fit, or plain
            data in the same form.
        scenario: The lab; in place of that of the file.
        free: The settings that are not known, each with the range of its prior: `1us..20us:log`, or
            `{"low": "1us", "high": "20us", "scale": "log", "means": "the PCIe latency"}`; or with the values
            that it may have: `true,false`, or `{"values": [True, False], "means": "the law of the cut"}`.
        out: A folder, new or empty, for journals, tables and page; None keeps all in memory.
        resume: `out` is that of a fit that was ended early: what is done there is not run again. Without
            `measured` it is the fit that was begun there.
        jobs: Runs at a time; default: as many as there are cores.
        executor: Where the runs are carried out, as of `tailback.sweep`; it is shut down.
        on: `ray`, the Ray cluster of this machine, or `ray://host:10001`, in place of an executor.
        progress: Told what happens.
        more: Other keys of a fit's file: `seeds`, `points`, `refine`, `set`, `candidates`.

    Raises:
        InputError: the fit, or `out`, cannot be used, or too few runs gave a value of what was observed.
        FitInterrupted: Ctrl-C, a KeyboardInterrupt; `resume` goes on from there.
        OSError: `out` could not be written; the journals have what was complete.
    """
    asked = (
        measured
        if isinstance(measured, Fit)
        else _asked(measured, scenario, free, out if resume else None, more)
    )
    if importlib.util.find_spec("sklearn") is None:
        text = "found no scikit-learn, expected it: pip install 'tailback[fit]'"
        raise InputError.at("fit", text)
    with (
        _interrupts(),
        executor_on(on, executor) as executor,
        study_folder(out, resume, asked) as folder,
    ):
        lent = None if executor is None else BorrowedExecutor(executor)  # for all rounds
        rounds: dict[str, SweepResult] = {}

        def run(name: str, design: Mapping[str, Any]) -> None:
            place = None if folder is None else folder / name
            rounds[name] = _run(asked, design, place, jobs, lent, progress)

        run("round-1", _first(asked))
        only_lists = asked.axes.only_lists  # round 1 has every point that there is
        if asked.second and not only_lists:
            fitted = [one for one in asked.observed if not one.held_out]
            emulated = _emulated(asked, rounds, [one.output for one in fitted])
            found = posterior(log_likelihood(emulated, fitted), asked.axes)
            run("round-2", _at(asked, found.drawn(asked.second)))
        outputs = [Output(index, one) for index in range(len(asked.conditions)) for one in asked.metrics]
        found_all = infer(asked, _emulated(asked, rounds, outputs))
        if not only_lists:
            run("best-fit", _at(asked, np.array([[one.best for one in found_all.unknowns]])))
            found_all = with_runs(found_all, _means(asked, rounds["best-fit"]))
        result = FitResult(asked, found_all, rounds)
        if folder is not None:
            with interrupts.noted():
                result.write(folder)
    return result


def _asked(
    measured: Measured | None,
    scenario: str | os.PathLike[str] | Mapping[str, Any] | None,
    free: Mapping[str, Any] | None,
    resumed: str | os.PathLike[str] | OutFolder | None,
    more: Mapping[str, Any],
) -> Fit:
    fields = dict(more)
    if scenario is not None:
        fields["scenario"] = dict(scenario) if isinstance(scenario, Mapping) else os.fspath(scenario)
    if free is not None:
        fields["free"] = dict(free)
    if measured is None:
        if resumed is None or isinstance(resumed, OutFolder):
            raise InputError.at("fit", "found no observations, expected a file or a list of them")
        measured = Fit.begun_in(Path(resumed))
    return read_fit(measured, fields)


def _run(
    asked: Fit,
    design: Mapping[str, Any],
    folder: Path | None,
    jobs: int | None,
    executor: Executor | None,
    progress: SweepProgress | None,
) -> SweepResult:
    """A round is a sweep: its folder has the journal, and it is resumed as one."""
    whole = Design(
        scenario=asked.scenario,
        set=asked.set,
        seeds=asked.seeds,
        metrics=[one.asked for one in asked.metrics],
        **design,
    )
    result = sweep(
        whole, out=folder, resume=folder is not None, jobs=jobs, executor=executor, progress=progress
    )
    if result.interrupted:
        raise FitInterrupted
    return result


@contextmanager
def _interrupts() -> Iterator[None]:
    """An interrupt between runs is one of the fit, too."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        raise FitInterrupted from interrupt


def _first(asked: Fit) -> dict[str, Any]:
    """A Latin hypercube over the priors, under each condition; or all of lists, if there is nothing else."""
    vary = {setting: free.varied for setting, free in asked.free.items()}
    sample = None if asked.axes.only_lists else Sample(points=asked.first)
    return {"vary": vary, "points": asked.conditions, "sample": sample}


def _at(asked: Fit, points: Array) -> dict[str, Any]:
    settings = [
        {setting: free.setting(share) for (setting, free), share in zip(asked.free.items(), row, strict=True)}
        for row in points.tolist()
    ]
    return {"points": [{**condition, **one} for condition in asked.conditions for one in settings]}


def _emulated(asked: Fit, rounds: Mapping[str, SweepResult], outputs: Sequence[Output]) -> Emulated:
    points: dict[tuple[str, ...], int] = {}
    found: dict[tuple[Output, int, int], float] = {}
    seeds = asked.seeds_in_order()
    for done in rounds.values():
        for point, seed, output, value in _values(asked, done):
            index = points.setdefault(tuple(point[setting] for setting in asked.free), len(points))
            if output in outputs:
                found[output, index, seeds.index(seed)] = value
    tables = {output: np.full((len(points), len(seeds)), math.nan) for output in outputs}
    for (output, row, column), value in found.items():
        tables[output][row, column] = value
    shares = [
        [free.share_of(text) for free, text in zip(asked.free.values(), texts, strict=True)]
        for texts in points
    ]
    return emulate(
        asked.axes,
        np.array(shares).reshape(-1, len(asked.free)),
        tables,
        [one.output for one in asked.observed],
    )


def _values(asked: Fit, done: SweepResult) -> list[tuple[Point, int, Output, float]]:
    """What each run gave, with the settings of its point."""
    values = []
    for row in done.rows:
        point = done.points[row["point"]]
        condition = asked.conditions.index({p: v for p, v in point.items() if p not in asked.free})
        for one in asked.metrics:
            value = row["metrics"].get(one.label)
            if value is not None:
                values.append((point, row["seed"], Output(condition, one), value))
    return values


def _means(asked: Fit, best: SweepResult) -> dict[Output, float]:
    """At the best fit, over seeds."""
    by_output: dict[Output, list[float]] = {}
    for _, _, output, value in _values(asked, best):
        by_output.setdefault(output, []).append(value)
    return {output: math.fsum(values) / len(values) for output, values in by_output.items()}
