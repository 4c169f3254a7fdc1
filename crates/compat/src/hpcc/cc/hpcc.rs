//! Mode 3, HPCC: each switch writes its load into data packets, and the ACK brings it to the sender.

use super::super::plan::Hpcc as Parameters;
use super::{whole, Ack, Flows, Leaving, PerPacket, Start};

/// Hops that a packet has room for.
const MAX_HOPS: usize = 5;
/// Units of the header's fields, times `INT_MULTI`.
const BYTES_UNIT: u64 = 128;
const QUEUE_UNIT: u64 = 80;
/// Bits of the header's fields.
const TIME_BITS: u32 = 24;
const BYTES_BITS: u32 = 20;
const QUEUE_BITS: u32 = 17;
const RATE_BITS: u32 = 3;
/// Rates that the header has a code for, in bit/s; a link of any other has the first one's.
pub(crate) const LINE_RATES: [u64; 5] =
    [25_000_000_000, 50_000_000_000, 100_000_000_000, 200_000_000_000, 400_000_000_000];

/// What a hop wrote, in the header's units: as there, time, bytes, queue and rate share 64 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Hop(u64);

/// The low bits of a number.
#[inline]
fn low(value: u64, bits: u32) -> u32 {
    (value & ((1 << bits) - 1)) as u32
}

impl Hop {
    #[inline]
    fn new(time: u32, bytes: u32, queue: u32, rate: u8) -> Hop {
        let sizes = (bytes as u64) << QUEUE_BITS | queue as u64;
        Hop((time as u64) << (64 - TIME_BITS) | sizes << RATE_BITS | rate as u64)
    }

    #[inline]
    fn of(leaving: &Leaving, multi: u64) -> Hop {
        Hop::new(
            low(leaving.now_ns, TIME_BITS),
            low(leaving.tx_bytes / (BYTES_UNIT * multi), BYTES_BITS),
            low(leaving.queued as u64 / (QUEUE_UNIT * multi), QUEUE_BITS),
            LINE_RATES.iter().position(|&rate| rate == leaving.rate).unwrap_or(0) as u8,
        )
    }

    /// In ns.
    #[inline]
    pub fn time(self) -> u32 {
        (self.0 >> (64 - TIME_BITS)) as u32
    }

    #[inline]
    pub fn bytes(self) -> u32 {
        low(self.0 >> (RATE_BITS + QUEUE_BITS), BYTES_BITS)
    }

    #[inline]
    pub fn queue(self) -> u32 {
        low(self.0 >> RATE_BITS, QUEUE_BITS)
    }

    /// Place in [`LINE_RATES`].
    #[inline]
    pub fn rate(self) -> u8 {
        low(self.0, RATE_BITS) as u8
    }
}

/// What a packet carries: its hops, and how many have written.
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super) struct Area {
    pub hops: [Hop; MAX_HOPS],
    pub count: u16,
}

impl Area {
    fn add(&mut self, hop: Hop) {
        self.hops[self.count as usize % MAX_HOPS] = hop;
        self.count = self.count.wrapping_add(1);
    }
}

/// With `MULTI_RATE`: a hop as the sender sees it, with a rate of its own.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct OwnRate {
    pub u: f64,
    pub rate: u64,
    pub stage: u32,
}

/// A flow's controller.
#[derive(Clone, Debug)]
pub(in super::super) struct Flow {
    start: Start,
    /// Utilization, smoothed over a round trip.
    pub u: f64,
    /// The rate that increases and cuts start from, in bit/s.
    pub rate: u64,
    /// Additive steps since the last multiplicative one.
    pub stage: u32,
    /// An ACK beyond this byte ends a round trip; 0 before the first.
    pub last_update: u32,
    /// What the hops wrote last.
    pub hops: [Hop; MAX_HOPS],
    pub own: [OwnRate; MAX_HOPS],
}

impl Flow {
    pub fn new(start: Start) -> Self {
        let rate = start.line_rate;
        Flow {
            start,
            u: 1.0,
            rate,
            stage: 0,
            last_update: 0,
            hops: [Hop::default(); MAX_HOPS],
            own: [OwnRate { u: 1.0, rate, stage: 0 }; MAX_HOPS],
        }
    }

    /// An ACK with what its data packet collected: the rate to send at from now on.
    pub fn on_ack(&mut self, p: &Parameters, ack: &Ack, area: &Area) -> Option<u64> {
        let full = ack.seq > self.last_update;
        if !full && !p.fast_react {
            return None;
        }
        if self.last_update == 0 {
            self.last_update = ack.snd_nxt;
            self.hops = area.hops;
            return None;
        }
        let rate = if area.count as usize <= MAX_HOPS { self.react(p, full, area) } else { None };
        if full {
            self.last_update = self.last_update.max(ack.snd_nxt);
        }
        rate
    }

