"""Paths of hosts and memory traffic in the plan."""

from __future__ import annotations

from typing import Any

from tailback.scenario import declared
from tailback.scenario.host_path import TLP_OVERHEAD_BYTES, Gpu, HostPath, Memory
from tailback.scenario.hosts import names
from tailback.scenario.model import Scenario
from tailback.scenario.network import Wire
from tailback.scenario.receive_buffer import lossless_of, thresholds


def path_plan(scenario: Scenario, given: HostPath | None, wire: Wire) -> dict[str, Any] | None:
    """The host path of a kind of host at this link, as the engine takes it."""
    if given is None:
        return None
    path = given.resolved()
    buffer = path.receive_buffer
    lossless = lossless_of(scenario, buffer)
    parts: list[dict[str, Any]] = []
    if len(lossless) < 8:
        others = [priority for priority in range(8) if priority not in lossless]
        parts.append({"xoff_bytes": None, "xon_bytes": None, "priorities": others})
    if lossless:
        xoff, xon = thresholds(scenario, buffer, wire)
        parts.append(
            {
                "xoff_bytes": xoff,
                "xon_bytes": xon,
                "priorities": sorted(lossless),
            }
        )
    return {
        "receive_buffer": buffer.plan(declared.ReceiveBuffer),
        "receive_buffers": parts,
        "pause": buffer.plan(declared.Pause),
        "pcie": path.plan(),
        "tlp_overhead_bytes": TLP_OVERHEAD_BYTES,
        "target": {path.target: _memory(path.memory) if path.target == "memory" else _gpu(path.gpu)},
        "reads": None if path.reads is None else path.reads.plan(),
    }


def _memory(memory: Memory) -> dict[str, Any]:
    return {"own": memory.plan(), "ddio": None if memory.ddio is None else memory.ddio.plan()}


def _gpu(gpu: Gpu) -> dict[str, Any]:
    return {"own": gpu.plan(), "stalls": None if gpu.stalls is None else gpu.stalls.plan()}


def memory_loads(scenario: Scenario) -> list[dict[str, Any]]:
    """Memory traffic, item by item and host by host."""
    return [
        {
            "item": f"memory{index}",
            "host": host,
            **item.plan(),
        }
        for index, item in enumerate(scenario.memory_load)
        for host in names(item.host, scenario.network.hosts)
    ]
