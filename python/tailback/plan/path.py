"""Paths of hosts and memory traffic in the plan."""

from __future__ import annotations

from typing import Any

from tailback.scenario.host_path import CACHE_LINE_BYTES, DATA_CREDIT_BYTES, TLP_OVERHEAD_BYTES, HostPath
from tailback.scenario.hosts import names
from tailback.scenario.model import Scenario
from tailback.scenario.network import Wire
from tailback.scenario.receive_buffer import lossless_of, thresholds


def path_plan(scenario: Scenario, given: HostPath | None, wire: Wire) -> dict[str, Any] | None:
    """The path of a kind of host at this link, as the engine takes it."""
    if given is None:
        return None
    path = given.resolved()
    buffer = path.receive_buffer
    lossless = lossless_of(scenario, buffer)
    parts: list[dict[str, Any]] = []
    if len(lossless) < 8:
        others = [priority for priority in range(8) if priority not in lossless]
        parts.append(
            {"bytes": buffer.lossy_size, "xoff_bytes": None, "xon_bytes": None, "priorities": others}
        )
    if lossless:
        xoff, xon = thresholds(scenario, buffer, wire)
        parts.append(
            {
                "bytes": buffer.lossless_size,
                "xoff_bytes": xoff,
                "xon_bytes": xon,
                "priorities": sorted(lossless),
            }
        )
    assert path.iio_lines is not None
    return {
        "receive_buffers": parts,
        "pfc_quanta": buffer.quanta,
        "pfc_response_delay_ps": buffer.response_delay,
        "cnp_threshold_bytes": buffer.cnp_threshold,
        "pcie": {
            "rate_bps": path.rate,
            "max_payload_bytes": path.max_payload,
            "tlp_overhead_bytes": TLP_OVERHEAD_BYTES,
            "header_credits": path.header_credits,
            "data_credits": path.iio_lines * CACHE_LINE_BYTES // DATA_CREDIT_BYTES,
            "credit_latency_ps": path.credit_latency,
        },
        "iio_latency_ps": path.iio_latency,
        "target": {path.target: _memory(path) if path.target == "memory" else _gpu(path)},
        "reads": None if path.reads is None else path.reads.plan(),
    }


def _memory(path: HostPath) -> dict[str, Any]:
    memory = path.memory
    ddio = memory.ddio
    return {
        "bandwidth_bps": memory.bandwidth,
        "service_ps": memory.service,
        "write_wait": memory.write_wait,
        "write_queue_lines": memory.write_queue,
        "read_spread": memory.read_spread,
        "cpu_latency_ps": memory.cpu_latency,
        "ddio": None if ddio is None else ddio.plan(),
    }


def _gpu(path: HostPath) -> dict[str, Any]:
    gpu = path.gpu
    return {
        "bandwidth_bps": gpu.bandwidth,
        "hops": gpu.hops,
        "hop_latency_ps": gpu.hop_latency,
        "outstanding_bytes": gpu.outstanding,
        "stalls": None
        if gpu.stalls is None
        else {"interval_ps": gpu.stalls.interval, "duration_ps": gpu.stalls.duration},
    }


def memory_loads(scenario: Scenario) -> list[dict[str, Any]]:
    """Memory traffic, item by item and host by host."""
    return [
        {
            "name": f"memory{index}",
            "host": host,
            "start_ps": item.start,
            "stop_ps": item.stop,
            "cores": item.cores,
            "lines_per_core": item.lines_per_core,
            "read_share": item.read_share,
        }
        for index, item in enumerate(scenario.memory_load)
        for host in names(item.host, scenario.network.hosts)
    ]
