"""Conflicts of a Linux bridge with the rest of a scenario."""

from __future__ import annotations

from collections.abc import Iterator

from tailback.errors import Path
from tailback.scenario.model import Scenario


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
