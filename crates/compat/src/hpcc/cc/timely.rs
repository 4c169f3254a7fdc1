//! Mode 7, TIMELY: the gradient of the round trip, once a round trip. Packets are paced, not segments.

use super::super::plan::Timely as Parameters;
use super::{whole, Ack, Flows, PerPacket, Start};

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
    /// By how much a round trip is longer than the one before, smoothed, in ns.
    pub rtt_diff: f64,
}

impl Flow {
    pub fn new(start: Start) -> Self {
        let line_rate = start.line_rate;
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
    pub made_ns: PerPacket<u64>,
}

impl Mode {
    pub fn new(parameters: &Parameters) -> Self {
        Mode { parameters: *parameters, flows: Flows::default(), made_ns: PerPacket::default() }
    }

    pub fn on_ack(&mut self, flow: u32, packet: u32, ack: &Ack) -> Option<u64> {
        self.flows.get(flow)?.on_ack(&self.parameters, ack, self.made_ns.0[packet as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const G100: u64 = 100_000_000_000;
    const PARAMETERS: Parameters =
        Parameters { rate_ai_bps: 100_000_000, rate_hai_bps: 500_000_000, min_rate_bps: 1_000_000_000 };

    /// One round trip after the other, of these ns: the rates after them.
    fn rates(start: u64, rtts: &[u64]) -> Vec<u64> {
        let mut flow = Flow::new(Start { line_rate: G100, base_rtt_ns: 4160, window: 0 });
        flow.rate = start;
        let mut rates = Vec::new();
        for (round, &rtt) in (1..).zip(rtts) {
            let ack = Ack { now_ns: rtt, seq: round * 1000, snd_nxt: round * 1000 + 500, marked: false };
            rates.extend(flow.on_ack(&PARAMETERS, &ack, 0));
            // Within the round trip nothing happens.
            assert_eq!(flow.on_ack(&PARAMETERS, &Ack { seq: round * 1000 + 500, ..ack }, 0), None);
        }
        rates
    }

    #[test]
    fn short_round_trips_add_and_after_five_add_more() {
        let g10 = G100 / 10;
        let steps = [100, 200, 300, 400, 500, 1000, 1500].map(|mbps| g10 + mbps * 1_000_000);
        assert_eq!(rates(g10, &[9000; 8]), steps);
        assert_eq!(rates(G100, &[9000; 2]), [G100]);
    }

    /// 104 us after 100 us: 0.875 * 4 us of 20 us is a gradient of 0.175, and 1 - 0.8 * 0.175 is 0.86. Then 100 us again:
    /// (0.125 * 3.5 us - 0.875 * 4 us) is below 0.
    #[test]
    fn the_gradient_decides_between_the_thresholds() {
        let found = rates(G100, &[100_000, 104_000, 100_000]);
        assert!(found[0].abs_diff(86_000_000_000) <= 1, "{found:?}");
        assert_eq!(found[1], found[0] + 100_000_000);
    }

    /// 1 ms: 1 - 0.8 * (1 - 0.5). A gradient above 1.25 would cut everything, except for the lowest rate.
    #[test]
    fn long_round_trips_cut() {
        let found = rates(G100, &[1_000_000; 2]);
        assert!(found[0].abs_diff(60_000_000_000) <= 1, "{found:?}");
        assert_eq!(rates(G100, &[60_000, 400_000]), [1_000_000_000]);
    }

    /// Back-to-zero may leave the next byte behind what was acknowledged: the round trip goes on.
    #[test]
    fn a_sender_that_was_taken_back_keeps_its_round_trip() {
        let mut flow = Flow::new(Start { line_rate: G100, base_rtt_ns: 4160, window: 0 });
        let ack = |seq, snd_nxt| Ack { now_ns: 9000, seq, snd_nxt, marked: false };
        flow.on_ack(&PARAMETERS, &ack(1000, 9000), 0);
        flow.on_ack(&PARAMETERS, &ack(9500, 8000), 1000);
        assert_eq!((flow.last_update, flow.last_rtt_ns), (9000, 9000));
    }
}
