"""Where a run is stuck: the stage that holds most of its traffic, and what doubling it would give."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property

from tailback.explain import bridge, faults
from tailback.explain.groups import Groups, Place, place
from tailback.explain.observed import Observed
from tailback.explain.sender import Senders
from tailback.explain.stages import CHEAPER, FULL, IDLE, NO_PAUSE, Stage, Stages
from tailback.explain.ways import Pair, Port

LOOP = 0.35
"""Share of a window that waits nowhere above which the sender's time is that of a round trip. A window that
goes round as a burst waits for half of the time in the slowest stage."""
DEARER = 1.75
"""How much dearer a byte becomes to a sender's core once its receiver does not fall behind. Found on drawn
runs, see docs/explain.md."""
SPREADS = 0.65
"""A wire that is busy this much sends TCP's packets one by one. Found on drawn runs."""
MERGED = 0.1
"""ACKs for each data packet below which receivers merge many packets: Linux acknowledges what GRO merged, up
to 64 KB, at once."""
MERGES = 65_536
"""Bytes under way below which a receiver has nothing to merge packets with, whatever comes: less than GRO
makes one of."""
WASTED = 0.8
"""Of what a wire carries, the part that arrives for good below which retransmissions fill it."""
SAME = 0.05
"""Stages whose use differs by less are as full as each other."""
MOST_DROPS = 0.5
"""Part of the drops and marks of who drops most above which another is to blame, too."""
NEARLY = 0.7
"""A stage this busy is what a controller without marks (HPCC, TIMELY) keeps just below full."""
MOST_OF_A_ROUND = 0.5
"""What doublings can save of a round at most: half of it."""
MOST_LOST = 8.0
"""What an end to losses is estimated to give at most: it is no doubling."""
DEADLOCK = "deadlock"
FAILED = "failed link"
OFFERED = "the application offers no more"
ALONE = "no stage alone would carry more"
NOTHING = "nothing was delivered"
COMPUTING = "ranks compute"
INSIDE = "nothing crosses the network"
LATE = "messages wait before they begin"
MOSTLY = 0.8
"""Part of the time of all jobs that ranks compute from which on the network is not what holds them."""
WORTH_IT = 0.05
"""What doubling must give of the throughput to call a stage the bottleneck."""
EVEN = 0.75
"""How full links get that ECMP shares between flows: some carry more of them than others."""
ALONE_ENOUGH = 0.8
"""A stage that is worth this part of what all of its group are worth together is named alone."""


@dataclass
class Candidate:
    """A stage, or a group of them, with what it is estimated to give if doubled, as a share of the
    throughput.
    """

    stage: Stage
    """Of a group the one that is worth most."""
    gain: float = 0.0
    together: float = 0.0
    """Of one that is named alone, what all of its group are estimated to give."""
    pairs: list[Pair] = field(default_factory=list)
    parts: list[tuple[float, float]] = field(default_factory=list)
    """Of the traffic that it holds, weight and gain of each part."""
    next: Stage | None = None
    """The fullest other stage that its first pair passes: what would hold if this one did not."""
    group: str = ""
    """The name of a group: a tier of links, or which hosts."""
    members: list[Candidate] = field(default_factory=list)
    """Those of a group that hold traffic, the strongest first."""

    @property
    def key(self) -> tuple[str, str]:
        """Kind and place, or kind and group."""
        return (self.stage.kind, self.group) if self.group else self.stage.key

    @property
    def weight(self) -> float:
        """What of all payload it holds."""
        return sum(weight for weight, _ in self.parts)


@dataclass
class Verdict:
    """Candidates, the strongest first; none of them where nothing is stuck, for the reason in `none`."""

    seen: Observed
    candidates: list[Candidate]
    none: str = ""
    tried: list[Candidate] = field(default_factory=list)
    """All that was doubled in a run of its own, the best first: see `trials`."""

    @property
    def key(self) -> tuple[str, str]:
        """Kind and place of the bottleneck: of a link its two ends, of a group of links their tier."""
        if self.deadlock:
            return DEADLOCK, self.deadlock[0]
        return self.candidates[0].key if self.candidates and not self.none else ("none", "")

    @cached_property
    def groups(self) -> Groups:
        """What stages belong to."""
        return Groups(self.seen)

    @cached_property
    def deadlock(self) -> tuple[str, str] | None:
        """Where all wait for all, and in words who for whom."""
        return faults.deadlock(self.seen)


