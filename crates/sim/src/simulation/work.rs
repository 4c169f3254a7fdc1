//! Messages that are sent during the run, once others are done.

use std::collections::VecDeque;
use tailback_proto::units::Time;

use crate::engine::NumberMap;
use crate::event::Event;
use crate::fabric::lane;
use crate::jobs::Jobs;
use crate::nic::queue_pair::{put, GONE};
use crate::plan::{FlowPlan, Operations, Plan, PlanError, StepPlan};
use crate::record::{record_message, Fault};
use crate::simulation::Simulation;
use crate::work::{Arrived, JobRecord, Message, Network, Passage, Work};
use crate::world::World;

/// Work under way, and what the network knows of it.
#[derive(Debug)]
pub(super) struct RunningWork {
    work: Box<dyn Work>,
    state: WorkState,
}

/// The network's state of the work that it carries.
#[derive(Debug)]
struct WorkState {
    /// Number of messages and times that it waits for.
    awaited: usize,
    problem: Option<String>,
    /// True if it is notified when a message is in memory, and the run goes on after its end. If false, it is notified
    /// when a message is acknowledged, and the run ends with it.
    by_arrival: bool,
    /// Slots of queue pairs that carry several messages, by what they carry.
    lasting: NumberMap<Message, u32>,
    /// The first slot of the work, and from there on, by slot, the messages that it is to be notified of.
    first_slot: u32,
    qp_messages: Vec<QpMessages>,
    /// For messages that are reported once acknowledged, by slot: what their sender's port had sent when they were
    /// posted, and how long it had been paused for their class.
    sent: Vec<(u64, Time)>,
    /// True if messages that are done leave their slots to others.
    frees: bool,
    /// For each host: until when all that was posted so far occupies its link, at full rate.
    taken: NumberMap<u32, Time>,
    /// Messages so far.
    messages: u32,
    over: bool,
}

/// Messages of a queue pair, in order.
#[derive(Debug, Default)]
struct QpMessages {
    /// Time of a message in an empty network: in all, and on its sender's link.
    ideal: (Time, Time),
    /// Messages that have not arrived: number, how long the link was still occupied when it was posted, and how many packets
    /// had been retransmitted then.
    waiting: VecDeque<(u32, Time, u64)>,
}

impl RunningWork {
    fn new(work: Box<dyn Work>, by_arrival: bool, first_slot: u32, frees: bool) -> RunningWork {
        let state = WorkState {
            awaited: 0,
            problem: None,
            by_arrival,
            lasting: NumberMap::default(),
            first_slot,
            qp_messages: Vec::new(),
            sent: Vec::new(),
            frees,
            taken: NumberMap::default(),
            messages: 0,
            over: false,
        };
        RunningWork { work, state }
    }

    /// Messages that are done keep their slots from now on.
    pub fn keep_slots(&mut self) {
        self.state.frees = false;
    }

    /// Hosts that wait for something that never happens.
    pub fn faults(&self, plan: &Plan) -> Vec<Fault> {
        let fault = |(host, text): (u32, String)| {
            let node = plan.hosts[host as usize].name.clone();
            Fault { kind: "unfinished", r#where: node.clone(), node, peer: String::new(), text }
        };
        self.work.waiting().into_iter().map(fault).collect()
    }

    /// The record of its jobs. Ranks of another simulator's inputs are the first hosts.
    pub fn jobs(&self, plan: &Plan) -> Vec<JobRecord> {
        let mut jobs = self.work.jobs();
        for job in jobs.iter_mut().filter(|job| job.inputs.is_some()) {
            job.item = plan.flows.items[0].clone();
            let hosts = plan.hosts.iter().take(job.finished_ps.len());
            job.hosts = hosts.map(|host| host.name.clone()).collect();
        }
        jobs
    }
}

/// A world as work sees it: a network that carries messages between hosts, which have their numbers in the plan.
struct Carrier<'a> {
    world: &'a mut World,
    plan: &'a mut Plan,
    state: &'a mut WorkState,
}

