//! Mode 10, HPCC with PINT: each switch port keeps its own utilization, and a packet brings the largest of its way as one
//! number of 16 bits, a logarithm that is rounded by chance.
//!
//! Chance is C's `rand()`, one stream for the whole run: switches draw when they write, senders on each ACK. Logarithms
//! and powers are the C library's; glibc's since 2.28 are what the reference runs had.

use super::hpcc::{step, StepParameters};
use super::{Ack, Flows, Leaving, PerPacket, Start};
use crate::hpcc::plan::Pint as Parameters;
use crate::hpcc::random::Rand;

/// A port of a switch.
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super) struct Port {
    /// Its utilization in the steps that its sums take it in.
    pub u: i32,
    /// True if that is more than nothing, though it may be no whole step.
    used: bool,
    /// When the last packet of any kind left, and its bytes.
    last_ns: u64,
    last_bytes: u32,
    /// The logarithm of its rate in bytes a second, in steps; 0 before its first packet.
    rate_log: f64,
    /// What a product of a time and a queue, as a power of two, is in utilization.
    per_wait: f64,
    /// What the last small and the last large packet took of a round trip: mostly an ACK and data.
    shares: [Share; 2],
    #[cfg(test)]
    pub last: Written,
}

/// The share of a round trip that a packet of this size takes.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    bytes: u32,
    share: f64,
}

