//! Operations and what they wait for.

use crate::plan::What;

/// An operation of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Operation {
    pub rank: u32,
    pub what: What,
}

/// Operations by number, each with those that wait for it.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    pub operations: Vec<Operation>,
    /// By operation: how many others it waits for.
    pub waits: Vec<u32>,
    /// Those that wait for operation `i` are `next[first[i]..first[i + 1]]`.
    first: Vec<u32>,
    next: Vec<u32>,
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
    /// Adds an operation that waits for others. Its number.
    pub fn add(&mut self, rank: u32, what: What, after: &[u32]) -> u32 {
        let number = self.operations.len() as u32;
        self.operations.push(Operation { rank, what });
        self.edges.extend(after.iter().map(|&one| (one, number)));
        number
    }

    /// A message that waits for others. Its number.
    pub fn send(&mut self, from: u32, to: u32, bytes: u64, channel: u32, after: &[u32]) -> u32 {
        self.add(from, What::Send { to, bytes, channel }, after)
    }

    /// The graph of ranks 0 to `ranks` - 1. The numbers of the operations in one circle, if there is one.
    ///
    /// # Errors
    /// Operations that wait for each other.
    pub fn build(self, ranks: usize) -> Result<Graph, Vec<u32>> {
        let Builder { operations, edges } = self;
        let mut waits = vec![0; operations.len()];
        edges.iter().for_each(|&(_, after)| waits[after as usize] += 1);
        let (first, next) = grouped(operations.len(), edges.iter().copied());
        let (first_of, of_rank) = grouped(ranks, operations.iter().map(|one| one.rank).zip(0..));
        let graph = Graph { operations, waits, first, next, first_of, of_rank, places: Vec::new() };
        match graph.circle() {
            Some(circle) => Err(circle),
            None => Ok(graph),
        }
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
    /// Those that wait for an operation.
    pub fn after(&self, operation: u32) -> &[u32] {
        let at = operation as usize;
        &self.next[self.first[at] as usize..self.first[at + 1] as usize]
    }

    /// Those of a rank.
    pub fn of_rank(&self, rank: u32) -> &[u32] {
        let at = rank as usize;
        &self.of_rank[self.first_of[at] as usize..self.first_of[at + 1] as usize]
    }

    /// Operations that wait for each other in a circle, the one with the lowest number first.
    fn circle(&self) -> Option<Vec<u32>> {
        let mut waits = self.waits.clone();
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
        if ended == self.operations.len() {
            return None;
        }
        // Each that is left waits for one that is left: going back comes round.
        let mut before = vec![u32::MAX; self.operations.len()];
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

    fn graph(edges: &[(u32, u32)], count: u32) -> Result<Graph, Vec<u32>> {
        let mut builder = Builder::default();
        for one in 0..count {
            let after: Vec<u32> = edges.iter().filter(|edge| edge.1 == one).map(|edge| edge.0).collect();
            builder.add(one % 2, What::Barrier, &after);
        }
        builder.build(2)
    }

    #[test]
    fn each_knows_who_waits_for_it() {
        let graph = graph(&[(0, 1), (0, 3), (1, 2), (3, 2)], 4).unwrap();
        assert_eq!(graph.after(0), [1, 3]);
        assert_eq!(graph.after(2), [0u32; 0]);
        assert_eq!(graph.waits, [0, 1, 2, 1]);
        assert_eq!(graph.of_rank(1), [1, 3]);
    }

    #[test]
    fn a_circle_is_named() {
        assert_eq!(graph(&[(0, 1), (1, 2), (2, 3), (3, 1), (3, 4)], 5).unwrap_err(), [1, 2, 3]);
        assert_eq!(graph(&[(0, 0)], 1).unwrap_err(), [0]);
        assert!(graph(&[], 0).is_ok());
    }
}
