"""How busy the cores of Linux bridges were."""

from __future__ import annotations

from tailback.metrics import summarise
from tailback.recorded.run import Recorded
from tailback.report.figures import (
    BLUE,
    MAX_POINTS_PER_LINE,
    MOST_LINES,
    MUTED,
    VERMILLION,
    Labels,
    Plot,
    View,
    figure,
    layout,
    line,
)

BUSY_SHARE = 0.001
"""Cores below this share of the run are not drawn."""


def bridge_cores(result: Recorded) -> list[Plot]:
    """Softirqs and hard interrupts of each core of a bridge; nothing where there is no bridge."""
    bins, found = result.bins, summarise(result)["bridge"]
    if found is None:
        return []
    busiest = f"{found['bridge']}/cpu{found['core']}"
    rows = {
        core: (bins.values(core, "softirq_share") + bins.values(core, "irq_share")) * 100
        for core in bins.entities("softirq_share")
    }
    shown = [core for core, row in rows.items() if bins.mean(row) > 100 * BUSY_SHARE][:MOST_LINES]
    shown.sort(key=lambda core: core == busiest)  # drawn over the others
    if not shown:
        return [Plot("bridge-cores", "Cores of the bridge", "No core had anything to do.")]
    view = View(result)
    labels = Labels(105.0)
    data = []
    for core in shown:
        color = VERMILLION if core == busiest else BLUE if len(shown) <= 4 else MUTED
        values = view.reduce(rows[core], MAX_POINTS_PER_LINE)
        data.append(line(view, values, MAX_POINTS_PER_LINE, name=core, unit="%", color=color))
        if core == busiest or len(shown) <= 4:
            labels.add(float(values[-1]), core, color)
    look = layout(view, "Softirqs and interrupts (% of a core)", (0, 105.0), annotations=labels.annotations())
    figures = [figure("bridge-cores", view, "Cores of the bridge", data, look)]
    caption = (
        f"Share of each core's time in softirqs and hard interrupts, as means over "
        f"{view.sampling(MAX_POINTS_PER_LINE)}: {busiest}, the busiest, in red."
    )
    return [Plot("bridge-cores", "Cores of the bridge", caption, figures)]
