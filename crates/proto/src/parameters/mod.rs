//! What a controller, a queue or an end point can be set to: declared once, beside what it sets.
//!
//! [`parameters!`](crate::parameters) makes from one declaration the struct that a plan holds, its defaults, the check of
//! its bounds, and a [`Parameter`] a field for people. Scenario keys, their schema and their reference are made from those.

mod declare;
mod value;
mod words;

use std::ops::{Bound, RangeBounds};

use crate::units::{Bytes, Rate, Time};
pub use value::{FallingRates, Plain, RoundTrip, Value};
pub use words::{bounds_in_words, choices_in_words, in_words};

/// Why settings cannot be: "found *the value of* `field`, expected `expected`".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Name of the parameter.
    pub field: &'static str,
    /// What would have been right.
    pub expected: String,
}

impl Refused {
    /// `field` is refused.
    pub fn new(field: &'static str, expected: impl Into<String>) -> Self {
        Refused { field, expected: expected.into() }
    }

    /// `Ok` where `ok`.
    pub fn unless(ok: bool, field: &'static str, expected: impl Into<String>) -> Result<(), Self> {
        if ok {
            Ok(())
        } else {
            Err(Refused::new(field, expected))
        }
    }

    /// `Ok` where a rate is at most the link's.
    pub fn above_link(rate: Rate, field: &'static str, link: Rate) -> Result<(), Self> {
        Refused::unless(rate <= link, field, format!("at most the link's rate, {}", in_words(link)))
    }
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: expected {}", self.field, self.expected)
    }
}

/// A parameter as people read it.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Parameter {
    /// Name in scenarios and plans.
    pub name: &'static str,
    /// What it measures: `duration`, `round-trip` (a time, or auto), `rate`, `size` and `frequency` in ps, bit/s, bytes
    /// and Hz; `falling rates`, a list of these; `count`, `number`, `flag`, or `choice` of words.
    pub quantity: &'static str,
    /// Whether scenarios must give it: it has no default.
    pub required: bool,
    /// Whether it may be absent.
    pub optional: bool,
    /// Of a list: how many it may have. Bounds are those of each.
    pub longest: Option<usize>,
    /// Default, in base units; the word `auto` or null where scenarios leave it to be worked out from others.
    pub default: Plain,
    /// Smallest value, if there is one.
    pub least: Option<Plain>,
    /// Whether the smallest value is itself too small.
    pub least_is_excluded: bool,
    /// Largest value, if there is one.
    pub most: Option<Plain>,
    /// Whether the largest value is itself too large.
    pub most_is_excluded: bool,
    /// All values, where there are few.
    pub choices: Vec<Plain>,
    /// What it does.
    pub help: String,
    /// Where the default comes from.
    pub source: String,
}

impl Parameter {
    /// One that must be given, without bounds.
    pub fn new<V: Value>(name: &'static str, help: &str) -> Self {
        Parameter {
            name,
            quantity: V::QUANTITY,
            required: true,
            optional: V::OPTIONAL,
            longest: V::LONGEST,
            default: Plain::Null,
            least: None,
            least_is_excluded: false,
            most: None,
            most_is_excluded: false,
            choices: Vec::new(),
            help: help.trim().to_string(),
            source: String::new(),
        }
    }

    /// With a default.
    pub fn or(self, default: Plain) -> Self {
        Parameter { required: false, default, ..self }
    }

    /// Worked out from others where scenarios have this word for it, `null` or `auto`.
    pub fn worked_out(self, word: &'static str) -> Self {
        match word {
            "null" => Parameter { optional: true, ..self.or(Plain::Null) },
            _ => self.or(Plain::Word(word)),
        }
    }

    /// With bounds.
    pub fn within<B: Value>(mut self, bounds: &impl RangeBounds<B>) -> Self {
        let plain = |bound: Bound<&B>| match bound {
            Bound::Included(bound) | Bound::Excluded(bound) => Some(bound.plain()),
            Bound::Unbounded => None,
        };
        self.least = plain(bounds.start_bound());
        self.least_is_excluded = matches!(bounds.start_bound(), Bound::Excluded(_));
        self.most = plain(bounds.end_bound());
        self.most_is_excluded = matches!(bounds.end_bound(), Bound::Excluded(_));
        self
    }
}

/// A setting of many parameters together, under a name. The first profile of a controller has the declared defaults.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Profile {
    /// Name in scenarios.
    pub name: &'static str,
    /// What it is.
    pub about: &'static str,
    /// Source of every value without one of its own.
    pub source: &'static str,
    /// Values that differ from the defaults.
    pub values: &'static [(&'static str, Plain)],
    /// Sources of single values.
    pub sources: &'static [(&'static str, &'static str)],
    /// Rates that hold for a link of 25 Gbit/s and grow with the link.
    pub per_25_gbps: &'static [&'static str],
}

/// A section of settings as people read it.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Section {
    /// Its name in the front.
    pub name: &'static str,
    /// What scenarios name it by, where they choose one of several.
    pub kind: Option<&'static str>,
    /// What it is about.
    pub about: &'static str,
    /// Whether scenarios may give each for all rates of links, or by their rates.
    pub by_rate: bool,
    /// What can be set.
    pub parameters: Vec<Parameter>,
}

impl Section {
    /// Of what is declared.
    pub fn of<D: Declared>(name: &'static str) -> Self {
        Section { name, kind: None, about: D::ABOUT.trim(), by_rate: false, parameters: D::describe() }
    }

    /// What may depend on a link's rate; a plan has one for each rate.
    pub fn by_rate<D: Declared>(name: &'static str) -> Self {
        Section { by_rate: true, ..Section::of::<D>(name) }
    }

    /// One of several, chosen by its kind.
    pub fn of_kind<D: Declared>(name: &'static str, kind: &'static str) -> Self {
        Section { kind: Some(kind), ..Section::of::<D>(name) }
    }
}

/// What [`parameters!`](crate::parameters) makes.
pub trait Declared: Clone + std::fmt::Debug {
    /// What the section is about.
    const ABOUT: &'static str;
    /// All parameters, in the order in which they are declared.
    fn describe() -> Vec<Parameter>;
    /// Whether each is within its bounds.
    ///
    /// # Errors
    /// The first that is not.
    fn check(&self) -> Result<(), Refused>;
}

/// Above zero and up to one.
pub const SHARE: (Bound<f64>, Bound<f64>) = (Bound::Excluded(0.0), Bound::Included(1.0));
/// From nothing to 100 Tbit/s.
pub const STEP: std::ops::RangeInclusive<Rate> = Rate(0)..=MAX_RATE;
/// More than nothing, up to 100 Tbit/s.
pub const POSITIVE_RATE: std::ops::RangeInclusive<Rate> = Rate(1)..=MAX_RATE;
const MAX_RATE: Rate = Rate::from_gbps(100_000);
/// From a picosecond to a second.
pub const SPAN: std::ops::RangeInclusive<Time> = Time(1)..=Time::from_ms(1000);
/// From nothing to a second.
pub const DELAY: std::ops::RangeInclusive<Time> = Time(0)..=Time::from_ms(1000);
/// Bytes that telemetry may add to a packet: the largest packet stays below the 16 bits of its size.
pub const TELEMETRY: std::ops::RangeInclusive<Bytes> = Bytes(0)..=Bytes(1024);
