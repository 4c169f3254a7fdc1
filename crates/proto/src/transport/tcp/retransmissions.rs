//! Retransmissions that were lost themselves.
//!
//! RFC 6675 leaves them to the timer. Linux does not (before 4.4: `tcp_input.c`, `tcp_mark_lost_retrans`; RACK since then):
//! once data is SACKed that was sent after a retransmission, what that retransmission carried and is still missing is lost
//! again. Here as much as for a first loss must be SACKed beyond. Until it is sent again it counts as in the network: the
//! SACKs that tell of it make the room.

use super::scoreboard::{gap, Range};
use super::DUPLICATE_THRESHOLD;
use std::collections::VecDeque;

/// The retransmissions of a recovery.
#[derive(Clone, Debug, Default)]
pub struct Retransmissions {
    /// What they carry, and the end of what had been sent when they were, in the order of sending.
    sent: VecDeque<(Range, u64)>,
    /// Lost again, and not sent again yet.
    lost: Vec<Range>,
}

impl Retransmissions {
    /// A recovery begins.
    pub fn clear(&mut self) {
        self.sent.clear();
        self.lost.clear();
    }

    /// `range` was sent again, when `next` was the end of what had been sent.
    pub fn on_sent(&mut self, range: Range, next: u64) {
        self.sent.push_back((range, next));
        // A range lost again is sent from its start on.
        if let Some(lost) = self.lost.first_mut().filter(|lost| lost.0 <= range.0 && range.0 < lost.1) {
            lost.0 = range.1;
            if lost.0 >= lost.1 {
                self.lost.remove(0);
            }
        }
    }

    /// An ACK came: all bytes before `acknowledged` have arrived, and those in `sacked`.
    pub fn on_ack(&mut self, acknowledged: u64, sacked: &[Range], mss: u64) {
        let highest = sacked.last().map_or(0, |range| range.1);
        while let Some(&((start, end), next)) = self.sent.front() {
            if end > acknowledged && next + DUPLICATE_THRESHOLD as u64 * mss > highest {
                break;
            }
            self.sent.pop_front();
            self.lost.push((start, end));
        }
        // Only what is still missing, and known as such, goes a third time.
        let known = self.lost.len();
        for i in 0..known {
            let (start, end) = self.lost[i];
            let mut from = start.max(acknowledged);
            while let Some(missing) = gap(sacked, from, end) {
                self.lost.push(missing);
                from = missing.1;
            }
        }
        self.lost.drain(..known);
    }

    /// What to send again first.
    pub fn next(&self) -> Option<Range> {
        self.lost.first().copied()
    }
}
