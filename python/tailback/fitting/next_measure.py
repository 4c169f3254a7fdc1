"""Which measure, if the lab took it next, would tell the free settings apart best."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tailback.fitting.asked import Observed, Output
from tailback.fitting.emulator import Emulated
from tailback.fitting.posterior import Posterior
from tailback.recorded.bins import Array

_POSTERIOR_DRAWS = 400
_SIMULATED_ANSWERS = 100
_RANDOM_SEED = 1
_MIN_GAIN_SHARE = 0.05
"""A smaller share is not worth a measurement."""


class Next(NamedTuple):
    """A measure, how exact it is taken to be, and what it would do: the share of the posterior's variance
    that it is expected to take away, of all settings together and of each.
    """

    output: Output
    tolerance: float
    reduction: float
    each: tuple[float, ...]


def next_measures(emulated: Emulated, found: Posterior, observed: Sequence[Observed]) -> list[Next]:
    """The best first; only those that promise something.

    What the lab would see is drawn: a setting of the posterior, its measure with the emulator's spread and
    that of a run. Each is put to all others as if it were an observation. Its tolerance is not known: it is
    taken as relative to the measure as the median of those that were observed (an assumption).
    """
    relative = float(np.median([one.tolerance / max(abs(one.value), one.tolerance) for one in observed]))
    points, axes = found.drawn(_POSTERIOR_DRAWS), found.axes
    columns, owners = axes.columns(points), np.array(axes.owners())
    before = columns.var(axis=0)
    taken = {one.output for one in observed}
    every = []
    for output, emulator in emulated.emulators.items():
        if output in taken or emulator.flat:
            continue
        mean, variance = emulator.at(points)
        tolerance = relative * float(np.abs(mean).mean())
        variance = variance + emulator.around(points, 1) + tolerance**2
        if variance.min() > 0:
            gone = _reductions(columns, mean, variance)
            whole = _share(gone, before)
            if whole >= _MIN_GAIN_SHARE:
                each = [_share(gone[owners == one], before[owners == one]) for one in range(len(axes.counts))]
                every.append(Next(output, tolerance, whole, tuple(each)))
    return sorted(every, key=lambda one: -one.reduction)


def _share(gone: Array, before: Array) -> float:
    return float(gone.sum() / before.sum()) if before.sum() else 0.0


def _reductions(points: Array, mean: Array, variance: Array) -> Array:
    """The expected variance of each column that is gone."""
    rng = np.random.default_rng(_RANDOM_SEED)
    asked = rng.choice(len(points), _SIMULATED_ANSWERS)
    answers = mean[asked] + np.sqrt(variance[asked]) * rng.standard_normal(_SIMULATED_ANSWERS)
    logs = -0.5 * ((answers[:, None] - mean) ** 2 / variance + np.log(variance))
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    after = weights @ points**2 - (weights @ points) ** 2
    return np.asarray(points.var(axis=0) - after.mean(axis=0))
