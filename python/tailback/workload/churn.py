"""Connections that come and go: who starts some, when, and for how long, drawn from a seed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tailback.scenario.hosts import names
from tailback.scenario.traffic import Churn
from tailback.workload import draws


class Connection(NamedTuple):
    """One queue pair; times in ps. It posts messages from `start` until `stop`."""

    src: str
    dst: str
    start: int
    stop: int


def rounds(item: Churn, end: int) -> range:
    """Starts of the rounds until `stop`, or `end` ps."""
    return range(item.start, min(item.stop or end, end), item.interval)


def chosen(item: Churn, hosts: int) -> int:
    """How many of `hosts` are chosen in a round."""
    return min(hosts, -(-hosts // 2) if item.senders is None else item.senders)


def most_connections(item: Churn, every: list[str], end: int) -> int:
    """How many queue pairs there are at most, without drawing them; `every` are the hosts of the network."""
    senders = chosen(item, len(names(item.from_, every)))
    return len(rounds(item, end)) * senders * len(names(item.to, every)) * item.qps


def connections(item: Churn, every: list[str], seed: int, index: int, end: int) -> Iterator[Connection]:
    """All queue pairs of traffic item `index`, round by round.

    Each round has a stream of its own: first its senders, then a lifetime for each queue pair. A longer run
    begins with the connections of a shorter one.
    """
    sources, targets = names(item.from_, every), names(item.to, every)
    senders = chosen(item, len(sources))
    span = item.lifetime_max - item.lifetime_min
    for round_, start in enumerate(rounds(item, end)):
        bits = draws.raw(seed, index, round_, senders * (1 + len(targets) * item.qps))
        picked = [sources[place] for place in draws.sample(bits, len(sources), senders)]
        pairs = [(source, to) for source in picked for to in targets for _ in range(item.qps)]
        shares = draws.unit(bits[senders:])
        for (source, to), share in zip(pairs, shares, strict=True):
            if source != to:
                lifetime = item.lifetime_min + int(float(share) * span)
                yield Connection(source, to, start, start + max(1, lifetime))
