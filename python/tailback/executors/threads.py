"""Tasks in threads of this process.

The engine works without the interpreter's lock, so as many cores simulate as there are threads. Preparing a
run and making its result hold the lock: many short runs are faster in processes. A crash, or memory that runs
out, ends all tasks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import Any

from tailback.executors.tasks import OnProgress, Returned, progress_callback


class Threads(ThreadPoolExecutor):
    """At most `jobs` tasks at a time; `on_progress` is called with what they report, from their threads."""

    def __init__(self, jobs: int, on_progress: OnProgress = lambda progress: None) -> None:
        super().__init__(jobs, thread_name_prefix="task")
        self._on_progress = on_progress
        self._stopped = threading.Event()

    def submit(self, task: Callable[..., Returned], /, *arguments: Any, **more: Any) -> Future[Returned]:
        try:
            return super().submit(self._carry_out, task, arguments, more)
        except RuntimeError as error:
            if self._shutdown:
                raise
            raise MemoryError from error  # a thread cannot be started

    def stop(self) -> None:
        """Ends running tasks at their next report of progress, and starts no others."""
        self._stopped.set()

    def kill(self) -> None:
        """Ends running tasks at their next report of progress; waits for that."""
        self.stop()
        self.shutdown(cancel_futures=True)

    def _carry_out(self, task: Callable[..., Any], arguments: Any, more: Any) -> Any:
        if self._stopped.is_set():
            raise CancelledError
        progress_callback.set(self._report)
        return task(*arguments, **more)

    def _report(self, progress: Any) -> None:
        if self._stopped.is_set():
            raise KeyboardInterrupt
        self._on_progress(progress)
