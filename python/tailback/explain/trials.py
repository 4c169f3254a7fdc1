"""Trials: the scenario again, each time with one change, to measure what the change gains."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from tailback._engine import Simulation
from tailback.errors import InputError
from tailback.executors import report_progress
from tailback.executors.calls import Calls
from tailback.explain import explain
from tailback.explain.outcome import ALL_GOALS, THROUGHPUT, Asked, Outcome, Trial
from tailback.explain.remedies import Case, Plan, Remedy
from tailback.explain.remedies.catalogue import ALL_REMEDIES
from tailback.explain.stages import Stage
from tailback.explain.symptoms import symptoms
from tailback.explain.triable import why_not
from tailback.explain.verdict import (
    ALONE_ENOUGH,
    BROKEN_KINDS,
    FAILED_LINK,
    INSIDE_SERVERS,
    MAX_COUNTED_GAIN,
    NO_CHANGE_HELPS,
    PAUSE_DEADLOCK,
    WORTH_IT,
    Candidate,
    Verdict,
    worth,
)
from tailback.metrics.spans import last_start
from tailback.plan import make_plan, packed_plan, plan_json
from tailback.recorded import standstill
from tailback.recorded.bins import PS_PER_S, Bins
from tailback.recorded.flows import flows_of
from tailback.recorded.run import Recorded
from tailback.recorded.signals import DROP
from tailback.scenario import load
from tailback.workload.graphs import with_graphs

SHORT_HOPS = 400_000_000
"""Packet-hops of all trials together that are run unasked: less than a minute on two cores."""
TYPICAL_TRIALS = 10
"""About how many runs the trials of a run are."""
QUICK_HOPS = 2_000_000
"""A run with fewer takes some tenths of a second: all changes that are worth it are tried, the best with two seeds.
Of traffic without an end so much is simulated."""
MOST_RUNS = 5
"""Of a longer run, the runs for each of two cores: the trials take some five times as long as it did."""
LONGEST, LONGEST_EVENTS = 6, 10_000_000
"""A trial with this many times the events of the run, and more than some seconds take, is given up."""
AS_GOOD = 0.9
"""The answer by counters stays if it gains this part of the best."""
SINGLES, SINGLES_OF_LONG = 4, 2
"""Of a group, how many are tried alone, the fullest first; of a run that is not quick."""
MAX_SINGLE_STAGES = 16
"""Single stages that are all tried where no group gains anything."""
CONFIRMING_GAIN_SHARE = 0.5
"""A gain holds with another seed if it is at least this part of the first one there."""
EVENTS, FEW_EVENTS = 200_000, 20_000
"""Between two looks at whether to stop; and where trials are to end at one time."""
MIN_TIMES_UNTIL_STEADY = 2.0
"""Of traffic without an end, trials simulate at least so many times what passes before all of it has begun."""


class CannotTry(ValueError):  # noqa: N818  it is what happened
    """The run cannot be simulated again with a change; the message says why."""


@dataclass(frozen=True)
class Question:
    """The user's question."""

    goal: str | None = None
    """One of `outcome.ALL_GOALS`; None: what is bad, and throughput."""
    about: str | None = None
    """A node or an item of traffic; None: all."""
    sets: tuple[str, ...] = ()
    """Settings of a what-if, as after `--set`."""
    own: tuple[Callable[[Case], Iterable[Remedy]], ...] = ()
    """The user's own remedies."""


def is_short(result: Recorded) -> bool:
    """True if trials take less than a minute, so that they are run unasked."""
    hops = int(result.meta["packet_hops"])
    return TYPICAL_TRIALS * (QUICK_HOPS if _until_ps(result) is not None else hops) <= SHORT_HOPS


