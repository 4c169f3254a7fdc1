"""Findings of TCP and of the hosts' CPUs in words."""

from __future__ import annotations

from typing import Any

from tailback import text
from tailback.findings.finding import Finding, since
from tailback.recorded.setup import ROCE, TCP

CONTROLS = {"cubic": "CUBIC", "newreno": "NewReno", "dctcp": "DCTCP"}


def shares(summary: dict[str, Any]) -> list[Finding]:
    """TCP's share, where RoCE was there, too."""
    parts = summary["protocols"]
    if TCP not in parts or ROCE not in parts:
        return []
    tcp, roce = parts[TCP], parts[ROCE]
    if tcp["share"] is None:
        return [Finding("TCP's share", text.MISSING, "The time series do not tell TCP from RoCE.")]
    words = (
        f"of all payload: {text.plural(tcp['flows'], 'TCP connection')} got {text.rate(tcp['goodput_bps'])}, "
        f"{text.plural(roce['flows'], 'RoCE queue pair')} {text.rate(roce['goodput_bps'])}, {since(summary)}."
    )
    return [Finding("TCP's share", text.share(tcp["share"]), words)]


def tcp(summary: dict[str, Any]) -> list[Finding]:
    """What TCP retransmitted, and why."""
    found = summary["tcp"]
    if found is None:
        return []
    control = CONTROLS.get(found["control"], found["control"])
    of = f"{text.plural(found['connections'], 'TCP connection')} ({control})"
    if not found["segments"]:
        return [Finding("TCP", text.MISSING, f"{of} sent nothing.", "warning")]
    if not found["retransmitted_segments"]:
        words = f"of {text.count(found['segments'])} segments of {of} were retransmitted."
        return [Finding("TCP retransmitted", "none", words + _echoes(found))]
    words = (
        f"of the segments of {of} were retransmitted: {text.count(found['retransmitted_segments'])}, after "
        f"{text.plural(found['fast_recoveries'], 'fast recovery')} and "
        f"{text.plural(found['timeouts'], 'timeout')}."
    )
    if found["timeouts"]:
        words += (
            f" Each timeout is a silence of {text.duration(found['min_rto_s'])} or more; "
            f"{text.count(found['connections_with_timeouts'])} of the connections had at least one."
        )
    tone = "warning" if found["timeouts"] else "plain"
    return [
        Finding("TCP retransmitted", text.share(found["retransmitted_share"]), words + _echoes(found), tone)
    ]


def _echoes(found: dict[str, Any]) -> str:
    if not found["ece_received"]:
        return ""
    return f" {text.plural(found['ece_received'], 'ACK')} told senders of a mark (ECE)."


def cpu(summary: dict[str, Any]) -> list[Finding]:
    """Which host's CPU was busy, and how much."""
    found = summary["cpu"]
    if found is None or found["share"] is None:
        return []
    words = f"of all {found['cores']} cores of {found['busiest']}, the busiest host, {since(summary)}."
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
