"""Faults, which are read before anything else: a deadlock, drops where nothing may be dropped, links that
were down, queue pairs that gave up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc

from tailback import text

if TYPE_CHECKING:
    from tailback.explain.observed import Observed
    from tailback.explain.ways import Port


MOST_OUTAGES = 2
"""Of a link with more, the first and the last are told."""


def deadlock(seen: Observed) -> tuple[str, str] | None:
    """Where all wait for all, and the sentence that says so; None where none does."""
    for fault in seen.meta["faults"]:
        if fault["kind"] == "deadlock":
            return fault["where"], fault["text"]
    return None


def failed(seen: Observed) -> tuple[int, int]:
    """Flows that gave up (retries exhausted), and all flows."""
    states = seen.flows.column("state")
    return int(pc.sum(pc.equal(states, "failed")).as_py() or 0), len(states)


def without_headroom(seen: Observed) -> dict[Port, str]:
    """Ports that dropped packets of a lossless priority, each with what was said of it."""
    found = {}
    for fault in seen.meta["faults"]:
        if fault["kind"] == "lossless_drop":
            found[fault["node"], fault["peer"]] = fault["text"]
    return found


def down(seen: Observed) -> dict[frozenset[str], list[tuple[float, float]]]:
    """Links that were down in the span, each with from when and until when, in seconds, every time."""
    begin, end = seen.span
    found: dict[frozenset[str], list[tuple[float, float]]] = {}
    since: dict[frozenset[str], float] = {}
    for at, link, up in seen.link_changes:
        if not up:
            since.setdefault(link, at)
        elif link in since:
            found.setdefault(link, []).append((since.pop(link), at))
    for link, at in since.items():
        found.setdefault(link, []).append((at, seen.bins.end_s))
    return {link: times for link, times in found.items() if any(t[0] < end and t[1] > begin for t in times)}


def _when_down(since: float, until: float, end: float) -> str:
    return f"from {text.duration(since)} {'on' if until >= end else f'to {text.duration(until)}'}"


def sentences(seen: Observed) -> list[str]:
    """Faults of the run, whatever its bottleneck is."""
    said = []
    for link, times in down(seen).items():
        when = [_when_down(*one, seen.bins.end_s) for one in times]
        often = f"{text.plural(len(times), 'time')}, first {when[0]}, last {when[-1]}"
        words = " and ".join(when) if len(when) <= MOST_OUTAGES else often
        said.append(f"The link {'-'.join(sorted(link))} was down {words}.")
    drops = without_headroom(seen)
    if drops:
        words = next(iter(drops.values()))
        more = f", and likewise at {text.plural(len(drops) - 1, 'other port')}" if len(drops) > 1 else ""
        said.append(f"A fault: {words}{more}.")
    gave_up, all_ = failed(seen)
    if gave_up:
        said.append(f"{text.count(gave_up)} of {text.plural(all_, 'flow')} failed.")
    return said
