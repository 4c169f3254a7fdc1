//! Packets. A packet is 32 bytes: two share a cache line.

use rand_core::Rng;
use std::num::NonZeroU16;
use tailback_proto::congestion::builtin::Congestion;
use tailback_proto::congestion::hpcc::{Digests, EgressLoad, MAX_HOPS};
use tailback_proto::congestion::HopTelemetry;
use tailback_proto::units::{Rate, Time};
use tailback_proto::wire::PREAMBLE_AND_GAP_BYTES;

use super::{lane, Lanes, CLASSES};
use crate::engine::{mix, stream, uniform, Linked, Stream};

pub(crate) use crate::engine::NONE;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum PacketKind {
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

impl PacketKind {
    /// True if it carries data from one application to another.
    pub fn is_data(self) -> bool {
        matches!(self, PacketKind::Data | PacketKind::Tcp)
    }

    /// True if it is for the CPU of the host that it goes to.
    #[inline]
    pub fn is_tcp(self) -> bool {
        self as u8 >= PacketKind::Tcp as u8
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

/// The packet that a NAK answers was trimmed.
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
    /// Where it came in: at a switch the port, counted from the switch's first; at a bridge the channel.
    pub ingress: u16,
    pub kind: PacketKind,
    /// Class in the node that it is in, by that node's classification.
    pub class: u8,
    pub flags: u8,
    /// DSCP and PCP: index into the plan's code points.
    pub code_point: u8,
}

/// A field whose meaning depends on the packet's kind: a PSN, a time, or nothing. Read it through [`Packet`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Detail(u32);

impl Detail {
    pub const NONE: Detail = Detail(0);

    /// For data, trimmed or not, ACKs and NAKs.
    pub fn psn(psn: u32) -> Detail {
        Detail(psn)
    }

    /// For a CNP: when it was made. It wraps every 4.3 s, longer than any CNP travels.
    pub fn made(now: Time) -> Detail {
        Detail(nanoseconds(now) as u32)
    }

    /// For a probe's answer: the receiver's processing delay, in whole nanoseconds.
    pub fn processing(delay: Time) -> Detail {
        Detail(u32::try_from(nanoseconds(delay)).unwrap_or(u32::MAX))
    }
}

/// Payload bytes, or by how many packets it is ahead of a PSN: which one depends on the packet's kind. Read it through
/// [`Packet`], as [`Detail`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Amount(u16);

impl Amount {
    pub const NONE: Amount = Amount(0);

    /// For data and TCP segments: message bytes.
    pub fn payload(bytes: u32) -> Amount {
        Amount(bytes as u16)
    }

    /// For a NAK of selective repeat: by how many packets the one that it answers is ahead of its PSN.
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
        debug_assert!(matches!(
            self.kind,
            PacketKind::Data | PacketKind::Trimmed | PacketKind::Ack | PacketKind::Nak
        ));
        self.detail.0
    }

    /// It has another PSN.
    pub fn renumber(&mut self, psn: u32) {
        self.detail = Detail::psn(psn);
    }

    /// Message bytes that data or a TCP segment carries.
    #[inline]
    pub fn payload_bytes(&self) -> u32 {
        debug_assert!(self.kind == PacketKind::Data || self.kind.is_tcp());
        self.amount.0 as u32
    }

    /// By how many packets the one that a NAK answers is ahead of its PSN; 0: the receiver does not repeat selectively.
    #[inline]
    pub fn ahead(&self) -> u32 {
        debug_assert_eq!(self.kind, PacketKind::Nak);
        self.amount.0 as u32
    }

    /// How long ago a CNP was made, ns.
    pub fn age_ns(&self, now: Time) -> u64 {
        debug_assert_eq!(self.kind, PacketKind::Cnp);
        (nanoseconds(now) as u32).wrapping_sub(self.detail.0) as u64
    }

    /// The receiver's processing delay, of a probe's answer.
    pub fn processing(&self) -> Time {
        debug_assert_eq!(self.kind, PacketKind::ProbeAck);
        Time::from_ns(self.detail.0 as u64)
    }

    /// Bytes that it takes in a buffer.
    pub fn frame_bytes(&self) -> u32 {
        self.wire_bytes as u32 - PREAMBLE_AND_GAP_BYTES
    }
}

/// Fates of data packets.
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

// What packets carry for congestion control besides their headers: a timestamp, and what each hop wrote.
//
// It lies beside the packet arena, indexed like it, and takes no memory where no NIC asks for it. A data packet's
// entry begins when it is sent; switches add to it; the ACK that answers it takes a copy back.
//
// Source of what a hop writes: Li et al., "HPCC", SIGCOMM 2019, section 4. Bytes sent are those on the wire, preamble
// and gap included, so that a full link reads as full whatever the packet size.
//
// Where a controller asks for digests, switches make one number of their load, and a packet keeps the largest
// ([`tailback_proto::congestion::pint`]). Their average is of an egress queue: the load of the link, and that queue.
//
// Leaves out: that the header grows from hop to hop (its size on the wire is the same from the start).

/// Payload of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// In an answer: when the packet that it answers was sent.
    pub sent_at: Time,
    /// In an answer: the receiving host's processing time.
    pub receiver_delay: Time,
    /// Switches that it passed.
    pub passed: u8,
    hops: u8,
    /// Largest load of its route.
    pub digest: Option<NonZeroU16>,
    hop: [HopTelemetry; MAX_HOPS],
}

impl Entry {
    /// The telemetry that its hops wrote.
    pub fn hops(&self) -> &[HopTelemetry] {
        &self.hop[..self.hops as usize]
    }
}

