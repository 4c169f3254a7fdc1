"""Conflicts of Linux bridges and of network namespaces with the rest of a scenario."""

from __future__ import annotations

from collections.abc import Iterator

from tailback.errors import Path, found
from tailback.scenario.model import Scenario
from tailback.scenario.veth import BETWEEN_NAMESPACES, VethTopology
from tailback.units import format_duration


def bridge_conflicts(scenario: Scenario) -> Iterator[tuple[Path, str]]:
    """Conflicts of the bridge."""
    bridge, network = scenario.bridge, scenario.network
    if not network.bridges:
        if bridge is not None:
            yield ("bridge",), "found a bridge, expected none: topology is not of kind bridge"
        return
    assert bridge is not None, "the model has filled it in"
    known = {core.cpu: core for core in bridge.cores}
    seen: set[str] = set()
    for index, port in enumerate(bridge.ports):
        path = ("bridge", "ports", index)
        if port.to not in network.host_number:
            yield (*path, "to"), f'found "{port.to}", expected one of {", ".join(network.hosts)}'
        elif port.to in seen:
            yield (*path, "to"), f'found "{port.to}" twice, expected every host once'
        seen.add(port.to)
        for place, cpu in enumerate(port.irqs or []):
            if cpu not in known:
                cores = ", ".join(str(core) for core in known)
                yield (*path, "irqs", place), f"found {cpu}, expected one of bridge.cores, {cores}"
            elif known[cpu].isolated:
                yield (*path, "irqs", place), f"found {cpu}, expected a core that is not isolated"
        channels = len(bridge.irqs_of(port))
        for place, channel in enumerate(port.rss or []):
            if channel >= channels:
                text = f"found {channel}, expected one of the {channels} channels, 0 to {channels - 1}"
                yield (*path, "rss", place), text


def veth_conflicts(scenario: Scenario) -> Iterator[tuple[Path, str]]:
    """Conflicts of namespaces and their traffic."""
    topology = scenario.topology
    for index, item in enumerate(scenario.traffic):
        path: Path = ("traffic", index)
        inside = isinstance(item, BETWEEN_NAMESPACES)
        if inside != isinstance(topology, VethTopology):
            kinds = (
                "udp-flood, ping or xdp-frames"
                if not inside
                else "another: this one needs a topology of kind veth"
            )
            yield (*path, "kind"), f'found "{item.kind}", expected {kinds}'
        elif inside and item.start is not None and item.start >= scenario.run.duration:
            late, end = format_duration(item.start), format_duration(scenario.run.duration)
            yield (*path, "start"), f"found {late}, expected less than run.duration, {end}"
    if scenario.veth is not None and not isinstance(topology, VethTopology):
        yield ("veth",), "found settings, expected none: the topology is not of kind veth"
    if isinstance(topology, VethTopology):
        none = "expected none: a topology of kind veth has no hosts"
        for section in ("failures", "memory_load"):
            if getattr(scenario, section):
                yield (section,), f"found something, {none}"
        if scenario.qos is not None:  # qos would fill in settings of hosts and switches
            yield ("qos",), f"found {found(scenario.qos)}, {none} and no switch to set up"
            return
        for section in ("host", "switch"):
            if section in scenario.model_fields_set:
                yield (section,), f"found settings, {none} and no switch"
