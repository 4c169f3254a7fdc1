//! Forks of that simulator whose network differs in a few figures and in nothing else.

use serde::{Deserialize, Serialize};

/// Whose figures a run has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Variant {
    /// The HPCC simulator itself, on ns-3.18 (commit 9f4be2a).
    #[default]
    Hpcc,
    /// What ASTRA-sim carries, on ns-3.42 (astra-network-ns3, commit f764bed).
    AstraSim,
    /// What SimAI carries, on ns-3.36 (ns-3-alibabacloud, commit c2bfbf4).
    Simai,
}

/// IPv4, UDP, sequence number and priority of a data packet.
const DATA_HEADER_BYTES: u32 = 34;
/// IPv4 and 12 B of an ACK's own.
const ACK_HEADER_BYTES: u32 = 32;
/// IPv4 and 9 B of a PFC frame's own.
const PFC_HEADER_BYTES: u32 = 29;
/// What Ethernet pads a frame to, without its header.
const MIN_BYTES: u32 = 46;

impl Variant {
    /// The link's header: an Ethernet one, or PPP's.
    fn link_header_bytes(self) -> u32 {
        match self {
            Variant::Hpcc | Variant::Simai => 14,
            Variant::AstraSim => 2,
        }
    }

    /// What its sequence numbers take beyond 32 bits.
    fn wider_bytes(self) -> u32 {
        match self {
            Variant::Hpcc | Variant::AstraSim => 0,
            Variant::Simai => 4,
        }
    }

    /// Header bytes of a data packet by that simulator's formula of an empty network.
    pub(super) fn formula_header_bytes(self) -> u32 {
        Variant::Hpcc.data_header_bytes() + self.wider_bytes()
    }

    /// Header bytes of a data packet on the wire, without telemetry.
    pub(super) fn data_header_bytes(self) -> u32 {
        self.link_header_bytes() + DATA_HEADER_BYTES + self.wider_bytes()
    }

    /// Bytes of an ACK on the wire.
    pub(super) fn ack_bytes(self, telemetry: u32) -> u32 {
        self.link_header_bytes() + (ACK_HEADER_BYTES + self.wider_bytes() + telemetry).max(MIN_BYTES)
    }

    /// Bytes of a PFC frame on the wire.
    pub(super) fn pfc_bytes(self) -> u32 {
        self.link_header_bytes() + PFC_HEADER_BYTES
    }

    /// Whether times on the wire are rounded to the nearest nanosecond, and not down.
    pub(super) fn rounds_to_nearest(self) -> bool {
        self == Variant::AstraSim
    }

    /// Whether the work is told when a message is out of its sender's NIC.
    pub(super) fn tells_sent(self) -> bool {
        self == Variant::Simai
    }

    /// Whether a host's port, when it works out when to wake, skips queue pairs that have sent everything. The gap of such a
    /// queue pair is mostly over; where it counts, the port does not wake, and the others wait for the next ACK.
    pub(super) fn wake_skips_sent(self) -> bool {
        self == Variant::Hpcc
    }

    /// Random streams that building a network takes for each node.
    pub(super) fn streams_per_node(self) -> u64 {
        match self {
            // One in its global routing and five in its IPv6 extensions: hop-by-hop, destination, fragment, routing,
            // loose routing.
            Variant::Hpcc => 6,
            Variant::Simai => 8,
            Variant::AstraSim => 9,
        }
    }
}
