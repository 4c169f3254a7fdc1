//! Recorded quantities. Each has one row, which gives its series, its counter and its line in the reference.
//!
//! Rows form tables, because all that is read at one place is read together: [`quantities!`] declares quantities with
//! series, [`counters!`] those that are only counted. Each file declares its tables in one [`recorded!`], which lists them, and
//! [`TABLES`] is all of these lists.
//!
//! Another engine, with a world of its own, reads rows of the same names ([`quantities_as!`](crate::quantities_as),
//! [`counters_as!`](crate::counters_as)).

use tailback_proto::units::Time;

use super::queue_pairs::Items;
use super::signals::Signal;
use super::{hosts, ports, queue_pairs, tcp};
use crate::gauge::TICK_PS;
use crate::linux::record::{bridges, qdisc, veth};

/// How a value is read, and how bins are merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// A count in the bin: the difference of a counter.
    Count,
    /// Bytes in the bin, shown as bit/s.
    Rate,
    /// A counter of picoseconds, shown as a share of the bin.
    Share,
    /// A mean over the bin.
    Mean,
    /// A value at the end of the bin; several bins are averaged.
    Now,
    /// A counter of bytes times ticks, shown as the mean of the bytes.
    Integral,
    /// A sample: the last one before the bin's end.
    Last,
    Max,
}

impl ValueKind {
    /// How a bin's value is made, in words.
    pub fn text(self) -> &'static str {
        match self {
            ValueKind::Count => "count",
            ValueKind::Rate => "mean",
            ValueKind::Share => "share",
            ValueKind::Mean | ValueKind::Now | ValueKind::Integral => "mean",
            ValueKind::Last => "last",
            ValueKind::Max => "maximum",
        }
    }

    /// Merges bins of equal length into one value.
    #[inline]
    pub fn merged<const FACTOR: usize>(self, bins: [f64; FACTOR]) -> f64 {
        match self {
            ValueKind::Count => bins.iter().sum(),
            ValueKind::Max => bins.into_iter().fold(0.0, f64::max),
            ValueKind::Last => bins[FACTOR - 1],
            ValueKind::Rate | ValueKind::Share | ValueKind::Mean | ValueKind::Now | ValueKind::Integral => {
                bins.iter().sum::<f64>() / FACTOR as f64
            }
        }
    }

    /// The value of a bin of `span` from the difference of a counter.
    #[inline]
    pub fn of_difference(self, difference: u64, span: Time) -> f64 {
        if difference == 0 {
            return 0.0; // as mostly: without conversions and divisions
        }
        match self {
            ValueKind::Rate => bits_per_second(difference, span),
            ValueKind::Share => difference as f64 / span.0 as f64,
            ValueKind::Integral => difference as f64 * TICK_PS as f64 / span.0 as f64,
            _ => difference as f64,
        }
    }

    /// Value that the counter of such a quantity shows: times in microseconds.
    pub fn counted(self, total: u64) -> u64 {
        match self {
            ValueKind::Share => total / PICOSECONDS_TO_MICROSECONDS,
            _ => total,
        }
    }
}

pub(crate) const PICOSECONDS_TO_MICROSECONDS: u64 = 1_000_000;

/// A rate in bit/s from bytes over a span; 0 for an empty span.
pub fn bits_per_second(bytes: u64, span: Time) -> f64 {
    if span == Time::ZERO {
        0.0
    } else {
        bytes as f64 * 8.0 / span.as_secs_f64()
    }
}

/// A quantity that is recorded.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    /// Name of its series; empty if it has none.
    pub metric: &'static str,
    /// Name of its counter, with `N` for the class; empty if it has none.
    pub counter: &'static str,
    /// Unit of its series, or of its counter if it has no series.
    pub unit: &'static str,
    /// How bins are merged; `None` if it has no series.
    pub(crate) kind: Option<ValueKind>,
    /// True if an entity is kept once this quantity is above 0.
    pub(crate) keeps: bool,
    /// The signal that it is, if it is one: the log of signals has its bins.
    pub signal: Option<Signal>,
    /// Its line in the reference.
    pub help: &'static str,
}

impl Quantity {
    /// True if bins hold this kind of value.
    pub const fn is(&self, kind: ValueKind) -> bool {
        matches!(self.kind, Some(own) if own as u8 == kind as u8)
    }

    /// How a bin's value is made, in a word; empty if it has no series.
    pub fn merged(&self) -> &'static str {
        self.kind.map_or("", ValueKind::text)
    }
}

/// The bin or run that ends now, and the world of its engine.
pub struct Bin<'a, W> {
    pub world: &'a mut W,
    /// Traffic items, where there are several.
    pub(crate) items: Option<&'a Items>,
    pub now: Time,
    pub span: Time,
}

