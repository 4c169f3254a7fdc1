//! DCTCP with a rate, as RDMA simulators use it to compare with.
//!
//! Sources: Alizadeh et al., "Data Center TCP (DCTCP)", SIGCOMM 2010, section 3.1: alpha is the average of the share of
//! marked bytes in each window of data (equation 1), and a window with a mark is cut by alpha / 2 (equation 2), once;
//! RFC 8257, section 3.3 (shares in bytes; alpha starts at 1, so that a flow's first cut halves). A rate in place of
//! the window, an additive increase of the rate once a round trip, and a start at line rate: the simulator of Li et al.,
//! "HPCC", SIGCOMM 2019, section 5.1, which compares with it.
//!
//! The bytes in flight may be limited besides, to the rate times a round trip without queues: DCTCP is a window's
//! controller, and without one a sender fills a queue for as long as the ACKs that tell of it are on their way.
//!
//! Leaves out: TCP. No slow start, no loss recovery, no delayed ACKs (each packet's mark comes back).

use super::{check_bounds, AckInfo, RoundTrip};
use crate::units::{Rate, Time};

/// Parameters of a flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DctcpParameters {
    /// Rate of the sender's link: the first and the highest rate.
    pub line_rate: Rate,
    /// Lowest rate, bit/s.
    pub min_rate: f64,
    /// Weight of the newest window in alpha.
    pub g: f64,
    /// Additive increase in a round trip, bit/s. A packet of b bytes a round trip of T is `8 b / T`.
    pub additive: f64,
    /// The window is the rate times this; none: no window.
    pub window_rtt: Option<Time>,
}

impl DctcpParameters {
    /// # Errors
    /// One line naming the parameter that makes no sense.
    pub fn check(&self) -> Result<(), String> {
        check_bounds(self.min_rate, self.line_rate)?;
        let checks = [
            (self.g > 0.0 && self.g <= 1.0, "g is not above 0 and up to 1"),
            (self.additive >= 0.0 && self.additive.is_finite(), "additive is below 0"),
            (self.window_rtt != Some(Time::ZERO), "window_rtt must be above 0"),
        ];
        match checks.iter().find(|(ok, _)| !ok) {
            Some((_, text)) => Err((*text).to_string()),
            None => Ok(()),
        }
    }
}

/// The sender's side of DCTCP, for one flow.
#[derive(Clone, Debug)]
pub struct Dctcp {
    rate: f64,
    alpha: f64,
    /// Of the window of data that is being acknowledged.
    acked: u64,
    marked: u64,
    round: RoundTrip,
    /// Present after a cut: no other until data is acknowledged that was sent after it.
    cut_holds_until: Option<u64>,
    window: Option<u64>,
}

impl Dctcp {
    /// A new flow: at line rate, with alpha at 1.
    pub fn new(p: &DctcpParameters) -> Self {
        let mut dctcp = Dctcp {
            rate: p.line_rate.0 as f64,
            alpha: 1.0,
            acked: 0,
            marked: 0,
            round: RoundTrip::default(),
            cut_holds_until: None,
            window: None,
        };
        dctcp.set_rate(p, dctcp.rate);
        dctcp
    }

    /// Rate, bit/s.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// Bytes that may be in flight.
    pub fn window_bytes(&self) -> Option<u64> {
        self.window
    }

    /// Average share of marked bytes, 0 to 1.
    pub fn alpha(&self) -> f64 {
        self.alpha
    }

    /// An acknowledgement arrived.
    pub fn on_ack(&mut self, p: &DctcpParameters, ack: &AckInfo) {
        self.acked = self.acked.saturating_add(ack.newly_acked_bytes);
        let marked = if ack.marked { ack.newly_acked_bytes } else { 0 };
        self.marked = self.marked.saturating_add(marked);
        // The first ACK begins the first window; what it answers belongs to it.
        let round_over = self.round.has_begun() & self.round.ends(ack);
        if round_over && self.acked > 0 {
            let share = self.marked as f64 / self.acked as f64;
            self.alpha = (1.0 - p.g) * self.alpha + p.g * share;
            (self.acked, self.marked) = (0, 0);
        }
        if self.cut_holds_until.is_some_and(|end| ack.acknowledged_bytes > end) {
            self.cut_holds_until = None;
        }
        if ack.marked && self.cut_holds_until.is_none() {
            self.cut_holds_until = Some(ack.sent_bytes);
            self.set_rate(p, self.rate * (1.0 - self.alpha / 2.0));
        } else if round_over && self.cut_holds_until.is_none() {
            self.set_rate(p, self.rate + p.additive);
        }
    }

    fn set_rate(&mut self, p: &DctcpParameters, rate: f64) {
        self.rate = rate.clamp(p.min_rate, p.line_rate.0 as f64);
        self.window = p.window_rtt.map(|rtt| ((self.rate * rtt.0 as f64 / 8e12) as u64).max(1));
    }
}
