//! Mode 10, HPCC with PINT: each switch port keeps its own utilization, and a packet brings the largest of its way as one
//! number of 16 bits, a logarithm that is rounded by chance.
//!
//! Chance is C's `rand()`, one stream for the whole run: switches draw when they write, senders on each ACK. Logarithms
//! and powers are the C library's; glibc's since 2.28 are what the reference runs had.

use super::super::plan::Pint as Parameters;
use super::glibc::Rand;
use super::hpcc::{step, Step};
use super::{Ack, Carried, Flows, Leaving, Path};

/// Steps of a utilization of 1 before its logarithm is taken.
const UTILIZATION_STEPS: f64 = 512.0;
/// Steps of a utilization of 1 as a port keeps it in its sums.
const SUM_STEPS: f64 = 8192.0;
/// Steps of a factor of 2 in a switch's logarithms: 2^15.
const LOG_STEPS: f64 = 32_768.0;
/// Bits of a number that a switch takes the logarithm of.
const LOG_BITS: i32 = 16;
/// Bytes that a waiting byte counts in.
const QUEUE_SHIFT: u32 = 8;
/// Numbers from 0 that chance is compared in.
const CHANCES: u32 = 65_536;
/// The largest number of steps that the field is sized for: 2^18.
const LARGEST_STEPS: f64 = 262_144.0;

/// A port of a switch.
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super) struct Port {
    /// Its utilization.
    pub u: f64,
    /// When the last packet of any kind left, and its bytes.
    last_ns: u64,
    last_bytes: u32,
    #[cfg(test)]
    pub last: Written,
}

/// What a data packet did to a port, for the log.
#[cfg(test)]
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super) struct Written {
    pub dt: u64,
    pub bytes_before: u32,
    pub u_before: f64,
    pub value: u16,
}

/// The logarithms that a port's sums need, in steps.
#[derive(Clone, Copy, Debug)]
struct Logs {
    round_trip: f64,
    nanoseconds: f64,
}

/// What a switch does with its numbers.
#[derive(Debug)]
pub(in super::super) struct Arithmetic {
    largest_rtt_ns: u64,
    logs: Logs,
    base: f64,
    /// Of `base`'s natural logarithm.
    inverse_log: f64,
    /// The bits of the field that a value keeps: 8 or 16.
    field_mask: u16,
    pub rand: Rand,
}

impl Arithmetic {
    fn new(p: &Parameters, largest_rtt_ns: u64) -> Self {
        let bits = (LARGEST_STEPS.ln() / p.log_base.ln()).log2().ceil();
        let logs = Logs {
            round_trip: (largest_rtt_ns as f64).log2() * LOG_STEPS,
            nanoseconds: 1e9f64.log2() * LOG_STEPS,
        };
        Arithmetic {
            largest_rtt_ns,
            logs,
            base: p.log_base,
            inverse_log: 1.0 / p.log_base.ln(),
            field_mask: if bits <= 8.0 { 0xff } else { 0xffff },
            rand: Rand::default(),
        }
    }

    /// The logarithm of a whole number, in steps. Of a long one, the bits that are too many are rounded by chance.
    fn log(&mut self, x: i32) -> i32 {
        let mut rounded = x;
        let bits = ((x as f64).log2() as i32).wrapping_add(1);
        if bits > LOG_BITS {
            let shift = bits - LOG_BITS;
            let mask = (1 << shift) - 1;
            rounded = x >> shift << shift;
            if x & mask > self.rand.draw() as i32 & mask {
                rounded += 1 << shift;
            }
        }
        ((rounded as f64).log2() * LOG_STEPS) as i32
    }

    /// The port's utilization after `dt` ns with `queued` bytes waiting: what waits, what the packet before took, and what
    /// is left of the utilization before; each over the round trip.
    fn utilization(&mut self, port: &Port, dt: u64, queued: u32, rate: u64) -> f64 {
        // Hidden from the compiler, which would take `exp2` for it: its last digit may be another.
        let two = std::hint::black_box(2f64);
        let power = |steps: f64| two.powf(steps / LOG_STEPS);
        let Logs { round_trip, nanoseconds } = self.logs;
        let bytes_per_s = ((rate / 8) as f64).log2() * LOG_STEPS;
        let (mut waiting, mut sent, mut left) = (0.0, 0.0, 0.0);
        if queued >> QUEUE_SHIFT > 0 {
            let log_dt = self.log(dt as i32);
            let log_queued = self.log((queued >> QUEUE_SHIFT) as i32);
            let sum = log_dt.wrapping_add(log_queued) as f64;
            waiting =
                power(sum + nanoseconds - bytes_per_s - 2.0 * round_trip) * (1u32 << QUEUE_SHIFT) as f64;
        }
        if port.last_bytes > 0 {
            sent = power(self.log(port.last_bytes as i32) as f64 + nanoseconds - bytes_per_s - round_trip);
        }
        if self.largest_rtt_ns > dt && port.u > 0.0 {
            let log_rest = self.log((self.largest_rtt_ns - dt) as i32);
            let log_u = self.log((port.u * SUM_STEPS).round() as i32);
            left = power(log_rest.wrapping_add(log_u) as f64 - round_trip) / SUM_STEPS;
        }
        waiting + sent + left
    }

