//! Operations and what they wait for.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use tailback_proto::units::Time;

use super::collective;
use crate::engine::mix;
use crate::jobs::settings::{JobPlan, Operations, StepPlan, StepWork};
use crate::work::{JobRecord, SpanRecord};

/// An operation of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Operation {
    pub rank: u32,
    pub what: StepWork,
}

/// A graph of operations, by number.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    /// Those that wait for `i` are `next[first[i]..first[i + 1]]`.
    first: Vec<u32>,
    next: Vec<u32>,
}

/// Operations by number, each with those that wait for it.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    pub operations: Vec<Operation>,
    pub waiting: Waiting,
    /// Those of rank `r` are `of_rank[first_of[r]..first_of[r + 1]]`.
    first_of: Vec<u32>,
    of_rank: Vec<u32>,
    /// By operation: its place in the list that a user gave; empty where none did.
    pub places: Vec<u32>,
}

/// A graph while it is being made.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    operations: Vec<Operation>,
    /// An operation, and one that waits for it.
    edges: Vec<(u32, u32)>,
}

impl Builder {
    /// Adds an operation that waits for others, which were added before. Its number.
    pub fn add(&mut self, rank: u32, what: StepWork, after: &[u32]) -> u32 {
        let number = self.operations.len() as u32;
        self.operations.push(Operation { rank, what });
        self.edges.extend(after.iter().map(|&one| (one, number)));
        number
    }

    /// A message that waits for others. Its number.
    pub fn send(&mut self, from: u32, to: u32, bytes: u64, channel: u16, after: &[u32]) -> u32 {
        self.add(from, StepWork::Send { to, bytes, channel }, after)
    }

    /// The graph of ranks 0 to `ranks` - 1.
    pub fn build(self, ranks: usize) -> Graph {
        let waiting = Waiting::new(self.operations.len(), self.edges.into_iter());
        Graph::new(self.operations, waiting, ranks)
    }
}

/// Pairs of a group and a number by group: where each group begins, and the numbers.
fn grouped(groups: usize, pairs: impl Iterator<Item = (u32, u32)> + Clone) -> (Vec<u32>, Vec<u32>) {
    let mut first = vec![0u32; groups + 1];
    pairs.clone().for_each(|(group, _)| first[group as usize + 1] += 1);
    for group in 0..groups {
        first[group + 1] += first[group];
    }
    let mut at = first.clone();
    let mut numbers = vec![0; first[groups] as usize];
    for (group, number) in pairs {
        numbers[at[group as usize] as usize] = number;
        at[group as usize] += 1;
    }
    (first, numbers)
}

impl Graph {
    /// Of ranks 0 to `ranks` - 1.
    pub fn new(operations: Vec<Operation>, waiting: Waiting, ranks: usize) -> Graph {
        let (first_of, of_rank) = grouped(ranks, operations.iter().map(|one| one.rank).zip(0..));
        Graph { operations, waiting, first_of, of_rank, places: Vec::new() }
    }

    /// Those that wait for an operation.
    pub fn after(&self, operation: u32) -> &[u32] {
        self.waiting.after(operation)
    }

    /// Those of a rank.
    pub fn of_rank(&self, rank: u32) -> &[u32] {
        let at = rank as usize;
        &self.of_rank[self.first_of[at] as usize..self.first_of[at + 1] as usize]
    }
}

impl Waiting {
    /// Of so many, with pairs of one and another that waits for it.
    pub fn new(count: usize, edges: impl Iterator<Item = (u32, u32)> + Clone) -> Waiting {
        let (first, next) = grouped(count, edges);
        Waiting { first, next }
    }

    /// How many others each waits for.
    pub fn waits(&self) -> Vec<u32> {
        let mut waits = vec![0; self.first.len() - 1];
        self.next.iter().for_each(|&one| waits[one as usize] += 1);
        waits
    }

    /// Those that wait for one.
    pub fn after(&self, one: u32) -> &[u32] {
        let at = one as usize;
        &self.next[self.first[at] as usize..self.first[at + 1] as usize]
    }

    /// Operations that wait for each other in a circle, the one with the lowest number first.
    pub fn circle(&self) -> Option<Vec<u32>> {
        let mut waits = self.waits();
        let mut ready: Vec<u32> = (0..).zip(&waits).filter(|one| *one.1 == 0).map(|one| one.0).collect();
        let mut ended = 0;
        while let Some(one) = ready.pop() {
            ended += 1;
            for &next in self.after(one) {
                waits[next as usize] -= 1;
                if waits[next as usize] == 0 {
                    ready.push(next);
                }
            }
        }
        if ended == waits.len() {
            return None;
        }
        // Each that is left waits for one that is left: going back comes round.
        let mut before = vec![u32::MAX; waits.len()];
        for one in (0..waits.len() as u32).filter(|&one| waits[one as usize] > 0) {
            for &next in self.after(one) {
                before[next as usize] = before[next as usize].min(one);
            }
        }
        let mut at = (0..waits.len() as u32).find(|&one| waits[one as usize] > 0)?;
        let mut seen = vec![false; before.len()];
        while !std::mem::replace(&mut seen[at as usize], true) {
            at = before[at as usize];
        }
        let mut circle = vec![at];
        let mut one = before[at as usize];
        while one != at {
            circle.push(one);
            one = before[one as usize];
        }
        circle.reverse();
        let lowest = (0..circle.len()).min_by_key(|&place| circle[place]).unwrap_or(0);
        circle.rotate_left(lowest);
        Some(circle)
    }
}

