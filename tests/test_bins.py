"""Time series as arrays, and rows of tables that are alike."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from tailback.recorded.bins import Bins
from tailback.recorded.distinct_rows import distinct_rows

BIN_PS, COUNT = 10, 4
NAMES = [("h10", "x"), ("h2", "x"), ("h2", "y")]
ENTITIES = pa.table({name: ["h2"] for name in ("entity", "kind", "node", "peer", "item")})


def table(order: np.ndarray) -> pa.Table:
    """Three series of four bins, with their rows in this order."""
    rows = [
        (at * BIN_PS, *name, 10.0 * number + at) for number, name in enumerate(NAMES) for at in range(COUNT)
    ]
    kept = [rows[at] for at in order]
    columns = {
        name: [row[i] for row in kept] for i, name in enumerate(("time_ps", "entity", "metric", "value"))
    }
    found = pa.table(columns)
    return found.set_column(1, "entity", found.column("entity").dictionary_encode())


def values(found: pa.Table) -> dict[tuple[str, str], list[float]]:
    bins = Bins(found, ENTITIES, BIN_PS, COUNT * BIN_PS)
    return {name: bins.values(*name).tolist() for name in NAMES}


def test_series_are_the_same_whatever_the_order_of_their_rows() -> None:
    whole = np.arange(COUNT * len(NAMES))
    expected = {name: [10.0 * number + at for at in range(COUNT)] for number, name in enumerate(NAMES)}
    assert values(table(whole)) == expected
    assert values(table(whole[::-1])) == expected
    assert values(pa.concat_tables([table(whole[:5]), table(whole[5:])])) == expected


@pytest.mark.parametrize("left_out", [0, 3, 7, 11])
def test_a_bin_without_a_row_is_zero(left_out: int) -> None:
    found = values(table(np.delete(np.arange(COUNT * len(NAMES)), left_out)))
    expected = values(table(np.arange(COUNT * len(NAMES))))
    expected[NAMES[left_out // COUNT]][left_out % COUNT] = 0.0
    assert found == expected


def test_of_a_row_that_comes_twice_the_last_counts() -> None:
    twice = np.concatenate([np.arange(COUNT * len(NAMES)), np.arange(COUNT)])
    found = table(twice)
    later = pa.array([*found.column("value").to_pylist()[:-COUNT], *range(90, 90 + COUNT)], pa.float64())
    assert values(found.set_column(3, "value", later))[NAMES[0]] == [90.0, 91.0, 92.0, 93.0]


def test_alike_rows_are_those_of_group_by() -> None:
    draws = np.random.default_rng(1)
    columns = {
        "src": pa.array([f"h{at}" for at in draws.integers(0, 5, 200)]).dictionary_encode(),
        "to": pa.array(
            [None if at > 2 else f"h{at}" for at in draws.integers(0, 4, 200)]
        ).dictionary_encode(),
        "bytes": pa.array([None if at == 3 else int(at) for at in draws.integers(0, 6, 200)]),
        "protocol": pa.array([["roce", "tcp"][at] for at in draws.integers(0, 2, 200)]),
    }
    found = pa.table(columns)
    rows, number = distinct_rows(found, list(columns))
    assert [rows[at] for at in number] == found.to_pylist()
    grouped = found.group_by(list(columns), use_threads=False).aggregate([]).to_pylist()
    assert len(rows) == len(grouped)
    assert all(row in grouped for row in rows)
    assert distinct_rows(found.slice(0, 0), list(columns)) == ([], pytest.approx([]))
