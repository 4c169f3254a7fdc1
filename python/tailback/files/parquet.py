"""Reading Parquet files of others: a few bytes can stand for terabytes, so the sizes are looked at first."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from tailback.errors import one_line

_LONGEST = 200
_GROUP_ROWS = 1 << 20
_BATCH_ROWS = 1 << 16
TEXT_BYTES = 4096
"""The longest text: they are names, and quantities with their units."""
_SLACK_BYTES = 1 << 20
"""Of the pages of a column beside its values."""
_UNPACKED_BYTES, _TEXTS_BYTES, _MAX_RATIO = 256 << 20, 64 << 20, 64
"""What any file may unpack to, what its texts may stand for, and how much more for each of its own bytes:
memory grows with the input.
"""


def as_parquet(table: pa.Table) -> bytes:
    """A table as the bytes of a file, the same for the same table."""
    buffer = io.BytesIO()
    _write(buffer, table)
    return buffer.getvalue()


def write_parquet(path: Path, table: pa.Table) -> None:
    """Writes the same to a new file; it is on the disk when this returns."""
    with path.open("xb") as file:
        _write(file, table)
        file.flush()
        os.fsync(file.fileno())


def _write(out: BinaryIO, table: pa.Table) -> None:
    # Every setting that shapes the bytes is named, so that a new default of the library changes nothing.
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
        # Group by group: a long table is never there a second time.
        for begin in range(0, max(1, table.num_rows), _GROUP_ROWS):
            file.write_table(_in_one(table.slice(begin, _GROUP_ROWS)), _GROUP_ROWS)


def _in_one(table: pa.Table) -> pa.Table:
    """Each column in one piece, since the bytes depend on pieces; but not a piece that is there again and
    again, as of a column of one value, which takes no room so. What is in one piece already is not copied.
    """
    for at, column in enumerate(table.columns):
        if column.num_chunks == 1:
            continue
        # The last piece may be a shorter one of its own; of two pieces none is there again.
        places = {tuple(part.address for part in chunk.buffers() if part) for chunk in column.chunks[:-1]}
        if column.num_chunks == 2 or len(places) != 1:
            table = table.set_column(at, table.schema.field(at), pa.chunked_array([column.combine_chunks()]))
    return table


def read_parquet(content: bytes, max_rows: int, max_values: int, max_bytes: int) -> pa.Table:
    """The table of a file, with limits of its rows, its values in all columns, and its bytes when unpacked;
    no text has more than `TEXT_BYTES`.

    Raises:
        ValueError: more than that, or not readable; in a line.
    """
    try:
        return _read(content, max_rows, max_values, max_bytes)
    except (_LimitError, MemoryError):
        raise
    # Besides its own errors Arrow lets out what its insides raise: RuntimeError, UnicodeDecodeError.
    except Exception as error:
        raise ValueError(one_line(" ".join(str(error).split()))[:_LONGEST]) from None


class _LimitError(ValueError):
    """More than there may be."""


def parquet_rows(file: BinaryIO) -> int:
    """How many rows a file says that it has.

    Raises:
        ValueError: not readable; in a line.
    """
    try:
        return int(pq.ParquetFile(file).metadata.num_rows)
    except MemoryError:
        raise
    except Exception as error:
        raise ValueError(one_line(" ".join(str(error).split()))[:_LONGEST]) from None


def parquet_groups(
    opened: Callable[[], BinaryIO],
    max_rows: int,
    max_values: int,
    max_bytes: int,
    long_texts: Collection[str] = (),
) -> Iterator[pa.Table]:
    """The same of a long file, some rows at a time; `max_bytes` are those of a row group. Texts of the
    columns `long_texts` may have any length.

    Raises:
        ValueError: as `read_parquet`.
    """
    with opened() as about, opened() as file:
        try:
            size, letters = file.seek(0, os.SEEK_END), 0
            file.seek(0)
            limits = (max_rows, max_values, min(max_bytes, _UNPACKED_BYTES + size * _MAX_RATIO))
            schema, texts = _looked_at(pq.ParquetFile(about), *limits, max, long_texts)
            reader = pq.ParquetFile(file, read_dictionary=texts)
            for batch in reader.iter_batches(_BATCH_ROWS, use_threads=False):
                table = pa.Table.from_batches([batch])
                _limit_texts(table, long_texts)
                of_batch = sum(_letters(column) for column in table.columns)
                letters += of_batch
                _limit("bytes of texts", of_batch, max_bytes)
                _limit("bytes of texts", letters, _TEXTS_BYTES + size * _MAX_RATIO)
                yield table.cast(schema)
        except (_LimitError, MemoryError):
            raise
        except Exception as error:
            raise ValueError(one_line(" ".join(str(error).split()))[:_LONGEST]) from None


def _read(content: bytes, max_rows: int, max_values: int, max_bytes: int) -> pa.Table:
    file = pq.ParquetFile(pa.BufferReader(content))
    limits = (max_rows, max_values, min(max_bytes, _UNPACKED_BYTES + len(content) * _MAX_RATIO))
    schema, texts = _looked_at(file, *limits, sum)
    # Not read_table, which starts threads: where there is no memory for them, it waits for ever.
    table = pq.ParquetFile(pa.BufferReader(content), read_dictionary=texts).read(use_threads=False)
    _limit_texts(table)
    letters = sum(_letters(column) for column in table.columns)
    _limit("bytes of texts", letters, min(max_bytes, _TEXTS_BYTES + len(content) * _MAX_RATIO))
    return table.cast(schema)


def _looked_at(
    file: pq.ParquetFile,
    max_rows: int,
    max_values: int,
    max_bytes: int,
    together: Callable[[list[int]], int],
    long_texts: Collection[str] = (),
) -> tuple[pa.Schema, list[str]]:
    """The columns of a file, and those of texts, before anything is read."""
    about = file.metadata
    schema = file.schema_arrow
    if nested := [field.name for field in schema if pa.types.is_nested(field.type)]:
        raise _LimitError(f"found lists in the column {nested[0][:60]!a}, expected single values")
    # Of single columns it is not asked: if they are not as they should be, Arrow then ends the process.
    groups = [about.row_group(number) for number in range(about.num_row_groups)]
    rows = max(about.num_rows, sum(abs(group.num_rows) for group in groups))
    _limit("rows", rows, max_rows)
    _limit("values", rows * about.num_columns, max_values)
    _limit("bytes unpacked", together([0, *(abs(group.total_byte_size) for group in groups)]), max_bytes)
    texts = [field.name for field in schema if _is_text(field.type)]
    # Columns of numbers cannot be long without many rows; a single text can.
    if not set(texts) & set(long_texts):
        for group in groups:
            most = _SLACK_BYTES + abs(group.num_rows) * about.num_columns * TEXT_BYTES
            _limit("bytes of a few rows", abs(group.total_byte_size), most)
    # A text that is there once may be meant a million times: as a dictionary it stays there once.
    return schema, texts


def _limit_texts(table: pa.Table, but: Collection[str] = ()) -> None:
    """Looks at the length of each text before anything is made of it."""
    import pyarrow.compute as pc  # takes a while to load, and who writes needs none of it

    for name, column in zip(table.column_names, table.columns, strict=True):
        if name not in but and _is_dictionary(column.type) and _is_text(column.type.value_type):
            longest = max(
                (pc.max(pc.binary_length(one.dictionary)).as_py() or 0 for one in column.chunks), default=0
            )
            if longest > TEXT_BYTES:
                found = f"found a text of {longest} bytes in the column {name[:60]!a}"
                raise _LimitError(f"{found}, expected at most {TEXT_BYTES}")


def _limit(what: str, found: int, most: int) -> None:
    if not 0 <= found <= most:
        raise _LimitError(f"found {found} {what}, expected at most {most}")


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind))


def _is_dictionary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_dictionary(kind))


def _letters(column: pa.ChunkedArray) -> int:
    """Bytes that a column of dictionaries of texts stands for."""
    import pyarrow.compute as pc  # takes a while to load, and who writes needs none of it

    total = 0
    for chunk in column.chunks if _is_dictionary(column.type) and _is_text(column.type.value_type) else []:
        lengths = pc.binary_length(chunk.dictionary).cast(pa.int64())
        total += pc.sum(lengths.take(chunk.indices)).as_py() or 0
    return total
