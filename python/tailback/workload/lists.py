"""Messages from lists: lines in a scenario, CSV and Parquet files, flow.txt of the HPCC simulator."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from tailback.errors import InputError, found, one_line, plain
from tailback.limits import FLOWS_BYTES, HPCC_NODES, MAX_QPS
from tailback.scenario.network import Network
from tailback.scenario.traffic import Flows
from tailback.units import DURATION, SIZE, Quantity, UnitError
from tailback.workload.draws import Ints
from tailback.workload.table import Messages, messages

_EXPECTED_LINE = 'a message such as "h0 h1 1MB 10us", or with a priority as the fifth word'
_PS_PER_START_UNIT = {"start_ps": 1, "start_ns": 10**3, "start_us": 10**6, "start_s": 10**12}
_MAX_MESSAGE_BYTES = 2**31
_MAX_COLUMNS = 8
_MAX_START_PS = DURATION.parse("36000s")


class ListError(ValueError):
    """A list cannot be used; `line` is the number of the wrong line, from 0, if it is known."""

    def __init__(self, text: str, line: int | None = None) -> None:
        super().__init__(text)
        self.line = line


def from_item(item: Flows, network: Network, read: Callable[[str, int], bytes]) -> Messages:
    """The messages of a traffic item, by start.

    Raises:
        ListError: the list is not readable, or has unknown hosts, or sizes or times out of range.
    """
    found = _read(item, network, read).in_order()
    if item.start is None:
        return found
    return replace(found, start=found.start + (item.start - found.start[0]))


def _read(item: Flows, network: Network, read: Callable[[str, int], bytes]) -> Messages:
    if item.list_ is not None:
        return _from_lines(item.list_, network, item.priority)
    assert item.file is not None
    content = read(item.file, FLOWS_BYTES)
    if item.file.endswith((".csv", ".parquet")):
        try:
            return _from_table(item.file, content, network, item.priority)
        except UnicodeDecodeError:
            text = f"{item.file}: found bytes that are not UTF-8, expected text"
            raise ListError(text) from None
    return _from_hpcc(item.file, content, network)


def _from_lines(lines: list[str], network: Network, priority: int) -> Messages:
    rows = []
    known = network.host_number
    for number, line in enumerate(lines):
        words = line.split()
        if len(words) not in (4, 5):
            raise ListError(f"found {found(line)}, expected {_EXPECTED_LINE}", number)
        for name in words[:2]:
            if name not in known:
                raise ListError(f"found {found(name)}, expected a host of the network", number)
        try:
            size, start = SIZE.parse(words[2]), DURATION.parse(words[3])
        except UnitError as error:
            raise ListError(str(error), number) from None
        own = words[4] if len(words) == 5 else str(priority)
        if own not in "01234567" or len(own) != 1:
            raise ListError(f"found {found(own)}, expected a priority of 0 to 7", number)
        rows.append((known[words[0]], known[words[1]], size, start, int(own)))
    return _checked(messages(*np.array(rows, dtype=np.int64).T), None)


def _from_table(name: str, content: bytes, network: Network, priority: int) -> Messages:
    import pyarrow as pa
    import pyarrow.csv as csv

    from tailback.files.parquet import read_parquet

    try:
        if name.endswith(".csv"):
            _limit_csv(name, content)
            # With threads Arrow hangs where there is no memory for them.
            table = csv.read_csv(pa.BufferReader(content), csv.ReadOptions(use_threads=False))
        else:
            table = read_parquet(content, MAX_QPS, MAX_QPS * _MAX_COLUMNS, FLOWS_BYTES)
    except (ListError, UnicodeDecodeError):
        raise
    except (pa.ArrowException, ValueError, OSError) as error:
        raise ListError(f"{name}: not readable: {one_line(' '.join(str(error).split()))[:200]}") from None
    columns = {column.strip(): table.column(i) for i, column in enumerate(table.column_names)}
    starts = [column for column in ("start", *_PS_PER_START_UNIT) if column in columns]
    unknown = sorted(set(columns) - {"src", "dst", "bytes", "priority", "start", *_PS_PER_START_UNIT})
    if unknown or len(starts) != 1 or not {"src", "dst", "bytes"} <= set(columns):
        found_columns = ", ".join(map(plain, columns))
        raise ListError(
            f"{name}: found the columns {found_columns}, expected src, dst, bytes, one of start, "
            f"{', '.join(_PS_PER_START_UNIT)}, and no other but priority"
        )
    if table.num_rows == 0:
        raise ListError(f"{name}: found no message, expected one or more")
    src = _column(name, "src", columns["src"], _host(network))
    dst = _column(name, "dst", columns["dst"], _host(network))
    size = _column(name, "bytes", columns["bytes"], _quantity(SIZE))
    key = starts[0]
    start = _column(name, key, columns[key], _quantity(DURATION) if key == "start" else _number)
    if key == "start" and not _is_text(columns[key]) and start.any():
        raise ListError(f"{name}: start: found numbers, expected texts with units, or one of {_starts()}")
    if (start > _MAX_START_PS // _PS_PER_START_UNIT.get(key, 1)).any():
        raise ListError(f"{name}: {key}: found a start later than {DURATION.format(_MAX_START_PS)}")
    own: Any = priority
    if "priority" in columns:
        own = _column(name, "priority", columns["priority"], _number)
    return _checked(messages(src, dst, size, start * _PS_PER_START_UNIT.get(key, 1), own), name)


def _limit_csv(name: str, content: bytes) -> None:
    """Checks the numbers of lines and columns before the file is parsed."""
    lines = content.count(b"\n")
    if lines > MAX_QPS + 1:
        raise ListError(f"{name}: found {lines} lines, expected at most {MAX_QPS} messages")
    columns = content[: content.find(b"\n")].count(b",") + 1
    if columns > _MAX_COLUMNS:
        raise ListError(f"{name}: found {columns} columns, expected at most {_MAX_COLUMNS}")


def _starts() -> str:
    return ", ".join(_PS_PER_START_UNIT)


def _is_text(column: Any) -> bool:
    import pyarrow as pa

    kind = column.type
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or (pa.types.is_dictionary(kind) and pa.types.is_string(kind.value_type))
    )


def _column(name: str, key: str, column: Any, convert: Callable[[object], int]) -> Ints:
    """A column as integers; each distinct value is converted once."""
    import pyarrow as pa

    if column.null_count:
        raise ListError(f"{name}: {key}: found an empty value in line {_first_null(column) + 2}")
    if pa.types.is_integer(column.type) and convert in (_number,):
        return np.asarray(column.to_numpy().astype(np.int64))
    if key == "bytes" and pa.types.is_integer(column.type):
        return np.asarray(column.to_numpy().astype(np.int64))
    encoded = column.combine_chunks()
    if not pa.types.is_dictionary(encoded.type):
        encoded = encoded.dictionary_encode()
    values = encoded.dictionary.to_pylist()
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    converted = np.zeros(len(values), dtype=np.int64)
    for code, value in enumerate(values):
        try:
            converted[code] = convert(value.strip() if isinstance(value, str) else value)
        except (ValueError, OverflowError) as error:
            line = int(np.flatnonzero(codes == code)[0]) + 2
            raise ListError(f"{name}:{line}: {key}: {error}") from None
    return np.asarray(converted[codes])


def _first_null(column: Any) -> int:
    return int(np.flatnonzero(column.is_null().to_numpy())[0])


def _host(network: Network) -> Callable[[object], int]:
    known = network.host_number

    def convert(value: object) -> int:
        number = known.get(str(value)) if isinstance(value, str) else value
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < len(known):
            raise ValueError(f"found {found(value)}, expected a host of the network")
        return number

    return convert


def _quantity(quantity: Quantity) -> Callable[[object], int]:
    return lambda value: quantity.parse(value)


def _number(value: object) -> int:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if not isinstance(value, int):
        raise ValueError(f"found {found(value)}, expected a whole number")
    return value


def _from_hpcc(name: str, content: bytes, network: Network) -> Messages:
    from tailback.hpcc.flows import read_flows
    from tailback.hpcc.forks import check_flow_form
    from tailback.hpcc.topology import Topology

    # flow.txt numbers hosts: host h7 of the network is 7 there.
    numbers = {
        int(host[1:]): at for host, at in network.host_number.items() if re.fullmatch(r"h[0-9]{1,5}", host)
    }
    numbers = {node: at for node, at in numbers.items() if node < HPCC_NODES}
    if not numbers:
        raise ListError(f"{name}: found no hosts h0, h1, ... in the network, which such a file numbers")
    nodes = max(numbers) + 1
    known = Topology(nodes, [], [], [node in numbers for node in range(nodes)])
    known.zones = [[0]] * nodes  # routes are checked elsewhere
    try:
        check_flow_form(name, content, way_out=", or the same flows as a .csv file")
        rows = read_flows(name, content, known)
    except InputError as error:
        raise ListError(str(error.problems[0])) from None
    if not rows:
        raise ListError(f"{name}: found no flow, expected one or more")
    src, dst, priority, _, size, start = rows.array().T
    place = np.zeros(nodes, dtype=np.int64)
    place[list(numbers)] = list(numbers.values())
    return _checked(messages(place[src], place[dst], size, start * 1000, priority), name)


def _checked(table: Messages, name: str | None) -> Messages:
    """Refuses the first row that the engine would refuse."""
    problems = (
        (table.src == table.dst, "found the same host as sender and receiver, expected two"),
        ((table.size < 1) | (table.size > _MAX_MESSAGE_BYTES), "found a size that is not in 1 B to 2 GiB"),
        ((table.start < 0) | (table.start > _MAX_START_PS), "found a start that is not in 0 s to 36000 s"),
        ((table.priority < 0) | (table.priority > 7), "found a priority that is not in 0 to 7"),
    )
    for wrong, text in problems:
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            if name is None:
                raise ListError(text, row)
            raise ListError(f"{name}:{row + 2}: {text}")
    return table
