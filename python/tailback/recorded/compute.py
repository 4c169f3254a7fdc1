"""The functions of `pyarrow.compute`, each made when it is called.

That module makes three hundred when it is loaded, with a signature and a text for each: a twelfth of a short
run. Methods such as `Table.filter` load it, too, so what every run needs calls the functions here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from pyarrow._compute import (
    CastOptions,
    DictionaryEncodeOptions,
    SetLookupOptions,
    SortOptions,
    call_function,
)


def __getattr__(name: str) -> Callable[..., Any]:
    """Any function that is called with columns, tables and single values alone."""
    return lambda *arguments: call_function(name.rstrip("_"), list(arguments))


def cast(column: Any, kind: pa.DataType) -> Any:
    """The same values as another type; a value that it does not have is an error."""
    return call_function("cast", [column], CastOptions.safe(kind))


def dictionary_encode(column: Any, nulls: str = "mask") -> Any:
    """Each value once; `nulls`: whether they are values ("encode") or none ("mask")."""
    return call_function("dictionary_encode", [column], DictionaryEncodeOptions(nulls))


def fill_null(column: Any, value: object) -> Any:
    """With a value in place of nulls; a column of nothing but nulls takes the type of the value."""
    if pa.types.is_null(column.type):
        column = column.cast(pa.scalar(value).type)
    return call_function("coalesce", [column, pa.scalar(value, column.type)])


def is_in(column: Any, values: pa.Array) -> Any:
    """Whether each value is one of these."""
    return call_function("is_in", [column], SetLookupOptions(value_set=values))


def sort_indices(table: Any, keys: Sequence[str]) -> Any:
    """The numbers of the rows in rising order of some columns."""
    return call_function("sort_indices", [table], SortOptions([(key, "ascending") for key in keys]))
