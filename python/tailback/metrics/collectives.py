"""Jobs whose messages wait for each other: time and bandwidth of each collective, and what its last rank
waited for.

Bandwidths are those of nccl-tests (NVIDIA, doc/PERFORMANCE.md), in bit/s here: *algorithm bandwidth* is the
size over the time, *bus bandwidth* that times 2 (n - 1)/n for an all-reduce of n ranks, (n - 1)/n for
all-gather, reduce-scatter and all-to-all, and 1 for a broadcast.
"""

from __future__ import annotations

from dataclasses import replace
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import pyarrow.compute as pc

from tailback import text
from tailback.metrics.bounds import Bound, bound, bound_of_messages
from tailback.metrics.finding import Finding, finding
from tailback.metrics.metric import NAN, in_section, metric, metric_at, part, summarise
from tailback.recorded.bins import PS_PER_S
from tailback.recorded.run import Recorded
from tailback.scenario.network import Network


class Collective(NamedTuple):
    """A step of a job over all of its repetitions that are done; times in seconds, bandwidths in bit/s.

    A graph of one's own is of kind `graph`: its size is all its messages, and it has no bandwidths.

    `done` counts them; details, and with them all times, are of the first 10,000 collectives of a job.
    `mean_s`, `min_s` and `max_s` are from the first rank that takes part to the last that is done;
    nccl-tests divide the time of a loop by its rounds, in which one may begin before the other has
    ended everywhere. The parts of the chain of operations that ended last say what the last rank waited
    for, on average: `late_s` for ranks that came late, `compute_s`, `reduce_s`, `inside_s` for messages
    inside servers, `network_s` for messages as long as they take in an empty network, `behind_s` behind
    messages of the same sender, and `congestion_s` beyond all that. `slowest` is the host whose rank
    was last most often, alone, in `slowest_share` of them; ranks that end at the same instant are last
    together. `bound_s` is the least time that the network allows, by what is named in `bound_at`: see
    `tailback.metrics.bounds`.
    """

    job: str
    item: str
    kind: str
    algorithm: str
    ranks: int
    size_bytes: int
    done: int
    mean_s: float
    min_s: float
    max_s: float
    algorithm_bps: float | None
    bus_bps: float | None
    bound_s: float
    bound_at: str
    slowest: str
    slowest_share: float
    late_s: float
    compute_s: float
    reduce_s: float
    inside_s: float
    network_s: float
    behind_s: float
    congestion_s: float
    resent_packets: int
    worst: dict[str, Any] | None
    """The message of such a chain that congestion held up most: `src`, `dst`, `bytes`, `start_s`, `end_s`,
    `congestion_s`, `resent_packets`, and `waited_at`, the queue on its way that held most bytes meanwhile.
    """


class TrainingJob(NamedTuple):
    """A job: its repetitions that all ranks have ended, and how long one takes on average, in seconds."""

    job: str
    item: str
    ranks: int
    repetitions: int
    done: int
    iteration_s: float | None
    computed_s: float
    """Computing time per rank and repetition; of a graph or of inputs, that of the rank that computes longest."""
    graphs: int
    """Steps that are graphs of operations."""


def collectives(result: Recorded) -> list[Collective]:
    """The collectives and graphs of all jobs that were done at least once, job by job and step by step."""
    plans = {job["name"]: job for job in result.plan.get("jobs", [])}
    found = []
    for job in result.meta.get("jobs", []):
        if "inputs" in job:
            continue  # its collectives are not of the plan
        for number, step in enumerate(plans[job["name"]]["steps"]):
            parts = [part for part in job["parts"] if part["step"] == number]
            if parts and "collective" in step:
                found.append(_collective(result, job, step["collective"], parts))
            elif parts and "graph" in step:
                found.append(_graph(result, job, plans[job["name"]], number, parts))
    return found


def training_jobs(result: Recorded) -> list[TrainingJob]:
    """All jobs, in the order of the scenario; inputs of another simulator are one job, done once."""
    plans = {job["name"]: job for job in result.plan.get("jobs", [])}
    found = []
    for job in result.meta.get("jobs", []):
        own = job["name"], job["item"], len(job["hosts"])
        if "inputs" in job:
            found.append(_of_inputs(own, job))
            continue
        plan, ends = plans[job["name"]], job["iterations_ps"]
        graphs = sum("graph" in step for step in plan["steps"])
        computed = sum(_computed(step) for step in plan["steps"]) / PS_PER_S
        time = (ends[-1] - plan["start_ps"]) / len(ends) / PS_PER_S if ends else None
        found.append(TrainingJob(*own, plan["repeat"], len(ends), time, computed, graphs))
    return found