impl Network for Carrier<'_> {
    fn now(&self) -> Time {
        self.world.fabric.run.now
    }

    fn send(&mut self, message: &Message) -> u32 {
        if self.state.by_arrival {
            return self.post(message);
        }
        let Some((slot, _)) = self.add(message) else { return GONE };
        let (at, number) = (self.at_port(slot), self.world.nics.send_qps[slot as usize].number);
        put(&mut self.state.sent, slot - self.state.first_slot, at);
        self.state.awaited += 1;
        self.world.fabric.run.schedule(self.now(), Event::FlowStart(number));
        number
    }

    fn call_after(&mut self, delay: Time, timer: u32) {
        self.state.awaited += 1;
        let at = Time(self.now().0.saturating_add(delay.0));
        self.world.fabric.run.schedule(at, Event::Work(timer));
    }

    fn passage(&self, message: u32) -> Passage {
        let nics = &self.world.nics;
        let slot = nics.slots.of(message);
        let at = (slot - self.state.first_slot) as usize;
        let Some(&(sent, paused)) = self.state.sent.get(at) else { return Passage::default() };
        let s = &nics.send_qps[slot as usize];
        let packets = nics.writers[s.writer as usize].writes.packets_per_message;
        let resent = s.packets_retransmitted;
        let link = self.world.time_on_link(slot);
        let rate = self.world.fabric.links[nics.nics[s.src as usize].port as usize].rate;
        let until = self.at_port(slot);
        let own = Time(link.0 + link.0 * resent / packets);
        Passage {
            ideal: nics.ideal_fct[(slot - nics.first_flow_qp) as usize],
            link,
            behind: rate.serialization(until.0 - sent).saturating_sub(own),
            paused: until.1 - paused,
            resent,
        }
    }
}

/// Most packets outstanding on a queue pair: a quarter of the space of PSNs.
const MOST_OUTSTANDING: u64 = 1 << 22;

impl Carrier<'_> {
    /// Bytes that the port of a queue pair's sender has sent so far, and how long it has been paused for its class.
    fn at_port(&self, slot: u32) -> (u64, Time) {
        let World { nics, fabric, .. } = &*self.world;
        let s = &nics.send_qps[slot as usize];
        let port = nics.nics[s.src as usize].port as usize;
        let paused = fabric.pauses[lane(port, s.class)].paused_until(fabric.run.now);
        (fabric.ports[port].wire_bytes, paused)
    }

    /// Adds the queue pair of a message. Its slot, and how long the message takes in an empty network; or none: there can be no
    /// more queue pairs.
    fn add(&mut self, message: &Message) -> Option<(u32, Time)> {
        let &Message { from, to, bytes, item, code_point, .. } = message;
        let flow = FlowPlan(from, to, item, code_point, bytes, self.now().0);
        match self.world.add_message(self.plan, flow) {
            Ok(added) => {
                self.world.fabric.run.active_flows += 1;
                Some(added)
            }
            Err(problem) => {
                self.state.problem.get_or_insert(problem.to_string());
                None
            }
        }
    }

    /// Posts a message whose arrival is reported to the work. Returns its number.
    fn post(&mut self, message: &Message) -> u32 {
        let number = self.state.messages;
        self.state.messages += 1;
        let known = message.channel.and_then(|_| self.state.lasting.get(message).copied());
        let slot = match known {
            Some(slot) => slot,
            None => {
                let Some((slot, ideal)) = self.add(message) else { return number };
                self.world.nics.tell_arrivals(slot, message.channel.is_some());
                let messages =
                    QpMessages { ideal: (ideal, self.world.time_on_link(slot)), ..QpMessages::default() };
                put(&mut self.state.qp_messages, slot - self.state.first_slot, messages);
                if message.channel.is_some() {
                    self.state.lasting.insert(*message, slot);
                }
                slot
            }
        };
        let nics = &mut self.world.nics;
        let s = &nics.send_qps[slot as usize];
        let packets = nics.writers[s.writer as usize].writes.packets_per_message;
        if s.half.requester.posted() - s.half.requester.acknowledged() + packets > MOST_OUTSTANDING {
            let text = "more than 2^22 packets would be outstanding on a queue pair; take more channels, or queue_pairs: message";
            self.state.problem.get_or_insert(text.into());
            return number;
        }
        let messages = &mut self.state.qp_messages[(slot - self.state.first_slot) as usize];
        let now = self.world.fabric.run.now;
        let taken = self.state.taken.entry(message.from).or_default();
        let begins = now.max(*taken);
        *taken = begins + messages.ideal.1;
        messages.waiting.push_back((number, begins - now, s.packets_retransmitted));
        self.state.awaited += 1;
        nics.post_message(&mut self.world.fabric, &mut self.world.tcp, slot);
        number
    }
}