    /// Takes each hop's load in. Rates only move on for good where a round trip is full.
    fn react(&mut self, p: &Parameters, full: bool, area: &Area) -> Option<u64> {
        let (count, rtt) = (area.count as usize, self.start.base_rtt_ns);
        // A bit for each hop that counts.
        let mut used = 0u32;
        let (mut largest, mut over_ns) = (0.0, 0);
        for (i, &hop) in area.hops[..count].iter().enumerate() {
            if p.sample_feedback && !full && hop.queue() == 0 {
                continue;
            }
            used |= 1 << i;
            let tau = low(hop.time().wrapping_sub(self.hops[i].time()) as u64, TIME_BITS) as u64;
            let u = self.utilization(p, tau, self.hops[i], hop);
            if p.multi_rate {
                let (own, tau) = (&mut self.own[i].u, tau.min(rtt));
                *own = (*own * (rtt - tau) as f64 + u * tau as f64) / rtt as f64;
            } else if u > largest {
                (largest, over_ns) = (u, tau);
            }
            self.hops[i] = hop;
        }
        if used == 0 {
            return None;
        }
        if p.multi_rate {
            return Some(self.step_by_hop(p, full, used, count));
        }
        let over_ns = over_ns.min(rtt);
        let double = |ns: u64| ns as i64 as f64;
        self.u = (self.u * double(rtt - over_ns) + largest * double(over_ns)) / double(rtt);
        let (rate, stage) = step(&p.into(), self.u, self.rate, self.stage, self.start.line_rate);
        if full {
            (self.rate, self.stage) = (rate, stage);
        }
        Some(rate)
    }

    /// Load of a hop between two packets: what it sent and what waits there, against its rate.
    #[inline]
    fn utilization(&self, p: &Parameters, tau: u64, before: Hop, now: Hop) -> f64 {
        // All numbers here are below 2^63, and signed ones become doubles in one instruction.
        let multi = p.int_multi as i64;
        let line = LINE_RATES[now.rate() as usize] as i64 as f64;
        let bytes = low(now.bytes().wrapping_sub(before.bytes()) as u64, BYTES_BITS) as i64;
        let sent_bps = (bytes * BYTES_UNIT as i64 * multi * 8) as f64 / (tau as i64 as f64 * 1e-9);
        let sent = sent_bps / line;
        let waiting = before.queue().min(now.queue()) as i64;
        if waiting == 0 && self.start.window > 0 {
            return sent; // to which nothing would be added
        }
        let waiting = waiting * QUEUE_UNIT as i64 * multi;
        sent + waiting as f64 * self.start.line_rate as i64 as f64 / line / self.start.window as f64
    }

    /// With `MULTI_RATE`: every hop has its step, and the lowest rate counts.
    fn step_by_hop(&mut self, p: &Parameters, full: bool, used: u32, count: usize) -> u64 {
        let mut lowest = self.start.line_rate;
        for (i, own) in self.own[..count].iter_mut().enumerate() {
            let mut rate = own.rate;
            if used >> i & 1 != 0 {
                let (stepped, stage) = step(&p.into(), own.u, own.rate, own.stage, self.start.line_rate);
                rate = stepped;
                if full {
                    (own.rate, own.stage) = (stepped, stage);
                }
            }
            lowest = lowest.min(rate);
        }
        if full {
            self.rate = lowest;
        }
        lowest
    }
}

/// Parameters of a step, which mode 10 takes, too.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct StepParameters {
    pub target_utilization: f64,
    pub max_stage: u32,
    pub additive: u64,
    pub min_rate: u64,
}

impl From<&Parameters> for StepParameters {
    fn from(p: &Parameters) -> Self {
        StepParameters {
            target_utilization: p.target_utilization,
            max_stage: p.max_stage,
            additive: p.rate_ai_bps,
            min_rate: p.min_rate_bps,
        }
    }
}

/// The rate and the stage after a step from `rate` at utilization `u`: towards the target by a factor, or up by a step.
pub(super) fn step(p: &StepParameters, u: f64, rate: u64, stage: u32, line_rate: u64) -> (u64, u32) {
    let c = u / p.target_utilization;
    let (rate, stage) = if c >= 1.0 || stage >= p.max_stage {
        (whole(rate as f64 / c).wrapping_add(p.additive), 0)
    } else {
        (rate + p.additive, stage + 1)
    };
    (rate.max(p.min_rate).min(line_rate), stage)
}

