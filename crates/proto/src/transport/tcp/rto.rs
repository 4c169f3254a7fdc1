//! The retransmission timeout (RFC 6298), with RTTs from timestamps (RFC 7323): each ACK of new data brings one, and none is
//! ambiguous.
//!
//! Leaves out: the clock's granularity G (time is in picoseconds; `min_rto` keeps the timer above the RTT where it never
//! varies), and weights for several RTTs in a round trip (RFC 7323, appendix G). Linux adds `min_rto` to the RTT in place of
//! taking the larger of the two.

use super::TcpParameters;
use crate::units::Time;

/// Estimator and back-off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rto {
    /// SRTT; `None` before the first RTT.
    smoothed: Option<Time>,
    variation: Time,
    /// Before back-off.
    base: Time,
    /// Timeouts in a row.
    backoff: u32,
}

impl Rto {
    /// Of a connection that knows no RTT yet (2.1).
    pub fn new(p: &TcpParameters) -> Self {
        Rto { smoothed: None, variation: Time::ZERO, base: p.initial_rto, backoff: 0 }
    }

    /// SRTT.
    pub fn smoothed(&self) -> Option<Time> {
        self.smoothed
    }

    /// RTTVAR.
    pub fn variation(&self) -> Time {
        self.variation
    }

    /// Timeouts in a row.
    pub fn backoff(&self) -> u32 {
        self.backoff
    }

    /// The timeout now (2.3 to 2.5, 5.5): the minimum holds before back-off, the maximum after it.
    pub fn timeout(&self, p: &TcpParameters) -> Time {
        let base = self.base.max(p.min_rto);
        let doubled = base.0.saturating_mul(1u64.checked_shl(self.backoff).unwrap_or(u64::MAX));
        Time(doubled.min(p.max_rto.0))
    }

    /// An RTT was measured. It also ends the back-off.
    pub fn on_rtt(&mut self, rtt: Time) {
        let smoothed = match self.smoothed {
            // 2.2
            None => {
                self.variation = Time(rtt.0 / 2);
                rtt
            }
            // 2.3, with alpha = 1/8 and beta = 1/4; the variation first, against the old average.
            Some(old) => {
                self.variation = Time((3 * self.variation.0 + old.0.abs_diff(rtt.0)) / 4);
                Time((7 * old.0 + rtt.0) / 8)
            }
        };
        self.smoothed = Some(smoothed);
        self.base = Time(smoothed.0 + 4 * self.variation.0);
        self.backoff = 0;
    }

    /// The timer expired (5.5).
    pub fn on_timeout(&mut self) {
        self.backoff = self.backoff.saturating_add(1);
    }

    /// The peer answered, though without an RTT.
    pub fn reset_backoff(&mut self) {
        self.backoff = 0;
    }
}
