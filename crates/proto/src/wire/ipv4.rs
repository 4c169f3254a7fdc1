//! IPv4 header (RFC 791, 3.1) without options, as annex A17 has it for RoCEv2.

use super::{number, put, split, Error};
use core::net::Ipv4Addr;

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
