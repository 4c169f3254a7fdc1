"""What observations say of the free settings: the posterior, and the profile of the likelihood.

Settings are shares of their prior's range, in which the prior is even. An observation is taken as a single
run of the emulated scenario with the lab's own error: its variance is the sum of its tolerance's, of the
seeds' and of the emulator's (Kennedy, O'Hagan: Bayesian Calibration of Computer Models, JRSS B 63, 2001,
without a term for what the model itself lacks).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from tailback.recorded.bins import Array
from tailback.study.emulator import Emulated
from tailback.study.fit_design import Observed
from tailback.study.priors import Axes

INTERVAL_LEVEL = 0.9
"""Of all intervals."""

LogLikelihood = Callable[[Array], Array]

_GRID_CELLS_PER_SIDE = {0: 1, 1: 400, 2: 80}
"""A side of the grid, by how many settings are ranges."""
_MOST_CELLS = 100_000
_PARTICLES = 1024
_MOVES_PER_STEP = 8
_LAST_MOVES = 24
_POINTS_PER_BATCH = 20_000
_RANDOM_SEED = 1


def log_likelihood(emulated: Emulated, observed: Sequence[Observed]) -> LogLikelihood:
    """Of the observations, as a function of points (rows)."""
    limits = [one for one in observed if one.bound != "value"]
    observed = [one for one in observed if one.bound == "value"]
    outputs = [one.output for one in observed]
    correlation = emulated.correlation_of(outputs) if outputs else np.empty((0, 0))
    runs = [one.runs for one in observed]
    values = np.array([one.value for one in observed])
    tolerances = np.array([one.tolerance for one in observed])

    def some(points: Array) -> Array:
        kept = np.zeros(len(points))
        for one in limits:
            kept += _kept(emulated, one, points)
        return kept + measured(points) if outputs else kept

    def measured(points: Array) -> Array:
        emulators = [emulated.emulators[output] for output in outputs]
        said = [emulator.at(points) for emulator in emulators]
        around = [emulator.around(points, count) for emulator, count in zip(emulators, runs, strict=True)]
        noise = np.sqrt(np.stack(around, axis=1))
        missed = (values - np.stack([mean for mean, _ in said], axis=1)) / tolerances
        # In tolerances, so that outputs of any size can stand in one matrix.
        variance = np.stack([variance for _, variance in said], axis=1) / tolerances**2
        noise /= tolerances
        matrix = correlation * noise[:, :, None] * noise[:, None, :]
        matrix += np.eye(len(outputs)) * (1 + variance)[:, :, None]
        root = np.linalg.cholesky(matrix)
        solved = np.linalg.solve(root, missed[:, :, None])[:, :, 0]
        size = np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
        return np.asarray(-0.5 * (solved**2).sum(axis=1) - size)

    def every(points: Array) -> Array:
        parts = [
            some(points[start : start + _POINTS_PER_BATCH])
            for start in range(0, len(points), _POINTS_PER_BATCH)
        ]
        return np.concatenate(parts)

    return every


def _kept(emulated: Emulated, one: Observed, points: Array) -> Array:
    """The logarithm of the probability that the lab's figure keeps to its limit. What seeds have in common
    with other metrics is left out.
    """
    from scipy.special import log_ndtr

    emulator = emulated.emulators[one.output]
    mean, variance = emulator.at(points)
    deviation = np.sqrt(variance + emulator.around(points, one.runs) + one.tolerance**2)
    sign = 1 if one.bound == "at_most" else -1
    return np.asarray(log_ndtr(sign * (one.value - mean) / deviation))


@dataclass(frozen=True)
class Posterior:
    """Points with weights that sum to 1: cells of a grid, or draws."""

    axes: Axes
    points: Array
    weights: Array

    def probabilities(self, unknown: int) -> Array:
        """Of each value of a list."""
        chosen = self.axes.chosen(self.points, unknown)
        weights = np.bincount(chosen, self.weights, minlength=self.axes.counts[unknown])
        return np.asarray(weights, dtype=np.float64)

    def quantile(self, unknown: int, share: float) -> float:
        order = np.argsort(self.points[:, unknown], kind="stable")
        below = np.cumsum(self.weights[order]) - self.weights[order] / 2
        return float(np.interp(share, below, self.points[order, unknown]))

    def interval(self, unknown: int) -> tuple[float, float]:
        return self.quantile(unknown, (1 - INTERVAL_LEVEL) / 2), self.quantile(
            unknown, (1 + INTERVAL_LEVEL) / 2
        )

    def variance(self) -> Array:
        return np.asarray(self.weights @ (self.points - self.weights @ self.points) ** 2)

    def correlation(self) -> Array:
        """Between settings; 0 of one that has no spread. Of a list it is that of the value for which it is
        largest, and without a sign.
        """
        columns, owners = self.axes.columns(self.points), np.array(self.axes.owners())
        every = self._correlation(columns)
        if not self.axes.listed:
            return every
        count = len(self.axes.counts)
        together = np.empty((count, count))
        for one in range(count):
            for other in range(count):
                block = every[np.ix_(owners == one, owners == other)]
                lists = self.axes.counts[one] or self.axes.counts[other]
                together[one, other] = np.abs(block).max() if lists else block[0, 0]
        return together

    def _correlation(self, columns: Array) -> Array:
        away = columns - self.weights @ columns
        covariance: Array = (away * self.weights[:, None]).T @ away
        size = np.sqrt(np.diag(covariance))
        together = np.outer(size, size)
        return np.asarray(np.divide(covariance, together, out=np.zeros_like(covariance), where=together > 0))

    def drawn(self, count: int) -> Array:
        """Points as often as their weights say, the same ones each time."""
        steps = (np.arange(count) + 0.5) / count
        chosen = np.searchsorted(np.cumsum(self.weights), steps).clip(max=len(self.weights) - 1)
        return np.asarray(self.points[np.random.default_rng(_RANDOM_SEED).permutation(chosen)])


def posterior(likelihood: LogLikelihood, axes: Axes) -> Posterior:
    """On a grid for one or two ranges, by a sampler for more; at every combination of values of lists."""
    ranges = len(axes.counts) - len(axes.listed)
    fits = (
        ranges in _GRID_CELLS_PER_SIDE
        and axes.combinations * _GRID_CELLS_PER_SIDE[ranges] ** ranges <= _MOST_CELLS
    )
    return _on_grid(likelihood, axes) if fits else _sampled(likelihood, axes)


def _on_grid(likelihood: LogLikelihood, axes: Axes) -> Posterior:
    """The grid is laid again where the weight is, until it is not much smaller than before. Of lists it has
    all values.
    """
    unknowns = len(axes.counts)
    cells = np.array([count or _GRID_CELLS_PER_SIDE[unknowns - len(axes.listed)] for count in axes.counts])
    ranges = np.array([not count for count in axes.counts])
    low, high = np.zeros(unknowns), np.ones(unknowns)
    while True:
        sides = [
            a + (b - a) * (np.arange(n) + 0.5) / n for a, b, n in zip(low, high, cells.tolist(), strict=True)
        ]
        points = np.stack([side.ravel() for side in np.meshgrid(*sides, indexing="ij")], axis=1)
        found = likelihood(points)
        weights = np.exp(found - found.max())
        there = points[weights > 1e-7]
        step = (high - low) / cells
        new_low = np.where(ranges, np.maximum(0, there.min(axis=0) - step), 0)
        new_high = np.where(ranges, np.minimum(1, there.max(axis=0) + step), 1)
        if np.all(new_high - new_low > 0.5 * (high - low)):
            return Posterior(axes, points, weights / weights.sum())
        low, high = new_low, new_high


def _sampled(likelihood: LogLikelihood, axes: Axes) -> Posterior:
    """Sequential Monte Carlo (Del Moral, Doucet, Jasra, JRSS B 68, 2006): draws of the prior are taken to the
    posterior in steps, each half as many of them wide, and spread again by Metropolis moves. The value of a
    list is drawn anew in half of them.
    """
    from scipy.stats import qmc

    unknowns = len(axes.counts)
    rng = np.random.default_rng(_RANDOM_SEED)
    points = qmc.Sobol(unknowns, rng=np.random.default_rng(_RANDOM_SEED)).random(_PARTICLES * 8)
    found = likelihood(points)
    share, kept = 0.0, []
    while share < 1:
        step = _next_step(found, 1 - share)
        weights = np.exp(step * (found - found.max()))
        share = 1.0 if step >= 1 - share else share + step
        chosen = rng.choice(len(points), _PARTICLES, p=weights / weights.sum())
        points, found = points[chosen], found[chosen]
        root = np.linalg.cholesky(np.cov(points.T) + 1e-12 * np.eye(unknowns)) * 2.38 / np.sqrt(unknowns)
        for move in range(_MOVES_PER_STEP if share < 1 else _LAST_MOVES):
            # A third of the best size, too: where the posterior is bent, large steps leave it.
            size = (1.0, 0.3)[move % 2]
            asked = points + size * rng.standard_normal(points.shape) @ root.T
            for unknown in axes.listed:
                asked[:, unknown] = np.where(
                    rng.random(len(points)) < 0.5, rng.random(len(points)), points[:, unknown]
                )
            inside = np.all((asked >= 0) & (asked <= 1), axis=1)
            there = np.where(inside, likelihood(asked.clip(0, 1)), -np.inf)
            moved = np.log(rng.random(len(points))) < share * (there - found)
            points, found = np.where(moved[:, None], asked, points), np.where(moved, there, found)
            if share == 1 and move % 4 == 3:
                kept.append(points)
    draws = np.concatenate(kept)
    return Posterior(axes, draws, np.full(len(draws), 1 / len(draws)))


def _next_step(found: Array, most: float) -> float:
    """How much further the likelihood may count, so that the draws are worth half as many, or one each."""

    def worth(step: float) -> float:
        weights = np.exp(step * (found - found.max()))
        return float(weights.sum() ** 2 / (weights**2).sum())

    wanted = min(len(found) / 2, _PARTICLES)
    if worth(most) >= wanted:
        return most
    low, high = 0.0, most
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if worth(middle) >= wanted else (low, middle)
    return max(low, most * 1e-9)


class Profile(NamedTuple):
    """The best log likelihood at each value of one setting, less that of the best fit."""

    values: Array
    log_likelihood: Array

    def interval(self) -> tuple[float, float]:
        """Where twice the difference is within chi square's 90 % of one degree of freedom, end to end."""
        from scipy.special import chdtri

        allowed = -0.5 * float(chdtri(1, 1 - INTERVAL_LEVEL))
        inside = np.flatnonzero(self.log_likelihood >= allowed)
        return self._crossing(inside[0], -1, allowed), self._crossing(inside[-1], 1, allowed)

    def _crossing(self, index: int, way: int, allowed: float) -> float:
        if not 0 <= index + way < len(self.values):
            return float(self.values[index])
        x, beyond = (float(self.values[one]) for one in (index, index + way))
        y, less = (float(self.log_likelihood[one]) for one in (index, index + way))
        return x + (beyond - x) * (y - allowed) / (y - less)


