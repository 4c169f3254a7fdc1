"""Undoes steps: which state is read before a step, and the commands that restore it.

Output of tools is parsed strictly, when it is read and again when the journal is read. Only numbers, and names
that are listed here, become part of a command.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_interface
from typing import Any

MAX_PRINTED_CHARS = 1 << 20
"""Longer output of a tool is not kept in the journal."""
PRIORITY_COUNT = 8


class CannotUndo(ValueError):  # noqa: N818  it is what was found
    """The present state could not be restored; the text is "found ..., expected ..."."""


@dataclass(frozen=True)
class Undo:
    """How to undo a step."""

    kind: str
    of: str
    """Its object: an interface, a PCI address or a file."""
    about: str
    """Description for readers of the plan."""
    read: str
    """A line that prints the state before; empty if the lab file has the undo command."""
    lines: Callable[[str], list[str]]
    """Commands that restore the state that `read` has printed. Raises CannotUndo if there are none."""
    refused_if: str = ""
    """A condition for Ansible on `now` under which `lines` would raise CannotUndo."""


def fixed(kind: str, of: str, line: str) -> Undo:
    """Undo with a fixed line: of the lab file, or of a step that fails if there is nothing to undo."""
    return Undo(kind, of, line, "", lambda _: [line])


def mtu(interface: str) -> Undo:
    """Restores the MTU of an interface."""

    def lines(printed: str) -> list[str]:
        return [f"ip link set dev {interface} mtu {_mtu_of(link(printed, interface))}"]

    return Undo("mtu", interface, f"the MTU that {interface} had", link_line(interface), lines)


def _mtu_of(found: dict[str, Any]) -> int:
    return _number(found.get("mtu"), "an MTU", 2**31 - 1)


def state(interface: str) -> Undo:
    """Restores up or down."""

    def lines(printed: str) -> list[str]:
        return [] if is_up(link(printed, interface)) else [f"ip link set dev {interface} down"]

    return Undo("state", interface, f"{interface} down, if it was down", link_line(interface), lines)


def master(interface: str) -> Undo:
    """Removes the interface from the bridge. A port of another bridge is refused: its settings would be lost."""

    def lines(printed: str) -> list[str]:
        if "master" in link(printed, interface):
            raise CannotUndo(
                f"found {interface} in another bridge or bond, whose settings of that port undo could not "
                "give back, expected it in none (ip link set dev IFACE nomaster)"
            )
        return [f"ip link set dev {interface} nomaster"]

    refused = "(now.stdout | from_json)[0].master is defined"
    return Undo("master", interface, f"{interface} in no bridge", link_line(interface), lines, refused)


def bridge(name: str) -> Undo:
    """Removes a new bridge."""

    def lines(printed: str) -> list[str]:
        if any(one.get("ifname") == name for one in _rows(printed, "ip -j link")):
            raise CannotUndo(f"found an interface {name} already, expected none")
        there = f"ip link show dev {name} > /dev/null 2>&1"
        return [f"if {there}; then ip link del dev {name}; fi"]

    named = f"selectattr('ifname', 'defined') | selectattr('ifname', 'equalto', '{name}')"
    refused = f"now.stdout | from_json | {named} | list | length > 0"
    return Undo("bridge", name, f"no {name}, if there was none", "ip -j link show", lines, refused)


def address(interface: str, wanted: str) -> Undo:
    """Removes a new address."""

    def lines(printed: str) -> list[str]:
        if wanted in addresses(printed, interface):
            raise CannotUndo(f"found {wanted} at {interface} already, expected it not there")
        there = f"ip -o addr show dev {interface} | grep -qF ' {wanted} '"
        return [f"if {there}; then ip addr del {wanted} dev {interface}; fi"]

    about = f"{interface} without {wanted}, if it had none"
    there = f"selectattr('local', 'defined') | selectattr('local', 'equalto', '{wanted.split('/')[0]}')"
    refused = f"(now.stdout | from_json)[0].addr_info | {there} | list | length > 0"
    return Undo("address", f"{interface} {wanted}", about, addresses_line(interface), lines, refused)


def qdisc(interface: str) -> Undo:
    """Restores the kernel's default discipline. Others are refused: tc does not print enough to restore them."""

    def lines(printed: str) -> list[str]:
        if own := disciplines(printed):
            raise CannotUndo(
                f"found a discipline {own[0].split()[0]} at {interface}, which undo could not give back, "
                f"expected the kernel's own (tc qdisc del dev {interface} root)"
            )
        ours = (
            f"""tc -j qdisc show dev {interface} root | grep -Eq '"handle":"[0-9a-f]*[1-9a-f][0-9a-f]*:"'"""
        )
        return [f"if {ours}; then tc qdisc del dev {interface} root; fi"]

    about = f"the kernel's own discipline at {interface}"
    own = "rejectattr('handle', 'equalto', '0:') | selectattr('root', 'defined')"
    refused = f"now.stdout | trim | default('[]', true) | from_json | {own} | list | length > 0"
    return Undo("qdisc", interface, about, disciplines_line(interface), lines, refused)


