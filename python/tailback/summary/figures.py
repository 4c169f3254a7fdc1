"""The main figures of a run: what tables over seeds and comparisons show of a summary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tailback import text

FIGURES: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("Median slowdown", ("fct", "all", "slowdown", "p50"), "index"),
    ("99 % slowdown", ("fct", "all", "slowdown", "p99"), "index"),
    ("99.9 % slowdown", ("fct", "all", "slowdown", "p999"), "index"),
    ("Flows done", ("fct", "finished"), "count"),
    ("Throughput", ("goodput", "total_bps"), "bit/s"),
    ("Fairness (Jain)", ("fairness", "jain"), "index"),
    ("TCP's share", ("protocols", "tcp", "share"), "share"),
    ("TCP timeouts", ("tcp", "timeouts"), "count"),
    ("CPU, busiest host", ("cpu", "share"), "share"),
    ("Packets dropped", ("losses", "dropped_packets"), "count"),
    ("Packets sent again", ("losses", "retransmitted_share"), "share"),
    ("Worst pause", ("pauses", "largest_share_of_a_second"), "share"),
    ("Packets marked", ("signals", "ecn_marked_packets"), "count"),
    ("CNPs", ("signals", "cnps"), "count"),
    ("Fullest queue, mean", ("standing_queue", "mean_bytes"), "B"),
)
"""A name, the path of the figure in the summary, and its unit."""


def value_of(summary: Mapping[str, Any], path: tuple[str, ...]) -> float | None:
    """The figure at a path of a summary; None where the run has none."""
    value: Any = summary
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return None if value is None else float(value)


def in_words(value: float, unit: str) -> str:
    """A value in the unit of its figure."""
    if unit == "count" and value < 100 and not float(value).is_integer():
        return text.significant(value)
    return text.significant(value) if unit == "index" else text.by_unit(value, unit)
