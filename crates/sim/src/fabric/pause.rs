//! PFC frames between the ends of a link. The state machines are in `tailback_proto::flow_control::pfc`.
//!
//! A frame goes out ahead of everything but the packet in transmission, and takes effect at the other end after the
//! propagation and the response delay; a packet already in transmission there is completed.
//!
//! Leaves out: loss of a PFC frame, and the buffer space that the frames themselves take.

use std::collections::{BTreeMap, VecDeque};
use tailback_proto::flow_control::pfc::PauseSource;
use tailback_proto::units::Time;

use super::lanes::CLASSES;

const SECOND: u64 = 1_000_000_000_000;

/// What the pauses of one (port, class) added up to.
#[derive(Clone, Debug, Default)]
pub(crate) struct PauseLog {
    /// Time paused in each second of the run.
    pub per_second: Vec<u64>,
    /// When the last pause ended.
    pub last: Time,
}

impl PauseLog {
    pub fn add(&mut self, from: Time, to: Time) {
        self.last = to;
        let mut at = from.0;
        while at < to.0 {
            let second = (at / SECOND) as usize;
            let end = to.0.min((second as u64 + 1) * SECOND);
            if self.per_second.len() <= second {
                self.per_second.resize(second + 1, 0);
            }
            self.per_second[second] += end - at;
            at = end;
        }
    }

    pub fn max_share_of_a_second(&self) -> f64 {
        self.per_second.iter().copied().max().unwrap_or(0) as f64 / SECOND as f64
    }
}

/// What a priority group of an ingress port asks its peer for.
#[derive(Clone, Debug)]
pub(crate) struct Pausing {
    pub source: PauseSource,
    /// Time that pauses were held, not counting one that still is.
    pub held: Time,
    pub frames: u64,
}

impl Pausing {
    pub const IDLE: Pausing = Pausing { source: PauseSource::IDLE, held: Time::ZERO, frames: 0 };

    /// Time that pauses were held up to now.
    pub fn held_until(&self, now: Time) -> Time {
        self.held + self.source.asserted_at().map_or(Time::ZERO, |since| now - since)
    }
}

/// Pauses by lane, for those lanes that ever had one.
pub(crate) type PauseLogs = BTreeMap<usize, PauseLog>;

/// A PFC frame on a link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PauseFrame {
    /// The classes that it names, a bit for each, and those of them that it pauses.
    pub named: u8,
    pub paused: u8,
    /// The link's epoch when it was sent.
    pub epoch: u8,
}

impl PauseFrame {
    /// The classes that it names.
    pub fn classes(self) -> impl Iterator<Item = u8> {
        (0..CLASSES as u8).filter(move |class| self.named & (1 << class) != 0)
    }
}

/// PFC frames on their way.
#[derive(Debug, Default)]
pub(crate) struct PauseFrames {
    /// By port that sent them, as far as one did; the first one takes effect first.
    pub(super) on_links: Vec<VecDeque<PauseFrame>>,
    /// Frames sent so far.
    pub sent: u64,
}

impl PauseFrames {
    pub(super) fn send(&mut self, port: usize, frame: PauseFrame) {
        self.put(port, frame);
        self.sent += 1;
    }

    /// A frame is on a link.
    pub(super) fn put(&mut self, port: usize, frame: PauseFrame) {
        if self.on_links.len() <= port {
            self.on_links.resize_with(port + 1, VecDeque::new);
        }
        self.on_links[port].push_back(frame);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_across_a_second_counts_in_both() {
        let mut log = PauseLog::default();
        log.add(Time(SECOND - 10), Time(SECOND + 30));
        log.add(Time(SECOND + 100), Time(SECOND + 101));
        assert_eq!(log.per_second, [10, 31]);
        assert_eq!(log.max_share_of_a_second(), 31.0 / 1e12);
    }
}
