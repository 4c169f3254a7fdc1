"""The outcome of a run by which changes are compared: work done over time, completion times, latency, and the
goodput of the slowest sender.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailback import text
from tailback.explain.remedy import Remedy
from tailback.recorded.bins import PS_PER_S, Bins

THROUGHPUT, COMPLETION, LATENCY, FAIRNESS = "throughput", "completion", "latency", "fairness"
ALL_GOALS = (THROUGHPUT, COMPLETION, LATENCY, FAIRNESS)
COMPARED_WORK_SHARE = 0.95
"""Part of what the run delivered whose time is compared: the last part may be one message."""
SMALL_BYTES = 100_000
"""Messages up to this size are what latency means where no item measures it."""


@dataclass(frozen=True)
class Delivered:
    """Payload that all receivers had over time."""

    edges_s: Any
    bytes: Any
    whole: float = 0.0
    """Bytes to deliver, where that is known and some were not delivered."""

    @classmethod
    def of(cls, bins: Bins) -> Delivered:
        """Of a run's time series."""
        edges = np.concatenate([bins.start_s[:1], bins.start_s + bins.width_s])
        taken = np.cumsum(bins.total("goodput_rx_bps") * bins.width_s / 8)
        return cls(edges, np.concatenate([[0.0], taken]))

    def same(self, other: Delivered, in_part: bool = False) -> bool:
        """True if the other run delivered the same at the same times; `in_part`: as far as it went."""
        if in_part:
            count = len(other.bytes) - 1  # its last bin is not full
            return len(self.bytes) > count and np.array_equal(self.bytes[:count], other.bytes[:count])
        return np.array_equal(self.edges_s, other.edges_s) and np.array_equal(self.bytes, other.bytes)

    def time(self, size: float) -> float:
        """When `size` bytes were delivered, in seconds; extrapolated where they were not."""
        total = float(self.bytes[-1])
        if size > total:
            return float(self.edges_s[-1]) * size / total if total else float("inf")
        return float(np.interp(size, self.bytes, self.edges_s))

    def gain(self, other: Delivered) -> float:
        """How much sooner the other run has done this one's work, as a share."""
        size = COMPARED_WORK_SHARE * max(float(self.bytes[-1]), self.whole)
        if not self.bytes[-1]:
            return 1.0 if other.bytes[-1] else 0.0
        first = self.time(0.02 * size)
        begin = 0.0 if first < 0.5 * self.time(size) else first
        return (self.time(size) - begin) / max(1e-12, other.time(size) - begin) - 1


_FLOW_COLUMNS = (
    "item",
    "src",
    "dst",
    "start_ps",
    "end_ps",
    "message_bytes",
    "bytes_delivered",
    "ideal_fct_ps",
)


@dataclass(frozen=True)
class Outcome:
    """The outcome of one run."""

    delivered: Delivered
    flows: pa.Table
    latency: Sequence[dict[str, Any]]
    end_s: float

    @classmethod
    def of(cls, flows: pa.Table, bins: Bins, meta: dict[str, Any]) -> Outcome:
        """Of what was recorded."""
        return cls(
            Delivered.of(bins),
            flows.select([name for name in _FLOW_COLUMNS if name in flows.column_names]),
            meta.get("latency") or [],
            meta["end_ps"] / PS_PER_S,
        )

    def value(self, goal: str, about: str | None = None) -> float | None:
        """Goodput (bit/s) or p99 (seconds) of the flows of an item or a node, or of all. None
        where nothing of the run says.
        """
        if goal == LATENCY:
            measured = [
                one["p99_ps"] / PS_PER_S
                for one in self.latency
                if one["iterations"] and about in (None, one["item"], one["src"], one["dst"])
            ]
            if measured:
                return float(max(measured))
        flows = self._of(about)
        if goal == THROUGHPUT:
            if not flows.num_rows:
                return None
            return float(pc.sum(flows.column("bytes_delivered")).as_py() or 0) * 8 / self.end_s
        single = "ideal_fct_ps" in flows.column_names
        if goal == FAIRNESS:
            endless = pc.filter(flows, pc.is_null(flows.column("ideal_fct_ps"))) if single else flows
            if endless.num_rows < 2:
                return None
            summed = endless.group_by(["item", "src"], use_threads=False).aggregate(
                [("bytes_delivered", "sum")]
            )
            got = summed.column("bytes_delivered_sum").to_numpy()
            return float(got.min()) * 8 / self.end_s if len(got) > 1 else None
        if not single:
            return None
        counts = pc.and_(pc.is_valid(flows.column("ideal_fct_ps")), pc.is_valid(flows.column("start_ps")))
        if goal == LATENCY:
            counts = pc.and_(counts, pc.less_equal(flows.column("message_bytes"), SMALL_BYTES))
        flows = pc.filter(flows, counts)
        if not flows.num_rows:
            return None
        start = flows.column("start_ps").cast("int64").to_numpy() / PS_PER_S
        end = pc.fill_null(flows.column("end_ps"), int(self.end_s * PS_PER_S)).to_numpy() / PS_PER_S
        return float(np.percentile(end - start, 99))

    def _of(self, about: str | None) -> pa.Table:
        if about is None:
            return self.flows
        wanted = [pc.equal(self.flows.column(name), about) for name in ("item", "src", "dst")]
        return pc.filter(self.flows, pc.or_(pc.or_(wanted[0], wanted[1]), wanted[2]))

    def gain(self, other: Outcome, goal: str, about: str | None = None) -> float | None:
        """How much better the other run is for a goal, as a share; None where it cannot be told."""
        if goal == THROUGHPUT and about is None:
            return self.delivered.gain(other.delivered)
        before, after = self.value(goal, about), other.value(goal, about)
        if before is None or after is None:
            return None
        if goal in (COMPLETION, LATENCY):
            before, after = after, before
        return after / before - 1 if before else (1.0 if after else 0.0)


def shown(goal: str, value: float) -> str:
    """A value of a goal with its unit."""
    return text.duration(value) if goal in (COMPLETION, LATENCY) else text.rate(value)


class Trial(NamedTuple):
    """A change, and what the run with it gave."""

    remedy: Remedy
    outcome: Outcome


class Asked(NamedTuple):
    """The effect of a change on the goal."""

    remedy: Remedy
    goal: str
    about: str | None
    before: float
    after: float
    gain: float
    end_s: float
    """Both are of the time from 0 to this."""

    @property
    def means(self) -> str:
        """What is compared, and over which time: findings of a run are mostly of its steady part."""
        return f"{GOAL_MEANING[self.goal]} from 0 to {text.duration(self.end_s)}"


GOAL_MEANING = {
    THROUGHPUT: "payload delivered per second",
    COMPLETION: "completion time of messages, p99",
    LATENCY: "latency of small messages, p99",
    FAIRNESS: "goodput of the slowest sender",
}
