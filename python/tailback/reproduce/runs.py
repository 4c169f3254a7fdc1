"""Runs of several scenarios, some at a time.

Ctrl-C, or a run that was cut short, ends those under way; what waits is not begun.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from tailback import interrupts
from tailback.executors import Processes, Threads, WorkerLost, report_progress
from tailback.results import Result
from tailback.running import Interrupted, RunFailed, run
from tailback.scenario import load

if TYPE_CHECKING:
    from tailback.executors.ray import RayTasks

Kept = TypeVar("Kept")

Progress = Callable[[str, float], None]
"""Called with what is running and the share of it that is done, 0 to 1; from several threads."""
Runner = Callable[[str, Mapping[str, str], Callable[[float], None]], Result]
"""Runs a scenario with overrides (`setting` -> text) and gives its result; is handed a place to report its
progress. That raises KeyboardInterrupt when the run is to end.
"""


def engine(scenario: str, sets: Mapping[str, str], progress: Callable[[float], None]) -> Result:
    """The runner that is none but Tailback's own."""
    checked = load(scenario, sets=[f"{setting}={value}" for setting, value in sets.items()])
    return run(checked, progress=lambda state: progress(min(1.0, state.time_ps / checked.run.duration)))


class _Done(NamedTuple, Generic[Kept]):
    kept: Kept
    complete: bool


class Waiting(Generic[Kept]):
    """A run under way, or yet to begin."""

    def __init__(self, title: str, future: Future[_Done[Kept] | None]) -> None:
        self._title = title
        self._future = future

    def wait(self) -> Kept | None:
        """The stored result of a run; None if it was never begun, or interrupted before it had one.

        Raises:
            RunFailed: its process was ended.
        """
        try:
            done = self._future.result()
        except CancelledError:
            return None
        except WorkerLost as error:
            raise RunFailed(f"the run {self._title} {error}") from None
        return None if done is None else done.kept


class Runs:
    """Carries out runs, `jobs` at a time, in the order in which they were started: in processes, or where the
    runner is another than Tailback's, which may know more than can be sent to a process, in threads.
    """

    def __init__(
        self, runner: Runner | None, progress: Progress | None = None, jobs: int = 1, on: str | None = None
    ) -> None:
        """Nothing is started yet. `on` is a Ray cluster, see `tailback.executors.ray`, in place of `jobs`.

        Raises:
            InputError: there is no such cluster.
        """
        self._runner = runner or engine
        self._progress = progress or (lambda what, share: None)
        self._signals = ExitStack()
        self.on_cluster = on is not None
        """True if runs are carried out where the folders of this machine may not be."""
        self._executor: Threads | Processes | RayTasks
        if on is None:
            self._executor = (Threads if runner else Processes)(jobs, lambda said: self._progress(*said))
        else:
            from tailback.executors.ray import RayTasks

            self._executor = RayTasks(on)

    def start(
        self, title: str, scenario: str, sets: Mapping[str, str], keep: Callable[[Result], Kept]
    ) -> Waiting[Kept]:
        """A run of a scenario with overrides. `keep` gives what is needed of its result; the rest goes."""

        def over(future: Future[_Done[Kept] | None]) -> None:
            if future.cancelled() or future.exception() is not None:
                return
            done = future.result()
            if done is None or not done.complete:
                self.stop()
            if done is not None:
                self._progress(title, 1.0)

        future = self._executor.submit(_carry_out, self._runner, title, scenario, dict(sets), keep)
        future.add_done_callback(over)
        return Waiting(title, future)

    def stop(self) -> None:
        """Ends the runs under way, and begins no other."""
        self._executor.stop()

    def __enter__(self) -> Runs:
        """Takes signals, where nothing else does: the first stops the runs, a second Ctrl-C gets out."""
        self._signals.enter_context(interrupts.noted(self.stop))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Waits for what is under way; after an error nothing more is begun."""
        if error is not None:
            self.stop()
        with self._signals:
            self._executor.shutdown(cancel_futures=error is not None)


def _carry_out(
    runner: Runner, title: str, scenario: str, sets: Mapping[str, str], keep: Callable[[Result], Kept]
) -> _Done[Kept] | None:
    """A task: None when the run was ended before it had a result."""
    try:
        report_progress((title, 0.0))
        result = runner(scenario, sets, lambda share: report_progress((title, share)))
    except Interrupted as interrupted:
        result = interrupted.result
    except KeyboardInterrupt:
        return None
    return _Done(keep(result), result.complete)
