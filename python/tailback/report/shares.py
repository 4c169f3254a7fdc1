"""Plots of who gets how much: traffic items and queue pairs over time, and the senders side by side."""

from __future__ import annotations

import numpy as np

from tailback import metrics, text
from tailback.metrics import summarise
from tailback.recorded.bins import ITEM, Array
from tailback.recorded.run import Recorded
from tailback.report.figures import (
    BLUE,
    GREEN,
    MAX_POINTS,
    MAX_POINTS_PER_LINE,
    MUTED,
    ORANGE,
    PINK,
    PLOT_HEIGHT,
    SKY,
    VERMILLION,
    Figure,
    Json,
    Labels,
    Plot,
    View,
    figure,
    layout,
    level,
    line,
    pack,
    rate_unit,
    round_top,
)
from tailback.report.plots import all_plots
from tailback.report.tracked import all_and_most, quantile, while_running

_COLORS = (BLUE, VERMILLION, GREEN, ORANGE, SKY, PINK)
MOST_OF_MEDIAN = 8.0
"""A plot of queue pairs is cut off at this multiple of their median."""
LEAST_SENDERS = 4
"""Fewer senders than this are told apart in the plot over time, and need no second one."""


def items(result: Recorded) -> list[Plot]:
    """Goodput of each traffic item; none where there is only one."""
    names = result.bins.entities("goodput_rx_bps", kind=ITEM)
    # One item of each protocol is in the plot of those.
    if len(names) in (0, len(summarise(result)["protocols"])):
        return []
    view = View(result)
    # The largest are drawn, one for each colour: more could not be told apart.
    totals = {name: result.bins.mean(result.bins.values(name, "goodput_rx_bps")) for name in names}
    shown = sorted(sorted(names, key=lambda name: -totals[name])[: len(_COLORS)], key=names.index)
    rows = {name: view.reduce(result.bins.values(name, "goodput_rx_bps") / 1e9, MAX_POINTS) for name in shown}
    top = round_top(max(float(row.max(initial=0)) for row in rows.values()) * 1.05)
    data, labels = [], Labels(top)
    for (name, values), color in zip(rows.items(), _COLORS, strict=False):
        short = str(result.bins.entity(name).item)
        data.append(line(view, values, MAX_POINTS, name=short, unit="Gbit/s", color=color))
        labels.add(float(values[-1]), short, color)
    look = layout(view, "Goodput (Gbit/s)", (0, top), annotations=labels.annotations())
    figures = [figure("items", view, "Goodput of each traffic item", data, look)]
    caption = (
        "Payload per second that arrived in order, by entry of the scenario's traffic (write0 is the first), "
        f"as means over {view.sampling(MAX_POINTS)}."
    )
    if len(names) > len(shown):
        caption += f" The {len(shown)} with the most of {len(names)}."
    return [Plot("items", "Throughput of each traffic item", caption, figures)]


def queue_pairs(result: Recorded) -> list[Plot]:
    """Goodput of the tracked queue pairs: the range, the middle 80 % and the median; none for single
    messages.
    """
    controlled = set(result.bins.entities("rate_bps"))  # connections of TCP have a goodput, too, and no rate
    names = [name for name in result.bins.entities("goodput_bps") if name in controlled]
    if len(names) < LEAST_SENDERS or not result.setup.writer_qps:
        return []
    view = View(result)
    rows = while_running(result, names, "goodput_bps", "rate_bps")
    if np.isnan(rows).all():
        return []
    grouped = np.stack([_means(view, row) for row in rows])
    unit, factor = rate_unit(float(np.nanmax(grouped)), least="Mbit/s")
    grouped = grouped * factor
    highest = float(grouped.max(initial=0.0, where=np.isfinite(grouped)))
    # The first to start has the link for itself: beside that nothing of the rest would be seen.
    most_shown = MOST_OF_MEDIAN * float(np.nanmedian(grouped))
    top = round_top(min(highest * 1.05, most_shown) if most_shown > 0 else highest * 1.05)
    data = all_and_most(view, grouped, unit)
    middle = quantile(grouped, 0.5)
    labels = Labels(top)
    if np.isfinite(middle).any():
        labels.add(float(middle[np.isfinite(middle)][-1]), "median", BLUE)
    look = layout(view, f"Goodput ({unit})", (0, top), annotations=labels.annotations())
    figures = [figure("pairs", view, "Goodput of queue pairs", data, look)]
    pairs = result.flows.num_rows - sum(
        item["connections"] for item in result.plan.get("tcp_connections", [])
    )
    caption = (
        f"What {len(names)} tracked of {text.plural(pairs, 'queue pair')} delivered in order "
        "while they ran: the median, the middle 80 %, and the whole range, as means over "
        f"{view.sampling(MAX_POINTS_PER_LINE)}."
    )
    if highest > top:
        cut, most_ = text.rate(top * 1e6), text.rate(highest * 1e6)
        caption += f" What is above {cut} is cut off; the most was {most_}."
    return [Plot("pairs", "Throughput of queue pairs", caption, figures)]


