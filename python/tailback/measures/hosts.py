"""Measures of TCP and of the hosts' CPUs, in the terms of `tailback.measures`.

Counts of TCP are of the whole run: they are kept for each connection, not over time.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tailback.measures.registry import NAN, measure
from tailback.measures.spans import Since, span
from tailback.measures.throughput import total_goodput
from tailback.recorded.run import Recorded
from tailback.recorded.setup import TCP


@measure("share")
def goodput_share(
    result: Recorded, since: Since = "convergence", item: str | None = None, protocol: str | None = None
) -> float:
    """Goodput of a traffic item or of a protocol as a share of the total goodput."""
    total = total_goodput(result, since)
    return total_goodput(result, since, item, protocol) / total if total else NAN


# TCP


def connections(result: Recorded) -> pa.Table:
    """The flows that are TCP connections."""
    flows = result.flows
    if "protocol" not in flows.column_names:
        return flows.slice(0, 0)
    return pc.filter(flows, pc.equal(flows.column("protocol"), TCP))


def counted(result: Recorded, column: str) -> int:
    """The sum of a column over all TCP connections; 0 without any."""
    rows = connections(result)
    return int(pc.sum(rows.column(column)).as_py() or 0) if rows.num_rows else 0


@measure("count")
def tcp_timeouts(result: Recorded) -> float:
    """Retransmission timeouts of all TCP connections (nstat: TCPTimeouts)."""
    return float(counted(result, "timeouts"))


@measure("count")
def tcp_retransmitted_segments(result: Recorded) -> float:
    """Segments that TCP retransmitted (nstat: TcpRetransSegs)."""
    return float(counted(result, "retransmitted_segments"))


@measure("share")
def tcp_retransmitted_share(result: Recorded) -> float:
    """Segments that TCP retransmitted as a share of all that it sent."""
    sent = counted(result, "packets_sent")
    return counted(result, "retransmitted_segments") / sent if sent else NAN


# CPU


def cpu_shares(result: Recorded, since: Since = "start") -> dict[str, float]:
    """Busy share of all cores of each host whose CPU was used, over the span, in natural order."""
    begin, end = span(result, since)
    if begin != begin:
        return {}
    bins = result.bins
    return {
        host: bins.mean(bins.values(host, "cpu_share"), begin, end) for host in bins.entities("cpu_share")
    }


def cores(result: Recorded) -> dict[str, list[dict[str, float]]]:
    """Shares of the run that each core of a host was busy: irq, softirq and system, as mpstat has them."""
    return {one["host"]: one["cores"] for one in result.meta.get("cpu") or []}


def core_share(core: dict[str, float]) -> float:
    """Busy share of one core."""
    return sum(core.values())


@measure("share")
def receiver_cpu(result: Recorded, since: Since = "convergence") -> float:
    """Busy share of all cores of a receiver, that of the busiest one; 0 where the network takes no CPU."""
    if span(result, since)[0] != span(result, since)[0]:
        return NAN
    shares: dict[str, Any] = cpu_shares(result, since)
    return max((shares.get(host, 0.0) for host in result.receivers), default=NAN)


@measure("share")
def busiest_core(result: Recorded) -> float:
    """Busy share of the busiest core of all hosts, over the whole run."""
    return max((core_share(core) for each in cores(result).values() for core in each), default=0.0)
