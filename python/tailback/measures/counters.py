"""Measures that tools on the hosts print: perftest's bandwidth, counters; see `tailback.measures`."""

from __future__ import annotations

import math

import pyarrow.compute as pc

from tailback.measures.registry import NAN, measure
from tailback.recorded.run import Recorded

BITS_OF_MIB = 8 * 2**20
LEAST_COUNTED = 20
"""A count that is scaled to another time needs as many events: fewer are uncertain by more than a fifth."""


@measure("MiB/s")
def perftest_bandwidth(result: Recorded) -> float:
    """Payload per second of all queue pairs together, as `ib_write_bw -D` reports it.

    Without a margin at each end of the run, a quarter of its whole seconds: N - 2 * floor(N / 4) s are left.
    """
    end = result.bins.end_s
    margin = math.floor(end / 4)
    values = result.bins.total("goodput_rx_bps")
    return float(result.bins.mean(values, float(margin), end - margin)) / BITS_OF_MIB


@measure("count")
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


@measure("index")
def frames_per_pause(result: Recorded, host: str | None = None, priority: int = 0) -> float:
    """PFC frames that came to a host, or to all, for each pause that ended; resumes and refreshes count."""
    pauses = counter(result, f"rx_prio{priority}_pause_transition", host)
    return counter(result, f"rx_prio{priority}_pause", host) / pauses if pauses else NAN
