"""The flow table of a recording. Of a run with very many rows it stays in a file: what is looked at comes
into memory, and may leave it again.
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

_FILE = ".flows"
"""The name of that file until it is open."""


def flows_of(recording: Any) -> pa.Table:
    """The table of what has `flows`, in memory; or, of what the engine has in a file, in another one without
    a name in the same folder.

    Raises:
        OSError: the file cannot be written.
    """
    folder = getattr(recording, "flow_folder", None)
    if folder is None:
        return pa.table(recording.flows)
    return _in_a_file(Path(folder), _blocks(recording), pa.schema(recording.flow_columns))


def read_flows(path: Path, tables: Iterator[pa.Table]) -> pa.Table:
    """The table of flows in a file, from tables of some rows each, in another one without a name: beside it
    or, where nothing can be written there, among the temporary files.

    Raises:
        OSError: neither can be written.
        ValueError: there is no table.
    """
    first = next(tables, None)
    if first is None:
        raise ValueError("found no rows, expected those that the end of the file tells of")
    with tempfile.TemporaryDirectory() as aside:
        folder = path.parent if os.access(path.parent, os.W_OK) else Path(aside)
        return _in_a_file(folder, _in_two(chain([first], tables)), first.schema)


def _in_a_file(
    folder: Path, blocks: Iterable[tuple[pa.RecordBatch, pa.RecordBatch]], schema: pa.Schema
) -> pa.Table:
    """Of rows in blocks: columns whose values differ go to a file, and those of one value stay in memory."""
    path = folder / f"{_FILE}.{secrets.token_hex(4)}"
    alike: list[pa.RecordBatch] = []
    try:
        with path.open("xb") as file:
            for differ, same in blocks:
                with pa.ipc.new_stream(file, differ.schema) as stream:
                    stream.write_batch(differ)
                alike.append(same)
        source = pa.memory_map(str(path))
    finally:
        path.unlink(missing_ok=True)
    return pa.Table.from_batches([_whole(source, same, schema) for same in alike], schema)


def _in_two(tables: Iterable[pa.Table]) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
    """Columns whose values differ, and those of one value, which are there once for all tables."""
    import pyarrow.compute as pc  # takes a while to load

    known: dict[str, pa.Array] = {}
    for table in tables:
        for batch in table.combine_chunks().to_batches():
            differ, same = {}, {}
            for name in batch.schema.names:
                column = batch.column(name)
                if pc.count_distinct(column, "all").as_py() != 1:
                    differ[name] = column
                    continue
                before = known.get(name)
                if before is None or len(before) < len(column) or not before[0].equals(column[0]):
                    before = known[name] = column
                same[name] = before.slice(0, len(column))
            yield _batch(differ, batch), _batch(same, batch)


def _batch(columns: dict[str, pa.Array], of: pa.RecordBatch) -> pa.RecordBatch:
    """Some of the columns of rows; perhaps none."""
    if not columns:
        return of.select([])
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _blocks(recording: Any) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
    while (pair := recording.next_flows()) is not None:
        yield pair[0], pair[1]


def _whole(source: Any, same: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The next block: columns of one value are there once for all blocks that have it."""
    (differ,) = pa.ipc.open_stream(source)
    columns = {
        part.schema.field(at).name: part.column(at)
        for part in (differ, same)
        for at in range(part.num_columns)
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)
