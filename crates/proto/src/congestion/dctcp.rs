//! DCTCP with a rate, as RDMA simulators use it to compare with.
//!
//! Sources: Alizadeh et al., "Data Center TCP (DCTCP)", SIGCOMM 2010, section 3.1: alpha is the average of the share of
//! marked bytes in each window of data (equation 1), and a window with a mark is cut by alpha / 2 (equation 2), once;
//! RFC 8257, section 3.3 (shares in bytes; alpha starts at 1, so that a flow's first cut halves). A rate in place of
//! the window, an additive increase of the rate once a round trip, and a start at line rate: the simulator of Li et al.,
//! "HPCC", SIGCOMM 2019, section 5.1, which compares with it.
//!
//! The bytes in flight may be limited besides, to the rate times a round trip without queues: DCTCP is a window's
//! controller, and without one a sender fills a queue for as long as the ACKs that tell of it are on their way.
//!
//! Leaves out: TCP. No slow start, no loss recovery, no delayed ACKs (each packet's mark comes back).

use super::parameters::{Refused, RoundTrip, POSITIVE_RATE, RATE_STEPS, SHARE, SPANS};
use super::{AckInfo, Controller, Link, Merged, OnLink, Round, Signal, Uses};
use crate::parameters;
use crate::units::Rate;

const SIMULATOR: &str = "the HPCC authors' simulator";

parameters! {
    /// DCTCP with a rate: the share of marks sets the cut. Its ECN threshold K belongs to the switch.
    pub struct DctcpParameters {
        /// Weight of the newest window in the share of marks.
        g: f64 = 0.0625, in SHARE, source "Alizadeh et al. (DCTCP), SIGCOMM 2010: 1/16";
        /// What the rate gains in a round trip without marks.
        additive: Rate = Rate::from_mbps(615), in RATE_STEPS, source format!("{SIMULATOR}, run.py: a packet of 1 KB each 13 us");
        /// Lowest rate of a queue pair.
        min_rate: Rate = Rate::from_mbps(100), in POSITIVE_RATE, source format!("{SIMULATOR}: MIN_RATE");
        /// A queue pair's window is its rate times this, the round trip without queues; null: no window.
        window_rtt: Option<RoundTrip> = Some(RoundTrip::AUTO), in SPANS,
            source format!("{SIMULATOR}, run.py: a window that follows the rate, and GLOBAL_T, the longest round trip");
    }
}

/// DCTCP's parameters on a link.
pub type DctcpLaw = OnLink<DctcpParameters>;

/// The sender's side of DCTCP, for one flow.
#[derive(Clone, Debug)]
pub struct Dctcp {
    rate: f64,
    alpha: f64,
    /// Of the window of data that is being acknowledged.
    acked: u64,
    marked: u64,
    round: Round,
    /// Present after a cut: no other until data is acknowledged that was sent after it.
    cut_holds_until: Option<u64>,
    window: Option<u64>,
}

impl Controller for Dctcp {
    type Parameters = DctcpParameters;
    type Law = DctcpLaw;

    // A share of marks is one of all packets.
    const USES: Uses = Uses { acks: true, each_ack: true, window: true, ..Uses::NOTHING };
    const SIGNALS: &'static [Signal<Self>] = &[Signal {
        name: "alpha",
        unit: "",
        help: "Average share of marked bytes, 0 to 1.",
        merged: Merged::Mean,
        read: |flow, _| flow.alpha,
    }];

    fn law(parameters: &DctcpParameters, link: Link) -> Result<DctcpLaw, Refused> {
        Refused::above_link(parameters.min_rate, "min_rate", link.rate)?;
        OnLink::new(*parameters, link)
    }

    /// At line rate, with alpha at 1.
    fn new(p: &DctcpLaw) -> Self {
        let mut dctcp = Dctcp {
            rate: p.line_rate,
            alpha: 1.0,
            acked: 0,
            marked: 0,
            round: Round::default(),
            cut_holds_until: None,
            window: None,
        };
        dctcp.set_rate(p, dctcp.rate);
        dctcp
    }

    fn rate(&self) -> f64 {
        self.rate
    }

    fn window_bytes(&self) -> Option<u64> {
        self.window
    }

    fn on_ack(&mut self, p: &DctcpLaw, ack: &AckInfo) {
        self.acked = self.acked.saturating_add(ack.newly_acked_bytes);
        let marked = if ack.marked { ack.newly_acked_bytes } else { 0 };
        self.marked = self.marked.saturating_add(marked);
        // The first ACK begins the first window; what it answers belongs to it.
        let round_over = self.round.has_begun() & self.round.ends(ack);
        if round_over && self.acked > 0 {
            let share = self.marked as f64 / self.acked as f64;
            self.alpha = (1.0 - p.g) * self.alpha + p.g * share;
            (self.acked, self.marked) = (0, 0);
        }
        if self.cut_holds_until.is_some_and(|end| ack.acknowledged_bytes > end) {
            self.cut_holds_until = None;
        }
        if ack.marked && self.cut_holds_until.is_none() {
            self.cut_holds_until = Some(ack.sent_bytes);
            self.set_rate(p, self.rate * (1.0 - self.alpha / 2.0));
        } else if round_over && self.cut_holds_until.is_none() {
            self.set_rate(p, self.rate + p.additive.bps());
        }
    }
}

impl Dctcp {
    /// Average share of marked bytes, 0 to 1.
    pub fn alpha(&self) -> f64 {
        self.alpha
    }

    fn set_rate(&mut self, p: &DctcpLaw, rate: f64) {
        self.rate = rate.clamp(p.min_rate.bps(), p.line_rate);
        self.window = p.window_rtt.map(|rtt| ((self.rate * rtt.0 .0 as f64 / 8e12) as u64).max(1));
    }
}
