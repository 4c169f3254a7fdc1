//! Nodes that wait for no other.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

use super::trace::Need;

const NEEDS: [Need; 4] = [Need::Cpu, Need::Computing, Need::Communicating, Need::Nothing];

/// By what they need, so that very many that wait for the same are not looked at one by one.
#[derive(Debug, Default)]
pub(super) struct Free {
    /// Ids, each with its turn among all that were ever added.
    of: [BTreeMap<u64, u64>; NEEDS.len()],
    added: u64,
}

impl Free {
    pub fn add(&mut self, id: u64, need: Need) {
        self.of[need as usize].insert(id, self.added);
        self.added += 1;
    }

    pub fn remove(&mut self, id: u64, need: Need) {
        self.of[need as usize].remove(&id);
    }

    /// How many were ever added.
    pub fn added(&self) -> u64 {
        self.added
    }

    pub fn is_empty(&self) -> bool {
        self.of.iter().all(BTreeMap::is_empty)
    }

    /// The lowest id.
    pub fn first(&self) -> Option<u64> {
        self.of.iter().filter_map(|of| of.keys().next().copied()).min()
    }

    /// The next id after another, of those that were among the first `added` and whose need may be had.
    pub fn next(&self, after: Option<u64>, added: u64, may: impl Fn(Need) -> bool) -> Option<(u64, Need)> {
        let after = after.map_or(Unbounded, Excluded);
        let next = |need: Need| {
            let mut later = self.of[need as usize].range((after, Unbounded));
            later.find(|(_, &turn)| turn < added).map(|(&id, _)| (id, need))
        };
        NEEDS.into_iter().filter(|&need| may(need)).filter_map(next).min_by_key(|found| found.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_is_the_lowest_that_may_begin() {
        let mut free = Free::default();
        for (id, need) in [(7, Need::Cpu), (3, Need::Nothing), (5, Need::Communicating)] {
            free.add(id, need);
        }
        let added = free.added();
        free.add(4, Need::Nothing);
        let any = |_| true;
        assert_eq!(free.next(None, added, any), Some((3, Need::Nothing)));
        assert_eq!(free.next(Some(3), added, any), Some((5, Need::Communicating)));
        assert_eq!(free.next(Some(3), added, |need| need != Need::Communicating), Some((7, Need::Cpu)));
        assert_eq!(free.next(Some(3), added + 1, any), Some((4, Need::Nothing)));
        assert_eq!((free.next(Some(7), added, any), free.first()), (None, Some(3)));
        free.remove(3, Need::Nothing);
        assert_eq!((free.first(), free.is_empty()), (Some(4), false));
    }
}
