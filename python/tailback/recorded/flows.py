"""The flow table of a recording. A table with very many rows is a memory-mapped file, so that the system can
evict pages from memory.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa

_FILE_PREFIX = ".flows"
"""The file is unlinked when it is open."""


def flows_of(recording: Any) -> pa.Table:
    """The flow table of a recording: in memory, or, where the engine has written it to a file, in a
    memory-mapped, unlinked file in the same folder.

    Raises:
        OSError: the file cannot be written.
    """
    folder = getattr(recording, "flow_folder", None)
    if folder is None:
        return pa.table(recording.flows)
    return _in_file(Path(folder), _blocks(recording), pa.schema(recording.flow_columns))


def read_flows(path: Path, tables: Iterator[pa.Table]) -> pa.Table:
    """Joins tables of some rows each, which were read from the file `path`, in a memory-mapped, unlinked file:
    beside `path` or, where the folder cannot be written, among the temporary files.

    Raises:
        OSError: neither folder can be written.
        ValueError: there are no tables.
    """
    first = next(tables, None)
    if first is None:
        raise ValueError("found no rows, expected those that the footer of the file counts")
    with tempfile.TemporaryDirectory() as aside:
        folder = path.parent if os.access(path.parent, os.W_OK) else Path(aside)
        return _in_file(folder, _split_constant(chain([first], tables)), first.schema)


def _in_file(
    folder: Path, blocks: Iterable[tuple[pa.RecordBatch, pa.RecordBatch]], schema: pa.Schema
) -> pa.Table:
    """Writes columns with different values to a file; columns with a single value stay in memory."""
    path = folder / f"{_FILE_PREFIX}.{secrets.token_hex(4)}"
    constant_blocks: list[pa.RecordBatch] = []
    try:
        with path.open("xb") as file:
            for varying, constant in blocks:
                with pa.ipc.new_stream(file, varying.schema) as stream:
                    stream.write_batch(varying)
                constant_blocks.append(constant)
        source = pa.memory_map(str(path))
    finally:
        path.unlink(missing_ok=True)
    return pa.Table.from_batches([_block(source, constant, schema) for constant in constant_blocks], schema)


def _split_constant(tables: Iterable[pa.Table]) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
    """Splits each table into columns with different values and columns with a single value. Equal columns of
    several tables share memory.
    """
    import pyarrow.compute as pc  # takes a tenth of a second to load

    known: dict[str, pa.Array] = {}
    for table in tables:
        for batch in table.combine_chunks().to_batches():
            varying, constant = {}, {}
            for name in batch.schema.names:
                column = batch.column(name)
                if pc.count_distinct(column, "all").as_py() != 1:
                    varying[name] = column
                    continue
                before = known.get(name)
                if before is None or len(before) < len(column) or not before[0].equals(column[0]):
                    before = known[name] = column
                constant[name] = before.slice(0, len(column))
            yield _batch(varying, batch), _batch(constant, batch)


def _batch(columns: dict[str, pa.Array], of: pa.RecordBatch) -> pa.RecordBatch:
    if not columns:
        return of.select([])
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _blocks(recording: Any) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
    while (pair := recording.next_flows()) is not None:
        yield pair[0], pair[1]


def _block(source: Any, constant: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Reads the next block from `source`, and adds its constant columns."""
    (varying,) = pa.ipc.open_stream(source)
    columns = {
        part.schema.field(at).name: part.column(at)
        for part in (varying, constant)
        for at in range(part.num_columns)
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)
