"""The page of a sweep: what each setting does to each metric, and what two of them do together."""

from __future__ import annotations

import itertools
import math
from typing import Any

from tailback import noise, text
from tailback.metrics import Metric
from tailback.report.figures import BLUE, FAINT, MUTED, VERMILLION, Figure, Json, Plot, axes
from tailback.report.frame import environment, for_script
from tailback.study.effects import Effect, values_of
from tailback.study.points import in_words, number_of
from tailback.study.sweep_data import SweepData, cell

_PLOT_HEIGHT_PX = 280
_MOST_ROWS = 200
_MOST_SEED_LINES = 12
_SCALE_OF_UNIT = {
    "bit/s": ("Gbit/s", 1e-9),
    "B/s": ("GB/s", 1e-9),
    "share": ("%", 100.0),
    "s": ("µs", 1e6),
    "B": ("KB", 1e-3),
}
_COLD_TO_WARM = [[0.0, "#f3f6f9"], [0.5, "#7fb1d3"], [1.0, "#0b3f66"]]


def render_sweep(done: SweepData) -> str:
    """sweep.html: one page, offline."""
    same = [one for one in done.shown if _is_same(done, one)]
    plots = [_plot(number, done, one) for number, one in enumerate(done.shown) if one not in same]
    plots += _fronts(done)
    figures = [figure for plot in plots for figure in plot.figures]
    rows = [
        {
            "settings": [point.get(setting, "") for setting in done.settings],
            "cells": [cell(one, done.interval(number, one)) for one in done.shown],
        }
        for number, point in list(enumerate(done.points))[:_MOST_ROWS]
    ]
    template = environment().get_template("sweep.html.j2")
    return template.render(
        done=done,
        title=done.design.name.removesuffix("-sweep"),
        line=_line(done),
        lines=done.lines(),
        rows=rows,
        left_out=max(0, len(done.points) - _MOST_ROWS),
        failed=_failures(done),
        plots=plots,
        figures_json=for_script(figures),
    )


def _is_same(done: SweepData, shown: Metric) -> bool:
    """True if no setting makes a difference to a metric, with any seed: a plot of it would show nothing."""
    verdicts = {effect.verdict for effect in done.effects if effect.shown == shown}
    return verdicts == {"no difference"}


def _line(done: SweepData) -> str:
    parts = [
        text.plural(len(done.points), "point"),
        text.plural(len(done.seeds), "seed"),
        text.plural(len(done.rows), "run"),
    ]
    if done.failed:
        parts.append(f"{len(done.failed)} without a result")
    return " · ".join(parts)


def _failures(done: SweepData) -> list[dict[str, str]]:
    """Failures: of an impossible point once, not for each seed."""
    found: dict[tuple[int, str], dict[str, str]] = {}
    for row in (*done.failed, *done.faulty):
        seed = "all" if row["status"] == "impossible" else str(row["seed"])
        what = {"point": in_words(done.points[row["point"]]), "seed": seed, "status": row["status"]}
        found.setdefault(
            (row["point"], seed), {**what, "message": row["message"] or "; ".join(row["faults"])}
        )
    return list(found.values())


def _plot(number: int, done: SweepData, shown: Metric) -> Plot:
    """A metric over each setting, and over each two of them."""
    of_this = [effect for effect in done.effects if effect.shown == shown]
    figures = [_effect(f"m{number}-s{index}", done, effect) for index, effect in enumerate(of_this)]
    paired = [effect for effect in of_this if effect.pairs]
    for index, (first, second) in enumerate(itertools.combinations(paired, 2)):
        figures.append(_together(f"m{number}-i{index}", done, shown, first.setting, second.setting))
    caption = (
        "Points are means over seeds, bars their 95 % intervals; where other settings vary, too, over "
        "those as well. Faint lines are single seeds: where they run in parallel, a difference is more "
        "than noise."
    )
    return Plot(
        f"m{number}",
        shown.label,
        caption if figures else "No setting was varied.",
        figures,
    )


