"""A capture as a page: findings, rates over time, queue pairs, recoveries, pauses."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tailback import text
from tailback.captured.words import PS_PER_S, Data, duration, nearest_sender, pair, place_names
from tailback.metrics import Finding
from tailback.report.figures import (
    BLUE,
    GREEN,
    INK,
    MAX_POINTS,
    MUTED,
    ORANGE,
    PINK,
    SKY,
    VERMILLION,
    Plot,
    View,
    figure,
    layout,
    line,
)
from tailback.report.frame import environment, for_script

if TYPE_CHECKING:
    from tailback.recorded.bins import Array
    from tailback.recorded.run import Recorded

LINE_COLORS = (BLUE, VERMILLION, GREEN, ORANGE, PINK, SKY, INK, MUTED)
CAUSE_NAMES = {"nak": "nak", "rnr_nak": "rnr nak", "timeout": "timeout", "not_seen": "cause not seen"}
MAX_LINES = 8
MAX_ROWS = 500


def render(name: str, data: Data, findings: list[Finding]) -> str:
    """Renders the page."""
    plots = [plot for plot in (_links(data), _queue_pairs(data)) if plot.figures]
    tables = [table for table in (_pairs(data), _recoveries(data), _pauses(data)) if table]
    return (
        environment()
        .get_template("capture.html.j2")
        .render(
            name=name,
            findings=findings,
            signals=[
                text.plural(data["frames"], "frame"),
                duration(data["duration_ps"]),
                text.plural(len(place_names(data)), "point") + " of capture",
            ],
            plots=plots,
            tables=tables,
            figures_json=for_script([figure for plot in plots for figure in plot.figures]),
        )
    )


def _view(data: Data) -> View:
    """The bins of a capture, in the form of a run."""
    bin_s = data["bin_ps"] / PS_PER_S
    count = max(1, -(-data["duration_ps"] // data["bin_ps"]))
    bins = SimpleNamespace(count=count, bin_s=bin_s, width_s=np.full(count, bin_s), end_s=count * bin_s)
    return View(cast("Recorded", SimpleNamespace(bins=bins, skipped=[])))


def _rates(view: View, counts: list[int]) -> Array:
    values = np.zeros(view.result.bins.count)
    values[: len(counts)] = counts[: len(values)]
    return view.reduce(values * 8 / view.result.bins.width_s / 1e9, MAX_POINTS)


def _over_time(data: Data, id_: str, heading: str, caption: str, lines: list[tuple[str, list[int]]]) -> Plot:
    view = _view(data)
    ordered = sorted(lines, key=lambda one: -sum(one[1]))[:MAX_LINES]
    rates = [(name, _rates(view, counts)) for name, counts in ordered]
    highest = max((float(values.max(initial=0)) for _, values in rates), default=0.0)
    if not highest:
        return Plot(id_, heading, caption)
    traces = [
        line(view, values, MAX_POINTS, name=name, unit="Gbit/s", color=color)
        for (name, values), color in zip(rates, LINE_COLORS, strict=False)
    ]
    more = f" The {len(ordered)} that carried most of {len(lines)}." if len(lines) > len(ordered) else ""
    look = layout(view, "Gbit/s", (0, highest * 1.05), showlegend=True)
    return Plot(
        id_,
        heading,
        f"{caption} Means over {view.sampling(MAX_POINTS)}.{more}",
        [figure(id_, view, heading, traces, look)],
    )


def _links(data: Data) -> Plot:
    lines = [(one["name"], one["bins"]) for one in data["interfaces"] if one["bins"]]
    return _over_time(data, "interfaces", "Interfaces", "Rate of each interface, with headers.", lines)


def _queue_pairs(data: Data) -> Plot:
    lines = [(pair(data, row), row["bins"]) for row in nearest_sender(data) if row["bins"]]
    words = "Payload of requests of each queue pair, without retransmissions."
    return _over_time(data, "queue-pairs", "Queue pairs", words, lines)


def _some(rows: list[list[str]], what: str) -> str:
    return f"The first {MAX_ROWS} of {text.plural(len(rows), what)}." if len(rows) > MAX_ROWS else ""


def _pairs(data: Data) -> dict[str, Any]:
    rows = [
        [
            pair(data, row),
            place_names(data)[row["place"]],
            text.count(row["packets"]),
            text.size(row["new_payload_bytes"]),
            text.count(row["messages"]),
            text.count(row["ce"]),
            text.count(row["cnps"]),
            text.count(row["naks"][0]),
            text.count(row["retransmitted"]),
            text.count(row["by_timeout"]),
            duration(row["round_trips"]["mean_ps"]) if row["round_trips"]["count"] else text.MISSING,
        ]
        for row in sorted(data["connections"], key=lambda row: -row["packets"])
        if row["packets"]
    ]
    columns = [
        "Queue pair",
        "Seen at",
        "Packets",
        "Payload",
        "Messages",
        "CE",
        "CNPs",
        "NAKs",
        "Retransmitted",
        "Timeouts",
    ]
    return {
        "id": "pairs",
        "heading": "Queue pairs, at each point of capture",
        "columns": [*columns, "Mean round trip"],
        "rows": rows[:MAX_ROWS],
        "note": _some(rows, "row"),
    }


def _recoveries(data: Data) -> dict[str, Any] | None:
    of = {row["way"]: row for row in data["connections"]}
    rows = [
        [
            text.MISSING if one["sent_at_ps"] is None else duration(one["sent_at_ps"]),
            pair(data, of[one["way"]]),
            place_names(data)[of[one["way"]]["place"]],
            str(one["psn"]),
            CAUSE_NAMES[one["trigger"]],
            one["manner"].replace("_", "-"),
            text.count(one["packets"]),
            _between(one["gap_at_ps"], one["nak_at_ps"]),
            _between(one["nak_at_ps"], one["sent_at_ps"]),
        ]
        for one in data["listed"]
        if one["way"] in of
    ]
    if not rows:
        return None
    columns = [
        "At",
        "Queue pair",
        "Seen at",
        "PSN",
        "After",
        "Manner",
        "Packets",
        "Gap to NAK",
        "NAK to retransmission",
    ]
    return {
        "id": "recoveries",
        "heading": "Retransmissions",
        "columns": columns,
        "rows": rows[:MAX_ROWS],
        "note": _some(rows, "recovery"),
    }


def _between(first: int | None, second: int | None) -> str:
    return text.MISSING if first is None or second is None else duration(second - first)


def _pauses(data: Data) -> dict[str, Any] | None:
    rows = [
        [
            one["name"],
            priority,
            text.count(pauses["xoff"]),
            text.count(pauses["xon"]),
            text.count(pauses["pauses"]),
            duration(pauses["paused_ps"]),
            duration(pauses["longest_ps"]),
        ]
        for one in data["interfaces"]
        for priority, pauses in [*one["pauses"].items(), ("all (802.3x)", one["link_pauses"])]
        if pauses["xoff"] + pauses["xon"]
    ]
    if not rows:
        return None
    return {
        "id": "pauses",
        "heading": "Pauses that interfaces asked for",
        "columns": ["Interface", "Priority", "Xoff frames", "Xon frames", "Pauses", "Paused", "Longest"],
        "rows": rows[:MAX_ROWS],
        "note": _some(rows, "row"),
    }
