"""TCP from a scenario through the engine to the figures of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tailback
from tailback import metrics
from tailback.metrics import findings
from tailback.recorded.traffic_items import sending
from tailback.report import render
from tailback.results import Result


def star(
    traffic: list[dict[str, Any]], hosts: int = 2, duration: str = "20ms", **more: Any
) -> dict[str, Any]:
    return {
        "name": "tcp",
        "run": {"duration": duration},
        "topology": {"kind": "star", "hosts": hosts, "link": {"rate": "10Gbps", "delay": "1us"}},
        "traffic": traffic,
        **more,
    }


def tcp(src: str = "h0", dst: str = "h1", **fields: Any) -> dict[str, Any]:
    return {"kind": "tcp", "from": src, "to": dst, **fields}


@pytest.mark.parametrize(("mtu", "ideal"), [("1500B", 1448 / 1538), ("9000B", 8948 / 9038)])
def test_one_connection_has_what_headers_leave(mtu: str, ideal: float) -> None:
    result = tailback.run(star([tcp()], host={"tcp": {"mtu": mtu}}))
    assert metrics.links.ideal_payload_share(result) == pytest.approx(ideal)
    # From 5 ms on, when slow start is over.
    assert metrics.throughput.total_goodput(result, since=0.005) == pytest.approx(10e9 * ideal, rel=2e-3)


def test_a_finite_connection_ends_with_its_bytes() -> None:
    result = tailback.run(star([tcp(bytes="3MB", connections=2)]))
    rows = result.flows.to_pylist()
    assert [(row["state"], row["bytes_delivered"], row["protocol"]) for row in rows] == [
        ("done", 3_000_000, "tcp")
    ] * 2
    assert result.flows.column("item").unique().to_pylist() == ["tcp0"]
    assert result.summary["fct"] is None  # slowdown is of single messages


def test_rdma_takes_no_cpu_and_tcp_does() -> None:
    write = {"kind": "write", "from": "h0", "to": "h1"}
    assert metrics.cpu.receiver_cpu(tailback.run(star([write])), since="start") == 0
    busy = tailback.run(star([tcp()]))
    cpu = busy.summary["cpu"]
    assert cpu["busiest"] == "h1"
    assert 0 < cpu["share"] < cpu["busiest_core"] <= 1
    # One connection is one core's work.
    assert cpu["share"] == pytest.approx(cpu["busiest_core"] / 16, rel=0.2)
    slow = tailback.run(star([tcp()], host={"cpu": {"clock": "300MHz"}}))
    assert slow.summary["goodput"]["total_bps"] < 0.7 * busy.summary["goodput"]["total_bps"]


def test_both_on_one_wire(tmp_path: Path) -> None:
    traffic = [
        {"kind": "write", "from": "h0..h1", "to": "h2", "qps": 2},
        tcp("h0..h1", "h2", connections=2),
    ]
    result = tailback.run(star(traffic, hosts=3, switch={"lossless": []}), out=tmp_path / "run")
    assert result.flows.column("protocol").value_counts().to_pylist() == [
        {"values": "roce", "counts": 4},
        {"values": "tcp", "counts": 4},
    ]
    found = {finding.what: finding.words for finding in findings(result)}
    assert "RDMA WRITEs cost the receiver's CPU nothing" in found["CPU busy"]
    assert "TCP's share" in found
    assert "4 queue pairs · 4 TCP connections" in render(result)
    assert Result.load(tmp_path / "run").summary == result.summary


def test_dctcp_keeps_the_queue_near_k() -> None:
    result = tailback.run("tcp-dctcp-incast", sets=["run.duration=50ms"])
    standing = result.summary["standing_queue"]
    # Sixteen windows of a few segments overshoot K by about a segment each: Alizadeh et al., section 3.3.
    assert 0.5 * 97_500 < standing["mean_bytes"] < 97_500 + 16 * 1538
    assert result.summary["tcp"]["retransmitted_segments"] == 0
    assert result.summary["tcp"]["ece_received"] > 0
    deeper = tailback.run(
        "tcp-dctcp-incast",
        sets=["run.duration=50ms", "host.tcp.control=cubic", "switch.ecn=null"],
    )
    assert deeper.summary["standing_queue"]["mean_bytes"] > 10 * standing["mean_bytes"]


def test_an_incast_of_tcp_drops_and_its_books_balance() -> None:
    result = tailback.run("tcp-incast", sets=["run.duration=20ms", "traffic.0.connections=8"])
    assert result.summary["tcp"]["connections"] == 16 * 8
    assert result.summary["losses"]["dropped_packets"] > 0
    assert not result.faults
    assert result.meta["conservation"]["ok"]


TEST = {"kind": "write-latency", "from": "h0", "to": "h2"}


@pytest.mark.parametrize(
    ("roce", "senders"),
    [([TEST], ["h0", "h2"]), ([TEST, {"kind": "write", "from": "h3", "to": "h2"}], ["h3"])],
)
def test_a_latency_test_beside_tcp(roce: list[dict[str, Any]], senders: list[str]) -> None:
    """Of a part of the traffic, as of the whole, it is a sender only where there is no other."""
    result = tailback.run(star([*roce, tcp("h1", "h2")], hosts=4, duration="2ms"))
    assert sending(result, protocol="roce") == senders
    assert sending(result, protocol="tcp") == ["h1"]
    assert sending(result, item="write-latency0") == ["h0", "h2"]
    assert list(metrics.fairness.sender_goodputs(result, 0.0, protocol="roce")) == senders
    assert "Flows, by sender" in render(result)


def test_nothing_is_sent_again_that_still_waits_for_the_wire_and_no_core_works_ahead() -> None:
    # A segment takes 1.2 ms of the wire, and timeouts come while most wait in the host's own rings.
    slow = star([tcp(connections=7)], duration="4ms", host={"tcp": {"min_rto": "1ms", "delayed_ack": "1us"}})
    slow["topology"]["link"]["rate"] = "10Mbps"
    slow["host"]["cpu"] = {"cores": 1, "clock": "1MHz"}
    for cpu in ({"cores": 1, "clock": "1MHz"}, {}):
        result = tailback.run({**slow, "host": {**slow["host"], "cpu": cpu}})
        for flow in result.flows.to_pylist():
            assert flow["packets_retransmitted"] <= flow["packets_sent"]
        assert all(sum(core.values()) <= 1 + 1e-9 for host in result.meta["cpu"] for core in host["cores"])
    assert result.summary["tcp"]["timeouts"] > 0
