"""A verdict in words: a page for the terminal, and a table for the report."""

from __future__ import annotations

import shlex
import textwrap
from dataclasses import asdict, dataclass, replace
from typing import Any

from tailback import text
from tailback.explain import faults, tiers
from tailback.explain.groups import HOST_TIER
from tailback.explain.kinds import KIND_OF_STAGE, Kind
from tailback.explain.outcome import Asked
from tailback.explain.outcome import shown as shown_value
from tailback.explain.remedy import Remedy
from tailback.explain.stages import FULL_BUSY_SHARE, NOTABLE_SHARE, Figure
from tailback.explain.verdict import (
    BROKEN_KINDS,
    FAILED_LINK,
    INSIDE_SERVERS,
    LITTLE_OFFERED,
    MESSAGES_WAIT,
    NO_CHANGE_HELPS,
    NOT_FULL,
    NOTHING_DELIVERED,
    RANKS_COMPUTE,
    WORTH_IT,
    Candidate,
    Symptom,
    Verdict,
    worth,
)
from tailback.notebook import as_html
from tailback.recorded.signals import PFC_PAUSE

MAX_LINE_CHARACTERS = 100
CLOSE_GAIN_SHARE = 0.8
"""Another change that gains this part of the best is within a fifth of it."""
MAX_TRIED_LISTED = 10
"""Trials that a page lists."""
MOST_FULL = 3
"""Full stages beside the first that a page names."""
FAR_BETTER = 1.0
"""A change that helps some by so much, a factor of two, is what a page begins with."""
MIN_BUSY_OF_BOTH = 0.5
"""A stage that is busy for less of the time is not what two at once would relieve."""


def kind_of(verdict: Verdict, one: Candidate) -> Kind:
    """The words of a stage, or of a group of them; of a remedy its own."""
    if one.remedy is not None and one.remedy.says:
        return Kind(one.remedy.name, one.remedy.why, one.remedy.says)
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
    return KIND_OF_STAGE[name]


def _called(verdict: Verdict, one: Candidate, words: str) -> str:
    stage = one.stage
    host, peer = stage.ends
    where = stage.where
    if one.group and stage.kind == "link":
        where = _tier(one.group)
    elif one.group and (len(one.members) > 1 or (one.remedy is not None and len(one.remedy.singles) > 1)):
        names = [member.stage.where for member in one.members]
        if one.remedy is not None:
            names += [name for name in one.remedy.singles if name not in names]
        where = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
    return words.format(where=where, host=host, peer=peer)


def _tier(name: str) -> str:
    """The name of a tier of links."""
    if name == HOST_TIER:
        return "the links of hosts"
    low, _, high = name.partition("-")
    return f"the links between {low} and {high} switches" if low != high else "the links between switches"


@dataclass(frozen=True, repr=False)
class Page:
    """The answer. `headline` is where the bottleneck is, `reasons` are sentences, `evidence` the
    figures that they rest on.
    """

    headline: str
    reasons: list[str]
    evidence: list[Figure]
    next: str
    sure: str
    second: str
    bad: tuple[str, ...] = ()
    """Symptoms, whom they affect, and what helps."""

    def __repr__(self) -> str:
        """As `tailback explain` prints it."""
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(as_text(self))


def page(verdict: Verdict) -> Page:
    """The page of a verdict."""
    if verdict.deadlock:
        return _deadlocked(verdict.deadlock)
    if verdict.asked:
        return _answered(verdict)
    found = _nothing(verdict) if verdict.none else _bottleneck(verdict)
    bad = tuple(_bad(verdict, one) for one in verdict.symptoms)
    worst = max(verdict.symptoms, key=lambda one: one.gain, default=None)
    if worst is not None and worst.gain >= FAR_BETTER and worst.remedy is not None and worst.remedy.headline:
        first = verdict.candidates[0] if verdict.candidates and not verdict.none else None
        if first is None or (first.remedy is not worst.remedy and first.stage.kind not in BROKEN_KINDS):
            return _of_symptom(verdict, found, worst.remedy, bad)
    return replace(found, bad=bad)


def _of_symptom(verdict: Verdict, found: Page, remedy: Remedy, bad: tuple[str, ...]) -> Page:
    """A page that begins with what is bad for some, where a change helps them by far more than what limits the
    throughput of all.
    """
    return Page(
        _sentence(remedy.headline),
        [*filter(None, [remedy.why]), f"Of the throughput of all: {found.headline}", *found.reasons],
        [*remedy.figures, *found.evidence],
        _with_settings(remedy),
        f"Fairly sure: it was tried, with one seed.{_part(verdict)}",
        f"For more throughput of all: {found.next}",
        bad,
    )


