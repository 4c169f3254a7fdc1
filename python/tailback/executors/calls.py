"""Calls that are carried out some at a time: in processes, in threads, or by an executor of the user's.

There are two ways to end at Ctrl-C or SIGTERM. By default KeyboardInterrupt goes to the caller, and what is under
way is killed. With `finishes`, calls under way end with what they have, and nothing waiting is begun.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Executor, Future
from contextlib import ExitStack
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

from tailback import interrupts
from tailback.executors.processes import Processes
from tailback.executors.tasks import WorkerLost, kill
from tailback.executors.threads import Threads

if TYPE_CHECKING:
    from typing_extensions import Self

_AHEAD = 4
"""Runs that are handed over for each that is under way: an executor that has a queue is not asked to keep a
hundred thousand of them.
"""

Place = TypeVar("Place")
Call = tuple[Any, ...]
"""A function of a module and its arguments, all of which can be pickled."""
OnShare = Callable[[Any, float], None]
"""Called with what a run reports of itself, as `report_progress` takes it: which it is, and the share of it that
is done, 0 to 1. From other threads.
"""


class Calls:
    """Carries calls out, `jobs` at a time; default: as many as there are cores.

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
        share: OnShare = lambda run, share: None,
    ) -> None:
        self._jobs = jobs or getattr(executor, "jobs", None) or _cores()
        self._pool = executor
        self._threads = threads
        self._finishes = finishes
        self._is_cut_short = is_cut_short
        self._stopped = False
        self._share = share
        self._over: SimpleQueue[Future[Any] | None] = SimpleQueue()
        """What has ended; None where the driver was stopped."""
        self._signals = ExitStack()

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

    def __enter__(self) -> Self:
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


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
