"""Queue pairs whose packets waited by the lowest rate that DCQCN may set (`rpg_min_rate`)."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tailback import text
from tailback.metrics.finding import Finding, finding
from tailback.metrics.links import capacity
from tailback.metrics.metric import NAN, metric, part, summarise
from tailback.recorded.bins import PS_PER_S
from tailback.recorded.run import Recorded

Array = npt.NDArray[np.float64]

WAIT_COLUMN = "min_rate_wait_ps"
"""In the flow table only where a queue pair waited so."""


class AtMinRate(NamedTuple):
    """Queue pairs that waited at the lowest rate; times in seconds."""

    queue_pairs: int
    of: int
    """All queue pairs that started."""
    from_s: float
    to_s: float
    waited_s: float
    """All of them together."""
    share: float
    """Of the time that those queue pairs ran."""
    longest_s: float
    """The most that one of them waited so."""
    longest_ran_s: float
    """How long that one ran."""
    others_s: float | None
    """The longest that a message took whose queue pair never waited so; none: there is no such message."""
    otherwise_bps: float
    """Mean rate of a queue pair while it did not wait at the lowest rate."""
    delivered_bytes: float
    """By all of them."""


def at_min_rate(result: Recorded) -> AtMinRate | None:
    """None: no queue pair waited so."""
    flows = result.flows
    if WAIT_COLUMN not in flows.column_names:
        return None
    column = partial(_numbers, result)
    waited, start, end = column(WAIT_COLUMN), column("start_ps"), column("end_ps")
    ran = np.where(np.isnan(end), result.bins.end_s * PS_PER_S, end) - start
    waits = waited > 0
    if not waits.any():
        return None
    delivered = float(np.nansum(column("bytes_delivered")))
    busy = max(float(np.nansum(ran)) - float(waited[waits].sum()), 1.0) / PS_PER_S
    most = int(np.nanargmax(waited))
    others = column("fct_ps")[~waits]
    longest = float(np.nanmax(others)) if np.isfinite(others).any() else None
    return AtMinRate(
        queue_pairs=int(waits.sum()),
        of=int(np.isfinite(start).sum()),
        from_s=float(np.nanmin(column("min_rate_from_ps"))) / PS_PER_S,
        to_s=float(np.nanmax(column("min_rate_to_ps"))) / PS_PER_S,
        waited_s=float(waited[waits].sum()) / PS_PER_S,
        share=float(waited[waits].sum() / max(ran[waits].sum(), 1.0)),
        longest_s=float(waited[most]) / PS_PER_S,
        longest_ran_s=float(ran[most]) / PS_PER_S,
        others_s=None if longest is None else longest / PS_PER_S,
        otherwise_bps=delivered * 8 / busy,
        delivered_bytes=delivered,
    )


@metric("share")
def min_rate_share(result: Recorded) -> float:
    """Of the time of all queue pairs, what their packets waited by their controller's lowest rate.

    NaN where none started.
    """
    flows = result.flows
    start, end = _numbers(result, "start_ps"), _numbers(result, "end_ps")
    ran = float(np.nansum(np.where(np.isnan(end), result.bins.end_s * PS_PER_S, end) - start))
    if ran <= 0:
        return NAN
    return float(np.nansum(_numbers(result, WAIT_COLUMN))) / ran if WAIT_COLUMN in flows.column_names else 0.0


def _numbers(result: Recorded, name: str) -> Array:
    """A column of the flow table; NaN for null."""
    values = pc.cast(result.flows.column(name), pa.float64()).to_numpy(zero_copy_only=False)
    return np.asarray(values, dtype=np.float64)


@part("at_min_rate")
def _at_min_rate(result: Recorded) -> dict[str, Any] | None:
    """`min_rate_bps`: the lowest rate that DCQCN may set, where all queue pairs have the same.

    `lost_bytes`: what they would have sent while they waited, at what a queue pair sends otherwise, as far as
    the hosts' links had room; 0 where that is less than ten times the lowest rate.
    """
    found = at_min_rate(result)
    if found is None:
        return None
    controls = (control for nic in result.plan["nics"] for control in nic["congestion"])
    lowest = {control["dcqcn"]["rpg_min_rate"] for control in controls if "dcqcn" in control}
    min_rate_bps = lowest.pop() * 1e6 if len(lowest) == 1 else None
    far_below = (min_rate_bps or 0.0) < found.otherwise_bps / 10
    lost = found.waited_s * found.otherwise_bps / 8 if far_below else 0.0
    room = max(0.0, capacity(result) * result.bins.end_s / 8 - found.delivered_bytes)
    return {"min_rate_bps": min_rate_bps, "lost_bytes": min(lost, room), **found._asdict()}


WORTH_TELLING = 0.01
WORTH_A_LOOK = 0.1
"""From these shares of what was sent on, what waiting at the lowest rate cost is a finding, and a warning."""


@finding(150)
def at_min_rate_finding(result: Recorded) -> list[Finding]:
    """Queue pairs that sat at the lowest rate: when, how long, and what that cost them."""
    summary = summarise(result)
    found = summary["at_min_rate"]
    if found is None or found["lost_bytes"] < WORTH_TELLING * found["delivered_bytes"]:
        return []
    rate = "the lowest rate" if found["min_rate_bps"] is None else text.rate(found["min_rate_bps"])
    words = (
        f"of the time of {text.count(found['queue_pairs'])} of {text.plural(found['of'], 'queue pair')} went "
        f"by with a packet that waited at rpg_min_rate ({rate}), between "
        f"{text.duration(found['from_s'])} and {text.duration(found['to_s'])}: "
        f"{text.duration(found['waited_s'])} in all; the worst one waited so for "
        f"{text.duration(found['longest_s'])} of the {text.duration(found['longest_ran_s'])} that it ran."
    )
    if found["others_s"] is not None:
        words += f" Messages that never waited so took {text.duration(found['others_s'])} at most."
    lost, delivered = found["lost_bytes"], found["delivered_bytes"]
    words += (
        f" At the {text.rate(found['otherwise_bps'])} that a queue pair sent at otherwise, "
        f"{text.size(lost)} more would have gone in that time, {text.share(lost / max(delivered, 1))} of "
        "what went."
    )
    costs = lost >= WORTH_A_LOOK * delivered
    if costs:
        words += " Try a higher rpg_min_rate."
    return [Finding("At the lowest rate", text.share(found["share"]), words, "warning" if costs else "plain")]
