"""Failed links that stay up."""

from __future__ import annotations

from collections.abc import Iterator

from tailback.explain.remedies import Case, Remedy
from tailback.explain.verdict import FAILED_LINK


def remedies(case: Case) -> Iterator[Remedy]:
    """Where links fail."""
    if case.plan["failures"]:
        yield Remedy(
            FAILED_LINK,
            "failed links staying up",
            "",
            edit=lambda plan: {**plan, "failures": []},
            where="all",
            repairs=True,
        )
