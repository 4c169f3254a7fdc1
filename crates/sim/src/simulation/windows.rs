//! Nodes that take turns. In a large fabric, each node acts on all that happens to it in a window of time
//! before the next node does, so that its data is fetched from memory once per window and not once per event.
//!
//! A window is as long as the least delay of a link, so nothing that a node does reaches another node in the
//! same window. An event of the whole network (a link fails, a bin closes) ends a window. The order of
//! simultaneous events depends only on what they are, so results are those of a run in order of time, to the
//! byte.
//!
//! A run may end with its last queue pair, and then nothing later may have happened anywhere. So nodes take
//! turns as long as some queue pair is sure not to end within the window. After that, events run in order of
//! time.

use tailback_proto::units::Time;

use super::{act, Progress, Simulation};
use crate::engine::{EventQueue, Turns};
use crate::event::Event;
use crate::fabric::{port_and_class, Fabric};
use crate::nic::queue_pair::QpState;
use crate::plan::{Plan, Skip};
use crate::world::World;

/// Fabrics with at least this many ports gain by it.
const TURNS_FROM_PORTS: usize = 256;
/// A shorter window has too little to do.
const SHORTEST_WINDOW: Time = Time::from_ns(50);
/// A queue pair that is chosen as lasting should not end within this many windows: otherwise another would
/// soon have to be found.
const SOON_WINDOWS: u64 = 4;

/// How nodes take turns.
#[derive(Debug)]
pub(super) struct Windows {
    /// The least delay of a link.
    length: Time,
    /// Events of the whole network, the last one first.
    of_all: Vec<(Time, Event)>,
    /// A queue pair that does not end in the next window; those with higher numbers may.
    lasting: usize,
    /// For each writer of the plan: when it stops, if it does.
    stops: Vec<Option<Time>>,
}

/// The node at which an event happens. None: it is an event of the whole network.
pub(super) fn node_of(world: &World, event: Event) -> Option<usize> {
    let owner = |port: usize| world.fabric.ports[port].owner as usize;
    let src = |qp: u32| world.nics.send_qps[qp as usize].src as usize;
    Some(match event {
        Event::Sample | Event::LinkChange(_) => return None,
        Event::Arrival(port) | Event::PauseEffect(port) => {
            world.fabric.ports[port as usize].peer_owner as usize
        }
        Event::PortWake(port) => owner(port as usize),
        Event::PauseExpiry(lane) | Event::PauseRefresh(lane) | Event::Watchdog(lane) => {
            owner(port_and_class(lane as usize).0)
        }
        Event::PacingDue(qp) | Event::TransportTimer(qp) | Event::ControllerTimer(qp) => src(qp),
        Event::FlowStart(qp) => src(qp),
        Event::WriterStart(writer) | Event::WriterStop(writer) => {
            src(world.nics.writers[writer as usize].first_qp)
        }
        Event::ProbeAnswer(packet) | Event::DelayedNak(packet) => {
            world.nics.send_qps[world.fabric.packets[packet].qp as usize].dst as usize
        }
        other => unreachable!("{other:?}: nodes do not take turns"),
    })
}

impl Simulation {
    /// Decides whether nodes take turns, and gives each its events.
    pub(super) fn begin_windows(&mut self) {
        if self.world.fabric.ports.len() >= TURNS_FROM_PORTS {
            if let Ok(length) = self.window_length() {
                self.take_turns(length);
            }
        }
    }

    /// Length of a window.
    ///
    /// # Errors
    /// The reason why events have to run in order of time, a clause such as "it has controllers of its own".
    pub(super) fn window_length(&self) -> Result<Time, String> {
        if self.external {
            return Err("it has controllers of its own".into());
        }
        if self.work.is_some() {
            return Err("it has work whose messages wait for others".into());
        }
        if self.capture.is_some() {
            return Err("it is captured".into());
        }
        if self.plan.run.skip != Skip::Never {
            return Err("it has run.skip".into());
        }
        window(&self.plan)
    }

    pub(super) fn take_turns(&mut self, length: Time) {
        self.windows = Some(Windows::new(&self.plan, &mut self.world, length));
    }

