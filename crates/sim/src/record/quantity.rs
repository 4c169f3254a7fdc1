//! What a recorded value is: how it is read off a counter, and how bins are merged.

use tailback_proto::units::Time;

/// How a value is read, and how bins are merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A count in the bin: the difference of a counter.
    Count,
    /// Bytes in the bin, given out as bit/s.
    Rate,
    /// A picosecond counter, given out as a share of the bin.
    Share,
    /// A mean over the bin, or a value at its end.
    Mean,
    /// A sample: the last one before the bin's end.
    Last,
    Max,
}

impl Kind {
    /// Merges `factor` bins, all of one length, to one.
    pub fn merge(self, values: &mut Vec<f64>, factor: usize) {
        let bins = values.len() / factor;
        for bin in 0..bins {
            let merged = &values[bin * factor..(bin + 1) * factor];
            values[bin] = match self {
                Kind::Count => merged.iter().sum(),
                Kind::Max => merged.iter().copied().fold(0.0, f64::max),
                Kind::Last => merged[factor - 1],
                Kind::Rate | Kind::Share | Kind::Mean => merged.iter().sum::<f64>() / factor as f64,
            };
        }
        values.truncate(bins);
    }

    /// The value of a bin of `span` from the difference of a counter.
    pub fn of_difference(self, difference: u64, span: Time) -> f64 {
        match self {
            Kind::Rate => bits_per_second(difference, span),
            Kind::Share => difference as f64 / span.0 as f64,
            _ => difference as f64,
        }
    }
}

/// A rate in bit/s from bytes over a span; 0 for an empty span.
pub(crate) fn bits_per_second(bytes: u64, span: Time) -> f64 {
    if span == Time::ZERO {
        0.0
    } else {
        bytes as f64 * 8.0 / span.as_secs_f64()
    }
}
