//! Jobs in a plan: ranks on hosts, and what they have to do, in order or by dependencies.

use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use tailback_proto::units::Rate;

pub use crate::work::DomainPlan;

/// A job: ranks that repeat the same steps.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobPlan {
    /// Name, unique in the run.
    pub name: String,
    /// Index into [`super::FlowsPlan::items`].
    pub item: usize,
    /// Code point of data and ACKs.
    pub code_point: u8,
    /// The host of each rank.
    pub ranks: Vec<u32>,
    /// The server of each rank.
    pub servers: Vec<u32>,
    /// Links between the ranks of a server, outside of the fabric; `None`: there are no such links.
    pub domain: Option<DomainPlan>,
    /// How fast a rank reduces what it received; `None`: in no time.
    pub reduce_rate: Option<Rate>,
    /// Queue pairs of its messages.
    pub queue_pairs: QueuePairs,
    /// When its ranks begin.
    pub start_ps: u64,
    /// How often its steps are repeated.
    pub repeat: u32,
    /// The steps of each rank.
    pub steps: Vec<StepPlan>,
}

/// Which queue pairs carry messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QueuePairs {
    /// One for each message.
    Message,
    /// One for each pair of ranks, channel and size, to the end of the job.
    Pair,
}

/// A step of a job.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum StepPlan {
    /// Every rank computes, for this time in ps.
    Compute(u64),
    /// All ranks take part in a collective.
    Collective(CollectivePlan),
    /// The operations of a graph.
    Graph(Operations),
}

/// A collective of all ranks of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CollectivePlan {
    pub kind: CollectiveKind,
    /// How it is carried out.
    pub algorithm: Algorithm,
    /// Its size as nccl-tests counts it: the larger of what a rank gives and what it gets, in bytes.
    pub bytes: u64,
    /// Number of parts that run side by side, each on queue pairs of its own.
    pub channels: u32,
    /// Number of parts of a channel that run one after the other.
    pub chunks: u32,
    /// True if ranks go on meanwhile; they wait for it before they repeat their steps.
    pub overlapped: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CollectiveKind {
    AllReduce,
    AllGather,
    ReduceScatter,
    AllToAll,
    Broadcast,
}

/// How a collective is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Algorithm {
    Ring,
    Direct,
    HalvingDoubling,
    DoubleBinaryTree,
    Hierarchical,
}

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum StepWork {
    /// The rank computes, for this time in ps; one computation after the other.
    Compute(u64),
    /// The rank reduces, by bytes; one reduction after the other.
    Reduce(u64),
    /// The rank sends a message. It ends when the message is in the receiver's memory.
    Send {
        /// The receiving rank.
        to: u32,
        /// Its size.
        bytes: u64,
        /// Its channel.
        channel: u16,
    },
    /// Ends with the sends that it waits for.
    Receive,
    /// Ends with all operations that it waits for, of any ranks.
    Barrier,
}

impl JobPlan {
    /// The first problem, in a plan with so many hosts, traffic items and code points.
    pub(crate) fn problem(&self, hosts: u32, items: usize, code_points: usize) -> Option<String> {
        let count = self.ranks.len();
        let problem = if count == 0 {
            "ranks is empty"
        } else if self.ranks.iter().any(|&host| host >= hosts) {
            "a rank's host is not in hosts"
        } else if self.ranks.iter().collect::<HashSet<_>>().len() < count {
            "two ranks are on one host"
        } else if self.servers.len() != count {
            "servers has not one entry a rank"
        } else if self.item >= items {
            "its item is not in items"
        } else if self.code_point as usize >= code_points {
            "its code_point is not in code_points"
        } else if self.repeat == 0 || self.steps.is_empty() {
            "it has nothing to do"
        } else if self.domain.is_some_and(|domain| domain.rate.0 == 0) || self.reduce_rate == Some(Rate(0)) {
            "a rate is 0"
        } else {
            return self.steps.iter().find_map(|step| match step {
                StepPlan::Collective(collective) => self.problem_of(collective),
                StepPlan::Compute(_) | StepPlan::Graph(_) => None,
            });
        };
        Some(problem.into())
    }

