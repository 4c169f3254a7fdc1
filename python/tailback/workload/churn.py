"""Connection churn: senders, start times and lifetimes of connections, drawn from a seed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tailback.scenario.hosts import names
from tailback.scenario.traffic import Churn
from tailback.workload import draws


class Connection(NamedTuple):
    """A queue pair, which posts messages from `start` until `stop` (ps)."""

    src: str
    dst: str
    start: int
    stop: int


def rounds(item: Churn, end: int) -> range:
    """Start times of the rounds until `stop`, or `end` ps."""
    return range(item.start, min(item.stop or end, end), item.interval)


def senders_per_round(item: Churn, hosts: int) -> int:
    """Number of senders in a round, of `hosts`."""
    return min(hosts, -(-hosts // 2) if item.senders is None else item.senders)


def sources(item: Churn, every: list[str]) -> list[str]:
    """The hosts that senders are drawn from: those in `from` with another host in `to`."""
    targets = set(names(item.to, every))
    return [host for host in names(item.from_, every) if targets != {host}]


def max_connections(item: Churn, every: list[str], end: int) -> int:
    """Maximum number of queue pairs, without drawing them; `every` are the hosts of the network."""
    senders = senders_per_round(item, len(sources(item, every)))
    return len(rounds(item, end)) * senders * len(names(item.to, every)) * item.qps


def connections(item: Churn, every: list[str], seed: int, index: int, end: int) -> Iterator[Connection]:
    """All queue pairs of traffic item `index`, round by round.

    Each round has its own random stream: first its senders, then a lifetime for each queue pair. A longer run
    begins with the connections of a shorter one.
    """
    hosts, targets = sources(item, every), names(item.to, every)
    senders = senders_per_round(item, len(hosts))
    span = item.lifetime_max - item.lifetime_min
    for round_, start in enumerate(rounds(item, end)):
        bits = draws.raw(seed, index, round_, senders * (1 + len(targets) * item.qps))
        picked = [hosts[place] for place in draws.sample(bits, len(hosts), senders)]
        pairs = [(source, to) for source in picked for to in targets for _ in range(item.qps)]
        shares = draws.unit(bits[senders:])
        for (source, to), share in zip(pairs, shares, strict=True):
            if source != to:
                lifetime = item.lifetime_min + int(float(share) * span)
                yield Connection(source, to, start, start + max(1, lifetime))
