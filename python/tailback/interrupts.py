"""Process signals that end a run early: Ctrl-C (SIGINT); for the command also SIGTERM and SIGHUP.

Python raises KeyboardInterrupt at Ctrl-C only. The command treats all three alike. A signal that was ignored
at the start of the command, as with nohup, stays ignored.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from tailback import start_up

Handler = Callable[[int, FrameType | None], None]

TERMINATION_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
"""Often sent twice: timeout(1) signals the process and its group, systemd sends both signals. Only the first
counts.
"""
ALL_SIGNALS = (signal.SIGINT, *TERMINATION_SIGNALS)

_received: list[int] = []


def status() -> int:
    """Exit status of an interrupted process, as shells report it: 128 plus the number of the first signal."""
    return 128 + (_received[0] if _received else signal.SIGINT)


@contextmanager
def interrupting() -> Iterator[None]:
    """Inside the block SIGTERM and SIGHUP raise KeyboardInterrupt, as SIGINT does. Afterwards, at the end of the
    command, all three are ignored: nothing is left to interrupt.
    """
    _received.clear()
    with _handled(_interrupt, lambda handler: handler is not signal.SIG_IGN):
        yield


@contextmanager
def noted(first: Callable[[], None] = lambda: None) -> Iterator[list[int]]:
    """Inside the block the first signal calls `first` and is appended to the list; a second Ctrl-C raises
    KeyboardInterrupt.

    In other threads than the main one, and where somebody else has set handlers, those stay and the list stays
    empty.
    """
    seen: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        _received.append(number)
        seen.append(number)
        if len(seen) == 1:
            first()
        elif number == signal.SIGINT:
            raise KeyboardInterrupt

    with _handled(note, lambda handler: handler in (signal.default_int_handler, _interrupt)):
        yield seen
    if seen and signal.getsignal(signal.SIGTERM) is _interrupt:
        for number in TERMINATION_SIGNALS:
            signal.signal(number, signal.SIG_IGN)


def _interrupt(number: int, _frame: FrameType | None) -> None:
    _received.append(number)
    if number != signal.SIGINT:
        for one in TERMINATION_SIGNALS:
            signal.signal(one, signal.SIG_IGN)
    raise KeyboardInterrupt


@contextmanager
def _handled(handler: Handler, replaces: Callable[[object], bool]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in ALL_SIGNALS}
    ours = [number for number in ALL_SIGNALS if replaces(before[number])]
    for number in ours:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_IGN if before[number] is start_up.leave else before[number])