/// How a data packet changed a port, for the log.
#[cfg(test)]
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super) struct Written {
    pub dt: u64,
    pub bytes_before: u32,
    pub u_before: f64,
    pub u: f64,
    pub value: u16,
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
    pub fn new(start: Start) -> Self {
        Flow { line_rate: start.line_rate, rate: start.line_rate, stage: 0, last_update: 0 }
    }

    /// An ACK that says that the way's utilization is `u`: the rate to send at from now on.
    pub fn on_ack(&mut self, p: &StepParameters, ack: &Ack, u: f64) -> Option<u64> {
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
    step: StepParameters,
    /// ACKs whose chance is below it count.
    counted: u32,
    pub arithmetic: Arithmetic,
    pub flows: Flows<Flow>,
    pub fields: PerPacket<u16>,
    pub ports: Vec<Port>,
}

impl Mode {
    pub fn new(p: &Parameters, largest_rtt_ns: u64) -> Self {
        let step = StepParameters {
            target_utilization: p.target_utilization,
            max_stage: p.max_stage,
            additive: p.rate_ai_bps,
            min_rate: p.min_rate_bps,
        };
        Mode {
            step,
            counted: (CHANCES_IN_ALL as f64 * p.probability) as u32,
            arithmetic: Arithmetic::new(p, largest_rtt_ns),
            flows: Flows::default(),
            fields: PerPacket::default(),
            ports: Vec::new(),
        }
    }

    /// A port's utilization follows data.
    pub fn pass(&mut self, leaving: &Leaving) {
        let port = place(&mut self.ports, leaving.port);
        if port.rate_log == 0.0 {
            self.arithmetic.begin(port, leaving.rate);
        }
        let dt = (leaving.now_ns - port.last_ns).min(self.arithmetic.largest_rtt_ns);
        #[cfg(test)]
        let u_before = port.last.u;
        let utilization = self.arithmetic.utilization(port, dt, leaving.queued);
        (port.u, port.used) = (utilization.sum_steps, utilization.used);
        let value = self.arithmetic.encode(utilization.code_steps);
        let field = &mut self.fields.0[leaving.data as usize];
        *field = (*field).max(value);
        #[cfg(test)]
        {
            let u = port.last.u;
            port.last = Written { dt, bytes_before: port.last_bytes, u_before, u, value };
        }
        (port.last_ns, port.last_bytes) = (leaving.now_ns, leaving.wire);
    }

    /// When it sent last, and how much, anything that it sends.
    #[inline]
    pub fn pass_other(&mut self, port: u32, now_ns: u64, wire: u32) {
        let port = place(&mut self.ports, port);
        (port.last_ns, port.last_bytes) = (now_ns, wire);
    }

    /// Each ACK draws, whether it counts or not.
    pub fn on_ack(&mut self, flow: u32, packet: u32, ack: &Ack) -> Option<u64> {
        let flow = self.flows.get(flow)?;
        if self.arithmetic.rand.draw() % CHANCES_IN_ALL >= self.counted {
            return None;
        }
        flow.on_ack(
            &self.step,
            ack,
            self.arithmetic.decode(self.fields.0[packet as usize] & self.arithmetic.field_mask),
        )
    }
}

/// A port's place, which is made when it is first asked for.
#[inline]
fn place(ports: &mut Vec<Port>, port: u32) -> &mut Port {
    if ports.len() <= port as usize {
        ports.resize(port as usize + 1, Port::default());
    }
    &mut ports[port as usize]
}

// The arithmetic of switches: logarithms and powers of whole numbers of steps, and a utilization from them.

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
const CHANCES_IN_ALL: u32 = 65_536;

/// Of this size on, a packet is large.
const LARGE_BYTES: u32 = 512;

/// Results of numbers below it are kept.
const MOST_KNOWN: usize = 16_384;

/// The largest number of steps that the field is sized for: 2^18.
const LARGEST_STEPS: f64 = 262_144.0;

/// The logarithms that a port's sums need, in steps.
#[derive(Clone, Copy, Debug)]
struct Logs {
    round_trip: f64,
    nanoseconds: f64,
}

/// What a switch does with its numbers.
#[derive(Debug)]
pub(in crate::hpcc) struct Arithmetic {
    largest_rtt_ns: u64,
    logs: Logs,
    powers: Powers,
    /// What a product of a time and a utilization in steps, as a power of two, is in utilization.
    per_rest: f64,
    base: f64,
    /// Logarithms of the first numbers.
    logs_of: Vec<i32>,
    /// Codes of steps, utilizations of fields.
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
            powers: Powers::new(),
            per_rest: power(-logs.round_trip) / SUM_STEPS,
            base: p.log_base,
            logs_of: (0..MOST_KNOWN as i32).map(log).collect(),
            codes: Known::new(),
            utilizations: Known::new(),
            field_mask: if bits <= 8.0 { 0xff } else { 0xffff },
            rand: Rand::default(),
        }
    }

    /// Works out what a port's sums need of its rate in bit/s.
    #[cold]
    fn begin(&self, port: &mut Port, rate: u64) {
        let Logs { round_trip, nanoseconds } = self.logs;
        port.rate_log = ((rate / 8) as f64).log2() * LOG_STEPS;
        let exponent = nanoseconds - port.rate_log - 2.0 * round_trip;
        port.per_wait = power(exponent) * (1u32 << QUEUE_SHIFT) as f64;
    }

    /// The logarithm of a whole number, in steps. Of a long one, the bits that are too many are rounded by chance.
    #[inline]
    fn log(&mut self, x: i32) -> i32 {
        match self.logs_of.get(x as usize) {
            Some(&log) => log,
            None => self.log_of_large(x),
        }
    }

    #[inline(never)]
    fn log_of_large(&mut self, x: i32) -> i32 {
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
        log(rounded)
    }

    /// The port's utilization after `dt` ns with `queued` bytes waiting: what waits, what the packet before took, and what
    /// is left of the utilization before; each over the round trip.
    #[inline]
    fn utilization(&mut self, port: &mut Port, dt: u64, queued: u32) -> Utilization {
        let Logs { round_trip, nanoseconds } = self.logs;
        let mut parts = Parts::default();
        if queued >> QUEUE_SHIFT > 0 {
            let log_dt = self.log(dt as i32);
            let log_queued = self.log((queued >> QUEUE_SHIFT) as i32);
            parts.waiting = Some(log_dt.wrapping_add(log_queued));
        }
        if port.last_bytes > 0 {
            // A packet's size is a short number, whose logarithm draws nothing.
            let bytes = port.last_bytes;
            let last = &mut port.shares[(bytes >= LARGE_BYTES) as usize];
            if last.bytes != bytes {
                let log_bytes = self.log(bytes as i32) as f64;
                *last = Share { bytes, share: power(log_bytes + nanoseconds - port.rate_log - round_trip) };
            }
            parts.sent = last.share;
        }
        if self.largest_rtt_ns > dt && port.used {
            let log_rest = self.log((self.largest_rtt_ns - dt) as i32);
            let log_u = self.log(port.u);
            parts.left = Some(log_rest.wrapping_add(log_u));
        }
        let quick = self.quick(port, &parts);
        // The build that is tested compares with the logs, and the quick way with the slow one.
        #[cfg(test)]
        {
            port.last.u = self.exact(port, &parts);
            let (quick, exact) = (Utilization::about(quick), Utilization::of(port.last.u));
            assert!(quick.is_none_or(|quick| quick == exact), "{quick:?}, not {exact:?}");
        }
        match Utilization::about(quick) {
            Some(utilization) => utilization,
            None => Utilization::of(self.exact(port, &parts)),
        }
    }

    /// The sum of the parts as that simulator has it, to the last bit.
    #[cold]
    fn exact(&self, port: &Port, parts: &Parts) -> f64 {
        let Logs { round_trip, nanoseconds } = self.logs;
        let waiting = parts.waiting.map_or(0.0, |log| {
            let steps = log as f64 + nanoseconds - port.rate_log - 2.0 * round_trip;
            power(steps) * (1u32 << QUEUE_SHIFT) as f64
        });
        let left = parts.left.map_or(0.0, |log| power(log as f64 - round_trip) / SUM_STEPS);
        waiting + parts.sent + left
    }

    /// The sum of the parts, to some 14 digits.
    #[inline]
    fn quick(&self, port: &Port, parts: &Parts) -> f64 {
        let power = |log: Option<i32>| log.map_or(0.0, |log| self.powers.of(log));
        power(parts.waiting) * port.per_wait + parts.sent + power(parts.left) * self.per_rest
    }

    /// A utilization as a power of the base: the one below or the one above, by chance, so that it is right on average.
    #[inline]
    fn encode(&mut self, steps: i64) -> u16 {
        let base = self.base;
        let code = self.codes.get(steps as usize, || Code::of(steps as f64, base));
        let chance = self.rand.draw() % CHANCES_IN_ALL;
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

/// The logarithm of a number that is short enough, in steps.
fn log(x: i32) -> i32 {
    ((x as f64).log2() * LOG_STEPS) as i32
}

/// A power of two, whose exponent is in steps.
fn power(steps: f64) -> f64 {
    // Hidden from the compiler, which would take `exp2` for it: its last digit may be another.
    std::hint::black_box(2f64).powf(steps / LOG_STEPS)
}

/// What a utilization is made of: logarithms of products, in steps, where there is something; and what was sent.
#[derive(Debug, Default)]
struct Parts {
    waiting: Option<i32>,
    sent: f64,
    left: Option<i32>,
}

/// What is kept and written of a utilization: whole numbers of steps. So its last digits matter only next to a boundary between
/// two, and elsewhere it need not be worked out as that simulator does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Utilization {
    /// The nearest, for the sum after it.
    pub sum_steps: i32,
    /// Those for its code, at least one.
    pub code_steps: i64,
    /// More than nothing.
    pub used: bool,
}

