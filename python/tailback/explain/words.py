"""A verdict in words: a page for the terminal, and a table for the report."""

from __future__ import annotations

import textwrap
from dataclasses import asdict, dataclass
from typing import Any

from tailback import text
from tailback.explain import faults, tiers
from tailback.explain.groups import HOSTS
from tailback.explain.kinds import KINDS, Kind
from tailback.explain.stages import FULL, RING_BYTES, SOME, Figure
from tailback.explain.verdict import (
    ALONE,
    COMPUTING,
    FAILED,
    INSIDE,
    LATE,
    NOTHING,
    OFFERED,
    WORTH_IT,
    Candidate,
    Verdict,
)
from tailback.notebook import as_html
from tailback.recorded.signals import PFC_PAUSE

WIDTH = 100
MUCH = 0.2
"""Share of packets that are sent again above which what a doubling gives is hard to tell: go-back-N loses by
what comes faster.
"""
EQUAL = 0.8
"""A second trial that gave more than this part of the first's gave as much."""
MOST_TRIED = 10
"""Trials that a page lists."""
HALF = 0.5
"""A stage that is busy for less of the time is not what two at once would relieve."""
CLOSE = 0.5
"""A second candidate whose gain is more than this part of the first's is close."""
MORE = 1.1
"""How much more than a stage alone its whole group must be worth to be spoken of."""


def kind_of(verdict: Verdict, one: Candidate) -> Kind:
    """The words of a stage, or of a group of them."""
    name = one.stage.kind
    if name == "link" and one.group:
        name = "tier"
    elif name == "link" and one.stage.ends[0] in verdict.seen.network.host_number:
        name = "own link"
    if name == "loss" and not any(verdict.seen.lost_on_wire.values()):
        name = "drops"
    if name == "window" and verdict.seen.has_tcp:
        name = "receive window"
    if name == "cpu":
        sends = any(pair.src == one.stage.where for pair in verdict.seen.pairs)
        name = "sending cpu" if sends else "receiving cpu"
    return KINDS[name]


def _called(verdict: Verdict, one: Candidate, words: str) -> str:
    stage = one.stage
    host, peer = stage.ends
    where = stage.where
    if one.group and stage.kind == "link":
        where = _tier(one.group)
    elif one.group and len(one.members) > 1:
        names = [member.stage.where for member in one.members]
        where = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
    return words.format(where=where, host=host, peer=peer)


def _tier(name: str) -> str:
    """What a tier of links is called."""
    if name == HOSTS:
        return "the links of hosts"
    low, _, high = name.partition("-")
    return f"the links between {low} and {high} switches" if low != high else "the links between switches"


@dataclass(frozen=True, repr=False)
class Page:
    """What there is to say. `headline` is where the bottleneck is, `reasons` are sentences, `evidence` the
    figures that they rest on.
    """

    headline: str
    reasons: list[str]
    evidence: list[Figure]
    next: str
    sure: str
    second: str

    def __repr__(self) -> str:
        """As `tailback explain` prints it."""
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(as_text(self))


def page(verdict: Verdict) -> Page:
    """The page of a verdict."""
    seen = verdict.seen
    if verdict.deadlock:
        return _deadlocked(verdict.deadlock)
    if verdict.none:
        return _nothing(verdict)
    first = verdict.candidates[0]
    kind = kind_of(verdict, first)
    name = _called(verdict, first, kind.name)
    headline = f"The bottleneck is {name}."
    share = first.weight
    reasons = [kind.why, *faults.sentences(seen), *tiers.why(verdict.groups, first)]
    if share < 0.95 and first.parts:
        reasons.append(
            f"It limits {text.share(share)} of the traffic; the rest is limited elsewhere, or not at all."
        )
    begin, end = (text.duration(at) for at in seen.span)
    was = "was" if verdict.tried else "would be about"
    reasons.append(
        f"{_changed(first)} throughput {was} {_percent(first.gain)} higher than the "
        f"{text.rate(seen.goodput)} measured from {begin} to {end}."
    )
    return Page(
        headline,
        reasons,
        [
            *tiers.figures(verdict.groups, first),
            *first.stage.figures,
            *_upstream(verdict, first),
            *_tried(verdict),
        ],
        f"Try {_called(verdict, first, kind.next)}.",
        _sure_of_trials(verdict) if verdict.tried else _sure(verdict),
        _second(verdict),
    )


