"""The figures of a run in one dictionary: what summary.json, the closing table and the report's findings are
made of.
"""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

import pyarrow.compute as pc

from tailback import measures
from tailback.files.json import number
from tailback.measures import slowdown
from tailback.measures.fairness import jain, min_max
from tailback.measures.jobs import jobs
from tailback.recorded.bins import PS_PER_S
from tailback.recorded.remember import remembered
from tailback.recorded.run import Recorded
from tailback.summary import bridge, hosts, veth


@remembered
def summarise(result: Recorded) -> dict[str, Any]:
    """Every figure is a measure of `tailback.measures`; rates in bit/s, sizes in bytes, times in seconds.

    `steady_since_s` is where the goodput and fairness figures begin: the convergence time, or 0 when the run
    never became steady (then they are about the whole run).
    """
    converged = measures.convergence_time(result)
    since: measures.Since = "convergence" if math.isfinite(converged) else "start"
    return {
        "name": result.name,
        "seed": result.meta["seed"],
        "complete": result.complete,
        "simulated_s": result.bins.end_s,
        "planned_s": result.setup.duration_ps / PS_PER_S,
        "bin_s": result.bins.bin_s,
        "recorded": result.recorded,
        "queues_recorded": result.records_queues,
        "queues_chosen": result.chooses_queues,
        "convergence_s": number(converged),
        "steady_since_s": number(converged) or 0.0,
        "goodput": _goodput(result, since),
        "fairness": _fairness(result, since),
        "protocols": hosts.by_protocol(result, since),
        "tcp": hosts.tcp(result),
        "cpu": hosts.cpu(result, since),
        "veth": veth.figures(result),
        "latency": bridge.latency(result),
        "bridge": bridge.bridge(result),
        "losses": _losses(result),
        "pauses": _pauses(result),
        "storms": result.meta["storms"],
        "signals": {
            "ecn_marked_packets": int(measures.marked_packets(result)),
            "cnps": int(measures.cnps(result)),
        },
        "at_min_rate": _at_min_rate(result),
        "standing_queue": _standing(result, since),
        "faults": result.faults,
        "fct": slowdown.summarise(result),
        "jobs": [{**asdict(job), "of_bound": job.of_bound} for job in jobs(result)],
        "link_events": result.setup.link_events,
        "flows": {
            "all": result.flows.num_rows,
            "failed": int(measures.failed_flows(result)),
            "writers": result.setup.writer_qps,
        },
        "packets": result.meta["packets"],
        "packet_hops": result.meta["packet_hops"],
        "conservation": result.meta["conservation"],
    }


def _goodput(result: Recorded, since: measures.Since) -> dict[str, Any]:
    return {
        "total_bps": number(measures.total_goodput(result, since)),
        "whole_run_bps": number(measures.total_goodput(result, "start")),
        "line_rate_bps": measures.capacity(result),
        "of_line_rate": number(measures.goodput_of_line_rate(result, since)),
        "ideal_payload_share": number(measures.ideal_payload_share(result)),
        "of_ideal": number(measures.goodput_of_ideal(result, since)),
        "variation_100ms": number(measures.goodput_variation(result, since)),
    }


def _fairness(result: Recorded, since: measures.Since) -> dict[str, Any]:
    goodputs = measures.sender_goodputs(result, since)
    slowest = min(goodputs, key=lambda host: goodputs[host], default=None)
    fastest = max(goodputs, key=lambda host: goodputs[host], default=None)
    return {
        "senders": len(result.senders),
        "jain": number(jain(list(goodputs.values()))),
        "min_max_ratio": number(min_max(list(goodputs.values()))),
        "slowest": None if slowest is None else {"host": slowest, "bps": number(goodputs[slowest])},
        "fastest": None if fastest is None else {"host": fastest, "bps": number(goodputs[fastest])},
        "variation_100ms": number(measures.sender_variation(result, since)),
    }


def _at_min_rate(result: Recorded) -> dict[str, Any] | None:
    """`min_rate_bps`: the lowest rate that DCQCN may set, where all queue pairs have the same.

    `lost_bytes`: what they would have sent while they waited, at what a queue pair sends otherwise, as far as
    the hosts' links had room; 0 where that is less than ten times the lowest rate.
    """
    found = measures.rate_limits.at_min_rate(result)
    if found is None:
        return None
    controls = (control for nic in result.plan["nics"] for control in nic["congestion"])
    lowest = {control["dcqcn"]["rpg_min_rate"] for control in controls if "dcqcn" in control}
    min_rate_bps = lowest.pop() * 1e6 if len(lowest) == 1 else None
    far_below = (min_rate_bps or 0.0) < found.otherwise_bps / 10
    lost = found.waited_s * found.otherwise_bps / 8 if far_below else 0.0
    room = max(0.0, measures.capacity(result) * result.bins.end_s / 8 - found.delivered_bytes)
    return {"min_rate_bps": min_rate_bps, "lost_bytes": min(lost, room), **asdict(found)}


def _losses(result: Recorded) -> dict[str, Any]:
    drops = result.meta["drops"]
    return {
        "dropped_packets": int(measures.dropped_packets(result)),
        "dropped_bytes": sum(drop["bytes"] for drop in drops),
        "by_queue": sorted(drops, key=lambda drop: (-drop["packets"], drop["where"], drop["reason"])),
        "naks": int(measures.naks(result)),
        "last_nak_s": number(measures.last_nak(result)),
        "retransmitted_share": number(measures.retransmitted_share(result)),
        "ack_timeouts": int(pc.sum(result.flows.column("local_ack_timeout_err")).as_py() or 0),
    }


def _pauses(result: Recorded) -> dict[str, Any]:
    pauses = [pause for pause in result.meta["pauses"] if pause["rx_frames"] or pause["paused_ps"]]
    worst = max(pauses, key=lambda pause: pause["max_share_of_a_second"], default=None)
    longest = max(pauses, key=lambda pause: pause["paused_ps"], default=None)
    share = longest["paused_ps"] / PS_PER_S / result.bins.end_s if longest and result.bins.end_s else 0.0
    return {
        "lossless_priorities": result.setup.lossless,
        "frames": int(measures.pause_frames(result)),
        "transitions": sum(pause["transitions"] for pause in pauses),
        "ports": len(pauses),
        "largest_share_of_a_second": measures.largest_pause_share(result),
        "largest_share_of_the_run": share,
        "paused_longest": _place(longest),
        "most_paused": _place(worst),
        "last_pause_s": measures.last_pause(result),
    }


def _place(pause: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if pause is None else {"port": pause["port"], "priority": pause["priority"]}


def _standing(result: Recorded, since: measures.Since) -> dict[str, Any] | None:
    found = measures.standing_queue(result, since)
    if found is None:
        return None
    return {
        "queue": found.queue,
        "mean_bytes": found.mean_bytes,
        "max_bytes": found.max_bytes,
        "share_of_all_egress_queues": found.share,
    }
