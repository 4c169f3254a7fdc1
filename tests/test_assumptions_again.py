"""A scenario that a run wrote to its folder rests on the same assumptions as that run."""

from __future__ import annotations

from pathlib import Path

import pytest
import tailback
from tailback.library import names
from tailback.scenario import load
from tailback.scenario.assumptions import assumptions
from tailback.scenario.show import input_names, resolved_yaml, with_defaults


@pytest.mark.parametrize("name", sorted(names()))
def test_a_resolved_scenario_has_the_assumptions_of_the_one_it_was_made_of(name: str, tmp_path: Path) -> None:
    scenario = load(name)
    for own, copy in input_names(scenario).items():
        (tmp_path / copy).parent.mkdir(exist_ok=True)
        (tmp_path / copy).write_bytes(scenario.inputs[own])
    (tmp_path / "scenario.yaml").write_text(resolved_yaml(scenario))
    again = load(tmp_path / "scenario.yaml")
    first = assumptions(with_defaults(scenario, input_names(scenario)))
    assert first
    assert assumptions(with_defaults(again, input_names(again))) == first


@pytest.mark.parametrize("name", ["roce-incast-lossless", "leaf-spine-websearch", "gpudirect-pfc"])
def test_the_scenario_of_a_folder_repeats_the_run(name: str, tmp_path: Path) -> None:
    first = tailback.run(name, sets=["run.duration=200us"], out=tmp_path / "one", report=False)
    again = tailback.run(tmp_path / "one/scenario.yaml", report=False)
    assert again.assumptions == first.assumptions
    assert again.flows.equals(first.flows)
