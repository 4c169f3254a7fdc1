//! Frames of RoCEv2 and PFC as bytes, and how many bytes each takes.
//!
//! Each header is a plain struct: `parse` reads it from the front of some bytes and hands back what follows, `emit`
//! writes it. Lengths and checksums are not fields: they follow from what a frame holds, and [`Frame`], which is a whole
//! RoCEv2 frame, fills them in and checks them. Reserved bits are written as 0 and ignored when read. Nothing allocates, and
//! no input makes `parse` panic.
//!
//! Sources: InfiniBand architecture specification, volume 1 ("IBTA" in this module), chapter 9, and its annex A17 (RoCEv2);
//! IEEE 802.3; 802.1Q with 802.1Qbb (PFC); RFC 791, 8200 and 768.
//!
//! Leaves out: the FCS, which NICs add and strip; more than one VLAN tag; IPv4 options and IPv6 extension headers; reading TCP,
//! which has sizes here and no contents; and of IBTA's extended headers those of datagrams and of invalidation.

pub mod bth;
pub mod ethernet;
pub mod icrc;
pub mod ip;

use core::fmt;

use crate::wire::ip::PROTOCOL_UDP;

pub use crate::wire::bth::{
    Aeth, AtomicAckEth, AtomicEth, Bth, Extension, ExtensionKind, ImmDt, NakCode, Opcode, Reth, Syndrome,
    TransportHeaders,
};
pub use crate::wire::ethernet::{EtherType, Ethernet, MacAddress, Pfc, Vlan};
pub use crate::wire::ip::{Ipv4, Ipv6, Udp};

/// Why bytes are not a frame, or a frame cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// They end inside a header, or before what a length field says.
    Truncated,
    /// The buffer is shorter than the frame.
    BufferTooShort,
    /// Not one of the headers that this module knows, or a version or option of it that it does not.
    Unsupported,
    /// A length field, or the pad count, does not fit the rest.
    Length,
    /// The header checksum of IPv4 is wrong.
    Checksum,
    /// The invariant CRC is wrong.
    Icrc,
    /// The extended headers are not those that the opcode calls for.
    Opcode,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Error::Truncated => "the frame ends too early",
            Error::BufferTooShort => "the buffer is too short for the frame",
            Error::Unsupported => "a header or option that is not read here",
            Error::Length => "a length field disagrees with the frame",
            Error::Checksum => "the IPv4 header checksum is wrong",
            Error::Icrc => "the invariant CRC is wrong",
            Error::Opcode => "the extended headers are not those of the opcode",
        })
    }
}

impl core::error::Error for Error {}

/// The first `N` bytes, and the rest.
fn split<const N: usize>(bytes: &[u8]) -> Result<(&[u8; N], &[u8]), Error> {
    bytes.split_first_chunk().ok_or(Error::Truncated)
}

/// Big-endian number in `N` bytes from `at` on.
fn number<const N: usize>(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + N].iter().fold(0, |number, &byte| number << 8 | byte as u64)
}

/// Writes the low `N` bytes of a number, big-endian, from `at` on.
fn put<const N: usize>(bytes: &mut [u8], at: usize, number: u64) {
    bytes[at..at + N].copy_from_slice(&number.to_be_bytes()[8 - N..]);
}

// A whole RoCEv2 frame, from its Ethernet header to its ICRC (annex A17, "RoCEv2 packet format").

/// An IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ip {
    V4(Ipv4),
    V6(Ipv6),
}

impl Ip {
    fn parse(ether_type: EtherType, bytes: &[u8]) -> Result<(Ip, &[u8]), Error> {
        match ether_type {
            EtherType::IPV4 => Ipv4::parse(bytes).map(|(ip, payload)| (Ip::V4(ip), payload)),
            EtherType::IPV6 => Ipv6::parse(bytes).map(|(ip, payload)| (Ip::V6(ip), payload)),
            _ => Err(Error::Unsupported),
        }
    }

    /// Bytes that it takes.
    pub const fn header_len(&self) -> usize {
        match self {
            Ip::V4(_) => Ipv4::LEN,
            Ip::V6(_) => Ipv6::LEN,
        }
    }

    /// What follows.
    pub const fn protocol(&self) -> u8 {
        match self {
            Ip::V4(ip) => ip.protocol,
            Ip::V6(ip) => ip.next_header,
        }
    }

    /// Explicit congestion notification, 2 bits.
    pub const fn ecn(&self) -> u8 {
        match self {
            Ip::V4(ip) => ip.ecn,
            Ip::V6(ip) => ip.ecn,
        }
    }

    const fn ether_type(&self) -> EtherType {
        match self {
            Ip::V4(_) => EtherType::IPV4,
            Ip::V6(_) => EtherType::IPV6,
        }
    }
}

/// A VLAN tag's priority, drop eligibility and VLAN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// Priority code point, 3 bits.
    pub pcp: u8,
    /// Drop eligible indicator.
    pub dei: bool,
    /// VLAN identifier, 12 bits.
    pub vid: u16,
}

