//! HPCC: switches write their load into each packet, and the sender computes from it the window that fits.
//!
//! Source: Li et al., "HPCC: High Precision Congestion Control", SIGCOMM 2019, section 3 and algorithm 1.
//!
//! The bytes in flight over a link are `I = queue + txRate * T`; `U = I / (B * T)` is its normalised load.
//! For the most loaded link of the route the sender keeps an average of U over a base round trip `T`. Above the
//! target `eta` it divides its window by `U / eta`; below, it adds `W_AI` up to `max_stage` times, then divides again, which
//! then is an increase. Each ACK computes a window from the *reference window* `Wc`, and `Wc` itself moves once a round trip:
//! so a sender reacts to each ACK, and to each byte of a queue only once (section 3.2, "fast reaction without
//! overreaction").
//!
//! Where the algorithm leaves it open: the average starts at U = 1 (a flow starts with a full window and expects a full
//! link), and a flow's first ACK only sets the record of its links. The paper's simulator does the same.
//!
//! Leaves out: the header's own units (section 4: time in ns of 24 bits, bytes sent in 128 B, queue in 80 B),
//! the identity of the route in it (a change of route is seen by the number of hops or by counters that go back), rates
//! for each hop, and the NIC's division by table.

use std::num::NonZeroU16;
use std::sync::Arc;

use super::parameters::{Refused, RoundTrip, POSITIVE_RATE, SHARE, SPANS, TELEMETRY_BYTES};
use super::{AckInfo, Controller, HopTelemetry, Link, Merged, Round, Signal, Uses};
use crate::units::{Bytes, Rate, Time};

/// Most links on a route that telemetry tells of (section 4: 42 B hold five).
pub const MAX_HOPS: usize = 5;

pub(super) const LI: &str = "Li et al. (HPCC), SIGCOMM 2019";
pub(super) const SIMULATOR: &str = "the HPCC authors' simulator";

