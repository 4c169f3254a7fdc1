//! A port: its transmitter, the link behind it and its eight egress queues. What they do is in `transmit.rs`.
//!
//! A hop costs at most two events: the packet's arrival at the other end, and the transmitter's becoming free where
//! something waits for it. Packets on a link arrive in order, so only the first has an event.
//!
//! Store and forward; the latency of the node at the other end is added to the propagation. Leaves out: cut-through
//! switching, cells (buffers count bytes), and lane skew or FEC latency (part of the link's delay).

use tailback_proto::units::{Rate, Time};

use super::packet::Fifo;

/// The hot part of a port: one cache line.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Port {
    /// When the transmitter is free.
    pub busy_until: Time,
    /// When the wake-up event that counts is due; others are stale.
    pub wake_at: Time,
    /// From the end of a transmission to the packet's arrival in the other node.
    pub arrival_delay: Time,
    /// Packets on the link.
    pub in_flight: Fifo,
    /// Bytes put on the wire, preamble and gap included.
    pub wire_bytes: u64,
    /// Port at the other end.
    pub peer: u32,
    /// Node that it belongs to: hosts first, then switches.
    pub owner: u32,
    /// Node at the other end.
    pub peer_owner: u32,
    /// Time of a byte, where it is a whole number of picoseconds; else 0.
    pub ps_per_byte: u32,
    /// Classes with a packet in their queue.
    pub backlogged: u8,
    /// Classes that the peer has paused.
    pub paused: u8,
    /// Classes with strict priority.
    pub strict: u8,
    /// Class served last in the round.
    pub last_class: u8,
    /// Classes whose pause or resume waits to be sent.
    pub pfc_pending: u8,
    /// What happens to packets behind it: [`LOSSY`], [`RECLASSIFIES`].
    pub behind: u8,
    /// Whether the link behind it works.
    pub up: bool,
    /// Who else is told of what it sends: [`WEIGHTED`], [`TAPPED`].
    pub told: u8,
}

/// Its classes share by weights: see `Fabric::ets`.
pub(crate) const WEIGHTED: u8 = 1;
/// It is captured: see [`super::taps`].
pub(crate) const TAPPED: u8 = 2;

/// The link behind a port loses packets at random.
pub(crate) const LOSSY: u8 = 1;
/// The node at the other end may put a packet in another class.
pub(crate) const RECLASSIFIES: u8 = 2;

impl Port {
    /// Whether a packet of `class` that comes now would be sent at once.
    #[inline]
    pub fn is_idle(&self, now: Time, class: u8) -> bool {
        self.busy_until <= now
            && self.up
            && (self.backlogged | self.pfc_pending | (self.paused & 1 << class)) == 0
    }
}

/// The cold part of a port.
#[derive(Debug)]
pub(crate) struct Link {
    /// `node:peer`.
    pub name: String,
    pub rate: Rate,
    pub delay: Time,
    pub loss: f64,
    pub headroom_bytes: u64,
    pub loss_stream: crate::engine::Stream,
}

/// Unit of the integrals of a queue over time, in picoseconds: 64 bits then hold 16 MB for 280 s.
pub(crate) const TICK: u64 = 256;

/// Whole ticks from one instant to another. Spans that follow each other add up exactly.
#[inline]
pub(crate) fn ticks_between(from: Time, to: Time) -> u64 {
    to.0 / TICK - from.0 / TICK
}

/// The mean over a bin of `span` that ends now, from its integral in ticks: over as many as it has, so that no mean is
/// above the maximum.
pub(crate) fn mean_of_ticks(integral: u64, now: Time, span: Time) -> f64 {
    integral as f64 / ticks_between(now - span, now).max(1) as f64
}

/// One egress queue: a cache line, counters included.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(crate) struct ClassQueue {
    pub fifo: Fifo,
    pub bytes: u32,
    pub max_bytes: u32,
    /// Integral of `bytes` over time since the last sample, byte-[`TICK`]s.
    pub byte_ticks: u64,
    pub changed_at: Time,
    /// What came in: by what waited here, or was sent at once.
    pub rx_packets: u64,
    pub rx_bytes: u64,
    pub tx_packets: u64,
    pub tx_bytes: u64,
}

impl ClassQueue {
    pub const EMPTY: ClassQueue = ClassQueue {
        fifo: Fifo::EMPTY,
        bytes: 0,
        max_bytes: 0,
        byte_ticks: 0,
        changed_at: Time::ZERO,
        rx_packets: 0,
        rx_bytes: 0,
        tx_packets: 0,
        tx_bytes: 0,
    };

    /// Whether nothing ever was in it, or is counted of it.
    pub fn is_untouched(&self) -> bool {
        let counted = self.rx_packets | self.rx_bytes | self.tx_packets | self.tx_bytes | self.bytes as u64;
        counted == 0 && self.fifo.is_empty()
    }

    /// A packet comes in and leaves at once.
    #[inline]
    pub fn pass(&mut self, bytes: u32) {
        self.max_bytes = self.max_bytes.max(bytes);
        self.rx_packets += 1;
        self.rx_bytes += bytes as u64;
    }

    /// Brings the integral up to `now`, before `bytes` changes.
    #[inline]
    pub fn integrate(&mut self, now: Time) {
        self.byte_ticks += self.bytes as u64 * ticks_between(self.changed_at, now);
        self.changed_at = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hot_structures_fit_a_cache_line() {
        assert!(std::mem::size_of::<Port>() <= 64, "{}", std::mem::size_of::<Port>());
        assert!(std::mem::size_of::<super::super::switch::IngressGroup>() <= 64);
        assert!(std::mem::size_of::<super::super::switch::Switch>() <= 64);
        assert!(std::mem::size_of::<ClassQueue>() <= 64, "{}", std::mem::size_of::<ClassQueue>());
    }
}
