"""A transport that does not take packets that overtake each other for lost."""

from __future__ import annotations

from collections.abc import Iterator

from tailback.explain.remedies import Case, Remedy
from tailback.explain.remedies.longer_timers import again
from tailback.explain.remedies.patches import bears_reordering


def remedies(case: Case) -> Iterator[Remedy]:
    """Where packets of a flow take several routes, and some are retransmitted."""
    if case.seen.sent_again and any(
        model["load_balancing"] != "ecmp" for model in case.plan["switch_models"]
    ):
        yield Remedy(
            "reordering", "", "", edit=bears_reordering, where="all", figures=again(case), repairs=True
        )
