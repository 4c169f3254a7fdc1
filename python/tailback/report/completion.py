"""How long flows took: slowdown by size, the distribution of completion times, and both as a table."""

from __future__ import annotations

from typing import Any

import numpy as np

from tailback import text
from tailback.metrics import slowdown, summarise
from tailback.metrics.jobs import jobs
from tailback.recorded.run import Recorded
from tailback.report.figures import (
    BLUE,
    FAINT,
    GREEN,
    GRID,
    MUTED,
    ORANGE,
    PLOT_HEIGHT,
    VERMILLION,
    Figure,
    Json,
    Labels,
    Plot,
    View,
    layout,
    pack,
)
from tailback.report.tables import TextTable

CURVE_POINTS = 400
"""Points of a distribution curve, however many flows there are."""
_CURVES = (
    ("p999", "99.9th", VERMILLION),
    ("p99", "99th", ORANGE),
    ("p95", "95th", GREEN),
    ("p50", "median", BLUE),
)


def completion(result: Recorded) -> list[Plot]:
    """The plots; none for a run without single messages."""
    done = slowdown.finished(result)
    if not len(done.sizes):
        return []
    rows = slowdown.table(done.sizes, done.fct_ps, done.ideal_fct_ps)
    view = View(result)
    figures = [_distribution(view, done)]
    flows = text.plural(len(done.sizes), "flow")
    caption = f"Completion times of {flows} that are done, and of the same in an empty network."
    if len(rows) > 1:  # of one size, slowdown is the same curve again
        figures.insert(0, _by_size(view, rows))
        caption += (
            f" By size: one time over the other; each point is {_share(rows)} of all flows, at its largest "
            "size; a percentile of fewer than a hundred flows is nearly their slowest one."
        )
    left = slowdown.unfinished(result)
    if left:
        flows = text.plural(sum(left.values()), "flow")
        caption += f" {flows} not done at the end left out, so the times may be too low."
    return [Plot("completion", "Completion of flows", caption, figures)]


def _share(rows: list[slowdown.Bucket]) -> str:
    if len(rows) == slowdown.BUCKET_COUNT:
        return "a tenth"
    return f"one of {len(rows)} groups (many flows have one size)"


def _by_size(view: View, rows: list[slowdown.Bucket]) -> Figure:
    top = max(row.p999 or 1.0 for row in rows) * 1.15
    high = float(np.log10(max(top, 1.5)))
    labels = Labels(high)
    data = []
    sizes = [row.high_bytes for row in rows]
    for key, name, color in _CURVES:
        values = [getattr(row, key) for row in rows]
        labels.add(float(np.log10(max(values[-1] or 1.0, 1.0))), name, color)
        data.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": name,
                "x": pack(sizes, "f8"),
                "y": pack(values),
                "line": {"color": color, "width": 1.6},
                "marker": {"size": 5},
                "customdata": [
                    [text.size(row.low_bytes), text.size(row.high_bytes), row.count] for row in rows
                ],
                "hovertemplate": (
                    "slowdown %{y:.3~f}<br>%{customdata[0]} to %{customdata[1]}, %{customdata[2]:,} flows"
                    f"<extra>{name}</extra>"
                ),
            }
        )
    look = _look(view, "Size of the flow (B, log)", "Slowdown (log)", labels)
    look["yaxis"].update({"type": "log", "range": [0, high], "rangemode": "normal", **_ticks(1.0, 10**high)})
    look["xaxis"].update(_ticks(min(sizes), max(sizes), "B"))
    return Figure(
        "completion-size",
        "Slowdown by size",
        "Slowdown of flows by size; the table Slowdown of flows has its values.",
        PLOT_HEIGHT,
        data,
        look,
    )


