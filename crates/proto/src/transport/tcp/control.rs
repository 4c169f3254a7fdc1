//! The congestion controls behind one face: what differs between them is how the window grows in congestion avoidance, and
//! how much of it congestion leaves.

use super::ControlParameters;
use crate::units::Time;

/// An ACK in congestion avoidance.
pub(crate) struct Acknowledged {
    pub now: Time,
    /// Smoothed.
    pub rtt: Time,
    pub bytes: f64,
    pub mss: f64,
}

/// The sign of congestion.
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
            Control::NewReno | Control::Dctcp(_) => grow(cwnd, ack),
            Control::Cubic(cubic) => cubic.grow(cwnd, ack),
        }
    }

    /// Congestion was met with a window of `window` bytes: what is left of it, at least two segments (RFC 5681, equation 4).
    pub fn on_congestion(&mut self, why: Congestion, window: f64, mss: f64) -> f64 {
        let beta = match self {
            Control::NewReno => BETA,
            Control::Dctcp(dctcp) if why == Congestion::Mark => dctcp.beta(),
            // RFC 8257, 3.5: a loss as in NewReno.
            Control::Dctcp(_) => BETA,
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

// NewReno's window (RFC 5681, 3.1): one segment more each round trip, half of it after congestion.
//
// Bytes are counted, not ACKs (RFC 5681, 3.1; RFC 3465): an ACK of many segments counts for all of them, as in Linux.

/// The window after an ACK in congestion avoidance, bytes (RFC 5681, equation 3, in bytes).
pub(crate) fn grow(cwnd: f64, ack: &Acknowledged) -> f64 {
    cwnd + ack.mss * ack.bytes / cwnd
}

/// The share of the window that congestion leaves (RFC 5681, equation 4).
pub const BETA: f64 = 0.5;

// CUBIC (RFC 9438): after congestion the window follows a cubic function of time, flat where congestion was met last.
//
// Windows are in bytes and divided by the segment size where the RFC counts segments; time is in seconds.
//
// Leaves out: HyStart++ (section 4.10 recommends it), the shift of the epoch over idle times (4.2; a bulk sender has none)
// and undoing reductions (4.9).

/// Parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CubicParameters {
    /// C, segments per second cubed. RFC 9438, 4.1 and 5: 0.4.
    pub c: f64,
    /// beta_cubic: the share of the window that congestion leaves. RFC 9438, 4.6: 0.7.
    pub beta: f64,
    /// True if a flow that meets congestion below its last maximum gives way to newer ones (RFC 9438, 4.7; Linux: on).
    pub fast_convergence: bool,
}

impl CubicParameters {
    /// # Errors
    /// One line naming the parameter that makes no sense.
    pub fn check(&self) -> Result<(), String> {
        if !(self.c > 0.0 && self.c.is_finite()) {
            return Err("c is not above 0".into());
        }
        if !(self.beta > 0.0 && self.beta < 1.0) {
            return Err("beta is not between 0 and 1".into());
        }
        Ok(())
    }

    /// alpha_cubic: segments a round trip with which a flow of this beta does as well as NewReno (4.3, figure 3).
    pub fn reno_friendly_increase(&self) -> f64 {
        3.0 * (1.0 - self.beta) / (1.0 + self.beta)
    }
}

/// The epoch: congestion avoidance since the last congestion.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Epoch {
    start: Time,
    /// K, s.
    k: f64,
    /// Window that the cubic function is flat at, segments. Differs from `w_max` where no loss set that.
    origin: f64,
    /// W_est, segments.
    reno_window: f64,
}

/// State of a sender.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cubic {
    parameters: CubicParameters,
    /// W_max, segments; `None` before the first congestion.
    w_max: Option<f64>,
    /// cwnd_prior, segments.
    prior: f64,
    /// True if the next epoch follows a timeout: its K is 0 (4.8).
    after_timeout: bool,
    epoch: Option<Epoch>,
}

impl Cubic {
    pub fn new(p: &CubicParameters) -> Self {
        Cubic { parameters: *p, w_max: None, prior: f64::INFINITY, after_timeout: false, epoch: None }
    }

    /// W_max, segments; `None` before the first congestion.
    pub fn w_max(&self) -> Option<f64> {
        self.w_max
    }

    /// K of the present epoch, s: when the window is back at W_max.
    pub fn k(&self) -> Option<f64> {
        self.epoch.map(|epoch| epoch.k)
    }

    fn begin(&self, now: Time, window: f64) -> Epoch {
        // Equation 2. Without a loss to come back from, the function starts flat (4.8, 4.10).
        let (origin, k) = match self.w_max {
            Some(w_max) if !self.after_timeout && w_max > window => {
                (w_max, libm::cbrt((w_max - window) / self.parameters.c))
            }
            _ => (window, 0.0),
        };
        Epoch { start: now, k, origin, reno_window: window }
    }

