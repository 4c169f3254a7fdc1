"""Headroom: buffer of a lossless priority for bytes that arrive after it has requested a pause."""

from __future__ import annotations

import math

from tailback.scenario.congestion import telemetry_bytes
from tailback.scenario.model import Scenario
from tailback.scenario.network import Wire
from tailback.scenario.switch import Switch
from tailback.wire import ETHERNET_OVERHEAD_BYTES, RETH_BYTES, ROCE_OVERHEAD_BYTES

QUANTUM_BYTES = 512 // 8
"""Bytes on a link during a quantum of a pause (IEEE 802.1Qbb)."""


def above_xoff(scenario: Scenario, wire: Wire, response_delay: int, latency: int) -> int:
    """Bytes that may still arrive on a link after a priority has reached xoff.

    response_delay: of the peer, ps. latency: from a packet's last bit to its being counted, ps. The derivation is
    at the engine's function.
    """
    from tailback._engine import headroom_bytes

    # Worst case: the peer's clock is fast, and this end's slow.
    rate = math.ceil(wire.rate * (1 + 2e-6 * scenario.run.clock_ppm))
    return headroom_bytes(rate, wire.delay, response_delay, latency, largest_packet(scenario))


def largest_packet(scenario: Scenario) -> int:
    """Bytes on the wire of the largest packet of a scenario in any priority: a pause frame may wait for it."""
    packet = scenario.host.mtu + telemetry_bytes(scenario) + ROCE_OVERHEAD_BYTES + RETH_BYTES
    return max(packet, scenario.host.tcp.mtu + ETHERNET_OVERHEAD_BYTES) if scenario.has_tcp else packet


def least_quanta(scenario: Scenario) -> int:
    """Minimum quanta: a shorter pause may end before the frame that repeats it takes effect.

    A pause is repeated at half of its time, and this frame may have to wait for a packet. So the other half must be
    longer than the largest packet takes.
    """
    return 2 * largest_packet(scenario) // QUANTUM_BYTES + 1


def too_few_quanta(quanta: int, least: int) -> str:
    return f"found {quanta}, expected at least {least}: else a pause ends before its repetition is obeyed"


def headrooms(scenario: Scenario) -> list[int]:
    """Headroom of each lossless priority of a switch's port, for each link, as set or computed: the larger of what
    its two switches have.

    0 without switches: headroom of a NIC is in its receive buffer, see `receive_buffer.thresholds`.
    """
    switches = scenario.switch_of
    known: dict[tuple[int, int, int], int] = {}

    def at(wire: Wire, switch: Switch) -> int:
        if not isinstance(switch.pfc.headroom, str):
            return switch.pfc.headroom
        kind = wire.rate, wire.delay, id(switch)
        if kind not in known:
            known[kind] = above_xoff(scenario, wire, switch.pfc.response_delay, switch.latency)
        return known[kind]

    return [
        max((at(wire, switches[end]) for end in (wire.a, wire.b) if end in switches), default=0)
        for wire in scenario.network.wires
    ]


def reserved(scenario: Scenario) -> dict[str, int]:
    """Total headroom of each switch, over all ports and lossless priorities."""
    switches = scenario.switch_of
    totals = dict.fromkeys(switches, 0)
    for wire, each in zip(scenario.network.wires, headrooms(scenario), strict=True):
        for end in (wire.a, wire.b):
            if end in totals:
                totals[end] += each * len(switches[end].lossless)
    pools = {name: switch.pfc.headroom_pool for name, switch in switches.items()}
    return {
        name: total if (pool := pools[name]) is None else min(total, pool) for name, total in totals.items()
    }


def shared(scenario: Scenario) -> dict[str, int]:
    """Shared bytes of each switch's buffer, as set, or the rest that headroom leaves."""
    return {
        name: switch.buffer - kept if isinstance(switch.shared, str) else switch.shared
        for (name, kept), switch in zip(reserved(scenario).items(), scenario.switch_of.values(), strict=True)
    }
