"""Plots of the tracked flows: rates of queue pairs and windows of TCP connections."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailback import metrics, text
from tailback.metrics import summarise
from tailback.recorded.bins import PS_PER_S, Array
from tailback.recorded.run import Recorded
from tailback.recorded.setup import ROCE, TCP
from tailback.report.figures import (
    BLUE,
    MAX_POINTS_PER_LINE,
    MID_BLUE,
    MUTED,
    ORANGE,
    PALE_BLUE,
    VERMILLION,
    Json,
    Labels,
    Plot,
    View,
    figure,
    layout,
    line,
    pack,
)


@dataclass(frozen=True)
class _Kind:
    """A tracked quantity: its metric with unit, and the words around it."""

    id: str
    heading: str
    metric: str
    unit: str
    axis: str
    about: str
    """Of `{tracked} of {all}`."""
    note: str


def qp_rates(result: Recorded) -> list[Plot]:
    """The rates that congestion control gives the tracked queue pairs; nothing without a queue pair."""
    if list(summarise(result)["protocols"]) == [TCP]:
        return []
    count = summarise(result)["protocols"].get(ROCE, {"flows": result.flows.num_rows})["flows"]
    kind = _Kind(
        "rates",
        "Rates of queue pairs",
        "rate_bps",
        "bit/s",
        "QP rate (bit/s, log)",
        f"The rate that congestion control allows, for {{}} tracked of {text.plural(count, 'queue pair')}",
        "An unlimited queue pair is at the line rate.",
    )
    if not result.bins.entities(kind.metric):
        return [Plot(kind.id, kind.heading, "No queue pair's rate was recorded.")]
    return [_spread(result, kind) or Plot(kind.id, kind.heading, "No tracked queue pair had started.")]


def windows(result: Recorded) -> list[Plot]:
    """The congestion windows of the tracked TCP connections; nothing without one."""
    count = metrics.tcp.connections(result).num_rows
    kind = _Kind(
        "windows",
        "Windows of TCP connections",
        "cwnd_bytes",
        "B",
        "Congestion window (B, log)",
        f"Congestion windows of {{}} tracked of {text.plural(count, 'TCP connection')}",
        "It is what a sender may have under way, as far as the receiver's window lets it.",
    )
    if not result.bins.entities(kind.metric):
        return []
    plot = _spread(result, kind)
    return [plot] if plot else []


def _spread(result: Recorded, kind: _Kind) -> Plot | None:
    """The spread of all tracked, their median and two single ones; None if none had started."""
    view = View(result)
    names = result.bins.entities(kind.metric)
    spans = _spans(result, set(names))
    rows = np.stack(
        [_while_running(result, name, *spans.get(name, (0.0, np.inf)), kind.metric) for name in names]
    )
    if np.isnan(rows).all():
        return None
    low, high = np.log10(max(np.nanmin(rows), 1e3)), np.log10(np.nanmax(rows))
    # Values that are all the same, such as the line rate, would lie on the axis.
    bottom, top = np.floor(min(low, high - 1) * 2) / 2, high + 0.08
    single = [names[0], names[len(names) // 2]] if len(names) > 2 else []
    grouped = np.stack([view.reduce(np.nan_to_num(row), MAX_POINTS_PER_LINE, "max") for row in rows])
    grouped = np.where(grouped > 0, grouped, np.nan)
    least, middle, most = _quantiles(grouped, (0, 0.5, 1))
    *bands, median = all_and_most(view, grouped, kind.unit)
    data = bands
    for name, color in zip(single, (ORANGE, VERMILLION), strict=False):
        row = grouped[names.index(name)]
        data.append(line(view, row, MAX_POINTS_PER_LINE, name=name, unit=kind.unit, color=color, width=1))
    data.append(median)
    labels = Labels(float(top), bottom=float(bottom))
    if np.isfinite(middle[-1]):
        labels.add(float(np.log10(middle[-1])), "median", BLUE)
        if single:
            labels.add(float(np.log10(_last(most))), "most", MUTED)
            labels.add(float(np.log10(_last(least))), "least", MUTED)
    look = layout(
        view,
        kind.axis,
        (float(bottom), float(top)),
        yaxis={"type": "log", "dtick": 1, "tickformat": "~s", "rangemode": "normal"},
        annotations=labels.annotations(),
    )
    caption = f"{kind.about.format(len(names))}: the median, the middle 80 %, and the whole range."
    if single:
        caption += f" The thin lines are two single ones, {single[0]} and {single[1]}."
    caption += f" Highest value recorded in each {view.sampling(MAX_POINTS_PER_LINE)}. {kind.note}"
    return Plot(kind.id, kind.heading, caption, [figure(kind.id, view, kind.heading, data, look)])


def while_running(result: Recorded, names: list[str], metric: str, where: str) -> Array:
    """A metric of flows, a row each, while they run and the metric `where` is above zero; else NaN."""
    spans = _spans(result, set(names))
    there = [_while_running(result, name, *spans.get(name, (0.0, np.inf)), where) for name in names]
    values = [result.bins.values(name, metric) for name in names]
    return np.where(np.isnan(np.stack(there)), np.nan, np.stack(values))


def _while_running(
    result: Recorded, name: str, start_s: float, end_s: float, metric: str = "rate_bps"
) -> Array:
    """The values of a flow from its start to its end; before and after, there is nothing to speak of."""
    values = result.bins.values(name, metric)
    bins = result.bins
    there = (bins.start_s + bins.width_s > start_s) & (bins.start_s < end_s) & (values > 0)
    return np.where(there, values, np.nan)


def _spans(result: Recorded, wanted: set[str]) -> dict[str, tuple[float, float]]:
    """Start and end of these flows in seconds. That of a single message is named after its flow."""
    flows = result.flows
    kinds: Any = pa.scalar("qp")
    if "protocol" in flows.column_names:
        kinds = pc.if_else(pc.equal(flows.column("protocol"), TCP), "tcp", "qp")
    number = pc.cast(flows.column("qp"), pa.string())
    if "ideal_fct_ps" in flows.column_names:
        single = pc.is_valid(flows.column("ideal_fct_ps"))
        kinds = pc.if_else(single, "flow", kinds)
        number = pc.if_else(single, pc.cast(flows.column("flow"), pa.string()), number)
    # By columns: of millions of flows few are tracked.
    ends = (pc.cast(flows.column(name), pa.string()) for name in ("src", "dst"))
    pairs = pc.binary_join_element_wise(*ends, "-")
    names = pc.binary_join_element_wise(pairs, "/", kinds, number, "")
    found = flows.select(["start_ps", "end_ps"]).append_column("name", names)
    found = pc.filter(found, pc.is_in(names, pa.array(sorted(wanted), pa.string())))
    never = float("inf")
    return {
        row["name"]: (
            never if row["start_ps"] is None else row["start_ps"] / PS_PER_S,
            never if row["end_ps"] is None else row["end_ps"] / PS_PER_S,
        )
        for row in found.to_pylist()
    }


def quantile(rows: Array, q: float) -> Array:
    """Quantile over rows, NaN where every row is NaN (without the warning that numpy gives)."""
    return next(iter(_quantiles(rows, (q,))))


def _quantiles(rows: Array, of: Iterable[float]) -> Iterator[Array]:
    """Several of them; as numpy's, which has one column after the other."""
    ordered = np.sort(rows, axis=0)  # NaN come last
    last = np.maximum(np.count_nonzero(~np.isnan(rows), axis=0) - 1, 0)
    columns = np.arange(rows.shape[1])
    for q in of:
        place = q * last
        below = place.astype(np.int64)
        low, high = ordered[below, columns], ordered[np.minimum(below + 1, last), columns]
        part, rise = place - below, high - low
        yield np.asarray(np.where(part < 0.5, low + rise * part, high - rise * (1 - part)))


