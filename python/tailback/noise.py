"""What seeds say of a figure, and of the difference between two runs: intervals, and which differences are
noise.

Two variants that run with the same seeds are compared seed by seed (common random numbers: Law, Simulation
Modeling and Analysis, 5th ed., 11.2): what a seed does to both goes out of the difference. Intervals and
tests are Student's, of the mean of as many values as there are seeds. Of several comparisons some look large
by chance: `holm` (Holm, Scandinavian Journal of Statistics 6, 1979) keeps the chance of a single false one
below that of one comparison alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

LEVEL = 0.95
"""Of all intervals. A difference whose p, adjusted, is at least 1 - LEVEL is called noise."""
_ROUNDING = 1e-12
"""By what share of them values differ that are the same."""


class Interval(NamedTuple):
    """A mean over `seeds` values, and the interval that holds the true one in 95 % of all cases; NaN where
    nothing can be said.
    """

    mean: float
    low: float
    high: float
    seeds: int


class Difference(NamedTuple):
    """The mean difference of two variants over their common seeds, its interval, and the chance `p` of one
    as large if there were none.
    """

    mean: float
    low: float
    high: float
    seeds: int
    p: float


def why_noise(difference: Difference, adjusted_p: float) -> str:
    """Says why a difference counts as noise although its interval excludes 0; nothing where it does not."""
    interval_has_0 = not math.isfinite(difference.low) or difference.low <= 0 <= difference.high
    if not is_noise(adjusted_p) or interval_has_0:
        return ""
    return (
        " Its interval alone excludes 0, but one of several comparisons looks so by chance: adjusted for all "
        f"of them p is {adjusted_p:.2g}."
    )


def interval(values: Sequence[float]) -> Interval:
    """Of the mean of `values`, one a seed. A single value has no interval."""
    known = [value for value in values if math.isfinite(value)]
    if not known:
        return Interval(math.nan, math.nan, math.nan, 0)
    mean, error = _mean_and_error(known)
    reach = _quantile(len(known) - 1) * error if len(known) > 1 else math.nan
    return Interval(mean, mean - reach, mean + reach, len(known))


def paired(first: Mapping[int, float], second: Mapping[int, float]) -> Difference:
    """Second less first, over the seeds that both have a value of.

    Without two such seeds, p is NaN. Where all differences are equal it is 0, or 1 if they are 0.
    """
    differences = [
        _less(second[seed], first[seed])
        for seed in sorted(first.keys() & second.keys())
        if math.isfinite(second[seed] - first[seed])
    ]
    mean, low, high, seeds = interval(differences)
    if abs(mean) <= _ROUNDING * max(map(abs, differences), default=0.0):
        mean = 0.0
    if seeds < 2:
        return Difference(mean, low, high, seeds, math.nan)
    error = _mean_and_error(differences)[1]
    if error == 0:
        return Difference(mean, low, high, seeds, float(mean == 0))
    from scipy.special import stdtr  # a fraction of the time that scipy.stats takes to load

    return Difference(mean, low, high, seeds, 2 * float(stdtr(seeds - 1, -abs(mean) / error)))


def holm(p_values: Sequence[float]) -> list[float]:
    """Each p adjusted for all of them together; NaN stays, and does not count."""
    order = sorted((p, index) for index, p in enumerate(p_values) if not math.isnan(p))
    adjusted = [math.nan] * len(p_values)
    largest = 0.0
    for rank, (p, index) in enumerate(order):
        largest = max(largest, min(1.0, p * (len(order) - rank)))
        adjusted[index] = largest
    return adjusted


def is_noise(adjusted_p: float) -> bool:
    """Whether a difference may well be chance; one of which nothing can be said may."""
    return not adjusted_p < 1 - LEVEL


def _less(value: float, other: float) -> float:
    """One less the other; 0 where only rounding tells them apart."""
    difference = value - other
    return difference if abs(difference) > _ROUNDING * max(abs(value), abs(other)) else 0.0


def _mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """The mean, and its standard error. Equal values have none, whatever rounding makes of it or of them."""
    if max(values) - min(values) <= _ROUNDING * max(map(abs, values)):
        return values[0], 0.0
    mean = math.fsum(values) / len(values)
    spread = math.fsum((value - mean) ** 2 for value in values)
    return mean, math.sqrt(spread / (len(values) - 1) / len(values))


def _quantile(freedom: int) -> float:
    """Of Student's distribution, for a two-sided interval."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + LEVEL) / 2))
