"""`fct.txt`, `pfc.txt` and `qlen.txt` as the HPCC simulator writes them, byte for byte."""

from __future__ import annotations

from typing import Any

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
    words = [pc.cast(column, pa.large_string()) for column in columns]
    lines = pc.binary_join_element_wise(*words, pa.scalar(" ", pa.large_string()))
    return "".join(f"{line}\n" for line in lines.to_pylist()).encode()
