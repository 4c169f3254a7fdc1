//! Skipping what repeats exactly.
//!
//! At ACKs of one queue pair the whole state is compared with that of an earlier one, which moves on to the present after 1, 2, 4, ...
//! comparisons (Brent 1980). Once it is the same, one period more goes by packets: as many repeats as make it a whole number of the
//! ticks in which queues are measured. Where that ends in the very state in which it began, the clock stands still for as many
//! more as there is time for: every counter grows by as much as it did, and each bin is put together from what was read in that
//! period at the phase at which it ends. So the results are those of a run that skips nothing, to the byte.
//!
//! Leaves out: states that repeat with marks that are told to senders, losses or pauses in them; and controllers that
//! hear ACKs.

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
use crate::simulation::{Progress, Simulation};
use crate::world::World;

/// Words of state that are compared for each event, and to begin with: what looking may cost where nothing repeats.
/// Assumption: a word takes some 2 ns, an event 50 to 100.
const WORDS_PER_EVENT: f64 = 0.125;
const FIRST_WORDS: u64 = 20_000;
/// Most values that are read in a period (128 MB): where there are more, a step ends earlier.
const MOST_READ: usize = 16 << 20;

/// What is known of a run that skips what repeats.
#[derive(Debug)]
pub(in crate::simulation) struct Exact {
    /// When something begins or ends by the plan, in simulated time, the last one first.
    of_plan: Vec<Time>,
    /// Queue pairs that are not done.
    active: usize,
    search: Search,
    cycle: Option<Box<Cycle>>,
    /// Events that were counted and not executed.
    skipped: u64,
    steps: Vec<Skipped>,
}

/// For a state that was there before.
#[derive(Debug, Default)]
struct Search {
    /// The queue pair at whose ACKs it looks, and what that has acknowledged.
    anchor: Option<(usize, u64)>,
    /// The classes that have packets.
    used: [bool; CLASSES],
    /// The state that others are compared with, and where in its messages the anchor was.
    seen: Option<(Seen, Option<u64>)>,
    /// Comparisons with it, and how many there will be.
    compared: u64,
    most: u64,
    /// Words that were looked at, and the events after which it may look again.
    looked: u64,
    due: u64,
}

/// A period that is recorded.
#[derive(Debug)]
struct Cycle {
    /// The event after which it began, and after which it ends.
    code: u32,
    seen: Seen,
    /// The shortest time in which the state repeats, and the whole.
    shortest: Time,
    length: Time,
    /// How often it is to be repeated.
    times: u64,
    deadlines: Deadlines,
    /// Simulated times at which bins end, within this period, the last one first.
    phases: Vec<Time>,
    period: Period,
    /// Events so far that happen in each period.
    events: u64,
    /// The shortest period was found once more, and no transport timer can be due in it.
    is_confirmed: bool,
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

