"""A process in a network namespace (`python -m tailback.live.veth.agent`), which reads a JSON call per line.

Producer and consumer are two such processes. The namespaces, and the pair between them, end with the processes.
"""

from __future__ import annotations

import ctypes
import errno
import json
import mmap
import os
import select
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from tailback.live.veth import kernel
from tailback.live.veth.kernel import CONSUMER_IF, PRODUCER_IF

INTERFACE_ADDRESSES = {PRODUCER_IF: "10.84.0.1", CONSUMER_IF: "10.84.0.2"}
_SINK_PORT = 9  # discard
_SO_TIMESTAMPNS = 35
_ICMP_HEADER = struct.Struct("!BBHHH")
_ECHO_REQUEST, _ECHO_REPLY = 8, 0
_IPV4_HEADER_BYTES = 20
_PING_TIMEOUT_S = 1.0
"""Later answers count as lost: the longest queue of a case takes a tenth of this."""
_IDLE_INTERVAL_S = 0.004
"""Between two measurements of an idle pair, which has drained by then."""
_STOP_WORD, _SENT_WORD, _WAITS_WORD, _REFUSED_WORD = range(4)
"""Indices of words in memory that the flooding process shares with the one that counts."""
_CALLS_PER_STOP_CHECK = 32
"""Calls of the flood between two checks whether it is to end."""


def _pin_to_core(core: int, priority: int) -> None:
    """Pins this process to a core, with real-time priority where that is permitted."""
    os.sched_setaffinity(0, {core})
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
    except OSError:
        return


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise OSError(f"{' '.join(command)}: {lines[-1] if lines else f'exit status {done.returncode}'}")


class _Agent:
    """The calls of the parent process; each method returns plain data."""

    def __init__(self) -> None:
        kernel.end_with_parent()
        kernel.enter_new_namespace()
        _run("ip", "link", "set", "lo", "up")
        self._kept: list[socket.socket] = []
        self._xdp = -1

    def connect(self, consumer: int) -> None:
        """Makes the pair, and removes an older one; the other end goes to the namespace of process `consumer`."""
        if PRODUCER_IF in (name for _, name in socket.if_nameindex()):
            _run("ip", "link", "del", PRODUCER_IF)
        ends = ("type", "veth", "peer", "name", CONSUMER_IF, "netns", str(consumer))
        _run("ip", "link", "add", PRODUCER_IF, *ends)

    def set_up(self, interface: str, threaded: bool, core: int) -> None:
        """Sets address, offloads and NAPI of an interface; `threaded`: NAPI in a thread on `core`."""
        _run("ip", "addr", "add", f"{INTERFACE_ADDRESSES[interface]}/24", "dev", interface)
        kernel.only_single_packets(interface)
        _run("ip", "link", "set", interface, "up")
        if threaded:
            kernel.napi_threads(interface, core)

    def discipline(self, words: list[str]) -> str:
        """Sets the producer's queueing discipline; returns the error of tc, or ""."""
        try:
            _run("tc", "qdisc", "replace", "dev", PRODUCER_IF, "root", *words)
        except OSError as error:
            return str(error)
        return ""

    def consume(self, rules: int, xdp: bool) -> str:
        """Sets rules and XDP on the consumer's end, and opens the socket of datagrams; returns why XDP failed, or ""."""
        for old in self._kept:
            old.close()
        if self._xdp >= 0:
            os.close(self._xdp)
            self._xdp = -1
        self._kept = kernel.rules(CONSUMER_IF, rules)
        sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sink.bind((INTERFACE_ADDRESSES[CONSUMER_IF], _SINK_PORT))
        self._kept.append(sink)
        if xdp:
            try:
                self._xdp = kernel.xdp_pass(CONSUMER_IF)
            except OSError as error:
                return (error.strerror or str(error)).lower()
        return ""

    def idle(self, sizes: list[int], repeats: int, payload: int, core: int) -> list[list[int]]:
        """Pings behind bursts of datagrams on an otherwise idle pair.

        A row for each ping: datagrams, time to send them, and time from the first of them to the answer, in ns.
        """
        _pin_to_core(core, 2)
        ping, out = _Pinger(56), _datagrams(1 << 20)
        body, rows = bytes(payload), []
        for _ in range(repeats):
            for size in sizes:
                begun = time.time_ns()
                for _ in range(size):
                    out.send(body)
                sent = time.time_ns() - begun
                rtt = ping.once()
                if rtt is not None:
                    rows.append([size, sent, ping.last_sent_ns - begun + rtt])
                time.sleep(_IDLE_INTERVAL_S)
        return rows

    def flood(
        self, flood: dict[str, Any], ping: dict[str, Any], duration_s: float, bin_s: float, core: int
    ) -> dict[str, Any]:
        """Floods and pings for a while, and counts in each bin."""
        _pin_to_core(core, 2)
        shared = mmap.mmap(-1, 32)
        words = (ctypes.c_uint64 * 4).from_buffer(shared)
        before = _read_counters(words)
        child = os.fork()
        if child == 0:
            _flood(words, flood, core)
            os._exit(0)
        try:
            samples, looks = _measure(ping, duration_s, bin_s, words)
        finally:
            words[_STOP_WORD] = 1
            os.waitpid(child, 0)
        return {"samples": samples, "before": before, "looks": looks}