impl Utilization {
    #[inline]
    fn of(u: f64) -> Self {
        Utilization {
            sum_steps: nearest(u * SUM_STEPS),
            code_steps: above(u * UTILIZATION_STEPS).max(1),
            used: u > 0.0,
        }
    }

    /// As [`Self::of`] one that is known to a part of 10^-10, if that decides. Every boundary is a whole number of half steps.
    #[inline]
    fn about(u: f64) -> Option<Self> {
        let halves = u * (2.0 * SUM_STEPS);
        let (beyond, margin) = (halves - halves as i64 as f64, halves * 1e-10);
        (beyond > margin && beyond < 1.0 - margin).then(|| Self::of(u))
    }
}

/// Powers of two as products of two from tables, each right to the last digit or next to it.
#[derive(Debug)]
struct Powers {
    coarse: [f64; 256],
    fine: [f64; 128],
}

impl Powers {
    fn new() -> Self {
        Powers {
            coarse: std::array::from_fn(|step| power(step as f64 * 128.0)),
            fine: std::array::from_fn(|step| power(step as f64)),
        }
    }

    /// Of a sum of two logarithms of whole numbers, in steps. That of 0 is the lowest number, and its power nothing.
    #[inline]
    fn of(&self, steps: i32) -> f64 {
        if steps < 0 {
            return 0.0;
        }
        let whole = f64::from_bits((1023 + (steps as u64 >> 15)) << 52);
        whole * self.coarse[(steps >> 7) as usize % 256] * self.fine[steps as usize % 128]
    }
}

