//! Payload of messages, by which a receiver can tell if each byte is the one that was written: a function of the queue pair, the
//! message's number and the place in it.

/// Payload of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern(u64);

impl Pattern {
    /// Of a message, by its queue pair and number.
    pub fn of(flow: u32, number: u64) -> Pattern {
        // splitmix64's step and finaliser: neighbours have nothing in common.
        let mut z = ((flow as u64) << 40 ^ number).wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        Pattern(z ^ z >> 31)
    }

    /// As a number.
    pub fn number(self) -> u64 {
        self.0
    }

    fn word(self, index: u64) -> [u8; 8] {
        (self.0 ^ index.wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_le_bytes()
    }

    /// Writes what is at an offset, a multiple of 8.
    pub fn fill(self, offset: u32, bytes: &mut [u8]) {
        for (at, part) in bytes.chunks_mut(8).enumerate() {
            let word = self.word(offset as u64 / 8 + at as u64);
            part.copy_from_slice(&word[..part.len()]);
        }
    }

    /// True if bytes are those at the beginning of a message.
    pub fn is(self, bytes: &[u8]) -> bool {
        bytes.chunks(8).enumerate().all(|(at, part)| *part == self.word(at as u64)[..part.len()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_byte_that_is_another_is_seen() {
        let mut whole = [0; 100];
        Pattern::of(3, 7).fill(0, &mut whole);
        assert!(Pattern::of(3, 7).is(&whole));
        let mut parts = [0; 100];
        for (at, part) in parts.chunks_mut(16).enumerate() {
            Pattern::of(3, 7).fill(16 * at as u32, part);
        }
        assert_eq!(whole, parts);
        for at in 0..100 {
            let mut other = whole;
            other[at] ^= 1;
            assert!(!Pattern::of(3, 7).is(&other));
        }
        assert!(!Pattern::of(3, 8).is(&whole) && !Pattern::of(4, 7).is(&whole));
    }
}
