"""How long single messages took: completion times, and slowdowns against an empty network.

Percentiles are those of the HPCC artifact's analysis/fct_analysis.py: of n sorted values, the one at place
floor(n * p). A slowdown below 1 counts as 1 there, too: an ideal time is a formula, which rounding can beat.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc

from tailback.bins import PS_PER_S, Array

if TYPE_CHECKING:
    from tailback.results import Result

PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p99_9": 0.999}


def spread(values: Array) -> dict[str, float]:
    """Mean and percentiles of at least one value."""
    ordered = np.sort(values)
    places = {name: min(int(len(ordered) * p), len(ordered) - 1) for name, p in PERCENTILES.items()}
    return {"mean": float(ordered.mean()), **{name: float(ordered[at]) for name, at in places.items()}}


def completion(result: Result) -> dict[str, Any] | None:
    """Flows that are one message each: how many started and finished, their times (s) and slowdowns.

    None where there is no such flow.
    """
    flows = result.flows
    if "ideal_fct_ps" not in flows.column_names:
        return None
    single = flows.filter(pc.is_valid(flows.column("ideal_fct_ps")))
    if not single.num_rows:
        return None
    done = single.filter(pc.is_valid(single.column("fct_ps")))
    fct, ideal = (done.column(name).to_numpy().astype(float) for name in ("fct_ps", "ideal_fct_ps"))
    return {
        "flows": single.num_rows,
        "not_started": single.column("start_ps").null_count,
        "finished": done.num_rows,
        "fct_s": spread(fct / PS_PER_S) if len(fct) else None,
        "slowdown": spread(np.maximum(fct / np.maximum(ideal, 1), 1)) if len(fct) else None,
    }
