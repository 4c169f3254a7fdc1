//! How a quantity is spread: least, most, mean and percentiles, in bounded memory.

use hdrhistogram::Histogram;
use serde::Serialize;

/// Values of a time, picoseconds.
#[derive(Debug)]
pub struct Spread {
    /// In nanoseconds, to 1 %.
    histogram: Histogram<u32>,
    sum_ps: u128,
    least_ps: u64,
    most_ps: u64,
}

/// What is told of it; times in picoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SpreadOf {
    pub count: u64,
    pub least_ps: u64,
    pub mean_ps: u64,
    /// Percentiles are rounded to 1 %.
    pub p50_ps: u64,
    pub p99_ps: u64,
    pub most_ps: u64,
}

/// Longer than any time in picoseconds of 64 bits.
const LONGEST_NS: u64 = 1 << 60;

impl Default for Spread {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, LONGEST_NS, 2).expect("the bounds are in order");
        Spread { histogram, sum_ps: 0, least_ps: u64::MAX, most_ps: 0 }
    }
}

impl Spread {
    /// Adds a value.
    pub fn add(&mut self, ps: u64) {
        self.histogram.saturating_record((ps / 1000).clamp(1, LONGEST_NS));
        self.sum_ps += ps as u128;
        self.least_ps = self.least_ps.min(ps);
        self.most_ps = self.most_ps.max(ps);
    }

    /// What there is to tell; none: nothing was added.
    pub fn told(&self) -> Option<SpreadOf> {
        let count = self.histogram.len();
        let at = |share| (self.histogram.value_at_quantile(share) * 1000).clamp(self.least_ps, self.most_ps);
        (count > 0).then(|| SpreadOf {
            count,
            least_ps: self.least_ps,
            mean_ps: (self.sum_ps / count as u128) as u64,
            p50_ps: at(0.5),
            p99_ps: at(0.99),
            most_ps: self.most_ps,
        })
    }
}

/// Least, mean and most alone: where there is one for each connection.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Range {
    pub count: u64,
    pub least_ps: u64,
    pub mean_ps: u64,
    pub most_ps: u64,
    #[serde(skip)]
    sum_ps: u128,
}

impl Range {
    /// Adds a value.
    pub fn add(&mut self, ps: u64) {
        self.least_ps = if self.count == 0 { ps } else { self.least_ps.min(ps) };
        self.most_ps = self.most_ps.max(ps);
        self.count += 1;
        self.sum_ps += ps as u128;
        self.mean_ps = (self.sum_ps / self.count as u128) as u64;
    }
}
