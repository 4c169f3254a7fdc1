"""What must be true of every run, added up here and not by the engine's own audit.

Each check yields a line for each thing that is wrong: a name, `: `, and the figures. The name stays while a
failing scenario is made smaller.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from tailback.results import Result
from tailback.scenario import Scenario
from tailback.scenario.classes import Classification
from tailback.scenario.qos import classes, code_points

ROUNDED_BYTES = 1.0
"""What is half over PCIe is rounded to whole bytes in maxima."""
LEAST_FRAME_BITS = 84 * 8
"""Of the shortest frame on the wire."""
PFC_BYTES = 84

Lines = Iterator[str]
Row = dict[str, Any]


class Run:
    """A result, and what the checks look up in it."""

    def __init__(self, scenario: Scenario, result: Result) -> None:
        self.scenario, self.result, self.meta, self.plan = scenario, result, result.meta, result.plan
        self.flows: list[Row] = result.flows.to_pylist()
        self.end_ps = int(self.meta["end_ps"])
        self.counters: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
        columns = (result.counters.column(name).to_pylist() for name in ("node", "port", "counter", "value"))
        for node, port, counter, value in zip(*columns, strict=True):
            self.counters[node, port][counter] = value

    @cached_property
    def series(self) -> dict[tuple[str, str], np.ndarray[Any, Any]]:
        """Values of each entity and metric, a bin each."""
        bins = self.result.bins
        return {
            (entity, name): bins.values(entity, name) for name, rows in bins._at.items() for entity in rows
        }

    def total(self, entity: str, metric: str) -> float | None:
        """Of counts: their sum over all bins. None where it was not recorded."""
        found = self.series.get((entity, metric))
        return None if found is None else float(found.sum())

    def integral(self, entity: str, metric: str) -> float | None:
        """Of rates: bytes over the whole run."""
        found = self.series.get((entity, metric))
        return None if found is None else float((found * self.result.bins.width_s).sum() / 8)

    def host(self, name: str, counter: str) -> int:
        return self.counters[name, ""].get(counter, 0)

    def node(self, end: str, peer: str) -> dict[str, int]:
        """Counters of a node's port towards a peer; those of a host are its own."""
        return self.counters[end, "" if end in self.rates else f"{end}:{peer}"]

    @cached_property
    def rates(self) -> dict[str, int]:
        """Of the hosts' links."""
        return dict(self.meta["line_rate_bps"])

    @cached_property
    def drops(self) -> dict[tuple[str, str], int]:
        """Packets by place and reason."""
        found: dict[tuple[str, str], int] = defaultdict(int)
        for drop in self.meta["drops"]:
            found[drop["where"], drop["reason"]] += drop["packets"]
        return found

    def sum(self, column: str, **where: str) -> int:
        """Of a column of flows, those with these values in other columns."""
        rows = (row for row in self.flows if all(row[key] == value for key, value in where.items()))
        return sum(row[column] or 0 for row in rows)


def _close(a: float, b: float, slack: float = 0.5) -> bool:
    return abs(a - b) <= slack + 1e-9 * max(abs(a), abs(b))


def _may_drop_lossless(run: Run, where: str, text: str) -> bool:
    """Whether what the scenario itself sets allows drops there."""
    scenario, network = run.scenario, run.scenario.network
    from tailback.scenario.receive_buffer import host_paths_of, lossless_of

    node, _, peer = where.split("/")[0].partition(":")
    priority = int(text.removeprefix("lossless priority ").split()[0])
    if node in network.switches:
        ends = (scenario.switch.qos, scenario.host.qos) if peer in network.hosts else None
        return not isinstance(scenario.switch.pfc.headroom, str) or _unpaused(run, ends, priority, {priority})
    path = host_paths_of(scenario)[node]
    assert path is not None
    buffer = path.receive_buffer
    ends = (scenario.host.qos, scenario.switch.qos) if network.switches else None
    # A bridge's ports take no pauses. The sum of the mlx5 driver knows of no delay of the link.
    return (
        not isinstance(buffer.xoff, str)
        or bool(network.bridges)
        or buffer.cable_len is not None
        or _unpaused(run, ends, priority, set(lossless_of(scenario, buffer)))
    )


