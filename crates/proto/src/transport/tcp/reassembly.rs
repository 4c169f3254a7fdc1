//! What arrived out of order, and the SACK blocks that tell of it (RFC 2018).

use super::segment::{SackBlocks, MAX_SACK_BLOCKS};

/// The receiver's ranges beyond the next byte that it waits for. The receive window bounds them.
#[derive(Clone, Debug, Default)]
pub struct Reassembly {
    /// In order, not touching.
    ranges: Vec<(u64, u64)>,
    /// The ranges that changed last, the newest first: what ACKs report.
    recent: [(u64, u64); MAX_SACK_BLOCKS],
    recent_count: usize,
    bytes: u64,
}

impl Reassembly {
    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Bytes that wait.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds `start..end`, which lies beyond the next byte. Returns how many bytes of it are news.
    pub fn add(&mut self, start: u64, end: u64) -> u64 {
        let first = self.ranges.partition_point(|range| range.1 < start);
        let last = first + self.ranges[first..].partition_point(|range| range.0 <= end);
        let mut merged = (start, end);
        let mut known = 0;
        if first == last {
            self.ranges.insert(first, merged);
        } else {
            merged = (start.min(self.ranges[first].0), end.max(self.ranges[last - 1].1));
            known = self.ranges[first..last].iter().map(|range| range.1 - range.0).sum();
            self.ranges[first] = merged;
            self.ranges.drain(first + 1..last);
        }
        self.report(merged);
        let news = merged.1 - merged.0 - known;
        self.bytes += news;
        news
    }

    /// All before `next` arrived; returns where the stream goes on once what waited there is taken.
    pub fn advance(&mut self, next: u64) -> u64 {
        let mut next = next;
        let taken = self.ranges.iter().take_while(|range| range.0 <= next).count();
        for range in self.ranges.drain(..taken) {
            self.bytes -= range.1 - range.0;
            next = next.max(range.1);
        }
        if taken > 0 {
            self.keep(|range| range.0 > next);
        }
        next
    }

    /// What an ACK reports.
    pub fn blocks(&self) -> SackBlocks {
        let mut blocks = SackBlocks::default();
        for &(start, end) in &self.recent[..self.recent_count] {
            blocks.push(start, end);
        }
        blocks
    }

    /// The newest range goes first; those that became part of it go.
    fn report(&mut self, newest: (u64, u64)) {
        self.keep(|range| range.1 < newest.0 || range.0 > newest.1);
        let count = (self.recent_count + 1).min(MAX_SACK_BLOCKS);
        self.recent.copy_within(..count - 1, 1);
        self.recent[0] = newest;
        self.recent_count = count;
    }

    fn keep(&mut self, wanted: impl Fn(&(u64, u64)) -> bool) {
        let mut kept = 0;
        for i in 0..self.recent_count {
            if wanted(&self.recent[i]) {
                self.recent[kept] = self.recent[i];
                kept += 1;
            }
        }
        self.recent_count = kept;
    }
}
