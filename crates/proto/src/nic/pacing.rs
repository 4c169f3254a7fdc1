//! How fast a queue pair may send: DCQCN's reaction point, and when the next data packet may leave.

use crate::congestion::dcqcn::{ReactionParameters, ReactionPoint};
use crate::units::Time;

/// A queue pair's rate. Requests with data and READ responses share it.
#[derive(Clone, Debug)]
pub(super) struct Pacer {
    reaction: Option<ReactionPoint>,
    next_at: Time,
}

impl Pacer {
    pub fn new(dcqcn: Option<&ReactionParameters>) -> Self {
        Pacer { reaction: dcqcn.map(ReactionPoint::new), next_at: Time::ZERO }
    }

    /// When the next data packet may leave.
    pub fn next_at(&self) -> Time {
        self.next_at
    }

    /// A data packet of so much payload, and so many bytes on the wire, is being sent.
    pub fn on_sent(
        &mut self,
        dcqcn: Option<&ReactionParameters>,
        line_rate: f64,
        now: Time,
        payload: u32,
        wire_bytes: u32,
    ) {
        let rate = match (&mut self.reaction, dcqcn) {
            (Some(reaction), Some(parameters)) => {
                reaction.on_sent(parameters, now, payload as u64);
                reaction.rate()
            }
            _ => line_rate,
        };
        self.next_at = now + Time((wire_bytes as f64 * 8e12 / rate) as u64);
    }

    /// A CNP came. `false`: there is nothing that listens.
    pub fn on_cnp(&mut self, dcqcn: Option<&ReactionParameters>, now: Time) -> bool {
        match (&mut self.reaction, dcqcn) {
            (Some(reaction), Some(parameters)) => {
                reaction.on_cnp(parameters, now);
                true
            }
            _ => false,
        }
    }
}