    /// What was skipped, at the end of a run.
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
            let end = self.plan.run.duration - self.world.fabric.run.skips.total;
            let run = &mut self.world.fabric.run;
            let Some((time, code)) = run.events.pop().filter(|(time, _)| *time <= end) else {
                self.read_phases(&mut exact, end);
                let run = &mut self.world.fabric.run;
                run.now = end;
                run.finished = true;
                break;
            };
            let event = Event::decode(code);
            if exact.cycle.is_some() && !self.within_cycle(&mut exact, time, event) {
                continue;
            }
            self.events += 1;
            self.world.fabric.run.now = time;
            self.world.look_ahead();
            self.dispatch(event);
            if event.is_of_plan() || self.world.fabric.run.active_flows != exact.active {
                self.end_cycle(&mut exact, false);
                exact.disturbed(&self.world);
            } else if exact.cycle.is_some() {
                self.follow_cycle(&mut exact, code, event);
            } else if exact.search.is_due(&self.world, self.events - exact.skipped) {
                self.look_back(&mut exact, code);
            }
        }
        if self.world.fabric.run.finished {
            self.end_cycle(&mut exact, false);
        }
        self.exact = Some(exact);
        self.progress()
    }

    /// The state may be that of an earlier time.
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
        // Where there are more, the last ones have to wait for another step.
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
        let shortest = seen.now - since.now;
        exact.cycle = Some(Box::new(Cycle {
            code,
            deadlines: Deadlines::new(world, shortest),
            seen,
            shortest,
            length,
            times,
            phases,
            period: Period { start, readings: Vec::new() },
            events: 0,
            is_confirmed: false,
        }));
    }

    /// How long a period is, since whose begin the state is the same again, and how often it repeats before something happens
    /// that did not happen in it. None: it cannot be told.
    fn times(&self, exact: &Exact, since: &Seen) -> Option<(Time, u64)> {
        let nics = &self.world.nics;
        let shortest = self.world.fabric.run.now - since.now;
        if shortest == Time::ZERO {
            return None;
        }
        let periods = TICK / gcd(shortest.0, TICK);
        let length = Time(shortest.0.checked_mul(periods)?);
        let simulated = self.world.fabric.run.simulated();
        let next =
            exact.of_plan.last().map_or(self.plan.run.duration, |next| self.plan.run.duration.min(*next));
        let mut times = (next.0 - simulated.0).saturating_sub(1) / length.0;
        for (qp, (s, (at, posted))) in nics.send_qps.iter().zip(&since.positions).enumerate() {
            let packets = (s.half.requester.next_sequence() - at) * periods;
            let messages = (s.messages_posted - posted) * periods;
            times = times.min(nics.repeats(qp, packets, messages).unwrap_or(u64::MAX));
        }
        // One of them goes by packets.
        Some((length, times.saturating_sub(1)))
    }

    /// Before an event while a period is recorded: whether it is to be executed.
    fn within_cycle(&mut self, exact: &mut Exact, time: Time, event: Event) -> bool {
        let Some(cycle) = &exact.cycle else { return true };
        let ends = cycle.seen.now + cycle.length;
        self.read_phases(exact, time.min(ends));
        if time > ends {
            // What ended it once did not come: it was no period.
            self.world.fabric.run.schedule(time, event);
            self.world.fabric.run.now = ends;
            self.end_cycle(exact, false);
            return false;
        }
        event != Event::Sample
    }

    /// Reads the phases before a time, if a period is recorded.
    fn read_phases(&mut self, exact: &mut Exact, until: Time) {
        let Some(cycle) = &mut exact.cycle else { return };
        let skipped = self.world.fabric.run.skips.total;
        while let Some(phase) = cycle.phases.pop_if(|phase| *phase - skipped < until) {
            self.world.fabric.run.now = phase - skipped;
            cycle.period.readings.push(self.recorder.read_all(&mut self.world));
        }
    }

    /// After an event while a period is recorded.
    fn follow_cycle(&mut self, exact: &mut Exact, code: u32, event: Event) {
        let Some(cycle) = &mut exact.cycle else { return };
        let now = self.world.fabric.run.now;
        cycle.events += u64::from(!matches!(event, Event::TransportTimer(_)));
        if !cycle.is_confirmed {
            cycle.deadlines.look(&self.world, event);
        }
        if code != cycle.code {
            return;
        }
        if now == cycle.seen.now + cycle.shortest {
            cycle.is_confirmed =
                cycle.deadlines.are_met() && cycle.seen.is_again(&mut self.world, &exact.search.used).0;
        }
        if now == cycle.seen.now + cycle.length {
            self.end_cycle(exact, true);
        }
    }

    /// A period was recorded, as a `whole` or not. It is repeated if it may be.
    fn end_cycle(&mut self, exact: &mut Exact, is_whole: bool) {
        let Some(cycle) = exact.cycle.take() else { return };
        let Cycle { seen, length, times, deadlines, mut period, events, is_confirmed, .. } = *cycle;
        let world = &mut self.world;
        period.readings.push(self.recorder.read_all(world));
        let hops = world.packet_hops();
        let times = if is_whole && is_confirmed { grow(world, &seen, &exact.search.used, times) } else { 0 };
        let (skipped, mut closed) = (world.fabric.run.skips.total, 0);
        let deadlocks = &mut world.deadlocks;
        self.recorder.repeat(period, times, |end| {
            closed += 1;
            if deadlocks.is_due(end - skipped) {
                deadlocks.looked(end - skipped);
            }
        });
        self.events += closed;
        let by = Time(length.0 * times);
        if times > 0 {
            deadlocks.bring_nearer(by);
            let more = events * times + fire_timers(world, &deadlines, by);
            self.events += more;
            exact.skipped += closed + more;
            let from = world.fabric.run.simulated();
            world.fabric.run.skips.add(world.fabric.run.now, by);
            let to = world.fabric.run.simulated();
            exact.steps.push(Skipped::exactly(from, to, length, world.packet_hops() - hops));
        }
        reschedule(world, |event, time| match event {
            Event::Sample => None,
            event if event.is_of_plan() => Some(time - by),
            _ => Some(time),
        });
        let next = self.recorder.next_sample(world.fabric.run.skips.total);
        world.fabric.run.schedule(next, Event::Sample);
        exact.search.begin();
    }
}

