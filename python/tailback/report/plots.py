"""The time plots of a report: throughput, rates, queues, pauses, losses and marks.

Each function gives a `Plot`: heading, caption, and a plot of the whole run. A plot of something that never
happened is a sentence instead of an empty frame.
"""

from __future__ import annotations

import numpy as np

from tailback import metrics, text
from tailback.metrics import summarise
from tailback.recorded.bins import Array
from tailback.recorded.run import Recorded
from tailback.recorded.setup import TCP
from tailback.recorded.signals import CE_MARK, CNP, DROP, NAK, PFC_PAUSE
from tailback.report.bridge import bridge_cores
from tailback.report.completion import completion
from tailback.report.figures import (
    BLUE,
    GREEN,
    GREY,
    INK,
    MAX_POINTS,
    MAX_POINTS_PER_LINE,
    MOST_LINES,
    MUTED,
    ORANGE,
    PALE_VERMILLION,
    SKY,
    VERMILLION,
    Json,
    Labels,
    Plot,
    View,
    figure,
    layout,
    level,
    line,
    rate_unit,
    round_top,
)
from tailback.report.hosts import by_protocol, cpu
from tailback.report.tracked import all_and_most, qp_rates, windows

MOST_PEAK = 1.5
"""How far above the line rate the plot of the total goes."""


def all_plots(result: Recorded) -> list[Plot]:
    """Every plot beneath the tailback chart, in the order of the report."""
    return [
        *completion(result),
        throughput(result),
        *by_protocol(result),
        per_sender(result),
        queue_depth(result),
        *qp_rates(result),
        *windows(result),
        *cpu(result),
        *bridge_cores(result),
        pauses(result),
        losses(result),
        marks(result),
    ]


def throughput(result: Recorded) -> Plot:
    """Total goodput against the line rate and against what headers leave of it."""
    if not result.senders:
        return Plot("throughput", "Total throughput", "No flow started.")
    view = View(result)
    unit, factor = rate_unit(metrics.links.capacity(result))
    values = view.reduce(result.bins.total("goodput_rx_bps") * factor, MAX_POINTS)
    limit = metrics.links.capacity(result) * factor
    ideal = limit * metrics.links.ideal_payload_share(result)
    highest = float(values.max(initial=0))
    # Data that waited behind a gap is delivered in no time: such peaks would leave no room for the rest.
    peaks = highest > MOST_PEAK * limit
    top = MOST_PEAK * limit if peaks else max(limit * 1.12, highest * 1.05)
    labels = Labels(top)
    labels.add(limit, "line rate", MUTED)
    labels.add(ideal, "less headers", GREEN)
    look = layout(
        view,
        f"Total goodput ({unit})",
        (0, top),
        # The line rate is a round number: behind the traces it would hide in a grid line.
        shapes=[level(limit, MUTED, layer="above"), level(ideal, GREEN)],
        annotations=labels.annotations(),
    )
    data = [line(view, values, MAX_POINTS, name="total", unit=unit, color=BLUE)]
    caption = (
        "Payload per second that all receivers took in order, as means over "
        f"{view.sampling(MAX_POINTS)}. Dashed: the line rate, {text.rate(limit / factor)}, and "
        f"what {_headers(result)} headers leave of it for payload, {text.rate(ideal / factor)}."
    )
    if peaks:
        caption += (
            f" Peaks above the plot reach {text.rate(highest * 1e9)}: what had arrived behind a gap, and was "
            "in order once the gap was filled."
        )
    figures = [figure("throughput", view, "Total goodput", data, look)]
    return Plot("throughput", "Total throughput", caption, figures)


def _headers(result: Recorded) -> str:
    spoken = summarise(result)["protocols"]
    if TCP not in spoken:
        return "Ethernet, IP, UDP and InfiniBand"
    return "Ethernet, IP and TCP" if len(spoken) == 1 else "Ethernet, IP, UDP, InfiniBand and TCP"


