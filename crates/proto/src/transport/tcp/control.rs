//! The congestion controls behind one face: what differs between them is how the window grows in congestion avoidance, and
//! how much of it congestion leaves.

use super::cubic::Cubic;
use super::dctcp::Dctcp;
use super::{newreno, ControlParameters};
use crate::units::Time;

/// An ACK in congestion avoidance.
pub(crate) struct Acknowledged {
    pub now: Time,
    /// Smoothed.
    pub rtt: Time,
    pub bytes: f64,
    pub mss: f64,
}

/// What told of congestion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Congestion {
    Loss,
    Mark,
}

/// State of the control that the connection chose.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Control {
    NewReno,
    Cubic(Cubic),
    Dctcp(Dctcp),
}

impl Control {
    pub fn new(p: &ControlParameters) -> Self {
        match p {
            ControlParameters::NewReno => Control::NewReno,
            ControlParameters::Cubic(p) => Control::Cubic(Cubic::new(p)),
            ControlParameters::Dctcp(p) => Control::Dctcp(Dctcp::new(p)),
        }
    }

    /// The window after an ACK in congestion avoidance, bytes.
    pub fn grow(&mut self, cwnd: f64, ack: &Acknowledged) -> f64 {
        match self {
            Control::NewReno | Control::Dctcp(_) => newreno::grow(cwnd, ack),
            Control::Cubic(cubic) => cubic.grow(cwnd, ack),
        }
    }

    /// Congestion was met with a window of `window` bytes: what is left of it, at least two segments (RFC 5681, equation 4).
    pub fn on_congestion(&mut self, why: Congestion, window: f64, mss: f64) -> f64 {
        let beta = match self {
            Control::NewReno => newreno::BETA,
            Control::Dctcp(dctcp) if why == Congestion::Mark => dctcp.beta(),
            // RFC 8257, 3.5: a loss as in NewReno.
            Control::Dctcp(_) => newreno::BETA,
            Control::Cubic(cubic) => {
                cubic.on_congestion(window, mss);
                cubic.beta()
            }
        };
        (window * beta).max(2.0 * mss)
    }

    /// The retransmission timer expired.
    pub fn on_timeout(&mut self) {
        if let Control::Cubic(cubic) = self {
            cubic.on_timeout();
        }
    }
}