    /// A utilization as a power of the base: the one below or the one above, by chance, so that it is right on average.
    fn encode(&mut self, u: f64) -> u16 {
        let steps = (u * UTILIZATION_STEPS).ceil().max(1.0);
        let power = steps.ln() * self.inverse_log;
        let (high, low) = (power.ceil() as u16, power.floor() as u16);
        let mut above = self.base.powf(high as f64);
        let below = self.base.powf(low as f64);
        if high == low {
            above *= self.base;
        }
        let chance = (self.rand.draw() % CHANCES) as f64;
        if chance < (steps - below) / (above - below) * CHANCES as f64 {
            high
        } else {
            low
        }
    }

    fn decode(&self, field: u16) -> f64 {
        self.base.powf(field as f64) / UTILIZATION_STEPS
    }
}

/// A flow's controller: HPCC's with one rate, without smoothing.
#[derive(Clone, Debug)]
pub(in super::super) struct Flow {
    line_rate: u64,
    /// The rate that increases and cuts start from, in bit/s.
    pub rate: u64,
    /// Additive steps since the last multiplicative one.
    pub stage: u32,
    /// An ACK beyond this byte ends a round trip; 0 before the first.
    pub last_update: u32,
}

impl Flow {
    pub fn new(path: Path) -> Self {
        Flow { line_rate: path.line_rate, rate: path.line_rate, stage: 0, last_update: 0 }
    }

    /// An ACK that says that the way's utilization is `u`: the rate to send at from now on.
    pub fn on_ack(&mut self, p: &Step, ack: &Ack, u: f64) -> Option<u64> {
        if self.last_update == 0 {
            self.last_update = ack.snd_nxt;
            return None;
        }
        let (rate, stage) = step(p, u, self.rate, self.stage, self.line_rate);
        if ack.seq > self.last_update {
            (self.rate, self.stage) = (rate, stage);
            self.last_update = self.last_update.max(ack.snd_nxt);
        }
        Some(rate)
    }
}

/// All flows, what their packets carry, and the switches' ports.
#[derive(Debug)]
pub(in super::super) struct Mode {
    step: Step,
    /// ACKs whose chance is below it count.
    counted: u32,
    pub arithmetic: Arithmetic,
    pub flows: Flows<Flow>,
    pub fields: Carried<u16>,
    pub ports: Vec<Port>,
}

impl Mode {
    pub fn new(p: &Parameters, largest_rtt_ns: u64) -> Self {
        let step = Step {
            target_utilization: p.target_utilization,
            max_stage: p.max_stage,
            additive: p.rate_ai_bps,
            min_rate: p.min_rate_bps,
        };
        Mode {
            step,
            counted: (CHANCES as f64 * p.probability) as u32,
            arithmetic: Arithmetic::new(p, largest_rtt_ns),
            flows: Flows::default(),
            fields: Carried::default(),
            ports: Vec::new(),
        }
    }

    /// A port's utilization follows data; when it sent last, and how much, anything that it sends.
    pub fn pass(&mut self, leaving: &Leaving) {
        if self.ports.len() <= leaving.port as usize {
            self.ports.resize(leaving.port as usize + 1, Port::default());
        }
        let port = &mut self.ports[leaving.port as usize];
        if let Some(packet) = leaving.data {
            let dt = (leaving.now_ns - port.last_ns).min(self.arithmetic.largest_rtt_ns);
            let u = self.arithmetic.utilization(port, dt, leaving.queued, leaving.rate);
            #[cfg(test)]
            let u_before = port.u;
            port.u = u;
            let value = self.arithmetic.encode(port.u) & self.arithmetic.field_mask;
            let field = &mut self.fields.0[packet as usize];
            *field = (*field).max(value);
            #[cfg(test)]
            {
                port.last = Written { dt, bytes_before: port.last_bytes, u_before, value };
            }
        }
        (port.last_ns, port.last_bytes) = (leaving.now_ns, leaving.wire);
    }

    /// Each ACK draws, whether it counts or not.
    pub fn on_ack(&mut self, flow: u32, packet: u32, ack: &Ack) -> Option<u64> {
        let flow = self.flows.get(flow)?;
        if self.arithmetic.rand.draw() % CHANCES >= self.counted {
            return None;
        }
        flow.on_ack(&self.step, ack, self.arithmetic.decode(self.fields.0[packet as usize]))
    }
}