_ENDS = {
    "loss": "An end to the losses",
    "headroom": "An end to the losses",
    "buffer": "Unlimited buffers",
    "timer": "Longer timers",
    "reordering": "A transport that tolerates reordering",
    FAILED: "The same without the failure",
}


_TWICE = {"window": "deep", "ring": "long", "credits": "many", "reads": "many"}
"""What is doubled of a stage that has no speed."""


_CHANGES = {
    "loss": "Without the losses,",
    "headroom": "Without the losses,",
    "buffer": "With unlimited buffers,",
    "timer": "With longer timers,",
    "reordering": "With a transport that tolerates reordering,",
    FAILED: "Without the failure,",
    "window": "With twice the window,",
    "ring": "With a ring twice as long,",
    "credits": "With twice the credits,",
    "reads": "With twice as many reads outstanding,",
}


def _changed(one: Candidate) -> str:
    """What a trial changes, as the beginning of a sentence."""
    faster = "With all of them twice as fast," if one.group else "With twice its speed,"
    return _CHANGES.get(one.stage.kind, faster)


def _tried(verdict: Verdict) -> list[Figure]:
    """What each trial gave. A group of one stage has the name of that stage, and is the same trial."""
    gains: dict[str, float] = {}
    for one in verdict.tried:
        gains.setdefault(_named(verdict, one), one.gain)
    return [Figure(f"tried: {name}", _signed(gain), "") for name, gain in list(gains.items())[:MOST_TRIED]]


def _named(verdict: Verdict, one: Candidate) -> str:
    if one.stage.kind in _ENDS:
        return _ENDS[one.stage.kind].lower()
    name = _called(verdict, one, kind_of(verdict, one).name)
    return f"{name}, twice as {_TWICE.get(one.stage.kind, 'fast')}"


def _sure_of_trials(verdict: Verdict) -> str:
    """How sure a verdict is that was tried."""
    doubts = []
    first = verdict.candidates[0]
    if verdict.none:
        if first.gain > WORTH_IT / 2:
            doubts.append(f"{_named(verdict, first)}, gave {_percent(first.gain)}")
        sure = "nothing that was tried, each twice as fast in a run of its own, is worth 5 %"
    else:
        if first.gain < 2 * WORTH_IT:
            doubts.append("the gain is small")
        sure = "it was tried in a run of its own"
        if len(verdict.candidates) > 1 and verdict.candidates[1].gain > EQUAL * first.gain:
            sure += f", and so was {_named(verdict, verdict.candidates[1])}, which gave as much"
    return f"{'Fairly sure' if doubts else 'Sure'}: {'; '.join([*doubts, sure])}."


def _deadlocked(found: tuple[str, str]) -> Page:
    where, words = found
    return Page(
        f"A deadlock: nothing moves at {where}, and the queues there wait for each other in a cycle.",
        [f"{words}. No stage is too slow: each port is paused by the next, all the way round."],
        [],
        "Try routes without a loop of buffers that wait for each other, no PFC on one of these links "
        "(switch.lossless), congestion control that keeps queues short, or a PFC watchdog (switch.watchdog), "
        "which drops packets to get out of it.",
        "Sure: the run names who waits for whom.",
        "No other stage matters: nothing moves.",
    )


def _signed(gain: float) -> str:
    return f"{round(100 * gain):+d} %"


def _percent(gain: float) -> str:
    return f"{round(100 * gain)} %"


