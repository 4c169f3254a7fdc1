"""Graphs of operations in CSV and Parquet, a row for each operation."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import repeat
from typing import TYPE_CHECKING

import numpy as np

from tailback.errors import InputError, found, one_line
from tailback.limits import GRAPH_BYTES, GRAPH_OPERATIONS, MAX_MESSAGE_BYTES
from tailback.units import DURATION, SIZE, UnitError, format_size
from tailback.workload.lists import ListError
from tailback.workload.operations import (
    BARRIER,
    COMPUTE,
    OPERATION_KINDS,
    RECEIVE,
    REDUCE,
    SEND,
    Opened,
    OperationsBuilder,
    Read,
    refuse,
)

if TYPE_CHECKING:
    import pyarrow as pa

GRAPH_COLUMNS = ("operation", "rank", "what", "time", "bytes", "to", "channel", "after")
_KIND_NUMBERS = {kind: place for place, kind in enumerate(OPERATION_KINDS)}
_OPERATION_CHOICES = ("compute", "send", "receive", "reduce", "barrier")
_MAX_COMPUTE_PS = DURATION.parse("36000s")
_MAX_CHANNELS = 64
_CSV_BLOCK_BYTES = 1 << 22
_MAX_ROW_BYTES = 1 << 28
"""Room for a row that waits for some 30 million operations."""
_PARQUET_BLOCK_ROWS = 1 << 16
_UNUSED_COLUMNS = {
    COMPUTE: ("bytes", "to", "channel"),
    REDUCE: ("time", "to", "channel"),
    SEND: ("time",),
    RECEIVE: ("time", "bytes", "to", "channel"),
    BARRIER: ("time", "bytes", "to", "channel"),
}


def from_table(name: str, opened: Opened, ranks: int) -> Read:
    """Reads the operations of a file for `ranks` ranks, and returns a function that names each of them.

    The file is read twice, block by block: first the names of operations, then everything else.
    """
    place, count = _labels(name, opened)
    made = OperationsBuilder()
    check = _RowReader(name, ranks, made)
    for line, row in enumerate(_rows(name, opened), 2):
        check.add(line, row)
        for label in row[-1].split():
            after = place.get(label) if place is not None else _numbered(label, count)
            if after is None:
                refuse(name, line, f"after: found {found(label)}, expected an operation of the file")
            made.wait(line - 2, after)
    _check_after(name, made)

    def called(number: int) -> str:
        return str(number) if place is None else next(label for label, at in place.items() if at == number)

    return made, called


def _labels(name: str, opened: Opened) -> tuple[dict[str, int] | None, int]:
    """Row numbers by the names of operations (None: operations have no names), and the number of rows."""
    place: dict[str, int] = {}
    count, named = 0, False
    for block in _blocks(name, opened):
        named = "operation" in block.schema.names
        if named:
            for number, text in enumerate(_texts(name, block, "operation"), count):
                if place.setdefault(text or str(number), number) != number:
                    refuse(name, number + 2, f"operation: found {found(text or str(number))} a second time")
        count += block.num_rows
        if count > GRAPH_OPERATIONS:
            raise ListError(f"{name}: found more rows, expected at most {GRAPH_OPERATIONS}")
    return (place if named else None), count


def _numbered(label: str, count: int) -> int | None:
    """The row number in `label`; None if there is no such row."""
    number = int(label) if re.fullmatch(r"0|[1-9][0-9]{0,9}", label) else count
    return number if number < count else None


def _rows(name: str, opened: Opened) -> Iterator[tuple[str, ...]]:
    """The texts of each row, by `GRAPH_COLUMNS`."""
    for block in _blocks(name, opened):
        yield from zip(*(_texts(name, block, column) for column in GRAPH_COLUMNS), strict=False)


def _texts(name: str, block: pa.RecordBatch, column: str) -> Iterable[str]:
    if column not in block.schema.names:
        return repeat("", block.num_rows)
    try:
        values = block.column(column).to_pylist()
    except (ValueError, OverflowError) as error:  # for example a date after the year 9999
        raise _unreadable(name, error) from None
    return ["" if value is None else str(value).strip() for value in values]


def _blocks(name: str, opened: Opened) -> Iterator[pa.RecordBatch]:
    """The rows, some at a time."""
    import pyarrow as pa

    try:
        yield from _read(name, opened)
    except (ListError, InputError):
        raise
    except (pa.ArrowException, ValueError, OSError) as error:
        raise _unreadable(name, error) from None


def _unreadable(name: str, error: Exception) -> ListError:
    if isinstance(error, UnicodeDecodeError):
        return ListError(f"{name}: found bytes that are not UTF-8, expected text")
    return ListError(f"{name}: not readable: {one_line(' '.join(str(error).split()))[:200]}")


def _read(name: str, opened: Opened) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    import pyarrow.csv as csv

    from tailback.files.parquet import parquet_groups

    if name.endswith(".parquet"):
        max_values = GRAPH_OPERATIONS * len(GRAPH_COLUMNS)
        # `after` may be long: an operation may wait for many others.
        for table in parquet_groups(opened, GRAPH_OPERATIONS, max_values, GRAPH_BYTES, ("after",)):
            _check_columns(name, table.column_names)
            yield from table.to_batches(_PARQUET_BLOCK_ROWS)
    else:
        texts = csv.ConvertOptions(column_types=dict.fromkeys(GRAPH_COLUMNS, pa.string()))
        options = csv.ReadOptions(use_threads=False, block_size=_block_bytes(name, opened))
        with opened() as file:
            reader = csv.open_csv(file, options, convert_options=texts)
            _check_columns(name, reader.schema.names)
            yield from reader


def _block_bytes(name: str, opened: Opened) -> int:
    """Block size with room for the longest row."""
    longest = begun = lines = 0
    with opened() as file:
        while part := file.read(_CSV_BLOCK_BYTES):
            begun += part.find(b"\n") + 1 or len(part)
            longest = max(longest, begun)
            if longest > _MAX_ROW_BYTES:
                found = f"found a row of more than {format_size(_MAX_ROW_BYTES)}"
                refuse(name, lines + 1, f"{found}, expected a shorter one")
            if b"\n" in part:
                lines += part.count(b"\n")
                begun = len(part) - part.rfind(b"\n") - 1
    return max(_CSV_BLOCK_BYTES, 2 * longest)


def _check_columns(name: str, columns: list[str]) -> None:
    unknown = sorted(set(columns) - set(GRAPH_COLUMNS))
    if unknown or len(set(columns)) < len(columns) or not {"rank", "what"} <= set(columns):
        given = ", ".join(found(column) for column in columns[:20])
        text = f"found the columns {given}, expected rank, what and, if wanted, {', '.join(GRAPH_COLUMNS)}, each once"
        raise ListError(f"{name}: {text}")


class _RowReader:
    """Reads rows. Parsed texts are cached: millions of rows have few different texts."""

    def __init__(self, name: str, ranks: int, made: OperationsBuilder) -> None:
        self._name, self._ranks, self._made = name, ranks, made
        self._whole = lru_cache(1 << 17)(_whole)
        self._size = lru_cache(1 << 17)(_size)
        self._time = lru_cache(1 << 17)(DURATION.parse)

    def add(self, line: int, row: tuple[str, ...]) -> None:
        _, rank_text, what, time, size, to_text, channel_text, _ = row
        rank = self._below(line, "rank", rank_text, self._ranks, "a rank")
        kind = _KIND_NUMBERS.get(what)
        if kind is None:
            refuse(
                self._name,
                line,
                f"what: found {found(what)}, expected one of {', '.join(_OPERATION_CHOICES)}",
            )
        if time or size or to_text or channel_text:
            self._unwanted(line, kind, row)
        value = to = channel = 0
        if kind == COMPUTE:
            value = self._quantity(line, "time", time, self._time, _MAX_COMPUTE_PS)
        elif kind in (REDUCE, SEND):
            value = self._quantity(line, "bytes", size, self._size, MAX_MESSAGE_BYTES)
        if kind == SEND:
            to = self._below(line, "to", to_text, self._ranks, "a rank")
            if to == rank:
                refuse(self._name, line, f"to: found {to}, expected another rank")
            if channel_text:
                channel = self._below(line, "channel", channel_text, _MAX_CHANNELS, "a number")
        self._made.add(rank, kind, value, to, channel)

    def _unwanted(self, line: int, kind: int, row: tuple[str, ...]) -> None:
        for key in _UNUSED_COLUMNS[kind]:
            if text := row[GRAPH_COLUMNS.index(key)]:
                expected = f"expected nothing: it is a {OPERATION_KINDS[kind]}"
                refuse(self._name, line, f"{key}: found {found(text)}, {expected}")

    def _below(self, line: int, key: str, text: str, below: int, what: str) -> int:
        value = self._whole(text)
        if value is None or value >= below:
            refuse(self._name, line, f"{key}: found {found(text)}, expected {what} below {below}")
        return value

    def _quantity(self, line: int, key: str, text: str, parse: Callable[[str], int], most: int) -> int:
        try:
            value = parse(text)
        except UnitError as error:
            refuse(self._name, line, f"{key}: {error}")
        if not 1 <= value <= most:
            limit = SIZE.format(most) if key == "bytes" else DURATION.format(most)
            refuse(self._name, line, f"{key}: found {found(text)}, expected more than 0 and at most {limit}")
        return value


def _whole(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else None


def _size(text: str) -> int:
    return SIZE.parse(int(text) if text.isdigit() else text)


def _check_after(name: str, made: OperationsBuilder) -> None:
    """Checks that an operation waits only for operations of its rank, messages to it, and barriers."""
    waiting, awaited = made.waits()
    rank, kind, to = (np.asarray(column) for column in (made.rank, made.kind, made.to))
    own = rank[waiting]
    fine = rank[awaited] == own
    fine |= (kind[awaited] == SEND) & (to[awaited] == own)
    fine |= (kind[awaited] == BARRIER) | (kind[waiting] == BARRIER)
    if not fine.all():
        at = int(np.argmin(fine))
        text = f"expected one of rank {own[at]}, a send to it, or a barrier"
        of = rank[awaited[at]]
        refuse(name, int(waiting[at]) + 2, f"after: found an operation of rank {of}, {text}")
