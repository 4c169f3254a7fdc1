"""Where a run with namespaces is stuck: what the consumer's core, its ring and the queues before it say."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailback import text
from tailback.explain.observed import Observed
from tailback.explain.stages import Figure, Stage
from tailback.explain.verdict import LITTLE_OFFERED, WORTH_IT, Candidate, Verdict
from tailback.explain.words import Page
from tailback.metrics import summarise
from tailback.metrics.veth import FORWARD_END
from tailback.recorded.bins import Bins
from tailback.recorded.run import Recorded
from tailback.recorded.signals import DROP

_FULL_CORE_SHARE = 0.95
"""A core that is busier than this is full."""
_MAX_BURST_SHARE = 0.1
"""Packets that wait for less than this share of the run are a burst, or came at its end: `Observed.span`."""
_CONSUMER_SIDE = FORWARD_END.split("-")[1]


def verdict(result: Recorded) -> Verdict:
    """The verdict on a run with namespaces: the consumer's softirq core, the ring before it, a thread that
    sends, or nothing.
    """
    seen, found = Observed(result), summarise(result)["veth"]
    figures = _figures(result, found)
    held = {
        ("softirq", _CONSUMER_SIDE): _of_core(result),
        ("ring", FORWARD_END): _of_ring(result),
        **_of_threads(result),
    }
    candidates = [
        Candidate(Stage(kind, where, 1.0, True, figures), held=share)
        for (kind, where), share in sorted(held.items(), key=lambda one: -one[1])
        if share >= WORTH_IT
    ]
    return Verdict(seen, candidates, "" if candidates else LITTLE_OFFERED)


def _counters(result: Recorded) -> dict[str, int]:
    ends = result.meta["veth"]["ends"]
    return next(dict(end["counters"]) for end in ends if end["name"] == FORWARD_END)


def _of_core(result: Recorded) -> float:
    """Packets that the consumer's core holds back, as a share of those it delivers: what was offered and not delivered,
    where it is busy from the first packet that waits to the last. A sender that had to wait would have offered
    more: then it is all.
    """
    bins, counted, held = result.bins, _counters(result), _held(result.bins)
    share = _busy(bins, _from_first_to_last(held))
    if held.mean() < _MAX_BURST_SHARE or (share is not None and share < _FULL_CORE_SHARE):
        return 0.0
    delivered = counted["delivered_packets"]
    if any(sender["waits"] for sender in result.meta["veth"]["senders"]) or not delivered:
        return 1.0
    return min(1.0, (counted["offered_packets"] - delivered) / delivered)


def _held(bins: Bins) -> NDArray[np.bool_]:
    """The bins of the run in which packets wait for the consumer."""
    waits = [bins.values(f"{FORWARD_END}/{row}", "queue_mean_packets") for row in ("ring", "qdisc")]
    return np.asarray(sum(waits) >= 1)


def _from_first_to_last(held: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """A core that rests between two bursts is not full, however busy it is in each."""
    found = np.zeros_like(held)
    (at,) = np.nonzero(held)
    if at.size:
        found[at[0] : at[-1] + 1] = True
    return found


def _busy(bins: Bins, held: NDArray[np.bool_]) -> float | None:
    """Busy share of the consumer's core in these bins, or in all if they are none; none if not recorded."""
    napi = f"{FORWARD_END}/napi"
    if not bins.has(napi, "core_share"):
        return None
    shares = bins.values(napi, "core_share")
    return float((shares[held] if held.any() else shares).mean())


def _of_ring(result: Recorded) -> float:
    """Packets that the ring dropped while the core had time left, as a share of those delivered. Drops at one time
    only, of one burst, do not count.
    """
    bins, counted = result.bins, _counters(result)
    lost = result.signal_log.values(f"{FORWARD_END}/ring", DROP)
    napi = f"{FORWARD_END}/napi"
    if not bins.has(napi, "core_share") or bins.mean(bins.values(napi, "core_share")) >= _FULL_CORE_SHARE:
        return 0.0
    half = len(lost) // 2
    if not (lost[:half].any() and lost[half:].any()):
        return 0.0
    return min(1.0, float(lost.sum()) / max(1, counted["delivered_packets"]))


