"""The flow table of a recording. Of a run with very many rows it stays in a file: what is looked at comes
into memory, and may leave it again.
"""

from __future__ import annotations

from collections.abc import Iterator
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
    path = Path(folder) / _FILE
    alike: list[pa.RecordBatch] = []
    try:
        with path.open("xb") as file:
            for differ, same in _blocks(recording):
                with pa.ipc.new_stream(file, differ.schema) as stream:
                    stream.write_batch(differ)
                alike.append(same)
        source = pa.memory_map(str(path))
    finally:
        path.unlink(missing_ok=True)
    schema = pa.schema(recording.flow_columns)
    return pa.Table.from_batches([_whole(source, same, schema) for same in alike], schema)


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
