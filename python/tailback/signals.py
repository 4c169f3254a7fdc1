"""What ends a run early: Ctrl-C (SIGINT), and of the command also SIGTERM and SIGHUP.

Python itself raises KeyboardInterrupt at Ctrl-C only. The command takes all three alike; one that was ignored
when it was started, as with nohup, stays ignored.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from tailback import start_up

Handler = Callable[[int, FrameType | None], None]

ASKED = (signal.SIGTERM, signal.SIGHUP)
"""Whoever sends these often sends them twice, and then waits: timeout(1) to the process and to its group,
systemd one after the other. Only the first counts.
"""
ENDING = (signal.SIGINT, *ASKED)

_first: list[int] = []


def status() -> int:
    """The exit status of what was interrupted, as shells have it: 128 and the number of the signal."""
    return 128 + (_first[0] if _first else signal.SIGINT)


@contextmanager
def interrupting() -> Iterator[None]:
    """Within it SIGTERM and SIGHUP raise KeyboardInterrupt, as SIGINT does. At the end of the command, which
    its start has prepared, nothing is left that could be interrupted.
    """
    _first.clear()
    with _handled(_interrupt, lambda handler: handler is not signal.SIG_IGN):
        yield


@contextmanager
def noted(first: Callable[[], None] = lambda: None) -> Iterator[list[int]]:
    """Within it the first signal calls `first` and is put on the list; a second Ctrl-C raises
    KeyboardInterrupt.

    The list stays empty, and whoever handles signals keeps doing so, in other threads than the main one and
    where others have put their own handlers in place.
    """
    seen: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        _first.append(number)
        seen.append(number)
        if len(seen) == 1:
            first()
        elif number == signal.SIGINT:
            raise KeyboardInterrupt

    with _handled(note, lambda handler: handler in (signal.default_int_handler, _interrupt)):
        yield seen
    if seen and signal.getsignal(signal.SIGTERM) is _interrupt:
        for number in ASKED:
            signal.signal(number, signal.SIG_IGN)


def _interrupt(number: int, _frame: FrameType | None) -> None:
    _first.append(number)
    if number != signal.SIGINT:
        for one in ASKED:
            signal.signal(one, signal.SIG_IGN)
    raise KeyboardInterrupt


@contextmanager
def _handled(handler: Handler, replaces: Callable[[object], bool]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in ENDING}
    ours = [number for number in ENDING if replaces(before[number])]
    for number in ours:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_IGN if before[number] is start_up.leave else before[number])
