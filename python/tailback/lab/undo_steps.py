"""How a step is taken back: what is read before it, and the lines that give that state back.

What a tool has printed is parsed here, strictly, when it is read and again when a journal is; it never
becomes part of a command other than as a number or a name that is listed here.
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
"""Characters of what a tool printed that are kept in the journal."""
PRIORITY_COUNT = 8


class CannotUndo(ValueError):  # noqa: N818  it is what was found
    """What is there could not be given back by undo; the text is "found ..., expected ..."."""


@dataclass(frozen=True)
class Undo:
    """The way back from a step."""

    kind: str
    of: str
    """What it is about: an interface, a PCI address or a file."""
    about: str
    """In words, for whoever reads the plan."""
    read: str
    """A line that prints the state before; empty where the lab file itself has the way back."""
    lines: Callable[[str], list[str]]
    """What gives the state back, from what `read` has printed. CannotUndo: it cannot be, or is none."""
    refused_if: str = ""
    """A condition of Ansible's on `now`: `lines` would refuse it."""


def fixed(kind: str, of: str, line: str) -> Undo:
    """A line of the lab file, or one whose step fails where there is nothing to take back."""
    return Undo(kind, of, line, "", lambda _: [line])


def mtu(interface: str) -> Undo:
    """The MTU of an interface."""

    def lines(printed: str) -> list[str]:
        return [f"ip link set dev {interface} mtu {_mtu_of(link(printed, interface))}"]

    return Undo("mtu", interface, f"the MTU that {interface} had", link_line(interface), lines)


def _mtu_of(found: dict[str, Any]) -> int:
    return _number(found.get("mtu"), "an MTU", 2**31 - 1)


def state(interface: str) -> Undo:
    """Up or down."""

    def lines(printed: str) -> list[str]:
        return [] if is_up(link(printed, interface)) else [f"ip link set dev {interface} down"]

    return Undo("state", interface, f"{interface} down, if it was down", link_line(interface), lines)


def master(interface: str) -> Undo:
    """No bridge: the settings of a port of another one would be lost with it."""

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
    """A bridge that was not there."""

    def lines(printed: str) -> list[str]:
        if any(one.get("ifname") == name for one in _rows(printed, "ip -j link")):
            raise CannotUndo(f"found an interface {name} already, expected none")
        there = f"ip link show dev {name} > /dev/null 2>&1"
        return [f"if {there}; then ip link del dev {name}; fi"]

    named = f"selectattr('ifname', 'defined') | selectattr('ifname', 'equalto', '{name}')"
    refused = f"now.stdout | from_json | {named} | list | length > 0"
    return Undo("bridge", name, f"no {name}, if there was none", "ip -j link show", lines, refused)


def address(interface: str, wanted: str) -> Undo:
    """An address that was not there."""

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
    """The kernel's own discipline: no other could be set up again from what tc prints of it."""

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
    """Entries of the receive ring."""

    def lines(printed: str) -> list[str]:
        _, current, rest = printed.partition("Current hardware settings")
        found = re.search(r"^RX:[ \t]*([0-9]{1,7})[ \t]*$", rest, re.MULTILINE)
        if not current or found is None:
            raise CannotUndo("found no current RX of ethtool -g, expected a number")
        return [f"ethtool -G {interface} rx {int(found[1])}"]

    return Undo("ring", interface, "the receive ring that it had", f"ethtool -g {interface}", lines)


def coalesce(interface: str) -> Undo:
    """Moderation of interrupts."""

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
    """Cores of interrupts. `read` prints a line each: its number, and its cores."""

    def lines(printed: str) -> list[str]:
        found = [re.fullmatch(r"([0-9]{1,7}) ([0-9,-]{1,4000})", line) for line in printed.splitlines()]
        if not found:
            raise CannotUndo(f"found no interrupts of {interface}, expected some in its msi_irqs")
        if not all(found):
            raise CannotUndo("found other lines, expected an interrupt's number and its cores each")
        return [f"echo {one[2]} > /proc/irq/{int(one[1])}/smp_affinity_list" for one in found if one]

    return Undo("irqs", interface, "the cores that they had", read, lines)


def value_of(file: str, pattern: str) -> Undo:
    """A file of sysfs with one word."""

    def lines(printed: str) -> list[str]:
        was = printed.strip()
        if re.fullmatch(pattern, was) is None:
            raise CannotUndo(f"found another text in {file}, expected {pattern}")
        return [f"echo {'' if was == '(null)' else was} > {file}"]

    return Undo("file", file, f"what {file} had", f"cat {file}", lines)


def roce(device: str, show: str, setting: str) -> Undo:
    """devlink's enable_roce. `setting`: a line with %s for true or false."""

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
    """A row of mlnx_qos's table of priorities."""

    def lines(printed: str) -> list[str]:
        for line in printed.splitlines():
            words = line.split()
            if len(words) == PRIORITY_COUNT + 1 and words[0] == row and all(map(_digit, words[1:])):
                return [f"mlnx_qos -i {interface} {option} {','.join(words[1:])}"]
        raise CannotUndo(f"found no row {row} of mlnx_qos, expected one with {PRIORITY_COUNT} numbers")

    return Undo(f"qos {option}", interface, "the row that it had", f"mlnx_qos -i {interface}", lines)


def buffer_size(interface: str, file: str) -> Undo:
    """Sizes of mlx5's buffers; those that are not listed have no bytes."""

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


# What ip and tc print


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
    """Whether a device is set up."""
    flags = found.get("flags")
    if not isinstance(flags, list):
        raise CannotUndo("found no flags in what ip -j link prints, expected a list")
    return "UP" in flags


def addresses(printed: str, interface: str) -> list[str]:
    """The addresses of a device, without those that the kernel makes and removes by itself."""
    of_link = link(printed, interface).get("addr_info", [])
    found = []
    for one in of_link if isinstance(of_link, list) else ():
        if isinstance(one, dict) and "local" in one and one.get("scope") != "link":
            found.append(f"{one['local']}/{one.get('prefixlen')}")
    return sorted(found)


def lost_addresses(interface: str, was: list[str], now: list[str]) -> list[list[str]]:
    """IPv6 addresses that the kernel removes with a link set down or an MTU below 1,280 B, as commands."""
    found = []
    for one in was:
        with suppress(ValueError):
            address = ip_interface(one)
            if address.version == 6 and one not in now:
                found.append(["ip", "addr", "replace", str(address), "dev", interface])
    return found


def disciplines(printed: str) -> list[str]:
    """The disciplines of a device that somebody has set: the kernel's own have no handle."""
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
