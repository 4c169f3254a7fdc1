"""Queueing disciplines: what tc takes and refuses, what it works out, and what it prints."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import tailback
from pydantic import TypeAdapter, ValidationError
from tailback import cli
from tailback.counters import as_tool
from tailback.counters.tc import discipline, rate_text, size_text, time_text
from tailback.scenario.qdisc import Qdisc, Red, qdisc_plan

ADAPTER: TypeAdapter[Any] = TypeAdapter(Qdisc)
BRIDGE = {
    "kind": "red",
    "limit": "2MB",
    "min": "50KB",
    "max": "200KB",
    "avpkt": "1500B",
    "bandwidth": "25Gbps",
    "ecn": True,
    "probability": 0.5,
}


def plan(given: dict[str, Any], mtu: int = 1500) -> Any:
    """As the engine gets it."""
    return qdisc_plan(ADAPTER.validate_python(given), mtu + 14)


def test_tc_works_out_what_is_left_out() -> None:
    red: Red = ADAPTER.validate_python(BRIDGE)
    assert red.burst_packets == 66  # (2 * 50000 + 200000) / (3 * 1500)
    assert red.w_log == 6
    assert ADAPTER.validate_python({**BRIDGE, "max": None}).thresholds == (50_000, 150_000)
    assert ADAPTER.validate_python({**BRIDGE, "min": None}).thresholds == (66_666, 200_000)
    assert ADAPTER.validate_python({**BRIDGE, "min": None, "max": None}).thresholds == (166_666, 500_000)


@pytest.mark.parametrize(
    ("given", "field", "expected"),
    [
        ({**BRIDGE, "burst": 20}, "burst", "at least 34"),
        ({**BRIDGE, "burst": 33}, "burst", "at least 34"),
        ({**BRIDGE, "min": "200KB"}, "min", "less than max, 200KB"),
        ({**BRIDGE, "min": "1GB", "max": "2GB", "burst": 900_000}, "max", "at most"),
        ({"kind": "tbf", "rate": "1Mbps", "burst": "2KB"}, "limit", "one of the two"),
        (
            {"kind": "tbf", "rate": "1Mbps", "burst": "2KB", "limit": "1MB", "child": {"kind": "sfq"}},
            "limit",
            "one",
        ),
        ({"kind": "sfq", "divisor": 1000}, "divisor", "a power of two"),
    ],
)
def test_what_does_not_go_together_names_its_field(given: dict[str, Any], field: str, expected: str) -> None:
    with pytest.raises(ValidationError) as caught:
        ADAPTER.validate_python(given)
    (error,) = caught.value.errors()
    assert error["ctx"]["at"] == field
    assert expected in error["ctx"]["expected"]


@pytest.mark.parametrize(
    "given",
    [
        {**BRIDGE, "probability": 1.0},
        {**BRIDGE, "bandwidth": "40Gbps"},
        {"kind": "tbf", "rate": "1Mbps", "burst": "2KB", "child": {"kind": "noqueue"}},
        {"kind": "fq_codel", "flows": 65_537},
        {"kind": "codel", "target": "5"},
        {"kind": "cake"},
    ],
)
def test_what_tc_refuses_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ADAPTER.validate_python(given)


def test_the_devices_mtu_sets_quantum_and_limit() -> None:
    fq_codel = plan({"kind": "fq_codel"}, mtu=4200)["fq_codel"]
    assert fq_codel["own"]["quantum"] == 4214
    assert plan({"kind": "sfq"})["sfq"]["quantum"] == 1514
    assert plan({"kind": "bfifo"})["bfifo"]["limit"] == 1_514_000


COUNTED: Counter[str] = Counter(
    {
        "qdisc_sent_bytes": 29800422882,
        "qdisc_sent_packets": 7172249,
        "qdisc_dropped": 0,
        "qdisc_overlimits": 184,
        "qdisc_requeues": 34,
        "red_marked": 184,
        "red_early": 0,
        "red_pdrop": 0,
    }
)

REAL = """\
qdisc red 800c: root refcnt 505 limit 2000000b min 50000b max 200000b ecn \n\
 Sent 29800422882 bytes 7172249 pkt (dropped 0, overlimits 184 requeues 34) \n\
 backlog 0b 0p requeues 34
  marked 184 early 0 pdrop 0 other 0 """
"""What a bridge of ConnectX ports printed with `dev`, so that the device is not named."""


def test_red_is_printed_as_tc_printed_it() -> None:
    lines = discipline(plan(BRIDGE), COUNTED, "h0", 504, 0x800C)
    assert "\n".join(lines).replace("dev h0 ", "") == REAL


PFIFO = """\
qdisc pfifo 8001: root refcnt 3 limit 1000p
 Sent 0 bytes 0 pkt (dropped 0, overlimits 0 requeues 0) \n\
 backlog 0b 0p requeues 0"""
"""What tc of iproute2 6.1 printed on a veth device with two transmit queues."""


def test_pfifo_is_printed_as_tc_printed_it() -> None:
    lines = discipline(plan({"kind": "pfifo"}), Counter(), "v0", 2, 0x8001)
    assert "\n".join(lines).replace("dev v0 ", "") == PFIFO


def test_a_child_has_its_parents_handle() -> None:
    tbf = {"kind": "tbf", "rate": "100Mbps", "burst": "10240B", "child": {**BRIDGE, "burst": 60}}
    lines = discipline(plan(tbf), Counter({**COUNTED, "child_sent_packets": 5}), "v0", 1, 0x8001)
    assert lines[0] == "qdisc tbf 8001: dev v0 root refcnt 2 rate 100Mbit burst 10Kb "
    assert lines[3].startswith("qdisc red 8002: dev v0 parent 8001:1 limit 2000000b")
    assert lines[4].startswith(" Sent 0 bytes 5 pkt ")
    fifo = discipline(plan({**tbf, "child": None, "limit": "100KiB"}), Counter(), "v0", 1, 0x8001)
    # 100 KiB less the bucket at 12.5 B a us; the fifo that the kernel makes of the limit is not listed.
    assert fifo[0].endswith("burst 10Kb lat 7.37ms ")
    assert [line for line in fifo if line.startswith("qdisc")] == fifo[:1]


def test_each_transmit_queue_under_mq() -> None:
    lines = discipline(plan({"kind": "fq_codel"}), _fq_codel_counters(), "v0", 4, 0x8001, each=True)
    assert lines[0] == "qdisc mq 0: dev v0 root "
    assert lines[3] == (
        "qdisc fq_codel 0: dev v0 parent :1 limit 10240p flows 1024 quantum 1514 "
        "target 5ms interval 100ms memory_limit 32Mb ecn drop_batch 64 "
    )
    assert lines[6:] == [
        "  maxpacket 1514 drop_overlimit 0 new_flow_count 7 ecn_mark 3",
        "  new_flows_len 1 old_flows_len 2",
    ]


def _fq_codel_counters() -> Counter[str]:
    names = ("maxpacket", "drop_overlimit", "drop_overmemory", "new_flow_count", "ecn_mark")
    lists = ("new_flows_len", "old_flows_len")
    values = zip((*names, *lists), (1514, 0, 0, 7, 3, 1, 2), strict=True)
    return Counter({f"fq_codel_{name}": value for name, value in values})


def test_sizes_times_and_rates_are_tcs() -> None:
    assert [size_text(n) for n in (50_000, 1024, 1_048_576, 2_000_000, 0)] == [
        "50000b",
        "1Kb",
        "1Mb",
        "2000000b",
        "0b",
    ]
    assert [time_text(us) for us in (0, 999, 4999, 100_000, 2_500_000)] == [
        "0us",
        "999us",
        "5ms",
        "100ms",
        "2.5s",
    ]
    assert [rate_text(bps) for bps in (100_000_000, 25_000_000_000, 1_500_000)] == [
        "100Mbit",
        "25Gbit",
        "1500Kbit",
    ]


def test_a_run_over_a_bridge_is_printed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    tailback.run("poor-mans-cp", sets=["run.duration=5ms", "traffic.1.start=0ms"], out=tmp_path / "run")
    assert cli.main(["counters", str(tmp_path / "run"), "--as", "tc"]) == 0
    lines = capsys.readouterr().out.splitlines()
    heads = [line for line in lines if line.startswith("qdisc")]
    assert heads == [
        f"qdisc red {handle}: dev br0:{host} root refcnt 3 limit 2000000b min 50000b max 200000b ecn "
        for handle, host in (("8001", "h0"), ("8002", "h1"))
    ]
    sent = re.fullmatch(r" Sent (\d+) bytes (\d+) pkt \(dropped 0, overlimits \d+ requeues \d+\) ", lines[1])
    assert sent
    assert int(sent[1]) > 1000 * int(sent[2]) > 0


def test_numbers_count_up_from_the_first_discipline_of_each_bridge() -> None:
    child = "{kind: tbf, rate: 1Gbps, burst: 64KB, child: {kind: pfifo}}"
    for qdisc, handles in ((child, ["8001", "8002", "8003", "8004"]), ("null", ["0"] * 4)):
        sets = ["run.duration=1ms", "traffic.1.start=0ms", f"bridge.qdisc={qdisc}"]
        text = as_tool(tailback.run("poor-mans-cp", sets=sets), "tc")
        assert re.findall(r"^qdisc \w+ (\w+):", text, re.MULTILINE) == handles
