//! When a device interrupts.

use crate::units::Time;

// Dynamic interrupt moderation: which of five profiles a completion queue uses.
//
// Source: Linux lib/dim/net_dim.c and dim.c, include/linux/dim.h. Every 64 interrupts, the throughput since
// the last decision is compared with the throughput before it: bytes first, then packets, then interrupts.
// More than 10 % counts as a difference. While throughput improves, the profile keeps moving in the same
// direction; otherwise it turns back. After passing the best profile and turning back to it, the queue parks
// there until the throughput changes. After ten steps without finding a best profile, it parks for ten
// decisions.
//
// Leaves out: the work queue that applies a profile a moment later, and profiles changed by the user.

/// Interrupts between two decisions (`DIM_NEVENTS`).
pub const EVENTS_PER_SAMPLE: u64 = 64;

/// Profiles of each kind (`NET_DIM_PARAMS_NUM_PROFILES`).
pub const PROFILES: usize = 5;

/// Profile at the start (`NET_DIM_DEF_PROFILE_CQE`, `_EQE`).
const FIRST_PROFILE: usize = 1;

/// Smallest significant difference, % (`IS_SIGNIFICANT_DIFF`).
const SIGNIFICANT_PERCENT: u64 = 10;

/// Moderation of a completion queue: an interrupt is raised this long after a packet, or after this many packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// `ethtool -C`'s rx-usecs or tx-usecs.
    pub usecs: u32,
    /// rx-frames or tx-frames.
    pub frames: u32,
}

const fn profile(usecs: u32, frames: u32) -> Profile {
    Profile { usecs, frames }
}

/// Receive queues whose timer restarts with every packet (`NET_DIM_RX_CQE_PROFILES`).
pub const RX_CQE: [Profile; PROFILES] =
    [profile(2, 256), profile(8, 128), profile(16, 64), profile(32, 64), profile(64, 64)];
/// Transmit queues whose timer starts with an interrupt (`NET_DIM_TX_EQE_PROFILES`).
pub const TX_EQE: [Profile; PROFILES] =
    [profile(1, 128), profile(8, 128), profile(32, 128), profile(64, 128), profile(128, 128)];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tuning {
    ParkedOnTop,
    ParkedTired,
    Right,
    Left,
}

/// Totals of a queue so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Interrupts.
    pub events: u64,
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

/// Throughput between two samples, per millisecond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Throughput {
    bytes: u64,
    packets: u64,
    events: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Better,
    Same,
    Worse,
}

/// State of the moderation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dim {
    tuning: Tuning,
    profile: usize,
    steps_right: u32,
    steps_left: u32,
    tired: u32,
    before: Throughput,
    start: Sample,
    started: Time,
}

impl Default for Dim {
    fn default() -> Self {
        Dim {
            tuning: Tuning::ParkedOnTop,
            profile: FIRST_PROFILE,
            steps_right: 0,
            steps_left: 0,
            tired: 0,
            before: Throughput::default(),
            start: Sample::default(),
            started: Time::ZERO,
        }
    }
}

fn is_significant(value: u64, reference: u64) -> bool {
    100 * value.abs_diff(reference) / reference > SIGNIFICANT_PERCENT
}

impl Throughput {
    fn compared_with(&self, before: &Throughput) -> Change {
        let better = |is| if is { Change::Better } else { Change::Worse };
        for (value, reference) in [(self.bytes, before.bytes), (self.packets, before.packets)] {
            if reference == 0 {
                return if value > 0 { Change::Better } else { Change::Same };
            }
            if is_significant(value, reference) {
                return better(value > reference);
            }
        }
        if before.events != 0 && is_significant(self.events, before.events) {
            return better(self.events < before.events);
        }
        Change::Same
    }
}

impl Dim {
    /// Index of the profile in use.
    pub fn profile(&self) -> usize {
        self.profile
    }

    /// Called when a poll is over and the interrupt is enabled again. Returns whether the profile changed.
    pub fn on_poll_complete(&mut self, now: Time, sample: Sample) -> bool {
        let microseconds = (now.saturating_sub(self.started)).0 / Time::from_us(1).0;
        if sample.events - self.start.events < EVENTS_PER_SAMPLE || microseconds == 0 {
            return false;
        }
        let per_ms = |count: u64| (count * 1000).div_ceil(microseconds);
        let throughput = Throughput {
            bytes: per_ms(sample.bytes - self.start.bytes),
            packets: per_ms(sample.packets - self.start.packets),
            events: per_ms(EVENTS_PER_SAMPLE),
        };
        self.start = sample;
        self.started = now;
        let before = self.profile;
        self.decide(throughput);
        self.profile != before
    }

