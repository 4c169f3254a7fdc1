//! A Linux bridge.

use super::core::Unit;
use crate::world::World;

impl World {
    pub(super) fn channel_unit(&mut self, _core: u32, _channel: u32, _used: u32) -> Option<Unit> {
        None
    }

    pub(super) fn channel_unit_ends(&mut self, _core: u32, _channel: u32) {}

    pub(super) fn channel_poll_ends(&mut self, _channel: u32, _used: u32) -> bool {
        false
    }

    pub(super) fn qdisc_unit(&mut self, _core: u32, _qdisc: u32) -> Option<Unit> {
        None
    }

    pub(super) fn qdisc_unit_ends(&mut self, _core: u32, _qdisc: u32) {}

    pub(super) fn on_moderation(&mut self, _channel: u32) {}
}
