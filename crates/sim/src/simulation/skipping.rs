//! Skipping what is steady.
//!
//! While a run goes on packet by packet, it is observed in windows. If nothing began or ended,
//! nothing was lost or paused, and goodput and queues are known well enough, time is skipped:
//! at first a few times the observed time, then twice as much after each step that the packets
//! after it confirm. Before the next event of the plan, and before a message can end, the run goes on packet
//! by packet.
//!
//! Leaves out: what only a longer look would show, such as a slow beat of clocks. A check finds it when it
//! comes, but what was skipped before stays as it was estimated.

use std::collections::BTreeMap;
use tailback_proto::transport::rc::wire_psn;
use tailback_proto::units::Time;
use tailback_proto::wire::{CNP_FRAME_BYTES, PREAMBLE_AND_GAP_BYTES};

use super::{Progress, Simulation};
use crate::engine::{EventQueue, Fifo};
use crate::event::Event;
use crate::fabric::packet::{Packet, PacketKind};
use crate::fabric::port::RECLASSIFIES;
use crate::fabric::{lane, Fabric, CLASSES};
use crate::nic::queue_pair::QpState;
use crate::nic::{EndSignal, Nics};
use crate::plan::{PlanError, Skip};
use crate::record::Skipped;
use crate::world::World;

/// Controllers of rates may take long to settle. Before anything is skipped, this part of a span of the plan
/// is simulated packet by packet: the first where there are marks or controllers that hear ACKs, the second
/// where there are none.
const FIRST_PART_SHARES: [f64; 2] = [1.0 / 32.0, 1.0 / 256.0];

/// The first step as a multiple of the sample's length, for the same two cases.
const FIRST_STEP_FACTORS: [f64; 2] = [2.0, 8.0];

/// The shortest step that is worth taking, as a multiple of the sample's length.
const SHORTEST_STEP_FACTOR: f64 = 0.5;

/// Windows between two looks, and between a step and the next look.
const WINDOWS_OF_LOOK: usize = 4;

/// The time that is simulated packet by packet before an event of the plan and before a message ends, as a share of the
/// sample's length.
const BY_PACKETS_BEFORE_END_SHARE: f64 = 0.25;

/// State of a run that may skip.
#[derive(Debug)]
pub(super) struct Skipping {
    /// The largest error of goodput that may be stated.
    error: f64,
    /// Columns of the recorder with the mean lengths of egress queues.
    queues: Vec<usize>,
    /// Times at which the plan begins or ends something, the last one first.
    of_plan: Vec<Time>,
    observed: Observed,
    /// Queue pairs that are not done.
    active: usize,
    /// True if something began or ended in the open bin.
    is_disturbed: bool,
    rounded: Rounded,
    /// The next step, as a multiple of the first.
    next_step: f64,
    /// The expectation of the last step, until it is checked.
    expected: Option<Estimate>,
    /// For each queue pair: how far the skipped time may have put it off, early or late.
    off: Vec<f64>,
    steps: Vec<Skipped>,
}

impl Simulation {
    /// Gets ready to skip, if the plan says so.
    ///
    /// # Errors
    /// The run has something that cannot be skipped.
    pub(super) fn begin_skipping(&mut self) -> Result<(), PlanError> {
        if self.plan.run.skip == Skip::Never {
            return Ok(());
        }
        if self.external {
            return Err(self.plan.not_skipped("controllers of its own"));
        }
        let telemetry = self.world.nics.send_qps.iter().any(|s| s.half.uses.telemetry);
        if telemetry {
            return Err(self.plan.not_skipped("a controller that reads the counters of switches"));
        }
        let of_plan = of_plan(&self.world);
        let qps = self.world.nics.send_qps.len();
        self.skipping = Some(Box::new(Skipping {
            error: self.plan.run.skip_error,
            queues: self.recorder.mean_lengths(),
            of_plan,
            observed: Observed::new(self.recorder.largest()),
            active: self.world.fabric.run.active_flows,
            is_disturbed: false,
            rounded: Rounded::of(qps),
            next_step: 1.0,
            expected: None,
            off: vec![0.0; qps],
            steps: Vec::new(),
        }));
        Ok(())
    }

    pub(super) fn skipped(&mut self) -> Vec<Skipped> {
        self.skipping.take().map_or(Vec::new(), |skipping| skipping.steps)
    }

    /// Executes `max_events` events, or all that are left, and skips what can be skipped.
    pub(super) fn run_skipping(&mut self, max_events: u64) -> Progress {
        let last = self.events + max_events;
        while self.events < last && !self.world.fabric.run.finished {
            let end = self.plan.run.duration - self.world.fabric.run.skips.total;
            let run = &mut self.world.fabric.run;
            match run.events.pop() {
                Some((time, code)) if time <= end => {
                    self.events += 1;
                    run.now = time;
                    let event = Event::decode(code);
                    if event == Event::Sample {
                        self.sample_and_skip();
                        continue;
                    }
                    self.dispatch(event);
                    let Some(skipping) = &mut self.skipping else { continue };
                    if event.is_of_plan() || self.world.fabric.run.active_flows != skipping.active {
                        skipping.disturbed(&self.world);
                    }
                }
                _ => {
                    run.now = end;
                    run.finished = true;
                }
            }
        }
        self.progress()
    }

