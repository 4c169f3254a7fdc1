//! Jobs: ranks that compute and take part in collectives, whose messages wait for each other.
//!
//! A job's ranks take the same steps, as often as they are repeated. A collective, or a graph that a user gave, is a
//! [`graph`] of operations; while ranks take part in it, it is a `RunningGraph`, which is given up when all of its operations
//! have ended: a long run holds no more than what is under way. A rank has one thing to compute at a time, and takes part in one
//! collective at a time, in the order of its steps.
//!
//! A message ends for all who wait for it when it is in its receiver's memory. Leaves out: credits between ranks, so that a
//! message never waits for a receiver that is not ready; and what starting a collective costs a rank.

mod collective;
mod graph;
pub(crate) mod settings;

use std::collections::VecDeque;
use std::sync::Arc;
use tailback_proto::units::Time;

use crate::declare::PlanError;
use crate::engine::NumberMap;
use crate::jobs::collective::RunningGraph;
use crate::jobs::graph::{Job, NextStep, RankActivity};
use crate::jobs::settings::{JobPlan, QueuePairs, StepPlan, StepWork};
use crate::work::{
    Arrived, DomainLinks, Finished, JobRecord, Message, Network, SpanRecord, Work, MOST_RECORDED,
};

pub use crate::jobs::graph::circle;

/// An operation of a part, by their places.
type OperationIndex = (u32, u32);

/// Meaning of a timer.
#[derive(Clone, Copy, Debug)]
enum Timer {
    /// The ranks of a job begin.
    Begin(u32),
    /// A step of a rank has been computed: job, rank.
    Computed(u32, u32),
    /// The first bit of a message inside of a server arrives.
    Arriving(OperationIndex),
    /// An operation ends.
    Operation(OperationIndex),
}

/// A task that comes before any other event.
#[derive(Clone, Copy, Debug)]
enum Task {
    /// An operation has all it waited for.
    Ready(OperationIndex),
    /// An operation has ended.
    Ended(OperationIndex),
    /// A rank may go on: job, rank.
    GoOn(u32, u32),
}

/// All jobs of a run.
#[derive(Debug)]
pub(crate) struct Jobs {
    jobs: Vec<Job>,
    /// Parts under way, by place; a place may be empty.
    parts: Vec<Option<RunningGraph>>,
    empty: Vec<u32>,
    timers: Vec<Timer>,
    unused_timers: Vec<u32>,
    /// Messages under way.
    sent: NumberMap<u32, OperationIndex>,
    links: DomainLinks,
    tasks: VecDeque<Task>,
    finished: Vec<Finished>,
    ranks: usize,
    ready: Vec<u32>,
}

impl Jobs {
    /// Of a checked plan, with the names of its traffic items and hosts.
    ///
    /// # Errors
    /// One line, where a graph cannot be.
    pub fn new(
        plans: &[JobPlan],
        items: &[String],
        host_name: impl Fn(usize) -> String,
    ) -> Result<Jobs, PlanError> {
        let mut jobs = Vec::new();
        for (index, job) in plans.iter().enumerate() {
            let impossible =
                |problem: String| PlanError::Impossible { place: format!("jobs[{index}]"), problem };
            let (mut graphs, mut own) = (Vec::new(), job.clone());
            for step in &mut own.steps {
                graphs.push(match step {
                    StepPlan::Graph(operations) => {
                        let operations = std::mem::take(operations);
                        Some(Arc::new(graph::graph(&operations, job.ranks.len()).map_err(impossible)?))
                    }
                    StepPlan::Compute(_) | StepPlan::Collective(_) => None,
                });
            }
            let hosts = job.ranks.iter().map(|&host| host_name(host as usize)).collect();
            let record = JobRecord {
                name: job.name.clone(),
                item: items[job.item].clone(),
                hosts,
                finished_ps: vec![None; job.ranks.len()],
                parts_ended: vec![0; job.steps.len()],
                ..JobRecord::default()
            };
            jobs.push(Job::new(own, graphs, record));
        }
        Ok(Jobs {
            ranks: jobs.iter().map(|job| job.ranks.len()).sum(),
            jobs,
            parts: Vec::new(),
            empty: Vec::new(),
            timers: Vec::new(),
            unused_timers: Vec::new(),
            sent: NumberMap::default(),
            links: DomainLinks::default(),
            tasks: VecDeque::new(),
            finished: Vec::new(),
            ready: Vec::new(),
        })
    }

    fn call_after(&mut self, delay: Time, timer: Timer, network: &mut dyn Network) {
        let number = self.unused_timers.pop().unwrap_or_else(|| {
            self.timers.push(timer);
            self.timers.len() as u32 - 1
        });
        self.timers[number as usize] = timer;
        network.call_after(delay, number);
    }

