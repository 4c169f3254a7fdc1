"""What a sweep is to run: a file (or its options), and the points and seeds that it stands for."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from tailback.errors import InputError, one_of
from tailback.files import StrictModel
from tailback.limits import MAX_SWEEP_RUNS
from tailback.metrics import Metric, named
from tailback.metrics.slowdown import FLOWS_CUT_OFF
from tailback.seeds import parse
from tailback.sweeps.asked import Asked
from tailback.sweeps.points import Point, Range, Sample, as_text, combine, kept

Scalar = str | int | float | bool | None
Value = Scalar | list[Any] | dict[str, Any]


class Design(StrictModel):
    """A sweep as it was asked for."""

    scenario: str | dict[str, Any]
    """A built-in scenario, a file, or the scenario itself."""
    about: str = ""
    set: dict[str, Value] = Field(default_factory=dict)
    """Settings of all points."""
    vary: dict[str, list[Value] | Range] = Field(default_factory=dict)
    """Values of each setting: a list, or a range. All are combined, or sampled."""
    points: list[dict[str, Value]] = Field(default_factory=list)
    """Settings of one point each; what `vary` holds goes on top of each."""
    sample: Sample | None = None
    where: list[str] = Field(default_factory=list)
    """Conditions: only points that meet all of them are run."""
    seeds: str | int | list[int] = "1..5"
    measures: list[str | dict[str, Any]] = Field(default_factory=list)
    pareto: dict[str, Literal["more", "less"]] = Field(default_factory=dict)
    """Two of the measures, and which way each is better."""
    keep: bool = False
    """Whether the folder of each run is kept."""
    store: str | None = None
    """URL of a storage that gets the tables, and from workers the folders of runs."""

    @model_validator(mode="after")
    def _two_for_a_front(self) -> Design:
        if self.pareto and len(self.pareto) != 2:
            raise ValueError("pareto: found other than two measures, expected two")
        return self

    @property
    def name(self) -> str:
        """What the folder is called after."""
        name = self.scenario.get("name") if isinstance(self.scenario, dict) else Path(self.scenario).stem
        return f"{name or 'sweep'}-sweep"

    @property
    def sets(self) -> list[str]:
        """The settings of all points, as after --set."""
        return [f"{setting}={as_text(value)}" for setting, value in self.set.items()]

    def seeds_in_order(self) -> list[int]:
        """The seeds, each once. InputError when they are none."""
        given = self.seeds if not isinstance(self.seeds, list) else ",".join(map(str, self.seeds))
        return parse(str(given))

    def all_points(self) -> list[Point]:
        """Every point that meets the conditions, once, in order.

        Raises:
            InputError: none, more than can be run, a range or a condition that cannot be.
        """
        every = combine(self.vary, self.points, self.sample)
        for part, settings in (("set", [self.set]), ("vary", [self.vary]), ("points", self.points)):
            if any("run.seed" in one for one in settings):
                text = "found run.seed, expected it in seeds"
                raise InputError.at("", text, (part,))
        points = kept(every, self.where, self.set)
        if not points:
            text = f"found no point of {len(every)} that meets all, expected at least one"
            raise InputError.at("", text, ("where",))
        runs = len(points) * len(self.seeds_in_order())
        if runs > MAX_SWEEP_RUNS:
            text = f"found {runs:,} runs, expected at most {MAX_SWEEP_RUNS:,}"
            raise InputError.at("", text, ("vary",))
        return points

    def shown(self) -> list[Metric]:
        """The measures. InputError when there is none of a name."""
        every = named(self.measures)
        if any(one.path[:1] == FLOWS_CUT_OFF.path[:1] for one in every) and FLOWS_CUT_OFF not in every:
            every.append(FLOWS_CUT_OFF)  # figures of completion mean little without it
        labels = [one.label for one in every]
        for name, label in zip(self.pareto, self.front, strict=True):
            if label not in labels:
                raise InputError.at("", f"found {name}, expected {one_of(name, labels)}", ("pareto", name))
        return every

    @property
    def front(self) -> dict[str, Literal["more", "less"]]:
        """`pareto` by the titles of its measures, which may be given by their names, too."""
        return {_title(name): way for name, way in self.pareto.items()}


def _title(name: str) -> str:
    try:
        return named([name])[0].label
    except InputError:
        return name


def read_design(source: str | os.PathLike[str] | Mapping[str, Any]) -> Design:
    """A sweep from a file or from plain data. A scenario's file is looked for beside that of the sweep.

    Raises:
        InputError: with all problems, a line each.
    """
    asked = Asked.read(source, "a sweep")
    design = asked.as_a(Design)
    with asked.placing():
        design.seeds_in_order()
        design.all_points()
        design.shown()
    return design.model_copy(update={"scenario": asked.beside(design.scenario)})


def canonical(design: Design) -> str:
    """A design as a line that `read_design` takes again, with everything in its order."""
    return json.dumps(design.model_dump(mode="json"), allow_nan=False)