def ring(interface: str) -> Undo:
    """Restores the entries of the receive ring."""

    def lines(printed: str) -> list[str]:
        _, current, rest = printed.partition("Current hardware settings")
        found = re.search(r"^RX:[ \t]*([0-9]{1,7})[ \t]*$", rest, re.MULTILINE)
        if not current or found is None:
            raise CannotUndo("found no current RX of ethtool -g, expected a number")
        return [f"ethtool -G {interface} rx {int(found[1])}"]

    return Undo("ring", interface, "the receive ring that it had", f"ethtool -g {interface}", lines)


def coalesce(interface: str) -> Undo:
    """Restores interrupt moderation."""

    def lines(printed: str) -> list[str]:
        adaptive = re.search(r"^Adaptive RX:[ \t]*(on|off)\b", printed, re.MULTILINE)
        if adaptive is None:
            raise CannotUndo("found no Adaptive RX of ethtool -c, expected on or off")
        words = [f"adaptive-rx {adaptive[1]}"]
        for name in ("rx-usecs", "rx-frames"):
            value = re.search(rf"^{name}:[ \t]*([0-9]{{1,10}})[ \t]*$", printed, re.MULTILINE)
            words += [f"{name} {int(value[1])}"] if value else []
        return [f"ethtool -C {interface} {' '.join(words)}"]

    return Undo("coalesce", interface, "the moderation that it had", f"ethtool -c {interface}", lines)


def irqs(interface: str, read: str) -> Undo:
    """Restores the cores of interrupts. `read` prints number and cores of each."""

    def lines(printed: str) -> list[str]:
        found = [re.fullmatch(r"([0-9]{1,7}) ([0-9,-]{1,4000})", line) for line in printed.splitlines()]
        if not found:
            raise CannotUndo(f"found no interrupts of {interface}, expected some in its msi_irqs")
        if not all(found):
            raise CannotUndo("found other lines, expected an interrupt's number and its cores each")
        return [f"echo {one[2]} > /proc/irq/{int(one[1])}/smp_affinity_list" for one in found if one]

    return Undo("irqs", interface, "the cores that they had", read, lines)


def value_of(file: str, pattern: str) -> Undo:
    """Restores a sysfs file with one word."""

    def lines(printed: str) -> list[str]:
        was = printed.strip()
        if re.fullmatch(pattern, was) is None:
            raise CannotUndo(f"found another text in {file}, expected {pattern}")
        return [f"echo {'' if was == '(null)' else was} > {file}"]

    return Undo("file", file, f"what {file} had", f"cat {file}", lines)


def roce(device: str, show: str, setting: str) -> Undo:
    """Restores devlink's enable_roce. `setting`: a line with %s for true or false."""

    def lines(printed: str) -> list[str]:
        was = None
        try:
            for params in json.loads(printed)["param"].values():
                for one in params:
                    for value in one["values"]:
                        if one["name"] == "enable_roce" and value["cmode"] == "driverinit":
                            was = value["value"]
        except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
            was = None
        if not isinstance(was, bool):
            raise CannotUndo("found no enable_roce of devlink -j, expected true or false at driverinit")
        return [setting % str(was).lower(), f"devlink dev reload {device}"]

    return Undo("roce", device, "the value that it had, and a reload", show, lines)