/// Has the world's counters grow as often as what happened since a state can happen again, if it is that state: how often.
fn grow(world: &mut World, since: &Seen, used: &[bool; CLASSES], times: u64) -> u64 {
    let after = Seen::now(world, used);
    let times = times.min(repeats(world, since, &after));
    if times == 0 || world.fabric.classes_in_use() != *used || !since.is_again(world, used).0 {
        return 0;
    }
    world.walk(used, &mut Growth::between(since, &after, times));
    let positions = after.positions.iter().zip(&since.positions);
    let further: Vec<u64> = positions.map(|((after, _), (before, _))| (after - before) * times).collect();
    renumber(&mut world.fabric, &further);
    times
}

/// Transport timers fire for so long. How often they do.
fn fire_timers(world: &mut World, deadlines: &Deadlines, by: Time) -> u64 {
    reschedule(world, |event, time| (!matches!(event, Event::TransportTimer(_))).then_some(time));
    let now = world.fabric.run.now;
    let mut all = 0;
    for (qp, s) in world.nics.send_qps.iter_mut().enumerate() {
        let (due, fired) = deadlines.fire(qp, s.timer_event_at, now, now + by);
        all += fired;
        s.timer_event_at = Time::NEVER;
        if due != Time::NEVER {
            s.timer_event_at = due - by;
            world.fabric.run.schedule(due - by, Event::TransportTimer(qp as u32));
        }
    }
    all
}

/// How often what happened from one state to another can happen again before a message is at its end.
fn repeats(world: &World, before: &Seen, after: &Seen) -> u64 {
    let positions = before.positions.iter().zip(&after.positions).enumerate();
    let of_qps = positions.map(|(qp, ((before, posted), (after, posted_after)))| {
        let (packets, messages) = (after - before, posted_after - posted);
        let is_within = world.nics.place(qp).is_none();
        let size = world.nics.packets_per_message(qp);
        if is_within && before / size != after / size {
            return 0; // there was an end in it
        }
        world.nics.repeats(qp, packets, messages).unwrap_or(u64::MAX)
    });
    of_qps.min().unwrap_or(0)
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 {
        a
    } else {
        gcd(b, a % b)
    }
}

impl Exact {
    /// Something began or ended.
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
    /// Anew. What was looked at stays counted.
    fn begin(&mut self) {
        self.anchor = None;
        self.seen = None;
    }

    /// Whether the anchor has got an ACK, or is to be chosen, and as much may be looked at as that takes.
    #[inline]
    fn is_due(&mut self, world: &World, executed: u64) -> bool {
        if let Some((qp, una)) = &mut self.anchor {
            let now = world.nics.send_qps[*qp].half.requester.acknowledged();
            if std::mem::replace(una, now) == now {
                return false;
            }
        }
        executed >= self.due
    }

    /// Looks at the state: that of an earlier time that it is the same as.
    fn look(&mut self, world: &mut World) -> Option<Seen> {
        let found = self.compare(world);
        self.due = (self.looked.saturating_sub(FIRST_WORDS) as f64 / WORDS_PER_EVENT) as u64;
        found
    }

    fn compare(&mut self, world: &mut World) -> Option<Seen> {
        let Some((anchor, _)) = self.anchor else {
            self.choose(world);
            return None;
        };
        let place = world.nics.place(anchor);
        self.looked += 1;
        self.most = match &self.seen {
            Some((seen, at)) if place == *at => {
                let (is_again, looked) = seen.is_again(world, &self.used);
                self.looked += looked;
                if is_again {
                    // What can be made of it takes about as much again.
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
            // It begins, or begins anew within a long message.
            _ => 1,
        };
        self.compared = 0;
        self.used = world.fabric.classes_in_use();
        let seen = Seen::now(world, &self.used);
        self.looked += seen.len();
        self.seen = Some((seen, place));
        None
    }

    /// The queue pair that takes longest for what repeats, if one runs.
    fn choose(&mut self, world: &World) {
        let nics = &world.nics;
        self.looked += nics.send_qps.len() as u64;
        let running = nics.send_qps.iter().enumerate().filter(|(_, s)| s.state == QpState::Running);
        let longest =
            running.max_by_key(|(qp, _)| (nics.packets_to_a_completion(*qp), std::cmp::Reverse(*qp)));
        self.anchor = longest.map(|(qp, s)| (qp, s.half.requester.acknowledged()));
    }
}