    /// Puts all events into one queue again.
    pub(super) fn end_windows(&mut self) {
        self.join();
        let Some(windows) = self.windows.take() else { return };
        let run = &mut self.world.fabric.run;
        let turns = std::mem::take(&mut run.turns);
        run.events = EventQueue::for_ports(self.world.fabric.ports.len());
        for (place, code) in turns.into_events() {
            run.schedule_at(place, code);
        }
        for (time, event) in windows.of_all {
            run.schedule(time, event);
        }
    }

    /// Executes `max_events` events and the rest of their window, or all that are left.
    pub(super) fn run_windows(&mut self, max_events: u64) -> Progress {
        let end = self.plan.run.duration;
        let last_event = self.events + max_events;
        while self.events < last_event && !self.world.fabric.run.finished {
            let Some(windows) = &mut self.windows else {
                self.run_events(max_events);
                break;
            };
            let of_all = windows.of_all.last().map_or(Time::NEVER, |(time, _)| *time);
            let next = self.world.fabric.run.turns.next();
            let last = windows.end_of(next).min(of_all).min(end);
            if !windows.last_beyond(&self.world, last) {
                self.end_windows();
                continue;
            }
            self.events += turns_until(&mut self.world, last);
            if last == of_all {
                self.act_on_all();
            } else if last == end {
                self.world.fabric.run.finished = true;
            }
        }
        self.progress()
    }

    /// Acts on the next event of the whole network, and hands the events that follow from it to their nodes.
    #[inline(never)]
    fn act_on_all(&mut self) {
        let Some((_, event)) = self.windows.as_mut().and_then(|windows| windows.of_all.pop()) else { return };
        self.events += 1;
        self.dispatch(event);
        while let Some((place, code)) = self.world.fabric.run.turns.take_homeless() {
            let event = Event::decode(code);
            match (node_of(&self.world, event), &mut self.windows) {
                (None, Some(windows)) => windows.add(place.time(), event),
                (node, _) => self.world.fabric.run.turns.push_to(node.expect("a node"), place, code),
            }
        }
    }
}

/// Lets each node, in its turn, act on all that happens to it up to `last`, which is the time afterwards.
/// Returns the number of events.
pub(super) fn turns_until(world: &mut World, last: Time) -> u64 {
    let mut events = 0;
    let mut next = world.fabric.run.turns.next_node(0, last);
    while let Some(node) = next {
        let turns = &mut world.fabric.run.turns;
        turns.begin(node);
        next = turns.next_node(node, last);
        world.look_ahead_in_turn(last, next);
        events += take_turn(world, last);
        world.fabric.run.turns.end(node);
    }
    world.fabric.run.now = last;
    events
}

#[inline(never)]
fn take_turn(world: &mut World, last: Time) -> u64 {
    let mut events = 0;
    while let Some((time, code)) = world.fabric.run.turns.pop(last) {
        events += 1;
        world.fabric.run.now = time;
        let acted = act(world, Event::decode(code));
        debug_assert!(acted, "what concerns more than the world ends a window");
    }
    events
}

/// The least delay of a link, if all events of the plan happen at one node each.
fn window(plan: &Plan) -> Result<Time, String> {
    let has_host = |nic: &crate::plan::NicPlan| nic.host_path.is_some() || nic.hostcc.is_some();
    let others = [
        (!plan.tcp_connections.is_empty(), "it has TCP connections"),
        (!plan.jobs.is_empty() || plan.flows.of_work, "it has work whose messages wait for others"),
        (!plan.bridges.is_empty() || plan.veth.is_some(), "it has Linux hosts that forward"),
        (!plan.memory_loads.is_empty() || plan.nics.iter().any(has_host), "its hosts have a data path"),
    ];
    if let Some((_, why)) = others.into_iter().find(|&(is_there, _)| is_there) {
        return Err(why.into());
    }
    let length = plan.links.iter().map(|link| link.delay).min().unwrap_or(Time::ZERO);
    if length < SHORTEST_WINDOW {
        return Err(format!("a link has a delay of {length}, less than {SHORTEST_WINDOW}"));
    }
    // With a shorter timer, a queue pair might begin, give up and end the run within a window.
    let is_patient = |nic: &crate::plan::NicPlan| {
        let transport = &nic.transport;
        transport.adaptive_timeout.unwrap_or(transport.ack_timeout) >= length
    };
    if plan.nics.iter().all(is_patient) {
        Ok(length)
    } else {
        Err(format!("an ACK timeout is shorter than the delay of every link, {length}"))
    }
}

