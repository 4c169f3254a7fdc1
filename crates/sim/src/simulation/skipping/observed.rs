//! Observes a run in windows of time, to tell whether it is steady.

use tailback_proto::units::Time;

use crate::fabric::CLASSES;
use crate::world::World;

/// Length of the first windows, each of which is at least a bin. It is of the order of a controller's timers
/// (DCQCN's are 50 to 1,500 us).
const FIRST_WINDOW: Time = Time::from_us(200);
/// Most windows kept: when there are this many, they are merged in pairs.
const MOST_WINDOWS: usize = 64;
/// Counters of a queue pair, and of a host.
const OF_QP: usize = 4;
const OF_HOST: usize = 2;

/// Counters of a world, or their growth.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    values: Vec<u64>,
    qps: usize,
    hosts: usize,
}

/// What a queue pair did.
#[derive(Clone, Copy, Debug)]
pub(super) struct OfQp {
    /// Packets that arrived in order.
    pub packets: u64,
    pub cnps: u64,
    pub marks: u64,
    /// How long the lowest rate made its packets wait, ps.
    pub waited: u64,
}

/// What a host did.
#[derive(Clone, Copy, Debug)]
pub(super) struct OfHost {
    /// Packets that it sent other than data and CNPs.
    pub acks: u64,
    pub cnp_delay_ns: u64,
}

impl Counts {
    pub fn read(world: &World) -> Counts {
        let (nics, fabric) = (&world.nics, &world.fabric);
        let (qps, hosts) = (nics.send_qps.len(), nics.nics.len());
        let mut values = Vec::with_capacity(OF_QP * qps + OF_HOST * hosts + CLASSES * fabric.ports.len() + 1);
        let mut data_sent = vec![0u64; hosts];
        for (s, r) in nics.send_qps.iter().zip(&nics.recv_qps) {
            let waited = s.at_min_rate.as_ref().map_or(0, |waits| waits.waited.0);
            let packets = r.half.responder.received();
            values.extend([packets, r.np_cnp_sent, r.np_ecn_marked_roce_packets, waited]);
            data_sent[s.src as usize] += s.packets_sent;
        }
        let mut disturbances = fabric.data.dropped
            + fabric.data.out_of_sequence
            + fabric.data.duplicate
            + fabric.pause_frames.sent
            + fabric.dropped.iter().map(|dropped| dropped[0] + dropped[1]).sum::<u64>();
        for (nic, data) in nics.nics.iter().zip(data_sent) {
            let rdma = &nic.counters.rdma;
            let sent: u64 = fabric.queues.of_port(nic.port as usize).map(|queue| queue.tx_packets).sum();
            values.push(sent.wrapping_sub(data).wrapping_sub(rdma.np_cnp_sent));
            values.push(nic.counters.cnp_delay_ns);
            disturbances += rdma.local_ack_timeout_err + rdma.packet_seq_err;
        }
        values.extend(fabric.marked.iter());
        values.push(disturbances);
        Counts { values, qps, hosts }
    }

    fn since(&self, before: &Counts) -> Counts {
        let values = self.values.iter().zip(&before.values).map(|(now, before)| now.wrapping_sub(*before));
        Counts { values: values.collect(), ..*self }
    }

    fn add(&mut self, other: &Counts) {
        self.values.iter_mut().zip(&other.values).for_each(|(sum, more)| *sum = sum.wrapping_add(*more));
    }

    pub fn of_qp(&self, qp: usize) -> OfQp {
        let &[packets, cnps, marks, waited] = &self.values[OF_QP * qp..][..OF_QP] else { unreachable!() };
        OfQp { packets, cnps, marks, waited }
    }

    pub fn of_host(&self, host: usize) -> OfHost {
        let at = OF_QP * self.qps + OF_HOST * host;
        // Packets that still waited to be sent at the beginning or the end do not matter.
        OfHost { acks: (self.values[at] as i64).max(0) as u64, cnp_delay_ns: self.values[at + 1] }
    }

