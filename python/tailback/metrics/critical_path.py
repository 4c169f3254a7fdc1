"""The critical path of the last rank, in runs of another simulator's inputs (ASTRA-sim's, SimAI's).

Everything that a rank does it does when something has happened: a time has come, or a message is there. So
each event has one before it, and from the end of the last rank a chain of them goes back to the beginning.
Its times add up to the time of the run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from tailback import text
from tailback.metrics.collectives import congestion, held_up
from tailback.metrics.finding import Finding, finding
from tailback.metrics.metric import in_section, part, summarise
from tailback.recorded.bins import PS_PER_S
from tailback.recorded.run import Recorded


class CriticalPath(NamedTuple):
    """The chain of events that the rank `last` ended with; times in seconds.

    All parts together are `end_s`: `compute_s`; `delay_s`, fixed delays of end points, and collectives that
    are only their recorded time; `reduce_s`; `inside_s`, messages inside servers that the network does not
    carry; and for messages, `network_s` as long as they take in an empty network, and beyond that `behind_s`
    while their sender's link carried others, `paused_s` while it was paused, and `queued_s`: in queues, held
    back by their sender's window or rate, or sent again. `first_s` is when the first rank ended.
    """

    job: str
    ranks: int
    last: str
    last_rank: int
    first_s: float
    end_s: float
    events: int
    compute_s: float
    delay_s: float
    reduce_s: float
    inside_s: float
    network_s: float
    behind_s: float
    paused_s: float
    queued_s: float
    resent_packets: int
    worst: dict[str, Any] | None
    """The message of the chain that took longest beyond an empty network and its sender's other messages:
    see `Collective.worst`.
    """


def critical_paths(result: Recorded) -> list[CriticalPath]:
    """Of each job of another simulator's inputs; none where a rank did not finish, or where more than
    131,072 messages and delays were in progress at once.
    """
    found = []
    for job in result.meta.get("jobs", []):
        chain = job["inputs"]["chain"] if "inputs" in job else None
        if chain is not None and chain["events"]:
            found.append(_path(result, job, chain))
    return found


def _path(result: Recorded, job: dict[str, Any], chain: dict[str, Any]) -> CriticalPath:
    def part(name: str) -> float:
        return float(chain[f"{name}_ps"] / PS_PER_S)

    worst = chain["worst"][0] if chain["worst"] and congestion(chain["worst"][0]) > 0 else None
    return CriticalPath(
        job["name"],
        len(job["hosts"]),
        job["hosts"][chain["rank"]],
        chain["rank"],
        min(job["finished_ps"]) / PS_PER_S,
        part("end"),
        chain["events"],
        part("compute"),
        part("delay"),
        part("reduce"),
        part("domain"),
        part("ideal"),
        part("behind"),
        part("paused"),
        part("queued"),
        chain["resent"],
        None if worst is None else held_up(result, job["hosts"], worst),
    )


def _has_inputs(result: Recorded) -> bool:
    return any("inputs" in job for job in result.meta.get("jobs", []))


in_section("critical_paths", applies=_has_inputs, left_out=True)


@part("critical_paths")
def _critical_paths(result: Recorded) -> list[dict[str, Any]]:
    return [one._asdict() for one in critical_paths(result)]


WORTH_NAMING = 0.01
"""Part of the run's time from which what took it is named."""
PART_NAMES = {
    "compute_s": "computing",
    "network_s": "messages in an empty network",
    "behind_s": "messages behind others of the same sender",
    "paused_s": "messages whose sender was paused",
    "queued_s": "messages in queues or behind windows",
    "inside_s": "messages inside servers",
    "delay_s": "delays of end points",
    "reduce_s": "reducing",
}


@finding(40)
def critical_path_findings(result: Recorded) -> list[Finding]:
    """The last rank of each job of another simulator's inputs."""
    return [_last_rank(path) for path in summarise(result).get("critical_paths", [])]


def parts(path: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """Causes for which the last rank waited, with seconds, the longest first."""
    for time_s, words in sorted(((path[name], words) for name, words in PART_NAMES.items()), reverse=True):
        if time_s >= WORTH_NAMING * path["end_s"]:
            again = words == PART_NAMES["queued_s"] and path["resent_packets"]
            yield words + (f", {text.plural(again, 'packet')} retransmitted" if again else ""), time_s


def worst(path: dict[str, Any]) -> str:
    """A sentence on the message that was held up most, if it is worth one."""
    found = path["worst"]
    if found is None or found["congestion_s"] < WORTH_NAMING * path["end_s"]:
        return ""
    said = (
        f"The message that was held up longest, {text.duration(found['congestion_s'])}, went from "
        f"{found['src']} to {found['dst']} at {text.duration(found['start_s'])}"
    )
    if found["resent_packets"]:
        said += f", {text.plural(found['resent_packets'], 'packet')} of it retransmitted"
    return said + (f"; {found['waited_at']} held most on its way." if found["waited_at"] else ".")


def _last_rank(path: dict[str, Any]) -> Finding:
    named = ", ".join(f"{text.duration(time_s)} {words}" for words, time_s in parts(path))
    said = (
        f"until rank {path['last_rank']} ({path['last']}) was done, the last of "
        f"{text.plural(path['ranks'], 'rank')} of {path['job']}; the first was done after "
        f"{text.duration(path['first_s'])}. Back from its end, one behind the other: {named}. {worst(path)}"
    )
    return Finding("Last rank", text.duration(path["end_s"]), said.rstrip())
