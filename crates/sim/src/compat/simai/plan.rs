//! The plan: what a workload and a topology say, with nothing left to look up.

use serde::Deserialize;

use crate::plan::{DomainPlan, PlanError};

/// Most ranks: node ids are 16 bits.
const MOST_RANKS: u32 = 65_536;
/// Most steps of all layers; each rank goes through all of them.
const MOST_LAYERS: usize = 1 << 20;

/// A workload on the GPUs of a topology.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SimaiPlan {
    /// What messages call the workload.
    pub file: String,
    /// GPUs are the ranks, and the nodes from 0.
    pub gpus: u32,
    /// GPUs of a server, one after the other.
    pub gpus_per_server: u32,
    /// GPUs and NVSwitches together: what that simulator takes for the size of its logical topology.
    pub nodes: u32,
    /// Ranks of a group of tensor parallelism, which are one after the other.
    pub tensor: u32,
    /// Groups of tensor parallelism in a group of expert parallelism.
    pub expert: u32,
    /// Layers in their order.
    pub layers: Vec<LayerPlan>,
    /// Time from a send to the start of its queue pair, ns.
    pub send_latency_ns: u64,
    /// What leaves a server goes to the GPU first that is in the receiver's rail.
    pub pxn: bool,
    /// Links inside of servers whose traffic the network does not carry. None: the network carries all.
    pub inside: Option<DomainPlan>,
}

/// A layer: forward, input gradient, weight gradient.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayerPlan {
    /// Its name.
    pub name: String,
    /// By [`Part`].
    pub parts: [PartPlan; 3],
    /// Time from the end of a collective until its layer knows, ns.
    pub update_ns: u64,
    /// What is to be computed again begins here.
    pub is_checkpoint: bool,
    /// Before its gradient the layers from the checkpoint on are computed again.
    pub initiates: bool,
}

/// Computing, and the collective after it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartPlan {
    /// How long it computes.
    pub compute_ns: u64,
    /// What the group does then.
    pub collective: Option<CollectivePlan>,
}

/// A collective.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CollectivePlan {
    /// What.
    pub kind: Kind,
    /// Among whom.
    pub group: Group,
    /// Its size.
    pub bytes: u64,
}

/// What a collective does.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs)]
pub enum Kind {
    AllReduce,
    AllGather,
    ReduceScatter,
    AllToAll,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        ["all-reduce", "all-gather", "reduce-scatter", "all-to-all"][self as usize]
    }
}

/// Whose groups: tensor, data, expert parallelism, and data parallelism among the same experts.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs)]
pub enum Group {
    Tensor,
    Data,
    Expert,
    DataExpert,
}

/// What of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(super) enum Part {
    Forward,
    Input,
    Weight,
}

impl Part {
    pub fn name(self) -> &'static str {
        ["forward", "input gradient", "weight gradient"][self as usize]
    }
}

impl SimaiPlan {
    /// Ranks in the dimension in which a part communicates; none where there is nobody to talk to.
    ///
    /// That simulator cuts all nodes, NVSwitches among them, into groups of tensor parallelism: the forward pass and the
    /// input gradient are within them, the weight gradient is among them.
    pub(super) fn dimension(&self, part: Part) -> Option<u32> {
        let ranks = match part {
            Part::Weight => self.nodes / self.tensor,
            Part::Forward | Part::Input => self.tensor,
        };
        (ranks > 1).then_some(ranks)
    }

    /// What the workload is called.
    pub(super) fn name(&self) -> &str {
        self.file.rsplit('/').next().unwrap_or(&self.file)
    }

    pub(super) fn check(&self) -> Result<(), PlanError> {
        let require = |ok: bool, place: &str, problem: &str| match ok {
            true => Ok(()),
            false => Err(PlanError::Impossible { place: place.into(), problem: problem.into() }),
        };
        require((1..=MOST_RANKS).contains(&self.gpus), "gpus", "expected 1 to 65,536")?;
        let divides = |part: u32, whole: u32| part > 0 && whole.is_multiple_of(part);
        require(divides(self.gpus_per_server, self.gpus), "gpus_per_server", "expected a divisor of gpus")?;
        require(divides(self.tensor, self.gpus), "tensor", "expected a divisor of gpus")?;
        require(
            divides(self.expert, self.gpus / self.tensor),
            "expert",
            "expected a divisor of gpus / tensor",
        )?;
        require(self.nodes >= self.gpus, "nodes", "expected at least as many as gpus")?;
        require((1..=MOST_LAYERS).contains(&self.layers.len()), "layers", "expected 1 to 1,048,576")?;
        let restarts = |number: usize| self.layers[..number].iter().any(|layer| layer.is_checkpoint);
        for (number, layer) in self.layers.iter().enumerate() {
            let ok = !layer.initiates || restarts(number);
            require(ok, &format!("layers[{number}]"), "expected a checkpoint before it")?;
        }
        Ok(())
    }
}
