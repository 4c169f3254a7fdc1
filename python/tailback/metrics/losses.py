"""Packets lost and sent again: counted to the end of the run, whether flows have ended or not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow.compute as pc

from tailback import text
from tailback.metrics.finding import Finding, finding, not_counted
from tailback.metrics.metric import NAN, metric, part, summarise
from tailback.metrics.spans import Since, last_start, since_s
from tailback.recorded.run import Recorded
from tailback.recorded.setup import TCP, TRIMMED_REASON
from tailback.recorded.signals import DROP, NAK


def counted(result: Recorded, signal: str, since: Since, until_s: float | None = None) -> float:
    begin = since_s(result, since)
    if begin != begin:
        return NAN
    return float(result.signal_log.total(signal)[result.bins.within(begin, until_s)].sum())


def _windows_with(result: Recorded, signal: str, since: Since, window_s: float) -> float:
    begin = since_s(result, since)
    if begin != begin:
        return NAN
    windows = result.bins.windows(result.signal_log.total(signal), window_s, begin)
    return float((windows > 0).mean()) if len(windows) else NAN


def _last(result: Recorded, signal: str) -> float:
    """End of the last bin that has a signal."""
    found = np.flatnonzero(result.signal_log.total(signal))
    return float(result.bins.start_s[found[-1]] + result.bins.width_s[found[-1]]) if len(found) else 0.0


@metric("count", "losses.dropped_packets", title="Packets dropped", whole=True)
def dropped_packets(result: Recorded, since: Since = "start") -> float:
    """Packets dropped, at any queue and for any reason."""
    if since == "start":
        return float(result.signal_log.count(DROP))
    return counted(result, DROP, since)


@metric("share")
def windows_with_drops(result: Recorded, since: Since = "all_started", window_s: float = 0.1) -> float:
    """Share of the windows of `window_s`, to the end of the run, in which at least one packet was dropped."""
    return _windows_with(result, DROP, since, window_s)


@metric("count", "losses.naks", whole=True)
def naks(result: Recorded, since: Since = "start", until_s: float | None = None) -> float:
    """NAKs for a packet out of sequence, counted at the senders (mlx5: packet_seq_err)."""
    return counted(result, NAK, since, until_s)


@metric("share")
def windows_with_naks(result: Recorded, since: Since = "all_started", window_s: float = 0.1) -> float:
    """Share of the windows of `window_s`, to the end of the run, in which a sender got a NAK."""
    return _windows_with(result, NAK, since, window_s)


@metric("s", "losses.last_nak_s")
def last_nak(result: Recorded) -> float:
    """When the last NAK came (end of its bin); 0 when none did."""
    return _last(result, NAK)


@metric("s")
def naks_after_last_start(result: Recorded) -> float:
    """For how long after the last flow had started NAKs still came; 0 when none came after that."""
    return max(0.0, last_nak(result) - last_start(result))


@metric("share", "losses.retransmitted_share", title="Packets retransmitted")
def retransmitted_share(result: Recorded) -> float:
    """Data packets retransmitted, as a share of all data packets sent, over the whole run."""
    sent = pc.sum(result.flows.column("packets_sent")).as_py()
    return float(pc.sum(result.flows.column("packets_retransmitted")).as_py() / sent) if sent else NAN


@metric("count", "flows.failed", whole=True)
def failed_flows(result: Recorded) -> float:
    """Queue pairs that ended in error."""
    return float(pc.sum(pc.equal(result.flows.column("state"), "error")).as_py() or 0)


@metric("B", "losses.dropped_bytes", whole=True)
def dropped_bytes(result: Recorded) -> float:
    """Bytes of the packets that were dropped."""
    return float(sum(drop["bytes"] for drop in result.meta["drops"]))


@metric("count", "losses.ack_timeouts", whole=True)
def ack_timeouts(result: Recorded) -> float:
    """ACK timeouts of all queue pairs (mlx5: local_ack_timeout_err)."""
    return float(pc.sum(result.flows.column("local_ack_timeout_err")).as_py() or 0)


@part("losses.by_queue")
def _by_queue(result: Recorded) -> list[dict[str, Any]]:
    drops = result.meta["drops"]
    return sorted(drops, key=lambda drop: (-drop["packets"], drop["where"], drop["reason"]))


def _told_in_words(losses: dict[str, Any]) -> str:
    """NAKs, timeouts and other signs by which senders noticed losses."""
    told = []
    if losses["naks"]:
        told.append(
            f"{text.plural(losses['naks'], 'NAK')}, the last at {text.duration(losses['last_nak_s'])}"
        )
    if losses["ack_timeouts"]:
        told.append(text.plural(losses["ack_timeouts"], "ACK timeout"))
    return ", and ".join(told)


@finding(90)
def drops_finding(result: Recorded) -> Finding:
    summary = summarise(result)
    losses = summary["losses"]
    if not losses["dropped_packets"] and (
        unknown := not_counted(result, "Drops", "rx_out_of_buffer", "qdisc_drop", "discard")
    ):
        return unknown
    if not losses["dropped_packets"]:
        words = "No packet was dropped."
        told = _told_in_words(losses)
        if told:
            again = (
                f"{text.share(losses['retransmitted_share'] or 0.0)} of all data packets were retransmitted"
            )
            words += f" Senders got {told} all the same; {again}."
        return Finding("Drops", "none", words, "warning" if losses["ack_timeouts"] else "plain")
    if not losses["by_queue"]:  # of real devices only counts are known
        return Finding(
            "Drops",
            text.count(losses["dropped_packets"]),
            f"{text.noun(losses['dropped_packets'], 'packet')}.",
            "warning",
        )
    worst = losses["by_queue"][0]
    words = f"{text.noun(losses['dropped_packets'], 'packet')} ({text.size(losses['dropped_bytes'])}), most at {worst['where']} ({worst['reason']})."
    trimmed = sum(drop["packets"] for drop in losses["by_queue"] if drop["reason"] == TRIMMED_REASON)
    if trimmed:
        of = "All" if trimmed == losses["dropped_packets"] else text.count(trimmed)
        if losses["dropped_packets"] == 1:
            words += " It was trimmed: its receiver asked for it at once."
        else:
            words += (
                f" {of} of them {text.verb(trimmed, 'was', 'were')} trimmed: receivers ask for those at once."
            )
    again = f"{text.share(losses['retransmitted_share'] or 0.0)} of all data packets were retransmissions."
    # TCP knows no NAKs.
    words += (
        f" {again}"
        if list(summary["protocols"]) == [TCP]
        else (f" Senders got {_told_in_words(losses) or 'no NAK and no ACK timeout'}; {again}")
    )
    return Finding("Drops", text.count(losses["dropped_packets"]), words, "warning")


@finding(170)
def failed_flows_finding(result: Recorded) -> list[Finding]:
    failed, of = int(failed_flows(result)), result.flows.num_rows
    words = f"of {text.plural(of, 'queue pair')} ended in error, out of retries."
    return [Finding("Failed QPs", text.count(failed), words, "fault")] if failed else []
