"""Metrics, findings, tables and plots of runs with TCP, on made-up recordings."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest
from synthetic import incast, plan, result_of
from synthetic_tcp import CORES, SHARE, tcp_run
from tailback import metrics, scenario
from tailback.metrics import cpu, findings, tcp
from tailback.report import render
from tailback.report.plots import all_plots
from tailback.results import Result


@pytest.fixture(scope="module")
def alone() -> Result:
    return tcp_run()


@pytest.fixture(scope="module")
def mixed() -> Result:
    return tcp_run(mixed=True)


@pytest.fixture(scope="module")
def roce() -> Result:
    recording = incast(senders=4, bins=300, qps=8)
    return result_of(plan(4), recording)


def words(result: Result) -> dict[str, str]:
    return {finding.what: f"{finding.figure} {finding.words}" for finding in findings(result)}


def test_the_total_counts_nothing_twice(mixed: Result, alone: Result) -> None:
    # The series of items are the receivers' bytes once more.
    assert metrics.throughput.total_goodput(mixed, since="start") == metrics.throughput.total_goodput(
        alone, since="start"
    )
    parts = [
        metrics.throughput.total_goodput(mixed, since="start", protocol=name) for name in ("roce", "tcp")
    ]
    assert sum(parts) == pytest.approx(metrics.throughput.total_goodput(mixed, since="start"))


def test_shares_of_a_protocol_and_of_an_item(mixed: Result, alone: Result, roce: Result) -> None:
    assert tcp.goodput_share(mixed, protocol="tcp") == pytest.approx(SHARE)
    assert tcp.goodput_share(mixed, item="tcp1") == pytest.approx(SHARE)
    assert tcp.goodput_share(mixed, item="write0", protocol="tcp") == 0
    assert tcp.goodput_share(alone, protocol="tcp") == 1
    assert tcp.goodput_share(roce, protocol="tcp", since="start") == 0
    with pytest.raises(ValueError, match="expected one of tcp1, write0"):
        metrics.throughput.total_goodput(mixed, item="tcp7")
    with pytest.raises(ValueError, match="expected roce or tcp"):
        metrics.throughput.total_goodput(mixed, protocol="udp")


def test_fairness_of_a_part(mixed: Result) -> None:
    whole = metrics.fairness.sender_goodputs(mixed, "start")
    part = metrics.fairness.sender_goodputs(mixed, "start", protocol="tcp")
    assert part.keys() == whole.keys()
    assert part["h0"] == pytest.approx(whole["h0"] * SHARE)
    assert metrics.fairness.jain_index(mixed, "start", protocol="tcp") == pytest.approx(
        metrics.fairness.jain_index(mixed, "start")
    )
    # Without the series of a sender's parts nothing is said of them.
    mixed.bins._at["goodput_tx_bps"].pop("h2/tcp1")
    try:
        assert metrics.fairness.sender_goodputs(mixed, "start", protocol="tcp") == {}
        assert math.isnan(metrics.fairness.jain_index(mixed, "start", protocol="tcp"))
        assert "h2" in metrics.fairness.sender_goodputs(mixed, "start", protocol="roce")
    finally:
        del mixed.__dict__["bins"]


def test_the_wire_of_tcp(alone: Result, mixed: Result) -> None:
    # 1500 B of IP have 52 B of headers; around them are 38 B of Ethernet.
    assert metrics.links.ideal_payload_share(alone) == pytest.approx(1448 / 1538, abs=1e-12)
    assert alone.setup.on_wire("h0", 3000, "tcp") == (3000, 3000 + 3 * 90)
    assert 1024 / 1122 < metrics.links.ideal_payload_share(mixed) < 1448 / 1538


def test_counts_of_tcp(alone: Result, mixed: Result, roce: Result) -> None:
    for result in (alone, mixed):
        assert tcp.tcp_timeouts(result) == 4  # every fourth of 16
        again = result.summary["tcp"]["retransmitted_segments"]
        assert tcp.tcp_retransmitted_segments(result) == again >= 16 * 3
        assert result.summary["tcp"]["connections_with_timeouts"] == 4
    assert tcp.tcp_timeouts(roce) == 0
    assert math.isnan(tcp.tcp_retransmitted_share(roce))


def test_cpu(alone: Result, roce: Result) -> None:
    assert cpu.receiver_cpu(alone, since="start") == pytest.approx(0.5, abs=0.02)
    assert cpu.receiver_cpu(roce, since="start") == 0  # a WRITE is the NIC's work
    assert math.isnan(cpu.receiver_cpu(alone, since=10.0))  # the run was over by then
    assert cpu.busiest_core(alone) == pytest.approx(0.91)
    found = alone.summary["cpu"]
    assert (found["busiest"], found["cores"], found["rx_out_of_buffer"]) == ("h4", CORES, 1)
    assert list(found["hosts"]) == ["h0", "h1", "h2", "h3", "h4"]
    assert roce.summary["cpu"] is None
    assert roce.summary["tcp"] is None


def test_findings_of_tcp_alone(alone: Result) -> None:
    found = words(alone)
    assert "TCP's share" not in found
    assert "of 16 TCP connections (CUBIC) were retransmitted" in found["TCP retransmitted"]
    assert "32 fast recoveries and 4 timeouts" in found["TCP retransmitted"]
    assert "a silence of 200 ms or more; 4 of the connections had at least one" in found["TCP retransmitted"]
    assert re.match(r"(49|50|51)\S* % of all 4 cores of h4, the busiest host", found["CPU busy"])
    assert "1 packet found no room in a receive ring" in found["CPU busy"]
    assert "RDMA" not in found["CPU busy"]
    assert "NAK" not in found["Drops"]
    assert "CNP" not in found["ECN marks"]
    assert "Fairness" in found


def test_findings_of_both(mixed: Result) -> None:
    found = words(mixed)
    assert found["TCP's share"].startswith("33.3 % of all payload: 16 TCP connections got ")
    assert "16 RoCE queue pairs" in found["TCP's share"]
    assert "RDMA WRITEs cost the receiver's CPU nothing" in found["CPU busy"]
    assert "NAK" in found["Drops"]


def test_findings_without_tcp_are_silent_about_it(roce: Result) -> None:
    assert not {"TCP's share", "TCP retransmitted", "CPU busy"} & set(words(roce))


def test_a_run_without_a_timeout_is_no_warning() -> None:
    calm = {finding.what: finding for finding in findings(tcp_run(timeouts=0))}
    assert calm["TCP retransmitted"].tone == "plain"
    assert "silence" not in calm["TCP retransmitted"].words
    assert calm["CPU busy"].tone == "plain"
    assert {f.what: f.tone for f in findings(tcp_run())}["TCP retransmitted"] == "warning"


def headings(result: Result) -> list[str]:
    return re.findall(r"<h2>(.*?)</h2>", render(result))


def test_the_report_has_what_the_run_has(alone: Result, mixed: Result, roce: Result) -> None:
    own = ("Windows of TCP connections", "CPU of hosts", "TCP, by sender", "CPU, by core")
    assert not set(own) & set(headings(roce))
    assert set(own) <= set(headings(alone))
    assert not {"Throughput by protocol", "Rates of queue pairs", "Flows, by sender"} & set(headings(alone))
    every = {*own, "Throughput by protocol", "Rates of queue pairs", "Flows, by sender"}
    assert every <= set(headings(mixed))
    assert "16 queue pairs · 16 TCP connections" in render(mixed)


def test_every_axis_has_a_unit(mixed: Result) -> None:
    for plot in all_plots(mixed):
        for figure in plot.figures:
            for axis in ("xaxis", "yaxis"):
                assert re.search(r"\(.+\)$", figure.layout[axis]["title"]["text"]), (figure.id, axis)


def test_the_busiest_host_has_its_cores_in_the_table(alone: Result) -> None:
    page = render(alone)
    table = page.split('id="cpu-table"')[1].split("</table>")[0]
    rows = [re.findall(r"<td.*?>(.*?)</td>", row) for row in re.findall(r"<tr>(<td.*?)</tr>", table)]
    assert [row[:2] for row in rows] == [
        ["h4", "all"],
        *(["h4", str(core)] for core in range(CORES)),
        *([f"h{i}", "all"] for i in range(4)),
    ]
    assert rows[0][2:] == ["1 %", "42.5 %", "16.8 %", "39.8 %"]


def test_tcp_runs_are_read_again(tmp_path: Path, mixed: Result) -> None:
    loaded = Result.load(mixed.write(tmp_path / "run"))
    assert loaded.summary == mixed.summary
    json.dumps(mixed.summary, allow_nan=False)


@pytest.mark.parametrize("name", sorted(metrics.METRICS))
def test_every_measure_works_on_tcp(name: str, alone: Result) -> None:
    named = {"counter": {"name": "rx_packets"}, "bridge_counter": {"name": "rx_packets"}}
    named["counter_ratio"] = {"of": "rx_packets", "to": "rx_packets"}
    assert isinstance(metrics.METRICS[name](alone, **named.get(name, {})), float)


def test_only_a_run_with_tcp_rests_on_assumptions_about_it() -> None:
    from tailback.plan import make_plan
    from tailback.recorded.run import _SetupInMemory

    def settings(traffic: str) -> set[str]:
        text = "name: x\nrun: {duration: 1ms}\ntopology: {kind: star, hosts: 2}\ntraffic: [{%s}]\n"
        checked = scenario.loads(text % traffic)
        found = _SetupInMemory(checked, make_plan(checked)).assumptions
        return {one["setting"] for one in found if one["setting"].startswith(("host.cpu", "host.tcp"))}

    assert settings("kind: write, from: h0, to: h1") == set()
    assert "host.cpu.cycles_per_byte" in settings("kind: tcp, from: h0, to: h1")
