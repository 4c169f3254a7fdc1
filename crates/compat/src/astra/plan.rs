//! ASTRA-sim's system file, logical topology and communicator groups, as its front end read them.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;

use tailback_sim::plan::PlanError;

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
    /// True if an all-reduce in several dimensions is done as reduce-scatters, one all-reduce, and all-gathers.
    pub local_bw_aware: bool,
    /// Memory bandwidth of a rank, B/s. With 0, a reduction never ends.
    pub local_mem_bw: f64,
    /// FLOP/s of a rank.
    pub peak_perf: f64,
    /// True if compute nodes take the time that the roofline gives.
    pub roofline: bool,
    /// True if every node takes its recorded time, and nothing is sent.
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
    /// True if there is one ring of all ranks, whatever the dimensions are.
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
pub(super) enum CollectiveKind {
    AllReduce,
    AllGather,
    ReduceScatter,
    AllToAll,
}

impl CollectiveKind {
    pub fn name(self) -> &'static str {
        match self {
            CollectiveKind::AllReduce => "all-reduce",
            CollectiveKind::AllGather => "all-gather",
            CollectiveKind::ReduceScatter => "reduce-scatter",
            CollectiveKind::AllToAll => "all-to-all",
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
    pub(super) fn implementations(&self, kind: CollectiveKind) -> Option<&[Implementation]> {
        let lists = &self.implementations;
        match kind {
            CollectiveKind::AllReduce => &lists.all_reduce,
            CollectiveKind::AllGather => &lists.all_gather,
            CollectiveKind::ReduceScatter => &lists.reduce_scatter,
            CollectiveKind::AllToAll => &lists.all_to_all,
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

// Rings and trees: the ranks of a phase, and their neighbours.

/// A ring of ranks, and this rank's place in it.
#[derive(Clone, Debug)]
pub(super) struct Ring {
    members: Members,
    pub size: u32,
    pub place: u32,
    /// True if its group has only a part of the ranks.
    pub local: bool,
}

#[derive(Clone, Debug)]
enum Members {
    Regular { first: u32, stride: u32 },
    Listed(Arc<[u32]>),
}

impl Ring {
    /// The ring of `size` ranks, `stride` apart, that has this rank.
    fn regular(rank: u32, size: u32, stride: u32) -> Ring {
        let place = rank % (stride * size) / stride;
        Ring { members: Members::Regular { first: rank - place * stride, stride }, size, place, local: false }
    }

    /// The ring in the order of a list; `None` if this rank is not in it.
    pub fn listed(rank: u32, ranks: &Arc<[u32]>) -> Option<Ring> {
        let place = ranks.iter().rposition(|&one| one == rank)? as u32;
        Some(Ring { members: Members::Listed(ranks.clone()), size: ranks.len() as u32, place, local: true })
    }

    /// The rank in a place.
    pub fn rank(&self, place: u32) -> u32 {
        match &self.members {
            Members::Regular { first, stride } => first + place * stride,
            Members::Listed(ranks) => ranks[place as usize],
        }
    }

    /// The place that is some steps further on, or back.
    pub fn step(&self, place: u32, steps: u32, onwards: bool) -> u32 {
        let steps = steps % self.size;
        (place + if onwards { steps } else { self.size - steps }) % self.size
    }
}

/// A rank's neighbours in a binary tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Branch {
    pub parent: Option<u32>,
    pub left: Option<u32>,
    pub right: Option<u32>,
}

impl Branch {
    /// The branch of the rank in `place`, of `size` ranks, which is a power of two. The rank at one end is the root, and the
    /// others form a balanced tree, in order. `rank` gives the rank in a place.
    fn new(place: u32, size: u32, root_is_last: bool, rank: impl Fn(u32) -> u32) -> Branch {
        let (root, shift) = if root_is_last { (size - 1, 1) } else { (0, 0) };
        // In the balanced tree places count from 1, so that the lowest set bit gives the height.
        let rank_of = |number: u32| if number == size { rank(root) } else { rank(number - shift) };
        if place == root {
            let child = Some(rank_of(size / 2));
            let (left, right) = if root_is_last { (child, None) } else { (None, child) };
            return Branch { parent: None, left, right };
        }
        let number = place + shift;
        let bit = number & number.wrapping_neg();
        let below = |number: u32| (bit > 1).then(|| rank_of(number));
        Branch {
            parent: Some(rank_of((number - bit) | bit << 1)),
            left: below(number - bit / 2),
            right: below(number + bit / 2),
        }
    }
}

/// A dimension as a kind of collective uses it.
#[derive(Clone, Debug)]
pub(super) enum DimensionLayout {
    Ring(Ring),
    /// A tree whose root is the last rank, and one whose root is the first; chunks alternate between them.
    Trees {
        ring: Ring,
        taken: u32,
    },
}

impl DimensionLayout {
    pub fn size(&self) -> u32 {
        match self {
            DimensionLayout::Ring(ring) | DimensionLayout::Trees { ring, .. } => ring.size,
        }
    }

    /// This rank's branch of the tree whose turn it is.
    pub fn next_branch(&mut self) -> Option<Branch> {
        let DimensionLayout::Trees { ring, taken } = self else { return None };
        *taken += 1;
        Some(Branch::new(ring.place, ring.size, *taken % 2 == 1, |place| ring.rank(place)))
    }
}

/// The dimensions of a list of algorithms, as a rank sees them.
///
/// # Errors
/// What is impossible in the list.
pub(super) fn shapes(
    plan: &AstraPlan,
    rank: u32,
    list: &[Implementation],
) -> Result<Vec<DimensionLayout>, String> {
    if list.is_empty() || list.len() > plan.dims.len() {
        return Err(format!("expected 1 to {} algorithms, one a dimension", plan.dims.len()));
    }
    let mut stride = 1;
    let mut found = Vec::new();
    for (&size, implementation) in plan.dims.iter().zip(list) {
        let size = if implementation.of_all { plan.ranks() } else { size };
        let ring = Ring::regular(rank, size, if implementation.of_all { 1 } else { stride });
        if matches!(implementation.algorithm, Algorithm::HalvingDoubling | Algorithm::DoubleBinaryTree)
            && !size.is_power_of_two()
        {
            return Err(format!(
                "expected a power of two for halving-doubling and binary trees, found {size} ranks"
            ));
        }
        found.push(match implementation.algorithm {
            Algorithm::DoubleBinaryTree => DimensionLayout::Trees { ring, taken: 0 },
            _ => DimensionLayout::Ring(ring),
        });
        if implementation.of_all {
            break;
        }
        stride *= size;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_of_eight() {
        let branch = |place, last| Branch::new(place, 8, last, |place| place);
        let found: Vec<_> = (0..8).map(|place| branch(place, true)).collect();
        let parents: Vec<_> = found.iter().map(|branch| branch.parent).collect();
        assert_eq!(parents, [Some(1), Some(3), Some(1), Some(7), Some(5), Some(3), Some(5), None]);
        assert_eq!((found[3].left, found[3].right), (Some(1), Some(5)));
        assert_eq!((found[7].left, found[7].right), (Some(3), None));
        assert_eq!((found[0].left, found[0].right), (None, None));
        // The other way round: the first is the root.
        assert_eq!(branch(0, false), Branch { parent: None, left: None, right: Some(4) });
        assert_eq!(branch(4, false), Branch { parent: Some(0), left: Some(2), right: Some(6) });
        assert_eq!(branch(7, false).parent, Some(6));
    }

    #[test]
    fn a_tree_of_two() {
        let branch = |place, last| Branch::new(place, 2, last, |place| place);
        assert_eq!(branch(1, true), Branch { parent: None, left: Some(0), right: None });
        assert_eq!(branch(0, true), Branch { parent: Some(1), left: None, right: None });
        assert_eq!(branch(1, false), Branch { parent: Some(0), left: None, right: None });
    }

    #[test]
    fn rings_of_a_grid() {
        let ring = Ring::regular(6, 4, 4);
        let ranks: Vec<_> = (0..4).map(|place| ring.rank(place)).collect();
        assert_eq!((ranks, ring.place), (vec![2, 6, 10, 14], 1));
        assert_eq!(ring.step(1, 2, false), 3);
        let listed =
            Ring::listed(4, &vec![0, 2, 4, 1].into()).map(|ring| (ring.place, ring.step(2, 2, true)));
        assert_eq!(listed, Some((2, 0)));
    }
}
