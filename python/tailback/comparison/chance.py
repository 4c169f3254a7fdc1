"""How often chance alone would set two groups of seeds as far apart: a permutation test."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np

LIKELY = 0.05
"""What chance does more often than this is not told from it."""
MOST_SPLITS = 20_000
"""All ways to split the runs are looked at up to this many, and this many drawn ones of more."""


def by_chance(first: Sequence[float], second: Sequence[float]) -> float:
    """The share of all ways to split these values into two groups of these sizes in which the means are at
    least as far apart (Fisher's exact permutation test, two-sided; Ernst, "Permutation Methods", Statistical
    Science 2004). It assumes nothing of how the values are spread.
    """
    values = np.array([*first, *second])
    size = len(first)
    if math.comb(len(values), size) <= MOST_SPLITS:
        chosen = np.array(list(combinations(range(len(values)), size)))
    else:
        draw = np.random.default_rng(0)  # the same runs give the same answer
        drawn = [draw.permutation(len(values))[:size] for _ in range(MOST_SPLITS - 1)]
        chosen = np.array([np.arange(size), *drawn])
    sums = values[chosen].sum(axis=1)
    apart = np.abs(sums / size - (values.sum() - sums) / (len(values) - size))
    found = abs(values[:size].mean() - values[size:].mean())
    return float(np.mean(apart >= found * (1 - 1e-9)))


def least_chance(first: int, second: int) -> float:
    """What `by_chance` gives at least for groups of these sizes: those that no value of one is among the
    other's.
    """
    mirrored = 2 if first == second else 1
    return mirrored / math.comb(first + second, first)
