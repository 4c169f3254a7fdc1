"""Queues."""

from __future__ import annotations

from typing import Any, NamedTuple

from tailback import text
from tailback.metrics.finding import Finding, finding, since_in_words
from tailback.metrics.metric import NAN, metric, metric_at, part, summarise
from tailback.metrics.spans import Since, since_s
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


_NETWORK_QUEUE_KINDS = ("egress", "tx-ring", "qdisc", "rx-ring")
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
        (queue["queue"] for queue in result.meta["queues"] if queue["kind"] in _NETWORK_QUEUE_KINDS),
        key=natural,
    )
    means = {name: bins.mean(bins.values(name, "queue_mean_bytes"), begin) for name in names}
    total = sum(means.values())
    if not means or not total > 0:
        return None
    fullest = max(names, key=lambda name: means[name])
    peak = float(bins.values(fullest, "queue_max_bytes").max(initial=0.0))
    return Standing(fullest, means[fullest], peak, means[fullest] / total)


@metric("B")
def standing_queue_bytes(result: Recorded, since: Since = "convergence") -> float:
    """Time-weighted mean of the fullest egress queue; NaN where none was recorded."""
    found = standing_queue(result, since)
    nothing = 0.0 if result.records_queues else NAN
    return found.mean_bytes if found else nothing


@metric("B")
def deepest_queue_bytes(result: Recorded) -> float:
    """The most that any egress queue of the network ever held; NaN where none was recorded."""
    bins = result.bins
    names = [queue["queue"] for queue in result.meta["queues"] if queue["kind"] == "egress"]
    nothing = 0.0 if result.records_queues and result.setup.network.switches else NAN
    return max(
        (float(bins.values(name, "queue_max_bytes").max(initial=0.0)) for name in names), default=nothing
    )


@part("standing_queue")
def _standing(result: Recorded) -> dict[str, Any] | None:
    found = standing_queue(result, "steady")
    if found is None:
        return None
    return {
        "queue": found.queue,
        "mean_bytes": found.mean_bytes,
        "max_bytes": found.max_bytes,
        "share_of_all_egress_queues": found.share,
    }


metric_at(
    "standing_queue.mean_bytes",
    "B",
    about="Time-weighted mean of the egress queue that held most.",
    title="Fullest queue, mean",
)


@finding(155)
def standing_queue_finding(result: Recorded) -> Finding:
    summary = summarise(result)
    standing, some = summary["standing_queue"], summary["queues_chosen"]
    recorded = any(queue["kind"] in _NETWORK_QUEUE_KINDS for queue in result.meta["queues"])
    if standing is None and not recorded and "lab" not in result.meta:
        network = result.setup.network
        if not network.switches and not network.bridges:
            words = "There is no switch, and so no egress queue: links lead from host to host. What waits, waits in hosts."
            return Finding("Standing queue", text.MISSING, words)
        if not result.senders:
            return Finding("Standing queue", text.MISSING, "No flow started, and no queue was used.")
    if standing is None and not summary["queues_recorded"]:
        words = f"Of this run only {summary['recorded']} are recorded."
        return Finding("Standing queue", text.MISSING, words)
    if standing is None and "lab" in result.meta and not result.meta["queues"]:
        return Finding("Standing queue", text.MISSING, "No queue was recorded.", "warning")
    if standing is None:
        those = "Those queues that record.queues chooses" if some else "The queues of the network"
        return Finding("Standing queue", text.MISSING if some else "none", f"{those} stayed empty.")
    which = "egress queues that record.queues chooses" if some else "egress queues"
    words = (
        f"on average in {standing['queue']}, which held "
        f"{text.share(standing['share_of_all_egress_queues'])} of all bytes waiting in {which} "
        f"{since_in_words(summary)}. At its fullest, in the whole run, it held {text.size(standing['max_bytes'])}."
    )
    return Finding("Standing queue", text.size(standing["mean_bytes"]), words)
