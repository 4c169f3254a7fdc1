"""`fct.txt`, `pfc.txt` and `qlen.txt` as the HPCC simulator writes them, byte for byte."""

from __future__ import annotations

from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

FCT, PFC, QLEN = "fct.txt", "pfc.txt", "qlen.txt"


def address(node: int) -> int:
    """A host's IPv4 address: 11.(id / 256).(id % 256).1."""
    return 0x0B000001 + (node // 256 << 16) + (node % 256 << 8)


def fct_text(completed: Any) -> bytes:
    """A line a completed flow, in the order of completion.

    Source and destination address (hexadecimal), ports, bytes, start, completion time and its ideal (ns).
    """
    table = pa.table(completed)
    ends = [_addresses(table.column(name)) for name in ("src", "dst")]
    numbers = ("sport", "dport", "bytes", "start_ns", "fct_ns", "standalone_ns")
    return _lines([*ends, *(table.column(name) for name in numbers)])


def pfc_text(frames: Any) -> bytes:
    """A line a PFC frame received: time (ns), node, its type (0 host, 1 switch), port, 1 pause, 0 resume."""
    table = pa.table(frames)
    return _lines([table.column(name) for name in ("t_ns", "node", "node_type", "port", "pause")])


def _addresses(nodes: pa.ChunkedArray) -> pa.ChunkedArray:
    known = nodes.unique()
    texts = pa.array([f"{address(node):08x}" for node in known.to_pylist()], pa.string())
    return texts.take(pc.index_in(nodes, known).combine_chunks())


def _lines(columns: list[Any]) -> bytes:
    """A line a row. There may be millions, so it is done by columns."""
    *words, last = [pc.cast(column, pa.large_string()) for column in columns]
    none, blank, end = (pa.scalar(text, pa.large_string()) for text in ("", " ", "\n"))
    lines = pc.binary_join_element_wise(*words, pc.binary_join_element_wise(last, none, end), blank)
    return b"".join(_texts(chunk) for chunk in lines.chunks)


def _texts(lines: Any) -> bytes:
    """Texts, one after the other: an array has them so."""
    _, bounds, texts = lines.buffers()
    if texts is None:
        return b""
    bounds = pa.Array.from_buffers(pa.int64(), len(lines) + 1, [None, bounds], offset=lines.offset)
    return cast(bytes, texts[bounds[0].as_py() : bounds[-1].as_py()].to_pybytes())
