"""Everything that a run records is declared, and so in the reference."""

from __future__ import annotations

import json
import re

import pyarrow as pa
from drawn import draw
from tailback._engine import Simulation, recorded
from tailback.plan import make_plan, plan_json

FEW_EVENTS = 20_000


def test_all_that_is_recorded_is_declared() -> None:
    declared = json.loads(recorded())
    kinds = {kind for kind, _ in declared["kinds"]}
    series = {(kind, one["metric"]) for one in declared["quantities"] for kind in one["of"] if one["metric"]}
    counters = {one["counter"] for one in declared["quantities"]}
    # What a controller shows is declared with the controller.
    flows = ("queue-pair", "message")
    missed: set[object] = set()
    seen: set[object] = set()
    for number in range(60):
        simulation = Simulation(plan_json(make_plan(draw(3, number).load())))
        simulation.advance(FEW_EVENTS)
        recording = simulation.finish()
        entities = pa.table(recording.entities).to_pydict()
        kind_of = dict(zip(entities["entity"], entities["kind"], strict=True))
        table = pa.table(recording.series).select(["entity", "metric"]).combine_chunks()
        pairs = table.group_by(["entity", "metric"]).aggregate([]).to_pydict()
        found = {
            (kind_of[entity], metric)
            for entity, metric in zip(pairs["entity"], pairs["metric"], strict=True)
            if kind_of[entity] not in flows
        }
        names = pa.table(recording.counters).column("counter").unique().to_pylist()
        plain = {re.sub(r"(?<=prio)\d|(?<=[_:])\d$", "N", name) for name in names}
        missed |= found - series | set(kind_of.values()) - kinds | plain - counters
        seen |= found | plain
    assert missed == set()
    assert len(seen) > 100
