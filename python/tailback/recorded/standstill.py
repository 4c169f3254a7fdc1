"""When a run stood still: traffic had bytes to send or outstanding, and nothing of it moved."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from tailback import text
from tailback.recorded.bins import PS_PER_S, Bins
from tailback.recorded.setup import Setup
from tailback.recorded.signals import PFC_PAUSE, SignalLog

LEAST_SHARE = 0.1
"""Of the run: shorter gaps are not told."""
LEAST_FLIGHTS = 20
"""Of the longest delay of a link: bytes that are on their way for so long are not standing still."""
TRICKLE = 1e-3
"""Of all receivers' line rate: fewer bytes than this on the wire are timeouts that try again."""
LONGEST_PAUSE_BITS = 65_535 * 512
"""What a link carries in the longest pause that a frame can ask for (IEEE 802.1Qbb)."""
LEAST_PAUSES = 3
"""Of the longest: who is paused for less waits for a receiver that is slow, and is not stuck."""
PAUSED = 0.999
"""Share of a bin from which a queue was paused for all of it."""
MOST_NAMED = 3

KIND = "standing_still"
Mask = npt.NDArray[np.bool_]


class _Run(Protocol):
    """What of a run is looked at."""

    flows: Any
    meta: dict[str, Any]
    setup: Setup

    @property
    def bins(self) -> Bins:
        """Its series."""

    @property
    def signal_log(self) -> SignalLog:
        """Its signals."""


class _Gap(NamedTuple):
    begin_s: float
    end_s: float


def standing_still(result: _Run) -> list[dict[str, Any]]:
    """A fault where the run, or a sender that was paused, stood still for a tenth of the run or longer.

    The longest gap is told. A run that ended in a deadlock has a fault of its own, which says as much.
    """
    if not result.flows.num_rows or "lab" in result.meta or "start_ps" not in result.flows.column_names:
        return []
    if any(fault["kind"] == "deadlock" for fault in result.meta["faults"]):
        return []
    bins = result.bins
    slowest_bps = min(result.meta["line_rate_bps"].values(), default=1e9)
    least_s = max(
        LEAST_SHARE * bins.end_s,
        LEAST_FLIGHTS * _longest_delay_s(result),
        LEAST_PAUSES * LONGEST_PAUSE_BITS / slowest_bps,
    )
    if not bins.has_any("goodput_rx_bps"):
        return []
    line = sum(result.meta["line_rate_bps"].values())
    still = (bins.total("goodput_rx_bps") == 0) & (bins.total("wire_rx_bps") <= TRICKLE * line)
    gap = _longest(result, still & _outstanding(result, None, None), least_s)
    if gap is not None:
        queue = _paused_in(result, gap)
        if queue is not None or gap.end_s - gap.begin_s >= _longest_pacing_s(result):
            return [_fault(result, gap, None, None, queue)]
    found = []
    for queue in bins.entities("paused_share", kind="send"):
        paused = result.signal_log.values(queue, PFC_PAUSE) >= PAUSED
        if not paused.sum() * bins.bin_s >= least_s - bins.bin_s:
            continue
        node, priority = bins.entity(queue).node, int(queue.rpartition("/sq")[2])
        if node is None:
            continue
        # What it sent before may still be delivered, slowly.
        paused &= bins.values(node, "goodput_tx_bps") == 0
        gap = _longest(result, paused & _outstanding(result, node, priority), least_s)
        if gap is not None:
            found.append((gap.begin_s - gap.end_s, queue, node, priority, gap))
    if not found:
        return []
    _, queue, node, priority, gap = min(found, key=lambda one: one[:2])
    return [_fault(result, gap, node, priority, queue)]


def _longest_delay_s(result: _Run) -> float:
    return max((wire.delay for wire in result.setup.network.wires), default=0) / PS_PER_S


def _longest_pacing_s(result: _Run) -> float:
    """Time between two packets of a queue pair at the lowest rate that DCQCN sets: with few of them, all may
    wait for so long.
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
    """RoCE flows that have begun and have something to send until they end, of a sender and priority or all.

    Ranks of a job compute between messages, and TCP may wait for a timeout: neither is stuck then.
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


def _outstanding(result: _Run, node: str | None, priority: int | None) -> Mask:
    """Bins through all of which a flow had begun and not ended."""
    bins = result.bins
    start, end = _times(result, _flows(result, node, priority))
    first = np.searchsorted(bins.start_s, start - 1e-15)
    last = np.searchsorted(bins.start_s + bins.width_s, end + 1e-15, side="right")
    first, last = np.minimum(first, bins.count), np.maximum(last, np.minimum(first, bins.count))
    count = np.zeros(bins.count + 1, dtype=np.int64)
    np.add.at(count, first, 1)
    np.add.at(count, last, -1)
    return np.asarray(np.cumsum(count)[:-1] > 0)


def _longest(result: _Run, still: Mask, least_s: float) -> _Gap | None:
    """The longest time of bins that follow each other, if it is long enough."""
    bins = result.bins
    edges = np.flatnonzero(np.diff(np.concatenate(([False], still, [False])).astype(np.int8)))
    gaps = [
        _Gap(float(bins.start_s[first]), float(bins.start_s[last - 1] + bins.width_s[last - 1]))
        for first, last in zip(edges[::2], edges[1::2], strict=True)
    ]
    gap = max(gaps, key=lambda one: one.end_s - one.begin_s, default=None)
    return gap if gap is not None and gap.end_s - gap.begin_s >= least_s * (1 - 1e-9) else None


def _paused_in(result: _Run, gap: _Gap) -> str | None:
    """The queue that was paused for most of a gap: of several the one nearest to a receiver."""
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
    few = flows.take(there[:MOST_NAMED]).select(["src", "dst"]).to_pylist()
    named = ", ".join(dict.fromkeys(f"{row['src']} to {row['dst']}" for row in few))
    more = f" and {text.count(len(there) - MOST_NAMED)} more" if len(there) > MOST_NAMED else ""
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
        "kind": KIND,
        "where": queue or (f"{few[0]['src']} to {few[0]['dst']}" if few else ""),
        "node": (place.node if place else None) or "",
        "peer": (place.peer if place else None) or "",
        "text": words,
        "from_s": gap.begin_s,
        "to_s": gap.end_s,
        "flows": len(there),
    }
