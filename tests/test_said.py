"""Sentences of single runs that must hold: marks, standing still, flows cut off, what TCP crosses, depths."""

from __future__ import annotations

from pathlib import Path

import pytest
import tailback
from tailback.errors import InputError
from tailback.explain.faults import sentences
from tailback.explain.observed import Observed
from tailback.metrics import findings
from tailback.report.links import sides
from tailback.results import Result
from tailback.scenario import load, loads, show

FAULTS = Path(__file__).parent / "data/faults"


def run(name: str, *sets: str) -> Result:
    return tailback.run(str(FAULTS / f"{name}.yaml"), sets=list(sets))


def words(result: Result) -> dict[str, str]:
    return {one.what: f"{one.figure} {one.words}" for one in findings(result)}


def test_a_packet_that_two_queues_mark_arrives_marked_once() -> None:
    result = run("marks-over-100-percent")
    signals = result.summary["signals"]
    assert signals["ecn_marked_packets"] > signals["arrived_packets"] >= signals["arrived_marked_packets"] > 0
    assert "data packets that arrived were marked CE" in words(result)["ECN marks"]


def test_a_pause_without_an_end_is_a_fault_that_says_since_when_whose_flows_and_where() -> None:
    result = run("sick-nic-min")
    fault = result.faults[0]
    assert (fault["kind"], fault["where"], fault["flows"]) == ("standing_still", "sw0:h0/tc3", 2)
    assert 0.0028 < fault["from_s"] < 0.0036
    assert fault["to_s"] == 0.04
    assert "h1 to h0, h1 to h2" in fault["text"]
    assert findings(result)[0].what == "Faults"


def test_one_sender_that_is_paused_stands_still_though_others_move() -> None:
    """As the first, beside two hosts that reach each other."""
    text = show(load(str(FAULTS / "sick-nic-min.yaml"))).replace("hosts: 3", "hosts: 5")
    result = tailback.run(loads(text.rstrip("\n") + "\n", sets=["traffic.1.from=h3", "traffic.1.to=h4"]))
    (fault,) = result.faults
    assert fault["where"] == "h1/sq3"
    assert "nothing of h1 in priority 3 arrived" in fault["text"]


@pytest.mark.parametrize(
    "traffic",
    [
        "[{kind: write, from: h0, to: h1, stop: 100us}]",
        "[{kind: write, from: h0, to: h1, start: 1900us}]",
        "[{kind: flows, list: [h0 h1 1MB 0us, h1 h0 1MB 1800us]}]",
        "[{kind: permutation, message: 10KB, repeat: 3, interval: 600us}]",
    ],
)
def test_traffic_that_is_done_or_has_not_begun_does_not_stand_still(traffic: str) -> None:
    text = f"name: gaps\nrun: {{duration: 2ms}}\ntopology: {{kind: star, hosts: 3}}\ntraffic: {traffic}\n"
    assert tailback.run(loads(text)).faults == []


def test_switch_ports_are_as_busy_in_a_part_of_the_run_as_what_passed_them_then() -> None:
    result = run("phase")
    every, _ = sides(result)
    uses = {port: use for side in every for port, use in side.uses.items()}
    # What is left of the first part is what h4 still gets of it.
    up = sum(use for (a, b), use in uses.items() if a == "leaf0" and b.startswith("spine"))
    assert up == pytest.approx(uses["leaf1", "h4"], abs=0.01)
    assert max(use for port, use in uses.items() if "spine" in port[0] + port[1]) < 0.02
    late = run("phase", "traffic.0.stop=200us", "traffic.0.depth=8")
    uses = {port: use for side in sides(late)[0] for port, use in side.uses.items()}
    assert all(use == 0 for port, use in uses.items() if "spine" in port[0] + port[1])


def test_flows_that_the_end_cuts_off_are_counted() -> None:
    result = run("mini")
    fct = result.summary["fct"]
    assert (fct["finished"], fct["cut_off"]) == (127, 5)
    assert fct["counts_by_item"] == {"incast0": {"finished": 127, "cut_off": 5, "failed": 0}}
    assert words(result)["Completion"].startswith("127 of 132 flows finished; 5 were cut off at 4 ms")
    assert result.summary["ended"] == "duration"


