"""The plot of a table of variants: one metric over another, a named point a variant."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tailback.metrics import METRICS
from tailback.report.figures import BLUE, BOTTOM, INK, TOP, Figure, Json, Plot, View, layout, round_top

if TYPE_CHECKING:
    from tailback.recorded.run import Recorded
    from tailback.study.published import Sensitivity
    from tailback.study.reproduction import Variant

_PLOT_HEIGHT_PX = 340
_LEAST_GAP_PX = 15.0
_LABEL_OVERLAP_SHARE = 0.3  # of the width: labels this close side by side may cover each other
_SCALE_OF_UNIT = {
    "bit/s": ("Gbit/s", 1e-9),
    "B/s": ("GB/s", 1e-9),
    "share": ("%", 100.0),
    "s": ("µs", 1e6),
    "B": ("KB", 1e-3),
}


def tradeoff(number: int, item: Sensitivity, variants: list[Variant], result: Recorded) -> list[Plot]:
    """The plot that the table asks for; none where it asks for none."""
    if item.plot is None:
        return []
    names = [check.metric for check in item.show]
    over, of = (names.index(name) for name in (item.plot.over, item.plot.of))
    (x_unit, x_factor), (y_unit, y_factor) = (_scale(item.plot.over), _scale(item.plot.of))
    points: list[tuple[str, float, float]] = []
    for variant in variants:
        x, y = variant.measured[over].value * x_factor, variant.measured[of].value * y_factor
        if math.isfinite(x) and math.isfinite(y):
            points.append((variant.value, x, y))
    if not points:
        return []
    right = round_top(max(x for _, x, _ in points) * 1.1)
    top = round_top(max(y for *_, y in points) * 1.1)
    data = [
        {
            "type": "scatter",
            # A sweep of one setting has an order, named variants have none.
            "mode": "lines+markers" if item.path else "markers",
            "x": [x for _, x, _ in points],
            "y": [y for _, _, y in points],
            "text": [name for name, *_ in points],
            "line": {"color": BLUE, "width": 1, "dash": "dot"},
            "marker": {"color": BLUE, "size": 8},
            "hovertemplate": f"%{{text}}: %{{y:.3~f}} {y_unit} at %{{x:.3~f}} {x_unit}<extra></extra>",
        }
    ]
    look = layout(
        View(result),
        f"{_title(item.plot.of)} ({y_unit})",
        (0, top),
        height=_PLOT_HEIGHT_PX,
        annotations=_labels(points, right, top),
    )
    title = {**look["xaxis"]["title"], "text": f"{_title(item.plot.over)} ({x_unit})"}
    # Room for the points at zero, and for the labels to the right of the last ones.
    look["xaxis"] = {
        **look["xaxis"],
        "title": title,
        "range": [-0.02 * right, right * 1.12],
        "showgrid": True,
    }
    heading = f"{_title(item.plot.of)} over {_title(item.plot.over).lower()}"
    figure = Figure(f"table-{number}-tradeoff", heading, item.title, _PLOT_HEIGHT_PX, data, look)
    return [Plot(f"table-{number}-tradeoff-plot", item.title, "", [figure])]


def _scale(metric: str) -> tuple[str, float]:
    return _SCALE_OF_UNIT.get(METRICS[metric].unit, ("1", 1.0))


def _title(metric: str) -> str:
    words = metric.replace("_", " ")
    return words[0].upper() + words[1:]


def _labels(points: list[tuple[str, float, float]], right: float, top: float) -> list[Json]:
    """Names beside their points, moved up where one would cover another."""
    inner = _PLOT_HEIGHT_PX - TOP - BOTTOM
    placed: list[tuple[float, float]] = []
    labels: list[dict[str, Any]] = []
    for name, x, y in sorted(points, key=lambda point: point[2]):
        wish = y / top * inner
        at = wish
        for other_x, other_at in placed:
            if abs(x - other_x) < _LABEL_OVERLAP_SHARE * right:
                at = max(at, other_at + _LEAST_GAP_PX)
        placed.append((x, at))
        labels.append(
            {
                "x": x,
                "y": y,
                "xanchor": "left",
                "xshift": 8,
                "yshift": at - wish,
                "text": name,
                "showarrow": False,
                "font": {"color": INK, "size": 11},
            }
        )
    return labels
