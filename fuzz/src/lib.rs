//! What the fuzz targets of `tests/targets` have in common: times, rates and sizes over all their orders of magnitude.
//!
//! A target is a property of any sequence of inputs. Under `cargo test` it gets the corpus and random sequences, under
//! `cargo bolero` those that libFuzzer finds by coverage.

use bolero::TypeGenerator;
use std::fmt;
use tailback_proto::units::Time;

/// The latest instant that targets go to: what the event queue can hold, 20 hours.
pub const END: Time = Time(1 << 56);

/// A number from 0 up to 2^`BITS`, all orders of magnitude alike.
#[derive(Clone, Copy, TypeGenerator)]
pub struct Magnitude<const BITS: u8> {
    exponent: u8,
    fraction: u16,
}

impl<const BITS: u8> Magnitude<BITS> {
    /// The number.
    pub fn get(self) -> u64 {
        match self.exponent % (BITS + 1) {
            0 => 0,
            exponent => (1 << (exponent - 1)) + ((self.fraction as u64) << (exponent - 1) >> 16),
        }
    }

    /// The number; 1 in place of 0.
    pub fn positive(self) -> u64 {
        self.get().max(1)
    }
}

impl<const BITS: u8> fmt::Debug for Magnitude<BITS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

/// A span of time, up to hours.
pub type Span = Magnitude<56>;

impl Span {
    /// As time.
    pub fn time(self) -> Time {
        Time(self.get())
    }
}

/// A clock that only goes forward, and never past [`END`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    now: Time,
}

impl Clock {
    /// What it shows.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Lets time pass, and shows what it is then.
    pub fn pass(&mut self, span: Span) -> Time {
        self.now = (self.now + span.time()).min(END);
        self.now
    }

    /// Goes on to an instant, if that is still to come.
    pub fn pass_until(&mut self, at: Time) -> Time {
        self.now = self.now.max(at);
        self.now
    }
}

/// A share from 0 to 1.
#[derive(Clone, Copy, Debug, TypeGenerator)]
pub struct Share(u16);

impl Share {
    /// The share.
    pub fn get(self) -> f64 {
        self.0 as f64 / u16::MAX as f64
    }
}
