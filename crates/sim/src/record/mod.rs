//! The recording of a run: time series, one row for each queue pair and TCP connection, counters, and the books.

mod audit;
mod counters;
mod flows;
mod hosts;
#[cfg(debug_assertions)]
mod littles_law;
mod ports;
pub(crate) mod quantity;
mod queue_pairs;
pub(crate) mod recording;
mod reference;
mod rows;
pub(crate) mod series;
pub(crate) mod settings;
pub(crate) mod signals;
mod tcp;

pub use crate::record::flows::Flow;
pub use crate::record::flows::{Cells, FlowBlock, Values, BLOCK_ROWS};
pub use crate::record::flows::{Column, Read, COLUMNS};
pub(crate) use crate::record::ports::ListedQueues;
pub use crate::record::recording::{Entity, KINDS};
pub use crate::record::settings::{RecordParameters, MIN_BINS};
pub use counters::Rows;
pub use quantity::{bits_per_second, counter_named, series_of};
pub use quantity::{Add, Bin, Counters, Quantities, Quantity, Table, ValueKind};
pub use recording::{
    BridgeCore, Conservation, CoreShares, Counter, Cpu, DataPackets, Drop, Fault, Latency, Meta, Pause,
    PauseStorm, Pings, Queue, Recording, Sender, Series, Skipped, Teardown, Veth, VethEnd,
};
pub use reference::{reference, Reference};
pub use rows::FlowBlocks;
pub use rows::FlowRows;
pub(crate) use series::Recorder;
pub use series::{Bins, Detail, Readings, ShownSignal, FEW_BINS, FIRST_BIN, MAX_VALUES};
pub use signals::{Signal, SignalEnds, SignalRow, Signals};

use crate::plan::Plan;
use crate::world::World;

/// Keeps the row of the queue pair in a slot that will be given to another.
pub(crate) fn record_message(
    plan: &Plan,
    world: &World,
    detail: series::Detail,
    (rows, queues): (&mut FlowRows, &mut ListedQueues),
    slot: u32,
) {
    let s = &world.nics.send_qps[slot as usize];
    rows.put(s.number as usize, flows::flow(plan, world, slot as usize));
    let connection = (s.number, s.src, s.dst, s.code_point);
    queues.add(plan, world, detail, std::iter::once(connection));
}

/// Collects the recording at the end of a run.
pub(crate) fn recording(
    plan: &Plan,
    world: &mut World,
    recorder: Recorder,
    events: u64,
    complete: bool,
    mut rows: FlowRows,
    queues: ListedQueues,
) -> Recording {
    world.fabric.close_pauses();
    let queues = queues.finish(plan, world, recorder.detail);
    let (series, signals) = recorder.into_series(plan, world);
    let queue_pairs = world.nics.slots.numbers(world.nics.send_qps.len()) as usize;
    flows::flows(plan, world).for_each(|(number, row)| rows.put(number, row));
    (queue_pairs..).zip(tcp::flows(plan, world)).for_each(|(number, row)| rows.put(number, row));
    let (blocks, flows) = rows.finish();
    let counters = counters::counters(plan, world);
    let meta = recording::meta(plan, world, &series, queues, events, complete);
    Recording { blocks, flows, series, signals, counters, meta }
}
