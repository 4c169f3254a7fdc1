"""What a sweep is asked to be: its points, seeds and metrics."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator
from tailback.errors import InputError, one_of
from tailback.limits import MAX_SWEEP_RUNS
from tailback.metrics import Metric, named
from tailback.metrics.slowdown import FLOWS_CUT_OFF
from tailback.study.points import Point, Range, Sample, Value, combine, kept, sets_of
from tailback.study.study_file import (
    Source,
    StudyDesign,
    StudyFile,
    name_of,
    seeds_of,
)


class Design(StudyDesign):
    FILE = "sweep.json"
    WHAT = "a sweep"

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
    metrics: list[str | dict[str, Any]] = Field(default_factory=list)
    pareto: dict[str, Literal["more", "less"]] = Field(default_factory=dict)
    """Two of the metrics, and which way each is better."""
    keep: bool = False
    """Whether the folder of each run is kept."""
    store: str | None = None
    """URL of a storage that gets the tables, and from workers the folders of runs."""

    @model_validator(mode="after")
    def _two_for_a_front(self) -> Design:
        if self.pareto and len(self.pareto) != 2:
            raise ValueError("pareto: found other than two metrics, expected two")
        return self

    @property
    def name(self) -> str:
        return f"{name_of(self.scenario) or 'sweep'}-sweep"

    @property
    def sets(self) -> list[str]:
        """The settings of all points, as after --set."""
        return sets_of(self.set)

    def seeds_in_order(self) -> list[int]:
        return seeds_of(self.seeds)

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
        every = named(self.metrics)
        if any(one.path[:1] == FLOWS_CUT_OFF.path[:1] for one in every) and FLOWS_CUT_OFF not in every:
            every.append(FLOWS_CUT_OFF)  # figures of completion mean little without it
        labels = [one.label for one in every]
        for name, label in zip(self.pareto, self.front, strict=True):
            if label not in labels:
                raise InputError.at("", f"found {name}, expected {one_of(name, labels)}", ("pareto", name))
        return every

    @property
    def front(self) -> dict[str, Literal["more", "less"]]:
        """`pareto` by the titles of its metrics, which may be given by their names, too."""
        return {_title(name): way for name, way in self.pareto.items()}


def _title(name: str) -> str:
    try:
        return named([name])[0].label
    except InputError:
        return name


def read_design(source: Source) -> Design:
    """A sweep from a file or from plain data. A scenario's file is looked for beside that of the sweep.

    Raises:
        InputError: with all problems, a line each.
    """
    asked = StudyFile.read(source, Design.WHAT)
    design = asked.as_a(Design)
    with asked.placing():
        design.seeds_in_order()
        design.all_points()
        design.shown()
    return design.model_copy(update={"scenario": asked.beside(design.scenario)})
