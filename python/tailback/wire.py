"""Bytes of headers, as the engine counts them."""

from __future__ import annotations

from tailback._engine import (
    ACK_FRAME_BYTES,
    ETHERNET_HEADER_BYTES,
    FCS_BYTES,
    PREAMBLE_AND_GAP_BYTES,
    RETH_BYTES,
    ROCE_HEADER_BYTES,
    TCP_HEADER_BYTES,
)

ETHERNET_OVERHEAD_BYTES = ETHERNET_HEADER_BYTES + FCS_BYTES + PREAMBLE_AND_GAP_BYTES
"""Overhead of a link per IP packet."""
ROCE_OVERHEAD_BYTES = ETHERNET_OVERHEAD_BYTES + ROCE_HEADER_BYTES
"""Overhead of a link per RoCEv2 packet without RETH: Ethernet, IPv4, UDP, BTH, ICRC."""
ACK_WIRE_BYTES = ACK_FRAME_BYTES + PREAMBLE_AND_GAP_BYTES
"""Bytes of an ACK on a link."""

__all__ = [
    "ACK_WIRE_BYTES",
    "ETHERNET_HEADER_BYTES",
    "ETHERNET_OVERHEAD_BYTES",
    "PREAMBLE_AND_GAP_BYTES",
    "RETH_BYTES",
    "ROCE_HEADER_BYTES",
    "ROCE_OVERHEAD_BYTES",
    "TCP_HEADER_BYTES",
]
