"""What the last rank waited for, of runs of another simulator's inputs (ASTRA-sim's, SimAI's).

Everything that a rank does it does when something has happened: a time has come, or a message is there. So
each event has one before it, and from the end of the last rank a chain of them goes back to the beginning.
Its times add up to the time of the run.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tailback.measures.collectives import congestion, held_up
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