def _unpaused(
    run: Run, ends: tuple[Classification, Classification] | None, priority: int, paused: set[int]
) -> bool:
    """Whether packets of a priority at the first end are in one at the second that its pauses do not name."""
    if ends is None:
        return False
    here, there = (classes(code_points(run.scenario), end) for end in ends)
    return any(own == priority and other not in paused for own, other in zip(here, there, strict=True))


def faults(run: Run) -> Lines:
    """Books balance; no lossless drop where headroom is worked out; no deadlock without a loop."""
    for fault in run.meta["faults"]:
        kind = fault["kind"]
        if kind == "lossless_drop" and _may_drop_lossless(run, fault["where"], fault["text"]):
            continue
        network = run.scenario.network
        nodes = len(network.hosts) + len(network.switches) + len(network.bridges)
        may_go_round = len(network.wires) >= nodes and (
            run.scenario.topology.kind in ("graph", "file") or run.scenario.failures
        )
        if kind == "deadlock" and may_go_round:
            continue
        yield f"fault {kind}: {fault['text']}"


def ends(run: Run) -> Lines:
    """Every flow has ended, or the run did; what is done was delivered."""
    early = run.end_ps < run.plan["run"]["duration"]
    if run.end_ps > run.plan["run"]["duration"] or not run.meta["complete"]:
        yield f"end: {run.end_ps} of {run.plan['run']['duration']} ps, complete {run.meta['complete']}"
    for row in run.flows:
        state, name = row["state"], f"{row['item']} {row['src']}-{row['dst']} {row['qp']}"
        if state not in ("waiting", "running", "done", "error"):
            yield f"state: {name} is {state}"
        if (row["error"] is not None) != (state == "error"):
            yield f"error: {name} is {state}, its error {row['error']}"
        if (row["end_ps"] is not None) != (state in ("done", "error")):
            yield f"flow end: {name} is {state}, its end {row['end_ps']}"
        if (row["start_ps"] is None) != (state == "waiting"):
            yield f"flow start: {name} is {state}, its start {row['start_ps']}"
        if early and state in ("waiting", "running"):
            yield f"unended: {name} is {state} where the run ended early"
        if row["start_ps"] is not None:
            end = run.end_ps if row["end_ps"] is None else row["end_ps"]
            if not row["start_ps"] <= end <= run.end_ps:
                yield f"flow times: {name} from {row['start_ps']} to {end} of {run.end_ps}"
        if row["protocol"] == "roce":
            posted = row["messages_posted"] * row["message_bytes"]
            if row["bytes_delivered"] > posted or row["messages_completed"] > row["messages_posted"]:
                yield f"delivered: {name} has {row['bytes_delivered']} of {posted} B"
            if state == "done" and row["bytes_delivered"] != posted:
                yield f"done: {name} delivered {row['bytes_delivered']} of {posted} B"
            if row["messages_completed"] * row["message_bytes"] > row["bytes_delivered"]:
                yield f"completed: {name} {row['messages_completed']} messages, {row['bytes_delivered']} B"
        elif state == "done" and row["message_bytes"] not in (None, row["bytes_delivered"]):
            yield f"done: {name} delivered {row['bytes_delivered']} of {row['message_bytes']} B"
        if row["packets_retransmitted"] > row["packets_sent"]:
            yield f"retransmitted: {name} {row['packets_retransmitted']} of {row['packets_sent']}"
        if row["slowdown"] is not None and row["slowdown"] < 1 - 1e-9 and not run.scenario.failures:
            yield f"slowdown: {name} {row['slowdown']}"


