//! The receiving half of a queue pair: what is accepted, what is answered, and what the sender is told of marks.

use super::connection::Counters;
use crate::congestion::notification_point::NotificationPoint;
use crate::transport::rc::{RcParameters, Responder, Verdict};
use crate::units::Time;

/// The receiving half of a queue pair.
#[derive(Clone, Debug, Default)]
pub struct ReceivingHalf {
    /// Its packets by number.
    pub responder: Responder,
}

impl ReceivingHalf {
    /// That of a connection whose first packet has this PSN.
    pub fn new(psn: u32) -> Self {
        ReceivingHalf { responder: Responder::new(psn) }
    }

    /// It keeps what comes out of order, if these settings say so.
    pub fn with_recovery(mut self, rc: &RcParameters) -> Self {
        self.responder = self.responder.with_recovery(rc);
        self
    }

    /// A packet came with a CE mark, in sequence or not. Whether a CNP is to follow: by a notification point, which other queue
    /// pairs may share, where its sender lives on CNPs.
    #[inline]
    pub fn on_marked(
        &self,
        now: Time,
        point: Option<&mut NotificationPoint>,
        min_time_between_cnps: Time,
        counters: &mut Counters,
    ) -> bool {
        counters.np_ecn_marked_roce_packets += 1;
        point.is_some_and(|point| point.on_ecn_marked(now, min_time_between_cnps))
    }

    /// A request came that takes `packets` sequence numbers.
    #[inline]
    pub fn on_request(
        &mut self,
        psn: u32,
        packets: u64,
        ack_request: bool,
        counters: &mut Counters,
    ) -> Verdict {
        let verdict = self.responder.on_request(psn, packets, ack_request);
        match verdict {
            Verdict::Accepted { .. } => {}
            Verdict::Placed => counters.out_of_sequence += 1,
            // mlx5 counts a gap once, however many packets follow it (published: as many as NAKs).
            Verdict::OutOfSequence { nak } => counters.out_of_sequence += nak as u64,
            Verdict::Duplicate { .. } => counters.duplicate_request += 1,
        }
        verdict
    }
}
