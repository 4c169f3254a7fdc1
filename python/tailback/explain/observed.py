"""What may be looked at to explain a run: counters, queue series, flows, and nameplates.

A nameplate is what anybody can read off the hardware: the rate of a link (`ethtool`), of a PCIe slot
(`lspci`), of the memory's channels (`dmidecode`), which node is cabled to which. It turns bytes into a busy
share. The scenario's name and text, and every other setting of it, stay out of sight.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow.compute as pc

from tailback.explain.work import Work
from tailback.measures import ideal_payload_share, last_start
from tailback.measures.collectives import collectives, training_jobs
from tailback.recorded.bins import Array
from tailback.recorded.run import Recorded
from tailback.recorded.setup import TCP, TRIMMED, link_changes
from tailback.recorded.signals import CE_MARK, PFC_PAUSE
from tailback.simai.setup import SimaiSetup

GAP_BYTES = 20
"""Preamble, start-of-frame delimiter and gap of a frame (IEEE 802.3): on the wire and in no counter."""
FIRST, LAST = 0.2, 0.95
"""Parts of the payload between which a run is looked at: the start of a run is not what it is about, nor its
last stragglers. An assumption: an engineer skips the first samples, too."""
SETTLED = 0.6
"""Of traffic without an end, the part of a run by which it must have started, all of it, for what came before
to be left out."""
MOST_PATHS = 16
"""Ways from a host to another that are looked at, those with most traffic: a fat tree of k = 8 has so many.
"""
ONE_WAY = 0.99
"""The part of a pair's traffic above which a port takes all of it."""
LOST = "lost on the link"
"""The reason of drops that a cable makes."""
MOST_PAIRS = 400
"""Pairs of hosts that paths are looked at for, drawn by their bytes where there are more: enough to tell
where traffic stands."""

Numbers = np.ndarray[Any, np.dtype[np.int64]]
"""An array of whole numbers."""
Port = tuple[str, str]
"""A node and the peer that its port leads to."""


@dataclass(frozen=True)
class Pair:
    """What one host sends to another: `share` of all payload of the run. `weight` is that and the share of
    the pairs that it stands for, where not all are looked at.
    """

    src: str
    dst: str
    share: float
    weight: float
    ways: tuple[tuple[Port, float], ...]
    """Ports from sender to receiver, each with the part of this traffic that takes it (ECMP: even)."""

    @property
    def ends(self) -> tuple[str, str]:
        """Sender and receiver."""
        return self.src, self.dst


@dataclass(frozen=True)
class Gate:
    """The node that all ways to some hosts pass: a host itself, or what a host's only link leads to."""

    node: str
    distance: dict[str, int]
    """From each node that can reach it, in links."""
    nearer: dict[str, list[str]]
    """Where the shortest ways of a node go on, as far as anybody asked."""


