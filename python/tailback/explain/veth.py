"""Where a run with namespaces is stuck: what the consumer's core and the queues before it say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailback import text
from tailback.explain.stages import Figure
from tailback.explain.words import Page
from tailback.measures_veth import FORWARD

if TYPE_CHECKING:
    from tailback.results import Result

_BUSY = 0.95
"""A core that is busier than this is full."""


def page(result: Result) -> Page:
    """The page of a run with namespaces."""
    found, bins = result.summary["veth"], result.bins
    figures = [
        Figure("packets delivered", f"{text.count(round(found['delivered_per_s']))} a second", ""),
        Figure("ring, mean", f"{text.significant(found['ring_packets'])} of {found['ring']} packets", ""),
        Figure(f"{found['qdisc']}, mean", f"{text.significant(found['qdisc_packets'])} packets", ""),
    ]
    napi = f"{FORWARD}/napi"
    share = bins.mean(bins.values(napi, "core_share")) if bins.has(napi, "core_share") else None
    if share is not None:
        figures.insert(0, Figure("consumer's core, busy", text.share(share), ""))
    waits = found["ring_packets"] + found["qdisc_packets"]
    if (share is not None and share < _BUSY) or waits < 1:
        return Page(
            "Nothing is the bottleneck: the consumer takes what comes.",
            ["Its core has time left, or nothing waits before it."],
            figures,
            "Try more traffic, to find what gives way first.",
            "Sure: nothing is full.",
            "No other stage holds traffic.",
        )
    dark = found["ring_packets"] > found["ring"] / 2
    second = (
        "The ring is no bottleneck, but it is full, where the queueing discipline cannot see it: byte queue "
        "limits (veth.bql) would shorten what waits there."
        if dark
        else "No other stage holds traffic."
    )
    return Page(
        "The bottleneck is the softirq core of the consumer.",
        ["Packets wait before the core that takes them from the ring, and that is busy all the time."],
        figures,
        "Try a consumer that takes less for a packet, such as fewer rules (veth.consumer.rules).",
        "Sure: there is no stage after it." if share is not None else "Likely: its core is not recorded.",
        second,
    )
