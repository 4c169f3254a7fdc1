"""Sentences on the rank that finished last, in runs of another simulator's inputs."""

from __future__ import annotations

from dataclasses import replace

from tailback import text
from tailback.explain.stages import Figure
from tailback.explain.words import Page
from tailback.metrics.critical_path import critical_paths, parts, worst
from tailback.recorded.run import Recorded


def with_last_rank(result: Recorded, page: Page) -> Page:
    """The page, with the chain of events that each job ended with."""
    reasons, evidence = list(page.reasons), list(page.evidence)
    for path in (one._asdict() for one in critical_paths(result)):
        shares = [(words, time_s / path["end_s"]) for words, time_s in parts(path)]
        most = shares[0]
        reasons.append(
            f"Rank {path['last_rank']} ({path['last']}) was done last, after {text.duration(path['end_s'])}. "
            f"It waited most, {text.share(most[1])} of that, for {most[0]}."
        )
        reasons += filter(None, [worst(path)])
        evidence += [Figure(f"waited for {words}", text.share(share), "") for words, share in shares]
    return replace(page, reasons=reasons, evidence=evidence)