def _of_inputs(own: tuple[str, str, int], job: dict[str, Any]) -> TrainingJob:
    ends, known = job["iterations_ps"], [ps for ps in job["inputs"]["computed_ps"] if ps is not None]
    time = ends[0] / PS_PER_S if ends else None
    return TrainingJob(*own, 1, len(ends), time, max(known, default=0) / PS_PER_S, 0)


@metric("s")
def collective_time(result: Recorded, item: str | None = None) -> float:
    """Mean time of a collective; of the longest, without `item`. NaN where none was done."""
    return max((one.mean_s for one in collectives(result) if item in (None, one.item)), default=NAN)


@metric("bit/s")
def bus_bandwidth(result: Recorded, item: str | None = None) -> float:
    """Bus bandwidth of a collective as nccl-tests define it; the least of all, without `item`."""
    found = (one.bus_bps for one in collectives(result) if item in (None, one.item))
    return min((bps for bps in found if bps is not None), default=NAN)


@metric("s")
def iteration_time(result: Recorded, item: str | None = None) -> float:
    """Mean time of a repetition of a job; of the longest, without `item`. NaN where none was done."""
    jobs = [job for job in training_jobs(result) if item in (None, job.item)]
    return max((job.iteration_s for job in jobs if job.iteration_s is not None), default=NAN)


def _computed(step: dict[str, Any]) -> int:
    graph = step.get("graph", ())
    if isinstance(graph, dict):  # as it stands in the folder of a run
        return int(graph["computed_ps"])
    if hasattr(graph, "computed_ps"):
        return int(graph.computed_ps())
    of_rank: dict[int, int] = {}
    for rank, what, _ in graph:
        if isinstance(what, dict):
            of_rank[rank] = of_rank.get(rank, 0) + what.get("compute", 0)
    return int(step.get("compute", 0)) + max(of_rank.values(), default=0)


def bus_factor(kind: str, ranks: int) -> float:
    """Bus over algorithm bandwidth."""
    if kind == "broadcast":
        return 1.0
    return (2 if kind == "all-reduce" else 1) * (ranks - 1) / ranks


def _collective(
    result: Recorded, job: dict[str, Any], plan: dict[str, Any], parts: list[dict[str, Any]]
) -> Collective:
    mean_s, ranks = _mean_s(parts), len(job["hosts"])
    algorithm_bps = plan["bytes"] * 8 / mean_s if mean_s else NAN
    return _step(
        result,
        job,
        parts,
        (plan["kind"], plan["algorithm"], plan["bytes"]),
        (algorithm_bps, algorithm_bps * bus_factor(plan["kind"], ranks)),
        bound(result, job, plan),
    )


def _graph(
    result: Recorded, job: dict[str, Any], plan: dict[str, Any], number: int, parts: list[dict[str, Any]]
) -> Collective:
    """A graph of one's own. Which messages are its own is known where the job has no other step with any."""
    alone = sum("compute" not in step for step in plan["steps"]) == 1
    rounds = max(job["parts_ended"][number], 1)
    least = Bound(_computed(plan["steps"][number]) / PS_PER_S, "what its busiest rank computes")
    payload_bytes = 0
    if alone:
        columns = ("src", "dst", "message_bytes", "messages_completed")
        own = pc.equal(result.flows.column("item"), job["item"])
        rows = pc.filter(result.flows.select(columns), own).to_pydict()
        sizes = np.array(rows["message_bytes"]) * np.array(rows["messages_completed"]) // rounds
        payload_bytes = int(sizes.sum())
        least = max(Bound(*bound_of_messages(result, rows["src"], rows["dst"], sizes)), least)
    return _step(result, job, parts, ("graph", "own", payload_bytes), (None, None), least)


def _mean_s(parts: list[dict[str, Any]]) -> float:
    return float(sum(part["end_ps"] - part["begin_ps"] for part in parts) / len(parts) / PS_PER_S)


