"""An executor for a part of the work, which goes on with another part afterwards."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import TypeVar

Given = TypeVar("Given")


class Lent(Executor):
    """Another executor, whose owner shuts it down: this one's end does not."""

    def __init__(self, owned: Executor) -> None:
        """`owned` carries the tasks out."""
        self._owned = owned
        self.jobs: int | None = getattr(owned, "jobs", None)

    def submit(self, task: Callable[..., Given], /, *arguments: object, **more: object) -> Future[Given]:
        """A task to carry out."""
        return self._owned.submit(task, *arguments, **more)

    def kill(self) -> None:
        """Leaves it to the owner."""

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Leaves it to the owner."""


def end(executor: Executor) -> None:
    """Ends an executor at once, with what is under way where it can."""
    kill: Callable[[], None] | None = getattr(executor, "kill", None)
    if kill is not None:
        kill()
    else:
        executor.shutdown(wait=False, cancel_futures=True)
