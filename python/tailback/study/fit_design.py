"""What is to be fitted: observations, the settings that are not known, and how many runs that may take."""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, model_validator
from tailback.errors import InputError, Problem, dotted
from tailback.files import StrictModel
from tailback.metrics import Metric, main_metrics, named
from tailback.scenario import load
from tailback.scenario.document import Document, from_python
from tailback.study.points import Point, Value, as_text, sets_of
from tailback.study.priors import Axes, Prior
from tailback.study.study_file import (
    RENAMED,
    StudyDesign,
    StudyFile,
    content_of,
    may_change_parts,
    name_of,
    seeds_of,
)

_DECIMAL = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30}
_BYTES = {"B": 1.0, "KB": 1e3, "MB": 1e6, "GB": 1e9} | {f"{p}B": f for p, f in _BINARY.items()}

UNITS: dict[str, dict[str, float]] = {
    "bit/s": {f"{p}bit/s": f for p, f in _DECIMAL.items()} | {f"{p}bps": f for p, f in _DECIMAL.items()},
    "B/s": {f"{name}/s": factor for name, factor in _BYTES.items()},
    "MiB/s": {"MiB/s": 1.0, "MB/s": 1e6 / 2**20, "GiB/s": 1024.0},
    "B": _BYTES,
    "s": {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9},
    "share": {"share": 1.0, "%": 0.01},
    "count": {"": 1.0, "count": 1.0},
    "index": {"": 1.0, "index": 1.0},
}
"""How much of the base unit each is. Only counts and indices may come without one."""

_LIMITS_IN_BASE_UNIT: dict[str, tuple[float, float]] = {"share": (0.0, 1.0)}
"""Least and most of a figure; of all others 0 or more."""

Bound = Literal["value", "at_most", "at_least"]
_Figure = Annotated[float, Field(allow_inf_nan=False)]

POINTS_PER_UNKNOWN = 10
"""Of the design of runs (Loeppky, Sacks, Welch: Choosing the Sample Size of a Computer Experiment,
Technometrics 51, 2009).
"""
_MOST_UNKNOWNS = 8
"""An emulator over more would need more runs than ten for each."""
_LABEL_MAX_CHARACTERS = 40
"""A value of more characters, such as a whole list of traffic, is cut off in labels."""


class Observation(StrictModel):
    """A figure of the lab, or a limit that its figure keeps to."""

    metric: str | dict[str, Any]
    name: str = ""
    """What the lab calls it, such as the number of a figure; stands in place of the settings."""
    value: _Figure | None = None
    at_most: _Figure | None = None
    at_least: _Figure | None = None
    unit: str = ""
    tolerance: float = Field(gt=0, allow_inf_nan=False)
    """A standard deviation, in the same unit."""
    set: dict[str, Value] = Field(default_factory=dict)
    """The settings that this one was measured under."""
    runs: int = Field(default=1, ge=1)
    """Of the lab that the value is the mean of."""
    held_out: bool = False
    """Not fitted: predicted."""

    @model_validator(mode="after")
    def _one_figure(self) -> Observation:
        if len(self._figures) != 1:
            given = " and ".join(self._figures) or "no value"
            raise ValueError(f"found {given}, expected one of value, at_most and at_least")
        return self

    @property
    def figure(self) -> tuple[Bound, float]:
        return next(iter(self._figures.items()))

    @property
    def _figures(self) -> dict[Bound, float]:
        given: dict[Bound, float | None] = {
            "value": self.value,
            "at_most": self.at_most,
            "at_least": self.at_least,
        }
        return {bound: number for bound, number in given.items() if number is not None}


class Output(NamedTuple):
    """A metric under the settings of a condition, by its number."""

    condition: int
    shown: Metric


class Observed(NamedTuple):
    """An observation in base units."""

    output: Output
    value: float
    tolerance: float
    runs: int
    held_out: bool
    bound: Bound = "value"

    def off(self, value: float) -> float:
        """By how many tolerances a value is away; 0 within a limit."""
        away = (value - self.value) / self.tolerance
        if self.bound == "value":
            return away
        return max(0.0, away) if self.bound == "at_most" else min(0.0, away)

    def within(self, low: float, high: float) -> bool:
        """Whether it can be what is between two values."""
        above, below = low <= self.value, self.value <= high
        return {"value": above and below, "at_most": above, "at_least": below}[self.bound]

    @property
    def in_words(self) -> str:
        """'92.4 Gbit/s', or 'at most 0.35 %'."""
        words = self.output.shown.in_words(self.value)
        return words if self.bound == "value" else f"{self.bound.replace('_', ' ')} {words}"

    @property
    def with_tolerance(self) -> str:
        """'92.4 Gbit/s ± 1 Gbit/s'."""
        return f"{self.in_words} ± {self.output.shown.in_words(self.tolerance)}"


