//! Skipping what repeats exactly.
//!
//! At the ACKs of one queue pair, the whole state is compared with an earlier one. The earlier state is
//! replaced by the present one after 1, 2, 4, ... comparisons (Brent 1980). Once the two are the same, one
//! more period is simulated packet by packet. If it ends in the very state in which it began, the clock stands
//! still for as many more periods as there is time for, but for a part of the tick in which queues are
//! measured. Every counter grows by as much as it did in the period, and each bin is put together from what
//! was read in that period at the phase at which the bin ends, and from the changes of each queue. So the
//! results are those of a run that skips nothing, to the byte.
//!
//! Leaves out: states that repeat while senders hear of marks, or packets are lost or paused; and controllers
//! that hear ACKs.

use tailback_proto::units::Time;

use super::seen::{Growth, Seen};
use super::step::renumber;
use super::timers::Deadlines;
use super::{of_plan, reschedule};
use crate::event::Event;
use crate::fabric::CLASSES;
use crate::gauge::TICK;
use crate::nic::qp::QpState;
use crate::plan::PlanError;
use crate::record::{Period, Skipped};
use crate::simulation::windows::node_of;
use crate::simulation::{Progress, Simulation};
use crate::world::World;

/// Words of state that may be compared per event, and at the start: they bound the cost of looking where
/// nothing repeats. Assumption: a word takes some 2 ns, an event 50 to 100.
const WORDS_PER_EVENT: f64 = 0.125;
const FIRST_WORDS: u64 = 20_000;
/// Events after which the search begins anew at the latest where something begins or ends.
const EVENTS_AT_ONCE: u64 = 10_000;
/// Most values read in a period (128 MB). A step that would need more ends earlier.
const MOST_READ: usize = 16 << 20;

/// State of a run that skips what repeats.
#[derive(Debug)]
pub(in crate::simulation) struct Exact {
    /// Times at which the plan begins or ends something, in simulated time, the last one first.
    of_plan: Vec<Time>,
    /// Queue pairs that are not done.
    active: usize,
    search: Search,
    cycle: Option<Box<Cycle>>,
    /// Events that were counted but not executed.
    skipped: u64,
    steps: Vec<Skipped>,
}

/// The search for a state that was there before.
#[derive(Debug, Default)]
struct Search {
    /// The queue pair at whose ACKs states are compared.
    anchor: Option<usize>,
    /// Classes that have packets.
    used: [bool; CLASSES],
    /// The state that later ones are compared with, and where in its messages the anchor was then.
    seen: Option<(Seen, Option<u64>)>,
    /// Comparisons made with it, and how many to make.
    compared: u64,
    most: u64,
    /// Words compared so far, and the number of events after which the search may look again.
    looked: u64,
    due: u64,
}

/// A period that is being recorded.
#[derive(Debug)]
struct Cycle {
    /// The event after which the period began, and after which it ends.
    code: u32,
    seen: Seen,
    length: Time,
    /// How often to repeat the period.
    times: u64,
    deadlines: Deadlines,
    /// Phases at which bins end, as simulated times within this period, the last one first.
    phases: Vec<Time>,
    period: Period,
    /// Events so far, of those that happen in every period.
    events: u64,
}

impl Simulation {
    /// Gets ready to skip what repeats.
    pub(super) fn begin_exact(&mut self) -> Result<(), PlanError> {
        if self.world.nics.send_qps.iter().any(|s| s.half.uses.acks) {
            return Err(self.plan.not_skipped("a controller that hears ACKs"));
        }
        let of_plan = of_plan(&self.world);
        let active = self.world.fabric.run.active_flows;
        self.exact = Some(Box::new(Exact {
            of_plan,
            active,
            search: Search::default(),
            cycle: None,
            skipped: 0,
            steps: Vec::new(),
        }));
        Ok(())
    }

    /// Ends the recording at the end of a run. Returns what was skipped.
    pub(super) fn end_exact(&mut self) -> Vec<Skipped> {
        let Some(mut exact) = self.exact.take() else { return Vec::new() };
        self.end_cycle(&mut exact, false);
        exact.steps
    }

