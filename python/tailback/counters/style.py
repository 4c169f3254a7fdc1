"""What a tool that prints counters is here: its name, the nodes that it has something of, its text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tailback.recorded.run import Recorded


@dataclass(frozen=True)
class Style:
    """A tool whose output is imitated, in a file of its own."""

    name: str
    """As after `--as`."""
    command: str
    """What a person types on a real machine, `ethtool -S eth1`."""
    nodes: Callable[[Recorded], list[str]]
    """The hosts, or other nodes, that the tool has something of, in the order of the network."""
    render: Callable[[Recorded, str], str]
    """What it prints on one of them, with a newline at the end."""
    needs: str
    """What a run must have for this tool to print anything, as after "expected"."""


def counters_of(result: Recorded, place: str) -> Mapping[str, int]:
    """Counters of a host, or of a switch's port, by name; one that is not there is 0."""
    return result.counters_at.get(place, {})


def counted_at(result: Recorded, port: str, counter: str, priority: int) -> int | None:
    """A counter of a switch's port, with the priority for its braces; None where nothing counts it.

    A port has no row of a priority that it never carried: what is counted of another priority was 0.
    """
    known = result.counter_names
    if not any(counter.format(other) in known for other in range(8)):
        return None
    return counters_of(result, port).get(counter.format(priority), 0)


def counted(result: Recorded) -> set[str]:
    """Names of what hosts count, at whichever of them.

    Hosts of the HPCC profile count less than its switches: there, what one of them has is known to be theirs.
    """
    if "hosts" in result.plan:
        return set(result.counter_names)
    of_hosts, rows = set(hosts(result)), result.counters
    columns = rows.column("node").to_pylist(), rows.column("counter").to_pylist()
    return {name for node, name in zip(*columns, strict=True) if node in of_hosts}


def hosts(result: Recorded) -> list[str]:
    """All hosts of a run."""
    return list(result.setup.network.hosts)


def switches(result: Recorded) -> list[str]:
    """All switches of a run."""
    return list(result.setup.network.switches)


def ports_of(result: Recorded, switch: str) -> dict[str, str]:
    """The ports of a switch in their order, as `sw0:h3`, each with the node that it leads to."""
    wires = result.setup.network.wires_of[switch]
    return {f"{switch}:{peer}": peer for peer in (wire.b if wire.a == switch else wire.a for wire in wires)}


def nic_of(result: Recorded, host: str) -> Mapping[str, Any]:
    """A host's NIC in the plan; empty where the plan has none, as that of the HPCC profile."""
    number = next((one["nic"] for one in result.plan.get("hosts", []) if one["name"] == host), None)
    return {} if number is None else result.plan["nics"][number]


def host_path_of(result: Recorded, host: str) -> Mapping[str, Any] | None:
    """The host path of a host in the plan; None for an ideal host."""
    return nic_of(result, host).get("host_path")


def pfc_priorities(result: Recorded, host: str) -> list[int]:
    """Priorities under PFC at a host: those of its receive buffer, and those that its switch pauses."""
    host_path = host_path_of(result, host)
    own = [
        priority
        for part in (host_path or {}).get("receive_buffers", [])
        if part["xoff_bytes"] is not None
        for priority in part["priorities"]
    ]
    return sorted({*own, *result.setup.lossless})
