"""What a tuning found: its trials, the settings chosen, and what they gain; its page and its folder."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import pyarrow as pa
from tailback import noise, text
from tailback.metrics import Metric
from tailback.study.fabric_commands import commands
from tailback.study.points import Point, in_words, number_of
from tailback.study.tune_design import TuneDesign

EQUAL_COST_TOLERANCE = 0.01
"""Costs that far apart are told as alike: less than what two seeds tell apart."""


class Trial(NamedTuple):
    """Settings that were tried. `costs`: of each objective, see `changes`; `excess`: of each constraint, the
    faults last. Without either the trial has no value: it failed, could not be, or was `pruned`.
    """

    number: int
    point: Point
    state: str
    """complete, pruned, impossible or failed."""
    message: str
    costs: list[float]
    excess: list[float]

    @property
    def feasible(self) -> bool:
        return self.state == "complete" and not any(one > 0 for one in self.excess)


def cost(design: TuneDesign, costs: Sequence[float]) -> float:
    """The objectives in one, by their weights."""
    weights = [one.weight for one in design.objectives]
    return math.fsum(w * c for w, c in zip(weights, costs, strict=True)) / math.fsum(weights)


def best(design: TuneDesign, trials: Sequence[Trial]) -> Trial | None:
    return min(
        (trial for trial in trials if trial.feasible), key=lambda one: cost(design, one.costs), default=None
    )


def front(trials: Sequence[Trial]) -> list[Trial]:
    """The feasible trials that no other beats in all objectives."""
    feasible = [trial for trial in trials if trial.feasible]
    return [
        one
        for one in feasible
        if not any(
            other.costs != one.costs and all(a <= b for a, b in zip(other.costs, one.costs, strict=True))
            for other in feasible
        )
    ]


class Gain(NamedTuple):
    """An objective on a workload: the mean as the scenario is, the mean with the settings, second less first
    by seed, and p adjusted for all of a trial's gains.
    """

    trial: int
    workload: str
    tuned_on: bool
    """Whether trials saw this workload, with other seeds."""
    shown: Metric
    goal: str
    before: noise.Interval
    after: noise.Interval
    difference: noise.Difference
    adjusted_p: float

    @property
    def verdict(self) -> str:
        """better, worse, noise, or cannot be said."""
        if self.difference.seeds < 2:
            return "cannot be said"
        if noise.is_noise(self.adjusted_p):
            return "noise"
        return "better" if (self.difference.mean > 0) == (self.goal == "more") else "worse"

    @property
    def share(self) -> tuple[float, float, float]:
        """The difference and the ends of its interval, of what it is without."""
        whole = abs(self.before.mean)
        mean, low, high = (one / whole if whole else 0.0 for one in self.difference[:3])
        return mean, low, high

    @property
    def in_words(self) -> str:
        if not self.difference.seeds:
            return f"{self.shown.label}, {self.workload}: {self.verdict}, no seed has it with and without."
        before, after = (self.shown.in_words(one.mean) for one in (self.before, self.after))
        mean, low, high = (f"{100 * one:+.3g}" for one in self.share)
        seeds = text.plural(self.difference.seeds, "seed")
        return (
            f"{self.shown.label}, {self.workload}: {self.verdict}. {before} to {after}, {mean} % "
            f"(95 % interval {low} to {high} %, {seeds}).{noise.why_noise(self.difference, self.adjusted_p)}"
        )


class Judged(NamedTuple):
    """The gains of a trial's settings, and which constraints it misses where it was judged."""

    trial: int
    gains: list[Gain]
    misses: list[str]


class Tuned(NamedTuple):
    trial: Trial
    judged: Judged | None

    @property
    def set_lines(self) -> list[str]:
        """As options of `tailback run`."""
        return [f"--set {setting}={value}" for setting, value in self.trial.point.items()]

    @property
    def commands(self) -> list[str]:
        """As commands of a real fabric, see `tailback.study.fabric_commands`."""
        return commands(self.trial.point)


