//! VLAN tag (IEEE 802.1Q, 9.6), without the EtherType 0x8100 that announces it.

use super::{number, put, split, Error, EtherType};

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
