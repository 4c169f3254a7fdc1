"""System calls that Python does not have: namespaces, offloads, filters, XDP, counters.

Standard library only: the processes inside of the namespaces load nothing else.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import platform
import socket
import struct
from pathlib import Path

PRODUCER_IF, CONSUMER_IF = "veth0", "veth1"
"""The ends of the pair."""
_LIBC = ctypes.CDLL(None, use_errno=True)
_CLONE_NEWNS, _CLONE_NEWNET = 0x0002_0000, 0x4000_0000
_MS_REC, _MS_PRIVATE = 0x4000, 0x4_0000
_PR_SET_PDEATHSIG, _SIGKILL = 1, 9
_SIOCETHTOOL = 0x8946
_STSO, _SGSO, _SGRO = 0x1F, 0x24, 0x2C  # linux/ethtool.h: ETHTOOL_STSO, ETHTOOL_SGSO, ETHTOOL_SGRO
_SO_ATTACH_FILTER, _PACKET_IGNORE_OUTGOING, _ETH_P_ALL = 26, 23, 3
_LOAD_BYTE, _JUMP_IF_EQUAL, _RETURN = 0x30, 0x15, 0x06  # linux/bpf_common.h: LD|B|ABS, JMP|JEQ|K, RET|K
NAPI_PRIORITY = 3
"""Higher than that of senders, which would starve a poll on their core."""
_RULES_OF_A_FILTER = 500
"""Two instructions each; a filter counts for its socket, which net.core.optmem_max limits."""
_BPF_NUMBER = {"x86_64": 321, "aarch64": 280}
_PROG_LOAD, _LINK_CREATE, _PROG_TYPE_XDP, _ATTACH_XDP, _XDP_FLAGS_DRV_MODE = 5, 28, 6, 37, 4


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
    return result


def end_with_parent() -> None:
    """Lets the kernel kill this process when its parent ends."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)


def enter_new_namespace() -> None:
    """Puts this process into a new network namespace with its own /sys.

    Raises:
        OSError: it is not permitted.
    """
    _checked(_LIBC.unshare(_CLONE_NEWNET | _CLONE_NEWNS), "a network namespace")
    _checked(_LIBC.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None), "a mount namespace")
    _checked(_LIBC.mount(b"sysfs", b"/sys", b"sysfs", 0, None), "/sys of a network namespace")


