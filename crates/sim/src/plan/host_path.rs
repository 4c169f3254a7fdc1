//! The receiving host's data path in a plan: from the NIC's receive buffer to memory.

use serde::{Deserialize, Serialize};
use tailback_proto::flow_control::pcie_credits::DATA_CREDIT_BYTES;

use super::{in_bounds, PlanError};
use crate::fabric::lanes::CLASSES;
pub use crate::host::path::ddio::DdioParameters;
pub use crate::host::path::reads::ReadsParameters;

/// What lies between a NIC's port and memory.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostPathPlan {
    /// Parts of the NIC's receive buffer.
    pub receive_buffers: Vec<ReceiveBufferPlan>,
    /// Quanta in a pause frame of the NIC.
    pub pfc_quanta: u16,
    /// From the last bit of a pause frame of the NIC to the moment that its peer is quiet.
    pub pfc_response_delay_ps: u64,
    /// A lossy receive buffer that holds more has the NIC send CNPs of its own; none: it never does.
    pub cnp_threshold_bytes: Option<u64>,
    /// The link between the NIC and the root port.
    pub pcie: PciePlan,
    /// From the last bit of a write on PCIe to its end, with nothing in its way.
    pub iio_latency_ps: u64,
    /// Where the payload goes to, and comes from.
    pub target: TargetPlan,
    /// How the NIC fetches what it sends; none: it always has it.
    pub reads: Option<ReadsParameters>,
}

/// A part of a NIC's receive buffer (`mlnx_qos` shows them).
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReceiveBufferPlan {
    /// Size.
    pub bytes: u64,
    /// A pause is asked for from this fill on; none: the buffer is lossy.
    pub xoff_bytes: Option<u64>,
    /// The pause ends at this fill.
    pub xon_bytes: Option<u64>,
    /// Priorities that share it.
    pub priorities: Vec<u8>,
}

/// A PCIe link.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PciePlan {
    /// What is left for transaction layer packets, each way.
    pub rate_bps: u64,
    /// Payload of a full write.
    pub max_payload_bytes: u64,
    /// What a write takes beside its payload: framing, sequence number, header, LCRC.
    pub tlp_overhead_bytes: u64,
    /// Posted header credits.
    pub header_credits: u64,
    /// Posted data credits, of 16 B each: the buffer of the IIO.
    pub data_credits: u64,
    /// From the end of a write to the return of its credits at the NIC.
    pub credit_latency_ps: u64,
}

/// Where the payload of a host lies.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum TargetPlan {
    /// Host memory.
    Memory(MemoryPlan),
    /// Memory of a GPU, peer to peer.
    Gpu(GpuPlan),
}

/// A memory controller and the part of the last-level cache that I/O writes to.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryPlan {
    /// All channels together.
    pub bandwidth_bps: u64,
    /// Mean time that a request takes in a bank. Under load a request waits in proportion to it.
    pub service_ps: u64,
    /// A write stays in the full queue this many times as long as a read waits.
    pub write_wait: f64,
    /// Entries of the queue of pending writes, cache lines, all channels together.
    pub write_queue_lines: u64,
    /// Reads are served for some time before a batch of writes: that time varies by this share of its mean, evenly up and
    /// down.
    pub read_spread: f64,
    /// A read of a core, with nothing in its way.
    pub cpu_latency_ps: u64,
    /// I/O writes into the cache; none: to memory.
    pub ddio: Option<DdioParameters>,
}

/// A GPU's BAR1 behind another root port.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuPlan {
    /// Reads and writes together.
    pub bandwidth_bps: u64,
    /// Hops between NUMA nodes.
    pub hops: u32,
    /// What each adds.
    pub hop_latency_ps: u64,
    /// Writes on their way between the root ports.
    pub outstanding_bytes: u64,
    /// Times in which it serves nothing; none: there are none.
    pub stalls: Option<StallsPlan>,
}

/// Times without service: gaps are drawn exponentially, durations evenly from 0 to twice the mean.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StallsPlan {
    /// Mean time from the end of one to the next.
    pub interval_ps: u64,
    /// Mean duration.
    pub duration_ps: u64,
}

/// A generator of memory traffic: cores that keep a number of cache lines outstanding, as Intel MLC does.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryLoadPlan {
    /// Name of the traffic item.
    pub name: String,
    /// Host.
    pub host: String,
    /// When it begins.
    pub start_ps: u64,
    /// When it ends; none: with the run.
    pub stop_ps: Option<u64>,
    /// Cores.
    pub cores: u32,
    /// Cache lines that each keeps outstanding.
    pub lines_per_core: u32,
    /// Share of its traffic that is read.
    pub read_share: f64,
}

/// Longest latency that a part of the path may have: a path is nanoseconds long, and a mistaken unit shows.
const MAX_LATENCY_PS: u64 = 1_000_000_000_000;
/// Largest packet's payload.
const MAX_PAYLOAD_BYTES: u64 = 4096;

impl HostPathPlan {
    /// Refuses settings outside of their bounds.
    pub(super) fn check_settings(&self, place: &str) -> Result<(), PlanError> {
        if let Some(reads) = &self.reads {
            in_bounds(&format!("{place}.reads"), reads)?;
        }
        match &self.target {
            TargetPlan::Memory(MemoryPlan { ddio: Some(ddio), .. }) => {
                in_bounds(&format!("{place}.ddio"), ddio)
            }
            _ => Ok(()),
        }
    }

