"""A verdict that was tried: what may hold the traffic doubled, each in turn, and the run again.

Counters say where traffic stands; what a faster stage would give is an estimate until somebody has tried. A
simulated run can be tried.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from tailback._engine import Simulation
from tailback.explain import explain, faults
from tailback.explain.doubled import (
    Doubling,
    Key,
    Plan,
    bears_reordering,
    doublings,
    links,
    longer_timers,
    lossless,
    together,
)
from tailback.explain.sender import Senders
from tailback.explain.stages import Figure, Stage, Stages
from tailback.explain.triable import why_not
from tailback.explain.verdict import (
    ALONE,
    ALONE_ENOUGH,
    DEADLOCK,
    FAILED,
    INSIDE,
    NOTHING,
    WORTH_IT,
    Candidate,
    Verdict,
    stages_passed,
)
from tailback.plan import packed_plan
from tailback.recorded.bins import Bins
from tailback.recorded.run import Recorded
from tailback.recorded.signals import DROP
from tailback.text import count, natural, share
from tailback.workload.graphs import with_graphs

SHORT_HOPS = 200_000_000
"""Packet-hops of all trials together that are tried unasked: some ten seconds on two cores."""
TRIALS = 10
"""About how many a run has."""
WORK = 0.95
"""Of what the run delivered, the part whose time is compared: its last part may be one message."""
TWICE = 1.0
"""Twice the capacity carries twice as much at most. A doubling that gives more ended timeouts or moved
interrupts, and another may have done the same: what gives twice is worth as much."""
BROKEN = (FAILED, "loss", "headroom", "timer", "reordering")
"""An end to what is broken may give any gain."""
AS_GOOD = 0.9
"""What counters point to stays the answer if it gives this part of the best."""
SINGLES = 4
"""Of a group, how many are tried alone, the fullest first."""
FEW = 16
"""Single stages that are all tried where no group is worth anything."""
EVENTS = 200_000
"""Between two looks at whether to stop."""


class CannotTry(ValueError):  # noqa: N818  it is what happened
    """The run cannot be simulated again with something doubled; the message says why."""


@dataclass(frozen=True)
class Delivered:
    """Payload that all receivers had over time."""

    edges_s: Any
    bytes: Any
    whole: float = 0.0
    """What there was to deliver, where that is known and some of it was not delivered."""

    @classmethod
    def of(cls, bins: Bins) -> Delivered:
        """Of a run's time series."""
        edges = np.concatenate([bins.start_s[:1], bins.start_s + bins.width_s])
        taken = np.cumsum(bins.total("goodput_rx_bps") * bins.width_s / 8)
        return cls(edges, np.concatenate([[0.0], taken]))

    def same(self, other: Delivered) -> bool:
        """Whether the other run delivered the same at the same times."""
        return np.array_equal(self.edges_s, other.edges_s) and np.array_equal(self.bytes, other.bytes)

    def time(self, size: float) -> float:
        """When `size` bytes were delivered, in seconds; extrapolated where they were not."""
        total = float(self.bytes[-1])
        if size > total:
            return float(self.edges_s[-1]) * size / total if total else float("inf")
        return float(np.interp(size, self.bytes, self.edges_s))

    def gain(self, other: Delivered) -> float:
        """How much sooner the other run has done this one's work, as a share."""
        size = WORK * max(float(self.bytes[-1]), self.whole)
        if not self.bytes[-1]:
            return 1.0 if other.bytes[-1] else 0.0
        first = self.time(0.02 * size)
        begin = 0.0 if first < 0.5 * self.time(size) else first
        return (self.time(size) - begin) / max(1e-12, other.time(size) - begin) - 1


@dataclass
class _Choice:
    """Something to try, with the stages that it is."""

    kind: str
    group: str
    double: Doubling
    singles: dict[str, Doubling] = field(default_factory=dict)
    """By place, as the verdict names it."""


def is_short(result: Recorded) -> bool:
    """Whether trials take seconds, so that they are made unasked."""
    return TRIALS * int(result.meta["packet_hops"]) <= SHORT_HOPS


def answer(
    result: Recorded, tries: bool | None = None, progress: Callable[[int, int], None] | None = None
) -> Verdict:
    """What counters say, tried if it can be and is wanted: the answer that a user is given.

    Args:
        result: Any run.
        tries: Whether to try; None: if that takes seconds.
        progress: See `tried`.

    Raises:
        CannotTry: it is to be tried and cannot be.
    """
    verdict = explain(result)
    if tries is False or (tries is None and not is_short(result)):
        return verdict
    try:
        if (why := why_not(result)) is not None:
            raise CannotTry(why)
        return tried(result, verdict, progress)
    except CannotTry:
        if tries:
            raise
        return verdict


