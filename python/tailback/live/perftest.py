"""The exchange of perftest's `ib_write_bw`, so that it is the other end of what is written here; that of
`ib_read_bw` is the same. With `ib_send_bw` both say once more that they are ready, and the server counts
messages by itself: its client does not tell it of them.

Two programs of perftest tell each other over TCP what their queue pairs are, when they are ready and when
they are done, as perftest 4.5 to 6.27 do it: `exchange_versions`, `check_sys_data`, `check_mtu`,
`ctx_hand_shake`, `xchg_bw_reports` and `ctx_close_connection` in its `perftest_communication.c`. Each step is
one message each way, the client's first.
"""

from __future__ import annotations

import ipaddress
import socket
import struct
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

PORT = 18_515
VERSION = b"6.00"
"""What is spoken here: with 6.28 or later perftest negotiates more."""
VERSION_BYTES = 16
BUFFER_BYTES, LINE_BYTES = 4096, 64
"""Of the memory that messages go round in, and of a cache line, as perftest has them on x86."""
MTUS = (256, 512, 1024, 2048, 4096)
"""By the number that verbs have for each: 1, 2, ..."""
END_BYTES = 108
PATIENCE_S = 20.0
"""perftest sleeps for a second at its start, and moves its queue pairs on meanwhile."""
MIB = 1 << 20


class ExchangeError(Exception):
    """The other program went away, or said what perftest does not; one line."""


@dataclass(frozen=True)
class End:
    """A queue pair as its owner tells of it."""

    qpn: int
    psn: int
    r_key: int
    address: int
    ip: str

    def text(self) -> bytes:
        """As perftest writes it; LID 0, one READ outstanding, no SRQ."""
        gid = ipaddress.IPv6Address(f"::ffff:{self.ip}").packed
        key = f"{0:04x}:{1:04x}:{self.qpn:06x}:{self.psn:06x}:{self.r_key:08x}:{self.address:016x}"
        return f"{key}:{':'.join(f'{byte:02x}' for byte in gid)}:{0:08x}:".encode().ljust(END_BYTES, b"\0")

    @staticmethod
    def of(text: bytes) -> End:
        """What perftest wrote.

        Raises:
            ExchangeError: it is no end with an IPv4 address.
        """
        try:
            fields = [int(field, 16) for field in text.split(b"\0")[0].decode("ascii").split(":")[:22]]
            _, _, qpn, psn, r_key, address, *gid = fields
            ip = ipaddress.IPv6Address(bytes(gid)).ipv4_mapped
        except ValueError:
            found = text.decode("ascii", "backslashreplace")
            raise ExchangeError(f"found {found!r}, expected a queue pair of ib_write_bw") from None
        if ip is None:
            raise ExchangeError("found a GID without IPv4, expected RoCEv2 over IPv4: ib_write_bw -x")
        return End(qpn, psn, r_key, address, str(ip))


class Exchange:
    """A connection to the other program."""

    def __init__(self, stream: socket.socket, is_client: bool) -> None:
        """On a connected `stream`; `is_client`: this end has connected."""
        self.stream, self.is_client = stream, is_client
        self.own: list[End] = []
        stream.settimeout(PATIENCE_S)

    @staticmethod
    def connect(address: str, port: int) -> Exchange:
        """To `ib_write_bw` that waits for a client.

        Raises:
            ExchangeError: nobody answers there.
        """
        try:
            return Exchange(socket.create_connection((address, port), PATIENCE_S), True)
        except OSError as error:
            text = (error.strerror or str(error)).lower()
            raise ExchangeError(f"{address}:{port}: found {text}, expected ib_write_bw") from None

    @staticmethod
    def listen(address: str, port: int) -> Exchange:
        """Waits for `ib_write_bw ADDRESS`.

        Raises:
            ExchangeError: the address is not this machine's, or taken.
        """
        try:
            with socket.create_server((address, port)) as server:
                return Exchange(server.accept()[0], False)
        except OSError as error:
            text = (error.strerror or str(error)).lower()
            raise ExchangeError(f"{address}:{port}: found {text}, expected an address to listen at") from None

    def mtu(self, own: int) -> int:
        """Tells the path MTU of this end, after what comes before it; gives that of both."""
        self._swap(VERSION.ljust(VERSION_BYTES, b"\0"))
        self._swap(struct.pack("!i", BUFFER_BYTES))
        self._swap(struct.pack("!i", LINE_BYTES))
        told = self._swap(f"{MTUS.index(own) + 1}".encode().ljust(2, b"\0"))
        code = int(told[:1]) if told[:1].isdigit() else 0
        if not 1 <= code <= len(MTUS):
            raise ExchangeError(f"found {told!r}, expected a path MTU of 1 to {len(MTUS)}")
        return min(own, MTUS[code - 1])

    def ends(self, own: Sequence[End]) -> list[End]:
        """Tells the queue pairs of this end, and gives those of the other."""
        self.own = list(own)
        return [End.of(self._swap(end.text())) for end in own]

    def ready(self, sends: bool) -> None:
        """Both ends can receive now. `ib_send_bw` says so once more, at first."""
        for end in (*self.own[:sends], *self.own, self.own[0]):
            self._swap(end.text())

    def written(self) -> None:
        """All is written: the client says so, and the server waits for that."""
        self.stream.settimeout(PATIENCE_S if self.is_client else None)
        self._swap(self.own[0].text())
        self.stream.settimeout(PATIENCE_S)

    def report(self, message: int, messages: int, bytes_per_s: float) -> None:
        """How much was written, and how fast; the server prints what the client says."""
        figures = (message, messages, 0.0, bytes_per_s / MIB, bytes_per_s / message / 1e6)
        for figure in figures:
            self._swap(struct.pack("!q" if isinstance(figure, int) else "!d", figure))
        self._swap(self.own[0].text())

    def close(self) -> None:
        """The last word."""
        with self.stream, suppress(OSError):  # whoever is quicker has hung up
            self.stream.sendall(b"done\0")

    def _swap(self, own: bytes) -> bytes:
        """A message each way, of one length."""
        try:
            if self.is_client:
                self.stream.sendall(own)
            told = self._read(len(own))
            if not self.is_client:
                self.stream.sendall(own)
        except OSError as error:
            text = (error.strerror or str(error)).lower()
            raise ExchangeError(f"found {text}, expected ib_write_bw with as many queue pairs (-q)") from None
        return told

    def _read(self, length: int) -> bytes:
        told = b""
        while len(told) < length:
            part = self.stream.recv(length - len(told))
            if not part:
                raise ExchangeError("found that the other end hung up, expected ib_write_bw to go on")
            told += part
        return told
