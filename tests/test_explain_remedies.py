"""Explain on runs with one known fault each: what is bad, for whom, and which change helps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tailback
from tailback import text
from tailback.cli import main
from tailback.explain import as_text, outcome, page_of, trials
from tailback.explain.remedies.catalogue import ALL_REMEDIES
from tailback.explain.trials import Question
from tailback.explain.verdict import Verdict
from tailback.results import Result

LINK = {"rate": "100Gbps", "delay": "200ns"}


def run(name: str, duration: str, **scenario: Any) -> Result:
    return tailback.run({"name": name, "run": {"duration": duration}, **scenario})


def explained(result: Result, **asked: Any) -> tuple[Verdict, str]:
    verdict = trials.answer(result, tries=True, question=Question(**asked))
    return verdict, " ".join(as_text(page_of(result, verdict)).split())


def gain_of(verdict: Verdict, name: str) -> float:
    return next(
        one.gain or 0.0 for one in verdict.tried if one.remedy is not None and one.remedy.name == name
    )


def test_flows_that_collide_on_one_link_while_another_idles() -> None:
    result = run(
        "one-spine-idle",
        "3ms",
        topology={"kind": "leaf-spine", "leaves": 2, "spines": 2, "hosts_per_leaf": 2},
        host={"mtu": "4096B"},
        traffic=[{"kind": "write", "from": f"h{n}", "to": f"h{n + 2}"} for n in (0, 1)],
    )
    verdict, words = explained(result)
    assert verdict.key == ("routing", "all")
    assert words.startswith("Flows collide on one link while another has room.")
    assert "spine1" in words.split("Evidence")[0]
    assert " 0 %, as ECMP gives each connection one route" in words
    assert "--set switch.load_balancing=adaptive" in words
    assert gain_of(verdict, "adaptive routing") > 1.2
    # Faster links give as much, so it is not sure that it is the routes.
    assert "Fairly sure: " in words
    assert "Flows collide: " in as_text(page_of(result))  # from counters, too
    asked, _ = explained(result, goal="throughput", about="h3")
    assert asked.asked[0].remedy.name == "adaptive routing"  # and not links twice as fast
    adaptive = tailback.run(result.setup.scenario, sets=["switch.load_balancing=adaptive"])
    assert adaptive.summary["goodput"]["total_bps"] > 190e9


def sick(**more: Any) -> Result:
    stalls = {"interval": "500us", "duration": "1s"}
    sick = {"hosts": "h0", "preset": "pcie3-x16", "target": "gpu", "gpu": {"stalls": stalls}}
    return run(
        "sick-nic",
        "20ms",
        topology={"kind": "star", "hosts": 3},
        host={"path_by_host": [sick]},
        traffic=[{"kind": "write", "from": "h1", "to": to} for to in ("h0", "h2")],
        **more,
    )


def test_a_nic_that_stops_receiving() -> None:
    verdict, words = explained(sick())
    assert verdict.key == ("host", "h0")
    assert words.startswith("h0 no longer receives.")
    assert "Nothing arrived since " in words
    assert "Take h0 out of service" in words


TCP_IN_ROCE: dict[str, Any] = {
    "topology": {"kind": "star", "hosts": 4, "link": {"rate": "25Gbps", "delay": "500ns"}},
    "preset": "100g",
    "switch": {"buffer": "16MB"},
    "traffic": [
        {"kind": "write", "from": "h0", "to": "h3", "qps": 4, "start": "10ms"},
        {"kind": "tcp", "from": "h1..h2", "to": "h3", "connections": 8, "priority": 3},
    ],
}


def test_tcp_in_the_class_of_roce() -> None:
    verdict, words = explained(run("tcp-in-roce", "120ms", **TCP_IN_ROCE))
    starved = next(one for one in verdict.symptoms if one.kind == "starved")
    assert starved.about == "write0"
    assert starved.remedy is not None
    assert starved.remedy.name == "TCP in a class of its own"
    assert starved.gain > 1.5
    assert words.startswith("TCP and RoCE share a class, and TCP takes it.")
    assert "write0 of h0 gets" in words
    assert "tcp1 takes 9" in words
    # A link twice as fast is TCP's, too.
    links = [one for one in verdict.tried if one.stage.kind == "link"]
    assert links


def test_roce_in_a_class_that_the_fabric_drops() -> None:
    result = run(
        "wrong-dscp",
        "4ms",
        preset="400g",
        topology={"kind": "star", "hosts": 8, "link": {"rate": "400Gbps", "delay": "100ns"}},
        host={"mtu": "4096B", "qos": {"dscp": {"59": 5}}},
        switch={
            "lossless": [5],
            "qos": {"dscp": {"59": 5}},
            "weights": {"0": 10, "5": 90},
            "ecn": {"priorities": [5]},
            "egress_alpha": 0.0625,
        },
        traffic=[
            {
                "kind": "permutation",
                "message": "20MB",
                "priority": 5,
                "dscp": 59,
                "repeat": 4,
                "interval": "500us",
            },
            {
                "kind": "incast",
                "fan_in": 7,
                "message": "1MiB",
                "interval": "500us",
                "priority": 0,
                "dscp": 0,
            },
        ],
    )
    verdict, words = explained(result)
    dropped = next(one for one in verdict.symptoms if one.kind == "dropped" and one.about == "incast1")
    assert dropped.remedy is not None
    assert dropped.remedy.name == "incast1 in priority 5"
    assert dropped.remedy.sets == ("traffic.1.priority=5", "traffic.1.dscp=59")
    assert "of the packets of incast1 were retransmitted" in words


def test_pfc_headroom_of_0() -> None:
    result = run(
        "headroom-0",
        "3ms",
        topology={"kind": "star", "hosts": 3, "link": LINK},
        host={"congestion": "none"},
        switch={"ecn": None, "pfc": {"headroom": "0B"}},
        traffic=[{"kind": "write", "from": "h0..h1", "to": "h2", "qps": 1}],
    )
    verdict, words = explained(result)
    assert verdict.key == ("headroom", "all")
    assert "--set switch.pfc.headroom=auto" in words
    assert "Sure: " not in words.replace("Fairly sure: ", "")


@pytest.mark.parametrize(("faster", "where"), [([], "h0, h1"), (["h0"], "h1")])
def test_hosts_that_are_alike_are_tried_together_and_alone(faster: list[str], where: str) -> None:
    path = {"preset": "pcie4-x16", "target": "gpu", "reads": {}, "gpu": {"bandwidth": "100Gbps"}}
    fast = [{**path, "hosts": name, "gpu": {"bandwidth": "400Gbps"}} for name in faster]
    result = run(
        "gpu-paths",
        "3ms",
        topology={"kind": "star", "hosts": 2},
        host={"mtu": "4096B", "path": path, "path_by_host": fast},
        traffic=[{"kind": "write", "from": "h0", "to": "h1", "bidirectional": True}],
    )
    verdict, words = explained(result)
    assert verdict.key[0] == "gpu"
    assert f"the path to the GPU's memory (BAR1) of {where}." in words


def test_a_slow_receiver_makes_a_victim_of_another_host() -> None:
    result = run(
        "slow-receiver",
        "5ms",
        topology={
            "kind": "graph",
            "switches": ["swA", "swB"],
            "link": {"rate": "100Gbps", "delay": "250ns"},
            "links": ["slow swA 25Gbps", "fast swA", "array1 swB", "array2 swB", "swA swB 200Gbps"],
        },
        host={"mtu": "4096B", "congestion": "none"},
        switch={"ecn": None, "buffer": "2MB"},
        traffic=[
            {"kind": "write", "from": "array1", "to": "slow", "message": "512KiB", "depth": 8},
            {"kind": "write", "from": "array2", "to": "fast", "message": "512KiB", "depth": 8},
        ],
    )
    verdict, words = explained(result)
    assert verdict.key == ("ecn", "all")
    assert "array2 to fast is slowed down by a queue that it does not fill" in words
    assert "swA:slow is full, which array1 to slow fills" in words
    assert "host.congestion=dcqcn" in words
    victim = next(one for one in verdict.symptoms if one.kind == "victim")
    assert victim.gain > 1


def test_heartbeats_in_the_class_of_bulk() -> None:
    result = run(
        "heartbeat",
        "5ms",
        topology={"kind": "star", "hosts": 3, "link": LINK},
        host={"mtu": "4096B"},
        traffic=[
            {"kind": "write", "from": "h0..h1", "to": "h2", "qps": 16, "message": "1MiB", "depth": 16},
            {"kind": "write-latency", "from": "h0", "to": "h2", "message": "256B", "iterations": None},
        ],
    )
    verdict, words = explained(result)
    late = next(one for one in verdict.symptoms if one.kind == "late")
    assert late.remedy is not None
    assert late.remedy.name == "write-latency1 in a class of its own"
    assert words.startswith("write-latency1 waits behind bulk traffic of the same class.")
    assert "it waits at sw0:h2" in words
    verdict, words = explained(result, goal="latency")
    assert verdict.asked[0].remedy.name == "write-latency1 in a class of its own"
    assert verdict.asked[0].after < 5e-6 < verdict.asked[0].before


def test_an_incast_is_said_to_be_one() -> None:
    result = run(
        "incast",
        "1ms",
        topology={"kind": "star", "hosts": 9, "link": LINK},
        host={"congestion": "none"},
        traffic=[{"kind": "write", "from": "h0..h7", "to": "h8"}],
    )
    verdict, words = explained(result)
    assert verdict.key == ("link", "sw0:h8")
    assert "8 hosts send to h8 at once, an incast" in words
    assert "an incast" in " ".join(as_text(page_of(result)).split())  # from counters, too


def test_two_rings_that_share_a_nic() -> None:
    pairs = [("s0n0", "s1n0"), ("s0n1", "s1n0"), ("s1n0", "s0n0"), ("s1n0", "s0n1")]
    result = run(
        "two-rings",
        "2ms",
        topology={"kind": "rail-optimised", "servers": 2, "nics": 2, "spines": 1, "link": LINK},
        host={"mtu": "4096B"},
        traffic=[{"kind": "write", "from": a, "to": b, "qps": 2, "depth": 8} for a, b in pairs],
    )
    verdict, _ = explained(result, goal="fairness")
    moved = next(one for one in verdict.asked if one.remedy.kind == "nic")
    assert moved.remedy.sets == ("traffic.1.to=s1n1", "traffic.3.from=s1n1")
    assert moved.gain > 0.7


def test_what_if_prints_before_and_after(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(run("tcp-in-roce", "120ms", **TCP_IN_ROCE).write(tmp_path / "run", report=False))
    assert main(["explain", folder, "--set", "traffic.1.priority=1", "--about", "write0", "--json"]) == 0
    asked = json.loads(capsys.readouterr().out)["asked"]
    assert {one["goal"] for one in asked} == {"throughput"}
    assert asked[0]["after"] > 2 * asked[0]["before"]
    assert main(["explain", folder, "--set", "traffic.1.priority=1"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("With traffic.1.priority=1:")
    assert "Goodput of the slowest sender from 0 to " in out
    assert main(["explain", folder, "--set", "traffic.9.priority=1"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert main(["explain", folder, "--about", "h77"]) == 2
    assert "found h77, expected an item of traffic or a host with flows: h0, h1" in capsys.readouterr().err
    assert main(["explain", folder, "--for", "latency", "--no-try"]) == 2
    assert "--no-try" in capsys.readouterr().err


OWN = """
from tailback.explain.remedies import Remedy

