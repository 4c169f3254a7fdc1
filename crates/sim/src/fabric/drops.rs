//! Why packets are dropped, and how many were.

/// Why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum DropReason {
    EgressThreshold,
    IngressThreshold,
    BufferFull,
    HeadroomOverflow,
    LinkLoss,
    LinkDown,
    PortDown,
    NoRoute,
    ReceiveBufferFull,
    ReceiveRing,
    StormQueued,
    StormEgress,
    StormIngress,
    Qdisc,
}

impl DropReason {
    pub const ALL: [DropReason; 14] = [
        DropReason::EgressThreshold,
        DropReason::IngressThreshold,
        DropReason::BufferFull,
        DropReason::HeadroomOverflow,
        DropReason::LinkLoss,
        DropReason::LinkDown,
        DropReason::PortDown,
        DropReason::NoRoute,
        DropReason::ReceiveBufferFull,
        DropReason::ReceiveRing,
        DropReason::StormQueued,
        DropReason::StormEgress,
        DropReason::StormIngress,
        DropReason::Qdisc,
    ];

    /// Whether it is the ingress group that refused the packet, and not the egress queue.
    pub fn is_ingress(self) -> bool {
        use DropReason::*;
        matches!(self, HeadroomOverflow | NoRoute | ReceiveBufferFull | StormIngress)
    }

    /// Whether the packet had been queued at the port.
    pub fn was_queued(self) -> bool {
        matches!(self, DropReason::PortDown | DropReason::StormQueued)
    }

    /// Whether a switch had no buffer left for it.
    pub fn lacks_buffer(self) -> bool {
        use DropReason::*;
        matches!(self, EgressThreshold | IngressThreshold | BufferFull | HeadroomOverflow)
    }

    /// Whether a PFC watchdog dropped it.
    pub fn is_storm(self) -> bool {
        matches!(self, DropReason::StormQueued | DropReason::StormEgress | DropReason::StormIngress)
    }

    /// Whether the packet was on the link.
    pub fn was_on_link(self) -> bool {
        matches!(self, DropReason::LinkLoss | DropReason::LinkDown)
    }

    pub fn text(self) -> &'static str {
        match self {
            DropReason::EgressThreshold => "egress queue above its share of the free buffer",
            DropReason::IngressThreshold => "ingress group above its share of the free buffer",
            DropReason::BufferFull => "shared buffer full",
            DropReason::HeadroomOverflow => "headroom of a lossless group full",
            DropReason::LinkLoss => "lost on the link",
            DropReason::LinkDown => "on the link when it failed",
            DropReason::PortDown => "waiting at a port whose link failed",
            DropReason::NoRoute => "no path to its host",
            DropReason::ReceiveBufferFull => "receive buffer of the NIC full",
            DropReason::ReceiveRing => "receive ring of its core full",
            DropReason::StormQueued => "PFC watchdog: waiting at the port in a storm",
            DropReason::StormEgress => "PFC watchdog: came for the port in a storm",
            DropReason::Qdisc => "dropped by the queueing discipline",
            DropReason::StormIngress => "PFC watchdog: came from the port in a storm",
        }
    }
}

/// Packets and bytes dropped for one reason at one queue.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub packets: u64,
    pub bytes: u64,
}

pub(crate) type Drops = [Tally; DropReason::ALL.len()];
