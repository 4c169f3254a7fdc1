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
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

from tailback.errors import InputError
from tailback.executors import WorkerLost, kill
from tailback.executors.calls import Call, Calls, Place
from tailback.files.out_folder import OutFolder, replace_file
from tailback.running import RunFailed, claimed
from tailback.study.journal import Journal, Row
from tailback.study.run import Task, carry_out
from tailback.study.study_file import StudyDesign

Gave = TypeVar("Gave")


class Progress:
    """Told what happens; a base that does nothing but warn."""

    def damaged(self, line: str) -> None:
        """A line of the journal does not count; `line` says which and why."""
        warnings.warn(line, stacklevel=2)

    def share(self, run: str, share: float) -> None:
        """A run under way; from another thread."""


class Driver(Calls):
    """Carries tasks out, with a journal of what they gave."""

    def __init__(self, *, journal: Journal | None = None, **how: Any) -> None:
        """`how`: as `Calls` takes it."""
        super().__init__(**how)
        self._journal = journal
        self._done = {} if journal is None else journal.done

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
