//! The time of a run, what is to happen in it, and whether anybody still waits for anything. Every room takes it along.

use tailback_proto::units::Time;

use crate::engine::EventQueue;
use crate::event::Event;

/// A run under way, as every model sees it.
#[derive(Debug)]
pub(crate) struct Run {
    pub now: Time,
    pub events: EventQueue,
    /// Queue pairs and TCP connections not yet done.
    pub active_flows: usize,
    /// Nothing more can happen that anybody waits for.
    pub finished: bool,
}

impl Run {
    /// At its start; `ports`: how many there are.
    pub fn new(ports: usize) -> Run {
        Run { now: Time::ZERO, events: EventQueue::for_ports(ports), active_flows: 0, finished: false }
    }

    /// Schedules an event.
    #[inline]
    pub fn schedule(&mut self, time: Time, event: Event) {
        // What lies past the horizon, twice the longest run, never happens.
        self.events.push_by_payload(time.min(EventQueue::HORIZON), event.encode());
    }

    /// A queue pair or connection is done, well or not.
    pub fn flow_ended(&mut self) {
        self.active_flows -= 1;
        self.finished |= self.active_flows == 0;
    }
}
