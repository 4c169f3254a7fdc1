//! What is noted of ports that are captured: what they send, and what is dropped at them or behind them. Whoever captures takes
//! it after each event.

use tailback_proto::units::Time;

use super::drops::DropReason;
use super::packet::{Packet, CE};
use super::port::TAPPED;
use super::Fabric;

/// What a port did.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Noted {
    /// It sends a packet, whose first bit leaves at `at`. `marked`: whether it was marked CE before this port.
    Sent { port: usize, index: u32, at: Time, marked: bool },
    /// It sends a PFC frame: the classes that it names, and those of them that it pauses.
    Pause { port: usize, named: u8, paused: u8 },
    /// A packet is dropped at it or behind it.
    Dropped { port: usize, index: u32, packet: Packet, reason: DropReason },
}

impl Fabric {
    /// Notes from now on what a port does.
    pub fn tap(&mut self, port: usize) {
        self.ports[port].flags |= TAPPED;
    }

    #[inline(never)] // what most runs never need stays out of the way of what they do
    pub(super) fn note_sent(&mut self, port: usize, index: u32, at: Time) {
        let marked = self.packets[index].flags & CE != 0;
        self.taps.push(Noted::Sent { port, index, at, marked });
    }

    pub(super) fn note_pause(&mut self, port: usize, named: u8, paused: u8) {
        if self.ports[port].flags & TAPPED != 0 {
            self.taps.push(Noted::Pause { port, named, paused });
        }
    }

    /// `port`: as [`Fabric::drop_packet`] has it. A packet that the node behind a link refuses is noted at the port that
    /// it left by.
    pub(super) fn note_dropped(&mut self, port: usize, index: u32, reason: DropReason) {
        let refused = reason.is_ingress() || reason == DropReason::ReceiveRing;
        let port = if refused { self.ports[port].peer as usize } else { port };
        if self.ports[port].flags & TAPPED != 0 {
            self.taps.push(Noted::Dropped { port, index, packet: self.packets[index], reason });
        }
    }
}
