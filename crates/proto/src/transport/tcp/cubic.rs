//! CUBIC (RFC 9438): after congestion the window follows a cubic function of time, flat where congestion was met last.
//!
//! Windows are in bytes and divided by the segment size where the RFC counts segments; time is in seconds.
//!
//! Leaves out: HyStart++ (section 4.10 recommends it), the shift of the epoch over idle times (4.2; a bulk sender has none)
//! and undoing reductions (4.9).

use super::control::Acknowledged;
use crate::units::Time;

/// Parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CubicParameters {
    /// C, segments per second cubed. RFC 9438, 4.1 and 5: 0.4.
    pub c: f64,
    /// beta_cubic: the share of the window that congestion leaves. RFC 9438, 4.6: 0.7.
    pub beta: f64,
    /// Whether a flow that meets congestion below its last maximum gives way to newer ones (RFC 9438, 4.7; Linux: on).
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
    /// Whether the next epoch follows a timeout: its K is 0 (4.8).
    after_timeout: bool,
    epoch: Option<Epoch>,
}

impl Cubic {
    /// Of a new connection.
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
