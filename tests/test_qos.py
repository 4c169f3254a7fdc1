"""Classes: what a scenario says of them, what the plan has of it, and whole setups by one key."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import tailback
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tailback.errors import InputError
from tailback.plan import make_plan
from tailback.scenario import load, loads, show
from tailback.scenario.assumptions import assumptions
from tailback.scenario.presets import QOS_SETUPS
from test_fuzz_scenario import WORDS, answer, nested, paths, scalars

TEXT = """\
name: q
run: {duration: 1ms}
topology: {kind: star, hosts: 3}
traffic: [{kind: write, from: h0..h1, to: h2}]
"""


def plan(*sets: str, text: str = TEXT) -> dict[str, Any]:
    return make_plan(loads(text, sets=list(sets)))


def refused(*sets: str) -> list[str]:
    with pytest.raises(InputError) as caught:
        loads(TEXT, label="x.yaml", sets=list(sets))
    return str(caught.value).splitlines()


def test_marks_and_classes() -> None:
    made = plan("traffic.0.dscp=26", "switch.qos={dscp: {26: 5}}", "host.qos={trust: pcp, pcp: {6: 7}}")
    assert made["code_points"] == [{"dscp": 26, "pcp": 3}, {"dscp": 48, "pcp": 6}]
    assert made["switch_models"][0]["class_of"] == [5, 6]
    assert made["nics"][0]["class_of"] == [3, 7]
    assert made["nics"][0]["strict"] == [7], "the class of CNPs"
    untrusted = plan("switch.qos={trust: port, default_priority: 2}")
    assert untrusted["switch_models"][0]["class_of"] == [2, 2]


def test_cnps_with_the_data() -> None:
    nic = plan("host.cnp_priority=data")["nics"][0]
    assert (nic["cnp_code_point"], nic["strict"], nic["class_of"]) == (None, [], [3])


def test_shares_pools_thresholds_and_watchdog() -> None:
    made = plan(
        "switch.weights={3: 70, 0: 30}",
        "host.weights={0: 100}",
        "switch.shared=6MB",
        "switch.pools={lossless: 4MB}",
        "switch.ecn={priorities: [3, 0]}",
        "switch.ecn_by_priority=[{priorities: [0, 1], k_min: 30KB, k_max: 30KB}]",
        "switch.watchdog={restoration_time: 1ms}",
    )
    model = made["switch_models"][0]
    assert model["weights"] == [30, 0, 0, 70, 0, 0, 0, 0]
    assert made["nics"][0]["weights"] == [100, 0, 0, 0, 0, 0, 0, 0]
    assert model["pools"] == {"lossless_bytes": 4_000_000, "lossy_bytes": 2_000_000}
    assert [(ecn["priorities"], ecn["k_min"]) for ecn in model["ecn"]] == [
        ([3], 150_000),
        ([0, 1], 30_000),
    ]
    assert model["watchdog"] == {"detection_time": 2 * 10**11, "restoration_time": 10**9}


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        ("host.cnp_priority=8", "host.cnp_priority: found 8, expected a priority of 0 to 7, or data"),
        ("host.cnp_priority=true", "host.cnp_priority: found true, expected a priority of 0 to 7, or data"),
        ("switch.weights={3: 50}", "switch.weights: found 50, expected shares in % that add up to 100"),
        ("switch.weights={8: 100}", 'switch.weights: found "8", expected a priority of 0 to 7'),
        ("switch.weights={3: no}", 'switch.weights.3: found "no", expected shares in % of 1 to 100'),
        (
            "switch.weights={6: 100}",
            "switch.weights: found a share for priority 6, expected none: it is strict",
        ),
        (
            "switch.qos.dscp=[1]",
            "switch.qos.dscp: found a list, expected a mapping of DSCP (0 to 63) to a priority (0 to 7)",
        ),
        ("switch.qos.trust=vlan", 'switch.qos.trust: found "vlan", expected one of dscp, pcp, port'),
        ("traffic.0.dscp=64", "traffic.0.dscp: found 64, expected at most 63"),
        (
            "switch.pools={lossless: 16MB}",
            "switch.pools.lossless: found 16MB, expected both pools to fit what is shared of the buffer, ",
        ),
        (
            "switch.pools={lossless: 1MB, lossy: 15.9MB}",
            "switch.pools.lossy: found 15.9MB, expected both pools to fit what is shared of the buffer, ",
        ),
        (
            "switch.ecn_by_priority=[{priorities: [1]}, {priorities: [2, 1]}]",
            "switch.ecn_by_priority.1.priorities: found 1, expected priorities that no entry before has",
        ),
        ("qos=best", 'qos: found "best", expected one of lossless-with-qos, lossy-default'),
    ],
)
def test_one_problem(setting: str, problem: str) -> None:
    lines = refused(setting)
    assert len(lines) == 1
    assert lines[0].startswith(f"--set {problem}"), lines


def test_too_many_marks() -> None:
    items = [
        {"kind": "write", "from": "h0", "to": "h1", "priority": priority, "dscp": dscp}
        for priority in (0, 3)
        for dscp in range(40)
    ]
    data = {"name": "q", "run": {"duration": "1ms"}, "topology": {"kind": "star", "hosts": 2}}
    with pytest.raises(
        InputError, match="found 81 different pairs of priority and dscp, expected at most 64"
    ):
        load({**data, "traffic": items})
    assert len(make_plan(load({**data, "traffic": items[:63]}))["code_points"]) == 64


@pytest.mark.parametrize("name", list(QOS_SETUPS))
def test_a_setup_fills_in_what_is_not_given_and_says_so(name: str) -> None:
    scenario = loads(TEXT, sets=[f"qos={name}", "switch.strict=[7]", "switch.ecn.k_min=1KB"])
    shown = show(scenario)
    assert scenario.switch.strict == [7]
    assert scenario.switch.ecn is not None
    assert scenario.switch.ecn.k_min == 1000
    assert sum(f"# {name}: " in line for line in shown.splitlines()) == len(QOS_SETUPS[name]) - 2
    assert make_plan(loads(shown)) == make_plan(scenario)
    assert make_plan(load(scenario)) == make_plan(scenario)


def test_the_setups() -> None:
    qos = plan("qos=lossless-with-qos")
    model, nic = qos["switch_models"][0], qos["nics"][0]
    assert (model["lossless"], model["strict"], nic["strict"]) == ([3], [6], [6])
    assert model["weights"] == nic["weights"] == [50, 0, 0, 50, 0, 0, 0, 0]
    assert model["pools"]["lossless_bytes"] == 4 << 20
    assert model["pools"]["lossy_bytes"] == model["shared_bytes"] - (4 << 20)
    assert [ecn["priorities"] for ecn in model["ecn"]] == [[3]]
    lossy = plan("qos=lossy-default")
    model, nic = lossy["switch_models"][0], lossy["nics"][0]
    assert set(model["class_of"]) == set(nic["class_of"]) == {0}
    assert model["lossless"] == model["strict"] == nic["strict"] == []
    assert (model["pools"], model["weights"]) == (None, None)
    assert 0 in model["ecn"][0]["priorities"]


def test_another_setup_replaces_what_the_first_filled_in() -> None:
    first = loads(TEXT, sets=["qos=lossless-with-qos"])
    assert make_plan(load(first, sets=["qos=lossy-default"])) == plan("qos=lossy-default")
    assert make_plan(load(first, sets=["qos=null"])) == plan()


def test_a_section_that_is_switched_off_stays_off() -> None:
    assert plan("qos=lossless-with-qos", "switch.ecn=null")["switch_models"][0]["ecn"] == []
    assert plan("qos=lossless-with-qos", "switch.pools=null")["switch_models"][0]["pools"] is None


def test_assumptions_of_a_setup_are_listed() -> None:
    found = assumptions(show(loads(TEXT, sets=["qos=lossless-with-qos"])))
    assert {"setting": "switch.weights", "value": "{0: 50, 3: 50}", "why": "equal shares"} in found


def test_a_deadlock_and_its_watchdog() -> None:
    stuck = tailback.run("pfc-deadlock")
    (fault,) = stuck.faults
    assert fault["text"].endswith(
        "sw0:sw1/tc3 -> sw1:sw2/tc3 -> sw2:sw3/tc3 -> sw3:sw4/tc3 -> sw4:sw0/tc3 -> sw0:sw1/tc3"
    )
    times = "switch.watchdog={detection_time: 20ms, restoration_time: 5ms}"
    watched = tailback.run("pfc-deadlock", sets=[times, "run.duration=60ms"])
    assert watched.complete
    # Until the watchdog acts, nothing moves for a third of the run.
    assert {fault["kind"] for fault in watched.faults} == {"standing_still"}
    storms = watched.summary["pause_storms"]
    assert len(storms) == 5
    dropped = sum(storm["tx_dropped_packets"] + storm["rx_dropped_packets"] for storm in storms)
    assert dropped == watched.summary["losses"]["dropped_packets"] > 0


DATA: dict[str, Any] = {
    "name": "q",
    "run": {"duration": "1ms"},
    "qos": "lossless-with-qos",
    "topology": {"kind": "star", "hosts": 3},
    "host": {
        "qos": {"trust": "pcp", "default_priority": 1, "dscp": {"26": 4}, "pcp": {"1": 2}},
        "cnp_priority": "data",
        "strict": [6],
        "weights": {"0": 100},
    },
    "switch": {
        "qos": {"trust": "dscp", "dscp": {"26": 3}},
        "weights": {"0": 40, "3": 60},
        "pools": {"lossless": "1MB", "lossy": "2MB"},
        "ecn": {"priorities": [3]},
        "ecn_by_priority": [{"priorities": [0], "k_min": "1KB", "k_max": {"100Gbps": "2KB"}}],
        "watchdog": {"detection_time": "1ms", "restoration_time": "1ms"},
    },
    "traffic": [{"kind": "write", "from": "h0", "to": "h1", "dscp": 26}],
}


@given(
    st.sampled_from(paths(DATA)[1:]),
    st.one_of(nested, scalars, st.integers(-1, 64), st.dictionaries(st.sampled_from(WORDS), scalars)),
)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_value_of_a_class_key(path: tuple[Any, ...], value: Any) -> None:
    data = copy.deepcopy(DATA)
    holder: Any = data
    for part in path[:-1]:
        holder = holder[part]
    holder[path[-1]] = value
    answer(lambda: load(data))


def test_the_fuzzed_scenario_is_one() -> None:
    assert answer(lambda: load(DATA)) is not None


def faults_of(text: str, *sets: str) -> list[str]:
    return [fault["text"] for fault in tailback.run(loads(text, sets=list(sets))).faults]


INCAST = """\
name: q
run: {duration: 400us}
topology: {kind: star, hosts: 4}
host: {congestion: none}
switch: {shared: 20KB}
traffic: [{kind: write, from: h0..h2, to: h3}]
"""


def test_a_fault_says_where_no_pause_stops_the_packets() -> None:
    """The switch pauses priority 3, and the NICs have the same packets in priority 5."""
    assert faults_of(INCAST) == []
    (first, *_) = faults_of(INCAST, "host.qos={trust: pcp, pcp: {3: 5}}")
    end = "; no pause of it stops what h0 sends in priority 5 (host.qos and switch.qos differ)"
    assert first.startswith("lossless priority 3 dropped packets at port sw0:h0")
    assert first.endswith(end)
    # The same priority by other marks: the headroom is too small, and that is all.
    (small, *_) = faults_of(INCAST, "host.qos={trust: pcp}", "switch.pfc.headroom=2000B")
    assert "are enough at this port" in small


def test_a_receive_buffers_pauses_name_all_of_its_priorities() -> None:
    """What the NIC has in priority 4 comes in 3; where its buffer is that of both, it is paused."""
    path = "host.path={preset: pcie3-x16, receive_buffer: {lossless: %s}}"
    other = "host.qos={trust: pcp, pcp: {3: 4}}"
    slow = "memory_load=[{host: h3, cores: 64}]"
    sets = ("switch.lossless=[3, 4]", "switch.shared=4MB", "run.duration=2ms", other, slow)
    found = faults_of(INCAST, *sets, path % "[4]")
    of_host = [text for text in found if "h3/nic-rx" in text]
    assert of_host[0].endswith(
        "; no pause of it stops what sw0 sends in priority 3 (host.qos and switch.qos differ)"
    )
    assert not any("h3/nic-rx" in text for text in faults_of(INCAST, *sets, path % "[3, 4]"))


def test_a_shared_buffer_is_refused_where_qos_sets_the_pools() -> None:
    with pytest.raises(InputError) as refused:
        load("cc-incast", sets=["qos=lossless-with-qos", "switch.shared=6MiB"])
    expected = "expected auto where qos sets switch.pools; or switch.pools of its own"
    assert str(refused.value) == f'--set switch.shared: found "6MiB", {expected}'
    own = ["qos=lossless-with-qos", "switch.shared=2MiB", "switch.pools={lossless: 1MiB, lossy: auto}"]
    model = make_plan(load("cc-incast", sets=own))["switch_models"][0]
    assert model["pools"] == {"lossless_bytes": 1 << 20, "lossy_bytes": 1 << 20}
    assert load("cc-incast", sets=["qos=lossless-with-qos", "switch.shared=auto"]).switch.pools is not None
