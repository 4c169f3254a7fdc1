//! What a run leaves behind: time series, one row for each queue pair and TCP connection, counters, and the books.

mod audit;
mod bridges;
mod counters;
mod entity;
mod flows;
mod items;
mod meta;
mod paths;
mod qdisc;
pub(crate) mod series;
mod settings;
pub(crate) mod source;
mod tcp;
mod veth;

pub use bridges::BridgeCore;
pub use counters::Counter;
pub use entity::Entity;
pub use flows::Flow;
pub use meta::{Conservation, DataPackets, Drop, Fault, Meta, Pause, Queue};
pub(crate) use series::Recorder;
pub use series::Series;
pub use settings::{RecordParameters, MIN_BINS};
pub use tcp::{CoreShares, Cpu};
pub use veth::{Pings, Sender, Teardown, Veth, VethEnd};

use tailback_proto::units::Time;

use crate::plan::Plan;
use crate::world::World;

/// Everything that was recorded.
#[derive(Debug)]
pub struct Recording {
    /// A row a queue pair or TCP connection.
    pub flows: Vec<Flow>,
    /// Time series.
    pub series: Series,
    /// Counters of hosts and switch ports.
    pub counters: Vec<Counter>,
    /// The rest.
    pub meta: Meta,
}

/// Collects the recording at the end of a run.
pub(crate) fn recording(
    plan: &Plan,
    world: &mut World,
    recorder: Recorder,
    events: u64,
    complete: bool,
) -> Recording {
    world.fabric.close_pauses();
    let series = recorder.into_series(world.fabric.run.now);
    let mut flows = flows::flows(plan, world);
    flows.extend(tcp::flows(plan, world));
    let counters = counters::counters(plan, world);
    let meta = meta::meta(plan, world, &series, events, complete);
    Recording { flows, series, counters, meta }
}

/// A rate in bit/s from bytes over a span; 0 for an empty span.
pub(crate) fn bits_per_second(bytes: u64, span: Time) -> f64 {
    if span == Time::ZERO {
        0.0
    } else {
        bytes as f64 * 8.0 / span.as_secs_f64()
    }
}
