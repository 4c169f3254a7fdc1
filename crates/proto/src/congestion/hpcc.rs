//! HPCC: switches write their load into each packet, and the sender computes from it the window that fits.
//!
//! Source: Li et al., "HPCC: High Precision Congestion Control", SIGCOMM 2019, section 3 and algorithm 1.
//!
//! The bytes in flight over a link are `I = queue + txRate * T`; `U = I / (B * T)` is its normalised load.
//! For the most loaded link of the path the sender keeps an average of U over a base round trip `T`. Above the
//! target `eta` it divides its window by `U / eta`; below, it adds `W_AI` up to `max_stage` times, then divides again, which
//! then is an increase. Each ACK computes a window from the *reference window* `Wc`, and `Wc` itself moves once a round trip:
//! so a sender reacts to each ACK, and to each byte of a queue only once (section 3.2, "fast reaction without
//! overreaction").
//!
//! Where the algorithm leaves it open: the average starts at U = 1 (a flow starts with a full window and expects a full
//! link), and a flow's first ACK only sets the record of its links. The paper's simulator does the same.
//!
//! Leaves out: the header's own units (section 4: time in ns of 24 bits, bytes sent in 128 B, queue in 80 B),
//! the path's identity in it (a change of path is seen by the number of hops or by counters that go back), rates
//! for each hop, and the NIC's division by table.

use super::{check_bounds, AckInfo, HopTelemetry, RoundTrip};
use crate::units::{Rate, Time};

/// Most links on a path that telemetry tells of (section 4: 42 B hold five).
pub const MAX_HOPS: usize = 5;

/// Parameters of a flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HpccParameters {
    /// T: round trip without queues, the same for all flows.
    pub base_rtt: Time,
    /// Rate of the sender's link. `line_rate * base_rtt` is the first and the largest window.
    pub line_rate: Rate,
    /// Target utilisation.
    pub eta: f64,
    /// Additive steps before a multiplicative one, below the target.
    pub max_stage: u32,
    /// W_AI, bytes: the additive step, and what makes flows equal.
    pub additive_bytes: f64,
    /// Lowest rate, bit/s.
    pub min_rate: f64,
}

impl HpccParameters {
    /// # Errors
    /// One line naming the parameter that makes no sense.
    pub fn check(&self) -> Result<(), String> {
        check_bounds(self.min_rate, self.line_rate)?;
        if self.base_rtt == Time::ZERO {
            return Err("base_rtt must be above 0".into());
        }
        if !(self.eta > 0.0 && self.eta <= 1.0) {
            return Err("eta is not above 0 and up to 1".into());
        }
        if !(self.additive_bytes >= 0.0 && self.additive_bytes.is_finite()) {
            return Err("additive_bytes is below 0".into());
        }
        Ok(())
    }

    fn window_at(&self, rate: f64) -> f64 {
        rate * self.base_rtt.0 as f64 / 8e12
    }

    /// The window at line rate, bytes: B_NIC * T.
    pub fn max_window(&self) -> f64 {
        self.window_at(self.line_rate.0 as f64)
    }

    /// The window at the lowest rate, bytes.
    pub fn min_window(&self) -> f64 {
        self.window_at(self.min_rate)
    }
}

/// The sender's side of HPCC, for one flow.
#[derive(Clone, Debug)]
pub struct Hpcc {
    /// W, bytes.
    window: f64,
    /// Wc, bytes.
    reference: f64,
    /// U, the average load of the most loaded link.
    load: f64,
    stage: u32,
    round: RoundTrip,
    /// R = W / T, bit/s.
    rate: f64,
    /// L: what the last ACK said of each link.
    links: [HopTelemetry; MAX_HOPS],
    links_known: usize,
}

impl Hpcc {
    /// A new flow: a full window at line rate.
    pub fn new(p: &HpccParameters) -> Self {
        let none = HopTelemetry { at: Time::ZERO, tx_bytes: 0, queue_bytes: 0, rate: p.line_rate };
        Hpcc {
            window: p.max_window(),
            reference: p.max_window(),
            load: 1.0,
            stage: 0,
            round: RoundTrip::default(),
            rate: p.line_rate.0 as f64,
            links: [none; MAX_HOPS],
            links_known: 0,
        }
    }

    /// Rate, bit/s.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// Bytes that may be in flight.
    pub fn window_bytes(&self) -> Option<u64> {
        Some((self.window as u64).max(1))
    }

    /// U: average load of the path's most loaded link; 1 is a full link without a queue.
    pub fn load(&self) -> f64 {
        self.load
    }

    /// An acknowledgement arrived (procedure NewAck).
    pub fn on_ack(&mut self, p: &HpccParameters, ack: &AckInfo) {
        let measured = self.measure_inflight(p, ack.hops);
        let round_over = self.round.ends(ack);
        if measured {
            self.compute_window(p, round_over);
        }
    }

    /// Brings the average of the load up to date; `false` where the telemetry has nothing to compare with.
    fn measure_inflight(&mut self, p: &HpccParameters, hops: &[HopTelemetry]) -> bool {
        let hops = &hops[..hops.len().min(MAX_HOPS)];
        let known = &self.links[..self.links_known];
        let same_path = known.len() == hops.len()
            && known.iter().zip(hops).all(|(old, new)| new.at >= old.at && new.tx_bytes >= old.tx_bytes);
        let t = p.base_rtt.0 as f64;
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

    fn compute_window(&mut self, p: &HpccParameters, round_over: bool) {
        let multiplicative = self.load >= p.eta || self.stage >= p.max_stage;
        let window = if multiplicative {
            // A load of 0 makes this infinite, which the bound takes back.
            self.reference / (self.load / p.eta) + p.additive_bytes
        } else {
            self.reference + p.additive_bytes
        };
        self.window = window.clamp(p.min_window(), p.max_window());
        if round_over {
            self.reference = self.window;
            self.stage = if multiplicative { 0 } else { self.stage + 1 };
        }
        self.rate = (self.window * 8e12 / p.base_rtt.0 as f64).clamp(p.min_rate, p.line_rate.0 as f64);
    }
}
