//! Collectives as operations. Sizes are those of nccl-tests (NVIDIA, doc/PERFORMANCE.md): all that a rank gives or gets,
//! whichever is more. What does not divide evenly is rounded up to whole bytes, for all ranks alike.

use std::sync::Arc;
use tailback_proto::units::Time;

use super::graph::{Builder, Graph, Operation};
use crate::jobs::settings::{Algorithm, CollectiveKind, CollectivePlan, JobPlan, StepWork};
use crate::work::{Arrived, LateRecord, PartChainRecord, PartRecord};

/// The operations of a collective among the ranks of a job.
pub(super) fn graph(job: &JobPlan, collective: &CollectivePlan) -> Graph {
    let mut builder = Builder::default();
    let ranks: Vec<u32> = (0..job.ranks.len() as u32).collect();
    let parts = collective.channels as u64 * collective.chunks as u64;
    let bytes = collective.bytes.div_ceil(parts);
    let mut last: Ends = vec![Vec::new(); ranks.len()];
    for _ in 0..collective.chunks {
        for channel in 0..collective.channels as u16 {
            let mut ends: Ends = vec![Vec::new(); ranks.len()];
            let reduces = job.reduce_rate.is_some();
            let mut phases = Phases { graph: &mut builder, channel, reduces };
            match collective.algorithm {
                Algorithm::Hierarchical => {
                    hierarchical(&mut phases, job, collective.kind, bytes, &mut ends);
                }
                algorithm => flat(&mut phases, &ranks, collective.kind, algorithm, bytes, &mut ends),
            }
            for (last, ends) in last.iter_mut().zip(ends) {
                last.extend(ends);
            }
        }
    }
    for (&rank, after) in ranks.iter().zip(&last) {
        builder.add(rank, StepWork::Receive, after);
    }
    builder.build(ranks.len())
}

fn flat(
    phases: &mut Phases,
    ranks: &[u32],
    kind: CollectiveKind,
    algorithm: Algorithm,
    bytes: u64,
    ends: &mut Ends,
) {
    use {Algorithm as A, CollectiveKind as K};
    let share = bytes.div_ceil(ranks.len() as u64);
    match (algorithm, kind) {
        (A::Ring, K::AllReduce) => {
            phases.ring_scatter(ranks, share, ends);
            phases.ring_gather(ranks, share, ends);
        }
        (A::Ring, K::ReduceScatter) => phases.ring_scatter(ranks, share, ends),
        (A::Ring, K::AllGather) => phases.ring_gather(ranks, share, ends),
        (A::Ring, K::Broadcast) => phases.chain(ranks, bytes, ends),
        (A::Direct, K::AllReduce) => {
            phases.exchange(ranks, share, true, ends);
            phases.exchange(ranks, share, false, ends);
        }
        (A::Direct, K::ReduceScatter) => phases.exchange(ranks, share, true, ends),
        // Who passes on what is for others has no ring of its own for an exchange.
        (A::Direct, K::AllGather | K::AllToAll) | (A::Ring, K::AllToAll) => {
            phases.exchange(ranks, share, false, ends);
        }
        (A::Direct, K::Broadcast) => phases.fan_out(ranks, bytes, ends),
        (A::HalvingDoubling, K::AllReduce) => {
            phases.halve(ranks, bytes, ends);
            phases.double(ranks, bytes, ends);
        }
        (A::HalvingDoubling, K::ReduceScatter) => phases.halve(ranks, bytes, ends),
        (A::HalvingDoubling, _) => phases.double(ranks, bytes, ends),
        (A::DoubleBinaryTree, kind) => {
            let mut both: Ends = vec![Vec::new(); ends.len()];
            for tree in Tree::two(ranks.len() as u32) {
                let mut own = ends.clone();
                match kind {
                    K::Broadcast => phases.tree_down(&tree, bytes.div_ceil(2), 0, &mut own),
                    _ => phases.tree_reduce(&tree, bytes.div_ceil(2), &mut own),
                }
                both.iter_mut().zip(own).for_each(|(both, own)| both.extend(own));
            }
            *ends = both;
        }
        (A::Hierarchical, _) => unreachable!("it is no flat one"),
    }
}