def profiles(likelihood: LogLikelihood, found: Posterior) -> tuple[Array, list[Profile]]:
    """The point of the largest likelihood, and the profile of each setting.

    At each value the others are searched at random, ever closer to the best so far.
    """
    count = found.points.shape[1]
    starts = found.drawn(24)
    raw = []
    best = starts[:1]
    for unknown in range(count):
        if found.axes.counts[unknown]:
            values = found.axes.values(unknown)
        else:
            middle, reach = found.quantile(unknown, 0.5), 3 * float(np.sqrt(found.variance()[unknown]))
            near = np.linspace(max(0.0, middle - reach), min(1.0, middle + reach), 41)
            values = np.unique(np.concatenate([np.linspace(0, 1, 41), near]))
        points, logs = _along(likelihood, starts, unknown, values)
        raw.append((values, logs))
        top = points[[int(np.argmax(logs))]]
        if likelihood(top)[0] > likelihood(best)[0]:
            best = top
    highest = max(float(logs.max()) for _, logs in raw)
    return best[0], [Profile(values, logs - highest) for values, logs in raw]


def _along(likelihood: LogLikelihood, starts: Array, unknown: int, values: Array) -> tuple[Array, Array]:
    """The best point at each value of one setting, and its likelihood."""
    rng = np.random.default_rng(_RANDOM_SEED)
    others = np.concatenate([starts, rng.random((40, starts.shape[1]))])
    best, logs = np.empty((len(values), starts.shape[1])), np.full(len(values), -np.inf)
    size = 0.5
    for round_ in range(1 if starts.shape[1] == 1 else 7):
        if round_ == 0:
            asked = np.repeat(others[None], len(values), axis=0)
        else:
            size *= 0.5
            noise = rng.standard_normal((len(values), 24, starts.shape[1])) * size
            asked = (best[:, None] + noise).clip(0, 1)
            # What is best at a neighbour may be best here, too: a ridge is followed.
            asked = np.concatenate(
                [asked, np.roll(best, 1, axis=0)[:, None], np.roll(best, -1, axis=0)[:, None]], axis=1
            )
        asked[:, :, unknown] = values[:, None]
        if starts.shape[1] == 1:
            asked = asked[:, :1]
        there = likelihood(asked.reshape(-1, starts.shape[1])).reshape(asked.shape[:2])
        chosen = there.argmax(axis=1)
        row = np.arange(len(values))
        better = there[row, chosen] > logs
        best[better], logs[better] = asked[row, chosen][better], there[row, chosen][better]
    return best, logs
