//! RHCC's sender: a rate that follows the receiver's processing delay.
//!
//! Source: Wan et al., APNet 2024, sections 3.3 and 4. A probe follows every 32 KB of data. Its answer brings the
//! *receiver processing delay* D_cur, the time between two timestamps of the receiver: the probe got there, its answer was
//! made. With D_thr the target and D_old the delay of the answer before:
//!
//! ```text
//! R_rev = R_rev * [1 - alpha * (D_cur - D_thr) - beta * (D_cur - D_old)]        (1), delays in ns
//! R     = min(R_rev, R_cc)                                                     (2)
//! ```
//!
//! Where the paper leaves it open (all three are assumptions):
//! - R_rev is at most the line rate, where a queue pair starts. The first answer has no D_old; its last term is zero.
//! - R_rev is at least a small `floor`. The paper asks for 0 at least, but the rule is multiplicative: 0 would be for ever.
//! - Probes follow data, so a slow queue pair hardly hears anything. While R_rev is below the line rate a probe is sent
//!   besides when the last one is older than `idle_probe`.
//!
//! In place of equation (1), to compare with (the paper names it without numbers): additive increase and multiplicative
//! decrease with fixed steps, one for each answer.
//!
//! Leaves out: the resolution of timestamps, and the firmware's time to compute.

use crate::units::{Rate, Time};

const PS_PER_NS: f64 = 1e3;

/// How an answer changes the rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Law {
    /// Equation (1).
    Pid {
        /// For each ns above the threshold.
        alpha: f64,
        /// For each ns more than the answer before.
        beta: f64,
    },
    /// Fixed steps.
    Aimd {
        /// What an answer at the threshold or below adds, bit/s.
        additive: f64,
        /// Share of the rate that an answer above the threshold takes.
        decrease: f64,
    },
}

/// Parameters of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SenderParameters {
    /// Rate of the sender's link: the first and the highest rate.
    pub line_rate: Rate,
    /// Lowest rate, bit/s.
    pub floor: f64,
    /// Data between two probes.
    pub probe_bytes: u64,
    /// D_thr.
    pub threshold: Time,
    /// How an answer changes the rate.
    pub law: Law,
    /// Longest time without a probe while the rate is below the line rate; none: probes follow data alone.
    pub idle_probe: Option<Time>,
}

impl SenderParameters {
    /// # Errors
    /// One line naming the parameter that makes no sense.
    pub fn check(&self) -> Result<(), String> {
        let gain = |value: f64| (0.0..=1.0).contains(&value);
        let checks = [
            (
                self.floor > 0.0 && self.floor <= self.line_rate.0 as f64,
                "floor is not above 0 and up to the line rate",
            ),
            (self.probe_bytes > 0, "probe_bytes must be above 0"),
            (self.idle_probe != Some(Time::ZERO), "idle_probe must be above 0"),
            match self.law {
                Law::Pid { alpha, beta } => (gain(alpha) && gain(beta), "alpha or beta is not in 0 to 1"),
                Law::Aimd { additive, decrease } => (
                    gain(decrease) && additive >= 0.0 && additive.is_finite(),
                    "decrease is not in 0 to 1, or additive is below 0",
                ),
            },
        ];
        match checks.iter().find(|(ok, _)| !ok) {
            Some((_, text)) => Err((*text).to_string()),
            None => Ok(()),
        }
    }
}

/// The sender's half, for one queue pair.
#[derive(Clone, Debug)]
pub struct Sender {
    /// R_rev, bit/s.
    rate: f64,
    /// D_old; none before the first answer.
    delay: Option<Time>,
    /// Data sent since the last probe that followed data.
    unprobed_bytes: u64,
    probed_at: Time,
}

impl Sender {
    /// A new queue pair: at line rate.
    pub fn new(p: &SenderParameters) -> Self {
        Sender { rate: p.line_rate.0 as f64, delay: None, unprobed_bytes: 0, probed_at: Time::ZERO }
    }

    /// R_rev, bit/s.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// Equation (2): the rate to send at, where the network's controller allows `network_rate`.
    #[inline]
    pub fn limit(&self, network_rate: f64) -> f64 {
        self.rate.min(network_rate)
    }

    /// The receiver's processing delay, by the latest answer.
    pub fn delay(&self) -> Option<Time> {
        self.delay
    }

    /// A packet with `payload` bytes was sent. `true`: send a probe.
    #[inline]
    pub fn on_sent(&mut self, p: &SenderParameters, now: Time, payload: u64) -> bool {
        self.unprobed_bytes += payload;
        let due = self.unprobed_bytes >= p.probe_bytes;
        if due {
            self.unprobed_bytes %= p.probe_bytes;
            self.probed_at = now;
        }
        due
    }

    /// The answer to a probe arrived: the receiver took `delay`.
    pub fn on_answer(&mut self, p: &SenderParameters, delay: Time) {
        let old = self.delay.replace(delay).unwrap_or(delay);
        let rate = match p.law {
            Law::Pid { alpha, beta } => {
                let above = |reference: Time| (delay.0 as f64 - reference.0 as f64) / PS_PER_NS;
                self.rate * (1.0 - alpha * above(p.threshold) - beta * above(old))
            }
            Law::Aimd { decrease, .. } if delay > p.threshold => self.rate * (1.0 - decrease),
            Law::Aimd { additive, .. } => self.rate + additive,
        };
        self.rate = rate.clamp(p.floor, p.line_rate.0 as f64);
    }

    /// When a probe is due although no data asks for one.
    pub fn next_timeout(&self, p: &SenderParameters) -> Option<Time> {
        let slowed = self.rate < p.line_rate.0 as f64;
        p.idle_probe.filter(|_| slowed).map(|idle| self.probed_at + idle)
    }

    /// The timer's time may have come. `true`: send a probe.
    pub fn on_timeout(&mut self, p: &SenderParameters, now: Time) -> bool {
        let due = self.next_timeout(p).is_some_and(|deadline| now >= deadline);
        if due {
            self.probed_at = now;
        }
        due
    }
}