def _numbers(value: Any, path: str = "") -> Iterator[tuple[str, float]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _numbers(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for inner in value:
            yield from _numbers(inner, path)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield path, value


def finite(run: Run) -> Lines:
    """No NaN, no infinity, nothing below zero that has no sign."""
    for table, name in ((run.result.flows, "flows"), (run.result.series, "series")):
        for column in table.column_names:
            kind = table.schema.field(column).type
            if pa.types.is_floating(kind):
                values = table.column(column).drop_null().to_numpy()
                if not np.isfinite(values).all() or (values < 0).any():
                    yield f"not finite: {name}.{column} {values[~np.isfinite(values) | (values < 0)][:3]}"
    for part, name in ((run.meta, "meta"), (run.result.summary, "summary")):
        for path, value in _numbers(part, name):
            if not math.isfinite(value) or (value < 0 and "price" not in path):
                yield f"not finite: {path} {value}"


def rates(run: Run) -> Lines:
    """Nothing is faster than its line, at no time: sums up to each moment, with a packet that had begun."""
    times = np.cumsum(run.result.bins.width_s)
    for (entity, metric), values in run.series.items():
        rate = run.rates.get(entity)
        if rate is None or not metric.endswith("_bps") or "memory" in metric:
            continue
        sent = np.cumsum(values * run.result.bins.width_s)
        over = sent - rate * times - 8 * 20_000 - 1e-9 * sent
        if over.max(initial=-1.0) > 0:
            at = int(over.argmax())
            yield f"above the line: {entity} {metric} {sent[at]} bits in {times[at]} s at {rate}"
    for row in run.flows:
        rate = min(run.rates[row["src"]], run.rates[row["dst"]])
        # An end is one ACK after the last byte.
        if row["goodput_bps"] > rate * (1 + 1e-9):
            yield f"goodput above the line: {row['item']} {row['goodput_bps']} of {rate}"
    if run.rates:
        share = run.result.summary["goodput"]["of_line_rate"]
        if share is not None and share > 1 + 1e-6:
            yield f"goodput of line rate: {share}"


def shares(run: Run) -> Lines:
    """No share is above the whole."""
    for (entity, metric), values in run.series.items():
        if metric.endswith("_share") and values.max(initial=0.0) > 1 + 1e-9:
            yield f"share: {entity} {metric} {values.max()}"
    for path, value in _numbers(run.result.summary, "summary"):
        last = path.rpartition(".")[2]
        named = "share" in last or last in ("jain", "min_max_ratio", "busy")
        if named and not path.startswith("summary.veth") and value > 1 + 1e-9:
            yield f"share: {path} {value}"
    for cpu in run.meta["cpu"]:
        for number, core in enumerate(cpu["cores"]):
            if sum(core.values()) > 1 + 1e-9:
                yield f"share: core {number} of {cpu['host']} {core}"
    for core in run.meta["bridge_cores"]:
        if core["irq"] + core["softirq"] + core["guest"] > 1 + 1e-9:
            yield f"share: core of {core['bridge']} {core}"
    for pause in run.meta["pauses"]:
        if pause["paused_ps"] > run.end_ps or pause["last_pause_ps"] > run.end_ps:
            yield f"pause: {pause} in {run.end_ps} ps"


def queues(run: Run) -> Lines:
    """A mean is not above its maximum, and no queue above what there is."""
    widths = run.result.bins.width_s * 1e12
    for (entity, metric), means in run.series.items():
        if metric != "queue_mean_bytes" or (most := run.series.get((entity, "queue_max_bytes"))) is None:
            continue
        over = means - most * (1 + 1e-9) - ROUNDED_BYTES
        if over.max(initial=-1.0) > 0:
            at = int(over.argmax())
            yield f"mean above maximum: {entity} {means[at]} of {most[at]} in bin {at} of {widths[at]} ps"
    for queue in run.meta["queues"]:
        most = run.series.get((queue["queue"], "queue_max_bytes"))
        if most is None or queue["kind"] not in ("egress", "ingress"):
            continue
        if most.max(initial=0.0) > run.scenario.switch.buffer:
            yield f"above the buffer: {queue['queue']} {most.max()}"


COUNTED = {
    "packet_seq_err": "src",
    "out_of_sequence": "dst",
    "duplicate_request": "dst",
    "local_ack_timeout_err": "src",
    "rp_cnp_handled": "src",
    "np_cnp_sent": "dst",
    "np_ecn_marked_roce_packets": "dst",
}
"""Counters of hosts that flows have, too, and which end of a flow counts."""


def books(run: Run) -> Lines:
    """Flows, counters and series say the same."""
    for host in run.rates:
        for counter, end in COUNTED.items():
            flows, counted = run.sum(counter, **{end: host}), run.host(host, counter)
            if counter == "np_cnp_sent" and "rx_discards_phy" in run.result.counter_names:
                flows = max(flows, min(counted, flows + 1_000_000))  # a NIC sends some of its own
            if flows != counted:
                yield f"flows and counters: {host} {counter} {flows} and {counted}"
            in_series = run.total(host, counter)
            if in_series is not None and not _close(in_series, counted):
                yield f"series and counters: {host} {counter} {in_series} and {counted}"
        for metric, end in (("goodput_rx_bps", "dst"), ("goodput_tx_bps", "src")):
            delivered, in_series = run.sum("bytes_delivered", **{end: host}), run.integral(host, metric)
            if in_series is not None and not _close(delivered, in_series):
                yield f"flows and series: {host} {metric} {delivered} and {in_series} B"
            if in_series is None and delivered and run.result.records_all:
                yield f"no series: {host} {metric}, {delivered} B"
        failed = sum(row["state"] == "error" for row in run.flows if row["src"] == host)
        counted = run.host(host, "req_transport_retries_exceeded")
        if failed != counted:
            yield f"flows and counters: {host} {failed} failed, {counted}"
        tcp = run.sum("packets_sent", src=host, protocol="tcp")
        if tcp != run.host(host, "TcpOutDataSegs"):
            yield f"flows and counters: {host} TcpOutDataSegs {tcp}, {run.host(host, 'TcpOutDataSegs')}"
    for item in {row["item"] for row in run.flows}:
        in_series = run.integral(f"item:{item}", "goodput_rx_bps")
        delivered = run.sum("bytes_delivered", item=item)
        if in_series is not None and not _close(delivered, in_series):
            yield f"flows and series: {item} {delivered} and {in_series} B"
        for host in run.rates:
            part = run.integral(f"{host}/{item}", "goodput_tx_bps")
            sent = run.sum("bytes_delivered", item=item, src=host)
            if part is not None and not _close(sent, part):
                yield f"flows and series: {host}/{item} {sent} and {part} B"
    data = run.meta["conservation"]["data_packets"]
    probes = run.meta["packets"].get("probe", 0)
    if run.flows and not data["sent"] - probes <= run.sum("packets_sent") <= data["sent"]:
        yield f"flows and books: {run.sum('packets_sent')} packets sent, {data}"
    sent, handled = run.sum("np_cnp_sent"), run.sum("rp_cnp_handled")
    handled += sum(run.host(host, "rp_cnp_ignored") for host in run.rates)
    handled -= sum(
        run.host(host, loss) for host in run.rates for loss in ("nak_cnps", "roce_slow_restart_cnps")
    )
    own = sum(run.host(host, "np_cnp_sent") for host in run.rates) - sent
    if handled > sent + own:
        yield f"CNPs: {sent + own} sent and {handled} handled"
    lost = sum(run.drops.values())
    if handled < sent + own and not lost and run.end_ps == run.meta["end_ps"] and not _under_way(run):
        yield f"CNPs: {sent + own} sent, {handled} handled, none lost"


def _under_way(run: Run) -> bool:
    """Whether anything may still be on its way at the end: always, but where all ended some time ago."""
    ended = max((row["end_ps"] or run.end_ps for row in run.flows), default=0)
    return run.end_ps - ended < max(1_000_000, run.end_ps // 4)


def drops(run: Run) -> Lines:
    """Drops by queue are those of its series and counters, and no reason is without its cause."""
    by_place: dict[str, int] = defaultdict(int)
    for (where, reason), packets in run.drops.items():
        by_place[where] += packets
        if reason in ("lost on the link",) and not any(wire.loss for wire in run.scenario.network.wires):
            yield f"drops: {packets} {reason} at {where}, and no link loses any"
        down = ("on a link that had failed", "waiting at a port whose link failed", "no route to its host")
        if reason in down and not run.scenario.failures:
            yield f"drops: {packets} {reason} at {where}, and no link fails"
        if reason.startswith("PFC watchdog") and run.scenario.switch.watchdog is None:
            yield f"drops: {packets} {reason} at {where}, and there is no watchdog"
    queues = {(name, metric) for name, metric in run.series if metric == "dropped"}
    for entity, _ in queues:
        in_series = run.total(entity, "dropped")
        assert in_series is not None
        if run.rates and not _close(in_series, by_place.get(entity, 0)):
            yield f"drops and series: {entity} {by_place.get(entity, 0)} and {in_series}"
    # A link of a host or a bridge has no queue of its own in the series.
    switches = run.scenario.network.switches
    missing = [
        place for place in by_place if (place, "dropped") not in queues and place.split(":")[0] in switches
    ]
    if run.result.records_all and missing:
        yield f"drops without a series: {missing[:3]}"
    marked = 0
    for (node, port), counters in run.counters.items():
        for name, value in counters.items():
            if name.startswith("ecn_marked_tc_"):
                marked += value
                entity = f"{port}/tc{name[-1]}"
                in_series = run.total(entity, "ecn_marked")
                if in_series is not None and not _close(in_series, value):
                    yield f"marks: {entity} {in_series} and {value}"
        del node
    ecn = run.result.summary["signals"]["ecn_marked_packets"]
    on_bridges = sum(
        float(values.sum())
        for (entity, metric), values in run.series.items()
        if metric == "ecn_marked" and entity.endswith("/qdisc")
    )
    if run.rates and not _close(marked + on_bridges, ecn):
        yield f"marks: {marked} and {on_bridges} counted, {ecn} in the summary"


def links(run: Run) -> Lines:
    """What one end of a link sent, the other got, but for what was lost or is on it; pauses likewise."""
    hops = 0
    for wire in run.scenario.network.wires:
        for a, b in ((wire.a, wire.b), (wire.b, wire.a)):
            here, there = run.node(a, b), run.node(b, a)
            sent = _packets(here, "tx", "packets")
            came = _packets(there, "rx", "packets")
            lost = sum(
                packets
                for (where, reason), packets in run.drops.items()
                if where.startswith(f"{a}:{b}/")
                and reason in ("lost on the link", "on a link that had failed")
            )
            pauses = _packets(here, "tx", "pause")
            hops += sent + pauses
            away = wire.delay + _latency(run, a, b)
            bound = away * wire.rate / 1e12 / LEAST_FRAME_BITS + 2
            if a in run.scenario.network.bridges:  # what the rings of a device hold counts as sent
                assert run.scenario.bridge is not None
                bound += run.scenario.bridge.tx_ring * 256
            if not 0 <= sent - came - lost <= bound:
                yield f"link: {a} sent {sent} to {b}, {came} came, {lost} lost, {bound} under way"
            got = _packets(there, "rx", "pause")
            if got > pauses:
                yield f"pauses: {a} sent {pauses} to {b}, {got} came"
            response = 10_000_000 + wire.delay
            # The ports of a bridge take no pauses.
            some = pauses - got > response * wire.rate / 1e12 / (8 * PFC_BYTES) + 8
            if some and not run.scenario.failures and b not in run.scenario.network.bridges:
                yield f"pauses: {a} sent {pauses} to {b}, only {got} came"
            for counters in (here, there):
                for name, value in counters.items():
                    if name.endswith("_pause_duration") and value > run.end_ps / 1e6:
                        yield f"pauses: {a}-{b} {name} {value} us of {run.end_ps} ps"
    # A PFC frame may name several priorities: each counts it.
    pfc = run.meta["packets"].get("pfc", 0)
    counted = hops
    if run.scenario.network.wires:
        others = run.meta["packet_hops"] - pfc
        tx_pauses = sum(
            _packets(run.node(a, b), "tx", "pause")
            for wire in run.scenario.network.wires
            for a, b in ((wire.a, wire.b), (wire.b, wire.a))
        )
        if counted - tx_pauses != others or tx_pauses < pfc:
            yield f"hops: ports sent {counted - tx_pauses} and {tx_pauses} pauses, {others} and {pfc} hops"
    if sum(run.meta["packets"].values()) != run.meta["packet_hops"] and run.rates:
        yield f"hops: {run.meta['packets']} are {run.meta['packet_hops']}"


def _latency(run: Run, a: str, b: str) -> int:
    """What packets from one node to another spend in the nodes themselves, ps: they count as on the link."""
    scenario = run.scenario
    latency = scenario.host.rx_latency if b in run.rates else scenario.switch.latency
    bridge = scenario.bridge
    return latency if bridge is None else latency + bridge.rx_latency + bridge.tx_latency


def _packets(counters: dict[str, int], way: str, what: str) -> int:
    if f"{way}_prio" not in "".join(counters) and what == "packets":
        return counters.get(f"{way}_packets", 0)  # of a bridge's port, all priorities together
    return sum(counters.get(f"{way}_prio{number}_{what}", 0) for number in range(8))


def bytes_on_ports(run: Run) -> Lines:
    """A host's port carried at least what its flows delivered, with the shortest headers there are."""
    for host in run.rates:
        counters = run.counters[host, ""]
        for way, end in (("rx", "dst"), ("tx", "src")):
            carried = sum(counters.get(f"{way}_prio{number}_bytes", 0) for number in range(8))
            delivered = run.sum("bytes_delivered", **{end: host})
            if delivered > carried:
                yield f"bytes: {host} {way} {carried} B, flows {delivered} B"
        if run.sum("packets_sent", src=host) > _packets(counters, "tx", "packets") + _waiting(run, host):
            yield f"packets: {host} sent {run.sum('packets_sent', src=host)}, port {counters}"


def _waiting(run: Run, host: str) -> int:
    """What a NIC's rings may hold of TCP, which has sent it by then; what a failed link dropped there."""
    held = run.sum("packets_sent", src=host, protocol="tcp")
    dropped = sum(packets for (where, _), packets in run.drops.items() if where.startswith(f"{host}:"))
    # One packet of each class may wait at the port.
    return held + dropped + 8


def latencies(run: Run) -> Lines:
    """Percentiles in order."""
    for row in run.meta["latency"]:
        if not 0 < row["min_ps"] <= row["median_ps"] <= row["p99_ps"] <= row["max_ps"] <= run.end_ps:
            yield f"latency: {row}"


def marked(run: Run) -> Lines:
    """No more packets arrived marked than arrived."""
    if run.scenario.network.hosts:
        signals = run.result.summary["signals"]
        if not signals["arrived_marked_packets"] <= signals["arrived_packets"]:
            yield f"marked: {signals}"


def standing_still(run: Run) -> Lines:
    """What is said to have stood still did: in that time no byte of its sender, or of all, was delivered."""
    bins = run.result.bins
    faults = [fault for fault in run.result.faults if fault["kind"] == "standing_still"]
    for fault in faults:
        inside = bins.within(fault["from_s"], fault["to_s"])
        whole = fault["to_s"] - fault["from_s"] >= 0.0999 * bins.end_s
        paused = (
            bins.values(fault["where"], "paused_share")[inside]
            if fault["text"].startswith("nothing of")
            else None
        )
        still = bins.total("goodput_rx_bps")[inside].max() == 0 if paused is None else paused.min() > 0.99
        if not (whole and still and fault["flows"]):
            yield f"standing_still: {fault}"
    # And what moved nothing at the end, with a flow under way since long before, is said.
    tail_s = bins.end_s * 0.5
    jobs = {job["item"] for job in run.result.meta.get("jobs", [])}
    under_way = [
        row
        for row in run.flows
        if row["state"] == "running"
        and row["start_ps"] / 1e12 < tail_s
        and row.get("protocol", "roce") == "roce"  # TCP may wait for a timeout
        and row["item"] not in jobs  # whose ranks compute
    ]
    # Three of the longest pauses, and two packets at DCQCN's lowest rate of 1 Mbit/s, may take so long.
    slowest_bps = min(run.result.meta["line_rate_bps"].values(), default=1e9)
    patience_s = max(3 * 65_535 * 512 / slowest_bps, 2 * 8 * run.scenario.host.mtu / 1e6)
    delays_s = sum(wire.delay for wire in run.scenario.network.wires) / 1e12
    dead = not bins.total("wire_rx_bps")[bins.within(tail_s)].any() and bins.has_any("wire_rx_bps")
    stuck = any(fault["kind"] == "deadlock" for fault in run.result.faults)
    dead = dead and bins.end_s - tail_s > patience_s
    if under_way and dead and bins.count > 20 and bins.end_s > 50 * delays_s and not faults and not stuck:
        yield f"standing_still: not said of {len(under_way)} flows"


CHECKS: tuple[Callable[[Run], Lines], ...] = (
    faults,
    ends,
    finite,
    rates,
    shares,
    queues,
    books,
    drops,
    links,
    bytes_on_ports,
    latencies,
    marked,
    standing_still,
)


def problems(scenario: Scenario, result: Result) -> list[str]:
    """All that is wrong with a run."""
    run = Run(scenario, result)
    return [line for check in CHECKS for line in check(run)]
