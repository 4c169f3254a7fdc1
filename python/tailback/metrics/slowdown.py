"""Flow completion times (FCT) set against what an empty network would need.

The slowdown of a flow is its FCT over its ideal FCT, and at least 1: the ideal one is worked out and may miss
the real best case by the rounding of a transmission time. Tables by size follow the figures of Li et al.,
"HPCC: High Precision Congestion Control", SIGCOMM 2019 (figures 11 and 12): buckets with equally many flows,
so that each point stands on as many of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tailback import text
from tailback.metrics.finding import Finding, finding
from tailback.metrics.metric import metric_at, part, summarise
from tailback.recorded.run import Recorded

Array = npt.NDArray[np.float64]

FAILED_STATE = "error"
"""The state of a flow that gave up."""
QUANTILES = (0.5, 0.95, 0.99, 0.999)
BUCKET_COUNT = 10


@dataclass(frozen=True)
class Bucket:
    """Slowdown of the flows of `low_bytes` to `high_bytes`, both included; figures are None without flows."""

    low_bytes: int
    high_bytes: int
    count: int
    mean: float | None
    p50: float | None
    p95: float | None
    p99: float | None
    p999: float | None


class Finished(NamedTuple):
    """Flows that are done, a row each: bytes, picoseconds, picoseconds."""

    sizes: npt.NDArray[np.int64]
    fct_ps: npt.NDArray[np.int64]
    ideal_fct_ps: npt.NDArray[np.int64]

    @property
    def slowdown(self) -> Array:
        """FCT over ideal FCT, at least 1."""
        # There may be ten million, so columns are made as seldom as can be, here and below.
        ratio = self.fct_ps / np.maximum(self.ideal_fct_ps, 1)
        return np.maximum(1.0, ratio, out=ratio)


def quantile(values: Array, q: float) -> float:
    """The smallest value that the share `q` of all do not exceed: a value that was measured, not one between.

    With n values it is number ceil(q n) of them in order, so the 99.9th percentile of fewer than 1000 is
    their largest.
    """
    return _of_ordered(np.sort(values), q)


def _of_ordered(values: Array, q: float) -> float:
    return float(values[max(0, int(np.ceil(q * len(values) - 1e-9)) - 1)])


def table(
    sizes: npt.NDArray[np.int64],
    fct_ps: npt.NDArray[np.int64],
    ideal_fct_ps: npt.NDArray[np.int64],
    *,
    edges: Sequence[int] | None = None,
    buckets: int = BUCKET_COUNT,
) -> list[Bucket]:
    """Slowdown by size.

    Args:
        sizes: Bytes of each flow that is done.
        fct_ps: Its completion time; any unit, the same as the ideal one's.
        ideal_fct_ps: Its completion time in an empty network.
        edges: Upper sizes of the buckets, rising; larger flows make one more. None: as many flows in each.
        buckets: How many, without edges. Flows of one size are never parted, so there may be fewer.
    """
    slowdown, ordered = Finished(sizes, fct_ps, ideal_fct_ps).slowdown, sizes
    if np.any(sizes[1:] < sizes[:-1]):
        order = np.argsort(sizes, kind="stable")
        slowdown, ordered = slowdown[order], sizes[order]
    if edges is None:
        wanted = (len(ordered) * np.arange(1, buckets) / buckets).astype(np.int64)
        tops = [int(ordered[i - 1]) for i in wanted if i > 0]
        tops = sorted({*tops, *(int(size) for size in ordered[-1:])})
        lows: list[int] = []
    else:
        tops = sorted({*edges, *(int(size) for size in ordered[-1:] if size > max(edges, default=0))})
        lows = [1, *(top + 1 for top in tops)]
    cuts = [0, *np.searchsorted(ordered, tops, side="right").tolist()]
    found = []
    for number, (first, last) in enumerate(itertools.pairwise(cuts)):
        low = lows[number] if lows else int(ordered[first])
        found.append(_bucket(low, tops[number], slowdown[first:last]))
    return found


def _bucket(low: int, high: int, slowdown: Array) -> Bucket:
    """Of slowdowns, which are in order afterwards."""
    if not len(slowdown):
        return Bucket(low, high, 0, None, None, None, None, None)
    mean = float(slowdown.mean())
    slowdown.sort()
    return Bucket(low, high, len(slowdown), mean, *(_of_ordered(slowdown, q) for q in QUANTILES))


def finished(result: Recorded, item: str | None = None) -> Finished:
    """The flows of a run that are done and have one message; `item` keeps those of one traffic item."""
    flows = result.flows
    if "fct_ps" not in flows.column_names:
        nothing = np.zeros(0, dtype=np.int64)
        return Finished(nothing, nothing, nothing)
    keep = pc.and_(pc.is_valid(flows.column("fct_ps")), pc.is_valid(flows.column("ideal_fct_ps")))
    if item is not None:
        keep = pc.and_(keep, pc.equal(flows.column("item"), item))
    columns = ["message_bytes", "messages_completed", "fct_ps", "ideal_fct_ps"]
    done = flows.select(columns)
    if not pc.all(keep).as_py():
        done = pc.filter(done, keep)
    # A flow of several messages has the bytes of all.
    sizes = pc.multiply(done.column("message_bytes"), done.column("messages_completed"))
    found = (sizes, done.column("fct_ps"), done.column("ideal_fct_ps"))
    return Finished(*(np.asarray(column.to_numpy(), dtype=np.int64) for column in found))


def _unfinished(result: Recorded) -> pa.Table:
    """The single messages that are not done."""
    flows = result.flows
    if "ideal_fct_ps" not in flows.column_names:
        return flows.slice(0, 0)
    # Filtering takes as long as what it keeps has columns.
    flows = flows.select(["src", "dst", "message_bytes", "state", "ideal_fct_ps"])
    single = pc.is_valid(flows.column("ideal_fct_ps"))
    return pc.filter(flows, pc.and_(single, pc.not_equal(flows.column("state"), "done")))


def unfinished(result: Recorded) -> dict[str, int]:
    """How many single messages are not done at the end, by their state: waiting, running, error."""
    states = pc.value_counts(_unfinished(result).column("state")).to_pylist()
    return {one["values"]: one["counts"] for one in states}


def counts_by_item(result: Recorded) -> dict[str, dict[str, int]]:
    """How many single messages of each traffic item are finished, cut off by the run's end, and failed."""
    flows = result.flows
    if "ideal_fct_ps" not in flows.column_names:
        return {}
    flows = flows.select(["item", "state", "ideal_fct_ps"])
    flows = pc.filter(flows, pc.is_valid(flows.column("ideal_fct_ps")))
    found: dict[str, dict[str, int]] = {}
    for item in pc.unique(flows.column("item")).to_pylist():
        states = pc.filter(flows, pc.equal(flows.column("item"), item)).column("state")
        counts = {one["values"]: one["counts"] for one in pc.value_counts(states).to_pylist()}
        done, failed = counts.pop("done", 0), counts.pop(FAILED_STATE, 0)
        found[item] = {"finished": done, "cut_off": sum(counts.values()), "failed": failed}
    return dict(sorted(found.items(), key=lambda one: text.natural(one[0])))


