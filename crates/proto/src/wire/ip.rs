//! IPv4 header (RFC 791, 3.1) without options, as annex A17 has it for RoCEv2.

use core::net::{Ipv4Addr, Ipv6Addr};

use super::{number, put, split, Error};

/// An IPv4 header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4 {
    /// Differentiated services code point, 6 bits (RFC 2474, 3).
    pub dscp: u8,
    /// Explicit congestion notification, 2 bits (RFC 3168, 5).
    pub ecn: u8,
    /// Identification. The ICRC covers it.
    pub identification: u16,
    /// Flag DF.
    pub dont_fragment: bool,
    /// Time to live.
    pub time_to_live: u8,
    /// What follows: 17 is UDP.
    pub protocol: u8,
    /// Source address.
    pub source: Ipv4Addr,
    /// Destination address.
    pub destination: Ipv4Addr,
}

/// ECN field of a packet from a sender that does not listen to marks (RFC 3168, 5).
pub const NOT_ECT: u8 = 0b00;

/// ECN-capable transport, code point 0.
pub const ECT_0: u8 = 0b10;

/// Congestion experienced.
pub const CE: u8 = 0b11;

/// `protocol` and `next_header` of UDP (IANA protocol numbers).
pub const PROTOCOL_UDP: u8 = 17;

const VERSION_AND_IHL: u8 = 0x45;
const DF: u64 = 0x4000;

impl Ipv4 {
    /// Bytes that it takes.
    pub const LEN: usize = 20;

    /// Reads the header and checks its checksum: it, and the payload, cut where the total length ends: what pads a short
    /// frame is gone.
    ///
    /// # Errors
    /// [`Error::Truncated`]; [`Error::Length`]; [`Error::Checksum`]; [`Error::Unsupported`] where it is not version 4, has
    /// options, or is a fragment.
    pub fn parse(bytes: &[u8]) -> Result<(Ipv4, &[u8]), Error> {
        let (header, _) = split::<{ Ipv4::LEN }>(bytes)?;
        let flags = number::<2>(header, 6);
        if header[0] != VERSION_AND_IHL || flags & 0x3fff != 0 {
            return Err(Error::Unsupported);
        }
        if checksum(header) != 0 {
            return Err(Error::Checksum);
        }
        let total_length = number::<2>(header, 2) as usize;
        if total_length < Ipv4::LEN {
            return Err(Error::Length);
        }
        let payload = bytes.get(Ipv4::LEN..total_length).ok_or(Error::Truncated)?;
        let ipv4 = Ipv4 {
            dscp: header[1] >> 2,
            ecn: header[1] & 3,
            identification: number::<2>(header, 4) as u16,
            dont_fragment: flags & DF != 0,
            time_to_live: header[8],
            protocol: header[9],
            source: Ipv4Addr::from_bits(number::<4>(header, 12) as u32),
            destination: Ipv4Addr::from_bits(number::<4>(header, 16) as u32),
        };
        Ok((ipv4, payload))
    }

    /// Writes the header of a packet with `payload_len` bytes of payload, checksum included, into the first [`Self::LEN`]
    /// bytes; panics if there are fewer.
    pub fn emit(&self, payload_len: u16, bytes: &mut [u8]) {
        bytes[0] = VERSION_AND_IHL;
        bytes[1] = self.dscp << 2 | self.ecn & 3;
        put::<2>(bytes, 2, payload_len as u64 + Ipv4::LEN as u64);
        put::<2>(bytes, 4, self.identification as u64);
        put::<2>(bytes, 6, if self.dont_fragment { DF } else { 0 });
        bytes[8] = self.time_to_live;
        bytes[9] = self.protocol;
        put::<2>(bytes, 10, 0);
        put::<4>(bytes, 12, self.source.to_bits() as u64);
        put::<4>(bytes, 16, self.destination.to_bits() as u64);
        let sum = checksum(&bytes[..Ipv4::LEN]);
        put::<2>(bytes, 10, sum as u64);
    }
}

