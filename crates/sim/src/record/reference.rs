//! The book's reference of recordings: every series, every counter and every column.

use serde::Serialize;

use super::flows::COLUMNS;
use super::quantity::{all_tables, Quantities, Quantity};
use super::recording::KINDS;
use super::signals::Signal;

/// All of it.
#[derive(Debug, Serialize)]
pub struct Reference {
    /// Kinds of entities, and what each is.
    pub kinds: Vec<(&'static str, &'static str)>,
    /// Series and counters.
    pub quantities: Vec<Documented>,
    /// Of the log of signals: name, whether it lasts, and what it is.
    pub signals: Vec<(&'static str, bool, &'static str)>,
    /// Of the flow table: name, type and what it is.
    pub columns: Vec<(&'static str, &'static str, &'static str)>,
}

/// A series, a counter, or both.
#[derive(Debug, Serialize)]
pub struct Documented {
    /// Kinds of entities that have the series.
    pub of: &'static [&'static str],
    /// The kind of node or port that has the counter.
    pub at: &'static str,
    /// Name of the series; empty: it has none.
    pub metric: &'static str,
    /// Name of the counter, with N for a class; empty: it has none.
    pub counter: String,
    /// Unit of the series, or of the counter.
    pub unit: &'static str,
    /// The signal that it is; empty: it is none.
    pub signal: &'static str,
    /// How a bin's value comes about, in a word.
    pub merged: &'static str,
    /// One line.
    pub help: &'static str,
}

impl Documented {
    fn of(of: &'static [&'static str], row: &Quantity) -> Self {
        Documented {
            of,
            at: counted_at(of),
            metric: row.metric,
            counter: row.counter.replace('#', "N"),
            unit: row.unit,
            signal: row.signal.map_or("", Signal::name),
            merged: row.merged(),
            help: row.help,
        }
    }
}

/// The kind of node or port that has the counters of these kinds of entities.
fn counted_at(of: &'static [&'static str]) -> &'static str {
    match of {
        ["receive"] | ["nic-rx"] => "host",
        ["egress"] => "switch port",
        ["send", ..] | ["ingress", ..] => "port",
        _ => of[0],
    }
}

pub fn reference() -> Reference {
    let documented = |table: &'static Quantities| table.rows.iter().map(|row| Documented::of(table.of, row));
    let (series, counted): (Vec<_>, Vec<_>) =
        all_tables().flat_map(documented).partition(|row| !row.metric.is_empty());
    let columns = COLUMNS.iter().map(|column| (column.name, column.read.type_name(), column.help));
    let signals = Signal::ALL.iter().map(|signal| (signal.name(), signal.lasts(), signal.help()));
    let quantities = series.into_iter().chain(counted).collect();
    Reference { kinds: KINDS.to_vec(), quantities, signals: signals.collect(), columns: columns.collect() }
}
