//! Mode 8, DCTCP with a rate: the share of marked ACKs, once a round trip.

use super::super::plan::Dctcp as Parameters;
use super::{whole, Ack, Flows, Start};

/// A flow's controller.
#[derive(Clone, Debug)]
pub(in super::super) struct Flow {
    line_rate: u64,
    /// Bit/s.
    pub rate: u64,
    /// An ACK beyond this byte ends a round trip; 0 before the first.
    pub last_update: u32,
    /// The rate was cut, and the packets sent before that are not all acknowledged: "congestion window reduced".
    pub reduced: bool,
    /// The first byte that was not sent when the rate was cut.
    pub high_seq: u32,
    /// Estimate of the share of marked packets.
    pub alpha: f64,
    /// Marked ACKs of this round trip.
    pub marked: u32,
    /// Packets of this round trip.
    pub batch: u32,
}

impl Flow {
    pub fn new(start: Start) -> Self {
        let line_rate = start.line_rate;
        Flow {
            line_rate,
            rate: line_rate,
            last_update: 0,
            reduced: false,
            high_seq: 0,
            alpha: 1.0,
            marked: 0,
            batch: 0,
        }
    }

    /// An ACK: the rate to send at, in packets of `payload_bytes`.
    pub fn on_ack(&mut self, p: &Parameters, payload_bytes: u32, ack: &Ack) -> u64 {
        // In 64 bits there: what was sent may lie behind what is acknowledged after back-to-zero.
        let packets = |bytes: u64| (bytes / payload_bytes as u64).wrapping_add(1) as u32;
        self.marked += ack.marked as u32;
        let round_trip = ack.seq > self.last_update;
        if round_trip && self.last_update == 0 {
            self.batch = packets(ack.snd_nxt as u64);
        } else if round_trip {
            let share = (self.marked as f64 / self.batch as f64).min(1.0);
            self.alpha = (1.0 - p.ewma_gain) * self.alpha + p.ewma_gain * share;
            self.marked = 0;
            self.batch = packets((ack.snd_nxt as u64).wrapping_sub(ack.seq as u64));
        }
        if round_trip {
            self.last_update = ack.snd_nxt;
        }
        self.reduced &= ack.seq <= self.high_seq;
        if ack.marked && !self.reduced {
            self.rate = whole(self.rate as f64 * (1.0 - self.alpha / 2.0)).max(p.min_rate_bps);
            self.reduced = true;
            self.high_seq = ack.snd_nxt;
        }
        if round_trip && !self.reduced {
            self.rate = (self.rate + p.rate_ai_bps).min(self.line_rate);
        }
        self.rate
    }
}

/// All flows.
#[derive(Debug)]
pub(in super::super) struct Mode {
    parameters: Parameters,
    payload_bytes: u32,
    pub flows: Flows<Flow>,
}

impl Mode {
    pub fn new(parameters: &Parameters, payload_bytes: u32) -> Self {
        Mode { parameters: *parameters, payload_bytes, flows: Flows::default() }
    }

    pub fn on_ack(&mut self, flow: u32, ack: &Ack) -> Option<u64> {
        Some(self.flows.get(flow)?.on_ack(&self.parameters, self.payload_bytes, ack))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const G100: u64 = 100_000_000_000;
    const PARAMETERS: Parameters =
        Parameters { ewma_gain: 0.0625, rate_ai_bps: 615_000_000, min_rate_bps: 1_000_000_000 };

    fn flow() -> Flow {
        Flow::new(Start { line_rate: G100, base_rtt_ns: 4160, window: 0 })
    }

    fn ack(seq: u32, snd_nxt: u32, marked: bool) -> Ack {
        Ack { now_ns: 0, seq, snd_nxt, marked }
    }

    /// A cut in a round trip, by half of alpha, which is 1; then no increase until what was sent by then is
    /// acknowledged. One mark of eleven packets: alpha is 15/16 and a 176th.
    #[test]
    fn one_cut_a_round_trip() {
        let mut flow = flow();
        assert_eq!(flow.on_ack(&PARAMETERS, 1000, &ack(1000, 10_000, true)), G100 / 2);
        assert_eq!((flow.batch, flow.marked, flow.high_seq), (11, 1, 10_000));
        assert_eq!(flow.on_ack(&PARAMETERS, 1000, &ack(2000, 11_000, false)), G100 / 2);
        assert_eq!(flow.on_ack(&PARAMETERS, 1000, &ack(10_000, 19_000, false)), G100 / 2);
        assert_eq!(flow.on_ack(&PARAMETERS, 1000, &ack(11_000, 20_000, false)), G100 / 2 + 615_000_000);
        assert!((flow.alpha - (0.9375 + 0.0625 / 11.0)).abs() < 1e-15);
        assert_eq!((flow.batch, flow.marked), (10, 0));
    }

    /// More marks than packets count as all; a rate does not leave its bounds.
    #[test]
    fn bounds() {
        let mut flow = flow();
        assert_eq!(flow.on_ack(&PARAMETERS, 1000, &ack(1000, 1000, false)), G100);
        flow.marked = 9;
        flow.on_ack(&PARAMETERS, 1000, &ack(2000, 3000, false));
        assert_eq!(flow.alpha, 1.0);
        flow.rate = 1_500_000_000;
        assert_eq!(flow.on_ack(&PARAMETERS, 1000, &ack(2500, 3000, true)), 1_000_000_000);
    }

    /// Back-to-zero: the next byte lies behind the acknowledged one, and the packets between are -1000 / 1000 in 64 bits,
    /// of which 32 stay.
    #[test]
    fn a_sender_that_was_taken_back_has_a_huge_batch() {
        let mut flow = flow();
        flow.on_ack(&PARAMETERS, 1000, &ack(1000, 4000, false));
        flow.on_ack(&PARAMETERS, 1000, &ack(5000, 4000, false));
        let packets = (u64::MAX - 999) / 1000 + 1;
        assert_eq!((flow.batch, flow.last_update), (packets as u32, 4000));
    }
}
