//! Maps by small numbers that the simulation itself gives, which need no hash that withstands an attacker. Nobody iterates
//! over them.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::random::mix;

/// A map by numbers, or by a few of them.
pub(crate) type NumberMap<K, V> = HashMap<K, V, BuildHasherDefault<NumberHasher>>;

/// A hash of numbers: a multiplication for each, and splitmix64's finalizer at the end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte as u64));
    }
    fn write_u8(&mut self, number: u8) {
        self.write_u64(number as u64);
    }
    fn write_u32(&mut self, number: u32) {
        self.write_u64(number as u64);
    }
    fn write_i32(&mut self, number: i32) {
        self.write_u64(number as u32 as u64);
    }
    fn write_u64(&mut self, number: u64) {
        // The golden ratio, as in splitmix64.
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    fn write_isize(&mut self, number: isize) {
        self.write_u64(number as u64);
    }
    fn finish(&self) -> u64 {
        mix(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::hash::BuildHasher;

    /// Tags, senders and receivers as they are: no two of them have one hash, and no place of a table has many.
    #[test]
    fn small_numbers_are_spread() {
        let hasher = BuildHasherDefault::<NumberHasher>::default();
        let keys = (0..40i32)
            .flat_map(|tag| (0..40u32).flat_map(move |from| (0..40u32).map(move |to| (tag, from, to))));
        let hashes: Vec<u64> = keys.map(|key| hasher.hash_one(key)).collect();
        assert_eq!(hashes.iter().collect::<HashSet<_>>().len(), hashes.len());
        let mut places = [0u32; 64];
        hashes.iter().for_each(|hash| places[(hash >> 58) as usize] += 1);
        assert!(places.iter().all(|&count| (800..1200).contains(&count)), "{places:?}");
    }
}
