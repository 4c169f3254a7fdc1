//! TIMELY: the sender's rate follows the gradient of its round-trip times.
//!
//! Source: Mittal et al., "TIMELY: RTT-based Congestion Control for the Datacenter", SIGCOMM 2015, section 4, algorithm 1
//! with hyperactive increase (HAI). A rate is computed at each *completion event*: the last ACK of a segment.
//!
//! Algorithm 1 does not say whether events below T_low or above T_high count as calm. Here every event with a
//! gradient of at most 0 counts, and an RTT above T_high sets the count to 0.
//!
//! A segment is the unit of all: the sender paces segments and lets each go as a burst at line rate
//! ([`Controller::burst_bytes`]); its RTT is from then to its last ACK, less its own time on the sender's link (section 3.1).
//! With `segment` at 0 packets are paced, and a rate is computed once a round trip.
//!
//! The gradient alone has no fixed point: rates depend on how the flows began (Zhu et al., "ECN or Delay: Lessons Learnt
//! from Analysis of DCQCN and TIMELY", CoNEXT 2016). That paper's *patched TIMELY* compares
//! the RTT with T_low besides, and takes beta = 0.008 in place of 0.8, segments of 16 kB and the same delta of 10 Mbit/s.
//!
//! Leaves out: the patch; and what the authors' code has beyond the paper (steps in proportion to the time since the
//! last one, up to minRTT; no decrease below half; a drop of the RTT counts as calm, not one of its average).

use std::num::NonZeroU64;

use super::parameters::{
    in_words, Refused, RoundTrip, POSITIVE_RATE, RATE_STEPS, SHARE, SPANS, TELEMETRY_BYTES,
};
use super::{AckInfo, Controller, Link, Merged, OnLink, Round, Signal, Uses};
use crate::parameters;
use crate::units::{Bytes, Rate, Time};

const MITTAL: &str = "Mittal et al. (TIMELY), SIGCOMM 2015";
const SIMULATOR: &str = "the HPCC authors' simulator";

parameters! {
    /// TIMELY: the rate follows the gradient of the round-trip time.
    pub struct TimelyParameters {
        /// Weight of the newest difference of round-trip times. The paper's evaluation gives none; the simulators of Zhu
        /// et al. (CoNEXT 2016) and of the HPCC authors have 0.875.
        alpha: f64 = 0.02, in SHARE, source "the TIMELY authors' code (timely-code-snippet.cc): ewma_alpha";
        /// Strength of a decrease.
        beta: f64 = 0.8, in SHARE, source format!("{MITTAL}, section 6");
        /// What the rate gains in a step (delta), on any link.
        additive: Rate = Rate::from_mbps(10), in RATE_STEPS, source format!("{MITTAL}, section 6, at 10 Gbit/s");
        /// The same in hyperactive increase.
        hyper_additive: Rate = Rate::from_mbps(50), in RATE_STEPS, source format!("{MITTAL}, section 4.3: N = 5 times delta");
        /// The increase is hyperactive after this many steps in a row without a growing round-trip time.
        hyper_after: u32 = 5, in 0..=1_000_000, source format!("{MITTAL}, section 4.3");
        /// Below this round-trip time the rate always grows.
        t_low: Time = Time::from_us(50), in SPANS, source format!("{MITTAL}, section 6");
        /// Above this round-trip time the rate always falls.
        t_high: Time = Time::from_us(500), in SPANS, source format!("{MITTAL}, section 6");
        /// The mean RTT difference is divided by this to give the gradient.
        min_rtt: RoundTrip = RoundTrip(Time::from_us(20)), in SPANS,
            source "the simulator of Zhu et al. (ECN or Delay), CoNEXT 2016: MIN RTT";
        /// A message is sent in segments of this size, rounded up to whole packets: each at line rate, with pauses between
        /// them, and a computation of the rate when it is acknowledged. 0: packets are paced, and the rate is computed
        /// once a round trip.
        segment: Bytes = Bytes(16_000), in Bytes(0)..=Bytes(1_000_000_000),
            source format!("{MITTAL}, section 6; up to 64 KB in section 3");
        /// Lowest rate of a queue pair.
        min_rate: Rate = Rate::from_mbps(100), in POSITIVE_RATE, source format!("{SIMULATOR}: MIN_RATE");
        /// What a timestamp adds to each data packet and each ACK.
        telemetry: Bytes = Bytes(8), in TELEMETRY_BYTES, source format!("{SIMULATOR}: 8 B");
    }
}

