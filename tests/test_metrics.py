"""Metrics against arithmetic done by hand on runs of a few bins."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
import tailback
from synthetic import entities, incast, plan, result_of
from tailback import metrics
from tailback.errors import InputError
from tailback.live.recording import signals_of
from tailback.metrics.finding import not_counted
from tailback.metrics.metric import SECTIONS
from tailback.results import Result
from tailback.scenario import load

BIN_PS = 10**10  # 10 ms
ROOT = Path(__file__).parent.parent


class Tiny:
    """A recording of a few 10 ms bins, from {(entity, metric): values}."""

    def __init__(self, rows: dict[tuple[str, str], list[float]], bins: int, **meta: Any) -> None:
        senders = sorted({entity for entity, metric in rows if metric == "goodput_tx_bps"})
        long = [(i * BIN_PS, *key, float(v)) for key, values in rows.items() for i, v in enumerate(values)]
        columns = list(zip(*long, strict=True))
        self.series = pa.table(dict(zip(("time_ps", "entity", "metric", "value"), columns, strict=True)))
        self.flows = pa.Table.from_pylist(
            [
                {
                    "src": host,
                    "dst": "rx",
                    "start_ps": 0,
                    "end_ps": None,
                    "state": "running",
                    "message_bytes": 1024,
                    "bytes_delivered": 1024,
                    "packets_sent": 200,
                    "packets_retransmitted": 3,
                    "local_ack_timeout_err": 0,
                }
                for host in senders
            ],
            schema=pa.schema(
                [("src", pa.string()), ("dst", pa.string()), ("start_ps", pa.int64()), ("end_ps", pa.int64())]
                + [("state", pa.string())]
                + [(name, pa.int64()) for name in ("message_bytes", "bytes_delivered", "packets_sent")]
                + [(name, pa.int64()) for name in ("packets_retransmitted", "local_ack_timeout_err")]
            ),
        )
        self.entities = entities(sorted({entity for entity, _ in rows}))
        self.signals = signals_of(self.series, self.entities, BIN_PS, bins * BIN_PS)
        none = {"node": [], "port": [], "counter": [], "value": []}
        kinds = {"value": pa.int64()}
        self.counters = pa.table(
            {name: pa.array(values, kinds.get(name, pa.string())) for name, values in none.items()}
        )
        self.meta_json = json.dumps(
            {
                "name": "tiny",
                "seed": 1,
                "end_ps": bins * BIN_PS,
                "bin_ps": BIN_PS,
                "complete": True,
                "line_rate_bps": dict.fromkeys([*senders, "rx"], 1000.0),
                "drops": [],
                "pauses": [],
                "pause_storms": [],
                "queues": [],
                "faults": [],
                **meta,
            }
        )


def tiny(rows: dict[tuple[str, str], list[float]], bins: int, **meta: Any) -> Result:
    hosts = [{"name": name, "nic": 0} for name in ("a", "b", "rx")]
    run = {"duration": bins * BIN_PS}
    simple = {
        "name": "tiny",
        "hosts": hosts,
        "nics": [{"mtu": 1024}],
        "switches": [],
        "links": [],
        "run": run,
    }
    return result_of(simple, Tiny(rows, bins, **meta))


def two_senders(a: list[float], b: list[float], **meta: Any) -> Result:
    total = [x + y for x, y in zip(a, b, strict=True)]
    rows = {("a", "goodput_tx_bps"): a, ("b", "goodput_tx_bps"): b, ("rx", "goodput_rx_bps"): total}
    return tiny(rows, len(a), **meta)


def test_total_and_shares() -> None:
    result = two_senders([600, 600, 600, 600], [300, 300, 300, 300])
    assert metrics.throughput.total_goodput(result, since="start") == 900
    # One receiver of 1000 bit/s is less than two senders of 1000 each.
    assert metrics.throughput.goodput_of_line_rate(result, since="start") == 0.9
    # 1024 B in one packet: 1024 / (1024 + 82 + 16) = 0.912656
    assert metrics.links.ideal_payload_share(result) == pytest.approx(1024 / 1122, abs=1e-12)
    assert metrics.throughput.goodput_of_ideal(result, since="start") == pytest.approx(0.9 * 1122 / 1024)


def test_a_message_of_many_packets_has_one_reth() -> None:
    result = two_senders([1, 1], [1, 1])
    for name, value in (("message_bytes", 65536), ("bytes_delivered", 65536)):
        at = result.flows.schema.get_field_index(name)
        result.flows = result.flows.set_column(at, name, pa.array([value, value]))
    # 65536 B in 64 packets of 1024: 65536 / (65536 + 64 * 82 + 16)
    assert metrics.links.ideal_payload_share(result) == pytest.approx(65536 / 70800, abs=1e-12)


def test_fairness() -> None:
    result = two_senders([600, 600], [300, 300])
    # (600 + 300)^2 / (2 * (600^2 + 300^2)) = 810000 / 900000
    assert metrics.fairness.jain_index(result, since="start") == pytest.approx(0.9)
    assert metrics.fairness.min_max_ratio(result, since="start") == 0.5
    assert metrics.fairness.jain([7, 7, 7]) == 1
    assert metrics.fairness.jain([9, 0, 0]) == pytest.approx(1 / 3)
    assert math.isnan(metrics.fairness.jain([0, 0]))


def test_variation() -> None:
    result = two_senders([400, 600, 400, 600], [500, 500, 500, 500])
    # Windows of one bin: a is 400, 600, 400, 600: deviation 100, mean 500. b does not vary.
    assert metrics.fairness.sender_variation(result, since="start", window_s=0.01) == pytest.approx(0.2)
    # Windows of two bins: every mean is 500.
    assert metrics.fairness.sender_variation(result, since="start", window_s=0.02) == 0
    # The total is 900, 1100, 900, 1100: deviation 100, mean 1000.
    assert metrics.throughput.goodput_variation(result, since="start", window_s=0.01) == pytest.approx(0.1)
    # One window says nothing about variation.
    assert math.isnan(metrics.throughput.goodput_variation(result, since="start", window_s=0.04))


def test_convergence() -> None:
    # Windows of 10 ms: 0, 500, 900, 1000, 1010, 990; the median of the last three is 1000, 5 % of it 50. The
    # last window outside is the third (900), so it is steady from 30 ms on.
    total = [0, 500, 900, 1000, 1010, 990]
    result = tiny({("a", "goodput_tx_bps"): total, ("rx", "goodput_rx_bps"): total}, 6)
    assert metrics.spans.convergence_time(result) == pytest.approx(0.03)
    assert metrics.throughput.total_goodput(result) == pytest.approx(1000)
    assert metrics.spans.convergence_time(result, tolerance=0.11) == pytest.approx(0.02)


def test_no_convergence() -> None:
    # The last four are 1000, 100, 1000, 400: their median is 700, and the last is nowhere near.
    restless = [1000, 100, 1000, 100, 1000, 100, 1000, 400]
    result = tiny({("a", "goodput_tx_bps"): restless, ("rx", "goodput_rx_bps"): restless}, 8)
    assert math.isnan(metrics.spans.convergence_time(result))
    assert math.isnan(metrics.throughput.total_goodput(result))
    assert math.isnan(metrics.fairness.jain_index(result))
    assert metrics.throughput.total_goodput(result, since="start") == 587.5


def test_a_late_start_is_not_converged_before() -> None:
    result = two_senders([900, 900, 450, 450], [0, 0, 450, 450])
    starts = result.flows.schema.get_field_index("start_ps")
    result.flows = result.flows.set_column(starts, "start_ps", pa.array([0, 2 * BIN_PS]))
    assert metrics.spans.last_start(result) == pytest.approx(0.02)
    assert metrics.spans.convergence_time(result) == pytest.approx(0.02)
    assert metrics.fairness.jain_index(result) == 1
    # From the start: a has 675 on average, b 225: 900^2 / (2 * (675^2 + 225^2)) = 0.8
    assert metrics.fairness.jain_index(result, since="start") == pytest.approx(0.8)


def test_the_span_ends_with_the_first_flow_that_is_done() -> None:
    result = two_senders([500, 500, 0, 0], [500, 500, 1000, 1000])
    for name, values in (("end_ps", [2 * BIN_PS, None]), ("state", ["done", "running"])):
        result.flows = result.flows.set_column(
            result.flows.schema.get_field_index(name), name, pa.array(values)
        )
    assert metrics.fairness.jain_index(result, since="all_started") == 1
    assert metrics.fairness.jain_index(result, since="start") == pytest.approx(0.8)


def test_losses_over_windows() -> None:
    drops = [3.0, 0, 0, 0, 2, 0, 0, 0]
    rows = {
        ("a", "goodput_tx_bps"): [1.0] * 8,
        ("rx", "goodput_rx_bps"): [1.0] * 8,
        ("sw0:rx/tc3", "dropped"): drops,
        ("a", "packet_seq_err"): [0, 1.0, 0, 0, 1, 0, 0, 0],
    }
    result = tiny(rows, 8, drops=[{"where": "sw0:rx/tc3", "reason": "full", "packets": 5, "bytes": 5}])
    assert metrics.losses.dropped_packets(result) == 5
    assert metrics.losses.dropped_packets(result, since=0.04) == 2
    assert metrics.losses.windows_with_drops(result, window_s=0.02) == 0.5  # the first and the third of four
    assert metrics.losses.windows_with_drops(result, window_s=0.04) == 1
    assert metrics.losses.naks(result) == 2
    assert metrics.losses.naks(result, since="start", until_s=0.04) == 1
    assert metrics.losses.last_nak(result) == pytest.approx(0.05)  # end of the fifth bin
    assert metrics.losses.naks_after_last_start(result) == pytest.approx(0.05)
    assert metrics.losses.windows_with_naks(result, window_s=0.04) == 1
    assert metrics.losses.retransmitted_share(result) == pytest.approx(3 / 200)
    assert metrics.losses.failed_flows(result) == 0


def test_pauses() -> None:
    def pause(port: str, share: float, last_ps: int) -> dict[str, Any]:
        base = {"port": port, "priority": 3, "rx_frames": 7, "transitions": 2, "paused_ps": 1}
        return {**base, "max_share_of_a_second": share, "last_pause_ps": last_ps}

    rows = {
        ("a", "goodput_tx_bps"): [1.0] * 4,
        ("rx", "goodput_rx_bps"): [1.0] * 4,
        ("a/sq3", "paused_share"): [0.8, 0.2, 0, 0],
        ("b/sq3", "paused_share"): [0.1, 0.1, 0, 0],
    }
    result = tiny(rows, 4, pauses=[pause("a:sw0", 0.01, 2 * BIN_PS), pause("b:sw0", 0.002, BIN_PS)])
    assert metrics.pauses.largest_pause_share(result) == 0.01
    assert metrics.pauses.last_pause(result) == pytest.approx(0.02)
    assert metrics.pauses.pauses_after_last_start(result) == pytest.approx(0.02)
    assert metrics.pauses.pause_frames(result) == 14
    assert metrics.pauses.pause_share(result) == pytest.approx(
        0.25
    )  # (0.8 + 0.2) / 4 at the worse of the two
    assert metrics.pauses.pause_share(result, since=0.02) == 0
    assert math.isnan(metrics.pauses.pause_share(result, since=1.0))  # the run was over by then
    assert metrics.pauses.largest_pause_share(tiny(rows, 4)) == 0


def test_standing_queue() -> None:
    queues = [
        {"queue": q, "kind": kind}
        for q, kind in (("s:x/tc3", "egress"), ("s:y/tc3", "egress"), ("a/sq3", "send"))
    ]
    rows = {
        ("a", "goodput_tx_bps"): [1.0] * 2,
        ("rx", "goodput_rx_bps"): [1.0] * 2,
        ("s:x/tc3", "queue_mean_bytes"): [100.0, 200],
        ("s:x/tc3", "queue_max_bytes"): [400.0, 300],
        ("s:y/tc3", "queue_mean_bytes"): [50.0, 50],
        ("a/sq3", "queue_mean_bytes"): [9999.0, 9999],
    }
    found = metrics.queues.standing_queue(tiny(rows, 2, queues=queues))
    # 150 on average, of 150 + 50; a send queue is the application's and not the network's.
    assert found == metrics.queues.Standing("s:x/tc3", 150.0, 400.0, 0.75)
    assert metrics.queues.standing_queue(tiny(rows, 2)) is None


def test_a_link_is_busy_with_what_is_discarded_too() -> None:
    # Line rate 1000 bit/s; 100 of it are payload in order.
    rows = {
        ("a", "goodput_tx_bps"): [100.0] * 4,
        ("rx", "goodput_rx_bps"): [100.0] * 4,
        ("rx", "wire_rx_bps"): [0.0, 900.0, 1000.0, 800.0],
    }
    result = tiny(rows, 4)
    assert metrics.throughput.link_utilisation(result) == pytest.approx((0 + 900 + 1000 + 800) / 4 / 1000)
    assert metrics.throughput.link_utilisation(result, since=0.01) == pytest.approx(2700 / 3 / 1000)


def test_a_run_is_settled_a_while_after_the_last_start() -> None:
    goodput = [500.0] * 10 + [1000.0] * 5  # settled after ten bins of 10 ms
    result = tiny({("a", "goodput_tx_bps"): goodput, ("rx", "goodput_rx_bps"): goodput}, 15)
    assert metrics.throughput.total_goodput(result, since="settled") == pytest.approx(1000.0)


def test_the_last_bin_may_be_short() -> None:
    total = [1000, 1000, 200]
    result = tiny({("a", "goodput_tx_bps"): total, ("rx", "goodput_rx_bps"): total}, 3, end_ps=25 * 10**9)
    # 10 ms of 1000, 10 ms of 1000, 5 ms of 200
    assert metrics.throughput.total_goodput(result, since="start") == pytest.approx((1000 + 1000 + 100) / 2.5)


def test_every_measure_says_what_it_is() -> None:
    for metric in metrics.METRICS.values():
        assert len(metric.about) > 20, metric.name
        assert metric.unit in {"share", "s", "bit/s", "B", "B/s", "MiB/s", "count", "index"}


def test_an_unknown_since_is_refused() -> None:
    with pytest.raises(
        ValueError, match="expected a number of seconds, start, all_started, settled, convergence or steady"
    ):
        metrics.throughput.total_goodput(two_senders([1, 1], [1, 1]), since="noon")


@pytest.mark.parametrize("name", sorted(metrics.METRICS))
def test_every_measure_works_on_an_incast(name: str) -> None:
    recording = incast(senders=4, bins=300, qps=8)
    result = result_of(plan(4), recording)
    of_counters = {"counter": ("name",), "bridge_counter": ("name",), "counter_ratio": ("of", "to")}
    params = dict.fromkeys(of_counters.get(name, ()), "np_cnp_sent")
    assert isinstance(metrics.METRICS[name](result, **params), float)


def with_flows(result: Result, **columns: list[Any]) -> Result:
    """The same with other columns in its flow table."""
    for name, values in columns.items():
        at = result.flows.schema.get_field_index(name)
        if at < 0:
            result.flows = result.flows.append_column(name, pa.array(values))
        else:
            result.flows = result.flows.set_column(at, name, pa.array(values, result.flows.schema.types[at]))
    return result


def test_a_traffic_item_is_not_counted_twice() -> None:
    rows = {("a", "goodput_tx_bps"): [600.0], ("rx", "goodput_rx_bps"): [600.0]}
    parts = {("a/write0", "goodput_tx_bps"): [200.0], ("item:write0", "goodput_rx_bps"): [200.0]}
    result = tiny({**rows, **parts}, 1)
    assert result.bins.total("goodput_rx_bps").tolist() == [600]
    assert result.bins.total("goodput_tx_bps").tolist() == [600]
    assert result.bins.values("item:write0", "goodput_rx_bps").tolist() == [200]


def test_fairness_of_connections_goes_by_how_many_run() -> None:
    result = two_senders([600, 600, 400, 400], [300, 300, 400, 400])
    # a: one queue pair all the time, and one more in the first half: 600 / 2 beside 300 / 1, then 400 / 1.
    flows = result.flows
    result.flows = pa.concat_tables([flows, flows.slice(0, 1)])
    with_flows(result, end_ps=[None, None, 2 * BIN_PS])
    assert metrics.fairness.jain_of_connections(result, "start", window_s=0.02) == pytest.approx(1)
    by_host = metrics.fairness.goodput_per_connection(result, "start", 0.02)
    assert by_host["a"].tolist() == pytest.approx([300, 400])
    # Halfway through a window: the second ran half of the first window, 1.5 queue pairs on average.
    with_flows(result, end_ps=[None, None, BIN_PS])
    assert metrics.fairness.goodput_per_connection(result, "start", 0.02)["a"][0] == pytest.approx(400)
    # 400 beside 300: (700)^2 / (2 * 250000) = 0.98, and 1 in the second window.
    assert metrics.fairness.jain_of_connections(result, "start", window_s=0.02) == pytest.approx(0.99)
    assert math.isnan(metrics.fairness.jain_of_connections(result, "start", window_s=0.05))


def test_connections_that_come_and_go_do_not_end_the_steady_state() -> None:
    def visited() -> Result:
        result = two_senders([100] * 4, [100] * 4)
        with_flows(
            result,
            item=["write0", "visitors"],
            start_ps=[BIN_PS, 3 * BIN_PS],
            end_ps=[None, 3 * BIN_PS + 1],
            state=["running", "done"],
        )
        return result

    assert metrics.spans.last_start(visited()) == pytest.approx(0.03), (
        "all of them, as the plan has no writer that stays"
    )
    result = visited()
    come_and_go = {"item": "visitors", "qps": 1, "passing": True}
    result.setup.plan["writers"] = [{"item": "write0", "qps": 1}, come_and_go]
    assert metrics.spans.last_start(result) == pytest.approx(0.01)
    assert metrics.spans.first_end(result) == pytest.approx(0.04)
    assert metrics.throughput.total_goodput(result, "all_started") == 200


def test_the_delay_of_cnps_is_a_mean_over_those_handled() -> None:
    rows = {("a", "rp_cnp_handled"): [1, 3], ("b", "rp_cnp_handled"): [0, 1], ("a", "goodput_tx_bps"): [1, 1]}
    delays = {("a", "cnp_delay_ns"): [2000, 3000], ("b", "cnp_delay_ns"): [0, 5000]}
    result = tiny({**rows, **delays}, 2)
    assert metrics.marks.cnp_delay(result) == pytest.approx(2e-6)
    assert metrics.marks.cnp_delay(result, since=0.01) == pytest.approx(2e-6)
    assert math.isnan(metrics.marks.cnp_delay(two_senders([1], [1])))


def test_the_deepest_queue_is_one_of_the_network() -> None:
    rows = {("sw:a/tc3", "queue_max_bytes"): [5, 9], ("a/sq3", "queue_max_bytes"): [99, 99]}
    queues = [{"queue": "sw:a/tc3", "kind": "egress"}, {"queue": "a/sq3", "kind": "send"}]
    assert metrics.queues.deepest_queue_bytes(tiny(rows, 2, queues=queues)) == 9
    paused = {("sw:a/tc3", "paused_share"): [0.5, 1.0], ("a/sq3", "paused_share"): [0.5, 0.0]}
    assert metrics.pauses.paused_time(tiny(paused, 2)) == pytest.approx(2 * BIN_PS / 1e12)


def test_the_book_names_every_module_with_metrics() -> None:
    modules = sorted(
        {one.function.__module__.rpartition(".")[2] for one in metrics.METRICS.values() if one.function}
    )
    words = (ROOT / "docs/published.md").read_text(encoding="utf-8")
    assert [name for name in modules if f"`{name}`" not in words and name != "functools"] == []


def test_one_declaration_shows_a_metric_everywhere(tmp_path: Path) -> None:
    @metrics.metric("count", "losses.acks", title="ACKs sent", says="were sent by receivers.", whole=True)
    def acks(result: Result, least: float = 0) -> float:
        """Packets that the engine counted as ACKs."""
        return max(float(result.meta["packets"]["ack"]), least)

    try:
        result = tailback.run(load("first-flow", sets=["run.duration=100us"]), out=tmp_path / "run")
        sent = result.meta["packets"]["ack"]
        assert json.loads((tmp_path / "run/summary.json").read_text())["losses"]["acks"] == sent > 0
        assert metrics.findings(result)[-1] == metrics.Finding(
            "ACKs sent", f"{sent:,}", "were sent by receivers."
        )
        assert "were sent by receivers." in (tmp_path / "run/report.html").read_text()
        assert tailback.compare(result, result).figures.column("figure").to_pylist().count("ACKs sent") == 2
        given = ["ACKs sent", "losses.acks", "acks", f"acks:least={sent + 1}"]
        assert [one(result) for one in metrics.named(given)] == [sent, sent, sent, sent + 1]
        assert "ACKs sent" in [one.label for one in metrics.named([])]
    finally:
        for name in ("acks", "losses.acks"):
            del metrics.METRICS[name]
        del SECTIONS["losses"].parts["acks",]


def test_a_place_in_the_summary_takes_no_parameters() -> None:
    with pytest.raises(TypeError, match="takes no parameters, and was given since"):
        metrics.METRICS["goodput.total_bps"](two_senders([1, 1], [1, 1]), since="start")


def test_every_number_of_the_summary_has_the_unit_of_its_declaration() -> None:
    units = {one.name: one.unit for one in metrics.named(["signals.cnps", "pauses.largest_share_of_the_run"])}
    assert units == {"signals.cnps": "count", "pauses.largest_share_of_the_run": "share"}


def test_what_a_lab_did_not_count_is_not_none() -> None:
    bare = SimpleNamespace(meta={"lab": {}}, counter_names=["rx_prio3_pause"])
    missing = not_counted(bare, "Drops", "rx_out_of_buffer")  # type: ignore[arg-type]
    assert missing is not None
    assert (missing.figure, missing.tone) == ("n/a", "warning")
    assert not_counted(bare, "Pauses", "_pause") is None  # type: ignore[arg-type]
    simulated = SimpleNamespace(meta={}, counter_names=[])
    assert not_counted(simulated, "Drops", "rx_out_of_buffer") is None  # type: ignore[arg-type]


OPTIONS_OF_METRICS = [
    (name, parameter)
    for name, metric in sorted(metrics.METRICS.items())
    for parameter in metric.parameters
    if not metric.path
]
"""Every parameter of every metric."""


def asked(name: str, parameter: str, value: Any) -> dict[str, Any]:
    """A metric with a value for a parameter, and what else it must be given."""
    return {**dict.fromkeys(metrics.METRICS[name].required, "np_cnp_sent"), "metric": name, parameter: value}


@pytest.mark.parametrize(("name", "parameter"), OPTIONS_OF_METRICS)
def test_a_value_that_a_parameter_does_not_take_is_refused_before_any_run(name: str, parameter: str) -> None:
    texts = parameter in ("item", "host", "port", "name", "of", "to")
    for wrong in ["", True, [1], {"a": 1}, *([] if texts else ["banana", "nan", "inf", -1, "-1", "5ms"])]:
        with pytest.raises(InputError) as refused:
            metrics.named([asked(name, parameter, wrong)])
        (problem,) = refused.value.problems
        assert f"for {parameter} of {name}, expected " in problem.text
    metrics.named([asked(name, parameter, None)] if parameter not in metrics.METRICS[name].required else [])


@pytest.mark.parametrize(("name", "parameter"), OPTIONS_OF_METRICS)
def test_a_value_that_a_parameter_takes_works_on_a_run(name: str, parameter: str) -> None:
    result = result_of(plan(4), incast(senders=4, bins=300, qps=8))
    if name == "tx_usecs_refused":
        return  # changes the plan of a veth
    texts = {"item": "write0", "host": "h0", "protocol": "roce", "purpose": "softirq", "since": "start"}
    for value in {texts.get(parameter, "1"), *(["0.05"] if parameter == "since" else [])}:
        (metric,) = metrics.named([asked(name, parameter, value)])
        assert isinstance(metric(result), float)


def test_numbers_after_a_colon_are_of_the_parameters_type() -> None:
    (metric,) = metrics.named(["frames_per_pause:priority=3:host=h0"])
    assert dict(metric.params) == {"priority": 3, "host": "h0"}
    assert metric.label.endswith("priority 3 host h0")
    (metric,) = metrics.named(["bridge_counter:name=red_marked:port=br0:h0"])
    assert dict(metric.params) == {"name": "red_marked", "port": "br0:h0"}


@pytest.mark.parametrize(
    ("name", "missing"),
    [("counter", "name"), ("counter_ratio:of=a", "to"), ("bridge_counter:port=p", "name")],
)
def test_a_parameter_that_must_be_given_is_asked_for(name: str, missing: str) -> None:
    with pytest.raises(InputError, match=f"without {missing}, expected"):
        metrics.named([name])
