"""Symptoms of a run: what is bad, for whom, and who causes it; and which change helped most."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow.compute as pc

from tailback import text
from tailback.explain.outcome import COMPLETION, LATENCY, THROUGHPUT, Outcome, Trial, shown
from tailback.explain.remedies import Case, other_routes
from tailback.explain.sender import Senders
from tailback.explain.stages import FULL_BUSY_SHARE, NOTABLE_SHARE, Stages
from tailback.explain.verdict import Symptom, full_stages, stages_passed
from tailback.explain.ways import Pair, Port
from tailback.recorded.standstill import STANDING_STILL

MIN_TOLD_GAIN = 0.2
"""A change that helps less than this is not told with what is bad."""
AS_GOOD = 0.5
"""A setting that helps this part of what the best does is told before hardware that is twice as fast."""
COSTLY_LOSS_SHARE = 0.1
"""A change that costs this share of the throughput of all says so."""
STARVED_SHARE_OF_FAIR = 1 / 2
"""Who gets less than this part of an equal share, by host and by connection, is starved."""
LATE_FACTOR, LATE_S = 5.0, 5e-6
"""Small messages are late if their p99 is this many times the least, and so much longer."""
SLOWING_PAUSE_SHARE = 0.05
"""Share of the time that a port is paused from which on what passes it is slowed down."""
NOTABLE_RETRANSMITTED_SHARE = 0.01
"""Part of an item's packets that is retransmitted from which on its drops are told."""
SENDERS_OF_INCAST = 3
MAX_NAMES_LISTED = 3
"""Names in a list, the others are counted."""


def symptoms(case: Case, base: Outcome, trials: Sequence[Trial] = ()) -> list[Symptom]:
    """The symptoms, the worst first."""
    found = [
        *_stuck(case),
        *_victims(case),
        *_starved(case),
        *_late(base, case),
        *_dropped(case),
        *_incasts(case),
    ]
    if not trials and (tier := other_routes.uneven(case)) is not None:
        found.append(Symptom("collide", other_routes.why(tier)))
    return [_with_remedy(one, base, trials) for one in found]


def _with_remedy(symptom: Symptom, base: Outcome, trials: Sequence[Trial]) -> Symptom:
    """The symptom with the change that helped most: of several that help about as much, settings first."""
    if not symptom.goal or not trials:
        return symptom
    about = symptom.about or None
    gains = [
        (base.gain(one.outcome, symptom.goal, about) or 0.0, one)
        for one in trials
        if one.remedy.kind != "host" or symptom.kind in ("stuck", "victim")
    ]
    best = max((gain for gain, _ in gains), default=0.0)
    if best < MIN_TOLD_GAIN:
        return replace(symptom, words=f"{symptom.words} Nothing that was tried helps.")
    enough = [(gain, one) for gain, one in gains if (1 + gain) >= (1 + best) * AS_GOOD]
    gain, trial = max(enough, key=lambda each: (each[1].remedy.is_setting, each[0]))
    before, after = base.value(symptom.goal, about), trial.outcome.value(symptom.goal, about)
    if before is None or after is None:
        return symptom
    cost = base.delivered.gain(trial.outcome.delivered)
    costs = (
        f" All traffic together then takes {text.share(1 / (1 + cost) - 1)} longer."
        if cost < -COSTLY_LOSS_SHARE
        else ""
    )
    return replace(
        symptom,
        remedy=trial.remedy,
        gain=gain,
        words=f"{symptom.words} What helps: {{remedy}}: {shown(symptom.goal, after)} instead of "
        f"{shown(symptom.goal, before)}, from 0 to {text.duration(base.end_s)}.{costs}",
    )


def _stuck(case: Case) -> Iterator[Symptom]:
    for fault in case.faults:
        if fault["kind"] == STANDING_STILL:
            words = fault["text"]
            yield Symptom("stuck", f"{words[:1].upper()}{words[1:]}.")


