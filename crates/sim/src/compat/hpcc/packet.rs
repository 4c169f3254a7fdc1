//! Packets, and all else that stands in the calendar.

use crate::engine::Linked;
/// No packet, no route, no slot.
pub(super) use crate::engine::NONE;
use crate::gauge::Came;

/// What a packet on a link has for the one behind it where it comes in after the end of the run, and so is in no list.
pub(super) const ON_WIRE: u32 = NONE - 1;

/// What a packet is, or what else happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Data,
    Ack,
    Nack,
    Pfc,
    /// A port has sent its packet. Its place is its port's.
    Sent,
    /// A host's port may have something to send. So is this one's.
    Wake,
    /// Something else, which its `route` names.
    Event,
}

/// Congestion was experienced.
pub(super) const CE: u8 = 1;
/// An ACK's CNP flag.
pub(super) const CNP: u8 = 2;
/// Of a PFC frame: it pauses. Else it resumes.
pub(super) const PAUSE: u8 = 4;
/// The bits above the flags are the priority.
const PRIORITY_SHIFT: u32 = 5;

/// A packet, or another event: two share a cache line, and what comes in is found where the calendar has it.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))] // in one cache line, wherever the first one lies
pub(super) struct Packet {
    /// Order among the events of a list of the calendar.
    pub key: u64,
    /// What stands behind it in a list.
    pub next: u32,
    /// Port at the end of the link that it is on, or that it came by.
    pub ingress: u32,
    /// Of another event: what it is about.
    pub flow: u32,
    /// Position in the flow's bytes: of data its first; of an ACK or NACK the one that is expected. Of a PFC frame the priority
    /// that it is about.
    pub seq: u32,
    /// Place in the routes of the port that it leaves the next switch by. Of another event: which.
    pub route: u32,
    pub wire: u16,
    pub kind: Kind,
    /// And its priority.
    pub flags: u8,
    /// To the queue of a switch.
    pub came: Came,
}

impl Packet {
    /// Nothing yet, of a kind.
    pub fn new(kind: Kind, priority: u8) -> Self {
        Packet {
            key: 0,
            next: NONE,
            ingress: NONE,
            flow: NONE,
            seq: 0,
            route: 0,
            wire: 0,
            kind,
            flags: priority << PRIORITY_SHIFT,
            came: Came::default(),
        }
    }

    #[inline]
    pub fn priority(&self) -> u8 {
        self.flags >> PRIORITY_SHIFT
    }

    /// Has these flags, and no others.
    #[inline]
    pub fn flag(&mut self, flags: u8) {
        self.flags = self.priority() << PRIORITY_SHIFT | flags;
    }
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

// Two share a cache line; with assertions each has what Little's law needs besides.
#[cfg(not(debug_assertions))]
const _: () = assert!(size_of::<Packet>() == 32);