class TuneData:
    """What it found: its `trials`, the `importance` of each setting by objective, and `judged` settings."""

    def __init__(
        self,
        design: TuneDesign,
        trials: list[Trial],
        importance: list[dict[str, float]],
        judged: list[Judged],
        interrupted: bool,
    ) -> None:
        self.design = design
        self.trials = trials
        self.importance = importance
        self.judged = judged
        self.interrupted = interrupted

    @property
    def complete(self) -> bool:
        """Whether the search came to its end, and its settings were judged."""
        return not self.interrupted

    @property
    def best(self) -> Tuned | None:
        """The settings of the least cost that keep to all constraints; None when no trial's do."""
        found = best(self.design, self.trials)
        return None if found is None else Tuned(found, self._judged_of(found))

    @property
    def front(self) -> list[Tuned]:
        """With `pareto`, the settings that no others beat in all objectives."""
        if not self.design.pareto:
            return []
        every = sorted(front(self.trials), key=lambda one: one.costs)
        return [Tuned(one, self._judged_of(one)) for one in every]

    @property
    def gains(self) -> list[Gain]:
        return [gain for one in self.judged for gain in one.gains]

    @cached_property
    def table(self) -> pa.Table:
        """A row a trial: number, state, message, settings, the cost of each objective (below 0 is better) and
        of all together, and whether it keeps to all constraints.
        """
        columns: dict[str, tuple[pa.DataType, list[Any]]] = {
            "trial": (pa.int32(), [one.number for one in self.trials]),
            "state": (pa.string(), [one.state for one in self.trials]),
            "message": (pa.string(), [one.message for one in self.trials]),
        }
        for setting in self.design.tune:
            columns[setting] = (pa.string(), [one.point.get(setting) for one in self.trials])
        for index, shown in enumerate(self.design.shown()):
            costs = [one.costs[index] if one.costs else None for one in self.trials]
            columns[f"cost of {shown.label}"] = (pa.float64(), costs)
        whole = [cost(self.design, one.costs) if one.costs else None for one in self.trials]
        columns["cost"] = (pa.float64(), whole)
        columns["feasible"] = (pa.bool_(), [one.feasible for one in self.trials])
        return pa.table({name: pa.array(values, kind) for name, (kind, values) in columns.items()})

    def lines(self) -> list[str]:
        """What it came to: the settings, what they gain where no trial looked, and which of them matter."""
        chosen = self.front or ([self.best] if self.best else [])
        if not chosen:
            return [f"No settings of {text.plural(len(self.trials), 'trial')} keep to all constraints."]
        found = []
        for one in chosen:
            found.append(f"Trial {one.trial.number}: {in_words(one.trial.point)}")
            if one.judged is None:
                found.append("  not judged")
                continue
            for seen in (True, False):
                of = [gain for gain in one.judged.gains if gain.tuned_on == seen]
                if of:
                    found.append("  other seeds:" if seen else "  other workloads:")
                found += [f"    {gain.in_words}" for gain in of]
            found += [f"  It misses {miss} there." for miss in one.judged.misses]
        found += [*self.alike_lines(), *self.importance_lines()]
        return found

    def alike_lines(self) -> list[str]:
        """How wide the best is: what the settings of trials that cost hardly more reach over."""
        found = best(self.design, self.trials)
        if found is None or self.design.pareto:
            return []
        most = cost(self.design, found.costs) + EQUAL_COST_TOLERANCE
        alike = [one for one in self.trials if one.feasible and cost(self.design, one.costs) <= most]
        if len(alike) < 2:
            return []
        reach = []
        for setting in self.design.tune:
            values = sorted({one.point[setting] for one in alike}, key=lambda text: str(number_of(text)))
            if all(not isinstance(number_of(value), str) for value in values):
                values.sort(key=lambda text: float(number_of(text)))
                values = [" to ".join(dict.fromkeys((values[0], values[-1])))]
            reach.append(f"{setting} {' or '.join(values)}")
        trials = text.plural(len(alike), "trial")
        return [f"{trials} are within {100 * EQUAL_COST_TOLERANCE:g} points of the best: {', '.join(reach)}."]

    def importance_lines(self) -> list[str]:
        labels = [one.label for one in self.design.shown()] if self.design.pareto else ["the objective"]
        return [
            f"What matters to {label}: "
            + ", ".join(f"{setting} {text.share(share)}" for setting, share in shares.items())
            for label, shares in zip(labels, self.importance, strict=True)
            if shares
        ]

    def summary(self) -> dict[str, Any]:
        chosen = self.front or ([self.best] if self.best else [])
        return {
            "complete": self.complete,
            "trials": len(self.trials),
            "chosen": [
                {
                    "trial": one.trial.number,
                    "settings": one.trial.point,
                    "misses": one.judged.misses if one.judged else None,
                    "gains": [_gain(gain) for gain in one.judged.gains] if one.judged else [],
                    "commands": one.commands,
                }
                for one in chosen
            ],
            "importance": self.importance,
        }

    def _judged_of(self, trial: Trial) -> Judged | None:
        return next((one for one in self.judged if one.trial == trial.number), None)

    def __repr__(self) -> str:
        state = "" if self.complete else ", not complete"
        trials = text.plural(len(self.trials), "trial")
        return f"<Tuning of {self.design.name.removesuffix('-tune')}: {trials}{state}>"


def _gain(gain: Gain) -> dict[str, Any]:
    return {
        "measure": gain.shown.label,
        "unit": gain.shown.unit,
        "workload": gain.workload,
        "tuned_on": gain.tuned_on,
        "verdict": gain.verdict,
        "before": gain.before.mean,
        "after": gain.after.mean,
        "difference": list(gain.difference[:3]),
        "seeds": gain.difference.seeds,
    }
