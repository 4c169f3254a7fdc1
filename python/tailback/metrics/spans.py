"""The spans of a run that metrics are about, and when it had become steady."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailback.metrics.metric import NAN, metric, part
from tailback.recorded.bins import PS_PER_S, Array
from tailback.recorded.run import Recorded, cached_by_result

Since = str | float
SETTLING_S = 0.1
"""Time after the last flow's start before a run counts as settled: a tenth of the one-second
samples that published measurements are mostly given in.
"""

STEADY_WINDOW_S = 0.01
"""Window over which a total is averaged before it is called steady; less than two of these decide nothing."""


def since_s(result: Recorded, since: Since) -> float:
    """The beginning of a measured span in seconds; NaN when the run never got there."""
    if isinstance(since, (int, float)):
        return float(since)
    since = resolved(result, since)
    if since == "start":
        return 0.0
    if since == "all_started":
        return last_start(result)
    if since == "settled":
        return last_start(result) + SETTLING_S
    if since == "convergence":
        return convergence_time(result)
    raise ValueError(
        f"since is {since!r}; expected a number of seconds, start, all_started, settled, convergence or steady"
    )


def resolved(result: Recorded, since: Since) -> Since:
    """`steady` as the span that it stands for: since the convergence, or the whole run where there was none."""
    if since != "steady":
        return since
    return "convergence" if math.isfinite(convergence_time(result)) else "start"


@part("steady_since_s")
def _steady_since(result: Recorded) -> float:
    """Where the goodput and fairness figures begin: 0 when the run never became steady."""
    return since_s(result, "steady")


@metric("s")
@cached_by_result
def last_start(result: Recorded) -> float:
    """When the last flow started."""
    last = pc.max(_lasting(result).column("start_ps")).as_py()
    return NAN if last is None else float(last / PS_PER_S)


@cached_by_result
def first_end(result: Recorded) -> float:
    """When the first flow was done, in seconds; the end of the run if none was. A failed flow is not done."""
    flows = _lasting(result)
    first = pc.min(pc.filter(flows.column("end_ps"), pc.equal(flows.column("state"), "done"))).as_py()
    return float(result.bins.end_s if first is None else min(first / PS_PER_S, result.bins.end_s))


def _lasting(result: Recorded) -> Any:
    """The flows that a steady state can be one of: writers', or all flows where there are no writers.

    Connections that come and go are left out where others stay.
    """
    flows = result.flows
    passing = pa.array([name for name, stays in _writers(result).items() if not stays], pa.string())
    if len(passing) and any(_writers(result).values()):
        flows = pc.filter(flows, pc.invert(pc.is_in(flows.column("item"), passing)))
    if not result.setup.writer_qps or "ideal_fct_ps" not in flows.column_names:
        return flows
    return pc.filter(flows, pc.is_null(flows.column("ideal_fct_ps")))


def _writers(result: Recorded) -> dict[str, bool]:
    """The traffic items with writers, and whether their connections stay."""
    return {
        str(writer["item"]): not writer.get("passing") and not writer.get("partner")
        for writer in result.plan.get("writers", [])
    }


def span(result: Recorded, since: Since) -> tuple[float, float]:
    """Begin and end of what is measured, in seconds; NaN twice when there is nothing."""
    since = resolved(result, since)
    begin, end = since_s(result, since), first_end(result)
    if since == "start":  # everything that was sent, flows that ended included
        end = result.bins.end_s
    return (begin, end) if begin < end else (NAN, NAN)


@metric("s", "convergence_s")
@cached_by_result
def convergence_time(result: Recorded, window_s: float = STEADY_WINDOW_S, tolerance: float = 0.05) -> float:
    """When the total goodput became steady: from here on every `window_s` mean is within `tolerance` of the
    median.

    The median is that of the windows in the second half of the span between the start of the last flow and
    the end of the first; the time is never before the start of the last flow. NaN when the last window is
    outside, or when there are fewer than two windows.
    """
    begin, end = span(result, "all_started")
    if begin != begin:
        return NAN
    means = result.bins.windows(result.bins.total("goodput_rx_bps"), window_s, begin, end)
    if len(means) < 2:
        return NAN
    level = _median(means[len(means) // 2 :])
    outside = np.flatnonzero(np.abs(means - level) > tolerance * level)
    first_inside = int(outside[-1]) + 1 if len(outside) else 0
    if first_inside >= len(means):
        return NAN
    return begin + first_inside * max(window_s, result.bins.bin_s)


def _median(values: Array) -> float:
    """As `np.median`, which loads masked arrays to ask whether these are some."""
    ordered, half = np.sort(values), len(values) // 2
    return float(ordered[half] if len(values) % 2 else (ordered[half - 1] + ordered[half]) / 2)
