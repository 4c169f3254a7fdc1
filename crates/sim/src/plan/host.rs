//! TCP and the CPU in a plan.

use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use tailback_proto::flow_control::pcie_credits::DATA_CREDIT_BYTES;
use tailback_proto::transport::tcp::TcpSettings;

use super::{impossible, in_bounds, PauseParameters, Plan, PlanError};
use crate::fabric::CLASSES;
use crate::host::path::memory::LINE_BYTES;

pub use crate::host::path::memory::DdioParameters;
pub use crate::host::path::{
    GpuParameters, MemoryParameters, PcieParameters, ReadsParameters, ReceiveBufferParameters,
    StallsParameters,
};
pub use tailback_proto::congestion::host::HostCcParameters;
pub use tailback_proto::congestion::rhcc::{ReceiverParameters as RhccReceiverParameters, RhccParameters};

/// Most connections of a plan: each end of each has an event of its own kind.
const MAX_CONNECTIONS: usize = 1 << 24;

/// A stack that no host can have.
pub(super) fn check_stack(place: &str, tcp: &TcpSettings) -> Result<(), PlanError> {
    in_bounds(place, tcp)?;
    tcp.parameters().check().map_err(|problem| impossible(place, problem))
}

impl Plan {
    pub(super) fn check_tcp(
        &self,
        names: &HashMap<&str, usize>,
        code_points: usize,
    ) -> Result<(), PlanError> {
        let mut connections = 0usize;
        for (index, item) in self.tcp_connections.iter().enumerate() {
            let place = format!("tcp_connections[{index}]");
            in_bounds(&place, item)?;
            connections = connections.saturating_add(item.connections as usize);
            let mut stacks = Vec::new();
            for end in [&item.src, &item.dst] {
                let Some(host) = names.get(end.as_str()).and_then(|&node| self.hosts.get(node)) else {
                    return Err(impossible(place, format!("{end} is not a host")));
                };
                let nic = &self.nics[host.nic];
                match (&nic.tcp, &nic.cpu) {
                    (Some(tcp), Some(_)) => stacks.push(tcp),
                    _ => return Err(impossible(place, format!("{end} has no tcp or no cpu"))),
                }
            }
            let agreed = |tcp: &TcpSettings| (tcp.mtu, tcp.sack, tcp.ecn);
            let problem = if item.src == item.dst {
                "src and dst are the same host"
            } else if agreed(stacks[0]) != agreed(stacks[1]) {
                "tcp of src and of dst differ in mtu, sack or ecn"
            } else if item.code_point as usize >= code_points {
                "its code_point is not in code_points"
            } else if connections > MAX_CONNECTIONS {
                "more than 2^24 connections in all"
            } else if item.stop.is_some_and(|stop| stop <= item.start) {
                "stop is not after start"
            } else {
                continue;
            };
            return Err(impossible(place, problem));
        }
        Ok(())
    }
}

// RHCC and hostCC in a plan.

/// RHCC; a half that is none is off.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RhccPlan {
    pub sender: Option<RhccParameters>,
    pub receiver: Option<RhccReceiverParameters>,
}

// The receiving host's data path in a plan: from the NIC's receive buffer to memory.

/// The data path between a NIC's port and memory.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostPathPlan {
    /// Sizes of the NIC's receive buffer.
    pub receive_buffer: ReceiveBufferParameters,
    /// The buffers that it is divided into. One with an xoff has the lossless size, one without has the lossy
    /// size.
    pub receive_buffers: Vec<ReceiveBufferPlan>,
    /// How the NIC pauses its peer.
    pub pause: PauseParameters,
    /// The link between the NIC and the root port, and its buffer there.
    pub pcie: PcieParameters,
    /// Bytes that a write takes besides its payload: framing, sequence number, header, LCRC.
    pub tlp_overhead_bytes: u64,
    /// Where the payload is written to and read from.
    pub target: TargetPlan,
    /// How the NIC fetches what it sends. None: the data is always at hand.
    pub reads: Option<ReadsParameters>,
}

/// One of a NIC's receive buffers (`mlnx_qos` shows them).
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReceiveBufferPlan {
    /// Fill at which the NIC pauses its peer. None: the buffer is lossy.
    pub xoff_bytes: Option<u64>,
    /// Fill at which the pause ends.
    pub xon_bytes: Option<u64>,
    /// Priorities that share the buffer.
    pub priorities: Vec<u8>,
}

