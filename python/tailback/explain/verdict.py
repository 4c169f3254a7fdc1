"""The verdict by counters: which stages are full, and how much of the traffic waits at each.

Counters say where traffic stands, and so what is worth trying. What a change gains only a trial says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from tailback.explain import bridge, faults
from tailback.explain.groups import Groups
from tailback.explain.observed import Observed
from tailback.explain.outcome import Asked
from tailback.explain.remedy import Remedy
from tailback.explain.sender import Senders
from tailback.explain.stages import FULL_BUSY_SHARE, IDLE_BUSY_SHARE, NO_PAUSE, Stage, Stages
from tailback.explain.ways import Pair, Port

IDLE_WINDOW = 0.35
"""Share of a window that waits in no queue, above which its sender waits for the round trip."""
NEARLY_FULL = 0.7
"""A stage this busy is what a controller without marks (HPCC, TIMELY) keeps just below full."""
MIN_USEFUL_SHARE = 0.8
"""Part of what a wire carries that arrives for good, below which retransmissions fill it."""
BROKEN_KINDS = ("host", "headroom")
"""Kinds of change that end what is broken: they come before all that is slow."""
PAUSE_DEADLOCK = "deadlock"
FAILED_LINK = "failed link"
LITTLE_OFFERED = "the application offers no more"
NOT_FULL = "no stage is full"
NO_CHANGE_HELPS = "no change that was tried carries more"
NOTHING_DELIVERED = "nothing was delivered"
RANKS_COMPUTE = "ranks compute"
INSIDE_SERVERS = "nothing crosses the network"
MESSAGES_WAIT = "messages wait before they begin"
MIN_COMPUTING_SHARE = 0.8
"""Part of the time of all jobs that ranks compute, above which the network does not hold them."""
WORTH_IT = 0.05
"""A change that gains less of the throughput is not worth naming."""
ALONE_ENOUGH = 0.8
"""A stage is named alone if it has this part of what its group has: of the traffic, or of the gain."""


@dataclass
class Candidate:
    """A full stage, or several of a group that is changed as one; and what its trial gained."""

    stage: Stage
    """Of a group the one that most traffic waits at."""
    held: float = 0.0
    """Share of all payload that waits at it."""
    group: str = ""
    """The name of a group: a tier of links, or which hosts."""
    members: list[Candidate] = field(default_factory=list)
    gain: float | None = None
    """How much sooner a trial did the same work, as a share; None: not tried."""
    gain_of_group: float | None = None
    """Of a stage that was tried alone, what its whole group gained."""
    remedy: Remedy | None = None
    """The change of the trial."""
    seeds: int = 1
    """With how many seeds it gained as much; 0: with another seed it did not."""

    @property
    def key(self) -> tuple[str, str]:
        """Kind and place, or kind and group."""
        return (self.stage.kind, self.group) if self.group else self.stage.key


MAX_COUNTED_GAIN = 1.0
"""Twice the capacity carries twice as much at most. What gains more than that, by ending timeouts or moving
interrupts, counts as this much, as others may have done the same."""


def worth(one: Candidate) -> float:
    """The gain of a candidate, bounded unless it repairs something."""
    gain = one.gain or 0.0
    return gain if one.remedy is not None and one.remedy.repairs else min(gain, MAX_COUNTED_GAIN)


@dataclass
class Symptom:
    """Something that is bad for somebody."""

    kind: str
    """stuck, victim, starved, late, dropped or incast."""
    words: str
    goal: str = ""
    """The goal that it is measured by: see `outcome`."""
    about: str = ""
    """Whose flows it is about: an item or a node."""
    remedy: Remedy | None = None
    """The change that helped most, where one was tried that helped."""
    gain: float = 0.0


@dataclass
class Verdict:
    """Candidates, the strongest first; where `none` is set it says why none of them is the bottleneck."""

    seen: Observed
    candidates: list[Candidate]
    none: str = ""
    tried: list[Candidate] = field(default_factory=list)
    """All changes that were tried, the best first: see `trials`."""
    symptoms: list[Symptom] = field(default_factory=list)
    """Symptoms, with whom they affect and which change helped: see `symptoms`."""

    until_s: float | None = None
    """The time up to which trials simulated the run; None: all of it."""
    asked: list[Asked] = field(default_factory=list)
    """Effect of each change on the user's goal, the best first."""

    @property
    def key(self) -> tuple[str, str]:
        """Kind and place of the bottleneck: of a link its two ends, of a group of links their tier."""
        if self.deadlock:
            return PAUSE_DEADLOCK, self.deadlock[0]
        return self.candidates[0].key if self.candidates and not self.none else ("none", "")

    @cached_property
    def groups(self) -> Groups:
        """Groups of stages: tiers of links, hosts, kinds."""
        return Groups(self.seen)

    @cached_property
    def deadlock(self) -> tuple[str, str] | None:
        """Where all wait for all, and in words who for whom."""
        return faults.deadlock(self.seen)


