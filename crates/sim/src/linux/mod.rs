//! The Linux path: cores, NAPI, and what forwards by them.

mod bridge;
pub(crate) mod core;
pub(crate) mod napi;

use napi::{Napi, Output, Thread};

/// All Linux hosts of a run.
#[derive(Debug, Default)]
pub(crate) struct Linux {
    pub cores: Vec<core::Core>,
    pub napis: Vec<Napi>,
    pub outputs: Vec<Output>,
    pub threads: Vec<Thread>,
    timers: Vec<Timer>,
}

/// A timer that is no core's: what [`crate::event::Event::LinuxTimer`] names.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Timer {}

impl crate::world::World {
    #[inline(never)] // what most runs never need stays out of the way of what they do
    pub(crate) fn on_linux_timer(&mut self, timer: u32) {
        match self.linux.timers[timer as usize] {}
    }

    /// The moderated interrupt of a NAPI instance may be due.
    #[inline(never)] // what most runs never need stays out of the way of what they do
    pub(crate) fn on_linux_irq(&mut self, napi: u32) {
        match self.linux.napis[napi as usize] {
            Napi::Channel(channel) => self.on_moderation(channel),
        }
    }
}
