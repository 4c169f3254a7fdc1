"""The driver of every study: it claims the folder, hands runs to an executor, and keeps in a journal what they gave.

Strategies say which runs there are and take their outcomes as these end: the points of a grid or a sample, what
a search proposes, the rounds of a fit, seeds, published claims, the cells of a measured lab, changes that
`explain` tries. Whatever becomes of a run, the others go on, unless the strategy ends them.

There are two ways to end at Ctrl-C or SIGTERM. By default KeyboardInterrupt goes to the strategy, and what is under
way is killed: it leaves nothing, and a journal has what was complete. With `finishes`, runs under way end with what
they have, and nothing waiting is begun.
"""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, Executor, Future
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

from tailback import interrupts
from tailback.errors import InputError
from tailback.executors import Processes, Threads, WorkerLost, kill
from tailback.files.out_folder import OutFolder, replace_file
from tailback.running import RunFailed, claimed
from tailback.study.journal import Journal, Row
from tailback.study.run import Task, carry_out
from tailback.study.study_file import StudyDesign

_AHEAD = 4
"""Runs that are handed over for each that is under way: an executor that has a queue is not asked to keep a
hundred thousand of them.
"""

Place = TypeVar("Place")
Gave = TypeVar("Gave")
Call = tuple[Any, ...]
"""A function of a module and its arguments, all of which can be pickled."""
OnShare = Callable[[Any, float], None]
"""Called with what a run reports of itself, as `report_progress` takes it: which it is, and the share of it that
is done, 0 to 1. From other threads.
"""


class Progress:
    """Told what happens; a base that does nothing but warn."""

    def damaged(self, line: str) -> None:
        """A line of the journal does not count; `line` says which and why."""
        warnings.warn(line, stacklevel=2)

    def share(self, run: str, share: float) -> None:
        """A run under way; from another thread."""


class Driver:
    """Carries runs out, `jobs` at a time; default: as many as there are cores.

    `executor`: where; default: in processes of this machine, with `threads` in threads of this process. It is
    shut down. `finishes`: see above. A run that gave what `is_cut_short` stops the driver, before another begins.
    """

    def __init__(
        self,
        *,
        jobs: int | None = None,
        executor: Executor | None = None,
        threads: bool = False,
        finishes: bool = False,
        is_cut_short: Callable[[Any], bool] = lambda gave: False,
        journal: Journal | None = None,
        share: OnShare = lambda run, share: None,
    ) -> None:
        self._jobs = jobs or getattr(executor, "jobs", None) or _cores()
        self._pool = executor
        self._threads = threads
        self._finishes = finishes
        self._is_cut_short = is_cut_short
        self._stopped = False
        self._journal = journal
        self._done = {} if journal is None else journal.done
        self._share = share
        self._over: SimpleQueue[Future[Any] | None] = SimpleQueue()
        """What has ended; None where the driver was stopped."""
        self._signals = ExitStack()

    def done_before(self, task: Task) -> Row | None:
        """The row of a task that the journal has, or that was carried out here."""
        row = self._done.get(task.key)
        if row is None or row["status"] != "done":
            return None
        # Another version may have had other metrics under the same name.
        return row if row["metrics"].keys() == {one.label for one in task.metrics} else None

    def rows(self, waiting: Iterable[tuple[Place, Task]]) -> Iterator[tuple[Place, Row]]:
        """The rows of tasks as they end; each is in the journal by then.

        Raises:
            OSError: a folder, or the journal, cannot be written.
        """
        tasks: dict[Place, Task] = {}

        def calls() -> Iterator[tuple[Place, Call]]:
            for place, task in waiting:
                tasks[place] = task
                yield place, (carry_out, task)

        for over in self._ended(calls()):
            rows = [(place, _row(tasks.pop(place), future)) for place, future in over]
            if self._journal is not None:
                self._journal.add(row for _, row in rows)
            self._done.update((row["key"], row) for _, row in rows)
            yield from rows

    def futures(self, waiting: Iterable[tuple[Place, Call]]) -> Iterator[tuple[Place, Future[Any]]]:
        """What calls gave, as they end; of those that were ended or never begun, since the driver was stopped, nothing.
        The share of a call that gave something is 1: it is told under the place of the call.
        """
        for over in self._ended(waiting, self._conclude):
            yield from ((place, one) for place, one in over if not self._was_stopped(one))

    def _ended(
        self,
        waiting: Iterable[tuple[Place, Call]],
        conclude: Callable[[Place, Future[Any]], None] = lambda place, future: None,
    ) -> Iterator[list[tuple[Place, Future[Any]]]]:
        """What ended meanwhile, together. `conclude` is called where it ended, before another call begins there."""
        left = iter(waiting)
        pending: dict[Future[Any], Place] = {}
        over = self._over = SimpleQueue()
        while True:
            for place, call in () if self._stopped else left:
                future = self._submit(call)
                pending[future] = place
                future.add_done_callback(partial(conclude, place))
                future.add_done_callback(over.put)
                if self._stopped or len(pending) >= self._jobs * _AHEAD:
                    break
            if not pending:
                return
            finished = [over.get()]
            while not over.empty():
                finished.append(over.get())
            if None in finished:
                self._stop_pool()
            yield [(pending.pop(future), future) for future in finished if future is not None]

    def _submit(self, call: Call) -> Future[Any]:
        if self._pool is None:
            made = Threads if self._threads else Processes
            self._pool = made(self._jobs, lambda said: self._share(*said))
        return self._pool.submit(*call)

    def stop(self) -> None:
        """Runs under way end with what they have, and no other is begun. A handler of signals may call it."""
        self._stopped = True
        self._over.put(None)  # wakes the loop: locks of the executor may be held where a signal arrives

    def _conclude(self, place: Place, future: Future[Any]) -> None:
        if future.cancelled() or future.exception() is not None:
            return
        gave = future.result()
        if self._is_cut_short(gave):
            self._stopped = True
            self._stop_pool()
        if gave is not None:
            self._share(place, 1.0)

    def _was_stopped(self, future: Future[Any]) -> bool:
        """A signal to the whole process group ends the workers, too."""
        if future.cancelled():
            return True
        error = future.exception()
        return isinstance(error, CancelledError) or (self._stopped and isinstance(error, WorkerLost))

    def _stop_pool(self) -> None:
        stop: Callable[[], None] = getattr(self._pool, "stop", lambda: None)
        stop()

    def __enter__(self) -> Driver:
        if self._finishes:
            self._signals.enter_context(interrupts.noted(self.stop))
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if self._pool is None:
            self._signals.close()
        elif self._finishes:
            with self._signals:
                if error is not None:
                    self._stop_pool()
                self._pool.shutdown(cancel_futures=error is not None)
        else:
            with interrupts.noted():
                kill(self._pool)


