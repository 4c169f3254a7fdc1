//! The time of a run, what is to happen in it, and whether anybody still waits for anything. Every room takes it along.

use tailback_proto::units::Time;

use crate::engine::{EventKey, EventQueue, Turns};
use crate::event::Event;

/// A run under way, as every model sees it.
#[derive(Debug)]
pub(crate) struct Run {
    pub now: Time,
    pub events: EventQueue,
    /// True if an event may be kept beside them: see [`Self::schedule_quiet`].
    pub keeps_beside: bool,
    /// Where nodes take turns: what happens to them.
    pub turns: Turns,
    /// Queue pairs and TCP connections not yet done.
    pub active_flows: usize,
    /// Nothing more can happen that anybody waits for.
    pub finished: bool,
    /// Time that was skipped: the clock stood still meanwhile.
    pub skips: Skips,
}

/// Skipped spans: when by the clock, and for how long, in order.
///
/// `now` goes on as if nothing had been skipped, so that all that is pending stays where it is. What is set for a time of the
/// plan comes nearer by as much. [`Skips::simulated_at`] gives the times to record.
#[derive(Debug, Default)]
pub(crate) struct Skips {
    log: Vec<(Time, Time)>,
    pub total: Time,
}

impl Skips {
    /// `length` is skipped now.
    pub fn add(&mut self, now: Time, length: Time) {
        self.log.push((now, length));
        self.total += length;
    }

    /// The simulated time of a time by the clock.
    pub fn simulated_at(&self, at: Time) -> Time {
        if at == Time::NEVER {
            return at;
        }
        self.log
            .iter()
            .take_while(|(when, _)| *when < at)
            .fold(at, |simulated, (_, length)| simulated + *length)
    }
}

impl Run {
    /// At its start; `ports`: how many there are.
    pub fn new(ports: usize) -> Run {
        let (events, turns) = (EventQueue::for_ports(ports), Turns::default());
        Run {
            now: Time::ZERO,
            events,
            keeps_beside: false,
            turns,
            active_flows: 0,
            finished: false,
            skips: Skips::default(),
        }
    }

    /// The simulated time: what was skipped counts.
    pub fn simulated(&self) -> Time {
        self.now + self.skips.total
    }

    /// The clock where whole nanoseconds are counted: they begin when they would if nothing had been skipped.
    pub fn in_whole_ns(&self) -> Time {
        self.now + Time(self.skips.total.0 % 1000)
    }

    /// Schedules an event of the node that acts. Simultaneous ones run by what they are. What lies past the horizon, twice the
    /// longest run, never happens.
    #[inline]
    pub fn schedule(&mut self, time: Time, event: Event) {
        self.schedule_code(time, event.encode());
    }

    #[inline(never)] // there are many callers, and what they do leaves the registers no room for it
    fn schedule_code(&mut self, time: Time, code: u32) {
        if self.turns.are_taken() {
            self.turns.push(EventKey::of(time.min(EventQueue::HORIZON), code, 0), code);
        } else {
            self.events.push(time, code);
        }
    }

    /// Schedules an event whose handler seldom schedules any other kind. The first such is kept beside the queue, which
    /// costs less: see [`EventQueue::keep_beside`].
    #[inline(always)] // a departure has it once
    pub fn schedule_quiet(&mut self, time: Time, event: Event) {
        let code = event.encode();
        if self.keeps_beside && self.events.is_free_beside() {
            self.events.keep_beside(EventKey::of(time.min(EventQueue::HORIZON), code, 0), code);
        } else {
            self.schedule_code(time, code);
        }
    }

    /// Schedules an event with a given key.
    pub fn schedule_at(&mut self, place: EventKey, code: u32) {
        if self.turns.are_taken() {
            self.turns.push(place, code);
        } else {
            self.events.push_at(place, code);
        }
    }

    /// Schedules an event of another node, to which a link leads from the one that acts.
    #[inline]
    pub fn schedule_across(&mut self, node: u32, time: Time, event: Event) {
        self.schedule_code_across(node, time, event.encode());
    }

    #[inline(never)] // as above
    fn schedule_code_across(&mut self, node: u32, time: Time, code: u32) {
        if self.turns.are_taken() {
            self.turns.push_to(node as usize, EventKey::of(time.min(EventQueue::HORIZON), code, 0), code);
        } else {
            self.events.push(time, code);
        }
    }

    /// A queue pair or connection is done, well or not.
    pub fn flow_ended(&mut self) {
        self.active_flows -= 1;
        self.finished |= self.active_flows == 0;
    }
}