    /// Executes `max_events` events, or all that are left, and skips what repeats.
    pub(in crate::simulation) fn run_exact(&mut self, max_events: u64) -> Progress {
        let Some(mut exact) = self.exact.take() else { return self.progress() };
        let last = self.events.saturating_add(max_events);
        while self.events < last && !self.world.fabric.run.finished {
            if exact.cycle.is_some() {
                self.run_cycle(&mut exact);
                continue;
            }
            if exact.is_disturbed(&self.world) {
                exact.disturbed(&self.world);
            }
            let left = last.min(self.events + EVENTS_AT_ONCE) - self.events;
            let due = exact.search.due.saturating_sub(self.events - exact.skipped);
            let anchor = exact.search.anchor.filter(|_| due == 0);
            let most = match (due, anchor) {
                (0, Some(_)) => left,
                (0, None) => {
                    exact.search.choose(&self.world);
                    1
                }
                _ => left.min(due),
            };
            let qp = anchor.unwrap_or(0);
            let una = |world: &World| world.nics.send_qps[qp].half.requester.acknowledged();
            let before = anchor.map(|_| una(&self.world));
            // In one place: each has a loop of its own.
            let code = self.run_events(most, |world| before.is_some_and(|before| una(world) != before));
            if let Some(code) = code.filter(|_| !exact.is_disturbed(&self.world)) {
                self.look_back(&mut exact, code);
            }
        }
        if self.world.fabric.run.finished {
            self.end_cycle(&mut exact, false);
        }
        self.exact = Some(exact);
        self.progress()
    }

    /// Executes an event while a period is recorded.
    fn run_cycle(&mut self, exact: &mut Exact) {
        let end = self.plan.run.duration - self.world.fabric.run.skips.total;
        let run = &mut self.world.fabric.run;
        let Some((time, code)) = run.events.pop().filter(|(time, _)| *time <= end) else {
            self.read_phases(exact, end);
            let run = &mut self.world.fabric.run;
            run.now = end;
            run.finished = true;
            return;
        };
        let event = Event::decode(code);
        if !self.within_cycle(exact, time, event) {
            return;
        }
        self.events += 1;
        self.world.fabric.run.now = time;
        self.world.look_ahead();
        self.dispatch(event);
        if event.is_of_plan() || self.world.fabric.run.active_flows != exact.active {
            self.end_cycle(exact, false);
            exact.disturbed(&self.world);
        } else {
            self.follow_cycle(exact, code, event);
        }
    }

    /// Looks for an earlier time with the same state. If there is one, begins to record a period.
    fn look_back(&mut self, exact: &mut Exact, code: u32) {
        let Some(since) = exact.search.look(&mut self.world) else { return };
        let (length, times) = match self.times(exact, &since) {
            Some((length, times)) if times > 0 => (length, times),
            _ => return,
        };
        let begun = self.world.fabric.run.simulated();
        let until = |times: u64| Time(begun.0 + (times + 1) * length.0);
        let most = MOST_READ / self.recorder.columns().max(1);
        let ends = self.recorder.ends_of_bins(until(times), most);
        // If there are more bins, the last ones wait for another step.
        let times = match ends.last() {
            Some(end) if ends.len() == most => ((*end - begun).0 / length.0).saturating_sub(1),
            _ => times,
        };
        if times == 0 {
            return;
        }
        let phase = |end: Time| Time(begun.0 + (end - begun).0 % length.0);
        let mut phases: Vec<Time> = ends.into_iter().filter(|end| *end < until(times)).map(phase).collect();
        phases.sort_unstable();
        phases.dedup();
        phases.reverse();
        let world = &mut self.world;
        let start = self.recorder.read_all(world);
        let seen = Seen::now(world, &exact.search.used);
        let lengths = self.recorder.lengths(world);
        exact.cycle = Some(Box::new(Cycle {
            code,
            deadlines: Deadlines::new(world, length),
            seen,
            length,
            times,
            phases,
            period: Period { start, readings: Vec::new(), lengths },
            events: 0,
        }));
    }

    /// The length of a period, and how often it repeats before something happens that did not happen in it.
    /// `since` is the earlier state that is the same as this one. None: it cannot be told.
    fn times(&self, exact: &Exact, since: &Seen) -> Option<(Time, u64)> {
        let nics = &self.world.nics;
        let length = self.world.fabric.run.now - since.now;
        if length == Time::ZERO {
            return None;
        }
        let simulated = self.world.fabric.run.simulated();
        let next =
            exact.of_plan.last().map_or(self.plan.run.duration, |next| self.plan.run.duration.min(*next));
        let mut times = (next.0 - simulated.0).saturating_sub(1) / length.0;
        for (qp, (s, (at, posted))) in nics.send_qps.iter().zip(&since.positions).enumerate() {
            let packets = s.half.requester.next_sequence() - at;
            let messages = s.messages_posted - posted;
            times = times.min(nics.repeats(qp, packets, messages).unwrap_or(u64::MAX));
        }
        // One repeat is simulated packet by packet.
        Some((length, times.saturating_sub(1)))
    }