def _first_unfinished(result: Recorded, most: int = 3) -> list[str]:
    """Names of the first few messages that are not done: `h3 to h7 (30 MB)`."""
    left = _unfinished(result).slice(0, most)
    return [
        f"{row['src']} to {row['dst']} ({text.size(row['message_bytes'])})"
        for row in left.select(["src", "dst", "message_bytes"]).to_pylist()
    ]


@part("fct")
def _fct(result: Recorded) -> dict[str, Any] | None:
    """FCT and slowdown for summary.json: all flows, by size, and by traffic item; None without flows."""
    done = finished(result)
    left = unfinished(result)
    if not len(done.sizes) and not left:
        return None
    names = result.setup.listed_items
    return {
        "finished": len(done.sizes),
        "unfinished": left,
        "cut_off": sum(count for state, count in left.items() if state != FAILED_STATE),
        "counts_by_item": counts_by_item(result),
        "unfinished_first": _first_unfinished(result),
        "all": _all(done),
        "by_size": [asdict(bucket) for bucket in _table(done)],
        "by_item": {name: _all(finished(result, name)) for name in names} if len(names) > 1 else {},
    }


def _table(done: Finished) -> list[Bucket]:
    return table(done.sizes, done.fct_ps, done.ideal_fct_ps) if len(done.sizes) else []


