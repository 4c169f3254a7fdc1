"""Differences between two or more runs, as tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa

from tailback.comparison import differences
from tailback.comparison.sides import Side, for_each_side
from tailback.files.json import number


class ComparisonTables:
    """Differences between runs. Sides are called A, B and so on; all others are compared with A."""

    def __init__(self, sides: Sequence[Side]) -> None:
        self.sides = list(sides)
        self.settings_that_differ = differences.settings(self.sides)
        self.main_figures = differences.figures(self.sides)
        self.findings_that_differ = differences.findings_that_differ(self.sides)
        self.stuck = for_each_side(self.sides, differences.bottleneck)

    @property
    def names(self) -> dict[str, str]:
        """The name of each side, by its letter."""
        return {side.label: side.name for side in self.sides}

    @cached_property
    def settings(self) -> pa.Table:
        """Settings that differ: `setting`, and a column for each side."""
        rows = self.settings_that_differ
        columns = {side.label: [row.values[at] for row in rows] for at, side in enumerate(self.sides)}
        return _texts({"setting": [row.name for row in rows], **columns})

    @cached_property
    def findings(self) -> pa.Table:
        """Findings that differ: `finding`, and a column of figures for each side, null where a side has none."""
        rows = self.findings_that_differ
        columns = {side.label: [row.figures[at] for row in rows] for at, side in enumerate(self.sides)}
        return _texts({"finding": [row.what for row in rows], **columns})

    @cached_property
    def figures(self) -> pa.Table:
        """The main figures, a row for each figure and side: `figure`, `unit` (bit/s, B, share, count or index),
        `side`, `mean`, `min`, `max` and number of `seeds`, `change` relative to A, `p` (p-value of the paired
        difference over seeds, adjusted for all figures; null without two common seeds) and `verdict` (same,
        differs, noise).
        """
        rows = [
            {
                "figure": figure.name,
                "unit": figure.unit,
                "side": side.label,
                "mean": figure.means[at],
                "min": min(figure.values[at].values(), default=None),
                "max": max(figure.values[at].values(), default=None),
                "seeds": len(figure.values[at]),
                "change": figure.change(at) if at else None,
                "p": None if math.isnan(figure.p[at]) or not at else figure.p[at],
                "verdict": figure.verdict(at) if at else "",
            }
            for figure in self.main_figures
            for at, side in enumerate(self.sides)
        ]
        kinds = {"figure": pa.string(), "unit": pa.string(), "side": pa.string(), "seeds": pa.int64()}
        kinds["verdict"] = pa.string()
        names = ("figure", "unit", "side", "mean", "min", "max", "seeds", "change", "p", "verdict")
        schema = pa.schema([(name, kinds.get(name, pa.float64())) for name in names])
        return pa.Table.from_pylist(rows, schema)

    @cached_property
    def flows(self) -> pa.Table:
        """Paired flows: `seed`, `item`, `src`, `dst`, `index` among flows with the same of these, and for each side
        `state_a`, `start_ps_a`, `fct_ps_a`, `slowdown_a`, `goodput_bps_a` and `packets_retransmitted_a`, null
        where the side does not have the flow.
        """
        return differences.flows(self.sides)

    def as_data(self) -> dict[str, Any]:
        """Everything except single flows, as `tailback compare --json` prints it."""
        return {
            "sides": [
                {"side": side.label, "name": side.name, "scenario": side.first.name, "seeds": list(side.runs)}
                for side in self.sides
            ],
            "settings": self.settings.to_pylist(),
            "stuck": [
                {"side": side.label, **vars(one)} for side, one in zip(self.sides, self.stuck, strict=True)
            ],
            "findings": self.findings.to_pylist(),
            "figures": [
                {key: number(value) if isinstance(value, float) else value for key, value in row.items()}
                for row in self.figures.to_pylist()
            ],
            "flows": [vars(one) for one in self.flow_changes],
        }

    @cached_property
    def flow_changes(self) -> list[differences.FlowChanges]:
        """The flows of each further side compared with those of A."""
        return [differences.flow_changes(self.flows, self.sides[0], side) for side in self.sides[1:]]


def _texts(columns: dict[str, list[Any]]) -> pa.Table:
    return pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})
