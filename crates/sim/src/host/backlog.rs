//! How much waits in a queue over time, where it is no queue of a port.

use tailback_proto::units::Time;

use crate::fabric::port::{ticks_between, TICK};

/// Bytes that wait.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Backlog {
    pub bytes: u64,
    pub max_bytes: u64,
    byte_ticks: u64,
    changed_at: Time,
}

impl Backlog {
    /// So many bytes more, or less.
    pub fn change(&mut self, now: Time, bytes: i64) {
        self.byte_ticks += self.bytes * ticks_between(self.changed_at, now);
        self.changed_at = now;
        self.bytes = self.bytes.wrapping_add_signed(bytes);
        self.max_bytes = self.max_bytes.max(self.bytes);
    }

    /// Mean since the last call, over `span`.
    pub fn take_mean(&mut self, now: Time, span: Time) -> f64 {
        self.change(now, 0);
        std::mem::take(&mut self.byte_ticks) as f64 * TICK as f64 / span.0 as f64
    }

    /// Most since the last call.
    pub fn take_max(&mut self) -> u64 {
        std::mem::replace(&mut self.max_bytes, self.bytes)
    }
}
