"""Tuning: which settings serve several workloads best, judged on workloads and seeds that no trial saw.

Optuna proposes settings (its tree-structured Parzen estimator, TPE), runs judge them. Trials are asked for in
batches of a fixed size and told in their order, so that a study does not depend on how many runs there are at a
time, or where. A study that goes on is the same study again, from the journal.

The best of many trials looks better than it is in the runs that it was chosen by. Only the judgement tells its gain:
runs with other seeds and on other workloads, against the scenarios as they are.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tailback import interrupts, noise, text
from tailback.errors import InputError
from tailback.files.out_folder import OutFolder
from tailback.metrics import Metric
from tailback.scenario import load
from tailback.study.driver import Driver, Progress, executor_on, journalled, study_folder
from tailback.study.journal import NAME as JOURNAL
from tailback.study.journal import Row
from tailback.study.points import Point, Range, as_text, sets_of
from tailback.study.run import Task, digest_of
from tailback.study.study_file import Source, asked_for
from tailback.study.tune_data import Gain, Judged, Trial, best, cost, front
from tailback.study.tune_design import TuneDesign, Workload, read_tune
from tailback.study.tune_result import TuneResult

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
_MOST_JUDGED = 6
"""Points of a front that are judged: its ends, and some between."""
_INFEASIBLE_COST = 1e9
"""An excess that is infinite, as a number that Optuna can keep."""


class TuneProgress(Progress):
    def begun(self, design: TuneDesign) -> None:
        """The search begins."""

    def tried(self, trial: Trial) -> None:
        """A trial has ended."""

    def judging(self, trials: int) -> None:
        """This number of trials is judged now."""


def tune(
    source: Source | TuneDesign | None = None,
    /,
    *,
    out: str | os.PathLike[str] | OutFolder | None = None,
    resume: bool = False,
    jobs: int | None = None,
    executor: Executor | None = None,
    on: str | None = None,
    progress: TuneProgress | None = None,
    **design: Any,
) -> TuneResult:
    """Looks for the settings that serve several workloads best, and judges them on seeds and workloads that
    were not tuned on.

    The search is Optuna's (tree-structured Parzen estimator); the same design gives the same trials wherever
    and however many at a time runs are carried out. Ctrl-C keeps the trials that have ended; the result then
    is not `complete`, and is not judged.

    Args:
        source: The file of a tuning, or plain data in the same form; without it, `design` has its fields.
        out: A folder, new or empty, for the journal, the study, tables and page; None keeps all in memory.
        resume: `out` is that of a tuning that was ended early: what is done there is not run again. Without
            `source` and fields it is the tuning that was begun there.
        jobs: Runs at a time; default: as many as there are cores.
        executor: Where the runs are carried out, as of `tailback.sweep`.
        on: `ray`, the Ray cluster of this machine, or `ray://host:10001`, in place of an executor.
        progress: Told what happens.
        design: See `source`.

    Raises:
        InputError: the tuning, or `out`, cannot be used, or the scenarios as they are cannot be run.
        ImportError: Optuna is not installed: `pip install 'tailback[tune]'`.
        OSError: `out` could not be written; the journal has what was complete.
    """
    asked = asked_for(TuneDesign, read_tune, source, design, out, resume)
    progress = progress or TuneProgress()
    made = (TuneDesign.FILE, JOURNAL, OPTUNA_JOURNAL_NAME)
    with (
        executor_on(on, executor) as executor,
        study_folder(out, resume, asked, gone_if_refused=made) as folder,
        journalled(folder, jobs, executor, progress) as driver,
    ):
        progress.begun(asked)
        trials, importance, interrupted = _search(asked, driver, folder, progress.tried)
        chosen, judged = _chosen(asked, trials), []
        if chosen and not interrupted:
            progress.judging(len(chosen))
            try:
                judged = _judge(asked, driver, chosen)
            except KeyboardInterrupt:
                interrupted = True
        result = TuneResult(asked, trials, importance, judged, interrupted)
        if folder is not None:
            with interrupts.noted():
                result.write(folder)
    return result


def _chosen(design: TuneDesign, trials: list[Trial]) -> list[Trial]:
    if not design.pareto:
        one = best(design, trials)
        return [] if one is None else [one]
    every = sorted(front(trials), key=lambda one: one.costs)
    if len(every) <= _MOST_JUDGED:
        return every
    return [every[round(index * (len(every) - 1) / (_MOST_JUDGED - 1))] for index in range(_MOST_JUDGED)]


class Attempt(NamedTuple):
    """Settings, tried on workloads with seeds. `short`: with the settings of `first_look`."""

    point: Point
    workloads: Sequence[Workload]
    seeds: Sequence[int]
    short: bool = False


class Attempted(NamedTuple):
    """The rows of an attempt by workload and seed; or why there are none."""

    rows: dict[tuple[int, int], Row]
    problem: str = ""

    @property
    def failure(self) -> str:
        """Why settings that were tried have no value, if they have none."""
        failed = [row["message"] for row in self.rows.values() if row["status"] != "done"]
        return self.problem or (failed[0] if failed else "")

    def values(self, workload: int, shown: Metric) -> dict[int, float]:
        return {
            seed: value
            for (number, seed), row in sorted(self.rows.items())
            if number == workload and (value := row.get("metrics", {}).get(shown.label)) is not None
        }

    def excess(self, design: TuneDesign) -> list[float]:
        """How far each constraint is missed, at the worst run; the last is the number of faults."""
        measured = [row.get("metrics", {}) for row in self.rows.values()]
        each = [
            max((limit.excess(one.get(limit.shown.label)) for one in measured), default=0.0)
            for limit in design.limits()
        ]
        return [*each, float(sum(len(row.get("faults", [])) for row in self.rows.values()))]


def _attempts(design: TuneDesign, driver: Driver, attempts: Sequence[Attempt]) -> list[Attempted]:
    """Carries them out, all runs of several at a time."""
    tasks: list[dict[tuple[int, int], Task] | str] = []
    for one in attempts:
        try:
            tasks.append(dict(_tasks(design, one)))
        except InputError as error:
            tasks.append(str(error.problems[0]))
    every = {
        task.key: task for one in tasks if not isinstance(one, str) for task in one.values()
    }  # attempts may have runs in common
    rows = {key: row for key, task in every.items() if (row := driver.done_before(task)) is not None}
    rows |= dict(driver.rows([(key, task) for key, task in every.items() if key not in rows]))
    return [
        Attempted({}, one)
        if isinstance(one, str)
        else Attempted({at: rows[task.key] for at, task in one.items()})
        for one in tasks
    ]


def _tasks(design: TuneDesign, attempt: Attempt) -> Iterator[tuple[tuple[int, int], Task]]:
    """By workload and seed."""
    settings = {**design.set, **(design.first_look if attempt.short else {})}
    for index, workload in enumerate(attempt.workloads):
        sets = tuple(sets_of({**settings, **workload.set, **attempt.point}))
        digest = digest_of(load(workload.scenario, sets=list(sets), seed=attempt.seeds[0]))
        for seed in attempt.seeds:
            yield (index, seed), Task(workload.scenario, sets, seed, digest, design.measured(), None)


def _changes(
    design: TuneDesign, base: Attempted, seen: Attempted, workloads: Sequence[Workload]
) -> list[float]:
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


def _check_room_to_better(design: TuneDesign, base: Attempted) -> None:
    """Looks whether the scenarios as they are leave something to better.

    Raises:
        InputError: a run failed, or a metric cannot be said, or is 0.
    """
    if base.failure:
        raise InputError.at("workloads", f"as they are: {base.failure}")
    for index, shown in enumerate(design.shown()):
        for number, workload in enumerate(design.workloads):
            mean = _mean(base.values(number, shown))
            if not math.isfinite(mean) or mean == 0:
                what = "0" if mean == 0 else "no value"
                where = f"{shown.label} of {workload.title} as it is"
                text = f"found {what} for {where}, expected a metric that can be bettered"
                raise InputError.at("", text, ("objectives", index, "metric"))


def _mean(values: Mapping[int, float]) -> float:
    return noise.interval(list(values.values())).mean


def _search(
    design: TuneDesign, driver: Driver, folder: Path | None, told: Callable[[Trial], None]
) -> tuple[list[Trial], list[dict[str, float]], bool]:
    """Tries settings until there are as many trials as were asked for: these; the importance of each setting, by
    objective, in shares; and whether there was an interrupt.

    Raises:
        InputError: the scenarios as they are cannot be bettered, or the storage cannot be used.
    """
    _check_settings_known(design)
    study = _study(design, folder)
    prunes = design.prune and not design.pareto
    seeds = design.seeds_in_order()
    first = Attempt({}, design.workloads, seeds[:1], short=True)
    base, base_first = _attempts(design, driver, [Attempt({}, design.workloads, seeds), first])
    for one in (base, base_first):
        _check_room_to_better(design, one)
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
                shorts = _attempts(design, driver, [first._replace(point=points[index]) for index in open_])
                for index, seen in zip(open_, shorts, strict=True):
                    costs = _changes(design, base_first, seen, design.workloads)
                    if not seen.failure and all(map(math.isfinite, costs)):
                        asked[index].report(cost(design, costs), step=0)
                open_ = [index for index in open_ if not asked[index].should_prune()]
            whole = _attempts(
                design, driver, [Attempt(points[index], design.workloads, seeds) for index in open_]
            )
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
        return trials, _importance(study), True
    return trials, _importance(study), False


def _check_settings_known(design: TuneDesign) -> None:
    """Looks whether the workloads have the settings that are to be tuned.

    Raises:
        InputError: one has not.
    """
    for workload in design.workloads:
        for setting, value in design.middle().items():
            try:
                load(workload.scenario, sets=sets_of({**design.set, **workload.set, setting: value}))
            except InputError as error:
                # Whether a value can be depends on the others.
                unknown = [one for one in error.problems if "unknown field" in one.text]
                if unknown:
                    raise InputError.at("", unknown[0].text, ("tune", setting)) from None


def _trial(design: TuneDesign, number: int, point: Point, base: Attempted, seen: Attempted | None) -> Trial:
    """`seen` is None where the trial was pruned."""
    if seen is None:
        return Trial(number, point, "pruned", "", [], [])
    if seen.failure:
        return Trial(number, point, "impossible" if seen.problem else "failed", seen.failure, [], [])
    costs = _changes(design, base, seen, design.workloads)
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


def _importance(study: optuna.Study) -> list[dict[str, float]]:
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


def _judge(design: TuneDesign, driver: Driver, trials: Sequence[Trial]) -> list[Judged]:
    """Runs them with the held-out seeds, on all workloads."""
    seeds = design.held_out_seeds_in_order()
    workloads = [*design.workloads, *design.held_out]
    base, *seen = _attempts(
        design,
        driver,
        [Attempt({}, workloads, seeds), *(Attempt(trial.point, workloads, seeds) for trial in trials)],
    )
    return [
        Judged(trial.number, _gains(design, trial.number, workloads, base, one), _misses(design, one))
        for trial, one in zip(trials, seen, strict=True)
    ]


def _gains(
    design: TuneDesign, trial: int, workloads: Sequence[Workload], base: Attempted, seen: Attempted
) -> list[Gain]:
    pairs = []
    for number, workload in enumerate(workloads):
        for objective, shown in zip(design.objectives, design.shown(), strict=True):
            before, after = (one.values(number, shown) for one in (base, seen))
            pairs.append(
                Gain(
                    trial,
                    workload.title,
                    number < len(design.workloads),
                    shown,
                    objective.goal,
                    noise.interval(list(before.values())),
                    noise.interval(list(after.values())),
                    noise.paired(before, after),
                    1.0,
                )
            )
    adjusted = noise.holm([gain.difference.p for gain in pairs])
    return [gain._replace(adjusted_p=p) for gain, p in zip(pairs, adjusted, strict=True)]


def _misses(design: TuneDesign, seen: Attempted) -> list[str]:
    if seen.failure:
        return [seen.failure]
    *excess, faults = seen.excess(design)
    missed = [limit.in_words for limit, one in zip(design.limits(), excess, strict=True) if one > 0]
    return [*missed, *([text.plural(int(faults), "fault")] if faults else [])]