impl Windows {
    /// Hands all events to the nodes.
    fn new(plan: &Plan, world: &mut World, length: Time) -> Windows {
        let mut windows = Windows {
            length,
            of_all: Vec::new(),
            lasting: world.nics.send_qps.len().saturating_sub(1),
            stops: plan.writers.iter().map(|writer| writer.stop).collect(),
        };
        world.fabric.run.turns = Turns::new(world.fabric.nodes);
        let mut events = std::mem::take(&mut world.fabric.run.events);
        while let Some((place, code)) = events.take() {
            let event = Event::decode(code);
            match node_of(world, event) {
                Some(node) => world.fabric.run.turns.push_to(node, place, code),
                None => windows.of_all.push((place.time(), event)),
            }
        }
        windows.of_all.reverse();
        windows
    }

    /// The same for another world of the plan, with the nodes that it owns.
    pub(super) fn of_part(&self, plan: &Plan, world: &mut World) -> Windows {
        let windows = Windows::new(plan, world, self.length);
        let Fabric { run, cut, .. } = &mut world.fabric;
        run.turns.keep(|node| cut.owns(node));
        windows
    }

    /// True if the closing of bins is all that happens to the whole network.
    pub(super) fn has_only_samples(&self) -> bool {
        self.of_all.iter().all(|(_, event)| *event == Event::Sample)
    }

    /// Prepares for a world that was put together again: the next bin closes at `next_sample`, and any queue
    /// pair may be the lasting one.
    pub(super) fn of_whole(&mut self, world: &World, next_sample: Time) {
        self.of_all = vec![(next_sample, Event::Sample)];
        self.lasting = world.nics.send_qps.len().saturating_sub(1);
    }

    /// The last instant of a window that begins with `first`.
    pub(super) fn end_of(&self, first: Time) -> Time {
        Time(first.0.saturating_add(self.length.0 - 1))
    }

    /// Time until which some queue pair is sure to go on, as far as this part of a network knows, for windows that
    /// begin now or later. A part does not know what has arrived elsewhere, only what was sent.
    pub(super) fn lasts_until(&mut self, world: &World) -> Time {
        let soon = world.fabric.run.now + Time(self.length.0.saturating_mul(SOON_WINDOWS));
        loop {
            let until = self.sure_until(world, self.lasting);
            if until >= soon || self.lasting == 0 {
                return until;
            }
            self.lasting -= 1;
        }
    }

    fn sure_until(&self, world: &World, qp: usize) -> Time {
        let Some(s) = world.nics.send_qps.get(qp).filter(|s| world.fabric.cut.owns(s.src as usize)) else {
            return Time::ZERO;
        };
        let before = |time: Time| Time(time.0.saturating_sub(1));
        let stop = self.stops.get(s.writer as usize).copied().flatten().map_or(Time::NEVER, before);
        let writer = &world.nics.writers[s.writer as usize];
        match s.state {
            QpState::Done | QpState::Error => Time::ZERO,
            QpState::Waiting => stop,
            QpState::Running => {
                let rc = &world.nics.models[world.nics[s.src as usize].model as usize].rc;
                let complete = writer.stopped || writer.messages == Some(s.messages_posted);
                // What was not sent yet cannot be acknowledged within a window.
                let may_have_arrived = s.packets_sent >= s.half.requester.posted();
                if complete && may_have_arrived {
                    return Time::ZERO;
                }
                stop.min(before(s.half.requester.gives_up_at(rc)))
            }
        }
    }

    /// Adds an event of the whole network.
    fn add(&mut self, time: Time, event: Event) {
        let key = (time, event.encode());
        let at = self.of_all.partition_point(|(time, event)| (*time, event.encode()) > key);
        self.of_all.insert(at, (time, event));
    }

    /// True if a queue pair lasts longer than a window that ends with `last`. A queue pair that may end in a window is
    /// never checked again, so all searches together check each queue pair once.
    fn last_beyond(&mut self, world: &World, last: Time) -> bool {
        while self.may_end(world, self.lasting, last) {
            match self.lasting.checked_sub(1) {
                Some(next) => self.lasting = next,
                None => return false,
            }
        }
        true
    }

