"""Measures of network namespaces joined by a veth pair; see `tailback.measures`."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from tailback.measures.registry import NAN, measure
from tailback.recorded.bins import PS_PER_S, Array
from tailback.recorded.run import Recorded

FORWARD = "producer-consumer"
"""The end of the pair whose queue the traffic to the consumer goes through."""


def veth(result: Recorded) -> dict[str, Any] | None:
    """What the engine says of the namespaces; none where there are none."""
    found: dict[str, Any] | None = result.meta.get("veth")
    return found


def _forward(result: Recorded) -> dict[str, Any] | None:
    found = veth(result)
    return None if found is None else next(end for end in found["ends"] if end["name"] == FORWARD)


def samples(result: Recorded) -> tuple[Array, Array]:
    """Of all pings: when each request that was answered was sent, and its round trip, both in seconds."""
    found = veth(result) or {"pings": []}
    pairs = [(sent, rtt) for ping in found["pings"] for sent, rtt in ping["samples"] if rtt is not None]
    table = np.array(sorted(pairs), dtype=float).reshape(-1, 2) / PS_PER_S
    return table[:, 0], table[:, 1]


@measure("s")
def ping_rtt(result: Recorded, percentile: float | None = None) -> float:
    """Mean round trip of the echo requests that were answered, or a percentile of them."""
    _, rtts = samples(result)
    if not len(rtts):
        return NAN
    return float(rtts.mean() if percentile is None else np.percentile(rtts, percentile))


@measure("share")
def ping_loss(result: Recorded) -> float:
    """Echo requests that were dropped, or whose answer was, as a share of all; NaN below 100 of them."""
    found = veth(result) or {"pings": []}
    sent = sum(ping["sent"] for ping in found["pings"])
    return sum(ping["lost"] for ping in found["pings"]) / sent if sent >= 100 else NAN


@measure("index")
def rtt_in_rings(result: Recorded) -> float:
    """Mean round trip over the time that the consumer takes for a ring full of packets."""
    rate = delivered_per_second(result)
    ring = result.setup.plan["veth"]["veths"][0]["veth"]["ring"] if veth(result) else NAN
    return ping_rtt(result) * rate / ring


@measure("count")
def delivered_per_second(result: Recorded) -> float:
    """Packets per second that came to the consumer's stack."""
    end = _forward(result)
    return NAN if end is None else end["counters"]["delivered_packets"] / result.bins.end_s


@measure("s")
def poll_of_64(result: Recorded) -> float:
    """Time that the consumer takes for 64 packets, under load: the NAPI-64 cycle."""
    rate = delivered_per_second(result)
    return 64 / rate if rate else NAN


@measure("count")
def bql_limit(result: Recorded) -> float:
    """The limit in the second half of the run, its median; packets or bytes, as they are charged."""
    bins = result.bins
    values = bins.values(f"{FORWARD}/ring", "bql_limit")[bins.within(bins.end_s / 2)]
    return float(np.median(values)) if len(values) else NAN


@measure("count")
def ring_packets(result: Recorded) -> float:
    """Packets in the ring, time-weighted mean."""
    return result.bins.mean(result.bins.values(f"{FORWARD}/ring", "queue_mean_packets"))


@measure("count")
def veth_counter(result: Recorded, name: str = "tx_timeout") -> float:
    """A counter of the producer's end: drops, stops, polls."""
    end = _forward(result)
    return NAN if end is None else float(end["counters"][name])


@measure("count")
def teardown(result: Recorded, name: str = "inflight_after") -> float:
    """What is found and left when the consumer's NAPI is taken away at the end of the run."""
    end = _forward(result)
    return NAN if end is None else float(end["teardown"][name])


@measure("share")
def xdp_loss(result: Recorded) -> float:
    """XDP frames that found the ring full, as a share of all."""
    found = veth(result) or {"senders": []}
    frames = [sender for sender in found["senders"] if sender["kind"] == "xdp"]
    sent = sum(sender["sent"] for sender in frames)
    return sum(sender["dropped"] for sender in frames) / sent if sent else NAN


@measure("count")
def tx_usecs_refused(result: Recorded, us: int = 8_000_001) -> float:
    """1 where the engine refuses this run with another `tx-usecs`, in microseconds, as ERANGE; else 0."""
    from tailback._engine import Simulation
    from tailback.plan import plan_json

    plan = copy.deepcopy(dict(result.setup.plan))
    if not plan.get("veth"):
        return NAN
    plan["veth"]["veths"][0]["veth"]["tx_usecs"] = us * 1_000_000
    try:
        Simulation(plan_json(plan))
    except ValueError as error:
        return float("ERANGE" in str(error))
    return 0.0
