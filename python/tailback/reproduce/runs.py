"""Runs of several scenarios, some at a time.

Each is in a thread: the engine works without the interpreter's lock, so that as many cores are busy as there
are threads. Ctrl-C, or a run that was cut short, ends those under way; what waits is not begun.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import ExitStack
from types import TracebackType
from typing import Generic, TypeVar

from tailback import signals
from tailback.results import Result
from tailback.running import Interrupted

Kept = TypeVar("Kept")

Progress = Callable[[str, float], None]
"""Called with what is running and the share of it that is done, 0 to 1; from several threads."""
Runner = Callable[[str, Mapping[str, str], Callable[[float], None]], Result]
"""Runs a scenario with overrides (`path` -> text) and gives its result; is handed a place to report its
progress. That raises KeyboardInterrupt when the run is to end.
"""


class Waiting(Generic[Kept]):
    """A run under way, or yet to begin."""

    def __init__(self, future: Future[Kept | None]) -> None:
        """Of a run in the pool."""
        self._future = future

    def wait(self) -> Kept | None:
        """What was kept of its result; None when it was never begun, or interrupted before it had one."""
        try:
            return self._future.result()
        except CancelledError:
            return None


class Runs:
    """Carries out runs, `jobs` at a time, in the order in which they were started."""

    def __init__(self, runner: Runner, progress: Progress | None = None, jobs: int = 1) -> None:
        """Nothing is started yet."""
        self._runner = runner
        self._progress = progress or (lambda what, share: None)
        self._stopped = threading.Event()
        self._signals = ExitStack()
        self._pool = ThreadPoolExecutor(jobs, thread_name_prefix="run")

    def start(
        self, title: str, scenario: str, sets: Mapping[str, str], keep: Callable[[Result], Kept]
    ) -> Waiting[Kept]:
        """A run of a scenario with overrides. `keep` gives what is needed of its result; the rest goes."""
        return Waiting(self._pool.submit(self._run, title, scenario, sets, keep))

    def stop(self) -> None:
        """Ends the runs under way, and begins no other."""
        self._stopped.set()

    def _run(
        self, title: str, scenario: str, sets: Mapping[str, str], keep: Callable[[Result], Kept]
    ) -> Kept | None:
        if self._stopped.is_set():
            return None
        self._progress(title, 0.0)
        try:
            result = self._runner(scenario, sets, lambda share: self._tell(title, share))
        except Interrupted as interrupted:
            result = interrupted.result
        except KeyboardInterrupt:
            return None
        if not result.complete:
            self.stop()
        kept = keep(result)
        self._progress(title, 1.0)
        return kept

    def _tell(self, title: str, share: float) -> None:
        if self._stopped.is_set():
            raise KeyboardInterrupt
        self._progress(title, share)

    def __enter__(self) -> Runs:
        """Takes signals, where nobody else does: the first stops the runs, a second Ctrl-C gets out."""
        self._signals.enter_context(signals.noted(self.stop))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Waits for what is under way; after an error nothing more is begun."""
        if error is not None:
            self.stop()
        with self._signals:
            self._pool.shutdown(cancel_futures=error is not None)
