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
/// Of this size on, a packet is large.
const LARGE_BYTES: u32 = 512;
/// Results of numbers below it are kept.
const MOST_KNOWN: usize = 16_384;
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
    /// The logarithm of its rate in bytes a second, in steps; 0 before its first packet.
    rate_log: f64,
    /// What the last small and the last large packet took of a round trip: mostly an ACK and data.
    shares: [Share; 2],
    #[cfg(test)]
    pub last: Written,
}

/// What a packet of so many bytes takes of a round trip.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    bytes: u32,
    share: f64,
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
    /// Logarithms of numbers, codes of steps, utilizations of fields.
    logs_of: Known<i32>,
    codes: Known<Code>,
    utilizations: Known<f64>,
    /// The bits of the field, 8 or 16, that its receiver takes out of a packet. Switches write and compare 16.
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
            logs_of: Known::new(),
            codes: Known::new(),
            utilizations: Known::new(),
            field_mask: if bits <= 8.0 { 0xff } else { 0xffff },
            rand: Rand::default(),
        }
    }

    /// The logarithm of a whole number, in steps. Of a long one, the bits that are too many are rounded by chance.
    fn log(&mut self, x: i32) -> i32 {
        let mut rounded = x;
        let bits = 32 - x.leading_zeros() as i32;
        if bits > LOG_BITS {
            let shift = bits - LOG_BITS;
            let mask = (1 << shift) - 1;
            rounded = x >> shift << shift;
            if x & mask > self.rand.draw() as i32 & mask {
                rounded += 1 << shift;
            }
        }
        self.logs_of.get(rounded as usize, || ((rounded as f64).log2() * LOG_STEPS) as i32)
    }

    /// The port's utilization after `dt` ns with `queued` bytes waiting: what waits, what the packet before took, and what
    /// is left of the utilization before; each over the round trip.
    fn utilization(&mut self, port: &mut Port, dt: u64, queued: u32) -> f64 {
        // Hidden from the compiler, which would take `exp2` for it: its last digit may be another.
        let two = std::hint::black_box(2f64);
        let power = |steps: f64| two.powf(steps / LOG_STEPS);
        let Logs { round_trip, nanoseconds } = self.logs;
        let bytes_per_s = port.rate_log;
        let (mut waiting, mut sent, mut left) = (0.0, 0.0, 0.0);
        if queued >> QUEUE_SHIFT > 0 {
            let log_dt = self.log(dt as i32);
            let log_queued = self.log((queued >> QUEUE_SHIFT) as i32);
            let sum = log_dt.wrapping_add(log_queued) as f64;
            waiting =
                power(sum + nanoseconds - bytes_per_s - 2.0 * round_trip) * (1u32 << QUEUE_SHIFT) as f64;
        }
        if port.last_bytes > 0 {
            // A packet's size is a short number, whose logarithm draws nothing.
            let bytes = port.last_bytes;
            let last = &mut port.shares[(bytes >= LARGE_BYTES) as usize];
            if last.bytes != bytes {
                let log_bytes = self.log(bytes as i32) as f64;
                *last = Share { bytes, share: power(log_bytes + nanoseconds - bytes_per_s - round_trip) };
            }
            sent = last.share;
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
        let base = self.base;
        let code = self.codes.get(steps as usize, || Code::of(steps, base));
        let chance = (self.rand.draw() % CHANCES) as f64;
        if chance < code.chances {
            code.high
        } else {
            code.low
        }
    }

    fn decode(&mut self, field: u16) -> f64 {
        let base = self.base;
        self.utilizations.get(field as usize, || base.powf(field as f64) / UTILIZATION_STEPS)
    }
}

/// Results of a function of small numbers, worked out once: most packets have the same few.
#[derive(Debug)]
struct Known<T>(Vec<Option<T>>);

impl<T: Copy> Known<T> {
    fn new() -> Self {
        Known(vec![None; MOST_KNOWN])
    }

    #[inline]
    fn get(&mut self, of: usize, work_out: impl FnOnce() -> T) -> T {
        match self.0.get_mut(of) {
            Some(known) => *known.get_or_insert_with(work_out),
            None => work_out(),
        }
    }
}

/// The two powers of the base about a number of steps, and of how many chances the one above has.
#[derive(Clone, Copy, Debug)]
struct Code {
    high: u16,
    low: u16,
    chances: f64,
}

