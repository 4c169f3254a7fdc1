"""Measures of Linux bridges and of latency tests, in the terms of `tailback.measures`."""

from __future__ import annotations

from typing import Any

from tailback.measures.registry import NAN, measure
from tailback.recorded.bins import PS_PER_S
from tailback.recorded.run import Recorded


@measure("s")
def write_latency(result: Recorded, item: str | None = None) -> float:
    """Half of the median round trip of a latency test, as `ib_write_lat` reports it.

    Of the first test where `item` does not name one.
    """
    tests = [test for test in result.meta.get("latency") or [] if item in (None, test["item"])]
    return tests[0]["median_ps"] / PS_PER_S if tests else NAN


def bridge_cores(result: Recorded) -> list[dict[str, Any]]:
    """Cores of all bridges: bridge, core, and shares of the run that they were at irq, softirq and guest."""
    return list(result.meta.get("bridge_cores") or [])


@measure("share")
def softirq_share(result: Recorded, core: int | None = None, purpose: str = "softirq") -> float:
    """Share of the run that a core of a bridge was in softirq; that of the busiest where `core` is none.

    `purpose`: irq, softirq or guest, as mpstat has them.
    """
    shares = [one[purpose] for one in bridge_cores(result) if core in (None, one["core"])]
    return max(shares, default=NAN)


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


@measure("index")
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


@measure("count")
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