def qos_row(interface: str, row: str, option: str) -> Undo:
    """Restores a row of mlnx_qos's table of priorities."""

    def lines(printed: str) -> list[str]:
        for line in printed.splitlines():
            words = line.split()
            if len(words) == PRIORITY_COUNT + 1 and words[0] == row and all(map(_digit, words[1:])):
                return [f"mlnx_qos -i {interface} {option} {','.join(words[1:])}"]
        raise CannotUndo(f"found no row {row} of mlnx_qos, expected one with {PRIORITY_COUNT} numbers")

    return Undo(f"qos {option}", interface, "the row that it had", f"mlnx_qos -i {interface}", lines)


def buffer_size(interface: str, file: str) -> Undo:
    """Restores the sizes of mlx5's buffers; unlisted buffers have size 0."""

    def lines(printed: str) -> list[str]:
        sizes = [0] * PRIORITY_COUNT
        found = re.findall(r"^([0-7])\s+([0-9]{1,10})\b", printed, re.MULTILINE)
        if not found:
            raise CannotUndo(f"found no sizes in {file}, expected a row for each buffer")
        for number, size in found:
            sizes[int(number)] = int(size)
        return [f"mlnx_qos -i {interface} --buffer_size {','.join(map(str, sizes))}"]

    return Undo("buffer_size", interface, "the sizes that it had", f"cat {file}", lines)


def _digit(word: str) -> bool:
    return re.fullmatch("[0-7]", word) is not None


# Output of ip and tc


def link_line(interface: str) -> str:
    """A line that prints a device."""
    return f"ip -j -d link show dev {interface}"


def addresses_line(interface: str) -> str:
    """A line that prints the addresses of a device."""
    return f"ip -j addr show dev {interface}"


def disciplines_line(interface: str) -> str:
    """A line that prints the disciplines of a device."""
    return f"tc -j qdisc show dev {interface}"


def link(printed: str, interface: str) -> dict[str, Any]:
    """A device as `ip -j link show dev` prints it."""
    for one in _rows(printed, "ip -j link"):
        if one.get("ifname") == interface:
            return one
    raise CannotUndo(f"found no {interface} in what ip -j link prints, expected it")


def is_up(found: dict[str, Any]) -> bool:
    """True if a device is up."""
    flags = found.get("flags")
    if not isinstance(flags, list):
        raise CannotUndo("found no flags in what ip -j link prints, expected a list")
    return "UP" in flags


def addresses(printed: str, interface: str) -> list[str]:
    """The addresses of a device, without automatic ones of the kernel."""
    of_link = link(printed, interface).get("addr_info", [])
    found = []
    for one in of_link if isinstance(of_link, list) else ():
        if isinstance(one, dict) and "local" in one and one.get("scope") != "link":
            found.append(f"{one['local']}/{one.get('prefixlen')}")
    return sorted(found)


def lost_addresses(interface: str, was: list[str], now: list[str]) -> list[list[str]]:
    """Commands that restore IPv6 addresses, which the kernel removes when a link goes down or the MTU is below 1,280 B."""
    found = []
    for one in was:
        with suppress(ValueError):
            address = ip_interface(one)
            if address.version == 6 and one not in now:
                found.append(["ip", "addr", "replace", str(address), "dev", interface])
    return found


def disciplines(printed: str) -> list[str]:
    """The disciplines of a device that were set explicitly: the kernel's own have no handle."""
    found = []
    for one in _rows(printed, "tc -j qdisc"):
        handle = one.get("handle", "0:")
        if handle == "0:" or str(one.get("parent", "")).startswith("ffff:"):
            continue
        kept = {key: value for key, value in one.items() if key != "refcnt"}
        found.append(f"{one.get('kind')} {json.dumps(kept, sort_keys=True)}")
    return found


def _rows(printed: str, tool: str) -> list[dict[str, Any]]:
    try:
        found = json.loads(printed or "[]")
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise CannotUndo(f"found something else, expected what {tool} prints")
    return found


def _number(value: object, what: str, most: int) -> int:
    if type(value) is not int or not 0 < value <= most:
        raise CannotUndo(f"found no number, expected {what}")
    return value