    /// Does what is to be done, in order.
    fn work_off(&mut self, network: &mut dyn Network) {
        while let Some(task) = self.tasks.pop_front() {
            match task {
                Task::Ready(place) => self.begin_operation(place, network),
                Task::Ended(place) => self.end_operation(place, network.now()),
                Task::GoOn(job, rank) => self.go_on(job, rank, network),
            }
        }
    }

    /// A rank takes its next steps, until it has to wait.
    fn go_on(&mut self, job: u32, rank: u32, network: &mut dyn Network) {
        loop {
            let of = &mut self.jobs[job as usize];
            match of.next(rank, network.now()) {
                NextStep::Wait => return,
                NextStep::Compute(time) => {
                    self.call_after(time, Timer::Computed(job, rank), network);
                    return;
                }
                NextStep::Join(iteration, step) => self.join(job, rank, iteration, step, network.now()),
                NextStep::Finished => {
                    let computed = of.ranks[rank as usize].computed;
                    let rank =
                        self.jobs[..job as usize].iter().map(|job| job.ranks.len() as u32).sum::<u32>()
                            + rank;
                    self.finished.push(Finished { rank, at: network.now(), computed });
                    return;
                }
            }
        }
    }

    /// A rank takes part.
    fn join(&mut self, job: u32, rank: u32, iteration: u32, step: u32, now: Time) {
        let of = &mut self.jobs[job as usize];
        let place = match of.parts.get(&(iteration, step)) {
            Some(&place) => place,
            None => {
                let part = RunningGraph::new(of.graph(step), of.ranks.len(), job as usize, iteration, step);
                of.record.operations += part.left() as u64;
                let place = self.empty.pop().unwrap_or_else(|| {
                    self.parts.push(None);
                    self.parts.len() as u32 - 1
                });
                self.parts[place as usize] = Some(part);
                of.parts.insert((iteration, step), place);
                place
            }
        };
        let part = self.parts[place as usize].as_mut().expect("it is under way");
        part.join(rank, now, &mut self.ready);
        let idle = part.is_idle(rank);
        self.tasks.extend(self.ready.drain(..).map(|operation| Task::Ready((place, operation))));
        if idle {
            self.rank_done(place, rank, now);
        }
    }

    fn begin_operation(&mut self, place: OperationIndex, network: &mut dyn Network) {
        let part = self.parts[place.0 as usize].as_ref().expect("it is under way");
        let operation = part.graph.operations[place.1 as usize];
        let number = part.job as u32;
        let job = &mut self.jobs[number as usize];
        let (now, rank) = (network.now(), operation.rank as usize);
        let at = match operation.what {
            StepWork::Receive | StepWork::Barrier => now,
            StepWork::Compute(ps) => job.compute(rank, now, Time(ps)),
            StepWork::Reduce(bytes) => job.reduce(rank, now, bytes),
            StepWork::Send { to, bytes, channel } => {
                let plan = &job.plan;
                let (from, host) = (plan.ranks[rank], plan.ranks[to as usize]);
                match plan.domain.filter(|_| plan.servers[rank] == plan.servers[to as usize]) {
                    Some(domain) => {
                        let at = self.links.send(&domain, now, from, bytes);
                        self.call_after(at - now, Timer::Arriving(place), network);
                        return;
                    }
                    None => {
                        let own = plan.queue_pairs == QueuePairs::Message;
                        let message = Message {
                            from,
                            to: host,
                            bytes,
                            item: plan.item as u32,
                            code_point: plan.code_point,
                            channel: (!own).then_some(channel.into()),
                        };
                        self.sent.insert(network.send(&message), place);
                        return;
                    }
                }
            }
        };
        if at > now {
            self.call_after(at - now, Timer::Operation(place), network);
        } else {
            self.tasks.push_back(Task::Ended(place));
        }
    }

    /// The first bit of a message inside of a server has come.
    fn arrive(&mut self, place: OperationIndex, network: &mut dyn Network) {
        let part = self.parts[place.0 as usize].as_ref().expect("it is under way");
        let plan = &self.jobs[part.job].plan;
        let StepWork::Send { to, bytes, .. } = part.graph.operations[place.1 as usize].what else { return };
        let Some(domain) = plan.domain else { return };
        let now = network.now();
        let at = self.links.receive(&domain, now, plan.ranks[to as usize], bytes);
        self.call_after(at - now, Timer::Operation(place), network);
    }

