"""A run as a trace for Perfetto (ui.perfetto.dev) and chrome://tracing.

The format is the JSON of the Trace Event Format, with times in us. Each job is a process with a thread for each
rank; queues are a process with a counter for each.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from tailback.recorded.bins import PS_PER_S
from tailback.recorded.rank_spans import LANES_PER_RANK, spans
from tailback.recorded.run import Recorded

MAX_QUEUES = 16
"""The fullest queues are drawn."""
Event = dict[str, Any]


def trace(result: Recorded) -> str:
    jobs = result.meta["jobs"]
    number_of = {job["name"]: number for number, job in enumerate(jobs, 1)}
    events: list[Event] = []
    for name, number in number_of.items():
        events.append(_named("process_name", number, 0, name))
    for job in jobs:
        for rank, host in enumerate(job["hosts"]):
            events.append(
                _named("thread_name", number_of[job["name"]], LANES_PER_RANK * rank, f"rank {rank}, {host}")
            )
    overlapped = set()
    for span in spans(result):
        pid, tid = number_of[span.job], LANES_PER_RANK * span.rank + span.lane
        if span.lane and (pid, tid) not in overlapped:
            overlapped.add((pid, tid))
            events.append(_named("thread_name", pid, tid, f"rank {span.rank}, {span.host}, overlapped"))
        args = {"repetition": span.iteration, "step": span.step, "host": span.host}
        events.append(_slice(span.name, pid, tid, span.begin_s, span.end_s, args))
    for job in jobs:
        events += _delayed_messages(job, number_of[job["name"]])
        events += _chain(job, number_of[job["name"]])
    events += _queues(result, len(jobs) + 1)
    return json.dumps({"displayTimeUnit": "ns", "traceEvents": events}, allow_nan=False) + "\n"


def _delayed_messages(job: dict[str, Any], pid: int) -> list[Event]:
    """Messages that the last ranks waited for and that congestion delayed, on their own thread."""
    tid = LANES_PER_RANK * len(job["hosts"])
    found = []
    for part in job["parts"]:
        for late in part["chain"]["worst"]:
            begin, end = late["start_ps"] / PS_PER_S, late["end_ps"] / PS_PER_S
            src, dst = job["hosts"][late["from"]], job["hosts"][late["to"]]
            args = {
                "bytes": late["bytes"],
                "in an empty network, us": late["ideal_ps"] / 1e6,
                "behind others of its sender, us": late["behind_ps"] / 1e6,
                "packets retransmitted": late["resent"],
            }
            found.append(_slice(f"{src} to {dst}", pid, tid, begin, end, args))
    if found:
        found.append(_named("thread_name", pid, tid, "messages that the last rank waited for"))
    return found


def _chain(job: dict[str, Any], pid: int) -> list[Event]:
    """The critical path of the rank that finished last, on its own thread."""
    chain = job["inputs"]["chain"] if "inputs" in job else None
    if chain is None:
        return []
    tid, hosts = LANES_PER_RANK * len(job["hosts"]), job["hosts"]
    found = [_named("thread_name", pid, tid, "what the last rank waited for")]
    for what, rank, to, begin_ps, end_ps in chain["steps"]:
        name = f"{what}, {hosts[rank]}" + ("" if to is None else f" to {hosts[to]}")
        found.append(_slice(name, pid, tid, begin_ps / PS_PER_S, end_ps / PS_PER_S, {"rank": rank}))
    return found


def _queues(result: Recorded, pid: int) -> list[Event]:
    bins = result.bins
    names = [queue["queue"] for queue in result.meta["queues"] if queue["kind"] == "egress"]
    rows = {name: bins.values(name, "queue_mean_bytes") for name in names}
    fullest = sorted(rows, key=lambda name: (-float(rows[name].max(initial=0)), name))[:MAX_QUEUES]
    events = [_named("process_name", pid, 0, "queues")]
    for name in fullest:
        row = rows[name]
        # A counter keeps its value until the next one.
        for at in np.flatnonzero(np.diff(row, prepend=0.0)):
            time, value = float(bins.start_s[at]), float(row[at])
            event = {"ph": "C", "name": name, "pid": pid, "ts": time * 1e6, "args": {"bytes": value}}
            events.append(event)
    return events


def _slice(name: str, pid: int, tid: int, begin_s: float, end_s: float, args: Event) -> Event:
    times = {"ts": begin_s * 1e6, "dur": (end_s - begin_s) * 1e6}
    return {"ph": "X", "name": name, "pid": pid, "tid": tid, **times, "args": args}


def _named(what: str, pid: int, tid: int, name: str) -> Event:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}
