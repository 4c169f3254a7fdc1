"""Findings about a fabric's settings: thresholds and buffers that are those of links of another rate."""

from __future__ import annotations

from tailback import text
from tailback.findings.finding import Finding
from tailback.recorded.run import Recorded
from tailback.recorded.setup import ScenarioSetup
from tailback.scenario.presets import FABRIC_PRESETS
from tailback.units import SIZE

OTHER = 2
"""Ports this many times faster or slower than what a value is for are of another rate."""


def of_another_rate(result: Recorded) -> list[Finding]:
    """ECN thresholds and buffers of a preset, or of none, at ports of another rate."""
    plan = result.plan
    models = plan.get("switch_models", [])
    # The plan of another simulator's files has a form of its own.
    if not models or not isinstance(result.setup, ScenarioSetup):
        return []
    fastest = max(link["rate"] for link in plan["links"])
    words = []
    for fabric in FABRIC_PRESETS.values():
        low, high = fabric.thresholds
        marked = {
            entry["rate_bps"] or fastest
            for model in models
            for entry in model["ecn"]
            if (entry["k_min"], entry["k_max"]) == (low, high)
        }
        away = [rate for rate in marked if _is_other(rate, fabric.gbps)]
        if away:
            words.append(
                f"ECN marks from {text.size(low)} to {text.size(high)}, as for {fabric.gbps} Gbit/s; at "
                f"{text.rate(away[0])} that is a queue of {text.duration(low * 8 / away[0])} to "
                f"{text.duration(high * 8 / away[0])} and not {text.duration(low * 8e-9 / fabric.gbps)} to "
                f"{text.duration(high * 8e-9 / fabric.gbps)}"
            )
        size = int(SIZE.parse(fabric.buffer))
        if fastest >= OTHER * fabric.gbps * 1e9 and any(model["buffer"] == size for model in models):
            words.append(
                f"the switch has the {text.size(size)} of one for {fabric.gbps} Gbit/s ports, and ports of "
                f"{text.rate(fastest)}"
            )
    if not words:
        return []
    fits = [name for name, fabric in FABRIC_PRESETS.items() if fabric.gbps * 10**9 == fastest]
    advice = f" preset: {fits[0]} has values for these links." if fits else ""
    told = "; ".join(words)
    return [Finding("Link rate mismatch", text.count(len(words)), f"{told}.{advice}", "warning")]


def _is_other(rate: int, gbps: int) -> bool:
    return not 1 / OTHER < rate / (gbps * 1e9) < OTHER