def _step(
    result: Recorded,
    job: dict[str, Any],
    parts: list[dict[str, Any]],
    what: tuple[str, str, int],
    bandwidths: tuple[float | None, float | None],
    least: Bound,
) -> Collective:
    """A step, of `what` kind, algorithm and size."""
    times = [(part["end_ps"] - part["begin_ps"]) / PS_PER_S for part in parts]
    kind, algorithm, size_bytes = what
    last = [part["slowest"] for part in parts]
    slowest = min(set(last), key=lambda rank: (-last.count(rank), rank))

    def of_chain(name: str) -> float:
        return float(sum(part["chain"][f"{name}_ps"] for part in parts) / len(parts) / PS_PER_S)

    named = [late for part in parts for late in part["chain"]["worst"][:1] if congestion(late) > 0]
    worst = max(named, key=congestion, default=None)
    return Collective(
        job["name"],
        job["item"],
        kind,
        algorithm,
        len(job["hosts"]),
        size_bytes,
        job["parts_ended"][parts[0]["step"]],
        _mean_s(parts),
        min(times),
        max(times),
        *bandwidths,
        *least,
        job["hosts"][slowest],
        sum(part["slowest"] == slowest and part["first_end_ps"] < part["end_ps"] for part in parts)
        / len(parts),
        of_chain("late"),
        of_chain("compute"),
        of_chain("reduce"),
        of_chain("domain"),
        of_chain("ideal"),
        of_chain("behind"),
        of_chain("excess"),
        sum(part["chain"]["resent"] for part in parts),
        None if worst is None else held_up(result, job["hosts"], worst),
    )


def congestion(late: dict[str, Any]) -> int:
    """Time of a message beyond an empty network and others of its sender, ps."""
    return int(late["end_ps"] - late["start_ps"] - late["ideal_ps"] - late["behind_ps"])


def held_up(result: Recorded, hosts: list[str], late: dict[str, Any]) -> dict[str, Any]:
    """A message that congestion held up: see `Collective.worst`."""
    src, dst = hosts[late["from"]], hosts[late["to"]]
    since_s, until_s = late["start_ps"] / PS_PER_S, late["end_ps"] / PS_PER_S
    return {
        "src": src,
        "dst": dst,
        "bytes": late["bytes"],
        "start_s": since_s,
        "end_s": until_s,
        "congestion_s": congestion(late) / PS_PER_S,
        "resent_packets": late["resent"],
        "waited_at": _waited_at(result, src, dst, since_s, until_s),
    }


def _waited_at(result: Recorded, src: str, dst: str, since_s: float, until_s: float) -> str | None:
    """The queue on a shortest way between two hosts that held most bytes meanwhile; None where all were
    empty, or none was recorded.
    """
    bins, network = result.bins, result.setup.network
    to_src, to_dst = _distances(network, src), _distances(network, dst)
    length = to_src.get(dst)
    if length is None:
        return None
    names = [
        queue["queue"]
        for queue in result.meta["queues"]
        if queue["kind"] == "egress"
        and to_src.get(queue["node"], length) + 1 + to_dst.get(queue["peer"], length) == length
    ]
    # A message may be over within a bin.
    begin, end = since_s - bins.bin_s, until_s + bins.bin_s
    means = bins.means({name: bins.values(name, "queue_mean_bytes") for name in names}, begin, end)
    fullest = max(names, key=lambda name: means[name], default=None)
    return fullest if fullest is not None and means[fullest] > 0 else None


def _distances(network: Network, start: str) -> dict[str, int]:
    """Links from a node to every other."""
    found, frontier = {start: 0}, [start]
    for node in frontier:
        for wire in network.wires_of[node]:
            other = wire.b if wire.a == node else wire.a
            if other not in found:
                found[other] = found[node] + 1
                frontier.append(other)
    return found


def _has_ranks(result: Recorded) -> bool:
    return bool(result.meta.get("jobs"))


for _name in ("training_jobs", "collectives", "collective_times"):
    in_section(_name, applies=_has_ranks, left_out=True)


@part("training_jobs")
def _training_jobs(result: Recorded) -> list[dict[str, Any]]:
    return [job._asdict() for job in training_jobs(result)]


@part("collectives")
def _collectives(result: Recorded) -> list[dict[str, Any]]:
    return [one._asdict() for one in collectives(result)]


@part("collective_times")
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


metric_at(
    "collective_times.slowest_s",
    "s",
    about="Mean time of the collective that takes longest.",
    title="Slowest collective",
)

