"""Draws the messages of each kind of traffic item from a seed. 100,000 take well under a second."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from tailback.scenario.collectives import AllToAll
from tailback.scenario.hosts import names
from tailback.scenario.network import Network
from tailback.scenario.traffic import Incast, Permutation, Poisson
from tailback.workload import draws
from tailback.workload.draws import Bits, Ints
from tailback.workload.sizes import Sizes
from tailback.workload.table import Messages, messages

_PS_PER_S = 10**12


def numbers(hosts: tuple[str, ...], network: Network) -> Ints:
    """The numbers of a set of hosts."""
    known = network.host_number
    return np.array([known[name] for name in names(hosts, network.hosts)], dtype=np.int64)


def rates(hosts: Ints, network: Network) -> Ints:
    """Link rates of hosts, bit/s."""
    return np.array(network.host_rates, dtype=np.int64)[hosts]


def poisson(item: Poisson, sizes: Sizes, network: Network, seed: int, index: int, end: int) -> Messages:
    """Poisson arrivals at every host until `stop`, or `end` ps.

    A message takes three draws from its host's stream: gap, size and receiver, so that a longer run begins with
    the messages of a shorter one.
    """
    hosts = numbers(item.hosts, network)
    span = min(item.stop or end, end) - item.start
    rate_of = rates(hosts, network)
    starts, places, drawn = [], [], []
    # One table for each link rate: hosts with the same rate have about the same number of messages.
    for rate in np.unique(rate_of):
        same_rate = np.flatnonzero(rate_of == rate)
        # Mean gap in ps: the size in bits over the share of the rate.
        gap = sizes.mean * 8.0 * _PS_PER_S / (item.load * rate)
        start, kept, bits = _arrivals([int(host) for host in hosts[same_rate]], gap, span, seed, index)
        starts.append(start[kept])
        places.append(np.broadcast_to(same_rate[:, None], kept.shape)[kept])
        drawn.append(bits[:, :, 1:][kept])
    start, sender, bits = np.concatenate(starts), np.concatenate(places), np.concatenate(drawn)
    # By start, then in the order of the hosts.
    order = np.lexsort((sender, start))
    start, sender, bits = start[order], sender[order], bits[order]
    other = draws.below(bits[:, 1], len(hosts) - 1)
    return messages(
        hosts[sender],
        hosts[other + (other >= sender)],
        sizes.at(draws.unit(bits[:, 0])),
        start + item.start,
        item.priority,
    )


def _arrivals(
    hosts: list[int], gap: float, span: int, seed: int, index: int
) -> tuple[Ints, npt.NDArray[np.bool_], Bits]:
    """Start times (ps) with a row for each host, a mask of those within `span`, and the draws of each."""
    expected = span / gap
    count = math.ceil(expected + 6.0 * math.sqrt(expected) + 8.0)
    while True:
        bits = np.stack([draws.raw(seed, index, host, 3 * count) for host in hosts])
        bits = bits.reshape(len(hosts), count, 3)
        # Gaps are rounded one by one: a sum of integers does not depend on its order.
        steps = np.rint(np.minimum(draws.exponential(bits[:, :, 0]) * gap, 2.0**55))
        start = np.cumsum(steps.astype(np.int64), axis=1)
        start[np.cumsum(steps, axis=1) > 2.0**62] = 2**62  # overflow of 64 bits
        if (start[:, -1] >= span).all():
            return start, start < span, bits
        count *= 2


def incast_interval(item: Incast, network: Network) -> int:
    """Picoseconds between two bursts."""
    if item.interval is not None:
        return item.interval
    both = np.union1d(numbers(item.from_, network), numbers(item.to, network))
    capacity = float(rates(both, network).sum())
    assert item.load is not None
    return max(1, round(item.fan_in * item.message * 8 * _PS_PER_S / (item.load * capacity)))


def incast_bursts(item: Incast, network: Network, end: int) -> int:
    """Number of bursts until `stop`, or `end` ps."""
    span = min(item.stop or end, end) - item.start
    bursts = -(-span // incast_interval(item, network))
    return max(0, bursts if item.bursts is None else min(bursts, item.bursts))


def incast(item: Incast, network: Network, seed: int, index: int, end: int) -> Messages:
    """Bursts at regular intervals; each has its own stream: first the receiver, then the senders."""
    sources, targets = numbers(item.from_, network), numbers(item.to, network)
    interval, bursts = incast_interval(item, network), incast_bursts(item, network, end)
    src = np.empty((bursts, item.fan_in), dtype=np.int64)
    dst = np.empty(bursts, dtype=np.int64)
    place = {int(host): number for number, host in enumerate(sources)}
    for burst in range(bursts):
        bits = draws.raw(seed, index, burst, 1 + item.fan_in)
        dst[burst] = targets[draws.below(bits[:1], len(targets))[0]]
        own = place.get(int(dst[burst]))
        chosen = draws.sample(bits[1:], len(sources) - (own is not None), item.fan_in)
        src[burst] = sources[chosen if own is None else chosen + (chosen >= own)]
    start = item.start + interval * np.arange(bursts, dtype=np.int64)
    repeated = (np.repeat(dst, item.fan_in), item.message, np.repeat(start, item.fan_in))
    return messages(src.ravel(), *repeated, item.priority)


def permutation(item: Permutation, network: Network, seed: int, index: int) -> Messages:
    """A derangement for each round, with its own stream."""
    hosts = numbers(item.hosts, network)
    rounds = [hosts[draws.derangement(seed, index, turn, len(hosts))] for turn in range(item.repeat)]
    start = np.repeat(item.start + item.interval * np.arange(item.repeat, dtype=np.int64), len(hosts))
    return messages(np.tile(hosts, item.repeat), np.concatenate(rounds), item.message, start, item.priority)


def all_to_all(item: AllToAll, network: Network) -> Messages:
    """Messages of each step: to the next host, then to the one after it, and so on."""
    assert item.message is not None
    hosts = numbers(item.hosts, network)
    count = len(hosts)
    steps = np.arange(1, count, dtype=np.int64)
    receiver = (np.arange(count) + steps[:, None]) % count
    start = np.repeat(item.start + item.stagger * (steps - 1), count)
    return messages(np.tile(hosts, count - 1), hosts[receiver.ravel()], item.message, start, item.priority)
