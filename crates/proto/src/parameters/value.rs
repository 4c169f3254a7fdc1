//! The types that a parameter may have.

use std::ops::RangeBounds;

use crate::units::{Bytes, Hertz, Rate, Time};

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
    /// Whether there may be none.
    const OPTIONAL: bool = false;
    /// Of a list: how many it may have.
    const LONGEST: Option<usize> = None;
    /// In base units.
    fn plain(self) -> Plain;
    /// Whether it lies in these bounds; what is absent does.
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
