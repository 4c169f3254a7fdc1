"""The figures of network namespaces for the summary; None where there are none."""

from __future__ import annotations

from typing import Any

from tailback.files.json import number
from tailback.measures.veth import (
    FORWARD,
    bql_limit,
    delivered_per_second,
    ping_rtt,
    ring_packets,
    veth,
    veth_counter,
)
from tailback.recorded.run import Recorded


def figures(result: Recorded) -> dict[str, Any] | None:
    """The figures of a run with namespaces: times in seconds, queues in packets; none without any."""
    found = veth(result)
    if found is None:
        return None
    bins, pair = result.bins, result.setup.plan["veth"]["veths"][0]

    sent = sum(ping["sent"] for ping in found["pings"])
    qdisc, settings = pair["qdisc"], pair["veth"]
    return {
        "qdisc": qdisc if isinstance(qdisc, str) else next(iter(qdisc)),
        "ring": settings["ring"],
        "bql": "off" if settings["bql"] == "none" else settings["bql"],
        "ping": {
            "sent": sent,
            "lost": sum(ping["lost"] for ping in found["pings"]),
            "mean_s": number(ping_rtt(result)),
            **{f"p{p}_s": number(ping_rtt(result, p)) for p in (50, 99)},
            "max_s": number(ping_rtt(result, 100)),
        }
        if sent
        else None,
        "delivered_per_s": number(delivered_per_second(result)),
        "ring_packets": number(ring_packets(result)),
        "qdisc_packets": number(bins.mean(bins.values(f"{FORWARD}/qdisc", "queue_mean_packets"))),
        "bql_limit": number(bql_limit(result)) if settings["bql"] != "none" else None,
        "qdisc_drops": int(veth_counter(result, "qdisc_drops")),
        "ring_drops": int(veth_counter(result, "tx_dropped")),
        "senders": found["senders"],
    }
