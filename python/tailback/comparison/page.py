"""The HTML page of a comparison: tables, then plots with a line for each run."""

from __future__ import annotations

from typing import Any

import numpy as np

from tailback.comparison import terminal
from tailback.comparison.sides import Side
from tailback.comparison.tables import ComparisonTables
from tailback.recorded.bins import PS_PER_S, Array
from tailback.recorded.run import Recorded
from tailback.recorded.signals import CE_MARK, DROP, PFC_PAUSE
from tailback.report.figures import (
    BLUE,
    GREEN,
    INK,
    MUTED,
    ORANGE,
    PINK,
    PLOT_HEIGHT,
    SKY,
    VERMILLION,
    Figure,
    Json,
    Plot,
    View,
    layout,
    line,
    pack,
)
from tailback.report.frame import environment, for_script

SIDE_COLORS = (BLUE, VERMILLION, GREEN, ORANGE, PINK, SKY, INK, MUTED)
POINTS_PER_LINE = 600
MAX_DISTRIBUTION_STEPS = 2000


def render(comparison: ComparisonTables) -> str:
    """Renders the page."""
    plots = [plot for plot in _plots(comparison.sides) if plot.figures]
    return (
        environment()
        .get_template("compare.html.j2")
        .render(
            comparison=comparison,
            note=terminal.note_on_seeds(comparison),
            signals=[
                {"name": f"{side.label}: {side.name}", "color": color_of(at)}
                for at, side in enumerate(comparison.sides)
            ],
            rows_of=lambda table: [list(row.values()) for row in table.to_pylist()],
            figure_columns=_figure_columns(comparison.sides),
            figure_rows=_figure_rows(comparison),
            flows_in_words=terminal.flows_in_words,
            flow_in_words=terminal.flow_in_words,
            plots=plots,
            figures_json=for_script([figure for plot in plots for figure in plot.figures]),
        )
    )


def _figure_columns(sides: list[Side]) -> list[str]:
    more = [column for side in sides[1:] for column in (f"{side.label} to A", "Verdict of seeds")]
    return ["Figure", *(side.label for side in sides), *more]


def _figure_rows(comparison: ComparisonTables) -> list[list[str]]:
    number = len(comparison.sides)
    return [
        [
            figure.name,
            *(terminal.spread(figure, at) for at in range(number)),
            *(cell for at in range(1, number) for cell in (terminal.change(figure, at), figure.verdict(at))),
        ]
        for figure in comparison.main_figures
    ]


def color_of(side: int) -> str:
    """The colour of a side's lines; the ninth side has that of the first."""
    return SIDE_COLORS[side % len(SIDE_COLORS)]


def _plots(sides: list[Side]) -> list[Plot]:
    return [
        _over_time(
            sides,
            "throughput",
            "Total throughput",
            "Payload per second that all receivers took in order.",
            "Total goodput (Gbit/s)",
            "Gbit/s",
            lambda result: result.bins.total("goodput_rx_bps") / 1e9,
        ),
        _over_time(
            sides,
            "waiting",
            "Bytes waiting",
            "Bytes in all egress queues of switches.",
            "Waiting (MB)",
            "MB",
            lambda result: _waiting(result) / 1e6,
        ),
        _over_time(
            sides,
            "paused",
            "Pauses",
            "Mean number of paused queues.",
            "Paused queues",
            "queues",
            lambda result: result.signal_log.total(PFC_PAUSE),
        ),
        _over_time(
            sides,
            "marked",
            "ECN marks",
            "Packets that switches marked CE, per millisecond.",
            "Marks per ms",
            "per ms",
            lambda result: result.signal_log.total(CE_MARK) / result.bins.width_s / 1e3,
        ),
        _over_time(
            sides,
            "dropped",
            "Drops",
            "Packets dropped, per millisecond.",
            "Drops per ms",
            "per ms",
            lambda result: result.signal_log.total(DROP) / result.bins.width_s / 1e3,
        ),
        _distribution(sides),
    ]


