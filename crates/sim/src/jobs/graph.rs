//! Operations and what they wait for.

use crate::plan::What;

/// An operation of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Operation {
    pub rank: u32,
    pub what: What,
}

/// What waits for what, by number.
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
    pub fn add(&mut self, rank: u32, what: What, after: &[u32]) -> u32 {
        let number = self.operations.len() as u32;
        self.operations.push(Operation { rank, what });
        self.edges.extend(after.iter().map(|&one| (one, number)));
        number
    }

    /// A message that waits for others. Its number.
    pub fn send(&mut self, from: u32, to: u32, bytes: u64, channel: u16, after: &[u32]) -> u32 {
        self.add(from, What::Send { to, bytes, channel }, after)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_knows_who_waits_for_it() {
        let mut builder = Builder::default();
        for (rank, after) in [(0, &[][..]), (1, &[0]), (0, &[]), (1, &[0, 2])] {
            builder.add(rank, What::Barrier, after);
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
