//! Messages that are sent during the run, because others are done.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use tailback_proto::units::Time;

use super::host::{RecvQp, SendQp};
use super::packet::NONE;
use super::plan::Flow;
use super::switch::LANES;
use super::world::{Event, World};
use tailback_sim::record::FlowRows;
use tailback_sim::work::{Message, Network, Passage, Work};

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

    /// True if nothing more will happen: a list of flows is done, or the work waits for what never comes.
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

    /// True if all flows are done, and queues empty for good: then time series are 0 until the samples of queues end.
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

// Messages of work that are over: their rows leave memory, and their places are used again.
//
// A run may send ten million of them. A message keeps its place while anything may still name it: packets, timers, its port's
// round robin. What was sent again may have packets under way for as long as it likes, so such a message keeps its place to
// the end; so do all where a link will fail, since routes then change behind packets.

/// Most places that are looked at for one message.
const MOST_TRIED: usize = 4;

/// What is kept of finished messages.
#[derive(Debug, Default)]
pub(super) struct FinishedMessages {
    /// Slots whose messages are finished.
    places: VecDeque<u32>,
    /// Messages so far; more than there are slots, where slots are reused.
    pub messages: u32,
    /// Where the routes of finished messages were, by their number of ports.
    free_routes: BTreeMap<u32, Vec<u32>>,
    /// Room for a route that is being followed.
    pub route: Vec<u32>,
    pub rows: FlowRows,
    /// Queues on the routes of messages that left: order, lane, kind.
    pub queues: BTreeSet<(u32, usize, &'static str)>,
    /// Data packets sent, of messages that left.
    pub packets_sent: u64,
}

impl FinishedMessages {
    /// Puts a route where there is room, and gives the place where it begins.
    pub fn place_route(&mut self, route: &[u32], routes: &mut Vec<u32>) -> u32 {
        match self.free_routes.get_mut(&(route.len() as u32)).and_then(Vec::pop) {
            Some(at) => {
                routes[at as usize..][..route.len()].copy_from_slice(route);
                at
            }
            None => {
                routes.extend_from_slice(route);
                (routes.len() - route.len()) as u32
            }
        }
    }
}

impl World {
    /// A message is over, and its sender has heard all that it will.
    pub fn note_over(&mut self, flow: u32) {
        let qp = &self.send[flow as usize];
        let recv = &self.recv[flow as usize];
        let again = qp.nacks + qp.timeouts + recv.out_of_sequence + recv.duplicate;
        let once = again == 0 && qp.snd_nxt == qp.size;
        if self.work.is_some() && self.plan.link_down.is_none() && once {
            self.over.places.push_back(flow);
        }
    }

    /// A place for a new message: one whose message nothing names any more, or a new one.
    pub fn place(&mut self) -> usize {
        for _ in 0..self.over.places.len().min(MOST_TRIED) {
            let Some(flow) = self.over.places.pop_front() else { break };
            let qp = &self.send[flow as usize];
            if qp.slot == NONE && qp.timers == 0 {
                self.let_leave(flow as usize);
                return flow as usize;
            }
            self.over.places.push_back(flow);
        }
        self.send.len()
    }

    /// Keeps a row of a message, and the queues that it passed.
    fn let_leave(&mut self, flow: usize) {
        let row = self.row(flow);
        self.over.rows.put(self.send[flow].number as usize, row);
        let queues = self.queues_of(flow);
        self.over.queues.extend(queues);
        let &SendQp { data_route, route_lengths, packets_sent, .. } = &self.send[flow];
        let ack_route = self.recv[flow].ack_route;
        self.over.packets_sent += packets_sent;
        for (at, ports) in [(data_route, route_lengths.0), (ack_route, route_lengths.1)] {
            self.over.free_routes.entry(ports).or_default().push(at);
        }
    }

    /// Takes a place for a queue pair.
    pub fn take_place(&mut self, place: usize, qp: SendQp) {
        let recv = RecvQp::new(qp.dst);
        if place == self.send.len() {
            self.send.push(qp);
            self.recv.push(recv);
        } else {
            (self.send[place], self.recv[place]) = (qp, recv);
        }
    }

