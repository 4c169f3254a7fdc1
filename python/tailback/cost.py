"""Estimates CPU time and memory of a run from its first second."""

from __future__ import annotations

import resource
import sys
import time
from typing import NamedTuple

from tailback.plan import make_plan, packed_plan
from tailback.running import begin, own_controllers
from tailback.scenario import Scenario

EVENTS_PER_SAMPLE = 100_000
"""Some 5 ms."""


class Cost(NamedTuple):
    """Cost of a run on one core, without its report."""

    simulated_ps: int
    """Time that was simulated for the estimate."""
    duration_ps: int
    """`run.duration`; a run ends earlier if nothing is left to send."""
    cpu_s: float
    """CPU seconds of the whole run, if the rest is like the second half of the simulated part."""
    packet_hops: int
    """Packet-hops of the whole run, by the same estimate."""
    memory_bytes: int
    """The largest memory of this process so far: the run takes at least this."""
    done: bool
    """True if the run reached its end: nothing is estimated."""


def estimate(scenario: Scenario, seconds: float = 1.0) -> Cost:
    """Simulates the first `seconds` of CPU time of a run, and estimates the whole.

    Raises:
        InputError: the scenario cannot run.
    """
    begun = time.process_time()
    simulation = begin(packed_plan(make_plan(scenario)), list(scenario.own_controllers.values()))
    set_up_s = time.process_time() - begun
    samples = [(0.0, 0, 0)]
    begun = time.process_time()
    with own_controllers(scenario):
        while True:
            state = simulation.advance(EVENTS_PER_SAMPLE)
            samples.append((time.process_time() - begun, state.time_ps, state.packet_hops))
            if state.done or samples[-1][0] >= seconds:
                break
    spent_s, reached_ps, hops = samples[-1]
    duration_ps = scenario.run.duration
    if not state.done:
        from_s, from_ps, from_hops = next(sample for sample in samples if sample[0] >= spent_s / 2)
        if from_ps >= reached_ps:
            from_s, from_ps, from_hops = samples[0]
        more = (duration_ps - reached_ps) / max(reached_ps - from_ps, 1)
        spent_s, hops = spent_s + (spent_s - from_s) * more, hops + round((hops - from_hops) * more)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    memory_bytes = peak if sys.platform == "darwin" else peak << 10  # macOS counts bytes, Linux KiB
    return Cost(min(reached_ps, duration_ps), duration_ps, set_up_s + spent_s, hops, memory_bytes, state.done)
