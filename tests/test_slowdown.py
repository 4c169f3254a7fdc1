"""Slowdown of flows by size, against figures worked out by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import tailback
from hypothesis import given, settings
from hypothesis import strategies as st
from tailback.metrics import slowdown
from tailback.report.completion import completion, completion_table
from tailback.report.plots import per_sender
from tailback.scenario import loads


def ints(*values: int) -> slowdown.npt.NDArray[np.int64]:
    return np.array(values, dtype=np.int64)


def test_a_quantile_is_a_value_that_was_measured() -> None:
    values = np.array([5.0, 1.0, 4.0, 2.0, 3.0])
    assert [slowdown.quantile(values, q) for q in (0.2, 0.5, 0.6, 0.95, 1.0)] == [1, 3, 3, 5, 5]
    thousand = np.arange(1.0, 1001.0)
    assert [slowdown.quantile(thousand, q) for q in slowdown.QUANTILES] == [500, 950, 990, 999]


def test_deciles() -> None:
    sizes = np.arange(1, 101, dtype=np.int64)[::-1]
    rows = slowdown.table(sizes, sizes * 30, sizes * 10)
    assert [(row.low_bytes, row.high_bytes, row.count) for row in rows] == [
        (10 * i + 1, 10 * i + 10, 10) for i in range(10)
    ]
    assert {(row.mean, row.p50, row.p999) for row in rows} == {(3.0, 3.0, 3.0)}


def test_fixed_edges() -> None:
    rows = slowdown.table(
        ints(5, 100, 101, 5000), ints(10, 20, 40, 90), ints(10, 10, 10, 10), edges=[100, 1000]
    )
    assert [(row.low_bytes, row.high_bytes, row.count, row.mean) for row in rows] == [
        (1, 100, 2, 1.5),
        (101, 1000, 1, 4.0),
        (1001, 5000, 1, 9.0),
    ]
    empty = slowdown.table(ints(5), ints(10), ints(10), edges=[100, 1000])[1]
    assert (empty.count, empty.mean, empty.p999) == (0, None, None)


def test_no_flow_is_faster_than_an_empty_network() -> None:
    assert slowdown.table(ints(1), ints(9), ints(10))[0].mean == 1.0


def test_flows_of_one_size_are_not_parted() -> None:
    (row,) = slowdown.table(ints(*[7] * 50), ints(*[1] * 50), ints(*[1] * 50))
    assert (row.low_bytes, row.high_bytes, row.count) == (7, 7, 50)
    assert slowdown.table(ints(), ints(), ints()) == []


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(1, 1000), st.integers(1, 1000)), min_size=1))
@settings(deadline=None)
def test_buckets_hold_every_flow_once(flows: list[tuple[int, int, int]]) -> None:
    sizes, fct, ideal = (np.array(column, dtype=np.int64) for column in zip(*flows, strict=True))
    rows = slowdown.table(sizes, fct, ideal)
    assert sum(row.count for row in rows) == len(flows)
    assert len(rows) <= 10
    assert all(a.high_bytes < b.low_bytes for a, b in itertools.pairwise(rows))
    for row in rows:
        inside = (row.low_bytes <= sizes) & (sizes <= row.high_bytes)
        assert row.count == inside.sum()
        assert row.mean == pytest.approx(np.maximum(1, fct[inside] / ideal[inside]).mean())
        assert 1 <= (row.p50 or 0) <= (row.p95 or 0) <= (row.p99 or 0) <= (row.p999 or 0)


def test_flows_that_are_not_done_are_counted_and_named() -> None:
    data = {
        "name": "x",
        "run": {"duration": "50us"},
        "topology": {"kind": "star", "hosts": 3},
        "traffic": [
            {"kind": "flows", "list": ["h0 h1 10KB 0", "h1 h2 20MB 0", "h2 h1 1KB 1ms"]},
            {"kind": "write", "from": "h0", "to": "h2"},
        ],
    }
    fct = tailback.run(data).summary["fct"]
    assert (fct["finished"], fct["unfinished"]) == (1, {"running": 1, "waiting": 1})
    assert fct["unfinished_first"] == ["h1 to h2 (20 MB)", "h2 to h1 (1 KB)"]
    assert fct["all"]["slowdown"]["count"] == 1
    writers = tailback.run({**data, "traffic": data["traffic"][1:]}).summary  # type: ignore[index]
    assert writers["fct"] is None


def test_messages_of_one_job_have_times_and_no_slowdown_by_size() -> None:
    result = tailback.run(
        {
            "name": "x",
            "run": {"duration": "1ms"},
            "topology": {"kind": "star", "hosts": 4},
            "traffic": [{"kind": "all-to-all", "message": "256KB"}],
        }
    )
    assert completion_table(result).rows == []  # its time and bandwidths say more
    plot = completion(result)[0]
    assert plot.caption.startswith("Completion times of 12 flows that are done")
    assert [figure.id for figure in plot.figures] == ["completion-cdf"]
    # All sent the same in the same time: nobody is the slowest.
    senders = per_sender(result)
    assert "as all delivered the same" in senders.caption
    assert "slowest" not in senders.caption


RING = """
name: ring
run: {duration: 2ms}
topology:
  kind: graph
  switches: [x0, x1, x2, x3]
  link: {rate: 100Gbps, delay: 1us}
  links: [h0 x0, h1 x3, x0 x1 100Gbps 50us, x1 x3, x0 x2, x2 x3]
host: {congestion: none}
traffic:
  - {kind: flows, list: [%s]}
"""


def test_the_ack_comes_back_by_the_way_that_it_takes() -> None:
    """Of paths of as many links each way takes its own: three different ideal times, each met alone."""
    one_by_one = ", ".join(f"h0 h1 {100 * (1 + number)}B {120 * number}us" for number in range(16))
    flows = tailback.run(loads(RING % one_by_one)).flows.to_pylist()
    assert {round(flow["ideal_fct_ps"] / 50e6) for flow in flows} == {0, 1, 2}
    assert {flow["slowdown"] for flow in flows} == {1.0}
