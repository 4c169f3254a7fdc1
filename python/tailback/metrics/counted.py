"""Metrics that tools on the hosts print: perftest's bandwidth, counters."""

from __future__ import annotations

import pyarrow.compute as pc

from tailback.metrics.metric import NAN, metric
from tailback.recorded.run import Recorded

LEAST_COUNTED = 20
"""Fewest events of a count that is scaled to another time: the error of fewer is above a fifth."""


@metric("count")
def counter(
    result: Recorded,
    name: str,
    host: str | None = None,
    scaled_to_s: float | None = None,
    least: int = LEAST_COUNTED,
) -> float:
    """A counter of a host, or of all hosts together, over the whole run; or scaled to a run of `scaled_to_s`.

    NaN where no host has such a counter, and where fewer than `least` events would be scaled.
    """
    if name not in result.counter_names:
        return NAN
    rows = pc.filter(result.counters, pc.equal(result.counters.column("counter"), name))
    nodes = result.setup.network.hosts if host is None else [host]
    value = sum(
        value
        for node, value in zip(rows.column("node").to_pylist(), rows.column("value").to_pylist(), strict=True)
        if node in nodes
    )
    if scaled_to_s is None or scaled_to_s == result.bins.end_s:
        return float(value)
    return value * scaled_to_s / result.bins.end_s if value >= least else NAN


@metric("index")
def frames_per_pause(result: Recorded, host: str | None = None, priority: int = 0) -> float:
    """PFC frames that came to a host, or to all, for each pause that ended; resumes and refreshes count."""
    pauses = counter(result, f"rx_prio{priority}_pause_transition", host)
    return counter(result, f"rx_prio{priority}_pause", host) / pauses if pauses else NAN


def port_counter(result: Recorded, name: str, port: str | None) -> int | None:
    """A counter of a port of a bridge, or of all of them together; None where there is none of that name."""
    if name not in result.counter_names:
        return None
    columns = (result.counters.column(key).to_pylist() for key in ("node", "port", "counter", "value"))
    bridges = set(result.setup.network.bridges)
    values = [
        value
        for node, at, counter, value in zip(*columns, strict=True)
        if counter == name and (at == port if port else node in bridges)
    ]
    return int(sum(values))


@metric("index")
def counter_ratio(result: Recorded, of: str, to: str) -> float:
    """A counter over another, each over all hosts and ports together."""
    values = [
        sum(
            value
            for counter, value in zip(
                result.counters.column("counter").to_pylist(),
                result.counters.column("value").to_pylist(),
                strict=True,
            )
            if counter == name
        )
        for name in (of, to)
    ]
    return values[0] / values[1] if values[1] else NAN


@metric("count")
def bridge_counter(
    result: Recorded,
    name: str,
    port: str | None = None,
    scaled_to_s: float | None = None,
    scaled_to_packets: float | None = None,
) -> float:
    """A counter of a bridge's port over the whole run, or of all its ports together.

    It may be scaled to a run of `scaled_to_s`, or to a number of packets of the port's queueing discipline.
    """
    value = port_counter(result, name, port)
    if value is None:
        return NAN
    if scaled_to_s is not None:
        return value * scaled_to_s / result.bins.end_s
    if scaled_to_packets is not None:
        packets = port_counter(result, "qdisc_sent_packets", port)
        return value * scaled_to_packets / packets if packets else NAN
    return float(value)
