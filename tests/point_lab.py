"""A congestion point in a network namespace of its own: `unshare -rn python point_lab.py CASE`, JSON out.

Two veth pairs: who sends and receives has a0 and b0, the point has pa and pb. Nobody has an address, and
nothing outside of the namespace is touched.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from commands import COMMAND

ROCE = bytes.fromhex("020000000002 020000000001 0800".replace(" ", ""))
IGNORE_OUTGOING = 23


def icrc(packet: bytes) -> bytes:
    import zlib

    masked = bytearray(packet)
    masked[1] = masked[8] = masked[10] = masked[11] = masked[26] = masked[27] = masked[32] = 0xFF
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + bytes(masked)))


def write(psn: int, payload: int = 1024, qp: int = 0x11) -> bytes:
    """A WRITE middle, ECT(0)."""
    bth = struct.pack(">BBHII", 7, 0, 0xFFFF, qp, psn)
    transport = bth + bytes(payload)
    udp = struct.pack(">HHHH", 0xC000, 4791, 8 + len(transport) + 4, 0)
    ends = bytes([10, 0, 0, 1, 10, 0, 0, 2])
    length = 28 + len(transport) + 4
    head = struct.pack(">BBHHHBBH8s", 0x45, 2, length, 0, 0x4000, 64, 17, 0, ends)
    total = sum(struct.unpack(">10H", head))
    total = (total & 0xFFFF) + (total >> 16)
    head = head[:10] + struct.pack(">H", ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF) + head[12:]
    packet = head + udp + transport
    return ROCE + packet + icrc(packet)


def checks(frame: bytes) -> dict[str, Any]:
    """What became of a packet."""
    packet = frame[14:]
    head = packet[:20]
    total = sum(struct.unpack(">10H", head))
    return {
        "psn": int.from_bytes(packet[37:40], "big"),
        "ce": packet[1] & 3 == 3,
        "checksum_ok": (total & 0xFFFF) + (total >> 16) == 0xFFFF,
        "icrc_ok": icrc(packet[:-4]) == packet[-4:],
    }


def end(name: str) -> socket.socket:
    opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    opened.setsockopt(263, IGNORE_OUTGOING, 1)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 24)
    opened.bind((name, 0))
    return opened


def read_all(one: socket.socket, quiet_s: float = 0.4) -> list[bytes]:
    """Frames until none comes for so long."""
    one.settimeout(quiet_s)
    frames = []
    while True:
        try:
            frames.append(one.recv(65_536))
        except TimeoutError:
            return [frame for frame in frames if frame[12:14] in (b"\x08\x00", b"\x88\x08", b"\x81\x00")]


def lab(settings: str, drive: Any, folder: Path, stop: bool = True) -> dict[str, Any]:
    """Runs a point around what `drive` sends and receives."""
    given = folder / "point.yaml"
    given.write_text(settings)
    command = [*COMMAND, "point", "pa", "pb", str(given), "--out", str(folder / "out"), "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    a, b = end("a0"), end("b0")
    # It forwards from when a probe comes through; ones that wait in its sockets come later and are read away.
    for _ in range(300):
        a.send(b"\x02" * 12 + b"\x88\xb5" + bytes(46))
        b.settimeout(0.1)
        try:
            while b.recv(65_536)[12:14] != b"\x88\xb5":
                pass
            break
        except TimeoutError:
            if process.poll() is not None:
                break
    time.sleep(0.1)
    seen = drive(a, b) if process.poll() is None else None
    if stop and process.poll() is None:
        process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    told = json.loads(out) if out else None
    return {"seen": seen, "told": told, "err": err, "status": process.returncode}


def burst(count: int, gap_s: float = 0.0, payload: int = 1024) -> Any:
    frames = [write(psn, payload) for psn in range(count)]

    def drive(a: socket.socket, b: socket.socket) -> dict[str, Any]:
        begin = time.monotonic()
        for frame in frames:
            a.send(frame)
            if gap_s:
                time.sleep(gap_s)
        got = [checks(frame) for frame in read_all(b) if frame[12:14] == b"\x08\x00"]
        back = [frame.hex() for frame in read_all(a, 0.1) if frame[12:14] == b"\x88\x08"]
        return {"got": got, "back": back, "took_s": time.monotonic() - begin}

    return drive


def tagged(a: socket.socket, b: socket.socket) -> list[str]:
    frame = write(1)
    a.send(frame[:12] + b"\x81\x00\x60\x07" + frame[12:])
    return [got[:18].hex() for got in read_all(b)]


def vanish(_a: socket.socket, _b: socket.socket) -> None:
    subprocess.run(["ip", "link", "del", "b0"], check=True)
    time.sleep(1.0)


def speed(a: socket.socket, b: socket.socket) -> dict[str, Any]:
    frames = [write(psn, 1024) for psn in range(64)]
    end_at, sent = time.monotonic() + 2.0, 0
    while time.monotonic() < end_at:
        for frame in frames:
            a.send(frame)
        sent += len(frames)
    return {"sent": sent}


CASES: dict[str, tuple[str, Any]] = {
    "rate": ("rate: 100Mbps\nbuffer: 10MB\n", burst(500)),
    "full": ("rate: 10Mbps\nbuffer: 20KB\n", burst(100)),
    "marks": ("rate: 100Mbps\nbuffer: 1MB\necn: {k_min: 20KB, k_max: 20KB}\n", burst(100)),
    "pauses": ("rate: 100Mbps\nbuffer: 1MB\npfc: {xoff: 50KB, xon: 20KB, quanta: 65535}\n", burst(100)),
    "events": (
        "rate: 1Gbps\nevents:\n  - {action: drop, qp: 0x11, nth: 3}\n  - {action: mark, psn: 5}\n"
        "  - {action: corrupt, psn: 7}\n  - {action: reorder, psn: 9, packets: 2}\n"
        "  - {action: delay, psn: 15, delay: 50ms}\n  - {action: drop, qp: 0x12, nth: 1}\n",
        burst(20, 0.005),
    ),
    "loss": ("rate: 1Gbps\nloss: 0.1\nbuffer: 10MB\n", burst(2000)),
    "tagged": ("rate: 1Gbps\n", tagged),
    "vanish": ("rate: 1Gbps\n", vanish),
    "speed": ("rate: 100Gbps\nbuffer: 100MB\n", speed),
}


def main() -> None:
    for one, other in (("a0", "pa"), ("b0", "pb")):
        subprocess.run(["ip", "link", "add", one, "type", "veth", "peer", "name", other], check=True)
        for name in (one, other):
            Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6").write_text("1")
            subprocess.run(["ip", "link", "set", name, "mtu", "4200", "up"], check=True)
    settings, drive = CASES[sys.argv[1]]
    with tempfile.TemporaryDirectory() as folder:
        result = lab(settings, drive, Path(folder), stop=sys.argv[1] != "vanish")
        result["files"] = sorted(path.name for path in (Path(folder) / "out").glob("*"))
        result["cpu_s"] = sum(os.times()[2:4])
    print(json.dumps(result))


if __name__ == "__main__":
    main()
