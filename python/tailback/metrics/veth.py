"""Metrics of network namespaces joined by a veth pair."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from tailback import text
from tailback.files.json import number
from tailback.metrics.finding import Finding, finding
from tailback.metrics.metric import NAN, metric, metric_at, part, summarise
from tailback.recorded.bins import PS_PER_S, Array
from tailback.recorded.run import Recorded

FORWARD_END = "producer-consumer"
"""The end of the pair whose queue the traffic to the consumer goes through."""


def veth(result: Recorded) -> dict[str, Any] | None:
    """The engine's account of the namespaces; None where there are none."""
    found: dict[str, Any] | None = result.meta.get("veth")
    return found


def _forward(result: Recorded) -> dict[str, Any] | None:
    found = veth(result)
    return None if found is None else next(end for end in found["ends"] if end["name"] == FORWARD_END)


def samples(result: Recorded) -> tuple[Array, Array]:
    """Of all pings: when each request that was answered was sent, and its round trip, both in seconds."""
    found = veth(result) or {"pings": []}
    pairs = [(sent, rtt) for ping in found["pings"] for sent, rtt in ping["samples"] if rtt is not None]
    table = np.array(sorted(pairs), dtype=float).reshape(-1, 2) / PS_PER_S
    return table[:, 0], table[:, 1]


@metric("s")
def ping_rtt(result: Recorded, percentile: float | None = None) -> float:
    """Mean round trip of the echo requests that were answered, or a percentile of them."""
    _, rtts = samples(result)
    if not len(rtts):
        return NAN
    return float(rtts.mean() if percentile is None else np.percentile(rtts, percentile))


@metric("share")
def ping_loss(result: Recorded) -> float:
    """Echo requests that were dropped, or whose answer was, as a share of all; NaN below 100 of them."""
    found = veth(result) or {"pings": []}
    sent = sum(ping["sent"] for ping in found["pings"])
    return sum(ping["lost"] for ping in found["pings"]) / sent if sent >= 100 else NAN


@metric("index")
def rtt_in_rings(result: Recorded) -> float:
    """Mean round trip over the time that the consumer takes for a ring full of packets."""
    rate = delivered_per_second(result)
    ring = result.setup.plan["veth"]["veths"][0]["veth"]["ring"] if veth(result) else NAN
    return ping_rtt(result) * rate / ring


@metric("count")
def delivered_per_second(result: Recorded) -> float:
    """Packets per second that came to the consumer's stack."""
    end = _forward(result)
    return NAN if end is None else end["counters"]["delivered_packets"] / result.bins.end_s


@metric("s")
def poll_of_64(result: Recorded) -> float:
    """Time that the consumer takes for 64 packets, under load: the NAPI-64 cycle."""
    rate = delivered_per_second(result)
    return 64 / rate if rate else NAN


@metric("count")
def bql_limit(result: Recorded) -> float:
    """The limit in the second half of the run, its median; packets or bytes, as they are charged."""
    bins = result.bins
    values = bins.values(f"{FORWARD_END}/ring", "bql_limit")[bins.within(bins.end_s / 2)]
    return float(np.median(values)) if len(values) else NAN


@metric("count")
def ring_packets(result: Recorded) -> float:
    """Packets in the ring, time-weighted mean."""
    return result.bins.mean(result.bins.values(f"{FORWARD_END}/ring", "queue_mean_packets"))


@metric("count")
def veth_counter(result: Recorded, name: str = "tx_timeout") -> float:
    """A counter of the producer's end: drops, stops, polls."""
    end = _forward(result)
    return NAN if end is None else float(end["counters"].get(name, NAN))


@metric("count")
def teardown(result: Recorded, name: str = "inflight_after") -> float:
    """Packets found and left when the consumer's NAPI is deleted at the end of the run."""
    end = _forward(result)
    return NAN if end is None else float(end["teardown"].get(name, NAN))


@metric("share")
def xdp_loss(result: Recorded) -> float:
    """XDP frames that found the ring full, as a share of all."""
    found = veth(result) or {"senders": []}
    frames = [sender for sender in found["senders"] if sender["kind"] == "xdp"]
    sent = sum(sender["sent"] for sender in frames)
    return sum(sender["dropped"] for sender in frames) / sent if sent else NAN


@metric("count")
def tx_usecs_refused(result: Recorded, us: int = 8_000_001) -> float:
    """1 where the engine refuses this run with another `tx-usecs`, in microseconds, as ERANGE; else 0."""
    from tailback._engine import Simulation
    from tailback.plan import plan_json

    plan = copy.deepcopy(dict(result.setup.plan))
    if not plan.get("veth"):
        return NAN
    plan["veth"]["veths"][0]["veth"]["tx_usecs"] = us * 1_000_000
    try:
        Simulation(plan_json(plan))
    except ValueError as error:
        return float("ERANGE" in str(error))
    return 0.0


@part("veth")
def _veth(result: Recorded) -> dict[str, Any] | None:
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
        "qdisc_packets": number(bins.mean(bins.values(f"{FORWARD_END}/qdisc", "queue_mean_packets"))),
        "bql_limit": number(bql_limit(result)) if settings["bql"] != "none" else None,
        "qdisc_drops": int(veth_counter(result, "qdisc_drops")),
        "ring_drops": int(veth_counter(result, "tx_dropped")),
        "senders": found["senders"],
    }


