"""PFC on where RoCE is dropped, and off where it stops traffic that ECN could slow down."""

from __future__ import annotations

from collections.abc import Iterator

from tailback.explain.remedies import Case, Remedy
from tailback.recorded.setup import ROCE


def remedies(case: Case) -> Iterator[Remedy]:
    """Where switches drop RoCE with no lossless class, or pause though they mark."""
    used = sorted({priority for _, priority in case.priorities.get(ROCE, ())})
    if not used or not case.plan["switches"]:
        return
    if not case.lossless and case.drops:
        yield Remedy(
            "pfc",
            "PFC on",
            f"Make priority {', '.join(map(str, used))} lossless.",
            sets=(f"switch.lossless={used}",),
            where="all",
            why="Packets are dropped and retransmitted, with all that followed them.",
            headline="RoCE is dropped, as no class is lossless",
            repairs=True,
        )
    elif case.lossless and case.pauses and case.setting("switch.ecn") is not None:
        yield Remedy(
            "pfc",
            "PFC off",
            "Turn PFC off, and leave it to ECN to slow senders down.",
            sets=("switch.lossless=[]",),
            where="all",
            why="PFC stops ports, with traffic that has nothing to do with the full queue.",
            headline="PFC stops more traffic than it saves",
        )