    /// Called before an event while a period is recorded. Returns whether to execute the event.
    fn within_cycle(&mut self, exact: &mut Exact, time: Time, event: Event) -> bool {
        let Some(cycle) = &exact.cycle else { return true };
        let ends = cycle.seen.now + cycle.length;
        self.read_phases(exact, time.min(ends));
        if time > ends {
            // The event that should have ended it did not come: this was no period.
            self.world.fabric.run.schedule(time, event);
            self.world.fabric.run.now = ends;
            self.end_cycle(exact, false);
            return false;
        }
        event != Event::Sample
    }

    /// Reads the phases before a time, if a period is being recorded.
    fn read_phases(&mut self, exact: &mut Exact, until: Time) {
        let Some(cycle) = &mut exact.cycle else { return };
        let skipped = self.world.fabric.run.skips.total;
        while let Some(phase) = cycle.phases.pop_if(|phase| *phase - skipped < until) {
            self.world.fabric.run.now = phase - skipped;
            cycle.period.readings.push(self.recorder.read_all(&mut self.world));
        }
    }

    /// Called after an event while a period is recorded.
    fn follow_cycle(&mut self, exact: &mut Exact, code: u32, event: Event) {
        let Some(cycle) = &mut exact.cycle else { return };
        let now = self.world.fabric.run.now;
        cycle.events += u64::from(!matches!(event, Event::TransportTimer(_)));
        cycle.deadlines.look(&self.world, event);
        cycle.period.lengths.look(&self.world.fabric, node_of(&self.world, event));
        if code == cycle.code && now == cycle.seen.now + cycle.length {
            self.end_cycle(exact, true);
        }
    }

    /// Ends the recording of a period, whole or not, and repeats the period if that is allowed.
    fn end_cycle(&mut self, exact: &mut Exact, is_whole: bool) {
        let Some(cycle) = exact.cycle.take() else { return };
        let Cycle { seen, length, times, deadlines, mut period, events, .. } = *cycle;
        let world = &mut self.world;
        period.readings.push(self.recorder.read_all(world));
        let hops = world.packet_hops();
        let is_period = is_whole && deadlines.are_met();
        let times = if is_period { grow(world, &seen, &exact.search.used, (times, length)) } else { 0 };
        let (skipped, mut closed) = (world.fabric.run.skips.total, 0);
        let deadlocks = &mut world.deadlocks;
        self.recorder.repeat(period, times, |end| {
            closed += 1;
            if deadlocks.is_due(end - skipped) {
                deadlocks.looked(end - skipped);
            }
        });
        self.events += closed;
        // The clock stands still for `stands`, and goes on by the rest.
        let (by, later) = (Time(length.0 * times), later(length, times));
        let stands = by - later;
        if times > 0 {
            deadlocks.bring_nearer(stands);
            let more = events * times + fire_timers(world, &deadlines, by, stands);
            self.events += more;
            exact.skipped += closed + more;
            let from = world.fabric.run.simulated();
            world.fabric.run.skips.add(world.fabric.run.now, stands);
            world.fabric.run.now += later;
            let to = world.fabric.run.simulated();
            exact.steps.push(Skipped::exactly(from, to, length, world.packet_hops() - hops));
        }
        reschedule(world, |event, time| match event {
            Event::Sample => None,
            Event::TransportTimer(_) => Some(time),
            event if event.is_of_plan() => Some(time - stands),
            _ => Some(time + later),
        });
        let next = self.recorder.next_sample(world.fabric.run.skips.total);
        world.fabric.run.schedule(next, Event::Sample);
        exact.search.begin();
    }
}

/// How far the clock goes on in so many repeats: the part of a tick by which queues would be measured otherwise.
fn later(length: Time, times: u64) -> Time {
    Time(length.0 * times % TICK)
}

/// If the world is in the state `since` again, makes its counters grow as in up to `times` repeats of what
/// happened in between, which took a `length`. Returns the number of repeats.
fn grow(world: &mut World, since: &Seen, used: &[bool; CLASSES], (times, length): (u64, Time)) -> u64 {
    let after = Seen::now(world, used);
    let times = times.min(repeats(world, since, &after));
    if times == 0 || world.fabric.classes_in_use() != *used || !since.is_again(world, used).0 {
        return 0;
    }
    world.walk(used, &mut Growth::between(since, &after, times, later(length, times)));
    let positions = after.positions.iter().zip(&since.positions);
    let further: Vec<u64> = positions.map(|((after, _), (before, _))| (after - before) * times).collect();
    renumber(&mut world.fabric, &further);
    times
}

