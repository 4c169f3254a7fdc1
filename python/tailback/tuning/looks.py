"""What settings are worth: the runs of workloads and seeds with them, against those as the scenarios are."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tailback import noise
from tailback.errors import InputError
from tailback.metrics import Metric
from tailback.scenario import load
from tailback.sweeps.journal import Row
from tailback.sweeps.points import Point, as_text
from tailback.sweeps.runs import Runs
from tailback.sweeps.task import Task, digest_of
from tailback.tuning.design import TuneDesign, Workload


class Look(NamedTuple):
    """Settings, tried on workloads with seeds. `short`: with the settings of a first look."""

    point: Point
    workloads: Sequence[Workload]
    seeds: Sequence[int]
    short: bool = False


class Seen(NamedTuple):
    """The rows of a look by workload and seed; or why there are none."""

    rows: dict[tuple[int, int], Row]
    problem: str = ""

    @property
    def failure(self) -> str:
        """Why settings that were tried have no value, if they have none."""
        failed = [row["message"] for row in self.rows.values() if row["status"] != "done"]
        return self.problem or (failed[0] if failed else "")

    def values(self, workload: int, shown: Metric) -> dict[int, float]:
        """A measure by seed, where there is one."""
        return {
            seed: value
            for (number, seed), row in sorted(self.rows.items())
            if number == workload and (value := row.get("measures", {}).get(shown.label)) is not None
        }

    def excess(self, design: TuneDesign) -> list[float]:
        """How far each constraint is missed, at the worst run; the last is the number of faults."""
        measured = [row.get("measures", {}) for row in self.rows.values()]
        each = [
            max((limit.excess(one.get(limit.shown.label)) for one in measured), default=0.0)
            for limit in design.limits()
        ]
        return [*each, float(sum(len(row.get("faults", [])) for row in self.rows.values()))]


class Looks:
    """Carries looks out, all runs of several at a time."""

    def __init__(self, design: TuneDesign, runs: Runs[str]) -> None:
        """`runs` has the executor and the journal."""
        self._design = design
        self._runs = runs

    def at(self, looks: Sequence[Look]) -> list[Seen]:
        """What they show, in their order."""
        tasks: list[dict[tuple[int, int], Task] | str] = []
        for look in looks:
            try:
                tasks.append(dict(self._tasks(look)))
            except InputError as error:
                tasks.append(str(error.problems[0]))
        every = {
            task.key: task for one in tasks if not isinstance(one, str) for task in one.values()
        }  # looks may have runs in common
        rows = {key: row for key, task in every.items() if (row := self._runs.done_before(task)) is not None}
        rows |= dict(self._runs.carry_out([(key, task) for key, task in every.items() if key not in rows]))
        return [
            Seen({}, one) if isinstance(one, str) else Seen({at: rows[task.key] for at, task in one.items()})
            for one in tasks
        ]

    def _tasks(self, look: Look) -> Iterator[tuple[tuple[int, int], Task]]:
        """By workload and seed."""
        design = self._design
        settings = {**design.set, **(design.first_look if look.short else {})}
        for index, workload in enumerate(look.workloads):
            sets = tuple(
                f"{setting}={as_text(value)}"
                for setting, value in {**settings, **workload.set, **look.point}.items()
            )
            digest = digest_of(load(workload.scenario, sets=list(sets), seed=look.seeds[0]))
            for seed in look.seeds:
                task = Task(workload.scenario, sets, seed, digest, design.measured(), None)
                yield (index, seed), task


def changes(design: TuneDesign, base: Seen, seen: Seen, workloads: Sequence[Workload]) -> list[float]:
    """What each objective costs, of what it costs as the scenarios are: below 0 is better.

    The relative change of the mean over seeds, and of that the mean over workloads by their weights. NaN
    when it cannot be said.
    """
    found = []
    for objective, shown in zip(design.objectives, design.shown(), strict=True):
        total = 0.0
        for number, workload in enumerate(workloads):
            before, after = (_mean(one.values(number, shown)) for one in (base, seen))
            change = (after - before) / abs(before) if before else math.nan
            total += workload.weight * (change if objective.goal == "less" else -change)
        found.append(total / math.fsum(one.weight for one in workloads))
    return found


def nothing_to_better(design: TuneDesign, base: Seen) -> None:
    """Looks whether the scenarios as they are leave something to better.

    Raises:
        InputError: a run failed, or a measure cannot be said, or is 0.
    """
    if base.failure:
        raise InputError.at("workloads", f"as they are: {base.failure}")
    for index, shown in enumerate(design.shown()):
        for number, workload in enumerate(design.workloads):
            mean = _mean(base.values(number, shown))
            if not math.isfinite(mean) or mean == 0:
                what = "0" if mean == 0 else "no value"
                where = f"{shown.label} of {workload.title} as it is"
                text = f"found {what} for {where}, expected a measure that can be bettered"
                raise InputError.at("", text, ("objectives", index, "measure"))


def _mean(values: Mapping[int, float]) -> float:
    return noise.interval(list(values.values())).mean
