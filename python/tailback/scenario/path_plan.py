"""Paths of hosts and memory traffic in the plan, and what of them does not go together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tailback.scenario.errors import Path, found
from tailback.scenario.headroom import above_xoff, least_quanta, too_few_quanta
from tailback.scenario.host_path import (
    CACHE_LINE_BYTES,
    CELL_BYTES,
    DATA_CREDIT_BYTES,
    MAX_INTERFACE_MTU,
    TLP_OVERHEAD_BYTES,
    XON_OFFSET_BYTES,
    HostPath,
    ReceiveBuffer,
)
from tailback.scenario.hosts import names
from tailback.scenario.model import Scenario
from tailback.scenario.network import Wire
from tailback.scenario.qdisc import ROCE_HEADERS_BYTES
from tailback.units import format_duration, format_size


def paths_of(scenario: Scenario) -> dict[str, HostPath | None]:
    """The path of each host, in the order of the hosts; none: an ideal host."""
    host, every = scenario.host, scenario.network.hosts
    paths: dict[str, HostPath | None] = dict.fromkeys(every, host.path)
    for own in host.path_by_host:
        paths.update(dict.fromkeys(names(own.hosts, every), own))
    return paths


def thresholds(scenario: Scenario, buffer: ReceiveBuffer, wire: Wire) -> tuple[int, int]:
    """xoff and xon of the lossless part of a receive buffer at this link, as set or worked out; xoff may be
    below 0.
    """
    if buffer.cable_len is not None:
        below = _mlx5_headroom(scenario, buffer, buffer.cable_len, wire)
        at = buffer.xoff if isinstance(buffer.xoff, int) else buffer.lossless_size - below
        xon = buffer.xon if isinstance(buffer.xon, int) else max(_in_cells(at - MAX_INTERFACE_MTU), 0)
        return (at if isinstance(buffer.xoff, int) else _in_cells(at)), xon
    if isinstance(buffer.xoff, int):
        xoff = buffer.xoff
    else:
        latency = scenario.host.rx_latency
        xoff = buffer.lossless_size - above_xoff(scenario, wire, buffer.response_delay, latency)
    return xoff, buffer.xon if isinstance(buffer.xon, int) else max(xoff - XON_OFFSET_BYTES, 0)


MLX5_LEAST_MBPS = 40_000
"""The mlx5 driver reckons with no less than this rate."""


def _mlx5_headroom(scenario: Scenario, buffer: ReceiveBuffer, metres: int, wire: Wire) -> int:
    """What lies above xoff where the mlx5 driver sets it, in its own whole-number arithmetic."""
    mtu = buffer.interface_mtu
    if mtu is None:
        host = scenario.host
        mtu = max(host.mtu + ROCE_HEADERS_BYTES, host.tcp.mtu if scenario.has_tcp else 0)
    mbps = max(wire.rate // 10**6, MLX5_LEAST_MBPS)
    return (301 + 216 * metres // 100) * mbps // 1000 + 272 * mtu // 100


def _in_cells(size: int) -> int:
    return size // CELL_BYTES * CELL_BYTES


def every_threshold(scenario: Scenario) -> list[tuple[int, int]]:
    """xoff and xon of all kinds of hosts with a lossless part; one pair where no host has one."""
    wires = scenario.network.wires_of
    hosts = [(path.receive_buffer, wires[name][0]) for name, path in paths_of(scenario).items() if path]
    kinds = {(id(buffer), wire.rate, wire.delay): (buffer, wire) for buffer, wire in hosts}
    return [thresholds(scenario, buffer, wire) for buffer, wire in kinds.values()]


def _lossless(scenario: Scenario, buffer: ReceiveBuffer) -> list[int]:
    return scenario.switch.lossless if buffer.lossless is None else buffer.lossless


def path_plan(scenario: Scenario, given: HostPath | None, wire: Wire) -> dict[str, Any] | None:
    """The path of a kind of host at this link, as the engine takes it."""
    if given is None:
        return None
    path = given.resolved()
    buffer = path.receive_buffer
    lossless = _lossless(scenario, buffer)
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
        "reads": None
        if path.reads is None
        else {"outstanding_bytes": path.reads.outstanding, "latency_ps": path.reads.latency},
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
        "ddio": None
        if ddio is None
        else {"bytes": ddio.capacity, "cpu_share": ddio.cpu_share, "working_set_bytes": ddio.working_set},
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


def path_conflicts(scenario: Scenario) -> Iterator[tuple[Path, str]]:
    """What of paths and memory traffic does not go together, or not with the network."""
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
        if path is None or not _lossless(scenario, path.receive_buffer):
            continue
        for name in own_hosts or [name for name in network.hosts if name not in seen]:
            buffer, wire = path.receive_buffer, network.wires_of[name][0]
            xoff, xon = thresholds(scenario, buffer, wire)
            if buffer.cable_len is not None and not isinstance(buffer.xoff, int):
                least = (
                    _mlx5_headroom(scenario, buffer, buffer.cable_len, wire) + MAX_INTERFACE_MTU + CELL_BYTES
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
    paths = paths_of(scenario)
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
