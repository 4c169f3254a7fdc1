"""PFC pauses."""

from __future__ import annotations

from typing import Any

from tailback import text
from tailback.metrics.finding import Finding, finding, not_counted
from tailback.metrics.metric import NAN, metric, part, summarise
from tailback.metrics.spans import Since, last_start, since_s
from tailback.recorded.bins import PS_PER_S
from tailback.recorded.run import Recorded
from tailback.recorded.signals import PFC_PAUSE


@metric("share", "pauses.largest_share_of_a_second")
def largest_pause_share(result: Recorded) -> float:
    """Largest share of a second of the run (0 to 1 s, 1 to 2 s, ...) that a port's priority was paused."""
    return max((pause["max_share_of_a_second"] for pause in result.meta["pauses"]), default=0.0)


@metric("s", "pauses.last_pause_s")
def last_pause(result: Recorded) -> float:
    """When the last pause ended; 0 when there was none."""
    return max((pause["last_pause_ps"] or 0 for pause in result.meta["pauses"]), default=0) / PS_PER_S


@metric("s")
def pauses_after_last_start(result: Recorded) -> float:
    """For how long after the last flow had started pauses still came; 0 when none came after that."""
    return max(0.0, last_pause(result) - last_start(result))


@metric("share")
def pause_share(result: Recorded, since: Since = "start") -> float:
    """Share of the time since `since`, to the end of the run, that the most paused queue was paused."""
    begin = since_s(result, since)
    return NAN if begin != begin else result.signal_log.greatest_mean(PFC_PAUSE, begin)


@metric("count", "pauses.frames", whole=True)
def pause_frames(result: Recorded) -> float:
    """PFC frames received by all ports, resumes and refreshes included."""
    return float(sum(pause["rx_frames"] for pause in result.meta["pauses"]))


@metric("s")
def paused_time(result: Recorded) -> float:
    """How long queues were paused, all added up."""
    return result.signal_log.lasted_s(PFC_PAUSE)


def _paused(result: Recorded) -> list[dict[str, Any]]:
    """Counters of each priority of a port that was paused or got PFC frames."""
    return [pause for pause in result.meta["pauses"] if pause["rx_frames"] or pause["paused_ps"]]


@metric("count", "pauses.transitions", whole=True)
def pause_transitions(result: Recorded) -> float:
    """Pauses that began, of all ports together."""
    return float(sum(pause["transitions"] for pause in _paused(result)))


@metric("count", "pauses.ports", whole=True)
def paused_ports(result: Recorded) -> float:
    """Priorities of ports that were paused, or got PFC frames."""
    return float(len(_paused(result)))


@metric("share", "pauses.largest_share_of_the_run", title="Longest paused")
def largest_pause_share_of_the_run(result: Recorded) -> float:
    """Share of the run that the priority of a port which was paused longest was paused."""
    longest = max((pause["paused_ps"] for pause in _paused(result)), default=None)
    return longest / PS_PER_S / result.bins.end_s if longest and result.bins.end_s else 0.0


@part("pauses.lossless_priorities")
def _lossless(result: Recorded) -> Any:
    return result.setup.lossless


@part("pauses.paused_longest")
def _paused_longest(result: Recorded) -> dict[str, Any] | None:
    return _place(max(_paused(result), key=lambda pause: pause["paused_ps"], default=None))


@part("pauses.most_paused")
def _most_paused(result: Recorded) -> dict[str, Any] | None:
    return _place(max(_paused(result), key=lambda pause: pause["max_share_of_a_second"], default=None))


def _place(pause: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if pause is None else {"port": pause["port"], "priority": pause["priority"]}


@part("pause_storms")
def _storms(result: Recorded) -> Any:
    return result.meta["pause_storms"]


@finding(110)
def pauses_finding(result: Recorded) -> Finding:
    summary = summarise(result)
    pauses = summary["pauses"]
    if not pauses["frames"]:
        if not pauses["lossless_priorities"]:
            return Finding("Pauses", "off", "No priority is under PFC in this scenario.")
        return not_counted(result, "Pauses", "_pause") or Finding("Pauses", "none", "PFC was never needed.")
    longest = pauses["paused_longest"]
    # A run that is shorter has no second.
    second = (
        f"; {text.share(pauses['largest_share_of_a_second'])} of the worst second of any port"
        if summary["simulated_s"] >= 1
        else ""
    )
    words = (
        f"of the run at {longest['port']}, the port that was paused longest{second}. "
        f"{text.plural(pauses['frames'], 'PFC frame')} reached {text.plural(pauses['ports'], 'port')}; "
        f"the last pause ended at {text.duration(pauses['last_pause_s'])}."
    )
    return Finding("Pauses", text.share(pauses["largest_share_of_the_run"]), words)


@finding(120)
def pause_storms_finding(result: Recorded) -> list[Finding]:
    summary = summarise(result)
    storms = summary["pause_storms"]
    if not storms:
        return []
    worst = max(storms, key=lambda storm: int(storm["tx_dropped_packets"]))
    dropped = sum(storm["tx_dropped_packets"] + storm["rx_dropped_packets"] for storm in storms)
    words = (
        f"detected by the PFC watchdogs of {text.plural(len(storms), 'port')}, the first at "
        f"{text.duration(min(storm['first_ps'] for storm in storms) / 1e12)}; "
        f"{text.plural(dropped, 'packet')} dropped, most at {worst['port']}."
    )
    return [Finding("Pause storms", text.count(sum(storm["detected"] for storm in storms)), words, "warning")]
