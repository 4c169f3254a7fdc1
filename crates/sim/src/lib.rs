//! Where and when: the event engine and the models of the fabric, the NIC and the host.
//!
//! A [`plan::Plan`] goes in, a [`record::Recording`] comes out:
//!
//! ```
//! # fn run(plan_json: &str) -> Result<(), tailback_sim::plan::PlanError> {
//! let plan = tailback_sim::plan::Plan::from_json(plan_json)?;
//! let mut simulation = tailback_sim::Simulation::new(plan)?;
//! while !simulation.advance(200_000).done {}
//! let recording = simulation.finish();
//! # Ok(())
//! # }
//! ```
//!
//! Another engine, with packets and rules of its own, may use the parts below it: the event queue and the store of packets
//! ([`engine`]), the measures of queues ([`gauge`]), messages that wait for messages ([`work`]), and the series, counters and
//! flow table of a recording ([`record::Readings`], [`record::Rows`], [`record::FlowRows`]), under the names that are declared here
//! ([`quantities_as!`], [`counters_as!`]).

// `#[inline(never)]` without a reason beside it: the function is for what most runs never need. Inlined, it would take
// registers and cache lines from the code around it, which every packet passes.

// Helpers of the tests in `tests` name this crate so; those of tests inside it use them, too.
#[cfg(test)]
extern crate self as tailback_sim;

pub mod capture;
mod cores;
mod declare;
pub mod engine;
mod event;
mod fabric;
pub mod gauge;
mod host;
mod jobs;
mod linux;
mod nic;
pub mod plan;
pub mod record;
mod run;
pub mod settings;
mod simulation;
pub mod work;
mod workload;
mod world;

pub use jobs::circle;
pub use simulation::{Progress, Simulation};
