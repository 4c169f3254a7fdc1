"""All remedies, those first that most often gain most."""

from __future__ import annotations

from tailback.explain.remedies import (
    faster_stage,
    longer_timers,
    no_loss,
    repaired_link,
    tolerates_reordering,
)

CATALOGUE = [
    one.remedies
    for one in (
        faster_stage,
        repaired_link,
        no_loss,
        longer_timers,
        tolerates_reordering,
    )
]