def explain(seen: Observed) -> Verdict:
    """The verdict on a run."""
    stages = Stages(seen)
    senders = Senders(stages)
    groups = Groups(seen)
    if not seen.goodput or not seen.pairs:
        return Verdict(seen, [], INSIDE if seen.inside else NOTHING)
    single: dict[tuple[str, str], Candidate] = {}
    grouped: dict[tuple[str, str], Candidate] = {}
    late = senders.late()
    ways = {
        pair.ends: [(stages_passed(stages, senders, pair, ports), part) for ports, part in seen.routes(pair)]
        for pair in seen.pairs
    }
    tellers = {
        src: _marker([stage for ends in group for passed, _ in ways[ends] for stage in passed])
        for src, group in by_source(ways).items()
    }
    for pair in seen.pairs:
        told = tellers[pair.src]
        for passed, part in senders.late_by(ways[pair.ends]):
            weight = late[pair] * part
            together: dict[tuple[str, str], tuple[Stage, float]] = {}
            for stage, gain in gains(stages, senders, pair, passed, told):
                first = stage.key not in single
                one = single.setdefault(stage.key, Candidate(stage))
                _add(one, pair, weight, gain, passed, {stage.key})
                key = stage.kind, groups.name(stage)
                places = groups.places(stage)
                if key not in together:
                    more = gains(stages, senders, pair, passed, told, places)
                    together[key] = (
                        stage,
                        max((gain for other, gain in more if place(other) in places), default=0.0),
                    )
                together[key] = together[key][0], max(gain, together[key][1])
                all_ = grouped.setdefault(key, Candidate(stage, group=key[1]))
                if first:  # a stage belongs to one group
                    all_.members.append(one)
            for key, (stage, gain) in together.items():
                places = groups.places(stage)
                _add(
                    grouped[key],
                    pair,
                    weight,
                    gain,
                    passed,
                    {other.key for other in passed if place(other) in places},
                )
    for one in (*single.values(), *grouped.values()):
        one.gain = senders.in_all(one.parts)
    ranked = sorted((_named(one) for one in grouped.values()), key=lambda one: -one.gain)
    for one in {id(one): one for one in (*ranked, *single.values())}.values():
        one.gain, one.together = seen.work.sooner(one.gain), seen.work.sooner(one.together)
    if seen.begins_late > MOSTLY:
        return Verdict(seen, ranked, LATE)
    if seen.computing > MOSTLY:
        return Verdict(seen, ranked, COMPUTING)
    if all(senders.keeps_up(pair) for pair in seen.pairs):
        return Verdict(seen, ranked, OFFERED)
    if not ranked or ranked[0].gain < WORTH_IT:
        return Verdict(seen, ranked, ALONE)
    return Verdict(seen, ranked)


def by_source(ways: Iterable[tuple[str, str]]) -> dict[str, list[tuple[str, str]]]:
    """Pairs of hosts by their sender."""
    found: dict[str, list[tuple[str, str]]] = {}
    for ends in ways:
        found.setdefault(ends[0], []).append(ends)
    return found


def _add(
    one: Candidate, pair: Pair, weight: float, gain: float, passed: list[Stage], own: Set[tuple[str, str]]
) -> None:
    others = [other for other in passed if other.key not in own]
    one.next = one.next or max(others, key=lambda other: other.need, default=None)
    one.parts.append((weight, gain))
    if not one.pairs or one.pairs[-1] is not pair:
        one.pairs.append(pair)


def _named(group: Candidate) -> Candidate:
    """A group, or the one of it that is worth as much alone."""
    group.members.sort(key=lambda one: -one.gain)
    best = group.members[0]
    if best.gain >= ALONE_ENOUGH * group.gain:
        best.together = group.gain
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


