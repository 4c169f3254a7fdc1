//! Ethernet header (IEEE 802.3, 3.1 and 3.2).

use core::fmt;

use super::{number, put, split, Error};

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

// VLAN tag (IEEE 802.1Q, 9.6), without the EtherType 0x8100 that announces it.

/// A VLAN tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vlan {
    /// Priority code point, 3 bits.
    pub pcp: u8,
    /// Drop eligible indicator.
    pub dei: bool,
    /// VLAN identifier, 12 bits. 0: priority only.
    pub vid: u16,
    /// What follows.
    pub ether_type: EtherType,
}

impl Vlan {
    /// Bytes that it takes.
    pub const LEN: usize = 4;

    /// Reads the tag that follows EtherType 0x8100: it, and what follows.
    ///
    /// # Errors
    /// [`Error::Truncated`].
    pub fn parse(bytes: &[u8]) -> Result<(Vlan, &[u8]), Error> {
        let (tag, rest) = split::<{ Vlan::LEN }>(bytes)?;
        let tci = number::<2>(tag, 0) as u16;
        let vlan = Vlan {
            pcp: (tci >> 13) as u8,
            dei: tci & 0x1000 != 0,
            vid: tci & 0xfff,
            ether_type: EtherType(number::<2>(tag, 2) as u16),
        };
        Ok((vlan, rest))
    }

    /// Writes the tag into the first [`Self::LEN`] bytes; panics if there are fewer.
    pub fn emit(&self, bytes: &mut [u8]) {
        let tci = (self.pcp as u64 & 7) << 13 | (self.dei as u64) << 12 | self.vid as u64 & 0xfff;
        put::<2>(bytes, 0, tci);
        put::<2>(bytes, 2, self.ether_type.0 as u64);
    }
}

// PFC frame (IEEE 802.1Qbb; 802.3, annex 31D): a MAC control frame that pauses priorities of the link that it is sent over.

/// Where MAC control frames go: no bridge forwards them (IEEE 802.3, annex 31B.1).
pub const MAC_CONTROL_ADDRESS: MacAddress = MacAddress([0x01, 0x80, 0xc2, 0x00, 0x00, 0x01]);

/// Opcode of priority-based flow control (IEEE 802.3, table 31A-1).
pub const PFC_OPCODE: u16 = 0x0101;

/// A PFC frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pfc {
    /// Source address.
    pub source: MacAddress,
    /// Priorities that it speaks of, bit 0 for priority 0.
    pub class_enable_vector: u8,
    /// For each priority, how long it is paused, in quanta of 512 bit times. 0: it may go on.
    pub time: [u16; 8],
}

impl Pfc {
    /// Bytes that it takes, without FCS: the shortest frame.
    pub const LEN: usize = Ethernet::MIN_FRAME_LEN - Ethernet::FCS_LEN;
    const FIELDS_LEN: usize = 2 + 2 + 2 * 8;

    /// Reads a frame.
    ///
    /// # Errors
    /// [`Error::Truncated`]; [`Error::Unsupported`] where it is no PFC frame.
    pub fn parse(bytes: &[u8]) -> Result<Pfc, Error> {
        let (ethernet, rest) = Ethernet::parse(bytes)?;
        if ethernet.ether_type != EtherType::MAC_CONTROL || ethernet.destination != MAC_CONTROL_ADDRESS {
            return Err(Error::Unsupported);
        }
        let (fields, _) = split::<{ Pfc::FIELDS_LEN }>(rest)?;
        if number::<2>(fields, 0) != PFC_OPCODE as u64 {
            return Err(Error::Unsupported);
        }
        Ok(Pfc {
            source: ethernet.source,
            class_enable_vector: fields[3],
            time: core::array::from_fn(|priority| number::<2>(fields, 4 + 2 * priority) as u16),
        })
    }

    /// Writes the frame into the first [`Self::LEN`] bytes; panics if there are fewer.
    pub fn emit(&self, bytes: &mut [u8]) {
        let ethernet = Ethernet {
            destination: MAC_CONTROL_ADDRESS,
            source: self.source,
            ether_type: EtherType::MAC_CONTROL,
        };
        ethernet.emit(bytes);
        let fields = &mut bytes[Ethernet::LEN..Pfc::LEN];
        fields.fill(0);
        put::<2>(fields, 0, PFC_OPCODE as u64);
        fields[3] = self.class_enable_vector;
        for (priority, quanta) in self.time.into_iter().enumerate() {
            put::<2>(fields, 4 + 2 * priority, quanta as u64);
        }
    }
}
