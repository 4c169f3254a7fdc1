"""Healthy scenarios do not stand still, however short the run."""

from __future__ import annotations

import pytest
import tailback
from tailback.errors import InputError
from tailback.scenario import builtin_names, load

DEADLOCKS = "pfc-deadlock"


@pytest.mark.parametrize("name", [name for name in builtin_names() if name != DEADLOCKS])
def test_no_built_in_scenario_stands_still(name: str) -> None:
    ran = 0
    for duration in ("1ms", "5ms", "60ms"):
        if ran and duration == "60ms":
            break
        try:
            result = tailback.run(name, sets=[f"run.duration={duration}"])
        except InputError:  # its traffic begins later
            continue
        ran += 1
        assert result.faults == []
    # Some begin even later than 60 ms.
    assert ran or load(name).run.duration > 60 * 10**9


def test_one_that_is_in_a_deadlock_does() -> None:
    (fault,) = tailback.run(DEADLOCKS, sets=["run.duration=5ms"]).faults
    assert fault["kind"] == "standing_still"
