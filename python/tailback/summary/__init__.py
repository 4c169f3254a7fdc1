"""The figures of a run in one dictionary: what summary.json, the closing table and the report's findings are
made of.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pyarrow.compute as pc

from tailback import measures
from tailback.files.json import number
from tailback.measures import slowdown
from tailback.measures.collectives import collectives, training_jobs
from tailback.measures.critical_path import critical_paths
from tailback.measures.fairness import jain, min_max
from tailback.measures.jobs import jobs
from tailback.recorded.bins import PS_PER_S
from tailback.recorded.run import Recorded, cached_by_result
from tailback.summary import bridge, hosts, veth


@cached_by_result
def summarise(result: Recorded) -> dict[str, Any]:
    """Every figure is a measure of `tailback.measures`; rates in bit/s, sizes in bytes, times in seconds.

    `steady_since_s` is where the goodput and fairness figures begin: the convergence time, or 0 when the run
    never became steady (then they are about the whole run).
    """
    jobs = result.meta.get("jobs", [])
    left_out = {
        *(() if jobs else OF_RANKS),
        *(() if any("inputs" in job for job in jobs) else ("critical_paths",)),
        *(() if result.skipped else ("skipped",)),
    }
    return {name: section(result, name) for name in SECTIONS if name not in left_out}


@cached_by_result
def section(result: Recorded, name: str) -> Any:
    """A section of the summary alone, without working out the others; None where there is none such."""
    return SECTIONS[name](result) if name in SECTIONS else None


def _since(result: Recorded) -> measures.Since:
    return "convergence" if math.isfinite(measures.convergence_time(result)) else "start"


SECTIONS: dict[str, Callable[[Recorded], Any]] = {
    "name": lambda result: result.name,
    "seed": lambda result: result.meta["seed"],
    "complete": lambda result: result.complete,
    "simulated_s": lambda result: result.bins.end_s,
    "planned_s": lambda result: result.setup.duration_ps / PS_PER_S,
    "ended": lambda result: _ended(result),
    "bin_s": lambda result: result.bins.bin_s,
    "recorded": lambda result: result.recorded,
    "queues_recorded": lambda result: result.records_queues,
    "queues_chosen": lambda result: result.chooses_queues,
    "convergence_s": lambda result: number(measures.convergence_time(result)),
    "steady_since_s": lambda result: number(measures.convergence_time(result)) or 0.0,
    "goodput": lambda result: _goodput(result, _since(result)),
    "fairness": lambda result: _fairness(result, _since(result)),
    "protocols": lambda result: hosts.by_protocol(result, _since(result)),
    "tcp": hosts.tcp,
    "cpu": lambda result: hosts.cpu(result, _since(result)),
    "veth": veth.figures,
    "latency": bridge.latency,
    "bridge": bridge.bridge,
    "losses": lambda result: _losses(result),
    "pauses": lambda result: _pauses(result),
    "pause_storms": lambda result: result.meta["pause_storms"],
    "signals": lambda result: {
        "ecn_marked_packets": int(measures.marked_packets(result)),
        "arrived_packets": measures.arrived_packets(result),
        "arrived_marked_packets": measures.arrived_marked_packets(result),
        "cnps": int(measures.cnps(result)),
        "delay_probes": int(measures.delay_probes(result)),
    },
    "at_min_rate": lambda result: _at_min_rate(result),
    "standing_queue": lambda result: _standing(result, _since(result)),
    "faults": lambda result: result.faults,
    "fct": slowdown.summarise,
    "jobs": lambda result: [{**job._asdict(), "of_bound": job.of_bound} for job in jobs(result)],
    "training_jobs": lambda result: [job._asdict() for job in training_jobs(result)],
    "collectives": lambda result: [one._asdict() for one in collectives(result)],
    "collective_times": lambda result: _collective_times(result),
    "critical_paths": lambda result: [one._asdict() for one in critical_paths(result)],
    "link_events": lambda result: result.setup.link_events,
    "flows": lambda result: {
        "all": result.flows.num_rows,
        "failed": int(measures.failed_flows(result)),
        "writers": result.setup.writer_qps,
    },
    "packets": lambda result: result.meta["packets"],
    "packet_hops": lambda result: result.meta["packet_hops"],
    "conservation": lambda result: result.meta["conservation"],
    "skipped": lambda result: _skipped(result),
}
"""What each section is, in the order of summary.json."""
SKIP_ERRORS = ("goodput_error", "queue_error", "signal_error", "qp_error")
OF_RANKS = ("training_jobs", "collectives", "collective_times")
"""Sections of runs with ranks whose messages wait for each other, and of no others."""


def _skipped(result: Recorded) -> dict[str, Any] | None:
    """How much of the run was not simulated by packets, where, and how sure it is: the largest errors that
    any span states, each half of a 95 % prediction interval of what it stands for, as a share of that, or
    how far the packets after it were off.
    """
    spans = [
        {
            "from_s": span["from_ps"] / PS_PER_S,
            "to_s": span["to_ps"] / PS_PER_S,
            "observed_s": span["observed_ps"] / PS_PER_S,
            "check": span["check"],
            **{name: number(span[name]) for name in SKIP_ERRORS},
            "goodput_off": span["goodput_off"],
            "queue_off": span["queue_off"],
            "signal_off": span["signal_off"],
        }
        for span in result.skipped
    ]
    if not spans:
        return None
    time_s = sum(span["to_s"] - span["from_s"] for span in spans)
    return {
        "time_s": time_s,
        "share": time_s / result.bins.end_s,
        "packet_hops": sum(span["packet_hops"] for span in result.skipped),
        "contradicted": sum(span["check"] == "contradicted" for span in spans),
        **{name: max(span[name] for span in spans) for name in SKIP_ERRORS},
        "spans": spans,
    }


def _ended(result: Recorded) -> str:
    """Why the run ended: `done` (everything was sent), `duration`, or, before either, `stopped`."""
    if not result.complete:
        return "stopped"
    return "done" if int(result.meta["end_ps"]) < result.setup.duration_ps else "duration"


def _collective_times(result: Recorded) -> dict[str, Any]:
    """Mean time of each collective, by its item and, where an item has several, its kind."""
    every = collectives(result)
    items = [one.item for one in every]
    times: dict[str, Any] = {}
    for one in every:
        name = one.item if items.count(one.item) == 1 else f"{one.item} {one.kind}"
        number = 2
        while name in times:
            name, number = f"{one.item} {one.kind} {number}", number + 1
        times[name] = one.mean_s
    return {"slowest_s": max(times.values(), default=None), "mean_s": times}


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
    return {"min_rate_bps": min_rate_bps, "lost_bytes": min(lost, room), **found._asdict()}


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
