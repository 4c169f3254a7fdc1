//! How much waits in a queue over time, the one measure of it, at ports, in hosts, on Linux; and how long a port was paused.
//!

use std::collections::BTreeMap;

use tailback_proto::units::Time;

/// Unit of integrals over time, in picoseconds, a power of two: 64 bits then hold 16 MB for 280 s.
pub(crate) const TICK_PS: u64 = 256;

/// Whole ticks from one instant to another. Spans that follow each other add up exactly.
#[inline]
fn ticks_between(from: Time, to: Time) -> u64 {
    to.0 / TICK_PS - from.0 / TICK_PS
}

/// The mean of a length from its integral over a span that ends now.
pub(crate) fn mean(integral: u64, (now, span): (Time, Time)) -> f64 {
    integral as f64 / ticks_between(now.saturating_sub(span), now).max(1) as f64
}

/// A length over time, which its owner keeps: the integral since the last sample.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OverTime {
    /// In bytes, or packets, times [`TICK_PS`]s.
    integral: u64,
    changed_at: Time,
    pub law: LittlesLaw,
}

impl OverTime {
    pub const NEW: OverTime = OverTime { integral: 0, changed_at: Time::ZERO, law: LittlesLaw::NEW };

    /// It has had this length until now. Call before it changes.
    #[inline]
    pub fn held(&mut self, now: Time, length: u64) {
        self.integral += length * ticks_between(self.changed_at, now);
        self.law.held(length, self.changed_at, now);
        self.changed_at = now;
    }

    /// Mean since the last call, over a bin of `span` that ends now: over as many ticks as it has, so that no mean is above
    /// the maximum.
    pub fn take_mean(&mut self, (now, span): (Time, Time), length: u64) -> f64 {
        self.held(now, length);
        match std::mem::take(&mut self.integral) {
            0 => 0.0, // as mostly: without conversions and a division
            integral => mean(integral, (now, span)),
        }
    }

    /// At the end of a run, where it has this length and these packets wait in it: what is wrong.
    #[cfg(debug_assertions)]
    pub fn judge(
        &self,
        now: Time,
        length: u64,
        waiting: impl IntoIterator<Item = (u64, QueuedAt)>,
    ) -> Option<String> {
        self.law.judge(now, (length, self.changed_at), waiting)
    }
}

/// Bytes or packets that wait somewhere: their mean and their greatest number in a bin.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Gauge {
    pub value: u64,
    max: u64,
    pub over_time: OverTime,
}

impl Gauge {
    /// Its value from now on.
    pub fn set(&mut self, now: Time, value: u64) {
        self.over_time.held(now, self.value);
        self.value = value;
        self.passes(value);
    }

    /// The value changes by `by`, up or down.
    pub fn change(&mut self, now: Time, by: i64) {
        debug_assert!(self.value.checked_add_signed(by).is_some());
        self.set(now, self.value.wrapping_add_signed(by));
    }

    /// It had this value for no time: only the maximum sees it.
    pub fn passes(&mut self, value: u64) {
        self.max = self.max.max(value);
    }

    /// One packet leaves, which came then and counts `number`.
    pub fn left(&mut self, number: u64, came: QueuedAt, now: Time) {
        self.over_time.law.left(number, came, now);
    }

    /// Mean since the last call, over a bin of `span` that ends now.
    pub fn take_mean(&mut self, now: Time, span: Time) -> f64 {
        self.over_time.take_mean((now, span), self.value)
    }

    /// Most since the last call.
    pub fn take_max(&mut self) -> u64 {
        std::mem::replace(&mut self.max, self.value)
    }
}

// Little's law: what waits in a queue on average is what comes in a second times how long it waits.
//
// Over a run that is an equation of two sums that know nothing of each other: the integral of the length that is recorded
// of a queue, and each packet's bytes times its own wait. They are the same to the last picosecond, whatever happened in the run.
//
// Builds with assertions keep both sums at every queue of packets, and the [audit](crate::record) compares them. In other
// builds both types here are empty, and nothing is counted.

/// When a packet came to the queue that it waits in.
#[derive(Clone, Copy, Debug, Default)]
pub struct QueuedAt {
    #[cfg(debug_assertions)]
    at: Time,
}

impl QueuedAt {
    #[inline(always)]
    pub fn at(_now: Time) -> QueuedAt {
        QueuedAt {
            #[cfg(debug_assertions)]
            at: _now,
        }
    }
}

/// Both sums of a queue, in bytes, or packets, times picoseconds, modulo 2^64.
#[derive(Clone, Copy, Debug, Default)]
pub struct LittlesLaw {
    #[cfg(debug_assertions)]
    held: u64,
    #[cfg(debug_assertions)]
    waited: u64,
}

impl LittlesLaw {
    pub const NEW: LittlesLaw = LittlesLaw {
        #[cfg(debug_assertions)]
        held: 0,
        #[cfg(debug_assertions)]
        waited: 0,
    };

