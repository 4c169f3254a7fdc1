//! Many operations in columns: 25 bytes each, and 4 for each one that it waits for.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

use super::jobs::What;

/// An operation of a graph: `[rank, what, after]` in JSON; the places of operations that it waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationPlan(pub u32, pub What, pub Vec<u32>);

/// Numbers in the machine's byte order, in memory of any owner.
pub type Column = Box<dyn AsRef<[u8]> + Send + Sync>;

/// Operations by place. A copy shares them.
#[derive(Clone, Serialize, Deserialize)]
#[serde(from = "Vec<OperationPlan>", into = "Vec<OperationPlan>")]
pub struct Operations(Arc<[Column; 7]>);

/// The columns: 8 bits for a kind, 64 for bytes or picoseconds, 32 for all others.
const RANK: usize = 0;
const KIND: usize = 1;
const VALUE: usize = 2;
const TO: usize = 3;
const CHANNEL: usize = 4;
/// What operation `i` waits for ends at `after[ends[i]]`, and begins where that of the one before ends.
const ENDS: usize = 5;
const AFTER: usize = 6;

/// Kinds by their numbers.
const COMPUTE: u8 = 0;
const REDUCE: u8 = 1;
const SEND: u8 = 2;
const RECEIVE: u8 = 3;
const BARRIER: u8 = 4;

impl Operations {
    /// From columns: ranks, kinds (0 compute, 1 reduce, 2 send, 3 receive, 4 barrier), picoseconds or bytes, ranks that
    /// messages go to, their channels, and for each operation where in the last column ends what it waits for; none
    /// where they do not fit.
    pub fn of(columns: [Column; 7]) -> Option<Operations> {
        let made = Operations(Arc::new(columns));
        let count = made.len();
        let has = |column: usize, size: usize| made.column(column).len() == count * size;
        let ends = || (0..count).map(|place| made.number(ENDS, place));
        let fit = [RANK, TO, CHANNEL, ENDS].into_iter().all(|column| has(column, 4)) && has(VALUE, 8);
        let fit = fit && ends().is_sorted() && made.column(KIND).iter().all(|&kind| kind <= BARRIER);
        let fit = fit && (0..count).all(|place| made.number(CHANNEL, place) <= u16::MAX.into());
        let fit = fit && ends().next_back().unwrap_or(0) as usize * 4 == made.column(AFTER).len();
        fit.then_some(made)
    }

    fn column(&self, column: usize) -> &[u8] {
        (*self.0[column]).as_ref()
    }

    fn number(&self, column: usize, place: usize) -> u32 {
        u32::from_ne_bytes(self.column(column).as_chunks().0[place])
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.column(KIND).len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Rank of an operation, and what it is.
    pub fn get(&self, place: usize) -> Option<(u32, What)> {
        let value = || u64::from_ne_bytes(self.column(VALUE).as_chunks().0[place]);
        let what = match *self.column(KIND).get(place)? {
            COMPUTE => What::Compute(value()),
            REDUCE => What::Reduce(value()),
            SEND => What::Send {
                to: self.number(TO, place),
                bytes: value(),
                channel: self.number(CHANNEL, place) as u16,
            },
            RECEIVE => What::Receive,
            _ => What::Barrier,
        };
        Some((self.number(RANK, place), what))
    }

    /// The places of those that an operation waits for.
    pub fn after(&self, place: usize) -> impl ExactSizeIterator<Item = u32> + Clone + '_ {
        let first = place.checked_sub(1).map_or(0, |before| self.number(ENDS, before) as usize);
        let after: &[[u8; 4]] = self.column(AFTER).as_chunks().0;
        after[first..self.number(ENDS, place) as usize].iter().map(|number| u32::from_ne_bytes(*number))
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (u32, What)> + '_ {
        (0..self.len()).filter_map(|place| self.get(place))
    }
}

impl Default for Operations {
    fn default() -> Self {
        Operations::from(Vec::new())
    }
}

impl PartialEq for Operations {
    fn eq(&self, other: &Operations) -> bool {
        (0..self.0.len()).all(|column| self.column(column) == other.column(column))
    }
}

impl Eq for Operations {}

impl fmt::Debug for Operations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Operations({})", self.len())
    }
}

impl From<Vec<OperationPlan>> for Operations {
    fn from(listed: Vec<OperationPlan>) -> Operations {
        let mut columns: [Vec<u8>; 7] = Default::default();
        for OperationPlan(rank, what, after) in listed {
            let (kind, value, (to, channel)) = match what {
                What::Compute(ps) => (COMPUTE, ps, (0, 0)),
                What::Reduce(bytes) => (REDUCE, bytes, (0, 0)),
                What::Send { to, bytes, channel } => (SEND, bytes, (to, channel)),
                What::Receive => (RECEIVE, 0, (0, 0)),
                What::Barrier => (BARRIER, 0, (0, 0)),
            };
            columns[KIND].push(kind);
            columns[VALUE].extend(value.to_ne_bytes());
            columns[AFTER].extend(after.iter().flat_map(|one| one.to_ne_bytes()));
            let ends = columns[AFTER].len() as u32 / 4;
            for (column, number) in [(RANK, rank), (TO, to), (CHANNEL, channel.into()), (ENDS, ends)] {
                columns[column].extend(number.to_ne_bytes());
            }
        }
        Operations(Arc::new(columns.map(|column| Box::new(column) as Column)))
    }
}

impl From<Operations> for Vec<OperationPlan> {
    fn from(operations: Operations) -> Vec<OperationPlan> {
        let listed = operations.iter().enumerate();
        listed
            .map(|(place, (rank, what))| OperationPlan(rank, what, operations.after(place).collect()))
            .collect()
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
        assert_eq!(operations.get(1), Some((0, listed[1].1)));
        assert_eq!(operations.after(1).collect::<Vec<_>>(), [0, 2]);
        assert_eq!((operations.len(), operations.get(3)), (3, None));
        assert_eq!(Vec::from(operations.clone()), listed);
        let of = |changed: usize, to: &[u8]| {
            let column = |at| if at == changed { to } else { operations.column(at) };
            Operations::of([0, 1, 2, 3, 4, 5, 6].map(|at| Box::new(column(at).to_vec()) as Column))
        };
        assert_eq!(of(AFTER, operations.column(AFTER)), Some(operations.clone()));
        assert_eq!(of(AFTER, &[0; 4]), None);
        assert_eq!(of(KIND, &[0, 5, 0]), None);
        assert_eq!(of(TO, &[0; 8]), None);
    }
}