def tried(result: Recorded, verdict: Verdict, progress: Callable[[int, int], None] | None = None) -> Verdict:
    """The same with all gains measured, and the best of them first.

    Args:
        result: A run for which `why_not` has nothing to say.
        verdict: What its counters say.
        progress: Called with how many trials are done, and of how many.

    Raises:
        CannotTry: simulated again, with nothing doubled, it is another run.
    """
    if verdict.key[0] == DEADLOCK or verdict.none in (NOTHING, INSIDE):
        return verdict
    plan = with_graphs(dict(result.plan), result.setup.long_files)
    observed = _observed(verdict)
    choices = _choices(plan, verdict, observed)
    base = Delivered.of(result.bins)
    again, *runs = _run(plan, [dict, *(one.double for one in choices)], progress)
    if again is None or not base.same(again):
        raise CannotTry("simulated again it is another run: it is of another version of Tailback")
    if verdict.seen.leaves_messages:
        # What it never delivered counts, too: as much as any run did.
        base = replace(base, whole=max(float(run.bytes[-1]) for run in runs if run is not None))
    found = [(choice, base.gain(run)) for choice, run in zip(choices, runs, strict=True) if run is not None]
    if not found:
        return verdict
    candidates = [_candidate(choice, gain, verdict, observed) for choice, gain in found]
    candidates.sort(key=worth, reverse=True)
    best = worth(candidates[0])
    if best < WORTH_IT and sum(len(one.singles) for one, _ in found) <= FEW:
        # Where the whole of a group gives nothing, one of it alone may: what follows it has less to do.
        candidates += _each_alone(base, plan, [one for one, _ in found], observed)
        candidates.sort(key=worth, reverse=True)
        best = worth(candidates[0])
        if best >= WORTH_IT:
            return Verdict(verdict.seen, candidates, tried=candidates)
    if best < WORTH_IT:
        return Verdict(verdict.seen, candidates, verdict.none or ALONE, tried=candidates)
    first = _first(verdict, candidates, best)
    choice = next(one for one, _ in found if (one.kind, one.group) == (first.stage.kind, first.group))
    alone = _alone(base, plan, choice, first, verdict, observed)
    rest = [one for one in candidates if one is not first]
    every = candidates if alone is None else sorted([alone, *candidates], key=worth, reverse=True)
    return Verdict(verdict.seen, [alone or first, *rest], tried=every)


def worth(one: Candidate) -> float:
    """What its gain counts for."""
    return one.gain if one.stage.kind in BROKEN else min(one.gain, TWICE)


def _first(verdict: Verdict, candidates: list[Candidate], best: float) -> Candidate:
    """What counters point to if it gives as much as anything; what is broken comes before what is slow."""
    if verdict.candidates and not verdict.none:
        said = verdict.candidates[0].stage.kind, verdict.groups.name(verdict.candidates[0].stage)
        for one in candidates:
            if (one.stage.kind, one.group) == said and (
                worth(one) >= AS_GOOD * best or (said[0] == "headroom" and one.gain >= WORTH_IT)
            ):
                return one
    return candidates[0]


def _alone(
    base: Delivered,
    plan: Plan,
    choice: _Choice,
    first: Candidate,
    verdict: Verdict,
    observed: Mapping[Key, list[Stage]],
) -> Candidate | None:
    """The one of a group that gives about as much as all of it; None if several hold traffic."""
    stages = [one for one in observed.get((choice.kind, choice.group), []) if one.where in choice.singles]
    said = {one.stage.key for one in verdict.candidates[:1] if not one.group}
    stages.sort(key=lambda one: one.key not in said)
    stages = stages[:SINGLES]
    if len(choice.singles) == 1 and stages:
        return Candidate(stages[0], first.gain)
    runs = _run(plan, [choice.singles[one.where] for one in stages])
    alone = [
        Candidate(stage, base.gain(run), first.gain)
        for stage, run in zip(stages, runs, strict=True)
        if run is not None
    ]
    enough = [one for one in alone if worth(one) >= ALONE_ENOUGH * worth(first)]
    # The counters' own choice stands first, if it is enough.
    return enough[0] if enough and enough[0].stage.key in said else max(enough, key=worth, default=None)


def _each_alone(
    base: Delivered, plan: Plan, choices: list[_Choice], observed: Mapping[Key, list[Stage]]
) -> list[Candidate]:
    """Every stage of groups of several, tried alone."""
    stages = [
        (stage, choice.singles[stage.where])
        for choice in choices
        for stage in observed.get((choice.kind, choice.group), [])
        if stage.where in choice.singles and len(choice.singles) > 1
    ]
    runs = _run(plan, [double for _, double in stages])
    return [
        Candidate(stage, base.gain(run))
        for (stage, _), run in zip(stages, runs, strict=True)
        if run is not None
    ]


