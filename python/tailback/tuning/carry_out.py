"""`tailback.tune`: a search for settings, and its judgement."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from concurrent.futures import Executor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tailback import interrupts
from tailback.errors import InputError
from tailback.files.out_folder import OutFolder, replace_file
from tailback.running import claimed
from tailback.sweeps.asked import begun_in
from tailback.sweeps.journal import NAME as JOURNAL
from tailback.sweeps.journal import Journal
from tailback.sweeps.runs import Runs
from tailback.tuning.design import TuneDesign, canonical, read_tune
from tailback.tuning.judged import judge
from tailback.tuning.looks import Looks
from tailback.tuning.result import TuneResult
from tailback.tuning.trials import OPTUNA_JOURNAL_NAME, Trial, best, front, search

DESIGN = "tune.json"
_MOST_JUDGED = 6
"""Points of a front that are judged: its ends, and some between."""


class Progress:
    """Told what happens; a base that does nothing but warn."""

    def damaged(self, line: str) -> None:
        """A line of the journal does not count; `line` says which and why."""
        warnings.warn(line, stacklevel=2)

    def begun(self, design: TuneDesign) -> None:
        """The search begins."""

    def share(self, run: str, share: float) -> None:
        """A run under way; from another thread."""

    def tried(self, trial: Trial) -> None:
        """A trial has ended."""

    def judging(self, trials: int) -> None:
        """This number of trials is judged now."""


def tune(
    source: str | os.PathLike[str] | Mapping[str, Any] | TuneDesign | None = None,
    /,
    *,
    out: str | os.PathLike[str] | OutFolder | None = None,
    resume: bool = False,
    jobs: int | None = None,
    executor: Executor | None = None,
    on: str | None = None,
    progress: Progress | None = None,
    **design: Any,
) -> TuneResult:
    """Looks for the settings that serve several workloads best, and judges them on seeds and workloads that
    were not tuned on.

    The search is Optuna's (tree-structured Parzen estimator); the same design gives the same trials wherever
    and however many at a time runs are carried out. Ctrl-C keeps the trials that have ended; the result then
    is not `complete`, and is not judged.

    Args:
        source: The file of a tuning, or plain data in the same form; without it, `design` has its fields.
        out: A folder, new or empty, for the journal, the study, tables and page; None keeps all in memory.
        resume: `out` is that of a tuning that was ended early: what is done there is not run again. Without
            `source` and fields it is the tuning that was begun there.
        jobs: Runs at a time; default: as many as there are cores.
        executor: Where the runs are carried out, as of `tailback.sweep`.
        on: `ray`, the Ray cluster of this machine, or `ray://host:10001`, in place of an executor.
        progress: Told what happens.
        design: See `source`.

    Raises:
        InputError: the tuning, or `out`, cannot be used, or the scenarios as they are cannot be run.
        ImportError: Optuna is not installed: `pip install 'tailback[tune]'`.
        OSError: `out` could not be written; the journal has what was complete.
    """
    with ExitStack() as stack:
        begun = None
        if resume:
            if out is None or isinstance(out, OutFolder):
                raise InputError.at("resume", "found no folder, expected out, that of a tuning")
            begun = _begun_in(Path(out)) if source is None and not design else None
        asked = begun or (
            source if isinstance(source, TuneDesign) else read_tune(design if source is None else source)
        )
        if on is not None:
            from tailback.executors.ray import RayTasks

            executor = stack.enter_context(RayTasks(on))
        progress = progress or Progress()
        folder = journal = None
        if out is not None:
            folder = stack.enter_context(claimed(out, resume=True) if resume else claimed(out)).path
            replace_file(folder / DESIGN, (canonical(asked) + "\n").encode())
            journal = stack.enter_context(Journal(folder))
            for line in journal.damaged:
                progress.damaged(line)
        runs = stack.enter_context(Runs[str](executor, jobs, journal, progress.share))
        looks = Looks(asked, runs)
        progress.begun(asked)
        try:
            found = search(asked, looks, folder, progress.tried)
        except InputError:
            # Nothing was tried. What is empty then goes with the claim.
            if folder is not None and not resume:
                for name in (DESIGN, JOURNAL, OPTUNA_JOURNAL_NAME):
                    (folder / name).unlink(missing_ok=True)
            raise
        chosen = _chosen(asked, found.trials)
        judged, interrupted = [], found.interrupted
        if chosen and not interrupted:
            progress.judging(len(chosen))
            try:
                judged = judge(asked, looks, chosen)
            except KeyboardInterrupt:
                interrupted = True
        result = TuneResult(asked, found.trials, found.importance, judged, interrupted)
        if folder is not None:
            with interrupts.noted():
                result.write(folder)
    return result


def _chosen(design: TuneDesign, trials: list[Trial]) -> list[Trial]:
    if not design.pareto:
        one = best(design, trials)
        return [] if one is None else [one]
    every = sorted(front(trials), key=lambda one: one.costs)
    if len(every) <= _MOST_JUDGED:
        return every
    return [every[round(index * (len(every) - 1) / (_MOST_JUDGED - 1))] for index in range(_MOST_JUDGED)]


def _begun_in(out: Path) -> TuneDesign:
    return read_tune(begun_in(out, DESIGN, "the folder of a tuning"))