def _nothing(verdict: Verdict) -> Page:
    seen = verdict.seen
    reasons = {
        OFFERED: "Messages are done about as fast as they come: the network carries "
        "what it is given. Completion times may still suffer from queues that come and go.",
        ALONE: "Whatever is full has a neighbour that is nearly as full: no single "
        "stage, twice as fast, would carry 5 % more.",
        COMPUTING: f"Ranks compute {text.share(seen.computing)} of the time of their jobs: an infinitely "
        "fast network would save them only the rest.",
        LATE: f"For {text.share(seen.begins_late)} of the run messages that ranks waited for, one behind the "
        "other, waited for the send latency before they began: the network had nothing to carry.",
        INSIDE: "Ranks wait for messages inside servers, and for none in the network.",
        NOTHING: "Nothing was delivered in the span that is explained: there is no throughput "
        "to explain. Look at faults, timeouts and drops.",
    }
    fullest = max((one.stage.use for one in verdict.candidates), default=0.0)
    two_at_once = "Try two stages at once: the fullest, and the next that its data passes."
    if fullest < FULL:
        reasons[ALONE] = "Nothing is full, and no single stage, twice as fast, would carry 5 % more."
    if fullest < HALF:
        two_at_once = (
            "Try more at a time: messages, queue pairs, channels. The fullest stage is busy "
            f"{text.share(fullest)} of the time, and senders wait for something else."
        )
    figures = [Figure("goodput", text.rate(seen.goodput), "")]
    said = " ".join([*faults.sentences(seen), reasons[verdict.none]])
    for candidate in verdict.candidates[:2]:
        figures += [one for one in candidate.stage.figures[:2] if one not in figures]
    figures += _tried(verdict)
    following = {
        OFFERED: "Try more traffic, to find what gives way first.",
        COMPUTING: "Try shorter computation, or collectives that overlap with it.",
        LATE: "Try another AS_SEND_LAT: docs/simai.md says how SimAI reads it.",
        INSIDE: "Try a faster link inside servers (servers.rate), or another algorithm.",
        NOTHING: "Try tailback run with a longer run.duration.",
    }
    return Page(
        f"Nothing is the bottleneck: {verdict.none}.",
        [said],
        figures,
        following.get(verdict.none, two_at_once),
        _sure_of_trials(verdict) if verdict.tried else _sure(verdict),
        _second(verdict),
    )


def _upstream(verdict: Verdict, candidate: Candidate) -> list[Figure]:
    """Who was told to wait: ports that were paused, most first."""
    seen = verdict.seen
    paused = []
    for queue in seen.queues:
        share = seen.waits(queue["queue"], PFC_PAUSE) if queue["kind"] in ("egress", "send") else 0.0
        if share > 0.02 and queue["port"] != candidate.stage.where:
            paused.append((share, queue["queue"]))
    return [
        Figure(f"{name} paused_share", text.share(share), "0: the line of waiting traffic reaches this far")
        for share, name in sorted(paused, reverse=True)[:3]
    ]