def only_single_packets(interface: str) -> None:
    """Turns TSO and GSO off, without which veth passes its ring by, and GRO on, which makes NAPI poll it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for command, value in ((_STSO, 0), (_SGSO, 0), (_SGRO, 1)):
            given = ctypes.create_string_buffer(struct.pack("II", command, value))
            request = struct.pack("16sP", interface.encode(), ctypes.addressof(given))
            fcntl.ioctl(asked, _SIOCETHTOOL, request)


def napi_threads(interface: str, core: int) -> None:
    """Lets a thread poll the interface, where permitted on a core of its own and before other programs."""
    Path(f"/sys/class/net/{interface}/threaded").write_text("1")
    for name in Path("/proc").glob("[0-9]*/comm"):
        try:
            if not name.read_text().startswith(f"napi/{interface}-"):
                continue
            number = int(name.parent.name)
            os.sched_setaffinity(number, {core})
            os.sched_setscheduler(number, os.SCHED_FIFO, os.sched_param(NAPI_PRIORITY))
        except OSError:  # the thread has ended, or belongs to another user
            continue


def rules(interface: str, count: int) -> list[socket.socket]:
    """Compares each packet that the interface receives with `count` rules, in the context that polls it.

    A rule is two instructions of a packet socket's filter: load a byte, compare it with what it never is.
    Nothing is ever delivered. They hold as long as the sockets.
    """
    made = []
    while count > 0:
        here = min(count, _RULES_OF_A_FILTER)
        count -= here
        # The protocol of IPv4; 255 is reserved. A miss goes on with the next rule.
        code = [(_LOAD_BYTE, 0, 0, 23), (_JUMP_IF_EQUAL, 0, 0, 255)] * here + [(_RETURN, 0, 0, 0)]
        filters = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in code))
        one = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        one.setsockopt(
            socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HP", len(code), ctypes.addressof(filters))
        )
        one.setsockopt(263, _PACKET_IGNORE_OUTGOING, 1)  # SOL_PACKET
        one.bind((interface, _ETH_P_ALL))
        made.append(one)
    return made


def xdp_pass(interface: str) -> int:
    """Attaches an XDP program that passes everything, in the driver; it holds as long as the descriptor.

    Raises:
        OSError: the kernel has no such thing, or does not permit it.
    """
    number = _BPF_NUMBER.get(platform.machine())
    if number is None:
        raise OSError(f"no number for bpf(2) on {platform.machine()}")
    code = ctypes.create_string_buffer(
        struct.pack("BBhi", 0xB7, 0, 0, 2) + struct.pack("BBhi", 0x95, 0, 0, 0)
    )
    licence = ctypes.create_string_buffer(b"GPL")
    load = struct.pack(
        "IIQQIIQII16sII",
        *(_PROG_TYPE_XDP, 2, ctypes.addressof(code), ctypes.addressof(licence)),
        *(0, 0, 0, 0, 0, b"tailback_pass", 0, _ATTACH_XDP),
    )
    program = _bpf(number, _PROG_LOAD, load)
    try:
        where = socket.if_nametoindex(interface)
        return _bpf(
            number, _LINK_CREATE, struct.pack("IIII", program, where, _ATTACH_XDP, _XDP_FLAGS_DRV_MODE)
        )
    finally:
        os.close(program)


def _bpf(number: int, command: int, attributes: bytes) -> int:
    given = ctypes.create_string_buffer(attributes)
    return _checked(_LIBC.syscall(number, command, given, len(attributes)), "XDP")


def device_counters(interface: str) -> dict[str, int]:
    """Packets received, sent and dropped in sending, of an interface of this namespace: /proc/net/dev."""
    for line in Path("/proc/self/net/dev").read_text().splitlines():
        name, _, numbers = line.partition(":")
        if name.strip() == interface:
            values = [int(one) for one in numbers.split()]
            return {"rx_packets": values[1], "tx_packets": values[9], "tx_dropped": values[11]}
    raise OSError(f"{interface} is gone")


_RTM_GETQDISC, _NLM_F_REQUEST, _NLM_F_DUMP, _NLMSG_DONE = 38, 1, 0x300, 3
_TC_H_ROOT, _TCA_KIND, _TCA_STATS = 0xFFFF_FFFF, 1, 3


def qdisc_counters(interface: str) -> dict[str, int]:
    """`sent_bytes` and `sent`, `drops`, and the `packets` and `bytes` that wait, of the root discipline.

    Of RTM_GETQDISC; empty where none is listed.
    """
    index = socket.if_nametoindex(interface)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as asked:
        body = struct.pack("BxxxiIII", 0, index, 0, 0, 0)
        head = struct.pack("IHHII", 16 + len(body), _RTM_GETQDISC, _NLM_F_REQUEST | _NLM_F_DUMP, 1, 0)
        asked.send(head + body)
        while True:
            data = asked.recv(65_536)
            while len(data) >= 16:
                length, kind = struct.unpack_from("IH", data)
                if kind == _NLMSG_DONE or length < 16:
                    return {}
                found = _root_stats(data[16:length], index)
                if found:
                    return found
                data = data[(length + 3) & ~3 :]


def _root_stats(message: bytes, index: int) -> dict[str, int]:
    if len(message) < 20 or struct.unpack_from("i", message, 4)[0] != index:
        return {}
    if struct.unpack_from("I", message, 12)[0] != _TC_H_ROOT:
        return {}
    at = 20
    while at + 4 <= len(message):
        length, kind = struct.unpack_from("HH", message, at)
        if kind == _TCA_STATS:
            names = ("sent_bytes", "sent", "drops", "overlimits", "bps", "pps", "packets", "bytes")
            return dict(
                zip(names, struct.unpack_from("Q7I", message, at + 4), strict=True)
            )  # struct tc_stats
        at += max(4, (length + 3) & ~3)
    return {}