/// TIMELY's parameters on a link.
pub type TimelyLaw = OnLink<TimelyParameters>;

/// The sender's side of TIMELY, for one flow.
#[derive(Clone, Debug)]
pub struct Timely {
    rate: f64,
    /// RTT of the last completion event; none before the first.
    previous_rtt: Option<Time>,
    /// Moving average of the differences between successive RTTs, ps.
    rtt_difference: f64,
    /// Completion events in a row with a gradient that was not above zero.
    calm_events: u32,
    round: Round,
}

impl Controller for Timely {
    type Parameters = TimelyParameters;
    type Law = TimelyLaw;

    const USES: Uses = Uses { acks: true, delay: true, ..Uses::NOTHING };
    const SIGNALS: &'static [Signal<Self>] = &[Signal {
        name: "rtt_ps",
        unit: "ps",
        help: "Round-trip time of the last completion event; 0 before the first.",
        merged: Merged::Last,
        read: |flow, _| flow.rtt().map_or(0.0, |rtt| rtt.0 as f64),
    }];

    fn law(parameters: &TimelyParameters, link: Link) -> Result<TimelyLaw, Refused> {
        Refused::above_link(parameters.min_rate, "min_rate", link.rate)?;
        let t_high = parameters.t_high;
        Refused::unless(
            parameters.t_low <= t_high,
            "t_low",
            format!("at most t_high, {}", in_words(t_high)),
        )?;
        OnLink::new(*parameters, link)
    }

    fn telemetry_bytes(law: &TimelyLaw) -> u32 {
        law.telemetry.0 as u32
    }

    fn burst_bytes(law: &TimelyLaw) -> Option<NonZeroU64> {
        NonZeroU64::new(law.segment.0)
    }

    /// It starts at line rate, as in the simulations that this controller is compared in. (The paper starts a flow at
    /// C / (N + 1) on a host that has N.)
    fn new(p: &TimelyLaw) -> Self {
        Timely {
            rate: p.line_rate,
            previous_rtt: None,
            rtt_difference: 0.0,
            calm_events: 0,
            round: Round::default(),
        }
    }

    fn rate(&self) -> f64 {
        self.rate
    }

    fn on_ack(&mut self, p: &TimelyLaw, ack: &AckInfo) {
        let complete = if p.segment.0 == 0 { self.round.ends(ack) } else { ack.completes_burst };
        if complete {
            self.on_completion(p, ack.rtt);
        }
    }
}

impl Timely {
    /// RTT of the last completion event; none before the first.
    pub fn rtt(&self) -> Option<Time> {
        self.previous_rtt
    }

    /// The average of the RTT's differences over `min_rtt`: above zero, queues grow.
    pub fn gradient(&self, p: &TimelyLaw) -> f64 {
        self.rtt_difference / p.min_rtt.0 .0 as f64
    }

    /// Algorithm 1.
    fn on_completion(&mut self, p: &TimelyLaw, rtt: Time) {
        let Some(previous) = self.previous_rtt.replace(rtt) else { return };
        let difference = rtt.0 as f64 - previous.0 as f64;
        self.rtt_difference = (1.0 - p.alpha) * self.rtt_difference + p.alpha * difference;
        let gradient = self.gradient(p);
        self.calm_events = if gradient <= 0.0 { self.calm_events.saturating_add(1) } else { 0 };
        let rate = if rtt < p.t_low {
            self.rate + p.additive.bps()
        } else if rtt > p.t_high {
            self.calm_events = 0;
            self.rate * (1.0 - p.beta * (1.0 - p.t_high.0 as f64 / rtt.0 as f64))
        } else if gradient <= 0.0 {
            let hyperactive = self.calm_events >= p.hyper_after;
            self.rate + if hyperactive { p.hyper_additive } else { p.additive }.bps()
        } else {
            // A steep gradient would make the rate negative; the bound takes that back.
            self.rate * (1.0 - p.beta * gradient)
        };
        self.rate = rate.clamp(p.min_rate.bps(), p.line_rate);
    }
}
