"""Checks the hosts of a lab before a test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tailback.lab import undo_steps
from tailback.lab.model import Lab, LabBridge, LabNic
from tailback.lab.remote_shell import ask, last_line
from tailback.lab.steps import RING_ENTRIES_LINE
from tailback.lab.undo_steps import PRIORITY_COUNT, CannotUndo


@dataclass(frozen=True)
class Check:
    """A command on a host and its expected output; `among`: the expected word among others."""

    host: str
    what: str
    line: str
    expected: str
    among: bool = False
    seen: Callable[[str], str] | None = None
    """Extracts the found value from the output; None: the whole output."""


@dataclass(frozen=True)
class CheckResult:
    """A check and its result."""

    check: Check
    found: str
    ok: bool


def checks(lab: Lab) -> list[Check]:
    return [
        *(
            Check(
                one.host,
                f"driver of {one.pci}",
                f"basename $(readlink /sys/bus/pci/devices/{one.pci}/driver)",
                one.to,
            )
            for one in lab.rebind
        ),
        *(check for one in lab.bridges for check in _bridge(one)),
        *(check for one in lab.nics for check in _nic(one)),
        *(
            Check(
                host, f"{test.tool} of {test.name}", f"command -v {test.folder or ''}{test.tool} | wc -l", "1"
            )
            for test in lab.tests
            for host in (test.server, test.client)
        ),
    ]


def verify(lab: Lab) -> list[CheckResult]:
    """Runs all checks; those of a host that does not answer fail."""
    found = []
    for check in checks(lab):
        status, printed, said = ask(lab.hosts[check.host], check.line)
        seen = " ".join(printed.split())
        if check.seen is not None and status == 0:
            try:
                seen = check.seen(printed)
            except CannotUndo as error:
                seen = str(error)
        ok = check.expected in seen if check.among else check.expected == seen
        found.append(CheckResult(check, seen or (last_line(said) if status else "nothing"), ok))
    return found


def _bridge(bridge: LabBridge) -> Iterator[Check]:
    host = bridge.host
    yield _mtu(host, bridge.name, bridge.mtu)
    for port in bridge.ports:
        name = port.interface
        if port.roce is not None:
            show = f"devlink dev param show pci/{port.pci} name enable_roce"
            yield Check(host, f"RoCE of {name}", show, f"value {str(port.roce).lower()}", among=True)
        if port.roce is False:
            line = f"ls /sys/bus/pci/devices/{port.pci}/infiniband 2> /dev/null | wc -l"
            yield Check(host, f"RDMA devices of {name}", line, "0")
        yield _mtu(host, name, bridge.mtu)
        yield _link(host, f"bridge of {name}", name, bridge.name, "master")
        state = ("linkinfo", "info_slave_data", "state")
        yield _link(host, f"state of {name} in the bridge", name, "forwarding", *state)
        if port.rx_ring is not None:
            yield Check(host, f"receive ring of {name}", RING_ENTRIES_LINE % name, str(port.rx_ring))
        if port.qdisc is not None:
            line = f"tc qdisc show dev {name}"
            yield Check(host, f"discipline of {name}", line, f"qdisc {port.qdisc.kind} ", among=True)


def _mtu(host: str, interface: str, mtu: int) -> Check:
    return _link(host, f"MTU of {interface}", interface, str(mtu), "mtu")


def _link(host: str, what: str, interface: str, expected: str, *path: str) -> Check:
    """A value of a device in the JSON of ip."""

    def seen(printed: str) -> str:
        value: Any = undo_steps.link(printed, interface)
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        return "nothing" if value is None else str(value)

    return Check(host, what, undo_steps.link_line(interface), expected, seen=seen)


def _nic(nic: LabNic) -> Iterator[Check]:
    host, name = nic.host, nic.interface
    state = f"/sys/class/infiniband/{nic.device}/ports/1/state"
    yield Check(host, f"state of {nic.device}", f"cat {state}", "ACTIVE", among=True)
    if nic.mtu is not None:
        yield _mtu(host, name, nic.mtu)
    if nic.address is not None:
        yield Check(host, f"address of {name}", f"ip -o addr show dev {name}", f" {nic.address} ", among=True)
    for priority in nic.ecn:
        for role in ("roce_np", "roce_rp"):
            file = f"/sys/class/net/{name}/ecn/{role}/enable/{priority}"
            yield Check(host, f"{role} of priority {priority} at {name}", f"cat {file}", "1")
    if nic.pfc is not None:
        lossless = [int(number in nic.pfc.priorities) for number in range(PRIORITY_COUNT)]
        rows = {"enabled": lossless, "buffer": [nic.pfc.buffer * one for one in lossless]}
        for row, values in rows.items():
            line = f"mlnx_qos -i {name} | awk '$1 == \"{row}\" && NF == 9'"
            yield Check(host, f"PFC of {name}, {row}", line, " ".join(map(str, [row, *values])))
