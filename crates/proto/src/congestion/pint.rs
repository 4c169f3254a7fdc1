//! HPCC over PINT: switches keep the average of their own load, and a packet brings the largest of its way in a byte.
//!
//! Source: Ben Basat et al., "PINT: Probabilistic In-band Network Telemetry", SIGCOMM 2020, its query for HPCC; the window is
//! that of Li et al., "HPCC", SIGCOMM 2019, algorithm 1.
//!
//! What an HPCC sender works out from two ACKs, each egress works out when a data packet leaves it: with B its rate, T the base
//! round trip, tau the time since the data packet before, and the bytes sent since then,
//! `U = (1 - tau / T) * U + tau / T * (queue / (B * T) + bytes / (B * tau))`. U becomes a power of `base`, the one below
//! or the one above by chance, so that it is right on average. A packet keeps the largest number of its way. Only a share
//! `probability` of the packets has one: a hash of the packet, which all switches know, says which.
//!
//! Where the paper leaves it open, as in the HPCC authors' simulator: the smallest load told is 1/512, and a flow's first
//! ACK with a digest only begins its round trip.
//!
//! Leaves out: the switch's arithmetic (logarithms by table, and numbers of 16 bits: here U is a float, and only the digest
//! is rounded), other queries beside this one, and that the largest of several rounded numbers is on average a little above the
//! largest load.

use std::num::NonZeroU16;
use std::sync::Arc;

use super::hpcc::{window_parameters, Window, WindowLaw, LI, SIMULATOR};
use super::parameters::{Refused, RoundTrip, POSITIVE_RATE, SHARE, SPAN};
use super::{AckInfo, Controller, HopTelemetry, Link, Merged, Round, Signal, Uses};
use crate::units::{Bytes, Rate, Time};

/// The smallest load that a digest tells: code 1.
const LEAST: f64 = 1.0 / 512.0;
/// No digest needs to tell more: 2^18 of the smallest.
const MOST: f64 = 512.0;

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
        let powers = std::iter::successors(Some(LEAST), |load| (*load < MOST).then_some(load * p.base));
        let loads: Arc<[f64]> = powers.take(most).collect();
        let largest = loads[loads.len() - 1];
        let enough = format!("larger: {} of telemetry would tell loads up to {largest:.3} only", in_bytes(p));
        Refused::unless(largest > 1.0, "base", enough)?;
        Ok(Digests { base_rtt_ps: p.base_rtt.0 .0 as f64, carriers: p.probability * 2f64.powi(32), loads })
    }

    /// Whether a packet with this hash carries one.
    pub fn is_carrier(&self, hash: u32) -> bool {
        (hash as f64) < self.carriers
    }

    /// The code of a load; `chance`, in [0, 1), takes it down or up.
    pub fn code(&self, load: f64, chance: f64) -> NonZeroU16 {
        let above = self.loads.partition_point(|&told| told <= load);
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
    super::parameters::in_words(p.telemetry)
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
