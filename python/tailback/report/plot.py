"""A section of a report: figures with a heading and a caption."""

from __future__ import annotations

from dataclasses import dataclass, field

from tailback.report.figures import Figure


@dataclass(frozen=True)
class Plot:
    """`heading` and `caption` around the `figures`; without figures, `caption` says why there are none."""

    id: str
    heading: str
    caption: str
    figures: list[Figure] = field(default_factory=list)
