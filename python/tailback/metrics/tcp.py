"""RoCE and TCP beside each other, and what became of TCP's segments.

Counts of TCP are of the whole run: they are kept for each connection, not over time.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tailback import text
from tailback.files.json import number
from tailback.metrics.finding import Finding, finding, since_in_words
from tailback.metrics.metric import NAN, in_section, metric, metric_at, part, summarise
from tailback.metrics.spans import Since
from tailback.metrics.throughput import total_goodput
from tailback.recorded.run import Recorded
from tailback.recorded.setup import ROCE, TCP
from tailback.recorded.traffic_items import items


@metric("share")
def goodput_share(
    result: Recorded, since: Since = "convergence", item: str | None = None, protocol: str | None = None
) -> float:
    """Goodput of a traffic item or of a protocol as a share of the total goodput."""
    total = total_goodput(result, since)
    return total_goodput(result, since, item, protocol) / total if total else NAN


metric_at(
    "protocols.tcp.share",
    "share",
    about="Goodput of TCP as a share of the total goodput.",
    title="TCP's share",
)


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


@metric("count", "tcp.timeouts", title="TCP timeouts", whole=True)
def tcp_timeouts(result: Recorded) -> float:
    """Retransmission timeouts of all TCP connections (nstat: TCPTimeouts)."""
    return float(counted(result, "timeouts"))


@metric("count", "tcp.retransmitted_segments", whole=True)
def tcp_retransmitted_segments(result: Recorded) -> float:
    """Segments that TCP retransmitted (nstat: TcpRetransSegs)."""
    return float(counted(result, "retransmitted_segments"))


@metric("share", "tcp.retransmitted_share")
def tcp_retransmitted_share(result: Recorded) -> float:
    """Segments that TCP retransmitted as a share of all that it sent."""
    sent = counted(result, "packets_sent")
    return counted(result, "retransmitted_segments") / sent if sent else NAN


def _speaks_tcp(result: Recorded) -> bool:
    return bool(connections(result).num_rows)


in_section("tcp", applies=_speaks_tcp)
for _name, _column, _about in (
    ("segments", "packets_sent", "Segments that TCP sent."),
    ("fast_recoveries", "fast_recoveries", "Fast recoveries of all TCP connections."),
    ("ece_received", "ece_received", "ACKs that told senders of a mark (ECE)."),
):
    metric_at(f"tcp.{_name}", "count", partial(counted, column=_column), about=_about, whole=True)


@metric("count", "tcp.connections", whole=True)
def tcp_connections(result: Recorded) -> float:
    """TCP connections of the run."""
    return float(connections(result).num_rows)


@metric("count", "tcp.connections_with_timeouts", whole=True)
def tcp_connections_with_timeouts(result: Recorded) -> float:
    """TCP connections that had a retransmission timeout."""
    rows = connections(result)
    return float(pc.sum(pc.greater(rows.column("timeouts"), 0)).as_py() or 0) if rows.num_rows else 0.0


def _settings(result: Recorded) -> dict[str, Any]:
    """TCP settings of the first host that has TCP."""
    return next((nic["tcp"] for nic in result.plan.get("nics", []) if nic.get("tcp")), {})


@part("tcp.control")
def _control(result: Recorded) -> Any:
    return _settings(result).get("control")


@part("tcp.ecn")
def _ecn(result: Recorded) -> Any:
    return _settings(result).get("ecn")


@part("tcp.min_rto_s")
def _min_rto(result: Recorded) -> float | None:
    found = _settings(result)
    return found["min_rto"] / 1e12 if found else None


@part("protocols")
def by_protocol(result: Recorded) -> dict[str, Any]:
    """Flows, goodput and share of the total of each protocol that the traffic has."""
    spoken = sorted(set(items(result).values()))  # RoCE first
    rows = connections(result).num_rows
    return {
        protocol: {
            "flows": rows if protocol == TCP else result.flows.num_rows - rows,
            "goodput_bps": number(total_goodput(result, "steady", protocol=protocol)),
            "share": number(goodput_share(result, "steady", protocol=protocol)),
        }
        for protocol in spoken
    }


CONTROL_NAMES = {"cubic": "CUBIC", "newreno": "NewReno", "dctcp": "DCTCP"}


@finding(80)
def protocols_finding(result: Recorded) -> list[Finding]:
    """TCP's share, where RoCE was there, too."""
    summary = summarise(result)
    parts = summary["protocols"]
    if TCP not in parts or ROCE not in parts:
        return []
    tcp, roce = parts[TCP], parts[ROCE]
    if tcp["share"] is None:
        return [Finding("TCP's share", text.MISSING, "The time series do not tell TCP from RoCE.")]
    words = (
        f"of all payload: {text.plural(tcp['flows'], 'TCP connection')} got {text.rate(tcp['goodput_bps'])}, "
        f"{text.plural(roce['flows'], 'RoCE queue pair')} {text.rate(roce['goodput_bps'])}, {since_in_words(summary)}."
    )
    return [Finding("TCP's share", text.share(tcp["share"]), words)]


@finding(100)
def tcp_finding(result: Recorded) -> list[Finding]:
    """TCP's retransmissions, and their causes."""
    summary = summarise(result)
    found = summary["tcp"]
    if found is None:
        return []
    control = CONTROL_NAMES.get(found["control"], found["control"])
    of = f"{text.plural(found['connections'], 'TCP connection')} ({control})"
    if not found["segments"]:
        return [Finding("TCP", text.MISSING, f"{of} sent nothing.", "warning")]
    if not found["retransmitted_segments"]:
        words = f"of {text.plural(found['segments'], 'segment')} of {of} {text.verb(found['segments'], 'was', 'were')} retransmitted."
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
