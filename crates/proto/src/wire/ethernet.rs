//! Ethernet header (IEEE 802.3, 3.1 and 3.2).

use super::{number, put, split, Error};
use core::fmt;

/// A MAC address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MacAddress(pub [u8; 6]);

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// What follows an Ethernet header or a VLAN tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EtherType(pub u16);

impl EtherType {
    /// RFC 894.
    pub const IPV4: EtherType = EtherType(0x0800);
    /// RFC 2464, 3.
    pub const IPV6: EtherType = EtherType(0x86dd);
    /// IEEE 802.1Q, table 9-1: a customer VLAN tag.
    pub const VLAN: EtherType = EtherType(0x8100);
    /// IEEE 802.3, 31.4.1.3: MAC control, which PFC is.
    pub const MAC_CONTROL: EtherType = EtherType(0x8808);
}

/// An Ethernet header. A VLAN tag is a header of its own, which follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ethernet {
    /// Destination address.
    pub destination: MacAddress,
    /// Source address.
    pub source: MacAddress,
    /// What follows.
    pub ether_type: EtherType,
}

impl Ethernet {
    /// Bytes that it takes.
    pub const LEN: usize = 14;
    /// Preamble and start-of-frame delimiter (IEEE 802.3, 3.2.1 and 3.2.2).
    pub const PREAMBLE_LEN: usize = 8;
    /// Inter-frame gap (IEEE 802.3, 4.4.2: interPacketGap of 96 bits).
    pub const GAP_LEN: usize = 12;
    /// Frame check sequence (IEEE 802.3, 3.2.9).
    pub const FCS_LEN: usize = 4;
    /// Shortest frame, FCS included (IEEE 802.3, 4.4.2: minFrameSize of 512 bits).
    pub const MIN_FRAME_LEN: usize = 64;

    /// Reads the header: it, and what follows.
    ///
    /// # Errors
    /// [`Error::Truncated`].
    pub fn parse(bytes: &[u8]) -> Result<(Ethernet, &[u8]), Error> {
        let (header, rest) = split::<{ Ethernet::LEN }>(bytes)?;
        let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, ..] = *header;
        let ethernet = Ethernet {
            destination: MacAddress([d0, d1, d2, d3, d4, d5]),
            source: MacAddress([s0, s1, s2, s3, s4, s5]),
            ether_type: EtherType(number::<2>(header, 12) as u16),
        };
        Ok((ethernet, rest))
    }

    /// Writes the header into the first [`Self::LEN`] bytes; panics if there are fewer.
    pub fn emit(&self, bytes: &mut [u8]) {
        bytes[0..6].copy_from_slice(&self.destination.0);
        bytes[6..12].copy_from_slice(&self.source.0);
        put::<2>(bytes, 12, self.ether_type.0 as u64);
    }
}
