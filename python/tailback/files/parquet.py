"""Reads and writes Parquet. A few bytes of a file can expand to terabytes, so sizes are checked before reading."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from tailback.errors import one_line

_MAX_ERROR_CHARS = 200
_GROUP_ROWS = 1 << 20
_BATCH_ROWS = 1 << 16
MAX_TEXT_BYTES = 4096
"""Texts are names, and quantities with units."""
_PAGE_OVERHEAD_BYTES = 1 << 20
"""Of a column, besides its values."""
_UNPACKED_BYTES, _TEXTS_BYTES, _MAX_RATIO = 256 << 20, 64 << 20, 64
"""Bytes that any file may unpack to, bytes that its texts may expand to, and how many more for each byte of the
file: memory grows with the input.
"""


def as_parquet(table: pa.Table) -> bytes:
    """A table as the bytes of a file; equal tables give equal bytes."""
    buffer = io.BytesIO()
    _write(buffer, table)
    return buffer.getvalue()


def write_parquet(path: Path, table: pa.Table) -> None:
    """Writes a table to a new file, and waits until it is on the disk."""
    with path.open("xb") as file:
        _write(file, table)
        file.flush()
        os.fsync(file.fileno())


def _write(out: BinaryIO, table: pa.Table) -> None:
    # Every setting that affects the bytes is set, so that new defaults of the library change nothing.
    with pq.ParquetWriter(
        out,
        table.schema,
        version="2.6",
        data_page_version="1.0",
        compression="zstd",
        compression_level=3,
        use_dictionary=True,
        write_statistics=True,
    ) as file:
        # Group by group: a long table is not copied as a whole.
        for begin in range(0, max(1, table.num_rows), _GROUP_ROWS):
            file.write_table(_combined(table.slice(begin, _GROUP_ROWS)), _GROUP_ROWS)


def _combined(table: pa.Table) -> pa.Table:
    """Each column as one chunk, because the bytes depend on chunks; except columns whose chunks all share the
    same memory, such as constant columns, which would need memory then.
    """
    for at, column in enumerate(table.columns):
        if column.num_chunks == 1:
            continue
        # The last chunk may be shorter, with its own memory.
        places = {tuple(part.address for part in chunk.buffers() if part) for chunk in column.chunks[:-1]}
        if column.num_chunks == 2 or len(places) != 1:
            table = table.set_column(at, table.schema.field(at), pa.chunked_array([column.combine_chunks()]))
    return table


def read_parquet(content: bytes, max_rows: int, max_values: int, max_bytes: int) -> pa.Table:
    """Reads a table, with limits on rows, values of all columns and unpacked bytes. Texts may have at most
    `MAX_TEXT_BYTES`.

    Raises:
        ValueError: a limit is exceeded, or the file cannot be read; the text is one line.
    """
    try:
        return _read(content, max_rows, max_values, max_bytes)
    except (_LimitError, MemoryError):
        raise
    # Arrow also raises errors of its internals, such as RuntimeError and UnicodeDecodeError.
    except Exception as error:
        raise ValueError(one_line(" ".join(str(error).split()))[:_MAX_ERROR_CHARS]) from None


class _LimitError(ValueError):
    """A limit is exceeded."""


def parquet_rows(file: BinaryIO) -> int:
    """The number of rows according to the footer.

    Raises:
        ValueError: the file cannot be read; the text is one line.
    """
    try:
        return int(pq.ParquetFile(file).metadata.num_rows)
    except MemoryError:
        raise
    except Exception as error:
        raise ValueError(one_line(" ".join(str(error).split()))[:_MAX_ERROR_CHARS]) from None


def parquet_groups(
    opened: Callable[[], BinaryIO],
    max_rows: int,
    max_values: int,
    max_bytes: int,
    long_texts: Collection[str] = (),
) -> Iterator[pa.Table]:
    """`read_parquet` of a long file, some rows at a time; `max_bytes` applies to each row group. Texts in the
    columns `long_texts` may have any length.

    Raises:
        ValueError: as `read_parquet`.
    """
    with opened() as about, opened() as file:
        try:
            size, letters = file.seek(0, os.SEEK_END), 0
            file.seek(0)
            limits = (max_rows, max_values, min(max_bytes, _UNPACKED_BYTES + size * _MAX_RATIO))
            schema, texts = _checked_schema(pq.ParquetFile(about), file, *limits, max, long_texts)
            file.seek(0)
            reader = pq.ParquetFile(file, read_dictionary=texts)
            for batch in reader.iter_batches(_BATCH_ROWS, use_threads=False):
                table = pa.Table.from_batches([batch])
                _limit_texts(table, long_texts)
                of_batch = sum(_text_bytes(column) for column in table.columns)
                letters += of_batch
                _limit("bytes of texts", of_batch, max_bytes)
                _limit("bytes of texts", letters, _TEXTS_BYTES + size * _MAX_RATIO)
                yield table.cast(schema)
        except (_LimitError, MemoryError):
            raise
        except Exception as error:
            raise ValueError(one_line(" ".join(str(error).split()))[:_MAX_ERROR_CHARS]) from None


def _read(content: bytes, max_rows: int, max_values: int, max_bytes: int) -> pa.Table:
    file = pq.ParquetFile(pa.BufferReader(content))
    limits = (max_rows, max_values, min(max_bytes, _UNPACKED_BYTES + len(content) * _MAX_RATIO))
    schema, texts = _checked_schema(file, io.BytesIO(content), *limits, sum)
    # read_table would start threads, and hangs where there is no memory for them.
    table = pq.ParquetFile(pa.BufferReader(content), read_dictionary=texts).read(use_threads=False)
    _limit_texts(table)
    letters = sum(_text_bytes(column) for column in table.columns)
    _limit("bytes of texts", letters, min(max_bytes, _TEXTS_BYTES + len(content) * _MAX_RATIO))
    return table.cast(schema)


def _checked_schema(
    file: pq.ParquetFile,
    source: BinaryIO,
    max_rows: int,
    max_values: int,
    max_bytes: int,
    together: Callable[[list[int]], int],
    long_texts: Collection[str] = (),
) -> tuple[pa.Schema, list[str]]:
    """Checks sizes before anything is read; returns the schema, and the names of text columns."""
    about = file.metadata
    schema = file.schema_arrow
    if nested := [field.name for field in schema if pa.types.is_nested(field.type)]:
        raise _LimitError(f"found lists in the column {nested[0][:60]!a}, expected single values")
    # Metadata of single columns is not used: Arrow aborts the process if it is damaged.
    groups = [about.row_group(number) for number in range(about.num_row_groups)]
    rows = max(about.num_rows, sum(abs(group.num_rows) for group in groups))
    _limit("rows", rows, max_rows)
    _limit("values", rows * about.num_columns, max_values)
    # The footer may tell less than the headers of pages, which say how much memory a page gets.
    pages = _pages_bytes(source, [abs(group.num_rows) for group in groups])
    sizes = [max(abs(group.total_byte_size), of) for group, of in zip(groups, pages, strict=True)]
    _limit("bytes unpacked", together([0, *sizes]), max_bytes)
    texts = [field.name for field in schema if _is_text(field.type)]
    # A column of numbers has a size by its rows; a single text can be long.
    if not set(texts) & set(long_texts):
        for group, size in zip(groups, sizes, strict=True):
            most = _PAGE_OVERHEAD_BYTES + abs(group.num_rows) * about.num_columns * MAX_TEXT_BYTES
            _limit("bytes of a few rows", size, most)
    # Text columns are read as dictionaries: a text that a million rows share is in memory once.
    return schema, texts


# Page headers, which Arrow does not show. See parquet.thrift of apache/parquet-format for the numbers of fields.

_FOOTER_END_BYTES = 8
"""The length of the footer, and PAR1."""
_ROW_GROUPS, _COLUMNS, _COLUMN_METADATA = 4, 1, 3
_COLUMN_VALUES = 5
_TOTAL_COMPRESSED_SIZE, _DATA_PAGE_OFFSET, _DICTIONARY_PAGE_OFFSET = 7, 9, 11
_UNCOMPRESSED_PAGE_SIZE, _COMPRESSED_PAGE_SIZE = 2, 3
_DATA_PAGE, _DICTIONARY_PAGE, _DATA_PAGE_V2 = 5, 7, 8
_NUM_VALUES = 1
_HEADER_WINDOWS_BYTES = (1 << 10, 1 << 14, 1 << 20)
"""How much is read to find the end of a page header; it may hold the least and the greatest text of the page."""


def _pages_bytes(file: BinaryIO, group_rows: list[int]) -> list[int]:
    """Unpacked size of the pages of each row group, by their own headers.

    Raises:
        ValueError: a header is damaged, or says that a page has more values than its group has rows.
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _FOOTER_END_BYTES))
    length = int.from_bytes(file.read(4), "little")
    file.seek(max(0, size - _FOOTER_END_BYTES - length))
    try:
        groups = _Thrift(file.read(length)).struct()[_ROW_GROUPS]
        found, pages = [], 0
        for group, rows in zip(groups, group_rows, strict=True):
            sizes = [
                unpacked
                for column in group[_COLUMNS]
                for unpacked in _column_pages_bytes(file, size, column[_COLUMN_METADATA], rows)
            ]
            pages += len(sizes)
            _limit("pages", pages, size)
            found.append(sum(sizes))
    except (LookupError, TypeError, AttributeError):
        raise _LimitError("found a damaged footer or page header, expected sizes of all pages") from None
    return found