class _Pinger:
    """Sends echo requests, and reads when the kernel received their answers."""

    def __init__(self, payload: int) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
        self.socket.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        self._payload = bytes(payload)
        self._number = 0
        self.waiting: dict[int, int] = {}
        self.last_sent_ns = 0

    def send(self) -> None:
        self._number += 1
        number = self._number & 0xFFFF
        body = _ICMP_HEADER.pack(_ECHO_REQUEST, 0, 0, os.getpid() & 0xFFFF, number) + self._payload
        body = body[:2] + struct.pack("!H", _checksum(body)) + body[4:]
        self.last_sent_ns = self.waiting[number] = time.time_ns()
        try:
            self.socket.sendto(body, (INTERFACE_ADDRESSES[CONSUMER_IF], 0))
        except OSError as error:
            if error.errno != errno.ENOBUFS:  # the request was dropped: there will be no answer
                raise

    def receive(self) -> tuple[int, int] | None:
        """Send time and round trip in ns of an answered request; None for other packets."""
        data, control, _, _ = self.socket.recvmsg(2048, 256)
        kind, _, _, who, number = _ICMP_HEADER.unpack_from(data, _IPV4_HEADER_BYTES)
        if kind != _ECHO_REPLY or who != os.getpid() & 0xFFFF or number not in self.waiting:
            return None
        sent = self.waiting.pop(number)
        seconds, ns = map(int, struct.unpack("qq", control[0][2][:16]))
        return sent, seconds * 10**9 + ns - sent

    def once(self) -> int | None:
        """A round trip in ns; None without an answer."""
        self.send()
        end = time.monotonic() + _PING_TIMEOUT_S
        self.socket.setblocking(False)  # polls: the core stays as busy as under a flood
        while time.monotonic() < end:
            try:
                if (answered := self.receive()) is not None:
                    return answered[1]
            except BlockingIOError:
                continue
        self.waiting.clear()
        return None


def _checksum(data: bytes) -> int:
    total = sum(struct.unpack(f"!{(len(data) + 1) // 2}H", data + bytes(len(data) % 2)))
    total = (total & 0xFFFF) + (total >> 16)
    return int(~(total + (total >> 16)) & 0xFFFF)


def _datagrams(sndbuf: int) -> socket.socket:
    """`sndbuf` is the argument of setsockopt, which the kernel doubles."""
    out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for option in (32, socket.SO_SNDBUF):  # SO_SNDBUFFORCE, past net.core.wmem_max
        try:
            out.setsockopt(socket.SOL_SOCKET, option, sndbuf)
            break
        except OSError:  # not permitted
            continue
    out.connect((INTERFACE_ADDRESSES[CONSUMER_IF], _SINK_PORT))
    return out


def _flood(words: Any, flood: dict[str, Any], core: int) -> None:
    kernel.end_with_parent()
    _pin_to_core(core, 1)
    out, body = _datagrams(flood["sndbuf"] // 2), bytes(flood["payload"])
    out.setblocking(flood["blocking"])
    send = out.send
    while not words[_STOP_WORD]:
        sent = waits = refused = 0
        for _ in range(_CALLS_PER_STOP_CHECK):
            try:
                send(body)
                sent += 1
            except BlockingIOError:
                waits += 1
            except OSError:  # the discipline dropped it
                refused += 1
        words[_SENT_WORD] += sent
        words[_WAITS_WORD] += waits
        words[_REFUSED_WORD] += refused


def _read_counters(words: Any) -> dict[str, int]:
    """Counters of the forward direction, read at nearly the same time."""
    for _ in range(3):
        device = kernel.device_counters(PRODUCER_IF)
        qdisc = kernel.qdisc_counters(PRODUCER_IF)
        sent, waits, refused = words[_SENT_WORD], words[_WAITS_WORD], words[_REFUSED_WORD]
        if kernel.device_counters(PRODUCER_IF)["tx_packets"] == device["tx_packets"]:
            break
    return {
        "time_ns": time.time_ns(),
        **device,
        **{f"qdisc_{name}": value for name, value in qdisc.items()},
        "sent": sent,
        "waits": waits,
        "refused": refused,
    }


def _measure(
    ping: dict[str, Any], duration_s: float, bin_s: float, words: Any
) -> tuple[list[Any], list[Any]]:
    pinger = _Pinger(ping["payload"])
    samples: list[list[int | None]] = []
    looks: list[dict[str, int]] = []
    begun_ns, begun = time.time_ns(), time.monotonic()
    end = begun + duration_s
    bins = round(duration_s / bin_s)
    next_ping, next_look = begun + ping["start_s"], begun + bin_s
    while True:
        now = time.monotonic()
        if now >= next_ping and now < end:
            pinger.send()
            next_ping += ping["interval_s"]
        if now >= next_look and len(looks) < bins:
            looks.append(_read_counters(words))
            next_look += bin_s
        if now >= end and len(looks) == bins and (not pinger.waiting or now >= end + _PING_TIMEOUT_S):
            break
        due = min(next_ping, next_look, end) if now < end else end + _PING_TIMEOUT_S
        ready, _, _ = select.select([pinger.socket], [], [], max(0.0, due - time.monotonic()))
        if ready and (answered := pinger.receive()) is not None:
            samples.append([answered[0] - begun_ns, answered[1]])
    samples += [[sent - begun_ns, None] for sent in pinger.waiting.values()]
    return sorted(samples, key=lambda sample: sample[0] or 0), looks


def main() -> None:
    """Answers `{"call": NAME, ...}` with `{"found": ...}` or `{"error": ...}` until the end of input."""
    try:
        agent = _Agent()
    except OSError as error:
        print(json.dumps({"error": error.strerror or str(error)}), flush=True)
        return
    print(json.dumps({"found": os.getpid()}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        call: Callable[..., Any] = getattr(agent, request.pop("call"))
        try:
            answer = {"found": call(**request)}
        except OSError as error:
            answer = {"error": error.strerror or str(error)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
