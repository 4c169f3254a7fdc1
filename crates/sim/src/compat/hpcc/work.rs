//! Messages that are sent during the run, because others are done.

use tailback_proto::units::Time;

use super::packet::NONE;
use super::plan::Flow;
use super::port::LANES;
use super::world::{Event, World};
use crate::work::{Message, Network, Passage, Work};

/// The fork's front ends send everything in this priority, to this port.
pub(super) const WORK_PRIORITY: u8 = 3;
pub(super) const WORK_PORT: u32 = 100;

impl World {
    /// Lets the work act, where there is some. The run ends with it, at once.
    pub fn let_work(&mut self, act: impl FnOnce(&mut dyn Work, &mut World)) {
        let Some(mut work) = self.work.take() else { return };
        act(&mut *work, self);
        self.done |= work.is_over();
        self.work = Some(work);
    }

    /// What a port has sent so far, bytes, and how long it has been paused for the work's priority, ps.
    fn at_port(&self, port: u32) -> (u64, u64) {
        let paused = self.heard[port as usize * LANES + WORK_PRIORITY as usize].paused_until(self.now);
        (self.ports[port as usize].tx_bytes, paused)
    }

    /// The queue pair of a message starts at a port.
    pub fn note_start(&mut self, flow: u32, port: u32) {
        if self.work.is_some() {
            if self.at_start.len() <= flow as usize {
                self.at_start.resize(flow as usize + 1, (0, 0));
            }
            self.at_start[flow as usize] = self.at_port(port);
        }
    }

    pub fn on_work(&mut self, timer: u32) {
        self.let_work(|work, world| work.on_timer(timer, world));
    }

    /// Whether nothing more will happen: a list of flows is done, or the work waits for what never comes.
    pub fn is_at_rest(&self) -> bool {
        match self.work {
            _ if !self.events.is_past(self.cancelled) => false,
            Some(_) => self.events.len() == self.idle_events,
            None => {
                let all_done = self.completed == self.plan.flows.len() && self.events.len() <= 1;
                all_done && !self.queue_lengths.goes_on()
            }
        }
    }

    /// Whether all flows are done, and queues empty for good: then time series are 0 until the samples of queues end.
    pub fn is_still(&self) -> bool {
        self.work.is_none()
            && self.completed == self.plan.flows.len()
            && self.events.len() == self.idle_events
            && self.events.is_past(self.cancelled)
            && self.lanes.iter().all(|lane| lane.egress == 0)
            && self.heard.iter().all(|heard| heard.since.is_none())
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

    /// What the link takes is without telemetry in packets' headers.
    fn passage(&self, message: u32) -> Passage {
        let flow = message as usize;
        let qp = &self.send[flow];
        let Some(&(sent, paused)) = self.at_start.get(flow).filter(|_| qp.port != NONE) else {
            return Passage::default();
        };
        let payload = self.plan.payload_bytes as u64;
        let resent = qp.packets_sent.saturating_sub((qp.furthest as u64).div_ceil(payload));
        let headers = qp.packets_sent * self.plan.variant.data_header_bytes() as u64;
        let own = qp.furthest as u64 + resent * payload + headers;
        let (sent_now, paused_now) = self.at_port(qp.port);
        let rate_mbps = (self.ports[qp.port as usize].rate / 1_000_000).max(1);
        let on_link = |bytes: u64| Time(bytes.saturating_mul(8_000_000) / rate_mbps);
        Passage {
            ideal: Time(self.standalone_ns(flow).saturating_mul(1000)),
            link: on_link(own),
            behind: on_link((sent_now - sent).saturating_sub(own)),
            paused: Time(paused_now - paused),
            resent,
        }
    }
}
