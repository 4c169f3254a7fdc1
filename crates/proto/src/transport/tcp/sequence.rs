//! Sequence numbers: positions of the stream as the 32 bits of a header (RFC 9293, 3.4).
//!
//! The initial sequence number is 0.

/// Sequence number of a position.
pub const fn wire_sequence(position: u64) -> u32 {
    position as u32
}

/// The position nearest to `near` that has this sequence number; `None` where it would be negative or beyond 64 bits.
/// Right as long as the two are less than 2^31 bytes apart, as a window (at most 2^30, RFC 7323, 2.3) makes sure.
pub const fn unwrap_sequence(sequence: u32, near: u64) -> Option<u64> {
    // The difference as a signed number of 32 bits is the shortest way there.
    let distance = sequence.wrapping_sub(near as u32) as i32;
    near.checked_add_signed(distance as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_unwrap_across_the_32_bit_wrap() {
        const WRAP: u64 = 1 << 32;
        assert_eq!(unwrap_sequence(wire_sequence(WRAP + 5), WRAP - 10), Some(WRAP + 5));
        assert_eq!(unwrap_sequence(wire_sequence(WRAP - 10), WRAP + 5), Some(WRAP - 10));
        assert_eq!(unwrap_sequence(7, 3 * WRAP), Some(3 * WRAP + 7));
        assert_eq!(unwrap_sequence(0xffff_ffff, 5), None, "before the first byte");
    }
}
