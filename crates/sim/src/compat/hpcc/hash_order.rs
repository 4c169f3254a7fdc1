//! The order in which that simulator walks a host's queue pairs when a link went down: that of a C++ hash table.
//!
//! The table is libstdc++'s `unordered_map` with 64-bit keys, which are their own hash. Elements stand in one list,
//! those of a bucket together. A new one stands before the first of its bucket, or at the front of the list if the
//! bucket is empty; growing puts the elements, first to last, into a new list by the same rule.

/// Numbers of buckets: the first, and then each time the least of the library's primes that is twice as many.
const BUCKETS: [u64; 15] =
    [13, 29, 59, 127, 257, 541, 1109, 2357, 5087, 10_273, 20_753, 42_043, 85_229, 172_933, 351_061];

/// A host's queue pairs in the order of the table.
#[derive(Clone, Debug, Default)]
pub(super) struct HashOrder {
    size: usize,
    entries: Vec<(u64, u32)>,
}

impl HashOrder {
    /// A queue pair is made.
    pub fn insert(&mut self, key: u64, flow: u32) {
        if self.entries.len() as u64 >= BUCKETS[self.size] && self.size + 1 < BUCKETS.len() {
            self.size += 1;
            for entry in std::mem::take(&mut self.entries) {
                self.place(entry);
            }
        }
        self.place((key, flow));
    }

    fn place(&mut self, entry: (u64, u32)) {
        let bucket = |entry: &(u64, u32)| entry.0 % BUCKETS[self.size];
        let at = self.entries.iter().position(|other| bucket(other) == bucket(&entry)).unwrap_or(0);
        self.entries.insert(at, entry);
    }

    /// A queue pair is done.
    pub fn remove(&mut self, flow: u32) {
        self.entries.retain(|entry| entry.1 != flow);
    }

    /// The queue pairs that there are, first to last.
    pub fn flows(&self) -> Vec<u32> {
        self.entries.iter().map(|entry| entry.1).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::HashOrder;

    /// What a program with such a table prints (GCC 12): keys of 70 queue pairs to five hosts, the third last of
    /// which is taken out after every fourth.
    #[test]
    fn the_order_is_that_of_the_library() {
        let mut table = HashOrder::default();
        let mut seen = Vec::new();
        for flow in 0..70u64 {
            let address = 0x0b00_0001 + flow * 7 % 5 * 256;
            table.insert(address << 32 | (10_000 + flow) << 16 | 3, flow as u32);
            if flow % 4 == 3 {
                table.remove(flow as u32 - 2);
            }
            if [1, 5, 12, 20, 69].contains(&flow) {
                seen.push(table.flows());
            }
        }
        let expected: [&[u32]; 5] = [
            &[1, 0],
            &[5, 4, 3, 2, 0],
            &[12, 10, 8, 7, 6, 4, 3, 2, 11, 0],
            &[20, 19, 18, 11, 2, 3, 14, 4, 6, 0, 7, 8, 10, 12, 15, 16],
            &[
                69, 66, 64, 63, 62, 59, 56, 55, 54, 51, 46, 44, 43, 42, 40, 39, 38, 16, 52, 15, 68, 22, 58,
                12, 47, 10, 8, 7, 6, 50, 4, 35, 60, 14, 3, 48, 2, 11, 18, 19, 20, 27, 23, 24, 26, 28, 67, 30,
                0, 31, 32, 34, 36,
            ],
        ];
        assert_eq!(seen, expected);
    }
}
