"""Topologies of a scenario: cable, star, dumbbell, leaf-spine, fat trees, rails.

Each form is a `Section` with its own keys and gives a `Network`. Hosts are numbered from the first switch to the
last, `h0`, `h1` and so on, unless the form says otherwise.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from tailback.limits import (
    MAX_HOSTS,
    MAX_LINKS,
    MAX_PORTS,
    MAX_STAR_HOSTS,
)
from tailback.scenario.declared import Link
from tailback.scenario.fields import ByKind, Section, refuse, setting
from tailback.scenario.graph import File, Graph
from tailback.scenario.network import Network, ReadFile, Wire, mesh
from tailback.scenario.veth import VethTopology
from tailback.units import format_rate

_AS_LINK = "assumption: one kind of link everywhere"
_AL_FARES = "Al-Fares et al., SIGCOMM 2008, section 2.2: all links of a fat tree are alike"


def _numbered(prefix: str, count: int) -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


def _mesh(lower: list[str], upper: list[str], link: Link) -> list[Wire]:
    return mesh(lower, upper, link.rate, link.delay, link.loss)


def _attach(hosts: list[str], switches: list[str], link: Link) -> list[Wire]:
    """Hosts at switches, the same number at each, in order."""
    each = len(hosts) // len(switches)
    return [Wire(host, switches[i // each], link.rate, link.delay, link.loss) for i, host in enumerate(hosts)]


def _too_many(field: str, hosts: int) -> Any:
    return refuse(field, f"{hosts} hosts in all", f"at most {MAX_HOSTS}")


def _few_links(field: str, hosts: int, lower: int, spines: int) -> None:
    """Refuses too many links: each host has one, each lower switch one to every spine."""
    links = hosts + lower * spines
    if links > MAX_LINKS:
        raise refuse(field, f"{links} links in all", f"at most {MAX_LINKS}")


class PointToPoint(Section):
    """Two hosts h0 and h1 on one cable, back to back, without a switch. The link is h0-h1.

    Only the NICs pause each other, those of hosts with a host.path; a section `switch` is refused.
    """

    kind: Literal["point-to-point"] = Field(description="The form of the network.")
    link: Link = Field(default_factory=Link, description="The cable, with the ports at its ends.")

    def network(self, _read: ReadFile) -> Network:
        return Network(["h0", "h1"], [], _mesh(["h0"], ["h1"], self.link))


class BridgeTopology(Section):
    """Hosts h0, h1, ... around a Linux host br0 that forwards between them, which `bridge` describes."""

    kind: Literal["bridge"] = Field(description="The form of the network.")
    hosts: int = setting(2, "Number of hosts.", "assumption: two ports", ge=2, le=64)
    link: Link = Field(default_factory=Link, description="Every host's link.")

    def network(self, _read: ReadFile) -> Network:
        hosts = _numbered("h", self.hosts)
        return Network(hosts, [], _mesh(hosts, ["br0"], self.link), bridges=["br0"])


class Star(Section):
    """Hosts h0, h1, ... around one switch sw0; host i is at its port i."""

    kind: Literal["star"] = Field(description="The form of the network.")
    hosts: int = Field(description="Number of hosts.", ge=2, le=MAX_STAR_HOSTS)
    link: Link = Field(default_factory=Link, description="Every host's link.")

    def network(self, _read: ReadFile) -> Network:
        hosts = _numbered("h", self.hosts)
        return Network(hosts, ["sw0"], _mesh(hosts, ["sw0"], self.link))


class Dumbbell(Section):
    """Hosts left0, left1, ... at switch sw0 and right0, right1, ... at switch sw1, one link between both."""

    kind: Literal["dumbbell"] = Field(description="The form of the network.")
    left: int = Field(description="Number of hosts at sw0.", ge=1, le=MAX_PORTS - 1)
    right: int = Field(description="Number of hosts at sw1.", ge=1, le=MAX_PORTS - 1)
    link: Link = Field(default_factory=Link, description="Every host's link.")
    bottleneck: Link | None = setting(
        None, "The link between the switches, sw0-sw1. null: like a host's.", _AS_LINK
    )

    def network(self, _read: ReadFile) -> Network:
        """Hosts of the left side come first."""
        left, right = _numbered("left", self.left), _numbered("right", self.right)
        wires = [*_mesh(left, ["sw0"], self.link), *_mesh(right, ["sw1"], self.link)]
        wires += _mesh(["sw0"], ["sw1"], self.bottleneck or self.link)
        return Network([*left, *right], ["sw0", "sw1"], wires)


class LeafSpine(Section):
    """Two tiers: every leaf switch leaf0, leaf1, ... has a link to every spine switch spine0, spine1, ..."""

    kind: Literal["leaf-spine"] = Field(description="The form of the network.")
    leaves: int = Field(description="Number of leaf switches.", ge=1, le=MAX_PORTS)
    spines: int = Field(description="Number of spine switches.", ge=1, le=MAX_PORTS - 1)
    hosts_per_leaf: int = Field(description="Hosts at each leaf switch.", ge=1, le=MAX_PORTS - 1)
    link: Link = Field(default_factory=Link, description="Every host's link.")
    fabric: Link | None = setting(
        None, "Every link between a leaf and a spine, such as leaf0-spine1. null: like a host's.", _AS_LINK
    )

    @model_validator(mode="after")
    def _sized(self) -> LeafSpine:
        hosts = self.leaves * self.hosts_per_leaf
        if hosts > MAX_HOSTS:
            raise _too_many("hosts_per_leaf", hosts)
        if hosts < 2:
            raise refuse("hosts_per_leaf", "1 host in all", "at least 2")
        _few_links("spines", hosts, self.leaves, self.spines)
        return self

    def network(self, _read: ReadFile) -> Network:
        """Hosts in the order of leaves."""
        leaves, spines = _numbered("leaf", self.leaves), _numbered("spine", self.spines)
        hosts = _numbered("h", self.leaves * self.hosts_per_leaf)
        wires = _attach(hosts, leaves, self.link) + _mesh(leaves, spines, self.fabric or self.link)
        return Network(hosts, leaves + spines, wires)


class TwoLevelFatTree(Section):
    """A fat tree of two levels; the oversubscription of the leaves determines the number of spine switches."""

    kind: Literal["fat-tree-2level"] = Field(description="The form of the network.")
    hosts: int = Field(description="Number of hosts, as many at each leaf.", ge=2, le=MAX_HOSTS)
    leaves: int = Field(description="Number of leaf switches.", ge=1, le=MAX_PORTS)
    oversubscription: float = setting(
        1.0,
        "Highest rate of a leaf's links to hosts, over the rate of its links to spines; 1 is a full fat "
        "tree. The number of spines is the least that meets it.",
        "Al-Fares et al., SIGCOMM 2008, section 2.1: 1:1 gives every host its full rate",
        ge=0.001,
        le=1000.0,
        allow_inf_nan=False,
    )
    link: Link = Field(default_factory=Link, description="Every host's link.")
    fabric: Link | None = setting(
        None, "Every link between a leaf and a spine, such as leaf0-spine1. null: like a host's.", _AS_LINK
    )

    @property
    def spines(self) -> int:
        """Number of spine switches."""
        up = (self.fabric or self.link).rate * self.oversubscription
        return max(1, _ceil(self.hosts // self.leaves * self.link.rate / up))

    @model_validator(mode="after")
    def _sized(self) -> TwoLevelFatTree:
        if self.hosts % self.leaves:
            raise refuse("leaves", str(self.leaves), f"a divisor of the {self.hosts} hosts")
        if self.hosts // self.leaves + self.spines > MAX_PORTS:
            ports = self.hosts // self.leaves + self.spines
            raise refuse("leaves", f"{ports} ports at each of {self.leaves} leaves", f"at most {MAX_PORTS}")
        _few_links("leaves", self.hosts, self.leaves, self.spines)
        return self

    def network(self, _read: ReadFile) -> Network:
        """Hosts in the order of leaves."""
        leaves, spines = _numbered("leaf", self.leaves), _numbered("spine", self.spines)
        hosts = _numbered("h", self.hosts)
        wires = _attach(hosts, leaves, self.link) + _mesh(leaves, spines, self.fabric or self.link)
        return Network(hosts, leaves + spines, wires)


class FatTree(Section):
    """A k-ary fat tree: k pods of k/2 edge and k/2 aggregation switches, (k/2)^2 cores, k^3/4 hosts.

    Pod p holds edge and aggregation switches p*k/2 to (p+1)*k/2 - 1; the j-th aggregation switch of each pod
    has links to core switches j*k/2 to (j+1)*k/2 - 1 (Al-Fares et al., SIGCOMM 2008, section 2.2).
    """

    kind: Literal["fat-tree"] = Field(description="The form of the network.")
    k: int = Field(description="Ports of every switch, an even number.", ge=2, le=62)
    link: Link = Field(default_factory=Link, description="Every host's link.")
    aggregation: Link | None = setting(
        None, "Every link of an edge to an aggregation switch, edge0-agg1. null: like a host's.", _AL_FARES
    )
    core: Link | None = setting(
        None, "Every link of an aggregation to a core switch, agg0-core1. null: like a host's.", _AL_FARES
    )

    @model_validator(mode="after")
    def _even(self) -> FatTree:
        if self.k % 2:
            raise refuse("k", str(self.k), "an even number")
        return self

    def network(self, _read: ReadFile) -> Network:
        """Hosts in the order of pods."""
        half = self.k // 2
        edges, aggs = _numbered("edge", self.k * half), _numbered("agg", self.k * half)
        cores = _numbered("core", half * half)
        hosts = _numbered("h", self.k * half * half)
        wires = _attach(hosts, edges, self.link)
        for pod in range(self.k):
            own = slice(pod * half, (pod + 1) * half)
            wires += _mesh(edges[own], aggs[own], self.aggregation or self.link)
        for number, agg in enumerate(aggs):
            first = number % half * half
            wires += _mesh([agg], cores[first : first + half], self.core or self.link)
        notes = [f"{self.k} pods of {half} edge and {half} aggregation switches, {half * half} hosts each"]
        return Network(hosts, edges + aggs + cores, wires, notes)


class RailOptimised(Section):
    """Servers with several NICs: NIC i of every server of a unit is at rail switch i of that unit.

    A host is one NIC: s0n3 is NIC 3 of server 0. Unit u has the rail switches u*nics to (u+1)*nics - 1, and
    every rail switch has a link to every spine. Leaves out the links inside of a server (NVLink).
    """

    kind: Literal["rail-optimised"] = Field(description="The form of the network.")
    servers: int = Field(description="Number of servers, as many in each unit.", ge=1, le=MAX_HOSTS)
    nics: int = setting(
        8,
        "NICs of each server, one for each GPU; also the rail switches of a unit.",
        "NVIDIA DGX H100 user guide: eight GPUs with a ConnectX-7 each for the compute network",
        ge=1,
        le=64,
    )
    units: int = setting(1, "Units of servers that share rail switches.", "assumption: one", ge=1, le=1024)
    spines: int = Field(description="Number of spine switches.", ge=1, le=MAX_PORTS - 1)
    link: Link = Field(default_factory=Link, description="Every NIC's link.")
    fabric: Link | None = setting(
        None, "Every link between a rail switch and a spine, rail0-spine1. null: like a NIC's.", _AS_LINK
    )

    @model_validator(mode="after")
    def _sized(self) -> RailOptimised:
        if self.servers * self.nics > MAX_HOSTS:
            raise _too_many("servers", self.servers * self.nics)
        if self.servers * self.nics < 2:
            raise refuse("servers", "1 NIC in all", "at least 2")
        if self.servers % self.units:
            raise refuse("units", str(self.units), f"a divisor of the {self.servers} servers")
        if self.servers // self.units + self.spines > MAX_PORTS:
            ports = self.servers // self.units + self.spines
            raise refuse("units", f"{ports} ports at each rail switch", f"at most {MAX_PORTS}")
        _few_links("spines", self.servers * self.nics, self.units * self.nics, self.spines)
        return self

    def network(self, _read: ReadFile) -> Network:
        """Hosts in the order of servers."""
        rails, spines = _numbered("rail", self.units * self.nics), _numbered("spine", self.spines)
        per_unit = self.servers // self.units
        hosts, wires = [], []
        for server in range(self.servers):
            for nic in range(self.nics):
                host = f"s{server}n{nic}"
                hosts.append(host)
                wires += _mesh([host], [rails[server // per_unit * self.nics + nic]], self.link)
        wires += _mesh(rails, spines, self.fabric or self.link)
        notes = [f"{self.servers} servers of {self.nics} NICs in {self.units} unit(s)"]
        return Network(hosts, rails + spines, wires, notes)


Topology = Annotated[
    Star
    | PointToPoint
    | BridgeTopology
    | VethTopology
    | Dumbbell
    | LeafSpine
    | FatTree
    | TwoLevelFatTree
    | RailOptimised
    | Graph
    | File,
    ByKind(),
]
"""A network of one of the forms; `kind` says which."""


def _ceil(value: float) -> int:
    # Rounding of a ratio of two rates must not add a spine switch.
    whole = round(value)
    return whole if abs(value - whole) < 1e-9 * max(value, 1.0) else int(value) + 1


def rates_in_words(network: Network) -> str:
    """`100Gbps`, or `25Gbps to 400Gbps`: the rates of the hosts' links."""
    low, high = min(network.host_rates), max(network.host_rates)
    return format_rate(low) if low == high else f"{format_rate(low)} to {format_rate(high)}"
