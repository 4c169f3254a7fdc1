"""Published experiments as data: what was given, what is assumed, what the paper claims, and how a claim is
checked.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import yaml
from pydantic import Field, field_validator, model_validator
from tailback import library
from tailback.errors import InputError, Problem, one_of
from tailback.files import StrictModel
from tailback.metrics import METRICS, named
from tailback.recorded.run import Recorded
from tailback.text import by_unit

Kind = Literal["given", "calibrated", "predicted"]


class Given(StrictModel):
    """A setting that the paper gives: put in, never checked."""

    what: str
    value: str
    where: str


class Assumed(StrictModel):
    """A setting that the paper does not give, and why it is what it is."""

    what: str
    value: str
    why: str


class Calibrated(Assumed):
    """A constant fitted to figures of the paper: what no source gives, and what it was fitted to leaves open.

    `path` is `between` two values, `range_from` says why these; the claims of `carried_to` are predicted with
    both, too, on `runs`, those that have the constant; without them on all of a claim's. `settled_by` is the
    measurement in the lab that would tell it.
    """

    fitted_to: list[str] = Field(min_length=1)
    path: str = ""
    between: list[str] = Field(default_factory=list)
    range_from: str = ""
    carried_to: list[str] = Field(default_factory=list)
    runs: list[str] = Field(default_factory=list)
    settled_by: str

    def at(self, value: str, run: str) -> dict[str, str]:
        """Overrides of a run for a value of it: none where the run does not have it."""
        return {self.path: value} if not self.runs or run in self.runs else {}

    @model_validator(mode="after")
    def _whole(self) -> Calibrated:
        parts = bool(self.path), len(self.between) == 2, bool(self.range_from), bool(self.carried_to)
        if len(set(parts)) > 1:
            raise ValueError(f"{self.what}: expected path, two values in between, range_from and carried_to")
        return self


class Run(StrictModel):
    """A scenario to run with the overrides of `set` for `duration`; or, for a first look, for `quick`.

    `quick_set` holds what else a quick run needs, such as starts that all fit into it.
    """

    scenario: str
    about: str
    duration: str
    quick: str
    set: dict[str, str] = Field(default_factory=dict)
    quick_set: dict[str, str] = Field(default_factory=dict)

    def overrides(self, quick: bool) -> dict[str, str]:
        """Path and value of each setting that differs from the scenario."""
        if quick:
            return {**self.set, **self.quick_set, "run.duration": self.quick}
        return {**self.set, "run.duration": self.duration}


class Check(StrictModel):
    """A metric and its bound; with `relative_to`, the metric divided by the same metric of another run.

    `run` names the run that it is measured on, and `kind` what kind of statement it is, where that is not the
    claim's. `chosen`: the text has words and no number for it, so that the bound is this file's.
    """

    metric: str
    params: dict[str, Any] = Field(default_factory=dict)
    run: str | None = None
    kind: Kind | None = None
    relative_to: str | None = None
    at_least: float | None = None
    at_most: float | None = None
    equals: float | None = None
    between: tuple[float, float] | None = None
    chosen: bool = False
    why: str = ""

    @field_validator("metric")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in METRICS:
            raise ValueError(f"found metric {name}, expected one of {', '.join(sorted(METRICS))}")
        return name

    @model_validator(mode="after")
    def _taken(self) -> Check:
        if self.params:
            try:
                named([{"metric": self.metric, **self.params}])
            except InputError as error:
                raise ValueError(error.problems[0].text) from None
        return self

    @property
    def bounds(self) -> int:
        return sum(bound is not None for bound in (self.at_least, self.at_most, self.equals, self.between))

    def runs(self, run: str) -> list[str]:
        """The run that it is measured on, `run` without one of its own, and that which it is relative to."""
        return [self.run or run, *([self.relative_to] if self.relative_to else [])]

    def on(self, result: Recorded) -> float:
        return METRICS[self.metric](result, **self.params)

    def value(self, results: Mapping[str, Recorded], run: str) -> float:
        """The measured value on its own run, or else on `run`."""
        return self.relative([self.on(results[name]) for name in self.runs(run)])

    def relative(self, values: Sequence[float]) -> float:
        """The value, of those on each of its runs."""
        value, *reference = values
        return value / reference[0] if reference and reference[0] else math.nan if reference else value

    def holds(self, value: float) -> bool | None:
        """True if a value is within the bound; None when there is no value, or no bound."""
        if not math.isfinite(value) or not self.bounds:
            return None
        low = -math.inf if self.at_least is None else self.at_least
        high = math.inf if self.at_most is None else self.at_most
        if self.equals is not None:
            low = high = self.equals
        elif self.between is not None:
            low, high = self.between
        return low <= value <= high

    def met_from(self, value: float) -> str:
        """Of a chosen bound that does not hold: from where on it would, '; met from 0.96 on'."""
        if not self.chosen or self.holds(value) is not False:
            return ""
        return f"; met from {self.in_words(value)} on"

    def in_words(self, value: float) -> str:
        return by_unit(value, self._unit)

    @property
    def bound_in_words(self) -> str:
        """'≥ 97 %', 'between 1 and 2'; empty without a bound."""
        if self.at_least is not None:
            return f"≥ {self._bound(self.at_least)}"
        if self.at_most is not None:
            return f"≤ {self._bound(self.at_most)}"
        if self.equals is not None:
            return f"= {self._bound(self.equals)}"
        if self.between is not None:
            return f"{self._bound(self.between[0])} to {self._bound(self.between[1])}"
        return ""

    @property
    def name_in_words(self) -> str:
        """'goodput of ideal since convergence (lossy)'."""
        words = str(self.params.get("name", self.metric.replace("_", " ")))
        if "to" in self.params:
            words = f"{self.params['of']} over {self.params['to']}"
        since = self.params.get("since")
        if isinstance(since, (int, float)):
            words += f" since {since:g} s"
        elif since is not None:
            words += f" since {since.replace('_', ' ')}"
        for name in ("item", "protocol", "host"):
            words += f" of {self.params[name]}" if name in self.params else ""
        words += f" in {self.params['scaled_to_s']:g} s" if "scaled_to_s" in self.params else ""
        words += f", relative to {self.relative_to}" if self.relative_to else ""
        return words + (f" ({self.run})" if self.run else "")

    @property
    def _unit(self) -> str:
        return "index" if self.relative_to else METRICS[self.metric].unit

    def _bound(self, value: float) -> str:
        return f"{value:g}" if self._unit == "index" else by_unit(value, self._unit)


class Claim(StrictModel):
    """A claim of the paper: its words and place, its run, and the checks that would bear it out."""

    id: str
    says: str
    where: str
    run: str
    kind: Kind
    checks: list[Check] = Field(min_length=1)
    if_missed: str = ""
    """Why it is missed, as far as that is known; shown only where it is."""
    settled_by: str = ""
    """The measurement in the lab that would tell; shown only where it is missed."""

    @property
    def counted_as(self) -> str:
        """The kind that its verdict counts as: its own, except for a prediction that hangs on a chosen bound."""
        own = [check for check in self.checks if (check.kind or self.kind) == "predicted"]
        if self.kind == "predicted" and any(check.chosen for check in own):
            return "predicted, bound chosen"
        return self.kind

    @property
    def runs(self) -> list[str]:
        """Every run that it is checked on, its own first."""
        others = [name for check in self.checks for name in check.runs(self.run)]
        return list(dict.fromkeys([self.run, *others]))

    @model_validator(mode="after")
    def _bounded(self) -> Claim:
        for check in self.checks:
            if check.bounds != 1 or not check.why:
                raise ValueError(f"{self.id}: {check.metric} needs exactly one bound and a why")
        if bool(self.if_missed) != bool(self.settled_by):
            raise ValueError(f"{self.id}: expected both or neither of if_missed and settled_by")
        return self


class Tradeoff(StrictModel):
    """A plot of a table: one of its metrics over another, a point a variant."""

    of: str
    over: str


class Sensitivity(StrictModel):
    """A setting varied in a run, with metrics of each variant.

    `kind` says what for: what an *assumption* decides, an *ablation* of what the paper proposes, or a
    prediction *beyond* what it measured. `claims` names the claims that it sheds light on. What is varied is
    either one setting, `path` with its `values`, or several at once, `variants`: overrides by name. `set`
    holds overrides of all variants. The variant with the `assumed` value, or of that name, is the run itself.
    With `expected`, a number for each variant, the first metric is drawn as a plot beside it: `expected_as`
    says what it is, `axis` is the name of the values with their unit in brackets. With `plot`, one metric is
    drawn over another.
    """

    title: str
    about: str
    kind: Literal["assumption", "ablation", "beyond"] = "assumption"
    claims: list[str] = Field(min_length=1)
    run: str
    path: str = ""
    values: list[str] = Field(default_factory=list)
    variants: dict[str, dict[str, str]] = Field(default_factory=dict)
    assumed: str | None = None
    set: dict[str, str] = Field(default_factory=dict)
    duration: str
    show: list[Check] = Field(min_length=1)
    expected: list[float] | None = None
    expected_as: str = ""
    axis: str | None = None
    plot: Tradeoff | None = None

    @property
    def varied(self) -> dict[str, dict[str, str]]:
        """The overrides of each variant, by its name."""
        return self.variants or {value: {self.path: value} for value in self.values}

    def of(self, name: str) -> str:
        """A variant in words: 'switch.buffer 16MB', 'receiver half'."""
        return f"{self.path} {name}" if self.path else name

    @property
    def head(self) -> str:
        """The heading over the names of the variants."""
        return self.path or "variant"

    @property
    def mark(self) -> str:
        """The label of the variant that is the run itself."""
        return "assumed" if self.kind == "assumption" else "the run itself"

    @property
    def kind_in_words(self) -> str:
        """'Ablation'; empty for an assumption."""
        return {"assumption": "", "ablation": "Ablation", "beyond": "Prediction beyond the paper"}[self.kind]

    @model_validator(mode="after")
    def _as_many(self) -> Sensitivity:
        if bool(self.path) == bool(self.variants) or bool(self.path) != bool(self.values):
            raise ValueError(f"{self.title}: expected path and values, or variants")
        if self.expected is not None and len(self.expected) != len(self.varied):
            raise ValueError(
                f"{self.title}: found {len(self.expected)} of expected, expected as many as variants"
            )
        if (self.expected is None) != (self.axis is None):
            raise ValueError(f"{self.title}: expected both or neither of expected and axis")
        if self.plot is not None:
            shown = {check.metric for check in self.show}
            missing = sorted({self.plot.of, self.plot.over} - shown)
            if missing:
                raise ValueError(
                    f"{self.title}: found plot of {', '.join(missing)}, expected metrics it shows"
                )
        return self


class Experiment(StrictModel):
    title: str
    source: str
    about: str
    given: list[Given]
    assumed: list[Assumed]
    calibrated: list[Calibrated]
    runs: dict[str, Run]
    claims: list[Claim]
    sensitivity: list[Sensitivity] = Field(default_factory=list)

    @model_validator(mode="after")
    def _runs_exist(self) -> Experiment:
        used = [run for claim in self.claims for run in claim.runs] + [item.run for item in self.sensitivity]
        used += [run for one in self.calibrated for run in one.runs]
        unknown = sorted(set(used) - set(self.runs))
        if unknown:
            raise ValueError(f"found runs {', '.join(unknown)}, expected of {', '.join(self.runs)}")
        ids = [claim.id for claim in self.claims]
        named = {name for item in self.sensitivity for name in item.claims}
        named |= {name for one in self.calibrated for name in (*one.fitted_to, *one.carried_to)}
        unknown = sorted(named - set(ids))
        if unknown:
            raise ValueError(f"found claims {', '.join(unknown)}, expected of {', '.join(ids)}")
        return self

    def only(self, ids: Sequence[str]) -> Experiment:
        """The part of it that some claims need, in the order of the whole.

        Raises:
            InputError: there is no claim of that id.
        """
        known = [claim.id for claim in self.claims]
        as_known = {one.lower(): one for one in known}
        ids = [as_known.get(one.lower(), one) for one in ids]
        problems = [
            Problem("--only", (), f"found {one or 'nothing'}, expected claims out of {', '.join(known)}")
            for one in ids
            if one not in known
        ]
        if problems:
            raise InputError(problems)
        claims = [claim for claim in self.claims if claim.id in ids]
        tables = [item for item in self.sensitivity if set(item.claims) & set(ids)]
        needed = {run for claim in claims for run in claim.runs}
        needed |= {item.run for item in tables}
        runs = {name: run for name, run in self.runs.items() if name in needed}
        kept = {"claims": claims, "sensitivity": tables, "runs": runs}
        return self.model_copy(update=kept)

    def carried(self) -> list[tuple[Calibrated, Claim]]:
        """Constants whose spread claims are predicted with, with the claims that are there."""
        claims = {claim.id: claim for claim in self.claims}
        return [(one, claims[name]) for one in self.calibrated for name in one.carried_to if name in claims]


def load_published(name: str) -> Experiment:
    if name not in library.published():
        raise InputError.at(name, f"found no such experiment, expected {one_of(name, library.published())}")
    return Experiment.model_validate(yaml.safe_load(library.published_text(name)))
