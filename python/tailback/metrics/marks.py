"""ECN marks, and what senders are told of them: CNPs and delay probes; counted to the end of the run."""

from __future__ import annotations

import pyarrow.compute as pc

from tailback import text
from tailback.metrics.finding import Finding, finding, not_counted
from tailback.metrics.losses import counted
from tailback.metrics.metric import NAN, metric, summarise
from tailback.metrics.spans import Since, since_s
from tailback.recorded.run import Recorded
from tailback.recorded.setup import TCP
from tailback.recorded.signals import CE_MARK, CNP, DELAY_PROBE


@metric("count", "signals.ecn_marked_packets", title="Packets marked", whole=True)
def marked_packets(result: Recorded, since: Since = "start") -> float:
    """Marks that queues set; a packet that passes several queues may be marked at each."""
    if since == "start":
        return float(result.signal_log.count(CE_MARK))
    return counted(result, CE_MARK, since)


ARRIVED_OUTCOMES = ("delivered", "discarded_out_of_order", "discarded_duplicate")


@metric("count", "signals.arrived_packets", whole=True)
def arrived_packets(result: Recorded) -> int:
    """RoCE data packets that reached their receivers, those that were then discarded included."""
    data = result.meta["conservation"]["data_packets"]
    return sum(int(data.get(name, 0)) for name in ARRIVED_OUTCOMES)


@metric("count", "signals.arrived_marked_packets", whole=True)
def arrived_marked_packets(result: Recorded) -> int:
    """Of these, the packets that carried a CE mark, each counted once however many queues marked it."""
    name = "np_ecn_marked_roce_packets"
    if name not in result.flows.column_names:
        return 0
    return int(pc.sum(result.flows.column(name)).as_py() or 0)


@metric("count", "signals.cnps", title="CNPs", whole=True)
def cnps(result: Recorded, since: Since = "start") -> float:
    """CNPs that receivers sent."""
    return counted(result, CNP, since)


@metric("count", "signals.delay_probes", whole=True)
def delay_probes(result: Recorded, since: Since = "start") -> float:
    """Answers that brought senders a delay which their controllers act on: TIMELY, Swift, RHCC."""
    return counted(result, DELAY_PROBE, since)


@metric("s")
def cnp_delay(result: Recorded, since: Since = "start") -> float:
    """Mean time that a CNP took from the notification point to the reaction point."""
    begin = since_s(result, since)
    if begin != begin:
        return NAN
    inside = result.bins.within(begin)
    count = float(result.bins.total("rp_cnp_handled")[inside].sum())
    return float(result.bins.total("cnp_delay_ns")[inside].sum()) / count * 1e-9 if count else NAN


@finding(130)
def marks_finding(result: Recorded) -> Finding:
    summary = summarise(result)
    signals = summary["signals"]
    if not signals["ecn_marked_packets"] and (
        unknown := not_counted(result, "ECN marks", "ecn_marked", "red_marked", "qdisc_marked")
    ):
        return unknown
    cnps = list(summary["protocols"]) != [TCP]  # TCP's echoes are told with TCP
    if not signals["ecn_marked_packets"] and signals["cnps"]:  # end points with real packets
        words = "No queue of this run has marked a packet, but the network outside of it: "
        return Finding("ECN marks", "elsewhere", f"{words}{text.plural(signals['cnps'], 'CNP')} sent.")
    if not signals["ecn_marked_packets"]:
        sent = f"; {text.plural(signals['cnps'], 'CNP')} sent" if cnps else ""
        why = "" if cnps or (summary["tcp"] or {}).get("ecn") else ": TCP does not use ECN here"
        return Finding("ECN marks", "none", f"No packet was marked{why}{sent}.")
    marks, marked = signals["ecn_marked_packets"], signals["arrived_marked_packets"]
    if not signals["arrived_packets"]:
        return Finding("ECN marks", text.count(marks), "set by queues. No RoCE data packet arrived.")
    what = "RoCE data packet" if TCP in summary["protocols"] else "data packet"
    words = f"of {text.plural(signals['arrived_packets'], what)} that arrived {text.verb(marked, 'was', 'were')} marked CE"
    words += f"; receivers answered with {text.plural(signals['cnps'], 'CNP')}." if cnps else "."
    if marks != marked:
        several = "a packet may be marked at several, be lost, or not have arrived yet"
        tcp = ", and TCP's packets count, too" if TCP in summary["protocols"] else ""
        words += f" Queues set {text.plural(marks, 'mark')}: {several}{tcp}."
    return Finding("ECN marks", text.count(marked), words)


@finding(140)
def delay_probes_finding(result: Recorded) -> list[Finding]:
    summary = summarise(result)
    probes = summary["signals"]["delay_probes"]
    words = f"{text.noun(probes, 'answer')} brought senders a delay that their congestion control acts on."
    return [Finding("Delay probes", text.count(probes), words)] if probes else []