impl Code {
    fn of(steps: f64, base: f64) -> Code {
        let power = steps.ln() * (1.0 / base.ln());
        let (high, low) = (power.ceil() as u16, power.floor() as u16);
        let mut above = base.powf(high as f64);
        let below = base.powf(low as f64);
        if high == low {
            above *= base;
        }
        Code { high, low, chances: (steps - below) / (above - below) * CHANCES as f64 }
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
        if port.rate_log == 0.0 {
            port.rate_log = ((leaving.rate / 8) as f64).log2() * LOG_STEPS;
        }
        if let Some(packet) = leaving.data {
            let dt = (leaving.now_ns - port.last_ns).min(self.arithmetic.largest_rtt_ns);
            let u = self.arithmetic.utilization(port, dt, leaving.queued);
            #[cfg(test)]
            let u_before = port.u;
            port.u = u;
            let value = self.arithmetic.encode(port.u);
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
        flow.on_ack(
            &self.step,
            ack,
            self.arithmetic.decode(self.fields.0[packet as usize] & self.arithmetic.field_mask),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARAMETERS: Parameters = Parameters {
        target_utilization: 0.95,
        max_stage: 0,
        rate_ai_bps: 40_000_000,
        min_rate_bps: 1_000_000_000,
        log_base: 1.05,
        probability: 1.0,
    };
    const G100: u64 = 100_000_000_000;

    /// The first two random numbers are odd and even: the lowest bit of a number of 17 bits is cut, then rounded up.
    #[test]
    fn long_numbers_are_rounded_by_chance() {
        let mut sums = Arithmetic::new(&PARAMETERS, 4160);
        let log = |x: f64| (x.log2() * LOG_STEPS) as i32;
        assert_eq!(sums.log(65_535), log(65_535.0));
        assert_eq!(sums.rand.drawn, 0);
        assert_eq!([sums.log(100_001), sums.log(100_001)], [log(100_000.0), log(100_002.0)]);
        assert_eq!(sums.rand.drawn, 2);
    }

    /// A utilization of 0 is one step, the base to the power of 0; each coding draws. One of exactly a power is that.
    #[test]
    fn codes() {
        let mut sums = Arithmetic::new(&Parameters { log_base: 2.0, ..PARAMETERS }, 4160);
        assert_eq!([sums.encode(0.0), sums.encode(1.0)], [0, 9]);
        assert_eq!((sums.decode(9), sums.rand.drawn), (1.0, 2));
        // Between 2^9 and 2^10 on average what it is: 768 is halfway.
        let high = (0..4000).filter(|_| sums.encode(1.5) == 10).count();
        assert!((1850..2150).contains(&high), "{high}");
        assert_eq!(sums.field_mask, 0xff);
        assert_eq!(Arithmetic::new(&Parameters { log_base: 1.01, ..PARAMETERS }, 4160).field_mask, 0xffff);
    }

    /// A full port: each packet of 1050 B takes 84 ns of a round trip of 4160, and the rest decays.
    #[test]
    fn a_ports_utilization_tends_to_its_load() {
        let mut mode = Mode::new(&PARAMETERS, 4160);
        for packet in 0..1000u64 {
            mode.fields.set(0, 0);
            let now_ns = 10_000 + packet * 84;
            let leaving =
                Leaving { port: 3, now_ns, tx_bytes: 0, queued: 0, rate: G100, wire: 1050, data: Some(0) };
            mode.pass(&leaving);
        }
        assert!((mode.ports[3].u - 1.0).abs() < 0.02, "{}", mode.ports[3].u);
        let field = mode.fields.0[0];
        assert!((mode.arithmetic.decode(field) - 1.0).abs() < 0.07, "{field}");
        // A packet keeps the largest, and an ACK writes nothing.
        mode.fields.set(0, 900);
        let idle =
            Leaving { port: 4, now_ns: 99, tx_bytes: 0, queued: 0, rate: G100, wire: 60, data: Some(0) };
        mode.pass(&idle);
        assert_eq!(mode.fields.0[0], 900);
        let drawn = mode.arithmetic.rand.drawn;
        mode.pass(&Leaving { data: None, ..idle });
        assert_eq!(mode.arithmetic.rand.drawn, drawn);
    }

    /// With a field of 8 bits a load above the largest power wraps, but only where the receiver reads: until then, it is the
    /// largest.
    #[test]
    fn the_field_is_cut_where_it_is_read() {
        let mut mode = Mode::new(&PARAMETERS, 4160);
        assert_eq!(mode.arithmetic.field_mask, 0xff);
        mode.flows.begin(0, Flow::new(Path { line_rate: G100, base_rtt_ns: 4160, window: 52_000 }));
        mode.fields.set(0, 256);
        let leaving =
            Leaving { port: 0, now_ns: 99, tx_bytes: 0, queued: 0, rate: G100, wire: 1050, data: Some(0) };
        mode.pass(&leaving);
        assert_eq!(mode.fields.0[0], 256);
        let ack = |seq| Ack { now_ns: 0, seq, snd_nxt: 9000, marked: false };
        mode.on_ack(0, 0, &ack(1000));
        // Code 0 is 1/512 of the link: up by as much as may be.
        assert_eq!(mode.on_ack(0, 0, &ack(9001)), Some(G100));
    }

    /// An ACK that does not count draws all the same, and changes nothing.
    #[test]
    fn some_acks_do_not_count() {
        let mut mode = Mode::new(&Parameters { probability: 0.0, ..PARAMETERS }, 4160);
        mode.flows.begin(0, Flow::new(Path { line_rate: G100, base_rtt_ns: 4160, window: 52_000 }));
        mode.fields.set(0, 200);
        let ack = Ack { now_ns: 0, seq: 1000, snd_nxt: 9000, marked: false };
        assert_eq!(mode.on_ack(0, 0, &ack), None);
        assert_eq!(
            (mode.arithmetic.rand.drawn, mode.flows.get(0).map(|flow| flow.last_update)),
            (1, Some(0))
        );
    }
}
