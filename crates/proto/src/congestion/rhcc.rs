//! RHCC: congestion inside the receiving host, controlled from both ends.
//!
//! Source: Wan et al., "Rethinking Intra-host Congestion Control in RDMA Networks", APNet 2024, section 3.
//!
//! The *receiver* watches the IIO's buffer and takes memory bandwidth from its CPUs while it is full ([`Receiver`]). The
//! *sender* probes how long the receiver's data path takes and limits its rate by that ([`Sender`]), below whatever
//! controller it has for the network: `R = min(R_rev, R_cc)` (equation 2). Each half works without the other.

use std::ops::RangeInclusive;

use super::host::{agent, Ladder, OccupancyMeter, MODULE, OCCUPANCY_LINES, WAN};
use super::parameters::{Declared, Refused, RATE_STEPS, SPANS};
use super::{Controller, Link, Merged, Signal, Uses};
use crate::parameters::{FallingRates, DELAYS, POSITIVE_RATE};
use crate::units::{Bytes, Rate, Time};
use crate::{choice, parameters};

// RHCC's sender: a rate that follows the receiver's processing delay.
//
// Source: Wan et al., APNet 2024, sections 3.3 and 4. A probe follows every 32 KB of data. Its answer brings the
// *receiver processing delay* D_cur, the time between two timestamps of the receiver: the probe got there, its answer was
// made. With D_thr the target and D_old the delay of the answer before:
//
// ```text
// R_rev = R_rev * [1 - alpha * (D_cur - D_thr) - beta * (D_cur - D_old)]        (1), delays in ns
// R     = min(R_rev, R_cc)                                                     (2)
// ```
//
// Where the paper leaves it open (all three are assumptions):
// - R_rev is at most the line rate, where a queue pair starts. The first answer has no D_old; its last term is zero.
// - R_rev is at least a small `floor`. The paper asks for 0 at least, but the rule is multiplicative: 0 would be for ever.
// - Probes follow data, so a slow queue pair hardly hears anything. While R_rev is below the line rate a probe is sent
//   besides when the last one is older than `idle_probe`.
//
// In place of equation (1), to compare with (the paper names it without numbers): additive increase and multiplicative
// decrease with fixed steps, one for each answer.
//
// Leaves out: the resolution of timestamps, and the firmware's time to compute.

const PS_PER_NS: f64 = 1e3;
const NO_NUMBERS: &str = "assumption: the paper names AIMD without numbers";
const GAIN: RangeInclusive<f64> = 0.0..=1.0;

parameters! {
    /// RHCC's sender: a rate that follows the receiver's delay.
    pub struct RhccParameters {
        /// Data of a queue pair between two probes.
        probe_bytes: Bytes = Bytes(32_000), in Bytes(1)..=Bytes(1_000_000_000), source format!("{WAN}, section 4");
        /// D_thr: processing delay of the receiver to aim at.
        threshold_delay: Time = Time::from_ns(200), in SPANS, source format!("{WAN}, section 4");
        /// How an answer changes the rate: by equation (1), or by fixed steps.
        law: LawName = LawName::Pid, of LawName::ALL, source format!("{WAN}, section 3.3");
        /// Of pid: share of the rate that each ns above threshold_delay takes.
        alpha: f64 = 0.0005, in GAIN, source format!("{WAN}, section 4");
        /// Of pid: share of the rate that each ns more than the answer before takes.
        beta: f64 = 0.0005, in GAIN, source format!("{WAN}, section 4");
        /// Of aimd: what an answer at threshold_delay or below adds.
        additive: Rate = Rate::from_mbps(40), in RATE_STEPS,
            source format!("{NO_NUMBERS}; R_AI of Zhu et al. (DCQCN), SIGCOMM 2015");
        /// Of aimd: share of the rate that an answer above threshold_delay takes.
        decrease: f64 = 0.5, in GAIN, source format!("{NO_NUMBERS}; half, as TCP");
        /// Lowest rate. From zero, which the paper allows, a rate that is only multiplied never recovers.
        floor: Rate = Rate::from_mbps(100), in POSITIVE_RATE,
            source "assumption: as the lowest rate of HPCC, TIMELY and DCTCP here";
        /// Longest time without a probe while the rate is below the line's; null: probes follow data alone.
        idle_probe: Option<Time> = Some(Time::from_us(100)), in SPANS,
            source "assumption: 32 KB in that time are 2.6 Gbit/s; a slower queue pair would hear little";
    }
}

choice! {
    /// The name of a [`Law`].
    pub enum LawName {
        /// Equation (1).
        Pid = "pid",
        /// Fixed steps.
        Aimd = "aimd",
    }
}

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
    probe_is_due: bool,
}

impl Controller for Sender {
    type Parameters = RhccParameters;
    type Law = SenderParameters;

