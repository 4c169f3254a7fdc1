"""Tasks for executors: processes import them."""

from __future__ import annotations

import resource
import signal
import time

from tailback.executors import report_progress


class Odd(Exception):  # noqa: N818
    """Cannot be made again from its arguments."""

    def __init__(self, number: int, word: str) -> None:
        super().__init__(f"it is {number} {word}")


def raise_odd() -> None:
    raise Odd(7, "odd")


def fill_memory() -> None:
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, before[1]))
    try:
        bytearray(1 << 34)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def work_and_tell(name: str, steps: int) -> None:
    for step in range(steps):
        report_progress((name, step))


def until_stopped() -> int:
    count = 0
    try:
        while True:
            count += 1
            report_progress(count)
            time.sleep(0.001)
    except KeyboardInterrupt:
        return count


def slowly(number: int) -> str:
    """Until it is stopped."""
    try:
        while True:
            report_progress((number, 0.5))
            time.sleep(0.001)
    except KeyboardInterrupt:
        return "stopped"


def end_process(*_: object) -> None:
    signal.raise_signal(signal.SIGKILL)


def report_and_end_process() -> None:
    report_progress(("a", 0.5))
    time.sleep(0.5)
    end_process()