def all_and_most(view: View, rows: Array, unit: str) -> list[Json]:
    """The range of many rows, the middle 80 % and the median, which comes last."""
    least, lower, middle, upper, most = _quantiles(rows, (0, 0.1, 0.5, 0.9, 1))
    return [
        *band(view, least, most, PALE_BLUE, "all of them", unit),
        *band(view, lower, upper, MID_BLUE, "the middle 80 %", unit),
        line(view, middle, MAX_POINTS_PER_LINE, name="median", unit=unit, color=BLUE, width=2),
    ]


def _last(values: Array) -> float:
    finite = values[np.isfinite(values)]
    return float(finite[-1]) if len(finite) else 1.0


def band(view: View, low: Array, high: Array, color: str, name: str, unit: str) -> list[Json]:
    """The area between two lines. The lower line carries no hover text, the upper one both values."""
    base = {
        "type": "scatter",
        "mode": "lines",
        **view.axis(MAX_POINTS_PER_LINE),
        "line": {"width": 0},
        "name": name,
    }
    return [
        {**base, "y": pack(low), "hoverinfo": "skip"},
        {
            **base,
            "y": pack(high),
            "fill": "tonexty",
            "fillcolor": color,
            "customdata": pack(low),
            "hovertemplate": f"%{{customdata:.3~s}} to %{{y:.3~s}} {unit}<extra>{name}</extra>",
        },
    ]
