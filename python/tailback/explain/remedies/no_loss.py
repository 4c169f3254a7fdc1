"""Nothing lost: cables that corrupt nothing, headroom that holds what comes after a pause, and buffers that
never fill.
"""

from __future__ import annotations

from collections.abc import Iterator

from tailback.explain.remedies import Case, Remedy, headroom_auto
from tailback.explain.remedies.patches import lossless


def remedies(case: Case) -> Iterator[Remedy]:
    """Where anything can be lost or can wait for room."""
    if case.plan["switches"] or any(link["loss"] for link in case.plan["links"]):
        otherwise = "loss" if case.drops else "buffer"
        kinds = ("loss",) if headroom_auto.applies(case) else ("headroom", "loss")
        kind = next((kind for kind in kinds if (kind, "all") in case.stages_of), otherwise)
        yield Remedy(kind, "", "", edit=lossless, where="all", repairs=kind != "buffer")
