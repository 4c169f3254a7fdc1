//! How much waits somewhere, over time.

use tailback_proto::units::Time;

use crate::fabric::port::ticks_between;
use crate::littles_law::LittlesLaw;

/// Bytes that wait somewhere, over time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Level {
    pub bytes: u64,
    pub max_bytes: u64,
    /// Integral since the last sample, byte-[`TICK`](crate::fabric::port::TICK)s.
    pub byte_ticks: u64,
    pub changed_at: Time,
    pub law: LittlesLaw,
}

impl Level {
    /// Brings the integral up to `now`.
    pub fn integrate(&mut self, now: Time) {
        self.byte_ticks += self.bytes * ticks_between(self.changed_at, now);
        self.law.held(self.bytes, self.changed_at, now);
        self.changed_at = now;
    }

    pub fn add(&mut self, now: Time, bytes: u64) {
        self.integrate(now);
        self.bytes += bytes;
        self.max_bytes = self.max_bytes.max(self.bytes);
    }

    pub fn remove(&mut self, now: Time, bytes: u64) {
        self.integrate(now);
        self.bytes -= bytes;
    }
}
