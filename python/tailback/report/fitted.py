"""The page of a fit: prior, posterior and profile of each unknown, and the observations against the fit."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from tailback import text
from tailback.report.figures import BLUE, INK, MUTED, PALE_BLUE, VERMILLION, Figure, Json, Plot, axes
from tailback.report.frame import environment, for_script
from tailback.study.fit_data import ANSWER_HEAD, UNKNOWN_HEAD, FitData
from tailback.study.inference import Answer, Unknown
from tailback.study.priors import Free, Listed

_PLOT_HEIGHT_PX = 260
_HISTOGRAM_BARS = 40
_LOG_LIKELIHOOD_DROP_90 = -1.353
"""Half of chi square's 90 % of one degree of freedom."""


def render_fit(done: FitData) -> str:
    """fit.html: one page, offline."""
    plots = [_unknown(number, done, one) for number, one in enumerate(done.found.unknowns)]
    plots.append(_observations(done))
    runs = sum(len(one.rows) for one in done.rounds.values())
    return (
        environment()
        .get_template("fit.html.j2")
        .render(
            done=done,
            title=done.asked.name.removesuffix("-fit"),
            line=" · ".join(
                (
                    text.plural(len(done.found.unknowns), "unknown"),
                    text.plural(len(done.found.answers), "observation"),
                    text.plural(runs, "run"),
                )
            ),
            lines=done.lines(),
            failed=done.failed,
            plots=plots,
            tables=[
                ("unknowns", "Unknowns", UNKNOWN_HEAD, done.unknown_rows()),
                ("observed", "Observations", ANSWER_HEAD, done.answer_rows()),
            ],
            figures_json=for_script([figure for plot in plots for figure in plot.figures]),
        )
    )


def _unknown(number: int, done: FitData, one: Unknown) -> Plot:
    free = done.asked.free[one.setting]
    caption = f"{free.means[:1].upper()}{free.means[1:]}. " if free.means else ""
    caption += "Dashed: the prior. Blue: what the observations leave of it. "
    if isinstance(free, Listed):
        caption += "Beside it, how much worse than the best fit the best one with each value is."
        figures = [_probabilities(number, free, one), _best_of_each(number, free, one)]
    else:
        caption += "In the profile, values above the dotted line are within the 90 % interval."
        figures = [_posterior(number, done, one, free), _profile(number, one, free)]
    return Plot(f"u{number}", f"{one.setting}: {one.verdict}", caption, figures)


def _probabilities(number: int, free: Listed, one: Unknown) -> Figure:
    """Of each value of a list."""
    values = [100 * share for share in one.probabilities]
    even = 100 / free.count
    data: list[Json] = [
        {
            "type": "bar",
            "x": free.tried,
            "y": values,
            "width": 0.5,
            "marker": {"color": BLUE, "line": {"width": 0}},
            "hovertemplate": "%{x}: %{y:.3~g} %<extra></extra>",
        }
    ]
    look = axes(one.setting, "Probability, %", height=_PLOT_HEIGHT_PX)
    look["xaxis"] |= {"type": "category"}
    look["yaxis"]["range"] = [0, 105]
    look["shapes"] = [
        {
            "type": "line",
            "xref": "paper",
            "x0": 0,
            "x1": 1,
            "y0": even,
            "y1": even,
            "line": {"color": MUTED, "width": 1.5, "dash": "dash"},
        }
    ]
    label = "; ".join(f"{value}: {share:.1f} %" for value, share in zip(free.tried, values, strict=True))
    return Figure(f"u{number}-posterior", "Prior and posterior", label, _PLOT_HEIGHT_PX, data, look)


def _best_of_each(number: int, free: Listed, one: Unknown) -> Figure:
    """The profile of a list has a figure for each value."""
    logs = [float(log) for log in one.profile.log_likelihood]
    data: list[Json] = [
        {
            "type": "scatter",
            "mode": "markers",
            "x": free.tried,
            "y": [max(log, -8.0) for log in logs],
            "marker": {"color": BLUE, "size": 10},
            "customdata": logs,
            "hovertemplate": "%{x}: %{customdata:.3~g}<extra></extra>",
        }
    ]
    look = axes(one.setting, "Log likelihood, best = 0", height=_PLOT_HEIGHT_PX)
    look["xaxis"] |= {"type": "category", "range": [-0.5, free.count - 0.5]}
    look["yaxis"]["range"] = [-8.4, 0.4]
    label = "; ".join(f"{value}: {log:.1f}" for value, log in zip(free.tried, logs, strict=True))
    return Figure(f"u{number}-profile", "The best fit with each", label, _PLOT_HEIGHT_PX, data, look)


def _posterior(number: int, done: FitData, one: Unknown, free: Free) -> Figure:
    """Each bar is an equal part of the prior, so that its own bars are all as high."""
    found, index = done.found.posterior, number
    counts, edges = np.histogram(
        found.points[:, index], bins=_HISTOGRAM_BARS, range=(0, 1), weights=found.weights
    )
    centres = [float(free.value(share)) for share in (edges[:-1] + edges[1:]) / 2]
    widths = [float(free.value(b) - free.value(a)) for a, b in itertools.pairwise(edges)]
    data: list[Json] = [
        {
            "type": "bar",
            "x": centres,
            "y": [_HISTOGRAM_BARS * float(count) for count in counts],
            "width": widths,
            "marker": {"color": BLUE, "line": {"width": 0}},
            "customdata": [free.words(float(share)) for share in (edges[:-1] + edges[1:]) / 2],
            "hovertemplate": "%{customdata}: %{y:.3~g} times the prior<extra></extra>",
        },
        {
            "type": "scatter",
            "mode": "lines",
            "x": [free.value(0), free.value(1)],
            "y": [1, 1],
            "line": {"color": MUTED, "width": 1.5, "dash": "dash"},
            "hovertemplate": "the prior<extra></extra>",
        },
    ]
    label = (
        f"Posterior of {one.setting}: 90 % between {free.words(one.low)} and {free.words(one.high)}, "
        f"best {free.words(one.best)}."
    )
    return Figure(
        f"u{number}-posterior",
        "Prior and posterior",
        label,
        _PLOT_HEIGHT_PX,
        data,
        _look(free, one, "Density, prior = 1"),
    )


