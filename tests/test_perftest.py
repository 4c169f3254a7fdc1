"""The exchange of `ib_write_bw`, both sides of it, and other programs. With perftest itself: tests/vm."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tailback.errors import InputError
from tailback.live import perftest
from tailback.live.perftest import Exchange, ExchangeError, QueuePairEnd
from tailback.live.perftest_peer import perftest_peer

ends = st.builds(
    QueuePairEnd,
    qpn=st.integers(0, (1 << 24) - 1),
    psn=st.integers(0, (1 << 24) - 1),
    r_key=st.integers(0, (1 << 32) - 1),
    address=st.integers(0, (1 << 64) - 1),
    ip=st.ip_addresses(v=4).map(str),
)
END = QueuePairEnd(0x100, 0x1E4B1, 0x100, 0x7F0000000000, "10.84.0.2")


@given(ends)
def test_an_end_is_read_as_it_was_written(end: QueuePairEnd) -> None:
    assert len(end.text()) == perftest.QUEUE_PAIR_TEXT_BYTES
    assert QueuePairEnd.of(end.text()) == end


def test_an_end_is_what_perftest_writes() -> None:
    # ib_write_bw 6.06 on soft-RoCE, as it came over TCP.
    text = (
        b"0000:0001:000011:f61741:000002cd:00007f26f66d2000:00:00:00:00:00:00:00:00:00:00:ff:ff:0a:54:c8:01"
    )
    assert QueuePairEnd.of(text + b":00000000:\0") == QueuePairEnd(
        0x11, 0xF61741, 0x2CD, 0x7F26F66D2000, "10.84.200.1"
    )


@given(st.binary(max_size=perftest.QUEUE_PAIR_TEXT_BYTES))
def test_other_bytes_are_refused(text: bytes) -> None:
    with pytest.raises(ExchangeError):
        QueuePairEnd.of(text)


def both(client: Callable[[Exchange], Any], server: Callable[[Exchange], Any]) -> list[Any]:
    """What each of two programs comes to."""
    told: list[Any] = [None, None]

    def run(number: int, stream: socket.socket, what: Callable[[Exchange], Any]) -> None:
        with stream:
            told[number] = what(Exchange(stream, number == 0))

    streams = socket.socketpair()
    threads = [
        threading.Thread(target=run, args=(number, stream, what))
        for number, (stream, what) in enumerate(zip(streams, (client, server), strict=True))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return told


def test_two_ends_learn_of_each_other() -> None:
    def side(own: list[QueuePairEnd], mtu: int) -> Callable[[Exchange], Any]:
        def talk(exchange: Exchange) -> Any:
            found = exchange.mtu(mtu), exchange.ends(own)
            exchange.ready(False)
            exchange.written()
            exchange.report(65_536, 100, 2e7)
            exchange.close()
            return found

        return talk

    client = [END, QueuePairEnd(0x101, 5, 0x101, 0x7F0100000000, "10.84.0.2")]
    server = [QueuePairEnd(number, 7, 9, 11, "10.84.200.1") for number in (17, 18)]
    assert both(side(client, 4096), side(server, 1024)) == [(1024, server), (1024, client)]


def test_an_end_that_goes_away_is_told_in_one_line() -> None:
    def talk(exchange: Exchange) -> str:
        try:
            exchange.mtu(1024)
            exchange.ends([END])
        except ExchangeError as error:
            return str(error)
        return ""

    def hang_up(exchange: Exchange) -> None:
        exchange.mtu(1024)

    told, _ = both(talk, hang_up)
    assert "expected ib_write_bw" in told
    assert "\n" not in told


@pytest.mark.parametrize(
    ("given", "hosts", "flows", "expected"),
    [
        ("1.2.3.4:x", 1, [(0, 1)], "expected ADDRESS or ADDRESS:PORT"),
        ("1.2.3.4", 2, [(0, 1)], "expected one"),
        ("1.2.3.4", 1, [(0, 1), (1, 0)], "expected one host that writes to another"),
    ],
)
def test_what_ib_write_bw_cannot_be_is_refused(
    given: str, hosts: int, flows: list[tuple[int, int]], expected: str
) -> None:
    live = {
        "seed": 1,
        "hosts": [
            {"interface": "lo" if number < hosts else None, "mtu": 1024, "mac": [2] * 6, "ip": "10.84.0.1"}
            for number in range(2)
        ],
        "flows": [{"src": src, "dst": dst, "message": 65_536} for src, dst in flows],
    }
    with pytest.raises(InputError, match=expected), perftest_peer(given, live, lambda at: (at, at)):
        pass