/// The whole number nearest to one that is not negative, halves up: what `round` says, which is a call on old processors.
#[inline]
fn nearest(x: f64) -> i32 {
    let whole = x as i32;
    whole.saturating_add((x - whole as f64 >= 0.5) as i32)
}

/// The whole number that is not below one that is not negative: what `ceil` says, which is a call on old processors.
#[inline]
fn above(x: f64) -> i64 {
    let whole = x as i64;
    whole.saturating_add((x > whole as f64) as i64)
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

/// The two powers of the base about a number of steps, and below which chance it is the one above.
#[derive(Clone, Copy, Debug)]
struct Code {
    high: u16,
    low: u16,
    chances: u32,
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
        let chances = (steps - below) / (above - below) * CHANCES_IN_ALL as f64;
        Code { high, low, chances: chances.ceil() as u32 }
    }
}

#[cfg(test)]
mod pint_tests {
    use super::*;

    pub(super) const PARAMETERS: Parameters = Parameters {
        target_utilization: 0.95,
        max_stage: 0,
        rate_ai_bps: 40_000_000,
        min_rate_bps: 1_000_000_000,
        log_base: 1.05,
        probability: 1.0,
    };
    const G100: u64 = 100_000_000_000;

    /// A full port: each packet of 1050 B takes 84 ns of a round trip of 4160, and the rest decays.
    #[test]
    fn a_ports_utilization_tends_to_its_load() {
        let mut mode = Mode::new(&PARAMETERS, 4160);
        for packet in 0..1000u64 {
            mode.fields.set(0, 0);
            let now_ns = 10_000 + packet * 84;
            let leaving =
                Leaving { port: 3, now_ns, tx_bytes: 0, queued: 0, rate: G100, wire: 1050, data: 0 };
            mode.pass(&leaving);
        }
        let u = mode.ports[3].u as f64 / 8192.0;
        assert!((u - 1.0).abs() < 0.02, "{u}");
        let field = mode.fields.0[0];
        assert!((mode.arithmetic.decode(field) - 1.0).abs() < 0.07, "{field}");
        // A packet keeps the largest, and an ACK writes nothing.
        mode.fields.set(0, 900);
        let idle = Leaving { port: 4, now_ns: 99, tx_bytes: 0, queued: 0, rate: G100, wire: 60, data: 0 };
        mode.pass(&idle);
        assert_eq!(mode.fields.0[0], 900);
        let drawn = mode.arithmetic.rand.drawn;
        mode.pass_other(4, 99, 60);
        assert_eq!(mode.arithmetic.rand.drawn, drawn);
    }

