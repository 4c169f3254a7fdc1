"""Little's law on every queue of a fabric: what waits is what comes a second times how long it waits.

A queue's mean is what the run has recorded. How long each frame waited is read from frames on the links: it
leaves when its first bit does, and it came when its last bit had crossed the link before. Neither knows of
the other.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import drawn_fabrics
import pytest
import tailback
from pcapng import Frame, frames
from tailback.capture_option import CAPTURE_FILE, Capture
from tailback.plan import make_plan

PFC = 0x8808
FCS_BYTES, PREAMBLE_AND_GAP_BYTES = 4, 20
TICK_BYTES = 1
"""A mean is an integral over ticks of 2^15 ps, of an instant at which a frame came or left."""

INCAST: dict[str, Any] = {
    "name": "incast",
    "run": {"duration": "400us"},
    "topology": {"kind": "star", "hosts": 5},
    "switch": {"shared": "256KiB"},
    "traffic": [{"kind": "write", "from": "h0..h3", "to": "h4", "qps": 2}],
}
LEAF_SPINE: dict[str, Any] = {
    "name": "leaf-spine",
    "run": {"duration": "300us"},
    "topology": {"kind": "leaf-spine", "leaves": 3, "hosts_per_leaf": 3, "spines": 2},
    "traffic": [
        {"kind": "poisson", "sizes": "websearch", "load": 0.6},
        {"kind": "tcp", "from": "h0..h2", "to": "h8", "priority": 0},
    ],
}


class Wires:
    """What the links of a plan are: by the port that sends, `a:b`, how long a frame is under way."""

    def __init__(self, plan: Mapping[str, Any]) -> None:
        latency = {model: what["latency"] for model, what in enumerate(plan["switch_models"])}
        self.latency_ps = {switch["name"]: latency[switch["model"]] for switch in plan["switches"]}
        self.of: dict[str, tuple[float, int]] = {}
        for link in plan["links"]:
            for port in (f"{link['a']}:{link['b']}", f"{link['b']}:{link['a']}"):
                self.of[port] = (link["rate"] / 8e12, link["delay"])

    def arrival_ps(self, port: str, frame: Frame) -> float:
        """When a frame is at the egress queue behind the link."""
        bytes_per_ps, delay = self.of[port]
        wire = (frame.length + FCS_BYTES + PREAMBLE_AND_GAP_BYTES) / bytes_per_ps
        return frame.at_ps + wire + delay + self.latency_ps[port.split(":")[1]]


def waited(file: Path, wires: Wires, end_ps: int) -> dict[str, float]:
    """Of each port of a switch, bytes times picoseconds for which frames waited; what is left waits on.

    Without those of a switch in which a frame is left of a flow that never got further: nothing says where
    it waits.
    """
    came: dict[tuple[str, bytes], deque[tuple[float, int]]] = defaultdict(deque)
    total: dict[str, float] = defaultdict(float)
    to: dict[tuple[str, bytes], str] = {}
    for frame in sorted(frames(file), key=lambda frame: frame.at_ps):
        if int.from_bytes(frame.data[12:14], "big") == PFC:
            continue
        port, *dropped = frame.interface.split(" ")
        sender, peer = port.split(":")
        # A switch marks ECN and nothing else: ToS and IP's checksum are before the addresses.
        flow, identity = frame.data[26:42], frame.data[26:]
        if sender in wires.latency_ps:
            arrived, length = came[sender, identity].popleft()
            assert length == frame.length + FCS_BYTES
            assert arrived <= frame.at_ps + 1, frame.interface
            to[sender, flow] = port
            if not dropped:
                total[port] += length * (frame.at_ps - arrived)
        if peer in wires.latency_ps and not dropped:
            arrived = wires.arrival_ps(port, frame)
            if arrived < end_ps:
                came[peer, identity].append((arrived, frame.length + FCS_BYTES))
    unsure = set()
    for (switch, identity), waiting in came.items():
        port = to.get((switch, identity[:16]))
        if port is None and waiting:
            unsure.add(switch)
        elif port:
            total[port] += sum(length * (end_ps - arrived) for arrived, length in waiting)
    return {port: held for port, held in total.items() if port.split(":")[0] not in unsure}


def recorded(result: tailback.Result, end_ps: int) -> dict[str, float]:
    """The same from the means of each bin; the last bin may be shorter."""
    total: dict[str, float] = defaultdict(float)
    bin_ps = result.meta["bin_ps"]
    series = result.series.to_pylist()
    for row in series:
        if row["metric"] == "queue_mean_bytes" and "/tc" in row["entity"]:
            span = min(bin_ps, end_ps - row["time_ps"])
            total[row["entity"].split("/")[0]] += row["value"] * span
    return total


def judge(document: Any, folder: Path) -> int:
    """Compares each queue of a run; how many held something."""
    out = folder / "run"
    exact = ["run.clock_ppm=0"]  # a link is as fast as it says
    result = tailback.run(document, sets=exact, out=out, report=False, capture=Capture.parse(["all"]))
    end_ps = result.meta["end_ps"]
    scenario = tailback.scenario.load(out / "scenario.yaml")
    found = waited(out / CAPTURE_FILE, Wires(make_plan(scenario)), end_ps)
    told = recorded(result, end_ps)
    for port, held in found.items():
        mean, by_waits = told[port] / end_ps, held / end_ps
        assert mean == pytest.approx(by_waits, rel=1e-3, abs=TICK_BYTES), port
    return sum(held > end_ps for held in found.values())


@pytest.mark.parametrize("document", [INCAST, LEAF_SPINE], ids=lambda document: document["name"])
def test_a_queue_holds_what_arrives_times_how_long_it_waits(document: dict[str, Any], tmp_path: Path) -> None:
    assert judge(document, tmp_path) > 0


def test_so_do_the_queues_of_drawn_fabrics(tmp_path: Path) -> None:
    held = 0
    for number in range(12, 30):
        (tmp_path / str(number)).mkdir()
        scenario = drawn_fabrics.draw(number)
        if not scenario.failures:
            held += judge(scenario, tmp_path / str(number))
    assert held > 20
