"""`fct.txt`, `pfc.txt` and `qlen.txt` as the HPCC simulator writes them, byte for byte."""

from __future__ import annotations

from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

FCT_FILE, PFC_FILE, QLEN_FILE = "fct.txt", "pfc.txt", "qlen.txt"


def pfc_text(frames: Any) -> bytes:
    """A line for each received PFC frame: time (ns), node, its type (0 host, 1 switch), port, 1 pause, 0 resume."""
    table = pa.table(frames)
    return _lines([table.column(name) for name in ("t_ns", "node", "node_type", "port", "pause")])


def _lines(columns: list[Any]) -> bytes:
    """A line for each row, computed by columns: there may be millions of rows."""
    *words, last = [pc.cast(column, pa.large_string()) for column in columns]
    none, blank, end = (pa.scalar(text, pa.large_string()) for text in ("", " ", "\n"))
    lines = pc.binary_join_element_wise(*words, pc.binary_join_element_wise(last, none, end), blank)
    return b"".join(_texts(chunk) for chunk in lines.chunks)


def _texts(lines: Any) -> bytes:
    """The concatenated texts, straight from the buffer of the array."""
    _, bounds, texts = lines.buffers()
    if texts is None:
        return b""
    bounds = pa.Array.from_buffers(pa.int64(), len(lines) + 1, [None, bounds], offset=lines.offset)
    return cast(bytes, texts[bounds[0].as_py() : bounds[-1].as_py()].to_pybytes())
