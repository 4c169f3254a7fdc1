"""Graphs of operations in CSV and Parquet, an operation a row."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from tailback.limits import FLOWS_BYTES, GRAPH_OPERATIONS, MAX_MESSAGE_BYTES
from tailback.scenario.errors import found, one_line
from tailback.units import DURATION, SIZE, UnitError
from tailback.workload.lists import ListError
from tailback.workload.operations import Operation, refuse, send

COLUMNS = ("operation", "rank", "what", "time", "bytes", "to", "channel", "after")
_KINDS = ("compute", "send", "receive", "reduce", "barrier")
_LONGEST = DURATION.parse("36000s")
_MOST_CHANNELS = 64


def from_table(name: str, content: bytes, ranks: int) -> tuple[list[Operation], list[str]]:
    """The operations of a file, for so many ranks, and what each is called there."""
    rows = _rows(name, content)
    place: dict[str, int] = {}
    for line, row in enumerate(rows, 2):
        label = _text(row, "operation") or str(line - 2)
        if label in place:
            refuse(name, line, f"operation: found {found(label)} a second time")
        place[label] = line - 2
    made = []
    for line, row in enumerate(rows, 2):
        after = []
        for label in _text(row, "after").split():
            if label not in place:
                refuse(name, line, f"after: found {found(label)}, expected an operation of the file")
            after.append(place[label])
        rank = _whole(name, line, row, "rank", ranks, "a rank")
        made.append(Operation(rank, _what(name, line, row, rank, ranks), after))
    for line, one in enumerate(made, 2):
        _check_after(name, line, one, made)
    return made, list(place)


def _rows(name: str, content: bytes) -> list[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.csv as csv

    from tailback.files.parquet import read_parquet

    try:
        if name.endswith(".parquet"):
            table = read_parquet(content, GRAPH_OPERATIONS, GRAPH_OPERATIONS * len(COLUMNS), FLOWS_BYTES)
        else:
            lines = content.count(b"\n")
            if lines > GRAPH_OPERATIONS + 1:
                raise ListError(f"{name}: found {lines} lines, expected at most {GRAPH_OPERATIONS}")
            texts = csv.ConvertOptions(column_types=dict.fromkeys(COLUMNS, pa.string()))
            one_thread = csv.ReadOptions(use_threads=False)
            table = csv.read_csv(pa.BufferReader(content), one_thread, convert_options=texts)
        # Texts are decoded here, names of columns too.
        columns = list(table.column_names)
        rows: list[dict[str, Any]] = table.to_pylist()
    except ListError:
        raise
    except UnicodeDecodeError:
        raise ListError(f"{name}: found bytes that are not UTF-8, expected text") from None
    except (pa.ArrowException, ValueError, OSError) as error:
        raise ListError(f"{name}: not readable: {one_line(' '.join(str(error).split()))[:200]}") from None
    unknown = sorted(set(columns) - set(COLUMNS))
    if unknown or not {"rank", "what"} <= set(columns):
        given = ", ".join(found(column) for column in columns[:20])
        text = f"found the columns {given}, expected rank, what and, if wanted, {', '.join(COLUMNS)}"
        raise ListError(f"{name}: {text}")
    return rows


def _text(row: dict[str, Any], key: str) -> str:
    value = row.get(key)
    return "" if value is None else str(value).strip()


def _whole(name: str, line: int, row: dict[str, Any], key: str, below: int, what: str) -> int:
    text = _text(row, key)
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) >= below:
        refuse(name, line, f"{key}: found {found(text)}, expected {what} below {below}")
    return int(text)


def _what(name: str, line: int, row: dict[str, Any], rank: int, ranks: int) -> Any:
    kind = _text(row, "what")
    if kind not in _KINDS:
        refuse(name, line, f"what: found {found(kind)}, expected one of {', '.join(_KINDS)}")
    wanted = {"compute": {"time"}, "send": {"bytes", "to", "channel"}, "reduce": {"bytes"}}.get(kind, set())
    for key in ("time", "bytes", "to", "channel"):
        if _text(row, key) and key not in wanted:
            refuse(name, line, f"{key}: found {found(_text(row, key))}, expected nothing: it is a {kind}")
    if kind == "compute":
        return {"compute": _quantity(name, line, row, "time", DURATION.parse, _LONGEST)}
    if kind == "reduce":
        return {"reduce": _quantity(name, line, row, "bytes", SIZE.parse, MAX_MESSAGE_BYTES)}
    if kind == "send":
        size = _quantity(name, line, row, "bytes", SIZE.parse, MAX_MESSAGE_BYTES)
        to = _whole(name, line, row, "to", ranks, "a rank")
        if to == rank:
            refuse(name, line, f"to: found {to}, expected another rank")
        channel = (
            _whole(name, line, row, "channel", _MOST_CHANNELS, "a number") if _text(row, "channel") else 0
        )
        return send(to, size, channel)
    return kind


def _quantity(
    name: str, line: int, row: dict[str, Any], key: str, parse: Callable[[object], int], most: int
) -> int:
    text = _text(row, key)
    try:
        value = parse(int(text) if key == "bytes" and text.isdigit() else text)
    except UnitError as error:
        refuse(name, line, f"{key}: {error}")
    if not 1 <= value <= most:
        limit = SIZE.format(most) if key == "bytes" else DURATION.format(most)
        refuse(name, line, f"{key}: found {found(text)}, expected more than 0 and at most {limit}")
    return value


def _check_after(name: str, line: int, one: Operation, every: Sequence[Operation]) -> None:
    """What waits for another rank's operation does so for a message to its own, or is a barrier."""
    for place in one.after:
        other = every[place]
        message = isinstance(other.what, dict) and other.what.get("send", {}).get("to") == one.rank
        if other.rank != one.rank and not message and "barrier" not in (one.what, other.what):
            text = f"expected one of rank {one.rank}, a send to it, or a barrier"
            refuse(name, line, f"after: found an operation of rank {other.rank}, {text}")
