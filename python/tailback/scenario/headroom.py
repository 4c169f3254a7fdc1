"""How much buffer a lossless priority of a port needs for what arrives after it asked for a pause."""

from __future__ import annotations

from tailback.scenario.congestion import telemetry_bytes
from tailback.scenario.model import Scenario

DATA_OVERHEAD_BYTES = 14 + 20 + 8 + 12 + 16 + 4 + 4 + 8 + 12
"""The most that a packet has beyond its payload: Ethernet, IPv4, UDP, BTH, RETH, ICRC, FCS, preamble, gap."""
PFC_FRAME_BYTES = 64 + 8 + 12
"""A PFC frame on the wire, preamble and gap included."""


def bytes_in(span_ps: int, rate_bps: int) -> int:
    """Bytes that a link carries in a time, a part of a byte counted as one."""
    return -(-span_ps * rate_bps // (8 * 10**12))


def auto_headroom(scenario: Scenario) -> int:
    """Bytes for each port and lossless priority.

    The pause waits for one packet in transmission, is itself a frame, travels, and takes effect after the
    peer's response delay and the end of the packet that the peer had begun; what was then under way still
    travels, and passes the switch's pipeline before it is accounted.
    """
    link = scenario.topology.link
    pfc = scenario.switch.pfc
    in_flight = bytes_in(2 * link.delay + pfc.response_delay + scenario.switch.latency, link.rate)
    packet = scenario.host.mtu + telemetry_bytes(scenario.host) + DATA_OVERHEAD_BYTES
    return in_flight + 2 * packet + PFC_FRAME_BYTES


def headroom(scenario: Scenario) -> int:
    """Bytes for each port and lossless priority, as set or worked out."""
    fixed = scenario.switch.pfc.headroom
    return auto_headroom(scenario) if isinstance(fixed, str) else fixed


def total_headroom(scenario: Scenario) -> int:
    """Bytes of the switch's buffer that are headroom, over all its ports and lossless priorities."""
    return headroom(scenario) * scenario.topology.hosts * len(scenario.switch.lossless)


def shared(scenario: Scenario) -> int:
    """Bytes of the switch's buffer that all queues share, as set or what headroom leaves."""
    fixed = scenario.switch.shared
    return scenario.switch.buffer - total_headroom(scenario) if isinstance(fixed, str) else fixed
