"""The model of a scenario: every field with its unit, its default and the source of the default.

`Scenario` is the content of a file, checked field by field; `tailback.scenario.checks` checks fields against each
other. Quantities are integers in base units (picoseconds, bytes, bit/s) here, and texts with units in files.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path as FilePath
from typing import Annotated, Any, BinaryIO, Literal

from pydantic import BeforeValidator, Field, PrivateAttr, model_validator

from tailback.controller import Checked, Factory
from tailback.errors import InputError, Path, plain
from tailback.files import FileRefusedError, UnchangedFile, read_file
from tailback.limits import MAX_OUTSTANDING
from tailback.scenario import declared
from tailback.scenario.bridge import Bridge
from tailback.scenario.by_place import LinksAt, SwitchesAt, switches_by_name, with_own_links
from tailback.scenario.classes import (
    Classification,
    CnpPriority,
    Priorities,
    Weights,
)
from tailback.scenario.controllers import ControllerName, Controllers
from tailback.scenario.fields import (
    Section,
    refuse,
    setting,
)
from tailback.scenario.host_control import HostCc, Rhcc
from tailback.scenario.host_path import HostPath, MemoryLoad, PathOfHosts
from tailback.scenario.hosts import HostSet
from tailback.scenario.network import Network
from tailback.scenario.switch import Switch
from tailback.scenario.tcp import Tcp
from tailback.scenario.topology import BridgeTopology, Topology
from tailback.scenario.traffic import Churn, TcpStreams, Traffic, Write
from tailback.scenario.veth import BETWEEN_NAMESPACES, Veth, VethTopology
from tailback.units import format_duration

MAX_DURATION_UNTIL_DONE = "100s"
"""Default of run.duration with run.until: done."""


class Run(declared.Run):
    """Duration and random numbers of the run."""

    until: Literal["duration", "done"] = setting(
        "duration",
        "When the run ends. duration: then, or earlier if everything is sent. done: when everything is sent; "
        f"duration is the most that it may take ({MAX_DURATION_UNTIL_DONE} if not given), and traffic without an end "
        "is refused.",
        "assumption: traffic may have no end",
    )

    @model_validator(mode="before")
    @classmethod
    def _bounded(cls, value: Any) -> Any:
        if isinstance(value, dict) and value.get("until") == "done":
            return {"duration": MAX_DURATION_UNTIL_DONE, **value}
        return value


class Record(declared.Record):
    """Recording of a run."""

    queues: list[str] | None = setting(
        None,
        "Switches, or ports of them, whose queues have time series: [leaf0, 'spine*'], [leaf*:h*]. * is any "
        "text, ? a letter. null: all that there is room for.",
        "assumption: who knows which to choose says so",
        max_length=1000,
    )

    def ports(self, network: Network) -> list[str] | None:
        """The chosen ports, as `node:peer`; None if `queues` is not given."""
        if self.queues is None:
            return None
        return [port for node, port in ports(network) if any(chooses(one, node, port) for one in self.queues)]


def ports(network: Network) -> list[tuple[str, str]]:
    """All ports of switches, `node` and `node:peer`."""
    ends = ((wire, end) for wire in network.wires for end in ((wire.a, wire.b), (wire.b, wire.a)))
    switches = set(network.switches)
    return [(node, f"{node}:{peer}") for _, (node, peer) in ends if node in switches]


def chooses(pattern: str, node: str, port: str) -> bool:
    """True if a pattern of record.queues matches a switch or its port."""
    return fnmatchcase(node, pattern) or fnmatchcase(port, pattern)


class Transport(declared.Transport):
    """Reliable connections of the NIC."""

    @model_validator(mode="after")
    def _ordered(self) -> Transport:
        first, full = self.adaptive_timeout, self.ack_timeout
        # A default that is longer than ack_timeout is shortened, and no error.
        if first is not None and first > full and "adaptive_timeout" in self.model_fields_set:
            raise refuse(
                "adaptive_timeout", format_duration(first), f"at most ack_timeout, {format_duration(full)}"
            )
        if self.nak_reaction > full:
            most = f"at most ack_timeout, {format_duration(full)}"
            raise refuse("nak_reaction", format_duration(self.nak_reaction), most)
        if self.nak_delay > full:
            raise refuse(
                "nak_delay", format_duration(self.nak_delay), f"at most ack_timeout, {format_duration(full)}"
            )
        return self


class Nic(declared.Nic):
    """The NIC of every host."""

    qos: Classification = Field(
        default_factory=Classification, description="Classes of what the NIC sends and receives."
    )
    cnp_priority: CnpPriority = setting(
        6,
        "Priority of CNPs: their PCP, and 8 times it their DSCP. data: as the packets that they answer.",
        "Mellanox community DOC-2591 (cnp_802p_prio 6); mlx5: cnp_dscp 48",
    )
    strict: Priorities | None = setting(
        None,
        "Classes of the NIC with strict priority, the highest number first. null: the class of CNPs, where "
        "cnp_priority gives them one.",
        "Mellanox community DOC-2591: CNPs in priority 6, strict",
    )
    weights: Weights | None = setting(
        None,
        "Shares of the other classes of the NIC in %, such as {0: 50, 3: 50}; a class without one is served "
        "last. null: all classes take turns, a packet each.",
        "assumption: without ETS, mlx5 gives no class a share",
    )
    transport: Transport = Field(default_factory=Transport, description="Reliable connections.")
    congestion: ControllerName = setting(
        "dcqcn",
        "Congestion control; none: every queue pair sends at line rate.",
        'NVIDIA "DCQCN CC Parameters": on',
    )


class CongestionOfHosts(Section):
    """The congestion control of what some hosts send, in place of host.congestion."""

    hosts: HostSet = Field(description="The hosts: h0, h0..h15, or a list of these.")
    congestion: ControllerName = Field(description="Their congestion control.")


class Host(Controllers, Nic):
    """Every host: its NIC, its TCP and its CPU."""

    congestion_by_host: list[CongestionOfHosts] = setting(
        [],
        "Other congestion control for some sending hosts. A controller's section holds wherever it runs.",
        "host.congestion holds",
        max_length=1000,
    )
    rhcc: Rhcc = Field(
        default_factory=Rhcc,
        description="RHCC, beside the congestion control: a queue pair sends at the lower of the two rates.",
    )
    hostcc: HostCc = Field(default_factory=HostCc, description="HostCC, in hosts that receive.")
    path: HostPath | None = setting(
        None,
        "What a packet meets between the NIC's port and memory; null: memory takes every byte at once.",
        "assumption: a receiver that keeps up",
    )
    path_by_host: list[PathOfHosts] = setting(
        [], "Other host paths, of some hosts.", "assumption: all hosts are alike", max_length=1000
    )
    tcp: Tcp = Field(default_factory=Tcp, description="TCP, where traffic is tcp.")
    cpu: declared.Cpu = Field(default_factory=declared.Cpu, description="The CPU, which only TCP uses.")


class _OfLink(Section):
    link: str = Field(description="The link, by its two ends: leaf0-spine1.", max_length=100)


class Failure(declared.Failure, _OfLink):
    """A link that fails, both ways at once, and may be repaired.

    What is on the link is lost. Once routing has noticed, after `detection`, what waits at its two ports is lost, too, and
    packets take the routes that are left; until then they are sent into the failed link.
    """

    @model_validator(mode="after")
    def _ordered(self) -> Failure:
        if self.repair is not None and self.repair <= self.at:
            raise refuse("repair", format_duration(self.repair), f"later than at, {format_duration(self.at)}")
        return self


_Preset = Literal[
    "100g",
    "200g",
    "400g",
    "800g",
    "spectrum",
    "spectrum-2",
    "spectrum-3",
    "connectx-4-lx",
    "connectx-5",
    "connectx-6-dx",
    "bluefield",
    "ideal",
]
Presets = Annotated[
    list[_Preset],
    BeforeValidator(
        lambda value: [value] if isinstance(value, str) else value,
        json_schema_input_type=_Preset | list[_Preset],
    ),
]


@contextmanager
def _input_errors_of_file(name: str) -> Iterator[None]:
    """Turns errors of reading a file that a scenario names into an InputError."""
    try:
        yield
    except FileRefusedError as error:
        text = f'found "{plain(name)}", {error.found}, expected {error.expected}'
        raise InputError.at("", text) from None
    except (OSError, ValueError) as error:
        what = (getattr(error, "strerror", None) or "a name that no file can have").lower()
        text = f'found "{plain(name)}", {what}, expected a file that can be read'
        raise InputError.at("", text) from None


class Scenario(Section):
    """A network, its traffic, and what is recorded. Sizes, times and rates have units."""

    name: str = Field(
        description="Name of the scenario: letters, digits, '.', '_' and '-'.",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$",
    )
    about: str = setting(
        "", "What it is about, in a sentence.", "assumption: the name says it", max_length=2000
    )
    run: Run = Field(description="How long, and with which random numbers.")
    qos: Literal["lossless-with-qos", "lossy-default"] | None = setting(
        None,
        "A whole setup of classes: fills in the settings that are not given. lossless-with-qos: RoCE "
        "lossless in priority 3 with a pool of its own, CNPs strict in priority 6, equal shares for RoCE and "
        "all others. lossy-default: nothing is trusted, all in one lossy class.",
        "assumption: every setting has its own default",
    )
    preset: Presets = setting(
        [],
        "Settings of today's fabrics by their rate, the buffer of a family of switches, or what a NIC does "
        "after a loss: fills in the settings that are not given, before qos does. If several presets have a "
        "setting, the first counts, such as in [spectrum-2, 400g, connectx-5].",
        "assumption: every setting has its own default",
    )
    topology: Topology = Field(description="The hosts, switches and links.")
    links: list[LinksAt] = setting(
        [],
        "Rate, delay and loss of some links, in place of what topology gives them; of two entries for a link the "
        "later counts.",
        "assumption: all links of a tier are alike",
        max_length=1000,
    )
    controllers: dict[str, str | None] = setting(
        {},
        "Congestion controllers in Python, to be named where built-in ones are: a name for each, and "
        "FILE.py:CLASS. Loading the scenario executes the file. null: the class was given in Python, and is "
        "in no file.",
        "the built-in ones",
        max_length=100,
    )
    failures: list[Failure] = setting(
        [], "Links that fail and are repaired.", "assumption: none", max_length=100_000
    )
    host: Host = Field(default_factory=Host, description="Every host: its NIC, its TCP and its CPU.")
    switch: Switch = Field(default_factory=Switch, description="Every switch.")
    switches: list[SwitchesAt] = setting(
        [],
        "Settings of some switches, in place of those of `switch`; of two entries for a switch the later counts.",
        "assumption: all switches are alike",
        max_length=1000,
    )
    bridge: Bridge | None = setting(
        None,
        "The Linux host between the hosts, where topology is of kind bridge; null: all its defaults.",
        "assumption: its defaults",
    )
    veth: Veth | None = setting(
        None,
        "The veth pair between two namespaces, where topology is of kind veth; null: all its defaults.",
        "assumption: its defaults",
    )
    traffic: list[Traffic] = Field(description="What is sent.", min_length=1, max_length=1000)
    memory_load: list[MemoryLoad] = setting(
        [],
        "Traffic of cores to the memory of hosts with host.path.",
        "assumption: cores leave memory to the NIC",
        max_length=1000,
    )
    record: Record = Field(default_factory=Record, description="What is recorded.")

    _origins: dict[Path, str] = PrivateAttr(default_factory=dict)
    _filled: dict[Path, str] = PrivateAttr(default_factory=dict)
    _overridden_presets: dict[Path, tuple[Any, str]] = PrivateAttr(default_factory=dict)
    _folder: FilePath = PrivateAttr(default_factory=FilePath)
    _inputs: dict[str, bytes] = PrivateAttr(default_factory=dict)
    _long_inputs: dict[str, UnchangedFile] = PrivateAttr(default_factory=dict)
    _network: Network | None = PrivateAttr(default=None)
    _switches: dict[str, Switch] | None = PrivateAttr(default=None)
    _messages: dict[int, Any] = PrivateAttr(default_factory=dict)
    _graphs: dict[tuple[str, int], Any] = PrivateAttr(default_factory=dict)
    _placed: dict[int, list[int]] = PrivateAttr(default_factory=dict)
    _round_trip: Any = PrivateAttr(default=None)
    _factories: dict[str, Factory] = PrivateAttr(default_factory=dict)
    _checked: dict[str, Checked] = PrivateAttr(default_factory=dict)

    @model_validator(mode="after")
    def _described(self) -> Scenario:
        # `show` and the list of assumptions need the settings of sections that are left out.
        for name, kind, part in (("bridge", BridgeTopology, Bridge), ("veth", VethTopology, Veth)):
            if isinstance(self.topology, kind) and getattr(self, name) is None:
                self.__dict__[name] = part()
        for item in self.traffic:
            if isinstance(item, (Write, Churn)) and "depth" not in item.model_fields_set:
                # The default depth is reduced where it would exceed the limit of outstanding packets.
                packets = -(-item.message // self.host.mtu)
                item.__dict__["depth"] = max(1, min(item.depth, MAX_OUTSTANDING // packets))
        return self

    @property
    def origins(self) -> dict[Path, str]:
        """Origin of each given value: `file:line`, `--set`, or `""` for Python."""
        return self._origins

    @property
    def filled(self) -> dict[Path, str]:
        """Values filled in by `preset` and `qos`: the name of the preset and the source of the value."""
        return self._filled

    @property
    def overridden_presets(self) -> dict[Path, tuple[Any, str]]:
        """Values of `preset` and `qos` that the scenario overrides, with their sources."""
        return self._overridden_presets

    @property
    def own_controllers(self) -> dict[str, Checked]:
        """Congestion controllers in Python by name, in the order of their numbers in the engine."""
        return self._checked

    @property
    def items(self) -> list[str]:
        """The names of the traffic items, as results have them."""
        return [f"{item.kind}{index}" for index, item in enumerate(self.traffic)]

    @property
    def network(self) -> Network:
        """The topology as a graph; cached.

        Raises:
            NetworkError: the graph is not valid; not for scenarios from `load`.
            InputError: a file cannot be read; not for scenarios from `load`.
        """
        if self._network is None:
            network = self.topology.network(self.read)
            self._network = with_own_links(network, self.links) if self.links else network
        return self._network

    @property
    def switch_of(self) -> dict[str, Switch]:
        """The settings of each switch, by its name; cached.

        Raises:
            ValidationError: settings of `switches` contradict those of `switch`; not for scenarios from `load`.
        """
        if self._switches is None:
            self._switches = switches_by_name(self.switch, self.switches, self.network.switches)
        return self._switches

    @property
    def inputs(self) -> dict[str, bytes]:
        """Files that the scenario refers to and that were read, by their names in it."""
        return self._inputs

    @property
    def long_inputs(self) -> dict[str, UnchangedFile]:
        """Further files, which may be too long for memory."""
        return self._long_inputs

    @property
    def has_tcp(self) -> bool:
        """True if any traffic is TCP."""
        return any(isinstance(item, TcpStreams) for item in self.traffic)

    @property
    def has_roce(self) -> bool:
        """True if any traffic is RoCE."""
        return not all(isinstance(item, (TcpStreams, *BETWEEN_NAMESPACES)) for item in self.traffic)

    def read(self, name: str, most: int) -> bytes:
        """The content of a file, relative to the scenario's folder, of at most `most` bytes; cached.

        Raises:
            InputError: the file cannot be read.
        """
        if name not in self._inputs or len(self._inputs[name]) > most:
            with _input_errors_of_file(name):
                self._inputs[name] = read_file(self._folder / name, most)
        return self._inputs[name]

    def open(self, name: str, most: int) -> BinaryIO:
        """Opens a file that may be too long for memory.

        Raises:
            InputError: the file cannot be read, or has changed.
        """
        with _input_errors_of_file(name):
            if name not in self._long_inputs:
                self._long_inputs[name] = UnchangedFile(self._folder / name, most)
            return self._long_inputs[name].open()

    def __eq__(self, other: object) -> bool:
        """Compares values; their origins do not count."""
        return isinstance(other, Scenario) and self.__dict__ == other.__dict__
