//! Messages and their receivers. They are matched by tag and ranks, and then by bytes alone. Bytes that come
//! early are added up, and so are bytes that are expected twice, of which only the last receiver is told.

use crate::engine::NumberMap;

/// Tag, sender and receiver.
pub type Key = (i32, u32, u32);

/// Bytes that are expected, with the receiver to tell, and bytes that came early.
#[derive(Debug)]
pub struct Matching<R> {
    expected: NumberMap<Key, (u64, R)>,
    early: NumberMap<Key, u64>,
}

impl<R> Default for Matching<R> {
    fn default() -> Self {
        Matching { expected: NumberMap::default(), early: NumberMap::default() }
    }
}

impl<R> Matching<R> {
    /// A receiver expects bytes. Returns true if they are there already.
    pub fn expect(&mut self, key: Key, bytes: u64, receiver: R) -> bool {
        if let Some(there) = self.early.remove(&key) {
            if there > bytes {
                self.early.insert(key, there - bytes);
            } else if there < bytes {
                self.expected.insert(key, (bytes - there, receiver));
            }
            return there >= bytes;
        }
        let before = self.expected.get(&key).map_or(0, |known| known.0);
        self.expected.insert(key, (before + bytes, receiver));
        false
    }

    /// A message has arrived. Returns the receiver, if it now has everything that it expected.
    pub fn arrived(&mut self, key: Key, bytes: u64) -> Option<R> {
        let Some((expected, receiver)) = self.expected.remove(&key) else {
            *self.early.entry(key).or_default() += bytes;
            return None;
        };
        if bytes < expected {
            self.expected.insert(key, (expected - bytes, receiver));
            return None;
        }
        if bytes > expected {
            self.early.insert(key, bytes - expected);
        }
        Some(receiver)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Key = (7, 0, 1);

    #[test]
    fn early_bytes_are_kept() {
        let mut matching = Matching::default();
        assert_eq!(matching.arrived(KEY, 30), None);
        assert!(matching.expect(KEY, 10, 1));
        assert!(!matching.expect(KEY, 50, 2));
        assert_eq!(matching.arrived(KEY, 20), None);
        assert_eq!(matching.arrived(KEY, 15), Some(2));
        assert!(matching.expect(KEY, 5, 3));
    }

    #[test]
    fn of_two_that_expect_the_last_is_told() {
        let mut matching = Matching::default();
        assert!(!matching.expect(KEY, 10, 1));
        assert!(!matching.expect(KEY, 10, 4));
        assert_eq!(matching.arrived(KEY, 10), None);
        assert_eq!(matching.arrived(KEY, 10), Some(4));
    }
}
