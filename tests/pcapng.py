"""The frames of a capture that the engine wrote, for tests that look at their bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

INTERFACE, PACKET = 1, 6
"""Types of blocks, as the pcapng specification numbers them (sections 4.2 and 4.3)."""


class Frame(NamedTuple):
    """One of a capture; `data` may be cut, `length` is what the link carried, without the FCS."""

    interface: str
    at_ps: int
    data: bytes
    length: int


def blocks(file: Path) -> Iterator[tuple[int, bytes]]:
    """Type and body of each block."""
    data, at = file.read_bytes(), 0
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        yield kind, data[at + 8 : at + length - 4]
        at += length


def frames(file: Path) -> Iterator[Frame]:
    """In the order of the file."""
    names: list[str] = []
    for kind, body in blocks(file):
        if kind == INTERFACE:
            names.append(_name(body))
        elif kind == PACKET:
            number, high, low, kept, length = struct.unpack_from("<IIIII", body)
            yield Frame(names[number], high << 32 | low, body[20 : 20 + kept], length)


def _name(body: bytes) -> str:
    code, length = struct.unpack_from("<HH", body, 8)
    assert code == 2, "if_name comes first"
    return body[12 : 12 + length].decode()
