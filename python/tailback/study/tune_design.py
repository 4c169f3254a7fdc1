"""What a tuning is asked for: settings with their bounds, workloads, objectives and constraints."""

from __future__ import annotations

import math
import re
from typing import Any, Literal, NamedTuple

from pydantic import Field
from tailback.errors import InputError, Problem
from tailback.files import StrictModel
from tailback.metrics import Metric, named
from tailback.scenario import load
from tailback.study.points import COMPARED, Point, Range, Value, as_text, kept, sets_of
from tailback.study.study_file import Source, StudyDesign, StudyFile, name_of, seeds_of


class Workload(StrictModel):
    """A scenario, with settings of its own."""

    scenario: str | dict[str, Any]
    """A built-in scenario, a file, or the scenario itself."""
    name: str = ""
    set: dict[str, Value] = Field(default_factory=dict)
    weight: float = Field(default=1.0, gt=0)

    @property
    def title(self) -> str:
        """As tables have it: its name; or the scenario's, and what is set."""
        if self.name:
            return self.name
        name, words = name_of(self.scenario) or "scenario", ", ".join(sets_of(self.set))
        return f"{name} ({words})" if words else name


class Objective(StrictModel):
    """A metric, and which way it is better."""

    metric: str
    goal: Literal["more", "less"]
    weight: float = Field(default=1.0, gt=0)


class Constraint(NamedTuple):
    """A metric that every run must keep to."""

    shown: Metric
    sign: str
    limit: float

    def excess(self, value: float | None) -> float:
        """How far a value is beyond the limit: 0 or less when it is kept. What cannot be said is not."""
        if value is None or not math.isfinite(value):
            return math.inf
        if COMPARED[self.sign](value, self.limit):
            return 0.0
        return max(abs(value - self.limit), 1e-12)

    @property
    def in_words(self) -> str:
        """'losses.dropped_packets <= 0'."""
        return f"{self.shown.label} {self.sign} {self.limit:g}"


