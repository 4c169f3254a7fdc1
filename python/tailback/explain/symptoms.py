"""What is bad in a run, for whom, and who causes it."""

from __future__ import annotations

from collections.abc import Sequence

from tailback.explain.outcome import Outcome, Trial
from tailback.explain.remedies import Case
from tailback.explain.verdict import Symptom


def symptoms(case: Case, base: Outcome, trials: Sequence[Trial]) -> list[Symptom]:
    """What is bad."""
    return []