def _run(
    plan: Plan, doubles: Iterable[Doubling], progress: Callable[[int, int], None] | None = None
) -> list[Delivered | None]:
    """What each delivers; None for one that the engine does not take."""
    doubles = list(doubles)
    stop, done = threading.Event(), 0
    runs: list[Delivered | None] = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        try:
            try:
                found = pool.map(partial(_delivered, plan, stop), doubles)
            except RuntimeError as error:  # a thread cannot be started
                raise MemoryError from error
            for run in found:
                runs.append(run)
                done += 1
                if progress is not None:
                    progress(done, len(doubles))
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise
    return runs


def _delivered(plan: Plan, stop: threading.Event, double: Doubling) -> Delivered | None:
    try:
        packed = packed_plan(double(plan))
        simulation = Simulation(packed.plan, messages=packed.messages, graphs=packed.graphs)
        while not stop.is_set() and not simulation.advance(EVENTS).done:
            pass
    except ValueError:
        return None
    recording = simulation.finish()
    meta = json.loads(recording.meta_json)
    bin_ps, end_ps = max(1, int(meta["bin_ps"])), int(meta["end_ps"])
    return Delivered.of(Bins(pa.table(recording.series), pa.table(recording.entities), bin_ps, end_ps))


def _observed(verdict: Verdict) -> dict[Key, list[Stage]]:
    """By kind and group, the stages that traffic passes, the fullest first."""
    stages = Stages(verdict.seen)
    senders = Senders(stages)
    found: dict[Key, dict[str, Stage]] = {}
    for pair in verdict.seen.pairs:
        for ports, _ in verdict.seen.routes(pair):
            passed = stages_passed(stages, senders, pair, ports)
            own = [senders.window(pair), senders.fetched(pair), senders.loss(pair, passed)]
            if pair.ways:
                own.append(senders.limiter(pair, stages.port(pair.ways[0][0])))
            for stage in [*passed, *(one for one in own if one is not None)]:
                known = found.setdefault((stage.kind, verdict.groups.name(stage)), {})
                if stage.where not in known or known[stage.where].use < stage.use:
                    known[stage.where] = stage
    return {
        key: sorted(known.values(), key=lambda one: (-one.use, natural(one.where)))
        for key, known in found.items()
    }


def _choices(plan: Plan, verdict: Verdict, observed: Mapping[Key, list[Stage]]) -> list[_Choice]:
    """All that is tried: tiers of links, each part of hosts and bridges, failures and losses taken away."""
    groups = verdict.groups
    tiers: dict[str, list[int]] = {}
    for number, link in enumerate(plan["links"]):
        name = groups.tier.get(frozenset((link["a"], link["b"])))
        if name is not None:
            tiers.setdefault(name, []).append(number)
    found = []
    for name, numbers in tiers.items():
        if ("link", name) in observed:
            one = _Choice("link", name, partial(links, numbers=numbers))
            for number in numbers:
                a, b = plan["links"][number]["a"], plan["links"][number]["b"]
                one.singles |= {where: partial(links, numbers=[number]) for where in (f"{a}:{b}", f"{b}:{a}")}
            found.append(one)
    parts: dict[str, dict[str, Doubling]] = {}
    for (kind, where), double in doublings(plan).items():
        if kind != "link":
            parts.setdefault(kind, {})[where] = double
    for kind, singles in parts.items():
        group = groups.name(Stage(kind, "", 0.0, False))
        found.append(_Choice(kind, group, partial(together, doubles=list(singles.values())), singles))
    if plan["failures"]:
        found.append(_Choice(FAILED, "all", lambda one: {**one, "failures": []}))
    if plan["switches"] or any(link["loss"] for link in plan["links"]):
        lost = "loss" if verdict.seen.drops else "buffer"
        kind = next((kind for kind in ("headroom", "loss") if (kind, "all") in observed), lost)
        found.append(_Choice(kind, "all", lossless))
    if verdict.seen.timeouts:
        found.append(_Choice("timer", "all", longer_timers))
    if verdict.seen.sent_again and any(one["load_balancing"] != "ecmp" for one in plan["switch_models"]):
        found.append(_Choice("reordering", "all", bears_reordering))
    return found


def _candidate(
    choice: _Choice, gain: float, verdict: Verdict, observed: Mapping[Key, list[Stage]]
) -> Candidate:
    stages = observed.get((choice.kind, choice.group), [])
    where = next(iter(choice.singles), "")
    if choice.kind == FAILED:
        where = ", ".join("-".join(sorted(link)) for link in faults.down(verdict.seen))
    if choice.kind == "loss":
        most = max(verdict.seen.through, key=lambda port: verdict.seen.port_told(port, DROP))
        where = ":".join(most)
    figures = []
    if choice.kind in ("timer", "reordering"):
        figures = [
            Figure("local_ack_timeout_err", count(verdict.seen.timeouts), ""),
            Figure("packets retransmitted", share(verdict.seen.sent_again), "0"),
        ]
    stage = stages[0] if stages else Stage(choice.kind, where, 0.0, False, figures)
    members = [Candidate(one) for one in stages]
    return Candidate(stage, gain, group=choice.group, members=members)
