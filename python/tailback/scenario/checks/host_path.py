"""Conflicts of host paths, memory traffic, RHCC and hostCC."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tailback.errors import Path, found
from tailback.scenario.headroom import least_quanta, too_few_quanta
from tailback.scenario.host_path import CELL_BYTES, MAX_INTERFACE_MTU, HostPath
from tailback.scenario.hosts import names
from tailback.scenario.model import Host, Scenario
from tailback.scenario.receive_buffer import host_paths_of, lossless_of, mlx5_headroom, thresholds
from tailback.scenario.traffic import TcpStreams
from tailback.units import format_duration, format_rate, format_size


def path_conflicts(scenario: Scenario) -> Iterator[tuple[Path, str]]:
    """Conflicts between host paths and memory traffic, and with the network."""
    host, network = scenario.host, scenario.network
    parts: list[tuple[Path, HostPath | None, tuple[str, ...]]] = [(("host", "path"), host.path, ())]
    seen: set[str] = set()
    for index, own in enumerate(host.path_by_host):
        place: Path = ("host", "path_by_host", index)
        hosts = names(own.hosts, network.hosts)
        unknown = next((name for name in hosts if name not in network.host_number), None)
        again = next((name for name in hosts if name in seen), None)
        seen.update(hosts)
        if unknown is not None:
            yield (*place, "hosts"), f"found {found(unknown)}, expected hosts of the network"
            return
        if again is not None:
            yield (*place, "hosts"), f"found {found(again)}, expected hosts that no entry before has"
            return
        parts.append((place, own, tuple(hosts)))
    for place, path, own_hosts in parts:
        if path is None or not lossless_of(scenario, path.receive_buffer):
            continue
        for name in own_hosts or [name for name in network.hosts if name not in seen]:
            buffer, wire = path.receive_buffer, network.wires_of[name][0]
            xoff, xon = thresholds(scenario, buffer, wire)
            if buffer.cable_len is not None and not isinstance(buffer.xoff, int):
                least = (
                    mlx5_headroom(scenario, buffer, buffer.cable_len, wire) + MAX_INTERFACE_MTU + CELL_BYTES
                )
                if buffer.lossless_size < least:
                    yield (
                        (*place, "receive_buffer", "lossless_size"),
                        f"found {format_size(buffer.lossless_size)}, expected at least {format_size(least)}, "
                        f"which the mlx5 driver asks for at {name}",
                    )
                    break
            if buffer.quanta < (least := least_quanta(scenario)):
                yield (*place, "receive_buffer", "quanta"), too_few_quanta(buffer.quanta, least)
                break
            if xoff < 1:
                given = buffer.lossless_size
                yield (
                    (*place, "receive_buffer", "lossless_size"),
                    f"found {format_size(given)}, expected more than {format_size(given - xoff)}, what may "
                    f"arrive at {name} after it asked for a pause",
                )
                break
            if xon >= xoff:
                yield (
                    (*place, "receive_buffer", "xon"),
                    f"found {format_size(xon)}, expected less than xoff, {format_size(xoff)}",
                )
                break
    paths = host_paths_of(scenario)
    yield from _tcp_behind_path(scenario, {name for name, path in paths.items() if path is not None})
    for index, item in enumerate(scenario.memory_load):
        for name in names(item.host, network.hosts):
            path = paths.get(name)
            if path is None or path.target != "memory":
                what = "hosts with host.path to memory" if name in paths else "hosts of the network"
                yield ("memory_load", index, "host"), f"found {found(name)}, expected {what}"
                break
        if item.start >= scenario.run.duration:
            yield (
                ("memory_load", index, "start"),
                f"found {format_duration(item.start)}, expected less than run.duration, "
                f"{format_duration(scenario.run.duration)}",
            )


def _tcp_behind_path(scenario: Scenario, behind: set[str]) -> Iterator[tuple[Path, str]]:
    """TCP at hosts with a host path, which is modelled for RoCE only."""
    for index, item in enumerate(scenario.traffic):
        if not isinstance(item, TcpStreams):
            continue
        for key, entries in (("from", item.from_), ("to", item.to)):
            hosts = [name for name in names(entries, scenario.network.hosts) if name in behind]
            if hosts:
                text = f"found TCP at {hosts[0]}, which has a host.path, expected hosts without one: "
                yield ("traffic", index, key), f"{text}TCP does not cross host paths in this model"
                break


def host_control_conflicts(host: Host, rates: Iterable[int]) -> Iterator[tuple[Path, str]]:
    """Conflicts between RHCC and hostCC, and with links of these rates."""
    line = min(rates)
    if host.rhcc.sender and host.rhcc.floor > line:
        yield (
            ("host", "rhcc", "floor"),
            f"found {format_rate(host.rhcc.floor)}, expected at most the link's rate, {format_rate(line)}",
        )
    for on, path in (
        (host.rhcc.receiver, ("host", "rhcc", "receiver")),
        (host.hostcc.enabled, ("host", "hostcc", "enabled")),
    ):
        if on and host.path is None and not host.path_by_host:
            yield (
                path,
                "found true, expected false without host.path: there is no IIO whose counter it could read",
            )
    if host.rhcc.receiver and host.hostcc.enabled:
        yield (
            ("host", "hostcc", "enabled"),
            "found true, expected false with rhcc.receiver: both set the CPUs' memory bandwidth",
        )
