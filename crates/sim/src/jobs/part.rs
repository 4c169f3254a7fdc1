//! A graph of operations under way: a collective that ranks take part in, once.

use std::sync::Arc;
use tailback_proto::units::Time;

use super::graph::{Graph, Operation};
use crate::plan::What;
use crate::work::{Arrived, LateRecord, PartChainRecord, PartRecord};

/// An operation that has all that it waited for, and has not ended.
#[derive(Debug)]
struct Begun {
    ready: Time,
    /// Of a message in the network.
    ideal: Option<Time>,
    behind: Time,
    resent: u64,
    /// What the operation that it waited for last had come to; none: it waited for its rank.
    chain: Option<Arc<PartChainRecord>>,
}

/// In the state of an operation: with its place among those begun. Without, the state is how many it waits for.
const BEGUN: u32 = 1 << 31;
/// It has ended.
const ENDED: u32 = u32::MAX;

/// A graph under way.
#[derive(Debug)]
pub(super) struct Part {
    pub graph: Arc<Graph>,
    pub job: usize,
    pub iteration: u32,
    pub step: u32,
    /// By operation, its state. It waits for others and for its rank.
    states: Vec<u32>,
    /// Those begun, by places of which some are unused.
    begun: Vec<Begun>,
    unused: Vec<u32>,
    /// By rank: when it took part.
    joined: Vec<Option<Time>>,
    /// By rank: operations that have not ended.
    left_of: Vec<u32>,
    left: usize,
    first_end: Time,
    /// What ended last: its rank, when, and its chain.
    last: Option<(u32, Time, Arc<PartChainRecord>)>,
}

impl Part {
    pub fn new(graph: Arc<Graph>, ranks: usize, job: usize, iteration: u32, step: u32) -> Part {
        let mut states = graph.waiting.waits();
        states.iter_mut().for_each(|waits| *waits += 1);
        let left_of = (0..ranks as u32).map(|rank| graph.of_rank(rank).len() as u32).collect();
        Part {
            job,
            iteration,
            step,
            states,
            begun: Vec::new(),
            unused: Vec::new(),
            joined: vec![None; ranks],
            left_of,
            left: graph.operations.len(),
            first_end: Time::NEVER,
            last: None,
            graph,
        }
    }

    /// A rank takes part. `ready`: is told its operations that wait for nothing else.
    pub fn join(&mut self, rank: u32, now: Time, ready: &mut Vec<u32>) {
        self.joined[rank as usize] = Some(now);
        let graph = Arc::clone(&self.graph);
        for &operation in graph.of_rank(rank) {
            self.let_go(operation, None, now, ready);
        }
    }

    fn let_go(
        &mut self,
        operation: u32,
        cause: Option<&Arc<PartChainRecord>>,
        now: Time,
        ready: &mut Vec<u32>,
    ) {
        let state = &mut self.states[operation as usize];
        *state -= 1;
        if *state > 0 {
            return;
        }
        let chain = cause.map(Arc::clone);
        let begun = Begun { ready: now, ideal: None, behind: Time::ZERO, resent: 0, chain };
        let place = match self.unused.pop() {
            Some(place) => {
                self.begun[place as usize] = begun;
                place
            }
            None => {
                self.begun.push(begun);
                self.begun.len() as u32 - 1
            }
        };
        *state = BEGUN | place;
        ready.push(operation);
    }

    /// The place of an operation among those begun; none: it has not begun, or has ended.
    fn place(&self, operation: u32) -> Option<usize> {
        let state = self.states[operation as usize];
        (state >= BEGUN && state != ENDED).then_some((state & !BEGUN) as usize)
    }

    /// What a message took in the network.
    pub fn carried(&mut self, operation: u32, arrived: &Arrived) {
        let place = self.place(operation).expect("it is under way");
        let begun = &mut self.begun[place];
        (begun.ideal, begun.behind, begun.resent) = (Some(arrived.ideal), arrived.behind, arrived.resent);
    }

    /// An operation has ended. True: its rank's part is done.
    pub fn end(&mut self, operation: u32, now: Time, ready: &mut Vec<u32>) -> bool {
        let place = self.place(operation).expect("an operation ends once, after it began");
        self.states[operation as usize] = ENDED;
        self.unused.push(place as u32);
        let chain = Arc::new(self.chain(operation, place, now));
        self.left -= 1;
        let graph = Arc::clone(&self.graph);
        for &next in graph.after(operation) {
            self.let_go(next, Some(&chain), now, ready);
        }
        let rank = graph.operations[operation as usize].rank;
        self.last = Some((rank, now, chain));
        let left = &mut self.left_of[rank as usize];
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
        let not_ended = |one: &u32| self.states[*one as usize] != ENDED;
        let first = self.graph.of_rank(rank).iter().copied().find(not_ended)?;
        Some((first, self.place(first).is_some()))
    }

    /// What became of it.
    pub fn record(&self) -> PartRecord {
        let joined = || self.joined.iter().flatten();
        let begin = joined().min().copied().unwrap_or(Time::ZERO);
        let (slowest, end, chain) = match &self.last {
            Some((rank, end, chain)) => (*rank, *end, PartChainRecord::clone(chain)),
            None => (0, joined().max().copied().unwrap_or(begin), PartChainRecord::default()),
        };
        PartRecord {
            iteration: self.iteration,
            step: self.step,
            begin_ps: begin.0,
            end_ps: end.0,
            slowest,
            first_end_ps: if self.first_end == Time::NEVER { end.0 } else { self.first_end.0 },
            chain,
        }
    }

    /// The chain of operations that an operation ends.
    fn chain(&mut self, operation: u32, place: usize, now: Time) -> PartChainRecord {
        let begun = &mut self.begun[place];
        let mut chain = match begun.chain.take() {
            Some(chain) => Arc::unwrap_or_clone(chain),
            None => {
                let begin = self.joined.iter().flatten().min().copied().unwrap_or(begun.ready);
                PartChainRecord { late_ps: (begun.ready - begin).0, ..PartChainRecord::default() }
            }
        };
        let took = (now - begun.ready).0;
        chain.operations += 1;
        let Operation { rank, what } = self.graph.operations[operation as usize];
        match (what, begun.ideal) {
            (What::Compute(_), _) => chain.compute_ps += took,
            (What::Reduce(_), _) => chain.reduce_ps += took,
            (What::Send { to, bytes, .. }, Some(ideal)) => {
                let beyond = took.saturating_sub(ideal.0);
                let behind = beyond.min(begun.behind.0);
                chain.ideal_ps += took - beyond;
                chain.behind_ps += behind;
                chain.excess_ps += beyond - behind;
                chain.resent += begun.resent;
                let late = LateRecord {
                    from: rank,
                    to,
                    bytes,
                    start_ps: begun.ready.0,
                    end_ps: now.0,
                    ideal_ps: ideal.0,
                    behind_ps: behind,
                    resent: begun.resent,
                };
                late.keep(&mut chain.worst);
            }
            (What::Send { .. }, None) => chain.domain_ps += took,
            (What::Receive | What::Barrier, _) => {}
        }
        chain
    }
}
