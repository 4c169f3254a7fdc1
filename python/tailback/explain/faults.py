"""Faults, which are read before anything else: a deadlock, drops where nothing may be dropped, links that
were down, queue pairs that gave up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailback import text
from tailback.recorded import compute as pc

if TYPE_CHECKING:
    from tailback.explain.observed import Observed
    from tailback.explain.ways import Port


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


def down(seen: Observed) -> dict[frozenset[str], tuple[float, float]]:
    """Links that were down in the span, each with when it first was and until when, in seconds."""
    begin, end = seen.span
    found: dict[frozenset[str], tuple[float, float]] = {}
    since: dict[frozenset[str], float] = {}
    for at, link, up in seen.link_changes:
        if not up:
            since.setdefault(link, at)
        elif link in since:
            found[link] = since.pop(link), at
    found |= {link: (at, seen.bins.end_s) for link, at in since.items()}
    return {link: span for link, span in found.items() if span[0] < end and span[1] > begin}


def sentences(seen: Observed) -> list[str]:
    """What went wrong in the run, whatever holds its traffic."""
    said = []
    for link, (since, until) in down(seen).items():
        whole = until >= seen.bins.end_s
        said.append(
            f"The link {'-'.join(sorted(link))} was down from {text.duration(since)} "
            f"{'on' if whole else f'to {text.duration(until)}'}."
        )
    drops = without_headroom(seen)
    if drops:
        words = next(iter(drops.values()))
        more = f", and {len(drops) - 1} ports more" if len(drops) > 1 else ""
        said.append(f"A fault: {words}{more}.")
    gave_up, all_ = failed(seen)
    if gave_up:
        said.append(f"{text.count(gave_up)} of {text.count(all_)} flows failed.")
    return said