    /// Closes a bin, and perhaps skips what follows.
    fn sample_and_skip(&mut self) {
        let end = self.world.fabric.run.simulated();
        let span = self.recorder.close_bin(&mut self.world, end);
        let Some(mut skipping) = self.skipping.take() else { return };
        // Only once per bin, however much begins and ends in it.
        let looks = if std::mem::take(&mut skipping.is_disturbed) {
            skipping.forget();
            false
        } else {
            skipping.observed.add_bin(&self.world, span, self.recorder.last_bin())
        };
        self.recorder.merge_if_full();
        if looks && skipping.observed.since_step.is_multiple_of(WINDOWS_OF_LOOK) {
            if let Some(estimate) = skipping.look(&self.world, self.plan.run.duration) {
                self.step(&mut skipping, estimate);
            }
        }
        self.skipping = Some(skipping);
        let world = &mut self.world;
        let next = self.recorder.next_sample(world.fabric.run.skips.total);
        world.fabric.run.schedule(next, Event::Sample);
        world.fabric.run.finished |= world.deadlocks.look(&world.fabric);
    }

    /// Skips as much time as possible.
    fn step(&mut self, skipping: &mut Skipping, estimate: Estimate) {
        let from = self.world.fabric.run.simulated();
        let longest = skipping.longest(&self.world, &estimate, self.plan.run.duration);
        let to = self.recorder.end_of_bins(from + Time(longest.max(0.0) as u64));
        let length = to - from;
        if (length.0 as f64) < SHORTEST_STEP_FACTOR * estimate.sample.span.0 as f64 {
            return;
        }
        let world = &mut self.world;
        let hops = world.packet_hops();
        let before = Series::of(world);
        let signals = go_on(world, &estimate, length, &mut skipping.rounded);
        let after = Series::of(world);
        let mut log = SignalLog { signals, done: 0 };
        self.recorder.skip_to(world, to, &estimate.sample.gauges, |world, at| {
            let way = ((at - from).0, length.0);
            before.bring(world, &after, way);
            log.bring(world, way);
        });
        for (off, (_, error)) in skipping.off.iter_mut().zip(&estimate.rates) {
            *off += error * length.0 as f64;
        }
        let [goodput_error, queue_error, signal_error, qp_error] = estimate.errors_of_step(length);
        skipping.steps.push(Skipped {
            from_ps: from.0,
            to_ps: to.0,
            observed_ps: estimate.sample.span.0,
            packet_hops: world.packet_hops() - hops,
            goodput_error,
            queue_error,
            signal_error,
            qp_error,
            check: "none",
            goodput_off: None,
            queue_off: None,
            signal_off: None,
        });
        world.fabric.run.skips.add(world.fabric.run.now, length);
        skipping.observed.stepped(world);
        skipping.expected = Some(estimate);
        skipping.next_step *= 2.0;
        bring_plan_nearer(world, length);
    }
}

/// Schedules events of the plan `by` earlier: the clock stood still for that long.
fn bring_plan_nearer(world: &mut World, by: Time) {
    let ports = world.fabric.ports.len();
    let run = &mut world.fabric.run;
    let mut queue = std::mem::replace(&mut run.events, EventQueue::for_ports(ports));
    while let Some((place, code)) = queue.take() {
        let event = Event::decode(code);
        if event.is_of_plan() {
            run.schedule(place.time() - by, event);
        } else {
            run.schedule_at(place, code);
        }
    }
}

/// Times of the plan that are still to come, the last one first.
fn of_plan(world: &World) -> Vec<Time> {
    let mut found: Vec<Time> = (world.fabric.run.events.pending())
        .filter(|(_, code)| Event::decode(*code).is_of_plan())
        .map(|(place, _)| place.time())
        .collect();
    found.sort_unstable();
    found.reverse();
    found
}

/// Signals to note for pairs of hosts, and the share of the step that is noted already.
struct SignalLog {
    signals: SignalCounts,
    done: u64,
}

impl SignalLog {
    fn bring(&mut self, world: &mut World, (share, of): (u64, u64)) {
        for &(signal, from, to, total) in &self.signals {
            let until = |share: u64| (total as u128 * share as u128 / of as u128) as u64;
            world.nics.pair_counts.note_many(signal, from, to, until(share) - until(self.done));
        }
        self.done = share;
    }
}

impl Skipping {
    /// Notes that something began or ended.
    fn disturbed(&mut self, world: &World) {
        self.active = world.fabric.run.active_flows;
        let simulated = world.fabric.run.simulated();
        while self.of_plan.last().is_some_and(|next| *next <= simulated) {
            self.of_plan.pop();
        }
        self.is_disturbed = true;
    }

    fn forget(&mut self) {
        self.observed.forget();
        self.expected = None;
        self.next_step = 1.0;
    }