    /// With a field of 8 bits a load above the largest power wraps, but only where the receiver reads: until then, it is the
    /// largest.
    #[test]
    fn the_field_is_cut_where_it_is_read() {
        let mut mode = Mode::new(&PARAMETERS, 4160);
        assert_eq!(mode.arithmetic.field_mask, 0xff);
        mode.flows.begin(0, Flow::new(Start { line_rate: G100, base_rtt_ns: 4160, window: 52_000 }));
        mode.fields.set(0, 256);
        let leaving =
            Leaving { port: 0, now_ns: 99, tx_bytes: 0, queued: 0, rate: G100, wire: 1050, data: 0 };
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
        mode.flows.begin(0, Flow::new(Start { line_rate: G100, base_rtt_ns: 4160, window: 52_000 }));
        mode.fields.set(0, 200);
        let ack = Ack { now_ns: 0, seq: 1000, snd_nxt: 9000, marked: false };
        assert_eq!(mode.on_ack(0, 0, &ack), None);
        assert_eq!(
            (mode.arithmetic.rand.drawn, mode.flows.get(0).map(|flow| flow.last_update)),
            (1, Some(0))
        );
    }
}

#[cfg(test)]
mod sums_tests {
    use super::pint_tests::PARAMETERS;
    use super::*;

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
        assert_eq!([sums.encode(1), sums.encode(512)], [0, 9]);
        assert_eq!((sums.decode(9), sums.rand.drawn), (1.0, 2));
        // Between 2^9 and 2^10 on average what it is: 768 is halfway.
        let high = (0..4000).filter(|_| sums.encode(768) == 10).count();
        assert!((1850..2150).contains(&high), "{high}");
        assert_eq!(sums.field_mask, 0xff);
        assert_eq!(Arithmetic::new(&Parameters { log_base: 1.01, ..PARAMETERS }, 4160).field_mask, 0xffff);
    }

    /// Rounded as the library does; halves, their neighbours, and what no `i32` holds.
    #[test]
    fn whole_numbers_are_those_of_the_library() {
        let about = |x: f64| [x.next_down(), x, x.next_up()];
        let numbers = [0.5, 1.0, 1.5, 2.5, 8191.5, 1e9, 2147483647.5, 1e12].into_iter().flat_map(about);
        for x in numbers.chain([0.0, f64::MIN_POSITIVE, f64::INFINITY]) {
            assert_eq!((nearest(x), above(x)), (x.round() as i32, x.ceil() as i64), "{x:?}");
        }
    }

    /// Powers from tables are the library's to 14 digits, and what is nothing there is nothing here.
    #[test]
    fn powers_are_those_of_the_library() {
        let powers = Powers::new();
        for steps in (0..62 * 32_768).step_by(997).chain([1, 127, 128, 32_767, 32_768]) {
            let (quick, exact) = (powers.of(steps), power(steps as f64));
            assert!((quick - exact).abs() <= 1e-14 * exact, "{steps}: {quick:?}, not {exact:?}");
        }
        assert_eq!([powers.of(i32::MIN), powers.of(i32::MIN + 1_000_000)], [0.0, 0.0]);
    }

    /// A sum that may be on either side of a boundary is left to the slow way: half a step of the sums, and whole ones, of which
    /// sixteen are one of the code.
    #[test]
    fn nothing_is_decided_next_to_a_boundary() {
        let steps = |steps: f64| Utilization::about(steps / SUM_STEPS);
        for at in [0.5, 1.0, 1.5, 16.0, 4096.0, 4100.5] {
            assert_eq!([steps(at), steps(at * (1.0 + 1e-11)), steps(at * (1.0 - 1e-11))], [None; 3], "{at}");
            for beside in [at - 0.2, at + 0.2] {
                assert_eq!(steps(beside), Some(Utilization::of(beside / SUM_STEPS)));
            }
        }
        assert_eq!([0.0, f64::INFINITY, f64::NAN].map(Utilization::about), [None; 3]);
    }
}