    fn decide(&mut self, throughput: Throughput) {
        let parked = self.tuning == Tuning::ParkedOnTop;
        match self.tuning {
            Tuning::ParkedOnTop => {
                if throughput.compared_with(&self.before) != Change::Same {
                    self.leave_parking();
                }
            }
            Tuning::ParkedTired => {
                self.tired -= 1;
                if self.tired == 0 {
                    self.leave_parking();
                }
            }
            Tuning::Right | Tuning::Left => {
                if throughput.compared_with(&self.before) != Change::Better {
                    self.turn();
                }
                if self.is_on_top() {
                    self.park(Tuning::ParkedOnTop);
                } else {
                    self.step();
                }
            }
        }
        // While parked, throughput is compared with its value at the time of parking.
        if !(parked && self.tuning == Tuning::ParkedOnTop) {
            self.before = throughput;
        }
    }

    fn leave_parking(&mut self) {
        self.tuning = if self.profile == 0 { Tuning::Right } else { Tuning::Left };
        self.step();
    }

    fn turn(&mut self) {
        match self.tuning {
            Tuning::Right => {
                self.tuning = Tuning::Left;
                self.steps_left = 0;
            }
            Tuning::Left => {
                self.tuning = Tuning::Right;
                self.steps_right = 0;
            }
            Tuning::ParkedOnTop | Tuning::ParkedTired => {}
        }
    }

    /// True if it has just turned back to the best profile.
    fn is_on_top(&self) -> bool {
        match self.tuning {
            Tuning::Right => self.steps_left > 1 && self.steps_right == 1,
            Tuning::Left => self.steps_right > 1 && self.steps_left == 1,
            Tuning::ParkedOnTop | Tuning::ParkedTired => true,
        }
    }

    fn park(&mut self, tuning: Tuning) {
        self.steps_right = 0;
        self.steps_left = 0;
        if tuning == Tuning::ParkedOnTop {
            self.tired = 0;
        }
        self.tuning = tuning;
    }

    fn step(&mut self) {
        if self.tired == 2 * PROFILES as u32 {
            return self.park(Tuning::ParkedTired);
        }
        match self.tuning {
            Tuning::Right if self.profile + 1 == PROFILES => return self.park(Tuning::ParkedOnTop),
            Tuning::Left if self.profile == 0 => return self.park(Tuning::ParkedOnTop),
            Tuning::Right => {
                self.profile += 1;
                self.steps_right += 1;
            }
            Tuning::Left => {
                self.profile -= 1;
                self.steps_left += 1;
            }
            Tuning::ParkedOnTop | Tuning::ParkedTired => {}
        }
        self.tired += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds decisions a millisecond apart. `rate` gives the packets of 1000 B per millisecond with each
    /// profile.
    fn run(dim: &mut Dim, decisions: u64, rate: impl Fn(usize) -> u64) {
        let mut sample = dim.start;
        let mut now = dim.started;
        for _ in 0..decisions {
            now += Time::from_ms(1);
            sample.events += EVENTS_PER_SAMPLE;
            sample.packets += rate(dim.profile());
            sample.bytes += 1000 * rate(dim.profile());
            dim.on_poll_complete(now, sample);
        }
    }

    #[test]
    fn it_finds_the_best_profile_and_stays() {
        for best in [0, 2, 4] {
            let mut dim = Dim::default();
            let rate = |profile: usize| 1000 >> profile.abs_diff(best);
            run(&mut dim, 20, rate);
            let found = dim.profile();
            assert_eq!(found, best);
            run(&mut dim, 50, rate);
            assert_eq!(dim.profile(), best);
        }
    }

    #[test]
    fn it_decides_every_64_interrupts() {
        let mut dim = Dim::default();
        let at = |events| Sample { events, packets: 10 * events, bytes: 1000 * events };
        assert!(!dim.on_poll_complete(Time::from_ms(1), at(63)));
        assert!(dim.on_poll_complete(Time::from_ms(2), at(64)), "the first throughput is better than none");
        assert_eq!(dim.profile(), 0);
    }

    #[test]
    fn a_steady_throughput_leaves_it_where_it_parked() {
        let mut dim = Dim::default();
        run(&mut dim, 30, |_| 500);
        let parked = dim.profile();
        run(&mut dim, 100, |_| 510);
        assert_eq!(dim.profile(), parked, "2 % is no difference");
    }
}
