//! Plan of Linux bridges.

use serde::{Deserialize, Serialize};

use tailback_proto::units::Time;

pub use crate::linux::costs::{BqlParameters, BridgeCosts, BridgeParameters};
pub use crate::linux::moderation::CoalescingParameters;

use super::{in_bounds, PlanError, QdiscPlan};

/// A Linux host that forwards between its ports.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BridgePlan {
    /// Unique name.
    pub name: String,
    /// Index into [`super::Plan::bridge_models`].
    pub model: usize,
}

/// A kind of bridge.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BridgeModelPlan {
    /// Its cores that take part.
    pub cores: Vec<BridgeCorePlan>,
    /// Its rings and times.
    pub host: BridgeParameters,
    /// What a packet costs.
    pub costs: BridgeCosts,
    /// Its ports, in the order of its links.
    pub ports: Vec<BridgePortPlan>,
    /// Interrupts of received packets.
    pub rx: CoalescingParameters,
    /// Interrupts of transmit completions.
    pub tx: CoalescingParameters,
    /// Byte queue limits; none: off.
    pub bql: Option<BqlParameters>,
    /// Queueing discipline of every port.
    pub qdisc: QdiscPlan,
    /// Largest frame of its devices, without FCS: the MTU and the Ethernet header.
    pub frame_bytes: u32,
    /// Each transmit queue has one of its own (mq); else all of a port share one.
    pub multiqueue: bool,
}

tailback_proto::parameters! {
    /// A core of the bridge.
    pub struct BridgeCorePlan {
        /// Its number.
        cpu: u32, in 0..=65_535;
        /// Its NUMA node.
        numa: u32 = 0, in NUMA_NODES, source "assumption: one node";
        /// A virtual CPU that never sleeps runs on it.
        guest: bool = false, source "assumption: no virtual machine";
    }
}

tailback_proto::parameters! {
    /// A port: which core serves which of its channels, each with a receive and a transmit ring.
    pub struct BridgePortPlan {
        /// NUMA node of its device.
        numa: u32 = 0, in NUMA_NODES, source "assumption: one node";
    }
    worked out {
        /// By channel: the core that takes its interrupt, an index into [`BridgeModelPlan::cores`].
        irq_cores: Vec<u32>;
        /// Channels that a hash spreads received flows over.
        rss: Vec<u32>;
    }
}

const NUMA_NODES: std::ops::RangeInclusive<u32> = 0..=1023;

impl BridgeModelPlan {
    /// Refuses settings outside of their bounds.
    pub(super) fn check_settings(&self, place: &str) -> Result<(), PlanError> {
        in_bounds(&format!("{place}.host"), &self.host)?;
        in_bounds(&format!("{place}.costs"), &self.costs)?;
        in_bounds(&format!("{place}.rx"), &self.rx)?;
        in_bounds(&format!("{place}.tx"), &self.tx)?;
        for (index, core) in self.cores.iter().enumerate() {
            in_bounds(&format!("{place}.cores[{index}]"), core)?;
        }
        for (index, port) in self.ports.iter().enumerate() {
            in_bounds(&format!("{place}.ports[{index}]"), port)?;
        }
        self.bql.map_or(Ok(()), |bql| in_bounds(&format!("{place}.bql"), &bql))
    }

    /// What is impossible, in a line. The queueing discipline is checked elsewhere.
    pub fn problem(&self) -> Option<String> {
        let cores = self.cores.len() as u32;
        let costs = &self.costs;
        for (index, port) in self.ports.iter().enumerate() {
            let channels = port.irq_cores.len() as u32;
            if channels == 0 || channels > 256 || port.rss.is_empty() {
                return Some(format!("ports[{index}] has no channel or more than 256, or no channel in rss"));
            }
            if port.irq_cores.iter().any(|&core| core >= cores) {
                return Some(format!("ports[{index}] interrupts a core that is not in cores"));
            }
            if port.rss.iter().any(|&channel| channel >= channels) {
                return Some(format!("ports[{index}] has no such channel as rss names"));
            }
        }
        // A poll that costs nothing could go on for ever in an instant.
        let least = costs.receive.min(costs.transmit).min(costs.complete);
        if least == Time::ZERO || self.host.interrupt == Time::ZERO || self.host.poll == Time::ZERO {
            return Some("an interrupt, a poll or a packet costs nothing".into());
        }
        if self.bql.is_some_and(|bql| bql.limit_min > bql.limit_max) {
            return Some("bql.limit_min is above limit_max".into());
        }
        None
    }
}