def _waiting(result: Recorded) -> Array:
    total = np.zeros(result.bins.count)
    for queue in result.bins.entities("queue_mean_bytes", "egress"):
        total += result.bins.values(queue, "queue_mean_bytes")
    return total


def _over_time(
    sides: list[Side], id_: str, heading: str, caption: str, title: str, unit: str, values: Any
) -> Plot:
    """A plot with a line for each run in the colour of its side; no figure if all values are zero."""
    views = [
        (at, side, seed, View(result)) for at, side in enumerate(sides) for seed, result in side.runs.items()
    ]
    longest = max((view for *_, view in views), key=lambda view: view.end_s)
    data, highest = [], 0.0
    for at, side, seed, view in views:
        reduced = view.reduce(values(view.result), POINTS_PER_LINE)
        highest = max(highest, float(reduced.max(initial=0.0)))
        several = len(side.runs) > 1
        trace = line(
            view,
            reduced,
            POINTS_PER_LINE,
            name=f"{side.label}, seed {seed}" if several else side.label,
            unit=unit,
            color=color_of(at),
            width=1.0 if several else 1.6,
            opacity=0.7 if several else 1.0,
        )
        step = longest.unit[1] / view.unit[1]
        trace |= {name: trace[name] / step for name in ("x0", "dx")}
        data.append(trace)
    if not highest:
        return Plot(id_, heading, caption)
    look = layout(longest, title, (0.0, highest * 1.05))
    words = f"{caption} {_each(sides)}"
    return Plot(id_, heading, words, [_figure(id_, heading, data, look)])


def _each(sides: list[Side]) -> str:
    several = any(len(side.runs) > 1 for side in sides)
    return (
        "Each line is a run; all seeds of a side have the same colour." if several else "Each line is a run."
    )


def _distribution(sides: list[Side]) -> Plot:
    """Cumulative distribution of completion times, over all runs of each side."""
    data = []
    every = [
        (at, side, np.sort(np.concatenate([_times_s(result) for result in side.runs.values()])))
        for at, side in enumerate(sides)
    ]
    heading = "Completion times"
    if not any(len(times) for *_, times in every):
        return Plot("completion", heading, "")
    unit, length = (
        ("ms", 1e-3) if max(times[-1] for *_, times in every if len(times)) > 1e-3 else ("µs", 1e-6)
    )
    for at, side, times in every:
        kept = np.unique(np.linspace(0, len(times) - 1, min(len(times), MAX_DISTRIBUTION_STEPS)).astype(int))
        if not len(times):
            continue
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": side.label,
                "x": pack(times[kept] / length),
                "y": pack((kept + 1) / len(times)),
                "line": {"color": color_of(at), "width": 1.6, "shape": "hv"},
                "hovertemplate": f"%{{y:.1%}} completed within %{{x:.4~g}} {unit}<extra>{side.label}</extra>",
            }
        )
    first = sides[0].first
    look = layout(View(first), "Share of flows completed", (0.0, 1.02))
    look["yaxis"]["tickformat"] = ".0%"
    look["xaxis"] |= {"type": "log", "title": {**look["xaxis"]["title"], "text": f"Completion time ({unit})"}}
    del look["xaxis"]["range"], look["xaxis"]["nticks"]
    caption = "Share of flows that completed within a time, over all seeds. Left is better."
    return Plot("completion", heading, caption, [_figure("completion", heading, data, look)])


def _times_s(result: Recorded) -> Array:
    times = result.flows.column("fct_ps").drop_null().to_numpy()
    return np.asarray(times, dtype=np.float64) / PS_PER_S


def _figure(id_: str, heading: str, data: list[Json], look: Json) -> Figure:
    return Figure(f"{id_}-compared", heading, heading, PLOT_HEIGHT, data, look)
