"""How cost grows as work grows: CPU time of a packet-hop, and memory, over hosts, queue pairs and so on.

    .venv/bin/python tools/scaling.py [--quick] [AXIS ...]

Each point is a process of its own, so that its peak memory is its own; the faster of two counts. CPU time
is that of the event loop; memory is what the process has more than before the plan was handed over. All in
all it takes five CPU minutes and 7 GB; --quick has a few sizes, half a minute and 1 GB. It prints tables, of which
docs/performance.md has the ends, and draws the pictures of that page.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from log_chart import chart
from tailback._engine import Simulation
from tailback.plan import make_plan, packed_plan
from tailback.rows import Rows
from tailback.scenario import load

IMAGES = Path(__file__).parent.parent / "docs" / "img"
DRAWN = ("hosts", "queue-pairs")
REPEATS = 2
EVENTS = 1_000_000
HOPS_A_PACKET = 6.6
"""On a fat tree of three levels, ACKs included: 6 links less those within a pod, and one ACK in 16."""
PACKET_BYTES = 1024


class Point(NamedTuple):
    """What was measured: packet-hops, CPU seconds of the event loop, of set-up and end, peak memory."""

    hops: float
    events: float
    seconds: float
    around_s: float
    peak_bytes: float

    @property
    def hop_ns(self) -> float:
        """CPU time of a hop."""
        return self.seconds / self.hops * 1e9


class Axis(NamedTuple):
    """What grows. `plan` makes the plan of a size; memory is told by `unit`, of which it has `per`."""

    name: str
    across: str
    sizes: Sequence[int]
    quick: Sequence[int]
    plan: Callable[[int], dict[str, Any]]
    per: Callable[[int], int] = lambda _: 1
    unit: str = ""


def permutation(k: int, total_hops: float, **more: Any) -> dict[str, Any]:
    """Every host of a fat tree sends to one other, until there were about so many hops."""
    hosts = k**3 // 4
    message = max(1, round(total_hops / HOPS_A_PACKET / hosts)) * PACKET_BYTES
    return {
        "name": "scaling",
        "run": {"duration": "1s"},
        "topology": {"kind": "fat-tree", "k": k},
        "traffic": [{"kind": "permutation", "message": f"{message}B"}],
        **more,
    }


def hosts(size: int) -> dict[str, Any]:
    """A fat tree of k^3/4 hosts."""
    return made(permutation(round((4 * size) ** (1 / 3)), 8e6))


def queue_pairs(size: int) -> dict[str, Any]:
    """Sixteen hosts at one switch, each with so many queue pairs to the next; messages of one packet."""
    writes = [
        {"kind": "write", "from": f"h{host}", "to": f"h{(host + 1) % 16}", "qps": size, "message": "1KiB"}
        for host in range(16)
    ]
    topology = {"kind": "star", "hosts": 16}
    return made({"name": "scaling", "run": {"duration": "8ms"}, "topology": topology, "traffic": writes})


def flows(size: int) -> dict[str, Any]:
    """Messages of 1,500 B between 16 hosts of a fat tree, at half of the links' rate."""
    draws = np.random.default_rng(1)
    span_ps = size * 1500 * 8 / (16 * 50e9) * 1e12
    plan = made(permutation(4, 1e3, run={"duration": f"{int(span_ps * 1.2) + 10**9}ps"}))
    start = np.sort((draws.random(size) * span_ps).astype(np.int64))
    src = draws.integers(0, 16, size)
    dst = (src + draws.integers(1, 16, size)) % 16
    point = plan["flows"]["list"][0][3]
    same = [np.full(size, value) for value in (0, point, 1500)]
    plan["flows"]["list"] = Rows.of((src, dst, *same, start))
    return plan


def bins(size: int) -> dict[str, Any]:
    """Time series of so many bins of a run over 128 hosts: the interval is its time by their number."""
    return made(permutation(8, 8e6, record={"max_bins": size}))


def classes(size: int) -> dict[str, Any]:
    """Eight permutations of 128 hosts, in so many priorities."""
    data = permutation(8, 1e6)
    data["traffic"] = [{**data["traffic"][0], "priority": number % size} for number in range(8)]
    return made(data)


