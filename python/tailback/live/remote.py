"""The other end of a scenario's queue pairs, where `ib_write_bw` has it: an rxe device, or a real NIC."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from tailback.errors import InputError
from tailback.live.neighbours import neighbours
from tailback.live.perftest import MTUS, PORT, End, Exchange, ExchangeError

if TYPE_CHECKING:
    from tailback.results import Result

OPTION = "--perftest"
PS_PER_S = 10**12


class Remote:
    """What `ib_write_bw` is told, and tells: a server where the host that is here writes, else a client."""

    def __init__(self, exchange: Exchange, message: int, sends: bool) -> None:
        """Once both ends know of each other's queue pairs.

        `message`: bytes of one. `sends`: it is `ib_send_bw`.
        """
        self.exchange, self.message, self.sends = exchange, message, sends
        self.over = False
        """The client has written all that it wanted to, or went away."""

    def opened(self) -> None:
        """The host that is here can receive now."""
        self.exchange.ready(self.sends)
        if not self.exchange.is_client:
            threading.Thread(target=self._wait, daemon=True).start()

    def close(self, result: Result) -> None:
        """Tells the server how much was written, and how fast."""
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
        """Waits until the client has done all that it wanted to, or says so."""
        self.exchange.written()
        self.over = True
        if not self.sends:
            self.exchange.report(self.message, messages, bytes_per_s)
        self.exchange.close()


def _address(given: str) -> tuple[str, int]:
    host, colon, port = given.rpartition(":")
    if not colon:
        return given, PORT
    if not port.isdigit() or not 0 < int(port) < 1 << 16:
        raise InputError.at(OPTION, f"found {given}, expected ADDRESS or ADDRESS:PORT")
    return host, int(port)


def _here(live: Mapping[str, Any]) -> int:
    """Number of the only host that is here; it has an end of every queue pair, and the same one."""
    here = [number for number, host in enumerate(live["hosts"]) if host["interface"]]
    if len(here) != 1:
        raise InputError.at(OPTION, f"found {len(here)} hosts with an interface here, expected one")
    for end in ("src", "dst"):
        if all(flow[end] == here[0] for flow in live["flows"]):
            return here[0]
    raise InputError.at(
        OPTION, "found queue pairs of other hosts, or both ways, expected one host that writes to another"
    )


@contextmanager
def remote(given: str, live: dict[str, Any], memory: Callable[[int], tuple[int, int]]) -> Iterator[Remote]:
    """Meets `ib_write_bw`: at its address where the host that is here writes, else it is waited for there.

    Fills in the other end of each queue pair of `live`. `memory`: see `Live.memory` of the engine.

    Raises:
        InputError: nobody is there, or it is no `ib_write_bw`.
    """
    number = _here(live)
    host, flows = live["hosts"][number], live["flows"]
    if host["mtu"] not in MTUS:
        raise InputError.at(
            OPTION, f"found host.mtu of {host['mtu']} B, expected 256, 512, 1024, 2048 or 4096"
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
                own.append(End(qpn, psn, qpn, address, host["ip"]))
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
            yield Remote(exchange, flows[0]["message"], flows[0]["verb"] == "send")
    except ExchangeError as error:
        raise InputError.at(OPTION, str(error)) from None
    except OSError as error:
        text = (error.strerror or str(error)).lower()
        text = f"{host['interface']}: found {text}, expected an interface of this namespace"
        raise InputError.at(OPTION, text) from None
