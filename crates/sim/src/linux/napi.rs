//! What a core's units of work do, by the kind of NAPI instance, transmit queue or thread they belong to.

use super::core::{Purpose, Unit};
use crate::world::World;
use tailback_proto::units::Time;

/// A NAPI instance.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Napi {
    /// A channel of a bridge's port: transmit completions, then received packets.
    Channel(u32),
    /// Polls the ring of an end of a veth pair.
    Veth(u32),
}

/// A transmit queue that `__netif_schedule` names.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Output {
    /// A queueing discipline of a bridge's port.
    Bridge(u32),
    /// Of an end of a veth pair.
    Veth(u32),
}

/// A thread.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Thread {
    /// A virtual CPU that never sleeps.
    Guest,
    /// NAPI of the ring of an end of a veth pair (`napi_threaded_poll`).
    VethNapi(u32),
    /// Sends datagrams.
    Flood(u32),
}

/// A virtual CPU runs until the scheduler's tick, at 1000 Hz.
const TICK: Time = Time::from_us(1_000);

impl World {
    /// Begins the next unit of a poll that has used `used` of its weight. `None`: the poll is over.
    pub(super) fn napi_unit(&mut self, core: u32, napi: u32, used: u32) -> Option<Unit> {
        match self.linux.napis[napi as usize] {
            Napi::Channel(channel) => self.channel_unit(core, channel, used),
            Napi::Veth(end) => self.veth_poll_unit(end),
        }
    }

    /// A unit of a poll ends: it takes effect.
    pub(super) fn napi_unit_ends(&mut self, core: u32, napi: u32) {
        match self.linux.napis[napi as usize] {
            Napi::Channel(channel) => self.channel_unit_ends(core, channel),
            Napi::Veth(end) => self.veth_poll_unit_ends(core, end),
        }
    }

    /// A poll is over. `true`: there is more, and the instance stays on the list; else its interrupt is enabled again.
    pub(super) fn napi_poll_ends(&mut self, core: u32, napi: u32, used: u32) -> bool {
        match self.linux.napis[napi as usize] {
            Napi::Channel(channel) => self.channel_poll_ends(channel, used),
            Napi::Veth(end) => self.veth_poll_ends(core, end),
        }
    }

    /// Begins the next unit of a transmit queue that runs again. `None`: it is empty, or its quota is used up.
    pub(super) fn output_unit(&mut self, core: u32, queue: u32) -> Option<Unit> {
        match self.linux.outputs[queue as usize] {
            Output::Bridge(egress) => self.output_egress_unit(core, egress),
            Output::Veth(end) => self.veth_output_unit(end),
        }
    }

    /// A unit of a transmit queue ends: it takes effect.
    pub(super) fn output_unit_ends(&mut self, core: u32, queue: u32) {
        match self.linux.outputs[queue as usize] {
            Output::Bridge(egress) => self.output_egress_unit_ends(egress),
            Output::Veth(end) => self.veth_output_unit_ends(core, end),
        }
    }

    /// Begins the next unit of a thread. `None`: it sleeps.
    pub(super) fn thread_unit(&mut self, core: u32, thread: u32) -> Option<Unit> {
        match self.linux.threads[thread as usize] {
            Thread::Guest => Some(Unit { cost: TICK, weight: 0, purpose: Purpose::Guest }),
            Thread::VethNapi(end) => self.veth_thread_unit(core, end),
            Thread::Flood(flood) => self.flood_unit(flood),
        }
    }

    /// A unit of a thread ends: it takes effect. `true`: the thread wants the core again.
    pub(super) fn thread_unit_ends(&mut self, core: u32, thread: u32) -> bool {
        match self.linux.threads[thread as usize] {
            Thread::Guest => {}
            Thread::VethNapi(end) => self.veth_poll_unit_ends(core, end),
            Thread::Flood(flood) => self.flood_unit_ends(core, flood),
        }
        true
    }
}