    fn end_operation(&mut self, place: OperationIndex, now: Time) {
        let part = self.parts[place.0 as usize].as_mut().expect("it is under way");
        self.jobs[part.job].record.ended += 1;
        let done = part.end(place.1, now, &mut self.ready);
        let rank = part.graph.operations[place.1 as usize].rank;
        self.tasks.extend(self.ready.drain(..).map(|operation| Task::Ready((place.0, operation))));
        if done {
            self.rank_done(place.0, rank, now);
        }
    }

    /// A rank has done its part of a collective.
    fn rank_done(&mut self, place: u32, rank: u32, now: Time) {
        let part = self.parts[place as usize].as_ref().expect("it is under way");
        let (number, over) = (part.job, part.is_over());
        let job = &mut self.jobs[number];
        job.part_done(rank);
        job.record.add(SpanRecord(rank, part.iteration, part.step, part.joined(rank).0, Some(now.0)));
        self.tasks.push_back(Task::GoOn(number as u32, rank));
        if over {
            let part = self.parts[place as usize].take().expect("it is under way");
            self.empty.push(place);
            job.parts.remove(&(part.iteration, part.step));
            job.record.parts_ended[part.step as usize] += 1;
            if job.record.parts.len() < MOST_RECORDED {
                job.record.parts.push(part.record());
            }
        }
    }
}

impl Work for Jobs {
    fn begin(&mut self, network: &mut dyn Network) {
        for job in 0..self.jobs.len() as u32 {
            let start = Time(self.jobs[job as usize].plan.start_ps);
            self.call_after(start, Timer::Begin(job), network);
        }
    }

    fn on_timer(&mut self, timer: u32, network: &mut dyn Network) {
        self.unused_timers.push(timer);
        match self.timers[timer as usize] {
            Timer::Begin(job) => {
                let ranks = self.jobs[job as usize].ranks.len() as u32;
                self.tasks.extend((0..ranks).map(|rank| Task::GoOn(job, rank)));
            }
            Timer::Computed(job, rank) => {
                self.jobs[job as usize].ranks[rank as usize].doing = RankActivity::Nothing;
                self.tasks.push_back(Task::GoOn(job, rank));
            }
            Timer::Arriving(place) => self.arrive(place, network),
            Timer::Operation(place) => self.tasks.push_back(Task::Ended(place)),
        }
        self.work_off(network);
    }

    fn on_arrived(&mut self, arrived: Arrived, network: &mut dyn Network) {
        let Some(place) = self.sent.remove(&arrived.message) else { return };
        let part = self.parts[place.0 as usize].as_mut().expect("it is under way");
        part.carried(place.1, &arrived);
        self.tasks.push_back(Task::Ended(place));
        self.work_off(network);
    }

    fn finished(&self) -> &[Finished] {
        &self.finished
    }

    fn is_over(&self) -> bool {
        self.finished.len() == self.ranks
    }

    fn problem(&self) -> Option<&str> {
        None
    }

    fn waiting(&self) -> Vec<(u32, String)> {
        let mut found = Vec::new();
        for job in &self.jobs {
            for rank in (0..job.ranks.len()).filter(|&rank| job.record.finished_ps[rank].is_none()) {
                let text = self.what_for(job, rank as u32);
                found.push((job.plan.ranks[rank], format!("rank {rank} of {}: {text}", job.plan.name)));
            }
        }
        found
    }

    fn jobs(&self) -> Vec<JobRecord> {
        let mut records: Vec<JobRecord> = self.jobs.iter().map(|job| job.record.clone()).collect();
        for part in self.parts.iter().flatten() {
            for (rank, since) in part.under_way() {
                records[part.job].add(SpanRecord(rank, part.iteration, part.step, since.0, None));
            }
        }
        records
    }
}

impl Jobs {
    /// The operation that an unfinished rank waits for, in words.
    fn what_for(&self, job: &Job, rank: u32) -> String {
        let RankActivity::Part(iteration, step) = job.ranks[rank as usize].doing else {
            return "it had not taken its last step".into();
        };
        let place = job.parts.get(&(iteration, step)).and_then(|&place| self.parts[place as usize].as_ref());
        let Some((part, (operation, begun))) = place.and_then(|part| Some((part, part.waits_for(rank)?)))
        else {
            return "others had not taken part in its last step".into();
        };
        let what = match part.graph.operations[operation as usize].what {
            StepWork::Send { to, bytes, .. } => format!("a message of {bytes} B to rank {to}"),
            StepWork::Compute(_) => "computing".into(),
            StepWork::Reduce(_) => "a reduction".into(),
            StepWork::Receive => "messages for it".into(),
            StepWork::Barrier => "a barrier".into(),
        };
        let how = if begun { "had not ended" } else { "could not begin" };
        let named = part.graph.places.get(operation as usize).unwrap_or(&operation);
        format!("operation {named} of step {step}, {what}, {how}")
    }
}
