"""JSON with the outer entries on lines of their own."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tailback.files.json import in_lines

values = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(), inner, max_size=4)),
    max_leaves=20,
)


@given(values, st.integers(0, 4))
def test_it_is_the_same_value(value: Any, levels: int) -> None:
    assert json.loads(in_lines(value, levels)) == value


def by_hand(value: Any, levels: int, indent: str = "") -> str:
    """Entry by entry."""
    if not levels or not value or not isinstance(value, (dict, list)):
        return json.dumps(value, sort_keys=True)
    inner = indent + " "
    below = levels - 1
    if isinstance(value, dict):
        entries = [f"{json.dumps(key)}: {by_hand(value[key], below, inner)}" for key in sorted(value)]
        return f"{{\n{inner}" + f",\n{inner}".join(entries) + f"\n{indent}}}"
    entries = [by_hand(entry, below, inner) for entry in value]
    return f"[\n{inner}" + f",\n{inner}".join(entries) + f"\n{indent}]"


rows = st.lists(st.lists(st.one_of(st.integers(), st.lists(st.integers(), max_size=2)), max_size=3))


@given(st.one_of(values, rows, st.dictionaries(st.text(), values)), st.integers(0, 4))
def test_entries_written_at_once_are_as_one_by_one(value: Any, levels: int) -> None:
    assert in_lines(value, levels) == by_hand(value, levels) + "\n"


def test_lines() -> None:
    value = {"b": [[1, 2], [3, 4]], "a": {"x": {"z": 1, "y": {}}}, "empty": []}
    expected = (
        '{\n "a": {\n  "x": {"y": {}, "z": 1}\n },\n "b": [\n  [1, 2],\n  [3, 4]\n ],\n "empty": []\n}\n'
    )
    assert in_lines(value, 2) == expected


def test_nan_is_refused() -> None:
    with pytest.raises(ValueError, match="Out of range"):
        in_lines({"a": [float("nan")]})
