"""The page of a tuning: the settings, what they gain, and the trials that led there."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from tailback import text
from tailback.report.figures import BLUE, FAINT, GREY, VERMILLION, Figure, Json, Plot, axes
from tailback.report.frame import environment, for_script
from tailback.study.points import Range, in_words, number_of
from tailback.study.tune_data import Trial, cost

if TYPE_CHECKING:
    from tailback.study.tune_data import TuneData

_PLOT_HEIGHT_PX = 280
_MOST_ROWS = 200


def render_tuned(done: TuneData) -> str:
    """tune.html: one page, offline."""
    plots = [_progress(done), *_fronts(done), _settings(done), *_importance(done)]
    plots = [plot for plot in plots if plot.figures]
    template = environment().get_template("tune.html.j2")
    chosen = done.front or ([done.best] if done.best else [])
    trials = [one for one in done.trials if one.costs]
    trials.sort(key=lambda one: (not one.feasible, cost(done.design, one.costs)))
    return template.render(
        done=done,
        title=done.design.name.removesuffix("-tune"),
        line=_line(done),
        chosen=chosen,
        rows=[_row(done, one) for one in trials[:_MOST_ROWS]],
        labels=[one.label for one in done.design.shown()],
        left_out=max(0, len(trials) - _MOST_ROWS),
        plots=plots,
        figures_json=for_script([figure for plot in plots for figure in plot.figures]),
    )


def _line(done: TuneData) -> str:
    count = {
        state: sum(one.state == state for one in done.trials)
        for state in ("complete", "pruned", "failed", "impossible")
    }
    parts = [f"{number} {state}" for state, number in count.items() if number]
    return f"{text.plural(len(done.trials), 'trial')}: {', '.join(parts)}" if parts else "no trial"


def _row(done: TuneData, trial: Trial) -> dict[str, Any]:
    return {
        "number": str(trial.number),
        "settings": [trial.point.get(setting, "") for setting in done.design.tune],
        "costs": [f"{100 * one:+.3g} %" for one in trial.costs],
        "kept": "yes" if trial.feasible else "no",
    }


def _points(trials: list[Trial], x: list[Any], y: list[float], color: str, name: str) -> Json:
    return {
        "type": "scatter",
        "mode": "markers",
        "x": x,
        "y": y,
        "text": [f"trial {one.number}: {in_words(one.point)}" for one in trials],
        "marker": {"color": color, "size": 7},
        "name": name,
        "hovertemplate": "%{text}<br>%{y:.3~g} %<extra></extra>",
    }


def _change(done: TuneData, trial: Trial) -> float:
    """Of all objectives together, in %."""
    return 100 * cost(done.design, trial.costs)


def _progress(done: TuneData) -> Plot:
    """The cost of each trial, and the best so far."""
    valued = [one for one in done.trials if one.costs]
    kept = [one for one in valued if one.feasible]
    lost = [one for one in valued if not one.feasible]
    data = [
        _points(part, [one.number for one in part], [_change(done, one) for one in part], color, name)
        for part, color, name in ((kept, BLUE, "keeps to constraints"), (lost, GREY, "misses one"))
        if part
    ]
    if kept:
        best = list(itertools.accumulate((_change(done, one) for one in kept), min))
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "x": [one.number for one in kept],
                "y": best,
                "line": {"color": VERMILLION, "width": 1.6, "shape": "hv"},
                "name": "best so far",
                "hovertemplate": "%{y:.3~g} %<extra>best so far</extra>",
            }
        )
    look = axes("Trial", "Cost relative to the present settings (%)", height=_PLOT_HEIGHT_PX)
    caption = (
        "Each point is a trial, with the seeds and workloads that were tuned on: the change of the "
        "objectives against the scenarios as they are, less is better. Grey: a constraint is missed. Red: "
        "the best so far. It looks better here than it is, since it was chosen by these runs; what it gains "
        "stands above."
    )
    figures = [Figure("progress", "", caption, _PLOT_HEIGHT_PX, data, look)] if data else []
    return Plot("search", "The search", caption, figures)


def _settings(done: TuneData) -> Plot:
    """The cost over each setting."""
    kept = [one for one in done.trials if one.feasible]
    figures = []
    for index, setting in enumerate(done.design.tune):
        values = [number_of(one.point[setting]) for one in kept]
        words = any(isinstance(one, str) for one in values)
        shown = [one.point[setting] for one in kept] if words else values
        data = [_points(kept, shown, [_change(done, one) for one in kept], BLUE, setting)]
        look = axes(setting, "Cost relative to the present settings (%)", height=_PLOT_HEIGHT_PX)
        look["xaxis"] |= {"automargin": True, "type": "category" if words else "linear"}
        among = done.design.tune[setting]
        if isinstance(among, Range):
            ticks = [among.between(step / 4) for step in range(5)]
            texts = [among.words(value) for value in ticks]
            look["xaxis"] |= {"type": among.scale, "tickvals": ticks, "ticktext": texts}
        figures.append(
            Figure(f"setting-{index}", setting, f"Cost over {setting}", _PLOT_HEIGHT_PX, data, look)
        )
    caption = (
        "The trials that keep to all constraints, over each setting. The sampler tries most where it was "
        "best: how dense the points are is no measure of anything else."
    )
    return Plot("settings", "Settings", caption, figures if kept else [])


def _importance(done: TuneData) -> list[Plot]:
    labels = [one.label for one in done.design.shown()] if done.design.pareto else ["the objective"]
    figures = []
    for index, (label, shares) in enumerate(zip(labels, done.importance, strict=True)):
        if not shares:
            continue
        settings = list(shares)[::-1]
        data: list[Json] = [
            {
                "type": "bar",
                "orientation": "h",
                "x": [100 * shares[setting] for setting in settings],
                "y": settings,
                "marker": {"color": BLUE},
                "hovertemplate": "%{y}: %{x:.3~g} %<extra></extra>",
            }
        ]
        look = axes("Importance (%)", "", height=60 + 34 * len(settings))
        look["yaxis"] |= {"automargin": True, "showgrid": False}
        look["xaxis"] |= {"showgrid": True}
        words = ", ".join(f"{setting} {text.share(share)}" for setting, share in shares.items())
        figures.append(Figure(f"importance-{index}", label, words, look["height"], data, look))
    caption = (
        "How much each setting parts the best trials from the others (PED-ANOVA, Watanabe et al., IJCAI "
        "2023). It is of these trials, within these bounds."
    )
    return [Plot("importance", "What matters", caption, figures)]


def _fronts(done: TuneData) -> list[Plot]:
    if not done.design.pareto or len(done.design.objectives) < 2:
        return []
    first, second = (one.label for one in done.design.shown()[:2])
    kept = [one for one in done.trials if one.feasible]
    best = [one.trial for one in done.front]
    data = [
        _points(part, [100 * one.costs[0] for one in part], [100 * one.costs[1] for one in part], color, name)
        for part, color, name in (
            ([one for one in kept if one not in best], FAINT, "others"),
            (best, VERMILLION, "front"),
        )
        if part
    ]
    look = axes(f"Cost of {first.lower()} (%)", f"Cost of {second.lower()} (%)", height=_PLOT_HEIGHT_PX + 60)
    caption = "Red: settings that no others beat in all objectives, by the runs that were tuned on."
    figures = [Figure("front", "", caption, _PLOT_HEIGHT_PX + 60, data, look)] if data else []
    return [Plot("pareto", "Front", caption, figures)]
