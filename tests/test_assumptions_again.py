"""A scenario that a run wrote to its folder rests on the same assumptions as that run."""

from __future__ import annotations

from pathlib import Path

import pytest
import tailback


@pytest.mark.parametrize("name", ["roce-incast-lossless", "tcp-incast", "cc-incast", "leaf-spine-websearch"])
def test_the_scenario_of_a_folder_has_the_assumptions_of_its_run(name: str, tmp_path: Path) -> None:
    first = tailback.run(name, sets=["run.duration=200us"], out=tmp_path / "one", report=False)
    again = tailback.run(tmp_path / "one/scenario.yaml", report=False)
    assert first.assumptions
    assert again.assumptions == first.assumptions
    assert again.flows.equals(first.flows)