def _profile(number: int, one: Unknown, free: Free) -> Figure:
    low, high = one.profile.interval()
    data: list[Json] = [
        {
            "type": "scatter",
            "mode": "lines",
            "x": [free.value(float(share)) for share in one.profile.values],
            "y": [max(float(log), -8.0) for log in one.profile.log_likelihood],
            "line": {"color": BLUE, "width": 1.8},
            "customdata": [free.words(float(share)) for share in one.profile.values],
            "hovertemplate": "%{customdata}: %{y:.3~g}<extra></extra>",
        },
        {
            "type": "scatter",
            "mode": "lines",
            "x": [free.value(0), free.value(1)],
            "y": [_LOG_LIKELIHOOD_DROP_90, _LOG_LIKELIHOOD_DROP_90],
            "line": {"color": VERMILLION, "width": 1, "dash": "dot"},
            "hovertemplate": "90 %<extra></extra>",
        },
    ]
    look = _look(free, one, "Log likelihood, best = 0")
    look["yaxis"]["range"] = [-8, 0.4]
    label = f"Profile likelihood of {one.setting}: within 90 % from {free.words(low)} to {free.words(high)}."
    return Figure(f"u{number}-profile", "Profile of the likelihood", label, _PLOT_HEIGHT_PX, data, look)


def _look(free: Free, one: Unknown, y_title: str) -> Json:
    look = axes(one.setting, y_title, height=_PLOT_HEIGHT_PX)
    look["bargap"] = 0
    shares = np.linspace(0, 1, 5)
    look["xaxis"] |= {
        "type": free.scale,
        "tickvals": [free.value(float(share)) for share in shares],
        "ticktext": [free.words(float(share)) for share in shares],
    }
    ends = [free.value(0), free.value(1)]
    if free.scale == "log":
        ends = [float(np.log10(end)) for end in ends]
    room = (ends[1] - ends[0]) / 200  # a tick that rounding puts beyond the end would not be there
    look["xaxis"]["range"] = [ends[0] - room, ends[1] + room]
    return look


def _row(label: str, one: Answer) -> str:
    limit = "" if one.observed.bound == "value" else f", {one.observed.bound.replace('_', ' ')} 0"
    return f"{label} ({one.role}{limit})"


def _observations(done: FitData) -> Plot:
    """All in tolerances: the lab's figure is 0, and its tolerance 1."""
    labels = [done.asked.labelled(one.observed.output) for one in done.found.answers]
    data: list[Any] = []
    for role, colour in (("calibrated", BLUE), ("predicted", VERMILLION)):
        of_role = [
            (label, one) for label, one in zip(labels, done.found.answers, strict=True) if one.role == role
        ]
        if not of_role:
            continue
        off = [
            [(value - one.observed.value) / one.observed.tolerance for value in (one.mean, one.low, one.high)]
            for _, one in of_role
        ]
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": [mean for mean, _, _ in off],
                "y": [_row(label, one) for label, one in of_role],
                "error_x": {
                    "type": "data",
                    "array": [high - mean for mean, _, high in off],
                    "arrayminus": [mean - low for mean, low, _ in off],
                    "color": colour,
                    "thickness": 1.6,
                    "width": 5,
                },
                "marker": {"color": colour, "size": 8},
                "name": role,
                "hovertemplate": f"%{{x:.3~g}} tolerances off<extra>{role}</extra>",
            }
        )
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": [(one.at_best - one.observed.value) / one.observed.tolerance for _, one in of_role],
                "y": [_row(label, one) for label, one in of_role],
                "marker": {"color": INK, "size": 9, "symbol": "x-thin-open"},
                "hovertemplate": "%{x:.3~g} tolerances off<extra>runs at the best fit</extra>",
            }
        )
    height = 90 + 34 * len(labels)
    look = axes("Off by, in tolerances", "", height=height)
    look["xaxis"] |= {"showgrid": True, "zeroline": True, "zerolinecolor": MUTED}
    look["yaxis"] |= {"automargin": True, "type": "category", "showgrid": False, "autorange": "reversed"}
    look["shapes"] = [
        {
            "type": "rect",
            "layer": "below",
            "xref": "x",
            "yref": "paper",
            "x0": -2,
            "x1": 2,
            "y0": 0,
            "y1": 1,
            "fillcolor": PALE_BLUE,
            "opacity": 0.5,
            "line": {"width": 0},
        }
    ]
    caption = (
        "Means and 90 % intervals of what the lab would see, with the spread of the posterior, of the "
        "emulator and of a run. Crosses are runs at the best fit. 0 is what the lab saw, or its limit; the "
        "band is two tolerances to each side. What the fit has seen is calibrated, what it has not is "
        "predicted."
    )
    label = "; ".join(
        f"{label}: {one.role}, {one.off:.1f} tolerances off"
        for label, one in zip(labels, done.found.answers, strict=True)
    )
    return Plot(
        "observations",
        "Observations against the fit",
        caption,
        [Figure("observations-plot", "", label, height, data, look)],
    )
