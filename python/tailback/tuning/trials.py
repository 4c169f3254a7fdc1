"""The search: Optuna proposes settings (ask), runs judge them (tell).

Trials are asked for in batches of a fixed size and told in their order, so that a study does not depend on
how many runs there are at a time, or where. A study that goes on is the same study again, from the journal.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tailback.errors import InputError
from tailback.scenario import load
from tailback.sweeps.points import Point, Range, as_text
from tailback.tuning.design import TuneDesign
from tailback.tuning.looks import Look, Looks, Seen, changes, nothing_to_better

if TYPE_CHECKING:
    import optuna

OPTUNA_JOURNAL_NAME = "optuna.log"
"""Optuna's journal."""
TRIALS_PER_BATCH = 4
"""Trials that are asked for together. A constant, since results would depend on it."""
_TRIALS_BEFORE_PRUNING = 10
"""Trials before pruning begins, and before the sampler does more than draw (Optuna's own number)."""
_MAX_ASKED_PER_TRIAL = 10
"""Times the number of trials: settings that no run can have do not count as trials."""
_FEWEST_BEST = 10
"""Trials that importance is told from, where there are enough."""
_INFEASIBLE_COST = 1e9
"""An excess that is infinite, as a number that Optuna can keep."""


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
        """Whether it has a value and keeps to all constraints."""
        return self.state == "complete" and not any(one > 0 for one in self.excess)


class Searched(NamedTuple):
    """A search; `importance` of each setting, by objective, in shares."""

    trials: list[Trial]
    importance: list[dict[str, float]]
    interrupted: bool


def cost(design: TuneDesign, costs: Sequence[float]) -> float:
    """The objectives in one, by their weights."""
    weights = [one.weight for one in design.objectives]
    return math.fsum(w * c for w, c in zip(weights, costs, strict=True)) / math.fsum(weights)


def search(design: TuneDesign, looks: Looks, folder: Path | None, told: Callable[[Trial], None]) -> Searched:
    """Tries settings until there are as many trials as were asked for.

    Raises:
        InputError: the scenarios as they are cannot be bettered, or the storage cannot be used.
    """
    _known(design)
    study = _study(design, folder)
    prunes = design.prune and not design.pareto
    seeds = design.seeds_in_order()
    first = Look({}, design.workloads, seeds[:1], short=True)
    base, base_first = looks.at([Look({}, design.workloads, seeds), first])
    for one in (base, base_first):
        nothing_to_better(design, one)
    trials: list[Trial] = []
    try:
        for _ in range(_MAX_ASKED_PER_TRIAL * design.trials):
            left = design.trials - sum(trial.state != "impossible" for trial in trials)
            if left <= 0:
                break
            asked = [study.ask() for _ in range(min(TRIALS_PER_BATCH, left))]
            points = [_point(design, trial) for trial in asked]
            open_ = [index for index, point in enumerate(points) if design.meets(point)]
            met = set(open_)
            if prunes:
                shorts = looks.at([first._replace(point=points[index]) for index in open_])
                for index, seen in zip(open_, shorts, strict=True):
                    costs = changes(design, base_first, seen, design.workloads)
                    if not seen.failure and all(map(math.isfinite, costs)):
                        asked[index].report(cost(design, costs), step=0)
                open_ = [index for index in open_ if not asked[index].should_prune()]
            whole = looks.at([Look(points[index], design.workloads, seeds) for index in open_])
            seen_at = dict(zip(open_, whole, strict=True))
            for index, trial in enumerate(asked):
                done = (
                    _trial(design, trial.number, points[index], base, seen_at.get(index))
                    if index in met
                    else Trial(trial.number, points[index], "impossible", "does not meet where", [], [])
                )
                _tell(study, design, trial, done)
                trials.append(done)
                told(done)
    except KeyboardInterrupt:
        return Searched(trials, _importance(study, design), True)
    return Searched(trials, _importance(study, design), False)


def _known(design: TuneDesign) -> None:
    """Looks whether the workloads have the settings that are to be tuned.

    Raises:
        InputError: one has not.
    """
    for workload in design.workloads:
        for setting, value in design.middle().items():
            try:
                sets = [f"{at}={as_text(given)}" for at, given in {**design.set, **workload.set}.items()]
                load(workload.scenario, sets=[*sets, f"{setting}={value}"])
            except InputError as error:
                # Whether a value can be depends on the others.
                unknown = [one for one in error.problems if "unknown field" in one.text]
                if unknown:
                    raise InputError.at("", unknown[0].text, ("tune", setting)) from None