    /// What is wrong with it, if anything.
    pub(super) fn problem(&self) -> Option<String> {
        self.buffers_problem().or_else(|| self.pcie_problem()).or_else(|| match &self.target {
            TargetPlan::Memory(memory) => memory.problem(),
            TargetPlan::Gpu(gpu) => gpu.problem(),
        })
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
            if !buffer.priorities.is_empty() && !(9216..=1 << 30).contains(&buffer.bytes) {
                return Some(format!("{place}: bytes is not in 9216 (a jumbo frame) to 2^30"));
            }
            match (buffer.xoff_bytes, buffer.xon_bytes) {
                (None, None) => {}
                (Some(xoff), Some(xon)) if xon < xoff && xoff <= buffer.bytes => {}
                (Some(_), Some(_)) => return Some(format!("{place}: xon below xoff up to bytes is needed")),
                _ => return Some(format!("{place}: xoff_bytes and xon_bytes go together")),
            }
        }
        if self.receive_buffers.len() > CLASSES || seen != u8::MAX {
            return Some("receive_buffers: up to 8 that take each priority once are needed".into());
        }
        (self.pfc_quanta < 2).then(|| "pfc_quanta must be above 1".into())
    }

    fn pcie_problem(&self) -> Option<String> {
        let pcie = &self.pcie;
        let payload_credits = pcie.max_payload_bytes.div_ceil(DATA_CREDIT_BYTES);
        if !(1_000_000_000..=100_000_000_000_000).contains(&pcie.rate_bps) {
            Some("pcie.rate_bps is not in 1e9 to 1e14".into())
        } else if ![128, 256, 512, 1024, 2048, 4096].contains(&pcie.max_payload_bytes) {
            Some("pcie.max_payload_bytes is not 128 to 4096 in powers of two".into())
        } else if !(12..=64).contains(&pcie.tlp_overhead_bytes) {
            Some("pcie.tlp_overhead_bytes is not in 12 to 64".into())
        } else if pcie.header_credits == 0 || pcie.header_credits > 1 << 20 {
            Some("pcie.header_credits is not in 1 to 2^20".into())
        } else if pcie.data_credits < payload_credits || pcie.data_credits > 1 << 24 {
            Some(format!("pcie.data_credits is not in {payload_credits} (a full write) to 2^24"))
        } else if pcie.credit_latency_ps.max(self.iio_latency_ps) > MAX_LATENCY_PS {
            Some("a latency is above 1 s".into())
        } else {
            None
        }
    }

    /// Credits for data that a write may take: those of the root port, or what may be on its way to a GPU.
    pub(crate) fn data_credits(&self) -> u64 {
        match &self.target {
            TargetPlan::Memory(_) => self.pcie.data_credits,
            TargetPlan::Gpu(gpu) => self.pcie.data_credits.min(gpu.outstanding_bytes / DATA_CREDIT_BYTES),
        }
    }
}

impl MemoryPlan {
    fn problem(&self) -> Option<String> {
        if !(1_000_000_000..=100_000_000_000_000).contains(&self.bandwidth_bps) {
            return Some("memory.bandwidth_bps is not in 1e9 to 1e14".into());
        }
        if self.service_ps > MAX_LATENCY_PS || self.cpu_latency_ps > MAX_LATENCY_PS {
            return Some("memory: a latency is above 1 s".into());
        }
        if self.cpu_latency_ps == 0 {
            return Some("memory.cpu_latency_ps must be above 0".into());
        }
        if !(0.0..=1e6).contains(&self.write_wait) {
            return Some("memory.write_wait is not in 0 to 1e6".into());
        }
        if !(2..=1 << 20).contains(&self.write_queue_lines) {
            return Some("memory.write_queue_lines is not in 2 to 2^20".into());
        }
        if !(0.0..=1.0).contains(&self.read_spread) {
            return Some("memory.read_spread is not in 0 to 1".into());
        }
        None
    }
}

impl GpuPlan {
    fn problem(&self) -> Option<String> {
        if !(100_000_000..=100_000_000_000_000).contains(&self.bandwidth_bps) {
            return Some("gpu.bandwidth_bps is not in 1e8 to 1e14".into());
        }
        if self.hops > 16 || self.hop_latency_ps > MAX_LATENCY_PS {
            return Some("gpu: more than 16 hops, or a hop_latency_ps above 1 s".into());
        }
        if self.outstanding_bytes < MAX_PAYLOAD_BYTES {
            return Some("gpu.outstanding_bytes is below 4096 (the largest write)".into());
        }
        if self.stalls.as_ref().is_some_and(|stalls| stalls.interval_ps == 0) {
            return Some("gpu.stalls.interval_ps must be above 0".into());
        }
        None
    }
}

impl MemoryLoadPlan {
    /// What is wrong with it, if anything.
    pub(super) fn problem(&self) -> Option<&'static str> {
        if self.stop_ps.is_some_and(|stop| stop <= self.start_ps) {
            Some("stop_ps is not after start_ps")
        } else if self.cores == 0
            || self.lines_per_core == 0
            || self.cores > 4096
            || self.lines_per_core > 4096
        {
            Some("cores and lines_per_core are not in 1 to 4096")
        } else if !(0.0..=1.0).contains(&self.read_share) {
            Some("read_share is not in 0 to 1")
        } else {
            None
        }
    }
}