def _sure(verdict: Verdict) -> str:
    """How sure the verdict is, and why not more. What makes it less sure are kinds of run in which it was
    wrong more often: see docs/explain.md.
    """
    doubts = []
    seen = verdict.seen
    if verdict.candidates and not verdict.none:
        first, rest = verdict.candidates[0], verdict.candidates[1:]
        if rest and rest[0].gain > CLOSE * first.gain:
            doubts.append("the second candidate is close")
        if first.stage.use < FULL and first.stage.kind not in ("loss", "headroom"):
            who = first.stage.where if first.group else "it"
            doubts.append(
                f"{who} is busy only {text.share(first.stage.use)} of the time, as senders hold back"
            )
        if first.stage.kind == "cpu":
            doubts.append("what a core spends on a packet depends on how many come at once")
        if first.stage.kind in ("window", "throttle", "reads"):
            doubts.append("it shows only in that nothing else is full")
        if first.stage.kind in ("softirq", "ring") and first.stage.signals:
            doubts.append("packets that a ring drops are retransmitted, with all that followed")
        elif first.stage.kind == "softirq" and seen.in_rings(first.stage.where) < RING_BYTES:
            doubts.append("little waits for it, and an idle core waits for interrupts")
        if not first.group and first.next and first.next.need * (1 + first.gain) >= FULL:
            after = Candidate(first.next)
            doubts.append(f"{_called(verdict, after, kind_of(verdict, after).name)} would be full, too")
        if first.together > MORE * first.gain:
            doubts.append(f"doubling all of its kind would give {_percent(first.together)}")
        if first.gain < 3 * WORTH_IT:
            doubts.append("the gain is small")
    elif (
        verdict.none not in (NOTHING, INSIDE)
        and verdict.candidates
        and verdict.candidates[0].gain > WORTH_IT / 4
    ):
        first = verdict.candidates[0]
        name = _called(verdict, first, kind_of(verdict, first).name)
        doubts.append(f"{name}, twice as fast, may be worth {_percent(WORTH_IT)}, too")
    doubts += tiers.doubts(verdict.groups, None if verdict.none else verdict.candidates[0])
    if verdict.none == ALONE and seen.bridges:
        doubts.append("interrupts that are put off make bursts, which no series shows")
    if seen.sent_again > (SOME if verdict.none == ALONE else MUCH):
        doubts.append(f"{text.share(seen.sent_again)} of all packets were retransmitted")
    if any(seen.lost_on_wire.values()):
        doubts.append("cables lose packets, which costs more the faster links are")
    if not seen.meta["complete"]:
        doubts.append("the run was cut short")
    if str(seen.meta.get("recorded", "everything")) != "everything":
        doubts.append(f"of queues only {seen.meta['recorded']} are recorded")
    words = ("Sure", "Fairly sure", "A guess")[min(len(doubts), 2)]
    sure = "nothing is full" if verdict.none else "one stage is full, and its neighbours are not"
    if verdict.candidates and not verdict.none and verdict.candidates[0].group:
        sure = "they are full, and what is before and behind them is not"
    return f"{words}: {'; '.join(doubts) or sure}."


def _second(verdict: Verdict) -> str:
    rest = verdict.candidates[0 if verdict.none else 1 :]
    if rest and verdict.tried and rest[0].gain < WORTH_IT:
        return (
            f"{'Nothing' if verdict.none else 'Nothing else'} that was tried is worth {_percent(WORTH_IT)}."
        )
    if rest:
        second = rest[0]
        if verdict.tried:
            return f"Next best: {_named(verdict, second)}, {_signed(second.gain)}."
        name = _called(verdict, second, kind_of(verdict, second).name)
        return (
            f"The second candidate is {name}, busy {text.share(second.stage.use)} of the time; twice its "
            f"speed would give about {_percent(second.gain)}."
        )
    after = verdict.candidates[0].next if verdict.candidates else None
    if after is None:
        return f"No {'' if verdict.none else 'other '}stage holds traffic."
    one = Candidate(after)
    name = _called(verdict, one, kind_of(verdict, one).name)
    return f"The next limit is {name}, which this traffic would use to {text.share(after.need)}."


def as_text(page: Page, width: int = WIDTH) -> str:
    """For the terminal, in lines of at most `width`, except for figures."""
    lines = [page.headline, ""]
    lines += textwrap.wrap(" ".join(page.reasons), width)
    if page.evidence:
        lines += ["", "Evidence"]
        name = max(len(figure.name) for figure in page.evidence)
        value = max(len(figure.value) for figure in page.evidence)
        for figure in page.evidence:
            otherwise = f"  (else {figure.otherwise})" if figure.otherwise else ""
            lines.append(f"  {figure.name:<{name}}  {figure.value:<{value}}{otherwise}".rstrip())
    for words in (page.next, page.sure, page.second):
        lines += ["", *textwrap.wrap(words, width)]
    return "\n".join(lines) + "\n"


def as_data(page: Page, verdict: Verdict) -> dict[str, Any]:
    """For other programs: `kind` and `where` of the bottleneck (`none` and nothing if there is none), the
    page's sentences, and what was tried with what it gave, as a share.
    """
    kind, where = verdict.key
    return {
        "kind": kind,
        "where": where,
        "headline": page.headline,
        "reasons": page.reasons,
        "evidence": [asdict(figure) for figure in page.evidence],
        "next": page.next,
        "sure": page.sure,
        "second": page.second,
        "tried": [
            {"kind": kind, "where": where, "gain": round(one.gain, 4)}
            for one in verdict.tried
            for kind, where in [one.key]
        ],
    }
