"""Code that all executors share: progress of tasks, lost workers, and executors that belong to somebody else."""

from __future__ import annotations

import signal
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextvars import ContextVar
from typing import Any, TypeVar

Returned = TypeVar("Returned")

OnProgress = Callable[[Any], None]
"""Called with what a task reports, from another thread than the one that submitted the task."""

progress_callback: ContextVar[OnProgress] = ContextVar("progress_callback", default=lambda progress: None)
"""Set by an executor in the thread of the task."""


def report_progress(progress: Any) -> None:
    """Sends something that can be pickled from the running task to the owner of the executor. It does nothing
    in an executor that is not Tailback's.

    Raises:
        KeyboardInterrupt: the task is to end with what it has.
    """
    progress_callback.get()(progress)


class WorkerLost(RuntimeError):  # noqa: N818  it is what happened
    """The process that carried out a task ended before the task did; the text says how."""

    @classmethod
    def by(cls, status: int) -> WorkerLost:
        """From an exit status as `subprocess` gives it: negative for a signal."""
        how = f"by signal {-status}" if status < 0 else f"with status {status}"
        if status == -signal.SIGKILL:
            how += ", which is also how Linux ends a process when memory runs out"
        return cls(f"was ended {how}")


class BorrowedExecutor(Executor):
    """Submits to another executor, which stays open when this one is shut down or killed."""

    def __init__(self, owned: Executor) -> None:
        self._owned = owned
        self.jobs: int | None = getattr(owned, "jobs", None)

    def submit(
        self, task: Callable[..., Returned], /, *arguments: object, **more: object
    ) -> Future[Returned]:
        return self._owned.submit(task, *arguments, **more)

    def kill(self) -> None:
        pass

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        pass


def kill(executor: Executor) -> None:
    """Ends an executor at once, with its running tasks where it can."""
    method: Callable[[], None] | None = getattr(executor, "kill", None)
    if method is not None:
        method()
    else:
        executor.shutdown(wait=False, cancel_futures=True)