def _column_pages_bytes(file: BinaryIO, size: int, about: dict[int, Any], rows: int) -> Iterator[int]:
    """Unpacked size of each page of a column of a row group."""
    if not about[_COLUMN_VALUES]:
        return  # no page is read then
    begin = about[_DATA_PAGE_OFFSET]
    dictionary = about.get(_DICTIONARY_PAGE_OFFSET, 0)
    at = dictionary if 0 < dictionary < begin else begin
    end = min(at + about[_TOTAL_COMPRESSED_SIZE], size)
    while at < end:
        header, header_bytes = _page_header(file, at)
        unpacked, packed = header[_UNCOMPRESSED_PAGE_SIZE], header[_COMPRESSED_PAGE_SIZE]
        _limit("bytes in a page", packed, size - at)
        _limit("bytes unpacked of a page", unpacked, 1 << 40)
        of_data = header.get(_DATA_PAGE) or header.get(_DATA_PAGE_V2)
        if of_data:
            _limit("values in a page", of_data[_NUM_VALUES], rows)
        elif header.get(_DICTIONARY_PAGE):
            # A value of a dictionary has a byte at least.
            _limit("values in a dictionary", header[_DICTIONARY_PAGE][_NUM_VALUES], unpacked)
        yield unpacked
        at += header_bytes + packed


