"""Steps of the ranks of jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tailback import text
from tailback.recorded.bins import PS_PER_S
from tailback.recorded.run import Recorded

COMPUTE = "compute"
LANES_PER_RANK = 3
"""Steps of a rank that may overlap."""


@dataclass(frozen=True)
class Span:
    """A step of a rank: computing, or a collective from when it takes part until its part is done.

    `lane` is 1 for a collective that the rank does not wait for before it goes on, else 0. Of another
    simulator's inputs ranks compute in lane 0, and in others they communicate or their CPU works.
    """

    job: str
    rank: int
    host: str
    name: str
    lane: int
    iteration: int
    step: int
    begin_s: float
    end_s: float


def spans(result: Recorded) -> list[Span]:
    """Of all jobs, in the order in which they ended; of a job the first 100,000. What had not ended lasts to
    the end of the run.
    """
    plans = {job["name"]: job for job in result.plan.get("jobs", [])}
    found = []
    for job in result.meta.get("jobs", []):
        if "inputs" in job:
            names = [_of_inputs(step) for step in job["inputs"]["steps"]]
        else:
            names = [_named(step) for step in plans[job["name"]]["steps"]]
        for rank, iteration, step, begin_ps, end_ps in job["spans"]:
            over = result.bins.end_s
            begin, end = begin_ps / PS_PER_S, over if end_ps is None else min(end_ps / PS_PER_S, over)
            name, lane = names[step]
            found.append(Span(job["name"], rank, job["hosts"][rank], name, lane, iteration, step, begin, end))
    return found


def _of_inputs(step: dict[str, Any]) -> tuple[str, int]:
    size = "" if step["bytes"] is None else f" {text.size(step['bytes'])}"
    return step["kind"] + size, step["lane"]


def _named(step: dict[str, Any]) -> tuple[str, int]:
    if "compute" in step:
        return COMPUTE, 0
    if "collective" in step:
        one = step["collective"]
        return f"{one['kind']} {text.size(one['bytes'])}", int(one["overlapped"])
    return "graph", 0
