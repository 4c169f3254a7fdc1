"""What many runs cost besides simulating, and what a cluster makes of that.

    .venv/bin/python tools/many_runs_cost.py measure    # on this machine; with Ray where it is installed
    .venv/bin/python tools/many_runs_cost.py cluster    # figures, and docs/img/cluster-cost.svg

`measure` has a sweep whose workers answer at once, so that nothing but its own work is left, and tasks on Ray
that do nothing. `cluster` simulates the loop of `tailback.study.driver` with what was measured, at sizes that
nobody here has. docs/performance.md has the figures of the last run of both.
"""

from __future__ import annotations

import argparse
import heapq
import os
import random
import resource
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

from log_chart import chart
from tailback.metrics import named
from tailback.study.grid import SweepProgress, sweep
from tailback.study.run import Done, Task

PICTURE = Path(__file__).parent.parent / "docs" / "img" / "cluster-cost.svg"
METRICS = ["Throughput", "jain_index:since=start", "Fullest queue, mean"]
AHEAD = 4
"""As `tailback.study.driver` has it."""
ROW_BYTES = 206
"""Of the journal, as `measure` gave it for three metrics."""


class Costs(NamedTuple):
    """In seconds, as `measure` gave them on two cores of a virtual machine (AMD EPYC, 2026). That Ray takes
    no more of the head with a thousand workers than with two is an assumption.
    """

    point: float = 1.1e-3
    """The head: a point that is looked at for the first time, a seed of each before the next."""
    task: float = 0.61e-3
    """The head: a task handed over, its result taken, its row written; 0.55 ms of it are Ray's."""
    sync: float = 0.12e-3
    """The head: the journal put on the disk, once for all that has ended meanwhile."""
    worker: float = 5.3e-3
    """A worker: all of a run but the engine."""
    dispatch: float = 0.7e-3
    """A worker: between a run and the next that waits."""


NOTHING = Costs(0, 0, 0, 0, 0)


class Study(NamedTuple):
    """So many runs, `seeds` at each point, of a mean length; their lengths are lognormal (an assumption,
    as is the spread).
    """

    runs: int
    seeds: int
    run_s: float
    spread: float = 0.3


class Came(NamedTuple):
    """How long it took, and the share of that in which the head was busy."""

    wall_s: float
    head_busy: float


def simulated(cores: int, study: Study, costs: Costs) -> Came:
    """The loop of a sweep, event by event: the head hands over tasks until `AHEAD` wait for each core, takes
    what has ended, writes it, and so on; a core takes the task that waits longest.
    """
    draw = random.Random(1)
    mean_log = -(study.spread**2) / 2
    points = study.runs // study.seeds
    free = [0.0] * cores  # when each core is free
    ends: list[float] = []  # of what is under way or waits, by when it ends
    now = busy = 0.0
    given = taken = 0
    while taken < study.runs:
        while given < study.runs and given - taken < cores * AHEAD:
            took = costs.task / 2 + (costs.point if given < points else 0.0)
            now, busy = now + took, busy + took
            length = study.run_s * draw.lognormvariate(mean_log, study.spread)
            begin = max(heapq.heappop(free), now)
            end = begin + costs.dispatch + costs.worker + length
            heapq.heappush(free, end)
            heapq.heappush(ends, end)
            given += 1
        now = max(now, ends[0])
        took = costs.sync
        while ends and ends[0] <= now:
            heapq.heappop(ends)
            took += costs.task / 2
            taken += 1
        now, busy = now + took, busy + took
    return Came(now, busy / now)


def overhead(cores: int, study: Study, costs: Costs) -> tuple[float, Came]:
    """How much longer it takes than with nothing but simulation, as a share, and how it came."""
    came = simulated(cores, study, costs)
    return came.wall_s / simulated(cores, study, NOTHING).wall_s - 1, came


def cluster() -> None:
    """Prints tables and draws the picture."""
    costs = Costs()
    print("| Cores | Runs | Each takes | Wall | Longer by | Head busy |")
    print("| --- | --- | --- | --- | --- | --- |")
    for cores, run_s in ((100, 2.0), (1000, 2.0), (2000, 2.0), (4000, 2.0), (1000, 20.0), (1000, 0.2)):
        study = Study(100_000, 5, run_s)
        longer, came = overhead(cores, study, costs)
        print(
            f"| {cores:,} | {study.runs:,} | {run_s:g} s | {came.wall_s:,.0f} s | {100 * longer:.2f} % | "
            f"{100 * came.head_busy:.0f} % |"
        )
    print("\n1,000 cores, 100,000 runs of 2 s:")
    study = Study(100_000, 5, 2.0)
    for words, other in (
        ("as measured", costs),
        ("a disk that takes 10 ms for each sync", costs._replace(sync=10e-3)),
        ("a disk that takes 100 ms", costs._replace(sync=0.1)),
        ("a head with half the speed", Costs(2.2e-3, 1.22e-3, costs.sync, costs.worker, costs.dispatch)),
        ("a scenario that takes 10 ms to look at", costs._replace(point=10e-3)),
    ):
        longer, came = overhead(1000, study, other)
        print(f"- {words}: longer by {100 * longer:.2f} %, head busy {100 * came.head_busy:.0f} %")
    longer, came = overhead(1000, Study(100_000, 1, 2.0), costs)
    print(f"- every run a point of its own: longer by {100 * longer:.2f} %, {100 * came.head_busy:.0f} %")

    sizes = [50, 100, 200, 500, 1000, 1500, 2000, 3000, 5000, 10000]
    lines = {
        f"runs of {run_s:g} s": [
            (float(cores), 100 * overhead(cores, Study(50 * cores, 5, run_s), costs)[0]) for cores in sizes
        ]
        for run_s in (0.2, 2.0, 20.0)
    }
    PICTURE.write_text(chart(lines, "Cores", "Longer than simulation alone, %"))
    print(f"\n{PICTURE}")


