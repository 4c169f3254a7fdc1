//! Packets.

use crate::engine::Linked;
/// No packet, no route, no slot.
pub(super) use crate::engine::NONE;
use crate::gauge::Came;

/// What a packet on a link has for the one behind it: it stands in no list, as the calendar knows when it arrives.
pub(super) const ON_WIRE: u32 = NONE - 1;

/// What a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Data,
    Ack,
    Nack,
    Pfc,
}

/// Congestion was experienced.
pub(super) const CE: u8 = 1;
/// An ACK's CNP flag.
pub(super) const CNP: u8 = 2;
/// Of a PFC frame: it pauses. Else it resumes.
pub(super) const PAUSE: u8 = 4;

/// A packet, 28 B.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    pub flow: u32,
    /// Position in the flow's bytes: of data its first; of an ACK or NACK the one that is expected.
    pub seq: u32,
    /// The packet behind it in a list, or [`ON_WIRE`].
    pub next: u32,
    /// Port at the end of the link that it is on, or that it came by.
    pub ingress: u32,
    /// Place in the routes of the port that it leaves the next switch by.
    pub route: u32,
    pub wire: u16,
    /// Bytes of payload.
    pub payload: u16,
    pub kind: Kind,
    pub priority: u8,
    pub flags: u8,
    /// Of a PFC frame: the priority that it is about.
    pub paused_priority: u8,
    /// To the queue of a switch.
    pub came: Came,
}

impl Linked for Packet {
    #[inline]
    fn next(&self) -> u32 {
        self.next
    }

    #[inline]
    fn set_next(&mut self, next: u32) {
        self.next = next;
    }
}