    fn may_end(&self, world: &World, qp: usize, last: Time) -> bool {
        let Some(s) = world.nics.send_qps.get(qp) else { return true };
        let stops =
            self.stops.get(s.writer as usize).is_some_and(|stop| stop.is_some_and(|stop| stop <= last));
        let writer = &world.nics.writers[s.writer as usize];
        match s.state {
            QpState::Done | QpState::Error => true,
            // What has yet to be sent cannot be acknowledged within a window.
            QpState::Waiting => stops,
            QpState::Running => {
                let rc = &world.nics.models[world.nics[s.src as usize].model as usize].rc;
                let arrived = world.nics.recv_qps[qp].half.responder.received() == s.half.requester.posted();
                let complete = stops || writer.stopped || writer.messages == Some(s.messages_posted);
                s.half.requester.gives_up_at(rc) <= last || arrived && complete
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::by_node::{ask_for_telemetry, text, two_switches};
    use super::*;
    use crate::plan::{FailurePlan, FlowPlan};
    use proptest::prelude::*;

    const US: u64 = 1_000_000;

    /// The recording of a plan, and true if nodes took turns to the end.
    fn recorded(plan: &Plan, in_turns: bool, step: u64) -> (String, bool) {
        let mut simulation = Simulation::new(plan.clone()).expect("the plan is possible");
        if in_turns {
            if let Ok(length) = window(plan) {
                simulation.take_turns(length);
            }
        }
        while !simulation.advance(step).done {}
        let turns = simulation.windows.is_some();
        (text(&simulation.finish()), turns)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

        /// Runs that go on to their end and runs that end with their last queue pair, which may fail, too;
        /// with links that fail.
        #[test]
        fn turns_change_nothing(
            writers in prop::collection::vec((0usize..6, 1usize..6, 1u32..5), 0..4),
            (messages, stop) in (prop::option::of(1u64..4), prop::option::of(1u64..100)),
            flows in prop::collection::vec((0u32..6, 1u32..6, 1u64..200_000, 0u64..60), 1..9),
            loss in prop::sample::select(vec![0.0, 1e-3, 0.2]),
            link in prop::option::of((0usize..7, 0u64..80, 1u64..100)),
            (patience_us, retries) in (prop::sample::select(vec![8u64, 60_000]), 0u32..2),
            (delay_ns, step) in (prop::sample::select(vec![500u64, 7_000, 100_000]), 1u64..3000),
            (telemetry, seed) in (any::<bool>(), 0u64..100),
        ) {
            let mut plan = two_switches(&writers, loss, seed);
            for writer in &mut plan.writers {
                (writer.messages, writer.stop) = (messages, stop.map(|at| Time(at * US)));
            }
            plan.links.iter_mut().for_each(|link| link.delay = Time::from_ns(delay_ns));
            let flow = |&(src, to, bytes, at): &(u32, u32, u64, u64)| {
                FlowPlan(src, (src + to) % 6, 0, 0, bytes, at * US)
            };
            if telemetry {
                ask_for_telemetry(&mut plan);
            }
            plan.flows.items = vec!["flows".into()];
            plan.flows.list = flows.iter().map(flow).collect();
            if let Some((link, fails, lasts)) = link {
                let (at, repair) = (Time(fails * US), Some(Time((fails + lasts) * US)));
                plan.failures = vec![FailurePlan { at, repair, detection: Time::ZERO, link }];
            }
            let transport = &mut plan.nics[0].transport;
            (transport.ack_timeout, transport.retry_count) = (Time(patience_us * US), retries);
            transport.adaptive_timeout = None;
            let (expected, _) = recorded(&plan, false, step);
            let (found, _) = recorded(&plan, true, step);
            prop_assert!(found == expected);
        }
    }

    #[test]
    fn nodes_take_turns_until_the_last_queue_pair_has_sent_all() {
        let mut plan = two_switches(&[(0, 3, 2)], 0.0, 1);
        assert!(recorded(&plan, true, 1000).1, "writers that go on");
        plan.writers[0].messages = Some(1);
        let (expected, _) = recorded(&plan, false, 1000);
        assert_eq!(recorded(&plan, true, 1000), (expected, false), "its end is that of the run");
    }
}
