"""Explain on whole fabrics: networks of one's own, and the scenarios whose verdicts were once misleading."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import explain_work
import explain_world
import pytest
import tailback
from explain_truth import record
from tailback.explain import Verdict, as_text, explain, faults, page, trials
from tailback.explain.observed import Observed
from tailback.explain.triable import why_not
from tailback.plan import make_plan
from tailback.results import Result
from tailback.scenario import Scenario, load

LINK = {"rate": "400Gbps", "delay": "500ns"}
OVERSUBSCRIBED: dict[str, Any] = {
    "name": "all-to-all-400g",
    "run": {"duration": "5ms"},
    "topology": {
        "kind": "leaf-spine",
        "leaves": 4,
        "spines": 4,
        "hosts_per_leaf": 8,
        "link": LINK,
        "fabric": LINK,
    },
    "traffic": [{"kind": "all-to-all", "message": "64KiB"}],
}
INCAST: dict[str, Any] = {
    "name": "four-to-one",
    "run": {"duration": "12ms"},
    "topology": {"kind": "star", "hosts": 5},
    "switch": {"shared": "4MiB", "ecn": None, "pfc": {"headroom": "2KB"}},
    "traffic": [{"kind": "write", "from": "h0..h3", "to": "h4", "qps": 4, "start_interval": "1ms"}],
}

QUICK_CONSUMER: dict[str, Any] = {
    "name": "flood",
    "run": {"duration": "50ms"},
    "topology": {"kind": "veth"},
    "veth": {"qdisc": {"kind": "fq_codel"}, "bql": "packets"},
    "traffic": [{"kind": "udp-flood", "payload": "24B"}],
}
SHAPED: dict[str, Any] = {
    "name": "shaped",
    "run": {"duration": "5ms"},
    "topology": {"kind": "bridge", "hosts": 2, "link": {"rate": "25Gbps", "delay": "100ns"}},
    "host": {"congestion": "none", "mtu": "4096B"},
    "bridge": {
        "qdisc": {"kind": "tbf", "rate": "5Gbps", "burst": "64KB", "limit": "4MB"},
        "costs": {"receive": "300ns"},
    },
    "traffic": [{"kind": "write", "from": "h1", "to": "h0", "depth": 8, "message": "8KiB"}],
}
COLLAPSED: dict[str, Any] = {
    **SHAPED,
    "name": "collapsed",
    "topology": {"kind": "bridge", "hosts": 3, "link": {"rate": "10Gbps", "delay": "100ns"}},
    "host": {
        "congestion": "none",
        "mtu": "2048B",
        "transport": {"adaptive_timeout": "1ms", "slow_restart": "never"},
    },
    "bridge": {
        "cores": [{"cpu": 0}],
        "ports": [{"to": name, "irqs": [0]} for name in ("h0", "h1", "h2")],
        "rx_ring": 256,
        "qdisc": {"kind": "fq_codel"},
        "costs": {"receive": "1us"},
    },
    "traffic": [{"kind": "write", "from": ["h1", "h2"], "to": "h0", "depth": 32, "start_interval": "10us"}],
}


def bridged(hosts: int, rate: str, qdisc: str, depth: int, message: str, *, adaptive: bool) -> dict[str, Any]:
    """All but one write to that one through a bridge with one core."""
    names = [f"h{number}" for number in range(hosts)]
    moderation = {"adaptive": adaptive}
    return {
        "name": "bridged",
        "run": {"duration": "5ms"},
        "topology": {"kind": "bridge", "hosts": hosts, "link": {"rate": rate, "delay": "100ns"}},
        "host": {
            "mtu": "4096B",
            "congestion": "none",
            "transport": {"adaptive_timeout": "1ms", "slow_restart": "never"},
        },
        "bridge": {
            "cores": [{"cpu": 0}],
            "ports": [{"to": name, "irqs": [0]} for name in names],
            "rx_ring": 4096,
            "rx": moderation,
            "tx": moderation,
            "qdisc": {"kind": qdisc},
            "costs": {"receive": "300ns"},
        },
        "traffic": [{"kind": "write", "from": names[1:], "to": "h0", "depth": depth, "message": message}],
    }


WAITS_FOR_INTERRUPTS = bridged(4, "10Gbps", "fq_codel", 8, "8KiB", adaptive=False)
"""A window goes round so slowly that a faster link to the receiver waits for the senders' links."""
CORE_FIRST = bridged(2, "40Gbps", "fq_codel", 2, "64KiB", adaptive=True)
SHORT_QDISC = bridged(4, "40Gbps", "pfifo", 32, "64KiB", adaptive=True)
"""Its discipline drops, and its rings do not, though the core between them has no time left."""
BUSY_BEHIND_A_LINE: dict[str, Any] = {
    "name": "dctcp",
    "run": {"duration": "20ms"},
    "topology": {"kind": "star", "hosts": 5, "link": {"rate": "25Gbps", "delay": "1us"}},
    "host": {
        "cpu": {"cores": 2, "clock": "2.5GHz"},
        "tcp": {"control": "dctcp", "min_rto": "5ms", "delayed_ack": "1ms"},
    },
    "switch": {"lossless": []},
    "traffic": [{"kind": "tcp", "from": "h0..h3", "to": "h4", "connections": 2, "start_spread": "1ms"}],
}


def verdict_of(scenario: Scenario) -> tuple[dict[str, Any], Verdict]:
    plan = make_plan(scenario)
    result = Result.from_recording(scenario, plan, record(plan), 1.0, 1.0, False)
    result.meta["name"] = "hidden"
    return plan, answered(result)