const EMPTY: Entry = Entry {
    sent_at: Time::ZERO,
    receiver_delay: Time::ZERO,
    passed: 0,
    hops: 0,
    digest: None,
    hop: [HopTelemetry { at: Time::ZERO, tx_bytes: 0, queue_bytes: 0, rate: Rate(1) }; MAX_HOPS],
};

/// State of switches for digests.
#[derive(Debug)]
struct Digesting {
    digests: Digests,
    /// Of the hash that says which packets carry one.
    key: u64,
    /// By egress queue.
    loads: Lanes<EgressLoad>,
    /// By port: chance takes a load up or down.
    streams: Vec<Stream>,
}

impl Digesting {
    fn new(digests: Digests, seed: u64, streams: impl Iterator<Item = u64>) -> Self {
        let streams: Vec<Stream> = streams.map(|number| stream(seed, "digest", number)).collect();
        let loads = Lanes::new(streams.len(), EgressLoad::default());
        Digesting { digests, key: stream(seed, "digest carriers", 0).next_u64(), loads, streams }
    }

    /// A data packet of a queue pair leaves an egress queue: its digest of that, if it carries one.
    fn digest(&mut self, port: usize, class: u8, id: (u32, u32), hop: &HopTelemetry) -> Option<NonZeroU16> {
        let load = self.digests.measure(&mut self.loads[(port, class)], hop);
        let hash = mix(self.key ^ ((id.0 as u64) << 32 | id.1 as u64));
        let is_carrier = self.digests.is_carrier(hash as u32);
        is_carrier.then(|| self.digests.code(load, uniform(&mut self.streams[port])))
    }
}

/// The telemetry of all packets.
#[derive(Debug)]
pub(crate) struct Telemetry {
    entries: Vec<Entry>,
    /// True if switches write anything.
    pub is_on: bool,
    /// True if each hop writes its load.
    hops: bool,
    digesting: Option<Box<Digesting>>,
}

impl Telemetry {
    /// None.
    pub const OFF: Telemetry = Telemetry { entries: Vec::new(), is_on: false, hops: false, digesting: None };

    /// The telemetry that these controllers use. `streams`: the numbers of the ports' random streams.
    ///
    /// # Errors
    /// They disagree on digests.
    pub fn asked_for<'a>(
        controllers: impl Iterator<Item = &'a Congestion>,
        seed: u64,
        streams: impl Iterator<Item = u64>,
    ) -> Result<Self, &'static str> {
        let (mut hops, mut agreed) = (false, None);
        for controller in controllers {
            let (uses, digests) = (controller.uses(), controller.digests());
            hops |= uses.hop_count || uses.telemetry && digests.is_none();
            if digests.is_some_and(|digests| *agreed.get_or_insert(digests) != digests) {
                return Err("digests that differ; expected one base_rtt, base, probability and telemetry: a switch has one average");
            }
        }
        let digesting = agreed.map(|digests| Box::new(Digesting::new(digests.clone(), seed, streams)));
        Ok(Telemetry { is_on: hops || digesting.is_some(), hops, digesting, ..Telemetry::OFF })
    }

    /// A data packet leaves its sender, which stamps it with this time.
    pub fn begin(&mut self, packet: u32, stamp: Time) {
        let entry = self.entry(packet);
        entry.sent_at = stamp;
        (entry.passed, entry.hops, entry.digest) = (0, 0, None);
    }

    /// A data packet, a queue pair's by its PSN, leaves a queue of a switch. Hops beyond the header's room write nothing.
    pub fn add_hop(&mut self, packet: u32, id: (u32, u32), port: usize, class: u8, hop: HopTelemetry) {
        let digest = self.digesting.as_mut().and_then(|digesting| digesting.digest(port, class, id, &hop));
        // A packet of a NIC without telemetry may lie beyond the entries: it has none.
        let Some(entry) = self.entries.get_mut(packet as usize) else { return };
        entry.digest = entry.digest.max(digest);
        if self.hops {
            entry.passed = entry.passed.saturating_add(1);
            if let Some(place) = entry.hop.get_mut(entry.hops as usize) {
                *place = hop;
                entry.hops += 1;
            }
        }
    }

    /// Takes over what switches kept of a port in another part of the fabric.
    pub fn absorb_port(&mut self, other: &mut Telemetry, port: usize) {
        if let (Some(own), Some(other)) = (&mut self.digesting, &mut other.digesting) {
            std::mem::swap(&mut own.streams[port], &mut other.streams[port]);
            for at in (0..CLASSES as u8).map(|class| lane(port, class)) {
                std::mem::swap(&mut own.loads[at], &mut other.loads[at]);
            }
        }
    }

    /// `answer` carries back what `packet` brought.
    pub fn echo(&mut self, packet: u32, answer: u32, receiver_delay: Time) {
        let entry = *self.entry(packet);
        *self.entry(answer) = Entry { receiver_delay, ..entry };
    }

    pub fn of(&mut self, packet: u32) -> &Entry {
        self.entry(packet)
    }

    /// A packet's entry, where it has one: for another part of the fabric.
    pub fn carried(&self, packet: u32) -> Option<Entry> {
        (!self.entries.is_empty()).then(|| self.entries.get(packet as usize).copied().unwrap_or(EMPTY))
    }

    /// The entry that a packet has there.
    pub fn set(&mut self, packet: u32, entry: Entry) {
        *self.entry(packet) = entry;
    }

    fn entry(&mut self, packet: u32) -> &mut Entry {
        let index = packet as usize;
        if index >= self.entries.len() {
            self.entries.resize(index + 1, EMPTY);
        }
        &mut self.entries[index]
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