/// Inside of servers each with each other; between servers a ring of the ranks in the same place, which is a rail.
fn hierarchical(phases: &mut Phases, job: &JobPlan, kind: CollectiveKind, bytes: u64, ends: &mut Ends) {
    let servers = job.by_server().expect("it was checked");
    let size = servers[0].len();
    let rails: Vec<Vec<u32>> =
        (0..size).map(|place| servers.iter().map(|server| server[place]).collect()).collect();
    let (of_rail, of_rank) = (bytes.div_ceil(size as u64), bytes.div_ceil(job.ranks.len() as u64));
    match kind {
        CollectiveKind::AllReduce => {
            servers.iter().for_each(|server| phases.exchange(server, of_rail, true, ends));
            for rail in &rails {
                phases.ring_scatter(rail, of_rank, ends);
                phases.ring_gather(rail, of_rank, ends);
            }
            servers.iter().for_each(|server| phases.exchange(server, of_rail, false, ends));
        }
        CollectiveKind::ReduceScatter => {
            servers.iter().for_each(|server| phases.exchange(server, of_rail, true, ends));
            rails.iter().for_each(|rail| phases.ring_scatter(rail, of_rank, ends));
        }
        CollectiveKind::AllGather => {
            rails.iter().for_each(|rail| phases.ring_gather(rail, of_rank, ends));
            servers.iter().for_each(|server| phases.exchange(server, of_rail, false, ends));
        }
        CollectiveKind::AllToAll => {
            servers.iter().for_each(|server| phases.exchange(server, of_rail, false, ends));
            let of_pair = bytes.div_ceil(servers.len() as u64);
            rails.iter().for_each(|rail| phases.exchange(rail, of_pair, false, ends));
        }
        CollectiveKind::Broadcast => {
            phases.chain(&rails[0], bytes, ends);
            servers.iter().for_each(|server| phases.fan_out(server, bytes, ends));
        }
    }
}

// The exchanges that collectives are made of, among some ranks of a job.
//
// Sources: Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication Operations in MPICH", 2005 (ring,
// recursive halving and doubling); Sanders, Speck and Traeff, "Two-tree algorithms for full bandwidth broadcast,
// reduction and scan", 2009 (double binary trees).

/// By rank: the operations after which it has what a phase needs, or gives.
pub(super) type Ends = Vec<Vec<u32>>;

/// A phase while it is added to a graph.
#[derive(Debug)]
pub(super) struct Phases<'a> {
    pub graph: &'a mut Builder,
    pub channel: u16,
    /// Reducing takes time.
    pub reduces: bool,
}

