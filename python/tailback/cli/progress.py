"""Progress bars on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tailback import text
from tailback.cli.basics import console
from tailback.text import plural

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

    from tailback._engine import Progress


@contextmanager
def progress_bar(quiet: bool) -> Iterator[Bar | None]:
    """A progress bar on stderr, or none without a terminal."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %  {task.fields[state]}", markup=False),
        TextColumn("left"),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=console(stderr=True), transient=True) as bar:
        yield bar


def of_time(bar: Bar, name: str, begin_ps: int, end_ps: int) -> Callable[[Progress], None]:
    """A callback that moves the bar with simulated time, and shows packet-hops and their rate since the first
    call, without the time to set up the run.
    """
    task = bar.add_task(name, total=end_ps - begin_ps, state="setting up")
    first: dict[str, tuple[float, int]] = {}

    def step(state: Progress) -> None:
        now, time_ps = time.perf_counter(), max(state.time_ps - begin_ps, 0)
        begin, hops = first.setdefault("at", (now, state.packet_hops))
        words = f"{text.duration(time_ps / 1e12)}  {state.packet_hops / 1e6:.1f} M packet-hops"
        if now > begin:
            words += f"  {(state.packet_hops - hops) / (now - begin) / 1e6:.1f} M/s"
        if state.done:  # may be before the planned time
            bar.update(task, completed=end_ps - begin_ps, state="writing results")
        else:
            bar.update(task, completed=time_ps, state=words)

    return step


def of_clock(bar: Bar, name: str, end_ps: int) -> Callable[[int], None]:
    """A callback that moves the bar with the time of a run."""
    task = bar.add_task(name, total=end_ps, state="")
    return lambda now_ps: bar.update(task, completed=now_ps, state=text.duration(now_ps / 1e12))


def of_runs(bar: Bar) -> Callable[[str, float], None]:
    """A callback that moves a bar for each run."""
    tasks: dict[str, TaskID] = {}

    def share(what: str, done: float) -> None:
        if what not in tasks:
            tasks[what] = bar.add_task(what, total=1.0, state="")
        bar.update(tasks[what], completed=done)

    return share


def of_all(bar: Bar, name: str, runs: int) -> Callable[[str, float], None]:
    """A callback that moves a bar for all runs together, and one for each current run."""
    whole = bar.add_task(name, total=runs, state=f"0 of {plural(runs, 'run')}")
    tasks: dict[str, TaskID] = {}
    shares: dict[str, float] = {}

    def share(what: str, done: float) -> None:
        if what not in tasks:
            tasks[what] = bar.add_task(what, total=1.0, state="")
        shares[what] = done
        bar.update(tasks[what], completed=done, visible=done < 1.0)
        over = sum(one >= 1.0 for one in list(shares.values()))
        bar.update(whole, completed=sum(list(shares.values())), state=f"{over} of {plural(runs, 'run')}")

    return share
