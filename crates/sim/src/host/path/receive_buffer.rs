//! The NIC's receive buffer: where packets wait for PCIe.
//!
//! Source: `mlnx_qos` and the devlink and dcbnl interfaces of mlx5: the port's buffer is split into parts, each with the
//! priorities that use it, its size, and for lossless ones xoff and xon. What passes xoff has the NIC ask its peer for a pause
//! of the priorities of that buffer, what falls to xon ends it (IEEE 802.1Qbb). A lossy buffer that is full drops
//! (`rx_discards_phy`); from a threshold on the NIC tells senders by CNPs of its own.
//!
//! Buffers take turns, a packet each.
//!
//! Leaves out: cells, and the spare part that no priority uses.

use super::settings::ReceiveBufferParameters;
use crate::engine::Fifo;
use crate::fabric::lanes::CLASSES;
use crate::gauge::Gauge;
use crate::plan::ReceiveBufferPlan;

/// One part of the buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReceiveBuffer {
    pub size: u64,
    pub xoff: Option<u64>,
    pub xon: u64,
    /// Priorities that use it.
    pub priorities: u8,
    pub fifo: Fifo,
    pub bytes: u64,
    pub max_bytes: u64,
    pub paused: bool,
}

/// A NIC's receive buffer.
#[derive(Debug)]
pub(crate) struct ReceiveBuffers {
    pub parts: Vec<ReceiveBuffer>,
    /// By priority.
    pub of: [u8; CLASSES],
    /// Parts with a packet.
    pub waiting: u8,
    /// Part served last.
    pub last: u8,
    /// Part whose first packet is leaving.
    pub leaving: Option<u8>,
    /// All parts together.
    pub level: Gauge,
    pub dropped: u64,
    /// CNPs that the NIC sent for its own sake.
    pub cnps: u64,
}

impl ReceiveBuffers {
    pub fn new(sizes: &ReceiveBufferParameters, plan: &[ReceiveBufferPlan]) -> Self {
        let mut of = [0; CLASSES];
        for (index, part) in plan.iter().enumerate() {
            part.priorities.iter().for_each(|&priority| of[priority as usize] = index as u8);
        }
        let part = |part: &ReceiveBufferPlan| ReceiveBuffer {
            size: if part.xoff_bytes.is_some() { sizes.lossless_size.0 } else { sizes.lossy_size.0 },
            xoff: part.xoff_bytes,
            xon: part.xon_bytes.unwrap_or(0),
            priorities: part.priorities.iter().fold(0, |mask, priority| mask | 1 << priority),
            fifo: Fifo::EMPTY,
            bytes: 0,
            max_bytes: 0,
            paused: false,
        };
        ReceiveBuffers {
            parts: plan.iter().map(part).collect(),
            of,
            waiting: 0,
            last: 7,
            leaving: None,
            level: Gauge::default(),
            dropped: 0,
            cnps: 0,
        }
    }

    /// The part that a priority uses: its size and its xoff.
    pub fn part_of(&self, class: u8) -> (u64, Option<u64>) {
        let part = &self.parts[self.of[class as usize] as usize];
        (part.size, part.xoff)
    }

    /// The priorities that are paused together with one: those of its part.
    pub fn paused_with(&self, class: u8) -> u8 {
        self.parts[self.of[class as usize] as usize].priorities
    }
}
