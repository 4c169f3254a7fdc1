"""Measures of queues."""

from __future__ import annotations

from typing import NamedTuple

from tailback.measures.registry import NAN, measure
from tailback.measures.spans import Since, since_s
from tailback.recorded.run import Recorded
from tailback.text import natural


class Standing(NamedTuple):
    """The queue of the network that held most: `mean_bytes` is time-weighted, `share` of all such queues
    together.

    `max_bytes` is the deepest that this queue ever was, in the whole run.
    """

    queue: str
    mean_bytes: float
    max_bytes: float
    share: float


_STANDING = ("egress", "tx-ring", "qdisc", "rx-ring")
"""Queues of the network: of switches and of bridges."""


def standing_queue(result: Recorded, since: Since = "start") -> Standing | None:
    """Which egress queue held the most bytes, time-weighted, relative to all egress queues; None when all
    were empty.

    Ingress groups are left out, being a second account of the same bytes in the same buffer, and so are send
    queues, which the application fills as deep as it likes.
    """
    begin = since_s(result, since)
    if begin != begin:
        return None
    bins = result.bins
    names = sorted(
        (queue["queue"] for queue in result.meta["queues"] if queue["kind"] in _STANDING), key=natural
    )
    means = {name: bins.mean(bins.values(name, "queue_mean_bytes"), begin) for name in names}
    total = sum(means.values())
    if not means or not total > 0:
        return None
    fullest = max(names, key=lambda name: means[name])
    peak = float(bins.values(fullest, "queue_max_bytes").max(initial=0.0))
    return Standing(fullest, means[fullest], peak, means[fullest] / total)


@measure("B")
def standing_queue_bytes(result: Recorded, since: Since = "convergence") -> float:
    """Time-weighted mean of the fullest egress queue; NaN where none was recorded."""
    found = standing_queue(result, since)
    nothing = 0.0 if result.records_queues else NAN
    return found.mean_bytes if found else nothing
