"""Standstill: intervals in which flows had bytes to send or outstanding, and none were delivered."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from tailback import text
from tailback.recorded.bins import PS_PER_S, Bins
from tailback.recorded.setup import Setup
from tailback.recorded.signals import PFC_PAUSE, SignalLog

MIN_SHARE_OF_RUN = 0.1
"""Shorter gaps are not reported."""
MIN_LINK_DELAYS = 20
"""Multiples of the longest link delay: in shorter gaps bytes may just be in flight."""
MAX_IDLE_WIRE_SHARE = 1e-3
"""Share of all receivers' line rate. Less traffic on the wire is only retransmissions after timeouts."""
MAX_PAUSE_BITS = 65_535 * 512
"""The longest pause of a frame, in bit times (IEEE 802.1Qbb)."""
MIN_PAUSES = 3
"""Multiples of the longest pause: a sender that is paused for less waits for a slow receiver."""
MIN_PAUSED_SHARE = 0.999
"""Share of a bin from which a queue counts as paused for the whole bin."""
MAX_NAMED_FLOWS = 3

STANDING_STILL = "standing_still"
BinMask = npt.NDArray[np.bool_]


class _Run(Protocol):
    """The parts of a run that are needed here."""

    flows: Any
    meta: dict[str, Any]
    setup: Setup

    @property
    def bins(self) -> Bins: ...

    @property
    def signal_log(self) -> SignalLog: ...


class _Gap(NamedTuple):
    begin_s: float
    end_s: float


def standing_still(result: _Run) -> list[dict[str, Any]]:
    """Returns a fault if the run, or a paused sender, stood still for a tenth of the run or longer.

    The fault describes the longest gap. A run that ended in a deadlock already has a fault.
    """
    if not result.flows.num_rows or "lab" in result.meta or "start_ps" not in result.flows.column_names:
        return []
    if any(fault["kind"] == "deadlock" for fault in result.meta["faults"]):
        return []
    bins = result.bins
    # A node without a link has no rate.
    slowest_bps = min(filter(None, result.meta["line_rate_bps"].values()), default=1e9)
    min_s = max(
        MIN_SHARE_OF_RUN * bins.end_s,
        MIN_LINK_DELAYS * _longest_delay_s(result),
        MIN_PAUSES * MAX_PAUSE_BITS / slowest_bps,
    )
    if not bins.has_any("goodput_rx_bps"):
        return []
    line = sum(result.meta["line_rate_bps"].values())
    still = (bins.total("goodput_rx_bps") == 0) & (bins.total("wire_rx_bps") <= MAX_IDLE_WIRE_SHARE * line)
    gap = _longest(result, still & _outstanding(result, None, None), min_s)
    if gap is not None:
        queue = _paused_in(result, gap)
        if queue is not None or gap.end_s - gap.begin_s >= _longest_pacing_s(result):
            return [_fault(result, gap, None, None, queue)]
    found = []
    for queue in bins.entities("paused_share", kind="send"):
        paused = result.signal_log.values(queue, PFC_PAUSE) >= MIN_PAUSED_SHARE
        if not paused.sum() * bins.bin_s >= min_s - bins.bin_s:
            continue
        node, priority = bins.entity(queue).node, int(queue.rpartition("/sq")[2])
        if node is None:
            continue
        # Data that it sent before may still be delivered slowly.
        paused &= bins.values(node, "goodput_tx_bps") == 0
        gap = _longest(result, paused & _outstanding(result, node, priority), min_s)
        if gap is not None:
            found.append((gap.begin_s - gap.end_s, queue, node, priority, gap))
    if not found:
        return []
    _, queue, node, priority, gap = min(found, key=lambda one: one[:2])
    return [_fault(result, gap, node, priority, queue)]


def _longest_delay_s(result: _Run) -> float:
    return max((wire.delay for wire in result.setup.network.wires), default=0) / PS_PER_S


def _longest_pacing_s(result: _Run) -> float:
    """Time between two packets of a queue pair at DCQCN's minimum rate: a few queue pairs may all wait that
    long.
    """
    return max(
        (
            nic["mtu"] * 8 / (control["dcqcn"]["rpg_min_rate"] * 1e6)
            for nic in result.setup.plan.get("nics", [])
            for control in nic["congestion"]
            if "dcqcn" in control
        ),
        default=0.0,
    )


