//! Units: time in integer picoseconds, link rates in bit/s, sizes in bytes.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// A rate in bit/s times a span in picoseconds, where a byte passes.
pub const BIT_PS_PER_BYTE: u64 = 8 * 1_000_000_000_000;

/// An instant since the start of the run, or a span of time, in picoseconds.
///
/// A picosecond divides the time of one byte at every Ethernet rate in use (80 ps at 100 Gbit/s, 20 ps at
/// 400 Gbit/s), so serialization times are exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Time(pub u64);

impl Time {
    /// The start of the run.
    pub const ZERO: Time = Time(0);
    /// Later than any instant: a timer that is not armed.
    pub const NEVER: Time = Time(u64::MAX);

    /// `n` nanoseconds.
    pub const fn from_ns(n: u64) -> Time {
        Time(n * 1_000)
    }

    /// `n` microseconds.
    pub const fn from_us(n: u64) -> Time {
        Time(n * 1_000_000)
    }

    /// `n` milliseconds.
    pub const fn from_ms(n: u64) -> Time {
        Time(n * 1_000_000_000)
    }

    /// Picoseconds.
    pub const fn ps(self) -> u64 {
        self.0
    }

    /// Seconds, rounded to the nearest `f64`: for display and results, never for decisions.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e12
    }

    /// `self - earlier`, or zero where `earlier` is later.
    pub const fn saturating_sub(self, earlier: Time) -> Time {
        Time(self.0.saturating_sub(earlier.0))
    }
}

impl Add for Time {
    type Output = Time;
    fn add(self, span: Time) -> Time {
        Time(self.0 + span.0)
    }
}

impl AddAssign for Time {
    fn add_assign(&mut self, span: Time) {
        self.0 += span.0;
    }
}

impl Sub for Time {
    type Output = Time;
    fn sub(self, earlier: Time) -> Time {
        Time(self.0 - earlier.0)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            u64::MAX => write!(f, "never"),
            ps if ps >= 1_000_000_000_000 => write!(f, "{} s", ps as f64 / 1e12),
            ps if ps >= 1_000_000_000 => write!(f, "{} ms", ps as f64 / 1e9),
            ps if ps >= 1_000_000 => write!(f, "{} us", ps as f64 / 1e6),
            ps => write!(f, "{} ns", ps as f64 / 1e3),
        }
    }
}

/// A link's or a flow's rate in bit/s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Rate(pub u64);

impl Rate {
    /// `n` Mbit/s.
    pub const fn from_mbps(n: u64) -> Rate {
        Rate(n * 1_000_000)
    }

    /// `n` Gbit/s.
    pub const fn from_gbps(n: u64) -> Rate {
        Rate(n * 1_000_000_000)
    }

    /// In bit/s, as a number that controllers compute with.
    pub fn bps(self) -> f64 {
        self.0 as f64
    }

    /// Time to serialize `bytes`, rounded down to a whole picosecond (exact where 8e12 is a multiple of the
    /// rate, as for every Ethernet speed).
    pub fn serialization(self, bytes: u64) -> Time {
        match bytes.checked_mul(BIT_PS_PER_BYTE) {
            Some(bits) => Time(bits / self.0), // up to 2 MB: much quicker
            None => Time((bytes as u128 * BIT_PS_PER_BYTE as u128 / self.0 as u128) as u64),
        }
    }

    /// Bytes that pass in `span`, rounded up: what a buffer must hold that absorbs this rate for that long.
    pub fn bytes_in(self, span: Time) -> u64 {
        (self.0 as u128 * span.0 as u128).div_ceil(BIT_PS_PER_BYTE as u128) as u64
    }
}

/// Cycles a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Hertz(pub u64);

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Bytes(pub u64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_takes_a_whole_number_of_picoseconds_at_ethernet_rates() {
        for (gbps, ps) in
            [(10, 800), (25, 320), (40, 200), (50, 160), (100, 80), (200, 40), (400, 20), (800, 10)]
        {
            assert_eq!(Rate::from_gbps(gbps).serialization(1), Time(ps));
        }
    }

    #[test]
    fn bytes_in_is_the_inverse_of_serialization() {
        let rate = Rate::from_gbps(100);
        assert_eq!(rate.bytes_in(rate.serialization(1234)), 1234);
        assert_eq!(rate.bytes_in(Time(1)), 1, "a fraction of a byte needs a byte of room");
    }
}