def per_sender(result: Recorded) -> Plot:
    """Goodput of each sender, or of all of them as a band; slowest and fastest stand out."""
    if not result.senders:
        return Plot("senders", "Throughput of each sender", "No flow started.")
    view = View(result)
    rows = {host: result.bins.values(host, "goodput_tx_bps") / 1e9 for host in result.senders}
    fairness = summarise(result)["fairness"]
    slowest, fastest = (str((fairness[end] or {}).get("host")) for end in ("slowest", "fastest"))
    # Where all sent the same in the same time, none is the slowest.
    differ = slowest != fastest
    highlight = {fastest: BLUE, slowest: VERMILLION} if differ else {}
    reduced = {host: view.reduce(row, MAX_POINTS_PER_LINE) for host, row in rows.items()}
    most = float(np.max([row.max(initial=0) for row in reduced.values()]))
    top = round_top(most * 1.05)
    labels = Labels(top)
    data: list[Json] = []
    many = len(rows) > MOST_LINES
    if many:
        data += all_and_most(view, np.stack(list(reduced.values())), "Gbit/s")
    # The two that stand out are drawn last, over the others.
    for host in [*(host for host in rows if host not in highlight and not many), *highlight]:
        if host in highlight:
            which = "fastest" if host == fastest else "slowest"
            labels.add(float(reduced[host][-1]), f"{host}, {which}", highlight[host])
        color = highlight.get(host, GREY if len(rows) > 1 else BLUE)
        width = 1.8 if host in highlight else 1.1
        data.append(
            line(view, reduced[host], MAX_POINTS_PER_LINE, name=host, unit="Gbit/s", color=color, width=width)
        )
    look = layout(view, "Goodput (Gbit/s)", (0, top), annotations=labels.annotations())
    named = "one line"
    if many:
        named = "the median, the middle 80 % and the whole range"
    elif len(rows) > 1:
        named = "grey" if differ else "grey, as all delivered the same"
    if differ:
        named += f", with the slowest ({slowest}) and the fastest ({fastest}) in colour"
    caption = f"Payload per second of {text.plural(len(rows), 'sender')}, delivered in order, as means over "
    caption += f"{view.sampling(MAX_POINTS_PER_LINE)}: {named}."
    rates = result.meta["line_rate_bps"]
    if any(row.max(initial=0) > rates[host] / 1e9 for host, row in reduced.items()):
        caption += " More than a link's rate is no error: what waited in several queues arrived at once."
        if TCP in summarise(result)["protocols"]:
            caption = caption.removesuffix(".") + ", or what had come behind a gap was in order at once."
    figures = [figure("senders", view, "Goodput of each sender", data, look)]
    return Plot("senders", "Throughput of each sender", caption, figures)


EGRESS_QUEUE = "egress queue"


def fullest_queue(result: Recorded) -> tuple[str, str]:
    """Name of the fullest egress queue, or where nothing waits in one, as on a cable, of the fullest queue
    that is not a sender's; and which of both. Empty where nothing waits.
    """
    standing = metrics.queues.standing_queue(result, "start")
    if standing is not None:
        return standing.queue, EGRESS_QUEUE
    bins = result.bins
    names = sorted({queue["queue"] for queue in result.meta["queues"] if queue["kind"] != "send"})
    name = max(names, key=lambda one: bins.mean(bins.values(one, "queue_mean_bytes")), default="")
    return (name, "queue") if name and bins.values(name, "queue_max_bytes").any() else ("", "")


