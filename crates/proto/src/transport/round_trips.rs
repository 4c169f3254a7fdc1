//! The smoothed round trip and its variation (RFC 6298, section 2).

use crate::units::Time;

/// What is known of a connection's round trips.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoundTrips {
    /// SRTT; `None` before the first round trip.
    pub smoothed: Option<Time>,
    /// RTTVAR.
    pub variation: Time,
}

impl RoundTrips {
    /// A round trip was measured.
    pub fn add(&mut self, rtt: Time) {
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
    }

    /// SRTT + 4 RTTVAR; `None` before the first round trip.
    pub fn timeout(&self) -> Option<Time> {
        self.smoothed.map(|smoothed| Time(smoothed.0 + 4 * self.variation.0))
    }
}
