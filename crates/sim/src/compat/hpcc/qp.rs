//! Queue pairs: one for each message.

use super::cc::dcqcn::ReactionPoint;
use super::clock::{serialization, Rounding};
use super::packet::NONE;
use super::plan::Flow;
use super::routing::{address, flow_key};

/// The sending half.
#[derive(Clone, Debug)]
#[repr(C, align(64))] // what each packet needs is in the first two cache lines
pub(super) struct SendQp {
    pub snd_nxt: u32,
    pub snd_una: u32,
    pub size: u32,
    /// Furthest byte ever sent.
    pub furthest: u32,
    /// Port that it sends from.
    pub port: u32,
    /// Place in that port's round robin.
    pub slot: u32,
    /// Where the route of its data begins.
    pub data_route: u32,
    /// Size on the wire of the packet sent last.
    pub last_wire: u32,
    pub next_avail: u64,
    pub packets_sent: u64,
    /// Cap on what is in flight at full rate; 0 = none.
    pub window: u32,
    /// Number among the hosts, as `dst`.
    pub src: u32,
    pub priority: u8,
    pub started: bool,
    pub done: bool,
    pub timeout_pending: bool,
    gap_wire: u32,
    /// The gap worked out last, and the size on the wire and the rate that it belongs to.
    gap: u64,
    gap_rate: u64,
    pub line_rate: u64,
    pub reaction: ReactionPoint,
    pub cnps: u64,
    /// When the increase timer is due; an entry of the calendar for another time is a cancelled one.
    pub increase_due: u64,
    /// Cancelled entries at that very time, before the one that counts.
    pub increase_stale: u32,
    /// Entries of the calendar that name it.
    pub timers: u32,
    /// Number of its message in the run.
    pub number: u32,
    /// How many ports follow each other on its routes, each way.
    pub route_lengths: (u32, u32),
    pub dst: u32,
    pub src_node: u32,
    pub dst_node: u32,
    pub sport: u16,
    pub dport: u16,
    pub start: u64,
    pub end: u64,
    /// Departure: when nothing sent or acknowledged counts as a loss.
    pub timeout_at: u64,
    pub nacks: u64,
    pub timeouts: u64,
}

impl SendQp {
    pub fn new(flow: &Flow, src: u32, dst: u32) -> Self {
        let &Flow(src_node, dst_node, priority, dport, bytes, _) = flow;
        SendQp {
            number: 0,
            snd_nxt: 0,
            snd_una: 0,
            size: bytes as u32,
            port: NONE,
            slot: NONE,
            priority: priority as u8,
            started: false,
            done: false,
            window: 0,
            line_rate: 0,
            next_avail: 0,
            reaction: ReactionPoint::new(0),
            gap: 0,
            gap_wire: 0,
            gap_rate: 0,
            increase_due: 0,
            increase_stale: 0,
            data_route: 0,
            route_lengths: (0, 0),
            timers: 0,
            src,
            dst,
            src_node,
            dst_node,
            sport: 0,
            dport: dport as u16,
            start: flow.start_ps(),
            end: 0,
            timeout_at: 0,
            timeout_pending: false,
            packets_sent: 0,
            last_wire: 0,
            furthest: 0,
            nacks: 0,
            cnps: 0,
            timeouts: 0,
        }
    }

    #[inline]
    pub fn bytes_left(&self) -> u32 {
        self.size.saturating_sub(self.snd_nxt)
    }

    /// Time that one of its packets takes at a rate. The last one is kept: the next packet asks for it again, and so does a change
    /// of the rate.
    #[inline]
    pub fn gap(&mut self, wire: u32, rate: u64, rounding: Rounding) -> u64 {
        if (self.gap_wire, self.gap_rate) != (wire, rate) {
            (self.gap_wire, self.gap_rate) = (wire, rate);
            self.gap = serialization(wire, rate, rounding);
        }
        self.gap
    }

