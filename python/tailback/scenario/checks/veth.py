"""Conflicts of network namespaces and their traffic."""

from __future__ import annotations

from collections.abc import Iterator

from tailback.errors import Path, found
from tailback.scenario.model import Scenario
from tailback.scenario.veth import BETWEEN_NAMESPACES, VethTopology
from tailback.units import format_duration


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