def queue_depth(result: Recorded) -> Plot:
    """The fullest queue, its mean and its peak, with the ECN thresholds drawn in."""
    view = View(result)
    name, kind = fullest_queue(result)
    if not name:
        why = "No packet ever waited in an egress queue."
        if result.chooses_queues or not result.records_queues:
            why = f"Of this run only {result.recorded} are recorded."
        return Plot("queue", "Queue depth", why)
    about = next(queue for queue in result.meta["queues"] if queue["queue"] == name)
    mean, peak = result.bins.values(name, "queue_mean_bytes"), result.bins.values(name, "queue_max_bytes")
    unit, scale = ("MB", 1e6) if peak.max() >= 2e6 else ("KB", 1e3)
    thresholds = [
        (key, about[f"{key}_bytes"]) for key in ("k_min", "k_max") if about.get(f"{key}_bytes") is not None
    ]
    top = round_top(max([float(peak.max()), *(value * 1.1 for _, value in thresholds)]) / scale * 1.02)
    labels = Labels(top)
    for key, value in thresholds:
        labels.add(value / scale, f"{key} {text.size(value)}", MUTED)
    means = view.reduce(mean, MAX_POINTS) / scale
    peaks = view.reduce(peak, MAX_POINTS, "max") / scale
    labels.add(float(means[-1]), "mean", BLUE)
    labels.add(float(peaks[-1]), "peak", SKY)
    look = layout(
        view,
        f"Queue depth ({unit})",
        (0, top),
        shapes=[level(value / scale, MUTED, "dot") for _, value in thresholds],
        annotations=labels.annotations(),
    )
    data = [
        line(view, peaks, MAX_POINTS, name="peak", unit=unit, color=SKY, width=1, format=".4~f"),
        line(view, means, MAX_POINTS, name="mean", unit=unit, color=BLUE, width=1.8, format=".4~f"),
    ]
    caption = f"{name}, the fullest {kind}: time-weighted mean and largest depth in each "
    caption += f"{view.sampling(MAX_POINTS)}. "
    if thresholds:
        low, high = about["k_min_bytes"], about["k_max_bytes"]
        caption += (
            f"Packets are marked CE with a probability that rises from 0 at k_min ({text.size(low)}) "
            f"to its highest at k_max ({text.size(high)})."
        )
    elif kind == EGRESS_QUEUE:
        caption += "ECN is off here."
    return Plot(
        "queue", "Queue depth", caption, [figure("queue", view, f"Queue depth of {name}", data, look)]
    )


def pauses(result: Recorded) -> Plot:
    """Share of the time that ports were paused."""
    view = View(result)
    queues = result.signal_log.queues(PFC_PAUSE)
    summary = summarise(result)["pauses"]
    if not queues:
        why = "No queue was paused."
        if not summary["lossless_priorities"]:
            why = "PFC is off for every priority here."
        elif summary["largest_share_of_a_second"] > 0:
            why = f"Pauses are in the table, and not over time: only {result.recorded} are recorded."
        return Plot("pauses", "Pauses", why)
    rows = np.stack([result.signal_log.values(queue, PFC_PAUSE) for queue in queues]) * 100
    values, means = view.reduce(rows.max(axis=0), MAX_POINTS), view.reduce(rows.mean(axis=0), MAX_POINTS)
    top = min(round_top(float(values.max()) * 1.05), 105.0)
    labels = Labels(top)
    labels.add(float(values[-1]), "most paused", VERMILLION)
    data = [
        line(
            view,
            values,
            MAX_POINTS,
            name="most paused",
            unit="%",
            color=VERMILLION,
            fill="tozeroy",
            fillcolor=PALE_VERMILLION,
            width=1.4,
        ),
    ]
    if len(queues) > 1:
        name = f"mean of {len(queues)}"
        data.append(line(view, means, MAX_POINTS, name=name, unit="%", color=INK, width=1))
        labels.add(float(means[-1]), name, INK)
    look = layout(view, "Time paused (%)", (0, top), annotations=labels.annotations())
    shares = [result.bins.mean(row) / 100 for row in rows]
    worst = int(np.argmax(shares))
    second = (
        f"Of the worst second of the worst port: {text.share(summary['largest_share_of_a_second'])}. "
        if result.bins.end_s >= 1
        else ""
    )
    caption = (
        f"Share of each {view.sampling(MAX_POINTS)} that the most paused of "
        f"{text.plural(len(queues), 'queue')} stood still, and the mean of all {len(queues)}. "
        f"Of the whole run: {text.share(shares[worst])} at {queues[worst]}, "
        f"{text.share(float(np.mean(shares)))} on average. {second}"
        f"The last pause ended at {text.duration(summary['last_pause_s'])}."
    )
    return Plot("pauses", "Pauses", caption, [figure("pauses", view, "Pauses", data, look)])