    /// Whether the window holds it back. What is in flight is unsigned there, too: after a go-back that a late ACK
    /// overtook it is huge, and the queue pair stands for ever.
    #[inline]
    pub fn is_window_bound(&self, variable: bool) -> bool {
        if self.window == 0 {
            return false;
        }
        let window = self.window as u64;
        let flying = (self.snd_nxt as u64).wrapping_sub(self.snd_una as u64);
        if !variable {
            return flying >= window;
        }
        // Its share of the line rate, cut to whole bytes and at least one: without a division.
        let scaled = window.wrapping_mul(self.reaction.rate);
        flying > 0 && (flying as u128 + 1) * self.line_rate as u128 > scaled as u128
    }

    /// What it is found by at its host: receiver's address, source port, priority.
    pub fn table_key(&self) -> u64 {
        (address(self.dst_node) as u64) << 32 | (self.sport as u64) << 16 | self.priority as u64
    }

    /// What is hashed of its data packets, or of its ACKs.
    pub fn key(&self, ack: bool) -> [u32; 3] {
        if ack {
            flow_key(self.dst_node, self.src_node, self.dport, self.sport)
        } else {
            flow_key(self.src_node, self.dst_node, self.sport, self.dport)
        }
    }
}

/// The receiving half. It is made by the first packet and deleted when the sender is done, so a new one equals this.
#[derive(Clone, Debug)]
pub(super) struct RecvQp {
    pub expected: u32,
    pub last_nack: u32,
    pub nack_timer: u64,
    /// Port that its ACKs leave by, and where the route from there begins.
    pub port: u32,
    pub ack_route: u32,
    /// Number among the hosts.
    pub host: u32,
    /// Departure: when it last flagged an ACK.
    pub flagged: Option<u64>,
    pub delivered: u64,
    pub marked: u64,
    pub cnp_sent: u64,
    pub out_of_sequence: u64,
    pub duplicate: u64,
}

impl RecvQp {
    pub fn new(host: u32) -> Self {
        RecvQp {
            host,
            ack_route: 0,
            expected: 0,
            last_nack: 0,
            nack_timer: 0,
            port: NONE,
            flagged: None,
            delivered: 0,
            marked: 0,
            cnp_sent: 0,
            out_of_sequence: 0,
            duplicate: 0,
        }
    }

    /// The sender is done: a late packet would find a new queue pair.
    pub fn forget(&mut self) {
        self.expected = 0;
        self.last_nack = 0;
        self.nack_timer = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn qp(window: u32, rate: u64, line_rate: u64, flying: u32) -> SendQp {
        let mut qp = SendQp::new(&Flow(0, 1, 3, 100, 1_000_000, 0), 0, 1);
        (qp.window, qp.line_rate, qp.reaction.rate, qp.snd_nxt) = (window, line_rate, rate, flying);
        qp
    }

    proptest! {
        /// As that simulator divides: the window's share is cut to whole bytes, and at least one.
        #[test]
        fn a_share_of_the_window_needs_no_division(
            window in 1u32..2_000_000,
            rate in 0u64..400_000_000_001,
            line_rate in 1u64..400_000_000_001,
            beside in -1i64..2,
        ) {
            let share = (window as u64 * rate / line_rate).max(1);
            let flying = share.saturating_add_signed(beside).min(u32::MAX as u64) as u32;
            prop_assert_eq!(qp(window, rate, line_rate, flying).is_window_bound(true), flying as u64 >= share);
            prop_assert_eq!(qp(window, rate, line_rate, window).is_window_bound(false), true);
        }
    }

    /// Unsigned as there: bytes that were acknowledged after a go-back are more than any window.
    #[test]
    fn what_flies_after_a_late_ack_is_huge() {
        let mut late = qp(1000, 1, 1, 0);
        late.snd_una = 1;
        assert!(late.is_window_bound(true) && late.is_window_bound(false));
        late.window = 0;
        assert!(!late.is_window_bound(true));
    }

    #[test]
    fn a_gap_is_that_of_the_size_and_the_rate_asked_for() {
        let mut qp = qp(0, 1, 1, 0);
        for (wire, rate) in
            [(1090, 1_000_000_000), (1090, 1_000_000_000), (90, 1_000_000_000), (90, 2_000_000_000)]
        {
            let gap = serialization(wire, rate, Rounding::Down);
            assert_eq!(qp.gap(wire, rate, Rounding::Down), gap);
        }
    }
}
