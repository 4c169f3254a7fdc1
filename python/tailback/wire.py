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
"""What a link carries besides an IP packet."""
ROCE_OVERHEAD_BYTES = ETHERNET_OVERHEAD_BYTES + ROCE_HEADER_BYTES
"""What a link carries besides the payload of a RoCEv2 packet without RETH (IPv4, UDP, BTH, ICRC)."""
ACK_WIRE_BYTES = ACK_FRAME_BYTES + PREAMBLE_AND_GAP_BYTES
"""What a link carries for an ACK."""

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
