//! Messages that are sent during the run, because others are done.

use tailback_proto::units::Time;

use super::plan::Flow;
use super::world::{Event, World};
use crate::work::{Message, Network, Work};

/// The fork's front ends send everything in this priority, to this port.
pub(super) const WORK_PRIORITY: u8 = 3;
const WORK_PORT: u32 = 100;

impl World {
    /// Lets the work act, where there is some. The run ends with it, at once.
    pub fn let_work(&mut self, act: impl FnOnce(&mut dyn Work, &mut World)) {
        let Some(mut work) = self.work.take() else { return };
        act(&mut *work, self);
        self.done |= work.is_over();
        self.work = Some(work);
    }

    pub fn on_work(&mut self, timer: u32) {
        self.let_work(|work, world| work.on_timer(timer, world));
    }

    /// Whether nothing more will happen: a list of flows is done, or the work waits for what never comes.
    pub fn is_at_rest(&self) -> bool {
        match self.work {
            Some(_) => self.events.len() == self.idle_events,
            None => self.fct.len() == self.plan.flows.len() && self.events.len() <= 1,
        }
    }
}

impl Network for World {
    fn now(&self) -> Time {
        Time(self.now)
    }

    fn send(&mut self, message: &Message) -> u32 {
        let &Message { from, to, bytes, .. } = message;
        let flow = Flow(from, to, WORK_PRIORITY as u32, WORK_PORT, bytes, self.now / 1000);
        let (src, dst) = (self.routes.host(from), self.routes.host(to));
        let (pair, place) = (self.routes.pair(src, dst), self.place());
        if place == self.plan.flows.len() {
            self.plan.flows.push(flow);
            self.pairs.push(pair);
        } else {
            (self.plan.flows[place], self.pairs[place]) = (flow, pair);
        }
        self.set_up(place, flow);
        place as u32
    }

    fn call_after(&mut self, delay: Time, timer: u32) {
        self.schedule(self.now.saturating_add(delay.0), Event::Work, timer);
    }
}
