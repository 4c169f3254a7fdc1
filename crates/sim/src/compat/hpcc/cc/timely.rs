//! Mode 7, TIMELY: the gradient of the round trip, once a round trip. Packets are paced, not segments.

use super::super::plan::Timely as Parameters;
use super::{whole, Ack, Carried, Flows, Path};

/// No key sets these (attributes `Timely*` of `RdmaHw`).
const ALPHA: f64 = 0.875;
const BETA: f64 = 0.8;
const T_LOW_NS: u64 = 50_000;
const T_HIGH_NS: u64 = 500_000;
const MIN_RTT_NS: u64 = 20_000;
/// Increases before hyper-active ones.
const HYPER_AFTER: u32 = 5;

/// A flow's controller.
#[derive(Clone, Debug)]
pub(in super::super) struct Flow {
    line_rate: u64,
    /// Bit/s.
    pub rate: u64,
    /// An ACK beyond this byte ends a round trip; 0 before the first.
    pub last_update: u32,
    /// Increases since the last cut.
    pub stage: u32,
    pub last_rtt_ns: u64,
    /// What a round trip is longer than the one before, smoothed, in ns.
    pub rtt_diff: f64,
}

impl Flow {
    pub fn new(path: Path) -> Self {
        let line_rate = path.line_rate;
        Flow { line_rate, rate: line_rate, last_update: 0, stage: 0, last_rtt_ns: 0, rtt_diff: 0.0 }
    }

    /// An ACK of a data packet made at `made_ns`: the rate to send at, if a round trip is over.
    pub fn on_ack(&mut self, p: &Parameters, ack: &Ack, made_ns: u64) -> Option<u64> {
        if ack.seq <= self.last_update {
            return None;
        }
        let rtt = ack.now_ns - made_ns;
        let rate = (self.last_update != 0).then(|| self.step(p, rtt));
        // Back-to-zero may have taken the sender back behind it.
        if ack.snd_nxt > self.last_update {
            self.last_update = ack.snd_nxt;
            self.last_rtt_ns = rtt;
        }
        rate
    }

    fn step(&mut self, p: &Parameters, rtt: u64) -> u64 {
        let longer = rtt as i64 - self.last_rtt_ns as i64;
        self.rtt_diff = (1.0 - ALPHA) * self.rtt_diff + ALPHA * longer as f64;
        let gradient = self.rtt_diff / MIN_RTT_NS as f64;
        let factor = if rtt < T_LOW_NS {
            None
        } else if rtt > T_HIGH_NS {
            Some(1.0 - BETA * (1.0 - T_HIGH_NS as f64 / rtt as f64))
        } else if gradient <= 0.0 {
            None
        } else {
            Some((1.0 - BETA * gradient).max(0.0))
        };
        match factor {
            Some(factor) => {
                self.rate = whole(self.rate as f64 * factor).max(p.min_rate_bps);
                self.stage = 0;
            }
            None => {
                let add = if self.stage < HYPER_AFTER { p.rate_ai_bps } else { p.rate_hai_bps };
                self.rate = (self.rate + add).min(self.line_rate);
                self.stage += 1;
            }
        }
        self.rate
    }
}

/// All flows, and when their packets were made.
#[derive(Debug)]
pub(in super::super) struct Mode {
    parameters: Parameters,
    pub flows: Flows<Flow>,
    pub made_ns: Carried<u64>,
}

impl Mode {
    pub fn new(parameters: &Parameters) -> Self {
        Mode { parameters: *parameters, flows: Flows::default(), made_ns: Carried::default() }
    }

    pub fn on_ack(&mut self, flow: u32, packet: u32, ack: &Ack) -> Option<u64> {
        self.flows.get(flow)?.on_ack(&self.parameters, ack, self.made_ns.0[packet as usize])
    }
}
