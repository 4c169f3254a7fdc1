"""Evidence to explain a run by: counters, queue series, flows, and nameplates.

A nameplate is what anybody can read off the hardware: the rate of a link (`ethtool`), of a PCIe slot
(`lspci`), of the memory's channels (`dmidecode`), which node is cabled to which. It turns bytes into a busy
share. The scenario's name and text, and every other setting of it, stay out of sight.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow.compute as pc

from tailback.explain.ways import Port, Ways, is_counter
from tailback.metrics.collectives import collectives, training_jobs
from tailback.metrics.critical_path import critical_paths
from tailback.metrics.links import ideal_payload_share
from tailback.metrics.spans import last_start
from tailback.recorded.bins import PS_PER_S, Array
from tailback.recorded.run import Recorded
from tailback.recorded.setup import TCP, TRIMMED_REASON, link_changes
from tailback.recorded.signals import CE_MARK, DROP, PFC_PAUSE
from tailback.wire import PREAMBLE_AND_GAP_BYTES

FIRST, LAST = 0.2, 0.95
"""Parts of the payload between which a run is looked at: the start of a run is not what it is about, nor its
last stragglers. An assumption: an engineer skips the first samples, too."""
LATEST_START_SHARE = 0.6
"""Of traffic without an end, the part of a run by which it must have started, all of it, for what came before
to be left out."""
LOST_ON_LINK = "lost on the link"
"""The reason of drops that a cable makes."""


class Observed(Ways):
    """A run as it is seen with knowledge of the machines, and none of the scenario."""

    def __init__(self, result: Recorded) -> None:
        super().__init__(result)
        self.bins = result.bins
        self.meta = result.meta
        self._plan = result.plan
        self.result = result

    # Time

    @cached_property
    def computing(self) -> float:
        """Share of the time of jobs that ranks compute, of the job that does so least; 0 without jobs. Of
        inputs of another simulator, the share in which the last rank waited for that.
        """
        paths = critical_paths(self.result)
        if paths:
            return min(path.compute_s / path.end_s for path in paths)
        known = [(job.computed_s, job.iteration_s) for job in training_jobs(self.result)]
        if not known or not all(time for _, time in known):
            return 0.0
        return min(computed / time for computed, time in known if time)

    @cached_property
    def by_flow(self) -> bool:
        """True if switches keep a flow on one of its equal-cost paths (ECMP)."""
        return all(
            model.get("load_balancing", "ecmp") == "ecmp" for model in self._plan.get("switch_models", [])
        )

    @cached_property
    def inside(self) -> bool:
        """True if collectives took place, and all of their messages inside of servers."""
        done = collectives(self.result)
        return bool(done) and not self.result.flows.num_rows and all(one.inside_s > 0 for one in done)

    @cached_property
    def span(self) -> tuple[float, float]:
        """Begin and end of what is explained, in seconds: the time in which the work was done."""
        bins = self.bins
        done = np.cumsum(bins.total("goodput_rx_bps") * bins.width_s)
        if not done[-1] > 0:
            return 0.0, bins.end_s
        first, last = np.searchsorted(done, [FIRST * done[-1], LAST * done[-1]])
        begin, end = float(bins.start_s[first]), float(bins.start_s[last] + bins.width_s[last])
        started = last_start(self.result)
        if self.result.setup.writer_qps and started < LATEST_START_SHARE * end:
            begin = max(begin, started + FIRST * (end - started))
        return begin, end

    @cached_property
    def done_s(self) -> float:
        """When `LAST` of the payload had been delivered, in seconds."""
        bins = self.bins
        delivered = np.cumsum(bins.total("goodput_rx_bps") * bins.width_s)
        return float(np.interp(LAST * delivered[-1], delivered, bins.start_s + bins.width_s))

    @cached_property
    def endless(self) -> bool:
        """True if there are queue pairs that never run out of work."""
        return "ideal_fct_ps" not in self.flows.column_names or bool(
            self.flows.column("ideal_fct_ps").null_count
        )

    def mean(self, entity: str, metric: str) -> float:
        """Mean of a series over the span; 0 where nothing was recorded."""
        found = self.bins.mean(self.bins.values(entity, metric), *self.span)
        return found if found == found else 0.0

    def series(self, entity: str, metric: str) -> Array:
        """Of the bins of the span."""
        return self.bins.values(entity, metric)[self.bins.inside(*self.span)]

    def waits(self, queue: str, signal: str) -> float:
        """Share of the span during which a signal with a duration, such as a pause, was active at a queue."""
        found = self.bins.mean(self.result.signal_log.values(queue, signal), *self.span)
        return found if found == found else 0.0

    def told(self, queue: str, *signals: str) -> float:
        """How often there was one of these signals at a queue in the span."""
        return float(self.result.signal_log.values(queue, *signals)[self.bins.inside(*self.span)].sum())

    @cached_property
    def drops(self) -> int:
        """Packets dropped in the whole run, anywhere."""
        return self.result.signal_log.count(DROP)

    def told_count(self, signal: str) -> int:
        """How often there was a signal in the whole run, anywhere."""
        return self.result.signal_log.count(signal)

    def told_in_run(self, queue: str, *signals: str) -> float:
        """The same in the whole run."""
        return float(self.result.signal_log.values(queue, *signals).sum())

    # Nameplates

    @cached_property
    def rate(self) -> dict[frozenset[str], int]:
        """Rate of each link, bit/s, by its two ends."""
        return {frozenset((wire.a, wire.b)): wire.rate for wire in self.network.wires}

    def link_rate(self, port: Port) -> float:
        """Of the link at a port, bit/s."""
        return float(self.rate[frozenset(port)])

    @cached_property
    def host_path(self) -> dict[str, dict[str, Any]]:
        """Nameplates of PCIe and memory of hosts that have them, bit/s: `pcie`, `memory` (none for GPUs)."""
        found = {}
        for host in self._plan.get("hosts", []) if "nics" in self._plan else []:
            path = self._plan["nics"][host["nic"]].get("host_path")
            if path is None:
                continue
            found[host["name"]] = {
                "pcie": path["pcie"]["rate"],
                "write": path["pcie"]["max_payload"],
                "overhead": path["tlp_overhead_bytes"],
                "memory": path["target"].get("memory", {}).get("own", {}).get("bandwidth"),
            }
        return found

    @cached_property
    def link_changes(self) -> list[tuple[float, frozenset[str], bool]]:
        """When links went down or came up, in seconds, as a switch's log has it."""
        links = self._plan.get("links", [])
        return [
            (at / 1e12, frozenset((links[number]["a"], links[number]["b"])), up)
            for at, number, up in link_changes(self._plan)
        ]

    # Queues

    @cached_property
    def queues(self) -> list[dict[str, Any]]:
        """Every place where bytes wait, as the recording has it."""
        seen: dict[str, dict[str, Any]] = {}
        for queue in self.meta["queues"]:
            seen.setdefault(queue["queue"], queue)
        return list(seen.values())

    @cached_property
    def egress_of(self) -> dict[Port, list[dict[str, Any]]]:
        """Egress queues by their port; of a bridge, queueing discipline and transmit ring."""
        found: dict[Port, list[dict[str, Any]]] = defaultdict(list)
        for queue in self.queues:
            if queue["kind"] in ("egress", "qdisc", "tx-ring"):
                found[queue["node"], queue["peer"]].append(queue)
        return found

    @cached_property
    def send_of(self) -> dict[str, list[str]]:
        """Series of the send queues of each host."""
        found: dict[str, list[str]] = defaultdict(list)
        for queue in self.queues:
            if queue["kind"] == "send":
                found[queue["node"]].append(queue["queue"])
        return found

    def has_queue(self, port: Port) -> bool:
        """True if the queue before a port was recorded."""
        return self.result.records_all or port in self.egress_of

    def marked(self, port: Port) -> float:
        """Packets that a port marked, in the span; of queues without series in the whole run."""
        if self.result.records_all:
            return self.port_told(port, CE_MARK)
        node, peer = port
        return self.result.signal_log.count(CE_MARK, from_=node, to=peer)

    def port_sum(self, port: Port, metric: str) -> float:
        """A metric of all egress queues of a port: means over the span added up."""
        return sum(self.mean(queue["queue"], metric) for queue in self.egress_of.get(port, []))

    def port_told(self, port: Port, signal: str) -> float:
        """How often there was a signal at the egress queues of a port in the span."""
        return sum(self.told(queue["queue"], signal) for queue in self.egress_of.get(port, []))

    def port_waits(self, port: Port) -> float:
        """Shares of the span for which egress queues of a port were paused, added up."""
        return sum(self.waits(queue["queue"], PFC_PAUSE) for queue in self.egress_of.get(port, []))

    def wire_share(self, port: Port) -> float:
        """Busy share of a port's wire, 0 to 1: bytes, preamble and gap over its rate."""
        node, peer = port
        for host, metric in ((node, "wire_tx_bps"), (peer, "wire_rx_bps")):
            if self.bins.has(host, metric):
                return self.mean(host, metric) / self.link_rate(port)
        if queues := self._with_rate.get(port):
            return sum(self.mean(queue, "wire_tx_bps") for queue in queues) / self.link_rate(port)
        frames, size = self._sent[port]
        # A port without series: its counters know the whole run only, and the flows through it say how much
        # of that was in the span.
        whole = (size + PREAMBLE_AND_GAP_BYTES * frames) * 8
        begin, end = self.span
        return whole * self.part_in_span(port) / (end - begin) / self.link_rate(port) if end > begin else 0.0

    @cached_property
    def _with_rate(self) -> dict[Port, list[str]]:
        """By port the egress queues whose rate was recorded."""
        found: dict[Port, list[str]] = defaultdict(list)
        for name in self.bins.entities("wire_tx_bps", kind="egress"):
            queue = self.bins.entity(name)
            if queue.node and queue.peer:
                found[queue.node, queue.peer].append(name)
        return found

    def part_in_span(self, port: Port) -> float:
        """Share of a port's bytes that passed it in the span, by when the flows through it were delivered."""
        inside = whole = 0.0
        # What only goes back, such as ACKs, does so while data goes the other way.
        for ends, part in self._through.get(port) or self._through.get((port[1], port[0]), []):
            inside += part * self._delivered[ends][0]
            whole += part * self._delivered[ends][1]
        if whole:
            return inside / whole
        begin, end = self.span
        return self.pace * (end - begin) / self.bins.end_s

    @cached_property
    def _through(self) -> dict[Port, list[tuple[tuple[str, str], float]]]:
        """By port the pairs of hosts whose traffic passes it, and the part of that which does."""
        found: dict[Port, list[tuple[tuple[str, str], float]]] = defaultdict(list)
        for pair in self.pairs:
            for port, part in pair.ways:
                if part:
                    found[port].append((pair.ends, part))
        return dict(found)

    @cached_property
    def _delivered(self) -> dict[tuple[str, str], tuple[float, float]]:
        """Bytes that each pair of hosts had delivered in the span, and in the whole run."""
        pairs, number = self.ends
        flows = self.flows.select(["item", "src", "bytes_delivered", "start_ps", "end_ps"])
        size = flows.column("bytes_delivered").to_numpy().astype(np.float64)
        start = pc.fill_null(flows.column("start_ps"), 0).to_numpy() / PS_PER_S
        end = pc.fill_null(flows.column("end_ps"), int(self.meta["end_ps"])).to_numpy() / PS_PER_S
        inside = np.zeros(len(size))
        codes = np.zeros(len(size), dtype=np.int64)
        names: list[list[str]] = []
        for name in ("src", "item"):
            one = pc.dictionary_encode(flows.column(name).combine_chunks())
            names.append(one.dictionary.to_pylist())
            codes = codes * max(1, len(names[-1])) + one.indices.to_numpy(zero_copy_only=False)
        order = np.argsort(codes, kind="stable")
        for of in np.split(order, np.flatnonzero(np.diff(codes[order])) + 1):
            if len(of):
                source, item = divmod(int(codes[of[0]]), max(1, len(names[1])))
                inside[of] = size[of] * self._part_of(names[0][source], names[1][item], start[of], end[of])
        sums = np.zeros((2, len(pairs)))
        np.add.at(sums[0], number, inside)
        np.add.at(sums[1], number, size)
        return {pair: (float(sums[0, at]), float(sums[1, at])) for at, pair in enumerate(pairs)}

    def _part_of(self, source: str, item: str, start: Array, end: Array) -> Array:
        """The part in the span of flows of a sender and item, by what it had delivered of the item."""
        bins = self.bins
        entity = bins.of_item(item, source)
        rate = bins.values(entity, "goodput_tx_bps") if entity else bins.values(source, "goodput_tx_bps")
        edges = np.append(bins.start_s, bins.end_s)
        done = np.concatenate(([0.0], np.cumsum(rate * bins.width_s)))

        def by(at: Array) -> Array:
            return np.asarray(np.interp(at, edges, done))

        begin, until = self.span
        whole = by(end) - by(start)
        part = by(np.clip(end, begin, until)) - by(np.clip(start, begin, until))
        # Without a series of its own a flow is taken to be delivered evenly.
        even = np.clip(end, begin, until) - np.clip(start, begin, until)
        even = np.divide(even, end - start, out=np.zeros(len(even)), where=end > start)
        return np.asarray(np.divide(part, whole, out=even, where=whole > 0))

    def packets_in(self, host: str) -> float:
        """Packets that a host received in the span, at the pace of the whole run."""
        counted = self.counters.get((host, ""), {})
        whole = sum(value for name, value in counted.items() if is_counter(name, "rx_prio", "_packets"))
        begin, end = self.span
        return whole * self.pace * (end - begin) / self.bins.end_s

    def need(self, port: Port) -> float:
        """Share of a port's rate that the payload delivered through it needs, with its headers."""
        return self.through[port] * self.goodput / self.payload_share / self.link_rate(port)

    @cached_property
    def payload_share(self) -> float:
        """Payload over what the wire carries if every packet goes once."""
        found = ideal_payload_share(self.result)
        return found if found > 0 else 1.0

    @cached_property
    def goodput(self) -> float:
        """Payload a second of all receivers over the span, bit/s."""
        found = self.bins.mean(self.bins.total("goodput_rx_bps"), *self.span)
        return found if found == found else 0.0

    @cached_property
    def pace(self) -> float:
        """Goodput in the span over that of the whole run."""
        whole = self.bins.mean(self.bins.total("goodput_rx_bps"))
        return self.goodput / whole if whole else 1.0

    # Traffic

    @cached_property
    def lost_on_wire(self) -> dict[Port, int]:
        """Packets that left a port and came with errors, in the whole run: no buffer dropped them."""
        return self._dropped_for(LOST_ON_LINK)

    @cached_property
    def begins_late(self) -> float:
        """Time before their start of the messages that ranks waited for one after another, as a share of the
        run; 0 except for SimAI's inputs.
        """
        simai: Any = getattr(self.result.setup, "simai", None)  # its class takes a while to load
        waited_us = 0 if simai is None else simai.waited_us
        return waited_us / 1e6 / self.bins.end_s if self.bins.end_s else 0.0

    @cached_property
    def timeouts(self) -> int:
        """How often a retransmission timer fired."""
        return int(pc.sum(self.flows.column("local_ack_timeout_err")).as_py() or 0)

    @cached_property
    def leaves_messages(self) -> bool:
        """True if finite traffic had unfinished messages when the run ended."""
        states = set(pc.unique(self.flows.column("state")).to_pylist())
        return not self.endless and states != {"done"}

    @cached_property
    def trimmed(self) -> dict[Port, int]:
        """Packets that lost their payload at a port, in the whole run, and whose headers went on."""
        return self._dropped_for(TRIMMED_REASON)

    def _dropped_for(self, reason: str) -> dict[Port, int]:
        found: dict[Port, int] = defaultdict(int)
        for one in self.meta["drops"]:
            if one["reason"] == reason:
                found[one["node"], one["peer"]] += one["packets"]
        return found

    @cached_property
    def bridges(self) -> set[str]:
        """Names of Linux bridges."""
        return set(self.network.bridges)

    @cached_property
    def sent_again(self) -> float:
        """Packets sent again, as a share of all that were sent."""
        counts = [
            int(pc.sum(self.flows.column(name)).as_py() or 0) if name in self.flows.column_names else 0
            for name in ("packets_retransmitted", "packets_sent")
        ]
        return counts[0] / counts[1] if counts[1] else 0.0

    def in_rings(self, bridge: str) -> float:
        """Bytes in all receive rings of a bridge, mean over the span: ports may share a core."""
        return sum(self.mean(row, "queue_mean_bytes") for row in self.rings(bridge))

    def rings(self, bridge: str) -> list[str]:
        """The series of a bridge's receive rings."""
        return self.bins.entities("queue_mean_bytes", kind="rx-ring", node=bridge)

    def shaper(self, bridge: str) -> float | None:
        """Rate of the token bucket before each wire of a bridge, bit/s; none where there is no tbf."""
        found = self._bridge_model(bridge)["qdisc"]
        settings = found.get("tbf") if isinstance(found, dict) else None
        return float(settings["own"]["rate"]) if settings else None

    def _bridge_model(self, bridge: str) -> dict[str, Any]:
        number = next(one["model"] for one in self._plan["bridges"] if one["name"] == bridge)
        model: dict[str, Any] = self._plan["bridge_models"][number]
        return model

    def ring_entries(self, bridge: str) -> int:
        """Descriptors of a bridge's receive rings, as `ethtool -g` shows them."""
        return int(self._bridge_model(bridge)["host"]["rx_ring"])

    @cached_property
    def cores(self) -> dict[str, list[float]]:
        """Busy share of each core of hosts whose CPU was used, over the whole run."""
        return {
            one["host"]: [sum(core.values()) for core in one["cores"]] for one in self.meta.get("cpu") or []
        }

    @cached_property
    def protocols(self) -> set[str]:
        """`roce`, `tcp`."""
        if "protocol" not in self.flows.column_names:
            return {"roce"}
        return set(pc.unique(self.flows.column("protocol")).to_pylist())

    @property
    def has_tcp(self) -> bool:
        """True if TCP is among the traffic."""
        return TCP in self.protocols

    def share_above(self, entity: str, metric: str, level: float) -> float:
        """Share of the span in which a series was above a level."""
        values = self.series(entity, metric)
        return float(np.mean(values > level)) if len(values) else 0.0
