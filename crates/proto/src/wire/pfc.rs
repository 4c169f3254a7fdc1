//! PFC frame (IEEE 802.1Qbb; 802.3, annex 31D): a MAC control frame that pauses priorities of the link that it is sent over.

use super::{number, put, split, Error, EtherType, Ethernet, MacAddress};

/// Where MAC control frames go: no bridge forwards them (IEEE 802.3, annex 31B.1).
pub const DESTINATION: MacAddress = MacAddress([0x01, 0x80, 0xc2, 0x00, 0x00, 0x01]);
/// Opcode of priority-based flow control (IEEE 802.3, table 31A-1).
pub const OPCODE: u16 = 0x0101;

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
        if ethernet.ether_type != EtherType::MAC_CONTROL || ethernet.destination != DESTINATION {
            return Err(Error::Unsupported);
        }
        let (fields, _) = split::<{ Pfc::FIELDS_LEN }>(rest)?;
        if number::<2>(fields, 0) != OPCODE as u64 {
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
        let ethernet =
            Ethernet { destination: DESTINATION, source: self.source, ether_type: EtherType::MAC_CONTROL };
        ethernet.emit(bytes);
        let fields = &mut bytes[Ethernet::LEN..Pfc::LEN];
        fields.fill(0);
        put::<2>(fields, 0, OPCODE as u64);
        fields[3] = self.class_enable_vector;
        for (priority, quanta) in self.time.into_iter().enumerate() {
            put::<2>(fields, 4 + 2 * priority, quanta as u64);
        }
    }
}
