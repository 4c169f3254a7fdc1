"""Who sends to whom in a run, and by which ports: by what was delivered, and the network's shortest ways."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow.compute as pc

from tailback.recorded.run import Recorded

MOST_ROUTES = 16
"""Routes from a host to another that are looked at, those with most traffic: a fat tree of k = 8 has 16."""
MOST_PAIRS = 400
"""Pairs of hosts that routes are looked at for, drawn by their bytes where there are more: enough to tell
where traffic stands."""

Numbers = np.ndarray[Any, np.dtype[np.int32]]
"""An array of whole numbers."""
_AT_ONCE = 1 << 17
"""Flows that are looked at together."""
Port = tuple[str, str]
"""A node and the peer that its port leads to."""


@dataclass(frozen=True)
class Pair:
    """Traffic of one host to another: `share` of all payload of the run. `weight` is that and the share of
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


class Ways:
    """The traffic of a run between hosts, and the ports that it takes."""

    def __init__(self, result: Recorded) -> None:
        """Of this run."""
        self.flows = result.flows
        self.network = result.setup.network
        self.counters: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
        columns = (result.counters.column(name).to_pylist() for name in ("node", "port", "counter", "value"))
        for node, port, counter, value in zip(*columns, strict=True):
            self.counters[node, port][counter] = value

    @cached_property
    def ends(self) -> tuple[list[tuple[str, str]], Numbers]:
        """The pairs of hosts, in the order of their first flows, and by flow the number of its pair."""
        # There may be ten million flows, so some are looked at at a time.
        numbers: dict[tuple[str, str], int] = {}
        number, at = np.empty(self.flows.num_rows, dtype=np.int32), 0
        for batch in self.flows.select(["src", "dst"]).to_batches(_AT_ONCE):
            columns = [pc.dictionary_encode(batch.column(end)) for end in (0, 1)]
            sources, receivers = ([str(name) for name in column.dictionary.to_pylist()] for column in columns)
            src, dst = (column.indices.to_numpy().astype(np.int64) for column in columns)
            _, first, of_row = np.unique(src * len(receivers) + dst, return_index=True, return_inverse=True)
            place = np.empty(len(first), dtype=np.int32)
            for pair in np.argsort(first).tolist():
                ends = sources[src[first[pair]]], receivers[dst[first[pair]]]
                place[pair] = numbers.setdefault(ends, len(numbers))
            number[at : at + len(src)] = place[of_row.reshape(-1)]
            at += len(src)
        return list(numbers), number

    @cached_property
    def shares(self) -> dict[tuple[str, str], float]:
        """Share of all payload by pair of hosts."""
        pairs, number = self.ends
        sizes = np.zeros(len(pairs), dtype=np.int64)
        np.add.at(sizes, number, self.flows.column("bytes_delivered").to_numpy())
        delivered = dict(zip(pairs, sizes.tolist(), strict=True))
        total = sum(delivered.values())
        return {pair: size / total if total else 1 / len(delivered) for pair, size in delivered.items()}

    @cached_property
    def sent(self) -> dict[str, float]:
        """Share of all payload by sending host."""
        return self._by_end(0)

    @cached_property
    def taken(self) -> dict[str, float]:
        """Share of all payload by receiving host."""
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
    def through(self) -> dict[Port, float]:
        """Share of all payload by port."""
        towards: dict[str, dict[str, float]] = defaultdict(dict)
        for (src, dst), share in self.shares.items():
            towards[dst][src] = share
        found: dict[Port, float] = defaultdict(float)
        for dst, sources in towards.items():
            for port, part in self._ways(sources, dst):
                found[port] += part
        return found

    def routes(self, pair: Pair) -> list[tuple[tuple[Port, ...], float]]:
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
            found = sorted(longer, key=lambda one: -one[1])[:MOST_ROUTES]
            if all(ports[-1][1] == pair.dst for ports, _ in found):
                break
        kept = sum(part for _, part in found)
        return [(ports, part / kept) for ports, part in found]

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

    def peers(self, node: str) -> list[str]:
        """Nodes at the other ends of a node's links."""
        return self._peers[node]

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


class _Sent(dict[Port, tuple[int, int]]):
    """Worked out port by port, when first asked for."""

    def __init__(self, counters: Mapping[tuple[str, str], Mapping[str, int]]) -> None:
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
    """True if a counter is one of these of any priority: `tx_prio3_bytes`."""
    return name.startswith(begin) and name.endswith(end) and name[len(begin) : len(name) - len(end)].isdigit()