def _victims(case: Case) -> Iterator[Symptom]:
    """Flows that wait behind a port that is paused for a queue that they do not fill."""
    seen = case.seen
    stages = Stages(seen)
    senders = Senders(stages)
    behind: dict[Port, tuple[list[Pair], dict[str, list[Pair]]]] = {}
    for pair in seen.pairs:
        for ports, _ in seen.routes(pair)[:1]:
            passed = stages_passed(stages, senders, pair, ports)
            full = full_stages(stages, senders, pair, passed)
            for at, port in enumerate(ports):
                paused = senders.stages.paused(port[0]) if not at else seen.port_waits(port)
                if paused < SLOWING_PAUSE_SHARE:
                    continue
                after = {f"{a}:{b}" for a, b in ports[at + 1 :]} | {pair.dst}
                held = [stage for stage in full if stage.where in after and stage.use >= FULL_BUSY_SHARE]
                victims, culprits = behind.setdefault(port, ([], {}))
                if held:
                    culprits.setdefault(held[0].where, []).append(pair)
                elif not any(seen.port_waits(later) >= SLOWING_PAUSE_SHARE for later in ports[at + 1 :]):
                    victims.append(pair)
    told: set[tuple[str, str]] = set()
    for port, (victims, culprits) in sorted(behind.items(), key=lambda one: -len(one[1][0])):
        new = [pair for pair in victims if pair.ends not in told]
        if not new or not culprits:
            continue
        told |= {pair.ends for pair in new}
        where, causing = max(culprits.items(), key=lambda one: sum(pair.share for pair in one[1]))
        paused = stages.paused(port[0]) if port[0] in seen.network.host_number else seen.port_waits(port)
        yield Symptom(
            "victim",
            f"{_pairs(new)} {'is' if len(new) == 1 else 'are'} slowed down by a queue that "
            f"{'it does' if len(new) == 1 else 'they do'} not fill: {':'.join(port)} is paused "
            f"{text.share(min(1.0, paused))} of the time because {where} is full, which {_pairs(causing)} "
            f"{'fills' if len(causing) == 1 else 'fill'}.",
            THROUGHPUT,
            new[0].dst,
        )


def _pairs(pairs: Sequence[Pair]) -> str:
    return _list([f"{pair.src} to {pair.dst}" for pair in pairs])


def _list(names: Sequence[str]) -> str:
    more = len(names) - MAX_NAMES_LISTED
    shown = ", ".join(names[:MAX_NAMES_LISTED])
    return f"{shown} and {more} more" if more > 0 else shown


