"""The main figures of a run: what a table of several runs shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tailback import text


class MainFigure(NamedTuple):
    """A name, the path of the figure in the summary, and its unit."""

    name: str
    path: tuple[str, ...]
    unit: str


FIGURES = (
    MainFigure("Median slowdown", ("fct", "all", "slowdown", "p50"), "index"),
    MainFigure("99 % slowdown", ("fct", "all", "slowdown", "p99"), "index"),
    MainFigure("99.9 % slowdown", ("fct", "all", "slowdown", "p999"), "index"),
    MainFigure("Flows done", ("fct", "finished"), "count"),
    MainFigure("Throughput", ("goodput", "total_bps"), "bit/s"),
    MainFigure("Fairness (Jain)", ("fairness", "jain"), "index"),
    MainFigure("TCP's share", ("protocols", "tcp", "share"), "share"),
    MainFigure("TCP timeouts", ("tcp", "timeouts"), "count"),
    MainFigure("CPU, busiest host", ("cpu", "share"), "share"),
    MainFigure("Packets dropped", ("losses", "dropped_packets"), "count"),
    MainFigure("Packets sent again", ("losses", "retransmitted_share"), "share"),
    MainFigure("Longest paused", ("pauses", "largest_share_of_the_run"), "share"),
    MainFigure("Packets marked", ("signals", "ecn_marked_packets"), "count"),
    MainFigure("CNPs", ("signals", "cnps"), "count"),
    MainFigure("Fullest queue, mean", ("standing_queue", "mean_bytes"), "B"),
)


def value_at(summary: Mapping[str, Any], path: Sequence[str]) -> float | None:
    """A figure of a summary; None when that has none there."""
    value: Any = summary
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return float(value) if isinstance(value, (int, float)) else None


def in_words(value: float, unit: str) -> str:
    """A value in the unit of its figure."""
    if unit == "count" and value < 100 and not float(value).is_integer():
        return text.significant(value)
    return text.significant(value) if unit == "index" else text.by_unit(value, unit)