impl Simulation {
    /// Builds the world of a plan without traffic of its own, in which `work` sends messages. They belong to the plan's first
    /// traffic item and have its first code point. The run ends with the work.
    ///
    /// # Errors
    /// Where the plan is impossible.
    pub fn with_work(plan: Plan, work: Box<dyn Work>) -> Result<Self, PlanError> {
        let own = plan.writers.len() + plan.flows.list.len() + plan.tcp_connections.len() + plan.jobs.len();
        if own > 0 || !plan.flows.of_work || plan.flows.items.is_empty() || plan.code_points.is_empty() {
            let problem = "expected of_work, an item, a code point, and no other traffic".into();
            return Err(PlanError::Impossible { place: "flows".into(), problem });
        }
        let mut simulation = Simulation::new(plan)?;
        simulation.world.nics.tells_ends = true;
        simulation.carry(work, false);
        Ok(simulation)
    }

    /// Takes up the jobs of the plan, if it has some.
    pub(super) fn carry_jobs(&mut self) -> Result<(), PlanError> {
        if !self.plan.jobs.is_empty() {
            let jobs = {
                let Plan { jobs, flows, hosts, .. } = &self.plan;
                Jobs::new(jobs, &flows.items, |host| hosts[host].name.clone())?
            };
            let steps = self.plan.jobs.iter_mut().flat_map(|job| &mut job.steps);
            // Jobs have their own copies of graphs.
            steps.for_each(|step| match step {
                StepPlan::Graph(operations) => *operations = Operations::default(),
                StepPlan::Compute(_) | StepPlan::Collective(_) => {}
            });
            self.carry(Box::new(jobs), true);
        }
        Ok(())
    }

    fn carry(&mut self, work: Box<dyn Work>, by_arrival: bool) {
        // The work counts as a flow, so that a moment without messages is not the end.
        self.world.fabric.run.active_flows += 1;
        let nics = &mut self.world.nics;
        let first_slot = nics.send_qps.len();
        nics.slots.begin_work(first_slot);
        // Where a link fails, routes at the end of the run are those of all messages.
        let frees = self.plan.link_changes().is_empty();
        self.work = Some(RunningWork::new(work, by_arrival, first_slot as u32, frees));
        self.let_work(|work, network| work.begin(network));
    }

    /// The work, in its present state.
    pub fn work(&self) -> Option<&dyn Work> {
        self.work.as_ref().map(|carried| &*carried.work)
    }

    /// Why the work cannot go on: one line.
    pub fn problem(&self) -> Option<&str> {
        let carried = self.work.as_ref()?;
        carried.work.problem().or(carried.state.problem.as_deref())
    }

    pub(super) fn on_work(&mut self, timer: u32) {
        self.come_back();
        self.let_work(|work, network| work.on_timer(timer, network));
    }

    fn come_back(&mut self) {
        if let Some(carried) = &mut self.work {
            carried.state.awaited -= 1;
        }
    }

    pub(super) fn on_message_done(&mut self, number: u32) {
        self.come_back();
        self.let_work(|work, network| work.on_done(number, network));
        let slots = &mut self.world.nics.slots;
        slots.done.push(slots.of(number));
    }