def _page_header(file: BinaryIO, at: int) -> tuple[dict[int, Any], int]:
    """The fields of a page header, and its length."""
    for window in _HEADER_WINDOWS_BYTES:
        file.seek(at)
        header = _Thrift(file.read(window))
        try:
            return header.struct(), header.at
        except IndexError:
            continue
    raise ValueError(f"found a damaged page header at byte {at}, expected one that ends in the file")


class _Thrift:
    """Reads Thrift's compact protocol: a struct is a mapping from the numbers of its fields to their values."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def struct(self, depth: int = 0) -> dict[int, Any]:
        fields: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            kind, step = head & 15, head >> 4
            number = number + step if step else self._signed()
            fields[number] = self._value(kind, depth)
        return fields

    def _byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def _varint(self) -> int:
        value, shift = 0, 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
            if shift > 63:
                raise ValueError("found a number of more than 64 bits in a header, expected fewer")

    def _signed(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)

    def _value(self, kind: int, depth: int) -> Any:
        if depth > 16:
            raise ValueError("found values that are nested more than 16 deep in a header, expected fewer")
        if kind in (1, 2):
            return kind == 1
        if kind == 3:
            return self._byte()
        if kind in (4, 5, 6):
            return self._signed()
        if kind == 7:
            return self._skip(8)
        if kind == 8:
            return self._skip(self._varint())
        if kind in (9, 10):
            head = self._byte()
            count = head >> 4 if head >> 4 < 15 else self._varint()
            # In a list a boolean has a byte of its own.
            of = 3 if head & 15 in (1, 2) else head & 15
            return [self._value(of, depth + 1) for _ in range(count)]
        if kind == 12:
            return self.struct(depth + 1)
        raise ValueError(f"found a field of type {kind} in a header, expected one that Parquet has")

    def _skip(self, length: int) -> None:
        self.at += length
        if self.at > len(self.data):
            raise IndexError


def _limit_texts(table: pa.Table, but: Collection[str] = ()) -> None:
    """Checks the length of each text."""
    import pyarrow.compute as pc  # takes a tenth of a second to load; writing does not need it

    for name, column in zip(table.column_names, table.columns, strict=True):
        if name not in but and _is_dictionary(column.type) and _is_text(column.type.value_type):
            longest = max(
                (pc.max(pc.binary_length(one.dictionary)).as_py() or 0 for one in column.chunks), default=0
            )
            if longest > MAX_TEXT_BYTES:
                found = f"found a text of {longest} bytes in the column {name[:60]!a}"
                raise _LimitError(f"{found}, expected at most {MAX_TEXT_BYTES}")


def _limit(what: str, found: int, most: int) -> None:
    if not 0 <= found <= most:
        raise _LimitError(f"found {found} {what}, expected at most {most}")


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind))


def _is_dictionary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_dictionary(kind))


def _text_bytes(column: pa.ChunkedArray) -> int:
    """Bytes of all texts of a dictionary column when it is expanded."""
    import pyarrow.compute as pc  # takes a tenth of a second to load; writing does not need it

    total = 0
    for chunk in column.chunks if _is_dictionary(column.type) and _is_text(column.type.value_type) else []:
        lengths = pc.binary_length(chunk.dictionary).cast(pa.int64())
        total += pc.sum(lengths.take(chunk.indices)).as_py() or 0
    return total
