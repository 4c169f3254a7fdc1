"""Published experiments as data: each loads, has its reasons, and runs nothing twice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from pydantic import ValidationError
from synthetic import made_up
from tailback import library
from tailback.metrics import METRICS
from tailback.plan import make_plan
from tailback.results import Result
from tailback.scenario import builtin_names, load
from tailback.study.claims import extra_runs, planned_runs, reproduce
from tailback.study.published import Experiment, load_published

NAME = "roce-rocks"


def test_the_list_of_experiments() -> None:
    assert library.published()[NAME] == "RoCE Rocks without PFC"
    assert library.published()["gpudirect-pfc"] == "Triggering PFC with GPUDirect RDMA"
    assert library.published()["rhcc"] == "Rethinking Intra-host Congestion Control in RDMA Networks"


def settings(sets: Mapping[str, str]) -> list[str]:
    return [f"{path}={value}" for path, value in sets.items()]


@pytest.mark.parametrize("name", library.published())
def test_every_run_and_variant_is_a_scenario_that_loads(name: str) -> None:
    experiment = load_published(name)
    for run in experiment.runs.values():
        assert run.scenario in builtin_names()
        for quick in (False, True):
            load(run.scenario, sets=settings(run.overrides(quick)))
    for item in experiment.sensitivity:
        assert item.assumed is None or item.assumed in item.varied
        run = experiment.runs[item.run]
        for overrides in item.varied.values():
            load(run.scenario, sets=settings({**run.overrides(False), **item.set, **overrides}))
    for (scenario, _), extra in extra_runs(experiment, quick=False).items():
        load(scenario, sets=settings(extra.sets))


def value_at(part: Any, path: str) -> Any:
    for name in path.split("."):
        part = part[int(name)] if name.isdigit() else getattr(part, name)
    return part


@pytest.mark.parametrize("name", library.published())
def test_a_calibrated_value_lies_in_its_spread(name: str) -> None:
    experiment = load_published(name)
    for one, claim in experiment.carried():
        for run in one.runs or claim.runs:
            base = experiment.runs[run]
            values = [{}, *(one.at(value, run) for value in one.between)]
            now, low, high = (
                float(value_at(load(base.scenario, sets=settings({**base.set, **sets})), one.path))
                for sets in values
            )
            assert low <= now <= high, (one.what, run)


@pytest.mark.parametrize("name", library.published())
def test_the_assumed_value_is_what_the_run_has(name: str) -> None:
    experiment = load_published(name)
    for item in experiment.sensitivity:
        if item.assumed is not None:
            run = experiment.runs[item.run]
            varied = {**run.set, **item.set, **item.varied[item.assumed]}
            plans = [make_plan(load(run.scenario, sets=settings(sets))) for sets in (run.set, varied)]
            assert plans[0] == plans[1], item.title


@pytest.mark.parametrize("name", library.published())
def test_every_check_has_a_reason_and_takes_its_parameters(name: str) -> None:
    result = made_up()
    for claim in load_published(name).claims:
        for check in claim.checks:
            assert len(check.why) > 5
            assert isinstance(METRICS[check.metric](result, **check.params), float)


@pytest.mark.parametrize("name", sorted(library.published()))
def test_no_run_is_carried_out_twice_and_each_has_a_bar_of_its_own(name: str) -> None:
    result, asked, told = made_up(), [], dict[str, float]()

    def same(scenario: str, sets: Mapping[str, str], progress: Callable[[float], None]) -> Result:
        asked.append((scenario, *sorted(sets.items())))
        return result

    done = reproduce(name, runner=same, progress=lambda one, share: told.update({one: share}))
    # The bar of the whole counts the runs that are told to be over, by their names.
    assert len(told) == len(asked) == len(set(asked)) == planned_runs(name)
    assert set(told.values()) == {1.0}
    # What a run is shared by has its row in every table.
    for item, variants in done.sensitivity:
        assert [variant.value for variant in variants] == list(item.varied)
    assert len(done.sensitivity) == len(load_published(name).sensitivity)


def test_every_table_is_about_claims_that_there_are() -> None:
    good = load_published(NAME).model_dump(exclude_none=True)
    good["sensitivity"][0]["claims"] = ["C99"]
    with pytest.raises(ValidationError, match="C99"):
        Experiment.model_validate(good)
    good["sensitivity"][0] |= {"claims": ["C1"], "expected": [1.0]}
    with pytest.raises(ValidationError, match="as many as variants"):
        Experiment.model_validate(good)


@pytest.mark.parametrize("name", sorted(library.published()))
def test_each_claim_alone_has_the_runs_that_its_tables_vary(name: str) -> None:
    experiment = load_published(name)
    for claim in experiment.claims:
        part = experiment.only([claim.id])
        assert {item.run for item in part.sensitivity} <= set(part.runs)
        assert planned_runs(name, only=[claim.id]) >= len(part.runs)