class Fit(StudyDesign):
    FILE = "asked.json"
    WHAT = "a fit"

    scenario: str | dict[str, Any]
    """A built-in scenario, a file, or the scenario itself."""
    about: str = ""
    set: dict[str, Value] = Field(default_factory=dict)
    """Settings of all runs."""
    free: dict[str, Prior] = Field(min_length=1, max_length=_MOST_UNKNOWNS)
    observations: list[Observation] = Field(min_length=1)
    candidates: list[str | dict[str, Any]] = Field(default_factory=list)
    """Metrics that might be taken next; without, the main figures."""
    seeds: str | int | list[int] = "1..3"
    points: int | None = Field(default=None, ge=4, le=2000)
    """Of the first round; without it ten for each range, and for each value of a list but one."""
    refine: int | None = Field(default=None, ge=0, le=2000)
    """Of the second round, which are drawn where the first has the posterior; half as many without it."""

    @property
    def name(self) -> str:
        return f"{name_of(self.scenario) or 'fit'}-fit"

    @cached_property
    def axes(self) -> Axes:
        return Axes(tuple(free.count for free in self.free.values()))

    def seeds_in_order(self) -> list[int]:
        return seeds_of(self.seeds)

    @property
    def first(self) -> int:
        return self.points or POINTS_PER_UNKNOWN * self.axes.degrees()

    @property
    def second(self) -> int:
        return self.first // 2 if self.refine is None else self.refine

    @cached_property
    def conditions(self) -> list[Point]:
        """The settings that observations were made under, each once."""
        every = [_condition(one) for one in self.observations]
        return [one for index, one in enumerate(every) if one not in every[:index]]

    @cached_property
    def observed(self) -> list[Observed]:
        """The observations in base units.

        Raises:
            InputError: an unknown metric, a unit that does not fit, one twice.
        """
        found: list[Observed] = []
        for index, one in enumerate(self.observations):
            place = ("observations", index)
            shown = _shown(one.metric, (*place, "metric"))
            output = Output(self.conditions.index(_condition(one)), shown)
            if output in [other.output for other in found]:
                text = f"found {shown.label} again under the same settings, expected each once"
                raise InputError.at("", text, place)
            factors = UNITS[shown.unit]
            if one.unit not in factors:
                what = f'"{one.unit}"' if one.unit else "no unit"
                units = ", ".join(name for name in factors if name)
                text = f"found {what}, expected one of {units} for {shown.label.lower()}"
                raise InputError.at("", text, (*place, "unit"))
            factor, (bound, number) = factors[one.unit], one.figure
            least, most = _LIMITS_IN_BASE_UNIT.get(shown.unit, (0.0, math.inf))
            if not least <= number * factor <= most:
                text = f"found {number:g}{f' {one.unit}' if one.unit else ''}, expected "
                text += "0 or more" if math.isinf(most) else f"0 to {most / factor:g} {one.unit}"
                raise InputError.at("", f"{text} for {shown.label.lower()}", (*place, bound))
            tolerance = one.tolerance * factor
            found.append(Observed(output, number * factor, tolerance, one.runs, one.held_out, bound))
        return found

    @cached_property
    def metrics(self) -> list[Metric]:
        """All that is measured of each run: what was observed, and what might be."""
        given = [_shown(one, ("candidates", index)) for index, one in enumerate(self.candidates)]
        given = given or main_metrics()
        return list(dict.fromkeys([*(one.output.shown for one in self.observed), *given]))

    def labelled(self, output: Output) -> str:
        """'C2, total goodput', or 'Total goodput, with traffic.0.qps=8'."""
        label = output.shown.label
        pairs = zip(self.observations, self.observed, strict=True)
        name = next((given.name for given, one in pairs if one.output == output), "")
        if name:
            return f"{name}, {label[:1].lower()}{label[1:]}"
        condition = self.conditions[output.condition].items()
        words = ", ".join(f"{setting}={_shortened(value)}" for setting, value in condition)
        return f"{label}, with {words}" if words else label


def _shortened(value: str) -> str:
    return value if len(value) <= _LABEL_MAX_CHARACTERS else f"{value[: _LABEL_MAX_CHARACTERS - 1]}…"


def _condition(one: Observation) -> Point:
    return {setting: as_text(value) for setting, value in sorted(one.set.items())}


def _shown(metric: str | dict[str, Any], place: tuple[str | int, ...]) -> Metric:
    try:
        return named([metric])[0]
    except InputError as error:
        raise InputError([Problem("", place, one.text) for one in error.problems]) from None


Measured = str | os.PathLike[str] | Mapping[str, Any] | Sequence[Mapping[str, Any]]