def test_a_run_until_done_cuts_nothing_off() -> None:
    text = (FAULTS / "mini.yaml").read_text().replace("duration: 4ms", "until: done")
    result = tailback.run(loads(text))
    assert (result.summary["fct"]["finished"], result.summary["fct"]["cut_off"]) == (132, 0)
    assert result.summary["ended"] == "done"
    bounded = tailback.run(loads(text, sets=["run.duration=4ms"]))
    assert bounded.summary["fct"]["cut_off"] == 5
    with pytest.raises(InputError, match=r"traffic.0.stop: found none, expected one with run.until: done"):
        loads(text.replace(", stop: 3900us", ""))
    with pytest.raises(InputError, match=r"run.duration: found nothing"):
        loads(text.replace("until: done", ""))


@pytest.mark.parametrize("key", ["from", "to"])
def test_tcp_at_a_host_with_a_path_is_refused(key: str) -> None:
    ends = {"from": "h0, to: h1", "to": "h1, to: h0"}[key]
    text = f"""
name: path
run: {{duration: 1ms}}
topology: {{kind: star, hosts: 3}}
host: {{path_by_host: [{{hosts: h0, preset: pcie3-x8}}]}}
traffic:
  - {{kind: write, from: h0, to: h1}}
  - {{kind: tcp, from: {ends}}}
"""
    with pytest.raises(InputError, match=rf"traffic.1.{key}: found TCP at h0, which has a host.path"):
        loads(text)
    loads(text.replace(f"from: {ends}", "from: h1, to: h2"))  # whose data crosses no host path


def test_a_default_depth_is_never_too_deep() -> None:
    text = """
name: deep
run: {duration: 1ms}
topology: {kind: star, hosts: 2}
traffic: [{kind: write, from: h0, to: h1, message: 50MB}]
"""
    scenario = loads(text)
    assert 1 <= scenario.traffic[0].depth < 128  # type: ignore[union-attr]
    assert "less for messages of 50MB" in show(scenario)
    with pytest.raises(InputError, match="depth: found 128, expected at most"):
        loads(text, sets=["traffic.0.depth=128"])


def test_messages_that_are_posted_in_batches_are_said() -> None:
    result = run("depth-16-small-messages")
    assert words(result)["Posted in batches"].startswith("16 messages at a time are posted on a queue pair")
    assert "Posted in batches" not in words(run("depth-16-small-messages", "traffic.0.message=16KiB"))


def test_seeds_draw_routes_only_where_they_are_asked_to() -> None:
    text = """
name: ecmp
run: {duration: 200us}
topology: {kind: leaf-spine, leaves: 2, spines: 2, hosts_per_leaf: 4}
traffic: [{kind: write, from: h0, to: h4}, {kind: write, from: h1, to: h5}]
"""

    def spread(*sets: str) -> set[tuple[int, ...]]:
        found = set()
        for seed in range(1, 5):
            result = tailback.run(loads(text, sets=sets), seed=seed)
            nodes = result.counters_by_node["leaf0"]
            ports = [nodes[f"leaf0:spine{n}"].get("tx_prio3_packets", 0) for n in (0, 1)]
            found.add(tuple(round(port / sum(ports), 1) for port in ports))
        return found

    assert len(spread()) < len(spread("run.ecmp_by_seed=true"))


@pytest.mark.parametrize("outages", [2, 4])
def test_every_outage_of_a_link_is_said(outages: int) -> None:
    """By its times, or of many by their number, the first and the last."""
    each = [f"{{link: leaf0-spine0, at: {2 * n + 1}00us, repair: {2 * n + 2}00us}}" for n in range(outages)]
    text = f"""
name: flaps
run: {{duration: 1200us}}
topology: {{kind: leaf-spine, leaves: 2, spines: 2, hosts_per_leaf: 2}}
failures: [{", ".join(each)}]
traffic: [{{kind: write, from: h0..h1, to: h2..h3, qps: 4}}]
"""
    said = [one for one in sentences(Observed(tailback.run(loads(text)))) if "leaf0-spine0" in one]
    assert len(said) == 1
    assert "from 100 µs to 200 µs" in said[0]
    assert f"from {2 * outages - 1}00 µs to {2 * outages}00 µs" in said[0]
    assert outages <= 2 or f"{outages} times" in said[0]
