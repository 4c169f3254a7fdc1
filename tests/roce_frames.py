"""Frames and captures of RoCEv2, made byte by byte, for tests of what reads captures."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path
from zlib import crc32

A, B = bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2])
ETHERNET = bytes.fromhex("020000000002020000000001")
WRITE_ONLY, ACKNOWLEDGE, CNP = 0x0A, 0x11, 0x81
ECT_0, CE = 2, 3
UDP, GRE = 17, 47
Timed = tuple[int, bytes]
"""Nanoseconds, and a frame."""


def ipv4(
    source: bytes, destination: bytes, protocol: int, body: bytes, identification: int = 0, tos: int = ECT_0
) -> bytes:
    """A packet with the right checksum."""
    head = struct.pack(
        ">BBHHHBBH4s4s",
        *(0x45, tos, 20 + len(body), identification, 0x4000, 64, protocol, 0, source, destination),
    )
    total = sum(struct.unpack(">10H", head))
    total = (total & 0xFFFF) + (total >> 16)
    return head[:10] + struct.pack(">H", 0xFFFF ^ total) + head[12:] + body


def ipv6(protocol: int, body: bytes) -> bytes:
    """A packet of two addresses of documentation."""
    address = bytes.fromhex("20010db8") + bytes(11)
    return struct.pack(">IHBB", 6 << 28, len(body), protocol, 64) + address + b"\1" + address + b"\2" + body


def udp(port: int, body: bytes) -> bytes:
    """A datagram without a checksum."""
    return struct.pack(">HHHH", 50000, port, 8 + len(body), 0) + body


def roce(
    psn: int,
    opcode: int = WRITE_ONLY,
    extension: bytes | None = None,
    payload: bytes = b"x" * 64,
    *,
    back: bool = False,
    identification: int | None = None,
    tos: int = ECT_0,
) -> bytes:
    """An Ethernet frame with the right ICRC: a WRITE that asks for an ACK unless it says otherwise."""
    if extension is None:
        extension = struct.pack(">QII", 4096, 7, len(payload))
    ack_req = 1 << 31 if opcode == WRITE_ONLY else 0
    bth = struct.pack(">BBHII", opcode, 0, 0xFFFF, 0x11, ack_req | psn)
    ends = (B, A) if back else (A, B)
    ident = psn if identification is None else identification
    packet = ipv4(*ends, UDP, udp(4791, bth + extension + payload + bytes(4)), ident, tos)[:-4]
    masked = bytearray(b"\xff" * 8 + packet)
    for at in (9, 16, 18, 19, 34, 35, 40):
        masked[at] = 0xFF
    return ETHERNET + b"\x08\0" + packet + struct.pack("<I", crc32(masked))


def ack(psn: int) -> bytes:
    """Of the other end."""
    return roce(psn, ACKNOWLEDGE, struct.pack(">I", 0x1F000001), b"", back=True)


def nak(psn: int) -> bytes:
    """Of a PSN sequence error."""
    return roce(psn, ACKNOWLEDGE, struct.pack(">I", 0x60000001), b"", back=True, identification=100 + psn)


def cnp(identification: int = 900) -> bytes:
    """To the sender of the WRITEs."""
    return roce(0, CNP, bytes(16), b"", back=True, identification=identification)


def pcap(file: Path, frames: Iterable[Timed], link_type: int = 1) -> Path:
    """A capture with nanoseconds."""
    data = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, link_type)
    for ns, frame in frames:
        data += struct.pack("<IIII", ns // 10**9, ns % 10**9, len(frame), len(frame)) + frame
    file.write_bytes(data)
    return file


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    """A block of pcapng."""
    body += bytes(-len(body) % 4)
    size = struct.pack(f"{order}I", 12 + len(body))
    return struct.pack(f"{order}I", kind) + size + body + size


def pcapng_head(order: str = "<", options: bytes = b"", link_type: int = 1) -> bytes:
    """A section, and an interface of it."""
    section = struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1)
    interface = struct.pack(f"{order}HHI", link_type, 0, 262144) + options
    return block(0x0A0D0D0A, section, order) + block(1, interface, order)


def enhanced(units: int, frame: bytes, order: str = "<") -> bytes:
    """An enhanced packet block of the first interface."""
    fields = struct.pack(f"{order}IIIII", 0, units >> 32, units & 0xFFFFFFFF, len(frame), len(frame))
    return block(6, fields + frame, order)
