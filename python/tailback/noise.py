"""Confidence intervals over seeds of a figure and of the difference between two runs, and which differences
are noise.

Two variants that run with the same seeds are compared seed by seed (common random numbers: Law, Simulation
Modeling and Analysis, 5th ed., 11.2): an effect of a seed on both cancels in the difference. Intervals and
tests are Student's, of the mean of one value per seed. Among several comparisons some look large by chance:
`holm` (Holm, Scandinavian Journal of Statistics 6, 1979) keeps the chance of any false one as low as that of a
single comparison.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

CONFIDENCE_LEVEL = 0.95
"""Of all intervals. A difference whose adjusted p is at least 1 - CONFIDENCE_LEVEL is called noise."""
_ROUNDING_TOLERANCE = 1e-12
"""Relative difference up to which two values count as equal."""


class Interval(NamedTuple):
    """A mean over `seeds` values, and its 95 % confidence interval; NaN where there are too few values."""

    mean: float
    low: float
    high: float
    seeds: int


class Difference(NamedTuple):
    """The mean difference of two variants over their common seeds, its confidence interval, and its p-value."""

    mean: float
    low: float
    high: float
    seeds: int
    p: float


def why_noise(difference: Difference, adjusted_p: float) -> str:
    """Explains why a difference whose interval excludes 0 counts as noise; "" for all other differences."""
    interval_has_0 = not math.isfinite(difference.low) or difference.low <= 0 <= difference.high
    if not is_noise(adjusted_p) or interval_has_0:
        return ""
    return (
        " Its interval excludes 0, but one of several comparisons does so by chance: adjusted for all of "
        f"them, p is {adjusted_p:.2g}."
    )


def interval(values: Sequence[float]) -> Interval:
    """The mean of `values`, one per seed, and its interval. A single value has no interval."""
    known = [value for value in values if math.isfinite(value)]
    if not known:
        return Interval(math.nan, math.nan, math.nan, 0)
    mean, error = _mean_and_error(known)
    reach = _quantile(len(known) - 1) * error if len(known) > 1 else math.nan
    return Interval(mean, mean - reach, mean + reach, len(known))


def paired(first: Mapping[int, float], second: Mapping[int, float]) -> Difference:
    """Second minus first, over the seeds for which both have a value.

    Without two such seeds, p is NaN. Where all differences are equal it is 0, or 1 if they are 0.
    """
    differences = [
        _difference(second[seed], first[seed])
        for seed in sorted(first.keys() & second.keys())
        if math.isfinite(second[seed] - first[seed])
    ]
    mean, low, high, seeds = interval(differences)
    if abs(mean) <= _ROUNDING_TOLERANCE * max(map(abs, differences), default=0.0):
        mean = 0.0
    if seeds < 2:
        return Difference(mean, low, high, seeds, math.nan)
    error = _mean_and_error(differences)[1]
    if error == 0:
        return Difference(mean, low, high, seeds, float(mean == 0))
    from scipy.special import stdtr  # a fraction of the time that scipy.stats takes to load

    return Difference(mean, low, high, seeds, 2 * float(stdtr(seeds - 1, -abs(mean) / error)))


def holm(p_values: Sequence[float]) -> list[float]:
    """All p-values adjusted for their number; NaN stays, and does not count."""
    order = sorted((p, index) for index, p in enumerate(p_values) if not math.isnan(p))
    adjusted = [math.nan] * len(p_values)
    largest = 0.0
    for rank, (p, index) in enumerate(order):
        largest = max(largest, min(1.0, p * (len(order) - rank)))
        adjusted[index] = largest
    return adjusted


def is_noise(adjusted_p: float) -> bool:
    """True if a difference may be chance, and where p is not known."""
    return not adjusted_p < 1 - CONFIDENCE_LEVEL


def _difference(value: float, other: float) -> float:
    """`value` minus `other`; 0 where they differ only by rounding."""
    difference = value - other
    return difference if abs(difference) > _ROUNDING_TOLERANCE * max(abs(value), abs(other)) else 0.0


def _mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """The mean and its standard error; the error of values that differ only by rounding is 0."""
    if max(values) - min(values) <= _ROUNDING_TOLERANCE * max(map(abs, values)):
        return values[0], 0.0
    mean = math.fsum(values) / len(values)
    spread = math.fsum((value - mean) ** 2 for value in values)
    return mean, math.sqrt(spread / (len(values) - 1) / len(values))


def _quantile(freedom: int) -> float:
    """Quantile of Student's distribution for a two-sided interval."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + CONFIDENCE_LEVEL) / 2))