class TuneDesign(StudyDesign):
    FILE = "tune.json"
    WHAT = "a tuning"

    workloads: list[Workload] = Field(min_length=1)
    """What is tuned for. A tuning for one is none: see `held_out`."""
    tune: dict[str, list[Value] | Range] = Field(min_length=1)
    """Settings, with the range or the values that each may have."""
    objectives: list[Objective] = Field(min_length=1)
    about: str = ""
    held_out: list[Workload] = Field(default_factory=list)
    """Workloads that the result is judged on, and that no trial sees."""
    set: dict[str, Value] = Field(default_factory=dict)
    """Settings of all runs."""
    where: list[str] = Field(default_factory=list)
    """Conditions between settings, such as `switch.ecn.k_min < switch.ecn.k_max`."""
    constraints: list[str] = Field(default_factory=list)
    """Of every run, such as `losses.dropped_packets <= 0`. A fault is never allowed."""
    pareto: bool = False
    """Keep the objectives apart, and look for the front."""
    seeds: str | int | list[int] = "1..2"
    held_out_seeds: str | int | list[int] = "101..105"
    trials: int = Field(default=100, ge=1, le=100_000)
    prune: bool = True
    """Whether a trial whose first seed is worse than the median of those before gets no other seed."""
    first_look: dict[str, Value] = Field(default_factory=dict)
    """Settings of the runs that pruning looks at, such as a shorter `run.duration`."""
    sampler_seed: int = Field(default=1, ge=0)
    storage: str = ""
    """URL of a database for Optuna's study; default: a journal in the folder of the result."""

    @property
    def name(self) -> str:
        return f"{name_of(self.workloads[0].scenario) or 'scenario'}-tune"

    def seeds_in_order(self) -> list[int]:
        return seeds_of(self.seeds)

    def held_out_seeds_in_order(self) -> list[int]:
        return seeds_of(self.held_out_seeds)

    def shown(self) -> list[Metric]:
        return _placed("objectives", [one.metric for one in self.objectives])

    def limits(self) -> list[Constraint]:
        """The constraints.

        Raises:
            InputError: one is none, or names no metric.
        """
        found = []
        for number, text in enumerate(self.constraints):
            match = re.fullmatch(r"\s*(\S.*?)\s*(<=|>=|<|>)\s*([-+\d.eE]+)\s*(%?)\s*", text)
            try:
                limit = float(match[3]) / (100 if match[4] else 1) if match else math.nan
            except ValueError:
                limit = math.nan
            if match is None or not math.isfinite(limit):
                words = f'found "{text[:60]}", expected a metric, one of <= >= < >, and a number'
                raise InputError.at("", words, ("constraints", number))
            try:
                found.append(Constraint(named([match[1]])[0], match[2], limit))
            except InputError as error:
                raise InputError.at("", error.problems[0].text, ("constraints", number)) from None
        return found

    def measured(self) -> tuple[Metric, ...]:
        """All that is measured of a run, each once."""
        return tuple(dict.fromkeys([*self.shown(), *(limit.shown for limit in self.limits())]))

    def middle(self) -> Point:
        """A value of each setting, in the middle of its range or the first of its list."""
        return {
            setting: values.at(0.5) if isinstance(values, Range) else as_text(values[0])
            for setting, values in self.tune.items()
        }

    def meets(self, point: Point) -> bool:
        return bool(kept([point], self.where, self.set))

    def check_workloads(self) -> None:
        """Looks whether each can be run as it is: the held-out ones, too, which are not run before all trials
        have ended.

        Raises:
            InputError: one cannot.
        """
        for part, workloads in (("workloads", self.workloads), ("held_out", self.held_out)):
            for number, one in enumerate(workloads):
                try:
                    scenario = load(one.scenario, sets=sets_of({**self.set, **one.set}))
                    for asked in self.measured():
                        if (why := asked.unknown_in(scenario.items, scenario.network.hosts)) is not None:
                            raise InputError.at("", why)
                except InputError as error:
                    raise InputError.at("", str(error.problems[0]), (part, number)) from None

    def check(self) -> None:
        """Looks at what no model can see.

        Raises:
            InputError: a range, seed, metric or condition that is none.
        """
        self.shown()
        self.limits()
        for setting, values in self.tune.items():
            try:
                if isinstance(values, Range):
                    values.at(0.5)
                elif len(values) < 2:
                    raise ValueError("found fewer than two values, expected a range, or two values or more")
            except ValueError as error:
                raise InputError.at("", str(error), ("tune", setting)) from None
        self.meets(self.middle())
        for part, settings in (("tune", self.tune), ("set", self.set), ("first_look", self.first_look)):
            if "run.seed" in settings:
                raise InputError.at("", "found run.seed, expected it in seeds", (part,))
        both = set(self.seeds_in_order()) & set(self.held_out_seeds_in_order())
        if both:
            text = f"found seed {min(both)}, which is one of seeds, expected others"
            raise InputError.at("", text, ("held_out_seeds",))


def _placed(part: str, names: list[str]) -> list[Metric]:
    try:
        return named(names)
    except InputError as error:
        raise InputError([Problem("", (part, *one.path[1:]), one.text) for one in error.problems]) from None


def read_tune(source: Source) -> TuneDesign:
    """A tuning from a file or from plain data. Files of scenarios are looked for beside it.

    Raises:
        InputError: with all problems, a line each.
    """
    asked = StudyFile.read(source, TuneDesign.WHAT)
    design = asked.as_a(TuneDesign)
    with asked.placing():
        design.check()
    beside = {
        part: [one.model_copy(update={"scenario": asked.beside(one.scenario)}) for one in workloads]
        for part, workloads in (("workloads", design.workloads), ("held_out", design.held_out))
    }
    whole = design.model_copy(update=beside)
    with asked.placing():
        whole.check_workloads()
    return whole