/// A RoCEv2 frame without its FCS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Destination address.
    pub destination: MacAddress,
    /// Source address.
    pub source: MacAddress,
    /// VLAN tag.
    pub tag: Option<Tag>,
    /// IP header.
    pub ip: Ip,
    /// UDP header.
    pub udp: Udp,
    /// BTH and extended headers.
    pub headers: TransportHeaders,
    /// Message bytes, without pad.
    pub payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Reads a frame and checks its ICRC. What pads it to Ethernet's least length is ignored.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where it is no RoCEv2 frame; the others where it is a broken one.
    pub fn parse(bytes: &'a [u8]) -> Result<Frame<'a>, Error> {
        let (ethernet, rest) = Ethernet::parse(bytes)?;
        let (tag, ether_type, packet) = if ethernet.ether_type == EtherType::VLAN {
            let (Vlan { pcp, dei, vid, ether_type }, rest) = Vlan::parse(rest)?;
            (Some(Tag { pcp, dei, vid }), ether_type, rest)
        } else {
            (None, ethernet.ether_type, rest)
        };
        let (ip, datagram) = Ip::parse(ether_type, packet)?;
        if ip.protocol() != PROTOCOL_UDP {
            return Err(Error::Unsupported);
        }
        let (udp, transport) = Udp::parse(datagram)?;
        if udp.destination_port != Udp::ROCE_PORT {
            return Err(Error::Unsupported);
        }
        let (transport, icrc) = transport.split_last_chunk().ok_or(Error::Truncated)?;
        let covered = ip.header_len() + Udp::LEN + transport.len();
        if icrc::icrc(&packet[..covered])? != u32::from_le_bytes(*icrc) {
            return Err(Error::Icrc);
        }
        let (headers, padded) = TransportHeaders::parse(transport)?;
        let payload_len = padded.len().checked_sub(headers.bth.pad_cnt as usize).ok_or(Error::Length)?;
        Ok(Frame {
            destination: ethernet.destination,
            source: ethernet.source,
            tag,
            ip,
            udp,
            headers,
            payload: &padded[..payload_len],
        })
    }

    /// Bytes that it takes, without FCS, padded to the least that Ethernet takes.
    pub fn frame_len(&self) -> usize {
        self.unpadded_len().max(Ethernet::MIN_FRAME_LEN - Ethernet::FCS_LEN)
    }

    fn unpadded_len(&self) -> usize {
        let tag = if self.tag.is_some() { Vlan::LEN } else { 0 };
        Ethernet::LEN + tag + self.ip.header_len() + Udp::LEN + self.transport_len()
    }

    fn transport_len(&self) -> usize {
        self.headers.header_len() + self.payload.len().next_multiple_of(4) + icrc::LEN
    }

    /// Writes the frame, with lengths, header checksum, pads and ICRC, into the front of a buffer: the bytes written.
    ///
    /// # Errors
    /// [`Error::BufferTooShort`]; [`Error::Opcode`]; [`Error::Length`] where the BTH's pad count is not that of the payload,
    /// or the payload is longer than a packet can be.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, Error> {
        if self.headers.bth.pad_cnt != bth::pad_cnt(self.payload.len()) {
            return Err(Error::Length);
        }
        let transport_len = self.transport_len();
        let udp_len = u16::try_from(transport_len).map_err(|_| Error::Length)?;
        let ip_len = udp_len.checked_add(Udp::LEN as u16).ok_or(Error::Length)?;
        if ip_len > u16::MAX - Ipv4::LEN as u16 {
            return Err(Error::Length);
        }
        let len = self.frame_len();
        let bytes = buffer.get_mut(..len).ok_or(Error::BufferTooShort)?;
        let (bytes, ethernet_pad) = bytes.split_at_mut(self.unpadded_len());
        ethernet_pad.fill(0);

        let ether_type = if self.tag.is_some() { EtherType::VLAN } else { self.ip.ether_type() };
        Ethernet { destination: self.destination, source: self.source, ether_type }.emit(bytes);
        let mut packet = &mut bytes[Ethernet::LEN..];
        if let Some(Tag { pcp, dei, vid }) = self.tag {
            Vlan { pcp, dei, vid, ether_type: self.ip.ether_type() }.emit(packet);
            packet = &mut packet[Vlan::LEN..];
        }
        match self.ip {
            Ip::V4(ip) => ip.emit(ip_len, packet),
            Ip::V6(ip) => ip.emit(ip_len, packet),
        }
        let datagram = &mut packet[self.ip.header_len()..];
        self.udp.emit(udp_len, datagram);
        let transport = &mut datagram[Udp::LEN..];
        self.headers.emit(transport)?;
        let padded = &mut transport[self.headers.header_len()..transport_len - icrc::LEN];
        let (payload, pad) = padded.split_at_mut(self.payload.len());
        payload.copy_from_slice(self.payload);
        pad.fill(0);
        let covered = packet.len() - icrc::LEN;
        let icrc = icrc::icrc(&packet[..covered])?;
        packet[covered..].copy_from_slice(&icrc.to_le_bytes());
        Ok(len)
    }
}

