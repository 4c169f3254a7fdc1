//! The Linux path: cores, NAPI, and what forwards packets on them.

pub(crate) mod bridge;
mod build;
pub(crate) mod channel;
pub(crate) mod core;
pub(crate) mod costs;
mod device;
pub(crate) mod egress;
mod forward;
pub(crate) mod moderation;
pub(crate) mod napi;
mod qdisc_run;
mod softirq;
mod units;
pub(crate) mod veth;

#[cfg(test)]
mod tests;

use bridge::{Bridge, BridgePort};
use channel::Channel;
use egress::Egress;
use napi::{Napi, Output, Thread};
use tailback_proto::aqm::skb::{DropReason, Skb};

/// All Linux hosts of a run.
#[derive(Debug, Default)]
pub(crate) struct Linux {
    pub cores: Vec<core::LinuxCore>,
    pub napis: Vec<Napi>,
    pub outputs: Vec<Output>,
    pub threads: Vec<Thread>,
    pub timers: Vec<Timer>,
    pub bridges: Vec<Bridge>,
    /// All their ports, which are the last ports of the world.
    pub bridge_ports: Vec<BridgePort>,
    pub first_bridge_port: usize,
    pub channels: Vec<Channel>,
    pub egresses: Vec<Egress>,
    /// Packets that a queueing discipline dropped from its queue, not yet accounted for.
    drops: Vec<(Skb, DropReason)>,
    pub veths: veth::Veths,
}

/// What a [`crate::event::Event::LinuxTimer`] stands for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Timer {
    /// The watchdog of an end of a veth pair.
    VethWatchdog(u32),
    /// The queueing discipline of an end of a veth pair may let go of a packet (`qdisc_watchdog`).
    VethShaper(u32),
    /// A thread that sends datagrams.
    Flood(u32),
    /// The next echo request.
    Ping(u32),
    /// The next batch of XDP frames.
    Frames(u32),
    /// The same of a bridge.
    Watchdog { egress: u32 },
}
