//! Packets and the lists they stand in.

use crate::engine::prefetch;

/// No packet, no path, no slot.
pub(super) const NONE: u32 = u32::MAX;

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

/// A packet, 28 B.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    pub flow: u32,
    /// First byte of the payload; expected byte of an ACK; 1 or 0 in a PFC frame that pauses or resumes.
    pub seq: u32,
    /// The packet behind it in a list.
    pub next: u32,
    /// Port that it came into a switch by.
    pub ingress: u32,
    /// Place in the paths of the port that it leaves the next switch by.
    pub path: u32,
    pub wire: u16,
    /// Bytes of payload; the priority that a PFC frame is about.
    pub payload: u16,
    pub kind: Kind,
    pub priority: u8,
    pub flags: u8,
}

/// All packets that exist.
#[derive(Debug)]
pub(super) struct Packets {
    slots: Vec<Packet>,
    free: u32,
}

impl Default for Packets {
    fn default() -> Self {
        Packets { slots: Vec::new(), free: NONE }
    }
}

impl std::ops::Index<u32> for Packets {
    type Output = Packet;
    #[inline]
    fn index(&self, at: u32) -> &Packet {
        &self.slots[at as usize]
    }
}

impl std::ops::IndexMut<u32> for Packets {
    #[inline]
    fn index_mut(&mut self, at: u32) -> &mut Packet {
        &mut self.slots[at as usize]
    }
}

impl Packets {
    #[inline]
    pub fn add(&mut self, packet: Packet) -> u32 {
        if self.free == NONE {
            self.slots.push(packet);
            return self.slots.len() as u32 - 1;
        }
        let at = self.free;
        self.free = self[at].next;
        self[at] = packet;
        at
    }

    /// Asks for a packet's memory.
    #[inline]
    pub fn prefetch(&self, at: u32) {
        prefetch(&self.slots, at as usize);
    }

    #[inline]
    pub fn remove(&mut self, at: u32) {
        self[at].next = self.free;
        self.free = at;
    }
}

/// First in, first out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fifo {
    head: u32,
    tail: u32,
}

impl Default for Fifo {
    fn default() -> Self {
        Fifo { head: NONE, tail: NONE }
    }
}

impl Fifo {
    /// The first packet, or [`NONE`].
    #[inline]
    pub fn first(&self) -> u32 {
        self.head
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head == NONE
    }

    #[inline]
    pub fn push(&mut self, packets: &mut Packets, at: u32) {
        packets[at].next = NONE;
        if self.head == NONE {
            self.head = at;
        } else {
            packets[self.tail].next = at;
        }
        self.tail = at;
    }

    #[inline]
    pub fn pop(&mut self, packets: &Packets) -> Option<u32> {
        let at = self.head;
        if at == NONE {
            return None;
        }
        self.head = packets[at].next;
        Some(at)
    }
}

impl Fifo {
    /// Its packets, first to last.
    pub fn iter<'a>(&self, packets: &'a Packets) -> impl Iterator<Item = &'a Packet> {
        let mut at = self.head;
        std::iter::from_fn(move || {
            if at == NONE {
                return None;
            }
            let packet = &packets[at];
            at = packet.next;
            Some(packet)
        })
    }
}
