"""Which differences are noise: against figures worked out elsewhere."""

from __future__ import annotations

import math
import random

import pytest
from scipy import stats
from tailback import noise


def test_an_interval_is_students() -> None:
    values = [92.4, 82.4, 90.0, 82.5, 87.3]
    got = noise.interval(values)
    low, high = stats.t.interval(0.95, 4, stats.tmean(values), stats.sem(values))
    assert got == pytest.approx((stats.tmean(values), low, high, 5))


def test_what_has_no_interval() -> None:
    assert noise.interval([math.nan, 3.0])[::3] == (3.0, 1)
    assert math.isnan(noise.interval([3.0]).low)
    assert noise.interval([]).seeds == 0
    assert noise.interval([0.1, 0.1, 0.1]) == (0.1, 0.1, 0.1, 3)  # not a rounding error wide


def test_a_difference_is_paired_by_seed() -> None:
    first = {1: 10.0, 2: 20.0, 3: 30.0, 4: 99.0}
    second = {3: 31.5, 1: 11.0, 2: 21.0, 5: 0.0}
    got = noise.paired(first, second)
    assert got.seeds == 3
    assert got.mean == pytest.approx(3.5 / 3)
    assert got.p == pytest.approx(stats.ttest_rel([11, 21, 31.5], [10, 20, 30]).pvalue)
    assert noise.paired({1: 1.0, 2: 2.0}, {1: 2.0, 2: 3.0}).p == 0
    assert noise.paired({1: 1.0, 2: 2.0}, {1: 1.0, 2: 2.0}).p == 1
    assert math.isnan(noise.paired({1: 1.0}, {1: 2.0}).p)
    assert noise.is_noise(math.nan)


def test_what_only_rounding_tells_apart_is_no_difference() -> None:
    first, second = {1: 0.9, 2: 0.5}, {1: 0.9 - 1.11e-15, 2: 0.5}
    assert noise.paired(first, second) == (0.0, 0.0, 0.0, 2, 1.0)
    # Differences that cancel leave nothing of their own rounding.
    assert noise.paired({1: 1.0, 2: 1.0}, {1: 1.1, 2: 0.9}).mean == 0
    assert noise.paired({1: 1.0, 2: 1.0}, {1: 1 + 1e-9, 2: 1 + 2e-9}).mean == pytest.approx(1.5e-9, rel=1e-6)


def test_holm() -> None:
    # Holm (1979): 0.01 * 4, 0.02 * 3, then never less than the one before.
    assert noise.holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert noise.holm([0.9, math.nan, 0.8])[0::2] == [1.0, 1.0]
    assert math.isnan(noise.holm([0.9, math.nan])[1])


def test_of_many_comparisons_of_nothing_one_in_twenty_families_finds_something() -> None:
    draw = random.Random(1)
    false = 0
    for _ in range(400):
        points = [{seed: draw.gauss(0, 1) for seed in range(5)} for _ in range(4)]
        p = [noise.paired(a, b).p for i, a in enumerate(points) for b in points[i + 1 :]]
        false += not all(map(noise.is_noise, noise.holm(p)))
    assert false < 0.08 * 400
