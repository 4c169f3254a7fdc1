"""The tailback chart: the queues along the path over time, receiver's memory at the top, sender at the
bottom.

Colour is how many bytes waited, on a logarithmic scale, because a line of traffic begins with kilobytes and
ends with megabytes. Under each row run up to three lanes of ticks: CE marks, pauses, drops.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tailback import text
from tailback.metrics import summarise
from tailback.recorded.bins import Array
from tailback.recorded.run import Recorded
from tailback.recorded.signals import CE_MARK, DROP, PFC_PAUSE, PFC_XOFF
from tailback.report.figures import (
    BAND,
    GREEN,
    INK,
    MAX_POINTS,
    MONO,
    MUTED,
    RUN_TIME_AXIS,
    VERMILLION,
    Figure,
    Json,
    View,
    layout,
    pack,
)
from tailback.report.queues import QueueStore

MOST_ROWS = 40
MAX_ROWS_OF_KIND = {"receive": 4, "egress": 20, "ingress": 8, "send": 8}
"""Rows that each kind of queue has for itself where there are too many."""
FEW_RECEIVERS = 4
"""Of more receivers, those whose memory stayed empty have no row."""
# cmocean "dense" (Thyng and others, Oceanography 29(3), 2016), perceptually uniform, from its second step on:
# the first is too near to the white of an empty queue.
QUEUE_COLORS = ("#d3e5ea", "#a8c8de", "#87abde", "#7589dc", "#7563cb", "#73409f", "#632166", "#36130f")
# What the application has posted and the NIC not yet sent is deep by design, and no line of traffic: shades
# of grey.
SEND_QUEUE_COLORS = ("#eceef1", "#d9dde2", "#c6ccd3", "#b3bbc4", "#a1abb5", "#909ba6", "#7f8b97", "#6f7b87")
LOWEST_SHADE_BYTES = 1e3
# A tick is at least this share of the width: one bin of two thousand would be invisible.
MIN_TICK_WIDTH_SHARE = 0.004
SIGNALS = ((CE_MARK, "CE marks", GREEN), (PFC_PAUSE, "pauses", VERMILLION), (DROP, "drops", INK))
GROUP_TITLES = {
    "memory": "Receiver's memory: writes under way",
    "gpu": "Receiver's GPU: writes under way",
    "iio": "IIO buffer: waiting for memory",
    "pcie": "PCIe: on its way, with credits",
    "nic-rx": "NIC's receive buffer: waiting for PCIe credits",
    "veth-napi": "Consumer's core: taken from the ring, waiting for the stack",
    "veth-ring": "Ring of the veth: waiting for the consumer's poll, out of sight of the qdisc",
    "veth-qdisc": "Queueing discipline of the producer's veth",
    "receive": "Receiver's memory (an ideal host: never full)",
    "tx-ring": "Bridge: in a transmit ring, until its completion",
    "qdisc": "Bridge: queueing disciplines",
    "rx-ring": "Bridge: receive rings, waiting for a core",
    "egress": "Switch ports, out: waiting for a link",
    "ingress": "Switch ports, in: the same bytes by origin",
    "send": "Senders: posted, not yet sent",
}
RINGS_TITLE = "Receive rings: waiting for the receiver's CPU"
PAUSED_SENDERS_TITLE = "Senders: when they were paused"
LANE_HEIGHT_PX = 4
MOST_NAMED = 5


@dataclass(frozen=True, eq=False)
class Row:
    """A queue of the chart, `about` as the recording has it, with its bytes and signals a bin."""

    about: dict[str, Any]
    queue: str
    kind: str
    node: str
    mean: Array
    peak: Array
    signals: dict[str, Array]

    @property
    def empty(self) -> bool:
        """True if never as much as the lowest colour waited here (a lone ACK is no queue), and nothing was
        signalled.
        """
        return self.peak.max(initial=0.0) < LOWEST_SHADE_BYTES and not any(
            values.any() for values in self.signals.values()
        )


@dataclass(frozen=True)
class Chosen:
    """The rows drawn, in the order of the path, and how many others were left out and why."""

    rows: list[Row]
    empty: int
    less_full: int

    @property
    def note(self) -> str:
        """What the chart leaves out, in words; empty if nothing."""
        parts = []
        if self.less_full:
            parts.append(
                f"the {len(self.rows)} fullest queues are drawn, {self.less_full} less full ones are not"
            )
        if self.empty:
            parts.append(
                f"{text.plural(self.empty, 'queue')} that never held {text.size(LOWEST_SHADE_BYTES)} left out"
            )
        words = "; ".join(parts)
        return words[:1].upper() + words[1:] + "." if words else ""


def choose(result: Recorded) -> Chosen:
    """Queues in the order of the path; those that stayed nearly empty and, above forty, the least full are
    left out: half of the rows are for queues out of switches, which are where traffic stands.

    A queue that is on several paths is at its place on the shortest. The receiver's memory stays in,
    empty or not, where there are few: it is where the path ends.
    """
    bins = result.bins
    # Senders stand last, however short the path from some of them is.
    ordered = sorted(
        result.meta["queues"],
        key=lambda queue: (queue["kind"] == "send", queue["order"], text.natural(queue["queue"])),
    )
    rows = []
    seen: set[str] = set()
    for queue in ordered:
        name = queue["queue"]
        if name in seen:
            continue
        seen.add(name)
        # An ingress group pauses others, an egress or send queue is paused: one lane, "a pause is at work
        # here".
        signals = {signal: result.signal_log.values(name, signal) for signal, _, _ in SIGNALS}
        if queue["kind"] == "ingress":
            signals[PFC_PAUSE] = result.signal_log.values(name, PFC_XOFF)
        mean, peak = bins.values(name, "queue_mean_bytes"), bins.values(name, "queue_max_bytes")
        rows.append(Row(queue, name, queue["kind"], queue["node"], mean, peak, signals))
    few = len(result.receivers) <= FEW_RECEIVERS
    # Only a receiver of this run is on the path; other hosts' memories would be empty rows without a meaning.
    used = [
        row
        for row in rows
        if not row.empty or (few and row.kind == "receive" and row.node in result.receivers)
    ]
    kept: set[int] = set()
    if len(used) > MOST_ROWS:
        fullest = sorted(range(len(used)), key=lambda number: -bins.mean(used[number].mean))
        # Send queues are deep by design and would take all rows: every kind has its share first.
        for kind, share in MAX_ROWS_OF_KIND.items():
            kept.update([number for number in fullest if used[number].kind == kind][:share])
        kept.update([number for number in fullest if number not in kept][: MOST_ROWS - len(kept)])
    drawn = [row for number, row in enumerate(used) if not kept or number in kept]
    return Chosen(drawn, len(rows) - len(used), len(used) - len(drawn))


def highest_bytes(chosen: Chosen) -> float:
    """Upper end of the colour scale: the fullest mean bin, rounded up to 1, 2 or 5 times a power of ten."""
    most = max((float(row.mean.max(initial=0.0)) for row in chosen.rows), default=0.0)
    most = max(most, 10 * LOWEST_SHADE_BYTES)
    power = float(10 ** np.floor(np.log10(most)))
    return next(step * power for step in (1.0, 2.0, 5.0, 10.0) if step * power >= most * 0.999)


def tailback_chart(view: View, chosen: Chosen, store: QueueStore) -> Figure:
    """The chart of a run; the depths of its queues go to the store."""
    plan = _place(chosen.rows, rings=summarise(view.result)["cpu"] is not None)
    length = view.unit[1]
    ticks = _tick_traces(view, plan)
    shapes: list[Json] = [
        {
            "type": "rect",
            "xref": "paper",
            "x0": 0,
            "x1": 1,
            "y0": place.top,
            "y1": place.bottom,
            "layer": "below",
            "fillcolor": BAND,
            "line": {"width": 0},
        }
        for place in plan.places
    ]
    headings = [
        {
            "xref": "paper",
            "x": 0,
            "xanchor": "left",
            "y": y,
            "yanchor": "middle",
            "text": words,
            "showarrow": False,
            "font": {"size": 11, "color": MUTED},
            "align": "left",
        }
        for y, words in plan.headings
    ]
    height = plan.height + 50
    look = layout(
        view,
        "",
        None,
        annotations=headings,
        shapes=shapes,
        yaxis={
            "range": [plan.height, 0],
            "tickvals": [place.middle for place in plan.places],
            "ticktext": [place.row.queue for place in plan.places],
            "tickfont": {"size": 10.5, "family": MONO},
            "showgrid": False,
            "showline": False,
            "ticks": "",
            "title": None,
            "rangemode": "normal",
        },
    )
    longest = max((len(place.row.queue) for place in plan.places), default=0)
    look["margin"] = {"l": max(96, 14 + round(6.6 * longest)), "r": 14, "t": 4, "b": 46}
    look["height"] = height
    for axis, colors in (("coloraxis", QUEUE_COLORS), ("coloraxis2", SEND_QUEUE_COLORS)):
        look[axis] = {
            "cmin": float(np.log10(LOWEST_SHADE_BYTES)),
            "cmax": float(np.log10(highest_bytes(chosen))),
            "colorscale": [[i / (len(colors) - 1), color] for i, color in enumerate(colors)],
            "showscale": False,
        }
    data = [_heat(view, place, store) for place in plan.places if place.row.peak.any()] + ticks
    if not data:  # an axis without a trace is not drawn
        data = [{"type": "scatter", "mode": "lines", "x": [0, view.end_s / length], "y": [None, None]}]
    return Figure("tailback-plot", "", _in_words(view, chosen), height, data, look, RUN_TIME_AXIS)


def _in_words(view: View, chosen: Chosen) -> str:
    """The fullest queues, for who does not see the chart."""
    bins = view.result.bins
    waits = [row for row in chosen.rows if row.kind != "send" and row.peak.any()]
    fullest = sorted(waits, key=lambda row: -bins.mean(row.mean))[:MOST_NAMED]
    if not fullest:
        return "Tailback chart: nothing waited in the network."
    named = "; ".join(
        f"{row.queue} held {text.size(bins.mean(row.mean))} on average, "
        f"{text.size(float(row.peak.max()))} at most"
        for row in fullest
    )
    return f"Tailback chart of {text.plural(len(chosen.rows), 'queue')} over time. The fullest: {named}."


@dataclass(frozen=True)
class _Place:
    row: Row
    top: float
    bottom: float
    lanes: dict[str, float]

    @property
    def middle(self) -> float:
        return (self.top + self.bottom) / 2


@dataclass(frozen=True)
class _Plan:
    places: list[_Place]
    headings: list[tuple[float, str]]
    height: int


def _place(rows: list[Row], *, rings: bool) -> _Plan:
    """Where each row goes, in pixels from the top: groups under a heading, few queues drawn tall, many drawn
    flat.
    """
    y = 0.0
    places: list[_Place] = []
    headings = []
    kind = ""
    for index, row in enumerate(rows):
        if row.kind != kind:
            kind = row.kind
            alike = 0
            for other in rows[index:]:
                if other.kind != kind:
                    break
                alike += 1
            tall = 30 if alike <= 2 else 20 if alike <= 6 else 10
            if kind == "receive":
                tall = 14
            empty = kind == "send" and not any(other.mean.any() for other in rows if other.kind == kind)
            words = PAUSED_SENDERS_TITLE if empty else GROUP_TITLES.get(kind, kind)
            headings.append((y + 10, RINGS_TITLE if kind == "receive" and rings else words))
            y += 20
        top, bottom = y, y + tall
        y = bottom + 1.5
        lanes = {}
        for signal, _, _ in SIGNALS:
            if row.signals[signal].any():
                lanes[signal] = y + LANE_HEIGHT_PX / 2
                y += LANE_HEIGHT_PX + 0.5
        y += 2.5
        places.append(_Place(row, top, bottom, lanes))
    return _Plan(places, headings, int(np.ceil(y)) + 4)


def _heat(view: View, place: _Place, store: QueueStore) -> Json:
    """A row of colour; the page's script takes its values from the store."""
    return {
        "type": "heatmap",
        "name": place.row.queue,
        "queue": store.add(view, place.row.about),
        **view.axis(MAX_POINTS),
        "y": [place.top, place.bottom],
        "coloraxis": "coloraxis2" if place.row.kind == "send" else "coloraxis",
        "hoverongaps": False,
        "hovertemplate": (
            f"mean %{{customdata[0]:.3s}}B, most %{{customdata[1]:.3s}}B<br>at %{{x:.4~f}} {view.unit[0]}"
            f"<extra>{place.row.queue}</extra>"
        ),
    }


