"""`ib_write_bw` as the other end of a scenario's queue pairs, on an rxe device or a real NIC."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from tailback.errors import InputError
from tailback.live.neighbours import neighbours
from tailback.live.perftest import DEFAULT_PORT, PATH_MTUS_BYTES, Exchange, ExchangeError, QueuePairEnd

if TYPE_CHECKING:
    from tailback.results import Result

PERFTEST_OPTION = "--perftest"
PS_PER_S = 10**12


class PerftestPeer:
    """The connection to `ib_write_bw`: it is the server if the local host writes, else the client."""

    def __init__(self, exchange: Exchange, message: int, sends: bool) -> None:
        """The queue pairs are already exchanged. `message`: bytes of a message. `sends`: it is `ib_send_bw`."""
        self.exchange, self.message, self.sends = exchange, message, sends
        self.over = False
        """True when the client has written everything, or is gone."""

    def opened(self) -> None:
        """Says that the local host can receive."""
        self.exchange.ready(self.sends)
        if not self.exchange.is_client:
            threading.Thread(target=self._wait, daemon=True).start()

    def close(self, result: Result) -> None:
        """Reports bytes and rate to the server."""
        if not self.exchange.is_client:
            return
        rows = result.flows.to_pylist()
        ended = [row["end_ps"] for row in rows if row["end_ps"] is not None]
        spent_s = (max(ended) if ended else int(result.meta["end_ps"])) / PS_PER_S
        messages = sum(int(row["messages_completed"]) for row in rows)
        self._end(messages, messages * self.message / spent_s if spent_s else 0.0)

    def _wait(self) -> None:
        with suppress(ExchangeError):
            self._end(0, 0.0)
        self.over = True

    def _end(self, messages: int, bytes_per_s: float) -> None:
        """As the server, waits until the client has written everything; as the client, says so."""
        self.exchange.written()
        self.over = True
        if not self.sends:
            self.exchange.report(self.message, messages, bytes_per_s)
        self.exchange.close()


def _address(given: str) -> tuple[str, int]:
    host, colon, port = given.rpartition(":")
    if not colon:
        return given, DEFAULT_PORT
    if not port.isdigit() or not 0 < int(port) < 1 << 16:
        raise InputError.at(PERFTEST_OPTION, f"found {given}, expected ADDRESS or ADDRESS:PORT")
    return host, int(port)


def _local_host(live: Mapping[str, Any]) -> int:
    """Number of the only local host, which is the source of every queue pair, or the destination of every one."""
    here = [number for number, host in enumerate(live["hosts"]) if host["interface"]]
    if len(here) != 1:
        raise InputError.at(PERFTEST_OPTION, f"found {len(here)} hosts with an interface here, expected one")
    for end in ("src", "dst"):
        if all(flow[end] == here[0] for flow in live["flows"]):
            return here[0]
    raise InputError.at(
        PERFTEST_OPTION,
        "found queue pairs of other hosts, or both ways, expected one host that writes to another",
    )


@contextmanager
def perftest_peer(
    given: str, live: dict[str, Any], memory: Callable[[int], tuple[int, int]]
) -> Iterator[PerftestPeer]:
    """Connects to `ib_write_bw` at `given` if the local host writes, else waits for it there.

    Fills in the other end of each queue pair of `live`. `memory`: see `Live.memory` of the engine.

    Raises:
        InputError: there is no answer, or not from `ib_write_bw`.
    """
    number = _local_host(live)
    host, flows = live["hosts"][number], live["flows"]
    if host["mtu"] not in PATH_MTUS_BYTES:
        raise InputError.at(
            PERFTEST_OPTION, f"found host.mtu of {host['mtu']} B, expected 256, 512, 1024, 2048 or 4096"
        )
    writes = flows[0]["src"] == number
    server = _address(given)
    try:
        with neighbours(host["interface"], host["mac"], host["ip"]) as known:
            exchange = (Exchange.connect if writes else Exchange.listen)(*server)
            host["mtu"] = exchange.mtu(host["mtu"])
            own = []
            for at in range(len(flows)):
                qpn, address = memory(at)
                psn = (live["seed"] * 0x9E3779B1 + qpn * 0x85EBCA6B) & 0xFFFFFF
                own.append(QueuePairEnd(qpn, psn, qpn, address, host["ip"]))
            ends = exchange.ends(own)
            for flow, mine, end in zip(flows, own, ends, strict=True):
                mac = known.find(end.ip)
                if mac is None:
                    text = f"found nobody with {end.ip} at {host['interface']}, expected its NIC"
                    raise ExchangeError(text)
                flow["remote"] = {
                    "mac": list(mac),
                    "ip": end.ip,
                    "qpn": end.qpn,
                    "psn": end.psn,
                    "own_psn": mine.psn,
                    "r_key": end.r_key,
                    "address": end.address,
                }
            yield PerftestPeer(exchange, flows[0]["message"], flows[0]["verb"] == "send")
    except ExchangeError as error:
        raise InputError.at(PERFTEST_OPTION, str(error)) from None
    except OSError as error:
        text = (error.strerror or str(error)).lower()
        text = f"{host['interface']}: found {text}, expected an interface of this namespace"
        raise InputError.at(PERFTEST_OPTION, text) from None
