//! What the receiver has beyond a gap, as its SACK blocks tell (RFC 2018), and what follows from it (RFC 6675).
//!
//! Two marks stand in for a state of each byte. `retransmitted`: whatever is missing below it was sent again (HighRxt).
//! `lost_below`: whatever is missing below it counts as lost whatever is SACKed: the first segment at a fast retransmit, and
//! everything sent before a timeout.

use super::DUPLICATE_THRESHOLD;

/// `start..end` of the stream.
pub(crate) type Range = (u64, u64);

/// The first range at or beyond `from`, and below `limit`, that none of `ranges` (in order, not touching) has.
pub(crate) fn gap(ranges: &[Range], from: u64, limit: u64) -> Option<Range> {
    let mut from = from;
    // The first range that ends beyond it may begin before it.
    let next = ranges.partition_point(|range| range.1 <= from);
    let mut after = limit;
    for &(start, end) in &ranges[next..] {
        if start > from {
            after = start;
            break;
        }
        from = end;
    }
    let end = after.min(limit);
    (from < end).then_some((from, end))
}

/// The sender's scoreboard.
#[derive(Clone, Debug, Default)]
pub struct Scoreboard {
    /// Ranges SACKed, in order, not touching, all beyond what is acknowledged.
    ranges: Vec<Range>,
    retransmitted: u64,
    lost_below: u64,
}

impl Scoreboard {
    /// What is SACKed, in order.
    pub fn ranges(&self) -> &[Range] {
        &self.ranges
    }

    /// End of the highest byte SACKed.
    pub fn highest(&self) -> Option<u64> {
        self.ranges.last().map(|range| range.1)
    }

    /// The receiver has `start..end`. Returns how many bytes of it are news.
    pub fn add(&mut self, start: u64, end: u64) -> u64 {
        if start >= end {
            return 0;
        }
        // Ranges first..last touch the new one and become one with it.
        let first = self.ranges.partition_point(|range| range.1 < start);
        let last = first + self.ranges[first..].partition_point(|range| range.0 <= end);
        if first == last {
            self.ranges.insert(first, (start, end));
            return end - start;
        }
        let merged = (start.min(self.ranges[first].0), end.max(self.ranges[last - 1].1));
        let known: u64 = self.ranges[first..last].iter().map(|range| range.1 - range.0).sum();
        self.ranges[first] = merged;
        self.ranges.drain(first + 1..last);
        merged.1 - merged.0 - known
    }

    /// Everything before `acknowledged` arrived.
    pub fn acknowledge(&mut self, acknowledged: u64) {
        self.retransmitted = self.retransmitted.max(acknowledged);
        self.lost_below = self.lost_below.max(acknowledged);
        if self.ranges.first().is_none_or(|range| range.0 >= acknowledged) {
            return;
        }
        let below = self.ranges.partition_point(|range| range.1 <= acknowledged);
        self.ranges.drain(..below);
        if let Some(range) = self.ranges.first_mut() {
            range.0 = range.0.max(acknowledged);
        }
    }

    /// Fast recovery begins: nothing was sent again in it yet.
    pub fn begin_recovery(&mut self, acknowledged: u64, mss: u64, sent: u64) {
        self.retransmitted = acknowledged;
        self.lose_first(acknowledged, mss, sent);
    }

    /// A fast retransmit of the segment at `acknowledged`: what is missing of it is lost.
    pub fn lose_first(&mut self, acknowledged: u64, mss: u64, sent: u64) {
        let next = self.ranges.first().map_or(sent, |range| range.0);
        self.lost_below = self.lost_below.max((acknowledged + mss).min(next));
    }

    /// A timeout: all that is missing of what was sent is lost, and nothing was sent again.
    pub fn lose_all(&mut self, acknowledged: u64, sent: u64) {
        self.lost_below = sent;
        self.retransmitted = acknowledged;
    }

    /// What is missing below this is lost (IsLost of RFC 6675, 4): enough is SACKed beyond it, in ranges or in bytes.
    pub fn lost_below(&self, mss: u64) -> u64 {
        let mut bytes = 0;
        for (above, range) in self.ranges.iter().rev().enumerate() {
            bytes += range.1 - range.0;
            let enough =
                above as u32 + 1 >= DUPLICATE_THRESHOLD || bytes > (DUPLICATE_THRESHOLD as u64 - 1) * mss;
            if enough {
                return self.lost_below.max(range.0);
            }
        }
        self.lost_below
    }

    /// Bytes in the network (SetPipe of RFC 6675, 4): neither SACKed nor lost, and what was sent again.
    pub fn pipe(&self, acknowledged: u64, sent: u64, mss: u64) -> u64 {
        if self.ranges.is_empty() && self.lost_below <= acknowledged {
            return sent - acknowledged;
        }
        let lost = self.lost_below(mss);
        let mut pipe = 0;
        let mut from = acknowledged;
        for &(start, end) in self.ranges.iter().chain([&(sent, sent)]) {
            // The gap from..start; a mark may lie inside it.
            pipe += start.saturating_sub(from.max(lost)) + start.min(self.retransmitted).saturating_sub(from);
            from = end;
        }
        pipe
    }

    /// The first range missing that was not sent again, at or beyond `acknowledged` and below `limit`.
    pub fn next_gap(&self, acknowledged: u64, limit: u64) -> Option<Range> {
        gap(&self.ranges, self.retransmitted.max(acknowledged), limit)
    }

    /// Everything missing before `end` was sent again.
    pub fn on_retransmitted(&mut self, end: u64) {
        self.retransmitted = self.retransmitted.max(end);
    }
}
