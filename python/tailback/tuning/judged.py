"""The judgement: settings that were found, on seeds and workloads that no trial saw, against the scenarios as
they are.

The best of many trials looks better than it is in the runs that it was chosen by. Only these tell its gain.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tailback import noise, text
from tailback.metrics import Metric
from tailback.tuning.design import Objective, TuneDesign, Workload
from tailback.tuning.looks import Look, Looks, Seen
from tailback.tuning.trials import Trial


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
        """One line."""
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


def judge(design: TuneDesign, looks: Looks, trials: Sequence[Trial]) -> list[Judged]:
    """Runs them with the held-out seeds, on all workloads."""
    seeds = design.held_out_seeds_in_order()
    workloads = [*design.workloads, *design.held_out]
    base, *seen = looks.at(
        [Look({}, workloads, seeds), *(Look(trial.point, workloads, seeds) for trial in trials)]
    )
    return [
        Judged(trial.number, _gains(design, trial.number, workloads, base, one), _misses(design, one))
        for trial, one in zip(trials, seen, strict=True)
    ]


def _gains(
    design: TuneDesign, trial: int, workloads: Sequence[Workload], base: Seen, seen: Seen
) -> list[Gain]:
    pairs = [
        _gain(trial, number, workload, number < len(design.workloads), objective, shown, base, seen)
        for number, workload in enumerate(workloads)
        for objective, shown in zip(design.objectives, design.shown(), strict=True)
    ]
    adjusted = noise.holm([gain.difference.p for gain in pairs])
    return [gain._replace(adjusted_p=p) for gain, p in zip(pairs, adjusted, strict=True)]


def _gain(
    trial: int,
    number: int,
    workload: Workload,
    tuned_on: bool,
    objective: Objective,
    shown: Metric,
    base: Seen,
    seen: Seen,
) -> Gain:
    before, after = base.values(number, shown), seen.values(number, shown)
    return Gain(
        trial,
        workload.title,
        tuned_on,
        shown,
        objective.goal,
        noise.interval(list(before.values())),
        noise.interval(list(after.values())),
        noise.paired(before, after),
        1.0,
    )


def _misses(design: TuneDesign, seen: Seen) -> list[str]:
    if seen.failure:
        return [seen.failure]
    *excess, faults = seen.excess(design)
    missed = [limit.in_words for limit, one in zip(design.limits(), excess, strict=True) if one > 0]
    return [*missed, *([text.plural(int(faults), "fault")] if faults else [])]
