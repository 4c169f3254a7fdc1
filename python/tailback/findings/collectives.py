"""What is said of jobs whose messages wait for each other."""

from __future__ import annotations

from typing import Any

from tailback import text
from tailback.findings.finding import Finding

WORTH_NAMING = 0.01
"""Part of a collective's time from which what took it is named."""
_PARTS = {
    "network_s": "messages in an empty network",
    "behind_s": "messages behind others of the same sender",
    "congestion_s": "congestion: queues, pauses and packets sent again",
    "inside_s": "messages inside servers",
    "reduce_s": "reducing",
    "compute_s": "computing",
    "late_s": "ranks that came late",
}


def collective_findings(summary: dict[str, Any]) -> list[Finding]:
    """Jobs that took steps, and each of their collectives."""
    found = [_iteration(job) for job in summary.get("training_jobs", []) if _says_more(job)]
    return found + [_collective(one) for one in summary.get("collectives", [])]


def _says_more(job: dict[str, Any]) -> bool:
    one = job["repetitions"] == job["done"] == 1
    return not one or job["computed_s"] > 0 or job["graphs"] > 0


def _iteration(job: dict[str, Any]) -> Finding:
    of = f"{text.count(job['done'])} of {text.plural(job['repetitions'], 'repetition')} of {job['job']}"
    if job["iteration_s"] is None:
        return Finding("Iteration", text.MISSING, f"{of} were done.", "warning")
    words = f"a repetition, {of} done; ranks compute {text.duration(job['computed_s'])} of it."
    return Finding(
        "Iteration",
        text.duration(job["iteration_s"]),
        words,
        *(["warning"] if job["done"] < job["repetitions"] else []),
    )


def _collective(one: dict[str, Any]) -> Finding:
    spread = (
        f" ({text.duration(one['min_s'])} to {text.duration(one['max_s'])}, {text.count(one['done'])} times)"
        if one["done"] > 1
        else ""
    )
    parts = sorted(((one[name], words) for name, words in _PARTS.items()), reverse=True)
    named = [
        f"{text.duration(time)} {words}" for time, words in parts if time >= WORTH_NAMING * one["mean_s"]
    ]
    words = (
        f"{one['kind']} of {text.size(one['size_bytes'])} between {text.plural(one['ranks'], 'rank')} of "
        f"{one['job']}, {one['algorithm']}{spread}. Algorithm bandwidth {text.rate(one['algorithm_bps'])}, "
        f"bus bandwidth {text.rate(one['bus_bps'])}. The network allows "
        f"{text.duration(one['bound_s'])}: {one['bound_at']}. The last rank{_whose(one)} waited for: "
        f"{', '.join(named)}."
    )
    worst = one["worst"]
    if worst is not None and worst["congestion_s"] >= WORTH_NAMING * one["mean_s"]:
        words += (
            f" The message that congestion held up longest, {text.duration(worst['congestion_s'])}, went "
            f"from {worst['src']} to {worst['dst']} at {text.duration(worst['start_s'])}"
        )
        if worst["resent_packets"]:
            words += f", {text.plural(worst['resent_packets'], 'packet')} of whose queue pair went again"
        words += f"; {worst['waited_at']} held most on its way." if worst["waited_at"] else "."
    return Finding("Collective", text.duration(one["mean_s"]), words)


def _whose(one: dict[str, Any]) -> str:
    """Of which host the last rank is, where it is mostly the same."""
    return f", mostly that of {one['slowest']}," if one["slowest_share"] > 0.5 else ""
