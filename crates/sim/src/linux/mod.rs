//! The Linux path: cores, NAPI, and what forwards packets on them.

pub(crate) mod bridge;
pub(crate) mod core;
pub(crate) mod device;
pub(crate) mod egress;
pub(crate) mod moderation;
pub(crate) mod napi;
pub(crate) mod veth;

pub use bridge::{BqlParameters, BridgeCosts, BridgeParameters};
pub use moderation::CoalescingParameters;
pub use veth::{ConsumerParameters, Kernel, Polling, VethBql, VethSettings};

use bridge::{Bridge, BridgePort};
use device::Channel;
use egress::Egress;
use napi::{Napi, Output, Thread};
use tailback_proto::aqm::skb::{DropReason, Skb};

/// All Linux hosts of a run.
#[derive(Debug, Default)]
pub(crate) struct Linux {
    pub cores: Vec<core::Core>,
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

impl crate::world::World {
    #[inline(never)] // what most runs never need stays out of the way of what they do
    pub(crate) fn on_linux_timer(&mut self, timer: u32) {
        match self.linux.timers[timer as usize] {
            Timer::VethWatchdog(end) => self.on_veth_watchdog(end),
            Timer::VethShaper(end) => self.on_veth_shaper(end),
            Timer::Flood(flood) => self.on_flood_timer(flood),
            Timer::Ping(ping) => self.on_ping_timer(ping),
            Timer::Frames(source) => self.on_frames_timer(source),
            Timer::Watchdog { egress } => self.on_watchdog_of(egress),
        }
    }

    /// The moderated interrupt of a NAPI instance may be due.
    #[inline(never)] // what most runs never need stays out of the way of what they do
    pub(crate) fn on_linux_irq(&mut self, napi: u32) {
        match self.linux.napis[napi as usize] {
            Napi::Channel(channel) => self.on_moderation(channel),
            Napi::Veth(_) => unreachable!("a veth has no interrupt"),
        }
    }
}
