//! Where an event stands in the order of all events.

use tailback_proto::units::Time;

pub(super) const TIME_BITS: u32 = 56;
/// Bits of the order among simultaneous events.
pub(super) const SEQUENCE_BITS: u32 = 40;
pub(super) const PAYLOAD_BITS: u32 = 32;

/// A place in the order of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place(pub(super) u128);

impl Place {
    /// The place at `time` that `source` and `own` give it: simultaneous events run by their sources, and those of one
    /// source by their `own` numbers.
    #[inline]
    pub fn of(time: Time, source: u32, own: u8) -> Place {
        debug_assert!(time <= super::EventQueue::HORIZON);
        let order = (source as u128) << 8 | own as u128;
        Place((time.0 as u128) << (SEQUENCE_BITS + PAYLOAD_BITS) | order << PAYLOAD_BITS)
    }

    /// When that is.
    pub fn time(self) -> Time {
        time_of(self.0)
    }

    /// An entry's place, and its payload.
    pub(super) fn split(entry: u128) -> (Place, u32) {
        (Place(entry >> PAYLOAD_BITS << PAYLOAD_BITS), entry as u32)
    }
}

pub(super) fn time_of(entry: u128) -> Time {
    Time((entry >> (SEQUENCE_BITS + PAYLOAD_BITS)) as u64)
}
