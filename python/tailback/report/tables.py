"""The tables of a report."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailback import text
from tailback.metrics import summarise
from tailback.recorded.run import Recorded
from tailback.recorded.setup import ROCE, TCP

MOST_COUNTER_ROWS = 600
MOST_ROWS = 64
MOST_DROPS = 24


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


def all_tables(result: Recorded) -> list[TextTable]:
    """Tables after those of flows and hosts, in the order of the report."""
    return [
        drops(result),
        pauses(result),
        pause_storms(result),
        packets(result),
        counters(result),
        assumptions(result),
    ]


def by_congestion(result: Recorded) -> TextTable:
    """A row a congestion control and traffic item, where a run has several of the former."""
    flows, rows = result.flows, []
    if "congestion" in flows.column_names:
        flows = pc.filter(flows, pc.is_valid(flows.column("congestion")))
        keys = ["congestion", "item"]
        parts_of = flows.select(keys).group_by(keys, use_threads=False).aggregate([]).to_pylist()
        for key in sorted(parts_of, key=lambda key: (key["congestion"], text.natural(key["item"]))):
            mine = pc.filter(
                flows, pc.and_(*(pc.equal(flows.column(name), value) for name, value in key.items()))
            )
            sums = {
                name: int(pc.sum(mine.column(name)).as_py())
                for name in ("bytes_delivered", "packets_sent", "packets_retransmitted", "rp_cnp_handled")
            }
            rates = mine.column("goodput_bps").to_numpy()
            rows.append(
                [
                    key["congestion"],
                    key["item"],
                    text.count(len(pc.unique(mine.column("src")))),
                    text.count(mine.num_rows),
                    text.size(sums.pop("bytes_delivered")),
                    *(text.rate(float(np.quantile(rates, q))) for q in (0, 0.5, 1)),
                    *map(text.count, sums.values()),
                ]
            )
    return TextTable(
        "congestion",
        "Flows, by congestion control",
        "What ran which: the column congestion of flows.parquet says it of each queue pair (QP). Goodput of "
        "each over its own time.",
        [
            "Congestion control",
            "Traffic",
            "Senders",
            "QPs",
            "Delivered",
            "Least QP",
            "Median QP",
            "Most QP",
            "Packets sent",
            "Retransmitted",
            "CNPs",
        ],
        rows,
        [False, False] + [True] * 9,
    )


def drops(result: Recorded) -> TextTable:
    """A row a queue and reason."""
    found = [drop for drop in summarise(result)["losses"]["by_queue"] if drop["packets"]]
    shown, rest = found[:MOST_DROPS], found[MOST_DROPS:]
    rows = [
        [drop["where"], drop["reason"], text.count(drop["packets"]), text.size(drop["bytes"])]
        for drop in shown
    ]
    if rest:
        sums = [sum(drop[key] for drop in rest) for key in ("packets", "bytes")]
        rows.append(
            [
                f"{text.count(len(rest))} {text.verb(len(rest), 'other', 'others')}",
                "",
                text.count(sums[0]),
                text.size(sums[1]),
            ]
        )
    return TextTable(
        "drops",
        "Drops",
        "Every packet dropped, by queue and reason, most first."
        + (" The others are in summary.json one by one." if rest else ""),
        ["Queue", "Reason", "Packets", "Bytes"],
        rows,
        [False, False, True, True],
    )


def pause_storms(result: Recorded) -> TextTable:
    """A row a port and priority whose PFC watchdog acted."""
    rows = [
        [
            storm["port"],
            str(storm["priority"]),
            f"{text.count(storm['detected'])} / {text.count(storm['restored'])}",
            text.duration(storm["first_ps"] / 1e12),
            text.count(storm["tx_dropped_packets"]),
            text.count(storm["rx_dropped_packets"]),
        ]
        for storm in sorted(result.meta["pause_storms"], key=lambda storm: text.natural(storm["port"]))
    ]
    return TextTable(
        "pause-storm-table",
        "Pause storms, by port",
        "Ports that a pause held up for the watchdog's detection time. What waited there and what came for "
        "the port was dropped (TX), and what it received in that priority (RX), until it was restored.",
        ["Port", "Priority", "Detected / restored", "First", "TX dropped", "RX dropped"],
        rows,
        [False, False, True, True, True, True],
    )


def pauses(result: Recorded) -> TextTable:
    """A row a port and priority that was paused."""
    paused = [pause for pause in result.meta["pauses"] if pause["rx_frames"]]
    longest = sorted(paused, key=lambda pause: -pause["paused_ps"])[: 2 * MOST_ROWS]
    more = len(paused) - len(longest)
    has_seconds = result.bins.end_s >= 1
    rows = [
        [
            pause["port"],
            str(pause["priority"]),
            text.count(pause["rx_frames"]),
            text.count(pause["transitions"]),
            text.duration(pause["paused_ps"] / 1e12),
            text.share(pause["paused_ps"] / 1e12 / result.bins.end_s),
            *([text.share(pause["max_share_of_a_second"])] if has_seconds else []),
            text.duration(pause["last_pause_ps"] / 1e12),
        ]
        for pause in sorted(longest, key=lambda pause: (text.natural(pause["port"]), pause["priority"]))
    ]
    return TextTable(
        "pause-table",
        "Pauses, by port",
        "Ports that received PFC frames. A transition is a change from paused to running."
        + (
            f" The {len(longest)} paused longest; {text.count(more)} {text.verb(more, 'other is', 'others are')} in summary.json."
            if more
            else ""
        ),
        [
            "Port",
            "Priority",
            "PFC frames",
            "Transitions",
            "Time paused",
            "Of the run",
            *(["Of the worst second"] if has_seconds else []),
            "Last pause ended",
        ],
        rows,
        [False] + [True] * (7 if has_seconds else 6),
    )


_RARE_PACKET_KINDS = {"probe": "RHCC probe", "probe_ack": "Answer to a probe", "trimmed": "Trimmed data"}
"""Kinds of packets that only some runs have."""


def packets(result: Recorded) -> TextTable:
    """Packets by kind, and the account of the data packets."""
    meta = result.meta
    spoken = summarise(result)["protocols"]
    names = {}
    if ROCE in spoken or not spoken:
        names = {"data": "Data", "ack": "ACK", "nak": "NAK", "cnp": "CNP"}
    if TCP in spoken:
        names |= {"tcp_data": "TCP data", "tcp_ack": "TCP ACK"}
    names["pfc"] = "PFC"
    names |= {kind: name for kind, name in _RARE_PACKET_KINDS.items() if kind in meta["packets"]}
    if summarise(result)["veth"] is not None:
        names = {}  # nothing goes over links
    rows = [[name, text.count(meta["packets"].get(kind, 0))] for kind, name in names.items()]
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


def counters(result: Recorded) -> TextTable:
    """Every counter that is not zero, under the name that mlx5, ethtool or the switch prints."""
    # Only the nodes that have a place in the table are put in order: there may be thousands.
    counts = {
        one["values"]: one["counts"] for one in pc.value_counts(result.counters.column("node")).to_pylist()
    }
    shown, covered = [], 0
    for node in sorted(counts, key=text.natural):
        if covered >= MOST_COUNTER_ROWS:
            break
        shown.append(node)
        covered += counts[node]
    table = pc.filter(
        result.counters, pc.is_in(result.counters.column("node"), pa.array(shown, pa.string()))
    ).to_pylist()
    table.sort(key=lambda row: (text.natural(row["node"]), text.natural(row["port"]), row["counter"]))
    rows = [
        [row["node"], row["port"], row["counter"], text.count(row["value"])]
        for row in table[:MOST_COUNTER_ROWS]
    ]
    caption = "Counters under the names that mlx5 and ethtool print; those that stayed zero are left out"
    more = result.counters.num_rows - len(rows)
    caption += (
        f", and {text.count(more)} more {text.verb(more, 'is', 'are')} only in counters.json."
        if more
        else ". counters.json has all."
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


def assumptions(result: Recorded) -> TextTable:
    """A row a setting whose default is an assumption."""
    return TextTable(
        "assumptions",
        "Assumptions used",
        "Settings that no document gives and that this scenario left at their default.",
        ["Setting", "Value", "Why"],
        [[one["setting"], one["value"], one["why"]] for one in result.assumptions],
        [False] * 3,
    )
