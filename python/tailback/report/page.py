"""The report as one page: findings in words, the tailback chart, the other plots, the tables."""

from __future__ import annotations

import math
from typing import Any

from tailback import drawing, explain, text
from tailback.explain.triable import why_not
from tailback.metrics import findings, summarise
from tailback.recorded.run import Recorded
from tailback.report import tables, veth
from tailback.report.completion import completion_table, jobs_table
from tailback.report.figures import MAX_POINTS, Plot, View
from tailback.report.frame import environment, for_script
from tailback.report.hosts import cpu_table, tcp_table
from tailback.report.links import links
from tailback.report.moments import moments
from tailback.report.plots import fullest_queue
from tailback.report.queues import QueueStore
from tailback.report.senders import senders
from tailback.report.shares import with_shares
from tailback.report.tailback_chart import (
    LOWEST_SHADE_BYTES,
    QUEUE_COLORS,
    SEND_QUEUE_COLORS,
    SIGNALS,
    Chosen,
    choose,
    highest_bytes,
    tailback_chart,
)
from tailback.report.themes import DARK
from tailback.report.timeline import timeline


def render(result: Recorded) -> str:
    """The report of a run as HTML. The same result gives the same text."""
    chosen, store = choose(result), QueueStore()
    below = veth.plots(result) or with_shares(result)
    heat, links_table = links(result)
    plots = [_tailback(result, chosen, store), *timeline(result), *heat, *below]
    left_out = store.add_others(result)
    figures = [figure for plot in plots for figure in plot.figures]
    made = [
        veth.table(result),
        jobs_table(result),
        completion_table(result),
        links_table,
        senders(result),
        tables.by_congestion(result),
        tcp_table(result),
        cpu_table(result),
        *tables.all_tables(result),
    ]
    shown = [table for table in made if table.rows]
    network = _network(result)
    contents = [
        *([("faults", "Faults")] if result.faults else []),
        ("findings", "Findings"),
        *((plot.id, plot.heading) for plot in plots),
        *([("network", "The network")] if network else []),
        *((table.id, table.heading) for table in shown),
        ("scenario", result.setup.report_section.heading),
    ]
    template = environment().get_template("report.html.j2")
    return template.render(
        result=result,
        about=result.setup.about,
        line=_line(result),
        answer=explain.page_of(result),
        can_be_tried=why_not(result) is None,
        findings=findings(result),
        key=scale_key(chosen),
        signals=signals_key(),
        plots=plots,
        contents=contents,
        links={what: id_ for what, id_ in _LINKS.items() if id_ in dict(contents)},
        moments=_close_ups(result),
        time_unit=View(result).unit[0] if figures else "",
        time_shown=f"0 to {text.duration(result.bins.end_s)}",
        fullest=fullest_queue(result)[0],
        figures_json=for_script(figures),
        queues=store.for_script(),
        queues_left_out=left_out,
        tables=shown,
        faults=result.faults,
        network=network,
        shown=result.setup.report_section,
    )


_LINKS = {
    "Job": "jobs",
    "Throughput": "throughput",
    "Fairness": "fairness",
    "Drops": "drops",
    "Pauses": "pauses",
    "ECN marks": "marks",
    "Standing queue": "queue",
}
"""Where there is more on a finding."""


def signals_key() -> list[dict[str, str]]:
    """Names and colours of the lanes of the tailback chart."""
    return [{"name": name, "color": color, "dark": DARK[color]} for _, name, color in SIGNALS]


def _close_ups(result: Recorded) -> list[dict[str, Any]]:
    """Name, words, and range on the time axis of each."""
    unit = View(result).unit[1]
    return [
        {"name": one.name, "words": one.words, "range": [one.begin_s / unit, one.end_s / unit]}
        for one in moments(result)
    ]


def _network(result: Recorded) -> dict[str, str] | None:
    """A picture of the network; none for a single switch, which needs no picture."""
    network = result.setup.network
    if len(network.switches) < 2:
        return None
    title = drawing.title_of(result.name, "", network)
    words = "Switches by their distance from the hosts. Rates and delays are those of each link."
    failures = summarise(result)["link_events"]
    if failures:
        words += f" In this run links failed or were repaired {text.plural(failures, 'time')}."
    return {"svg": drawing.as_svg(network, title), "caption": words}


def _line(result: Recorded) -> str:
    meta = result.meta
    if summarise(result)["veth"] is not None:
        hops = f"{text.plural(meta['packet_hops'], 'packet')} through rings"
        return f"{text.duration(result.bins.end_s)} simulated · seed {meta['seed']} · {hops}"
    parts = [
        f"{text.duration(result.bins.end_s)} simulated",
        f"seed {meta['seed']}",
        text.plural(len(result.senders), "sender"),
        text.plural(len(result.receivers), "receiver"),
        *flows_in_words(result),
        text.plural(meta["packet_hops"], "packet-hop"),
    ]
    return " · ".join(parts)


def flows_in_words(result: Recorded) -> list[str]:
    """'1,024 queue pairs', '512 TCP connections', as far as there are any."""
    tcp = (summarise(result)["tcp"] or {"connections": 0})["connections"]
    counts = ((result.flows.num_rows - tcp, "queue pair"), (tcp, "TCP connection"))
    return [text.plural(count, noun) for count, noun in counts if count or (not tcp and noun == "queue pair")]


def _tailback(result: Recorded, chosen: Chosen, store: QueueStore) -> Plot:
    view = View(result)
    what = (
        "Every queue that bytes wait in, in the order of the path from the receiver back to the senders."
        if result.records_queues
        else "What waits at the senders: posted, and not yet sent."
    )
    caption = (
        f"{what} Colour is the time-weighted mean of the bytes waiting in each {view.sampling(MAX_POINTS)}; an "
        "empty queue is "
        "blank. Lanes under a row show when its packets were marked, when a pause was at work (a switch's "
        "incoming port pauses its peer; a sender is paused) and when it dropped; "
        f"a tick is at least 0.4 % of the width wide. {chosen.note}"
    )
    if not result.records_all:
        caption = f"Of this run only {result.recorded} are recorded. {caption}"
    return Plot("tailback", "The tailback", caption.strip(), [tailback_chart(view, chosen, store)])


MOST_SCALE_STEPS = 5
"""Steps of the colour scale that have room for their labels on a phone."""


def scale_key(chosen: Chosen) -> dict[str, Any]:
    """The colour scale as CSS, with a label at each power of ten, or at fewer where there is no room."""
    low, top = math.log10(LOWEST_SHADE_BYTES), highest_bytes(chosen)
    high = math.log10(top)
    step = max(1, math.ceil((high - low) / MOST_SCALE_STEPS))
    marks = [10.0**power for power in range(round(low), math.floor(high) + 1, step)]
    # The upper end has a label of its own unless a power of ten is close to it.
    marks = [mark for mark in marks if high - math.log10(mark) > 0.75 * step or mark == top] + [top] * (
        marks[-1] != top
    )
    labels = [
        {
            "text": ("≤ " if mark == marks[0] else "") + text.size(mark),
            "at": (math.log10(mark) - low) / (high - low),
        }
        for mark in marks
    ]
    ramps = [
        (words, *(", ".join(colors) for colors in (ramp, [DARK[color] for color in ramp])))
        for words, ramp in (("In the network", QUEUE_COLORS), ("At senders", SEND_QUEUE_COLORS))
    ]
    return {"ramps": ramps, "labels": labels}