def _distribution(view: View, done: slowdown.Finished) -> Figure:
    labels = Labels(1.0)
    data: list[Json] = []
    # More points at the upper end, where the slow ones are.
    shares = np.unique(
        np.concatenate([np.linspace(0, 1, CURVE_POINTS // 2), 1 - np.logspace(-4, 0, CURVE_POINTS // 2)])
    )
    curves = (("measured", done.fct_ps, BLUE, "solid"), ("empty network", done.ideal_fct_ps, MUTED, "dash"))
    ends = []
    for name, times, color, dash in curves:
        ordered = np.sort(times) / 1e12
        at = np.clip(np.ceil(shares * len(ordered)).astype(np.int64) - 1, 0, len(ordered) - 1)
        ends += [float(ordered[0]), float(ordered[-1])]
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": name,
                "x": pack(ordered[at], "f8"),
                "y": pack((at + 1) / len(ordered)),
                "line": {"color": color, "width": 1.6, "dash": dash, "shape": "hv"},
                "hovertemplate": f"%{{y:.4~f}} of all within %{{x:.3~s}}s<extra>{name}</extra>",
            }
        )
    look = _look(view, "Completion time (log); dashed: empty network", "Share of flows", labels)
    look["yaxis"].update({"range": [0, 1.02], "tickformat": ".0%"})
    look["xaxis"].update(_ticks(min(ends), max(ends), "s"))
    half, last, ideal = (
        text.duration(float(one) / 1e12)
        for one in (np.median(done.fct_ps), done.fct_ps.max(), np.median(done.ideal_fct_ps))
    )
    words = (
        f"Distribution of completion times: half of all within {half}, the last after {last}; in an empty "
        f"network half within {ideal}."
    )
    return Figure("completion-cdf", "Distribution", words, PLOT_HEIGHT, data, look)


def _ticks(low: float, high: float, unit: str = "") -> Json:
    """Range and ticks of a logarithmic axis, with units."""
    first, last = np.log10(max(low, 1e-12)), np.log10(max(high, low * 1.01, 1e-12))
    margin = max(0.04 * (last - first), 0.02)
    steps = [m * 10.0**e for e in range(int(np.floor(first)), int(np.ceil(last)) + 1) for m in (1, 2, 5)]
    inside = [step for step in steps if first - margin <= np.log10(step) <= last + margin]
    decades = [step for step in inside if round(np.log10(step), 6) == round(np.log10(step))]
    # One size of flow, say: no round number is near, and the value itself says more.
    chosen = decades if len(decades) >= 3 else inside[:: max(1, len(inside) // 5)] or [low]
    name = {"B": text.size, "s": text.duration}.get(unit, text.significant)
    return {
        "range": [float(first - margin), float(last + margin)],
        "tickvals": chosen,
        "ticktext": [name(step) for step in chosen],
    }


def _look(view: View, x_title: str, y_title: str, labels: Labels) -> Json:
    look: dict[str, Any] = layout(view, y_title, None, annotations=labels.annotations())
    # Annotations on a logarithmic axis are placed along the paper: nothing to convert.
    look["xaxis"] = {
        **look["xaxis"],
        "type": "log",
        "title": {**look["xaxis"]["title"], "text": x_title},
        "showgrid": True,
        "gridcolor": GRID,
        "linecolor": FAINT,
    }
    look["yaxis"].pop("range", None)
    return look


def jobs_table(result: Recorded) -> TextTable:
    """A row a job: how long all of its messages took, against the least that its links allow."""
    rows = [
        [
            job.item,
            text.count(job.messages),
            text.count(job.hosts),
            text.size(job.payload_bytes),
            text.MISSING if job.time_s is None else text.duration(job.time_s),
            text.MISSING if job.algorithm_bps is None else text.rate(job.algorithm_bps),
            text.MISSING if job.bus_bps is None else text.rate(job.bus_bps),
            text.rate(job.bound_bus_bps),
            text.MISSING if job.of_bound is None else text.share(job.of_bound),
            f"{text.duration(job.bound_s)}: {job.bound_at}",
            text.count(job.left),
        ]
        for job in jobs(result)
    ]
    return TextTable(
        "jobs",
        "Jobs",
        "Messages that belong together, from the first start to the last end. Bandwidths are payload, as "
        "nccl-tests define them: algorithm bandwidth is the size of the operation over its time, bus "
        "bandwidth what of that the busiest host sends or takes over the network. The bound is the least "
        "time that the links out of any part of the network allow, headers counted, however the traffic is "
        "spread.",
        [
            "Job",
            "Messages",
            "Hosts",
            "Payload",
            "Time",
            "Algorithm bandwidth",
            "Bus bandwidth",
            "Bound",
            "Of the bound",
            "Bound by",
            "Not done",
        ],
        rows,
        [False] + [True] * 8 + [False, True],
    )


def completion_table(result: Recorded) -> TextTable:
    """A row a bucket of sizes, with as many flows in each, and one for all."""
    fct = summarise(result)["fct"]
    buckets = [] if fct is None else fct["by_size"]
    if fct is not None and fct["finished"] == sum(job.messages - job.left for job in jobs(result)):
        buckets = []  # of jobs the last message counts
    rows = [_row(_sizes(row), row) for row in buckets]
    if rows:
        rows.append(_row("all", fct["all"]["slowdown"]))
        rows += [_row(name, one["slowdown"]) for name, one in fct["by_item"].items() if one]
    return TextTable(
        "slowdown",
        "Slowdown of flows",
        "Completion time over that in an empty network, by size: groups of about equally many flows that are "
        "done, from the smallest to the largest. A percentile is the value of one flow.",
        ["Size", "Flows", "Mean", "Median", "p95", "p99", "p99.9"],
        rows,
        [False] + [True] * 6,
    )


def _sizes(bucket: dict[str, Any]) -> str:
    low, high = text.size(bucket["low_bytes"]), text.size(bucket["high_bytes"])
    return low if low == high else f"{low} to {high}"


def _row(name: str, bucket: dict[str, Any]) -> list[str]:
    figures = (bucket[key] for key in ("mean", "p50", "p95", "p99", "p999"))
    return [
        name,
        text.count(bucket["count"]),
        *(text.MISSING if figure is None else text.significant(figure) for figure in figures),
    ]