/// Declares the settings of a controller with a [`WindowLaw`]: those of the law, and after them the controller's own.
macro_rules! window_parameters {
    ($(#[doc = $about:literal])+ pub struct $Name:ident { $($own:tt)* }) => {
        $crate::parameters! {
            $(#[doc = $about])+
            pub struct $Name {
                /// T: round trip without queues, the same for the whole network and not below that of any queue pair. The
                /// largest window is the link's rate times T.
                base_rtt: RoundTrip = RoundTrip::AUTO, in SPANS,
                    source format!("{LI}, section 5.1: a little above the longest in its fabric");
                /// Utilisation to aim at.
                eta: f64 = 0.95, in SHARE, source format!("{LI}, section 5.1");
                /// Additive steps before a multiplicative one, below eta. The authors' site says that the paper's simulations
                /// ran with 0, as their simulator does, and that 5 is a slip.
                max_stage: u32 = 5, in 0..=1000, source format!("{LI}, section 5.1");
                /// W_AI: what the window gains in a step; it makes queue pairs equal, and with N of them it costs a queue once
                /// N * W_AI is above (1 - eta) of the largest window.
                additive: Bytes = Bytes(80), in Bytes(0)..=Bytes(1_000_000_000), source format!("{LI}, section 5.1");
                /// Lowest rate of a queue pair.
                min_rate: Rate = Rate::from_mbps(100), in POSITIVE_RATE, source format!("{SIMULATOR}: MIN_RATE");
                $($own)*
            }
        }

        impl $Name {
            /// # Errors
            /// A setting is out of bounds, also for this link.
            fn windows(&self, link: Link) -> Result<WindowLaw, Refused> {
                Refused::above_link(self.min_rate, "min_rate", link.rate)?;
                $crate::parameters::Declared::check(self)?;
                Ok(WindowLaw {
                    base_rtt_ps: self.base_rtt.0 .0 as f64,
                    eta: self.eta,
                    max_stage: self.max_stage,
                    additive_bytes: self.additive.0 as f64,
                    min_rate: self.min_rate.bps(),
                    line_rate: link.rate.bps(),
                })
            }
        }
    };
}

window_parameters! {
    /// HPCC: switches write their load into packets, and the sender computes its window from it.
    pub struct HpccParameters {
        /// What telemetry adds to each data packet and each ACK.
        telemetry: Bytes = Bytes(42), in TELEMETRY_BYTES, source format!("{LI}, section 4: five hops");
    }
}

/// How windows follow a load, on a link.
#[derive(Clone, Copy, Debug)]
pub struct WindowLaw {
    /// T, ps.
    pub base_rtt_ps: f64,
    /// Load to aim at.
    pub eta: f64,
    /// Additive steps before a multiplicative one.
    pub max_stage: u32,
    /// W_AI, bytes: here it may be a fraction.
    pub additive_bytes: f64,
    /// Lowest rate, bit/s.
    pub min_rate: f64,
    /// Highest rate, bit/s.
    pub line_rate: f64,
}

impl WindowLaw {
    fn window_at(&self, rate: f64) -> f64 {
        rate * self.base_rtt_ps / 8e12
    }

    /// The window at line rate, bytes: B_NIC * T.
    pub fn max_window(&self) -> f64 {
        self.window_at(self.line_rate)
    }

    /// The window at the lowest rate, bytes.
    pub fn min_window(&self) -> f64 {
        self.window_at(self.min_rate)
    }
}

/// A flow's window, and the rate that paces it.
#[derive(Clone, Debug)]
pub(super) struct Window {
    /// W, bytes.
    bytes: f64,
    /// Wc, bytes.
    reference: f64,
    stage: u32,
    /// R = W / T, bit/s.
    pub rate: f64,
}

impl Window {
    /// A full one, at line rate.
    pub fn full(p: &WindowLaw) -> Self {
        Window { bytes: p.max_window(), reference: p.max_window(), stage: 0, rate: p.line_rate }
    }

    /// Whole bytes that may be in flight.
    pub fn whole_bytes(&self) -> u64 {
        (self.bytes as u64).max(1)
    }

    /// Function ComputeWind: the load of the route is known anew.
    pub fn follow(&mut self, p: &WindowLaw, load: f64, round_over: bool) {
        let multiplicative = load >= p.eta || self.stage >= p.max_stage;
        let window = if multiplicative {
            // A load of 0 makes this infinite, which the bound takes back.
            self.reference / (load / p.eta) + p.additive_bytes
        } else {
            self.reference + p.additive_bytes
        };
        self.bytes = window.clamp(p.min_window(), p.max_window());
        if round_over {
            self.reference = self.bytes;
            self.stage = if multiplicative { 0 } else { self.stage + 1 };
        }
        self.rate = (self.bytes * 8e12 / p.base_rtt_ps).clamp(p.min_rate, p.line_rate);
    }
}

/// HPCC's parameters on a link.
#[derive(Clone, Copy, Debug)]
pub struct HpccLaw {
    /// How its windows follow the load.
    pub windows: WindowLaw,
    telemetry_bytes: u32,
    /// Rate of the sender's link.
    link_rate: Rate,
}

/// The sender's side of HPCC, for one flow.
#[derive(Clone, Debug)]
pub struct Hpcc {
    window: Window,
    /// U, the average load of the most loaded link.
    load: f64,
    round: Round,
    /// L: what the last ACK said of each link.
    /// Boxed: they would make every queue pair large.
    links: Box<[HopTelemetry; MAX_HOPS]>,
    links_known: usize,
}

impl Controller for Hpcc {
    type Parameters = HpccParameters;
    type Law = HpccLaw;

    // A window must not wait for an ACK that none asked for.
    const USES: Uses = Uses { acks: true, each_ack: true, telemetry: true, window: true, ..Uses::NOTHING };

    fn law(parameters: &HpccParameters, link: Link) -> Result<HpccLaw, Refused> {
        let (windows, telemetry_bytes) = (parameters.windows(link)?, parameters.telemetry.0 as u32);
        Ok(HpccLaw { windows, telemetry_bytes, link_rate: link.rate })
    }

    fn telemetry_bytes(law: &HpccLaw) -> u32 {
        law.telemetry_bytes
    }

    /// A full window at line rate.
    fn new(p: &HpccLaw) -> Self {
        let none = HopTelemetry { at: Time::ZERO, tx_bytes: 0, queue_bytes: 0, rate: p.link_rate };
        Hpcc {
            window: Window::full(&p.windows),
            load: 1.0,
            round: Round::default(),
            links: Box::new([none; MAX_HOPS]),
            links_known: 0,
        }
    }

    fn rate(&self) -> f64 {
        self.window.rate
    }

    fn window_bytes(&self) -> Option<u64> {
        Some(self.window.whole_bytes())
    }

    /// Procedure NewAck.
    fn on_ack(&mut self, p: &HpccLaw, ack: &AckInfo) {
        let measured = self.measure_inflight(p, ack.hops);
        let round_over = self.round.ends(ack);
        if measured {
            self.window.follow(&p.windows, self.load, round_over);
        }
    }
}

impl Hpcc {
    /// U: average load of the most loaded link on the route; 1 is a full link without a queue.
    pub fn load(&self) -> f64 {
        self.load
    }

    /// Brings the average of the load up to date; `false` where the telemetry has nothing to compare with.
    fn measure_inflight(&mut self, p: &HpccLaw, hops: &[HopTelemetry]) -> bool {
        let hops = &hops[..hops.len().min(MAX_HOPS)];
        let known = &self.links[..self.links_known];
        let same_path = known.len() == hops.len()
            && known.iter().zip(hops).all(|(old, new)| new.at >= old.at && new.tx_bytes >= old.tx_bytes);
        let t = p.windows.base_rtt_ps;
        let mut most: Option<(f64, f64)> = None;
        if same_path {
            for (old, new) in known.iter().zip(hops) {
                let span = (new.at - old.at).0 as f64;
                if span == 0.0 || new.rate.0 == 0 {
                    continue;
                }
                // Bytes in a picosecond at the link's rate.
                let capacity = new.rate.0 as f64 / 8e12;
                let tx_share = (new.tx_bytes - old.tx_bytes) as f64 / (span * capacity);
                // The smaller of the two queues: a queue that one burst made is not yet congestion.
                let queue_share = new.queue_bytes.min(old.queue_bytes) as f64 / (capacity * t);
                let u = tx_share + queue_share;
                if most.is_none_or(|(largest, _)| u > largest) {
                    most = Some((u, span));
                }
            }
        }
        self.links[..hops.len()].copy_from_slice(hops);
        self.links_known = hops.len();
        let Some((u, span)) = most else { return false };
        let weight = span.min(t) / t;
        self.load = (1.0 - weight) * self.load + weight * u;
        true
    }
}

// HPCC over PINT: switches keep the average of their own load, and a packet brings the largest of its way in a byte.
//
// Source: Ben Basat et al., "PINT: Probabilistic In-band Network Telemetry", SIGCOMM 2020, its query for HPCC; the window is
// that of Li et al., "HPCC", SIGCOMM 2019, algorithm 1.
//
// What an HPCC sender works out from two ACKs, each egress works out when a data packet leaves it: with B its rate, T the base
// round trip, tau the time since the data packet before, and the bytes sent since then,
// `U = (1 - tau / T) * U + tau / T * (queue / (B * T) + bytes / (B * tau))`. U becomes a power of `base`, the one below
// or the one above by chance, so that it is right on average. A packet keeps the largest number of its way. Only a share
// `probability` of the packets has one: a hash of the packet, which all switches know, says which.
//
// Where the paper leaves it open, as in the HPCC authors' simulator: the smallest load coded is 1/512, and a flow's
// first ACK with a digest only begins its round trip.
//
// Leaves out: the switch's arithmetic (logarithms by table, and numbers of 16 bits: here U is a float, and only the digest
// is rounded), other queries beside this one, and that the largest of several rounded numbers is on average a little above the
// largest load.

/// The smallest load that a digest tells: code 1.
const LEAST_LOAD: f64 = 1.0 / 512.0;

/// No digest needs to tell more: 2^18 of the smallest.
const MOST_LOAD: f64 = 512.0;

window_parameters! {
    /// PINT: HPCC, where a packet brings the largest load of its route in a byte or two.
    pub struct PintParameters {
        /// From one code of a digest to the next the load grows by this factor.
        base: f64 = 1.05, in 1.0002..=2.0, source format!("{SIMULATOR}: PINT_LOG_BASE");
        /// Share of the packets that carry a digest.
        probability: f64 = 1.0, in SHARE, source format!("{SIMULATOR}: PINT_PROB");
        /// What a digest adds to each data packet and each ACK.
        telemetry: Bytes = Bytes(1), in Bytes(1)..=Bytes(2), source "assumption: what the default base takes; the PINT authors' site says 2 B at most";
    }
}

/// Load of an egress, as it averages it itself; 1 is a full link without a queue.
#[derive(Clone, Copy, Debug, Default)]
pub struct EgressLoad {
    average: f64,
    at: Time,
    tx_bytes: u64,
}

/// How switches put their load in a digest, and what it then says.
#[derive(Clone, Debug, PartialEq)]
pub struct Digests {
    base_rtt_ps: f64,
    /// How many of 2^32 packets carry a digest.
    carriers: f64,
    /// The load that each code stands for, from code 1 on.
    loads: Arc<[f64]>,
}

impl Digests {
    /// # Errors
    /// A full link could not be told.
    fn new(p: &PintParameters) -> Result<Self, Refused> {
        let most = (1 << (8 * p.telemetry.0)) - 1; // code 0: no digest
        let powers =
            std::iter::successors(Some(LEAST_LOAD), |load| (*load < MOST_LOAD).then_some(load * p.base));
        let loads: Arc<[f64]> = powers.take(most).collect();
        let largest = loads[loads.len() - 1];
        let enough = format!("larger: {} of telemetry would tell loads up to {largest:.3} only", in_bytes(p));
        Refused::unless(largest > 1.0, "base", enough)?;
        Ok(Digests { base_rtt_ps: p.base_rtt.0 .0 as f64, carriers: p.probability * 2f64.powi(32), loads })
    }

    /// True if a packet with this hash carries one.
    pub fn is_carrier(&self, hash: u32) -> bool {
        (hash as f64) < self.carriers
    }

    /// The code of a load; `chance`, in [0, 1), takes it down or up.
    pub fn code(&self, load: f64, chance: f64) -> NonZeroU16 {
        let above = self.loads.partition_point(|&coded| coded <= load);
        let index = match (above.checked_sub(1), self.loads.get(above)) {
            (None, _) => 0,
            (Some(last), None) => last,
            (Some(below), Some(&high)) => {
                let low = self.loads[below];
                if chance * (high - low) < load - low {
                    above
                } else {
                    below
                }
            }
        };
        NonZeroU16::new(index as u16 + 1).expect("codes begin at 1")
    }

    /// The load that a code stands for.
    pub fn load(&self, code: NonZeroU16) -> f64 {
        self.loads[(code.get() as usize).min(self.loads.len()) - 1]
    }

    /// A data packet leaves an egress: its load now.
    pub fn measure(&self, load: &mut EgressLoad, hop: &HopTelemetry) -> f64 {
        let span = (hop.at - load.at).0 as f64;
        if span > 0.0 {
            // Bytes in a picosecond at the link's rate.
            let capacity = hop.rate.0 as f64 / 8e12;
            let sent_share = (hop.tx_bytes - load.tx_bytes) as f64 / (span * capacity);
            let queue_share = hop.queue_bytes as f64 / (capacity * self.base_rtt_ps);
            let weight = span.min(self.base_rtt_ps) / self.base_rtt_ps;
            load.average = (1.0 - weight) * load.average + weight * (sent_share + queue_share);
            (load.at, load.tx_bytes) = (hop.at, hop.tx_bytes);
        }
        load.average
    }
}

fn in_bytes(p: &PintParameters) -> String {
    crate::congestion::parameters::in_words(p.telemetry)
}

/// Parameters on a link.
#[derive(Debug)]
pub struct PintLaw {
    /// How its windows follow the load.
    pub windows: WindowLaw,
    digests: Digests,
    telemetry_bytes: u32,
}

/// The sender's side, for one flow.
#[derive(Clone, Debug)]
pub struct Pint {
    window: Window,
    /// What the last digest said; 0 before the first.
    load: f64,
    round: Round,
}

impl Controller for Pint {
    type Parameters = PintParameters;
    type Law = PintLaw;

    const USES: Uses = Uses { acks: true, each_ack: true, telemetry: true, window: true, ..Uses::NOTHING };
    const SIGNALS: &'static [Signal<Self>] = &[Signal {
        name: "load",
        unit: "",
        help: "Load of the most loaded link by the last digest, 1 a full link without a queue; 0 before the first.",
        merged: Merged::Last,
        read: |flow, _| flow.load,
    }];

    fn law(parameters: &PintParameters, link: Link) -> Result<PintLaw, Refused> {
        let (windows, telemetry_bytes) = (parameters.windows(link)?, parameters.telemetry.0 as u32);
        Ok(PintLaw { windows, digests: Digests::new(parameters)?, telemetry_bytes })
    }

    fn telemetry_bytes(law: &PintLaw) -> u32 {
        law.telemetry_bytes
    }

    fn digests(law: &PintLaw) -> Option<&Digests> {
        Some(&law.digests)
    }

    /// A full window at line rate.
    fn new(p: &PintLaw) -> Self {
        Pint { window: Window::full(&p.windows), load: 0.0, round: Round::default() }
    }

    fn rate(&self) -> f64 {
        self.window.rate
    }

    fn window_bytes(&self) -> Option<u64> {
        Some(self.window.whole_bytes())
    }

    fn on_ack(&mut self, p: &PintLaw, ack: &AckInfo) {
        let Some(code) = ack.digest else { return };
        self.load = p.digests.load(code);
        let is_first = !self.round.has_begun();
        let round_over = self.round.ends(ack);
        if !is_first {
            self.window.follow(&p.windows, self.load, round_over);
        }
    }
}
