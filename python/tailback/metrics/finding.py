"""Findings of a run: a short statement each, made of its metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from tailback import text
from tailback.metrics.metric import METRICS, summarise, value_at
from tailback.metrics.spans import STEADY_WINDOW_S
from tailback.recorded.run import Recorded


@dataclass(frozen=True)
class Finding:
    """`what` it is about, the `figure` that matters most, a sentence or two of `words`, and a `tone`.

    `tone` is 'plain', 'warning' (something to look at) or 'fault' (something that must not happen).
    """

    what: str
    figure: str
    words: str
    tone: str = "plain"


Says = Callable[[Recorded], Finding | Iterable[Finding]]
Function = TypeVar("Function", bound=Says)
_FINDINGS: list[tuple[int, bool, Says]] = []


def finding(place: int, *, everywhere: bool = False) -> Callable[[Function], Function]:
    """Declares what makes findings of a run; those with a lower place come first.

    Args:
        place: Where they stand among all findings.
        everywhere: Whether they are also of runs with network namespaces, which have no RoCE and no fabric.
    """

    def register(function: Function) -> Function:
        _FINDINGS.append((place, everywhere, function))
        return function

    return register


def findings(result: Recorded) -> list[Finding]:
    """All findings of a run, those that put the others in doubt first."""
    of_namespaces = summarise(result)["veth"] is not None
    found: list[Finding] = []
    for _, everywhere, function in sorted(_FINDINGS, key=lambda one: one[0]):
        if everywhere or not of_namespaces:
            made = function(result)
            found += [made] if isinstance(made, Finding) else made
    for metric in METRICS.values():
        if metric.says and (value := value_at(summarise(result), metric.path)) is not None:
            found.append(Finding(metric.label, metric.in_words(value), metric.says))
    return found


def not_counted(result: Recorded, what: str, *counters: str) -> Finding | None:
    """Of a real lab: the finding that nothing counted it, where no counter with one of these names was recorded."""
    if "lab" not in result.meta or any(part in name for name in result.counter_names for part in counters):
        return None
    return Finding(what, text.MISSING, "No counter of it was recorded.", "warning")


def since_in_words(summary: dict[str, Any]) -> str:
    """The part of the run that goodput and fairness are measured in, in words."""
    if summary["convergence_s"] is None:
        if not summary["flows"]["writers"]:
            return "over the whole run"
        if summary["simulated_s"] < 2 * STEADY_WINDOW_S:
            return "over the whole run, which is too short to tell whether the total was steady"
        return "over the whole run: the total never became steady"
    if summary["convergence_s"] == 0:
        return "over the whole run"
    return f"since {text.duration(summary['convergence_s'])}"