    /// Packets marked, by lane.
    pub fn marked(&self) -> &[u64] {
        &self.values[OF_QP * self.qps + OF_HOST * self.hosts..self.values.len() - 1]
    }

    /// Losses, timeouts and PFC frames.
    pub fn disturbances(&self) -> u64 {
        self.values[self.values.len() - 1]
    }
}

/// A window of time, or several merged.
#[derive(Clone, Debug)]
pub(super) struct Window {
    pub span: Time,
    pub counts: Counts,
    /// For each column of the recorder: the mean, or the largest value.
    pub gauges: Vec<f64>,
}

impl Window {
    /// Merges windows, of which there is at least one. `is_largest` says for each column whether it holds the
    /// largest value.
    pub fn of(windows: &[Window], is_largest: &[bool]) -> Window {
        let mut sum = windows[0].clone();
        windows[1..].iter().for_each(|window| sum.add(window, is_largest));
        sum
    }

    fn add(&mut self, other: &Window, is_largest: &[bool]) {
        self.counts.add(&other.counts);
        add_gauges((&mut self.gauges, self.span), (&other.gauges, other.span), is_largest);
        self.span += other.span;
    }
}

fn add_gauges((sum, so_far): (&mut [f64], Time), (more, span): (&[f64], Time), is_largest: &[bool]) {
    let share = span.0 as f64 / (so_far + span).0 as f64;
    for ((sum, more), is_largest) in sum.iter_mut().zip(more).zip(is_largest) {
        *sum = if *is_largest { sum.max(*more) } else { *sum + (more - *sum) * share };
    }
}

/// The windows since something last happened.
#[derive(Debug, Default)]
pub(super) struct Observed {
    /// For each column of the recorder: whether it holds the largest value of a bin.
    is_largest: Vec<bool>,
    length: Time,
    pub windows: Vec<Window>,
    /// The open window: the counters at its beginning, and what it has so far. None until nothing has
    /// happened for the length of a window: where messages begin and end all the time, nothing is read.
    begun: Option<Counts>,
    gauges: Vec<f64>,
    span: Time,
    /// Windows closed since the last step.
    pub since_step: usize,
}

impl Observed {
    pub fn new(is_largest: Vec<bool>) -> Observed {
        let gauges = vec![0.0; is_largest.len()];
        Observed { is_largest, length: FIRST_WINDOW, gauges, ..Observed::default() }
    }

    /// Something happened, so what was seen before no longer counts.
    pub fn forget(&mut self) {
        *self = Observed::new(std::mem::take(&mut self.is_largest));
    }

    /// Time was skipped, so counters have grown by what was not seen.
    pub fn stepped(&mut self, world: &World) {
        self.begin_window(Counts::read(world));
        self.since_step = 0;
    }

    fn begin_window(&mut self, now: Counts) {
        self.begun = Some(now);
        self.gauges.fill(0.0);
        self.span = Time::ZERO;
    }

    /// Adds a bin that was closed. Returns whether this closed a window, too.
    pub fn add_bin(&mut self, world: &World, span: Time, row: &[f64]) -> bool {
        if span == Time::ZERO {
            return false;
        }
        add_gauges((&mut self.gauges, self.span), (row, span), &self.is_largest);
        self.span += span;
        if self.span < self.length {
            return false;
        }
        let now = Counts::read(world);
        let Some(begun) = &self.begun else {
            self.begin_window(now);
            return false;
        };
        let counts = now.since(begun);
        self.windows.push(Window { span: self.span, counts, gauges: self.gauges.clone() });
        self.begin_window(now);
        self.since_step += 1;
        if self.windows.len() == MOST_WINDOWS {
            let pairs = self.windows.chunks(2).map(|pair| Window::of(pair, &self.is_largest));
            self.windows = pairs.collect();
            self.length = self.length + self.length;
        }
        true
    }

    pub fn together(&self, windows: &[Window]) -> Window {
        Window::of(windows, &self.is_largest)
    }
}