    /// The estimate to go by, if it is certain enough and the last step was confirmed.
    fn look(&mut self, world: &World, duration: Time) -> Option<Estimate> {
        if let Some(expected) = self.expected.take() {
            let windows = &self.observed.windows;
            let since = self.observed.together(&windows[windows.len() - self.observed.since_step..]);
            let batches = since.span.0 as f64 * 8.0 / expected.sample.span.0 as f64;
            let packets_to = |receiver: usize| {
                let to = world.nics.send_qps.iter().enumerate().filter(|(_, s)| s.dst as usize == receiver);
                to.map(|(qp, _)| since.counts.of_qp(qp).packets as f64).sum()
            };
            let (off, contradicts) = compare(&expected, &since, packets_to, batches, self.error);
            if let Some(step) = self.steps.last_mut() {
                step.check(off, contradicts);
            }
            if contradicts {
                self.forget();
                return None;
            }
        }
        if self.observed.windows.len() < FEWEST_WINDOWS {
            return None;
        }
        let estimate = judge(&self.observed, world, &self.queues, self.error)?;
        let seen: Time = self.observed.windows.iter().fold(Time::ZERO, |seen, window| seen + window.span);
        let rest = self.next(duration) - world.fabric.run.simulated();
        let is_calm = usize::from(estimate.is_calm);
        ((seen.0 as f64) >= FIRST_PART_SHARES[is_calm] * (seen + rest).0 as f64).then_some(estimate)
    }

    /// When the plan next begins or ends something.
    fn next(&self, duration: Time) -> Time {
        self.of_plan.last().map_or(duration, |next| duration.min(*next))
    }

    /// Longest next step, ps.
    fn longest(&self, world: &World, estimate: &Estimate, duration: Time) -> f64 {
        let now = world.fabric.run.simulated();
        let sample = estimate.sample.span.0 as f64;
        let step = FIRST_STEP_FACTORS[usize::from(estimate.is_calm)] * self.next_step * sample;
        let mut longest =
            step.min((self.next(duration) - now).0 as f64 - BY_PACKETS_BEFORE_END_SHARE * sample);
        for (qp, &(rate, error)) in estimate.rates.iter().enumerate() {
            if rate <= 0.0 {
                continue;
            }
            let Some((left, most)) = lasts(&world.nics, qp, rate, &self.rounded) else { continue };
            longest = longest.min(most).min(left * (1.0 - error) - BY_PACKETS_BEFORE_END_SHARE * sample);
            // All steps together may put its completion time off by no more than this.
            let takes =
                (now - world.fabric.run.skips.simulated_at(world.nics.send_qps[qp].start)).0 as f64 + left;
            longest = longest.min((self.error * takes - self.off[qp]) / error.max(1e-9));
        }
        longest
    }
}

// Observes a run in windows of time, to tell whether it is steady.

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
struct Counts {
    values: Vec<u64>,
    qps: usize,
    hosts: usize,
}

/// Counters of a queue pair in a window.
#[derive(Clone, Copy, Debug)]
struct QpCounts {
    /// Packets that arrived in order.
    pub packets: u64,
    pub cnps: u64,
    pub marks: u64,
    /// Time that packets waited at the lowest rate, ps.
    pub waited: u64,
}

/// Counters of a host in a window.
#[derive(Clone, Copy, Debug)]
struct HostCounts {
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

    pub fn of_qp(&self, qp: usize) -> QpCounts {
        let &[packets, cnps, marks, waited] = &self.values[OF_QP * qp..][..OF_QP] else { unreachable!() };
        QpCounts { packets, cnps, marks, waited }
    }

