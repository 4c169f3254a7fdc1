"""ASTRA-sim's inputs for tests: Chakra traces byte by byte, and the smallest files around them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tailback.astra.inputs import AstraOptions

CASES = Path(__file__).parents[1] / "crates" / "compat" / "tests" / "data" / "astra"
"""Runs of ASTRA-sim (518bd51) with its ns-3 backend (f764bed): inputs, and what it gave."""
METADATA = b"\x07\n\x050.0.4"
INVALID, GROUPS, LOAD, COMPUTE, SEND, RECEIVE, COLLECTIVE = 0, 1, 2, 4, 5, 6, 7
ALL_REDUCE, ALL_GATHER, BROADCAST, ALL_TO_ALL, REDUCE_SCATTER = 0, 2, 5, 6, 7
CONFIG = """TOPOLOGY_FILE topology.txt
PACKET_PAYLOAD_SIZE 1000
CC_MODE 12
ENABLE_QCN 0
L2_ACK_INTERVAL 1
GLOBAL_T 0
BUFFER_SIZE 32
RP_TIMER 900
EWMA_GAIN 0.00390625
RATE_AI 50Mb/s
RATE_HAI 100Mb/s
"""
SYSTEM: dict[str, Any] = {
    "scheduling-policy": "LIFO",
    "collective-optimization": "localBWAware",
    "endpoint-delay": 10,
    "active-chunks-per-dimension": 1,
    "preferred-dataset-splits": 4,
    "local-mem-bw": 1600,
    **{
        f"{kind}-implementation": ["ring"]
        for kind in ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
    },
}


def varint(value: int) -> bytes:
    value &= 2**64 - 1
    parts = []
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes([*parts, value])


def _chunk(field: int, data: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(data)) + data


def attribute(name: str, value: int | bool | str | list[bool]) -> bytes:
    if isinstance(value, str):
        held = _chunk(29, value.encode())
    elif isinstance(value, list):
        held = _chunk(28, _chunk(1, bytes(value)))
    else:
        held = varint((27 if isinstance(value, bool) else 9) << 3) + varint(value)
    return _chunk(1, name.encode()) + held


def node(
    number: int, kind: int, after: tuple[int, ...] = (), micros: int = 0, values: str = "", **attributes: Any
) -> bytes:
    """A node with its length before it."""
    body = varint(1 << 3) + varint(number) + varint(3 << 3) + varint(kind)
    body += b"".join(varint(5 << 3) + varint(one) for one in after)
    body += varint(7 << 3) + varint(micros)
    body += _chunk(8, _chunk(1, values.encode())) if values else b""
    body += b"".join(_chunk(10, attribute(name, value)) for name, value in attributes.items())
    return varint(len(body)) + body


def collective(number: int, kind: int, size: int, after: tuple[int, ...] = (), **more: Any) -> bytes:
    return node(number, COLLECTIVE, after, comm_type=kind, comm_size=size, **more)


def trace(*nodes: bytes) -> bytes:
    return METADATA + b"".join(nodes)


def options(folder: Path, **more: Any) -> AstraOptions:
    """Those of the files in a folder."""
    groups = folder / "groups.json"
    return AstraOptions(
        folder / "et" / "w",
        folder / "system.json",
        folder / "config.txt",
        folder / "logical.json",
        groups if groups.is_file() else "empty",
        **more,
    )


def write(
    folder: Path,
    traces: list[bytes],
    dims: tuple[int, ...] = (),
    groups: dict[str, list[int]] | None = None,
    rate: str = "400Gbps",
    **system: Any,
) -> AstraOptions:
    """Ranks at one switch. `system` changes keys of the system file, with `_` for `-`; None takes one out."""
    (folder / "et").mkdir(parents=True, exist_ok=True)
    for rank, data in enumerate(traces):
        (folder / "et" / f"w.{rank}.et").write_bytes(data)
    hosts = len(traces)
    links = "".join(f"{hosts} {host} {rate} 0.0005ms 0\n" for host in range(hosts))
    (folder / "topology.txt").write_text(f"{hosts + 1} 1 {hosts}\n{hosts}\n{links}")
    (folder / "config.txt").write_text(CONFIG)
    (folder / "logical.json").write_text(
        json.dumps({"logical-dims": [str(size) for size in dims or (hosts,)]})
    )
    if groups is not None:
        (folder / "groups.json").write_text(json.dumps(groups))
    changed = SYSTEM | {name.replace("_", "-"): value for name, value in system.items()}
    (folder / "system.json").write_text(
        json.dumps({name: value for name, value in changed.items() if value is not None})
    )
    return options(folder)
