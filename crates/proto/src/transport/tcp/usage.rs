//! Whether a sender uses its congestion window: one that it does not use must not grow.
//!
//! The rules are those of Linux (`tcp_output.c`, `tcp_cwnd_validate`; `tcp.h`, `tcp_is_cwnd_limited`): what was seen last of
//! a round trip decides, in slow start a window half used is used, and else one that held data back.

/// Use of the window, once a round trip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowUsage {
    /// Most bytes in flight.
    max_flight: u64,
    /// Whether the window held data back.
    limited: bool,
    /// The round trip ends when data from here on is acknowledged.
    ends_at: u64,
}

impl WindowUsage {
    /// The sender sent, or found that it may not.
    pub fn note(&mut self, acknowledged: u64, next: u64, flight: u64, limited: bool) {
        let stronger = limited || (!self.limited && flight > self.max_flight);
        if stronger || acknowledged >= self.ends_at {
            *self = WindowUsage { max_flight: flight, limited, ends_at: next };
        }
    }

    /// Whether the window may grow.
    pub fn allows_growth(&self, cwnd: f64, slow_start: bool) -> bool {
        self.limited || (slow_start && cwnd < 2.0 * self.max_flight as f64)
    }
}