/// Takes counters, by name.
pub type Add<'a> = &'a mut dyn FnMut(&'static str, u64);

/// Quantities that are read together.
#[derive(Debug)]
pub struct Quantities {
    /// Kinds of entities that have them.
    pub of: &'static [&'static str],
    /// True if its entities are recorded even if nothing happens.
    pub always: bool,
    pub rows: &'static [Quantity],
}

/// All tables of the engine, by file.
const TABLES: [&[&Quantities]; 7] = [
    hosts::TABLES,
    tcp::TABLES,
    queue_pairs::TABLES,
    ports::TABLES,
    bridges::TABLES,
    veth::TABLES,
    qdisc::TABLES,
];

/// All tables of the engine.
pub(crate) fn all_tables() -> impl Iterator<Item = &'static Quantities> {
    TABLES.into_iter().flatten().copied()
}

/// Quantities that are read together, in the world of an engine.
#[derive(Debug)]
pub struct Table<W> {
    pub quantities: Quantities,
    /// Reads the values of the bin at a place, given the counters at its start.
    pub read: fn(&mut Bin<W>, usize, before: &mut [u64], values: &mut [f64]),
    /// Passes on the counters at a place, by name.
    pub count: fn(&mut Bin<W>, usize, Add),
}

/// Counters without a series, counted by a `T`.
#[derive(Debug)]
pub struct Counters<T: ?Sized> {
    pub quantities: Quantities,
    /// Passes on those at a place, by name.
    pub count: fn(&T, usize, Add),
}

/// The row of a kind of entity whose series has this name, and whether such entities are always recorded. Does not compile where
/// there is none.
pub const fn series_of(kind: &str, metric: &str) -> (Quantity, bool) {
    let (mut file, mut table, mut at) = (0, 0, 0);
    loop {
        let tables = TABLES[file];
        if table == tables.len() {
            (file, table) = (file + 1, 0);
        } else if at == tables[table].rows.len() || !has(tables[table].of, kind) {
            (table, at) = (table + 1, 0);
        } else if are_equal(tables[table].rows[at].metric, metric) {
            return (tables[table].rows[at], tables[table].always);
        } else {
            at += 1;
        }
    }
}

/// The row whose counter has this name. Does not compile where there is none.
pub const fn counter_named(name: &str) -> Quantity {
    let (mut file, mut table, mut at) = (0, 0, 0);
    loop {
        let tables = TABLES[file];
        if table == tables.len() {
            (file, table) = (file + 1, 0);
        } else if at == tables[table].rows.len() {
            (table, at) = (table + 1, 0);
        } else if are_equal(tables[table].rows[at].counter, name) {
            return tables[table].rows[at];
        } else {
            at += 1;
        }
    }
}

const fn has(of: &[&str], kind: &str) -> bool {
    let mut at = 0;
    while at < of.len() {
        if are_equal(of[at], kind) {
            return true;
        }
        at += 1;
    }
    false
}

