//! Many operations in columns: some 32 bytes each, and 4 for each one that it waits for.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use super::jobs::What;

/// An operation of a graph: `[rank, what, after]` in JSON; the places of operations that it waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationPlan(pub u32, pub What, pub Vec<u32>);

/// Operations by place. A copy shares them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<OperationPlan>", into = "Vec<OperationPlan>")]
pub struct Operations(Arc<Columns>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Columns {
    ranks: Vec<u32>,
    whats: Vec<What>,
    /// What operation `i` waits for ends at `after[ends[i]]`, and begins where that of the one before ends.
    ends: Vec<u32>,
    after: Vec<u32>,
}

impl Operations {
    /// From columns: ranks, what they do, and for each where in `after` ends what it waits for; none where they do not fit.
    pub fn of(ranks: Vec<u32>, whats: Vec<What>, ends: Vec<u32>, after: Vec<u32>) -> Option<Operations> {
        let as_many = ranks.len() == whats.len() && ranks.len() == ends.len();
        let fit = ends.is_sorted() && ends.last().copied().unwrap_or(0) as usize == after.len();
        (as_many && fit).then(|| Operations(Arc::new(Columns { ranks, whats, ends, after })))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.ranks.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.ranks.is_empty()
    }

    /// Rank of an operation, what it is, and the places of those that it waits for.
    pub fn get(&self, place: usize) -> Option<(u32, What, &[u32])> {
        let columns = &*self.0;
        let first = place.checked_sub(1).map_or(0, |before| columns.ends[before] as usize);
        let (rank, what) = (*columns.ranks.get(place)?, columns.whats[place]);
        Some((rank, what, &columns.after[first..columns.ends[place] as usize]))
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (u32, What, &[u32])> {
        (0..self.len()).filter_map(|place| self.get(place))
    }
}

impl From<Vec<OperationPlan>> for Operations {
    fn from(listed: Vec<OperationPlan>) -> Operations {
        let mut columns = Columns::default();
        for OperationPlan(rank, what, after) in listed {
            columns.ranks.push(rank);
            columns.whats.push(what);
            columns.after.extend(after);
            columns.ends.push(columns.after.len() as u32);
        }
        Operations(Arc::new(columns))
    }
}

impl From<Operations> for Vec<OperationPlan> {
    fn from(operations: Operations) -> Vec<OperationPlan> {
        let listed = operations.iter();
        listed.map(|(rank, what, after)| OperationPlan(rank, what, after.to_vec())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_what_was_listed() {
        let listed = vec![
            OperationPlan(3, What::Compute(7), vec![]),
            OperationPlan(0, What::Send { to: 1, bytes: 9, channel: 2 }, vec![0, 2]),
            OperationPlan(1, What::Barrier, vec![1]),
        ];
        let operations = Operations::from(listed.clone());
        assert_eq!(operations.get(1), Some((0, listed[1].1, &[0, 2][..])));
        assert_eq!((operations.len(), operations.get(3)), (3, None));
        assert_eq!(Vec::from(operations.clone()), listed);
        let columns = (*operations.0).clone();
        let of =
            |after| Operations::of(columns.ranks.clone(), columns.whats.clone(), columns.ends.clone(), after);
        assert_eq!(of(columns.after.clone()), Some(operations));
        assert_eq!(of(vec![0]), None);
    }
}
