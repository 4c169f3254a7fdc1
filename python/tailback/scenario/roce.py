"""What all RoCE traffic has: its class, and its congestion control."""

from __future__ import annotations

from tailback.scenario.controllers import Kind
from tailback.scenario.fields import Dscp, Part, Priority, setting


class Roce(Part):
    """In which class it is sent, and how it is controlled."""

    priority: Priority = setting(
        3, "Priority (PCP) of data and ACKs.", "Mellanox community DOC-2591: RoCE in priority 3"
    )
    dscp: Dscp | None = setting(
        None,
        "DSCP of data and ACKs; null: 8 times the priority.",
        "RFC 2474, section 4.2.2: the class selector of the priority",
    )
    congestion: Kind | None = setting(
        None,
        "Its own congestion control; null: that of each sending host.",
        "host.congestion, host.congestion_by_host",
    )