const fn are_equal(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

/// Declares the tables of a file, each as `quantities { ... }` or `counters { ... }`, or by a macro of the file that makes one, and lists
/// them.
macro_rules! recorded {
    ($($declares:ident { $(#[$doc:meta])* $name:ident $($rest:tt)* })*) => {
        $($declares! { $(#[$doc])* $name $($rest)* })*

        pub(crate) const TABLES: &[&$crate::record::quantity::Quantities] = &[$(&$name.quantities),*];
    };
}

/// Declares a [`Table`]. A row is
/// `"metric": KIND keeps ("counter") [SIGNAL], "unit", "help" = value`, where `keeps`, counter and signal are optional. The
/// value is that of a counter (`Count`, `Rate`, `Share`) or of the bin (`Mean`, `Now`, `Last`, `Max`).
macro_rules! quantities {
    (
        $(#[$doc:meta])*
        $name:ident of [$($of:literal),*] $($always:ident)?, |$bin:ident, $at:ident| {
            $($metric:literal: $kind:ident $($keeps:ident)? $(($counter:literal))? $([$signal:ident])?, $unit:literal, $help:literal = $read:expr;)*
        }
    ) => {
        $(#[$doc])*
        pub(crate) static $name: $crate::record::quantity::Table<$crate::world::World> = {
            use $crate::record::quantity::{Bin, Quantities, Quantity, Table, ValueKind};
            use $crate::world::World;
            const ROWS: &[Quantity] = &[$(Quantity {
                metric: $metric,
                counter: concat!($($counter)?),
                unit: $unit,
                kind: Some(ValueKind::$kind),
                keeps: matches!(ValueKind::$kind, ValueKind::Max) $(|| stringify!($keeps).len() > 0)?,
                signal: $crate::record::quantity::signal!($($signal)?),
                help: $help,
            }),*];
            #[allow(unused_assignments, unused_variables)]
            fn read($bin: &mut Bin<World>, $at: usize, before: &mut [u64], values: &mut [f64]) {
                let (before, values) = (&mut before[..ROWS.len()], &mut values[..ROWS.len()]);
                let mut row = 0;
                $(
                    values[row] = $crate::value_of_bin!($kind, $bin, &mut before[row], $read);
                    row += 1;
                )*
            }
            #[allow(unused_variables)]
            fn count($bin: &mut Bin<World>, $at: usize, add: $crate::record::quantity::Add) {
                $($(
                    let total = $read;
                    add($counter, ValueKind::$kind.counted(total));
                )?)*
            }
            let always = false $(|| stringify!($always).len() > 0)?;
            Table { quantities: Quantities { of: &[$($of),*], always, rows: ROWS }, read, count }
        };
    };
}

/// The signal of a row, if it is one.
macro_rules! signal {
    () => {
        None
    };
    ($signal:ident) => {
        Some($crate::record::signals::Signal::$signal)
    };
}

/// The value of a bin: from a counter, or as it is read.
#[doc(hidden)]
#[macro_export]
macro_rules! value_of_bin {
    (Mean, $bin:ident, $before:expr, $read:expr) => {
        $read
    };
    (Now, $bin:ident, $before:expr, $read:expr) => {
        $read
    };
    (Max, $bin:ident, $before:expr, $read:expr) => {
        $read
    };
    (Last, $bin:ident, $before:expr, $read:expr) => {
        $read
    };
    ($kind:ident, $bin:ident, $before:expr, $read:expr) => {{
        let counter: u64 = $read;
        let difference = counter - std::mem::replace($before, counter);
        ValueKind::$kind.of_difference(difference, $bin.span)
    }};
}

/// Declares [`Counters`]. A row is `"counter": "unit", "help" = value`.
macro_rules! counters {
    (
        $(#[$doc:meta])*
        $name:ident of [$($of:literal),*], |$one:ident: $type:ty, $at:pat_param| {
            $($counter:literal: $unit:literal, $help:literal = $read:expr;)*
        }
    ) => {
        $(#[$doc])*
        pub(crate) static $name: $crate::record::quantity::Counters<$type> = {
            use $crate::record::quantity::{Counters, Quantities, Quantity};
            fn count($one: &$type, $at: usize, add: $crate::record::quantity::Add) {
                $(add($counter, $read);)*
            }
            const ROWS: &[Quantity] = &[$(Quantity {
                metric: "",
                counter: $counter,
                unit: $unit,
                kind: None,
                keeps: false,
                signal: None,
                help: $help,
            }),*];
            Counters { quantities: Quantities { of: &[$($of),*], always: false, rows: ROWS }, count }
        };
    };
}

/// Declares how another engine reads the series of a kind of entity. Their units, help and signals are those of this engine's rows of
/// the same names. A row is `"metric": KIND = value`. Counters are separate ([`counters_as!`](crate::counters_as)).
#[macro_export]
macro_rules! quantities_as {
    (
        $(#[$doc:meta])*
        $name:ident of $of:literal, |$bin:ident: $world:ty, $at:ident| {
            $($metric:literal: $kind:ident = $read:expr;)*
        }
    ) => {
        $(#[$doc])*
        static $name: $crate::record::Table<$world> = {
            use $crate::record::{series_of, Bin, Quantities, Quantity, Table, ValueKind};
            const ROWS: &[Quantity] = &[$(series_of($of, $metric).0),*];
            const KINDS: &[ValueKind] = &[$(ValueKind::$kind),*];
            const _: () = {
                let mut row = 0;
                while row < ROWS.len() {
                    assert!(ROWS[row].is(KINDS[row]), "the series is of another kind");
                    row += 1;
                }
            };
            #[allow(unused_assignments, unused_variables)]
            fn read($bin: &mut Bin<$world>, $at: usize, before: &mut [u64], values: &mut [f64]) {
                let (before, values) = (&mut before[..ROWS.len()], &mut values[..ROWS.len()]);
                let mut row = 0;
                $(
                    values[row] = $crate::value_of_bin!($kind, $bin, &mut before[row], $read);
                    row += 1;
                )*
            }
            const ALWAYS: bool = false $(|| series_of($of, $metric).1)*;
            Table { quantities: Quantities { of: &[$of], always: ALWAYS, rows: ROWS }, read, count: |_, _, _| {} }
        };
    };
}

/// Declares what another engine counts under the names of this engine's counters. A row is `"counter" = value`.
#[macro_export]
macro_rules! counters_as {
    (
        $(#[$doc:meta])*
        $name:ident, |$one:ident: $type:ty, $at:ident| {
            $($counter:literal = $read:expr;)*
        }
    ) => {
        $(#[$doc])*
        static $name: $crate::record::Counters<$type> = {
            use $crate::record::{counter_named, Add, Counters, Quantities, Quantity};
            const ROWS: &[Quantity] = &[$(counter_named($counter)),*];
            fn count($one: &$type, $at: usize, add: Add) {
                $(add($counter, $read);)*
            }
            Counters { quantities: Quantities { of: &[], always: false, rows: ROWS }, count }
        };
    };
}

pub(crate) use {counters, quantities, recorded, signal};
