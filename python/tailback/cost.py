"""What a run will cost, from a moment of it."""

from __future__ import annotations

import resource
import sys
import time
from typing import NamedTuple

from tailback.plan import make_plan, packed_plan
from tailback.running import begin, own_controllers
from tailback.scenario import Scenario

EVENTS_PER_LOOK = 100_000
"""Events between two looks at the clock: some 5 ms."""


class Cost(NamedTuple):
    """What a run takes on one core, without its report."""

    simulated_ps: int
    """How much of the run was carried out to know."""
    duration_ps: int
    """What `run.duration` allows; a run ends before if nothing is left to send."""
    cpu_s: float
    """CPU seconds of the whole run, if the rest is like the second half of what was carried out."""
    packet_hops: int
    """Packet-hops of the whole run, likewise."""
    memory_bytes: int
    """The largest memory of this process so far: the run takes at least this."""
    done: bool
    """Whether the run was carried out to its end, so that nothing is estimated."""


def estimate(scenario: Scenario, seconds: float = 1.0) -> Cost:
    """Carries out the first `seconds` of CPU time of a run, keeps nothing, and says what the whole takes.

    Raises:
        InputError: the scenario cannot run.
    """
    begun = time.process_time()
    simulation = begin(packed_plan(make_plan(scenario)), list(scenario.own_controllers.values()))
    set_up_s = time.process_time() - begun
    looks = [(0.0, 0, 0)]
    begun = time.process_time()
    with own_controllers(scenario):
        while True:
            state = simulation.advance(EVENTS_PER_LOOK)
            looks.append((time.process_time() - begun, state.time_ps, state.packet_hops))
            if state.done or looks[-1][0] >= seconds:
                break
    spent_s, reached_ps, hops = looks[-1]
    duration_ps = scenario.run.duration
    if not state.done:
        from_s, from_ps, from_hops = next(look for look in looks if look[0] >= spent_s / 2)
        if from_ps >= reached_ps:
            from_s, from_ps, from_hops = looks[0]
        more = (duration_ps - reached_ps) / max(reached_ps - from_ps, 1)
        spent_s, hops = spent_s + (spent_s - from_s) * more, hops + round((hops - from_hops) * more)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    memory_bytes = peak if sys.platform == "darwin" else peak << 10  # there it counts bytes
    return Cost(min(reached_ps, duration_ps), duration_ps, set_up_s + spent_s, hops, memory_bytes, state.done)
