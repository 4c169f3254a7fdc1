"""Groups of messages that are one job: a traffic item whose messages all must arrive before anything goes on.

Bandwidths are those of nccl-tests (NVIDIA, doc/PERFORMANCE.md): *algorithm bandwidth* is the size of the
operation over its time, *bus bandwidth* what of it the busiest host has to send or take over the network, so
that it compares with the rate of a link. Of an all-to-all of n hosts the size is what each host's buffer
holds, its own part included, and bus over algorithm bandwidth is (n - 1)/n.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailback import text
from tailback.metrics.bounds import bound_of_messages
from tailback.metrics.finding import Finding, finding
from tailback.metrics.metric import NAN, metric, part, summarise
from tailback.recorded.bins import PS_PER_S
from tailback.recorded.run import Recorded

ALL_TO_ALL = "all-to-all"
JOB_KINDS = (ALL_TO_ALL, "permutation", "flows")
"""Kinds of traffic whose messages are one job; arrivals at random, or burst after burst, are none."""


class Job(NamedTuple):
    """One of them, in seconds and bit/s of payload. `time_s` is from its first start to its last message's
    end; None, with both bandwidths, while `left` messages are not done.

    `bound_s` is the least time in which any network of these links could do it: every host's messages have
    to pass its link, those of the hosts below a switch the links above that. `bound_at` says where.
    """

    item: str
    messages: int
    left: int
    hosts: int
    payload_bytes: int
    time_s: float | None
    algorithm_bps: float | None
    bus_bps: float | None
    bound_s: float
    bound_bus_bps: float
    bound_at: str

    @property
    def of_bound(self) -> float | None:
        """Share of the bound that was reached."""
        return None if self.time_s is None else self.bound_s / self.time_s


_MESSAGE_COLUMNS = ("src", "dst", "message_bytes", "state", "start_ps", "end_ps")


def jobs(result: Recorded) -> list[Job]:
    """All jobs of a run with two messages or more, in the order of the scenario."""
    flows = result.flows
    if "ideal_fct_ps" not in flows.column_names:
        return []
    single = pc.is_valid(flows.column("ideal_fct_ps"))
    items = sorted(pc.unique(pc.filter(flows.column("item"), single)).to_pylist(), key=text.natural)
    items = [item for item in items if re.sub(r"\d+$", "", item) in JOB_KINDS]
    # Filtering takes as long as what it keeps has columns.
    columns = flows.select(_MESSAGE_COLUMNS)
    of_items = (
        (item, pc.filter(columns, pc.and_(single, pc.equal(flows.column("item"), item)))) for item in items
    )
    return [_job(result, item, rows) for item, rows in of_items if rows.num_rows > 1]


@metric("s")
def job_time(result: Recorded, item: str | None = None) -> float:
    """Time of a job, from its first start to its last message's end; of the longest, without `item`. NaN
    while messages are left.
    """
    times = [job.time_s for job in jobs(result) if item in (None, job.item)]
    return max((NAN if time is None else time for time in times), default=NAN)


@metric("share")
def job_of_bound(result: Recorded, item: str | None = None) -> float:
    """How much of the bound of its links a job reached; the least of all jobs, without `item`."""
    shares = [job.of_bound for job in jobs(result) if item in (None, job.item)]
    return min((NAN if share is None else share for share in shares), default=NAN)


def _job(result: Recorded, item: str, rows: pa.Table) -> Job:
    names = result.setup.network.hosts
    number = {name: i for i, name in enumerate(names)}
    ends = [np.array([number[name] for name in rows.column(end).to_pylist()]) for end in ("src", "dst")]
    sizes = np.asarray(rows.column("message_bytes").to_numpy(), dtype=np.int64)
    per_host = [np.bincount(end, sizes, len(names)) for end in ends]
    busiest = float(max(one.max() for one in per_host)) * 8
    hosts = len(np.unique(np.concatenate(ends)))
    operation = busiest * hosts / (hosts - 1) if item.startswith(ALL_TO_ALL) else busiest
    left = rows.num_rows - int(pc.sum(pc.equal(rows.column("state"), "done")).as_py())
    time = None
    if not left:
        begin, end = pc.min(rows.column("start_ps")).as_py(), pc.max(rows.column("end_ps")).as_py()
        time = (end - begin) / PS_PER_S
    bound, where = bound_of_messages(
        result, rows.column("src").to_pylist(), rows.column("dst").to_pylist(), sizes
    )
    return Job(
        item,
        rows.num_rows,
        left,
        hosts,
        int(sizes.sum()),
        time,
        operation / time if time else None,
        busiest / time if time else None,
        bound,
        busiest / bound if bound else 0.0,
        where,
    )


@part("jobs")
def _jobs(result: Recorded) -> list[dict[str, Any]]:
    return [{**job._asdict(), "of_bound": job.of_bound} for job in jobs(result)]


@finding(20)
def job_findings(result: Recorded) -> list[Finding]:
    return [_in_words(job) for job in summarise(result)["jobs"]]


def _in_words(job: dict[str, Any]) -> Finding:
    """When all of its messages were done, and what more the network could have done."""
    least = (
        f"{text.duration(job['bound_s'])} is the least that {job['bound_at']} allow"
        f"{'s' if job['bound_at'].startswith('the link ') else ''}"
    )
    about = f"{text.plural(job['messages'], 'message')} of {job['item']}, {text.size(job['payload_bytes'])} in all"
    if job["time_s"] is None:
        words = f"of {about}, {text.verb(job['left'], 'was', 'were')} not done at the end, so it has no time; {least}."
        return Finding("Job", f"{text.count(job['left'])} left", words, "warning")
    words = (
        f"until all {about} between {text.plural(job['hosts'], 'host')}, were done; {least}: "
        f"{text.share(job['of_bound'])} of that was reached. Algorithm bandwidth "
        f"{text.rate(job['algorithm_bps'])}, bus bandwidth {text.rate(job['bus_bps'])} of at most "
        f"{text.rate(job['bound_bus_bps'])}."
    )
    return Finding("Job", text.duration(job["time_s"]), words)
