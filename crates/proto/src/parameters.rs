//! What a controller, a queue or an end point can be set to: declared once, beside what it sets.
//!
//! [`parameters!`](crate::parameters) makes from one declaration the struct that a plan holds, its defaults, the check of
//! its bounds, and a [`Parameter`] a field for people. Scenario keys, their schema and their reference are made from those.

use std::ops::{Bound, RangeBounds};

use crate::units::{Bytes, Hertz, Rate, Time};

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
    /// True if scenarios must give it: it has no default.
    pub required: bool,
    /// True if it may be absent.
    pub optional: bool,
    /// Of a list: how many it may have. Bounds are those of each.
    pub longest: Option<usize>,
    /// Default, in base units; the word `auto` or null where scenarios leave it to be worked out from others.
    pub default: Plain,
    /// Smallest value, if there is one.
    pub least: Option<Plain>,
    /// True if the smallest value is itself too small.
    pub least_is_excluded: bool,
    /// Largest value, if there is one.
    pub most: Option<Plain>,
    /// True if the largest value is itself too large.
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
    /// True if scenarios may give each for all rates of links, or by their rates.
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
    /// True if each is within its bounds.
    ///
    /// # Errors
    /// The first that is not.
    fn check(&self) -> Result<(), Refused>;
}

/// Above zero and up to one.
pub const SHARE: (Bound<f64>, Bound<f64>) = (Bound::Excluded(0.0), Bound::Included(1.0));

/// From nothing to 100 Tbit/s.
pub const RATE_STEPS: std::ops::RangeInclusive<Rate> = Rate(0)..=MAX_RATE;

/// More than nothing, up to 100 Tbit/s.
pub const POSITIVE_RATE: std::ops::RangeInclusive<Rate> = Rate(1)..=MAX_RATE;

const MAX_RATE: Rate = Rate::from_gbps(100_000);

/// From a picosecond to a second.
pub const SPANS: std::ops::RangeInclusive<Time> = Time(1)..=Time::from_ms(1000);

/// From nothing to a second.
pub const DELAYS: std::ops::RangeInclusive<Time> = Time(0)..=Time::from_ms(1000);

/// Bytes that telemetry may add to a packet: the largest packet stays below the 16 bits of its size.
pub const TELEMETRY_BYTES: std::ops::RangeInclusive<Bytes> = Bytes(0)..=Bytes(1024);

// The macros: a section and all that is made from it, and a type of a few words.