def _scaled(shown: Metric) -> tuple[str, float]:
    unit, factor = _SCALE_OF_UNIT.get(shown.unit, ("", 1.0))
    return f"{shown.label} ({unit})" if unit else shown.label, factor


def _effect(id_: str, done: SweepData, effect: Effect) -> Figure:
    title, factor = _scaled(effect.shown)
    values = values_of(done.points, effect.setting)
    if not effect.pairs and len(values) > 1:
        points = [
            (number_of(point[effect.setting]), done.interval(number, effect.shown))
            for number, point in enumerate(done.points)
            if effect.setting in point
        ]
        known = [(x, one) for x, one in points if one.seeds]
        data = [_means([x for x, _ in known], [one for _, one in known], factor, "markers")]
        look = _look(effect.setting, title, category=any(isinstance(x, str) for x, _ in known))
        return Figure(id_, f"Over {effect.setting}", effect.in_words, _PLOT_HEIGHT_PX, data, look)
    seeds = {value: _over_others(done, effect, value) for value in values}
    data = []
    # A line between categories would say that something lies between them.
    ordered = all(not isinstance(number_of(value), str) for value in values)
    ticks = [_tick(value) for value in values]
    every = sorted({seed for by_seed in seeds.values() for seed in by_seed})
    for seed in every if len(every) <= _MOST_SEED_LINES else ():
        data.append(
            {
                "type": "scatter",
                "mode": "lines" if ordered else "markers",
                "x": ticks,
                "y": [_or_none(seeds[value].get(seed, math.nan) * factor) for value in values],
                "line": {"color": FAINT, "width": 1},
                "marker": {"color": FAINT, "size": 5},
                "name": f"seed {seed}",
                "hovertemplate": f"%{{y:.4~g}}<extra>seed {seed}</extra>",
            }
        )
    data.append(
        _means(
            ticks,
            [noise.interval(list(seeds[value].values())) for value in values],
            factor,
            "lines+markers" if ordered else "markers",
        )
    )
    heading = f"Over {effect.setting}: {effect.verdict}"
    return Figure(
        id_, heading, effect.in_words, _PLOT_HEIGHT_PX, data, _look(effect.setting, title, category=True)
    )


def _tick(value: str) -> str:
    """A value as a tick: a list by what is in it."""
    inside = value.removeprefix("[").removesuffix("]").strip()
    return (inside or "none") if value.startswith("[") and value.endswith("]") else value


def _over_others(done: SweepData, effect: Effect, value: str) -> dict[int, float]:
    """A metric by seed, the mean over all points with a value of the setting that have that seed."""
    points = [number for number, point in enumerate(done.points) if point.get(effect.setting) == value]
    each = [found for point in points if (found := done.by_seed(point, effect.shown))]
    seeds = set.intersection(*(set(one) for one in each)) if each else set()
    return {seed: math.fsum(one[seed] for one in each) / len(each) for seed in seeds}


def _means(values: list[Any], intervals: list[noise.Interval], factor: float, mode: str) -> Json:
    reach = [one.high - one.mean if math.isfinite(one.high) else 0.0 for one in intervals]
    return {
        "type": "scatter",
        "mode": mode,
        "x": values,
        "y": [_or_none(one.mean * factor) for one in intervals],
        "error_y": {
            "type": "data",
            "array": [one * factor for one in reach],
            "color": BLUE,
            "thickness": 1.4,
            "width": 5,
        },
        "line": {"color": BLUE, "width": 1.8},
        "marker": {"color": BLUE, "size": 7},
        "name": "mean",
        "hovertemplate": "%{y:.4~g} ± %{error_y.array:.3~g} at %{x}<extra>mean over seeds</extra>",
    }


