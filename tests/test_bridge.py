"""Linux bridges and latency tests: scenarios, results, and the published experiment in short runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from tailback import metrics
from tailback.counters import as_tool
from tailback.errors import InputError
from tailback.plan import make_plan
from tailback.report import render
from tailback.results import Result
from tailback.running import run
from tailback.scenario import load, loads
from tailback.scenario.round_trip import longest_round_trip
from tailback.scenario.show import resolved_yaml
from tailback.study.claims import reproduce

BASE = """
name: small
run: {duration: 20ms}
topology: {kind: bridge, link: {rate: 25Gbps, delay: 10ns}}
host: {mtu: 4096B}
traffic:
  - {kind: write, from: h1, to: h0}
"""


def refused(text: str) -> list[str]:
    with pytest.raises(InputError) as error:
        loads(text)
    return [str(problem) for problem in error.value.problems]


def with_bridge(lines: str) -> str:
    return BASE + "bridge:\n" + "".join(f"  {line}\n" for line in lines.splitlines())


@pytest.fixture(scope="module")
def result() -> Result:
    return run(load("poor-mans-cp", sets=["run.duration=400ms"]))


def test_defaults_make_a_plan() -> None:
    plan = make_plan(loads(BASE))
    assert plan["bridges"] == [{"name": "br0", "model": 0}]
    model = plan["bridge_models"][0]
    assert [port["irq_cores"] for port in model["ports"]] == [[0, 1, 2, 3]] * 2
    assert (model["host"]["rx_ring"], model["host"]["tx_ring"], model["multiqueue"]) == (1024, 1024, True)
    assert list(model["qdisc"]) == ["fq_codel"]
    assert plan["switches"] == []


def test_what_is_left_out_is_filled_in_where_it_is_shown_and_assumed() -> None:
    scenario = loads(BASE)
    shown = resolved_yaml(scenario)
    assert "\n  rx_ring: 1024\n" in shown
    assert "bridge: null" not in shown
    assert "veth:" not in shown
    assert loads(BASE + "bridge: null\n") == loads(BASE + "bridge: {}\n") == scenario
    assert make_plan(loads(shown)) == make_plan(scenario)
    assumed = {one["setting"] for one in run(scenario).assumptions}
    assert "bridge.costs.transmit" in assumed
    assert not {"bridge", "veth"} & assumed


def test_isolated_cores_take_no_interrupts() -> None:
    text = with_bridge("cores: [{cpu: 0, isolated: true}, {cpu: 8}, {cpu: 9}]")
    model = make_plan(loads(text))["bridge_models"][0]
    assert model["ports"][0]["irq_cores"] == [1, 2]  # by their place among the cores


def test_a_port_is_found_by_its_host() -> None:
    text = with_bridge("cores: [{cpu: 7}, {cpu: 9}]\nports: [{to: h1, irqs: [9, 7], rss: [1], numa: 2}]")
    ports = make_plan(loads(text))["bridge_models"][0]["ports"]
    assert ports[0] == {"numa": 0, "irq_cores": [0, 1], "rss": [0, 1]}
    assert ports[1] == {"numa": 2, "irq_cores": [1, 0], "rss": [1]}


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("rx_ring: 32", "bridge.rx_ring: found 32, expected at least 64"),
        ("ports: [{to: h7}]", 'bridge.ports.0.to: found "h7", expected one of h0, h1'),
        ("ports: [{to: h0}, {to: h0}]", 'bridge.ports.1.to: found "h0" twice, expected every host once'),
        (
            "ports: [{to: h0, irqs: [5]}]",
            "bridge.ports.0.irqs.0: found 5, expected one of bridge.cores, 0, 1, 2, 3",
        ),
        (
            "cores: [{cpu: 1}, {cpu: 2, isolated: true}]\nports: [{to: h0, irqs: [2]}]",
            "bridge.ports.0.irqs.0: found 2, expected a core that is not isolated",
        ),
        (
            "ports: [{to: h0, irqs: [1], rss: [1]}]",
            "bridge.ports.0.rss.0: found 1, expected one of the 1 channels, 0 to 0",
        ),
        ("cores: [{cpu: 1}, {cpu: 1}]", "bridge.cores: found cpu 1 twice, expected every core once"),
        (
            "qdisc: {kind: noqueue}",
            "bridge.qdisc: found noqueue, expected a discipline with a queue, as every device has one",
        ),
        (
            "bql: {limit_min: 2MB, limit_max: 1MB}",
            "bridge.bql.limit_min: found 2MB, expected at most limit_max, 1MB",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(lines: str, expected: str) -> None:
    problems = refused(with_bridge(lines))
    assert len(problems) == 1, problems
    assert expected in problems[0]


def test_a_bridge_without_its_topology_is_refused() -> None:
    text = BASE.replace("kind: bridge", "kind: star, hosts: 2") + "bridge: {rx_ring: 512}\n"
    assert any("found a bridge, expected none" in problem for problem in refused(text))


def test_a_latency_test_needs_another_host() -> None:
    text = BASE.replace("{kind: write, from: h1, to: h0}", "{kind: write-latency, from: h1, to: h1}")
    assert any("expected another host" in problem for problem in refused(text))


def test_the_round_trip_counts_what_the_bridge_takes() -> None:
    bridged = longest_round_trip(loads(BASE)).time
    slower = longest_round_trip(loads(with_bridge("idle_exit: 5us"))).time
    assert slower - bridged == 2 * 4_000_000


def test_results_of_a_bridge(result: Result, tmp_path: Path) -> None:
    assert not result.faults
    assert result.senders == ["h1"]
    assert result.receivers == ["h0"]
    rows = [queue["queue"] for queue in result.meta["queues"] if queue["node"] == "br0"]
    # Against the way of a packet, as all queues of a run; two that are alike in the order of their ports.
    assert rows == [f"br0:{host}/{row}" for row in ("tx-ring", "qdisc", "rx-ring") for host in ("h0", "h1")]
    measured = metrics.METRICS
    assert measured["softirq_share"](result, core=31) > 0.45
    assert measured["softirq_share"](result, core=42, purpose="guest") > 0.99
    assert measured["write_latency"](result) == pytest.approx(10.38e-6, rel=0.01)
    assert measured["bridge_counter"](result, name="rx_out_of_buffer") == 0
    marked = measured["bridge_counter"](result, name="red_marked", port="br0:h0")
    assert marked > 0
    assert measured["counter_ratio"](result, of="np_ecn_marked_roce_packets", to="red_marked") == 1
    assert metrics.marks.marked_packets(result) == marked
    standing = metrics.queues.standing_queue(result)
    assert standing is not None
    assert standing.queue == "br0:h1/rx-ring"
    again = Result.load(result.write(tmp_path / "out"))
    assert again.summary["bridge"] == result.summary["bridge"]
    assert again.summary["bridge"]["core"] == 31
    page = render(again)
    for words in ("Cores of the bridge", "br0:h1/rx-ring", "Write latency"):
        assert words in page


def test_cores_as_mpstat_prints_them(result: Result) -> None:
    lines = as_tool(result, "mpstat").splitlines()
    # Average: takes 11 columns, CPU 5 and each share 8, as in mpstat.c of sysstat.
    assert lines[0] == (
        "Average:     CPU    %usr   %nice    %sys %iowait    %irq   %soft  %steal  %guest  %gnice   %idle"
    )
    assert lines[4] == (
        "Average:      42    0.00    0.00    0.00    0.00    0.00    0.00    0.00  100.00    0.00    0.00"
    )
    head = lines[0].split()[1:]
    rows = {
        line.split()[1]: dict(zip(head[1:], map(float, line.split()[2:]), strict=True)) for line in lines[1:]
    }
    assert list(rows) == ["all", "30", "31", "42", "62"]
    assert all(sum(row.values()) == pytest.approx(100, abs=0.06) for row in rows.values())
    assert rows["42"]["%guest"] > 99.9
    assert rows["31"]["%soft"] > 45


def test_queues_are_in_the_order_of_the_path(result: Result) -> None:
    order = {queue["queue"]: queue["order"] for queue in result.meta["queues"]}
    assert order["br0:h0/tx-ring"] < order["br0:h0/qdisc"] < order["br0:h1/rx-ring"] < order["h1/sq3"]


def test_a_short_ring_drops_and_a_slow_restart_or_a_pause_after_naks_helps() -> None:
    def goodput(*sets: str) -> tuple[float, float]:
        short = ["run.duration=300ms", "bridge.qdisc=null", "traffic=[{kind: write, from: h1, to: h0}]"]
        done = run(load("poor-mans-cp", sets=[*short, *sets]))
        dropped = metrics.METRICS["bridge_counter"](done, name="rx_out_of_buffer")
        return metrics.throughput.total_goodput(done, "start"), dropped

    long, none = goodput()
    ring = ["bridge.rx_ring=1024"]
    restarted, few = goodput(*ring)
    at_once = [*ring, "host.transport.slow_restart=never"]
    short, many = goodput(*at_once)
    paused, fewer = goodput(*at_once, "host.transport.nak_reaction=800us")
    assert none == 0 < few < fewer < many
    assert short < paused < restarted < long
    # The one packet that goes waits in the ring for whatever it did not wait for at the sender.
    assert goodput(*ring, "host.transport.nak_reaction=800us") == (restarted, few)


def test_the_experiment_in_short_runs() -> None:
    done = reproduce("poor-mans-cp", quick=True, only=["A1", "A2", "A3", "A4", "A8", "A9", "A12", "A13"])
    assert {row.claim.id: row.verdict for row in done.rows} == dict.fromkeys(
        ("A1", "A2", "A3", "A4", "A8", "A9", "A12", "A13"), "met"
    )


RED_BELOW_TBF = """
name: red-below-tbf
run: {duration: 2s}
topology: {kind: bridge, link: {rate: 10Gbps, delay: 10ns}}
host: {mtu: 4096B, congestion: none, transport: {adaptive_timeout: null, slow_restart: never}}
bridge:
  qdisc:
    kind: tbf
    rate: 100Mbps
    burst: 10KB
    child:
      {kind: red, limit: 2MB, min: 50KB, max: 200KB, avpkt: 1500B, burst: 60, ecn: true, probability: 0.5}