# These three are means, whose names do not tell their units.
metric_at("veth.delivered_per_s", "count", about="Packets per second that came to the consumer's stack.")
metric_at("veth.ring_packets", "count", about="Packets in the ring, time-weighted mean.")
metric_at("veth.qdisc_packets", "count", about="Packets in the queueing discipline, time-weighted mean.")


@finding(12, everywhere=True)
def veth_findings(result: Recorded) -> list[Finding]:
    """Round trips of the ping, goodput of the consumer, and where packets waited."""
    veth = summarise(result)["veth"]
    if veth is None:
        return []
    found = []
    ping = veth["ping"]
    if ping is not None and ping["mean_s"] is None:
        found.append(
            Finding(
                "Ping",
                text.MISSING,
                f"None of {text.plural(ping['sent'], 'echo request')} was answered.",
                "warning",
            )
        )
    elif ping is not None:
        words = (
            f"is the mean round trip of {text.plural(ping['sent'], 'echo request')}; median "
            f"{text.duration(ping['p50_s'])}, 99th percentile {text.duration(ping['p99_s'])}, longest "
            f"{text.duration(ping['max_s'])}."
        )
        found.append(Finding("Ping", text.duration(ping["mean_s"]), words))
        lost = ping["lost"] / ping["sent"]
        figure = text.share(lost) if ping["lost"] else "none"
        words = (
            f"{text.count(ping['lost'])} of {text.plural(ping['sent'], 'echo request')}, or the answer, "
            f"{text.verb(ping['lost'], 'was', 'were')} dropped."
        )
        found.append(Finding("Ping loss", figure, words, "warning" if ping["lost"] else "plain"))
    words = "came to the consumer's stack in each second."
    found.append(Finding("Packets", text.count(round(veth["delivered_per_s"])), words))
    ring, qdisc = veth["ring_packets"], veth["qdisc_packets"]
    words = f"packets waited in the ring of {veth['ring']} on average, out of sight of {veth['qdisc']}, "
    words += f"and {text.significant(qdisc)} in the queueing discipline."
    dark = ring > veth["ring"] / 2
    found.append(Finding("Dark buffer", text.significant(ring), words, "warning" if dark else "plain"))
    if veth["bql_limit"] is not None:
        unit = text.noun(round(veth["bql_limit"]), "packet" if veth["bql"] == "packets" else "byte")
        words = f"{unit} is the limit of byte queue limits in the second half of the run, its median."
        found.append(Finding("BQL limit", text.count(round(veth["bql_limit"])), words))
    drops = veth["qdisc_drops"] + veth["ring_drops"]
    words = (
        f"{text.count(veth['qdisc_drops'])} by the queueing discipline, {text.count(veth['ring_drops'])} for "
        "want of room in the ring."
    )
    found.append(Finding("Drops", text.count(drops) if drops else "none", words))
    return found


MAX_ROUND_TRIP_ERROR = 0.15
"""How far the model's round trip may be from the kernel's without a warning: what it is meant to hold."""


@finding(14, everywhere=True)
def kernel_veth_findings(result: Recorded) -> list[Finding]:
    """A line a case: the model's median round trip against the kernel's, then packets, ring and losses."""
    told = result.meta.get("kernel_veth")
    if told is None:
        return []
    found = []
    if told["instead_of"]:
        words = f"This kernel, {told['kernel']}, has no {told['instead_of']}; pfifo took its place."
        found.append(Finding("Discipline", "pfifo", words, "warning"))
    return found + [_case(one) for one in told["cases"]]


def _case(case: dict[str, Any]) -> Finding:
    what = f"Model, {case['qdisc']}{' and XDP' if case['xdp'] else ''}"
    if case["refused"]:
        return Finding(what, text.MISSING, f"Not measured: {case['refused']}.", "warning")
    kernel, model = case["kernel"], case["model"]
    if not kernel["ping_median_s"] or not model["ping_median_s"]:
        return Finding(what, text.MISSING, "No echo request was answered.", "warning")
    off = model["ping_median_s"] / kernel["ping_median_s"] - 1
    words = (
        f"of the median round trip: {text.duration(model['ping_median_s'])}, of the kernel "
        f"{text.duration(kernel['ping_median_s'])}; idle it was {text.duration(case['idle_ping_s'])}. "
        f"Packets per second: {text.count(round(model['delivered_per_s']))} and "
        f"{text.count(round(kernel['delivered_per_s']))}. Ring at the end of a poll: "
        f"{text.significant(model['ring_packets'])} and {text.significant(kernel['ring_packets'])}. "
        f"{_lost(model, kernel)}A packet costs {text.duration(case['fitted_packet_s'])}, fitted while idle."
    )
    return Finding(
        what,
        f"{off:+.1%}".replace("%", " %"),
        words,
        "warning" if abs(off) > MAX_ROUND_TRIP_ERROR else "plain",
    )


def _lost(model: dict[str, Any], kernel: dict[str, Any]) -> str:
    if model["ping_loss"] is None:  # too few to tell a share of
        return ""
    return f"Pings lost: {text.share(model['ping_loss'])} and {text.share(kernel['ping_loss'])}. "
