//! What the ranks of a job do one after the other.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use tailback_proto::units::Time;

use super::collective;
use super::graph::Graph;
use crate::plan::{JobPlan, StepPlan};
use crate::work::{JobRecord, SpanRecord};

/// A job.
#[derive(Debug)]
pub(super) struct Job {
    pub plan: JobPlan,
    /// By step: its operations, once they are needed.
    graphs: Vec<Option<Arc<Graph>>>,
    pub ranks: Vec<Rank>,
    /// Places of its parts under way, by repetition and step.
    pub parts: HashMap<(u32, u32), u32>,
    pub record: JobRecord,
    /// By repetition that has begun: how many ranks have ended it.
    ended: VecDeque<usize>,
}

/// A rank.
#[derive(Debug, Default)]
pub(super) struct Rank {
    iteration: u32,
    step: usize,
    pub doing: Doing,
    /// Collectives that it has come to and not begun.
    waiting: VecDeque<(u32, u32)>,
    /// Whether one is under way.
    busy: bool,
    /// Until when it computes operations, and reduces.
    computes: Time,
    reduces: Time,
    pub computed: Time,
}

/// What a rank's steps wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Doing {
    #[default]
    Nothing,
    /// A time to compute.
    Computing,
    /// All collectives that it has come to: this one was the last.
    Part(u32, u32),
    /// It has finished.
    Over,
}

/// What a rank does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Wait,
    Compute(Time),
    /// It takes part in a collective: repetition and step. It may go on.
    Join(u32, u32),
    Finished,
}

impl Job {
    pub fn new(plan: JobPlan, graphs: Vec<Option<Arc<Graph>>>, record: JobRecord) -> Job {
        Job {
            ranks: plan.ranks.iter().map(|_| Rank::default()).collect(),
            plan,
            graphs,
            parts: HashMap::new(),
            record,
            ended: VecDeque::new(),
        }
    }

    /// The operations of a step.
    pub fn graph(&mut self, step: u32) -> Arc<Graph> {
        let StepPlan::Collective(collective) = &self.plan.steps[step as usize] else {
            return Arc::clone(self.graphs[step as usize].as_ref().expect("a graph was made with the job"));
        };
        let plan = &self.plan;
        let known = &mut self.graphs[step as usize];
        Arc::clone(known.get_or_insert_with(|| Arc::new(collective::graph(plan, collective))))
    }

    /// What a rank does now.
    pub fn next(&mut self, number: u32, now: Time) -> Next {
        let rank = &mut self.ranks[number as usize];
        if !rank.busy {
            if let Some((iteration, step)) = rank.waiting.pop_front() {
                rank.busy = true;
                return Next::Join(iteration, step);
            }
        }
        match rank.doing {
            Doing::Computing | Doing::Over => return Next::Wait,
            Doing::Part(..) if rank.busy || !rank.waiting.is_empty() => return Next::Wait,
            Doing::Part(..) | Doing::Nothing => rank.doing = Doing::Nothing,
        }
        let Some(step) = self.plan.steps.get(rank.step) else {
            return self.repeat(number, now);
        };
        let place = (rank.iteration, rank.step as u32);
        rank.step += 1;
        let overlapped = match step {
            &StepPlan::Compute(ps) => {
                rank.doing = Doing::Computing;
                rank.computed += Time(ps);
                self.record.add(SpanRecord(number, place.0, place.1, now.0, Some(now.0.saturating_add(ps))));
                return Next::Compute(Time(ps));
            }
            StepPlan::Collective(collective) => collective.overlapped,
            StepPlan::Graph(_) => false,
        };
        rank.waiting.push_back(place);
        if !overlapped {
            rank.doing = Doing::Part(place.0, place.1);
        }
        self.next(number, now)
    }

    /// A rank has come to the end of its steps.
    fn repeat(&mut self, number: u32, now: Time) -> Next {
        let rank = &mut self.ranks[number as usize];
        if rank.busy || !rank.waiting.is_empty() {
            // Overlapped collectives end before it goes on.
            rank.doing = Doing::Part(rank.iteration, rank.step as u32 - 1);
            return Next::Wait;
        }
        let behind = rank.iteration as usize - self.record.iterations_ps.len();
        if self.ended.len() <= behind {
            self.ended.resize(behind + 1, 0);
        }
        self.ended[behind] += 1;
        rank.iteration += 1;
        rank.step = 0;
        let over = rank.iteration == self.plan.repeat;
        if over {
            rank.doing = Doing::Over;
            self.record.finished_ps[number as usize] = Some(now.0);
        }
        while self.ended.front() == Some(&self.plan.ranks.len()) {
            self.ended.pop_front();
            self.record.iterations_ps.push(now.0);
        }
        if over {
            Next::Finished
        } else {
            self.next(number, now)
        }
    }

    /// A rank has done its part of the collective under way.
    pub fn part_done(&mut self, rank: u32) {
        self.ranks[rank as usize].busy = false;
    }

    /// An operation computes, behind those that do already: when it ends.
    pub fn compute(&mut self, rank: usize, now: Time, takes: Time) -> Time {
        let rank = &mut self.ranks[rank];
        rank.computed = Time(rank.computed.0.saturating_add(takes.0));
        rank.computes = Time(rank.computes.max(now).0.saturating_add(takes.0));
        rank.computes
    }

    /// An operation reduces, behind those that do already: when it ends.
    pub fn reduce(&mut self, rank: usize, now: Time, bytes: u64) -> Time {
        let Some(rate) = self.plan.reduce_rate else { return now };
        let rank = &mut self.ranks[rank];
        rank.reduces = rank.reduces.max(now) + rate.serialization(bytes);
        rank.reduces
    }
}
