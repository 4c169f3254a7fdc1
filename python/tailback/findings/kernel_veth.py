"""Findings of a run on the kernel's own veth: how far the model is from it."""

from __future__ import annotations

from typing import Any

from tailback import text
from tailback.findings.finding import Finding

AIM = 0.15
"""How far the model's round trip may be from the kernel's without a warning: what it is meant to hold."""


def findings(told: dict[str, Any]) -> list[Finding]:
    """A line a case: the model's median round trip against the kernel's, then packets, ring and losses."""
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
    return Finding(what, f"{off:+.1%}".replace("%", " %"), words, "warning" if abs(off) > AIM else "plain")


def _lost(model: dict[str, Any], kernel: dict[str, Any]) -> str:
    if model["ping_loss"] is None:  # too few to tell a share of
        return ""
    return f"Pings lost: {text.share(model['ping_loss'])} and {text.share(kernel['ping_loss'])}. "
