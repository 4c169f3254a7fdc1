//! How much waits in a queue over time: the one measure of it, at ports, in hosts, on Linux.
//!
//! The HPCC simulator's engine counts in whole nanoseconds, as that simulator's means do, and keeps a sum of its own.

mod littles_law;

pub(crate) use littles_law::{Came, LittlesLaw};

use tailback_proto::units::Time;

/// Unit of integrals over time, in picoseconds, a power of two: 64 bits then hold 16 MB for 280 s.
pub(crate) const TICK: u64 = 256;

/// Whole ticks from one instant to another. Spans that follow each other add up exactly.
#[inline]
fn ticks_between(from: Time, to: Time) -> u64 {
    to.0 / TICK - from.0 / TICK
}

/// The mean of a length from its integral over a span that ends now.
pub(crate) fn mean(integral: u64, (now, span): (Time, Time)) -> f64 {
    integral as f64 / ticks_between(now.saturating_sub(span), now).max(1) as f64
}

/// A length over time, which its owner keeps: the integral since the last sample.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OverTime {
    /// In bytes, or packets, times [`TICK`]s.
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
        waiting: impl IntoIterator<Item = (u64, Came)>,
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
    pub fn left(&mut self, number: u64, came: Came, now: Time) {
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

#[cfg(test)]
mod tests {
    use super::*;

    const fn tick(ticks: u64) -> Time {
        Time(ticks * TICK)
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
