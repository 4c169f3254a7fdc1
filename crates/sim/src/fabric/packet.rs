//! Packets. A packet is 32 bytes: two share a cache line.

use tailback_proto::units::Time;
use tailback_proto::wire::PREAMBLE_AND_GAP_BYTES;

use crate::engine::Linked;
pub(crate) use crate::engine::NONE;

/// What a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Data,
    Ack,
    Nak,
    Cnp,
    /// RHCC's probe and its answer.
    Probe,
    ProbeAck,
    /// Data whose payload a switch trimmed.
    Trimmed,
    /// A TCP segment with data, or a probe of a closed window.
    Tcp,
    /// A TCP segment without data.
    TcpAck,
}

pub(crate) const KINDS: usize = 9;

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
/// What a NAK answers was trimmed.
pub(crate) const TRIMMED: u8 = 32;

/// A packet. Which host sent it follows from `qp` and `kind`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    /// On a link: when it reaches the node at the other end; there it stays. In builds with assertions a queue has it anew.
    pub arrival: Time,
    /// Connection.
    pub qp: u32,
    pub detail: Detail,
    /// Next in the queue or on the link that it is in.
    pub next: u32,
    /// Bytes on the wire: frame, preamble and gap.
    pub wire_bytes: u16,
    pub amount: Amount,
    /// Host that it goes to.
    pub dst: u16,
    /// What it came in by: of a switch the port, counted from the switch's first; of a bridge the channel.
    pub ingress: u16,
    pub kind: Kind,
    /// Class in the node that it is in, by that node's classification.
    pub class: u8,
    pub flags: u8,
    /// DSCP and PCP: index into the plan's code points.
    pub code_point: u8,
}

/// What a packet carries that others of its kind carry, and no other kind: a PSN, a time, or nothing. Read through
/// [`Packet`], which knows its kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Detail(u32);

impl Detail {
    pub const NONE: Detail = Detail(0);

    /// Of data, trimmed or not, ACKs and NAKs.
    pub fn psn(psn: u32) -> Detail {
        Detail(psn)
    }

    /// Of a CNP: when it was made. It comes round every 4.3 s, longer than any is on its way.
    pub fn made(now: Time) -> Detail {
        Detail(nanoseconds(now) as u32)
    }

    /// Of a probe's answer: the receiver's processing delay, in whole nanoseconds.
    pub fn processing(delay: Time) -> Detail {
        Detail(u32::try_from(nanoseconds(delay)).unwrap_or(u32::MAX))
    }
}

/// How much a packet carries, or how far ahead it is: its kind knows which. Read through [`Packet`], as [`Detail`] is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Amount(u16);

impl Amount {
    pub const NONE: Amount = Amount(0);

    /// Of data and TCP segments: message bytes.
    pub fn payload(bytes: u32) -> Amount {
        Amount(bytes as u16)
    }

    /// Of a NAK of selective repeat: by how many packets the one that it answers is ahead of its PSN.
    pub fn ahead(packets: u32) -> Amount {
        Amount(packets as u16)
    }
}

fn nanoseconds(time: Time) -> u64 {
    time.0 / 1000
}

impl Packet {
    /// PSN of data, of an ACK or a NAK.
    #[inline]
    pub fn psn(&self) -> u32 {
        debug_assert!(matches!(self.kind, Kind::Data | Kind::Trimmed | Kind::Ack | Kind::Nak));
        self.detail.0
    }

    /// It has another PSN.
    pub fn renumber(&mut self, psn: u32) {
        self.detail = Detail::psn(psn);
    }

    /// Message bytes that data or a TCP segment carries.
    #[inline]
    pub fn payload_bytes(&self) -> u32 {
        debug_assert!(self.kind == Kind::Data || self.kind.is_tcp());
        self.amount.0 as u32
    }

    /// By how many packets the one that a NAK answers is ahead of its PSN; 0: the receiver does not repeat selectively.
    #[inline]
    pub fn ahead(&self) -> u32 {
        debug_assert_eq!(self.kind, Kind::Nak);
        self.amount.0 as u32
    }

    /// How long ago a CNP was made, ns.
    pub fn age_ns(&self, now: Time) -> u64 {
        debug_assert_eq!(self.kind, Kind::Cnp);
        (nanoseconds(now) as u32).wrapping_sub(self.detail.0) as u64
    }

    /// The receiver's processing delay, of a probe's answer.
    pub fn processing(&self) -> Time {
        debug_assert_eq!(self.kind, Kind::ProbeAck);
        Time::from_ns(self.detail.0 as u64)
    }

    /// Bytes that it takes in a buffer.
    pub fn frame_bytes(&self) -> u32 {
        self.wire_bytes as u32 - PREAMBLE_AND_GAP_BYTES
    }
}

/// What became of data packets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DataTally {
    pub sent: u64,
    pub delivered: u64,
    pub duplicate: u64,
    pub out_of_sequence: u64,
    pub dropped: u64,
}

impl DataTally {
    /// Adds those of another part of the network.
    pub fn add(&mut self, other: &DataTally) {
        self.sent += other.sent;
        self.delivered += other.delivered;
        self.duplicate += other.duplicate;
        self.out_of_sequence += other.out_of_sequence;
        self.dropped += other.dropped;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_half_a_cache_line() {
        assert_eq!(std::mem::size_of::<Packet>(), 32);
    }
}
