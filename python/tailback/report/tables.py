"""The tables of a report."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailback import measures, text
from tailback.results import Result

MOST_COUNTER_ROWS = 600


@dataclass(frozen=True)
class TextTable:
    """A table of text. `numeric` says which columns stand right; `folded` tables open on demand."""

    id: str
    heading: str
    caption: str
    columns: list[str]
    rows: list[list[str]]
    numeric: list[bool]
    folded: bool = False


def all_tables(result: Result) -> list[TextTable]:
    """Tables in the order of the report; those without a row are left out."""
    tables = [
        senders(result),
        drops(result),
        pauses(result),
        packets(result),
        counters(result),
        assumptions(result),
    ]
    return [table for table in tables if table.rows]


def senders(result: Result) -> TextTable:
    """A row a sender: what its queue pairs got, over the whole of their time."""
    flows = result.flows
    columns = {
        name: np.array(flows.column(name).to_pylist())
        for name in (
            "src",
            "goodput_bps",
            "packets_sent",
            "packets_retransmitted",
            "packet_seq_err",
            "rp_cnp_handled",
            "local_ack_timeout_err",
            "messages_completed",
        )
    }
    since = "start" if result.summary["convergence_s"] is None else "convergence"
    goodputs = measures.sender_goodputs(result, since)
    rows = []
    for host in result.senders:
        mine = columns["src"] == host
        rates = columns["goodput_bps"][mine].astype(float)
        sums = {
            name: int(values[mine].astype(np.int64).sum())
            for name, values in columns.items()
            if name not in ("src", "goodput_bps")
        }
        rows.append(
            [
                host,
                text.rate(goodputs.get(host, float("nan"))),
                text.count(int(mine.sum())),
                *(text.rate(float(np.quantile(rates, q))) for q in (0, 0.5, 1)),
                *(
                    text.count(sums[name])
                    for name in (
                        "messages_completed",
                        "packets_sent",
                        "packets_retransmitted",
                        "packet_seq_err",
                        "rp_cnp_handled",
                        "local_ack_timeout_err",
                    )
                ),
            ]
        )
    return TextTable(
        "flows",
        "Flows, by sender",
        "Goodput of the sender as in the findings; of its queue pairs (QPs), least, median and most, each "
        "over its own time. flows.parquet has a row a queue pair.",
        [
            "Sender",
            "Goodput",
            "QPs",
            "Least QP",
            "Median QP",
            "Most QP",
            "Messages",
            "Packets sent",
            "Retransmitted",
            "NAKs",
            "CNPs",
            "ACK timeouts",
        ],
        rows,
        [False] + [True] * 11,
    )


def drops(result: Result) -> TextTable:
    """A row a queue and reason."""
    rows = [
        [drop["where"], drop["reason"], text.count(drop["packets"]), text.size(drop["bytes"])]
        for drop in result.summary["losses"]["by_queue"]
        if drop["packets"]
    ]
    return TextTable(
        "drops",
        "Drops",
        "Every packet dropped, by queue and reason.",
        ["Queue", "Reason", "Packets", "Bytes"],
        rows,
        [False, False, True, True],
    )


def pauses(result: Result) -> TextTable:
    """A row a port and priority that was paused."""
    rows = [
        [
            pause["port"],
            str(pause["priority"]),
            text.count(pause["rx_frames"]),
            text.count(pause["transitions"]),
            text.duration(pause["paused_ps"] / 1e12),
            text.share(pause["max_share_of_a_second"]),
            text.duration(pause["last_pause_ps"] / 1e12),
        ]
        for pause in sorted(
            result.meta["pauses"], key=lambda pause: (text.natural(pause["port"]), pause["priority"])
        )
        if pause["rx_frames"]
    ]
    return TextTable(
        "pause-table",
        "Pauses, by port",
        "Ports that received PFC frames. A transition is a change from paused to running.",
        ["Port", "Priority", "PFC frames", "Transitions", "Time paused", "Worst second", "Last pause ended"],
        rows,
        [False] + [True] * 6,
    )


def packets(result: Result) -> TextTable:
    """Packets by kind, and the account of the data packets."""
    meta = result.meta
    names = {"data": "Data", "ack": "ACK", "nak": "NAK", "cnp": "CNP", "pfc": "PFC"}
    rows = [[name, text.count(meta["packets"][kind])] for kind, name in names.items()]
    account = meta["conservation"]["data_packets"]
    balance = " + ".join(
        f"{text.count(number)} {kind.replace('_', ' ')}"
        for kind, number in sorted(account.items())
        if kind != "sent"
    )
    verdict = "adds up" if meta["conservation"]["ok"] else "does NOT add up"
    caption = (
        f"The account of data packets {verdict}: {text.count(account['sent'])} sent = {balance}. "
        f"{text.plural(meta['conservation']['checked_queues'], 'queue')} checked one by one."
    )
    return TextTable("packets", "Packets", caption, ["Kind", "Transmissions over links"], rows, [False, True])


def counters(result: Result) -> TextTable:
    """Every counter that is not zero, under the name that mlx5, ethtool or the switch prints."""
    table = [row for row in result.counters.to_pylist() if row["value"]]
    table.sort(key=lambda row: (text.natural(row["node"]), text.natural(row["port"]), row["counter"]))
    rows = [
        [row["node"], row["port"], row["counter"], text.count(row["value"])]
        for row in table[:MOST_COUNTER_ROWS]
    ]
    zero = result.counters.num_rows - len(table)
    caption = "Counters under the names that mlx5 and ethtool print; "
    caption += f"{text.count(zero)} that stayed zero are left out"
    more = len(table) - len(rows)
    caption += (
        f", and {text.count(more)} more are only in counters.json." if more else ". counters.json has all."
    )
    return TextTable(
        "counters",
        "Counters",
        caption,
        ["Node", "Port", "Counter", "Value"],
        rows,
        [False] * 3 + [True],
        True,
    )


def assumptions(result: Result) -> TextTable:
    """A row a setting whose default is an assumption."""
    return TextTable(
        "assumptions",
        "Assumptions used",
        "Settings that no document gives and that this scenario left at their default.",
        ["Setting", "Value", "Why"],
        [[one["setting"], one["value"], one["why"]] for one in result.assumptions],
        [False] * 3,
    )