    pub fn of_host(&self, host: usize) -> HostCounts {
        let at = OF_QP * self.qps + OF_HOST * host;
        // Packets that still waited to be sent at the beginning or the end do not matter.
        HostCounts { acks: (self.values[at] as i64).max(0) as u64, cnp_delay_ns: self.values[at + 1] }
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
struct Window {
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
struct Observed {
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

// Judges whether the observed windows are steady, how fast everything goes then, and how certain that is.
//
// Source: the method of batch means (Law and Kelton, "Simulation Modeling and Analysis", section 9.5): the
// latter half of a run is cut into batches, and the spread of their means gives the confidence interval of
// the whole. Queue pairs to the same receiver count as members of one population as far as their batches
// cannot tell them apart (Efron and Morris, "Stein's estimation rule and its competitors", 1973).

/// Batches of a sample.
const BATCHES_PER_SAMPLE: usize = 8;

/// Student's t for 95 % on both sides and 7 degrees of freedom.
const T_OF_BATCHES: f64 = 2.365;

/// Windows to wait for: the latter half of them is the sample.
const FEWEST_WINDOWS: usize = 16;

/// Errors of queues and of signals may be larger than those of goodput by these factors.
const QUEUE_ERROR_FACTOR: f64 = 2.0;

const SIGNAL_ERROR_FACTOR: f64 = 20.0;

/// The smallest error that is stated. Assumption, from measurements: what a sample does not see, such as a
/// rare pause, moved the goodput of runs by up to 0.07 % where their batches suggested 0.0001 %.
const LEAST_STATED_ERROR: f64 = 1e-3;

/// A receiver with a smaller share of all packets than this says nothing about the run.
const SMALL_RECEIVER_SHARE: f64 = 0.01;

/// A queue shorter than this, in bytes, counts as empty: it is one packet of the largest MTU. Errors of
/// queues shorter than four such packets are relative to four packets.
const SHORT_QUEUE_BYTES: f64 = 4096.0;

const SMALL_QUEUE_BYTES: f64 = 4.0 * SHORT_QUEUE_BYTES;

/// Estimate of a steady run.
#[derive(Debug)]
struct Estimate {
    /// The windows of the sample, merged.
    pub sample: Window,
    /// For each queue pair: packets per picosecond, and their relative error (half of a 95 % confidence
    /// interval).
    pub rates: Vec<(f64, f64)>,
    /// Relative errors: the largest of the receivers that matter, the largest of the queues that matter, and
    /// in `qp_error` the root mean square of the queue pairs.
    pub goodput_error: f64,
    pub queue_error: f64,
    /// The larger of the relative errors of CNPs and of marks.
    pub signal_error: f64,
    /// CNPs and marks of the whole run, per picosecond.
    pub of_signals: [f64; 2],
    pub qp_error: f64,
    /// True if nothing is marked and no controller hears ACKs.
    pub is_calm: bool,
    /// For each receiver that matters: packets per picosecond, and their standard deviation from batch to
    /// batch.
    pub of_receivers: Vec<(usize, f64, f64)>,
    /// For each column of a queue that matters: its mean length in bytes, and the standard deviation from
    /// batch to batch.
    pub of_queues: Vec<(usize, f64, f64)>,
}

/// The mean of batches, half of its confidence interval, and the standard deviation of the batches.
fn of_batches(batches: &[f64]) -> (f64, f64, f64) {
    let count = batches.len() as f64;
    let mean = batches.iter().sum::<f64>() / count;
    let variance = batches.iter().map(|batch| (batch - mean).powi(2)).sum::<f64>() / (count - 1.0);
    (mean, T_OF_BATCHES * (variance / count).sqrt(), variance.sqrt())
}

/// Mean of the latter half of batches minus that of the former.
fn drift(batches: &[f64]) -> f64 {
    let (former, latter) = batches.split_at(batches.len() / 2);
    mean(latter) - mean(former)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// A quantity that was measured in batches.
struct Quantity {
    mean: f64,
    deviation: f64,
    /// Half of the confidence interval of the mean, or half of the observed change, whichever is larger;
    /// relative.
    error: f64,
}

/// A quantity, if its mean is known to the relative `error` and is the same as before the sample. Errors of a
/// mean below `least` are relative to `least`.
fn steady(batches: &[f64], least: f64, error: f64) -> Option<Quantity> {
    let (before, sample) = batches.split_at(batches.len() - BATCHES_PER_SAMPLE);
    let (found, half, deviation) = of_batches(sample);
    let changes = (found - mean(before)).abs().max(drift(sample).abs());
    let of = found.max(least);
    (half <= error * of && changes <= 2.0 * error * of).then(|| Quantity {
        mean: found,
        deviation,
        error: half.max(changes / 2.0) / of,
    })
}

/// Cuts what was seen into batches of equally many windows. The latter half of the windows is the sample, and
/// half as many batches precede it. None: too few windows.
fn batches(observed: &Observed) -> Option<Vec<Window>> {
    let seen = &observed.windows;
    let each = seen.len() / 2 / BATCHES_PER_SAMPLE;
    let windows = each * (BATCHES_PER_SAMPLE + BATCHES_PER_SAMPLE / 2);
    (seen.len() >= FEWEST_WINDOWS).then(|| {
        seen[seen.len() - windows..].chunks(each).map(|windows| observed.together(windows)).collect()
    })
}

/// The estimate, if the observed windows are steady. `queues` are the columns with the mean lengths of egress queues.
/// `error` is the largest error of goodput that may be stated; see [`QUEUE_ERROR_FACTOR`] and [`SIGNAL_ERROR_FACTOR`] for the others.
fn judge(observed: &Observed, world: &World, queues: &[usize], error: f64) -> Option<Estimate> {
    let batches = batches(observed)?;
    if batches.iter().any(|batch| batch.counts.disturbances() > 0) {
        return None;
    }
    let in_sample = &batches[BATCHES_PER_SAMPLE / 2..];
    let sample = observed.together(in_sample);
    let qps = world.nics.send_qps.len();
    // Packets per picosecond of a queue pair in a batch.
    let rate = |batch: &Window, qp| batch.counts.of_qp(qp).packets as f64 / batch.span.0 as f64;
    let mut receivers: BTreeMap<u16, Vec<f64>> = BTreeMap::new();
    let mut populations: BTreeMap<(u16, u8, u8), Vec<usize>> = BTreeMap::new();
    let mut signals = [vec![0.0; batches.len()], vec![0.0; batches.len()]];
    for (qp, s) in world.nics.send_qps.iter().enumerate() {
        if sample.counts.of_qp(qp).packets == 0 {
            continue;
        }
        let of_receiver = receivers.entry(s.dst).or_insert_with(|| vec![0.0; batches.len()]);
        for (at, batch) in batches.iter().enumerate() {
            let span = batch.span.0 as f64;
            let counts = batch.counts.of_qp(qp);
            of_receiver[at] += rate(batch, qp);
            signals[0][at] += counts.cnps as f64 / span;
            signals[1][at] += counts.marks as f64 / span;
        }
        populations.entry((s.dst, s.class, s.congestion)).or_default().push(qp);
    }
    let whole: f64 = receivers.values().map(|batches| mean(batches)).sum();
    let (mut goodput_error, mut of_receivers) = (0.0f64, Vec::new());
    for (receiver, batches) in receivers {
        if mean(&batches) > SMALL_RECEIVER_SHARE * whole {
            let goodput = steady(&batches, 0.0, error)?;
            goodput_error = goodput_error.max(goodput.error);
            of_receivers.push((receiver as usize, goodput.mean, goodput.deviation));
        }
    }
    let mut signal_error = 0.0f64;
    let of_signals = [0, 1].map(|which| mean(&signals[which][BATCHES_PER_SAMPLE / 2..]));
    for of_signal in signals.iter().filter(|batches| batches.iter().any(|signals| *signals > 0.0)) {
        signal_error = signal_error.max(steady(of_signal, 0.0, SIGNAL_ERROR_FACTOR * error)?.error);
    }
    let (mut queue_error, mut of_queues) = (0.0f64, Vec::new());
    for &column in queues.iter().filter(|&&column| sample.gauges[column] > SHORT_QUEUE_BYTES) {
        let lengths: Vec<f64> = batches.iter().map(|batch| batch.gauges[column]).collect();
        let length = steady(&lengths, SMALL_QUEUE_BYTES, QUEUE_ERROR_FACTOR * error)?;
        queue_error = queue_error.max(length.error);
        of_queues.push((column, length.mean, length.deviation));
    }
    let mut rates = vec![(0.0, 0.0); qps];
    for members in populations.values() {
        let rates_of = |&qp: &usize| -> Vec<f64> { in_sample.iter().map(|batch| rate(batch, qp)).collect() };
        estimate(members, rates_of, &mut rates);
    }
    let hears_acks = world.nics.send_qps.iter().any(|s| s.half.uses.acks);
    let is_calm = !hears_acks && signals.iter().flatten().all(|signals| *signals == 0.0);
    let running = rates.iter().filter(|(rate, _)| *rate > 0.0);
    let (count, squares) =
        running.fold((0, 0.0), |(count, sum), (_, error)| (count + 1, sum + error * error));
    let qp_error = (squares / f64::from(count.max(1))).sqrt();
    Some(Estimate {
        sample,
        rates,
        goodput_error,
        queue_error,
        signal_error,
        of_signals,
        qp_error,
        is_calm,
        of_receivers,
        of_queues,
    })
}

/// Estimates the rates of the queue pairs of one population, and their errors. The part of their differences
/// that is chance is taken out, so that their sum stays the same.
fn estimate(members: &[usize], rates_of: impl Fn(&usize) -> Vec<f64>, rates: &mut [(f64, f64)]) {
    let count = members.len() as f64;
    let of_members: Vec<(f64, f64)> = members
        .iter()
        .map(|qp| {
            let batches = rates_of(qp);
            let (mean, half, _) = of_batches(&batches);
            // The variance by batches, or by halves, which show what is slower than a batch.
            (mean, (half / T_OF_BATCHES).powi(2).max(drift(&batches).powi(2) / 4.0))
        })
        .collect();
    let mean = of_members.iter().map(|(mean, _)| mean).sum::<f64>() / count;
    let noise = of_members.iter().map(|(_, variance)| variance).sum::<f64>() / count;
    let squares: f64 = of_members.iter().map(|(own, _)| (own - mean).powi(2)).sum();
    // Two queue pairs teach nothing about a population.
    let of_their_own = if members.len() > 2 {
        (1.0 - noise * (count - 1.0) / squares.max(f64::MIN_POSITIVE)).max(0.0)
    } else {
        1.0
    };
    for (&qp, (own, _)) in members.iter().zip(&of_members) {
        let rate = mean + of_their_own * (own - mean);
        let variance = of_their_own * noise + noise / count;
        rates[qp] = (rate, T_OF_BATCHES * variance.sqrt() / rate.max(f64::MIN_POSITIVE));
    }
}

/// Difference of two figures, relative to the smaller one or to `least`. If both of these are 0, 1 stands for any
/// difference.
fn apart(one: f64, other: f64, least: f64) -> f64 {
    let (smaller, larger) = (one.min(other).max(least), one.max(other));
    match smaller > 0.0 {
        true => (one - other).abs() / smaller,
        false => f64::from(u8::from(larger > 0.0)),
    }
}

impl Estimate {
    /// The errors to state for a step of this length. The sample's figures are known to within its errors,
    /// and what would have happened in the step differs from them by chance, too: the longer the step, the
    /// less.
    pub fn errors_of_step(&self, length: Time) -> [f64; 4] {
        let more = (1.0 + self.sample.span.0 as f64 / length.0 as f64).sqrt();
        [self.goodput_error, self.queue_error, self.signal_error, self.qp_error]
            .map(|error| (error * more).max(LEAST_STATED_ERROR))
    }
}

/// Relative differences of goodput, queues and signals between the windows since a step and the estimate, and whether
/// they contradict it.
fn compare(
    expected: &Estimate,
    since: &Window,
    packets_to: impl Fn(usize) -> f64,
    batches: f64,
    error: f64,
) -> ([f64; 3], bool) {
    // How far the mean of `batches` batches may be from that of the sample, in standard deviations.
    let chance = 3.0 * (1.0 / batches + 1.0 / BATCHES_PER_SAMPLE as f64).sqrt();
    let mut contradicts = since.counts.disturbances() > 0;
    let mut judge = |found: f64, mean: f64, deviation: f64, least: f64, error: f64| {
        let (off, of) = ((found - mean).abs(), mean.max(least));
        contradicts |= off > (chance * deviation).max(2.0 * error * of);
        apart(found, mean, least)
    };
    let mut off = [0.0f64; 3];
    for &(receiver, mean, deviation) in &expected.of_receivers {
        let found = packets_to(receiver) / since.span.0 as f64;
        off[0] = off[0].max(judge(found, mean, deviation, 0.0, error));
    }
    for &(column, mean, deviation) in &expected.of_queues {
        off[1] = off[1].max(judge(
            since.gauges[column],
            mean,
            deviation,
            SMALL_QUEUE_BYTES,
            QUEUE_ERROR_FACTOR * error,
        ));
    }
    // Signals contradict nothing: their effect shows in goodput and queues.
    let mut found = [0.0; 2];
    for qp in 0..expected.rates.len() {
        let counts = since.counts.of_qp(qp);
        found[0] += counts.cnps as f64 / since.span.0 as f64;
        found[1] += counts.marks as f64 / since.span.0 as f64;
    }
    for (found, mean) in found.into_iter().zip(expected.of_signals) {
        off[2] = off[2].max(apart(found, mean, 0.0));
    }
    (off, contradicts)
}

// A step: what the world becomes when everything goes on for some time as it was measured.
//
// Queues, controllers and packets on their way stay as they are, and so does the clock
// ([`crate::run::Skips`]). Each queue pair advances by a number of packets, and every counter on their way
// grows by exactly these packets and their answers, so that the books balance.

/// With at least this many completions left to be posted, half a completion more or less does not matter. With
/// fewer, a step ends within the message.
const FEWEST_MESSAGES: u64 = 64;

/// For each queue pair and quantity: what rounding has left over so far.
#[derive(Debug, Default)]
struct Rounded {
    packets: Vec<f64>,
    rest: Vec<[f64; 3]>,
}

/// Signals to hosts in a step: signal, sender, receiver and count.
type SignalCounts = Vec<(EndSignal, u16, u16, u64)>;

impl Rounded {
    pub fn of(qps: usize) -> Rounded {
        Rounded { packets: vec![0.0; qps], rest: vec![[0.0; 3]; qps] }
    }
}

/// Rounds to a whole number up to `most`, and leaves the rest for later steps.
fn whole(of: f64, left: &mut f64, most: u64) -> u64 {
    let exact = of + *left;
    let whole = (exact.round().max(0.0) as u64).min(most);
    *left = exact - whole as f64;
    whole
}

/// How a queue pair advances, and by how many packets at most.
enum Advance {
    /// By whole messages, as many at a time as share a completion: the packets of such a unit, and the most
    /// packets in all.
    Whole(u64, u64),
    /// Within its message, by at most this many packets: packets on their way belong to the middle of the
    /// message, before and after.
    Inside(u64),
}

fn way(nics: &Nics, qp: usize) -> Advance {
    let s = &nics.send_qps[qp];
    let writer = &nics.writers[s.writer as usize];
    let (size, requester) = (writer.writes.packets_per_message, &s.half.requester);
    match writer.messages.map(|messages| messages - s.messages_posted) {
        None => Advance::Whole(writer.completion_every * size, u64::MAX),
        Some(left) if left >= FEWEST_MESSAGES * writer.completion_every => {
            let unit = writer.completion_every * size;
            Advance::Whole(unit, left * size / unit * unit)
        }
        _ if requester.acknowledged() % size == 0 => Advance::Inside(0),
        _ => {
            let last = (requester.acknowledged() / size + 1) * size - 1;
            Advance::Inside(last.saturating_sub(requester.sent()))
        }
    }
}

/// The packets by which a queue pair advances if it should advance by `wanted`, and how many of these are also posted
/// in the step.
fn advance(nics: &Nics, qp: usize, wanted: f64, left: &mut f64) -> (u64, u64) {
    match way(nics, qp) {
        Advance::Whole(unit, most) => {
            let exact = wanted + *left;
            let packets = (((exact / unit as f64).round().max(0.0)) as u64 * unit).min(most);
            *left = exact - packets as f64;
            (packets, packets)
        }
        Advance::Inside(most) => (whole(wanted, left, most), 0),
    }
}

/// Time until a queue pair ends at `rate`, and the longest time that one step can skip, ps. None: it does not end.
fn lasts(nics: &Nics, qp: usize, rate: f64, rounded: &Rounded) -> Option<(f64, f64)> {
    let s = &nics.send_qps[qp];
    let writer = &nics.writers[s.writer as usize];
    let messages = writer.messages?;
    let left = messages * writer.writes.packets_per_message - s.half.requester.sent();
    let (Advance::Whole(_, most) | Advance::Inside(most)) = way(nics, qp);
    // Packets left over from rounding take no more time.
    let after = |packets: u64| (packets as f64 - rounded.packets[qp]) / rate;
    Some((after(left), after(most)))
}

/// Makes everything go on for `length`. Returns the signals between pairs of hosts.
fn go_on(world: &mut World, estimate: &Estimate, length: Time, rounded: &mut Rounded) -> SignalCounts {
    let times = length.0 as f64 / estimate.sample.span.0 as f64;
    let hosts = world.nics.nics.len();
    let counts = &estimate.sample.counts;
    let mut signals = SignalCounts::new();
    let mut further = vec![0u64; world.nics.send_qps.len()];
    // For each receiver: the packets that it got in the sample. Its ACKs answered that many.
    let mut got = vec![0u64; hosts];
    for (qp, s) in world.nics.send_qps.iter().enumerate() {
        got[s.dst as usize] += counts.of_qp(qp).packets;
    }
    for (qp, &(rate, _)) in estimate.rates.iter().enumerate() {
        if rate <= 0.0 || world.nics.send_qps[qp].state != QpState::Running {
            continue;
        }
        let (packets, posted) = advance(&world.nics, qp, rate * length.0 as f64, &mut rounded.packets[qp]);
        further[qp] = packets;
        let seen = counts.of_qp(qp);
        let dst = world.nics.send_qps[qp].dst as usize;
        let acks = packets as f64 * counts.of_host(dst).acks as f64 / got[dst].max(1) as f64;
        let [left_acks, left_cnps, left_marks] = &mut rounded.rest[qp];
        let acks = whole(acks, left_acks, u64::MAX);
        let cnps = whole(seen.cnps as f64 * times, left_cnps, u64::MAX);
        let marks = whole(seen.marks as f64 * times, left_marks, u64::MAX);
        send(world, qp, (packets, posted), acks, cnps);
        let (s, r) = (&mut world.nics.send_qps[qp], &mut world.nics.recv_qps[qp]);
        r.np_ecn_marked_roce_packets += marks;
        if let Some(waits) = &mut s.at_min_rate {
            waits.waited += Time((seen.waited as f64 * times) as u64);
        }
        let (src, hears_delays) = (s.src, s.half.uses.delay);
        world.nics[dst].counters.rdma.np_ecn_marked_roce_packets += marks;
        if cnps > 0 {
            signals.push((EndSignal::Cnp, dst as u16, src, cnps));
        }
        if hears_delays && acks > 0 {
            world.nics[src as usize].counters.rdma.delay_probes += acks;
            signals.push((EndSignal::DelayProbe, dst as u16, src, acks));
        }
    }
    for (at, marked) in counts.marked().iter().enumerate() {
        world.fabric.marked[at] += (*marked as f64 * times).round() as u64;
    }
    for host in 0..hosts {
        let delay = counts.of_host(host).cnp_delay_ns as f64 * times;
        world.nics[host].counters.cnp_delay_ns += delay.round() as u64;
    }
    renumber(&mut world.fabric, &further);
    signals
}

/// Takes a queue pair's packets all the way, and their answers back.
fn send(world: &mut World, qp: usize, (packets, posted): (u64, u64), acks: u64, cnps: u64) {
    let (fabric, nics) = (&mut world.fabric, &mut world.nics);
    let s = &mut nics.send_qps[qp];
    let (src, dst) = (s.src as usize, s.dst as usize);
    let writer = &nics.writers[s.writer as usize];
    let size = writer.writes.packets_per_message;
    let extra = s.telemetry_bytes as u32;
    let [first, between, last, _] = writer.frames(extra).map(u64::from);
    let (payload, wire) = if posted > 0 {
        let message = if size == 1 { last } else { first + (size - 2) * between + last };
        (packets / size * writer.writes.message_bytes, packets / size * message)
    } else {
        (packets * writer.writes.mtu as u64, packets * between)
    };
    s.half.skip(packets, posted, payload);
    s.packets_sent += packets;
    s.messages_posted += posted / size;
    s.rp_cnp_handled += cnps;
    if posted == 0 {
        nics.nics[src].backlog_bytes[s.class as usize] -= (packets * writer.backlog_weight as u64) as i64;
    }
    let (class, code_point) = (s.class, s.code_point);
    let r = &mut nics.recv_qps[qp];
    r.half.responder.skip(packets);
    r.bytes_delivered += payload;
    r.np_cnp_sent += cnps;
    let ack_wire = (writer.frames(0)[3] + r.telemetry_bytes as u32) as u64;
    nics.nics[dst].goodput_rx_bytes += payload;
    nics.nics[dst].counters.rdma.np_cnp_sent += cnps;
    nics.nics[src].goodput_tx_bytes += payload;
    nics.nics[src].counters.rdma.rp_cnp_handled += cnps;
    fabric.data.sent += packets;
    fabric.data.delivered += packets;
    let there = nics.nics[src].port as usize;
    let back = nics.nics[dst].port as usize;
    let class_there =
        pass(fabric, (there, dst as u16, qp as u32), PacketKind::Data, (class, code_point), packets, wire);
    let (src, qp) = (src as u16, qp as u32);
    pass(fabric, (back, src, qp), PacketKind::Ack, (class_there, code_point), acks, acks * ack_wire);
    let model = &nics.models[nics.nics[dst].model as usize];
    let point = model.cnp_code_point.unwrap_or(code_point);
    let cnp_wire = (CNP_FRAME_BYTES + PREAMBLE_AND_GAP_BYTES) as u64;
    pass(
        fabric,
        (back, src, qp),
        PacketKind::Cnp,
        (model.class_of[point as usize], point),
        cnps,
        cnps * cnp_wire,
    );
}

/// Takes packets of a kind from a host's port to a host. Returns the class in which they arrive.
fn pass(
    fabric: &mut Fabric,
    (from, to, qp): (usize, u16, u32),
    kind: PacketKind,
    (mut class, code_point): (u8, u8),
    packets: u64,
    wire_bytes: u64,
) -> u8 {
    let frame_bytes = wire_bytes - packets * PREAMBLE_AND_GAP_BYTES as u64;
    for port in fabric.route(from, to, qp).unwrap_or_default() {
        let queue = &mut fabric.queues[(port, class)];
        queue.rx_packets += packets;
        queue.rx_bytes += frame_bytes;
        queue.tx_packets += packets;
        queue.tx_bytes += frame_bytes;
        fabric.transmissions[kind as usize] += packets;
        let p = &mut fabric.ports[port];
        p.wire_bytes += wire_bytes;
        if p.flags & RECLASSIFIES != 0 {
            class = fabric.classes.of(p.peer_owner as usize)[code_point as usize];
        }
        let group = &mut fabric.groups[(p.peer as usize, class)];
        group.rx_packets += packets;
        group.rx_bytes += frame_bytes;
    }
    class
}

/// Renumbers packets on their way to match where their queue pairs are now.
fn renumber(fabric: &mut Fabric, further: &[u64]) {
    let links = fabric.ports.iter().map(|port| port.in_flight);
    let queues = fabric.queues.iter().map(|queue| queue.fifo);
    let lists: Vec<Fifo> = links.chain(queues).collect();
    for list in lists {
        let mut next = list.head();
        while let Some(index) = next {
            let packet: &mut Packet = &mut fabric.packets[index];
            if matches!(packet.kind, PacketKind::Data | PacketKind::Ack) {
                packet.renumber(wire_psn(packet.psn() as u64 + further[packet.qp as usize]));
            }
            next = list.after(&fabric.packets, index);
        }
    }
}

/// The counters that grow in a step and that time series are made from, in a fixed order.
struct Series {
    counters: Vec<u64>,
    backlogs: Vec<i64>,
}

impl Series {
    pub fn of(world: &mut World) -> Series {
        let (mut counters, mut backlogs) = (Vec::new(), Vec::new());
        visit(world, |counter| counters.push(*counter));
        for nic in &world.nics.nics {
            backlogs.extend(nic.backlog_bytes);
        }
        Series { counters, backlogs }
    }

    /// Sets the world's counters to their values after a share of the way from these to `others`.
    pub fn bring(&self, world: &mut World, others: &Series, (share, of): (u64, u64)) {
        let part = |from: i128, to: i128| from + (to - from) * share as i128 / of as i128;
        let mut ways = self.counters.iter().zip(&others.counters);
        visit(world, |counter| {
            if let Some((&from, &to)) = ways.next() {
                *counter = part(from.into(), to.into()) as u64;
            }
        });
        let mut ways = self.backlogs.iter().zip(&others.backlogs);
        for backlog in world.nics.nics.iter_mut().flat_map(|nic| &mut nic.backlog_bytes) {
            if let Some((&from, &to)) = ways.next() {
                *backlog = part(from.into(), to.into()) as i64;
            }
        }
    }
}

fn visit(world: &mut World, mut each: impl FnMut(&mut u64)) {
    let (fabric, nics) = (&mut world.fabric, &mut world.nics);
    fabric.ports.iter_mut().for_each(|port| each(&mut port.wire_bytes));
    let used = fabric.classes_in_use();
    for at in 0..fabric.ports.len() {
        for class in (0..CLASSES as u8).filter(|class| used[*class as usize]) {
            each(&mut fabric.marked[lane(at, class)]);
        }
    }
    for nic in &mut nics.nics {
        each(&mut nic.goodput_tx_bytes);
        each(&mut nic.goodput_rx_bytes);
        each(&mut nic.counters.cnp_delay_ns);
        let rdma = &mut nic.counters.rdma;
        [&mut rdma.np_cnp_sent, &mut rdma.rp_cnp_handled, &mut rdma.delay_probes]
            .into_iter()
            .for_each(&mut each);
    }
    nics.recv_qps.iter_mut().for_each(|r| each(&mut r.bytes_delivered));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_apart_by_a_share_of_the_smaller_one() {
        assert_eq!([apart(2.0, 3.0, 0.0), apart(3.0, 2.0, 0.0)], [0.5; 2]);
        assert_eq!(apart(1.0, 3.0, 4.0), 0.5);
        assert_eq!([apart(0.0, 3.0, 0.0), apart(0.0, 0.0, 0.0)], [1.0, 0.0]);
    }

    /// A step as long as the sample adds as much uncertainty again; a far longer one adds next to nothing.
    #[test]
    fn a_short_step_is_less_sure() {
        let estimate = Estimate {
            sample: Window { span: Time(100), counts: Default::default(), gauges: vec![] },
            rates: vec![],
            goodput_error: 0.0,
            queue_error: 0.01,
            signal_error: 0.1,
            of_signals: [0.0; 2],
            qp_error: 0.02,
            is_calm: false,
            of_receivers: vec![],
            of_queues: vec![],
        };
        let [goodput, queue, signals, _] = estimate.errors_of_step(Time(100));
        assert_eq!((goodput, queue), (LEAST_STATED_ERROR, 0.01 * 2f64.sqrt()));
        assert_eq!(signals, 0.1 * 2f64.sqrt());
        assert!(estimate.errors_of_step(Time(10_000))[1] < 0.0101);
    }
}
