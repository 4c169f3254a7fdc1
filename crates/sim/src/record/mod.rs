//! What a run leaves behind: time series, one row for each queue pair and TCP connection, counters, and the books.

mod audit;
pub(crate) mod bins;
mod blocks;
mod bridges;
mod columns;
pub(crate) mod counters;
mod entity;
mod flow;
mod flows;
mod host_paths;
pub(crate) mod hosts;
mod items;
#[cfg(debug_assertions)]
mod littles_law;
mod meta;
mod parts;
pub(crate) mod ports;
mod qdisc;
pub(crate) mod quantity;
pub(crate) mod queue_pairs;
mod queues;
pub(crate) mod readings;
mod recording;
mod reference;
mod rows;
pub(crate) mod series;
mod settings;
pub(crate) mod signals;
mod skipping;
mod store;
mod tcp;
mod told;
mod veth;

pub use blocks::{Cells, FlowBlock, Values, BLOCK_ROWS};
pub use columns::{Column, Read, COLUMNS};
pub use entity::{Entity, KINDS};
pub use flow::Flow;
pub(crate) use queues::Listed;
pub use recording::{
    BridgeCore, Conservation, CoreShares, Counter, Cpu, DataPackets, Drop, Fault, Latency, Meta, Pause,
    PauseStorm, Pings, Queue, Recording, Sender, Series, Skipped, Teardown, Veth, VethEnd,
};
pub use reference::{reference, Reference};
pub use rows::FlowBlocks;
pub(crate) use rows::FlowRows;
pub(crate) use series::Recorder;
pub use settings::{RecordParameters, MIN_BINS};
pub use signals::{Signal, Signals, Told, Who};

use crate::plan::Plan;
use crate::world::World;

/// What is kept of the queue pair in a slot that will be given to another: its row goes to the others.
pub(crate) fn record_message(
    plan: &Plan,
    world: &World,
    detail: series::Detail,
    (rows, queues): (&mut FlowRows, &mut Listed),
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
    queues: Listed,
) -> Recording {
    world.fabric.close_pauses();
    let queues = queues.finish(plan, world, recorder.detail);
    let (series, signals) = recorder.into_series(plan, world);
    let queue_pairs = world.nics.slots.numbers(world.nics.send_qps.len()) as usize;
    flows::flows(plan, world).for_each(|(number, row)| rows.put(number, row));
    (queue_pairs..).zip(tcp::flows(plan, world)).for_each(|(number, row)| rows.put(number, row));
    let (blocks, flows) = rows.finish();
    let counters = counters::counters(plan, world);
    let meta = meta::meta(plan, world, &series, queues, events, complete);
    Recording { blocks, flows, series, signals, counters, meta }
}
