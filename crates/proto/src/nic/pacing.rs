//! How fast a queue pair may send: its controller, and when the next data packet may leave.

use crate::congestion::builtin::{Congestion, Flow};
use crate::congestion::{AckInfo, Loss};
use crate::units::Time;

/// A queue pair's rate. Requests and READ responses share it.
#[derive(Debug)]
pub(super) struct Pacer {
    flow: Flow,
    next_at: Time,
    /// What the controller knows to be acknowledged, bytes.
    told_bytes: u64,
}

/// What an ACK says of the stream of payload.
pub(super) struct Progress {
    pub rtt: Time,
    pub acknowledged_bytes: u64,
    pub sent_bytes: u64,
    pub is_marked: bool,
}

impl Pacer {
    pub fn new(congestion: &Congestion) -> Self {
        Pacer { flow: congestion.flow(), next_at: Time::ZERO, told_bytes: 0 }
    }

    /// When the next data packet may leave.
    pub fn next_at(&self) -> Time {
        self.next_at
    }

    /// Bytes that may be in flight; none: no limit.
    pub fn window_bytes(&self) -> Option<u64> {
        self.flow.window_bytes()
    }

    /// A data packet of so much payload, and so many bytes on the wire, is being sent.
    pub fn on_sent(&mut self, congestion: &Congestion, now: Time, payload: u32, wire_bytes: u32) {
        let rate = self.flow.on_sent(congestion, now, payload as u64);
        self.next_at = now + Time((wire_bytes as f64 * 8e12 / rate) as u64);
    }

    /// An ACK came whose packet's time is known.
    pub fn on_ack(&mut self, congestion: &Congestion, now: Time, progress: &Progress) {
        let &Progress { rtt, acknowledged_bytes, sent_bytes, is_marked } = progress;
        let newly_acked_bytes = acknowledged_bytes - self.told_bytes;
        self.told_bytes = acknowledged_bytes;
        let ack = AckInfo {
            now,
            rtt,
            receiver_delay: Time::ZERO,
            completes_burst: false,
            newly_acked_bytes,
            acknowledged_bytes,
            sent_bytes,
            marked: is_marked,
            hop_count: 0,
            hops: &[],
        };
        self.flow.on_ack(congestion, &ack);
    }

    pub fn on_cnp(&mut self, congestion: &Congestion, now: Time) {
        self.flow.on_cnp(congestion, now);
    }

    pub fn on_loss(&mut self, congestion: &Congestion, now: Time, loss: Loss) {
        self.flow.on_loss(congestion, now, loss);
    }

    pub fn next_timeout(&self, congestion: &Congestion) -> Option<Time> {
        self.flow.next_timeout(congestion)
    }

    /// The controller's timer may be due.
    pub fn on_timeout(&mut self, congestion: &Congestion, now: Time) {
        if self.next_timeout(congestion).is_some_and(|at| at <= now) {
            self.flow.on_timeout(congestion, now);
        }
    }
}