def losses(result: Recorded) -> Plot:
    """Drops, packets out of sequence at receivers, and the NAKs that reach senders, per second."""
    series = [
        ("Packets dropped at queues", result.signal_log.total(DROP), "drops", INK),
        (
            "packets that arrived ahead of a gap (out_of_sequence)",
            result.bins.total("out_of_sequence"),
            "out of seq.",
            ORANGE,
        ),
        ("NAKs that senders received (packet_seq_err)", result.signal_log.total(NAK), "NAKs", VERMILLION),
    ]
    tcp_only = list(summarise(result)["protocols"]) == [TCP]  # it has no NAKs
    heading = "Drops" if tcp_only else "Drops, out-of-sequence packets and NAKs"
    plot = _events(result, "losses", heading, series[:1] if tcp_only else series)
    if plot.figures:
        return plot
    dropped = result.signal_log.count(DROP)
    if dropped:
        why = f"{text.plural(dropped, 'packet')} dropped; over time only {result.recorded} are recorded."
    elif tcp_only:
        why = "No packet was dropped."
    else:
        why = "No packet was dropped, none came out of sequence, and no NAK was sent."
    return Plot(plot.id, plot.heading, why)


def marks(result: Recorded) -> Plot:
    """CE marks and CNPs per second."""
    tcp_only = list(summarise(result)["protocols"]) == [TCP]
    marks = result.signal_log.total(CE_MARK)
    series = [
        ("Packets that a queue marked CE", marks, "CE marks", GREEN),
        ("CNPs that receivers sent (np_cnp_sent)", result.signal_log.total(CNP), "CNPs sent", BLUE),
    ]
    heading = "ECN marks" if tcp_only else "ECN marks and CNPs"
    plot = _events(result, "marks", heading, series[:1] if tcp_only else series)
    marked = int(metrics.marks.marked_packets(result))
    if marked and not marks.any():
        note = f"{text.plural(marked, 'packet')} marked; over time only {result.recorded} are recorded."
        return Plot(plot.id, plot.heading, f"{plot.caption} {note}".strip(), plot.figures)
    nothing = "No packet was marked." if tcp_only else "No packet was marked and no CNP was sent."
    return plot if plot.figures else Plot(plot.id, plot.heading, nothing)


def _events(result: Recorded, id_: str, heading: str, series: list[tuple[str, Array, str, str]]) -> Plot:
    """A plot of counts per second; without a figure where nothing of it happened. `series`: what it is, by bin,
    its name and its colour.
    """
    view = View(result)
    reduced = [(view.per_second(row, MAX_POINTS), name, color) for _, row, name, color in series if row.any()]
    if not reduced:
        return Plot(id_, heading, "")
    top = round_top(max(float(values.max(initial=0)) for values, _, _ in reduced) * 1.05)
    labels = Labels(top)
    data = []
    for values, name, color in reduced:
        data.append(
            line(
                view, values, MAX_POINTS, name=name, unit="per second", color=color, format=".3~s", width=1.4
            )
        )
        labels.add(float(values[-1]), name, color)
    look = layout(
        view, "Events (1/s)", (0, top), yaxis={"tickformat": "~s"}, annotations=labels.annotations()
    )
    parts = [f"{what}: {text.count(float(row.sum()))} in all" for what, row, _, _ in series]
    caption = "; ".join(parts) + f". As rates over {view.sampling(MAX_POINTS)}."
    return Plot(id_, heading, caption, [figure(id_, view, heading, data, look)])
