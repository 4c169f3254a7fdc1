"""`headroom: auto` and a NIC's `xoff: auto`: nothing is lost, and it takes all of it."""

from __future__ import annotations

import drawn_fabrics
import pytest
import tailback
from tailback.plan import make_plan
from tailback.scenario import ScenarioError, loads

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
    with pytest.raises(
        ScenarioError, match=r"expected more than 408.*KB, what may arrive at h0 after it asked"
    ):
        loads(HOST, sets=["host.rx_latency=30us"])


def test_a_link_that_comes_back_loses_nothing_lossless() -> None:
    """The pauses of its ends hold from the start: until they are repeated, headroom would overflow."""
    for number in range(20):
        plan = make_plan(drawn_fabrics.draw(number))
        end = plan["run"]["duration"]
        failures = [{"at": end // 4 + link, "repair": end // 2 + link, "link": link} for link in (0, 1)]
        assert drawn_fabrics.lossless_drops({**plan, "failures": failures}) == [], number


def test_the_fault_says_what_would_have_been_enough() -> None:
    """Headroom of that size loses nothing more, in the same run."""
    enough, texts = 2000, ["first"]
    for _ in range(20):
        texts = drawn_fabrics.lossless_drops(make_plan(loads(STAR, sets=[f"switch.pfc.headroom={enough}B"])))
        if not texts:
            break
        enough = max(int(text.rpartition("overflowed, ")[2].split()[0]) for text in texts)
    assert texts == []
    assert enough <= make_plan(loads(STAR))["links"][0]["headroom_bytes"]


@pytest.mark.parametrize(
    ("text", "key", "least"),
    [(STAR, "switch.pfc.quanta", 132), (HOST, "host.path.receive_buffer.quanta", 36)],
)
def test_a_pause_outlasts_its_repetition(text: str, key: str, least: int) -> None:
    """At half of the pause it is repeated, and then a packet of 4,194 or 1,122 B may be in the way."""
    assert drawn_fabrics.lossless_drops(make_plan(loads(text, sets=[f"{key}={least}"]))) == []
    with pytest.raises(ScenarioError, match=f"{key}: found {least - 1}, expected at least {least}"):
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
