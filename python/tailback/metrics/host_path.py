"""Metrics of the receiving host's path and of who takes its memory.

Where several hosts have a path, each metric is that of the host where it is greatest.
"""

from __future__ import annotations

from tailback.metrics.metric import NAN, metric
from tailback.metrics.spans import Since, span
from tailback.recorded.run import Recorded
from tailback.recorded.signals import PCIE_CREDIT_STALL, PFC_XOFF

_NS_PER_S = 1e9


def _greatest(result: Recorded, metrics: list[str], since: Since) -> float:
    """The greatest mean over the span of the sum of some metrics, of all that have them; 0 without any."""
    begin, end = span(result, since)
    if begin != begin:
        return NAN
    bins = result.bins
    means = (
        sum(bins.mean(bins.values(entity, metric), begin, end) for metric in metrics)
        for entity in bins.entities(metrics[0])
    )
    return max(means, default=0.0)


def _told(result: Recorded, signal: str, since: Since) -> float:
    begin, end = span(result, since)
    return NAN if begin != begin else result.signal_log.greatest_mean(signal, begin, end)


@metric("share")
def stalled_writes(result: Recorded, since: Since = "start") -> float:
    """Share of the time in which a write waited for PCIe credits (NEO-Host: outbound PCIe stalled writes)."""
    return _told(result, PCIE_CREDIT_STALL, since)


@metric("share")
def pausing(result: Recorded, since: Since = "start") -> float:
    """Share of the time in which a NIC's receive buffer kept its peer paused (ethtool: tx_prio3_pause)."""
    return _told(result, PFC_XOFF, since)


@metric("share")
def ddio_misses(result: Recorded, since: Since = "start") -> float:
    """Share of the lines written by I/O that were not in the cache (PCM: PCIe write misses)."""
    return _greatest(result, ["ddio_miss_share"], since)


@metric("B/s")
def memory_traffic(result: Recorded, since: Since = "start") -> float:
    """Memory traffic of cores and I/O together (PCM)."""
    return _greatest(result, ["memory_cpu_bps", "memory_nic_bps"], since) / 8


@metric("B/s")
def cores_memory_traffic(result: Recorded, since: Since = "start") -> float:
    """Memory traffic of cores."""
    return _greatest(result, ["memory_cpu_bps"], since) / 8


@metric("s")
def probe_delay(result: Recorded, since: Since = "start") -> float:
    """Receiver's processing delay as probes see it: from leaving the receive buffer to the write's end."""
    probed = bool(result.bins.entities("receiver_delay_ns"))
    return _greatest(result, ["receiver_delay_ns"], since) / _NS_PER_S if probed else NAN


@metric("s")
def message_latency(result: Recorded, since: Since = "start") -> float:
    """Mean time from a message's posting to its completion, of writers that always have `depth` outstanding.

    Little's law: messages outstanding over messages a second. With a depth of 1 it is the mean of what
    perftest calls latency, both ways included.
    """
    begin, end = span(result, since)
    flows = result.flows
    if begin != begin or "message_bytes" not in flows.column_names:
        return NAN
    writers = result.plan.get("writers", [])
    depth = {str(writer["item"]): int(writer["depth"]) for writer in writers if "depth" in writer}
    rows = flows.select(["item", "message_bytes"]).to_pylist()
    sizes = {row["message_bytes"] for row in rows}
    if not rows or len(sizes) != 1 or any(row["item"] not in depth for row in rows):
        return NAN
    outstanding = sum(depth[row["item"]] for row in rows)
    rate = result.bins.mean(result.bins.total("goodput_rx_bps"), begin, end) / 8 / sizes.pop()
    return outstanding / rate if rate else NAN