MAX_LINES = 4
"""Findings about collectives: those that are alike share a line, and the slowest come first."""
_EQUAL_FIELDS = ("kind", "algorithm", "ranks", "size_bytes")
MIN_NAMED_SHARE = 0.01
"""Part of a collective's time from which what took it is named."""
_PART_NAMES = {
    "network_s": "messages in an empty network",
    "behind_s": "messages behind others of the same sender",
    "congestion_s": "congestion: queues, pauses and retransmitted packets",
    "inside_s": "messages inside servers",
    "reduce_s": "reducing",
    "compute_s": "computing",
    "late_s": "ranks that came late",
}


@finding(30)
def collective_findings(result: Recorded) -> list[Finding]:
    """Jobs that took steps, and each of their collectives."""
    summary = summarise(result)
    found = [_iteration(job) for job in summary.get("training_jobs", []) if _says_more(job)]
    if len(found) > MAX_LINES:
        found = [_iterations(summary["training_jobs"])]
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for one in summary.get("collectives", []):
        groups.setdefault(tuple(one[key] for key in _EQUAL_FIELDS), []).append(one)
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
        return Finding(
            "Iteration",
            text.MISSING,
            f"No repetition of {text.plural(len(jobs), 'job')} was done.",
            "warning",
        )
    slowest = max(done, key=lambda job: job["iteration_s"])
    fastest = min(done, key=lambda job: job["iteration_s"])
    one = _iteration(slowest)
    return replace(
        one,
        words=f"the slowest of {text.plural(len(jobs), 'job')}: {one.words} The fastest, {fastest['job']}, "
        f"took {text.duration(fastest['iteration_s'])}.",
    )


def _group(group: list[dict[str, Any]]) -> Finding:
    """A line for collectives that are alike: of several, the slowest, and how far the others are from it."""
    slowest = max(group, key=lambda one: one["mean_s"])
    said = _in_words(slowest)
    if len(group) == 1:
        return said
    times = [one["mean_s"] for one in group]
    fastest, middle = text.duration(min(times)), text.duration(median(times))
    alike = f"{text.count(len(group))} of the same kind, size and number of ranks"
    if fastest == said.figure:
        words = f"each of {alike}. One of them: {said.words}"
    else:
        words = f"the slowest of {alike} (fastest {fastest}, median {middle}): {said.words}"
    return replace(said, what=f"{said.what}s", words=words)


def _says_more(job: dict[str, Any]) -> bool:
    one = job["repetitions"] == job["done"] == 1
    return not one or job["computed_s"] > 0 or job["graphs"] > 0


def _iteration(job: dict[str, Any]) -> Finding:
    of = f"{text.count(job['done'])} of {text.plural(job['repetitions'], 'repetition')} of {job['job']}"
    if job["iteration_s"] is None:
        return Finding(
            "Iteration", text.MISSING, f"{of} {text.verb(job['done'], 'was', 'were')} done.", "warning"
        )
    words = f"a repetition, {of} done; ranks compute {text.duration(job['computed_s'])} of it."
    return Finding(
        "Iteration",
        text.duration(job["iteration_s"]),
        words,
        *(["warning"] if job["done"] < job["repetitions"] else []),
    )


def _in_words(one: dict[str, Any]) -> Finding:
    spread = (
        f" ({text.duration(one['min_s'])} to {text.duration(one['max_s'])}, {text.plural(one['done'], 'time')})"
        if one["done"] > 1
        else ""
    )
    parts = sorted(((one[name], words) for name, words in _PART_NAMES.items()), reverse=True)
    named = [
        f"{text.duration(time)} {words}" for time, words in parts if time >= MIN_NAMED_SHARE * one["mean_s"]
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
    if worst is not None and worst["congestion_s"] >= MIN_NAMED_SHARE * one["mean_s"]:
        words += (
            f" The message that congestion held up longest, {text.duration(worst['congestion_s'])}, went "
            f"from {worst['src']} to {worst['dst']} at {text.duration(worst['start_s'])}"
        )
        if worst["resent_packets"]:
            words += f", {text.plural(worst['resent_packets'], 'packet')} of its queue pair {text.verb(worst['resent_packets'], 'was', 'were')} retransmitted"
        words += f"; {worst['waited_at']} held most on its way." if worst["waited_at"] else "."
    what = "Graph" if one["kind"] == "graph" else "Collective"
    return Finding(what, text.duration(one["mean_s"]), words)


def _whose(one: dict[str, Any]) -> str:
    """Of which host the last rank is, where it is mostly the same."""
    return f", mostly that of {one['slowest']}," if one["slowest_share"] > 0.5 else ""
