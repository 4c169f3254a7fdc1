"""What a finding is, and the words that several findings share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tailback import text
from tailback.measures import STEADY_WINDOW_S


@dataclass(frozen=True)
class Finding:
    """`what` it is about, the `figure` that matters most, a sentence or two of `words`, and a `tone`.

    `tone` is 'plain', 'warning' (something to look at) or 'fault' (something that must not happen).
    """

    what: str
    figure: str
    words: str
    tone: str = "plain"


def since(summary: dict[str, Any]) -> str:
    """What the goodput and fairness figures are about, in words."""
    if summary["convergence_s"] is None:
        if not summary["flows"]["writers"]:
            return "over the whole run"
        if summary["simulated_s"] < 2 * STEADY_WINDOW_S:
            return "over the whole run, which is too short to tell whether the total was steady"
        return "over the whole run: the total never became steady"
    if summary["convergence_s"] == 0:
        return "over the whole run"
    return f"since {text.duration(summary['convergence_s'])}"
