"""Makes a scenario of a whole fabric from the config_db.json of each of its switches.

Cabling is from DEVICE_NEIGHBOR of the files, or from a CSV file of links. Each switch keeps its own settings; what the
two ends of a link disagree on is listed.
"""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tailback.errors import InputError
from tailback.files import FileRefusedError, read_file
from tailback.imports.sonic import CABLE_PS_PER_METRE, SonicSwitch, missing, read
from tailback.imports.tables import Tables
from tailback.limits import SCENARIO_BYTES
from tailback.scenario import loads
from tailback.scenario.hosts import NODE_NAME_PATTERN
from tailback.units import format_duration, format_rate

_NEIGHBOURS = ("DEVICE_NEIGHBOR",)
_OF_ONE_RATE = ("PORT speed:", "CABLE_LENGTH:")
"""Beginnings of what the import of one switch, whose hosts have equal links, does not honour; here each has its own."""
LINK_COLUMNS = ("switch", "port", "neighbor", "neighbor_port")


class _End(NamedTuple):
    switch: str
    port: str


class _Link(NamedTuple):
    ends: tuple[_End, ...]
    """One end, where the other is a host."""
    host: str = ""


@dataclass
class _Member:
    """A switch of the fabric."""

    path: Path
    tables: Tables
    settings: SonicSwitch
    speed_mbps: dict[str, int] = field(default_factory=dict)
    mtu: dict[str, str] = field(default_factory=dict)
    cable_m: dict[str, int] = field(default_factory=dict)
    pfc: dict[str, str] = field(default_factory=dict)
    """Priorities with PFC by port."""


def sonic_fabric(paths: Sequence[Path], links: Path | None = None) -> str:
    """Makes a scenario as YAML: each switch with its own settings, their links, and a host for every other port.

    Args:
        paths: The config_db.json of each switch.
        links: A CSV file with the columns switch, port, neighbor, neighbor_port, in place of DEVICE_NEIGHBOR.

    Raises:
        InputError: a file is not a config_db.json, two switches have one name, no two of the switches are linked, or the
            values do not make a valid scenario.
    """
    members: dict[str, _Member] = {}
    for path in paths:
        tables, settings = read(path, _NEIGHBOURS)
        name = _name_of(path, tables)
        if name in members:
            text = f"found the switch {name}, expected another: {members[name].path} is that of {name}, too"
            raise InputError.at(str(path), f"DEVICE_METADATA|localhost.hostname: {text}")
        members[name] = _member(path, tables, settings)
    said: list[str] = []
    cables = _cables(members, links, said)
    lines = _lines(members, cables, said)
    scenario = loads("\n".join(lines), label="scenario")
    lines.append("# Not in the files, so with Tailback's defaults (`tailback show` has their sources):")
    for text, names in _by_text(
        (text, name) for name in members for text in missing(members[name].settings, scenario, name)
    ):
        lines.append(f"# - {names}: {text}")
    unread = [
        (text, name)
        for name in members
        for text in members[name].tables.not_honoured
        if not text.startswith(_OF_ONE_RATE)
    ]
    lines += ["# Not honoured:"] if unread else []
    lines += [f"# - {names}: {text}" for text, names in _by_text(iter(unread))]
    return "\n".join(lines) + "\n"


def _name_of(path: Path, tables: Tables) -> str:
    hostname = str(tables.entries("DEVICE_METADATA").get("localhost", {}).get("hostname") or path.stem)
    name = re.sub(r"[^A-Za-z0-9_-]", "-", hostname)[:41]
    return name if re.fullmatch(NODE_NAME_PATTERN, name) else f"s{name}"[:41]


def _member(path: Path, tables: Tables, settings: SonicSwitch) -> _Member:
    found = _Member(path, tables, settings)
    ports = tables.entries("PORT")
    for name in sorted(tables.up or ()):
        if (speed := tables.number("PORT", name, "speed", ports[name])) is not None:
            found.speed_mbps[name] = speed
        if "mtu" in ports[name]:
            found.mtu[name] = str(ports[name]["mtu"])
    for entry in tables.entries("CABLE_LENGTH").values():
        found.cable_m |= {port: int(length[:-1]) for port, length in entry.items() if int(str(length)[:-1])}
    for port, _, entry in tables.by_port("PORT_QOS_MAP"):
        found.pfc[port] = str(entry.get("pfc_enable", ""))
    return found