/// Lets transport timers fire for the time `by`, for which, but for a part of a tick, the clock `stands` still. Returns how often they do.
fn fire_timers(world: &mut World, deadlines: &Deadlines, by: Time, stands: Time) -> u64 {
    reschedule(world, |event, time| (!matches!(event, Event::TransportTimer(_))).then_some(time));
    let now = world.fabric.run.now;
    let mut all = 0;
    for (qp, s) in world.nics.send_qps.iter_mut().enumerate() {
        let (due, fired) = deadlines.fire(qp, s.timer_event_at, now, now + by);
        all += fired;
        s.timer_event_at = Time::NEVER;
        if due != Time::NEVER {
            s.timer_event_at = due - stands;
            world.fabric.run.schedule(due - stands, Event::TransportTimer(qp as u32));
        }
    }
    all
}

/// How often the events between two states can happen again before a message ends.
fn repeats(world: &World, before: &Seen, after: &Seen) -> u64 {
    let positions = before.positions.iter().zip(&after.positions).enumerate();
    let of_qps = positions.map(|(qp, ((before, posted), (after, posted_after)))| {
        let (packets, messages) = (after - before, posted_after - posted);
        let is_within = world.nics.place(qp).is_none();
        let size = world.nics.packets_per_message(qp);
        if is_within && before / size != after / size {
            return 0; // a message ended in between
        }
        world.nics.repeats(qp, packets, messages).unwrap_or(u64::MAX)
    });
    of_qps.min().unwrap_or(0)
}

impl Exact {
    /// Whether something began or ended since the search began.
    fn is_disturbed(&self, world: &World) -> bool {
        let simulated = world.fabric.run.simulated();
        self.active != world.fabric.run.active_flows
            || self.of_plan.last().is_some_and(|next| *next <= simulated)
    }

    /// Notes that something began or ended.
    fn disturbed(&mut self, world: &World) {
        self.active = world.fabric.run.active_flows;
        let simulated = world.fabric.run.simulated();
        while self.of_plan.last().is_some_and(|next| *next <= simulated) {
            self.of_plan.pop();
        }
        self.search.begin();
    }
}

impl Search {
    /// Starts over. The words compared so far stay counted.
    fn begin(&mut self) {
        self.anchor = None;
        self.seen = None;
    }

    /// Looks at the state. Returns the earlier state that it is the same as, if any.
    fn look(&mut self, world: &mut World) -> Option<Seen> {
        let found = self.compare(world);
        self.rest();
        found
    }

    /// Works out when the search may look again.
    fn rest(&mut self) {
        self.due = (self.looked.saturating_sub(FIRST_WORDS) as f64 / WORDS_PER_EVENT) as u64;
    }

    fn compare(&mut self, world: &mut World) -> Option<Seen> {
        let place = world.nics.place(self.anchor?);
        self.looked += 1;
        self.most = match &self.seen {
            Some((seen, at)) if place == *at => {
                let (is_again, looked) = seen.is_again(world, &self.used);
                self.looked += looked;
                if is_again {
                    // Making use of the match costs about as much again.
                    self.looked += 4 * seen.len();
                    return self.seen.take().map(|(seen, _)| seen);
                }
                self.compared += 1;
                if self.compared < self.most {
                    return None;
                }
                2 * self.most
            }
            Some(_) if place.is_some() => return None,
            // The search begins, or begins anew within a long message.
            _ => 1,
        };
        self.compared = 0;
        self.used = world.fabric.classes_in_use();
        let seen = Seen::now(world, &self.used);
        self.looked += seen.len();
        self.seen = Some((seen, place));
        None
    }

    /// Chooses the anchor: of the running queue pairs, the one that takes longest for what repeats.
    fn choose(&mut self, world: &World) {
        let nics = &world.nics;
        self.looked += nics.send_qps.len() as u64;
        let running = nics.send_qps.iter().enumerate().filter(|(_, s)| s.state == QpState::Running);
        let longest =
            running.max_by_key(|(qp, _)| (nics.packets_to_a_completion(*qp), std::cmp::Reverse(*qp)));
        self.anchor = longest.map(|(qp, _)| qp);
        self.rest();
    }
}