    fn problem_of(&self, collective: &CollectivePlan) -> Option<String> {
        let CollectivePlan { kind, algorithm, bytes, channels, chunks, .. } = *collective;
        if bytes == 0 || channels == 0 || chunks == 0 {
            return Some("a collective without bytes, channels or chunks".into());
        }
        if channels > u16::MAX.into() {
            return Some("a collective with more than 65,535 channels".into());
        }
        let known = match algorithm {
            Algorithm::Ring | Algorithm::Direct => true,
            Algorithm::Hierarchical => true,
            Algorithm::HalvingDoubling => {
                !matches!(kind, CollectiveKind::AllToAll | CollectiveKind::Broadcast)
            }
            Algorithm::DoubleBinaryTree => {
                matches!(kind, CollectiveKind::AllReduce | CollectiveKind::Broadcast)
            }
        };
        if !known {
            return Some(format!("{kind:?} has no algorithm {algorithm:?}"));
        }
        if algorithm == Algorithm::HalvingDoubling && !self.ranks.len().is_power_of_two() {
            return Some(format!("halving-doubling needs 2, 4, 8, ... ranks, not {}", self.ranks.len()));
        }
        if algorithm == Algorithm::Hierarchical && self.by_server().is_none() {
            return Some("hierarchical needs as many ranks in each server".into());
        }
        None
    }

    /// The ranks of each server, in their order; `None` where servers have different numbers of ranks.
    pub fn by_server(&self) -> Option<Vec<Vec<u32>>> {
        let mut found: Vec<(u32, Vec<u32>)> = Vec::new();
        let mut place = std::collections::HashMap::new();
        for (rank, &server) in (0..).zip(&self.servers) {
            let at = *place.entry(server).or_insert_with(|| {
                found.push((server, Vec::new()));
                found.len() - 1
            });
            found[at].1.push(rank);
        }
        let size = found.first()?.1.len();
        found
            .iter()
            .all(|(_, ranks)| ranks.len() == size)
            .then(|| found.into_iter().map(|one| one.1).collect())
    }
}

// Many operations in columns: 25 bytes each, and 4 for each one that it waits for.

/// An operation of a graph: `[rank, what, after]` in JSON; the places of operations that it waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationPlan(pub u32, pub StepWork, pub Vec<u32>);

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

/// The dependencies of operation `i` end at `after[ends[i]]`, and begin where those of the operation before end.
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

    pub fn len(&self) -> usize {
        self.column(KIND).len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Rank of an operation, and what it is.
    pub fn get(&self, place: usize) -> Option<(u32, StepWork)> {
        let value = || u64::from_ne_bytes(self.column(VALUE).as_chunks().0[place]);
        let what = match *self.column(KIND).get(place)? {
            COMPUTE => StepWork::Compute(value()),
            REDUCE => StepWork::Reduce(value()),
            SEND => StepWork::Send {
                to: self.number(TO, place),
                bytes: value(),
                channel: self.number(CHANNEL, place) as u16,
            },
            RECEIVE => StepWork::Receive,
            _ => StepWork::Barrier,
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
    pub fn iter(&self) -> impl Iterator<Item = (u32, StepWork)> + '_ {
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
                StepWork::Compute(ps) => (COMPUTE, ps, (0, 0)),
                StepWork::Reduce(bytes) => (REDUCE, bytes, (0, 0)),
                StepWork::Send { to, bytes, channel } => (SEND, bytes, (to, channel)),
                StepWork::Receive => (RECEIVE, 0, (0, 0)),
                StepWork::Barrier => (BARRIER, 0, (0, 0)),
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
            OperationPlan(3, StepWork::Compute(7), vec![]),
            OperationPlan(0, StepWork::Send { to: 1, bytes: 9, channel: 2 }, vec![0, 2]),
            OperationPlan(1, StepWork::Barrier, vec![1]),
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
