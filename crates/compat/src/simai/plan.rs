//! The plan: a workload and a topology in numbers.

use serde::Deserialize;

use tailback_sim::plan::{DomainPlan, PlanError};

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
    /// Number of GPUs. They are the ranks, and the first nodes.
    pub gpus: u32,
    /// GPUs in a server, which are numbered one after the other.
    pub gpus_per_server: u32,
    /// Number of GPUs and NVSwitches, which SimAI takes for the size of its logical topology.
    pub nodes: u32,
    /// Ranks of a group of tensor parallelism, which are numbered one after the other.
    pub tensor: u32,
    /// Groups of tensor parallelism in a group of expert parallelism.
    pub expert: u32,
    /// Layers in their order.
    pub layers: Vec<LayerPlan>,
    /// Time from a send to the start of its queue pair, ns.
    pub send_latency_ns: u64,
    /// True if messages that leave a server first go to the GPU in the receiver's rail.
    pub pxn: bool,
    /// Links inside servers, whose traffic the network does not carry. `None`: the network carries it.
    pub inside: Option<DomainPlan>,
}

/// A layer: forward, input gradient, weight gradient.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayerPlan {
    /// Its name.
    pub name: String,
    /// Its parts, by [`LayerPart`].
    pub parts: [PartPlan; 3],
    /// Time from the end of a collective until its layer notices, ns.
    pub update_ns: u64,
    /// True if recomputation begins here.
    pub is_checkpoint: bool,
    /// True if the layers from the checkpoint on are recomputed before its gradient.
    pub initiates: bool,
}

/// Computing, and the collective after it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartPlan {
    /// Time of computing.
    pub compute_ns: u64,
    /// The collective that follows.
    pub collective: Option<CollectivePlan>,
}

/// A collective.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CollectivePlan {
    pub kind: CollectiveKind,
    /// The ranks that take part.
    pub group: Group,
    /// Its size.
    pub bytes: u64,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum CollectiveKind {
    AllReduce,
    AllGather,
    ReduceScatter,
    AllToAll,
}

impl CollectiveKind {
    pub(super) fn name(self) -> &'static str {
        ["all-reduce", "all-gather", "reduce-scatter", "all-to-all"][self as usize]
    }
}

/// Groups of tensor, data and expert parallelism, and of data parallelism among the same experts.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Group {
    Tensor,
    Data,
    Expert,
    DataExpert,
}

/// A part of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(super) enum LayerPart {
    Forward,
    Input,
    Weight,
}

impl LayerPart {
    pub fn name(self) -> &'static str {
        ["forward", "input gradient", "weight gradient"][self as usize]
    }
}

impl SimaiPlan {
    /// Ranks in the dimension in which a part communicates; `None` where there is no other rank.
    ///
    /// SimAI divides all nodes, including NVSwitches, into groups of tensor parallelism. The forward pass and the input
    /// gradient communicate within a group, the weight gradient among groups.
    pub(super) fn dimension(&self, part: LayerPart) -> Option<u32> {
        let ranks = match part {
            LayerPart::Weight => self.nodes / self.tensor,
            LayerPart::Forward | LayerPart::Input => self.tensor,
        };
        (ranks > 1).then_some(ranks)
    }

    /// The name of the workload.
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
