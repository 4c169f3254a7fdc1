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

from tailback.errors import InputError, Problem
from tailback.files import FileRefusedError, read_file
from tailback.imports.sonic import CABLE_PS_PER_METRE, SonicSwitch, missing, read
from tailback.imports.tables import Tables
from tailback.limits import SCENARIO_BYTES
from tailback.scenario import loads
from tailback.scenario.hosts import NODE_NAME_PATTERN
from tailback.units import format_duration, format_rate

_NEIGHBOURS = ("DEVICE_NEIGHBOR",)
_OF_ONE_RATE = ("PORT speed:", "CABLE_LENGTH:")
"""Prefixes of remarks that hold only where one switch is imported, with equal links; here each link has its own."""
_OF_EACH_LINK = ("speed of ports:", "length of cables:")
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
    by_alias: dict[str, str] = field(default_factory=dict)
    internal: list[str] = field(default_factory=list)
    """Ports to the switch's own chassis."""

    @property
    def ports(self) -> list[str]:
        """Ports that are up and lead out of the switch."""
        return sorted((self.tables.up or set()) - set(self.internal), key=_natural)


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
    said = [
        f"{member.path}: the switch {hostname} is {name} here"
        for name, member in members.items()
        if (hostname := _hostname(member.path, member.tables)) != name
    ]
    for name, member in members.items():
        if member.internal:
            said.append(
                f"{name}: {', '.join(member.internal[:5])}: left out, as ports to its own chassis (role)"
            )
    cables = _cables(members, links, said)
    _refuse_parts(members, cables, said)
    lines = _lines(members, cables, said)
    try:
        scenario = loads("\n".join(lines), label="scenario")
    except InputError as error:
        where = ", ".join(str(path) for path in paths)[:300]
        raise InputError([Problem(where, (), str(problem)) for problem in error.problems]) from None
    lines.append("# Not in the files, so with Tailback's defaults (`tailback show` has their sources):")
    for text, names in _by_text(
        (text, name)
        for name in members
        for text in missing(members[name].settings, scenario, name)
        if not text.startswith(_OF_EACH_LINK)
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


def _hostname(path: Path, tables: Tables) -> str:
    return str(tables.entries("DEVICE_METADATA").get("localhost", {}).get("hostname") or path.stem)


def _name_of(path: Path, tables: Tables) -> str:
    name = re.sub(r"[^A-Za-z0-9_-]", "-", _hostname(path, tables))[:41]
    return name if re.fullmatch(NODE_NAME_PATTERN, name) else f"s{name}"[:41]


def _member(path: Path, tables: Tables, settings: SonicSwitch) -> _Member:
    found = _Member(path, tables, settings)
    ports = tables.entries("PORT")
    for name in sorted(tables.up or ()):
        if (speed := tables.number("PORT", name, "speed", ports[name])) is not None:
            found.speed_mbps[name] = speed
        if "mtu" in ports[name]:
            found.mtu[name] = str(ports[name]["mtu"])
        if isinstance(alias := ports[name].get("alias"), str):
            found.by_alias[alias] = name
        if ports[name].get("role", "Ext") != "Ext":
            found.internal.append(name)
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
                yield _End(name, port), _text(entry.get("name")), _text(entry.get("port"))
        return
    for number, row in _rows(links):
        name, port, other, far = (row[column].strip() for column in LINK_COLUMNS)
        if name not in members and other in members:
            name, port, other, far = other, far, name, port
        if name not in members:
            expected = f"one of {', '.join(members)[:200]}"
            raise InputError.at(f"{links}:{number}", f"found the switch {name[:60]!r}, expected {expected}")
        if (name, port) == (other, far):
            raise InputError.at(f"{links}:{number}", f"found {name} {port} twice, expected two ports")
        yield _End(name, port), other, far


def _text(value: object) -> str:
    """A name of somebody else's file, fit for a comment."""
    return " ".join(value.split())[:60] if isinstance(value, str) else ""


def _rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    try:
        reader = csv.DictReader(read_file(path, SCENARIO_BYTES).decode("utf-8-sig").splitlines(), strict=True)
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
    linked: dict[_End, _End] = {}
    hosts: dict[_End, str] = {}
    by_hostname = {_hostname(member.path, member.tables).lower(): name for name, member in members.items()}
    for given, neighbour, far in _neighbours(members, links):
        end = _End(given.switch, members[given.switch].by_alias.get(given.port, given.port))
        other = by_hostname.get(neighbour.lower(), neighbour)
        refused = f"{end.switch} {end.port}: its link to {other} {far}".rstrip() + " is left out, as"
        if members[end.switch].tables.up is not None and end.port not in members[end.switch].ports:
            said.append(f"{refused} the port is down or not in PORT")
            continue
        if other not in members:
            hosts.setdefault(end, neighbour)
            continue
        peer = _End(other, members[other].by_alias.get(far, far))
        if not far:
            said.append(f"{refused} no port of {other} is named")
        elif members[other].tables.up is not None and peer.port not in members[other].ports:
            said.append(f"{refused} {far} there is down or not in PORT")
        elif taken := [a for a, b in ((end, peer), (peer, end)) if a in hosts or linked.get(a, b) != b]:
            said.append(f"{refused} {taken[0].switch} {taken[0].port} has another link")
        else:
            between.setdefault(frozenset({end, peer}))
            linked |= {end: peer, peer: end}
    named = dict(hosts)
    if links is not None:
        for name, member in members.items():
            for port, entry in member.tables.entries("DEVICE_NEIGHBOR").items():
                named.setdefault(_End(name, port), _text(entry.get("name")))
    if not between and len(members) > 1:
        where = str(links) if links else ", ".join(str(member.path) for member in members.values())[:300]
        expected = "some in DEVICE_NEIGHBOR, or in a CSV file after --links"
        text = f"found no link between two of these switches, expected {expected}{_because(said)}"
        raise InputError.at(where, text)
    every = [_End(name, port) for name, member in members.items() for port in member.ports]
    free = dict.fromkeys(end for end in (*hosts, *every) if end not in linked)
    return [
        *(_Link(tuple(sorted(ends))) for ends in between),
        *(_Link((end,), named.get(end, "")) for end in free),
    ]


def _because(said: list[str]) -> str:
    return f"; {'; '.join(said[:3])}" if said else ""


def _refuse_parts(members: dict[str, _Member], cables: list[_Link], said: list[str]) -> None:
    """A run needs one network: switches that nothing links with the first are named."""
    reached: set[str] = set()
    frontier = [next(iter(members))]
    while frontier:
        name = frontier.pop()
        if name not in reached:
            reached.add(name)
            for one in cables:
                names = {end.switch for end in one.ends}
                frontier += names if name in names else ()
    if apart := [name for name in members if name not in reached]:
        found = f"found no link from {next(iter(members))} to {', '.join(apart)[:200]}"
        raise InputError.at(str(members[apart[0]].path), f"{found}, expected one fabric{_because(said)}")


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
        links.append(f"{hosts[-1]} {end.switch}{_settings_of(members, [one], said)}  # {end.port}: {what}")
    if len(hosts) < 2:
        raise InputError.at(
            str(next(iter(members.values())).path),
            f"found {len(hosts)} ports without a switch at their other end, expected two or more: for hosts",
        )
    settings = _by_text((_settings_text(member.settings), name) for name, member in members.items())
    first = next(iter(members.values())).settings
    marks = ", ".join(f"{dscp}: {tc}" for dscp, tc in first.marks.items())
    if any(member.settings.marks != first.marks for member in members.values()):
        said.append(
            f"DSCP_TO_TC_MAP: the switches have different ones; all hosts mark as {next(iter(members))} has it"
        )
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
        *([f"host: {{qos: {{dscp: {{{marks}}}}}}}  # as {next(iter(members))} has it"] if marks else []),
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
        lines.append(f"{a} {b}{_settings_of(members, links, said)}  # {note}")
    return lines


def _settings_of(members: dict[str, _Member], links: list[_Link], said: list[str]) -> str:
    """Rate and delay of a link, or of several that are one, as a line has them; empty where the files say nothing."""
    rates, lengths = [], []
    for one in links:
        sides = [(members[end.switch], end.port) for end in one.ends]
        place = "-".join(f"{end.switch} {end.port}" for end in one.ends)
        speeds = [side.speed_mbps[port] for side, port in sides if port in side.speed_mbps]
        metres = [side.cable_m[port] for side, port in sides if port in side.cable_m]
        if len(set(speeds)) > 1:
            both = " and ".join(format_rate(speed * 10**6) for speed in speeds)
            said.append(f"{place}: speed is {both}; such a link stays down, here it has the lower one")
        if len(set(metres)) > 1:
            said.append(
                f"{place}: CABLE_LENGTH is {' and '.join(f'{m}m' for m in metres)}; the longer one counts"
            )
        for what, found in (
            ("mtu", [side.mtu.get(port) for side, port in sides]),
            ("pfc_enable", [side.pfc.get(port) for side, port in sides]),
        ):
            if len(set(found)) > 1:
                said.append(f"{place}: {what} is {' and '.join(value or 'not given' for value in found)}")
        if not speeds:
            said.append(f"{place}: no speed is given; it has Tailback's default, and so has its length")
        elif not metres:
            said.append(f"{place}: no CABLE_LENGTH is given; it has Tailback's default")
        rates += [min(speeds)] if speeds else []
        lengths += [max(metres)] if metres else []
    if len(set(lengths)) > 1:
        between = "-".join(end.switch for end in links[0].ends)
        said.append(
            f"{between}: CABLE_LENGTH of its links is {min(lengths)}m to {max(lengths)}m; the longest counts"
        )
    if len(rates) < len(links):
        return ""
    delay = f" {format_duration(max(lengths) * CABLE_PS_PER_METRE)}" if lengths else ""
    return f" {format_rate(sum(rates) * 10**6)}{delay}"


def _by_text(pairs: Iterator[tuple[str, str]]) -> list[tuple[str, str]]:
    """Each different text once, with the names that have it."""
    names: dict[str, list[str]] = {}
    for text, name in pairs:
        names.setdefault(text, []).append(name)
    return [(text, ", ".join(who)) for text, who in names.items()]
