//! The largest numbers of a plan. With them no sum of times passes 64 bits, no piece of work takes for ever at one instant,
//! and what memory is set aside for is in proportion to what such things have in the world.
//!
//! Numbers that have a reason of their own to be bounded are checked where they are; those of controllers where they are
//! declared.

use super::jobs::{StepPlan, What};
use super::{impossible, Plan, PlanError};
use crate::engine::EventQueue;

/// The latest instant and the longest interval, half of what the event queue can hold: 10 hours.
const LONGEST_PS: u64 = EventQueue::HORIZON.0 / 2;
/// Most queue pairs of all writers, and as many TCP connections: each takes about a kilobyte.
const MOST_CONNECTIONS: u64 = 1 << 20;
/// Refuses numbers above `most`.
fn check(place: &str, most: u64, numbers: &[(&str, u64)]) -> Result<(), PlanError> {
    match numbers.iter().find(|(_, number)| *number > most) {
        Some((name, number)) => Err(impossible(place, format!("{name} is {number}, above {most}"))),
        None => Ok(()),
    }
}

/// How long an operation computes, ps.
fn computes((_, what): (u32, What)) -> u64 {
    match what {
        What::Compute(ps) => ps,
        _ => 0,
    }
}

impl Plan {
    /// Refuses numbers that are too large for any run.
    pub(super) fn check_limits(&self) -> Result<(), PlanError> {
        let mut qps = 0u64;
        for writer in &self.writers {
            qps += writer.qps as u64;
            check("writers", MOST_CONNECTIONS, &[("sum of qps", qps)])?;
        }
        let mut connections = 0u64;
        for item in &self.tcp_connections {
            connections += item.connections as u64;
            check("tcp_connections", MOST_CONNECTIONS, &[("sum of connections", connections)])?;
        }
        for (index, flow) in self.flows.list.iter().enumerate() {
            check(&format!("flows[{index}]"), LONGEST_PS, &[("start", flow.start().0)])?;
        }
        for (index, job) in self.jobs.iter().enumerate() {
            check(&format!("jobs[{index}]"), LONGEST_PS, &[("start_ps", job.start_ps)])?;
            for (number, step) in job.steps.iter().enumerate() {
                let longest = match step {
                    StepPlan::Compute(ps) => *ps,
                    StepPlan::Graph(operations) => operations.iter().map(computes).max().unwrap_or(0),
                    StepPlan::Collective(_) => 0,
                };
                check(&format!("jobs[{index}].steps[{number}]"), LONGEST_PS, &[("compute", longest)])?;
            }
        }
        Ok(())
    }
}