def made(data: dict[str, Any]) -> dict[str, Any]:
    """The plan of a scenario."""
    return make_plan(load(data))


AXES = (
    Axis("hosts", "Hosts", (16, 128, 1024, 3456, 8192, 16000), (16, 128, 1024), hosts, lambda n: n, "host"),
    Axis(
        "queue-pairs",
        "Queue pairs a host",
        (1, 4, 16, 64, 256, 1024, 4096),
        (1, 16, 256),
        queue_pairs,
        lambda n: 16 * n,
        "queue pair",
    ),
    Axis(
        "flows", "Messages", (10**3, 10**4, 10**5, 10**6, 10**7), (10**3, 10**5), flows, lambda n: n, "flow"
    ),
    Axis("bins", "Bins of a series", (16, 128, 512, 2048, 8192), (16, 2048), bins),
    Axis("classes", "Priorities in use", (1, 2, 4, 8), (1, 8), classes),
)


def status_bytes(key: str) -> float:
    """A line of /proc/self/status, see proc(5)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024.0 * next(float(line.split()[1]) for line in lines if line.startswith(key))


def measured(axis: Axis, size: int) -> Point:
    """One point, in this process."""
    packed = packed_plan(axis.plan(size))
    before = status_bytes("VmRSS")
    begin = time.process_time()
    simulation = Simulation(packed.plan, messages=packed.messages)
    built = time.process_time()
    while not (state := simulation.advance(EVENTS)).done:
        pass
    ran = time.process_time()
    # What the engine holds; its end makes tables of that.
    peak = status_bytes("VmHWM")
    meta = json.loads(simulation.finish().meta_json)
    ended = time.process_time()
    assert meta["conservation"]["ok"], (axis.name, size)
    around = built - begin + ended - ran
    return Point(state.packet_hops, state.events, ran - built, around, max(0.0, peak - before))


def point(axis: Axis, size: int) -> Point:
    """The faster of some processes."""
    command = [sys.executable, __file__, "--point", axis.name, str(size)]
    found = [
        Point(*json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout))
        for _ in range(REPEATS)
    ]
    return min(found, key=lambda one: one.seconds)


def table(axis: Axis, points: Mapping[int, Point]) -> str:
    titles = [axis.across, "Million hops", "ns a hop", "Events a hop", "Set-up and end, s", "Memory, MiB"]
    rows = [[*titles, *([f"Bytes a {axis.unit}"] if axis.unit else [])]]
    rows.append(["---:"] * len(rows[0]))
    for size, one in points.items():
        figures = (one.hops / 1e6, one.hop_ns, one.events / one.hops, one.around_s, one.peak_bytes / 2**20)
        forms = (".2f", ".0f", ".2f", ".2f", ".0f")
        row = [f"{size:,}", *(format(value, form) for value, form in zip(figures, forms, strict=True))]
        rows.append([*row, *([f"{one.peak_bytes / axis.per(size):,.0f}"] if axis.unit else [])])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    known = {axis.name: axis for axis in AXES}
    parser.add_argument("axes", nargs="*", metavar="AXIS", help=f"of {', '.join(known)}; without, all")
    parser.add_argument("--quick", action="store_true", help="fewer and smaller ones; draws nothing")
    parser.add_argument("--point", nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.point:
        print(json.dumps(measured(known[asked.point[0]], int(asked.point[1]))))
        return
    if unknown := sorted(set(asked.axes) - set(known)):
        parser.error(f"found {', '.join(unknown)}, expected {', '.join(known)}")
    for axis in (known[name] for name in asked.axes or known):
        points = {size: point(axis, size) for size in (axis.quick if asked.quick else axis.sizes)}
        print(table(axis, points), flush=True)
        if not asked.quick and axis.name in DRAWN:
            line = [(float(size), one.hop_ns) for size, one in points.items()]
            picture = IMAGES / f"scaling-{axis.name}.svg"
            picture.write_text(chart({"": line}, axis.across, "CPU time of a packet-hop, ns"))


if __name__ == "__main__":
    main()
