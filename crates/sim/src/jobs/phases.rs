//! The exchanges that collectives are made of, among some ranks of a job.
//!
//! Sources: Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication Operations in MPICH", 2005 (ring,
//! recursive halving and doubling); Sanders, Speck and Traeff, "Two-tree algorithms for full bandwidth broadcast,
//! reduction and scan", 2009 (double binary trees).

use super::graph::Builder;
use crate::plan::What;

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
                _ => vec![self.graph.add(rank, What::Receive, &own)],
            });
        }
        ready
    }

    /// What came is reduced with what the rank has: the operations after which that is done.
    fn reduced(&mut self, rank: u32, bytes: u64, came: u32, own: &[u32]) -> Vec<u32> {
        let mut after = vec![came];
        after.extend_from_slice(own);
        match self.reduces {
            true => vec![self.graph.add(rank, What::Reduce(bytes), &after)],
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
