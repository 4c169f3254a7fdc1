//! What is recorded, for the book: every series, every counter and every column.

use serde::Serialize;

use super::flows::COLUMNS;
use super::quantity::{Counters, Quantity, Table};
use super::recording::KINDS;
use super::signals::Signal;
use super::{bridges, hosts, ports, qdisc, queue_pairs, tcp, veth};

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
    /// What has the counter.
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

/// What counters of some kinds of entities are of.
fn counted_at(of: &'static [&'static str]) -> &'static str {
    match of {
        ["receive"] | ["nic-rx"] => "host",
        ["egress"] => "switch port",
        ["send", ..] | ["ingress", ..] => "port",
        _ => of[0],
    }
}

pub fn reference() -> Reference {
    let tables = [
        &hosts::NIC,
        &hosts::DELAY,
        &tcp::CPU,
        &hosts::AGENT,
        &queue_pairs::ITEM,
        &queue_pairs::ITEM_AT_SENDER,
        &queue_pairs::RATE,
        &queue_pairs::DELIVERED,
        &tcp::CONNECTION,
        &ports::SEND,
        &ports::EGRESS,
        &ports::MARKS,
        &ports::PAUSED,
        &ports::INGRESS,
        &ports::PAUSING,
        &ports::REFUSED,
        &tcp::RINGS,
        &hosts::BUFFER,
        &hosts::XOFF,
        &hosts::PCIE,
        &hosts::IIO,
        &hosts::TARGET,
        &hosts::MEMORY,
        &hosts::MEMORY_OF_NIC,
        &bridges::TX_RING,
        &bridges::QDISC,
        &bridges::RX_RING,
        &bridges::CORE,
        &veth::LIST,
        &veth::THREAD,
        &veth::RING,
        &veth::LIMITS,
        &veth::WAITING,
        &veth::QDISC_DROPS,
        &veth::NAMESPACE,
        &veth::PING,
    ];
    let series = tables
        .into_iter()
        .flat_map(|table: &'static Table| table.rows.iter().map(|row| Documented::of(table.of, row)));
    let mut quantities: Vec<Documented> = series.collect();
    counted(&mut quantities, &hosts::NIC_COUNTS);
    counted(&mut quantities, &hosts::PROBES);
    counted(&mut quantities, &hosts::LEVEL_CHANGES);
    counted(&mut quantities, &tcp::RECEIVED);
    counted(&mut quantities, &tcp::SEGMENTS);
    counted(&mut quantities, &hosts::COUNTS);
    counted(&mut quantities, &hosts::MEMORY_COUNTS);
    counted(&mut quantities, &hosts::GPU_COUNTS);
    counted(&mut quantities, &ports::FRAMES);
    counted(&mut quantities, &ports::DISCARDS);
    counted(&mut quantities, &ports::TRIMS);
    counted(&mut quantities, &ports::WATERMARKS);
    counted(&mut quantities, &ports::WATCHDOG);
    counted(&mut quantities, &bridges::PORT_COUNTS);
    counted(&mut quantities, &veth::END_COUNTS);
    counted(&mut quantities, &qdisc::ROOT);
    counted(&mut quantities, &qdisc::CHILD);
    counted(&mut quantities, &qdisc::DROPPED);
    counted(&mut quantities, &qdisc::RED);
    counted(&mut quantities, &qdisc::CODEL);
    counted(&mut quantities, &qdisc::FQ_CODEL);
    let columns = COLUMNS.iter().map(|column| (column.name, column.read.type_name(), column.help));
    let signals = Signal::ALL.iter().map(|signal| (signal.name(), signal.lasts(), signal.help()));
    Reference { kinds: KINDS.to_vec(), quantities, signals: signals.collect(), columns: columns.collect() }
}

fn counted<T>(quantities: &mut Vec<Documented>, table: &'static Counters<T>) {
    quantities.extend(table.rows.iter().map(|row| Documented::of(table.of, row)));
}
