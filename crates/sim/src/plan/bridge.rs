//! Plan of Linux bridges.

use serde::{Deserialize, Serialize};

use super::QdiscPlan;

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
    /// From an interrupt to its handler on a core that sleeps.
    pub idle_exit_ps: u64,
    /// A hard interrupt.
    pub interrupt_ps: u64,
    /// The start of a poll.
    pub poll_ps: u64,
    /// What a packet costs.
    pub costs: BridgeCostsPlan,
    /// Its ports, in the order of its links.
    pub ports: Vec<BridgePortPlan>,
    /// Descriptors of a channel's receive ring.
    pub rx_ring: u32,
    /// Descriptors of a channel's transmit ring.
    pub tx_ring: u32,
    /// Interrupts of received packets.
    pub rx: CoalescingPlan,
    /// Interrupts of transmit completions.
    pub tx: CoalescingPlan,
    /// Byte queue limits; none: off.
    pub bql: Option<BqlPlan>,
    /// Queueing discipline of every port.
    pub qdisc: QdiscPlan,
    /// Each transmit queue has one of its own (mq); else all of a port share one.
    pub multiqueue: bool,
    /// From a packet's last bit on the wire to its completion in memory.
    pub rx_latency_ps: u64,
    /// From the doorbell to a packet's first bit on the wire.
    pub tx_latency_ps: u64,
}

/// A core.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BridgeCorePlan {
    /// Its number, as `mpstat` prints it.
    pub number: u32,
    /// Its NUMA node.
    pub node: u32,
    /// Whether a virtual CPU that never sleeps has it.
    pub guest: bool,
}

/// What a packet costs a core.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BridgeCostsPlan {
    /// Receiving a packet, up to the queueing discipline of the port that it leaves by.
    pub receive_ps: u64,
    /// The same, for each byte of its frame.
    pub receive_ps_per_byte: f64,
    /// Enqueue and dequeue, where a discipline is not bypassed.
    pub qdisc_ps: u64,
    /// Handing a packet to the device.
    pub transmit_ps: u64,
    /// A transmit completion.
    pub complete_ps: u64,
    /// All of them, times this, where the core is not on the device's NUMA node.
    pub remote_factor: f64,
}

/// A port.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BridgePortPlan {
    /// NUMA node of its device.
    pub node: u32,
    /// By channel: the core that takes its interrupt, an index into [`BridgeModelPlan::cores`].
    pub irq_cores: Vec<u32>,
    /// Channels that a hash spreads received flows over.
    pub rss: Vec<u32>,
}

/// Moderation of interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoalescingPlan {
    /// Dynamic moderation chooses the other two.
    pub adaptive: bool,
    /// An interrupt comes this long after a packet.
    pub usecs: u32,
    /// Or with this many.
    pub frames: u32,
}

/// Byte queue limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct BqlPlan {
    pub min_bytes: u32,
    pub max_bytes: u32,
    pub hold_ps: u64,
}

impl BridgeModelPlan {
    /// What is impossible but for its queueing discipline, in a line.
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
        if self.rx_ring < 64 || self.tx_ring < 64 {
            return Some("a ring has fewer than 64 descriptors".into());
        }
        if !(costs.remote_factor >= 1.0 && costs.remote_factor <= 100.0) {
            return Some("costs.remote_factor is not in 1 to 100".into());
        }
        if !(costs.receive_ps_per_byte >= 0.0 && costs.receive_ps_per_byte <= 1e6) {
            return Some("costs.receive_ps_per_byte is not in 0 to 1e6".into());
        }
        // A poll that costs nothing could go on for ever in an instant.
        let least = costs.receive_ps.min(costs.transmit_ps).min(costs.complete_ps);
        if least == 0 || self.interrupt_ps == 0 || self.poll_ps == 0 {
            return Some("an interrupt, a poll or a packet costs nothing".into());
        }
        if [self.rx, self.tx].iter().any(|coalescing| coalescing.frames == 0) {
            return Some("frames must be above 0".into());
        }
        if let Some(bql) = &self.bql {
            if bql.min_bytes > bql.max_bytes || bql.max_bytes > tailback_proto::flow_control::dql::MAX_LIMIT {
                return Some(
                    "bql.min_bytes is above max_bytes, or that is above the kernel's greatest".into(),
                );
            }
        }
        None
    }
}
