"""The figures of Linux bridges and of latency tests for the summary; sections without a subject are None."""

from __future__ import annotations

from typing import Any

from tailback.measures.bridge import bridge_cores, port_counter
from tailback.recorded.bins import PS_PER_S
from tailback.recorded.run import Recorded
from tailback.recorded.signals import BQL_STOP, RING_STOP


def latency(result: Recorded) -> list[dict[str, Any]] | None:
    """Half of the round trips of each latency test, in seconds."""
    tests = result.meta.get("latency") or []
    return [
        {
            "item": test["item"],
            "src": test["src"],
            "dst": test["dst"],
            "iterations": test["iterations"],
            **{f"{name}_s": test[f"{name}_ps"] / PS_PER_S for name in ("min", "median", "p99", "max")},
        }
        for test in tests
    ] or None


def bridge(result: Recorded) -> dict[str, Any] | None:
    """The busiest core, and what rings and queueing disciplines of all bridges did."""
    cores = bridge_cores(result)
    if not cores:
        return None
    busiest = max(cores, key=lambda core: float(core["softirq"] + core["irq"]))
    counted = {
        name: port_counter(result, counter, None) or 0
        for name, counter in (
            ("rx_out_of_buffer", "rx_out_of_buffer"),
            ("qdisc_dropped", "qdisc_dropped"),
            ("marked", "red_marked"),
            ("requeues", "qdisc_requeues"),
        )
    }
    return {
        "bridge": busiest["bridge"],
        "core": busiest["core"],
        "busy": busiest["softirq"] + busiest["irq"],
        **counted,
        "stopped": result.signal_log.count(BQL_STOP, RING_STOP),
    }
