//! What the PFC frames of an interface ask its peer for: how long, by priority.
//!
//! A pause lasts as many quanta of 512 bit times as its frame says (IEEE 802.1Qbb), unless a frame of 0 ends it or another renews it.
//! Without the link's rate its length is unknown: the pause is then counted until the frame that ends or renews it.

use serde::Serialize;
use tailback_proto::wire::Pfc;

use crate::clock::{since, Time, NO_TIME};

/// Bit times of a quantum.
const QUANTUM_BITS: u128 = 512;
const PS_PER_SECOND: u128 = 1_000_000_000_000;

/// Pauses of a priority.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Pauses {
    /// Frames that pause.
    pub xoff: u64,
    /// Frames that end a pause.
    pub xon: u64,
    /// Pauses, renewed ones once.
    pub pauses: u64,
    /// All of them together, picoseconds.
    pub paused_ps: u128,
    /// The longest, and when it began.
    pub longest_ps: u64,
    /// When the longest began.
    pub longest_at_ps: Time,
    /// When the first began.
    pub first_at_ps: Time,
    #[serde(skip)]
    running: Option<(Time, Time)>,
}

impl Pauses {
    /// A frame names this priority, with its quanta.
    pub fn on_frame(&mut self, now: Time, quanta: u16, speed_bps: Option<u64>) {
        *if quanta == 0 { &mut self.xon } else { &mut self.xoff } += 1;
        if now == NO_TIME {
            return;
        }
        self.expire(now);
        if quanta == 0 {
            self.end(now);
            return;
        }
        let lasts =
            speed_bps.map(|speed| (quanta as u128 * QUANTUM_BITS * PS_PER_SECOND / speed as u128) as u64);
        let until = lasts.map_or(Time::MAX, |lasts| now + lasts as Time);
        match &mut self.running {
            Some((_, end)) => *end = until,
            None => {
                if self.pauses == 0 {
                    self.first_at_ps = now;
                }
                self.pauses += 1;
                self.running = Some((now, until));
            }
        }
    }

    fn expire(&mut self, now: Time) {
        if let Some((_, until)) = self.running.filter(|&(_, until)| until <= now) {
            self.end(until);
        }
    }

    fn end(&mut self, now: Time) {
        if let Some((from, _)) = self.running.take() {
            let lasted = since(now, from).unwrap_or(0);
            self.paused_ps += lasted as u128;
            if lasted > self.longest_ps {
                (self.longest_ps, self.longest_at_ps) = (lasted, from);
            }
        }
    }

    /// The capture ends.
    pub fn close(&mut self, now: Time) {
        if now == NO_TIME {
            return;
        }
        self.expire(now);
        self.end(now);
    }
}

/// Pauses of all priorities.
pub type ByPriority = [Pauses; 8];

/// A frame asks for pauses.
pub fn on_pfc(pauses: &mut ByPriority, now: Time, pfc: &Pfc, speed_bps: Option<u64>) {
    for (priority, quanta) in pfc.time.into_iter().enumerate() {
        if pfc.class_enable_vector & 1 << priority != 0 {
            pauses[priority].on_frame(now, quanta, speed_bps);
        }
    }
}