    /// The queue had this length from one instant to another.
    #[inline(always)]
    pub fn held(&mut self, _length: u64, _from: Time, _to: Time) {
        #[cfg(debug_assertions)]
        {
            self.held = self.held.wrapping_add(_length.wrapping_mul(_to.0.wrapping_sub(_from.0)));
        }
    }

    /// A packet of that length leaves, for whatever reason.
    #[inline(always)]
    pub fn left(&mut self, _length: u64, _came: QueuedAt, _now: Time) {
        #[cfg(debug_assertions)]
        {
            self.waited = self.waited.wrapping_add(_length.wrapping_mul(_now.0.wrapping_sub(_came.at.0)));
        }
    }

    /// At the end of a run, where the queue is so `long` since an instant, and these packets wait in it: what is wrong.
    pub fn judge(
        self,
        _now: Time,
        (_long, _since): (u64, Time),
        _waiting: impl IntoIterator<Item = (u64, QueuedAt)>,
    ) -> Option<String> {
        #[cfg(debug_assertions)]
        {
            let mut law = self;
            law.held(_long, _since, _now);
            _waiting.into_iter().for_each(|(length, came)| law.left(length, came, _now));
            let LittlesLaw { held, waited } = law;
            if held != waited {
                return Some(format!(
                    "was {held} long, times picoseconds, and its packets waited for {waited}"
                ));
            }
        }
        None
    }
}

// Pauses over a run.

const PS_PER_SECOND: u64 = 1_000_000_000_000;

/// Total pause time of one (port, class).
#[derive(Clone, Debug, Default)]
pub struct PauseLog {
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
            let second = (at / PS_PER_SECOND) as usize;
            let end = to.0.min((second as u64 + 1) * PS_PER_SECOND);
            if self.per_second.len() <= second {
                self.per_second.resize(second + 1, 0);
            }
            self.per_second[second] += end - at;
            at = end;
        }
    }

    pub fn max_share_of_a_second(&self) -> f64 {
        self.per_second.iter().copied().max().unwrap_or(0) as f64 / PS_PER_SECOND as f64
    }
}

/// Pauses by lane, for those lanes that ever had one.
pub type PauseLogs = BTreeMap<usize, PauseLog>;

#[cfg(test)]
mod gauge_tests {
    use super::*;

    const fn tick(ticks: u64) -> Time {
        Time(ticks * TICK_PS)
    }

    /// 5 for 4 ticks and 3 for 6: 38 in 10.
    #[test]
    fn a_mean_is_weighted_by_time_and_begins_anew_with_each_bin() {
        let mut gauge = Gauge::default();
        gauge.set(tick(0), 5);
        gauge.change(tick(4), -2);
        gauge.passes(7);
        assert_eq!((gauge.take_mean(tick(10), tick(10)), gauge.take_max()), (3.8, 7));
        assert_eq!((gauge.take_mean(tick(15), tick(5)), gauge.take_max()), (3.0, 3));
    }
}

#[cfg(test)]
mod littles_law_tests {
    use super::TICK_PS;
    use super::*;

    const fn tick(ticks: u64) -> Time {
        Time(ticks * TICK_PS)
    }

    /// 100 B wait for 10 ticks and 60 B for 7, of which 3 are to come.
    #[test]
    fn both_sums_are_the_same_and_a_wait_that_is_a_tick_off_is_told() {
        let judged = |second_came: Time| {
            let mut law = LittlesLaw::NEW;
            law.held(100, tick(0), tick(6));
            law.held(160, tick(6), tick(10));
            law.left(100, QueuedAt::at(tick(0)), tick(10));
            law.judge(tick(13), (60, tick(10)), [(60, QueuedAt::at(second_came))])
        };
        assert_eq!(judged(tick(6)), None);
        assert_eq!(judged(tick(7)).is_some(), cfg!(debug_assertions));
    }

    /// Spans that follow each other add up, however short each is.
    #[test]
    fn nothing_is_lost_in_spans_shorter_than_a_tick() {
        let mut law = LittlesLaw::NEW;
        for at in 0..10_000 {
            law.held(1, Time(at), Time(at + 1));
        }
        assert_eq!(law.judge(Time(10_000), (1, Time(10_000)), [(1, QueuedAt::at(Time::ZERO))]), None);
    }

    #[test]
    #[cfg(not(debug_assertions))]
    fn it_is_nothing_without_assertions() {
        assert_eq!((size_of::<LittlesLaw>(), size_of::<QueuedAt>()), (0, 0));
    }
}

#[cfg(test)]
mod pause_log_tests {
    use super::*;

    #[test]
    fn a_pause_across_a_second_counts_in_both() {
        let mut log = PauseLog::default();
        log.add(Time(PS_PER_SECOND - 10), Time(PS_PER_SECOND + 30));
        log.add(Time(PS_PER_SECOND + 100), Time(PS_PER_SECOND + 101));
        assert_eq!(log.per_second, [10, 31]);
        assert_eq!(log.max_share_of_a_second(), 31.0 / 1e12);
    }
}
