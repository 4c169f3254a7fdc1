"""Emulators: what a metric would be at settings that were not run, and how sure that is.

A Gaussian process over the free settings, each as a share of its prior's range, with a Matérn kernel that has
a length for each of them (Rasmussen, Williams: Gaussian Processes for Machine Learning, MIT Press 2006, 4.2
and 5.4.1). It goes through the means over seeds as far as the noise of the seeds allows. A setting that is
one of a list has a length for each value: whether these have anything in common is learnt, too. Where all
are lists, every point there is was run, and nothing is between them.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tailback.errors import InputError
from tailback.recorded.bins import Array
from tailback.study.fit_design import Output
from tailback.study.priors import Axes

_OPTIMISER_RESTARTS = 2
_NOISE_LENGTH_SHARE = 0.2
"""How far, as a share of a prior's range, seeds make about the same noise (an assumption)."""
_POOLED_NOISE_WEIGHT = 0.5
"""What the noise of all points counts for, in degrees of freedom, where hardly any is near."""
_FLAT_RELATIVE_SPREAD = 1e-9
"""A metric that differs by less, relative to itself, is the same everywhere."""


class Emulator:
    """Of one output, made of values at points (rows) and seeds (columns), NaN where there is none."""

    def __init__(self, axes: Axes, points: Array, values: Array) -> None:
        """At least as many points as `emulate` wants must have a value."""
        self._axes = axes
        points = axes.columns(points)
        known = np.isfinite(values).any(axis=1)
        self._points, values = points[known], values[known]
        self.means: Array = np.nanmean(values, axis=1)
        counts = np.isfinite(values).sum(axis=1)
        self._freedom: Array = (counts - 1).astype(float)
        self._spread: Array = np.nansum((values - self.means[:, None]) ** 2, axis=1)
        scale = float(np.abs(self.means).max()) or 1.0
        self.flat: bool = bool(np.ptp(self.means) <= _FLAT_RELATIVE_SPREAD * scale)
        """Whether no free setting makes a difference to it."""
        every = self._noise_at(self._points)
        alike = _alike(values, every)
        self._common = alike / values.shape[1] * _of_few(values.shape[1])
        self._noise = (1 - alike) * every / counts
        self._process = None
        if not (self.flat or axes.only_lists):
            self._process = _process(self._points, self.means, self._noise)

    def at(self, points: Array) -> tuple[Array, Array]:
        """The mean of all seeds at points, and the variance of what the emulator says of it."""
        points = self._axes.columns(points)
        if self.flat:
            variance = float(self._noise.mean() / len(self._noise))
            return np.full(len(points), self.means.mean()), np.full(len(points), variance)
        if self._process is None:
            from scipy.spatial.distance import cdist

            same = cdist(points, self._points).argmin(axis=1)
            return self.means[same], self._noise[same]
        mean, deviation = self._process.predict(points, return_std=True)
        return np.asarray(mean), np.asarray(deviation) ** 2

    def noise_at(self, points: Array) -> Array:
        """The variance that seeds make in a single run: that of the points near by, and a little of all with
        the same values of lists, of which another may do away with it.
        """
        return self._noise_at(self._axes.columns(points))

    def _noise_at(self, points: Array) -> Array:
        from scipy.spatial.distance import cdist

        alike = self._axes.alike(points, self._points)
        near = alike * np.exp(-0.5 * cdist(points, self._points, "sqeuclidean") / _NOISE_LENGTH_SHARE**2)
        alike = np.where(alike @ self._freedom[:, None] > 0, alike, 1.0)  # without any, those of all
        freedom, spread = alike @ self._freedom, alike @ self._spread
        everywhere = np.divide(spread, freedom, out=np.zeros_like(spread), where=freedom > 0)
        return np.asarray(
            (near @ self._spread + _POOLED_NOISE_WEIGHT * everywhere)
            / (near @ self._freedom + _POOLED_NOISE_WEIGHT)
        )

    def around(self, points: Array, runs: int) -> Array:
        """The variance of a mean over `runs` runs around what `at` gives.

        All points have the same seeds: what these do to all of them alike stays in every mean of the
        emulator, however many points there are.
        """
        return np.asarray(self.noise_at(points) * (1 / runs + self._common))

    def left_out(self) -> float:
        """The root of the mean square by which it misses a point that was left out (Rasmussen, Williams,
        5.4.2): how far it can be relied on.
        """
        if self._process is None:
            return 0.0
        from scipy.linalg import cho_solve

        inverse = cho_solve((self._process.L_, True), np.eye(len(self.means)))
        missed = inverse @ self._process.y_train_ / np.diag(inverse)
        return float(np.sqrt(np.mean(missed**2)) * self._process._y_train_std)


