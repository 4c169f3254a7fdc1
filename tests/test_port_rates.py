"""The rate of a switch's port over time, by class."""

from __future__ import annotations

import pytest
import tailback
from tailback.explain.observed import Observed
from tailback.scenario import loads
from tailback.wire import PREAMBLE_AND_GAP_BYTES

PHASES = """
name: phases
run: {duration: 3ms}
topology: {kind: leaf-spine, leaves: 2, spines: 2, hosts_per_leaf: 4}
traffic:
  - {kind: write, from: h0..h1, to: h4, message: 64KB, depth: 2, stop: 1ms}
  - {kind: write, from: h0..h1, to: h2, start: 1ms}
"""


@pytest.fixture(scope="module")
def phases() -> tailback.Result:
    return tailback.run(loads(PHASES), report=False)


def test_a_series_holds_all_bytes_that_its_queue_sent(phases: tailback.Result) -> None:
    sent = {
        (row["node"], row["port"], row["counter"]): row["value"]
        for row in phases.counters.to_pylist()
        if row["counter"].startswith("tx_prio")
    }
    names = phases.bins.entities("wire_tx_bps", kind="egress")
    assert len(names) > 8
    for name in names:
        queue = phases.bins.entity(name)
        port, _, priority = name.rpartition("/tc")
        packets, size = (
            sent.get((queue.node, port, f"tx_prio{priority}_{what}"), 0) for what in ("packets", "bytes")
        )
        by_series = (phases.bins.values(name, "wire_tx_bps") * phases.bins.width_s).sum() / 8
        assert by_series == pytest.approx(size + PREAMBLE_AND_GAP_BYTES * packets), name


def test_a_port_that_is_idle_in_a_part_of_the_run_is_idle_there(phases: tailback.Result) -> None:
    seen = Observed(phases)
    up = [("leaf0", "spine0"), ("leaf0", "spine1")]
    seen.__dict__["span"] = (0.0, 0.001)
    assert sum(map(seen.wire_share, up)) > 0.5
    seen.__dict__["span"] = (0.0015, 0.003)
    assert [seen.wire_share(port) for port in up] == [0.0, 0.0]
