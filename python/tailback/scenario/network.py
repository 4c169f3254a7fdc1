"""A network as a graph: hosts, switches and links."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

ReadFile = Callable[[str, int], bytes]
"""Returns the content of a file that a scenario names; the number is its maximum size in bytes."""


class Wire(NamedTuple):
    """A full-duplex link: names of its ends, bit/s each way, picoseconds one way, probability of a loss."""

    a: str
    b: str
    rate: int
    delay: int
    loss: float

    @property
    def name(self) -> str:
        """The name of the link in failures: `leaf0-spine1`."""
        return f"{self.a}-{self.b}"


@dataclass(frozen=True)
class Network:
    """Hosts and switches by name, in the order of the plan, and the links between them.

    A host has exactly one link. Two nodes have at most one link.
    """

    hosts: list[str]
    switches: list[str]
    wires: list[Wire]
    notes: list[str] = field(default_factory=list)
    """Notes about the topology for readers, such as the size of a pod."""
    bridges: list[str] = field(default_factory=list)
    """Linux hosts that forward; in the plan they come after the switches."""

    @cached_property
    def wires_of(self) -> dict[str, list[Wire]]:
        """The links of each node, in the order of their ports."""
        found: dict[str, list[Wire]] = {name: [] for name in (*self.hosts, *self.switches, *self.bridges)}
        for wire in self.wires:
            found[wire.a].append(wire)
            found[wire.b].append(wire)
        return found

    @cached_property
    def host_rates(self) -> list[int]:
        """Rate of each host's link, bit/s, in the order of the hosts."""
        return [self.wires_of[name][0].rate for name in self.hosts]

    @cached_property
    def host_number(self) -> dict[str, int]:
        """The index of each host."""
        return {name: number for number, name in enumerate(self.hosts)}

    @cached_property
    def wire_number(self) -> dict[str, int]:
        """The index of each link by its name, in either direction."""
        numbers: dict[str, int] = {}
        for number, wire in enumerate(self.wires):
            numbers[f"{wire.b}-{wire.a}"] = number
        for number, wire in enumerate(self.wires):
            numbers[wire.name] = number
        return numbers

    @cached_property
    def tier_of(self) -> dict[str, int]:
        """Number of links from a node to the nearest host: 0 for hosts, 1 for switches with hosts."""
        tiers = dict.fromkeys(self.hosts, 0)
        frontier = deque(self.hosts)
        neighbours = {
            name: [wire.b if wire.a == name else wire.a for wire in wires]
            for name, wires in self.wires_of.items()
        }
        while frontier:
            node = frontier.popleft()
            for other in neighbours[node]:
                if other not in tiers:
                    tiers[other] = tiers[node] + 1
                    frontier.append(other)
        highest = max(tiers.values(), default=0)
        return {name: tiers.get(name, highest + 1) for name in self.wires_of}

    @cached_property
    def tiers(self) -> list[list[str]]:
        """Names by tier, hosts first."""
        rows: list[list[str]] = [[] for _ in range(max(self.tier_of.values(), default=0) + 1)]
        for name, tier in self.tier_of.items():
            rows[tier].append(name)
        return rows

    def oversubscription(self, tier: int) -> float | None:
        """Capacity of a tier's links down over that of its links up; None without links up."""
        down = up = 0
        for wire in self.wires:
            low, high = sorted((self.tier_of[wire.a], self.tier_of[wire.b]))
            down += wire.rate if high == tier and low < tier else 0
            up += wire.rate if low == tier and high > tier else 0
        return down / up if up else None

    def unreachable(self) -> str | None:
        """A host that the first host cannot reach; None if all are connected."""
        reached = set(self.hosts[:1])
        frontier = list(reached)
        while frontier:
            for wire in self.wires_of[frontier.pop()]:
                for other in (wire.a, wire.b):
                    if other not in reached:
                        reached.add(other)
                        frontier.append(other)
        return next((host for host in self.hosts if host not in reached), None)


def mesh(lower: Iterable[str], upper: list[str], rate: int, delay: int, loss: float) -> list[Wire]:
    """A link from every node below to every node above, in the order of the nodes below."""
    return [Wire(low, high, rate, delay, loss) for low in lower for high in upper]
