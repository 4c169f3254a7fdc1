"""What to say of Linux bridges and of latency tests, from the summary alone."""

from __future__ import annotations

from typing import Any

from tailback import text
from tailback.findings.finding import Finding

BUSY = 0.95
"""A core that is busy for this share of the run limits what passes it."""


def bridge_findings(summary: dict[str, Any]) -> list[Finding]:
    """The busiest core of a bridge, and latency; nothing where there are none."""
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
        full = bridge["busy"] >= BUSY
        words = (
            f"of the time {bridge['bridge']}'s core {bridge['core']} was in softirq or at interrupts"
            f"{': it limits what the bridge forwards' if full else ''}. Receive rings were full for "
            f"{text.plural(bridge['rx_out_of_buffer'], 'packet')}; queueing disciplines dropped "
            f"{text.count(bridge['qdisc_dropped'])} and marked {text.count(bridge['marked'])}; "
            f"transmit queues were stopped {text.count(bridge['stopped'])} times."
        )
        warn = bridge["rx_out_of_buffer"] > 0 or full
        found.append(Finding("Bridge", text.share(bridge["busy"]), words, *(["warning"] if warn else [])))
    return found
