"""Steps of ranks over time: a row for each."""

from __future__ import annotations

import itertools

from tailback import text
from tailback.recorded.rank_spans import COMPUTE, LANES_PER_RANK, Span, spans
from tailback.recorded.run import Recorded
from tailback.report.figures import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PINK,
    SKY,
    VERMILLION,
    Figure,
    Json,
    Plot,
    View,
    figure,
    layout,
)

MOST_RANKS = 32
"""Rows of a plot: of more ranks, these at equal distances."""
MOST_JOBS = 4
MOST_BARS = 6000
"""Of all plots together: of a longer run the first repetitions."""
ROW_PX = 18
COLORS = {BLUE: "blue", ORANGE: "orange", GREEN: "green", VERMILLION: "red", PINK: "pink", SKY: "sky blue"}


def timeline(result: Recorded) -> list[Plot]:
    """A plot for each of the jobs that lasted longest; none where no rank has steps."""
    by_job: dict[str, list[Span]] = {}
    for span in spans(result):
        by_job.setdefault(span.job, []).append(span)
    lasted = {
        job: max(one.end_s for one in of) - min(one.begin_s for one in of) for job, of in by_job.items()
    }
    slowest = sorted(by_job, key=lambda job: -lasted[job])[:MOST_JOBS]
    shown = [(job, of) for job, of in by_job.items() if job in slowest]
    figures = [_figure(result, number, job, of) for number, (job, of) in enumerate(shown)]
    if not figures:
        return []
    words = (
        "A row for each rank: computing, and collectives from when it takes part until its part is done. "
        "What runs beside its other steps is the lower half of a row. tailback trace writes all of it for "
        "Perfetto."
    )
    if len(by_job) > len(shown):
        words += f" Shown: the {text.plural(len(shown), 'job')} of {len(by_job)} that lasted longest."
    return [Plot("ranks", "Ranks over time", words, figures)]


def _figure(result: Recorded, number: int, job: str, every: list[Span]) -> Figure:
    view = View(result)
    unit, length = view.unit
    ranks = sorted({span.rank for span in every})
    rows = ranks[:: -(-len(ranks) // MOST_RANKS)]
    place = {rank: at for at, rank in enumerate(rows)}
    shown = [span for span in every if span.rank in place][: MOST_BARS // MOST_JOBS]
    host_of = {span.rank: span.host for span in shown}
    names = list(dict.fromkeys(span.name for span in shown))
    collectives = [name for name in names if name != COMPUTE]
    color_of = dict(zip(collectives, itertools.cycle(COLORS))) | {COMPUTE: GREY}
    key = ", ".join(f"{name} ({COLORS.get(color_of[name], 'grey')})" for name in names)
    beside = any(span.lane for span in every)
    data: list[Json] = []
    for name in names:
        for lane in range(LANES_PER_RANK):
            mine = [span for span in shown if (span.name, span.lane) == (name, lane)]
            if mine:
                data.append(
                    {
                        "type": "bar",
                        "orientation": "h",
                        "name": name,
                        "y": [place[span.rank] for span in mine],
                        "base": [round(span.begin_s / length, 6) for span in mine],
                        "x": [round((span.end_s - span.begin_s) / length, 6) for span in mine],
                        "offset": 0 if lane else -0.4,
                        "width": 0.4 if beside else 0.8,
                        "marker": {"color": color_of[name]},
                        "customdata": [f"{span.host}, repetition {span.iteration + 1}" for span in mine],
                        "hovertemplate": f"%{{customdata}}: {name}, %{{x:.4~f}} {unit} from %{{base:.4~f}} "
                        f"{unit}<extra></extra>",
                    }
                )
    look = layout(view, "Rank", None, height=90 + ROW_PX * len(rows), barmode="overlay")
    look["yaxis"] |= {
        "range": [len(rows) - 0.5, -0.5],
        "rangemode": "normal",
        "tickvals": list(range(len(rows))),
        "ticktext": [f"{rank}, {host_of.get(rank, '')}" for rank in rows],
        "showgrid": False,
        "automargin": True,
    }
    label = f"Steps of {text.plural(len(rows), 'rank')} of {job} over time: {', '.join(names)}"
    made = figure(f"ranks-{number}", view, label, data, look)
    of_all = f", {len(rows)} of {text.plural(len(ranks), 'rank')}" if len(rows) < len(ranks) else ""
    cut = ", its first repetitions" if len(shown) < sum(span.rank in place for span in every) else ""
    return Figure(made.id, f"{job}: {key}{of_all}{cut}", made.label, made.height, data, look, made.axis)
