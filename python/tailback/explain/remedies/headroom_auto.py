"""PFC headroom that holds what still comes after a pause was sent."""

from __future__ import annotations

from collections.abc import Iterator

from tailback.explain import faults
from tailback.explain.remedies import Case, Remedy

HEADROOM_AUTO = ("switch.pfc.headroom=auto",)


def applies(case: Case) -> bool:
    """True if a switch dropped packets of a lossless priority with headroom that the scenario gives."""
    switches = {switch["name"] for switch in case.plan["switches"]}
    dropped = faults.without_headroom(case.seen)
    return case.setting("switch.pfc.headroom") not in (None, "auto") and any(
        node in switches for node, _ in dropped
    )


def remedies(case: Case) -> Iterator[Remedy]:
    """Where that happened."""
    if applies(case):
        given = case.setting("switch.pfc.headroom")
        yield Remedy(
            "headroom",
            "headroom: auto at switches",
            "Give each port the headroom that its rate and its cable need.",
            sets=HEADROOM_AUTO,
            where="all",
            why=f"The headroom of {given} is too small for the packets that still come after a pause was "
            "sent: lossless traffic is dropped and retransmitted.",
            headline="PFC headroom at switches is too small: lossless traffic is dropped",
            repairs=True,
        )
