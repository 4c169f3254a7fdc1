"""From emulators to what the observations say: unknowns, fitted and predicted figures, what to take next."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
from tailback.recorded.bins import Array
from tailback.study.emulator import Emulated
from tailback.study.fit_design import Fit, Observed, Output
from tailback.study.posterior import INTERVAL_LEVEL, Posterior, Profile, log_likelihood, posterior, profiles

_UNINFORMED_SHARE = 0.9
"""An interval over this part of the prior says nothing."""
_EDGE_SHARE = 0.01
_TRADE_OFF_CORRELATION = 0.7
"""Settings that are correlated by more trade off against each other."""
MAX_MISS_TOLERANCES = 2.0
"""Tolerances by which a fit may miss an observation."""

_POSTERIOR_DRAWS = 400
_SIMULATED_ANSWERS = 100
_RANDOM_SEED = 1
_MIN_GAIN_SHARE = 0.05
"""A smaller share is not worth a measurement."""

Verdict = Literal[
    "identified", "only an upper limit", "only a lower limit", "only some ruled out", "not identified"
]


class Next(NamedTuple):
    """A metric, how exact it is taken to be, and what it would do: the share of the posterior's variance
    that it is expected to take away, of all settings together and of each.
    """

    output: Output
    tolerance: float
    reduction: float
    each: tuple[float, ...]


class Unknown(NamedTuple):
    """What is known of a free setting; all values are shares of the way between the ends of its prior. Of one
    of a list, `median` and interval say nothing.
    """

    setting: str
    best: float
    median: float
    low: float
    high: float
    profile: Profile
    verdict: Verdict
    probabilities: tuple[float, ...] = ()
    """Of each value of a list."""

    @property
    def at_edge(self) -> bool:
        """Whether the best fit lies at an end of the prior. Without being identified it may lie anywhere."""
        return (
            not self.probabilities
            and self.verdict != "not identified"
            and not _EDGE_SHARE < self.best < 1 - _EDGE_SHARE
        )


class Trade(NamedTuple):
    """Two settings that the observations hardly tell apart."""

    one: str
    other: str
    correlation: float


class Answer(NamedTuple):
    """An observation, and what the fit says of it: the mean and the 90 % interval of what the lab would see
    but for its own error, and the mean at the best fit.

    It is missed when the best fit is off by more than two tolerances; or, of what is held out, when it lies
    outside the interval with its tolerance in it.
    """

    observed: Observed
    mean: float
    low: float
    high: float
    at_best: float
    missed: bool

    @property
    def role(self) -> Literal["calibrated", "predicted"]:
        """What the fit has seen is calibrated, what it has not is predicted."""
        return "predicted" if self.observed.held_out else "calibrated"

    @property
    def off(self) -> float:
        """By how many tolerances the best fit is off."""
        return self.observed.off(self.at_best)


@dataclass(frozen=True)
class Inference:
    posterior: Posterior
    unknowns: list[Unknown]
    trades: list[Trade]
    answers: list[Answer]
    next: list[Next]
    left_out: dict[Output, float]
    """By how much the emulator misses a point that it has not seen, of what was observed."""
    noise: dict[Output, float]
    """The deviation that seeds make in a run at the best fit, of what was observed."""


def infer(asked: Fit, emulated: Emulated) -> Inference:
    """What the observations say, before the best fit was run."""
    fitted = [one for one in asked.observed if not one.held_out]
    likelihood = log_likelihood(emulated, fitted)
    found = posterior(likelihood, asked.axes)
    best, along = profiles(likelihood, found)
    unknowns = []
    for index, setting in enumerate(asked.free):
        low, high = found.interval(index)
        at, middle, profile = float(best[index]), found.quantile(index, 0.5), along[index]
        if asked.axes.counts[index]:
            each = tuple(found.probabilities(index).tolist())
            unknowns.append(Unknown(setting, at, middle, low, high, profile, _verdict_of(each), each))
        else:
            unknowns.append(Unknown(setting, at, middle, low, high, profile, _verdict(profile)))
    left_out = {one.output: emulated.emulators[one.output].left_out() for one in asked.observed}
    noise = {
        one.output: float(emulated.emulators[one.output].noise_at(best[None])[0] ** 0.5)
        for one in asked.observed
    }
    return Inference(
        found,
        unknowns,
        _trades(list(asked.free), found),
        _answers(asked.observed, emulated, found, best),
        next_measures(emulated, found, asked.observed),
        left_out,
        noise,
    )


def _verdict(profile: Profile) -> Verdict:
    low, high = profile.interval()
    if high - low >= _UNINFORMED_SHARE:
        return "not identified"
    if low <= 0:
        return "only an upper limit"
    return "only a lower limit" if high >= 1 else "identified"


def _verdict_of(probabilities: Sequence[float]) -> Verdict:
    """Of a list: its values are told apart as far as the least likely ones have a tenth together."""
    if max(probabilities) >= INTERVAL_LEVEL:
        return "identified"
    return "only some ruled out" if len(likely(probabilities)) < len(probabilities) else "not identified"


def likely(probabilities: Sequence[float]) -> list[int]:
    """The fewest values that have 90 % together, the likeliest first."""
    order = sorted(range(len(probabilities)), key=lambda value: -probabilities[value])
    sums = itertools.accumulate(probabilities[value] for value in order)
    return order[: next((count for count, sum_ in enumerate(sums, 1) if sum_ >= INTERVAL_LEVEL), len(order))]


def _trades(settings: Sequence[str], found: Posterior) -> list[Trade]:
    correlation = found.correlation()
    every = [
        Trade(settings[a], settings[b], float(correlation[a, b]))
        for a in range(len(settings))
        for b in range(a + 1, len(settings))
        if abs(correlation[a, b]) >= _TRADE_OFF_CORRELATION
    ]
    return sorted(every, key=lambda one: -abs(one.correlation))


def _answers(observed: Sequence[Observed], emulated: Emulated, found: Posterior, best: Array) -> list[Answer]:
    answers = []
    for one in observed:
        emulator = emulated.emulators[one.output]
        means, variances = emulator.at(found.points)
        variances = variances + emulator.around(found.points, one.runs)
        low, high = _mixed_interval(means, variances, found.weights)
        lowest, highest = _mixed_interval(means, variances + one.tolerance**2, found.weights)
        at_best = float(emulator.at(best[None])[0][0])
        mean = float(found.weights @ means)
        # No metric is below 0, whatever normal distributions have there.
        low = max(0.0, low) if mean >= 0 else low
        missed = one.held_out and not one.within(lowest, highest)
        answers.append(_at_best(Answer(one, mean, low, high, at_best, missed), at_best))
    return answers


def _at_best(answer: Answer, value: float) -> Answer:
    """With what the best fit gives, which must meet what was fitted."""
    answer = answer._replace(at_best=value)
    return (
        answer if answer.observed.held_out else answer._replace(missed=abs(answer.off) > MAX_MISS_TOLERANCES)
    )


def with_runs(found: Inference, at_best: Mapping[Output, float]) -> Inference:
    """The same, once the best fit was run: what runs give stands in place of what the emulator said."""
    answers = [_at_best(one, at_best.get(one.observed.output, one.at_best)) for one in found.answers]
    return replace(found, answers=answers)


def _mixed_interval(means: Array, variances: Array, weights: Array) -> tuple[float, float]:
    """The middle 90 % of normal distributions with weights."""
    low, high = (
        _mixed_quantile(means, variances, weights, share)
        for share in ((1 - INTERVAL_LEVEL) / 2, (1 + INTERVAL_LEVEL) / 2)
    )
    return low, high


def _mixed_quantile(means: Array, variances: Array, weights: Array, share: float) -> float:
    """Of normal distributions with weights."""
    from scipy.special import ndtr

    deviations = np.sqrt(np.maximum(variances, 1e-300))
    low, high = float((means - 10 * deviations).min()), float((means + 10 * deviations).max())
    for _ in range(60):
        middle = (low + high) / 2
        below = float(weights @ ndtr((middle - means) / deviations))
        low, high = (middle, high) if below < share else (low, middle)
    found, least = (low + high) / 2, max(1e-140, 1e-12 * float(np.abs(means).max()))
    return found if abs(found) > least else 0.0  # halving never ends at 0


def next_measures(emulated: Emulated, found: Posterior, observed: Sequence[Observed]) -> list[Next]:
    """The best first; only those that promise something.

    What the lab would see is drawn: a setting of the posterior, its metric with the emulator's spread and
    that of a run. Each is put to all others as if it were an observation. Its tolerance is not known: it is
    taken as relative to the metric as the median of those that were observed (an assumption).
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
