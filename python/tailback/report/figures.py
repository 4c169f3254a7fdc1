"""What all plots share: the part of a run that one shows, how its bins are thinned, and the look.

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
INK, MUTED, FAINT, GRID = "#1c2127", "#5b6570", "#a9b2bb", "#e7eaee"

PLOT_HEIGHT = 260
POINTS = 1000  # of a plot with one or two lines
FEW_POINTS = 250  # of each of many lines
MOST_LINES = 64
TOP, BOTTOM, LEFT, RIGHT = 14, 46, 62, 96
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
MONO = "ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace"


@dataclass(frozen=True)
class Figure:
    """One plot in plotly.js's terms; `part`, "whole" or "start", is what it shows of the run."""

    id: str
    part: str
    heading: str
    label: str
    height: int
    data: list[Json]
    layout: Json


@dataclass(frozen=True)
class View:
    """A part of a run, from `begin_s` to `end_s`, and the bins that start in it."""

    result: Recorded
    part: Literal["whole", "start"]
    begin_s: float
    end_s: float

    @property
    def title(self) -> str:
        """What the panel is headed with."""
        if self.part == "whole":
            return f"Whole run, {text.duration(self.end_s)}"
        if self.begin_s == 0:
            return f"Start, first {text.duration(self.end_s)}"
        return f"First congestion, {text.duration(self.begin_s)} to {text.duration(self.end_s)}"

    @property
    def unit(self) -> tuple[str, float]:
        """Unit of the time axis and its length in seconds."""
        for name, length in (("s", 1.0), ("ms", 1e-3)):
            if self.end_s >= length:
                return name, length
        return "µs", 1e-6

    @property
    def slice(self) -> slice:
        """The bins that start inside."""
        inside = np.flatnonzero(self.result.bins.within(self.begin_s, self.end_s))
        return slice(int(inside[0]), int(inside[-1]) + 1) if len(inside) else slice(0, 1)

    def group(self, points: int) -> int:
        """How many bins go into one of at most `points` points."""
        part = self.slice
        return max(1, -(-int(part.stop - part.start) // points))

    def reduce(self, values: Array, points: int, how: Literal["mean", "max", "sum"] = "mean") -> Array:
        """The bins of this part in at most `points` groups: time-weighted mean, maximum, or sum of each."""
        part, size = self.slice, self.group(points)
        values, widths = values[part], self.result.bins.width_s[part]
        firsts = np.arange(0, len(values), size)
        if how == "max":
            return np.asarray(np.maximum.reduceat(values, firsts))
        if how == "sum":
            return np.asarray(np.add.reduceat(values, firsts))
        return np.asarray(np.add.reduceat(values * widths, firsts) / np.add.reduceat(widths, firsts))

    def per_second(self, counts: Array, points: int) -> Array:
        """Counts a bin as events a second in each group."""
        return self.reduce(counts, points, "sum") / self.reduce(self.result.bins.width_s, points, "sum")

    def axis(self, points: int) -> Json:
        """`x0` and `dx` of a trace: the middle of the first group and the distance between two."""
        length = self.unit[1]
        step = self.group(points) * self.result.bins.bin_s
        first = self.result.bins.start_s[self.slice.start]
        return {"x0": (first + step / 2) / length, "dx": step / length}

    def sampling(self, points: int) -> str:
        """How the points were made, for a caption."""
        step = self.group(points) * self.result.bins.bin_s
        return text.duration(step)


def views(result: Recorded) -> list[View]:
    """The whole run and, where it is short beside the run, its start."""
    whole = View(result, "whole", 0.0, result.bins.end_s)
    start = start_of(result)
    return [whole] if start is None else [whole, View(result, "start", *start)]


def start_of(result: Recorded, least_bins: int = 40, most: float = 0.25) -> tuple[float, float] | None:
    """The part of a run that a close-up shows: its start, or the first congestion of a start that takes long.

    When all flows start early in the run: from the first start until the signals of the start are over;
    signals that never end do not count. Otherwise: around the first pause, drop, NAK or mark. At least
    `least_bins` bins and at most the share `most` of the run; None when the run has too few bins for both.
    """
    bins = result.bins
    if bins.count * most < least_bins:
        return None
    starts = [ps / PS_PER_S for ps in result.flows.column("start_ps").to_pylist() if ps is not None]
    events = {
        metric: np.flatnonzero(bins.total(metric))
        for metric in ("dropped", "paused_share", "packet_seq_err", "ecn_marked")
    }
    first_signals = [int(found[0]) for found in events.values() if len(found)]
    if not starts or max(starts) > most * bins.end_s:
        first = max(0, min(first_signals, default=0) - least_bins // 5)
        last = first + least_bins
    else:
        # A start within the first hundredth of the run is shown from zero on.
        first = 0 if min(starts) < 0.01 * bins.end_s else int(min(starts) / bins.bin_s) - 2
        over = [max(starts) / bins.bin_s]
        over += [int(found[-1]) for found in events.values() if len(found) and found[-1] < most * bins.count]
        last = first + max(int(np.ceil((max(over) - first) * 1.3)), least_bins)
    last = min(last, first + int(most * bins.count), bins.count)
    return float(bins.start_s[first]), float(bins.start_s[last - 1] + bins.width_s[last - 1])


def pack(values: Any, dtype: Literal["f4", "f8"] = "f4") -> Json:
    """An array as plotly.js reads it most densely: base64 of little-endian floats, with its shape if it has
    two or more.
    """
    array = np.ascontiguousarray(values, dtype="<" + dtype)
    packed: Json = {"dtype": dtype, "bdata": base64.b64encode(array.tobytes()).decode("ascii")}
    if array.ndim > 1:
        packed["shape"] = ", ".join(map(str, array.shape))
    return packed


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


def layout(view: View, y_title: str, y_range: tuple[float, float] | None, **more: Any) -> Json:
    """The look of a time plot. `more` goes over it field by field; `yaxis` is merged."""
    unit, length = view.unit
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
    yaxis = {**axis, "title": {**axis["title"], "text": y_title}, "fixedrange": True, "rangemode": "tozero"}
    if y_range is not None:
        yaxis["range"] = list(y_range)
    yaxis.update(more.pop("yaxis", {}))
    right = RIGHT if more.get("annotations") else 14
    return {
        "font": {"family": FONT, "size": 12, "color": INK},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "#ffffff",
        "margin": {"l": LEFT, "r": right, "t": TOP, "b": BOTTOM},
        "height": PLOT_HEIGHT,
        "showlegend": False,
        "hovermode": "closest",
        "hoverlabel": {"bgcolor": "#ffffff", "bordercolor": FAINT, "font": {"color": INK, "size": 12}},
        "xaxis": {
            **axis,
            "title": {**axis["title"], "text": f"Time ({unit})"},
            "range": [view.begin_s / length, view.end_s / length],
            "showgrid": False,
            "nticks": 8,
        },
        "yaxis": yaxis,
        **more,
    }


def figure(id_: str, view: View, label: str, data: list[Json], look: Json) -> Figure:
    """A time plot of one part of a run."""
    return Figure(
        f"{id_}-{view.part}", view.part, view.title, f"{label}, {view.title}", PLOT_HEIGHT, data, look
    )


def sampling(panels: list[View], points: int) -> str:
    """'2 ms, close-up: 1 ms'."""
    words = panels[0].sampling(points)
    if len(panels) > 1 and panels[1].sampling(points) != words:
        words += f" (close-up: {panels[1].sampling(points)})"
    return words


def round_top(value: float) -> float:
    """A round number not below `value`: 1, 1.5, 2, 3, 4, 5, 6, 8 or 10 times a power of ten."""
    if not value > 0:
        return 1.0
    power = float(10 ** np.floor(np.log10(value)))
    return next(
        step * power for step in (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10) if step * power >= value * 0.999
    )
