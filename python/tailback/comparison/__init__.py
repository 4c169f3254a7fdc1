"""Compares two or more runs: `compare(a, b)`."""

from __future__ import annotations

from tailback.comparison.comparison import Comparison
from tailback.comparison.sides import SideInput, sides

__all__ = ["Comparison", "compare"]


def compare(*runs: SideInput) -> Comparison:
    """Differences between runs: settings, findings, figures, flows and bottlenecks.

    Args:
        runs: Two or more sides; the others are compared with the first. Each is a `Result`, the folder of a
            run, the folder of several seeds, or a list of these with different seeds.

    Raises:
        InputError: one of the folders is not the folder of a run, or cannot be read.
    """
    return Comparison(sides(runs))