/// Where a host's payload lies.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum TargetPlan {
    /// Host memory.
    Memory(MemoryPlan),
    /// GPU memory, peer to peer.
    Gpu(GpuPlan),
}

/// A memory controller and the part of the last-level cache that I/O writes to.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryPlan {
    /// The controller.
    pub own: MemoryParameters,
    /// How I/O writes into the cache. None: I/O writes to memory.
    pub ddio: Option<DdioParameters>,
}

/// A GPU's BAR1 behind another root port.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuPlan {
    /// The GPU's memory and the way to it.
    pub own: GpuParameters,
    /// Stalls, during which the GPU serves nothing, if any.
    pub stalls: Option<StallsParameters>,
}

impl HostPathPlan {
    /// Refuses settings that are out of bounds.
    pub(super) fn check_settings(&self, place: &str) -> Result<(), PlanError> {
        in_bounds(&format!("{place}.receive_buffer"), &self.receive_buffer)?;
        in_bounds(&format!("{place}.pause"), &self.pause)?;
        in_bounds(&format!("{place}.pcie"), &self.pcie)?;
        if let Some(reads) = &self.reads {
            in_bounds(&format!("{place}.reads"), reads)?;
        }
        match &self.target {
            TargetPlan::Memory(MemoryPlan { own, ddio }) => {
                in_bounds(&format!("{place}.memory"), own)?;
                ddio.map_or(Ok(()), |ddio| in_bounds(&format!("{place}.ddio"), &ddio))
            }
            TargetPlan::Gpu(GpuPlan { own, stalls }) => {
                in_bounds(&format!("{place}.gpu"), own)?;
                stalls.map_or(Ok(()), |stalls| in_bounds(&format!("{place}.stalls"), &stalls))
            }
        }
    }

    /// The first problem of the plan, if there is one.
    pub(super) fn problem(&self) -> Option<String> {
        self.buffers_problem().or_else(|| self.pcie_problem())
    }

    fn buffers_problem(&self) -> Option<String> {
        let mut seen = 0u8;
        for (index, buffer) in self.receive_buffers.iter().enumerate() {
            let place = format!("receive_buffers[{index}]");
            for &priority in &buffer.priorities {
                if priority as usize >= CLASSES {
                    return Some(format!("{place}: a priority is above 7"));
                }
                if seen & (1 << priority) != 0 {
                    return Some(format!("{place}: priority {priority} is in two buffers"));
                }
                seen |= 1 << priority;
            }
            match (buffer.xoff_bytes, buffer.xon_bytes) {
                (None, None) => {}
                (Some(xoff), Some(xon)) if xon < xoff && xoff <= self.receive_buffer.lossless_size.0 => {}
                (Some(_), Some(_)) => {
                    return Some(format!("{place}: expected xon below xoff, and xoff at most lossless_size"))
                }
                _ => return Some(format!("{place}: xoff_bytes and xon_bytes go together")),
            }
        }
        if self.receive_buffers.len() > CLASSES || seen != u8::MAX {
            return Some("receive_buffers: expected up to 8 that take each priority once".into());
        }
        None
    }

    fn pcie_problem(&self) -> Option<String> {
        let pcie = &self.pcie;
        if !pcie.max_payload.0.is_power_of_two() {
            Some("pcie.max_payload is not a power of two".into())
        } else if !(12..=64).contains(&self.tlp_overhead_bytes) {
            Some("tlp_overhead_bytes is not in 12 to 64".into())
        } else if (pcie.iio_lines as u64) < pcie.max_payload.0.div_ceil(LINE_BYTES) {
            Some("pcie.iio_lines is below a full write".into())
        } else {
            None
        }
    }

    /// Data credits for writes: the root port's, or what may be in flight to a GPU where that is less.
    pub(crate) fn data_credits(&self) -> u64 {
        let buffer = self.pcie.iio_lines as u64 * LINE_BYTES;
        let bytes = match &self.target {
            TargetPlan::Memory(_) => buffer,
            TargetPlan::Gpu(gpu) => buffer.min(gpu.own.outstanding.0),
        };
        bytes / DATA_CREDIT_BYTES
    }
}
