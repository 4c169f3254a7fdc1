"""Writes docs/reference/hpcc-departures.md: what each difference from the HPCC simulator does to FCT.

The case is one of that simulator's own runs, which the tests repeat to the byte; it is run with several sets
of random numbers, so that chance can be told from what a difference does.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from tailback import text
from tailback._engine import HpccSimulation, Simulation
from tailback.hpcc.inputs import load_inputs
from tailback.hpcc.native import native_plan
from tailback.hpcc.plan import make_plan
from tailback.metrics import slowdown
from tailback.plan import plan_json

ROOT = Path(__file__).resolve().parent.parent
CASE = ROOT / "crates" / "compat" / "tests" / "data" / "hpcc" / "fatk4_16h_ws50_10ms" / "config.txt"
PAGE = ROOT / "docs" / "reference" / "hpcc-departures.md"
ROCE_OVERHEAD = 82
"""Ethernet 14, IPv4 20, UDP 8, BTH 12, ICRC 4, FCS 4, preamble 8, gap 12: see tailback.recorded.setup."""

RUNS = (1, 2, 3, 4)
"""Values of ns-3's RngRun, and seeds of Tailback's own models. 1 is that simulator's default."""

DEPARTURES: dict[str, dict[str, Any]] = {
    "as that simulator": {},
    "exact time: a transmission takes its picoseconds": {"exact_time": True},
    "at most one CNP in 4 µs for a queue pair": {"cnp_interval_ns": 4000},
    "a retransmission timer of 4 ms": {"retransmission_timeout_ns": 4_000_000},
    f"RoCEv2's overhead on the wire, {ROCE_OVERHEAD} B a packet": {"wire_overhead_bytes": ROCE_OVERHEAD},
}
ALL = "all four together"
NATIVE = "Tailback's own models, the same files"

TOP = """<!-- Made by tools/hpcc_departures.py: change it, not this file. -->
# What departures do

`tailback hpcc` behaves as that simulator does, also where hardware does not. This page shows what each
deliberate difference does to flow completion times (FCT), one at a time, and what Tailback's own models
make of the same files. The case is `fatk4_16h_ws50_10ms`: a fat tree with 16 hosts at 100 Gbit/s, {flows}
flows of the WebSearch distribution at half load, DCQCN.

Every row is run with {runs} sets of random numbers. A figure is the mean over these runs, with the least and
the most in brackets: a difference that is smaller than that span in the first row may be chance. The first
run of the first row is that simulator's `fct.txt`, to the byte. All figures are of the {common} flows that
finish in all runs. The slowdown sets the FCT against the same ideal time in every row, that simulator's own.
*Moved* is the median over the flows of how far the FCT is from that `fct.txt`, up or down, in the runs with
other random numbers.

"""
BOTTOM = """
What to read from it:

- **Chance moves single flows as much as most differences do.** With other random numbers, and nothing else
  changed, the FCT of the median flow moves by the last figure of the first row. Two programs agree flow by
  flow only if they draw the same numbers; models have to be compared by distributions.
- Overhead on the wire is load: RoCEv2 takes 34 B a data packet more than that simulator counts, 3 % (ACKs are
  left as they are). The mean FCT rises by more than that.
- Truncated times make links a little faster than their rate: 1048 B take 83 ns there, not 83.84.
- A CNP interval lets senders slow down less: long flows are faster, and short ones wait longer.
- The timer changes nothing here, because no packet is lost.
- The four together raise the slowdown by more than each alone.
- The last row changes everything at once: overhead, exact time, CNPs as packets of their own, packets of
  1024 B, PFC as the standard has it, timers. Its ECMP hash is another, so flows take other routes: they are
  moved the most, and the distribution is still close.
"""


def main() -> int:
    """Writes the page."""
    PAGE.write_text(render(), encoding="utf-8")
    return 0


def render() -> str:
    """The page."""
    inputs = load_inputs(CASE, beside=True)
    together = {key: value for one in DEPARTURES.values() for key, value in one.items()}
    plans = {
        name: [make_plan(inputs, departures) | {"rng": {"seed": 1, "run": run}} for run in RUNS]
        for name, departures in {**DEPARTURES, ALL: together}.items()
    }
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # the engine runs without the interpreter's lock
        rows = {name: list(pool.map(compat, of_row)) for name, of_row in plans.items()}
        rows[NATIVE] = list(pool.map(native, [_drawn(native_plan(inputs), run) for run in RUNS]))
    first = next(iter(rows.values()))[0]
    everything = [run["fct_ps"] for of_row in rows.values() for run in of_row]
    common = ~np.any(np.isnan(everything), axis=0)
    base, ideal = first["fct_ps"][common], first["ideal_fct_ps"][common]
    head = [
        "Run",
        "Mean FCT",
        "Median FCT",
        "99th percentile",
        "Mean slowdown",
        "Median",
        "99th percentile",
        "Moved",
    ]
    lines = [head, ["---"] + ["---:"] * (len(head) - 1)]
    for name, of_row in rows.items():
        times = [run["fct_ps"][common] for run in of_row]
        ratios = [np.maximum(1.0, fct / ideal) for fct in times]
        moved = float(np.mean([np.median(np.abs(fct / base - 1)) for fct in times[1:]]))
        cells = [span([figures(fct)[at] / 1e12 for fct in times], text.duration) for at in range(3)]
        cells += [span([figures(ratio)[at] for ratio in ratios], "{:.2f}".format) for at in range(3)]
        lines.append([name, *cells, text.share(moved)])
    table = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    top = TOP.format(flows=len(inputs.flows), common=int(common.sum()), runs=len(RUNS))
    return top + table + BOTTOM


def span(values: list[float], words: Callable[[float], str]) -> str:
    """`586 µs (552 µs to 596 µs)`."""
    return f"{words(float(np.mean(values)))} ({words(min(values))} to {words(max(values))})"


def figures(values: Any) -> tuple[float, float, float]:
    """Mean, median and 99th percentile."""
    return float(values.mean()), slowdown.quantile(values, 0.5), slowdown.quantile(values, 0.99)


def compat(plan: dict[str, Any]) -> dict[str, Any]:
    """Of each flow of the file: FCT, NaN where it did not finish, and ideal FCT, in ps."""
    return columns(drive(HpccSimulation(plan_json(plan))).recording)


def _drawn(plan: dict[str, Any], seed: int) -> dict[str, Any]:
    return plan | {"run": plan["run"] | {"seed": seed}}


def native(plan: dict[str, Any]) -> dict[str, Any]:
    """The same under Tailback's own models."""
    return columns(drive(Simulation(plan_json(plan))))


def drive(simulation: Any) -> Any:
    """Runs to the end."""
    while not simulation.advance(1_000_000).done:
        pass
    return simulation.finish()


def columns(recording: Any) -> dict[str, Any]:
    """The columns of the flow table that matter."""
    flows = pa.table(recording.flows)
    return {name: flows.column(name).to_numpy().astype(float) for name in ("fct_ps", "ideal_fct_ps")}


if __name__ == "__main__":
    sys.exit(main())
