"""The TCP exchange of perftest's `ib_write_bw`, so that it can be the other end of queue pairs here.

`ib_read_bw` has the same exchange. With `ib_send_bw` both ends say once more that they are ready, and the server
counts messages itself: its client does not report them.

The two programs exchange their queue pairs, and say when they are ready and done, as perftest 4.5 to 6.27 do:
`exchange_versions`, `check_sys_data`, `check_mtu`, `ctx_hand_shake`, `xchg_bw_reports` and
`ctx_close_connection` in its `perftest_communication.c`. Each step is one message in each direction, the client's
first.
"""

from __future__ import annotations

import ipaddress
import socket
import struct
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

DEFAULT_PORT = 18_515
PERFTEST_VERSION = b"6.00"
"""With 6.28 or later perftest negotiates more."""
VERSION_BYTES = 16
CYCLE_BUFFER_BYTES, CACHE_LINE_BYTES = 4096, 64
"""Size of the buffer that messages cycle through, and of a cache line, on x86."""
PATH_MTUS_BYTES = (256, 512, 1024, 2048, 4096)
"""In the order of the verbs' numbers: 1, 2, ..."""
QUEUE_PAIR_TEXT_BYTES = 108
TIMEOUT_S = 20.0
"""perftest sleeps for a second at its start, while it moves its queue pairs on."""
MIB_BYTES = 1 << 20


class ExchangeError(Exception):
    """The other program ended, or is not perftest; the text is one line."""


@dataclass(frozen=True)
class QueuePairEnd:
    """A queue pair as its owner announces it."""

    qpn: int
    psn: int
    r_key: int
    address: int
    ip: str

    def text(self) -> bytes:
        """The text of perftest, with LID 0, one READ outstanding, no SRQ."""
        gid = ipaddress.IPv6Address(f"::ffff:{self.ip}").packed
        key = f"{0:04x}:{1:04x}:{self.qpn:06x}:{self.psn:06x}:{self.r_key:08x}:{self.address:016x}"
        return f"{key}:{':'.join(f'{byte:02x}' for byte in gid)}:{0:08x}:".encode().ljust(
            QUEUE_PAIR_TEXT_BYTES, b"\0"
        )

    @staticmethod
    def of(text: bytes) -> QueuePairEnd:
        """Parses the text of perftest.

        Raises:
            ExchangeError: this is not a queue pair with an IPv4 address.
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
        return QueuePairEnd(qpn, psn, r_key, address, str(ip))


class Exchange:
    """A connection to the other program."""

    def __init__(self, stream: socket.socket, is_client: bool) -> None:
        """`is_client`: this end has opened the connection."""
        self.stream, self.is_client = stream, is_client
        self.own: list[QueuePairEnd] = []
        stream.settimeout(TIMEOUT_S)

    @staticmethod
    def connect(address: str, port: int) -> Exchange:
        """Connects to `ib_write_bw` that waits for a client.

        Raises:
            ExchangeError: there is no answer.
        """
        try:
            return Exchange(socket.create_connection((address, port), TIMEOUT_S), True)
        except OSError as error:
            text = (error.strerror or str(error)).lower()
            raise ExchangeError(f"{address}:{port}: found {text}, expected ib_write_bw") from None

    @staticmethod
    def listen(address: str, port: int) -> Exchange:
        """Waits for `ib_write_bw ADDRESS`.

        Raises:
            ExchangeError: the address is not this machine's, or is in use.
        """
        try:
            with socket.create_server((address, port)) as server:
                return Exchange(server.accept()[0], False)
        except OSError as error:
            text = (error.strerror or str(error)).lower()
            raise ExchangeError(f"{address}:{port}: found {text}, expected an address to listen at") from None

    def mtu(self, own: int) -> int:
        """Exchanges versions, system data and path MTUs, and returns the smaller MTU."""
        self._swap(PERFTEST_VERSION.ljust(VERSION_BYTES, b"\0"))
        self._swap(struct.pack("!i", CYCLE_BUFFER_BYTES))
        self._swap(struct.pack("!i", CACHE_LINE_BYTES))
        reply = self._swap(f"{PATH_MTUS_BYTES.index(own) + 1}".encode().ljust(2, b"\0"))
        code = int(reply[:1]) if reply[:1].isdigit() else 0
        if not 1 <= code <= len(PATH_MTUS_BYTES):
            raise ExchangeError(f"found {reply!r}, expected a path MTU of 1 to {len(PATH_MTUS_BYTES)}")
        return min(own, PATH_MTUS_BYTES[code - 1])

    def ends(self, own: Sequence[QueuePairEnd]) -> list[QueuePairEnd]:
        """Sends the queue pairs of this end, and returns those of the other."""
        self.own = list(own)
        return [QueuePairEnd.of(self._swap(end.text())) for end in own]

    def ready(self, sends: bool) -> None:
        """Says that this end can receive, and waits for the other. `ib_send_bw` first does so once more."""
        for end in (*self.own[:sends], *self.own, self.own[0]):
            self._swap(end.text())

    def written(self) -> None:
        """Ends the test: the client says that it has written everything, and the server waits for that."""
        self.stream.settimeout(TIMEOUT_S if self.is_client else None)
        self._swap(self.own[0].text())
        self.stream.settimeout(TIMEOUT_S)

    def report(self, message: int, messages: int, bytes_per_s: float) -> None:
        """Exchanges the results; the server prints those of the client."""
        figures = (message, messages, 0.0, bytes_per_s / MIB_BYTES, bytes_per_s / message / 1e6)
        for figure in figures:
            self._swap(struct.pack("!q" if isinstance(figure, int) else "!d", figure))
        self._swap(self.own[0].text())

    def close(self) -> None:
        """Closes the connection."""
        with self.stream, suppress(OSError):  # the other end may have closed it already
            self.stream.sendall(b"done\0")

    def _swap(self, own: bytes) -> bytes:
        """Exchanges messages of the same length."""
        try:
            if self.is_client:
                self.stream.sendall(own)
            reply = self._read(len(own))
            if not self.is_client:
                self.stream.sendall(own)
        except OSError as error:
            text = (error.strerror or str(error)).lower()
            raise ExchangeError(f"found {text}, expected ib_write_bw with as many queue pairs (-q)") from None
        return reply

    def _read(self, length: int) -> bytes:
        data = b""
        while len(data) < length:
            part = self.stream.recv(length - len(data))
            if not part:
                raise ExchangeError("found that the other end hung up, expected ib_write_bw to go on")
            data += part
        return data