def _of_threads(result: Recorded) -> dict[tuple[str, str], float]:
    """Threads that send as fast as they can and never wait, each with what the consumer's core has left."""
    bins = result.bins
    share = _busy(bins, _held(bins))
    senders = {one["item"]: one for one in result.meta["veth"]["senders"]}
    found = {}
    for item in result.plan["veth"]["datagrams"]:
        sender = senders[item["item"]]
        stop_ps = min(result.meta["end_ps"], item["stop"] or result.meta["end_ps"])
        sends_ps = sender["sent"] * item["send"]
        as_fast_as_it_can = not item["interval"] and not sender["waits"]
        if share and as_fast_as_it_can and sends_ps >= _FULL_CORE_SHARE * (stop_ps - item["start"]):
            found["flood", item["item"]] = min(1.0, max(0.0, 1 / share - 1))
    return found


def _figures(result: Recorded, found: dict[str, Any]) -> list[Figure]:
    bins = result.bins
    figures = [
        Figure("packets delivered", f"{text.count(round(found['delivered_per_s']))} per second", ""),
        Figure("ring, mean", f"{text.significant(found['ring_packets'])} of {found['ring']} packets", ""),
        Figure(f"{found['qdisc']}, mean", f"{text.significant(found['qdisc_packets'])} packets", ""),
    ]
    lost = float(result.signal_log.values(f"{FORWARD_END}/ring", DROP).sum())
    if lost:
        figures.append(Figure("ring, dropped", text.count(lost), "0"))
    held = _held(bins)
    share = _busy(bins, held)
    if share is not None:
        when = " while packets wait" if held.any() else ""
        figures.insert(0, Figure(f"consumer's core, busy{when}", text.share(share), ""))
    return figures


def page(result: Recorded) -> Page:
    """The page of a run with namespaces."""
    found, bins, said = summarise(result)["veth"], result.bins, verdict(result)
    kind, where = said.key
    figures = _figures(result, found)
    if kind == "none":
        return Page(
            "Nothing is the bottleneck: the consumer takes what comes.",
            ["Its core has time left, or nothing waits before it."],
            figures,
            "Try more traffic, to find what gives way first.",
            "Fairly sure: nothing is full; no trial was run.",
            "No other stage holds traffic.",
        )
    if kind == "ring":
        return Page(
            "The bottleneck is the ring between the namespaces.",
            ["It drops packets though the core that takes them has time left: bursts are longer than it."],
            figures,
            "Try a longer ring (veth.ring), or smaller batches at the sender (traffic: batch).",
            "Fairly sure: it drops, and its core is not full; no trial was run.",
            "No other stage holds traffic.",
        )
    if kind == "flood":
        return Page(
            f"The bottleneck is the thread of {where}.",
            ["It calls sendto as fast as it can, and never waits; the consumer's core has time left."],
            figures,
            "Try a second thread (another udp-flood), or one that spends less on a call (traffic: send).",
            "Fairly sure: it never waits, and nothing after it is full; no trial was run."
            if said.candidates[0].held >= 3 * WORTH_IT
            else "Fairly sure: the consumer's core is nearly full, too.",
            "No other stage holds traffic.",
        )
    dark = found["ring_packets"] > found["ring"] / 2
    second = (
        "The ring is no bottleneck, but it is full, where the queueing discipline cannot see it: byte queue "
        "limits (veth.bql) would shorten what waits there."
        if dark
        else "No other stage holds traffic."
    )
    recorded = bins.has(f"{FORWARD_END}/napi", "core_share")
    return Page(
        "The bottleneck is the softirq core of the consumer.",
        ["Packets wait before the core that takes them from the ring, and that is busy all the time."],
        figures,
        "Try a consumer that takes less for a packet, such as fewer rules (veth.consumer.rules).",
        "Fairly sure: there is no stage after it; no trial was run."
        if recorded
        else "Likely: its core is not recorded.",
        second,
    )
