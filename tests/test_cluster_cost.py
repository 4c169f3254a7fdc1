"""The model of a large cluster that the book has."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))

from many_runs_cost import NOTHING, Costs, Study, overhead, simulated


def test_without_costs_cores_are_busy_to_the_end() -> None:
    came = simulated(10, Study(5000, 5, 2.0, 0.0), NOTHING)
    assert came.wall_s == pytest.approx(1000)
    assert came.head_busy == 0


def test_a_head_that_is_always_busy_sets_the_pace() -> None:
    costs = NOTHING._replace(task=0.01)
    came = simulated(1000, Study(5000, 5, 0.1), costs)
    assert came.wall_s == pytest.approx(50, rel=0.02)
    assert came.head_busy > 0.98


def test_the_aim_of_one_in_a_hundred() -> None:
    longer, came = overhead(1000, Study(100_000, 5, 2.0), Costs())
    assert longer < 0.01
    assert came.head_busy < 1
