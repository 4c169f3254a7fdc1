//! A graph of operations under way: a collective that ranks take part in, once.

use std::sync::Arc;
use tailback_proto::units::Time;

use super::graph::Graph;
use crate::plan::What;
use crate::work::{Arrived, LateRecord, PartChainRecord, PartRecord};

/// No operation.
const NONE: u32 = u32::MAX;

/// What became of an operation.
#[derive(Clone, Copy, Debug)]
struct Times {
    /// When all was there that it waited for; `NEVER`: not yet.
    ready: Time,
    /// `NEVER`: not yet.
    ended: Time,
    /// Of a message in the network.
    ideal: Option<Time>,
    behind: Time,
    resent: u64,
    /// What it waited for last; `NONE`: its rank.
    cause: u32,
}

/// A graph under way.
#[derive(Debug)]
pub(super) struct Part {
    pub graph: Arc<Graph>,
    pub job: usize,
    pub iteration: u32,
    pub step: u32,
    /// By operation: how many others it waits for, and its rank.
    waits: Vec<u32>,
    times: Vec<Times>,
    /// By rank: when it took part.
    joined: Vec<Option<Time>>,
    /// By rank: operations that have not ended.
    left_of: Vec<u32>,
    left: usize,
    first_end: Time,
    last: u32,
}

impl Part {
    pub fn new(graph: Arc<Graph>, ranks: usize, job: usize, iteration: u32, step: u32) -> Part {
        let none = Times {
            ready: Time::NEVER,
            ended: Time::NEVER,
            ideal: None,
            behind: Time::ZERO,
            resent: 0,
            cause: NONE,
        };
        let left_of = (0..ranks as u32).map(|rank| graph.of_rank(rank).len() as u32).collect();
        Part {
            job,
            iteration,
            step,
            waits: graph.waits.iter().map(|&others| others + 1).collect(),
            times: vec![none; graph.operations.len()],
            joined: vec![None; ranks],
            left_of,
            left: graph.operations.len(),
            first_end: Time::NEVER,
            last: NONE,
            graph,
        }
    }

    /// A rank takes part. `ready`: is told its operations that wait for nothing else.
    pub fn join(&mut self, rank: u32, now: Time, ready: &mut Vec<u32>) {
        self.joined[rank as usize] = Some(now);
        let graph = Arc::clone(&self.graph);
        for &operation in graph.of_rank(rank) {
            self.let_go(operation, NONE, now, ready);
        }
    }

    fn let_go(&mut self, operation: u32, cause: u32, now: Time, ready: &mut Vec<u32>) {
        let waits = &mut self.waits[operation as usize];
        *waits -= 1;
        if *waits == 0 {
            let times = &mut self.times[operation as usize];
            (times.ready, times.cause) = (now, cause);
            ready.push(operation);
        }
    }

    /// What a message took in the network.
    pub fn carried(&mut self, operation: u32, arrived: &Arrived) {
        let times = &mut self.times[operation as usize];
        (times.ideal, times.behind, times.resent) = (Some(arrived.ideal), arrived.behind, arrived.resent);
    }

    /// An operation has ended. True: its rank's part is done.
    pub fn end(&mut self, operation: u32, now: Time, ready: &mut Vec<u32>) -> bool {
        let times = &mut self.times[operation as usize];
        assert!(times.ended == Time::NEVER && times.ready <= now, "an operation ends once, after it began");
        times.ended = now;
        self.last = operation;
        self.left -= 1;
        let graph = Arc::clone(&self.graph);
        for &next in graph.after(operation) {
            self.let_go(next, operation, now, ready);
        }
        let left = &mut self.left_of[graph.operations[operation as usize].rank as usize];
        *left -= 1;
        if *left == 0 {
            self.first_end = self.first_end.min(now);
        }
        *left == 0
    }

    /// When a rank took part.
    pub fn joined(&self, rank: u32) -> Time {
        self.joined[rank as usize].expect("it takes part")
    }

    /// Ranks that take part and are not done, with since when.
    pub fn under_way(&self) -> impl Iterator<Item = (u32, Time)> + '_ {
        let joined = (0..).zip(&self.joined).filter(|&(rank, _)| !self.is_idle(rank));
        joined.filter_map(|(rank, since)| since.map(|since| (rank, since)))
    }

    /// Whether a rank that took part has nothing to do.
    pub fn is_idle(&self, rank: u32) -> bool {
        self.left_of[rank as usize] == 0
    }

    pub fn is_over(&self) -> bool {
        self.left == 0 && self.joined.iter().all(Option::is_some)
    }

    /// Operations that have not ended.
    pub fn left(&self) -> usize {
        self.left
    }

    /// The first operation of a rank that has not ended.
    pub fn waits_for(&self, rank: u32) -> Option<(u32, bool)> {
        let not_ended = |one: &u32| self.times[*one as usize].ended == Time::NEVER;
        let first = self.graph.of_rank(rank).iter().copied().find(not_ended)?;
        Some((first, self.times[first as usize].ready != Time::NEVER))
    }

    /// What became of it.
    pub fn record(&self) -> PartRecord {
        let joined = || self.joined.iter().flatten();
        let begin = joined().min().copied().unwrap_or(Time::ZERO);
        let (end, slowest) = match self.times.get(self.last as usize) {
            Some(times) => (times.ended, self.graph.operations[self.last as usize].rank),
            None => (joined().max().copied().unwrap_or(begin), 0),
        };
        PartRecord {
            iteration: self.iteration,
            step: self.step,
            begin_ps: begin.0,
            end_ps: end.0,
            slowest,
            first_end_ps: if self.first_end == Time::NEVER { end.0 } else { self.first_end.0 },
            chain: self.chain(begin),
        }
    }

    /// From what ended last back to the beginning.
    fn chain(&self, begin: Time) -> PartChainRecord {
        let mut chain = PartChainRecord::default();
        let mut at = self.last;
        while at != NONE {
            let (operation, times) = (&self.graph.operations[at as usize], &self.times[at as usize]);
            let took = (times.ended - times.ready).0;
            chain.operations += 1;
            match (operation.what, times.ideal) {
                (What::Compute(_), _) => chain.compute_ps += took,
                (What::Reduce(_), _) => chain.reduce_ps += took,
                (What::Send { to, bytes, .. }, Some(ideal)) => {
                    let beyond = took.saturating_sub(ideal.0);
                    let behind = beyond.min(times.behind.0);
                    let excess = beyond - behind;
                    chain.ideal_ps += took - beyond;
                    chain.behind_ps += behind;
                    chain.excess_ps += excess;
                    chain.resent += times.resent;
                    let late = LateRecord {
                        from: operation.rank,
                        to,
                        bytes,
                        start_ps: times.ready.0,
                        end_ps: times.ended.0,
                        ideal_ps: ideal.0,
                        behind_ps: behind,
                        resent: times.resent,
                    };
                    late.keep(&mut chain.worst);
                }
                (What::Send { .. }, None) => chain.domain_ps += took,
                (What::Receive | What::Barrier, _) => {}
            }
            if times.cause == NONE {
                chain.late_ps = (times.ready - begin).0;
            }
            at = times.cause;
        }
        chain
    }
}