def remedies(case):
    if case.pauses:
        yield Remedy("mine", "my own change", "Do it my way.", sets=("switch.lossless=[]",), where="all")
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (OWN, ""),
        ("1 +", "SyntaxError"),
        ("x = 1", "no function remedies"),
        ("def remedies(case):\n    return [1]\n", "found int"),
        ("def remedies(case):\n    return 1 / 0\n", "ZeroDivisionError"),
        (OWN.replace("switch.lossless=[]", "switch.nothing=1"), "switch.nothing"),
    ],
)
def test_a_remedy_of_ones_own(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(text, encoding="utf-8")
    folder = str(run("tcp-in-roce", "20ms", **TCP_IN_ROCE).write(tmp_path / "run", report=False))
    status = main(["explain", folder, "--remedy", str(mine), "--json"])
    out, err = capsys.readouterr()
    if said:
        assert status == 2
        assert said in err
        assert err.count("\n") == 1
    else:
        assert status == 0
        assert {"my own change"} <= {one["what"] for one in json.loads(out)["tried"]}


def test_a_remedy_says_what_it_changes() -> None:
    assert len(ALL_REMEDIES) == len(set(ALL_REMEDIES))
    verdict, _ = explained(sick())
    for one in verdict.tried:
        assert one.remedy is not None
        assert one.remedy.sets or one.remedy.edit is not None
        if one.remedy.sets:
            assert one.remedy.says.endswith(".")
            assert one.remedy.why.endswith(".")


@pytest.mark.parametrize("goal", outcome.ALL_GOALS)
@pytest.mark.parametrize("interval", ["0s", "1ms"])
def test_what_is_compared_is_said_with_its_time(goal: str, interval: str) -> None:
    """A finding counts since the run was steady; what trials are compared by counts from its begin."""
    result = run(
        "spans",
        "6ms",
        topology={"kind": "star", "hosts": 5, "link": LINK},
        traffic=[
            {"kind": "write", "from": "h0..h2", "to": "h4", "start_interval": interval},
            {"kind": "flows", "list": [f"h3 h4 50KB {at}us" for at in range(0, 5000, 500)]},
        ],
    )
    verdict, words = explained(result, goal=goal)
    (compared,) = {one.end_s for one in verdict.asked}
    assert f"{outcome.GOAL_MEANING[goal]} from 0 to {text.duration(compared)}" in words
