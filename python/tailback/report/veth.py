"""The picture of the dark buffer: what waits in the ring and in the qdisc, and what a ping sees of it."""

from __future__ import annotations

import numpy as np

from tailback import text
from tailback.metrics import summarise
from tailback.metrics.veth import FORWARD_END, samples
from tailback.recorded.run import Recorded
from tailback.report.figures import (
    INK,
    MAX_POINTS,
    MUTED,
    SKY,
    VERMILLION,
    Figure,
    Json,
    Labels,
    Plot,
    View,
    figure,
    layout,
    level,
    line,
    pack,
    round_top,
)
from tailback.report.tables import TextTable

DARK_GREY = "#3b3f45"
_MOST_PINGS = 4000


def plots(result: Recorded) -> list[Plot]:
    """Every plot of a run with namespaces; nothing where there are none."""
    found = summarise(result)["veth"]
    if found is None:
        return []
    return [_dark_buffer(result), *_pings(result), *_limit(result)]


def _occupancy(view: View, top: float, ring: int) -> Figure:
    values = {
        row: view.reduce(view.result.bins.values(f"{FORWARD_END}/{row}", "queue_mean_packets"), MAX_POINTS)
        for row in ("ring", "qdisc")
    }
    areas = {"ring": (DARK_GREY, "rgba(59,63,69,0.75)"), "qdisc": (SKY, "rgba(86,180,233,0.45)")}
    data = []
    labels = Labels(top)
    below = 0.0
    for row, (color, fill) in areas.items():
        data.append(
            line(
                view,
                values[row],
                MAX_POINTS,
                name=row,
                unit="packets",
                color=color,
                stackgroup="waiting",
                fillcolor=fill,
                width=0.8,
            )
        )
        last = float(values[row][-1])
        if last > 0:
            labels.add(below + last / 2, row, color)
        below += last
    look = layout(
        view,
        "Waiting (packets)",
        (0, top),
        shapes=[level(ring, MUTED, layer="above")],
        annotations=labels.annotations(),
    )
    return figure("dark-buffer", view, "Packets waiting in ring and queueing discipline", data, look)


def _round_trips(view: View, sent: np.ndarray, rtts: np.ndarray, top: float) -> Figure:
    stride = -(-len(sent) // _MOST_PINGS) if len(sent) else 1
    unit, length = view.unit
    dots: Json = {
        "type": "scatter",
        "mode": "markers",
        "name": "ping",
        "x": pack(sent[::stride] / length),
        "y": pack(rtts[::stride] * 1e3),
        "marker": {"color": VERMILLION, "size": 5},
        "hovertemplate": f"%{{y:.3~f}} ms, sent at %{{x:.4~f}} {unit}<extra>ping</extra>",
    }
    labels = Labels(top)
    if len(rtts):
        labels.add(float(np.mean(rtts)) * 1e3, f"mean {text.duration(float(np.mean(rtts)))}", INK)
    look = layout(
        view,
        "Ping, round trip (ms)",
        (0, top),
        shapes=[level(float(np.mean(rtts)) * 1e3, INK)] if len(rtts) else [],
        annotations=labels.annotations(),
    )
    return figure("ping", view, "Round trips of pings", [dots], look)


def _dark_buffer(result: Recorded) -> Plot:
    summary, bins = summarise(result)["veth"], result.bins
    waiting = sum(bins.values(f"{FORWARD_END}/{row}", "queue_mean_packets") for row in ("ring", "qdisc"))
    view = View(result)
    peak = float(view.reduce(np.asarray(waiting), MAX_POINTS).max(initial=0))
    top = round_top(max(peak * 1.05, summary["ring"] * 1.05))
    figures = [_occupancy(view, top, summary["ring"])]
    bql = {"off": "off", "packets": "on, one unit a packet", "bytes": "on, charging bytes"}[summary["bql"]]
    caption = (
        f"Packets that wait, as means over {view.sampling(MAX_POINTS)}; dark: in the ring, where the "
        f"queueing discipline cannot see them; light: in {summary['qdisc']}. Dashed: what the ring holds, "
        f"{summary['ring']}. "
        f"Byte queue limits: {bql}."
    )
    return Plot("dark-buffer", "The dark buffer", caption, figures)


def _pings(result: Recorded) -> list[Plot]:
    sent, rtts = samples(result)
    if not len(rtts):
        return []
    most = round_top(float(rtts.max()) * 1.05e3)
    figures = [_round_trips(View(result), sent, rtts, most)]
    caption = (
        "Round trips of pings through the same queue, each at the time when its request was sent. "
        "Dashed: their mean."
    )
    return [Plot("ping", "What a ping sees of it", caption, figures)]


def _limit(result: Recorded) -> list[Plot]:
    summary = summarise(result)["veth"]
    if summary["bql_limit"] is None:
        return []
    row = result.bins.values(f"{FORWARD_END}/ring", "bql_limit")
    view = View(result)
    top = round_top(float(row.max(initial=1)) * 1.1)
    unit = "packets" if summary["bql"] == "packets" else "B"
    figures = [
        figure(
            "bql-limit",
            view,
            "Limit of byte queue limits",
            [line(view, view.reduce(row, MAX_POINTS), MAX_POINTS, name="limit", unit=unit, color=VERMILLION)],
            layout(view, f"Limit ({unit})", (0, top)),
        )
    ]
    caption = (
        f"The limit of dynamic queue limits at the ends of bins, as means over {view.sampling(MAX_POINTS)}."
    )
    return [Plot("bql-limit", "Byte queue limits", caption, figures)]


def table(result: Recorded) -> TextTable:
    """A row a sender: what it sent and what became of it."""
    summary = summarise(result)["veth"]
    rows = [] if summary is None else summary["senders"]
    return TextTable(
        "namespaces",
        "Senders between namespaces",
        "Packets of each sender; what is neither delivered nor dropped was on its way at the end. A sender "
        "waits where its socket's buffer is full.",
        ["Traffic", "From", "To", "Sent", "Delivered", "Dropped", "Waits"],
        [
            [
                row["item"],
                row["src"],
                row["dst"],
                *(text.count(row[name]) for name in ("sent", "delivered", "dropped", "waits")),
            ]
            for row in rows
        ],
        [False, False, False, True, True, True, True],
    )
