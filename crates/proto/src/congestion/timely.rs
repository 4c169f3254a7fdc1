//! TIMELY: the sender's rate follows the gradient of its round-trip times.
//!
//! Source: Mittal et al., "TIMELY: RTT-based Congestion Control for the Datacenter", SIGCOMM 2015, section 4, algorithm 1
//! with hyperactive increase (HAI). A rate is computed at each *completion event*: the last ACK of a segment.
//!
//! Where algorithm 1 leaves it open: calm events are counted whatever the RTT, and an RTT above T_high ends the count.
//!
//! A segment is the unit of all: the sender paces segments and lets each go as a burst at line rate
//! ([`Timely::burst_bytes`]); its RTT is from then to its last ACK, less its own time on the sender's link (section 3.1).
//! With `segment_bytes` at 0 packets are paced, and a rate is computed once a round trip.
//!
//! The gradient alone has no fixed point: rates depend on how the flows began (Zhu et al., "ECN or Delay: Lessons Learnt
//! from Analysis of DCQCN and TIMELY", CoNEXT 2016). That paper's *patched TIMELY* compares
//! the RTT with T_low besides, and takes beta = 0.008 in place of 0.8, segments of 16 kB and the same delta of 10 Mbit/s.
//!
//! Leaves out: the patch; and what the authors' code has beyond the paper (steps in proportion to the time since the
//! last one, up to minRTT; no decrease below half; a drop of the RTT counts as calm, not one of its average).

use std::num::NonZeroU64;

use super::{check_bounds, AckInfo, RoundTrip};
use crate::units::{Rate, Time};

/// Parameters of a flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimelyParameters {
    /// Rate of the sender's link: the first and the highest rate.
    pub line_rate: Rate,
    /// Lowest rate, bit/s.
    pub min_rate: f64,
    /// Weight of the newest RTT difference in its average.
    pub alpha: f64,
    /// Strength of a decrease.
    pub beta: f64,
    /// delta, bit/s: additive increase.
    pub additive: f64,
    /// N * delta, bit/s: additive increase in hyperactive mode.
    pub hyper_additive: f64,
    /// Completion events in a row whose gradient is not above zero, from which on the increase is hyperactive.
    pub hyper_after: u32,
    /// Below it, always increase.
    pub t_low: Time,
    /// Above it, always decrease.
    pub t_high: Time,
    /// What gradients are measured in: the network's round trip without queues.
    pub min_rtt: Time,
    /// Bytes of a segment: one burst, and one computation when it is acknowledged; 0: packets are paced, and there is
    /// one computation a round trip.
    pub segment_bytes: u64,
}

impl TimelyParameters {
    /// # Errors
    /// One line naming the parameter that makes no sense.
    pub fn check(&self) -> Result<(), String> {
        check_bounds(self.min_rate, self.line_rate)?;
        let checks = [
            (self.alpha > 0.0 && self.alpha <= 1.0, "alpha is not above 0 and up to 1"),
            (self.beta > 0.0 && self.beta <= 1.0, "beta is not above 0 and up to 1"),
            (self.additive >= 0.0 && self.additive.is_finite(), "additive is below 0"),
            (self.hyper_additive >= 0.0 && self.hyper_additive.is_finite(), "hyper_additive is below 0"),
            (self.t_low <= self.t_high, "t_low is above t_high"),
            (self.min_rtt > Time::ZERO, "min_rtt must be above 0"),
        ];
        match checks.iter().find(|(ok, _)| !ok) {
            Some((_, text)) => Err((*text).to_string()),
            None => Ok(()),
        }
    }
}

/// The sender's side of TIMELY, for one flow.
#[derive(Clone, Debug)]
pub struct Timely {
    rate: f64,
    /// RTT of the last completion event; none before the first.
    previous_rtt: Option<Time>,
    /// Average of the RTT's differences, ps.
    rtt_difference: f64,
    /// Completion events in a row with a gradient that was not above zero.
    calm_events: u32,
    round: RoundTrip,
}

impl Timely {
    /// A new flow: it starts at line rate, as in the simulations that this controller is compared in. (The paper starts
    /// a flow at C / (N + 1) on a host that has N.)
    pub fn new(p: &TimelyParameters) -> Self {
        Timely {
            rate: p.line_rate.0 as f64,
            previous_rtt: None,
            rtt_difference: 0.0,
            calm_events: 0,
            round: RoundTrip::default(),
        }
    }

    /// Rate, bit/s.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// TIMELY limits the rate alone.
    pub fn window_bytes(&self) -> Option<u64> {
        None
    }

    /// Bytes to send at line rate before the next pause; none: each packet is paced.
    pub fn burst_bytes(p: &TimelyParameters) -> Option<NonZeroU64> {
        NonZeroU64::new(p.segment_bytes)
    }

    /// RTT of the last completion event; none before the first.
    pub fn rtt(&self) -> Option<Time> {
        self.previous_rtt
    }

    /// The average of the RTT's differences over `min_rtt`: above zero, queues grow.
    pub fn gradient(&self, p: &TimelyParameters) -> f64 {
        self.rtt_difference / p.min_rtt.0 as f64
    }

    /// An acknowledgement arrived.
    pub fn on_ack(&mut self, p: &TimelyParameters, ack: &AckInfo) {
        let complete = if p.segment_bytes == 0 { self.round.ends(ack) } else { ack.completes_burst };
        if complete {
            self.on_completion(p, ack.rtt);
        }
    }

    /// Algorithm 1.
    fn on_completion(&mut self, p: &TimelyParameters, rtt: Time) {
        let Some(previous) = self.previous_rtt.replace(rtt) else { return };
        let difference = rtt.0 as f64 - previous.0 as f64;
        self.rtt_difference = (1.0 - p.alpha) * self.rtt_difference + p.alpha * difference;
        let gradient = self.gradient(p);
        self.calm_events = if gradient <= 0.0 { self.calm_events.saturating_add(1) } else { 0 };
        let rate = if rtt < p.t_low {
            self.rate + p.additive
        } else if rtt > p.t_high {
            self.calm_events = 0;
            self.rate * (1.0 - p.beta * (1.0 - p.t_high.0 as f64 / rtt.0 as f64))
        } else if gradient <= 0.0 {
            let hyperactive = self.calm_events >= p.hyper_after;
            self.rate + if hyperactive { p.hyper_additive } else { p.additive }
        } else {
            // A steep gradient would make the rate negative; the bound takes that back.
            self.rate * (1.0 - p.beta * gradient)
        };
        self.rate = rate.clamp(p.min_rate, p.line_rate.0 as f64);
    }
}
