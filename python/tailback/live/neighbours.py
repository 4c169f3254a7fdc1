"""ARP (RFC 826) for end points whose addresses the kernel does not have."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Iterator, Sequence

ETH_P_ARP = 0x0806
ARP_REQUEST, ARP_REPLY = 1, 2
BROADCAST_MAC = b"\xff" * 6
ARP_HEADER_START = struct.pack("!HHBB", 1, 0x0800, 6, 4)
"""Ethernet, IPv4, and the lengths of their addresses."""
LOOKUP_TIMEOUT_S, REQUEST_INTERVAL_S = 5.0, 0.5


class Neighbours:
    """Answers ARP requests for one address at an interface, and looks up others."""

    def __init__(self, interface: str, mac: Sequence[int], ip: str) -> None:
        """
        Raises:
            OSError: the interface cannot be used.
        """
        self.mac, self.ip = bytes(mac), socket.inet_aton(ip)
        self.known: dict[bytes, bytes] = {}
        self.over = False
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ARP))
        self.socket.bind((interface, ETH_P_ARP))
        self.socket.settimeout(0.1)

    def find(self, ip: str) -> bytes | None:
        """The MAC address of an IP address; None without an answer."""
        wanted, until = socket.inet_aton(ip), time.monotonic() + LOOKUP_TIMEOUT_S
        while wanted not in self.known and time.monotonic() < until:
            self._send(ARP_REQUEST, BROADCAST_MAC, b"\0" * 6, wanted)
            asked = time.monotonic()
            while wanted not in self.known and time.monotonic() < asked + REQUEST_INTERVAL_S:
                time.sleep(0.01)
        return self.known.get(wanted)

    def answer(self) -> None:
        """Answers requests until `over` is set."""
        while not self.over:
            with contextlib.suppress(OSError):
                self._handle(self.socket.recv(2048))
        self.socket.close()

    def _handle(self, frame: bytes) -> None:
        if len(frame) < 42 or frame[14:20] != ARP_HEADER_START:
            return
        kind, mac, ip, _, wanted = struct.unpack("!H6s4s6s4s", frame[20:42])
        self.known[ip] = mac
        if kind == ARP_REQUEST and wanted == self.ip:
            self._send(ARP_REPLY, mac, mac, ip)

    def _send(self, kind: int, to: bytes, mac: bytes, ip: bytes) -> None:
        body = ARP_HEADER_START + struct.pack("!H6s4s6s4s", kind, self.mac, self.ip, mac, ip)
        self.socket.send(to + self.mac + struct.pack("!H", ETH_P_ARP) + body)


@contextlib.contextmanager
def neighbours(interface: str, mac: Sequence[int], ip: str) -> Iterator[Neighbours]:
    """Inside the block, requests for the address are answered."""
    known = Neighbours(interface, mac, ip)
    thread = threading.Thread(target=known.answer, daemon=True)
    thread.start()
    try:
        yield known
    finally:
        known.over = True
        thread.join()
