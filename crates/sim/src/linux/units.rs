//! What a core's units of work do, by the kind of NAPI instance, transmit queue or thread they belong to; and what timers do.

use tailback_proto::units::Time;

use super::core::Unit;
use super::napi::{Napi, Output, Thread};
use super::{Linux, Timer};
use crate::cores::Purpose;
use crate::fabric::Fabric;

/// A virtual CPU runs until the scheduler's tick, at 1000 Hz.
const TICK: Time = Time::from_us(1_000);

impl Linux {
    /// Begins the next unit of a poll that has used `used` of its weight. `None`: the poll is over.
    pub(super) fn napi_unit(&mut self, fabric: &mut Fabric, core: u32, napi: u32, used: u32) -> Option<Unit> {
        match self.napis[napi as usize] {
            Napi::Channel(channel) => self.channel_unit(fabric, core, channel, used),
            Napi::Veth(end) => self.veth_poll_unit(fabric, end),
        }
    }

    /// A unit of a poll ends: it takes effect.
    pub(super) fn napi_unit_ends(&mut self, fabric: &mut Fabric, core: u32, napi: u32) {
        match self.napis[napi as usize] {
            Napi::Channel(channel) => self.channel_unit_ends(fabric, core, channel),
            Napi::Veth(end) => self.veth_poll_unit_ends(fabric, core, end),
        }
    }

    /// A poll is over. `true`: there is more, and the instance stays on the list; else its interrupt is enabled again.
    pub(super) fn napi_poll_ends(&mut self, fabric: &mut Fabric, core: u32, napi: u32, used: u32) -> bool {
        match self.napis[napi as usize] {
            Napi::Channel(channel) => self.channel_poll_ends(fabric, channel, used),
            Napi::Veth(end) => self.veth_poll_ends(fabric, core, end),
        }
    }

    /// Begins the next unit of a transmit queue that runs again. `None`: it is empty, or its quota is used up.
    pub(super) fn output_unit(&mut self, fabric: &mut Fabric, core: u32, queue: u32) -> Option<Unit> {
        match self.outputs[queue as usize] {
            Output::Bridge(egress) => self.output_egress_unit(fabric, core, egress),
            Output::Veth(end) => self.veth_output_unit(end),
        }
    }

    /// A unit of a transmit queue ends: it takes effect.
    pub(super) fn output_unit_ends(&mut self, fabric: &mut Fabric, core: u32, queue: u32) {
        match self.outputs[queue as usize] {
            Output::Bridge(egress) => self.output_egress_unit_ends(fabric, egress),
            Output::Veth(end) => self.veth_output_unit_ends(fabric, core, end),
        }
    }

    /// Begins the next unit of a thread. `None`: it sleeps.
    pub(super) fn thread_unit(&mut self, fabric: &mut Fabric, core: u32, thread: u32) -> Option<Unit> {
        match self.threads[thread as usize] {
            Thread::Guest => Some(Unit { cost: TICK, weight: 0, purpose: Purpose::Guest }),
            Thread::VethNapi(end) => self.veth_thread_unit(fabric, core, end),
            Thread::Flood(flood) => self.flood_unit(fabric, flood),
        }
    }

    /// A unit of a thread ends: it takes effect. `true`: the thread wants the core again.
    pub(super) fn thread_unit_ends(&mut self, fabric: &mut Fabric, core: u32, thread: u32) -> bool {
        match self.threads[thread as usize] {
            Thread::Guest => {}
            Thread::VethNapi(end) => self.veth_poll_unit_ends(fabric, core, end),
            Thread::Flood(flood) => self.flood_unit_ends(fabric, core, flood),
        }
        true
    }
}

impl Linux {
    #[inline(never)] // what most runs never need stays out of the way of what they do
    pub(crate) fn on_linux_timer(&mut self, fabric: &mut Fabric, timer: u32) {
        match self.timers[timer as usize] {
            Timer::VethWatchdog(end) => self.on_veth_watchdog(fabric, end),
            Timer::VethShaper(end) => self.on_veth_shaper(fabric, end),
            Timer::Flood(flood) => self.on_flood_timer(fabric, flood),
            Timer::Ping(ping) => self.on_ping_timer(fabric, ping),
            Timer::Frames(source) => self.on_frames_timer(fabric, source),
            Timer::Watchdog { egress } => self.on_watchdog_of(fabric, egress),
        }
    }

    /// The moderated interrupt of a NAPI instance may be due.
    #[inline(never)] // what most runs never need stays out of the way of what they do
    pub(crate) fn on_linux_irq(&mut self, fabric: &mut Fabric, napi: u32) {
        match self.napis[napi as usize] {
            Napi::Channel(channel) => self.on_moderation(fabric, channel),
            Napi::Veth(_) => unreachable!("a veth has no interrupt"),
        }
    }
}
