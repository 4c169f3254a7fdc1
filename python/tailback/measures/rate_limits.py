"""Queue pairs whose packets waited by the lowest rate that DCQCN may set (`rpg_min_rate`)."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tailback.measures.registry import NAN, measure
from tailback.recorded.bins import PS_PER_S
from tailback.recorded.run import Recorded

Array = npt.NDArray[np.float64]

COLUMN = "min_rate_wait_ps"
"""In the flow table only where a queue pair waited so."""


class AtMinRate(NamedTuple):
    """What it came to; times in seconds."""

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
    """What a queue pair sent on average while it did not wait so."""
    delivered_bytes: float
    """By all of them."""


def at_min_rate(result: Recorded) -> AtMinRate | None:
    """None: no queue pair waited so."""
    flows = result.flows
    if COLUMN not in flows.column_names:
        return None
    column = partial(_numbers, result)
    waited, start, end = column(COLUMN), column("start_ps"), column("end_ps")
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


@measure("share")
def min_rate_share(result: Recorded) -> float:
    """Of the time of all queue pairs, what their packets waited by their controller's lowest rate.

    NaN where none started.
    """
    flows = result.flows
    start, end = _numbers(result, "start_ps"), _numbers(result, "end_ps")
    ran = float(np.nansum(np.where(np.isnan(end), result.bins.end_s * PS_PER_S, end) - start))
    if ran <= 0:
        return NAN
    return float(np.nansum(_numbers(result, COLUMN))) / ran if COLUMN in flows.column_names else 0.0


def _numbers(result: Recorded, name: str) -> Array:
    """A column of the flow table; NaN for null."""
    values = pc.cast(result.flows.column(name), pa.float64()).to_numpy(zero_copy_only=False)
    return np.asarray(values, dtype=np.float64)
