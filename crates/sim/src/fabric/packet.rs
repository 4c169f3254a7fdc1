//! Packets and the arena that they live in. A packet is 32 bytes: two share a cache line.

use tailback_proto::units::Time;
use tailback_proto::wire::PREAMBLE_AND_GAP_BYTES;

/// Index of no packet.
pub(crate) const NONE: u32 = u32::MAX;

/// What a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Data,
    Ack,
    Nak,
    Cnp,
    Pfc,
    /// A TCP segment with data, or a probe of a closed window.
    Tcp,
    /// A TCP segment without data.
    TcpAck,
}

pub(crate) const KINDS: usize = 7;

impl Kind {
    /// Whether it is data on its way from an application to another.
    pub fn is_data(self) -> bool {
        matches!(self, Kind::Data | Kind::Tcp)
    }

    /// Whether it is for the CPU of the host that it goes to.
    #[inline]
    pub fn is_tcp(self) -> bool {
        self as u8 >= Kind::Tcp as u8
    }
}

/// ECN field is CE.
pub(crate) const CE: u8 = 1;
/// BTH AckReq.
pub(crate) const ACK_REQUEST: u8 = 2;
/// The packet that this one answers was marked CE; of TCP, ECE: one of those was.
pub(crate) const CE_ECHO: u8 = 4;
/// ECN field is ECT: switches may mark it.
pub(crate) const ECT: u8 = 8;
/// TCP's CWR.
pub(crate) const CWR: u8 = 16;

/// A packet. Which host sent it follows from `qp` and `kind`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    /// When it reaches the node at the other end of the link that it is on.
    pub arrival: Time,
    /// Connection. For PFC frames: low byte the classes named, next byte those of them that are paused.
    pub qp: u32,
    /// PSN of data, ACK and NAK; of a CNP, when it was made.
    pub psn: u32,
    /// Next in the queue or on the link that it is in.
    pub next: u32,
    /// Bytes on the wire: frame, preamble and gap.
    pub wire_bytes: u16,
    /// Message bytes carried.
    pub payload_bytes: u16,
    /// Host that it goes to.
    pub dst: u16,
    /// Port of the switch that it came in by, counted from the switch's first.
    pub ingress: u16,
    pub kind: Kind,
    /// Class in the node that it is in, by that node's classification.
    pub class: u8,
    pub flags: u8,
    /// DSCP and PCP: index into the plan's code points.
    pub code_point: u8,
}

impl Packet {
    /// Bytes that it takes in a buffer.
    pub fn frame_bytes(&self) -> u32 {
        self.wire_bytes as u32 - PREAMBLE_AND_GAP_BYTES
    }
}

/// All packets that exist. Freed places are used again, so nothing is allocated once the run is warm.
#[derive(Debug)]
pub(crate) struct Arena {
    packets: Vec<Packet>,
    free: u32,
}

impl Arena {
    pub fn new() -> Self {
        Arena { packets: Vec::new(), free: NONE }
    }

    pub fn add(&mut self, packet: Packet) -> u32 {
        if self.free == NONE {
            self.packets.push(packet);
            return self.packets.len() as u32 - 1;
        }
        let index = self.free;
        self.free = self.packets[index as usize].next;
        self.packets[index as usize] = packet;
        index
    }

    /// Asks for a packet's memory.
    #[inline]
    pub fn prefetch(&self, index: Option<u32>) {
        if let Some(index) = index {
            crate::engine::prefetch(&self.packets, index as usize);
        }
    }

    pub fn remove(&mut self, index: u32) {
        self.packets[index as usize].next = self.free;
        self.free = index;
    }
}

impl std::ops::Index<u32> for Arena {
    type Output = Packet;
    fn index(&self, index: u32) -> &Packet {
        &self.packets[index as usize]
    }
}

impl std::ops::IndexMut<u32> for Arena {
    fn index_mut(&mut self, index: u32) -> &mut Packet {
        &mut self.packets[index as usize]
    }
}

/// A first-in first-out list of packets, linked through [`Packet::next`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fifo {
    head: u32,
    tail: u32,
}

impl Fifo {
    pub const EMPTY: Fifo = Fifo { head: NONE, tail: NONE };

    pub fn is_empty(&self) -> bool {
        self.head == NONE
    }

    pub fn head(&self) -> Option<u32> {
        (self.head != NONE).then_some(self.head)
    }

    pub fn push(&mut self, arena: &mut Arena, index: u32) {
        arena[index].next = NONE;
        if self.head == NONE {
            self.head = index;
        } else {
            arena[self.tail].next = index;
        }
        self.tail = index;
    }

    pub fn pop(&mut self, arena: &Arena) -> Option<u32> {
        let index = self.head()?;
        self.head = arena[index].next;
        Some(index)
    }

    pub fn iter<'a>(&self, arena: &'a Arena) -> impl Iterator<Item = &'a Packet> {
        let mut next = self.head;
        std::iter::from_fn(move || {
            let packet = (next != NONE).then(|| &arena[next])?;
            next = packet.next;
            Some(packet)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_half_a_cache_line() {
        assert_eq!(std::mem::size_of::<Packet>(), 32);
    }
}