    const USES: Uses = Uses { timer: true, ..Uses::NOTHING };
    const SIGNALS: &'static [Signal<Self>] = &[
        Signal {
            name: "receiver_rate_bps",
            unit: "bit/s",
            help: "RHCC: the rate that the receiver's delay allows.",
            merged: Merged::Mean,
            read: |flow, _| flow.rate,
        },
        Signal {
            name: "receiver_delay_ns",
            unit: "ns",
            help: "RHCC: the receiver's processing delay, by the latest answer; 0 before the first.",
            merged: Merged::Mean,
            read: |flow, _| flow.delay.map_or(0.0, |delay| delay.0 as f64 / PS_PER_NS),
        },
    ];

    fn law(parameters: &RhccParameters, link: Link) -> Result<SenderParameters, Refused> {
        parameters.check()?;
        Refused::above_link(parameters.floor, "floor", link.rate)?;
        let RhccParameters { alpha, beta, decrease, .. } = *parameters;
        Ok(SenderParameters {
            line_rate: link.rate,
            floor: parameters.floor.bps(),
            probe_bytes: parameters.probe_bytes.0,
            threshold: parameters.threshold_delay,
            law: match parameters.law {
                LawName::Pid => Law::Pid { alpha, beta },
                LawName::Aimd => Law::Aimd { additive: parameters.additive.bps(), decrease },
            },
            idle_probe: parameters.idle_probe,
        })
    }

    /// At line rate.
    fn new(p: &SenderParameters) -> Self {
        Sender {
            rate: p.line_rate.bps(),
            delay: None,
            unprobed_bytes: 0,
            probed_at: Time::ZERO,
            probe_is_due: false,
        }
    }

    /// R_rev.
    #[inline]
    fn rate(&self) -> f64 {
        self.rate
    }

    #[inline]
    fn on_sent(&mut self, p: &SenderParameters, now: Time, payload: u64) {
        self.unprobed_bytes += payload;
        if self.unprobed_bytes >= p.probe_bytes {
            self.unprobed_bytes %= p.probe_bytes;
            self.probed_at = now;
            self.probe_is_due = true;
        }
    }

    #[inline]
    fn takes_probe(&mut self) -> bool {
        std::mem::take(&mut self.probe_is_due)
    }

    fn on_probe_answer(&mut self, p: &SenderParameters, delay: Time) {
        let old = self.delay.replace(delay).unwrap_or(delay);
        let rate = match p.law {
            Law::Pid { alpha, beta } => {
                let above = |reference: Time| (delay.0 as f64 - reference.0 as f64) / PS_PER_NS;
                self.rate * (1.0 - alpha * above(p.threshold) - beta * above(old))
            }
            Law::Aimd { decrease, .. } if delay > p.threshold => self.rate * (1.0 - decrease),
            Law::Aimd { additive, .. } => self.rate + additive,
        };
        self.rate = rate.clamp(p.floor, p.line_rate.bps());
    }

    /// When a probe is due although no data asks for one.
    fn next_timeout(&self, p: &SenderParameters) -> Option<Time> {
        let slowed = self.rate < p.line_rate.bps();
        p.idle_probe.filter(|_| slowed).map(|idle| self.probed_at + idle)
    }

    fn on_timeout(&mut self, p: &SenderParameters, now: Time) {
        if self.next_timeout(p).is_some_and(|deadline| now >= deadline) {
            self.probed_at = now;
            self.probe_is_due = true;
        }
    }
}

impl Sender {
    /// Equation (2): the rate to send at, where the network's controller allows `network_rate`.
    #[inline]
    pub fn limit(&self, network_rate: f64) -> f64 {
        self.rate.min(network_rate)
    }

    /// The receiver's processing delay, by the latest answer.
    pub fn delay(&self) -> Option<Time> {
        self.delay
    }
}

// RHCC's receiver: memory bandwidth that CPUs may use, by the occupancy of the IIO's buffer.
//
// Source: Wan et al., APNet 2024, section 3.2. The occupancy is the difference of two readings of the IIO's cumulative
// counter, at intervals below a round trip. Above the threshold there is congestion, and the CPUs' bandwidth goes down a
// level.
//
// Where the paper leaves it open: it names no threshold, and not when or how fast the bandwidth goes up again. Here it
// goes up a level when no sample was above the threshold for a while, and after each level waits as long again (assumption).
// While a level is being written the agent, a single thread, decides nothing (assumption).

agent! {
    /// RHCC's receiver: it takes memory bandwidth from its CPUs.
    pub struct ReceiverParameters {
        /// I_thr in cache lines of 64 B. auto: what the link's rate keeps in the IIO at threshold_delay.
        iio_threshold: f64, or auto, in OCCUPANCY_LINES,
            source "assumption: the paper names no value; by Little's law the same congestion as D_thr";
        /// Memory bandwidths that CPUs may have (Intel MBA), falling; the first is no limit.
        levels: FallingRates = [265_600, 212_000, 160_000, 120_000, 80_000].map(Rate::from_mbps).into(), in POSITIVE_RATE,
            source format!("{WAN}, section 3.2: 33.2, 26.5, 20, 15 and 10 GB/s");
        /// Time without congestion before the bandwidth goes up a level, and from there to the next level.
        raise_interval: Time = Time::from_us(150), in DELAYS,
            source format!("assumption: the paper does not say when; {MODULE}: 150 us between two levels up");
    }
}

/// The receiver's half, for one host.
#[derive(Clone, Debug, Default)]
pub struct Receiver {
    meter: OccupancyMeter,
    occupancy: f64,
    ladder: Ladder,
}

impl Receiver {
    /// I_cur: the occupancy that the latest sample gave, cache lines.
    pub fn occupancy(&self) -> f64 {
        self.occupancy
    }

    /// The level in effect, 0 being the highest bandwidth.
    pub fn level(&self) -> usize {
        self.ladder.level()
    }

    /// A reading of the IIO's counter. `Some`: from now on CPUs have this bandwidth.
    pub fn on_sample(&mut self, p: &ReceiverParameters, now: Time, counter: u64) -> Option<Rate> {
        let ladder = p.ladder();
        let written = self.ladder.on_time(&ladder, now);
        let Some(occupancy) = self.meter.sample(now, counter, p.clock_hz()) else { return written };
        self.occupancy = occupancy;
        if occupancy > p.iio_threshold {
            self.ladder.hold(now + ladder.raise_interval);
            self.ladder.lower(&ladder, now).or(written)
        } else {
            self.ladder.raise(&ladder, now).or(written)
        }
    }
}