def _alike(values: Array, noise: Array) -> float:
    """The share of the noise that a seed makes at all points alike: the variance of its mean over points."""
    usable = np.isfinite(values).all(axis=1) & (noise > 0)
    count, seeds = int(usable.sum()), values.shape[1]
    if count < 2 or seeds < 2:
        return 1.0
    away = values[usable] - values[usable].mean(axis=1, keepdims=True)
    of_seeds = (away / np.sqrt(noise[usable])[:, None]).mean(axis=0)
    # Of points that have nothing in common the mean still has the variance of 1 / count.
    common = float((of_seeds**2).sum()) / (seeds - 1) - 1 / count
    return float(np.clip(common / (1 - 1 / count), 0.0, 1.0))


def _of_few(seeds: int) -> float:
    """What makes the 90 % interval of a normal distribution as wide as Student's t of `seeds` values."""
    from scipy.special import ndtri, stdtrit

    return float(stdtrit(max(1, seeds - 1), 0.95) / ndtri(0.95)) ** 2


def _process(points: Array, means: Array, variances: Array) -> Any:
    # A third of a second to load, and an extra: only a fit needs it.
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

    lengths = [0.5] * points.shape[1]  # also of a value of a list: 1 from the others
    smooth = ConstantKernel(1.0, (1e-2, 1e3)) * Matern(lengths, (0.05, 20.0), nu=2.5)
    # What is not smooth, such as a step of a discrete setting, is noise to it, and makes it less sure.
    kernel = smooth + WhiteKernel(1e-4, (1e-8, 1e-1))
    process = GaussianProcessRegressor(
        kernel,
        alpha=variances / means.var() + 1e-10,
        normalize_y=True,
        n_restarts_optimizer=_OPTIMISER_RESTARTS,
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a length at its bound: it does not matter
        return process.fit(points, means)


@dataclass(frozen=True)
class Emulated:
    """Emulators of all outputs that runs gave, and how the seeds move them together."""

    emulators: Mapping[Output, Emulator]
    correlation: Mapping[tuple[Output, Output], float]

    def correlation_of(self, outputs: Sequence[Output]) -> Array:
        """What seeds have in common in several outputs, of a single run of each condition."""
        size, way = np.linalg.eigh(np.array([[self.correlation[a, b] for b in outputs] for a in outputs]))
        return np.asarray(way * np.maximum(size, 0) @ way.T)  # made of pairs, it may be none without


def emulate(axes: Axes, points: Array, values: Mapping[Output, Array], needed: Sequence[Output]) -> Emulated:
    """Emulators of outputs, given as values at points and seeds; of those not `needed` as far as can be.

    Raises:
        InputError: too few runs gave a value of one that is needed.
    """
    from threadpoolctl import threadpool_limits  # scikit-learn has it

    fewest = axes.combinations if axes.only_lists else axes.degrees() + 2
    emulators: dict[Output, Emulator] = {}
    with threadpool_limits(1):  # matrices of a few dozen rows: more threads only wait for each other
        for output, table in values.items():
            known = int(np.isfinite(table).any(axis=1).sum())
            if known >= fewest:
                emulators[output] = Emulator(axes, points, table)
            elif output in needed:
                text = f"found {known} points of {len(points)} with a value, expected at least {fewest}"
                raise InputError.at(output.shown.label, text)
    moved = {output: _moved(points, values[output], one) for output, one in emulators.items()}
    correlation = {(a, b): _together(a, moved[a], b, moved[b]) for a in emulators for b in emulators}
    return Emulated(emulators, correlation)


def _moved(points: Array, values: Array, emulator: Emulator) -> Array:
    """How far each seed is from the mean of its point, in deviations."""
    known = np.isfinite(values).all(axis=1)
    moved = np.full(values.shape, np.nan)
    deviation = np.sqrt(emulator.noise_at(points[known]))[:, None]
    away = values[known] - values[known].mean(axis=1, keepdims=True)
    moved[known] = np.divide(away, deviation, out=np.zeros_like(away), where=deviation > 0)
    return moved


def _together(one: Output, first: Array, other: Output, second: Array) -> float:
    """The correlation that seeds make between two outputs. Those of two conditions are of two runs."""
    if one == other:
        return 1.0
    if one.condition != other.condition:
        return 0.0
    product = float(np.nansum(first * second))
    whole = np.isfinite(first * second)
    size = float(np.sqrt((first[whole] ** 2).sum() * (second[whole] ** 2).sum()))
    return product / size if size else 0.0