def _means(view: View, row: Array) -> Array:
    """Means over the bins in which the queue pair ran, NaN where it did in none."""
    ran = view.reduce(np.isfinite(row).astype(np.float64), MAX_POINTS_PER_LINE)
    sums = view.reduce(np.nan_to_num(row), MAX_POINTS_PER_LINE)
    means: Array = np.divide(sums, ran, out=np.full(len(ran), np.nan), where=ran > 0)
    return means


def fairness(result: Recorded) -> list[Plot]:
    """The senders side by side, slowest first, against an equal share."""
    since: metrics.Since = "start" if summarise(result)["convergence_s"] is None else "convergence"
    goodputs = metrics.fairness.sender_goodputs(result, since)
    if len(goodputs) < LEAST_SENDERS:
        return []
    hosts = sorted(goodputs, key=lambda host: goodputs[host])
    values = np.array([goodputs[host] for host in hosts]) / 1e9
    equal, top = float(values.mean()), round_top(float(values.max()) * 1.05)
    data: list[Json] = [
        {
            "type": "bar",
            "x": list(range(1, len(hosts) + 1)),
            "y": pack(values),
            "marker": {"color": BLUE},
            "customdata": hosts,
            "hovertemplate": "%{y:.3~f} Gbit/s<extra>%{customdata}</extra>",
        }
    ]
    labels = Labels(top)
    labels.add(equal, "equal share", MUTED)
    look = layout(
        View(result),
        "Goodput (Gbit/s)",
        (0, top),
        shapes=[level(equal, MUTED, layer="above")],
        annotations=labels.annotations(),
        bargap=0.15,
    )
    look["xaxis"] = {
        **look["xaxis"],
        "title": {**look["xaxis"]["title"], "text": "Senders, slowest first (rank)"},
        "range": [0.4, len(hosts) + 0.6],
    }
    if len(hosts) <= 20:  # more names than this lie over each other
        # On a phone they are turned, and need room for that.
        look["xaxis"] |= {"tickvals": data[0]["x"], "ticktext": hosts, "automargin": True}
    index, ratio = (
        metrics.fairness.jain(list(goodputs.values())),
        float(values[0] / values[-1]) if values[-1] else 0.0,
    )
    span = "the whole run" if since == "start" else f"{text.duration(summarise(result)['convergence_s'])} on"
    caption = (
        f"Mean goodput of each of {text.plural(len(hosts), 'sender')} from {span}, slowest first ({hosts[0]}) to fastest "
        f"({hosts[-1]}). Jain's index {index:.4f}; the slowest got {text.share(ratio)} of the fastest's."
    ).replace("from the whole run", "over the whole run")
    label = f"Goodput of each sender as bars. {caption}"
    figures = [Figure("fairness-plot", "", label, PLOT_HEIGHT, data, look)]
    return [Plot("fairness", "Shares of the senders", caption, figures)]


def with_shares(result: Recorded) -> list[Plot]:
    """Every plot beneath the tailback chart, in the order of the report."""
    plots = all_plots(result)
    after = {
        "throughput": items(result),
        "senders": fairness(result),
        "rates": queue_pairs(result),
    }
    return [one for plot in plots for one in (plot, *after.get(plot.id, []))]
