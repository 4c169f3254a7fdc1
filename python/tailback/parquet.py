"""Reading Parquet files of somebody: a few bytes of one can stand for terabytes, so it is asked first."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq


def read_parquet(content: bytes, most_rows: int, most_values: int, most_bytes: int) -> pa.Table:
    """The table of a file: at most so many rows, values in all columns, and bytes unpacked.

    Raises:
        ValueError: more than that; a line names the limit.
        pyarrow.ArrowException, OSError: it is not readable.
    """
    file = pq.ParquetFile(pa.BufferReader(content))
    about = file.metadata
    _limit("rows", about.num_rows, most_rows)
    chunks = [
        about.row_group(group).column(column)
        for group in range(about.num_row_groups)
        for column in range(about.num_columns)
    ]
    _limit("values", sum(chunk.num_values for chunk in chunks), most_values)
    _limit("bytes unpacked", sum(chunk.total_uncompressed_size for chunk in chunks), most_bytes)
    # A text that is there once may be meant a million times: as a dictionary it stays there once.
    schema = file.schema_arrow
    if nested := [field.name for field in schema if pa.types.is_nested(field.type)]:
        raise ValueError(f"found lists in the column {nested[0][:60]!a}, expected single values")
    texts = [field.name for field in schema if _is_text(field.type)]
    table = pq.read_table(pa.BufferReader(content), read_dictionary=texts)
    _limit("bytes of texts", sum(_letters(column) for column in table.columns), most_bytes)
    return table.cast(schema)


def _limit(what: str, found: int, most: int) -> None:
    if not 0 <= found <= most:
        raise ValueError(f"found {found} {what}, expected at most {most}")


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind))


def _is_dictionary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_dictionary(kind))


def _letters(column: pa.ChunkedArray) -> int:
    """Bytes that a column of dictionaries of texts stands for."""
    total = 0
    for chunk in column.chunks if _is_dictionary(column.type) and _is_text(column.type.value_type) else []:
        lengths = pc.binary_length(chunk.dictionary).cast(pa.int64())
        total += pc.sum(lengths.take(chunk.indices)).as_py() or 0
    return total
