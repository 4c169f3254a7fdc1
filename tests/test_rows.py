"""Rows of a plan's messages: packed, and a list of lists to whoever reads them."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import numpy as np
import pytest
from tailback.files.json import in_lines
from tailback.plan import packed_plan, plan_json
from tailback.rows import Rows

ROWS = [[1, 2, 3, 4, 5, 6], [7, 8, 9, 10, 11, 12], [0, 0, 0, 0, 0, -1]]


def packed(rows: list[list[int]]) -> Rows:
    return Rows(np.array(rows, dtype=np.int64).tobytes())


def test_rows_are_a_list_of_lists() -> None:
    rows = packed(ROWS)
    assert (len(rows), rows[1], rows[-1], rows[1:]) == (3, ROWS[1], ROWS[2], ROWS[1:])
    assert (list(rows), list(rows.column(3))) == (ROWS, [4, 10, 0])
    assert rows == ROWS
    assert rows == packed(ROWS)
    assert rows != packed(ROWS[:2])
    assert Rows() == []
    assert not Rows()
    assert Rows.of(list(rows.array().T)) == rows
    with pytest.raises(IndexError):
        rows[3]


def test_rows_are_copied_and_sent_to_other_processes() -> None:
    rows = packed(ROWS)
    assert copy.deepcopy({"list": rows}) == {"list": ROWS}
    assert pickle.loads(pickle.dumps(rows)) == rows


@pytest.mark.parametrize("depth", [0, 1, 2, 3])
@pytest.mark.parametrize("rows", [ROWS, ROWS[:1], []])
def test_json_of_rows_is_that_of_lists(rows: list[list[int]], depth: int) -> None:
    def at_depth(found: Any) -> dict[str, Any]:
        plan = {"a": 1, "list": found}
        for _ in range(depth):
            plan = {"a": [1], "inner": plan}
        return plan

    assert in_lines(at_depth(packed(rows))) == in_lines(at_depth(rows))
    assert plan_json(at_depth(packed(rows))) == json.dumps(at_depth(rows))
    text, beside, _ = packed_plan(at_depth(packed(rows)))
    assert json.loads(text) == at_depth([])
    assert Rows(beside) == rows
