"""`headroom: auto` and a NIC's `xoff: auto`: nothing is lost, and it takes all of it."""

from __future__ import annotations

import random
import re
from pathlib import Path

import drawn_fabrics
import pytest
import tailback
from tailback.errors import InputError
from tailback.plan import make_plan
from tailback.scenario import load, loads

FAULTS = Path(__file__).parent / "data/faults"

DRAWN = 50


def test_nothing_lossless_is_lost_in_drawn_fabrics_and_a_packet_less_is_too_little_somewhere() -> None:
    lost_with_less = 0
    for number in range(DRAWN):
        scenario = drawn_fabrics.draw(number)
        assert drawn_fabrics.lossless_drops(make_plan(scenario)) == [], number
        lost_with_less += bool(drawn_fabrics.lossless_drops(drawn_fabrics.with_less(scenario)))
    assert lost_with_less > 0


STAR = """
name: star
run: {duration: 2ms}
topology: {kind: star, hosts: 4}
host: {mtu: 4096B, congestion: none}
switch: {shared: 100KB}
traffic:
  - {kind: write, from: all, to: h0, bidirectional: true}
  - {kind: write, from: h1, to: h2}
"""
DUMBBELL = """
name: dumbbell
run: {duration: 2ms}
topology: {kind: dumbbell, left: 4, right: 2, link: {rate: 10Gbps}}
host: {mtu: 1024B, congestion: none}
switch: {shared: 10KB}
traffic:
  - {kind: write, from: all, to: right0, bidirectional: true}
  - {kind: write, from: left1, to: left2}
"""


@pytest.mark.parametrize("text", [STAR, DUMBBELL])
def test_the_packet_that_passes_xoff_has_room(text: str) -> None:
    """It is charged whole to headroom, beside one that delays the pause and one begun before it."""
    assert drawn_fabrics.lossless_drops(make_plan(loads(text))) == []


HOST = """
name: host
run: {duration: 3ms}
topology: {kind: star, hosts: 3}
host: {path: {preset: pcie3-x16}}
traffic:
  - {kind: write, from: h0..h1, to: h2}
memory_load:
  - {host: h2, cores: 64}
"""


def test_what_is_in_a_nics_pipeline_has_room() -> None:
    for sets in ([], ["host.rx_latency=3us"]):
        assert drawn_fabrics.lossless_drops(make_plan(loads(HOST, sets=sets))) == []
    with pytest.raises(InputError, match=r"expected more than 408.*KB, what may arrive at h0 after it asked"):
        loads(HOST, sets=["host.rx_latency=30us"])


def test_a_link_that_comes_back_loses_nothing_lossless() -> None:
    """The pauses of its ends hold from the start: until they are repeated, headroom would overflow."""
    for number in range(20):
        plan = make_plan(drawn_fabrics.draw(number))
        end = plan["run"]["duration"]
        failures = [
            {"at": end // 4 + link, "repair": end // 2 + link, "detection": 0, "link": link}
            for link in (0, 1)
        ]
        assert drawn_fabrics.lossless_drops({**plan, "failures": failures}) == [], number


SAID = re.compile(r"at port (\S+):(\S+): its headroom of \d+ B overflowed; (\d+) B are enough at this port")


@pytest.mark.parametrize("part", range(10))
def test_the_headroom_that_a_fault_says_is_enough(part: int) -> None:
    """Of each port, whatever else it meets: a port that has what was said of it drops nothing more."""
    said_of_any = 0
    for number in range(part * 12, part * 12 + 12):
        plan = make_plan(drawn_fabrics.draw(number))
        rng = random.Random(number)
        for link in plan["links"]:
            link["headroom_bytes"] = int(link["headroom_bytes"] * rng.choice([0, 0.2, 0.5, 0.8]))
        given: set[frozenset[str]] = set()
        while texts := drawn_fabrics.lossless_drops(plan):
            for text in texts:
                found = SAID.search(text)
                assert found, text
                ends = frozenset(found.groups()[:2])
                link = next(one for one in plan["links"] if {one["a"], one["b"]} == ends)
                # Both ends of a link share its headroom, and may overflow in one run.
                assert ends not in given or link["headroom_bytes"] < int(found[3]), (number, text)
                link["headroom_bytes"] = max(link["headroom_bytes"], int(found[3]))
            given |= {frozenset(SAID.search(text).groups()[:2]) for text in texts}  # type: ignore[union-attr]
            said_of_any += 1
    assert said_of_any


@pytest.mark.parametrize("name", ["headroom-cable-300m", "headroom-zero"])
def test_what_is_said_may_be_set_for_the_whole_fabric(name: str) -> None:
    scenario = load(f"{FAULTS}/{name}.yaml")
    texts = drawn_fabrics.lossless_drops(make_plan(scenario))
    enough = max(int(SAID.search(text)[3]) for text in texts)  # type: ignore[index]
    assert (
        enough
        == max(
            make_plan(load(scenario, sets=["switch.pfc.headroom=auto"]))["links"],
            key=lambda one: one["headroom_bytes"],
        )["headroom_bytes"]
    )
    assert (
        drawn_fabrics.lossless_drops(make_plan(load(scenario, sets=[f"switch.pfc.headroom={enough}B"]))) == []
    )


def test_the_buffer_that_a_fault_says_is_enough() -> None:
    """Of a NIC whose xoff is set too high for what still arrives."""
    set_ = ["host.path.receive_buffer.xoff=200KB", "host.path.receive_buffer.xon=150KB"]
    size = "host.path.receive_buffer.lossless_size="
    texts = drawn_fabrics.lossless_drops(make_plan(loads(HOST, sets=[*set_, f"{size}202KB"])))
    enough = int(re.search(r"overflowed; (\d+) B are enough with its xoff", texts[0])[1])  # type: ignore[index]
    assert drawn_fabrics.lossless_drops(make_plan(loads(HOST, sets=[*set_, f"{size}{enough}B"]))) == []


@pytest.mark.parametrize(
    ("text", "key", "least"),
    [(STAR, "switch.pfc.quanta", 132), (HOST, "host.path.receive_buffer.quanta", 36)],
)
def test_a_pause_outlasts_its_repetition(text: str, key: str, least: int) -> None:
    """At half of the pause it is repeated, and then a packet of 4,194 or 1,122 B may be in the way."""
    assert drawn_fabrics.lossless_drops(make_plan(loads(text, sets=[f"{key}={least}"]))) == []
    with pytest.raises(InputError, match=f"{key}: found {least - 1}, expected at least {least}"):
        loads(text, sets=[f"{key}={least - 1}"])


@pytest.mark.parametrize(("pool", "drops"), [(None, False), ("120KB", False), ("30KB", True)])
def test_ports_share_a_pool_of_headroom(pool: str | None, drops: bool) -> None:
    """Two senders pass xoff together, and each needs some 40 KB: from its own headroom, or from the pool."""
    result = tailback.run(
        {
            "name": "pool",
            "run": {"duration": "1ms"},
            "topology": {"kind": "star", "hosts": 3, "link": {"rate": "100Gbps", "delay": "500ns"}},
            "host": {"congestion": "none"},
            "switch": {
                "ecn": None,
                "shared": "1MB",
                "pfc": {"xoff": "100KB", "headroom": "60KB", "headroom_pool": pool},
            },
            "traffic": [{"kind": "write", "from": "h0..h1", "to": "h2"}],
        }
    )
    assert bool(result.summary["losses"]["dropped_packets"]) == drops
    assert bool(result.faults) == drops