class Observed:
    """A run as somebody sees it who knows the machines, and not the scenario."""

    def __init__(self, result: Recorded) -> None:
        """Of this run."""
        self.bins = result.bins
        self.flows = result.flows
        self.meta = result.meta
        self.network = result.setup.network
        self._plan = result.plan
        self._result = result
        self.counters: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
        columns = (result.counters.column(name).to_pylist() for name in ("node", "port", "counter", "value"))
        for node, port, counter, value in zip(*columns, strict=True):
            self.counters[node, port][counter] = value

    # Time

    @cached_property
    def computing(self) -> float:
        """Share of the time of jobs that ranks compute, of the job that does so least; 0 without jobs."""
        known = [(job.computed_s, job.iteration_s) for job in training_jobs(self._result)]
        if not known or not all(time for _, time in known):
            return 0.0
        return min(computed / time for computed, time in known if time)

    @cached_property
    def by_flow(self) -> bool:
        """Whether switches keep a flow on one of equally short ways."""
        return all(
            model.get("load_balancing", "ecmp") == "ecmp" for model in self._plan.get("switch_models", [])
        )

    @cached_property
    def inside(self) -> bool:
        """Whether collectives took place, and all of their messages inside of servers."""
        done = collectives(self._result)
        return bool(done) and not self._result.flows.num_rows and all(one.inside_s > 0 for one in done)

    @cached_property
    def span(self) -> tuple[float, float]:
        """Begin and end of what is explained, in seconds: the time in which the work was done."""
        bins = self.bins
        done = np.cumsum(bins.total("goodput_rx_bps") * bins.width_s)
        if not done[-1] > 0:
            return 0.0, bins.end_s
        first, last = np.searchsorted(done, [FIRST * done[-1], LAST * done[-1]])
        begin, end = float(bins.start_s[first]), float(bins.start_s[last] + bins.width_s[last])
        started = last_start(self._result)
        if self._result.setup.writer_qps and started < SETTLED * end:
            begin = max(begin, started + FIRST * (end - started))
        return begin, end

    @cached_property
    def work(self) -> Work:
        """When it was posted and when it was done."""
        return Work(self.bins, self.flows, LAST)

    def mean(self, entity: str, metric: str) -> float:
        """Mean of a series over the span; 0 where nothing was recorded."""
        found = self.bins.mean(self.bins.values(entity, metric), *self.span)
        return found if found == found else 0.0

    def series(self, entity: str, metric: str) -> Array:
        """Of the bins of the span."""
        return self.bins.values(entity, metric)[self.bins.inside(*self.span)]

    def waits(self, queue: str, signal: str) -> float:
        """Share of the span for which a queue waited by a signal that lasts; or had others wait."""
        found = self.bins.mean(self._result.told.values(queue, signal), *self.span)
        return found if found == found else 0.0

    def told(self, queue: str, *signals: str) -> float:
        """How often there was one of these signals at a queue in the span."""
        return float(self._result.told.values(queue, *signals)[self.bins.inside(*self.span)].sum())

    def told_in_run(self, queue: str, *signals: str) -> float:
        """The same in the whole run."""
        return float(self._result.told.values(queue, *signals).sum())

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
                "pcie": path["path"]["rate"],
                "write": path["path"]["max_payload"],
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
        """Whether the queue before a port was recorded."""
        return self._result.records_all or port in self.egress_of

    def marked(self, port: Port) -> float:
        """Packets that a port marked, in the span; of queues without series in the whole run."""
        if self._result.records_all:
            return self.port_told(port, CE_MARK)
        node, peer = port
        return self._result.told.count(CE_MARK, from_=node, to=peer)

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
        frames, size = self._sent[port]
        # Counters know the whole run only: the span had so much more of the traffic.
        whole = (size + GAP_BYTES * frames) * 8 / self.bins.end_s
        return whole * self.pace / self.link_rate(port)

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
    def through(self) -> dict[Port, float]:
        """What of all payload goes through each port."""
        towards: dict[str, dict[str, float]] = defaultdict(dict)
        for (src, dst), share in self.shares.items():
            towards[dst][src] = share
        found: dict[Port, float] = defaultdict(float)
        for dst, sources in towards.items():
            for port, part in self._ways(sources, dst):
                found[port] += part
        return found

    @cached_property
    def payload_share(self) -> float:
        """Payload over what the wire carries if every packet goes once."""
        found = ideal_payload_share(self._result)
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
    def ends(self) -> tuple[list[tuple[str, str]], Numbers]:
        """The pairs of hosts, in the order of their first flows, and by flow the number of its pair."""
        columns = [self.flows.column(name).combine_chunks().dictionary_encode() for name in ("src", "dst")]
        sources, receivers = ([str(name) for name in column.dictionary.to_pylist()] for column in columns)
        src, dst = (column.indices.to_numpy().astype(np.int64) for column in columns)
        _, first, number = np.unique(src * len(receivers) + dst, return_index=True, return_inverse=True)
        order = np.argsort(first)
        pairs = [(sources[src[at]], receivers[dst[at]]) for at in first[order].tolist()]
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        return pairs, place[number.reshape(-1)]

    @cached_property
    def shares(self) -> dict[tuple[str, str], float]:
        """What of all payload each pair of hosts is."""
        pairs, number = self.ends
        sizes = np.zeros(len(pairs), dtype=np.int64)
        np.add.at(sizes, number, self.flows.column("bytes_delivered").to_numpy())
        delivered = dict(zip(pairs, sizes.tolist(), strict=True))
        total = sum(delivered.values())
        return {pair: size / total if total else 1 / len(delivered) for pair, size in delivered.items()}

    @cached_property
    def sent(self) -> dict[str, float]:
        """What of all payload each host sends."""
        return self._by_end(0)

    @cached_property
    def taken(self) -> dict[str, float]:
        """What of all payload each host receives."""
        return self._by_end(1)

    def _by_end(self, end: int) -> dict[str, float]:
        found: dict[str, float] = defaultdict(float)
        for pair, share in self.shares.items():
            found[pair[end]] += share
        return found

    @cached_property
    def pairs(self) -> list[Pair]:
        """Pairs of hosts with traffic, those that delivered most first."""
        weights = self.shares if len(self.shares) <= MOST_PAIRS else self._drawn()
        most = sorted(weights, key=lambda pair: (-self.shares[pair], pair))
        return [
            Pair(
                src,
                dst,
                self.shares[src, dst],
                weights[src, dst],
                tuple(self._ways({src: 1.0}, dst)),
            )
            for src, dst in most
        ]

    def _drawn(self) -> dict[tuple[str, str], float]:
        """Pairs met at even steps through all payload, pairs in order, each with what it stands for."""
        found: dict[tuple[str, str], float] = defaultdict(float)
        step, passed, following = 1 / MOST_PAIRS, 0.0, 0.5 / MOST_PAIRS
        for pair in sorted(self.shares):
            passed += self.shares[pair]
            while following < passed:
                found[pair] += step
                following += step
        return found

    @cached_property
    def _peers(self) -> dict[str, list[str]]:
        """Nodes at the other ends of each node's links."""
        ends = self.network.wires_of.items()
        return {node: [wire.b if wire.a == node else wire.a for wire in wires] for node, wires in ends}

    @cached_property
    def _gates(self) -> dict[str, Gate]:
        """Where the ways to each host that receives come together."""
        gates: dict[str, Gate] = {}
        found = {}
        for dst in {dst for _, dst in self.shares}:
            # Hosts with one link to the same node are reached alike: there may be very many.
            peers = self._peers[dst]
            node = peers[0] if len(peers) == 1 else dst
            if node not in gates:
                gates[node] = Gate(node, self._distances_to(node), {})
            found[dst] = gates[node]
        return found

    def paths(self, pair: Pair) -> list[tuple[tuple[Port, ...], float]]:
        """The shortest ways of a pair one by one, each with the part of its traffic that takes it: at each
        node, as what its ports sent has it.
        """
        gate = self._gates[pair.dst]
        found: list[tuple[tuple[Port, ...], float]] = [((), 1.0)]
        for _ in range(len({port[0] for port, _ in pair.ways})):
            longer = []
            for ports, part in found:
                node = ports[-1][1] if ports else pair.src
                if node == pair.dst:
                    longer.append((ports, part))
                    continue
                beyond = node == gate.node
                nearer = [pair.dst] if beyond else self._nearer(node, gate)
                sent = [self.sent_by[node, peer] for peer in nearer]
                whole = sum(sent)
                for peer, size in zip(nearer, sent, strict=True):
                    share = size / whole if whole else 1 / len(nearer)
                    if share:
                        longer.append(((*ports, (node, peer)), part * share))
            found = sorted(longer, key=lambda one: -one[1])[:MOST_PATHS]
            if all(ports[-1][1] == pair.dst for ports, _ in found):
                break
        kept = sum(part for _, part in found)
        return [(ports, part / kept) for ports, part in found]

    @cached_property
    def lost_on_wire(self) -> dict[Port, int]:
        """Packets that left a port and came with errors, in the whole run: nobody's buffer was too small."""
        return self._dropped_for(LOST)

    @cached_property
    def begins_late(self) -> float:
        """Share of the run for which messages waited before they began that ranks waited for one behind the
        other; 0 but for SimAI's inputs.
        """
        setup = self._result.setup
        waited_us = setup.simai.waited_us if isinstance(setup, SimaiSetup) else 0
        return waited_us / 1e6 / self.bins.end_s if self.bins.end_s else 0.0

    @cached_property
    def timeouts(self) -> int:
        """How often a retransmission timer fired."""
        return int(pc.sum(self.flows.column("local_ack_timeout_err")).as_py() or 0)

    @cached_property
    def leaves_messages(self) -> bool:
        """Whether messages were not done when the run ended, of senders that run out of work."""
        states = set(self.flows.column("state").to_pylist())
        return not self.work.endless and states != {"done"}

    @cached_property
    def trimmed(self) -> dict[Port, int]:
        """Packets that lost their payload at a port, in the whole run, and whose headers went on."""
        return self._dropped_for(TRIMMED)

    def _dropped_for(self, reason: str) -> dict[Port, int]:
        found: dict[Port, int] = defaultdict(int)
        for one in self.meta["drops"]:
            if one["reason"] == reason:
                found[one["node"], one["peer"]] += one["packets"]
        return found

    @cached_property
    def sent_by(self) -> dict[Port, int]:
        """Bytes that each port sent in the whole run."""
        found: dict[Port, int] = defaultdict(int)
        for wire in self.network.wires:
            for port in ((wire.a, wire.b), (wire.b, wire.a)):
                found[port] += self._sent[port][1]
        return found

    @cached_property
    def _sent(self) -> _Sent:
        """Packets and bytes that each port sent in the whole run, by its counters."""
        return _Sent(self.counters)

    def is_one_of_several(self, port: Port) -> bool:
        """Whether traffic at this node may take other ports to the same hosts."""
        return port in self._spread

    @cached_property
    def _spread(self) -> set[Port]:
        return {port for pair in self.pairs for port, part in pair.ways if part < ONE_WAY}

    def _distances_to(self, dst: str) -> dict[str, int]:
        """Of every node, in links."""
        found, frontier = {dst: 0}, deque([dst])
        while frontier:
            node = frontier.popleft()
            for other in self._peers[node]:
                if other not in found:
                    found[other] = found[node] + 1
                    frontier.append(other)
        return found

    def _ways(self, sources: dict[str, float], dst: str) -> list[tuple[Port, float]]:
        """All shortest ways at once, split evenly at each node, of what some hosts send to one."""
        gate = self._gates[dst]
        beyond = 0 if gate.node == dst else 1
        begins: dict[int, dict[str, float]] = defaultdict(dict)
        for src, part in sources.items():
            begins[gate.distance[src] + beyond if src in gate.distance else 0][src] = part
        parts: dict[str, float] = defaultdict(float)
        found = []
        for hops in range(max(begins), 0, -1):
            for src, part in begins[hops].items():
                parts[src] += part
            after: dict[str, float] = defaultdict(float)
            for node, part in parts.items():
                nearer = [dst] if beyond and node == gate.node else self._nearer(node, gate)
                each = part / len(nearer)
                for peer in nearer:
                    found.append(((node, peer), each))
                    after[peer] += each
            parts = after
        return found

    def _nearer(self, node: str, gate: Gate) -> list[str]:
        """Where a node's shortest ways to a gate go on."""
        if node not in gate.nearer:
            hops = gate.distance[node] - 1
            gate.nearer[node] = [peer for peer in self._peers[node] if gate.distance[peer] == hops]
        return gate.nearer[node]

    @cached_property
    def bridges(self) -> set[str]:
        """Names of Linux bridges."""
        return set(self.network.bridges)

    @cached_property
    def sent_again(self) -> float:
        """Packets sent again, as a share of all that were sent."""
        counts = [
            sum(self.flows.column(name).to_pylist()) if name in self.flows.column_names else 0
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
        return set(self.flows.column("protocol").unique().to_pylist())

    @property
    def has_tcp(self) -> bool:
        """Whether TCP is among the traffic."""
        return TCP in self.protocols

    def share_above(self, entity: str, metric: str, level: float) -> float:
        """Share of the span in which a series was above a level."""
        values = self.series(entity, metric)
        return float(np.mean(values > level)) if len(values) else 0.0


class _Sent(dict[Port, tuple[int, int]]):
    """Worked out port by port, when first asked for."""

    def __init__(self, counters: Mapping[tuple[str, str], Mapping[str, int]]) -> None:
        """Of counters by node and port."""
        super().__init__()
        self._counters = counters

    def __missing__(self, port: Port) -> tuple[int, int]:
        counted = self._counters.get((port[0], f"{port[0]}:{port[1]}"), {})
        self[port] = (
            sum(value for name, value in counted.items() if is_counter(name, "tx_prio", "_packets")),
            sum(value for name, value in counted.items() if is_counter(name, "tx_prio", "_bytes")),
        )
        return self[port]


def is_counter(name: str, begin: str, end: str) -> bool:
    """Whether a counter is one of these of any priority: `tx_prio3_bytes`."""
    return name.startswith(begin) and name.endswith(end) and name[len(begin) : len(name) - len(end)].isdigit()