class AtOnce(Executor):
    """Workers that answer at once, and leave half of what they were given waiting."""

    def __init__(self, jobs: int) -> None:
        """As many as `jobs` of them."""
        self.jobs = jobs
        self._given: deque[tuple[Future[Done], Task]] = deque()
        self._last = 0.0
        threading.Thread(target=self._rest, daemon=True).start()

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **more: Any) -> Future[Any]:
        """A task of a sweep."""
        future: Future[Done] = Future()
        future.set_running_or_notify_cancel()
        self._given.append((future, arguments[0]))
        self._last = time.monotonic()
        while len(self._given) >= 2 * self.jobs:
            self._answer()
        return future

    def _answer(self) -> None:
        future, task = self._given.popleft()
        future.set_result(answer(task))

    def _rest(self) -> None:
        """When nothing is submitted any more."""
        while True:
            time.sleep(0.2)
            while self._given and time.monotonic() - self._last > 0.2:
                self._answer()


def answer(task: Task) -> Done:
    """What stands for a run."""
    return Done({one.label: float(task.seed) for one in task.metrics}, [], 2.0, 1.9)


class Clock(SweepProgress):
    """CPU time of this process when all points had been looked at."""

    at = 0.0

    def ended(self, row: dict[str, Any]) -> None:
        """A run has ended."""
        if row["seed"] == 1:
            self.at = time.process_time()


def measure() -> None:
    """Prints what it finds."""
    for points, seeds in ((1000, 1), (1000, 5), (10_000, 1), (10_000, 10)):
        asked = {
            "scenario": "first-flow",
            "vary": {
                "switch.ecn.k_max": {"low": "200KB", "high": "3MB", "steps": 1000},
                "traffic.0.qps": list(range(1, 1 + points // 1000)),
            },
            "seeds": f"1..{seeds}",
            "metrics": METRICS,
        }
        with tempfile.TemporaryDirectory() as name:
            out = Path(name) / "x"
            begin = time.process_time()
            clock = Clock()
            sweep(asked, out=out, executor=AtOnce(1000), progress=clock)
            cpu = time.process_time() - begin
            size = (out / "journal.jsonl").stat().st_size
        print(
            f"{points} points, {seeds} seeds: {cpu:.1f} s of CPU time, {clock.at - begin:.1f} s of it until "
            f"the first seed is done; journal {size / points / seeds:.0f} B a run; "
            f"most memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB",
            flush=True,
        )
    for rows in (1, 100):
        print(f"journal, {rows} rows at once: {1000 * _sync(rows):.2f} ms (median)")
    try:
        import ray  # noqa: F401
    except ImportError:
        print("no Ray here")
        return
    for line in _on_ray():
        print(line, flush=True)


def _sync(rows: int) -> float:
    times = []
    with tempfile.NamedTemporaryFile(dir=".") as file:
        for _ in range(101):
            begin = time.perf_counter()
            file.write(b"x" * ROW_BYTES * rows)
            file.flush()
            os.fsync(file.fileno())
            times.append(time.perf_counter() - begin)
    return sorted(times)[50]


def _on_ray(tasks: int = 2000, ahead: int = 8) -> Iterator[str]:
    from tailback.executors.ray import RayTasks

    shown = tuple(named(METRICS))
    executor = RayTasks("ray")
    for _ in range(2):  # the first has the start of the workers in it
        begin, cpu = time.perf_counter(), time.process_time()
        ended: SimpleQueue[Future[Any]] = SimpleQueue()
        given = 0
        for taken in range(tasks):
            while given < min(tasks, taken + ahead):
                task = Task("first-flow", ("host.mtu=1024B",), given, "d" * 24, shown, None)
                executor.submit(answer, task).add_done_callback(ended.put)
                given += 1
            ended.get().result()
        wall, used = time.perf_counter() - begin, time.process_time() - cpu
        each = [f"{1000 * seconds / tasks:.2f} ms" for seconds in (used, wall)]
        yield f"Ray, a task: {each[0]} of the head's CPU time, {each[1]} in all"
    executor.shutdown()


def main(words: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("measure", "cluster"))
    {"measure": measure, "cluster": cluster}[parser.parse_args(words).what]()


if __name__ == "__main__":
    main()
