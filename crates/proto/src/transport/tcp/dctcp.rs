//! DCTCP (Alizadeh et al., "Data Center TCP (DCTCP)", SIGCOMM 2010; RFC 8257): cuts by the share of marked bytes.
//!
//! The share is of the bytes that ACKs acknowledge; SACK does not count (RFC 8257, 3.3). The window grows as NewReno's, and
//! a loss halves it (3.4, 3.5). The receiver's part is in [`super::receiver`].

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
    /// Of a new connection.
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