def _neighbours(members: dict[str, _Member], links: Path | None) -> Iterator[tuple[_End, str, str]]:
    """Port, neighbour and the neighbour's port, of all that the files or the CSV file name."""
    if links is None:
        for name, member in members.items():
            for port, entry in member.tables.entries("DEVICE_NEIGHBOR").items():
                yield _End(name, port), str(entry.get("name", "")), str(entry.get("port", ""))
        return
    for number, row in _rows(links):
        name = row["switch"].strip()
        if name not in members:
            found = f"{links}:{number}"
            raise InputError.at(
                found, f"found the switch {name[:60]!r}, expected one of {', '.join(members)[:200]}"
            )
        yield _End(name, row["port"].strip()), row["neighbor"].strip(), row["neighbor_port"].strip()


def _rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    try:
        reader = csv.DictReader(read_file(path, SCENARIO_BYTES).decode().splitlines(), strict=True)
        rows = [(number, row) for number, row in enumerate(reader, start=2)]
    except FileRefusedError as error:
        raise InputError.at(str(path), f"found {error.found}, expected {error.expected}") from None
    except (OSError, ValueError, csv.Error) as error:
        what = getattr(error, "strerror", None) or str(error)
        raise InputError.at(str(path), f"found {what.lower()[:100]}, expected a CSV file of links") from None
    names = tuple(reader.fieldnames or ())
    if lacking := [name for name in LINK_COLUMNS if name not in names]:
        text = f"found no column {lacking[0]}, expected {', '.join(LINK_COLUMNS)}"
        raise InputError.at(f"{path}:1", text)
    for number, row in rows:
        if None in row or any(row[name] is None for name in LINK_COLUMNS):
            raise InputError.at(f"{path}:{number}", f"found another number of columns, expected {len(names)}")
        yield number, row


def _cables(members: dict[str, _Member], links: Path | None, said: list[str]) -> list[_Link]:
    """Links between switches, then those to hosts."""
    between: dict[frozenset[_End], None] = {}
    taken: set[_End] = set()
    hosts: list[_Link] = []
    by_hostname = {
        str(member.tables.entries("DEVICE_METADATA").get("localhost", {}).get("hostname")): name
        for name, member in members.items()
    }
    for end, neighbour, port in _neighbours(members, links):
        up = members[end.switch].tables.up
        if up is not None and end.port not in up:
            said.append(
                f"{end.switch} {end.port}: its link to {neighbour} is left out, as the port is down or not in PORT"
            )
            continue
        other = by_hostname.get(neighbour, neighbour)
        if other not in members:
            if end not in taken:
                hosts.append(_Link((end,), neighbour))
                taken.add(end)
            continue
        far = _End(other, port)
        others_up = members[other].tables.up
        if others_up is not None and port not in others_up:
            said.append(
                f"{end.switch} {end.port}: its link to {other} is left out, as {port or 'the port'} there is down or not in PORT"
            )
            continue
        between.setdefault(frozenset({end, far}))
        taken |= {end, far}
    if not between and len(members) > 1:
        where = str(links) if links else ", ".join(str(member.path) for member in members.values())[:300]
        text = "found no link between two of these switches, expected some in DEVICE_NEIGHBOR, or in a CSV file after --links"
        raise InputError.at(where, text)
    for name, member in members.items():
        for port in sorted(member.tables.up or (), key=_natural):
            if _End(name, port) not in taken:
                hosts.append(_Link((_End(name, port),), ""))
    return [*(_Link(tuple(sorted(ends))) for ends in between), *hosts]


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", name)]


