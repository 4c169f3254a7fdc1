"""Retransmission timers that wait longer."""

from __future__ import annotations

from collections.abc import Iterator

from tailback.explain.remedies import Case, Remedy
from tailback.explain.remedies.patches import longer_timers
from tailback.explain.stages import Figure
from tailback.text import count, share


def remedies(case: Case) -> Iterator[Remedy]:
    """Where timers fired."""
    if case.seen.timeouts:
        yield Remedy("timer", "", "", edit=longer_timers, where="all", figures=again(case), repairs=True)


def again(case: Case) -> tuple[Figure, ...]:
    """Retransmissions of the run."""
    timeouts = [Figure("local_ack_timeout_err", count(case.seen.timeouts), "")] if case.seen.timeouts else []
    return (*timeouts, Figure("packets retransmitted", share(case.seen.sent_again), "0"))
