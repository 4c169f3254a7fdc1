"""Two runs or more, side by side: `compare(a, b)`."""

from __future__ import annotations

from tailback.comparison.comparison import Comparison
from tailback.comparison.sides import Given, sides

__all__ = ["Comparison", "compare"]


def compare(*runs: Given) -> Comparison:
    """What differs between runs: settings, findings, figures, flows, and where each is stuck.

    Args:
        runs: Two or more, the first being what the others are held against. Each is a `Result`, the folder of
            a run, the folder of several seeds, or a list of these: the seeds of one side.

    Raises:
        InputError: one of them is not the folder of a run, or cannot be read.
    """
    return Comparison(sides(runs))