    /// The window after an ACK in congestion avoidance, bytes (4.2 to 4.5).
    pub(crate) fn grow(&mut self, cwnd: f64, ack: &Acknowledged) -> f64 {
        let p = self.parameters;
        let window = cwnd / ack.mss;
        let acked = ack.bytes / ack.mss;
        let mut epoch = self.epoch.unwrap_or_else(|| self.begin(ack.now, window));

        // Equation 4; as fast as NewReno once it is where congestion was met.
        let increase = if epoch.reno_window < self.prior { p.reno_friendly_increase() } else { 1.0 };
        epoch.reno_window += increase * acked / window;
        self.epoch = Some(epoch);

        // Equation 1.
        let cubic = |t: f64| p.c * (t - epoch.k) * (t - epoch.k) * (t - epoch.k) + epoch.origin;
        let t = (ack.now - epoch.start).0 as f64 / 1e12;
        if cubic(t) < epoch.reno_window {
            return (epoch.reno_window * ack.mss).max(cwnd);
        }
        let target = cubic(t + ack.rtt.0 as f64 / 1e12).clamp(window, 1.5 * window);
        cwnd + (target - window) / window * ack.bytes
    }

    /// Congestion at a window of `cwnd` bytes: what is left of it (4.6, 4.7).
    pub(crate) fn on_congestion(&mut self, cwnd: f64, mss: f64) {
        let window = cwnd / mss;
        let gives_way = self.parameters.fast_convergence && self.w_max.is_some_and(|w_max| window < w_max);
        self.w_max = Some(if gives_way { window * (1.0 + self.parameters.beta) / 2.0 } else { window });
        self.prior = window;
        self.epoch = None;
        self.after_timeout = false;
    }

    /// The retransmission timer expired.
    pub(crate) fn on_timeout(&mut self) {
        self.after_timeout = true;
        self.epoch = None;
    }

    /// The share of the window that congestion leaves.
    pub(crate) fn beta(&self) -> f64 {
        self.parameters.beta
    }
}

// DCTCP (Alizadeh et al., "Data Center TCP (DCTCP)", SIGCOMM 2010; RFC 8257): cuts by the share of marked bytes.
//
// The share is of the bytes that ACKs acknowledge; SACK does not count (RFC 8257, 3.3). The window grows as NewReno's, and
// a loss halves it (3.4, 3.5). The receiver's part is in [`super::receiver`].

/// Parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DctcpParameters {
    /// g: weight of the newest window of data in alpha. 1/16 in the paper (section 4) and in Linux (`tcp_dctcp.c`).
    pub g: f64,
    /// Alpha at the start. RFC 8257, 3.3, and Linux: 1, so that the first mark halves the window.
    pub initial_alpha: f64,
}

impl DctcpParameters {
    /// # Errors
    /// One line naming the parameter that makes no sense.
    pub fn check(&self) -> Result<(), String> {
        if !(self.g > 0.0 && self.g <= 1.0) {
            return Err("g is not above 0 and up to 1".into());
        }
        if !(0.0..=1.0).contains(&self.initial_alpha) {
            return Err("initial_alpha is not from 0 to 1".into());
        }
        Ok(())
    }
}

/// The sender's estimate of how much is marked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dctcp {
    parameters: DctcpParameters,
    alpha: f64,
    acknowledged: u64,
    marked: u64,
    /// The window of data that is counted ends here.
    window_end: u64,
}

impl Dctcp {
    pub fn new(p: &DctcpParameters) -> Self {
        Dctcp { parameters: *p, alpha: p.initial_alpha, acknowledged: 0, marked: 0, window_end: 0 }
    }

    /// Average share of marked bytes.
    pub fn alpha(&self) -> f64 {
        self.alpha
    }

    /// The share of the window that a mark leaves (RFC 8257, 3.3, equation for cwnd).
    pub(crate) fn beta(&self) -> f64 {
        1.0 - self.alpha / 2.0
    }

    /// An ACK acknowledges `bytes`, all marked or none, up to `end`; `sent` is the end of what was sent.
    pub(crate) fn on_ack(&mut self, bytes: u64, marked: bool, end: u64, sent: u64) {
        self.acknowledged += bytes;
        if marked {
            self.marked += bytes;
        }
        if end > self.window_end {
            let share = self.marked as f64 / self.acknowledged as f64;
            self.alpha = self.alpha * (1.0 - self.parameters.g) + self.parameters.g * share;
            (self.acknowledged, self.marked, self.window_end) = (0, 0, sent);
        }
    }
}