def _bad(verdict: Verdict, symptom: Symptom) -> str:
    if symptom.remedy is None:
        return symptom.words
    return symptom.words.format(remedy=_remedy_name(verdict, symptom.remedy))


def _bottleneck(verdict: Verdict) -> Page:
    seen = verdict.seen
    first = verdict.candidates[0]
    kind = kind_of(verdict, first)
    name = _called(verdict, first, kind.name)
    faulty = faults.sentences(seen)
    begin, end = (text.duration(at) for at in seen.span)
    if first.gain is None:
        headline = f"The bottleneck is probably {name}."
        reasons = [kind.why, *faulty, *tiers.why(verdict.groups, first)]
        if first.held:
            reasons.append(f"{text.share(min(1.0, first.held))} of the traffic waits there.")
    else:
        headline = f"The bottleneck is {name}."
        if first.remedy is not None and first.remedy.headline:
            headline = _sentence(first.remedy.headline)
        reasons = [*filter(None, [kind.why]), *faulty, *tiers.why(verdict.groups, first)]
        if first.stage.kind == FAILED_LINK:  # what was measured may be after the repair
            reasons.append(
                f"{_changed(first)} throughput was {_percent(first.gain)} higher over the whole run."
            )
        else:
            reasons.append(
                f"{_changed(first)} throughput was {_percent(first.gain)} higher than the "
                f"{text.rate(seen.goodput)} measured from {begin} to {end}."
            )
    evidence = [
        *tiers.figures(verdict.groups, first),
        *first.stage.figures,
        *_upstream(verdict, first),
        *_tried(verdict),
    ]
    sure = _sure(verdict) if first.gain is None else _sure_of_trials(verdict)
    advice = f"Try {_called(verdict, first, kind.next)}."
    if first.remedy is not None and first.remedy.says:
        advice = _with_settings(first.remedy)
    return Page(headline, reasons, evidence, advice, sure, _second(verdict))


def _sentence(words: str) -> str:
    """With a capital letter, unless it begins with a name; and a full stop."""
    name = any(letter.isdigit() for letter in words.split()[0])
    return f"{words if name else words[:1].upper() + words[1:]}."


def _with_settings(remedy: Remedy) -> str:
    sets = " ".join(f"--set {shlex.quote(one)}" for one in remedy.sets)
    return f"{remedy.says} As settings: {sets}." if sets else remedy.says


def _answered(verdict: Verdict) -> Page:
    """The answer to what the user asked."""
    first = verdict.asked[0]
    about = f" of {first.about}" if first.about else ""
    evidence = [
        Figure(
            f"tried: {_of_asked(verdict, one)}",
            shown_value(one.goal, one.after),
            shown_value(one.goal, one.before),
        )
        for one in verdict.asked[:MAX_TRIED_LISTED]
    ]
    if first.remedy.kind == "settings":
        lines = [
            f"{one.means[:1].upper()}{one.means[1:]}{about}: {shown_value(one.goal, one.before)} before, "
            f"{shown_value(one.goal, one.after)} with it."
            for one in verdict.asked
        ]
        return Page(
            f"With {first.remedy.name}:", lines, [], "", "Measured in a run of its own, with one seed.", ""
        )
    if first.gain < WORTH_IT:
        return Page(
            f"Nothing that was tried helps {first.goal}{about} by {_percent(WORTH_IT)}.",
            [f"It is {shown_value(first.goal, first.before)} ({first.means})."],
            evidence,
            "Try --set with a change of your own.",
            f"{text.plural(len(verdict.asked), 'change')} {text.verb(len(verdict.asked), 'was', 'were')} tried, each in a run of its own, with one seed.",
            "",
        )
    name = _of_asked(verdict, first)
    says = _with_settings(first.remedy) if first.remedy.says else f"Try {name}."
    rest = verdict.asked[1:2]
    second = (
        f"Next best: {_of_asked(verdict, rest[0])}, {shown_value(rest[0].goal, rest[0].after)}."
        if rest and rest[0].gain >= WORTH_IT
        else "Nothing else that was tried helps."
    )
    return Page(
        f"What helps {first.goal}{about} most is {name}: {shown_value(first.goal, first.after)} instead of "
        f"{shown_value(first.goal, first.before)}.",
        [f"Compared by {first.means}.", *([first.remedy.why] if first.remedy.why else [])],
        evidence,
        says,
        "Fairly sure: it was measured in a run of its own, with one seed.",
        second,
    )


def _of_asked(verdict: Verdict, one: Asked) -> str:
    return _remedy_name(verdict, one.remedy)


def _remedy_name(verdict: Verdict, remedy: Remedy) -> str:
    if remedy.name:
        return remedy.name
    for candidate in verdict.tried:
        if candidate.remedy is remedy:
            return _named(verdict, candidate)
    return remedy.kind


