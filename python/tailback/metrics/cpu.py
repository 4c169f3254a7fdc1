"""How busy the CPUs of hosts were."""

from __future__ import annotations

from typing import Any

import pyarrow.compute as pc

from tailback import text
from tailback.files.json import number
from tailback.metrics.finding import Finding, finding, since_in_words
from tailback.metrics.metric import NAN, in_section, metric, metric_at, part, summarise
from tailback.metrics.spans import Since, span
from tailback.recorded.run import Recorded
from tailback.recorded.setup import ROCE


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


@metric("share", "cpu.receivers", since="steady")
def receiver_cpu(result: Recorded, since: Since = "convergence") -> float:
    """Busy share of all cores of a receiver, that of the busiest one; 0 where the network takes no CPU."""
    if span(result, since)[0] != span(result, since)[0]:
        return NAN
    shares: dict[str, Any] = cpu_shares(result, since)
    return max((shares.get(host, 0.0) for host in result.receivers), default=NAN)


@metric("share")
def busiest_core(result: Recorded) -> float:
    """Busy share of the busiest core of all hosts, over the whole run."""
    return max((core_share(core) for each in cores(result).values() for core in each), default=0.0)


in_section("cpu", applies=lambda result: bool(cpu_shares(result, "steady")))


@part("cpu")
def _cpu(result: Recorded) -> dict[str, Any] | None:
    """How busy the hosts' CPUs were: the busiest host and its busiest core, and every host."""
    shares = cpu_shares(result, "steady")
    if not shares:
        return None
    busiest = max(shares, key=lambda host: shares[host])
    of_busiest = [core_share(core) for core in cores(result).get(busiest, [])]
    return {
        "busiest": busiest,
        "share": number(shares[busiest]),
        "cores": len(of_busiest),
        "busiest_core": max(of_busiest, default=None),
        "hosts": {host: number(share) for host, share in shares.items()},
    }


metric_at(
    "cpu.share", "share", about="Busy share of all cores of the busiest host.", title="CPU, busiest host"
)


@metric("count", "cpu.rx_out_of_buffer", whole=True)
def ring_drops(result: Recorded) -> float:
    """Packets that found no room in a receive ring, of all hosts and bridges."""
    counters = result.counters
    kept = pc.filter(counters, pc.equal(counters.column("counter"), "rx_out_of_buffer"))
    return float(pc.sum(kept.column("value")).as_py() or 0)


@finding(157)
def cpu_finding(result: Recorded) -> list[Finding]:
    """Which host's CPU was busy, and how much."""
    summary = summarise(result)
    found = summary["cpu"]
    if found is None or found["share"] is None:
        return []
    words = f"of {'all ' if found['cores'] > 1 else ''}{text.plural(found['cores'], 'core')} of {found['busiest']}, the busiest host, {since_in_words(summary)}."
    if found["busiest_core"] is not None:
        words += f" Its busiest core: {text.share(found['busiest_core'])}, over the whole run."
    others = [share for host, share in found["hosts"].items() if host != found["busiest"]]
    if others:
        words += f" Other hosts: {text.share(max(others))} at most."
    if found["rx_out_of_buffer"]:
        words += f" {text.plural(found['rx_out_of_buffer'], 'packet')} found no room in a receive ring."
    if ROCE in summary["protocols"]:
        words += " It is TCP's alone: RDMA WRITEs cost the receiver's CPU nothing."
    tone = "warning" if found["rx_out_of_buffer"] else "plain"
    return [Finding("CPU busy", text.share(found["share"]), words, tone)]