    pub(super) fn on_message_arrived(&mut self, number: u32) {
        let Some(RunningWork { state, .. }) = &mut self.work else { return };
        let slot = self.world.nics.slots.of(number);
        let messages = &mut state.qp_messages[(slot - state.first_slot) as usize];
        let (message, behind, resent) = messages.waiting.pop_front().expect("it was posted");
        let resent = self.world.nics.send_qps[slot as usize].packets_retransmitted - resent;
        let arrived = Arrived { message, ideal: messages.ideal.0, behind, resent };
        self.come_back();
        self.let_work(|work, network| work.on_arrived(arrived, network));
    }

    /// Messages that are done leave their slots.
    fn free_slots(&mut self) {
        let Some(RunningWork { state, .. }) = &self.work else { return };
        let mut done = std::mem::take(&mut self.world.nics.slots.done);
        for slot in done.drain(..).filter(|_| state.frees) {
            if self.world.nics.is_forgotten(slot) {
                let kept = (&mut self.rows, &mut self.listed);
                record_message(&self.plan, &self.world, self.recorder.detail, kept, slot);
                self.world.remove_message(&self.plan, slot);
            }
        }
        self.world.nics.slots.done = done;
    }

    /// Lets the work act. The run ends with it, or when it waits for something that never happens, but not before other traffic.
    fn let_work(&mut self, act: impl FnOnce(&mut dyn Work, &mut dyn Network)) {
        self.free_slots();
        let Some(RunningWork { work, state }) = &mut self.work else { return };
        act(&mut **work, &mut Carrier { world: &mut self.world, plan: &mut self.plan, state });
        let over = work.is_over() || state.awaited == 0;
        let run = &mut self.world.fabric.run;
        run.finished |= state.problem.is_some() || over && !state.by_arrival;
        if over && state.by_arrival && !std::mem::replace(&mut state.over, true) {
            // Nothing more is sent on its queue pairs.
            for slot in (state.first_slot..).take(state.qp_messages.len()) {
                let writer = self.world.nics.send_qps[slot as usize].writer;
                self.world.nics.on_writer_stop(&mut self.world.fabric, writer);
            }
            self.world.fabric.run.flow_ended();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{JobPlan, OperationPlan, QueuePairs, StepWork};

    /// A hundred messages to and fro, each with a queue pair of its own, and a timer that outlives it: two slots are enough.
    #[test]
    fn a_message_takes_the_slot_of_one_that_is_done() {
        let mut plan = Plan::from_json(include_str!("../../tests/data/two_to_one.json")).expect("a plan");
        plan.writers.clear();
        plan.flows.items = vec!["job".into()];
        let message = |n: u32| {
            OperationPlan(
                n % 2,
                StepWork::Send { to: 1 - n % 2, bytes: 5000, channel: 0 },
                n.checked_sub(1).into_iter().collect(),
            )
        };
        let operations: Vec<OperationPlan> = (0..100).map(message).collect();
        plan.jobs = vec![JobPlan {
            name: "job".into(),
            item: 0,
            code_point: 0,
            ranks: vec![0, 1],
            servers: vec![0, 1],
            domain: None,
            reduce_rate: None,
            queue_pairs: QueuePairs::Message,
            start_ps: 0,
            repeat: 1,
            steps: vec![StepPlan::Graph(operations.into())],
        }];
        let mut simulation = Simulation::new(plan).expect("it is possible");
        while !simulation.advance(1000).done {}
        assert_eq!(simulation.world_mut().nics.send_qps.len(), 2);
        let recording = simulation.finish();
        assert_eq!(recording.flows.len(), 100);
        assert_eq!((recording.meta.faults.len(), recording.meta.conservation.ok), (0, true));
        let numbers: Vec<u32> = recording.flows.iter().map(|flow| flow.qp).collect();
        assert_eq!(numbers, (0..100).collect::<Vec<_>>());
    }
}