def _flows(result: _Run, node: str | None, priority: int | None) -> Any:
    """RoCE flows that have begun, of one sender and priority or all; they have data to send until they end.

    Flows of jobs and TCP are left out: ranks compute between messages, and TCP may wait for a timeout.
    """
    flows = result.flows
    wanted = ("src", "dst", "item", "protocol", "priority", "start_ps", "end_ps")
    flows = flows.select([name for name in wanted if name in flows.column_names])
    kept = pc.is_valid(flows.column("start_ps"))
    if "protocol" in flows.column_names:
        kept = pc.and_(kept, pc.equal(flows.column("protocol"), "roce"))
    for job in result.meta.get("jobs", []):
        kept = pc.and_(kept, pc.not_equal(flows.column("item"), job["item"]))
    if node is not None:
        kept = pc.and_(kept, pc.equal(flows.column("src"), node))
        kept = pc.and_(kept, pc.equal(flows.column("priority"), priority))
    return pc.filter(flows, kept)


def _times(result: _Run, flows: Any) -> tuple[Any, Any]:
    start = flows.column("start_ps").cast("int64").to_numpy() / PS_PER_S
    end = pc.fill_null(flows.column("end_ps"), int(result.meta["end_ps"])).to_numpy() / PS_PER_S
    return start, end


def _outstanding(result: _Run, node: str | None, priority: int | None) -> BinMask:
    """Bins for whose whole length some flow was active."""
    bins = result.bins
    start, end = _times(result, _flows(result, node, priority))
    first = np.searchsorted(bins.start_s, start - 1e-15)
    last = np.searchsorted(bins.start_s + bins.width_s, end + 1e-15, side="right")
    first, last = np.minimum(first, bins.count), np.maximum(last, np.minimum(first, bins.count))
    count = np.zeros(bins.count + 1, dtype=np.int64)
    np.add.at(count, first, 1)
    np.add.at(count, last, -1)
    return np.asarray(np.cumsum(count)[:-1] > 0)


def _longest(result: _Run, still: BinMask, min_s: float) -> _Gap | None:
    """The longest sequence of adjacent bins, if it lasts at least `min_s`."""
    bins = result.bins
    edges = np.flatnonzero(np.diff(np.concatenate(([False], still, [False])).astype(np.int8)))
    gaps = [
        _Gap(float(bins.start_s[first]), float(bins.start_s[last - 1] + bins.width_s[last - 1]))
        for first, last in zip(edges[::2], edges[1::2], strict=True)
    ]
    gap = max(gaps, key=lambda one: one.end_s - one.begin_s, default=None)
    return gap if gap is not None and gap.end_s - gap.begin_s >= min_s * (1 - 1e-9) else None


def _paused_in(result: _Run, gap: _Gap) -> str | None:
    """The queue that was paused for the largest share of a gap; among equal ones, the one next to a receiver."""
    bins, hosts = result.bins, set(result.setup.network.hosts)
    best: tuple[float, bool, str] | None = None
    for queue in result.signal_log.queues(PFC_PAUSE):
        share = round(bins.mean(result.signal_log.values(queue, PFC_PAUSE), *gap), 3)
        peer = bins.entity(queue).peer if bins.has(queue, "paused_share") else None
        one = (share, peer in hosts, queue)
        if share >= 0.5 and (best is None or one[:2] > best[:2]):
            best = one
    return None if best is None else best[2]


def _fault(
    result: _Run, gap: _Gap, node: str | None, priority: int | None, queue: str | None
) -> dict[str, Any]:
    bins = result.bins
    flows = _flows(result, node, priority)
    start, end = _times(result, flows)
    there = np.flatnonzero((start < gap.end_s) & (end > gap.begin_s))
    few = flows.take(there[:MAX_NAMED_FLOWS]).select(["src", "dst"]).to_pylist()
    named = ", ".join(dict.fromkeys(f"{row['src']} to {row['dst']}" for row in few))
    more = f" and {text.count(len(there) - MAX_NAMED_FLOWS)} more" if len(there) > MAX_NAMED_FLOWS else ""
    lasted = gap.end_s - gap.begin_s
    when = (
        f"since {text.duration(gap.begin_s)}"
        if gap.end_s >= bins.end_s * (1 - 1e-9)
        else f"from {text.duration(gap.begin_s)} to {text.duration(gap.end_s)}"
    )
    words = (
        f"nothing {'' if node is None else f'of {node} in priority {priority} '}arrived {when}, "
        f"{text.share(lasted / bins.end_s)} of the run, although {text.plural(len(there), 'flow')} had bytes "
        f"to send or outstanding: {named}{more}"
    )
    place = None
    if queue is not None:
        share = bins.mean(result.signal_log.values(queue, PFC_PAUSE), *gap)
        words += f"; {queue} was paused for {text.share(share)} of that time"
        place = bins.entity(queue)
    return {
        "kind": STANDING_STILL,
        "where": queue or (f"{few[0]['src']} to {few[0]['dst']}" if few else ""),
        "node": (place.node if place else None) or "",
        "peer": (place.peer if place else None) or "",
        "text": words,
        "from_s": gap.begin_s,
        "to_s": gap.end_s,
        "flows": len(there),
    }
