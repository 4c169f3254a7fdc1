//! What the two ends say to each other, decoded.

use crate::units::Time;

/// SACK blocks that fit beside a timestamp in 40 bytes of options (RFC 2018, 3).
pub const MAX_SACK_BLOCKS: usize = 3;

/// The SACK blocks of an ACK: ranges `start..end` of the stream, the one of the newest segment first (RFC 2018, 4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SackBlocks {
    blocks: [(u64, u64); MAX_SACK_BLOCKS],
    count: u8,
}

impl SackBlocks {
    /// Adds a block; `false` where there is no room left.
    pub fn push(&mut self, start: u64, end: u64) -> bool {
        let room = (self.count as usize) < MAX_SACK_BLOCKS;
        if room {
            self.blocks[self.count as usize] = (start, end);
            self.count += 1;
        }
        room
    }

    /// The blocks, the newest first.
    pub fn as_slice(&self) -> &[(u64, u64)] {
        &self.blocks[..self.count as usize]
    }
}

/// Segments that the sender hands down at once: all new data, or all sent before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// Where it begins.
    pub position: u64,
    /// Payload: whole segments, except for what ends the stream or a gap. 0: a window probe, an empty segment that the receiver
    /// answers at once (Linux, `tcp_output.c`, `tcp_xmit_probe_skb`).
    pub bytes: u32,
    /// Whether it was sent before.
    pub retransmission: bool,
    /// CWR on its first segment (RFC 3168, 6.1.2).
    pub cwr: bool,
    /// Whether its segments are ECN-capable: new data, and with DCTCP everything (RFC 3168, 6.1.5; Linux,
    /// `tcp_output.c`, `tcp_ecn_send`).
    pub ect: bool,
}

/// A data segment, or a run of them that the receiving host merged (GRO).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataSegment {
    /// Where it begins.
    pub position: u64,
    /// Payload.
    pub bytes: u32,
    /// Segments merged into it, at least 1.
    pub segments: u32,
    /// CE on all of them: merging keeps marked and unmarked ones apart.
    pub ce: bool,
    /// CWR on its first segment.
    pub cwr: bool,
    /// Timestamp of its first segment: when it was sent.
    pub sent_at: Time,
}

/// An ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckSegment {
    /// All of the stream before it arrived.
    pub ack: u64,
    /// Bytes from `ack` on that the receiver takes.
    pub window: u64,
    /// Ranges beyond `ack` that arrived.
    pub sack: SackBlocks,
    /// ECN-Echo.
    pub ece: bool,
    /// Timestamp echo (RFC 7323, 4.3): when the segment was sent that this answers.
    pub echo: Time,
}
