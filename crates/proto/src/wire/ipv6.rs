//! IPv6 header (RFC 8200, 3) without extension headers.

use super::{number, put, split, Error};
use core::net::Ipv6Addr;

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
