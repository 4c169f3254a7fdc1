"""Metrics of Linux bridges and of latency tests."""

from __future__ import annotations

from typing import Any

from tailback import text
from tailback.metrics.counted import port_counter
from tailback.metrics.finding import Finding, finding
from tailback.metrics.metric import NAN, metric, part, summarise
from tailback.recorded.bins import PS_PER_S
from tailback.recorded.run import Recorded
from tailback.recorded.signals import BQL_STOP, RING_STOP


@metric("s")
def write_latency(result: Recorded, item: str | None = None) -> float:
    """Half of the median round trip of a latency test, as `ib_write_lat` reports it.

    Of the first test where `item` does not name one.
    """
    tests = [test for test in result.meta.get("latency") or [] if item in (None, test["item"])]
    return tests[0]["median_ps"] / PS_PER_S if tests else NAN


def bridge_cores(result: Recorded) -> list[dict[str, Any]]:
    """Cores of all bridges: bridge, core, and shares of the run that they were at irq, softirq and guest."""
    return list(result.meta.get("bridge_cores") or [])


@metric("share")
def softirq_share(result: Recorded, core: int | None = None, purpose: str = "softirq") -> float:
    """Share of the run that a core of a bridge was in softirq; that of the busiest where `core` is none.

    `purpose`: irq, softirq or guest, as mpstat has them.
    """
    shares = [one[purpose] for one in bridge_cores(result) if core in (None, one["core"])]
    return max(shares, default=NAN)


@part("latency")
def _latency(result: Recorded) -> list[dict[str, Any]] | None:
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


@part("bridge")
def _bridge(result: Recorded) -> dict[str, Any] | None:
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


FULL_CORE_SHARE = 0.95
"""A core that is busy for this share of the run limits what passes it."""


@finding(160)
def bridge_findings(result: Recorded) -> list[Finding]:
    """The busiest core of a bridge, and latency; nothing where there are none."""
    summary = summarise(result)
    found = []
    for test in summary["latency"] or []:
        words = (
            f"is half of the median round trip of {text.plural(test['iterations'], 'message')} from "
            f"{test['src']} to {test['dst']}; least {text.duration(test['min_s'])}, 99th percentile "
            f"{text.duration(test['p99_s'])}, most {text.duration(test['max_s'])}."
        )
        found.append(Finding("Write latency", text.duration(test["median_s"]), words))
    bridge = summary["bridge"]
    if bridge is not None:
        full = bridge["busy"] >= FULL_CORE_SHARE
        words = (
            f"of the time {bridge['bridge']}'s core {bridge['core']} was in softirq or at interrupts"
            f"{': it limits what the bridge forwards' if full else ''}. Receive rings were full for "
            f"{text.plural(bridge['rx_out_of_buffer'], 'packet')}; queueing disciplines dropped "
            f"{text.count(bridge['qdisc_dropped'])} and marked {text.count(bridge['marked'])}; "
            f"transmit queues were stopped {text.plural(bridge['stopped'], 'time')}."
        )
        warn = bridge["rx_out_of_buffer"] > 0 or full
        found.append(Finding("Bridge", text.share(bridge["busy"]), words, *(["warning"] if warn else [])))
    return found