impl Phases<'_> {
    fn send(&mut self, from: u32, to: u32, bytes: u64, after: &[u32]) -> u32 {
        self.graph.send(from, to, bytes, self.channel, after)
    }

    /// All that ranks have when a phase begins: one operation of each at most, of which the rest waits.
    fn ready(&mut self, ranks: &[u32], ends: &mut Ends) -> Vec<Vec<u32>> {
        let mut ready = Vec::new();
        for &rank in ranks {
            let own = std::mem::take(&mut ends[rank as usize]);
            ready.push(match own.len() {
                0 | 1 => own,
                _ => vec![self.graph.add(rank, StepWork::Receive, &own)],
            });
        }
        ready
    }

    /// Reduces received data with the rank's own. Returns the operations after which that is done.
    fn reduced(&mut self, rank: u32, bytes: u64, came: u32, own: &[u32]) -> Vec<u32> {
        let mut after = vec![came];
        after.extend_from_slice(own);
        match self.reduces {
            true => vec![self.graph.add(rank, StepWork::Reduce(bytes), &after)],
            false => after,
        }
    }

    /// Each sends to the next one, `ranks.len()` - 1 times, what it got from the one before.
    fn around(&mut self, ranks: &[u32], bytes: u64, reduce: bool, ends: &mut Ends) {
        let size = ranks.len();
        let mut ready = self.ready(ranks, ends);
        if size == 1 || !reduce {
            ranks.iter().zip(&ready).for_each(|(&rank, own)| ends[rank as usize].clone_from(own));
        }
        for step in 1..size {
            let sends: Vec<u32> =
                (0..size).map(|at| self.send(ranks[at], ranks[(at + 1) % size], bytes, &ready[at])).collect();
            for at in 0..size {
                let (rank, came) = (ranks[at], sends[(at + size - 1) % size]);
                ready[at] = match reduce {
                    // Its own part is ready since its first step.
                    true => self.reduced(rank, bytes, came, if step == 1 { &ready[at] } else { &[] }),
                    false => {
                        ends[rank as usize].push(came);
                        vec![came]
                    }
                };
            }
        }
        if size > 1 && reduce {
            ranks.iter().zip(ready).for_each(|(&rank, ready)| ends[rank as usize] = ready);
        }
    }

    /// A ring: each ends with its share reduced.
    pub fn ring_scatter(&mut self, ranks: &[u32], share: u64, ends: &mut Ends) {
        self.around(ranks, share, true, ends);
    }

    /// A ring: each ends with all shares.
    pub fn ring_gather(&mut self, ranks: &[u32], share: u64, ends: &mut Ends) {
        self.around(ranks, share, false, ends);
    }

    /// Each sends to each other one, the next one first.
    pub fn exchange(&mut self, ranks: &[u32], share: u64, reduce: bool, ends: &mut Ends) {
        let size = ranks.len();
        let ready = self.ready(ranks, ends);
        if size == 1 || !reduce {
            ranks.iter().zip(&ready).for_each(|(&rank, own)| ends[rank as usize].clone_from(own));
        }
        for step in 1..size {
            for at in 0..size {
                let to = (at + step) % size;
                let came = self.send(ranks[at], ranks[to], share, &ready[at]);
                let done = match reduce {
                    true => self.reduced(ranks[to], share, came, &ready[to]),
                    false => vec![came],
                };
                ends[ranks[to] as usize].extend(done);
            }
        }
    }

    /// Halves: with the one half as far away each time, half as much each time. `ranks.len()` is a power of two.
    pub fn halve(&mut self, ranks: &[u32], bytes: u64, ends: &mut Ends) {
        for step in 1..=ranks.len().ilog2() {
            self.swap(ranks, ranks.len() >> step, bytes.div_ceil(1 << step), true, ends);
        }
    }

    /// Doubles: the way back.
    pub fn double(&mut self, ranks: &[u32], bytes: u64, ends: &mut Ends) {
        for step in (1..=ranks.len().ilog2()).rev() {
            self.swap(ranks, ranks.len() >> step, bytes.div_ceil(1 << step), false, ends);
        }
    }

    fn swap(&mut self, ranks: &[u32], distance: usize, bytes: u64, reduce: bool, ends: &mut Ends) {
        let sends: Vec<u32> = (0..ranks.len())
            .map(|at| self.send(ranks[at], ranks[at ^ distance], bytes, &ends[ranks[at] as usize]))
            .collect();
        for at in 0..ranks.len() {
            let (rank, came) = (ranks[at], sends[at ^ distance]);
            let own = std::mem::take(&mut ends[rank as usize]);
            ends[rank as usize] = match reduce {
                true => self.reduced(rank, bytes, came, &own),
                false => own.into_iter().chain([came]).collect(),
            };
        }
    }

    /// Each hands on to the next one what it got, from the first to the last.
    pub fn chain(&mut self, ranks: &[u32], bytes: u64, ends: &mut Ends) {
        for pair in ranks.windows(2) {
            let came = self.send(pair[0], pair[1], bytes, &ends[pair[0] as usize]);
            ends[pair[1] as usize] = vec![came];
        }
    }

    /// The first sends to all others.
    pub fn fan_out(&mut self, ranks: &[u32], bytes: u64, ends: &mut Ends) {
        let root = ends[ranks[0] as usize].clone();
        for &rank in &ranks[1..] {
            let came = self.send(ranks[0], rank, bytes, &root);
            ends[rank as usize] = vec![came];
        }
    }

    /// Reduces up a tree and hands the result down again.
    pub fn tree_reduce(&mut self, tree: &Tree, bytes: u64, ends: &mut Ends) {
        for &rank in tree.upwards.iter().filter(|&&rank| rank != tree.root()) {
            let parent = tree.parent[rank as usize];
            let came = self.send(rank, parent, bytes, &ends[rank as usize]);
            let own = std::mem::take(&mut ends[parent as usize]);
            ends[parent as usize] = self.reduced(parent, bytes, came, &own);
        }
        self.tree_down(tree, bytes, tree.root(), ends);
    }

    /// Hands on what `from` has to all of a tree: first to its root.
    pub fn tree_down(&mut self, tree: &Tree, bytes: u64, from: u32, ends: &mut Ends) {
        let root = tree.root();
        if root != from {
            let came = self.send(from, root, bytes, &ends[from as usize]);
            ends[root as usize] = vec![came];
        }
        for &rank in tree.upwards.iter().rev().filter(|&&rank| rank != root && rank != from) {
            let parent = tree.parent[rank as usize];
            let came = self.send(parent, rank, bytes, &ends[parent as usize]);
            ends[rank as usize] = vec![came];
        }
    }
}

/// A binary tree of all ranks.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Tree {
    /// By rank; of the root itself.
    pub parent: Vec<u32>,
    /// Each before its parent.
    pub upwards: Vec<u32>,
}

impl Tree {
    /// Two trees of `size` ranks: who hands on in one is a leaf of the other, except for one rank where `size` is odd.
    pub fn two(size: u32) -> [Tree; 2] {
        let first = Tree::in_order(size);
        // Mirrored where their number is even, else moved on by one.
        let moved = |rank: u32| if size.is_multiple_of(2) { size - 1 - rank } else { (rank + 1) % size };
        let mut parent = vec![0; size as usize];
        for rank in 0..size {
            parent[moved(rank) as usize] = moved(first.parent[rank as usize]);
        }
        let upwards = first.upwards.iter().map(|&rank| moved(rank)).collect();
        [first, Tree { parent, upwards }]
    }

