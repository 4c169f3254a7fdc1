//! Mode 10, HPCC with PINT: each switch port keeps its own utilization, and a packet brings the largest of its way as one
//! number of 16 bits, a logarithm that is rounded by chance.
//!
//! Chance is C's `rand()`, one stream for the whole run: switches draw when they write, senders on each ACK. Logarithms
//! and powers are the C library's; glibc's since 2.28 are what the reference runs had.

mod sums;

use super::super::plan::Pint as Parameters;
use super::glibc::Rand;
use super::hpcc::{step, Step};
use super::{Ack, Carried, Flows, Leaving, Start};
use sums::{Arithmetic, CHANCES};

/// A port of a switch.
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super) struct Port {
    /// Its utilization in the steps that its sums take it in.
    pub u: i32,
    /// Whether that is more than nothing, though it may be no whole step.
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

/// What a data packet did to a port, for the log.
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

/// A port's place, which is made when it is first asked for.
#[inline]
fn place(ports: &mut Vec<Port>, port: u32) -> &mut Port {
    if ports.len() <= port as usize {
        ports.resize(port as usize + 1, Port::default());
    }
    &mut ports[port as usize]
}

#[cfg(test)]
mod tests {
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
