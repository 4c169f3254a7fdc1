"""How much buffer a lossless priority of a port needs for what arrives after it asked for a pause."""

from __future__ import annotations

from tailback.scenario.congestion import telemetry_bytes
from tailback.scenario.model import Scenario
from tailback.scenario.network import Wire
from tailback.scenario.tcp import ETHERNET_BYTES

DATA_OVERHEAD_BYTES = 14 + 20 + 8 + 12 + 16 + 4 + 4 + 8 + 12
"""The most that a packet has beyond its payload: Ethernet, IPv4, UDP, BTH, RETH, ICRC, FCS, preamble, gap."""
PFC_FRAME_BYTES = 64 + 8 + 12
"""A PFC frame on the wire, preamble and gap included."""


def bytes_in(span_ps: int, rate_bps: int) -> int:
    """Bytes that a link carries in a time, a part of a byte counted as one."""
    return -(-span_ps * rate_bps // (8 * 10**12))


def auto_headroom(scenario: Scenario, wire: Wire) -> int:
    """Bytes for each lossless priority of a port at this link.

    The pause waits for one packet in transmission, is itself a frame, travels, and takes effect after the
    peer's response delay and the end of the packet that the peer had begun; what was then under way still
    travels, and passes the switch's pipeline before it is accounted.
    """
    pfc = scenario.switch.pfc
    in_flight = bytes_in(2 * wire.delay + pfc.response_delay + scenario.switch.latency, wire.rate)
    return in_flight + 2 * largest_packet(scenario) + PFC_FRAME_BYTES


def largest_packet(scenario: Scenario) -> int:
    """Bytes on the wire of the largest packet of a scenario, in whichever priority: a pause waits for it."""
    packet = scenario.host.mtu + telemetry_bytes(scenario.host) + DATA_OVERHEAD_BYTES
    return max(packet, scenario.host.tcp.mtu + ETHERNET_BYTES) if scenario.has_tcp else packet


def headrooms(scenario: Scenario) -> list[int]:
    """Bytes for each lossless priority of a switch's port, link by link, as set or worked out.

    0 without switches: what a NIC keeps is in its receive buffer, see `path_plan.thresholds`.
    """
    if not scenario.network.switches:
        return [0] * len(scenario.network.wires)
    fixed = scenario.switch.pfc.headroom
    wires = scenario.network.wires
    if not isinstance(fixed, str):
        return [fixed] * len(wires)
    kinds = {(wire.rate, wire.delay): wire for wire in wires}
    known = {kind: auto_headroom(scenario, wire) for kind, wire in kinds.items()}
    return [known[wire.rate, wire.delay] for wire in wires]


def reserved(scenario: Scenario) -> dict[str, int]:
    """Bytes of each switch's buffer that are headroom, over all its ports and lossless priorities."""
    totals = dict.fromkeys(scenario.network.switches, 0)
    priorities = len(scenario.switch.lossless)
    for wire, each in zip(scenario.network.wires, headrooms(scenario), strict=True):
        for end in (wire.a, wire.b):
            if end in totals:
                totals[end] += each * priorities
    return totals


def shared(scenario: Scenario) -> dict[str, int]:
    """Bytes of each switch's buffer that all its queues share, as set or what headroom leaves."""
    fixed, buffer = scenario.switch.shared, scenario.switch.buffer
    return {
        name: buffer - kept if isinstance(fixed, str) else fixed for name, kept in reserved(scenario).items()
    }