def result_of(run: str, future: Future[Gave]) -> Gave:
    """What a run gave.

    Raises:
        RunFailed: its process was ended; the message names it. Besides, what the run raised.
    """
    try:
        return future.result()
    except WorkerLost as error:
        raise RunFailed(f"the run {run} {error}") from None


@contextmanager
def executor_on(on: str | None, executor: Executor | None) -> Iterator[Executor | None]:
    """The Ray cluster `on`, where it is given, in place of an executor; either is shut down.

    Raises:
        InputError: there is no such cluster.
    """
    if on is not None:
        from tailback.executors.ray import RayTasks

        executor = RayTasks(on)
    try:
        yield executor
    finally:
        if executor is not None:
            kill(executor)


@contextmanager
def study_folder(
    out: str | os.PathLike[str] | OutFolder | None,
    resume: bool,
    design: StudyDesign,
    gone_if_refused: Sequence[str] = (),
) -> Iterator[Path | None]:
    """Claims `out` for a study and writes there what was asked, so that it can be resumed.

    Input that turns out wrong after the claim takes what is in `gone_if_refused` away again, but for a study that
    is resumed. What is empty then goes with the claim.

    Raises:
        InputError: `out` cannot be used.
    """
    if out is None:
        yield None
        return
    with claimed(out, resume=resume) as claim:
        folder = claim.path
        replace_file(folder / design.FILE, (design.canonical() + "\n").encode())
        try:
            yield folder
        except InputError:
            for name in () if resume else gone_if_refused:
                if (folder / name).is_dir():
                    shutil.rmtree(folder / name, ignore_errors=True)
                else:
                    (folder / name).unlink(missing_ok=True)
            raise


@contextmanager
def journalled(
    folder: Path | None, jobs: int | None, executor: Executor | None, progress: Progress
) -> Iterator[Driver]:
    """A driver that keeps its rows in the journal of a folder, if there is one."""
    with nullcontext() if folder is None else Journal(folder) as journal:
        for line in () if journal is None else journal.damaged:
            progress.damaged(line)
        with Driver(jobs=jobs, executor=executor, journal=journal, share=progress.share) as driver:
            yield driver


def _row(task: Task, future: Future[Any]) -> Row:
    """What is written of a run.

    Raises:
        OSError: its folder cannot be written; the others' could not either.
    """
    row: Row = {"key": task.key, "status": "failed"}
    try:
        done = future.result()
    except OSError as error:
        if task.folder is not None:
            raise
        return {**row, "message": str(error)}
    except MemoryError:
        return {**row, "message": "out of memory"}
    except WorkerLost as error:
        return {**row, "message": f"the run {error}"}
    except Exception as error:
        words = " ".join(str(error).split()) or type(error).__name__
        return {**row, "message": words}
    return {**row, "status": "done", **done._asdict()}


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
