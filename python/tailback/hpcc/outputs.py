"""`fct.txt`, `pfc.txt` and `qlen.txt` as the HPCC simulator writes them, byte for byte."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

FCT, PFC, QLEN = "fct.txt", "pfc.txt", "qlen.txt"


def address(node: int) -> int:
    """A host's IPv4 address: 11.(id / 256).(id % 256).1."""
    return 0x0B000001 + (node // 256 << 16) + (node % 256 << 8)


def fct_text(completed: Any) -> bytes:
    """A line a completed flow, in the order of completion.

    Source and destination address (hexadecimal), ports, bytes, start, completion time and its ideal (ns).
    """
    table = pa.table(completed)
    names = ("src", "dst", "sport", "dport", "bytes", "start_ns", "fct_ns", "standalone_ns")
    rows = zip(*(table.column(name).to_pylist() for name in names), strict=True)
    lines = (
        f"{address(src):08x} {address(dst):08x} " + " ".join(map(str, numbers)) + "\n"
        for src, dst, *numbers in rows
    )
    return "".join(lines).encode()


def pfc_text(frames: Any) -> bytes:
    """A line a PFC frame received: time (ns), node, its type (0 host, 1 switch), port, 1 pause, 0 resume."""
    table = pa.table(frames)
    names = ("t_ns", "node", "node_type", "port", "pause")
    rows = zip(*(table.column(name).to_pylist() for name in names), strict=True)
    return "".join(" ".join(map(str, row)) + "\n" for row in rows).encode()
