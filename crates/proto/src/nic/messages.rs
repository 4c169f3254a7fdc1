//! Messages as the sending half of a queue pair sees them: a stream of packets.

use std::num::NonZeroU64;

use crate::wire::write_frame_bytes;

/// A packet of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Payload that it brings, bytes.
    pub payload_bytes: u32,
    /// Its frame, bytes.
    pub frame_bytes: u32,
}

/// What was posted, by sequence number.
pub trait Messages {
    /// A packet.
    fn segment(&self, sequence: u64) -> Segment;

    /// How many responses a packet asks for, where it is the request of a READ: it takes as many sequence numbers.
    fn responses(&self, sequence: u64) -> Option<u64>;

    /// Where a packet begins in the stream of payload.
    fn position(&self, sequence: u64) -> u64;

    /// Whether a packet is the last of a burst: bursts begin with their message, and a message's last may be shorter.
    fn ends_burst(&self, sequence: u64, burst_bytes: NonZeroU64) -> bool;
}

/// WRITEs of one size, one after the other, from sequence number 0 on. However many there are, they take no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EqualWrites {
    /// Payload of one.
    pub message_bytes: u64,
    /// Payload of a full packet.
    pub mtu: u32,
    /// Packets of one.
    pub packets_per_message: u64,
    /// Payload of its last packet.
    pub last_payload: u32,
    /// Its first packet, those between, and its last.
    segments: [Segment; 3],
}

impl EqualWrites {
    /// WRITEs of `message_bytes` each, more than none.
    pub fn new(message_bytes: u64, mtu: u32) -> Self {
        let packets = message_bytes.div_ceil(mtu as u64);
        let last_payload = (message_bytes - (packets - 1) * mtu as u64) as u32;
        let segment = |payload_bytes, is_first| Segment {
            payload_bytes,
            frame_bytes: write_frame_bytes(payload_bytes, is_first),
        };
        EqualWrites {
            message_bytes,
            mtu,
            packets_per_message: packets,
            last_payload,
            segments: [segment(mtu, true), segment(mtu, false), segment(last_payload, packets == 1)],
        }
    }

    /// Messages that are complete before a packet.
    #[inline]
    pub fn complete_before(&self, sequence: u64) -> u64 {
        sequence / self.packets_per_message
    }
}

impl Messages for EqualWrites {
    #[inline]
    fn segment(&self, sequence: u64) -> Segment {
        let [first, between, last] = &self.segments;
        if self.packets_per_message == 1 {
            return *last;
        }
        let position = sequence % self.packets_per_message;
        if position + 1 == self.packets_per_message {
            *last
        } else if position == 0 {
            *first
        } else {
            *between
        }
    }

    #[inline]
    fn responses(&self, _: u64) -> Option<u64> {
        None
    }

    fn position(&self, sequence: u64) -> u64 {
        let (messages, packets) = (sequence / self.packets_per_message, sequence % self.packets_per_message);
        messages * self.message_bytes + packets * self.mtu as u64
    }

    fn ends_burst(&self, sequence: u64, burst_bytes: NonZeroU64) -> bool {
        let after = sequence % self.packets_per_message + 1;
        after == self.packets_per_message || after.is_multiple_of(burst_bytes.get().div_ceil(self.mtu as u64))
    }
}
