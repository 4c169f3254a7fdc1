"""Host paths of hosts, and thresholds of their receive buffers."""

from __future__ import annotations

from tailback.scenario.headroom import above_xoff
from tailback.scenario.host_path import (
    CELL_BYTES,
    MAX_INTERFACE_MTU,
    XON_OFFSET_BYTES,
    HostPath,
    ReceiveBuffer,
)
from tailback.scenario.hosts import names
from tailback.scenario.model import Scenario
from tailback.scenario.network import Wire
from tailback.wire import RETH_BYTES, ROCE_HEADER_BYTES


def host_paths_of(scenario: Scenario) -> dict[str, HostPath | None]:
    """The host path of each host in order; None: an ideal host."""
    host, every = scenario.host, scenario.network.hosts
    host_paths: dict[str, HostPath | None] = dict.fromkeys(every, host.path)
    for own in host.path_by_host:
        host_paths.update(dict.fromkeys(names(own.hosts, every), own))
    return host_paths


def thresholds(scenario: Scenario, buffer: ReceiveBuffer, wire: Wire) -> tuple[int, int]:
    """xoff and xon of the lossless part of a receive buffer at this link, as set or worked out; xoff may be
    below 0.
    """
    if buffer.cable_len is not None:
        below = mlx5_headroom(scenario, buffer, buffer.cable_len, wire)
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
"""Minimum rate in the computation of the mlx5 driver."""


def mlx5_headroom(scenario: Scenario, buffer: ReceiveBuffer, metres: int, wire: Wire) -> int:
    """Bytes above xoff as the mlx5 driver sets it, in its integer arithmetic."""
    mtu = buffer.interface_mtu
    if mtu is None:
        host = scenario.host
        mtu = max(host.mtu + ROCE_HEADER_BYTES + RETH_BYTES, host.tcp.mtu if scenario.has_tcp else 0)
    mbps = max(wire.rate // 10**6, MLX5_LEAST_MBPS)
    return (301 + 216 * metres // 100) * mbps // 1000 + 272 * mtu // 100


def _in_cells(size: int) -> int:
    return size // CELL_BYTES * CELL_BYTES


def every_threshold(scenario: Scenario) -> list[tuple[int, int]]:
    """xoff and xon of all kinds of hosts with a lossless part; at least one pair."""
    wires = scenario.network.wires_of
    hosts = [
        (host_path.receive_buffer, wires[name][0])
        for name, host_path in host_paths_of(scenario).items()
        if host_path
    ]
    kinds = {(id(buffer), wire.rate, wire.delay): (buffer, wire) for buffer, wire in hosts}
    return [thresholds(scenario, buffer, wire) for buffer, wire in kinds.values()]


def lossless_of(scenario: Scenario, buffer: ReceiveBuffer) -> list[int]:
    """Priorities of the lossless part of a receive buffer."""
    return scenario.switch.lossless if buffer.lossless is None else buffer.lossless
