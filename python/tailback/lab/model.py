"""A lab as its file describes it: hosts, their NICs, bridges, and the tests that run there."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator

from tailback import library
from tailback.errors import InputError, Problem
from tailback.files import FileRefusedError, read_file
from tailback.limits import SCENARIO_BYTES
from tailback.scenario import Scenario, load
from tailback.scenario.build import problem_of
from tailback.scenario.document import Document, from_yaml
from tailback.scenario.fields import Priority, Section, refuse
from tailback.scenario.qdisc import Qdisc
from tailback.units import DURATION, SIZE

LOCAL_HOST = "local"
"""Address of this machine: commands run without ssh."""
_Word = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:@-]{0,127}$")]
"""A word in a command: no blanks, quotes or special characters of a shell."""
_Interface = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.@-]{0,14}$")]
"""A network interface: 15 characters at most, as the kernel has them (IFNAMSIZ)."""
_Path = Annotated[str, Field(pattern=r"^[A-Za-z0-9_./-]{1,200}$")]
_Address = Annotated[str, Field(pattern=r"^[0-9a-fA-F.:]{2,45}/[0-9]{1,3}$")]
_Pci = Annotated[str, Field(pattern=r"^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$")]
_Line = Annotated[str, Field(pattern=r"^[^\n\r\x00]{1,1000}$")]
_Mtu = Annotated[int, Field(ge=68, le=65_535)]


class LabHost(Section):
    """A machine."""

    at: _Word = Field(description="SSH destination, such as root@vm00; local: this machine.")
    model: _Word | None = Field(None, description="The host or bridge of the scenario that it stands for.")


class Command(Section):
    """A command of one's own, with how to undo it."""

    host: _Word = Field(description="Where.")
    about: _Line = Field("a command of the file", description="What it is for.")
    do: _Line = Field(description="A line for a shell.")
    undo: _Line | None = Field(None, description="A line that takes it back.")
    when: Literal["first", "after-bridges"] = Field(
        "first", description="Before all else, or before the NICs."
    )


class Rebind(Section):
    """A PCI function that another driver gets."""

    host: _Word = Field(description="Where.")
    pci: _Pci = Field(description="Its address, such as 0000:61:00.0.")
    from_: _Word = Field(alias="from", description="Its driver now.")
    to: _Word = Field(description="Its driver then.")


class Coalesce(Section):
    """When a NIC raises an interrupt."""

    adaptive: bool = Field(True, description="Whether the driver moderates them itself.")
    usecs: Annotated[int, DURATION] | None = Field(None, description="Longest wait.")
    frames: Annotated[int, Field(ge=0, le=65_535)] | None = Field(None, description="Frames that end it.")


class LabPort(Section):
    """A port of a bridge."""

    interface: _Interface = Field(description="Its network interface.")
    pci: _Pci | None = Field(None, description="Its PCI address; devlink needs it.")
    roce: bool | None = Field(
        None, description="false: devlink's enable_roce; else RoCE never reaches the bridge."
    )
    rx_ring: Annotated[int, Field(ge=1, le=65_536)] | None = Field(None, description="Receive ring, entries.")
    coalesce: Coalesce | None = Field(None, description="Moderation of interrupts.")
    irq_cores: Annotated[list[int], Field(min_length=1)] | None = Field(
        None, description="Cores that its interrupts go to, in turn."
    )
    qdisc: Qdisc | None = Field(None, description="Discipline of what leaves here, by its kind.")
    towards: _Word | None = Field(None, description="The host of the scenario behind it.")


class LabBridge(Section):
    """A Linux bridge."""

    host: _Word = Field(description="Where.")
    name: _Interface = Field(description="Its name.")
    mtu: _Mtu = Field(1500, description="Of the bridge and its ports.")
    ports: Annotated[list[LabPort], Field(min_length=2)] = Field(description="Its ports.")


class LabPfc(Section):
    """Priority flow control of an mlx5 port, as mlnx_qos sets it."""

    priorities: list[Priority] = Field(description="Lossless priorities.")
    buffer: Annotated[int, Field(ge=0, le=7)] = Field(1, description="Buffer that these use.")
    cable_len: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        None, description="Length of the cable in m."
    )
    buffer_size: Annotated[int, SIZE] | None = Field(None, description="Of that buffer.")


class LabNic(Section):
    """An RDMA device that tests use."""

    host: _Word = Field(description="Where.")
    interface: _Interface = Field(description="Its network interface.")
    device: _Word = Field("mlx5_0", description="Its RDMA device.")
    gid: Annotated[int, Field(ge=0, le=255)] = Field(3, description="Index of its GID: RoCE v2 over IPv4.")
    address: _Address | None = Field(None, description="Address and prefix.")
    mtu: _Mtu | None = Field(None, description="Its MTU.")
    ecn: list[Priority] = Field([], description="Priorities with DCQCN, at notification and reaction point.")
    pfc: LabPfc | None = Field(None, description="Flow control.")


