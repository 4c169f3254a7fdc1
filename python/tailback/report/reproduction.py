"""The report of a published experiment: the verdicts first, then the plots that they rest on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailback import text
from tailback.report.figures import Figure, views
from tailback.report.page import environment, for_script, scale_key
from tailback.report.plot import Plot
from tailback.report.plots import losses, pauses, per_sender, throughput
from tailback.report.tailback_chart import SIGNALS, choose, tailback_chart
from tailback.results import Result

if TYPE_CHECKING:
    from tailback.reproduce import Reproduction


def render_reproduction(done: Reproduction) -> str:
    """reproduce.html: one page, offline, with links to the reports of the runs beside it."""
    runs = [_run(done, key, result) for key, result in done.results.items()]
    figures = [figure for run in runs for plot in run["plots"] for figure in plot.figures]
    template = environment().get_template("reproduce.html.j2")
    return template.render(
        done=done,
        experiment=done.experiment,
        headline=_headline(done),
        runs=runs,
        signals=[{"name": name, "color": color} for _, name, color in SIGNALS],
        figures_json=for_script(figures),
    )


def _headline(done: Reproduction) -> str:
    counts = {verdict: sum(row.verdict == verdict for row in done.rows) for verdict in ("met", "missed")}
    if done.quick:
        return f"A quick look: {counts['met']} of {text.plural(len(done.rows), 'claim')} hold in short runs"
    return f"{counts['met']} of {text.plural(len(done.rows), 'claim')} met, {counts['missed']} missed"


def _run(done: Reproduction, key: str, result: Result) -> dict[str, Any]:
    chosen = choose(result)
    whole = views(result)[0]
    chart = Plot("tailback", "Tailback chart", "", [tailback_chart(whole, chosen)])
    plots = [throughput(result), per_sender(result), pauses(result), losses(result), chart]
    return {
        "key": key,
        "about": done.experiment.runs[key].about,
        "scenario": done.experiment.runs[key].scenario,
        "simulated": text.duration(result.bins.end_s),
        "complete": result.complete,
        "plots": [_renamed(plot, key) for plot in plots],
        "scale": scale_key(chosen),
    }


def _renamed(plot: Plot, key: str) -> Plot:
    """The same plot under ids of its own: the page has one of each run."""
    figures = [
        Figure(
            f"{key}-{figure.id}",
            figure.part,
            figure.heading,
            figure.label,
            figure.height,
            figure.data,
            figure.layout,
        )
        for figure in plot.figures
    ]
    return Plot(f"{key}-{plot.id}", plot.heading, plot.caption, figures)
