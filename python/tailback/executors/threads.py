"""Tasks in threads of this process.

The engine works without the interpreter's lock, so that as many cores simulate as there are threads. What
prepares a run and what is made of its result has the lock: many short runs are faster in processes. And a
crash, or memory that runs out, ends everything.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import Any, TypeVar

from tailback.executors.telling import Told, teller

Given = TypeVar("Given")


class Threads(ThreadPoolExecutor):
    """At most `jobs` tasks at a time; `told` is called with what they tell, from their threads."""

    def __init__(self, jobs: int, told: Told = lambda said: None) -> None:
        """Nothing is started yet."""
        super().__init__(jobs, thread_name_prefix="task")
        self._told = told
        self._stopped = threading.Event()

    def submit(self, task: Callable[..., Given], /, *arguments: Any, **more: Any) -> Future[Given]:
        """A task to carry out, after those before it."""
        return super().submit(self._carry_out, task, arguments, more)

    def stop(self) -> None:
        """Has the tasks under way end at the next thing that they tell, and begins no other."""
        self._stopped.set()

    def _carry_out(self, task: Callable[..., Any], arguments: Any, more: Any) -> Any:
        if self._stopped.is_set():
            raise CancelledError
        teller.set(self._tell)
        return task(*arguments, **more)

    def _tell(self, said: Any) -> None:
        if self._stopped.is_set():
            raise KeyboardInterrupt
        self._told(said)
