"""The truth that `tailback explain` is held to: the stage whose doubled capacity raises throughput most.

A stage is a kind and where it is: `("link", "h0-sw0")`, `("memory", "h1")`. Each is doubled in the plan, one
at a time, and the run repeated. Nothing here looks at what explain says, and what explain estimates from
counters looks at nothing here.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import explain_veth
import pyarrow as pa
from tailback._engine import Simulation
from tailback.explain import explain, trials
from tailback.explain.remedies import patches
from tailback.explain.remedies.patches import Doubling, Key, Plan
from tailback.explain.triable import why_not
from tailback.plan import plan_json
from tailback.recorded.bins import Bins
from tailback.results import Result

NONE: Key = ("none", "")

A_FEW_PERCENT = 0.05
"""No doubling that raises throughput by less makes its stage the bottleneck."""
TIE = 0.03
"""Two stages whose doublings gain as much to within this, as a share of the throughput, are a tie."""
WARM_UP = 0.25
"""Share of a run that no throughput is measured in."""


@dataclass(frozen=True)
class Truth:
    """The stage, and what each doubling gained as a share of the throughput."""

    stage: Key
    gains: dict[Key, float]

    @property
    def tied(self) -> list[Key]:
        """All stages that gain as much as the first, to within `TIE`; `NONE` where it hardly gains."""
        best = max(self.gains.values(), default=0.0)
        near = [stage for stage, gain in self.gains.items() if gain >= max(best - TIE, A_FEW_PERCENT)]
        return [*near, NONE] if best < A_FEW_PERCENT + TIE else near


def record(plan: Plan) -> Any:
    """Runs a plan to its end."""
    simulation = Simulation(plan_json(plan))
    while not simulation.advance(1_000_000).done:
        pass
    return simulation.finish()


def throughput(plan: Plan, seeds: int) -> float:
    """Payload a second that all receivers took in order after the warm-up, bit/s, over some seeds; of
    namespaces, packets.
    """
    found = []
    for more in range(seeds):
        recording = record({**plan, "run": {**plan["run"], "seed": plan["run"]["seed"] + more}})
        meta = json.loads(recording.meta_json)
        if plan.get("veth") is not None:
            found.append(explain_veth.delivered(meta))
            continue
        end_ps = int(meta["end_ps"])
        bins = Bins(
            pa.table(recording.series), pa.table(recording.entities), max(1, int(meta["bin_ps"])), end_ps
        )
        found.append(bins.mean(bins.total("goodput_rx_bps"), WARM_UP * end_ps / 1e12))
    return sum(found) / seeds


def find(plan: Plan, seeds: int = 2) -> Truth:
    """Doubles every stage of a run in turn. Each figure is a mean over some seeds: one is one draw."""
    base = throughput(plan, seeds)
    gains = {
        stage: throughput(double(plan), seeds) / base - 1 if base else 0.0
        for stage, double in doublings(plan).items()
    }
    best = max(gains, key=lambda stage: gains[stage], default=NONE)
    return Truth(best if gains.get(best, 0.0) >= A_FEW_PERCENT else NONE, gains)


def doublings(plan: Plan) -> dict[Key, Doubling]:
    """Each stage of this run that can be doubled, with what doubles it in a plan."""
    return explain_veth.doublings(plan) if plan.get("veth") is not None else patches.doublings(plan)


def named(stage: Key) -> Key:
    """A stage by a name that truth and verdict share: a link by its ends in alphabetical order."""
    kind, where = stage
    if kind == "link":
        where = "-".join(sorted(where.replace(":", "-").split("-")))
    return kind, where


def answer(scenario: Any, plan: Plan, tried: bool = False) -> Key:
    """What explain says of a plan's run, with its name hidden; from counters alone, or tried."""
    result = Result.from_recording(scenario, {**plan, "name": "hidden"}, record(plan), 1.0, 1.0, False)
    result.meta["name"] = "hidden"
    verdict = explain(result)
    if tried and why_not(result) is None:
        verdict = trials.tried(result, verdict)
    if verdict.key != NONE and verdict.candidates and verdict.candidates[0].group:
        # Stages are doubled one by one here: of a group the strongest counts.
        return named(verdict.candidates[0].stage.key)
    return named(verdict.key)
