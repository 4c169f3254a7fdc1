//! How much waits in a queue over time, where it is no queue of a port.

use tailback_proto::units::Time;

use crate::fabric::port::{mean_of_ticks, ticks_between};
use crate::littles_law::LittlesLaw;

/// Bytes or packets that wait: their mean and their greatest number in a bin.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Gauge {
    pub value: u64,
    max: u64,
    value_ticks: u64,
    pub changed_at: Time,
    pub law: LittlesLaw,
}

impl Gauge {
    /// There are so many.
    pub fn set(&mut self, now: Time, value: u64) {
        self.value_ticks += self.value * ticks_between(self.changed_at, now);
        self.law.held(self.value, self.changed_at, now);
        self.changed_at = now;
        self.value = value;
        self.max = self.max.max(value);
    }

    /// So many more, or less.
    pub fn change(&mut self, now: Time, by: i64) {
        self.set(now, self.value.wrapping_add_signed(by));
    }

    /// Mean since the last call, over `span`.
    pub fn take_mean(&mut self, now: Time, span: Time) -> f64 {
        self.set(now, self.value);
        mean_of_ticks(std::mem::take(&mut self.value_ticks), now, span)
    }

    /// Most since the last call.
    pub fn take_max(&mut self) -> u64 {
        std::mem::replace(&mut self.max, self.value)
    }
}