// What the ranks of a job do one after the other.

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
    pub doing: RankActivity,
    /// Collectives that it has come to and not begun.
    waiting: VecDeque<(u32, u32)>,
    /// True if one is under way.
    busy: bool,
    /// Until when it computes operations, and reduces.
    computes: Time,
    reduces: Time,
    pub computed: Time,
}

/// Reason why a rank does not go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum RankActivity {
    #[default]
    Nothing,
    /// A time to compute.
    Computing,
    /// All collectives that it has come to: this one was the last.
    Part(u32, u32),
    /// It has finished.
    Over,
}

/// The next action of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextStep {
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

    /// The action of a rank now.
    pub fn next(&mut self, number: u32, now: Time) -> NextStep {
        let rank = &mut self.ranks[number as usize];
        if !rank.busy {
            if let Some((iteration, step)) = rank.waiting.pop_front() {
                rank.busy = true;
                return NextStep::Join(iteration, step);
            }
        }
        match rank.doing {
            RankActivity::Computing | RankActivity::Over => return NextStep::Wait,
            RankActivity::Part(..) if rank.busy || !rank.waiting.is_empty() => return NextStep::Wait,
            RankActivity::Part(..) | RankActivity::Nothing => rank.doing = RankActivity::Nothing,
        }
        let Some(step) = self.plan.steps.get(rank.step) else {
            return self.repeat(number, now);
        };
        let place = (rank.iteration, rank.step as u32);
        rank.step += 1;
        let overlapped = match step {
            &StepPlan::Compute(ps) => {
                rank.doing = RankActivity::Computing;
                rank.computed += Time(ps);
                self.record.add(SpanRecord(number, place.0, place.1, now.0, Some(now.0.saturating_add(ps))));
                return NextStep::Compute(Time(ps));
            }
            StepPlan::Collective(collective) => collective.overlapped,
            StepPlan::Graph(_) => false,
        };
        rank.waiting.push_back(place);
        if !overlapped {
            rank.doing = RankActivity::Part(place.0, place.1);
        }
        self.next(number, now)
    }

    /// A rank has come to the end of its steps.
    fn repeat(&mut self, number: u32, now: Time) -> NextStep {
        let rank = &mut self.ranks[number as usize];
        if rank.busy || !rank.waiting.is_empty() {
            // Overlapped collectives end before it goes on.
            rank.doing = RankActivity::Part(rank.iteration, rank.step as u32 - 1);
            return NextStep::Wait;
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
            rank.doing = RankActivity::Over;
            self.record.finished_ps[number as usize] = Some(now.0);
        }
        while self.ended.front() == Some(&self.plan.ranks.len()) {
            self.ended.pop_front();
            self.record.iterations_ps.push(now.0);
        }
        if over {
            NextStep::Finished
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

// Graphs that a user gave: checked, and put into an order of their own.
//
// What is ready at the same instant begins in the order of numbers. So that nothing depends on how a graph was listed,
// operations are numbered by what they are and by what surrounds them, and not by their places in the list.

/// The graph of operations that a plan gives, for ranks 0 to `ranks` - 1.
///
/// # Errors
/// One line.
pub(super) fn graph(operations: &Operations, ranks: usize) -> Result<Graph, String> {
    (0..operations.len()).try_for_each(|number| check(operations, number, ranks))?;
    let listed = listed(operations);
    if let Some(circle) = listed.circle() {
        let list: Vec<String> = circle.iter().take(20).map(u32::to_string).collect();
        let more = if circle.len() > list.len() { ", ..." } else { "" };
        return Err(format!("operations {}{more} wait for each other in a circle", list.join(", ")));
    }
    let places = places(listed, operations);
    let mut number_of = vec![0; places.len()];
    (0..).zip(&places).for_each(|(number, &place)| number_of[place as usize] = number);
    let after = |(number, &place): (u32, &u32)| {
        operations.after(place as usize).map(|one| number_of[one as usize]).zip(std::iter::repeat(number))
    };
    let waiting = Waiting::new(places.len(), (0..).zip(&places).flat_map(after));
    drop(number_of);
    let operation = |&place: &u32| {
        let (rank, what) = operations.get(place as usize).expect("it is one of them");
        Operation { rank, what }
    };
    let mut graph = Graph::new(places.iter().map(operation).collect(), waiting, ranks);
    graph.places = places;
    Ok(graph)
}

/// Places of operations that wait for each other in a circle, the first one first; none: there are none.
pub fn circle(operations: &Operations) -> Option<Vec<u32>> {
    listed(operations).circle()
}

/// The dependencies of operations, in the order of the list.
fn listed(operations: &Operations) -> Waiting {
    let after = |place: usize| operations.after(place).zip(std::iter::repeat(place as u32));
    Waiting::new(operations.len(), (0..operations.len()).flat_map(after))
}

fn check(operations: &Operations, number: usize, ranks: usize) -> Result<(), String> {
    let (rank, what) = operations.get(number).expect("it is one of them");
    if rank as usize >= ranks {
        return Err(format!("operation {number}: rank {rank} is not one of {ranks}"));
    }
    if let StepWork::Send { to, bytes, .. } = what {
        if to as usize >= ranks || to == rank || bytes == 0 {
            return Err(format!("operation {number}: expected bytes to another rank below {ranks}"));
        }
    }
    for one in operations.after(number) {
        let Some((of, other)) = operations.get(one as usize) else {
            return Err(format!("operation {number} waits for {one}, of {}", operations.len()));
        };
        let by_message = matches!(other, StepWork::Send { to, .. } if to == rank);
        let by_barrier = matches!(what, StepWork::Barrier) || matches!(other, StepWork::Barrier);
        if of != rank && !by_message && !by_barrier {
            return Err(format!(
                "operation {number} waits for {one}, which is of another rank and no message to this one"
            ));
        }
    }
    Ok(())
}

/// Places of the list in the order of numbers: by what an operation is and all that it waits for, and then by what waits
/// for it. Operations that are alike in both may take each other's place.
fn places(listed: Waiting, operations: &Operations) -> Vec<u32> {
    let count = operations.len();
    let mut waits = listed.waits();
    let mut order: Vec<u32> = (0..count as u32).filter(|&one| waits[one as usize] == 0).collect();
    let mut at = 0;
    while at < order.len() {
        for &next in listed.after(order[at]) {
            waits[next as usize] -= 1;
            if waits[next as usize] == 0 {
                order.push(next);
            }
        }
        at += 1;
    }
    let mut before = vec![0u64; count];
    for &one in &order {
        let (rank, what) = operations.get(one as usize).expect("it is one of them");
        let hashes = operations.after(one as usize).map(|other| before[other as usize]).collect();
        before[one as usize] = together(own_hash(rank, &what), hashes);
    }
    let mut both = vec![0u64; count];
    for &one in order.iter().rev() {
        let hashes = listed.after(one).iter().map(|&other| both[other as usize]).collect();
        both[one as usize] = together(before[one as usize], hashes);
    }
    let mut places: Vec<u32> = (0..count as u32).collect();
    places.sort_by_key(|&place| (before[place as usize], both[place as usize]));
    places
}

fn own_hash(rank: u32, what: &StepWork) -> u64 {
    let [kind, a, b, c] = match *what {
        StepWork::Compute(ps) => [1, ps, 0, 0],
        StepWork::Reduce(bytes) => [2, bytes, 0, 0],
        StepWork::Send { to, bytes, channel } => [3, to as u64, bytes, channel as u64],
        StepWork::Receive => [4, 0, 0, 0],
        StepWork::Barrier => [5, 0, 0, 0],
    };
    [rank as u64, kind, a, b, c].into_iter().fold(0, |hash, part| mix(hash ^ mix(part + 1)))
}

/// A hash of something and of others in whatever order.
fn together(own: u64, mut others: Vec<u64>) -> u64 {
    others.sort_unstable();
    others.into_iter().fold(mix(own), |hash, other| mix(hash.rotate_left(1) ^ other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_knows_who_waits_for_it() {
        let mut builder = Builder::default();
        for (rank, after) in [(0, &[][..]), (1, &[0]), (0, &[]), (1, &[0, 2])] {
            builder.add(rank, StepWork::Barrier, after);
        }
        let graph = builder.build(2);
        assert_eq!((graph.after(0), graph.after(1)), (&[1, 3][..], &[][..]));
        assert_eq!(graph.waiting.waits(), [0, 1, 0, 2]);
        assert_eq!(graph.of_rank(1), [1, 3]);
        assert_eq!(graph.waiting.circle(), None);
    }

    #[test]
    fn a_circle_is_named() {
        let circle = |edges: &[(u32, u32)], count| Waiting::new(count, edges.iter().copied()).circle();
        assert_eq!(circle(&[(0, 1), (1, 2), (2, 3), (3, 1), (3, 4)], 5), Some(vec![1, 2, 3]));
        assert_eq!(circle(&[(0, 0)], 1), Some(vec![0]));
        assert_eq!(circle(&[], 0), None);
    }
}
