"""Networks given link by link: in a scenario, in a YAML file, or in a topology.txt of the HPCC simulator."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Literal

from pydantic import Field, ValidationError

from tailback.errors import InputError, Path, dotted, found, one_line, one_of, plain
from tailback.limits import HPCC_TOPOLOGY_BYTES, MAX_HOSTS, MAX_LINKS, SCENARIO_BYTES
from tailback.scenario.declared import Link
from tailback.scenario.document import from_yaml
from tailback.scenario.fields import Section
from tailback.scenario.hosts import ALL_HOSTS, NODE_NAME_PATTERN, check_entry, count_of, expand
from tailback.scenario.network import Network, ReadFile, Wire

_NAME_REGEX = re.compile(NODE_NAME_PATTERN)
_EXPECTED_LINK = 'a link such as "h0 sw0" or "sw0 sw1 400Gbps 1us 1e-6"'


class NetworkError(ValueError):
    """A network is not valid. `path` is the key below `topology`, the text describes the problem."""

    def __init__(self, path: Path, text: str) -> None:
        super().__init__(text)
        self.path = path


class Graph(Section):
    """Any network, link by link. All nodes that are not switches are hosts, which have exactly one link."""

    kind: Literal["graph"] = Field(description="The form of the network.")
    switches: list[str] = Field(description="Names of the switches.", min_length=1, max_length=20_000)
    links: list[str] = Field(
        description='Links: "h0 sw0", or with rate, delay and loss of their own "sw0 sw1 400Gbps 1us 1e-6". '
        'A range on the left, "h0..h15 sw0", gives every host of it such a link.',
        min_length=1,
        max_length=100_000,
    )
    link: Link = Field(default_factory=Link, description="What a link has that its line does not give.")

    def network(self, _read: ReadFile) -> Network:
        """The network; hosts are in the order of their first links."""
        return from_lines(self.switches, self.links, self.link)


class File(Section):
    """A network from a file beside the scenario.

    A file that ends in .yaml or .yml holds the keys `switches`, `links` and, if wanted, `link` of a graph.
    Any other file is a topology.txt of the HPCC simulator: its host 3 is h3, its switch 20 is s20.
    """

    kind: Literal["file"] = Field(description="The form of the network.")
    path: str = Field(
        description="The file, relative to the folder of the scenario.", min_length=1, max_length=1000
    )
    link: Link = Field(
        default_factory=Link, description="What a link has that its line in a YAML file does not give."
    )

    def network(self, read: ReadFile) -> Network:
        """The network of the file."""
        most = SCENARIO_BYTES if is_yaml(self.path) else HPCC_TOPOLOGY_BYTES
        return from_file(self.path, read(self.path, most), self.link)


def from_lines(switches: list[str], lines: Iterable[str], link: Link) -> Network:
    """The network of these links.

    Raises:
        NetworkError: the first link or name that is impossible.
    """
    for number, name in enumerate(switches):
        if not _NAME_REGEX.fullmatch(name) or name == ALL_HOSTS:
            text = f"found {found(name)}, expected a name of letters, digits, '_' and '-', a letter first"
            raise NetworkError(("switches", number), text)
    if len(set(switches)) < len(switches):
        raise NetworkError(("switches",), "found a switch twice, expected every switch once")
    wires: list[Wire] = []
    places: list[int] = []
    for number, line in enumerate(lines):
        try:
            wires += _wires(line, link, MAX_LINKS - len(wires))
        except ValueError as error:
            raise NetworkError(("links", number), str(error)) from None
        places += [number] * (len(wires) - len(places))
    return _checked(switches, wires, [("links", place) for place in places])


def _wires(line: str, link: Link, most: int) -> list[Wire]:
    """The links of a line, at most `most`."""
    words = line.split()
    if not 2 <= len(words) <= 5:
        raise ValueError(f"found {found(line)}, expected {_EXPECTED_LINK}")
    left, right, *rest = words
    if check_entry(left) is not None or ALL_HOSTS in (left, right) or not _NAME_REGEX.fullmatch(right):
        raise ValueError(f"found {found(line)}, expected {_EXPECTED_LINK}")
    if count_of(left) > most:
        raise ValueError(f"found {found(line)} and more than {MAX_LINKS} links, expected at most that many")
    own: dict[str, Any] = dict(zip(("rate", "delay", "loss"), rest, strict=False))
    if "loss" in own:
        try:
            own["loss"] = float(own["loss"])
        except ValueError:
            own["loss"] = float("nan")
        if not 0.0 <= own["loss"] < 1.0:
            raise ValueError(f"found {found(rest[2])}, expected a loss of 0 to below 1")
    if own:
        try:
            given = Link.model_validate(own)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            expected = first.get("ctx", {}).get("expected") or first["msg"].lower()
            raise ValueError(
                f"found {found(own[str(first['loc'][0])])}, expected {expected} as the {first['loc'][0]}"
            ) from None
        # Missing values are those of topology.link, not the model's defaults.
        link = link.model_copy(update={name: getattr(given, name) for name in own})
    return [Wire(name, right, link.rate, link.delay, link.loss) for name in expand(left)]


def _checked(switches: list[str], wires: list[Wire], places: list[Path]) -> Network:
    known = set(switches)
    hosts: dict[str, None] = {}
    seen: set[frozenset[str]] = set()
    for wire, place in zip(wires, places, strict=True):
        if wire.a == wire.b:
            raise NetworkError(place, f"found {wire.a} at both ends of a link, expected two nodes")
        ends = frozenset((wire.a, wire.b))
        if ends in seen:
            text = f"found a second link between {wire.a} and {wire.b}, expected one of the summed rate"
            raise NetworkError(place, text)
        seen.add(ends)
        for name in (wire.a, wire.b):
            if name in known:
                continue
            if name in hosts:
                raise NetworkError(
                    place, f"found a second link of {name}, expected one: a host has exactly one"
                )
            hosts[name] = None
        if wire.a not in known and wire.b not in known:
            text = f"found a link between the hosts {wire.a} and {wire.b}, expected a switch at one end; two "
            text += "hosts on one cable are kind: point-to-point"
            raise NetworkError(place, text)
    top: Path = places[0][:1] if places else ()
    if not 2 <= len(hosts) <= MAX_HOSTS:
        raise NetworkError(top, f"found {len(hosts)} hosts, expected 2 to {MAX_HOSTS}")
    network = Network(list(hosts), switches, wires)
    lost = network.unreachable()
    if lost is not None:
        raise NetworkError(top, f"found no way from {network.hosts[0]} to {lost}, expected one network")
    return network


def is_yaml(path: str) -> bool:
    """True if a file of this name is read as YAML instead of topology.txt."""
    return path.endswith((".yaml", ".yml"))


def from_file(path: str, content: bytes, link: Link) -> Network:
    """The network of a file.

    Raises:
        NetworkError: not readable, or impossible; the text has file and line.
    """
    if is_yaml(path):
        return _from_yaml(path, content, link)
    return _from_hpcc(path, content)


def _from_yaml(path: str, content: bytes, link: Link) -> Network:
    try:
        document = from_yaml(content, path)
    except InputError as error:
        raise NetworkError(("path",), str(error.problems[0])) from None
    data = document.data if isinstance(document.data, dict) else {}
    unknown = next((key for key in data if key not in ("switches", "links", "link")), None)
    if unknown is not None:
        text = f"found an unknown field, expected {one_of(unknown, ['switches', 'links', 'link'])}"
        raise NetworkError(("path",), f"{document.origin((unknown,))}: {plain(str(unknown))}: {text}")
    given = {"link": link.model_dump(), **data, "kind": "graph"}
    if isinstance(data.get("link"), dict):
        given["link"] = {**link.model_dump(mode="json"), **data["link"]}
    else:
        given["link"] = link.model_dump(mode="json")
    try:
        graph = Graph.model_validate(given)
        return from_lines(graph.switches, graph.links, graph.link)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where: Path = first["loc"]
        text = f"{dotted(where)}: {one_line(first['msg'].lower())}"
    except NetworkError as error:
        where, text = error.path, str(error)
    raise NetworkError(("path",), f"{document.origin(where)}: {text}")


def _from_hpcc(path: str, content: bytes) -> Network:
    # Imported here, because the reader imports errors of this package.
    from tailback.hpcc.topology import read_topology

    try:
        topology = read_topology(path, content)
    except InputError as error:
        raise NetworkError(("path",), str(error.problems[0])) from None
    names = [f"{'h' if is_host else 's'}{node}" for node, is_host in enumerate(topology.is_host)]
    switches = [names[node] for node in topology.switches]
    wires = [
        Wire(names[link.a], names[link.b], link.rate_bps, link.delay_ns * 1000, link.error_rate)
        for link in topology.links
    ]
    for number, wire in enumerate(wires):
        if not 10**6 <= wire.rate <= 10**14 or wire.delay > 10**12 or wire.loss >= 1:
            text = f"{path}: found link {number} ({wire.name}) of {wire.rate} bit/s, {wire.delay} ps, loss "
            raise NetworkError(
                ("path",), f"{text}{wire.loss:g}, expected 1 Mbps to 100 Tbps, up to 1 s, below 1"
            )
    network = _checked(switches, wires, [("path",)] * len(wires))
    # In the order of node numbers, which is that of the addresses.
    return Network([name for name in names if name in network.host_number], switches, wires)
