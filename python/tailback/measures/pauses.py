"""Measures of PFC pauses."""

from __future__ import annotations

from tailback.measures.registry import NAN, measure
from tailback.measures.spans import Since, last_start, since_s
from tailback.recorded.bins import PS_PER_S
from tailback.recorded.run import Recorded
from tailback.recorded.signals import PFC_PAUSE


@measure("share")
def largest_pause_share(result: Recorded) -> float:
    """Largest share of a second of the run (0 to 1 s, 1 to 2 s, ...) that a port's priority was paused."""
    return max((pause["max_share_of_a_second"] for pause in result.meta["pauses"]), default=0.0)


@measure("s")
def last_pause(result: Recorded) -> float:
    """When the last pause ended; 0 when there was none."""
    return max((pause["last_pause_ps"] or 0 for pause in result.meta["pauses"]), default=0) / PS_PER_S


@measure("s")
def pauses_after_last_start(result: Recorded) -> float:
    """For how long after the last flow had started pauses still came; 0 when none came after that."""
    return max(0.0, last_pause(result) - last_start(result))


@measure("share")
def pause_share(result: Recorded, since: Since = "start") -> float:
    """Share of the time since `since`, to the end of the run, that the most paused queue was paused."""
    begin = since_s(result, since)
    return NAN if begin != begin else result.signal_log.greatest_mean(PFC_PAUSE, begin)


@measure("count")
def pause_frames(result: Recorded) -> float:
    """PFC frames received by all ports, resumes and refreshes included."""
    return float(sum(pause["rx_frames"] for pause in result.meta["pauses"]))