def gains(
    stages: Stages,
    senders: Senders,
    pair: Pair,
    passed: list[Stage],
    told: Stage | None,
    relieved: Set[Place] = frozenset(),
) -> list[tuple[Stage, float]]:
    """What doubling a stage would give this traffic, as a share of it, for all stages that matter. `relieved`
    are doubled with it; `told` is who told the sender to slow down, on any of its ways.
    """
    if senders.keeps_up(pair):
        return []
    window = senders.window(pair)
    holding = [stage for stage in passed if stage.holds and stage.use > 0]
    # What is full and has a queue, nearest to the receiver: full stages before it only fill that queue.
    # A wire that is full of what is sent again is not full of its own: who drops is to blame.
    wasted = any(stage.kind == "link" and stage.need < WASTED * stage.use for stage in passed)
    most = max((stage.signals for stage in holding if stage.drops), default=0.0)
    full = [
        stage
        for stage in holding
        if stage.stands
        and (stage.use >= FULL or (wasted and stage.drops and stage.signals >= MOST_DROPS * most))
    ]
    own = [stage for stage in full if stage.kind != "link" or stage.drops or stage.need >= WASTED * stage.use]
    full = own or full
    fullest = max((stage.use for stage in full), default=0.0)
    full = [stage for stage in full if stage.use > fullest - SAME or stage.drops]
    first = full[0] if full else max(holding, key=_use, default=None)
    if first is passed[-1] and first.need < WASTED * first.use and told is not None and told.drops:
        first = told
    tcp = senders.is_tcp(pair)
    lines = [stage for stage in full if stage.kind == "link" and stage.need >= FULL]
    if tcp and lines:
        # Behind a line that is full a core may be busy all the time: it polls for few packets at a time.
        first = lines[0]
    limiter = senders.limiter(pair, stages.port(pair.ways[0][0])) if pair.ways else None
    bridged = any(stage.kind == "softirq" for stage in passed)
    loop = window is not None and (window.use > LOOP or (limiter is None and (bridged or first is None)))
    if window is not None and loop and not tcp and (first is None or first.use < FULL):
        parts = {stage.key: stages.part(stage, pair) for stage in passed}
        return _window_gains(passed, window, parts, senders.packets(pair), relieved)
    if first is None:
        first = limiter or window
        if first is not None and first.kind == "throttle":
            first = _marker(passed) or told or first
    if first is None:
        return []
    if tcp and first is window and passed[0].use >= NO_PAUSE:
        # A core that receives without a pause: the window is what it has not come to yet.
        first = passed[0]
    if tcp:
        wire = max((stage for stage in passed if stage.kind == "link"), key=_use, default=None)
        slow = wire is not None and (wire.use > SPREADS or passed[0].use < wire.use)
        merges_little = senders.acks_for_each(pair) > MERGED
        if wire is not None and slow and merges_little and first is passed[-1] and first.kind == "cpu":
            return _spread_gains(passed, wire, first, relieved)
        return _tcp_gains(passed, first, relieved, merges=senders.under_way_to(pair.dst) > MERGES)
    if first.kind == "link" and _floods(passed, senders, pair):
        return [(first, 0.0)]
    behind = list(passed)
    # Of a window that retransmissions fill, what waits nowhere is lost, and not on its way.
    if window is not None and not wasted:
        own_wire = stages.port(pair.ways[0][0])
        if bridged and own_wire.use < FULL and first is not own_wire and place(own_wire) not in relieved:
            # No pause of a bridge reaches a sender: what waits there is what its own wire is busy with.
            window = replace(window, need=min(1.0, window.need + senders.posted_share(pair)))
        behind.append(window)
    reads = senders.fetched(pair)
    if reads is not None and ("pcie", frozenset({pair.src})) in relieved and senders.fills_slot(pair):
        # Reads of a sender and writes of a receiver pass the same slot.
        reads = None
    gain = _room([*behind, reads] if reads is not None else behind, first, relieved)
    loss = senders.loss(pair, passed)
    if loss is None:
        return [(first, gain)]
    # What a lost packet costs is what is under way: twice as much on a link twice as fast.
    kept = 1 - loss.use
    return [(first, min(gain, 2 / (2 - kept) - 1)), (loss, _room(passed, loss, most=MOST_LOST))]


def _marker(passed: list[Stage]) -> Stage | None:
    """The stage whose marks or drops made senders slow down, if they did so at any time of the run."""
    told = [stage for stage in passed if stage.signals and stage.use > IDLE]
    nearly = [stage for stage in passed if stage.use > NEARLY]
    return max(told, key=lambda stage: stage.signals, default=max(nearly, key=_use, default=None))


def _use(stage: Stage) -> float:
    return stage.use