    /// The queues on a message's route: place on it, lane, kind.
    pub fn queues_of(&mut self, flow: usize) -> Vec<(u32, usize, &'static str)> {
        let (priority, started) = (self.send[flow].priority as usize, self.send[flow].started);
        let Some(hops) = started.then(|| self.route(flow)).flatten() else { return Vec::new() };
        let mut found = Vec::new();
        let mut order = 0;
        for window in (1..hops.len()).rev() {
            let ingress = self.ports[hops[window - 1]].peer as usize;
            found.push((order + 1, hops[window] * LANES + priority, "egress"));
            found.push((order + 2, ingress * LANES + priority, "ingress"));
            order += 2;
        }
        found.push((order + 1, hops[0] * LANES + priority, "send"));
        found
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::hpcc::plan::{Cc, Link, LinkDown};
    use crate::hpcc::routing::tests::network;
    use crate::hpcc::{HpccPlan, HpccRecording, HpccSimulation};
    use tailback_sim::work::{Finished, Message, Network, Work};

    const HOSTS: u32 = 5;
    const CHAINS: u32 = 3;

    /// Each host has chains of messages to the first one; of the first host each is of another size, to the next ones in turn.
    #[derive(Debug)]
    struct Chains {
        left: u32,
        /// By number of a message under way: who sends it.
        under_way: std::collections::BTreeMap<u32, u32>,
    }

    impl Chains {
        fn next(&mut self, from: u32, network: &mut dyn Network) {
            if self.left == 0 {
                return;
            }
            self.left -= 1;
            let to = if from == 0 { 1 + self.left % (HOSTS - 1) } else { 0 };
            let bytes = if from == 0 { 1 + self.left as u64 * 17 } else { 20_000 };
            let message = Message { from, to, bytes, item: 0, code_point: 0, channel: None };
            let before = self.under_way.insert(network.send(&message), from);
            assert_eq!(before, None, "two messages under way have one number");
        }
    }

    impl Work for Chains {
        fn begin(&mut self, network: &mut dyn Network) {
            (0..HOSTS * CHAINS).for_each(|chain| self.next(chain % HOSTS, network));
        }
        fn on_timer(&mut self, _: u32, _: &mut dyn Network) {}
        fn on_done(&mut self, message: u32, network: &mut dyn Network) {
            let from = self.under_way.remove(&message).expect("it is under way");
            self.next(from, network);
        }
        fn finished(&self) -> &[Finished] {
            &[]
        }
        fn is_over(&self) -> bool {
            self.left == 0 && self.under_way.is_empty()
        }
        fn problem(&self) -> Option<&str> {
            None
        }
        fn waiting(&self) -> Vec<(u32, String)> {
            Vec::new()
        }
    }

    /// A run of this number of messages, and how many places they took.
    fn run(plan: &HpccPlan, messages: u32) -> (HpccRecording, usize) {
        let work = Chains { left: messages, under_way: Default::default() };
        let mut simulation = HpccSimulation::with_work(plan, Box::new(work)).expect("it is possible");
        while !simulation.advance(10_000).done {}
        let places = simulation.world.send.len();
        (simulation.finish(), places)
    }

    /// Under each controller, with timers that outlive messages: places are used again, and nothing else is as if they were
    /// not. A link that fails after the end keeps every place.
    #[test]
    fn places_used_again_change_nothing() {
        const MESSAGES: u32 = 600;
        let links = (0..HOSTS).map(|host| Link(host, HOSTS, 100_000_000_000, 1000, 0.0));
        let mut plan = network(HOSTS + 1, vec![HOSTS], links.collect());
        plan.stop_ns = 1_000_000_000;
        plan.ecn.enabled = true;
        plan.ecn.thresholds =
            serde_json::from_value(json!([[100_000_000_000u64, 5, 20, 1.0]])).expect("thresholds");
        plan.departures.retransmission_timeout_ns = 50_000;
        let rates = json!({"rate_ai_bps": 50_000_000, "min_rate_bps": 100_000_000});
        let with = |more: serde_json::Value| -> Cc {
            let mut all = rates.as_object().expect("keys").clone();
            all.extend(more.as_object().expect("keys").clone());
            serde_json::from_value(all.into()).expect("a controller")
        };
        let controllers = [
            Cc::None {},
            with(
                json!({"kind": "dcqcn", "alpha_resume_us": 1, "rate_decrease_us": 4, "clamp_target_rate": false,
                "rp_timer_us": 9, "ewma_gain": 0.00390625, "fast_recovery_times": 1, "rate_hai_bps": 100_000_000}),
            ),
            with(json!({"kind": "hpcc", "target_utilization": 0.95, "max_stage": 0, "int_multi": 1,
                "fast_react": true, "multi_rate": false, "sample_feedback": false})),
            with(json!({"kind": "dctcp", "ewma_gain": 0.0625})),
        ];
        for cc in controllers {
            plan.cc = cc;
            plan.link_down = None;
            let (again, places) = run(&plan, MESSAGES);
            plan.link_down = Some(LinkDown(plan.stop_ns * 2, 0, HOSTS));
            let (kept, all) = run(&plan, MESSAGES);
            assert_eq!(all, MESSAGES as usize);
            assert!(places < 200, "{places} places under {:?}", plan.cc);
            assert_eq!(again.fct, kept.fct);
            let text = |recording: &HpccRecording| format!("{:?}", (&recording.recording, &recording.totals));
            assert_eq!(text(&again), text(&kept));
            assert!(again.recording.meta.conservation.ok);
        }
    }
}