class LabTest(Section):
    """A run of perftest."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,60}$")] = Field(description="Its name.")
    tool: Literal["ib_write_bw", "ib_write_lat"] = Field(description="Its program.")
    server: _Word = Field(description="Host that waits: it receives.")
    client: _Word = Field(description="Host that connects: it sends.")
    connect: _Word | None = Field(None, description="What the client calls; the server's address without it.")
    seconds: Annotated[int, Field(ge=1, le=36_000)] | None = Field(None, description="How long (-D).")
    iterations: Annotated[int, Field(ge=5, le=10**9)] | None = Field(None, description="How often (-n).")
    message: Annotated[int, SIZE] | None = Field(None, description="Size of a message (-s).")
    qps: Annotated[int, Field(ge=1, le=16_384)] = Field(1, description="Queue pairs (-q).")
    bidirectional: bool = Field(False, description="Both send (-b).")
    gpu: Annotated[int, Field(ge=0, le=63)] | None = Field(
        None, description="GPU whose memory is used (--use_cuda)."
    )
    tclass: Annotated[int, Field(ge=0, le=255)] | None = Field(
        None, description="Traffic class, the TOS byte."
    )
    folder: _Path | None = Field(None, description="Where the program lies; on the path without it.")

    @model_validator(mode="after")
    def _ends(self) -> LabTest:
        if (self.seconds is None) == (self.iterations is None):
            raise refuse("seconds", "both or none of seconds and iterations", "one of the two")
        if self.server == self.client:
            raise refuse("client", f'"{self.client}"', "another host than the server")
        return self


class Lab(Section):
    """A lab. `scenario` is what models it: what was measured is compared with that."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")] = Field(description="Its name.")
    about: str = Field("", description="What it is for.")
    scenario: str = Field(description="A built-in scenario or a file: the model of the lab.")
    hosts: dict[_Word, LabHost] = Field(description="The machines by their names here.")
    commands: list[Command] = Field([], description="Commands of one's own.")
    rebind: list[Rebind] = Field([], description="PCI functions that change drivers.")
    bridges: list[LabBridge] = Field([], description="Linux bridges.")
    nics: list[LabNic] = Field([], description="RDMA devices.")
    tests: list[LabTest] = Field([], description="What perftest runs.")

    def nic_of(self, host: str) -> LabNic:
        """The RDMA device of a host that takes part in a test."""
        return next(nic for nic in self.nics if nic.host == host)


def read(given: str) -> tuple[Lab, Scenario]:
    """Reads and checks a lab, of a file or of the name of an example, and the scenario that models it.

    Raises:
        InputError: with all problems, one line each.
    """
    document = _document(given)
    try:
        lab = Lab.model_validate(document.data)
    except ValidationError as error:
        raise InputError(
            [problem_of(one, document, Lab) for one in error.errors(include_url=False)]
        ) from None
    named = Path(lab.scenario)
    own = lab.scenario not in library.names() and not named.is_absolute()
    scenario = load(document.folder / named if own else lab.scenario)
    problems = [Problem(document.origin(path), path, text) for path, text in _conflicts(lab, scenario)]
    if problems:
        raise InputError(problems)
    return lab, scenario


def _document(given: str) -> Document:
    if given in library.labs():
        return from_yaml(library.lab_text(given), given)
    try:
        document = from_yaml(read_file(given, SCENARIO_BYTES), given)
    except FileRefusedError as error:
        raise InputError.at(given, str(error)) from None
    except OSError as error:
        found = (error.strerror or str(error)).lower()
        expected = f"a file, or one of the examples {', '.join(library.labs())}"
        raise InputError.at(given, f"found {found}, expected {expected}") from None
    document.folder = Path(given).parent
    return document


def _conflicts(lab: Lab, scenario: Scenario) -> list[tuple[tuple[Any, ...], str]]:
    """Conflicts between settings, with their paths."""
    found: list[tuple[tuple[Any, ...], str]] = []
    hosts, known = ", ".join(lab.hosts), scenario.network
    modelled = [*known.hosts, *known.switches, *known.bridges]
    for name, host in lab.hosts.items():
        if host.model is not None and host.model not in modelled:
            text = f"found {host.model}, expected one of {', '.join(modelled)} of {scenario.name}"
            found.append((("hosts", name, "model"), text))
    for section in ("commands", "rebind", "bridges", "nics"):
        for index, part in enumerate(getattr(lab, section)):
            if part.host not in lab.hosts:
                found.append(((section, index, "host"), f"found {part.host}, expected one of {hosts}"))
    with_nics = [nic.host for nic in lab.nics]
    for index, test in enumerate(lab.tests):
        for role in ("server", "client"):
            host = getattr(test, role)
            if host not in with_nics:
                expected = f"a host with one of nics: {', '.join(with_nics) or 'there is none'}"
                found.append((("tests", index, role), f"found {host}, expected {expected}"))
            elif (known_host := lab.hosts.get(host)) is not None and known_host.model is None:
                found.append((("hosts", host), "found no model, expected one: a test runs there"))
        server = next((nic for nic in lab.nics if nic.host == test.server), None)
        if server is not None and test.connect is None and server.address is None:
            found.append((("tests", index, "connect"), "found nothing, expected what the client calls"))
    for index, bridge in enumerate(lab.bridges):
        for at, port in enumerate(bridge.ports):
            where = ("bridges", index, "ports", at)
            if port.roce is not None and port.pci is None:
                found.append(
                    ((*where, "pci"), "found nothing, expected a PCI address: devlink needs it for roce")
                )
            if port.qdisc is not None and port.qdisc.kind not in SUPPORTED_QDISCS:
                text = f"found {port.qdisc.kind}, expected one of {', '.join(SUPPORTED_QDISCS)}"
                found.append(((*where, "qdisc", "kind"), text))
    return found


SUPPORTED_QDISCS = ("pfifo", "bfifo", "red", "tbf")
"""Disciplines that `steps` can express for tc."""