_ENDED_BY_KIND = {
    "loss": "An end to the losses",
    "headroom": "An end to the losses",
    "buffer": "Unlimited buffers",
    "timer": "Longer timers",
    "reordering": "A transport that tolerates reordering",
    FAILED_LINK: "The same without the failure",
}


_DOUBLED_ADJECTIVE = {"window": "deep", "ring": "long", "credits": "many", "reads": "many"}
"""The adjective for a doubled stage that has no speed."""


_CHANGE_BY_KIND = {
    "loss": "Without the losses,",
    "headroom": "Without the losses,",
    "buffer": "With unlimited buffers,",
    "timer": "With longer timers,",
    "reordering": "With a transport that tolerates reordering,",
    FAILED_LINK: "Without the failure,",
    "window": "With twice the window,",
    "ring": "With a ring twice as long,",
    "credits": "With twice the credits,",
    "reads": "With twice as many reads outstanding,",
}


def _changed(one: Candidate) -> str:
    """The change of a trial, as the beginning of a sentence."""
    if one.remedy is not None and one.remedy.name:
        return f"With {one.remedy.name},"
    faster = "With all of them twice as fast," if one.group else "With twice its speed,"
    return _CHANGE_BY_KIND.get(one.stage.kind, faster)


def _tried(verdict: Verdict) -> list[Figure]:
    """Gains of the trials. A group of one stage has the name of that stage, and is the same trial."""
    gains: dict[str, float] = {}
    for one in verdict.tried:
        gains.setdefault(_named(verdict, one), one.gain or 0.0)
    return [
        Figure(f"tried: {name}", _signed(gain), "") for name, gain in list(gains.items())[:MAX_TRIED_LISTED]
    ]


def _named(verdict: Verdict, one: Candidate) -> str:
    if one.remedy is not None and one.remedy.name:
        return one.remedy.name
    if one.stage.kind in _ENDED_BY_KIND:
        return _ENDED_BY_KIND[one.stage.kind].lower()
    name = _called(verdict, one, kind_of(verdict, one).name)
    return f"{name}, twice as {_DOUBLED_ADJECTIVE.get(one.stage.kind, 'fast')}"


def _sure_of_trials(verdict: Verdict) -> str:
    """How sure a verdict is that was tried: sure only if its gain holds with two seeds, and nothing else
    gained about as much.
    """
    first = verdict.candidates[0]
    if verdict.none:
        if (first.gain or 0.0) > WORTH_IT / 2:
            return (
                f"Fairly sure: {_named(verdict, first)}, gained {_percent(first.gain or 0.0)}, and nothing "
                f"that was tried gained {_percent(WORTH_IT)}."
            )
        return f"Sure: none of {text.plural(len(verdict.tried), 'change')}, each in a run of its own, gained {_percent(WORTH_IT)}."
    doubts = []
    if (first.gain or 0.0) < 2 * WORTH_IT:
        doubts.append("the gain is small")
    if first.seeds != 2:
        doubts.append("with one seed only" if first.seeds == 1 else "with another seed it gained much less")
    rest = [one for one in verdict.tried if not _same_group(verdict, first, one)]
    close = [one for one in rest if (one.gain or 0.0) >= CLOSE_GAIN_SHARE * (first.gain or 0.0)]
    if close:
        more = f" and by {text.plural(len(close) - 1, 'other change')}" if len(close) > 1 else ""
        doubts.append(f"about as much was gained by {_named(verdict, close[0])}{more}")
    part = _part(verdict)
    if doubts:
        return f"Fairly sure: it was tried, but {' and '.join(doubts)}.{part}"
    return f"Sure: it was tried with two seeds, and gained more than all else that was tried.{part}"


def _part(verdict: Verdict) -> str:
    return f" Trials simulated the first {text.duration(verdict.until_s)}." if verdict.until_s else ""


