"""Congestion control in scenarios: the plan of each kind, what does not go together, how they compare."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tailback
import yaml
from tailback.errors import InputError
from tailback.plan import make_plan
from tailback.report import tables
from tailback.scenario import load, show
from tailback.scenario.headroom import headrooms

ROOT = Path(__file__).parent.parent


def test_the_module_of_the_controllers_is_what_the_engine_declares() -> None:
    command = [sys.executable, str(ROOT / "tools" / "make_settings.py"), "--check"]
    found = subprocess.run(command, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr


def nic(*sets: str) -> Any:
    return make_plan(load("first-flow", sets=sets))["nics"][0]


@pytest.mark.parametrize(
    ("kind", "plan"),
    [
        (
            "hpcc",
            {
                "base_rtt": 3_500_000,
                "eta": 0.95,
                "max_stage": 5,
                "additive": 80,
                "min_rate": 10**8,
                "telemetry": 42,
            },
        ),
        (
            "pint",
            {
                "base_rtt": 3_400_000,
                "eta": 0.95,
                "max_stage": 5,
                "additive": 80,
                "min_rate": 10**8,
                "base": 1.05,
                "probability": 1.0,
                "telemetry": 1,
            },
        ),
        (
            "timely",
            {
                "alpha": 0.02,
                "beta": 0.8,
                "additive": 10**7,
                "hyper_additive": 5 * 10**7,
                "hyper_after": 5,
                "t_low": 50_000_000,
                "t_high": 500_000_000,
                "min_rtt": 20_000_000,
                "segment": 16_000,
                "min_rate": 10**8,
                "telemetry": 8,
            },
        ),
        (
            "dctcp",
            {"g": 0.0625, "additive": 615 * 10**6, "min_rate": 10**8, "window_rtt": 3_400_000},
        ),
    ],
)
def test_the_plan_has_the_published_defaults(kind: str, plan: dict[str, Any]) -> None:
    assert nic(f"host.congestion={kind}")["congestion"] == [{kind: plan}]


def test_an_ack_for_each_packet_where_the_window_needs_it() -> None:
    def every(*sets: str) -> int:
        return int(nic(*sets)["transport"]["ack_every"])

    assert [
        every(f"host.congestion={kind}") for kind in ("dcqcn", "hpcc", "pint", "timely", "dctcp", "none")
    ] == [
        16,
        1,
        1,
        16,
        1,
        16,
    ]
    assert every("host.congestion=timely", "host.transport.ack_every=4") == 4
    shown = show(load("first-flow", sets=["host.congestion=hpcc"]))
    assert "ack_every: 1 " in shown
    assert "default: hpcc takes an ACK of each packet" in shown


@pytest.mark.parametrize(
    ("sets", "problem"),
    [
        (
            ["host.congestion=dctcp", "host.transport.ack_every=2"],
            "host.transport.ack_every: found 2, expected 1 with dctcp, which takes an ACK of each packet",
        ),
        (
            ["host.congestion=hpcc", "topology.link.rate=50Mbps"],
            "host.hpcc.min_rate: found 100Mbps, expected at most the link's rate, 50Mbps",
        ),
        (
            ["host.congestion=timely", "host.timely={t_low: 1ms}"],
            "host.timely.t_low: found 1ms, expected at most t_high, 500us",
        ),
        (["host.hpcc={eta: 0}"], "host.hpcc.eta: found 0, expected"),
    ],
)
def test_what_does_not_go_together(sets: list[str], problem: str) -> None:
    with pytest.raises(InputError) as caught:
        load("first-flow", sets=sets)
    assert problem in str(caught.value)
    assert len(caught.value.problems) == 1


def test_settings_of_another_kind_have_no_effect() -> None:
    assert nic("host.hpcc={min_rate: 1Tbps}") == nic()


def test_headroom_holds_telemetry() -> None:
    plain, hpcc = (headrooms(load("first-flow", sets=sets))[0] for sets in ([], ["host.congestion=hpcc"]))
    # 41,474 B in flight, 84 B of PFC and a packet: 38 of 1,122 B and 44 B, 36 of 1,164 B and 818 B.
    assert (plain, hpcc) == (40 * 1102 + 24, 38 * 1144 + 798)


def test_each_kind_in_the_incast() -> None:
    """HPCC's queue is a few packets, and PINT's; DCTCP's is at K, 300 KB; without control a full buffer."""
    queue = {}
    for kind in ("hpcc", "pint", "timely", "dctcp", "dcqcn", "none"):
        result = tailback.run("cc-incast", sets=["run.duration=10ms", f"host.congestion={kind}"])
        assert result.faults == []
        queue[kind] = _mean_queue(result)
    assert queue["hpcc"] < 5_000
    assert queue["pint"] < 5_000
    assert 280_000 < queue["dctcp"] < 310_000
    assert queue["none"] > 10_000_000