// How many bytes frames take: what the simulator counts.

/// Bytes on the wire beyond the frame's own.
pub const PREAMBLE_AND_GAP_BYTES: u32 = (Ethernet::PREAMBLE_LEN + Ethernet::GAP_LEN) as u32;

/// Frame check sequence.
pub const FCS_BYTES: u32 = Ethernet::FCS_LEN as u32;

/// IPv4 header without options.
pub const IPV4_BYTES: u32 = Ipv4::LEN as u32;

/// TCP header without options (RFC 9293, 3.1).
pub const TCP_BYTES: u32 = 20;

/// TCP's timestamp option, padded (RFC 7323, 3.2 and appendix A).
pub const TCP_TIMESTAMP_BYTES: u32 = 12;

const fn frame(bytes: usize) -> u32 {
    if bytes < Ethernet::MIN_FRAME_LEN {
        Ethernet::MIN_FRAME_LEN as u32
    } else {
        bytes as u32
    }
}

/// RoCEv2 frame over IPv4 without VLAN tag, from destination address to FCS, in bytes. The payload is padded to a multiple
/// of 4 (BTH PadCnt).
pub const fn roce_frame_bytes(opcode: Opcode, payload: u32) -> u32 {
    let headers = Ethernet::LEN + Ipv4::LEN + Udp::LEN + Bth::LEN + opcode.extension().header_len();
    frame(headers + payload.next_multiple_of(4) as usize + icrc::LEN + Ethernet::FCS_LEN)
}

/// Frame of an RDMA WRITE packet, in bytes. `first`: the first or only packet of its message, which carries the RETH.
pub const fn write_frame_bytes(payload: u32, first: bool) -> u32 {
    roce_frame_bytes(if first { Opcode::WriteFirst } else { Opcode::WriteMiddle }, payload)
}

/// Frame of a TCP segment over IPv4 with a timestamp option, in bytes. Options are padded to words: 12 bytes for the
/// timestamp, and 4 and 8 for each of `sack_blocks` (RFC 2018, 3; RFC 7323, appendix A).
pub const fn tcp_frame_bytes(payload: u32, sack_blocks: u32) -> u32 {
    let sack = if sack_blocks > 0 { 4 + 8 * sack_blocks } else { 0 };
    let segment = IPV4_BYTES + TCP_BYTES + TCP_TIMESTAMP_BYTES + sack + payload;
    frame(Ethernet::LEN + segment as usize + Ethernet::FCS_LEN)
}

/// Frame of an ACK or NAK, in bytes.
pub const ACK_FRAME_BYTES: u32 = roce_frame_bytes(Opcode::Acknowledge, 0);

/// Frame of a congestion notification packet, in bytes.
pub const CNP_FRAME_BYTES: u32 = roce_frame_bytes(Opcode::Cnp, 0);

/// Frame of an RHCC probe and of its answer, in bytes. Its format is not published; assumption: as a CNP, with
/// timestamps in place of the reserved bytes.
pub const PROBE_FRAME_BYTES: u32 = CNP_FRAME_BYTES;

/// A PFC frame.
pub const PFC_FRAME_BYTES: u32 = (Pfc::LEN + Ethernet::FCS_LEN) as u32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_middle_packet_of_4096_takes_4178_on_the_wire() {
        // 82 B of overhead a packet: 8 + 14 + 20 + 8 + 12 + 4 + 4 + 12.
        assert_eq!(write_frame_bytes(4096, false) + PREAMBLE_AND_GAP_BYTES, 4096 + 82);
        assert_eq!(write_frame_bytes(4096, true) + PREAMBLE_AND_GAP_BYTES, 4096 + 98);
    }

    #[test]
    fn sixteen_packets_of_a_64_kib_write_average_4179() {
        let total: u32 = (0..16).map(|i| write_frame_bytes(4096, i == 0) + PREAMBLE_AND_GAP_BYTES).sum();
        assert_eq!(total, 16 * 4179);
    }

    #[test]
    fn a_full_segment_at_mtu_1500_carries_1448_of_1538() {
        assert_eq!(tcp_frame_bytes(1448, 0) + PREAMBLE_AND_GAP_BYTES, 1538);
        assert_eq!(tcp_frame_bytes(0, 0), 70);
        assert_eq!(tcp_frame_bytes(0, 3), 98);
    }

    #[test]
    fn cnp_is_74_bytes_without_fcs() {
        assert_eq!(CNP_FRAME_BYTES - FCS_BYTES, 74);
    }

    #[test]
    fn short_frames_are_padded() {
        assert_eq!(write_frame_bytes(1, false), 66);
        assert_eq!(ACK_FRAME_BYTES, 66);
        assert_eq!(frame(20), 64);
    }
}
