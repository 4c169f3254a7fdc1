//! A Linux bridge: a host that forwards Ethernet frames between its ports, in softirq.
//!
//! Sources: Linux net/bridge/br_input.c, br_forward.c (a frame from one port goes out by another, by its address),
//! net/core/dev.c (`netdev_pick_tx`: the transmit queue that XPS maps to the sending core, else the number of the queue that
//! received the packet), Documentation/networking/scaling.rst (RSS, XPS).
//!
//! A packet arrives in the receive ring of one of its port's channels, is polled by the core that takes that channel's interrupts, goes
//! through the queueing discipline of the other port and into a transmit ring there; completions may be served by another
//! core. ACKs and CNPs return the same way. Addresses are known from the start.
//!
//! Leaves out: learning and ageing of addresses, spanning tree, VLANs, firewall hooks, GRO and forwarding in the
//! driver (XDP), flow control of the ports (a bridge passes no pause on), and more than one host's worth of memory
//! bandwidth.

use tailback_proto::units::Time;

use crate::engine::splitmix64;
use crate::fabric::packet::{Kind, Packet};
use crate::gauge::Gauge;

/// A bridge.
#[derive(Debug)]
pub(crate) struct Bridge {
    /// First of its cores among all.
    pub first_core: u32,
}

/// What sending a packet by a port costs a core.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendCosts {
    /// To queue it and take it again.
    pub qdisc: Time,
    /// To hand it to the device.
    pub transmit: Time,
}

/// A port of a bridge.
#[derive(Debug)]
pub(crate) struct BridgePort {
    pub bridge: u32,
    pub tx_latency: Time,
    /// Its channels among all: the first, and how many.
    pub first_channel: u32,
    pub channels: u32,
    /// Channels that receive.
    pub(super) rss: Vec<u32>,
    /// By core of the bridge: the channel that XPS gives it, if any.
    pub(super) xps: Vec<Option<u32>>,
    /// By core of the bridge.
    pub send_costs: Vec<SendCosts>,
    /// Bytes in its receive rings, in its queueing disciplines, and between its transmit rings and their completions.
    pub rx_backlog: Gauge,
    pub qdisc_backlog: Gauge,
    pub tx_backlog: Gauge,
}

/// The hash of a packet's addresses and ports, for RSS and queueing disciplines.
pub(super) fn flow_hash(packet: &Packet) -> u32 {
    let forward = matches!(packet.kind, Kind::Data | Kind::Trimmed | Kind::Probe | Kind::Tcp);
    let flow = (packet.qp as u64) << 17 | (packet.dst as u64) << 1 | forward as u64;
    splitmix64(flow) as u32
}
