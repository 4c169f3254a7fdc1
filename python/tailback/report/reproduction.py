"""The report of a published experiment: the verdicts first, then the plots that they rest on."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tailback import text
from tailback.recorded.run import Recorded
from tailback.report import veth
from tailback.report.bridge import bridge_cores
from tailback.report.figures import (
    BLUE,
    MUTED,
    PLOT_HEIGHT,
    Figure,
    Labels,
    Plot,
    View,
    layout,
    pack,
    round_top,
)
from tailback.report.frame import environment, for_script
from tailback.report.hosts import by_protocol, cpu
from tailback.report.page import scale_key, signals_key
from tailback.report.plots import losses, pauses, per_sender, throughput
from tailback.report.queues import QueueStore
from tailback.report.shares import fairness, items
from tailback.report.tailback_chart import choose, tailback_chart
from tailback.report.tradeoff import tradeoff

if TYPE_CHECKING:
    from tailback.study.published import Sensitivity
    from tailback.study.reproduction import AllReproductions, Reproduction, Variant


def render_reproduction(done: Reproduction) -> str:
    """reproduce.html: one page, offline, with links to the reports of the runs beside it."""
    store = QueueStore()
    runs = [_run(done, key, result, store) for key, result in done.results.items()]
    tables = [
        {
            "item": item,
            "variants": variants,
            "plots": [*_expected(number, item, variants, done), *_tradeoff(number, item, variants, done)],
        }
        for number, (item, variants) in enumerate(done.sensitivity)
    ]
    plots = [plot for part in (*tables, *runs) for plot in part["plots"]]
    figures = [figure for plot in plots for figure in plot.figures]
    template = environment().get_template("reproduce.html.j2")
    return template.render(
        done=done,
        experiment=done.experiment,
        headline=_headline(done),
        runs=runs,
        tables=tables,
        signals=signals_key(),
        figures_json=for_script(figures),
        queues=store.for_script(),
    )


def render_front(done: AllReproductions) -> str:
    """The front page of all experiments: a row a claim, and links to each experiment's page."""
    return environment().get_template("reproductions.html.j2").render(done=done)


def _headline(done: Reproduction) -> str:
    counts = {verdict: sum(row.verdict == verdict for row in done.rows) for verdict in ("met", "missed")}
    if done.quick:
        return f"A quick look: {counts['met']} of {text.plural(len(done.rows), 'claim')} hold in short runs"
    return f"{counts['met']} of {text.plural(len(done.rows), 'claim')} met, {counts['missed']} missed"


def _run(done: Reproduction, key: str, result: Recorded, store: QueueStore) -> dict[str, Any]:
    chosen = choose(result)
    chart = Plot("tailback", "Tailback chart", "", [tailback_chart(View(result), chosen, store)])
    # Between namespaces there are no flows, pauses or NAKs to plot.
    plots = [*(veth.plots(result) or _of_hosts(result)), chart]
    return {
        "key": key,
        "about": done.experiment.runs[key].about,
        "scenario": done.experiment.runs[key].scenario,
        "simulated": text.duration(result.bins.end_s),
        "complete": result.complete,
        "plots": [_renamed(plot, key) for plot in plots],
        "scale": scale_key(chosen),
    }


def _of_hosts(result: Recorded) -> list[Plot]:
    return [
        throughput(result),
        *by_protocol(result),
        *items(result),
        per_sender(result),
        *fairness(result),
        *cpu(result),
        *bridge_cores(result),
        pauses(result),
        losses(result),
    ]


def _expected(number: int, item: Sensitivity, variants: list[Variant], done: Reproduction) -> list[Plot]:
    """The first metric of a table against what is expected of it, where it says so."""
    if item.expected is None or not done.results:
        return []
    check = item.show[0]
    measured = [variant.measured[0].value for variant in variants]
    values = [variant.value for variant in variants]
    share = check.in_words(1.0).endswith("%")  # axes of shares are in percent
    unit, factor = ("%", 100.0) if share else ("1", 1.0)
    drawn = ((item.expected, MUTED, "expected", "dash"), (measured, BLUE, "measured", "solid"))
    known = [value * factor for row, *_ in drawn for value in row if math.isfinite(value)]
    top = 105.0 if share else round_top(max(known, default=1.0) * 1.05)
    labels = Labels(top)
    data = []
    for row, color, name, dash in drawn:
        labels.add(row[-1] * factor if math.isfinite(row[-1]) else 0.0, name, color)
        data.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": name,
                "x": values,
                "y": pack([value * factor for value in row]),
                "line": {"color": color, "width": 1.8, "dash": dash},
                "hovertemplate": f"%{{y:.3~f}} {unit} at %{{x}}<extra>{name}</extra>",
            }
        )
    view = View(next(iter(done.results.values())))
    head = check.metric.replace("_", " ")
    look = layout(view, f"{head[0].upper()}{head[1:]} ({unit})", (0, top), annotations=labels.annotations())
    title = {**look["xaxis"]["title"], "text": item.axis}
    look["xaxis"] = {**look["xaxis"], "title": title, "type": "category"}
    look["xaxis"].pop("range")
    heading = f"Dashed, expected: {item.expected_as}" if item.expected_as else "Dashed: expected"
    figure = Figure(f"table-{number}", heading, item.title, PLOT_HEIGHT, data, look)
    return [Plot(f"table-{number}-plot", item.title, "", [figure])]


def _tradeoff(number: int, item: Sensitivity, variants: list[Variant], done: Reproduction) -> list[Plot]:
    return tradeoff(number, item, variants, done.results[item.run]) if item.run in done.results else []


def _renamed(plot: Plot, key: str) -> Plot:
    """The same plot under ids of its own: the page has one of each run."""
    figures = [
        replace(figure, id=f"{key}-{figure.id}", axis=key if figure.axis else "") for figure in plot.figures
    ]
    return Plot(f"{key}-{plot.id}", plot.heading, plot.caption, figures)