def _room(passed: list[Stage], first: Stage, relieved: Set[Place] = frozenset(), most: float = 1.0) -> float:
    """How much more the others that it passes can carry, up to twice; up to `most`."""
    others = [stage for stage in passed if stage.key != first.key and place(stage) not in relieved]
    rest = max((stage.need / (EVEN if stage.shared else 1.0) for stage in others), default=0.0)
    return min(most, max(0.0, 1 / rest - 1)) if rest else most


def _floods(passed: list[Stage], senders: Senders, pair: Pair) -> bool:
    """Whether a wire twice as fast would bring more than a bridge's core takes, and its ring is too short for
    the window: what overflows is sent again, with all that follows it.
    """
    return any(
        stage.kind == "softirq"
        and 2 * stage.need > FULL
        and senders.packets(pair) > senders.seen.ring_entries(stage.where)
        for stage in passed
    )


def _tcp_gains(
    passed: list[Stage], first: Stage, relieved: Set[Place], *, merges: bool = True
) -> list[tuple[Stage, float]]:
    """Of TCP, where what a core spends on a byte depends on who else is slow.

    A receiver that falls behind merges most and acknowledges least: once it is faster, its sender's core has
    `DEARER` times the work. A slow wire spreads packets, so that little merges and ACKs are many: behind a
    faster one cores have `CHEAPER` times the work.
    """
    cores = [stage for stage in passed if stage.kind == "cpu"]
    need = {stage.key: stage.need if merges or stage.kind != "cpu" else stage.use for stage in passed}
    for core in cores if merges else []:
        if first.kind == "cpu" and first is cores[0]:
            need[core.key] = core.use * DEARER
        elif first.kind == "link":
            need[core.key] = core.use * CHEAPER
    others = [stage for stage in passed if stage is not first and place(stage) not in relieved]
    rest = max((need[stage.key] for stage in others), default=0.0)
    return [(first, min(1.0, max(0.0, 1 / rest - 1)) if rest else 1.0)]


def _spread_gains(
    passed: list[Stage], wire: Stage, core: Stage, relieved: Set[Place]
) -> list[tuple[Stage, float]]:
    """Of TCP behind a wire that spreads its packets: little merges, and the sender's core is busy with ACKs.

    A faster wire takes that work away, and then both can carry more; a faster core meets the same wire.
    """
    others = [stage for stage in passed if stage not in (wire, core) and place(stage) not in relieved]
    rest = max((stage.need for stage in others), default=0.0)
    rest = max(rest, core.use / 2)
    return [(wire, min(1.0, max(0.0, 1 / rest - 1))), *_tcp_gains(passed, core, relieved)]


def _window_gains(
    passed: list[Stage],
    window: Stage,
    parts: dict[tuple[str, str], float],
    packets: float,
    relieved: Set[Place],
) -> list[tuple[Stage, float]]:
    """Of a sender that waits for ACKs: its window goes round as one burst of `packets`.

    The slowest stage takes the share u of the round, its use. The others work at the same time, but for the
    first packet: they add a packet's time. With a stage twice as fast the round loses half of what that adds.
    With twice the window it takes u more, for twice the bytes. Of a stage that others use, too, `parts` is
    the sender's own. Through a bridge stages work one after the other: interrupts are put off while packets
    come, so that each has the whole burst before the next.
    """
    bursts = any(stage.kind == "softirq" for stage in passed)
    ranked = sorted(passed, key=_use, reverse=True)
    slowest = ranked[0]
    found = []
    for stage in ranked:
        doubled = [other for other in passed if other is stage or place(other) in relieved]
        halved = {other.key: (other.serial or other.use) / 2 for other in doubled}
        less = sum(half * parts[key] for key, half in halved.items())
        if not bursts:
            after = max(other.use - halved.get(other.key, 0.0) for other in passed)
            less = ((slowest.use - after) * parts[slowest.key] * (packets - 1) + less) / packets
        # Stages one after the other take no more than the round.
        gain = 1 / (1 - less) - 1 if less < MOST_OF_A_ROUND else 1.0
        found.append((stage, min(gain, _room(passed, stage, relieved)) if bursts else min(gain, 1.0)))
    own = slowest.use * parts[slowest.key]
    more = (1 - own) / (1 + own) if bursts or not own else 1 / own - 1
    return [*found, (window, min(more, _room(passed, window)))]
