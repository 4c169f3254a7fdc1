//! Jobs in a plan: ranks on hosts, and what they have to do, in order or by dependencies.

use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use tailback_proto::units::{Rate, Time};

use super::operations::Operations;
use super::{impossible, Plan, PlanError};

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

/// Links inside of servers: each rank sends, and receives, at one rate.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DomainPlan {
    /// Rate of a rank's link, each way.
    pub rate: Rate,
    /// From the first bit sent to the first bit received.
    pub latency: Time,
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
    /// What it does.
    pub kind: CollectiveKind,
    /// How it is carried out.
    pub algorithm: Algorithm,
    /// Its size as nccl-tests counts it: the larger of what a rank gives and what it gets, in bytes.
    pub bytes: u64,
    /// Number of parts that run side by side, each on queue pairs of its own.
    pub channels: u32,
    /// Number of parts of a channel that run one after the other.
    pub chunks: u32,
    /// Whether ranks go on meanwhile; they wait for it before they repeat their steps.
    pub overlapped: bool,
}

/// What a collective does.
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

/// What an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum What {
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
    fn problem(&self, plan: &Plan) -> Option<String> {
        let hosts = plan.hosts.len() as u32;
        let count = self.ranks.len();
        let problem = if count == 0 {
            "ranks is empty"
        } else if self.ranks.iter().any(|&host| host >= hosts) {
            "a rank's host is not in hosts"
        } else if self.ranks.iter().collect::<HashSet<_>>().len() < count {
            "two ranks are on one host"
        } else if self.servers.len() != count {
            "servers has not one entry a rank"
        } else if self.item >= plan.flows.items.len() {
            "its item is not in items"
        } else if self.code_point as usize >= plan.code_points.len() {
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

impl Plan {
    pub(super) fn check_jobs(&self) -> Result<(), PlanError> {
        let mut names = HashSet::new();
        for (index, job) in self.jobs.iter().enumerate() {
            if let Some(problem) = job.problem(self) {
                return Err(impossible(format!("jobs[{index}]"), problem));
            }
            if !names.insert(&job.name) {
                return Err(impossible(format!("jobs[{index}]"), format!("two are named {}", job.name)));
            }
        }
        Ok(())
    }
}
