//! The NIC: queue pairs, arbitration and pacing on the way out; transport and notification point on the way in.
//!
//! Where the host behind the NIC has no path of its own (`host::path`), it is ideal: memory takes every byte at once, so the
//! NIC never runs out of receive buffer and never asks for a pause itself. Leaves out: the NIC's caches, and the time to
//! fetch a packet again.

mod buffer;
mod host_path;
mod latency;
pub(crate) mod model;
pub(crate) mod pair_counts;
mod parts;
mod post;
mod probe;
pub(crate) mod qp;
mod receive;
pub(crate) mod slots;
mod transmit;

#[cfg(test)]
mod tests;

pub(crate) use model::NicModel;

use pair_counts::PairCounts;
use qp::{RecvQp, SendQp};
use slots::Slots;

use std::collections::HashMap;
use tailback_proto::congestion::notification_point::NotificationPoint;
use tailback_proto::nic::{Arbiter, Counters};
use tailback_proto::units::Time;

use crate::fabric::lanes::CLASSES;
use crate::fabric::Fabric;
use crate::host::path::{HostPath, LoadChange};
use crate::workload::latency::LatencyTest;
use crate::workload::Writer;

/// A NIC.
#[derive(Debug)]
pub(crate) struct Nic {
    pub port: u32,
    pub model: u32,
    /// The host marks what it receives, before the transport sees it.
    pub marks_ce: bool,
    /// Queue pairs and Ethernet rings that may send now.
    pub arbiter: Arbiter<CLASSES>,
    /// Posted and not sent, by class, bytes.
    pub backlog_bytes: [i64; CLASSES],
    /// Boxed: the rest is two cache lines.
    pub counters: Box<NicCounters>,
    /// Payload of this host's messages that reached memory, and that reached this host's memory.
    pub goodput_tx_bytes: u64,
    pub goodput_rx_bytes: u64,
    /// Number of the host's path; `IDEAL`: none.
    pub host_path: u32,
    /// When the payload of the next packet is at hand; `ZERO`: always.
    pub data_ready: Time,
}

/// What a NIC counts.
#[derive(Debug, Default)]
pub(crate) struct NicCounters {
    pub rdma: Counters,
    /// How long the CNPs that were handled had been on their way, all together.
    pub cnp_delay_ns: u64,
}

/// All NICs, with their queue pairs and with the data paths of their hosts.
#[derive(Debug, Default)]
pub(crate) struct Nics {
    pub nics: Vec<Nic>,
    pub models: Vec<NicModel>,
    /// Data paths of the hosts that have one.
    pub host_paths: Vec<HostPath>,
    /// Generators of memory traffic that begin or end.
    pub memory_loads: Vec<LoadChange>,
    pub slots: Slots,
    /// By slot, as are receiving halves.
    pub send_qps: Vec<SendQp>,
    pub recv_qps: Vec<RecvQp>,
    /// One for each span of receivers that the minimum interval between CNPs holds for.
    pub notification_points: Vec<NotificationPoint>,
    /// Those that no queue pair has any more.
    pub free_points: Vec<u32>,
    /// What each queue pair sends: perftest-like writers first, then single messages.
    pub writers: Vec<Writer>,
    pub latency_tests: Vec<LatencyTest>,
    /// By slot of a single message, counted from the first one: its completion time in an empty network.
    pub ideal_fct: Vec<Time>,
    /// First queue pair of the single messages.
    pub first_flow_qp: u32,
    /// Single messages so far, by item.
    pub messages: Vec<u32>,
    /// What queue pairs delivered that have given back their slots.
    pub gone_bytes: u64,
    /// Somebody waits for the end of each message.
    pub tells_ends: bool,
    /// Notification points that several queue pairs share: of a host, its congestion control, and a sender.
    pub shared_points: HashMap<(u16, u8, Option<u16>), u32>,
    pub pair_counts: PairCounts,
}

impl std::ops::Index<usize> for Nics {
    type Output = Nic;
    #[inline]
    fn index(&self, host: usize) -> &Nic {
        &self.nics[host]
    }
}

impl std::ops::IndexMut<usize> for Nics {
    #[inline]
    fn index_mut(&mut self, host: usize) -> &mut Nic {
        &mut self.nics[host]
    }
}

/// Set in the arbiter's number of a sender that is a transmit ring of the host, and not a queue pair.
pub(crate) const ETHERNET: u32 = 1 << 31;

/// What a host does by its NIC besides RDMA.
pub(crate) trait Ethernet {
    /// A packet for its CPU has come.
    fn receive(&mut self, fabric: &mut Fabric, nics: &mut Nics, packet: u32);

    /// A transmit ring has its turn at the NIC's port, which is free: it sends its next packet.
    fn send(&mut self, fabric: &mut Fabric, nics: &mut Nics, port: usize, ring: u32);
}
