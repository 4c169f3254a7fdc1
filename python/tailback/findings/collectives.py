"""What is said of jobs whose messages wait for each other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tailback import text
from tailback.findings.finding import Finding

MAX_LINES = 4
"""Findings about collectives: of more, equal ones share a line, and the slowest come first."""
_ALIKE = ("kind", "algorithm", "ranks", "size_bytes")
WORTH_NAMING = 0.01
"""Part of a collective's time from which what took it is named."""
_PARTS = {
    "network_s": "messages in an empty network",
    "behind_s": "messages behind others of the same sender",
    "congestion_s": "congestion: queues, pauses and retransmitted packets",
    "inside_s": "messages inside servers",
    "reduce_s": "reducing",
    "compute_s": "computing",
    "late_s": "ranks that came late",
}


def collective_findings(summary: dict[str, Any]) -> list[Finding]:
    """Jobs that took steps, and each of their collectives."""
    found = [_iteration(job) for job in summary.get("training_jobs", []) if _says_more(job)]
    if len(found) > MAX_LINES:
        found = [_iterations(summary["training_jobs"])]
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for one in summary.get("collectives", []):
        groups.setdefault(tuple(one[key] for key in _ALIKE), []).append(one)
    slowest_first = sorted(groups.values(), key=lambda group: -max(one["mean_s"] for one in group))
    found += [_group(group) for group in slowest_first[:MAX_LINES]]
    if left := slowest_first[MAX_LINES:]:
        names = text.plural(sum(map(len, left)), "collective")
        words = f"of other sizes or kinds took less; summary.json lists them under collectives: {names}."
        found.append(Finding("Other collectives", text.count(sum(map(len, left))), words))
    return found


def _iterations(jobs: list[dict[str, Any]]) -> Finding:
    """One line for many jobs: the slowest."""
    done = [job for job in jobs if job["iteration_s"] is not None]
    if not done:
        return Finding("Iteration", text.MISSING, f"No repetition of {len(jobs)} jobs was done.", "warning")
    slowest = max(done, key=lambda job: job["iteration_s"])
    fastest = min(done, key=lambda job: job["iteration_s"])
    one = _iteration(slowest)
    return replace(
        one,
        words=f"the slowest of {text.plural(len(jobs), 'job')}: {one.words} The fastest, {fastest['job']}, "
        f"took {text.duration(fastest['iteration_s'])}.",
    )


def _group(group: list[dict[str, Any]]) -> Finding:
    """A line for equal collectives: of several, the slowest, and how far the others are from it."""
    slowest = max(group, key=lambda one: one["mean_s"])
    said = _collective(slowest)
    if len(group) == 1:
        return said
    times = sorted(one["mean_s"] for one in group)
    return replace(
        said,
        what=f"{said.what}s",
        words=f"the slowest of {len(group)} equal ones (fastest {text.duration(times[0])}, median "
        f"{text.duration(times[len(times) // 2])}): {said.words}",
    )


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
    if one["kind"] == "graph":
        words = f"graph between {text.plural(one['ranks'], 'rank')} of {one['job']}{spread}."
        if one["size_bytes"]:
            words += f" Its messages have {text.size(one['size_bytes'])}."
    else:
        words = (
            f"{one['kind']} of {text.size(one['size_bytes'])} between {text.plural(one['ranks'], 'rank')} of "
            f"{one['job']}, {one['algorithm']}{spread}. Algorithm bandwidth "
            f"{text.rate(one['algorithm_bps'])}, bus bandwidth {text.rate(one['bus_bps'])}."
        )
    if one["bound_s"]:
        words += f" It cannot take less than {text.duration(one['bound_s'])}, for {one['bound_at']}."
    words += f" The last rank{_whose(one)} waited for: {', '.join(named)}."
    worst = one["worst"]
    if worst is not None and worst["congestion_s"] >= WORTH_NAMING * one["mean_s"]:
        words += (
            f" The message that congestion held up longest, {text.duration(worst['congestion_s'])}, went "
            f"from {worst['src']} to {worst['dst']} at {text.duration(worst['start_s'])}"
        )
        if worst["resent_packets"]:
            words += (
                f", {text.plural(worst['resent_packets'], 'packet')} of its queue pair were retransmitted"
            )
        words += f"; {worst['waited_at']} held most on its way." if worst["waited_at"] else "."
    what = "Graph" if one["kind"] == "graph" else "Collective"
    return Finding(what, text.duration(one["mean_s"]), words)


def _whose(one: dict[str, Any]) -> str:
    """Of which host the last rank is, where it is mostly the same."""
    return f", mostly that of {one['slowest']}," if one["slowest_share"] > 0.5 else ""
