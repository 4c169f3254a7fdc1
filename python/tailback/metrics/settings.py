"""Findings about a run's settings: batches of writers, thresholds for links of another rate, keys not honoured."""

from __future__ import annotations

from tailback import text
from tailback.metrics.finding import Finding, finding
from tailback.recorded.run import Recorded
from tailback.recorded.setup import ScenarioSetup
from tailback.scenario.presets import FABRIC_PRESETS
from tailback.units import SIZE

SHARED_COMPLETION_BYTES, SHARED_COMPLETIONS = 8192, 100
"""perftest: messages up to this size share a completion, so many at most (`cq_mod`)."""


@finding(180)
def batches_finding(result: Recorded) -> list[Finding]:
    """Writers whose depth is not a sliding window."""
    sizes: dict[tuple[int, int], str] = {}
    for writer in result.plan.get("writers", []):
        message, depth = writer.get("message", 0), writer.get("depth", 1)
        if 0 < message <= SHARED_COMPLETION_BYTES and depth > 1 and not writer.get("partner"):
            sizes.setdefault((message, depth), str(writer["item"]))
    if not sizes:
        return []
    (message, depth), item = next(iter(sizes.items()))
    batch = min(depth, SHARED_COMPLETIONS)
    words = (
        f"{text.noun(batch, 'message')} at a time {text.verb(batch, 'is', 'are')} posted on a queue pair of {item}, when the last {text.verb(batch, 'is', f'{batch} are')} done: messages "
        f"of {text.size(message)} share a completion, as perftest's do up to 8 KiB. Depth {depth} is no "
        "sliding window."
    )
    more = f" Likewise {text.plural(len(sizes) - 1, 'other size or depth')}." if len(sizes) > 1 else ""
    return [Finding("Posted in batches", text.count(batch), words + more)]


OTHER_RATE_FACTOR = 2
"""Ports this many times faster or slower than what a value is for are of another rate."""


@finding(190)
def another_rate_finding(result: Recorded) -> list[Finding]:
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
        if fastest >= OTHER_RATE_FACTOR * fabric.gbps * 1e9 and any(
            model["buffer"] == size for model in models
        ):
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
    return not 1 / OTHER_RATE_FACTOR < rate / (gbps * 1e9) < OTHER_RATE_FACTOR


@finding(200)
def not_honoured_finding(result: Recorded) -> list[Finding]:
    names = result.setup.not_honoured
    if not names:
        return []
    groups: dict[str, list[str]] = {}
    for name, why in names.items():
        groups.setdefault(why, []).append(name)
    words = "; ".join(f"{', '.join(keys)}: {why}" for why, keys in groups.items())
    return [Finding("Not honoured", text.plural(len(names), "key"), f"{words}.", "warning")]