/// The Internet checksum (RFC 1071) of a header; over one that has its checksum, 0.
fn checksum(header: &[u8]) -> u16 {
    let mut sum: u32 = header.chunks_exact(2).map(|word| number::<2>(word, 0) as u32).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

// IPv6 header (RFC 8200, 3) without extension headers.

/// An IPv6 header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6 {
    /// Differentiated services code point, 6 bits (RFC 2474, 3).
    pub dscp: u8,
    /// Explicit congestion notification, 2 bits (RFC 3168, 5).
    pub ecn: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// What follows: 17 is UDP.
    pub next_header: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Source address.
    pub source: Ipv6Addr,
    /// Destination address.
    pub destination: Ipv6Addr,
}

impl Ipv6 {
    /// Bytes that it takes.
    pub const LEN: usize = 40;

    /// Reads the header: it, and the payload, cut where its length ends.
    ///
    /// # Errors
    /// [`Error::Truncated`]; [`Error::Unsupported`] where it is not version 6.
    pub fn parse(bytes: &[u8]) -> Result<(Ipv6, &[u8]), Error> {
        let (header, rest) = split::<{ Ipv6::LEN }>(bytes)?;
        let first = number::<4>(header, 0) as u32;
        if first >> 28 != 6 {
            return Err(Error::Unsupported);
        }
        let payload = rest.get(..number::<2>(header, 4) as usize).ok_or(Error::Truncated)?;
        let [source, destination] =
            [8, 24].map(|at| (number::<8>(header, at) as u128) << 64 | number::<8>(header, at + 8) as u128);
        let ipv6 = Ipv6 {
            dscp: (first >> 22) as u8 & 0x3f,
            ecn: (first >> 20) as u8 & 3,
            flow_label: first & 0xf_ffff,
            next_header: header[6],
            hop_limit: header[7],
            source: Ipv6Addr::from_bits(source),
            destination: Ipv6Addr::from_bits(destination),
        };
        Ok((ipv6, payload))
    }

    /// Writes the header of a packet with `payload_len` bytes of payload into the first [`Self::LEN`] bytes; panics if there
    /// are fewer.
    pub fn emit(&self, payload_len: u16, bytes: &mut [u8]) {
        let traffic_class = (self.dscp as u32 & 0x3f) << 2 | self.ecn as u32 & 3;
        put::<4>(bytes, 0, (6 << 28 | traffic_class << 20 | self.flow_label & 0xf_ffff) as u64);
        put::<2>(bytes, 4, payload_len as u64);
        bytes[6] = self.next_header;
        bytes[7] = self.hop_limit;
        bytes[8..24].copy_from_slice(&self.source.octets());
        bytes[24..40].copy_from_slice(&self.destination.octets());
    }
}

// UDP header (RFC 768).

/// A UDP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Udp {
    /// Source port: of RoCEv2 any number, by which paths are chosen (annex A17, "RoCEv2 packet format").
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Checksum, as it is on the wire: 0 where none was made, as RoCEv2 NICs do. Not checked: the ICRC covers the packet.
    pub checksum: u16,
}

impl Udp {
    /// Bytes that it takes.
    pub const LEN: usize = 8;
    /// Destination port of RoCEv2 (annex A17; IANA `roce`).
    pub const ROCE_PORT: u16 = 4791;

    /// Reads the header: it, and the payload. What IP carries must end where the length says.
    ///
    /// # Errors
    /// [`Error::Truncated`]; [`Error::Length`].
    pub fn parse(bytes: &[u8]) -> Result<(Udp, &[u8]), Error> {
        let (header, payload) = split::<{ Udp::LEN }>(bytes)?;
        if number::<2>(header, 4) as usize != bytes.len() {
            return Err(Error::Length);
        }
        let udp = Udp {
            source_port: number::<2>(header, 0) as u16,
            destination_port: number::<2>(header, 2) as u16,
            checksum: number::<2>(header, 6) as u16,
        };
        Ok((udp, payload))
    }

    /// Writes the header of a datagram with `payload_len` bytes of payload into the first [`Self::LEN`] bytes; panics if there
    /// are fewer.
    pub fn emit(&self, payload_len: u16, bytes: &mut [u8]) {
        put::<2>(bytes, 0, self.source_port as u64);
        put::<2>(bytes, 2, self.destination_port as u64);
        put::<2>(bytes, 4, payload_len as u64 + Udp::LEN as u64);
        put::<2>(bytes, 6, self.checksum as u64);
    }
}
