"""Groups of messages that are one job: a traffic item whose messages all must arrive before anything goes on.

Bandwidths are those of nccl-tests (NVIDIA, doc/PERFORMANCE.md): *algorithm bandwidth* is the size of the
operation over its time, *bus bandwidth* what of it the busiest host has to send or take over the network, so
that it compares with the rate of a link. Of an all-to-all of n hosts the size is what each host's buffer
holds, its own part included, and bus over algorithm bandwidth is (n - 1)/n.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tailback import text
from tailback.measures.cuts import cuts, place
from tailback.measures.registry import NAN, measure
from tailback.measures.throughput import ideal_payload_share
from tailback.recorded.bins import PS_PER_S
from tailback.recorded.run import Recorded

ALL_TO_ALL = "all-to-all"
KINDS = (ALL_TO_ALL, "permutation", "flows")
"""Kinds of traffic whose messages are one job; arrivals at random, or burst after burst, are none."""
ALIKE = 1.001
"""Cuts that need the same time, except for rounding."""


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


_COLUMNS = ("src", "dst", "message_bytes", "state", "start_ps", "end_ps")


def jobs(result: Recorded) -> list[Job]:
    """All jobs of a run with two messages or more, in the order of the scenario."""
    flows = result.flows
    if "ideal_fct_ps" not in flows.column_names:
        return []
    single = pc.is_valid(flows.column("ideal_fct_ps"))
    items = sorted(pc.unique(pc.filter(flows.column("item"), single)).to_pylist(), key=text.natural)
    items = [item for item in items if re.sub(r"\d+$", "", item) in KINDS]
    # Filtering takes as long as what it keeps has columns.
    columns = flows.select(_COLUMNS)
    of_items = (
        (item, pc.filter(columns, pc.and_(single, pc.equal(flows.column("item"), item)))) for item in items
    )
    return [_job(result, item, rows) for item, rows in of_items if rows.num_rows > 1]


@measure("s")
def job_time(result: Recorded, item: str | None = None) -> float:
    """Time of a job, from its first start to its last message's end; of the longest, without `item`. NaN
    while messages are left.
    """
    times = [job.time_s for job in jobs(result) if item in (None, job.item)]
    return max((NAN if time is None else time for time in times), default=NAN)


@measure("share")
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


def bound_of_messages(
    result: Recorded, sources: Sequence[str], targets: Sequence[str], sizes: npt.NDArray[np.int64]
) -> tuple[float, str]:
    """The least time of messages between hosts in seconds, and the links that it takes."""
    number = result.setup.network.host_number
    src, dst = (np.array([number[name] for name in hosts], dtype=np.int64) for hosts in (sources, targets))
    share = ideal_payload_share(result)
    payload_share = share if share > 0 else 1.0
    found: list[tuple[float, str, int]] = []
    for tier, part_of, rates, heads in cuts(result):
        out, into = part_of[src], part_of[dst]
        crosses = out != into
        weights = sizes[crosses] * 8.0
        bits = np.maximum(
            np.bincount(out[crosses], weights, len(rates)), np.bincount(into[crosses], weights, len(rates))
        )
        # A part without a link out has no traffic out of it either.
        times = np.divide(bits, rates * payload_share, out=np.zeros(len(rates)), where=rates > 0)
        worst = float(times.max(initial=0.0))
        alike = np.flatnonzero(times * ALIKE >= worst)
        if worst > 0:
            found.append((worst, place(tier, [heads[one] for one in alike]), tier))
    if not found:
        return 0.0, ""
    # Of two that need the same, hosts' own links say more.
    time, where, _ = min(found, key=lambda one: (-one[0], one[2]))
    return time, where
