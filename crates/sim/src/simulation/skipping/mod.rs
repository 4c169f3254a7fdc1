//! Skipping what is steady.
//!
//! While a run goes on packet by packet, it is observed in windows ([`observed`]). If nothing began or ended,
//! nothing was lost or paused, and goodput and queues are known well enough ([`judged`]), time is skipped
//! ([`step`]): at first a few times the observed time, then twice as much after each step that the packets
//! after it confirm. Before the next event of the plan, and before a message can end, the run goes on packet
//! by packet.
//!
//! Leaves out: what only a longer look would show, such as a slow beat of clocks. A check finds it when it
//! comes, but what was skipped before stays as it was estimated.

mod judged;
mod observed;
mod step;

use tailback_proto::units::Time;

use self::judged::{compare, judge, Estimate, FEWEST_WINDOWS};
use self::observed::Observed;
use self::step::{go_on, lasts, Rounded, Series, Told};
use super::{Progress, Simulation};
use crate::engine::EventQueue;
use crate::event::Event;
use crate::plan::{PlanError, Skip};
use crate::record::Skipped;
use crate::world::World;

/// Controllers of rates may take long to settle. Before anything is skipped, this part of a span of the plan
/// is simulated packet by packet: the first where there are marks or controllers that hear ACKs, the second
/// where there are none.
const FIRST_PART: [f64; 2] = [1.0 / 32.0, 1.0 / 256.0];
/// The first step as a multiple of the sample's length, for the same two cases.
const FIRST_STEP: [f64; 2] = [2.0, 8.0];
/// The shortest step that is worth taking, as a multiple of the sample's length.
const SHORTEST_STEP: f64 = 0.5;
/// Windows between two looks, and between a step and the next look.
const WINDOWS_OF_LOOK: usize = 4;
/// How much is simulated packet by packet before an event of the plan and before a message ends, as a part of
/// the sample's length.
const BEFORE: f64 = 0.25;

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
    /// Whether something began or ended in the open bin.
    is_disturbed: bool,
    rounded: Rounded,
    /// The next step, as a multiple of the first.
    next_step: f64,
    /// What the last step expected, until it is checked.
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

    /// What was skipped.
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
        if (length.0 as f64) < SHORTEST_STEP * estimate.sample.span.0 as f64 {
            return;
        }
        let world = &mut self.world;
        let hops = world.packet_hops();
        let before = Series::of(world);
        let told = go_on(world, &estimate, length, &mut skipping.rounded);
        let after = Series::of(world);
        let mut log = Log { told, done: 0 };
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
struct Log {
    told: Told,
    done: u64,
}

impl Log {
    fn bring(&mut self, world: &mut World, (share, of): (u64, u64)) {
        for &(signal, from, to, total) in &self.told {
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

    /// What to expect from now on, if it is known well enough and the last step was right.
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
        ((seen.0 as f64) >= FIRST_PART[is_calm] * (seen + rest).0 as f64).then_some(estimate)
    }

    /// When the plan next begins or ends something.
    fn next(&self, duration: Time) -> Time {
        self.of_plan.last().map_or(duration, |next| duration.min(*next))
    }

    /// How long the next step may be, ps.
    fn longest(&self, world: &World, estimate: &Estimate, duration: Time) -> f64 {
        let now = world.fabric.run.simulated();
        let sample = estimate.sample.span.0 as f64;
        let step = FIRST_STEP[usize::from(estimate.is_calm)] * self.next_step * sample;
        let mut longest = step.min((self.next(duration) - now).0 as f64 - BEFORE * sample);
        for (qp, &(rate, error)) in estimate.rates.iter().enumerate() {
            if rate <= 0.0 {
                continue;
            }
            let Some((left, most)) = lasts(&world.nics, qp, rate, &self.rounded) else { continue };
            longest = longest.min(most).min(left * (1.0 - error) - BEFORE * sample);
            // All steps together may put its completion time off by no more than this.
            let takes = (now - world.fabric.run.skips.told(world.nics.send_qps[qp].start)).0 as f64 + left;
            longest = longest.min((self.error * takes - self.off[qp]) / error.max(1e-9));
        }
        longest
    }
}