def read_fit(measured: Measured, more: Mapping[str, Any]) -> Fit:
    """A fit from its file; or from observations, a file or a list. What `more` has comes first.

    Raises:
        InputError: with all problems, a line each.
    """
    read = _read(measured)
    document = read.document
    if isinstance(document.data, list):
        origins: dict[tuple[str | int, ...], str] = {
            ("observations", *at): origin for at, origin in document.origins.items()
        }
        document = Document({"observations": document.data}, origins | {(): document.origin(())})
    if not isinstance(document.data, dict):
        text = "found no observations, expected a mapping or a list of them"
        raise InputError.at(document.origin(()), text)
    if "scenario" in document.data:
        document.data["scenario"] = read.beside(document.data["scenario"])
    given = from_python(dict(more))
    document.data |= given.data
    document.origins = {at: o for at, o in document.origins.items() if not at or at[0] not in given.data}
    document.origins |= {at: origin for at, origin in given.origins.items() if at}
    read = StudyFile(document, read.folder)
    asked = read.as_a(Fit)
    with read.placing():
        _check(asked)
    return asked


def _read(measured: Measured) -> StudyFile:
    what = "observations"
    if isinstance(measured, (str, os.PathLike)):
        path = Path(measured)
        if path.suffix == ".csv":
            return StudyFile(_rows(path, content_of(path, what)), path.parent)
    elif not isinstance(measured, Mapping):
        return StudyFile.read({"observations": list(measured)}, what)
    return StudyFile.read(measured, what)


def _rows(path: Path, content: bytes) -> Document:
    try:
        reader = csv.DictReader(io.StringIO(content.decode("utf-8-sig")), strict=True)
        header = reader.fieldnames is not None and reader.line_num
        rows = [(reader.line_num, row) for row in reader]
    except (UnicodeDecodeError, csv.Error) as error:
        text = f"found {' '.join(str(error).split())}, expected a CSV file in UTF-8"
        raise InputError.at(str(path), text) from None
    names = [name for name in Observation.model_fields if name != "set"]
    if not rows:
        raise InputError.at(
            str(path), f"found no row below a header, expected {', '.join(names)}, or settings"
        )
    observations: list[dict[str, Any]] = []
    origins: dict[tuple[str | int, ...], str] = {(): str(path), ("observations",): str(path)}
    for line, row in rows:
        one: dict[str, Any] = {}
        for name, value in row.items():
            if name is None:
                raise InputError.at(f"{path}:{line}", "found more values than columns, expected one for each")
            if value and "." not in name and name not in names:
                expected = RENAMED.get(name) or f"{', '.join(names)}, or settings"
                text = f"found the column {name or 'without a name'}, expected {expected}"
                raise InputError.at(f"{path}:{header}", text)
            if value and value.strip():
                (one.setdefault("set", {}) if "." in name else one)[name] = value.strip()
                origins[("observations", len(observations), name)] = f"{path}:{line}"
        origins[("observations", len(observations))] = f"{path}:{line}"
        observations.append(one)
    return Document({"observations": observations}, origins)


def _check(asked: Fit) -> None:
    """InputError when something of it cannot be."""
    for setting, free in asked.free.items():
        try:
            free.check()
        except ValueError as error:
            raise InputError.at("", str(error), ("free", setting)) from None
        used = [("set", asked.set)]
        used += [(f"observations.{index}.set", one.set) for index, one in enumerate(asked.observations)]
        for where, settings in used:
            if setting in settings:
                text = f"found a setting that {where} has, expected one that is free"
                raise InputError.at("", text, ("free", setting))
    if all(one.held_out for one in asked.observed):
        text = "found only what is held out, expected at least one to fit"
        raise InputError.at("", text, ("observations",))
    if len(asked.seeds_in_order()) < 2:
        text = "found one seed, expected two or more: their difference is the noise of a run"
        raise InputError.at("", text, ("seeds",))
    _ = asked.metrics
    _check_settings(asked)


def _check_settings(asked: Fit) -> None:
    """Whether the scenario takes each, free ones at both ends of their priors or at all of their values."""
    scenario = load(asked.scenario, sets=sets_of(asked.set))
    if not may_change_parts(asked.free):
        for index, observed in enumerate(asked.observed):
            why = observed.output.shown.unknown_in(scenario.items, scenario.network.hosts)
            if why is not None and not asked.observations[index].set:
                raise InputError.at("", why, ("observations", index, "metric"))
    for index, one in enumerate(asked.observations):
        _check_load(asked, one.set, ("observations", index, "set"))
    for setting, free in asked.free.items():
        for value in free.tried:
            _check_load(asked, {setting: value}, ("free", setting))


def _check_load(asked: Fit, settings: Mapping[str, Any], place: tuple[str | int, ...]) -> None:
    try:
        load(asked.scenario, sets=[*sets_of(asked.set), *sets_of(settings)])
    except InputError as error:
        first = error.problems[0]
        where = dotted(first.path)
        named = first.text if where == place[-1] else f"{where}: {first.text}"
        raise InputError.at("", named, place) from None
