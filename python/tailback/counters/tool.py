"""A tool that prints counters: its name, its nodes and its output; and functions that several tools need."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tailback.recorded.run import Recorded


@dataclass(frozen=True)
class CounterTool:
    """A tool whose output is imitated, in its own module."""

    name: str
    """The name after `--as`."""
    command: str
    """The command on a real machine, such as `ethtool -S eth1`."""
    nodes: Callable[[Recorded], list[str]]
    """The hosts or other nodes that the tool has data for, in the order of the network."""
    render: Callable[[Recorded, str], str]
    """The output on one of them, with a final newline."""
    needs: str
    """The part of a run that the tool needs, for messages after "expected"."""


def counters_of(result: Recorded, place: str) -> Mapping[str, int]:
    """Counters of a host or a switch's port, by name; missing ones are 0."""
    return result.counters_at.get(place, {})


def counted_at(result: Recorded, port: str, counter: str, priority: int) -> int | None:
    """A counter of a switch's port, whose braces stand for the priority; None if the run does not count it.

    A port has no row for a priority that it never carried: a counter that exists for another priority is 0.
    """
    known = result.counter_names
    if not any(counter.format(other) in known for other in range(8)):
        return None
    return counters_of(result, port).get(counter.format(priority), 0)


def counted(result: Recorded) -> set[str]:
    """Names of counters that hosts have.

    In the HPCC profile hosts have fewer counters than switches: there, names are those of rows of hosts.
    """
    if "hosts" in result.plan:
        return set(result.counter_names)
    of_hosts, rows = set(hosts(result)), result.counters
    columns = rows.column("node").to_pylist(), rows.column("counter").to_pylist()
    return {name for node, name in zip(*columns, strict=True) if node in of_hosts}


def hosts(result: Recorded) -> list[str]:
    return list(result.setup.network.hosts)


def switches(result: Recorded) -> list[str]:
    return list(result.setup.network.switches)


def ports_of(result: Recorded, switch: str) -> dict[str, str]:
    """The ports of a switch in order, such as `sw0:h3`, with the node at the other end."""
    wires = result.setup.network.wires_of[switch]
    return {f"{switch}:{peer}": peer for peer in (wire.b if wire.a == switch else wire.a for wire in wires)}


def nic_of(result: Recorded, host: str) -> Mapping[str, Any]:
    """A host's NIC in the plan; empty if the plan has none, as in the HPCC profile."""
    number = next((one["nic"] for one in result.plan.get("hosts", []) if one["name"] == host), None)
    return {} if number is None else result.plan["nics"][number]


def host_path_of(result: Recorded, host: str) -> Mapping[str, Any] | None:
    """The host path in the plan; None for an ideal host."""
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