def _lines(members: dict[str, _Member], cables: list[_Link], said: list[str]) -> list[str]:
    """The scenario without its closing comments."""
    links = _links_between(members, [one for one in cables if len(one.ends) == 2], said)
    hosts: list[str] = []
    for one in (one for one in cables if len(one.ends) == 1):
        (end,) = one.ends
        hosts.append(f"h{len(hosts)}")
        what = one.host or "no neighbour named"
        links.append(f"{hosts[-1]} {end.switch}{_settings_of(members, one.ends, said)}  # {end.port}: {what}")
    if len(hosts) < 2:
        raise InputError.at(
            str(next(iter(members.values())).path),
            f"found {len(hosts)} ports without a switch at their other end, expected two or more: for hosts",
        )
    settings = _by_text((_settings_text(member.settings), name) for name, member in members.items())
    first = next(iter(members.values())).settings
    marks = ", ".join(f"{dscp}: {tc}" for dscp, tc in first.marks.items())
    if any(member.settings.marks != first.marks for member in members.values()):
        said.append("DSCP_TO_TC_MAP: the switches have different ones; hosts mark as the first file has it")
    sent = next(iter(first.marks.items()), None)
    mark = f", priority: {sent[1]}, dscp: {sent[0]}" if sent else ""
    if sent is None and first.lossless and 3 not in first.lossless:
        mark = f", priority: {first.lossless[0]}"
    return [
        "name: fabric",
        "run: {duration: 10ms}",
        "topology:",
        "  kind: graph",
        f"  switches: [{', '.join(members)}]",
        "  links:",
        *(f"    - {link}" for link in links),
        "switches:",
        *(line for text, names in settings for line in (f"  - at: [{names}]", *text.splitlines())),
        *([f"host: {{qos: {{dscp: {{{marks}}}}}}}  # as the switches have it"] if marks else []),
        "traffic:",
        f"  - {{kind: write, from: {hosts[0]}, to: {hosts[-1]}{mark}}}  # replace it",
        *(["# The two ends of links, and ports:"] if said else []),
        *(f"# - {text}" for text in said),
    ]


def _settings_text(switch: SonicSwitch) -> str:
    return "\n".join(
        f"{'  ' * (depth + 1)}{text}{f'  # {source}' if source else ''}"
        for depth, text, source in switch.lines
    )


def _links_between(members: dict[str, _Member], cables: list[_Link], said: list[str]) -> list[str]:
    """Two nodes have one link here: several cables become one of the summed rate."""
    bundles: dict[tuple[str, str], list[_Link]] = defaultdict(list)
    for one in cables:
        bundles[one.ends[0].switch, one.ends[1].switch].append(one)
    lines = []
    for (a, b), links in bundles.items():
        number = len(links)
        note = ", ".join(f"{one.ends[0].port}-{one.ends[1].port}" for one in links[:3]) + (
            ", ..." if number > 3 else ""
        )
        if number > 1:
            said.append(f"{a}-{b}: {number} links between them are one of the summed rate here")
        lines.append(f"{a} {b}{_settings_of(members, links[0].ends, said, number)}  # {note}")
    return lines


def _settings_of(
    members: dict[str, _Member], ends: tuple[_End, ...], said: list[str], number: int = 1
) -> str:
    """Rate and delay of a link as its line has them, empty where the files say nothing."""
    sides = [(members[end.switch], end.port) for end in ends]
    place = "-".join(f"{end.switch} {end.port}" for end in ends)
    speeds = [side.speed_mbps[port] for side, port in sides if port in side.speed_mbps]
    metres = [side.cable_m[port] for side, port in sides if port in side.cable_m]
    if len(set(speeds)) > 1:
        both = " and ".join(format_rate(speed * 10**6) for speed in speeds)
        said.append(f"{place}: speed is {both}; such a link stays down, here it has the lower one")
    if len(set(metres)) > 1:
        said.append(
            f"{place}: CABLE_LENGTH is {' and '.join(f'{one}m' for one in metres)}; the longer one counts"
        )
    for what, found in (
        ("mtu", [side.mtu.get(port) for side, port in sides]),
        ("pfc_enable", [side.pfc.get(port) for side, port in sides]),
    ):
        if len(set(found)) > 1:
            said.append(f"{place}: {what} is {' and '.join(one or 'not given' for one in found)}")
    if not speeds:
        return ""
    delay = f" {format_duration(max(metres) * CABLE_PS_PER_METRE)}" if metres else ""
    return f" {format_rate(min(speeds) * 10**6 * number)}{delay}"


def _by_text(pairs: Iterator[tuple[str, str]]) -> list[tuple[str, str]]:
    """Each different text once, with the names that have it."""
    names: dict[str, list[str]] = {}
    for text, name in pairs:
        names.setdefault(text, []).append(name)
    return [(text, ", ".join(who)) for text, who in names.items()]