def _tick_traces(view: View, plan: _Plan) -> list[Json]:
    """One trace a kind of signal: runs of bins with a signal, drawn as strokes with gaps between."""
    unit, length = view.unit
    step = view.group(MAX_POINTS) * view.result.bins.bin_s / length
    least = MIN_TICK_WIDTH_SHARE * view.end_s / length
    traces = []
    for signal, name, color in SIGNALS:
        xs: list[float] = []
        ys: list[float] = []
        for place in plan.places:
            if signal not in place.lanes:
                continue
            for begin, end in _strokes(view.reduce(place.row.signals[signal], MAX_POINTS, "max") > 0):
                x0, x1 = begin * step, end * step
                if xs and ys[-2] == place.lanes[signal] and x0 <= xs[-2]:
                    xs[-2] = max(xs[-2], x1)  # widened strokes that touch become one
                    continue
                xs += [x0, max(x1, x0 + least), float("nan")]
                ys += [place.lanes[signal]] * 2 + [float("nan")]
        if xs:
            trace: dict[str, Any] = {
                "type": "scatter",
                "mode": "lines",
                "name": name,
                "x": pack(xs, "f8"),
                "y": pack(ys),
                "line": {"color": color, "width": LANE_HEIGHT_PX},
                "connectgaps": False,
                "hovertemplate": f"{name} at %{{x:.4~f}} {unit}<extra></extra>",
            }
            traces.append(trace)
    return traces


def _strokes(flags: Any) -> list[tuple[int, int]]:
    """Runs of True as (first, past the last)."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]