def _same_group(verdict: Verdict, one: Candidate, other: Candidate) -> bool:
    names = [each.group or verdict.groups.name(each.stage) for each in (one, other)]
    return one.stage.kind == other.stage.kind and names[0] == names[1]


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
        LITTLE_OFFERED: "Messages are done about as fast as they come: the network carries "
        "what it is given. Completion times may still suffer from queues that come and go.",
        NO_CHANGE_HELPS: "What is full has a neighbour that is nearly as full: no single change that was tried "
        "carries 5 % more.",
        NOT_FULL: "No stage is busy all the time with traffic waiting before it.",
        RANKS_COMPUTE: f"Ranks compute {text.share(seen.computing)} of the time of their jobs: an infinitely "
        "fast network would save them only the rest.",
        MESSAGES_WAIT: f"For {text.share(seen.begins_late)} of the run messages that ranks waited for, one behind the "
        "other, waited for the send latency before they began: the network had nothing to carry.",
        INSIDE_SERVERS: "Ranks wait for messages inside servers, and for none in the network.",
        NOTHING_DELIVERED: "Nothing was delivered in the span that is explained: there is no throughput "
        "to explain. Look at faults, timeouts and drops.",
    }
    fullest = max((one.stage.use for one in verdict.candidates), default=0.0)
    two_at_once = "Try two stages at once: the fullest, and the next that its data passes."
    if fullest < FULL_BUSY_SHARE:
        reasons[NO_CHANGE_HELPS] = "Nothing is full, and no single change that was tried carries 5 % more."
    if fullest < MIN_BUSY_OF_BOTH:
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
        LITTLE_OFFERED: "Try more traffic, to find what gives way first.",
        RANKS_COMPUTE: "Try shorter computation, or collectives that overlap with it.",
        MESSAGES_WAIT: "Try another AS_SEND_LAT: docs/simai.md says how SimAI reads it.",
        INSIDE_SERVERS: "Try a faster link inside servers (servers.rate), or another algorithm.",
        NOTHING_DELIVERED: "Try tailback run with a longer run.duration.",
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
    """How sure counters are. Without a trial no answer is sure."""
    seen = verdict.seen
    doubts = []
    if verdict.candidates and not verdict.none:
        first = verdict.candidates[0]
        if first.stage.use < FULL_BUSY_SHARE and first.stage.kind not in ("loss", "headroom"):
            doubts.append(f"it is busy {text.share(first.stage.use)} of the time, as senders hold back")
        if first.stage.kind in ("window", "throttle", "reads"):
            doubts.append("it shows only in that nothing else is full")
        if len(verdict.candidates) > 1 and verdict.candidates[1].held > CLOSE_GAIN_SHARE * first.held:
            doubts.append("as much traffic waits elsewhere")
        doubts += tiers.doubts(verdict.groups, first)
    if seen.sent_again > NOTABLE_SHARE:
        doubts.append(f"{text.share(seen.sent_again)} of all packets were retransmitted")
    if not seen.meta["complete"]:
        doubts.append("the run was cut short")
    if str(seen.meta.get("recorded", "everything")) != "everything":
        doubts.append(f"of queues only {seen.meta['recorded']} are recorded")
    said = "it is from counters, and no trial was run"
    return f"{'A guess' if doubts else 'Fairly sure'}: {'; '.join([said, *doubts])}."


def _second(verdict: Verdict) -> str:
    rest = verdict.candidates[0 if verdict.none else 1 :]
    if verdict.tried:
        if not rest or worth(rest[0]) < WORTH_IT:
            return f"Nothing{'' if verdict.none else ' else'} that was tried gains {_percent(WORTH_IT)}."
        return f"Next best: {_named(verdict, rest[0])}, {_signed(rest[0].gain or 0.0)}."
    full = [one for one in rest if one.stage.use >= FULL_BUSY_SHARE][:MOST_FULL]
    if not full:
        return f"No {'' if verdict.none else 'other '}stage is full."
    names = [
        f"{_called(verdict, one, kind_of(verdict, one).name)} (busy {text.share(one.stage.use)} of the time)"
        for one in full
    ]
    return f"Also full: {'; '.join(names)}."


def as_text(page: Page, width: int = MAX_LINE_CHARACTERS) -> str:
    """For the terminal, in lines of at most `width`, except for figures."""
    lines = [page.headline, ""]
    lines += textwrap.wrap(" ".join(page.reasons), width)
    if page.bad:
        lines += ["", "What is bad"]
        for words in page.bad:
            lines += textwrap.wrap(words, width, initial_indent="  ", subsequent_indent="    ")
    if page.evidence:
        lines += ["", "Evidence"]
        name = max(len(figure.name) for figure in page.evidence)
        value = max(len(figure.value) for figure in page.evidence)
        for figure in page.evidence:
            otherwise = f"  (else {figure.otherwise})" if figure.otherwise else ""
            lines.append(f"  {figure.name:<{name}}  {figure.value:<{value}}{otherwise}".rstrip())
    for words in filter(None, (page.next, page.sure, page.second)):
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
            {
                "kind": one.key[0],
                "where": one.key[1],
                "what": _named(verdict, one),
                "gain": round(one.gain or 0.0, 4),
                "set": list(one.remedy.sets) if one.remedy is not None else [],
            }
            for one in verdict.tried
        ],
        "bad": list(page.bad),
        "asked": [
            {
                "what": _of_asked(verdict, one),
                "goal": one.goal,
                "about": one.about,
                "before": one.before,
                "after": one.after,
                "set": list(one.remedy.sets),
            }
            for one in verdict.asked
        ],
    }