def _together(id_: str, done: SweepData, shown: Metric, first: str, second: str) -> Figure:
    """A heat map: the mean over seeds, and over whatever else varies."""
    title, factor = _scaled(shown)
    across, up = values_of(done.points, first), values_of(done.points, second)
    rows: list[list[float | None]] = []
    for y in up:
        row: list[float | None] = []
        for x in across:
            means = [
                done.interval(number, shown).mean
                for number, point in enumerate(done.points)
                if point.get(first) == x and point.get(second) == y
            ]
            known = [mean for mean in means if math.isfinite(mean)]
            row.append(_or_none(math.fsum(known) / len(known) * factor) if known else None)
        rows.append(row)
    data = [
        {
            "type": "heatmap",
            "x": across,
            "y": up,
            "z": rows,
            "colorscale": _COLD_TO_WARM,
            "colorbar": {"thickness": 10, "outlinewidth": 0, "tickfont": {"size": 11}},
            "texttemplate": "%{z:.4~r}" if len(across) * len(up) <= 100 else "",
            "hovertemplate": f"{first} %{{x}}, {second} %{{y}}: %{{z:.5~r}}<extra></extra>",
        }
    ]
    look = _look(first, second, category=True)
    look["yaxis"] = {**look["yaxis"], "type": "category", "showgrid": False}
    look["yaxis"].pop("rangemode", None)
    look["margin"] = {**look["margin"], "l": 78, "r": 14}
    heading = f"{title}: {first} and {second}"
    return Figure(id_, heading, heading, _PLOT_HEIGHT_PX, data, look)


def _fronts(done: SweepData) -> list[Plot]:
    """The points that no other beats in both of two metrics."""
    if not done.design.pareto:
        return []
    by_label = {one.label: one for one in done.design.shown()}
    (x_name, x_way), (y_name, y_way) = done.design.front.items()
    front: list[tuple[float, float, str]] = []
    rest: list[tuple[float, float, str]] = []
    numbers = done.front
    for number, point in enumerate(done.points):
        x, y = (done.interval(number, by_label[name]) for name in (x_name, y_name))
        if x.seeds and y.seeds:
            words = ", ".join(point.get(setting, "") for setting in done.settings)
            (front if number in numbers else rest).append((x.mean, y.mean, words))
    (x_title, x_factor), (y_title, y_factor) = (_scaled(by_label[name]) for name in (x_name, y_name))
    data = []
    for points, color, name, mode in (
        (rest, MUTED, "others", "markers"),
        (sorted(front), VERMILLION, "the front", "lines+markers"),
    ):
        data.append(
            {
                "type": "scatter",
                "mode": mode,
                "x": [x * x_factor for x, *_ in points],
                "y": [y * y_factor for _, y, _ in points],
                "text": [words for *_, words in points],
                "marker": {"color": color, "size": 8},
                "line": {"color": color, "width": 1, "dash": "dot"},
                "name": name,
                "hovertemplate": "%{text}: %{y:.4~g} at %{x:.4~g}<extra></extra>",
            }
        )
    look = _look(x_title, y_title, category=False)
    figure = Figure(
        "pareto-front", f"{y_name} over {x_name.lower()}", "Pareto front", _PLOT_HEIGHT_PX + 60, data, look
    )
    figure.layout["height"] = _PLOT_HEIGHT_PX + 60
    caption = (
        f"Red: points that no other beats in both, with {x_way} of {x_name.lower()} and {y_way} of "
        f"{y_name.lower()} the better. They are means over seeds; neighbours on the front may differ by "
        "noise alone."
    )
    return [Plot("pareto", "Pareto front", caption, [figure])]


def _look(x_title: str, y_title: str, category: bool) -> Json:
    look = axes(x_title, y_title, height=_PLOT_HEIGHT_PX)
    look["xaxis"] |= {"automargin": True, **({"type": "category"} if category else {})}
    look["yaxis"] |= {"automargin": True}
    return look


def _or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None
