"""The main figures of a run: what a table of several runs shows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from tailback import text


class MainFigure(NamedTuple):
    """A name, the path of the figure in the summary, and its unit."""

    name: str
    path: tuple[str, ...]
    unit: str


FIGURES = (
    MainFigure("Slowest collective", ("collective_times", "slowest_s"), "s"),
    MainFigure("Median slowdown", ("fct", "all", "slowdown", "p50"), "index"),
    MainFigure("p99 slowdown", ("fct", "all", "slowdown", "p99"), "index"),
    MainFigure("p99.9 slowdown", ("fct", "all", "slowdown", "p999"), "index"),
    MainFigure("Flows done", ("fct", "finished"), "count"),
    MainFigure("Flows cut off", ("fct", "cut_off"), "count"),
    MainFigure("Throughput", ("goodput", "total_bps"), "bit/s"),
    MainFigure("Fairness (Jain)", ("fairness", "jain"), "index"),
    MainFigure("TCP's share", ("protocols", "tcp", "share"), "share"),
    MainFigure("TCP timeouts", ("tcp", "timeouts"), "count"),
    MainFigure("CPU, busiest host", ("cpu", "share"), "share"),
    MainFigure("Packets dropped", ("losses", "dropped_packets"), "count"),
    MainFigure("Packets retransmitted", ("losses", "retransmitted_share"), "share"),
    MainFigure("Longest paused", ("pauses", "largest_share_of_the_run"), "share"),
    MainFigure("Packets marked", ("signals", "ecn_marked_packets"), "count"),
    MainFigure("CNPs", ("signals", "cnps"), "count"),
    MainFigure("Fullest queue, mean", ("standing_queue", "mean_bytes"), "B"),
)


MAX_COLLECTIVES = 8
"""Collectives with a row of their own in a table of several runs; of more, only the slowest."""


def main_figures(summaries: Iterable[Mapping[str, Any]]) -> list[MainFigure]:
    """The main figures of runs, with a row for each of a few collectives."""
    every = (one.get("collective_times") or {} for one in summaries)
    names = list(dict.fromkeys(name for times in every for name in times.get("mean_s", {})))
    if not 1 < len(names) <= MAX_COLLECTIVES:
        names = []
    own = [MainFigure(f"Collective {name}", ("collective_times", "mean_s", name), "s") for name in names]
    return [*own, *FIGURES]


def value_at(summary: Mapping[str, Any], path: Sequence[str]) -> float | None:
    """A figure of a summary; None when that has none there. A number in the path is a place in a list."""
    value: Any = summary
    for key in path:
        if isinstance(value, Mapping):
            value = value.get(key)
        elif isinstance(value, list) and key.isdecimal():
            value = value[int(key)] if int(key) < len(value) else None
        else:
            value = None
    return float(value) if isinstance(value, (int, float)) else None


def never(summary: Mapping[str, Any], path: Sequence[str]) -> str | None:
    """Why a run whose summary looks like this one can never have a figure there; None: it may have one.

    What is null or an empty list may still become something in another run.
    """
    value: Any = summary
    for depth, key in enumerate(path):
        where = ".".join(path[:depth]) or "summary.json"
        if isinstance(value, Mapping):
            if key not in value:
                names = f"one of {', '.join(value)}" if value else "nothing"
                return f"{where} has no {key}: it has {names}"
            value = value[key]
        elif isinstance(value, list):
            if not key.isdecimal():
                return f"{where} is a list, which has places such as {where}.0 and no {key}"
            if not value:
                return None
            value = value[min(int(key), len(value) - 1)]
        elif value is None:
            return None
        else:
            return f"{where} is a figure, which has no {key}"
    if isinstance(value, (Mapping, list)):
        names = ", ".join(value) if isinstance(value, Mapping) else "0, 1 and so on"
        return f"{'.'.join(path)} is no figure; it has {names}"
    return f"{'.'.join(path)} is a text" if isinstance(value, str) else None


def in_words(value: float, unit: str) -> str:
    """A value in the unit of its figure."""
    if unit == "count" and value < 100 and not float(value).is_integer():
        return text.significant(value)
    return text.significant(value) if unit == "index" else text.by_unit(value, unit)
