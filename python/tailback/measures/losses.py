"""Measures of losses and signals: counted to the end of the run, whether flows have ended or not."""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc

from tailback.measures.registry import NAN, measure
from tailback.measures.spans import Since, last_start, since_s
from tailback.recorded.run import Recorded
from tailback.recorded.signals import CE_MARK, CNP, DELAY_PROBE, DROP, NAK


def _counted(result: Recorded, signal: str, since: Since, until_s: float | None = None) -> float:
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


@measure("count")
def dropped_packets(result: Recorded, since: Since = "start") -> float:
    """Packets dropped, at any queue and for any reason."""
    if since == "start":
        return float(result.signal_log.count(DROP))
    return _counted(result, DROP, since)


@measure("share")
def windows_with_drops(result: Recorded, since: Since = "all_started", window_s: float = 0.1) -> float:
    """Share of the windows of `window_s`, to the end of the run, in which at least one packet was dropped."""
    return _windows_with(result, DROP, since, window_s)


@measure("count")
def naks(result: Recorded, since: Since = "start", until_s: float | None = None) -> float:
    """NAKs for a packet out of sequence, counted at the senders (mlx5: packet_seq_err)."""
    return _counted(result, NAK, since, until_s)


@measure("share")
def windows_with_naks(result: Recorded, since: Since = "all_started", window_s: float = 0.1) -> float:
    """Share of the windows of `window_s`, to the end of the run, in which a sender got a NAK."""
    return _windows_with(result, NAK, since, window_s)


@measure("s")
def last_nak(result: Recorded) -> float:
    """When the last NAK came (end of its bin); 0 when none did."""
    return _last(result, NAK)


@measure("s")
def naks_after_last_start(result: Recorded) -> float:
    """For how long after the last flow had started NAKs still came; 0 when none came after that."""
    return max(0.0, last_nak(result) - last_start(result))


@measure("count")
def marked_packets(result: Recorded, since: Since = "start") -> float:
    """Marks that queues set; a packet that passes several queues may be marked at each."""
    if since == "start":
        return float(result.signal_log.count(CE_MARK))
    return _counted(result, CE_MARK, since)


ARRIVED = ("delivered", "discarded_out_of_order", "discarded_duplicate")


def arrived_packets(result: Recorded) -> int:
    """RoCE data packets that reached their receivers, those that were then discarded included."""
    data = result.meta["conservation"]["data_packets"]
    return sum(int(data.get(name, 0)) for name in ARRIVED)


def arrived_marked_packets(result: Recorded) -> int:
    """Of these, the packets that carried a CE mark, each counted once however many queues marked it."""
    name = "np_ecn_marked_roce_packets"
    if name not in result.flows.column_names:
        return 0
    return int(pc.sum(result.flows.column(name)).as_py() or 0)


@measure("count")
def cnps(result: Recorded, since: Since = "start") -> float:
    """CNPs that receivers sent."""
    return _counted(result, CNP, since)


@measure("count")
def delay_probes(result: Recorded, since: Since = "start") -> float:
    """Answers that brought senders a delay which their controllers act on: TIMELY, Swift, RHCC."""
    return _counted(result, DELAY_PROBE, since)


@measure("share")
def retransmitted_share(result: Recorded) -> float:
    """Data packets retransmitted, as a share of all data packets sent, over the whole run."""
    sent = pc.sum(result.flows.column("packets_sent")).as_py()
    return float(pc.sum(result.flows.column("packets_retransmitted")).as_py() / sent) if sent else NAN


@measure("count")
def failed_flows(result: Recorded) -> float:
    """Queue pairs that ended in error."""
    return float(pc.sum(pc.equal(result.flows.column("state"), "error")).as_py() or 0)