def answered(result: Result) -> Verdict:
    """The answer that a user is given: from trials where they are possible."""
    verdict = explain(result)
    return verdict if why_not(result) is not None else trials.tried(result, verdict)


@pytest.mark.parametrize(
    ("given", "sets", "key"),
    [
        (OVERSUBSCRIBED, [], ("link", "leaf-spine")),
        (OVERSUBSCRIBED, ["host.mtu=4096B"], ("link", "leaf-spine")),
        ("rail-all-to-all", [], ("link", "rail-spine")),
        ("link-failure", [], ("link", "leaf-spine")),
        # One cable, doubled both ways: either end names it.
        ("gpudirect-pfc", ["run.duration=20ms"], ("link", "h0:h1")),
        (INCAST, [], ("headroom", "all")),
        (QUICK_CONSUMER, [], ("flood", "udp-flood0")),
        (SHAPED, [], ("qdisc", "br0")),
        (WAITS_FOR_INTERRUPTS, [], ("link", "hosts")),
        (CORE_FIRST, [], ("softirq", "br0")),
        (SHORT_QDISC, ["bridge.qdisc.limit=1000"], ("qdisc", "br0")),
        (COLLAPSED, [], ("softirq", "br0")),
        (BUSY_BEHIND_A_LINE, [], ("link", "sw0:h4")),
    ],
)
def test_what_is_named_is_worth_most(given: Any, sets: list[str], key: tuple[str, str]) -> None:
    plan, verdict = verdict_of(load(given, sets=sets))
    assert verdict.key == key
    truth = explain_work.find(plan)
    assert explain_work.judge(truth, verdict.key, explain_work.said_gain(truth, verdict, {}))


def test_a_deadlock_is_read_before_anything_else() -> None:
    _, verdict = verdict_of(load("pfc-deadlock", sets=["run.duration=20ms"]))
    assert verdict.key == ("deadlock", "sw0:sw1/tc3")
    words = as_text(page(verdict))
    assert words.startswith("A deadlock: ")
    assert "Sure: " in words


def test_a_fabric_says_how_far_it_is_oversubscribed_and_when_it_looked() -> None:
    _, verdict = verdict_of(load(OVERSUBSCRIBED))
    words = " ".join(as_text(page(verdict)).split())
    assert words.startswith("The bottleneck is the links between leaf and spine switches.")
    assert "oversubscribed 2:1" in words
    assert " measured from " in words


def test_what_a_port_lost_is_told_by_its_ends() -> None:
    topology = {"kind": "star", "hosts": 3, "link": {"loss": 1e-2}}
    write = {"kind": "write", "from": "h0..h1", "to": "h2"}
    scenario = {"name": "dirty", "run": {"duration": "1ms"}, "topology": topology, "traffic": [write]}
    result = tailback.run(scenario)
    assert {(one["node"], one["peer"]) for one in result.meta["drops"]} >= {("h0", "sw0"), ("sw0", "h2")}
    for one in result.meta["drops"]:
        one["where"] = "somewhere"
    seen = Observed(result)
    assert seen.lost_on_wire["sw0", "h2"] > 0
    assert seen.sent_by["sw0", "h2"] > 0


def test_a_port_without_headroom_is_told_by_its_ends() -> None:
    result = tailback.run(INCAST)
    fault = result.meta["faults"][0]
    assert (fault["kind"], fault["node"]) == ("lossless_drop", "sw0")
    fault["where"] = "somewhere"
    assert (fault["node"], fault["peer"]) in faults.without_headroom(Observed(result))


def test_a_link_that_was_down_is_said() -> None:
    _, verdict = verdict_of(load("link-failure"))
    assert "The link leaf0-spine1 was down from 2 ms to 4 ms." in " ".join(as_text(page(verdict)).split())


def test_no_port_is_busier_than_its_wire() -> None:
    _, verdict = verdict_of(load(OVERSUBSCRIBED))
    assert all(0 <= one.stage.use <= 1 for one in verdict.candidates)


def test_paths_carry_all_of_a_pair() -> None:
    seen = verdict_of(load(OVERSUBSCRIBED))[1].seen
    for pair in seen.pairs[:50]:
        found = seen.routes(pair)
        assert sum(part for _, part in found) == pytest.approx(1)
        for ports, _ in found:
            assert (ports[0][0], ports[-1][1]) == pair.ends
            assert all(before[1] == after[0] for before, after in pairwise(ports))


def test_it_is_mostly_right_on_drawn_runs() -> None:
    """A sample of what tools/explain_accuracy.py --world does in full: see docs/explain.md."""
    wrong = []
    for number in range(16):
        one = explain_world.draw(6, number)
        scenario, plan = one.plan()
        result = Result.from_recording(scenario, plan, record(plan), 1.0, 1.0, False)
        verdict = answered(result)
        truth = explain_work.find(plan)
        if not explain_work.judge(truth, verdict.key, explain_work.said_gain(truth, verdict, {})):
            wrong.append((one.words, truth.gains, verdict.key))
    assert len(wrong) <= 3, wrong


def test_a_run_without_traffic_says_so() -> None:
    result = tailback.run(
        {
            "name": "late",
            "run": {"duration": "1ms"},
            "topology": {"kind": "star", "hosts": 2},
            "traffic": [{"kind": "flows", "list": ["h0 h1 1KB 900us"]}],
        },
        sets=["run.duration=1us", "traffic.0.list.0=h0 h1 1KB 0us"],
    )
    assert explain(result).key == ("none", "")
