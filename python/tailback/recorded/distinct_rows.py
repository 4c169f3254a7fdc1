"""Distinct values of some columns of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Numbers = npt.NDArray[np.int64]


def distinct_rows(table: pa.Table, keys: Sequence[str]) -> tuple[list[dict[str, Any]], Numbers]:
    """The distinct combinations of values in some columns, and for each row the index of its combination.

    `Table.group_by` would load Arrow's readers and query engine.
    """
    number: Numbers = np.zeros(table.num_rows, dtype=np.int64)
    values = {}
    for key in keys:
        column = table.column(key).combine_chunks()
        encoded = column if pa.types.is_dictionary(column.type) else pc.dictionary_encode(column, "encode")
        values[key], places = encoded.dictionary.to_pylist(), encoded.indices
        if places.null_count:  # nulls of a dictionary array are nulls of its indices
            values[key].append(None)
            places = pc.fill_null(places, len(values[key]) - 1)
        number = number * len(values[key]) + places.to_numpy(zero_copy_only=False)
    # `pa.array` would import numpy.ma to check for masked arrays.
    coded = pa.Array.from_buffers(pa.int64(), len(number), [None, pa.py_buffer(number)])
    found = pc.dictionary_encode(coded)
    rows = []
    for one in found.dictionary.to_pylist():
        row, rest = {}, one
        for key in reversed(keys):
            rest, place = divmod(rest, len(values[key]))
            row[key] = values[key][place]
        rows.append(row)
    return rows, found.indices.to_numpy().astype(np.int64)