def _all(done: Finished) -> dict[str, Any] | None:
    if not len(done.sizes):
        return None
    low, high = int(done.sizes.min()), int(done.sizes.max())
    slowdown = asdict(_bucket(low, high, done.slowdown))
    fct = done.fct_ps / 1e12
    mean = float(fct.mean())
    fct.sort()
    names = zip(("p50", "p95", "p99", "p999"), QUANTILES, strict=True)
    quantiles = {name: _of_ordered(fct, q) for name, q in names}
    return {"slowdown": slowdown, "fct_s": {"mean": mean, **quantiles, "max": float(fct[-1])}}


metric_at(
    "fct.all.slowdown.p50",
    "index",
    about="Median of completion time over that in an empty network.",
    title="Median slowdown",
)
metric_at("fct.all.slowdown.p95", "index", about="95th percentile of the slowdown.")
metric_at("fct.all.slowdown.p99", "index", about="99th percentile of the slowdown.", title="p99 slowdown")
metric_at(
    "fct.all.slowdown.p999", "index", about="99.9th percentile of the slowdown.", title="p99.9 slowdown"
)
metric_at("fct.finished", "count", about="Single messages that are finished.", title="Flows done")
FLOWS_CUT_OFF = metric_at(
    "fct.cut_off", "count", about="Single messages that the end of the run cut off.", title="Flows cut off"
)
"""Where there are any, metrics of completion are of the other flows."""


@finding(50)
def completion_finding(result: Recorded) -> list[Finding]:
    """Slowdown of the flows that are done, unless all are in jobs, of which the last one counts; and how many are
    not.
    """
    summary = summarise(result)
    fct, end_s = summary["fct"], summary["simulated_s"]
    if fct is None:
        return []
    in_jobs = sum(job["messages"] - job["left"] for job in summary["jobs"])
    found = []
    if fct["all"] is not None and fct["finished"] > in_jobs:
        slowdown, times = fct["all"]["slowdown"], fct["all"]["fct_s"]
        words = (
            f"is the median slowdown of {text.plural(fct['finished'], 'flow')}, completion time over that in "
            f"an empty network; 95th percentile {text.significant(slowdown['p95'])}, 99th "
            f"{text.significant(slowdown['p99'])}, 99.9th {text.significant(slowdown['p999'])}, mean "
            f"{text.significant(slowdown['mean'])}. Completion times: mean {text.duration(times['mean'])}, "
            f"median {text.duration(times['p50'])}, 99th percentile {text.duration(times['p99'])}, longest "
            f"{text.duration(times['max'])}."
        )
        found.append(Finding("Slowdown", text.significant(slowdown["p50"]), words))
    if fct["unfinished"]:
        left = sum(fct["unfinished"].values())
        states = {"waiting": "not started", "running": "under way", "error": "failed"}
        parts = [f"{text.count(n)} {states[state]}" for state, n in sorted(fct["unfinished"].items())]
        cut, failed = fct["cut_off"], left - fct["cut_off"]
        told = []
        if cut:
            told.append(
                f"{text.count(cut)} {text.verb(cut, 'was', 'were')} cut off at {text.duration(end_s)}"
            )
        if failed:
            told.append(f"{text.count(failed)} failed")
        words = f"{text.noun(fct['finished'] + left, 'flow')} finished; {' and '.join(told)} ({', '.join(parts)})."
        if cut and fct["finished"]:
            words += " Slowdowns and percentiles are of what finished, so they may be too low."
        names = ", ".join(fct["unfinished_first"])
        words += f" {'The first not done' if left > 1 else 'Not done'}: {names}."
        of = f"{text.count(fct['finished'])} of {text.count(fct['finished'] + left)}"
        found.append(Finding("Completion", of, words, "warning"))
    return found