traffic:
  - {kind: write, from: h1, to: h0, message: 4096B, depth: 128}
"""
"""What a kernel 7.2 was measured with: soft-RoCE, whose window of 128 packets no mark makes smaller."""


def test_red_collapses_go_back_n_that_is_not_ect_and_marks_what_is() -> None:
    found = {}
    for ect in (True, False):
        bridged = run(loads(RED_BELOW_TBF, sets=[f"host.ect={str(ect).lower()}"]))
        counted = {
            name: metrics.METRICS["bridge_counter"](bridged, name=name, port="br0:h0")
            for name in ("red_marked", "red_early", "qdisc_dropped", "qdisc_sent_packets")
        }
        delivered = bridged.flows.column("bytes_delivered").to_pylist()[0] / 2 / 2**20
        found[ect] = delivered, counted
    # Measured: 6.05 MiB/s, 8,097 of 8,414 packets marked, 9 dropped; 4 queue pairs: line rate and no drop.
    delivered, counted = found[True]
    assert delivered > 6
    assert counted["red_marked"] > 0.95 * counted["qdisc_sent_packets"]
    assert counted["qdisc_dropped"] < 10
    # Measured: 0.02 to 0.04 MiB/s, no marks, 1,593 to 4,047 drops.
    delivered, counted = found[False]
    assert delivered < 0.3
    assert counted["red_marked"] == 0
    assert counted["red_early"] == counted["qdisc_dropped"] > 1000


def test_what_has_no_way_on_is_dropped_in_the_series_too() -> None:
    result = run(
        {
            "name": "no-way",
            "run": {"duration": "1ms"},
            "topology": {"kind": "bridge", "hosts": 2, "link": {"rate": "10Gbps"}},
            "failures": [{"link": "h1-br0", "at": "500us"}],
            "traffic": [{"kind": "write", "from": "h0", "to": "h1"}],
        }
    )
    dropped = {(drop["where"], drop["reason"]): drop["packets"] for drop in result.meta["drops"]}
    assert dropped["br0:h0/rx-ring", "no route to its host"] > 0
    assert result.bins.values("br0:h0/rx-ring", "dropped").sum() == sum(
        packets for (where, _), packets in dropped.items() if where == "br0:h0/rx-ring"
    )
