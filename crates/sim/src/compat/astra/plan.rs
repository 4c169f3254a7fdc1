//! ASTRA-sim's system file, logical topology and communicator groups, as its front end read them.

use serde::Deserialize;
use std::collections::BTreeMap;

use crate::plan::PlanError;

/// What all ranks share.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AstraPlan {
    /// Name of each rank's trace, for messages.
    pub files: Vec<String>,
    /// Ranks in each dimension of the logical topology.
    pub dims: Vec<u32>,
    /// Queues of each dimension.
    pub queues_per_dim: u32,
    /// Time to wait before a message, ns.
    pub endpoint_delay: u64,
    /// Streams that run at the same time in a dimension.
    pub active_chunks: u32,
    /// Chunks of a collective; 0 if it was not given.
    pub splits: u64,
    /// Which of several collectives is first.
    pub policy: Policy,
    /// Whether an all-reduce in several dimensions is done as reduce-scatters, one all-reduce, and all-gathers.
    pub local_bw_aware: bool,
    /// Memory bandwidth of a rank, B/s. With 0, a reduction never ends.
    pub local_mem_bw: f64,
    /// FLOP/s of a rank.
    pub peak_perf: f64,
    /// Whether compute nodes take the time that the roofline gives.
    pub roofline: bool,
    /// Whether every node takes its recorded time, and nothing is sent.
    pub replay_only: bool,
    /// The algorithm of each kind of collective in each dimension.
    pub implementations: Implementations,
    /// Ranks of communicator groups, by their numbers.
    pub groups: BTreeMap<i32, Vec<u32>>,
}

/// Which of several collectives is first.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    Lifo,
    Fifo,
    Explicit,
}

/// The algorithm of each kind of collective in each dimension; `None` where the system file has no list.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Implementations {
    pub all_reduce: Option<Vec<Implementation>>,
    pub all_gather: Option<Vec<Implementation>>,
    pub reduce_scatter: Option<Vec<Implementation>>,
    pub all_to_all: Option<Vec<Implementation>>,
}

/// An algorithm in a dimension.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Implementation {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Messages that a direct exchange starts with. `None`: one to each rank.
    pub window: Option<u32>,
    /// Whether there is one ring of all ranks, whatever the dimensions are.
    pub of_all: bool,
}

/// How a collective is carried out.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Algorithm {
    Ring,
    Direct,
    HalvingDoubling,
    DoubleBinaryTree,
}

/// A collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    AllReduce,
    AllGather,
    ReduceScatter,
    AllToAll,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::AllReduce => "all-reduce",
            Kind::AllGather => "all-gather",
            Kind::ReduceScatter => "reduce-scatter",
            Kind::AllToAll => "all-to-all",
        }
    }
}

/// Most ranks: node ids are 16 bits.
const MOST_RANKS: u64 = 65_536;

impl AstraPlan {
    /// Ranks in all.
    pub(super) fn ranks(&self) -> u32 {
        self.dims.iter().product()
    }

    /// The common name of the traces.
    pub(super) fn name(&self) -> &str {
        let file = self.files.first().map_or("", String::as_str);
        file.rsplit('/').next().and_then(|name| name.strip_suffix(".0.et")).unwrap_or(file)
    }

    /// The algorithms of a kind of collective.
    pub(super) fn implementations(&self, kind: Kind) -> Option<&[Implementation]> {
        let lists = &self.implementations;
        match kind {
            Kind::AllReduce => &lists.all_reduce,
            Kind::AllGather => &lists.all_gather,
            Kind::ReduceScatter => &lists.reduce_scatter,
            Kind::AllToAll => &lists.all_to_all,
        }
        .as_deref()
    }

    /// Time to reduce `bytes` on a rank, ns: two reads and a write, each cut to whole nanoseconds.
    pub(super) fn reduction(&self, bytes: u64) -> u64 {
        if self.local_mem_bw == 0.0 {
            return u64::MAX;
        }
        3 * (bytes as f64 / self.local_mem_bw * 1e9) as u64
    }

    /// Streams that run at the same time in a queue.
    pub(super) fn streams_per_queue(&self) -> u32 {
        self.active_chunks.div_ceil(self.queues_per_dim)
    }

    pub(super) fn check(&self, traces: usize) -> Result<(), PlanError> {
        let require = |ok: bool, place: &str, problem: &str| match ok {
            true => Ok(()),
            false => Err(PlanError::Impossible { place: place.into(), problem: problem.into() }),
        };
        let ranks = self.dims.iter().try_fold(1u64, |all, &dim| all.checked_mul(dim as u64));
        let in_limits = ranks.is_some_and(|ranks| (1..=MOST_RANKS).contains(&ranks));
        require(in_limits && !self.dims.is_empty(), "logical-dims", "expected 1 to 65,536 ranks")?;
        require(ranks == Some(traces as u64) && traces == self.files.len(), "files", "expected one a rank")?;
        require(self.queues_per_dim > 0, "num-queues-per-dim", "expected at least 1")
    }
}