def best(design: TuneDesign, trials: Sequence[Trial]) -> Trial | None:
    """The feasible trial of the least cost."""
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


def _trial(design: TuneDesign, number: int, point: Point, base: Seen, seen: Seen | None) -> Trial:
    """`seen` is None where the trial was pruned."""
    if seen is None:
        return Trial(number, point, "pruned", "", [], [])
    if seen.failure:
        return Trial(number, point, "impossible" if seen.problem else "failed", seen.failure, [], [])
    costs = changes(design, base, seen, design.workloads)
    if not all(map(math.isfinite, costs)):
        return Trial(number, point, "failed", "an objective has no value", [], [])
    return Trial(number, point, "complete", "", costs, seen.excess(design))


def _tell(study: optuna.Study, design: TuneDesign, asked: optuna.Trial, done: Trial) -> None:
    from optuna.trial import TrialState

    asked.set_user_attr("settings", done.point)
    if done.state == "complete":
        for name, one in zip((*design.constraints, "faults"), done.excess, strict=True):
            asked.set_constraint(name, min(one, _INFEASIBLE_COST))
        study.tell(asked, done.costs if design.pareto else cost(design, done.costs))
    elif done.state == "failed":
        asked.set_user_attr("message", done.message)
        study.tell(asked, state=TrialState.FAIL)
    else:
        # What cannot be is as bad as what was pruned: the sampler keeps away from both.
        study.tell(asked, state=TrialState.PRUNED)


def _study(design: TuneDesign, folder: Path | None) -> optuna.Study:
    """A new study. What one of the same name had is there again when its runs are taken from the journal."""
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    storage: Any = design.storage or None
    if folder is not None and not design.storage:
        (folder / OPTUNA_JOURNAL_NAME).unlink(missing_ok=True)
        storage = JournalStorage(JournalFileBackend(str(folder / OPTUNA_JOURNAL_NAME)))
    sampler = optuna.samplers.TPESampler(
        seed=design.sampler_seed,
        n_startup_trials=_TRIALS_BEFORE_PRUNING,
        multivariate=True,
        constant_liar=True,
    )
    directions: Any = ["minimize"] * (len(design.objectives) if design.pareto else 1)
    try:
        if design.storage:
            with suppress(KeyError):
                optuna.delete_study(study_name=design.name, storage=storage)
        return optuna.create_study(
            storage=storage,
            sampler=sampler,
            pruner=optuna.pruners.MedianPruner(n_startup_trials=_TRIALS_BEFORE_PRUNING),
            study_name=design.name,
            directions=directions,
        )
    except Exception as error:
        if not design.storage:
            raise
        words = " ".join(str(error).split())[:120]
        raise InputError.at("", f"found one that cannot be used: {words}", ("storage",)) from None


def _point(design: TuneDesign, trial: optuna.Trial) -> Point:
    found: Point = {}
    for setting, values in design.tune.items():
        if isinstance(values, Range):
            low, high = values.ends()
            found[setting] = values.text(trial.suggest_float(setting, low, high, log=values.scale == "log"))
        else:
            found[setting] = as_text(trial.suggest_categorical(setting, [as_text(value) for value in values]))
    return found


def _importance(study: optuna.Study, design: TuneDesign) -> list[dict[str, float]]:
    """PED-ANOVA (Watanabe, Bansal, Hutter, IJCAI 2023): what parts the best trials from the others. The best
    are a tenth of them, or ten, so that a few lucky ones do not speak for all; but no more than half.
    """
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances
    from optuna.trial import TrialState

    ended = len(study.get_trials(deepcopy=False, states=[TrialState.COMPLETE]))
    best = min(0.5, max(0.1, _FEWEST_BEST / max(1, ended)))

    found = []
    for number in range(len(study.directions)):  # all of them to be small, as the evaluator takes them

        def target(trial: Any, number: int = number) -> float:
            return float(trial.values[number])

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                evaluator = PedAnovaImportanceEvaluator(target_quantile=best)
                found.append(dict(get_param_importances(study, evaluator=evaluator, target=target)))
        except (ValueError, RuntimeError):  # too few trials to say
            found.append({})
    return found