/// All flows, and what their packets carry.
#[derive(Debug)]
pub(in super::super) struct Mode {
    pub parameters: Parameters,
    pub flows: Flows<Flow>,
    pub areas: PerPacket<Area>,
}

impl Mode {
    pub fn new(parameters: &Parameters) -> Self {
        Mode { parameters: *parameters, flows: Flows::default(), areas: PerPacket::default() }
    }

    pub fn pass(&mut self, leaving: &Leaving) {
        self.areas.0[leaving.data as usize].add(Hop::of(leaving, self.parameters.int_multi as u64));
    }

    pub fn on_ack(&mut self, flow: u32, packet: u32, ack: &Ack) -> Option<u64> {
        self.flows.get(flow)?.on_ack(&self.parameters, ack, &self.areas.0[packet as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const G100: u64 = 100_000_000_000;
    const START: Start = Start { line_rate: G100, base_rtt_ns: 1000, window: 52_000 };
    const PARAMETERS: Parameters = Parameters {
        target_utilization: 0.95,
        max_stage: 5,
        rate_ai_bps: 40_000_000,
        min_rate_bps: 1_000_000_000,
        int_multi: 1,
        fast_react: true,
        multi_rate: false,
        sample_feedback: false,
    };

    fn ack(seq: u32, snd_nxt: u32) -> Ack {
        Ack { now_ns: 0, seq, snd_nxt, marked: false }
    }

    /// Hops as (time, bytes, queue) of 100 Gbit/s, in the header's units.
    fn area(hops: &[(u32, u32, u32)]) -> Area {
        let mut area = Area::default();
        for &(time, bytes, queue) in hops {
            area.add(Hop::new(time, bytes, queue, 2));
        }
        area
    }

    /// Nanoseconds times 1e-9 are no seconds in binary.
    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-12
    }

    /// After the ACK that ends nothing.
    fn begun(p: &Parameters, hops: usize) -> Flow {
        let mut flow = Flow::new(START);
        assert_eq!(flow.on_ack(p, &ack(1000, 10_000), &area(&vec![(0, 0, 0); hops])), None);
        assert_eq!(flow.last_update, 10_000);
        flow
    }

    #[test]
    fn the_fields_have_units_and_wrap() {
        let leaving = Leaving {
            port: 0,
            now_ns: (1 << 24) + 5,
            tx_bytes: ((1 << 20) + 3) * 512 + 511,
            queued: 1279,
            rate: 200_000_000_000,
            wire: 1090,
            data: 0,
        };
        assert_eq!(Hop::of(&leaving, 4), Hop::new(5, 3, 3, 3));
        // There is no code for 40 Gbit/s.
        assert_eq!(Hop::of(&Leaving { rate: 40_000_000_000, ..leaving }, 4).rate(), 0);
    }

    #[test]
    fn the_sixth_hop_writes_over_the_first_and_nothing_is_computed_from_it() {
        let six = area(&[(1, 1, 1), (2, 2, 2), (3, 3, 3), (4, 4, 4), (5, 5, 5), (6, 6, 6)]);
        assert_eq!((six.count, six.hops[0].time(), six.hops[1].time()), (6, 6, 2));
        let mut flow = begun(&PARAMETERS, 5);
        assert_eq!(flow.on_ack(&PARAMETERS, &ack(11_000, 20_000), &six), None);
        assert_eq!((flow.last_update, flow.u), (20_000, 1.0));
    }

    /// A round trip of 1000 ns is over: 100 units of 128 B in it are 102.4 Gbit/s, 1.024 of the line; the rate becomes
    /// 0.95 / 1.024 of itself and a step. Twenty units of 80 B that waited at both ends are 1600 / 52,000 more.
    #[test]
    fn a_full_round_trip_replaces_the_utilization() {
        let mut flow = begun(&PARAMETERS, 1);
        let rate = flow.on_ack(&PARAMETERS, &ack(11_000, 20_000), &area(&[(1000, 100, 0)]));
        let expected = (0.95 / 1.024 * 1e11) as u64 + 40_000_000;
        assert!(rate.is_some_and(|rate| rate.abs_diff(expected) <= 1), "{rate:?}, not {expected}");
        assert_eq!((rate, flow.stage), (Some(flow.rate), 0));
        assert!(close(flow.u, 1.024));
        flow.hops[0] = Hop::new(1000, 100, 20, 2);
        flow.on_ack(&PARAMETERS, &ack(21_000, 30_000), &area(&[(2000, 200, 30)]));
        assert!(close(flow.u, 1.024 + 1600.0 / 52_000.0));
    }

    /// Low utilization: `max_stage` steps up, then a factor.
    #[test]
    fn steps_up_end_with_a_factor() {
        let p = Parameters { max_stage: 2, ..PARAMETERS };
        let mut flow = begun(&p, 1);
        (flow.rate, flow.u) = (G100 / 4, 0.5);
        for (round, rate) in [(1, 25_040_000_000), (2, 25_080_000_000)] {
            let hops = area(&[(round * 1000, round * 50, 0)]);
            assert_eq!(flow.on_ack(&p, &ack(round * 10_000 + 1, round * 10_000 + 10_000), &hops), Some(rate));
        }
        // 50 units of 128 B in 1000 ns are 0.512 of the line.
        let rate = flow.on_ack(&p, &ack(30_001, 40_000), &area(&[(3000, 150, 0)]));
        let expected = (25_080_000_000.0 * 0.95 / 0.512) as u64 + 40_000_000;
        assert!(rate.is_some_and(|rate| rate.abs_diff(expected) <= 1), "{rate:?}, not {expected}");
        assert_eq!(flow.stage, 0);
    }

    /// Within a round trip: a reaction, which is not kept; or none, if these are off.
    #[test]
    fn fast_reactions_start_from_the_same_rate() {
        let mut flow = begun(&PARAMETERS, 1);
        let rate = flow.on_ack(&PARAMETERS, &ack(2000, 11_000), &area(&[(500, 50, 0)]));
        assert!(rate.is_some_and(|rate| rate < G100));
        assert_eq!((flow.rate, flow.stage, flow.last_update), (G100, 0, 10_000));
        // Half of 1, half of 1.024.
        assert!(close(flow.u, 1.012));
        let slow = Parameters { fast_react: false, ..PARAMETERS };
        let mut flow = begun(&slow, 1);
        assert_eq!(flow.on_ack(&slow, &ack(2000, 11_000), &area(&[(500, 50, 0)])), None);
        assert_eq!(flow.hops[0].time(), 0);
    }

    /// Within a round trip, a hop without a queue is passed over, and what it wrote is not kept; at its end it counts.
    #[test]
    fn sampled_feedback_passes_over_empty_queues() {
        let p = Parameters { sample_feedback: true, ..PARAMETERS };
        let mut flow = begun(&p, 1);
        assert_eq!(flow.on_ack(&p, &ack(2000, 11_000), &area(&[(500, 50, 0)])), None);
        assert_eq!((flow.hops[0].time(), flow.u), (0, 1.0));
        assert!(flow.on_ack(&p, &ack(10_001, 20_000), &area(&[(1000, 100, 0)])).is_some());
        assert!(close(flow.u, 1.024));
    }

    /// Each hop has its rate, and the lowest counts; one that is passed over keeps its own.
    #[test]
    fn with_many_rates_the_lowest_counts() {
        let p = Parameters { multi_rate: true, sample_feedback: true, ..PARAMETERS };
        let mut flow = begun(&p, 2);
        let rate = flow.on_ack(&p, &ack(10_001, 20_000), &area(&[(1000, 100, 0), (1000, 50, 0)]));
        assert_eq!(rate, Some(flow.own[0].rate));
        assert!(close(flow.own[0].u, 1.024) && close(flow.own[1].u, 0.512));
        assert_eq!((flow.own[0].stage, flow.own[1].stage, flow.own[1].rate), (0, 1, G100));
        assert_eq!(flow.u, 1.0);
        let kept = flow.own[0].rate;
        let again = flow.on_ack(&p, &ack(12_000, 21_000), &area(&[(1500, 150, 0), (1500, 75, 9)]));
        assert_eq!(again, Some(kept));
        // All passed over: nothing is set.
        assert_eq!(flow.on_ack(&p, &ack(13_000, 22_000), &area(&[(1600, 150, 0), (1600, 75, 0)])), None);
    }

    /// Without a window the load of a queue is not a number where nothing waits, and no rate comes of it.
    #[test]
    fn no_window_and_no_queue_leave_the_utilization() {
        let mut flow = Flow::new(Start { window: 0, ..START });
        flow.on_ack(&PARAMETERS, &ack(1000, 10_000), &area(&[(0, 0, 0)]));
        let rate = flow.on_ack(&PARAMETERS, &ack(11_000, 20_000), &area(&[(500, 50, 0)]));
        assert_eq!((flow.u, rate), (1.0, Some(95_040_000_000)));
    }
}