/// Declares a parameter's type that is one of a few words.
#[macro_export]
macro_rules! choice {
    ($(#[$about:meta])* pub enum $Name:ident { $($(#[$help:meta])* $Word:ident = $word:literal,)+ }) => {
        $crate::words! {
            $(#[$about])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
            pub enum $Name {
                $($(#[$help])* $Word = $word,)+
            }
        }

        impl $Name {
            /// All of them.
            pub const ALL: &'static [$Name] = &[$($Name::$Word),+];
        }

        impl $crate::parameters::Value for $Name {
            type Bound = Self;
            const QUANTITY: &'static str = "choice";
            fn plain(self) -> $crate::parameters::Plain {
                $crate::parameters::Plain::Word(match self { $($Name::$Word => $word,)+ })
            }
            fn is_within(&self, bounds: &impl std::ops::RangeBounds<Self>) -> bool {
                bounds.contains(self)
            }
        }
    };
}

/// An enum whose variants plans name by words.
#[cfg(feature = "serde")]
#[doc(hidden)]
#[macro_export]
macro_rules! words {
    ($(#[$about:meta])* pub enum $Name:ident { $($(#[$help:meta])* $Word:ident = $word:literal,)+ }) => {
        $(#[$about])*
        #[derive(serde::Serialize, serde::Deserialize)]
        pub enum $Name {
            $($(#[$help])* #[serde(rename = $word)] $Word,)+
        }
    };
}

#[cfg(not(feature = "serde"))]
#[doc(hidden)]
#[macro_export]
macro_rules! words {
    ($(#[$about:meta])* pub enum $Name:ident { $($(#[$help:meta])* $Word:ident = $word:literal,)+ }) => {
        $(#[$about])*
        pub enum $Name {
            $($(#[$help])* $Word,)+
        }
    };
}

/// What plans hold is written and read with serde, where this crate has that feature; whichever crate declares it.
#[cfg(feature = "serde")]
#[doc(hidden)]
#[macro_export]
macro_rules! in_plans {
    ($item:item) => {
        #[derive(serde::Serialize, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        $item
    };
}

#[cfg(not(feature = "serde"))]
#[doc(hidden)]
#[macro_export]
macro_rules! in_plans {
    ($item:item) => {
        $item
    };
}

/// Declares the parameters of a section. Each has a help text (its doc comment), a type, a default, bounds
/// (`in` a range, or `of` a list of choices, or neither), and the source of the default:
///
/// ```
/// use tailback_proto::parameters::{Declared, SHARE};
/// tailback_proto::parameters! {
///     /// A controller of an example.
///     pub struct ExampleParameters {
///         /// Share of the rate that a mark takes.
///         decrease: f64 = 0.5, in SHARE, source "RFC 3168, section 6.1.2: half";
///     }
/// }
/// assert!(ExampleParameters { decrease: 2.0 }.check().is_err());
/// assert_eq!(ExampleParameters::describe()[0].name, "decrease");
/// ```
///
/// In place of a default, `or null` or `or auto` says that scenarios may leave the value to whoever makes the plan, and with
/// neither they must give it. Such a section has no [`Default`].
///
/// A section of a plan may hold more than scenarios set. What is worked out stands in a second block, `worked out { ... }`, with
/// plain fields; such a section has no [`Default`] either, and is not [`Copy`].
#[macro_export]
macro_rules! parameters {
    (
        $(#[doc = $about:literal])+
        pub struct $Name:ident {
            $(
                $(#[doc = $help:literal])+
                $field:ident: $type:ty $(= $default:expr)?
                $(, or $word:ident)?
                $(, in $range:expr)?
                $(, of $choices:expr)?
                $(, source $source:expr)?;
            )*
        }
    ) => {
        $crate::in_plans! {
            $(#[doc = $about])+
            #[derive(Clone, Copy, Debug, PartialEq)]
            pub struct $Name {
                $( $(#[doc = $help])+ pub $field: $type, )*
            }
        }

        $crate::default_of! { $Name { $( $field $(= $default)?; )* } }

        $crate::declared! {
            $(#[doc = $about])+
            $Name {
                $( $(#[doc = $help])+ $field: $type $(= $default)? $(, or $word)? $(, in $range)? $(, of $choices)? $(, source $source)?; )*
            }
        }
    };
    (
        $(#[doc = $about:literal])+
        pub struct $Name:ident {
            $(
                $(#[doc = $help:literal])+
                $field:ident: $type:ty $(= $default:expr)?
                $(, or $word:ident)?
                $(, in $range:expr)?
                $(, of $choices:expr)?
                $(, source $source:expr)?;
            )*
        }
        worked out {
            $( $(#[$meta:meta])+ $other:ident: $other_type:ty; )*
        }
    ) => {
        $crate::in_plans! {
            $(#[doc = $about])+
            #[derive(Clone, Debug)]
            pub struct $Name {
                $( $(#[doc = $help])+ pub $field: $type, )*
                $( $(#[$meta])+ pub $other: $other_type, )*
            }
        }

        $crate::declared! {
            $(#[doc = $about])+
            $Name {
                $( $(#[doc = $help])+ $field: $type $(= $default)? $(, or $word)? $(, in $range)? $(, of $choices)? $(, source $source)?; )*
            }
        }
    };
}

/// [`Declared`](crate::parameters::Declared) of a section.
#[doc(hidden)]
#[macro_export]
macro_rules! declared {
    (
        $(#[doc = $about:literal])+
        $Name:ident {
            $(
                $(#[doc = $help:literal])+
                $field:ident: $type:ty $(= $default:expr)?
                $(, or $word:ident)?
                $(, in $range:expr)?
                $(, of $choices:expr)?
                $(, source $source:expr)?;
            )*
        }
    ) => {
        impl $crate::parameters::Declared for $Name {
            const ABOUT: &'static str = concat!($($about),+);

            fn describe() -> Vec<$crate::parameters::Parameter> {
                #[allow(unused_imports)]
                use $crate::parameters::{Parameter, Value};
                vec![$({
                    #[allow(unused_mut)]
                    let mut parameter = Parameter::new::<$type>(stringify!($field), concat!($($help),+));
                    $( parameter = parameter.or({ let value: $type = $default; value.plain() }); )?
                    $( parameter = parameter.worked_out(stringify!($word)); )?
                    $( parameter = parameter.within::<<$type as Value>::Bound>(&$range); )?
                    $(
                        let choices: &[$type] = &$choices;
                        parameter.choices = choices.iter().map(|choice| choice.plain()).collect();
                    )?
                    $( parameter.source = $source.to_string(); )?
                    parameter
                },)*]
            }

            fn check(&self) -> Result<(), $crate::parameters::Refused> {
                #[allow(unused_imports)]
                use $crate::parameters::{Refused, Value};
                $(
                    $( Refused::unless(self.$field.is_within(&$range), stringify!($field), $crate::parameters::bounds_in_words::<<$type as Value>::Bound>(&$range))?; )?
                    $(
                        let choices: &[$type] = &$choices;
                        Refused::unless(choices.contains(&self.$field), stringify!($field), $crate::parameters::choices_in_words(choices))?;
                    )?
                )*
                Ok(())
            }
        }
    };
}

/// [`Default`] of a section in which everything has one.
#[doc(hidden)]
#[macro_export]
macro_rules! default_of {
    ($Name:ident { $( $field:ident = $default:expr; )* }) => {
        impl Default for $Name {
            fn default() -> Self {
                $Name { $( $field: $default, )* }
            }
        }
    };
    ($Name:ident { $($fields:tt)* }) => {};
}

// The types that a parameter may have.

/// A value in base units.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(untagged))]
pub enum Plain {
    Null,
    Flag(bool),
    Whole(u64),
    Number(f64),
    Word(&'static str),
    List(Vec<u64>),
}

/// A type that a parameter may have.
pub trait Value: Copy {
    /// What bounds are given in.
    type Bound: PartialOrd + Value;
    /// Its name in [`Parameter::quantity`].
    const QUANTITY: &'static str;
    /// True if there may be none.
    const OPTIONAL: bool = false;
    /// Of a list: how many it may have.
    const LONGEST: Option<usize> = None;
    /// In base units.
    fn plain(self) -> Plain;
    /// True if it lies in these bounds; what is absent does.
    fn is_within(&self, bounds: &impl RangeBounds<Self::Bound>) -> bool;
}

macro_rules! value {
    ($($type:ty: $quantity:literal, $plain:expr;)*) => {$(
        impl Value for $type {
            type Bound = Self;
            const QUANTITY: &'static str = $quantity;
            fn plain(self) -> Plain {
                let plain: fn(Self) -> Plain = $plain;
                plain(self)
            }
            fn is_within(&self, bounds: &impl RangeBounds<Self>) -> bool {
                bounds.contains(self)
            }
        }
    )*};
}

value! {
    Time: "duration", |value| Plain::Whole(value.0);
    Rate: "rate", |value| Plain::Whole(value.0);
    Bytes: "size", |value| Plain::Whole(value.0);
    Hertz: "frequency", |value| Plain::Whole(value.0);
    u8: "count", |value| Plain::Whole(value as u64);
    u16: "count", |value| Plain::Whole(value as u64);
    u32: "count", |value| Plain::Whole(value as u64);
    u64: "count", |value| Plain::Whole(value);
    f64: "number", Plain::Number;
    bool: "flag", Plain::Flag;
}

impl<T: Value> Value for Option<T> {
    type Bound = T::Bound;
    const QUANTITY: &'static str = T::QUANTITY;
    const OPTIONAL: bool = true;
    fn plain(self) -> Plain {
        self.map_or(Plain::Null, Value::plain)
    }
    fn is_within(&self, bounds: &impl RangeBounds<T::Bound>) -> bool {
        self.as_ref().is_none_or(|value| value.is_within(bounds))
    }
}

/// One to sixteen rates, each below the one before.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(into = "Vec<Rate>", try_from = "Vec<Rate>"))]
pub struct FallingRates {
    rates: [Rate; FallingRates::LONGEST],
    count: usize,
}

impl FallingRates {
    const LONGEST: usize = 16;
}

impl std::ops::Deref for FallingRates {
    type Target = [Rate];
    fn deref(&self) -> &[Rate] {
        &self.rates[..self.count]
    }
}

impl TryFrom<Vec<Rate>> for FallingRates {
    type Error = String;
    fn try_from(given: Vec<Rate>) -> Result<Self, String> {
        let fall = given.windows(2).all(|pair| pair[0] > pair[1]);
        if given.is_empty() || given.len() > FallingRates::LONGEST || !fall {
            return Err(format!("expected 1 to {} rates, each below the one before", FallingRates::LONGEST));
        }
        let mut rates = [Rate(0); FallingRates::LONGEST];
        rates[..given.len()].copy_from_slice(&given);
        Ok(FallingRates { rates, count: given.len() })
    }
}

impl<const N: usize> From<[Rate; N]> for FallingRates {
    /// # Panics
    /// They do not fall, or they are too many: what is written in a source is right.
    fn from(rates: [Rate; N]) -> Self {
        FallingRates::try_from(rates.to_vec()).expect("they fall")
    }
}

impl From<FallingRates> for Vec<Rate> {
    fn from(rates: FallingRates) -> Self {
        rates.to_vec()
    }
}

impl Value for FallingRates {
    type Bound = Rate;
    const QUANTITY: &'static str = "falling rates";
    const LONGEST: Option<usize> = Some(FallingRates::LONGEST);
    fn plain(self) -> Plain {
        Plain::List(self.iter().map(|rate| rate.0).collect())
    }
    fn is_within(&self, bounds: &impl RangeBounds<Rate>) -> bool {
        self.iter().all(|rate| bounds.contains(rate))
    }
}

/// The network's round trip without queues: a time, or [`RoundTrip::AUTO`] until the network is known. A plan has a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RoundTrip(pub Time);

impl RoundTrip {
    /// The longest between two hosts of the network, to be worked out by who makes the plan.
    pub const AUTO: RoundTrip = RoundTrip(Time::ZERO);
}

impl Value for RoundTrip {
    type Bound = Time;
    const QUANTITY: &'static str = "round-trip";
    fn plain(self) -> Plain {
        if self == RoundTrip::AUTO {
            Plain::Word("auto")
        } else {
            self.0.plain()
        }
    }
    fn is_within(&self, bounds: &impl RangeBounds<Time>) -> bool {
        bounds.contains(&self.0)
    }
}

// Values and bounds as scenarios have them.

/// A value as scenarios have it, such as `500us`, `16KB` or `100Gbps`: in the largest unit that it is a multiple of.
pub fn in_words<V: Value>(value: V) -> String {
    let units = match V::QUANTITY {
        "duration" | "round-trip" => ["ps", "ns", "us", "ms", "s"],
        "rate" | "falling rates" => ["bps", "Kbps", "Mbps", "Gbps", "Tbps"],
        "size" => ["B", "KB", "MB", "GB", "TB"],
        "frequency" => ["Hz", "kHz", "MHz", "GHz", "THz"],
        _ => [""; 5],
    };
    match value.plain() {
        Plain::Whole(whole) => {
            let divides = |&step: &usize| whole > 0 && whole % 1000u64.pow(step as u32) == 0;
            let step = if units[1].is_empty() { 0 } else { (0..5).rev().find(divides).unwrap_or(0) };
            format!("{}{}", whole / 1000u64.pow(step as u32), units[step])
        }
        Plain::Number(number) => number.to_string(),
        Plain::Flag(flag) => flag.to_string(),
        Plain::Word(word) => word.to_string(),
        Plain::Null => "null".to_string(),
        Plain::List(values) => format!("{values:?}"),
    }
}

/// Bounds as scenarios have them: `1us to 600s`, `above 0 and at most 1`, `at least 1B`.
pub fn bounds_in_words<B: Value>(bounds: &impl RangeBounds<B>) -> String {
    let words = |bound: Bound<&B>| match bound {
        Bound::Included(bound) | Bound::Excluded(bound) => in_words(*bound),
        Bound::Unbounded => String::new(),
    };
    let (least, most) = (words(bounds.start_bound()), words(bounds.end_bound()));
    let below = if matches!(bounds.end_bound(), Bound::Excluded(_)) { "below" } else { "at most" };
    match (bounds.start_bound(), bounds.end_bound()) {
        (Bound::Excluded(_), Bound::Unbounded) => format!("above {least}"),
        (Bound::Excluded(_), _) => format!("above {least} and {below} {most}"),
        (Bound::Included(_), Bound::Unbounded) => format!("at least {least}"),
        (Bound::Included(_), Bound::Included(_)) => format!("{least} to {most}"),
        (Bound::Included(_), Bound::Excluded(_)) => format!("at least {least} and {below} {most}"),
        (Bound::Unbounded, _) => format!("{below} {most}"),
    }
}

/// Choices as scenarios have them: `one of 256B, 512B`.
pub fn choices_in_words<V: Value>(choices: &[V]) -> String {
    let words: Vec<String> = choices.iter().map(|&choice| in_words(choice)).collect();
    format!("one of {}", words.join(", "))
}