def _until_ps(result: Recorded) -> int | None:
    """Of a long run whose traffic has no end, the time up to which trials simulate it; None: all of it."""
    plan, hops = result.plan, int(result.meta["packet_hops"])
    writers, connections = plan.get("writers", []), plan.get("tcp_connections", [])
    ends = plan.get("flows", {}).get("list") or plan.get("jobs") or plan.get("failures")
    if hops <= QUICK_HOPS or ends or any(one["stop"] is not None for one in (*writers, *connections)):
        return None
    if any(one.get("messages") is not None for one in writers) or any(one["bytes"] for one in connections):
        return None
    if "ideal_fct_ps" in result.flows.column_names and result.flows.column("ideal_fct_ps").null_count != len(
        result.flows
    ):
        return None
    end = int(result.meta["end_ps"])
    until = max(end * QUICK_HOPS // hops, int(MIN_TIMES_UNTIL_STEADY * last_start(result) * PS_PER_S))
    return until if until < end else None


def answer(
    result: Recorded,
    tries: bool | None = None,
    progress: Callable[[int, int], None] | None = None,
    question: Question | None = None,
) -> Verdict:
    """The verdict by counters, with gains from trials where they are possible and wanted.

    Args:
        result: Any run.
        tries: Whether to try; None: if that takes less than a minute.
        progress: See `tried`.
        question: What is asked.

    Raises:
        CannotTry: it is to be tried and cannot be.
    """
    verdict = explain(result)
    if tries is False:
        return verdict
    why = why_not(result)
    if tries is None and (why is not None or not is_short(result)):
        return verdict
    try:
        if why is not None:
            raise CannotTry(why)
        return tried(result, verdict, progress, question)
    except CannotTry:
        if tries:
            raise
        return verdict


def tried(
    result: Recorded,
    verdict: Verdict,
    progress: Callable[[int, int], None] | None = None,
    question: Question | None = None,
) -> Verdict:
    """The same with the gains that trials measured, the best first.

    Args:
        result: A run for which `why_not` has nothing to say.
        verdict: What its counters say.
        progress: Called with how many trials are done, and of how many.
        question: What is asked.

    Raises:
        CannotTry: simulated again without a change, it is another run.
    """
    if verdict.key[0] == PAUSE_DEADLOCK or verdict.none == INSIDE_SERVERS:
        return verdict
    asked = question or Question()
    with _Bench(result, verdict, asked, progress) as bench:
        verdict = _of_throughput(bench, verdict)
        verdict.until_s = None if bench.until_ps is None else bench.until_ps / PS_PER_S
        verdict.symptoms = symptoms(bench.case, bench.base, bench.trials)
        if asked.goal is not None or asked.about is not None or asked.sets:
            verdict.asked = _asked(bench, asked)
    return verdict


class _Bench:
    """Where trials of a run take place."""

    def __init__(
        self,
        result: Recorded,
        verdict: Verdict,
        question: Question,
        progress: Callable[[int, int], None] | None,
    ) -> None:
        self.result, self.verdict, self.question, self._progress = result, verdict, question, progress
        self.base = Outcome.of(result.flows, result.bins, result.meta)
        self.trials: list[Trial] = []
        self.plan = with_graphs(dict(result.plan), result.setup.long_files)
        self.case = Case(verdict, self.plan, getattr(result.setup, "scenario", {}))
        cores = os.cpu_count() or 1
        self.until_ps = _until_ps(result)
        self.quick = self.until_ps is not None or int(result.meta["packet_hops"]) < QUICK_HOPS
        self._most_runs = MOST_RUNS * min(cores, 2)
        self._most_events = max(LONGEST * int(result.meta["events"]), LONGEST_EVENTS)

    def __enter__(self) -> _Bench:
        self._folder = tempfile.TemporaryDirectory(prefix="tailback-explain-")
        try:
            self._begin()
        except BaseException:
            self._folder.cleanup()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def _begin(self) -> None:
        own = [one for remedies in self.question.own for one in remedies(self.case)]
        for one in own:
            self.changed(one, self.plan)  # what is wrong with it is said
        wanted = [*own, *(one for remedies in ALL_REMEDIES for one in remedies(self.case))]
        if _plain(self._with(())) != _plain(self.plan):
            # Defaults of another version, or a plan that was edited by hand: settings would change more.
            wanted = [one for one in wanted if not one.sets]
        if self.question.sets:
            wanted = [what_if(self.question.sets)]
        nothing = Remedy("", "", "", edit=lambda plan: plan)
        if not self.quick:
            # The others are the run itself, and stages of a group alone.
            wanted = _most_likely(self.case, wanted)[: self._most_runs - 1 - SINGLES_OF_LONG]
        again, *outcomes = self._run([nothing, *wanted], self._progress)
        if again is None or not self.base.delivered.same(again.delivered, self.until_ps is not None):
            raise CannotTry("simulated again it is another run: it is of another version of Tailback")
        if self.until_ps is not None:
            self.base = again
        self.trials = [
            Trial(one, outcome) for one, outcome in zip(wanted, outcomes, strict=True) if outcome is not None
        ]
        if self.verdict.seen.leaves_messages or any(
            one["kind"] == standstill.STANDING_STILL for one in self.case.faults
        ):
            # What it never delivered counts, too: as much as any run did.
            whole = max(float(one.outcome.delivered.bytes[-1]) for one in self.trials)
            self.base = replace(self.base, delivered=replace(self.base.delivered, whole=whole))

    def gains(self, remedies: Sequence[Remedy]) -> list[float | None]:
        """The gain in throughput of each remedy."""
        return [
            None if one is None else self.base.delivered.gain(one.delivered) for one in self._run(remedies)
        ]

    def with_another_seed(self, remedy: Remedy) -> float | None:
        """The gain in throughput of a remedy with another seed."""
        seed = self.plan["run"]["seed"] + 1

        def seeded(plan: Plan) -> Plan:
            return {**plan, "run": {**plan["run"], "seed": seed}}

        def changed(plan: Plan) -> Plan:
            return seeded(self.changed(remedy, plan))

        both = self._run([Remedy("", "", "", edit=seeded), Remedy("", "", "", edit=changed)])
        if both[0] is None or both[1] is None:
            return None
        return both[0].delivered.gain(both[1].delivered)

    def changed(self, remedy: Remedy, plan: Plan) -> Plan:
        """The plan with a remedy."""
        if remedy.sets:
            plan = self._with(remedy.sets)
        return remedy.edit(plan) if remedy.edit is not None else plan

    def _with(self, sets: Sequence[str]) -> Plan:
        return make_plan(load(self._scenario_file, sets=list(sets)))

    @property
    def _scenario_file(self) -> Path:
        path = Path(self._folder.name) / "scenario.yaml"
        if not path.exists():
            for name, data in self.result.setup.files.items():
                if name not in ("plan.json", "scenario.yaml"):
                    self._put(name).write_bytes(data)
            for name, copied in self.result.setup.long_files.items():
                with copied.open() as source:
                    self._put(name).write_bytes(source.read())
            path.write_bytes(self.result.setup.files["scenario.yaml"])
        return path

    def _put(self, name: str) -> Path:
        path = Path(self._folder.name) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def _run(
        self, remedies: Sequence[Remedy], progress: Callable[[int, int], None] | None = None
    ) -> list[Outcome | None]:
        """What each gives; None for one that the engine does not take, or that takes too long."""
        calls = [
            (number, (_outcome, self._most_events, self.until_ps, self._planned(one)))
            for number, one in enumerate(remedies)
        ]
        outcomes: dict[int, Outcome | None] = {}
        with Calls(threads=True) as driver:  # a plan may be too large to send to a process
            for number, future in driver.futures(calls):
                outcomes[number] = future.result()
                if progress is not None:
                    progress(len(outcomes), len(calls))
        return [outcomes[number] for number in range(len(calls))]

    def _planned(self, remedy: Remedy) -> Plan | None:
        try:
            return self.changed(remedy, self.plan)
        except InputError:
            if self.question.sets:
                raise
            return None


def _plain(plan: Plan) -> Plan:
    """A plan as a file has it, without its name."""
    return {**json.loads(plan_json(plan)), "name": ""}


def _most_likely(case: Case, remedies: Sequence[Remedy]) -> list[Remedy]:
    """Those first that signs speak for, then stages by how busy they are."""

    def busy(one: Remedy) -> float:
        stages = case.stages_of.get((one.kind, one.where), [])
        return -1.0 if one.repairs else -max((stage.use for stage in stages), default=0.0)

    return sorted(remedies, key=busy)


def _asked(bench: _Bench, question: Question) -> list[Asked]:
    """Effects of the trials on the goal, the best first."""
    goals = (
        [question.goal] if question.goal is not None else list(ALL_GOALS) if question.sets else [THROUGHPUT]
    )
    found = []
    for trial in bench.trials:
        for goal in goals:
            gain = bench.base.gain(trial.outcome, goal, question.about)
            before = bench.base.value(goal, question.about)
            after = trial.outcome.value(goal, question.about)
            if gain is not None and before is not None and after is not None:
                end_s = bench.base.end_s
                found.append(Asked(trial.remedy, goal, question.about, before, after, gain, end_s))
    if question.sets:
        return found
    enough = AS_GOOD * max((one.gain for one in found), default=0.0)
    # Settings that gain as much as faster hardware come first.
    return sorted(found, key=lambda one: (not (one.remedy.is_setting and one.gain >= enough), -one.gain))


def _of_throughput(bench: _Bench, verdict: Verdict) -> Verdict:
    """The verdict with the gains of all trials: how much sooner the same work is done."""
    base, case = bench.base.delivered, bench.case
    if not bench.trials or bench.question.sets:
        return verdict
    found = [(one.remedy, base.gain(one.outcome.delivered)) for one in bench.trials]
    candidates = [_candidate(case, remedy, gain) for remedy, gain in found]
    candidates.sort(key=worth, reverse=True)
    if worth(candidates[0]) < WORTH_IT and sum(len(one.singles) for one, _ in found) <= MAX_SINGLE_STAGES:
        # Where a whole group gains nothing, one of it alone may: what follows it has less to do.
        candidates += _each_alone(bench, [one for one, _ in found])
        candidates.sort(key=worth, reverse=True)
        if worth(candidates[0]) >= WORTH_IT:
            _with_another_seed(bench, candidates[0])
            return Verdict(verdict.seen, candidates, tried=_by_gain(candidates))
    if worth(candidates[0]) < WORTH_IT:
        return Verdict(verdict.seen, candidates, verdict.none or NO_CHANGE_HELPS, tried=_by_gain(candidates))
    first = _first(verdict, candidates)
    alone = _alone(bench, first, verdict)
    rest = [one for one in candidates if one is not first]
    best = alone or first
    _with_another_seed(bench, best)
    return Verdict(verdict.seen, [best, *rest], tried=_by_gain([*([alone] if alone else []), *candidates]))


def _by_gain(candidates: Iterable[Candidate]) -> list[Candidate]:
    return sorted(candidates, key=lambda one: -(one.gain or 0.0))


def _with_another_seed(bench: _Bench, one: Candidate) -> None:
    if one.remedy is None or one.gain is None or not bench.quick:
        return
    gain = bench.with_another_seed(one.remedy)
    if gain is not None and gain >= max(
        WORTH_IT / 2, CONFIRMING_GAIN_SHARE * min(one.gain, MAX_COUNTED_GAIN)
    ):
        one.seeds = 2
    else:
        one.seeds = 0


def _first(verdict: Verdict, candidates: list[Candidate]) -> Candidate:
    """The candidate by counters if it gains as much as any; what is broken comes before what is slow."""
    for one in candidates:
        if one.stage.kind in BROKEN_KINDS and worth(one) >= WORTH_IT:
            return one
    best = worth(candidates[0])
    for one in candidates:
        # Settings that gain as much as faster hardware are what is wrong.
        if one.remedy is not None and one.remedy.repairs and one.remedy.sets and worth(one) >= AS_GOOD * best:
            return one
    if verdict.candidates and not verdict.none:
        said = verdict.candidates[0].stage.kind, verdict.groups.name(verdict.candidates[0].stage)
        for one in candidates:
            if (one.stage.kind, one.group) == said and worth(one) >= AS_GOOD * best:
                return one
    return candidates[0]


def _alone(bench: _Bench, first: Candidate, verdict: Verdict) -> Candidate | None:
    """The one of a group that gains about as much as all of it; None if several hold traffic."""
    group = first.remedy
    if group is None or not group.singles:
        return None
    stages = bench.case.stages_of.get((group.kind, group.where), [])
    stages = [one for one in stages if one.where in group.singles]
    known = {one.where for one in stages}
    if group.kind != "link":
        stages += [Stage(group.kind, name, 0.0, False) for name in group.singles if name not in known]
    said = {one.stage.key for one in verdict.candidates[:1] if not one.group}
    held = {
        one.stage.key: one.held for group in verdict.candidates for one in (group, *group.members) if one.held
    }
    stages.sort(key=lambda one: (one.key not in said, -round(one.use, 2), -held.get(one.key, 0.0)))
    stages = stages[: SINGLES if bench.quick else SINGLES_OF_LONG]
    if len(group.singles) == 1 and stages:
        return Candidate(stages[0], gain=first.gain, remedy=group)
    alone = [
        replace(one, gain_of_group=first.gain)
        for one in _single(bench, [(stage, group.singles[stage.where]) for stage in stages])
    ]
    enough = [one for one in alone if worth(one) >= ALONE_ENOUGH * worth(first)]
    # What counters point to stands first, if it is enough.
    return enough[0] if enough and enough[0].stage.key in said else max(enough, key=worth, default=None)


def _each_alone(bench: _Bench, groups: Sequence[Remedy]) -> list[Candidate]:
    """Every stage of groups of several, tried alone."""
    return _single(
        bench,
        [
            (stage, group.singles[stage.where])
            for group in groups
            for stage in bench.case.stages_of.get((group.kind, group.where), [])
            if stage.where in group.singles and len(group.singles) > 1
        ],
    )


def _single(bench: _Bench, stages: Sequence[tuple[Stage, Remedy]]) -> list[Candidate]:
    gains = bench.gains([remedy for _, remedy in stages])
    return [
        Candidate(stage, gain=gain, remedy=remedy)
        for (stage, remedy), gain in zip(stages, gains, strict=True)
        if gain is not None
    ]


def _outcome(most_events: int, until_ps: int | None, plan: Plan | None) -> Outcome | None:
    if plan is None:
        return None
    try:
        packed = packed_plan(plan)
        simulation = Simulation(packed.plan, messages=packed.messages, graphs=packed.graphs)
        step = EVENTS if until_ps is None else FEW_EVENTS
        while not (progress := simulation.advance(step)).done:
            report_progress((None, 0.0))  # ends a trial that is killed
            if until_ps is not None and progress.time_ps >= until_ps:
                break
            if progress.events > most_events:
                return None
    except ValueError:
        return None
    recording = simulation.finish()
    meta = json.loads(recording.meta_json)
    bin_ps, end_ps = max(1, int(meta["bin_ps"])), int(meta["end_ps"])
    bins = Bins(pa.table(recording.series), pa.table(recording.entities), bin_ps, end_ps)
    return Outcome.of(flows_of(recording), bins, meta)


def _candidate(case: Case, remedy: Remedy, gain: float) -> Candidate:
    stages = case.stages_of.get((remedy.kind, remedy.where), [])
    where = remedy.where if remedy.sets or remedy.says else next(iter(remedy.singles), "")
    if remedy.kind == FAILED_LINK:
        where = " and ".join(case.down())
    if remedy.kind == "loss":
        most = max(case.seen.through, key=lambda port: case.seen.port_told(port, DROP))
        where = ":".join(most)
    stage = stages[0] if stages else Stage(remedy.kind, where, 0.0, False, list(remedy.figures))
    members = [Candidate(one) for one in stages]
    return Candidate(stage, group=remedy.where or "all", members=members, gain=gain, remedy=remedy)


def what_if(sets: Sequence[str]) -> Remedy:
    """The change that a user asks about."""
    return Remedy("settings", " ".join(sets), "", sets=tuple(sets), where="all", repairs=True)
