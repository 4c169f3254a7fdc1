"""The least time of messages and of collectives on a network, by closed forms.

Bandwidth: what has to cross a cut, whatever the algorithm, over what the links of the cut carry; a cut in the
middle is the bisection, and one around a rank goes through the links inside of its server, too. Of n ranks k
are in one part, and S is the size as nccl-tests count it. An all-gather brings S (n - k)/n in and S k/n out,
a reduce-scatter the other way round, an all-to-all S k (n - k)/n each way, a broadcast S into each part that
its first rank is not in. An all-reduce brings S out of each part and into it, and all m parts together send
2 (m - 1) S at least (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
workstations", 2009).

Latency: the steps that an algorithm takes one behind the other, each no shorter than the shortest way between
two hosts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tailback import text
from tailback.metrics.links import ideal_payload_share
from tailback.recorded.bins import PS_PER_S
from tailback.recorded.run import Recorded

_SERVER_TIER = -1
"""The tier of a cut around each rank where servers have links of their own."""


class Bound(NamedTuple):
    """Least time in seconds, and what bounds it."""

    time_s: float
    at: str


def bound(result: Recorded, job: dict[str, Any], plan: dict[str, Any]) -> Bound:
    """Of one collective of a job; `plan` is its step."""
    network = result.setup.network
    number = network.host_number
    ranks = np.array([number[host] for host in job["hosts"]])
    share = ideal_payload_share(result) if result.flows.num_rows else 1.0
    own = next(one for one in result.plan["jobs"] if one["name"] == job["name"])
    found = [Bound(_latency(result, own, plan), "latency of its steps")]
    for tier, part_of, rates, heads in _parts(result, own, share):
        inside = np.bincount(part_of[ranks], minlength=len(rates))
        bits = 8.0 * _across(plan, inside, len(ranks))
        times = np.divide(bits, rates, out=np.zeros(len(rates)), where=rates > 0)
        worst = float(times.max(initial=0.0))
        if plan["kind"] == "all-reduce" and (total := rates[inside > 0].sum()) > 0:
            every = 2 * (np.count_nonzero(inside) - 1) * plan["bytes"] * 8.0 / total
            times = np.where(inside > 0, np.maximum(times, every), times)
            worst = float(times.max())
        if worst > 0:
            alike = [heads[one] for one in np.flatnonzero(times * 1.001 >= worst)]
            found.append(Bound(worst, _place(tier, alike, own["domain"] is not None)))
    # Of two that are alike the links nearer to hosts say more.
    return max(found, key=lambda one: one.time_s)


def _place(tier: int, heads: list[str], servers: bool) -> str:
    if tier == _SERVER_TIER:
        return "the links inside servers, and the links of hosts"
    if tier or not servers:
        return place(tier, heads)
    return f"the links of the server of {heads[0]}" if len(heads) == 1 else "the links of servers"


def _across(plan: dict[str, Any], inside: npt.NDArray[Any], ranks: int) -> npt.NDArray[np.float64]:
    """Bytes that have to leave or to enter each part, whichever is more."""
    size, kind = float(plan["bytes"]), plan["kind"]
    cut = (inside > 0) & (inside < ranks)
    if kind == "all-to-all":
        bytes_ = size * inside * (ranks - inside) / ranks
    elif kind in ("all-gather", "reduce-scatter"):
        bytes_ = size * np.maximum(inside, ranks - inside) / ranks
    else:  # A broadcast leaves its root's part, and enters all others.
        bytes_ = np.full(len(inside), size)
    return np.where(cut, bytes_, 0.0)


def _parts(
    result: Recorded, plan: dict[str, Any], share: float
) -> Iterator[tuple[int, npt.NDArray[Any], npt.NDArray[Any], list[str]]]:
    """Cuts, and what they carry of payload, which is a share of what the network's links do. Where servers
    have links of their own a cut goes around a rank, or through no server.
    """
    servers: dict[int, list[int]] = {}
    for host, server in zip(plan["ranks"], plan["servers"], strict=True):
        servers.setdefault(server, []).append(host)
    for tier, part_of, wire_rates, heads in cuts(result):
        rates = wire_rates * share
        if tier == 0 and plan["domain"] is not None:
            inside = rates.copy()
            for hosts in servers.values():
                if len(hosts) > 1:
                    inside[part_of[hosts]] += plan["domain"]["rate"]
            yield _SERVER_TIER, part_of, inside, heads
        if plan["domain"] is None:
            yield tier, part_of, rates, heads
            continue
        leader = np.arange(len(rates))
        for hosts in servers.values():
            together = np.unique(leader[part_of[hosts]])
            leader[np.isin(leader, together)] = together[0]
        merged = np.bincount(leader, rates, len(rates))
        yield tier, leader[part_of], merged, heads


def _latency(result: Recorded, job: dict[str, Any], plan: dict[str, Any]) -> float:
    """Seconds that the messages of an algorithm which wait for each other take at least."""
    ranks, kind = len(job["ranks"]), plan["kind"]
    across = _least_way(result)
    inside = across if job["domain"] is None else job["domain"]["latency"] / PS_PER_S
    twice = 2 if kind == "all-reduce" else 1
    if plan["algorithm"] == "hierarchical":
        servers = len(set(job["servers"]))
        between = servers - 1 if kind != "all-to-all" else min(servers - 1, 1)
        return float(twice * (between * across + (ranks > servers) * inside))
    steps = {
        "ring": ranks - 1,
        "halving-doubling": ranks.bit_length() - 1,
        "double-binary-tree": ranks.bit_length() - 1,  # the least height of a binary tree
    }
    return float(twice * steps.get(plan["algorithm"], 1) * min(inside, across))


def _least_way(result: Recorded) -> float:
    """Seconds that no message between two hosts is below: links, a switch, and the receiving NIC."""
    links = min(wire.delay for wire in result.setup.network.wires)
    switch = min((model["latency"] for model in result.plan["switch_models"]), default=None)
    nic = min(nic["rx_latency"] for nic in result.plan["nics"])
    way = links + nic if switch is None else 2 * links + switch + nic
    return float(way / PS_PER_S)


EQUAL_TIME_FACTOR = 1.001
"""Cuts that need the same time, except for rounding."""


def bound_of_messages(
    result: Recorded, sources: Sequence[str], targets: Sequence[str], sizes: npt.NDArray[np.int64]
) -> tuple[float, str]:
    """The least time of messages between hosts in seconds, and the links that it takes."""
    number = result.setup.network.host_number
    src, dst = (np.array([number[name] for name in hosts], dtype=np.int64) for hosts in (sources, targets))
    share = ideal_payload_share(result)
    payload_share = share if share > 0 else 1.0
    found: list[tuple[float, str, int]] = []
    for tier, part_of, rates, heads in cuts(result):
        out, into = part_of[src], part_of[dst]
        crosses = out != into
        weights = sizes[crosses] * 8.0
        bits = np.maximum(
            np.bincount(out[crosses], weights, len(rates)), np.bincount(into[crosses], weights, len(rates))
        )
        # A part without a link out has no traffic out of it either.
        times = np.divide(bits, rates * payload_share, out=np.zeros(len(rates)), where=rates > 0)
        worst = float(times.max(initial=0.0))
        alike = np.flatnonzero(times * EQUAL_TIME_FACTOR >= worst)
        if worst > 0:
            found.append((worst, place(tier, [heads[one] for one in alike]), tier))
    if not found:
        return 0.0, ""
    # Of two that need the same, hosts' own links say more.
    time, where, _ = min(found, key=lambda one: (-one[0], one[2]))
    return time, where


def cuts(result: Recorded) -> Iterator[tuple[int, npt.NDArray[Any], npt.NDArray[Any], list[str]]]:
    """For each tier: the part that each host is in when all above is cut off, what the links out of each part
    carry one way, and the first of its highest nodes. Links that were never up carry nothing.
    """
    network = result.setup.network
    down = _never_up(result)
    tier_of = network.tier_of
    for tier in range(max(tier_of.values(), default=0)):
        part: dict[str, int] = {}
        heads: list[str] = []
        for node in tier_of:
            if tier_of[node] > tier or node in part:
                continue
            part[node] = len(heads)
            together = [node]
            for one in together:
                for wire in network.wires_of[one]:
                    peer = wire.b if wire.a == one else wire.a
                    if tier_of[peer] <= tier and tier > 0 and peer not in part:
                        part[peer] = len(heads)
                        together.append(peer)
            heads.append(max(sorted(together, key=text.natural), key=lambda name: tier_of[name]))
        rates = np.zeros(len(heads))
        for wire in (wire for at, wire in enumerate(network.wires) if at not in down):
            ends = (part.get(wire.a), part.get(wire.b))
            for number in ends if ends[0] != ends[1] else ():
                if number is not None:
                    rates[number] += wire.rate
        yield tier, np.array([part[host] for host in network.hosts]), rates, heads


def _never_up(result: Recorded) -> set[int]:
    """Numbers of links that were down from the start of the run to its end."""
    end = result.meta["end_ps"]
    return {
        one["link"]
        for one in result.plan.get("failures", [])
        if not one["at"] and (one["repair"] is None or one["repair"] >= end)
    }


def place(tier: int, heads: list[str]) -> str:
    """The links out of parts of a tier, in words."""
    if tier == 0:
        return f"the link of {heads[0]}" if len(heads) == 1 else "the links of hosts"
    if len(heads) == 1:
        return f"the links above {heads[0]}"
    return f"the links above {heads[0]} and {text.plural(len(heads) - 1, 'other')} like it"
