"""What a setting does to a metric, and whether that is more than noise.

Two values of a setting are compared over all pairs of points that differ in nothing else. For each seed, the
differences of those pairs are averaged; the seeds are what a test is made over, since runs of one seed are
not independent of each other. All comparisons of a setting's values in a metric are adjusted together.

What a setting does may hang on the others, and the noise with one of their values hide what it does with
another. Where the mean over pairs shows nothing more than noise, each pair of points is compared alone, all
adjusted together.

In a sample hardly any two points differ in a single setting, and there is nothing to pair; each setting is
correlated with the metric instead: Spearman's rank correlation of the points' means, adjusted over the
settings.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

from tailback import noise, text
from tailback.metrics import Metric
from tailback.study.points import Point, in_words, number_of

Verdict = Literal["an effect", "noise", "noise on average", "no difference", "cannot be said"]

BySeed = Callable[[int, Metric], Mapping[int, float]]
"""A metric of a point by seed."""

MOST_VALUES = 24
"""Values of a setting that are compared pair by pair; of more, each with the next."""


class Pair(NamedTuple):
    """Two values of a setting, second less first, and p adjusted for all pairs beside it."""

    first: str
    second: str
    difference: noise.Difference
    adjusted_p: float

    @property
    def is_noise(self) -> bool:
        return noise.is_noise(self.adjusted_p)


class Alone(NamedTuple):
    """A pair of points, and the values of the other settings that both have."""

    others: Point
    pair: Pair


class Effect(NamedTuple):
    """A setting and a metric: every pair of values, or the rank correlation where there are no pairs."""

    setting: str
    shown: Metric
    pairs: list[Pair]
    correlation: float
    adjusted_p: float
    alone: Sequence[Alone] = ()
    """Pairs of points that are more than noise, where no mean over such pairs is."""
    values: int = 2
    """How many values of the setting there are."""
    is_measured: bool = True
    """Whether any run has the metric."""

    @property
    def is_noise(self) -> bool:
        """Whether nothing of it is more than chance."""
        if self.pairs:
            return all(pair.is_noise for pair in self.pairs)
        return noise.is_noise(self.adjusted_p)

    @property
    def _known(self) -> list[Pair]:
        """The pairs of which something can be said."""
        return [pair for pair in self.pairs if pair.difference.seeds > 1]

    @property
    def verdict(self) -> Verdict:
        if not self._known and math.isnan(self.correlation):
            return "cannot be said"
        if self._known and all(pair.difference.low == pair.difference.high == 0 for pair in self._known):
            return "no difference"
        if self.is_noise:
            return "noise on average" if self.alone else "noise"
        return "an effect"

    @property
    def in_words(self) -> str:
        """One line: the verdict, and the largest difference."""
        head, known = f"{self.shown.label}, {self.setting}: {self.verdict}", self._known
        if self.verdict == "cannot be said":
            if not self.is_measured:
                return f"{head}: no run has a value of it."
            if self.values < 2:
                return f"{head}: all points have the same value of {self.setting}."
            if self.pairs and all(not pair.difference.seeds for pair in self.pairs):
                return f"{head}: runs of no two values have a seed in common."
            if self.pairs:
                return f"{head}: a difference needs two seeds."
        if self.verdict in ("cannot be said", "no difference"):
            return f"{head}."
        if not self.pairs:
            return f"{head}. Rank correlation {self.correlation:+.2f}, adjusted p {_p(self.adjusted_p)}."
        real = [pair for pair in known if not pair.is_noise]
        largest = max(real or known, key=lambda pair: abs(pair.difference.mean))
        words = f"{largest.first} to {largest.second} {_difference(self.shown, largest.difference)}"
        why = noise.why_noise(largest.difference, largest.adjusted_p)
        if len(known) == 1:
            return f"{head}. {words}.{why}"
        count = text.plural(len(known), "comparison")
        if not real:
            line = f"{head}. None of {count} is more than chance; the largest, {words}.{why}"
            return f"{line} {self._alone_in_words()}" if self.alone else line
        return f"{head}. More than noise: {len(real)} of {count}; the largest, {words}."

    def _alone_in_words(self) -> str:
        others, pair = max(self.alone, key=lambda one: abs(one.pair.difference.mean))
        words = f"{pair.first} to {pair.second} {_difference(self.shown, pair.difference)}"
        more = f"; and {len(self.alone) - 1:,} more such" if len(self.alone) > 1 else ""
        return f"But with {in_words(others)} an effect: {words}{more}."


def effects(
    points: Sequence[Point], settings: Sequence[str], shown: Sequence[Metric], by_seed: BySeed, sampled: bool
) -> list[Effect]:
    """Of every setting on every metric; `sampled` says that the points are a sample."""
    found = []
    for one in shown:
        is_measured = any(by_seed(number, one) for number in range(len(points)))
        correlated = []
        for setting in settings:
            if not sampled:
                pairs, alone = _pairs(points, setting, one, by_seed)
                values = len(values_of(points, setting))
                found.append(Effect(setting, one, pairs, math.nan, math.nan, alone, values, is_measured))
            else:
                correlated.append((setting, *_correlation(points, setting, one, by_seed)))
        adjusted = noise.holm([p for *_, p in correlated])
        found += [
            Effect(setting, one, [], correlation, p, is_measured=is_measured)
            for (setting, correlation, _), p in zip(correlated, adjusted, strict=True)
        ]
    return found


def values_of(points: Sequence[Point], setting: str) -> list[str]:
    """The values of a setting, in the order of their size where they have one, else of the points."""
    values = list(dict.fromkeys(point[setting] for point in points if setting in point))
    numbers = [number_of(value) for value in values]
    if all(not isinstance(number, str) for number in numbers):
        return [value for _, value in sorted(zip(numbers, values, strict=True))]
    return values


def _pairs(
    points: Sequence[Point], setting: str, shown: Metric, by_seed: BySeed
) -> tuple[list[Pair], list[Alone]]:
    """Every pair of values; and, where all of these are noise, the pairs of points that are more."""
    beside: dict[tuple[tuple[str, str], ...], dict[str, int]] = {}
    for number, point in enumerate(points):
        if setting in point:
            others = tuple(sorted((path, value) for path, value in point.items() if path != setting))
            beside.setdefault(others, {})[point[setting]] = number
    values = values_of(points, setting)
    few = len(values) <= MOST_VALUES
    compared = list(itertools.combinations(values, 2) if few else itertools.pairwise(values))
    found = []
    for first, second in compared:
        both = [
            (group[first], group[second]) for group in beside.values() if first in group and second in group
        ]
        if both:
            ends = [_mean_by_seed([pair[side] for pair in both], shown, by_seed) for side in (0, 1)]
            found.append((first, second, noise.paired(*ends)))
    pairs = _adjusted(found)
    if len(beside) < 2 or not all(pair.is_noise for pair in pairs):
        return pairs, []
    single = [
        (others, first, second, noise.paired(*(by_seed(group[one], shown) for one in (first, second))))
        for others, group in beside.items()
        for first, second in compared
        if first in group and second in group
    ]
    adjusted = _adjusted([(first, second, difference) for _, first, second, difference in single])
    alone = [Alone(dict(others), pair) for (others, *_), pair in zip(single, adjusted, strict=True)]
    return pairs, [one for one in alone if not one.pair.is_noise]


def _adjusted(found: Sequence[tuple[str, str, noise.Difference]]) -> list[Pair]:
    adjusted = noise.holm([difference.p for *_, difference in found])
    return [Pair(*one, p) for one, p in zip(found, adjusted, strict=True)]


def _mean_by_seed(points: Sequence[int], shown: Metric, by_seed: BySeed) -> dict[int, float]:
    """Over points, for each seed that all of them have."""
    each = [by_seed(point, shown) for point in points]
    seeds = set.intersection(*(set(one) for one in each))
    return {seed: math.fsum(one[seed] for one in each) / len(each) for seed in seeds}


def _correlation(
    points: Sequence[Point], setting: str, shown: Metric, by_seed: BySeed
) -> tuple[float, float]:
    from scipy.stats import spearmanr  # takes half a second to load

    pairs = []
    for number, point in enumerate(points):
        value = number_of(point[setting]) if setting in point else ""
        mean = noise.interval(list(by_seed(number, shown).values())).mean
        if not isinstance(value, str) and math.isfinite(mean):
            pairs.append((value, mean))
    if len(pairs) < 3 or any(len(set(column)) < 2 for column in zip(*pairs, strict=True)):
        return math.nan, math.nan
    done = spearmanr([a for a, _ in pairs], [b for _, b in pairs])
    return float(done.statistic), float(done.pvalue)


def _difference(shown: Metric, difference: noise.Difference) -> str:
    words = [_signed(shown, value) for value in (difference.mean, difference.low, difference.high)]
    seeds = text.plural(difference.seeds, "seed")
    if words[1] == words[2]:
        return f"{words[0]} (the same with each of {seeds})"
    return f"{words[0]} (95 % interval {words[1]} to {words[2]}, {seeds})"


def _signed(shown: Metric, value: float) -> str:
    unit = shown.unit
    amount = text.significant(abs(value)) if unit in ("index", "count") else text.by_unit(abs(value), unit)
    return f"{'-' if value < 0 else '+'}{amount}" if value else amount


def _p(value: float) -> str:
    return "below 0.001" if value < 0.001 else f"{value:.2g}"
