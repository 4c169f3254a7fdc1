"""Common to all plots: the part of a run that one shows, how its bins are thinned, and the look.

A figure is plain data in plotly.js's format: nothing here needs a plotting library at run time but the
JavaScript one that the page carries.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from tailback import text
from tailback.recorded.bins import PS_PER_S, Array
from tailback.recorded.run import Recorded

Json = dict[str, Any]

# Okabe and Ito's colours, told apart by readers with any common colour vision (Color Universal Design, 2008).
BLUE, VERMILLION, GREEN, ORANGE, SKY, PINK = "#0072B2", "#D55E00", "#009E73", "#B87B00", "#56B4E9", "#CC79A7"
PALE_BLUE, MID_BLUE, PALE_VERMILLION = "#dce9f3", "#b3d0e5", "#f9e7db"
INK, MUTED, GREY, FAINT = "#1c2127", "#5b6570", "#b4bcc6", "#a9b2bb"
SKIPPED_COLOR = "#fbf3dc"
GRID, BAND, PAPER = "#e7eaee", "#f3f4f6", "#ffffff"

PLOT_HEIGHT = 260
MAX_POINTS = 2000  # of a plot with one or two lines
MAX_POINTS_PER_LINE = 1000  # of each of several lines
MOST_LINES = 16
MOST_DESCRIBED = 6  # lines of a plot that are described one by one
TOP, BOTTOM, LEFT, RIGHT = 14, 46, 62, 96
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
MONO = "ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace"


RUN_TIME_AXIS = "run"
"""The axis of plots over the time of a run: a zoom into one of them is a zoom into all."""


@dataclass(frozen=True)
class Figure:
    """One plot in plotly.js's terms. `label` says in words what it shows, for those who do not see it.

    Plots with the same `axis` have the same time axis; those without have none.
    """

    id: str
    heading: str
    label: str
    height: int
    data: list[Json]
    layout: Json
    axis: str = ""

    @property
    def numbers(self) -> bool:
        """True if it has lines over time, whose values make a table."""
        return any("dx" in trace and trace["type"] == "scatter" for trace in self.data)


@dataclass(frozen=True)
class Plot:
    """`heading` and `caption` around the `figures`; without figures, `caption` says why there are none."""

    id: str
    heading: str
    caption: str
    figures: list[Figure] = field(default_factory=list)


@dataclass(frozen=True)
class View:
    """The time axis of a run, and its bins thinned to points of a plot."""

    result: Recorded

    @property
    def end_s(self) -> float:
        """End of the run."""
        return self.result.bins.end_s

    @property
    def unit(self) -> tuple[str, float]:
        """Unit of the time axis and its length in seconds."""
        for name, length in (("s", 1.0), ("ms", 1e-3)):
            if self.end_s >= length:
                return name, length
        return "µs", 1e-6

    def group(self, points: int) -> int:
        """How many bins go into one of at most `points` points."""
        return max(1, -(-self.result.bins.count // points))

    def reduce(self, values: Array, points: int, how: Literal["mean", "max", "sum"] = "mean") -> Array:
        """The bins in at most `points` groups: time-weighted mean, maximum, or sum of each."""
        size, widths = self.group(points), self.result.bins.width_s
        firsts = np.arange(0, len(values), size)
        if how == "max":
            return np.asarray(np.maximum.reduceat(values, firsts))
        if how == "sum":
            return np.asarray(np.add.reduceat(values, firsts))
        return np.asarray(np.add.reduceat(values * widths, firsts) / np.add.reduceat(widths, firsts))

    def per_second(self, counts: Array, points: int) -> Array:
        """Counts a bin as events per second in each group."""
        return self.reduce(counts, points, "sum") / self.reduce(self.result.bins.width_s, points, "sum")

    def axis(self, points: int) -> Json:
        """`x0` and `dx` of a trace: the middle of the first group and the distance between two."""
        length = self.unit[1]
        step = self.group(points) * self.result.bins.bin_s
        return {"x0": step / 2 / length, "dx": step / length}

    def sampling(self, points: int) -> str:
        """How the points were made, for a caption."""
        step = self.group(points) * self.result.bins.bin_s
        return text.duration(step)


def pack(values: Any, dtype: Literal["f4", "f8"] = "f4") -> Json:
    """An array as plotly.js reads it most densely: base64 of little-endian floats, with its shape if it has
    two or more.
    """
    array = np.ascontiguousarray(values, dtype="<" + dtype)
    packed: Json = {"dtype": dtype, "bdata": base64.b64encode(array.tobytes()).decode("ascii")}
    if array.ndim > 1:
        packed["shape"] = ", ".join(map(str, array.shape))
    return packed


LEAST_IN_UNIT = 2
"""An axis of rates has the largest unit of which it shows this many."""


def rate_unit(most_bps: float, least: str = "Gbit/s") -> tuple[str, float]:
    """The unit of an axis of rates up to `most_bps`, `least` or a larger one, and the factor from bit/s."""
    units = {"Tbit/s": 1e-12, "Gbit/s": 1e-9, "Mbit/s": 1e-6}
    for unit, factor in units.items():
        if unit == least or most_bps * factor >= LEAST_IN_UNIT:
            return unit, factor
    raise ValueError(f"{least} is no unit of rates")


def line(view: View, values: Array, points: int, *, name: str, unit: str, color: str, **more: Any) -> Json:
    """A line of one value a group of bins; `more` overrides any field of the trace."""
    width = more.pop("width", 1.6)
    decimals = more.pop("format", ".3~s" if unit in ("bit/s", "B") else ".3~f")
    time = view.unit[0]
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        **view.axis(points),
        "y": pack(values),
        "line": {"color": color, "width": width},
        "hovertemplate": f"%{{y:{decimals}}} {unit} at %{{x:.4~f}} {time}<extra>{name}</extra>",
        **more,
    }


@dataclass
class Labels:
    """Labels at the right end of lines, moved apart until none covers another."""

    top: float
    height: int = PLOT_HEIGHT
    bottom: float = 0.0
    wanted: list[tuple[float, str, str]] = field(default_factory=list)

    def add(self, value: float, words: str, color: str) -> None:
        """A label for a line that ends at `value`."""
        self.wanted.append((value, words, color))

    def annotations(self, least_gap_px: float = 14) -> list[Json]:
        """As plotly.js annotations beside the plot."""
        inner = self.height - TOP - BOTTOM
        order = sorted(self.wanted)
        wish = [(value - self.bottom) / (self.top - self.bottom) * inner for value, _, _ in order]
        at = list(wish)
        for i in range(1, len(at)):
            at[i] = max(at[i], at[i - 1] + least_gap_px)
        # Labels pushed over the top come down again, and push those beneath them.
        over = inner if not at else min(inner, at[-1])
        for i in range(len(at) - 1, -1, -1):
            at[i] = min(at[i], over)
            over = at[i] - least_gap_px
        return [
            {
                "x": 1,
                "xref": "paper",
                "xanchor": "left",
                "xshift": 6,
                "y": y / inner,
                "yref": "paper",
                "yanchor": "middle",
                "text": words,
                "showarrow": False,
                "font": {"color": color, "size": 11},
            }
            for y, (_, words, color) in zip(at, order, strict=True)
        ]


def level(value: float, color: str, dash: str = "dash", layer: str = "between") -> Json:
    """A horizontal line through the whole plot, at `value`."""
    return {
        "type": "line",
        "x0": 0,
        "x1": 1,
        "xref": "paper",
        "y0": value,
        "y1": value,
        "layer": layer,
        "line": {"color": color, "width": 1, "dash": dash},
    }


def skipped_spans(view: View) -> list[Json]:
    """A pale band over each span that was skipped: its values follow from what went by packets before."""
    length_ps = view.unit[1] * PS_PER_S
    return [
        {
            "type": "rect",
            "x0": span["from_ps"] / length_ps,
            "x1": span["to_ps"] / length_ps,
            "y0": 0,
            "y1": 1,
            "yref": "paper",
            "layer": "below",
            "line": {"width": 0},
            "fillcolor": SKIPPED_COLOR,
        }
        for span in view.result.skipped
    ]


def axes(x_title: str, y_title: str, **more: Any) -> Json:
    """The look of any plot. `more` goes over it field by field."""
    axis: Json = {
        "showgrid": True,
        "gridcolor": GRID,
        "zeroline": False,
        "ticks": "outside",
        "tickcolor": FAINT,
        "ticklen": 4,
        "linecolor": FAINT,
        "showline": True,
        "tickfont": {"size": 11},
        "title": {"font": {"size": 12}, "standoff": 8},
    }
    right = RIGHT if more.get("annotations") else 14
    return {
        "font": {"family": FONT, "size": 12, "color": INK},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": PAPER,
        "margin": {"l": LEFT, "r": right, "t": TOP, "b": BOTTOM},
        "height": PLOT_HEIGHT,
        "showlegend": False,
        "hovermode": "closest",
        "hoverlabel": {"bgcolor": PAPER, "bordercolor": FAINT, "font": {"color": INK, "size": 12}},
        "xaxis": {**axis, "title": {**axis["title"], "text": x_title}, "showgrid": False},
        "yaxis": {**axis, "title": {**axis["title"], "text": y_title}, "fixedrange": True},
        **more,
    }


def layout(view: View, y_title: str, y_range: tuple[float, float] | None, **more: Any) -> Json:
    """The look of a time plot. `more` goes over it field by field; `yaxis` is merged."""
    unit, length = view.unit
    yaxis = more.pop("yaxis", {})
    if view.result.skipped:
        more["shapes"] = [*skipped_spans(view), *more.get("shapes", [])]
    look = axes(f"Time ({unit})", y_title, **more)
    look["xaxis"] |= {"range": [0, view.end_s / length], "nticks": 8}
    look["yaxis"] |= {"rangemode": "tozero", **({} if y_range is None else {"range": list(y_range)}), **yaxis}
    return look


def figure(id_: str, view: View, label: str, data: list[Json], look: Json) -> Figure:
    """A plot over the time of a run."""
    words = described(label, view.unit[0], data, look)
    return Figure(f"{id_}-plot", "", words, look["height"], data, look, RUN_TIME_AXIS)


def described(label: str, unit: str, data: list[Json], look: Json) -> str:
    """Lines over time as sentences: least, most and last value of each."""
    low, high = look["xaxis"]["range"]
    words = [f"{label}, {look['yaxis']['title']['text']}, from {low:g} to {high:.4g} {unit}."]
    for trace in data[:MOST_DESCRIBED]:
        if trace.get("hoverinfo") == "skip" or "dx" not in trace or not isinstance(trace.get("y"), dict):
            continue
        values = np.frombuffer(base64.b64decode(trace["y"]["bdata"]), f"<{trace['y']['dtype']}")
        there = np.flatnonzero(np.isfinite(values))
        if len(there):
            at = int(there[np.argmax(values[there])])
            least, last = float(values[there].min()), float(values[there[-1]])
            words.append(
                f"{trace['name']}: lowest {text.significant(least)}, highest "
                f"{text.significant(float(values[at]))} at {trace['x0'] + at * trace['dx']:.4g} {unit}, "
                f"at the end {text.significant(last)}."
            )
    if len(data) > MOST_DESCRIBED:
        words.append(f"And {text.plural(len(data) - MOST_DESCRIBED, 'other line')}.")
    return " ".join(words)


def round_top(value: float) -> float:
    """A round number not below `value`: 1, 1.5, 2, 3, 4, 5, 6, 8 or 10 times a power of ten."""
    if not value > 0:
        return 1.0
    power = float(10 ** np.floor(np.log10(value)))
    return next(
        step * power for step in (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10) if step * power >= value * 0.999
    )
