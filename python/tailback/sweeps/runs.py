"""Many runs on one executor, whatever becomes of any of them; a journal has what is done."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from types import TracebackType
from typing import Generic, TypeVar

from tailback import interrupts
from tailback.executors import Processes, WorkerLost, kill
from tailback.sweeps.journal import Journal, Row
from tailback.sweeps.task import Done, Task, carry_out

_AHEAD = 4
"""Tasks that are handed over for each that is under way: an executor that has a queue is not asked to keep a
hundred thousand of them.
"""

Place = TypeVar("Place")


class Runs(Generic[Place]):
    """Carries tasks out. Each has a place, by which its row is known."""

    def __init__(
        self,
        executor: Executor | None,
        jobs: int | None,
        journal: Journal | None,
        share: Callable[[str, float], None],
    ) -> None:
        """`executor`: default, processes of this machine; `jobs` runs at a time, default a core each; `share`
        is told how far a run is, by its key, from another thread.
        """
        self._jobs = jobs or getattr(executor, "jobs", None) or _cores()
        self._journal = journal
        self._done = {} if journal is None else journal.done
        self._pool = executor
        self._share = share

    def done_before(self, task: Task) -> Row | None:
        """The row of a task that the journal has, or that was carried out here."""
        row = self._done.get(task.key)
        if row is None or row["status"] != "done":
            return None
        # Another version may have had other measures under the same name.
        return row if row["measures"].keys() == {one.label for one in task.measures} else None

    def carry_out(self, waiting: Iterable[tuple[Place, Task]]) -> Iterator[tuple[Place, Row]]:
        """The rows of runs as they end; each is in the journal by then.

        Raises:
            OSError: a folder, or the journal, cannot be written.
        """
        left = iter(waiting)
        pending: dict[Future[Done], tuple[Place, Task]] = {}
        ended: SimpleQueue[Future[Done]] = SimpleQueue()
        while True:
            for place, task in left:
                if self._pool is None:
                    self._pool = Processes(self._jobs, lambda said: self._share(*said))
                future = self._pool.submit(carry_out, task)
                pending[future] = (place, task)
                future.add_done_callback(ended.put)
                if len(pending) >= self._jobs * _AHEAD:
                    break
            if not pending:
                return
            finished = [ended.get()]
            while not ended.empty():  # what ended meanwhile goes to the disk at once
                finished.append(ended.get())
            over = [(pending.pop(future), future) for future in finished]
            rows = [(place, _row(task, future)) for (place, task), future in over]
            if self._journal is not None:
                self._journal.add(row for _, row in rows)
            self._done.update((row["key"], row) for _, row in rows)
            yield from rows

    def __enter__(self) -> Runs[Place]:
        """Nothing else."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends whatever is under way, if anything is."""
        if self._pool is None:
            return
        with interrupts.noted():
            kill(self._pool)


def _row(task: Task, future: Future[Done]) -> Row:
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
