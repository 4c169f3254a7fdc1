//! Why packets are dropped, and how many were.

use std::collections::BTreeMap;

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
    PauseStormQueued,
    PauseStormEgress,
    PauseStormIngress,
    Qdisc,
    Trimmed,
}

impl DropReason {
    pub const ALL: [DropReason; 15] = [
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
        DropReason::PauseStormQueued,
        DropReason::PauseStormEgress,
        DropReason::PauseStormIngress,
        DropReason::Qdisc,
        DropReason::Trimmed,
    ];

    /// Whether it is the ingress group that refused the packet, and not the egress queue.
    pub fn is_ingress(self) -> bool {
        use DropReason::*;
        matches!(self, HeadroomOverflow | NoRoute | ReceiveBufferFull | PauseStormIngress)
    }

    /// Whether the packet had been queued at the port.
    pub fn was_queued(self) -> bool {
        matches!(self, DropReason::PortDown | DropReason::PauseStormQueued)
    }

    /// Whether a switch had no buffer left for it.
    pub fn lacks_buffer(self) -> bool {
        use DropReason::*;
        matches!(self, EgressThreshold | IngressThreshold | BufferFull | HeadroomOverflow | Trimmed)
    }

    /// Whether a PFC watchdog dropped it.
    pub fn is_pause_storm(self) -> bool {
        matches!(
            self,
            DropReason::PauseStormQueued | DropReason::PauseStormEgress | DropReason::PauseStormIngress
        )
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
            DropReason::HeadroomOverflow => "headroom of a lossless group, or the pool of headroom, full",
            DropReason::LinkLoss => "lost on the link",
            DropReason::LinkDown => "on the link when it failed",
            DropReason::PortDown => "waiting at a port whose link failed",
            DropReason::NoRoute => "no route to its host",
            DropReason::ReceiveBufferFull => "receive buffer of the NIC full",
            DropReason::ReceiveRing => "receive ring of its core full",
            DropReason::PauseStormQueued => "PFC watchdog: waiting at the port in a pause storm",
            DropReason::PauseStormEgress => "PFC watchdog: came for the port in a pause storm",
            DropReason::Qdisc => "dropped by the queueing discipline",
            DropReason::Trimmed => "trimmed: its headers went on",
            DropReason::PauseStormIngress => "PFC watchdog: came from the port in a pause storm",
        }
    }
}

/// Packets, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub packets: u64,
    pub bytes: u64,
}

impl Tally {
    /// One more.
    #[inline]
    pub fn count(&mut self, bytes: u32) {
        *self += Tally { packets: 1, bytes: bytes.into() };
    }
}

impl std::ops::AddAssign for Tally {
    #[inline]
    fn add_assign(&mut self, other: Tally) {
        self.packets += other.packets;
        self.bytes += other.bytes;
    }
}

impl std::iter::Sum for Tally {
    fn sum<I: Iterator<Item = Tally>>(tallies: I) -> Tally {
        tallies.fold(Tally::default(), |mut sum, one| {
            sum += one;
            sum
        })
    }
}

/// What a queue dropped, by reason.
pub(crate) type Drops = [Tally; DropReason::ALL.len()];

/// Drops by lane, of those lanes that dropped anything: of very many ports most never do.
#[derive(Debug, Default)]
pub(crate) struct DropsByLane(BTreeMap<usize, Drops>);

static NO_DROPS: Drops = [Tally { packets: 0, bytes: 0 }; DropReason::ALL.len()];

impl DropsByLane {
    /// Takes in those of other lanes.
    pub fn append(&mut self, other: &mut DropsByLane) {
        self.0.append(&mut other.0);
    }

    /// Of a lane, if it dropped anything.
    pub fn get(&self, lane: usize) -> Option<&Drops> {
        self.0.get(&lane)
    }

    /// Lanes that dropped anything, in their order.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &Drops)> {
        self.0.iter().map(|(&lane, drops)| (lane, drops))
    }
}

impl std::ops::Index<usize> for DropsByLane {
    type Output = Drops;
    fn index(&self, lane: usize) -> &Drops {
        self.0.get(&lane).unwrap_or(&NO_DROPS)
    }
}

impl std::ops::IndexMut<usize> for DropsByLane {
    fn index_mut(&mut self, lane: usize) -> &mut Drops {
        self.0.entry(lane).or_default()
    }
}