    /// A tree in which rank 0, 2, 4, ... are leaves: rank `i` is at the height of how often 2 divides `i` + 1.
    fn in_order(size: u32) -> Tree {
        let height = |rank: u32| (rank + 1).trailing_zeros();
        let mut upwards: Vec<u32> = (0..size).collect();
        upwards.sort_by_key(|&rank| height(rank));
        let parent_of = |rank: u32| {
            // Further and further up, until there is one.
            let mut place = rank + 1;
            loop {
                let bit = 1u32 << place.trailing_zeros();
                if bit > size {
                    return rank;
                }
                place = (place ^ bit) | (bit << 1);
                if place <= size {
                    return place - 1;
                }
            }
        };
        Tree { parent: (0..size).map(parent_of).collect(), upwards }
    }

    pub fn root(&self) -> u32 {
        *self.upwards.last().expect("a tree has a rank")
    }
}

// A graph of operations under way: a collective that ranks take part in, once.

/// An operation that has all that it waited for, and has not ended.
#[derive(Debug)]
struct Begun {
    ready: Time,
    /// Of a message in the network.
    ideal: Option<Time>,
    behind: Time,
    resent: u64,
    /// Result of the operation that it waited for last; none: it waited for its rank.
    chain: Option<Arc<PartChainRecord>>,
}

/// In the state of an operation: with its place among those begun. Without, the state is how many it waits for.
const BEGUN_FLAG: u32 = 1 << 31;

/// It has ended.
const ENDED_STATE: u32 = u32::MAX;

/// A graph under way.
#[derive(Debug)]
pub(super) struct RunningGraph {
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
    /// The operation that ended last: its rank, its end, and its chain.
    last: Option<(u32, Time, Arc<PartChainRecord>)>,
}

impl RunningGraph {
    pub fn new(graph: Arc<Graph>, ranks: usize, job: usize, iteration: u32, step: u32) -> RunningGraph {
        let mut states = graph.waiting.waits();
        states.iter_mut().for_each(|waits| *waits += 1);
        let left_of = (0..ranks as u32).map(|rank| graph.of_rank(rank).len() as u32).collect();
        RunningGraph {
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

    /// A rank takes part. `ready` is called with its operations that wait for nothing else.
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
        *state = BEGUN_FLAG | place;
        ready.push(operation);
    }

    /// The place of an operation among those begun; none: it has not begun, or has ended.
    fn place(&self, operation: u32) -> Option<usize> {
        let state = self.states[operation as usize];
        (state >= BEGUN_FLAG && state != ENDED_STATE).then_some((state & !BEGUN_FLAG) as usize)
    }

    /// Time of a message in the network.
    pub fn carried(&mut self, operation: u32, arrived: &Arrived) {
        let place = self.place(operation).expect("it is under way");
        let begun = &mut self.begun[place];
        (begun.ideal, begun.behind, begun.resent) = (Some(arrived.ideal), arrived.behind, arrived.resent);
    }

    /// An operation has ended. True: its rank's part is done.
    pub fn end(&mut self, operation: u32, now: Time, ready: &mut Vec<u32>) -> bool {
        let place = self.place(operation).expect("an operation ends once, after it began");
        self.states[operation as usize] = ENDED_STATE;
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

    /// True if a rank that took part has nothing to do.
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
        let not_ended = |one: &u32| self.states[*one as usize] != ENDED_STATE;
        let first = self.graph.of_rank(rank).iter().copied().find(not_ended)?;
        Some((first, self.place(first).is_some()))
    }

    /// Its result.
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
            (StepWork::Compute(_), _) => chain.compute_ps += took,
            (StepWork::Reduce(_), _) => chain.reduce_ps += took,
            (StepWork::Send { to, bytes, .. }, Some(ideal)) => {
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
            (StepWork::Send { .. }, None) => chain.domain_ps += took,
            (StepWork::Receive | StepWork::Barrier, _) => {}
        }
        chain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_reach_all_and_share_the_work() {
        for size in 1..70u32 {
            let trees = Tree::two(size);
            let mut inner = vec![0; size as usize];
            for tree in &trees {
                assert_eq!(tree.parent[tree.root() as usize], tree.root(), "{size}");
                let mut children = vec![0; size as usize];
                let mut seen = vec![false; size as usize];
                for &rank in &tree.upwards {
                    seen[rank as usize] = true;
                    if rank != tree.root() {
                        assert!(!seen[tree.parent[rank as usize] as usize], "{size}: each before its parent");
                        children[tree.parent[rank as usize] as usize] += 1;
                    }
                }
                assert!(seen.iter().all(|&seen| seen) && children.iter().all(|&count| count <= 2), "{size}");
                (0..size as usize).for_each(|rank| inner[rank] += (children[rank] > 0) as u32);
            }
            assert!(inner.iter().filter(|&&trees| trees > 1).count() <= 1, "{size}: {inner:?}");
        }
    }
}
