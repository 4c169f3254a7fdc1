"""Findings of a run with network namespaces in words."""

from __future__ import annotations

from typing import Any

from tailback import text
from tailback.findings.finding import Finding


def findings(veth: dict[str, Any]) -> list[Finding]:
    """What the ping saw, what the consumer got, and where packets waited."""
    found = []
    ping = veth["ping"]
    if ping is not None and ping["mean_s"] is None:
        found.append(
            Finding("Ping", text.MISSING, f"None of {ping['sent']} echo requests was answered.", "warning")
        )
    elif ping is not None:
        words = (
            f"is the mean round trip of {text.count(ping['sent'])} echo requests; median "
            f"{text.duration(ping['p50_s'])}, 99th percentile {text.duration(ping['p99_s'])}, longest "
            f"{text.duration(ping['max_s'])}."
        )
        found.append(Finding("Ping", text.duration(ping["mean_s"]), words))
        lost = ping["lost"] / ping["sent"]
        figure = text.share(lost) if ping["lost"] else "none"
        words = (
            f"{text.count(ping['lost'])} of {text.count(ping['sent'])} echo requests or answers were dropped."
        )
        found.append(Finding("Ping loss", figure, words, "warning" if ping["lost"] else "plain"))
    words = "came to the consumer's stack in each second."
    found.append(Finding("Packets", text.count(round(veth["delivered_per_s"])), words))
    ring, qdisc = veth["ring_packets"], veth["qdisc_packets"]
    words = f"packets waited in the ring of {veth['ring']} on average, out of sight of {veth['qdisc']}, "
    words += f"and {text.significant(qdisc)} in the queueing discipline."
    dark = ring > veth["ring"] / 2
    found.append(Finding("Dark buffer", text.significant(ring), words, "warning" if dark else "plain"))
    if veth["bql_limit"] is not None:
        unit = "packets" if veth["bql"] == "packets" else "bytes"
        words = f"{unit} is the limit of byte queue limits in the second half of the run, its median."
        found.append(Finding("BQL limit", text.count(round(veth["bql_limit"])), words))
    drops = veth["qdisc_drops"] + veth["ring_drops"]
    words = (
        f"{text.count(veth['qdisc_drops'])} by the queueing discipline, {text.count(veth['ring_drops'])} for "
        "want of room in the ring."
    )
    found.append(Finding("Drops", text.count(drops) if drops else "none", words))
    return found