def _mean_queue(result: tailback.Result) -> float:
    """Mean of the bottleneck's queue over the second half of the run, bytes."""
    bins = result.bins
    return float(bins.mean(bins.values("sw0:h16/tc3", "queue_mean_bytes"), bins.end_s / 2))


SEVERAL: dict[str, Any] = {
    "name": "several",
    "run": {"duration": "3ms"},
    "topology": {"kind": "star", "hosts": 5},
    "host": {"congestion_by_host": [{"hosts": "h0..h1", "congestion": "hpcc"}]},
    "traffic": [
        {"kind": "write", "from": ["h0", "h2"], "to": "h4"},
        {"kind": "write", "from": "h3", "to": "h4", "congestion": "none"},
        {"kind": "incast", "fan_in": 2, "message": "64KiB", "interval": "1ms", "congestion": "dctcp"},
    ],
}


def test_hosts_and_traffic_items_run_their_own() -> None:
    result = tailback.run(SEVERAL)
    rows = result.flows.select(["item", "src", "congestion"]).to_pylist()
    ran = {(row["item"], row["src"] if row["item"] == "write0" else ""): row["congestion"] for row in rows}
    assert ran == {
        ("write0", "h0"): "hpcc",
        ("write0", "h2"): "dcqcn",
        ("write1", ""): "none",
        ("incast2", ""): "dctcp",
    }
    table = tables.by_congestion(result)
    assert [row[:4] for row in table.rows] == [
        ["dcqcn", "write0", "1", "1"],
        ["dctcp", "incast2", table.rows[1][2], "6"],
        ["hpcc", "write0", "1", "1"],
        ["none", "write1", "1", "1"],
    ]
    assert tables.by_congestion(tailback.run("first-flow")).rows == []


def test_what_is_shown_of_them_loads_again() -> None:
    scenario = load(SEVERAL)
    again = load(yaml.safe_load(show(scenario)))
    assert make_plan(again) == make_plan(scenario)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            {"hosts": "h9", "congestion": "hpcc"},
            'host.congestion_by_host.0.hosts: found "h9", expected hosts of the network',
        ),
        (
            {"hosts": "h1", "congestion": "bbr"},
            'host.congestion_by_host.0.congestion: found "bbr", expected one of dcqcn, hpcc,',
        ),
    ],
)
def test_which_hosts_and_which_control_must_be_there(change: dict[str, str], problem: str) -> None:
    with pytest.raises(InputError) as caught:
        load({**SEVERAL, "host": {"congestion_by_host": [change]}})
    assert problem in str(caught.value)
    assert len(caught.value.problems) == 1


def test_a_host_has_one() -> None:
    twice = [{"hosts": "h0..h1", "congestion": "hpcc"}, {"hosts": "h1", "congestion": "dctcp"}]
    with pytest.raises(InputError, match="found h1 again, expected hosts that no entry before has"):
        load({**SEVERAL, "host": {"congestion_by_host": twice}})


def test_a_traffic_item_names_one_that_there_is() -> None:
    with pytest.raises(InputError, match=r'traffic\.1\.congestion: found "other", expected one of dcqcn'):
        load(SEVERAL, sets=["traffic.1.congestion=other"])