def _starved(case: Case) -> Iterator[Symptom]:
    """Items that get far less than others at the same full link, counted by host and by connection."""
    seen = case.seen
    flows = seen.flows
    if not {"item", "start_ps"} <= set(flows.column_names):
        return
    if "ideal_fct_ps" in flows.column_names:
        flows = pc.filter(flows, pc.is_null(flows.column("ideal_fct_ps")))
    measured = {one["item"] for one in seen.meta.get("latency") or []}
    got: dict[tuple[str, str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for row in flows.select(["item", "src", "dst", "bytes_delivered", "start_ps", "end_ps"]).to_pylist():
        until = row["end_ps"] if row["end_ps"] is not None else seen.meta["end_ps"]
        if row["start_ps"] is None or row["item"] in measured or until <= row["start_ps"]:
            continue
        one = got[row["item"], row["src"], row["dst"]]
        one[0] += row["bytes_delivered"] * 8e12 / (until - row["start_ps"])
        one[1] += 1
    ways = {pair.ends: {port for port, part in pair.ways if part > 1 / 2} for pair in seen.pairs}
    full = {port for ports in ways.values() for port in ports if seen.wire_share(port) >= FULL_BUSY_SHARE}
    told: set[tuple[str, str, str]] = set()
    for port in sorted(full):
        there = {key: one for key, one in got.items() if port in ways.get(key[1:], ())}
        if len(there) < 2:
            continue
        total = sum(rate for rate, _ in there.values())
        connections = sum(count for _, count in there.values())
        hosts = len({src for _, src, _ in there})
        for key, (rate, count) in sorted(there.items(), key=lambda one: one[1][0]):
            item, src, _ = key
            own = sum(1 for one in there if one[1] == src)
            equal = min(total * count / connections, total / hosts / own)
            if rate >= STARVED_SHARE_OF_FAIR * equal or key in told:
                continue
            told.add(key)
            others: dict[str, float] = defaultdict(float)
            for (other, _, _), (more, _) in there.items():
                if other != item:
                    others[other] += more
            most = max(others, key=lambda one: others[one], default=None)
            by = f"; {most} takes {text.share(others[most] / total)}" if most is not None else ""
            yield Symptom(
                "starved",
                f"{item} of {src} gets {text.rate(rate)} at {':'.join(port)}, where an equal share is "
                f"{text.rate(equal)}{by}.",
                THROUGHPUT,
                item,
            )


def _late(base: Outcome, case: Case) -> Iterator[Symptom]:
    """Small messages that wait in a queue that others fill."""
    seen = case.seen
    pairs = {pair.ends: pair for pair in seen.pairs}
    for one in base.latency:
        p99, least = one["p99_ps"] / 1e12, one["min_ps"] / 1e12
        if not one["iterations"] or p99 < LATE_FACTOR * least or p99 < least + LATE_S:
            continue
        words = (
            f"{one['item']} from {one['src']} to {one['dst']} takes {text.duration(p99)} at the 99th percentile, "
            f"and {text.duration(least)} at best"
        )
        pair = pairs.get((one["src"], one["dst"]))
        ports = [port for port, part in pair.ways if part > 1 / 2] if pair is not None else []
        depth = {port: seen.port_sum(port, "queue_mean_bytes") for port in ports}
        worst = max(depth, key=lambda port: depth[port], default=None)
        if worst is not None and depth[worst] > 0:
            filling: dict[Pair, float] = defaultdict(float)
            for other in seen.pairs:
                for port, part in other.ways:
                    if port == worst:
                        filling[other] += part * other.share
            most = sorted(filling, key=lambda other: -filling[other])
            items = _items(case, most, but=one["item"])
            words += (
                f": it waits at {':'.join(worst)}, where {text.size(depth[worst])} stand on average, mostly of "
                f"{items or _pairs(most)}"
            )
        yield Symptom("late", f"{words}.", LATENCY, one["item"])


def _items(case: Case, pairs: Sequence[Pair], but: str) -> str:
    flows = case.seen.flows
    ends = {pair.ends for pair in pairs}
    table = flows.select(["item", "src", "dst", "bytes_delivered"]).group_by(
        ["item", "src", "dst"], use_threads=False
    )
    sizes: dict[str, int] = defaultdict(int)
    for row in table.aggregate([("bytes_delivered", "sum")]).to_pylist():
        if (row["src"], row["dst"]) in ends and row["item"] != but:
            sizes[row["item"]] += row["bytes_delivered_sum"]
    return _list(sorted(sizes, key=lambda item: -sizes[item]))


def _dropped(case: Case) -> Iterator[Symptom]:
    """Items of which much is sent again."""
    flows = case.seen.flows
    names = ["item", "packets_sent", "packets_retransmitted"]
    if not set(names) <= set(flows.column_names):
        return
    table = (
        flows.select(names)
        .group_by("item", use_threads=False)
        .aggregate([(name, "sum") for name in names[1:]])
    )
    for row in table.to_pylist():
        sent, again = row["packets_sent_sum"] or 0, row["packets_retransmitted_sum"] or 0
        if sent and again / sent >= NOTABLE_RETRANSMITTED_SHARE:
            yield Symptom(
                "dropped",
                f"{text.share(again / sent)} of the packets of {row['item']} were retransmitted.",
                COMPLETION if row["item"] in case.listed else THROUGHPUT,
                row["item"],
            )


def _incasts(case: Case) -> Iterator[Symptom]:
    """Many hosts that send to one at once."""
    seen = case.seen
    sources: dict[str, set[str]] = defaultdict(set)
    for src, dst in seen.shares:
        sources[dst].add(src)
    for host, senders in sources.items():
        share = seen.taken[host]
        if len(senders) < SENDERS_OF_INCAST or share < 1 / 2:
            continue
        ports = [(peer, host) for peer in seen.peers(host)]
        if any(
            seen.port_sum(port, "queue_max_bytes") > 0 and seen.wire_share(port) > NOTABLE_SHARE
            for port in ports
        ):
            yield Symptom(
                "incast",
                f"{len(senders)} hosts send to {host} at once, an incast: they share its link, whatever the rest of "
                "the network can carry.",
            )