def explain(seen: Observed) -> Verdict:
    """The verdict by the counters of a run."""
    if not seen.goodput or not seen.pairs:
        return Verdict(seen, [], INSIDE_SERVERS if seen.inside else NOTHING_DELIVERED)
    stages = Stages(seen)
    senders = Senders(stages)
    groups = Groups(seen)
    single: dict[tuple[str, str], Candidate] = {}
    grouped: dict[tuple[str, str], Candidate] = {}
    ways = [
        (pair, stages_passed(stages, senders, pair, ports), part)
        for pair in seen.pairs
        for ports, part in seen.routes(pair)
    ]
    told: dict[str, Stage | None] = {}
    for pair, passed, _ in ways:
        told[pair.src] = _marker([*passed, *filter(None, [told.get(pair.src)])])
    for pair, passed, part in ways:
        full = full_stages(stages, senders, pair, passed, told[pair.src])
        if full:
            held = pair.weight * part
            for stage in full:
                group = groups.name(stage)
                if stage.key not in single:
                    single[stage.key] = Candidate(stage)
                    grouped.setdefault((stage.kind, group), Candidate(stage, group=group)).members.append(
                        single[stage.key]
                    )
            first = full[0]
            group = groups.name(first)
            grouped[first.kind, group].held += held
            # Where another of the group is as full, the first alone would change nothing.
            if not any(
                one.kind == first.kind and groups.name(one) == group and one.use >= FULL_BUSY_SHARE
                for one in passed
                if one is not first
            ):
                single[first.key].held += held
    ranked = sorted((_named(one) for one in grouped.values()), key=lambda one: -one.held)
    if seen.begins_late > MIN_COMPUTING_SHARE:
        return Verdict(seen, ranked, MESSAGES_WAIT)
    if seen.computing > MIN_COMPUTING_SHARE:
        return Verdict(seen, ranked, RANKS_COMPUTE)
    if all(senders.keeps_up(pair) for pair in seen.pairs):
        return Verdict(seen, ranked, LITTLE_OFFERED)
    if not ranked or not ranked[0].held:
        return Verdict(seen, ranked, NOT_FULL)
    return Verdict(seen, ranked)


def _named(group: Candidate) -> Candidate:
    """The group, or the one of its stages that nearly all of its traffic waits at."""
    group.members.sort(key=lambda one: (-one.held, -one.stage.use))
    best = group.members[0]
    if group.held and best.held >= ALONE_ENOUGH * group.held:
        return best
    group.stage = best.stage
    return group


def stages_passed(stages: Stages, senders: Senders, pair: Pair, ports: Sequence[Port]) -> list[Stage]:
    """All stages that a pair's traffic passes, from the receiver's memory to the sender."""
    found = [stages.cpu(pair.dst, sends=False), stages.host_path(pair.dst)]
    for at in range(len(ports) - 1, -1, -1):
        port = ports[at]
        found.append(stages.port(port))
        if port[0] in stages.seen.bridges and at:
            found += bridge.stages(stages.seen, ports[at - 1], port, stages.port(port))
    found += [stages.cpu(pair.src, sends=True)]
    return [stage for stage in found if stage is not None]


def full_stages(
    stages: Stages, senders: Senders, pair: Pair, passed: list[Stage], told: Stage | None = None
) -> list[Stage]:
    """The stages that this traffic waits at, the one that holds it first: of several the nearest to the
    receiver, as those before it only fill its queue. `told` is who told the sender to slow down, on any way.
    """
    if senders.keeps_up(pair):
        return []
    lost = senders.loss(pair, passed)
    busy = [stage for stage in passed if stage.holds and stage.use > 0]
    full = [stage for stage in busy if stage.stands and stage.use >= FULL_BUSY_SHARE]
    # A wire that carries much again is full because somebody drops.
    wasted = any(stage.kind == "link" and stage.need < MIN_USEFUL_SHARE * stage.use for stage in passed)
    droppers = sorted((stage for stage in busy if stage.drops), key=lambda one: -one.signals)
    if wasted and droppers:
        full = [droppers[0], *(stage for stage in full if stage is not droppers[0])]
    wires = [stage for stage in full if stage.kind == "link" and stage.need >= FULL_BUSY_SHARE]
    if senders.is_tcp(pair) and wires:
        # Behind a full wire a core may be busy all the time, as it polls for few packets at a time.
        full = [*wires, *(stage for stage in full if stage not in wires)]
    if not full:
        full = _none_full(stages, senders, pair, busy, passed, told)
    return [lost, *full] if lost is not None else full


def _none_full(
    stages: Stages,
    senders: Senders,
    pair: Pair,
    busy: list[Stage],
    passed: list[Stage],
    told: Stage | None,
) -> list[Stage]:
    """The limit of a sender where no stage is full: its window, a port that marks or drops, its limiter."""
    window = senders.window(pair)
    limiter = senders.limiter(pair, stages.port(pair.ways[0][0])) if pair.ways else None
    fullest = max(busy, key=lambda stage: stage.use, default=None)
    if window is not None and window.use > IDLE_WINDOW and (fullest is None or fullest.use < FULL_BUSY_SHARE):
        if senders.is_tcp(pair) and passed[0].kind == "cpu" and passed[0].use >= NO_PAUSE:
            return [passed[0]]
        return [window]
    if fullest is None and limiter is not None and limiter.kind == "throttle":
        fullest = told
    return [one for one in (fullest, limiter) if one is not None][:1]


def _marker(passed: list[Stage]) -> Stage | None:
    """Who told a sender to slow down, at any time of the run: a rate cut is a signal, and not the cause."""
    told = [stage for stage in passed if stage.signals and stage.use > IDLE_BUSY_SHARE]
    told = told or [stage for stage in passed if stage.use > NEARLY_FULL]
    return max(told, key=lambda stage: (stage.signals, stage.use), default=None)
