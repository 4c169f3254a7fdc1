//! The largest numbers of a plan. With them no sum of times passes 64 bits, no piece of work takes for ever at one instant,
//! and what memory is set aside for is in proportion to what such things have in the world.
//!
//! Numbers that have a reason of their own to be bounded are checked where they are; those of controllers where they are
//! declared.

use super::{impossible, Plan, PlanError, WriterPlan};
use super::{TcpConnectionPlan, VethNetworkPlan};
use crate::engine::EventQueue;

/// The latest instant and the longest interval, half of what the event queue can hold: 10 hours.
const LONGEST_PS: u64 = EventQueue::HORIZON.0 / 2;
/// Most queue pairs of all writers, and as many TCP connections: each takes about a kilobyte.
const MOST_CONNECTIONS: u64 = 1 << 20;
/// Most packets that one interrupt, poll or batch is for.
const MOST_AT_ONCE: u64 = 1 << 16;
/// Most bytes of a threshold or of what is on its way in a host: 1 TiB.
const MOST_BYTES: u64 = 1 << 40;

/// Refuses numbers above `most`.
fn check(place: &str, most: u64, numbers: &[(&str, u64)]) -> Result<(), PlanError> {
    match numbers.iter().find(|(_, number)| *number > most) {
        Some((name, number)) => Err(impossible(place, format!("{name} is {number}, above {most}"))),
        None => Ok(()),
    }
}

/// Refuses times of traffic: from when to when, and one between.
fn check_span(
    place: &str,
    between: (&str, u64),
    start_ps: u64,
    stop_ps: Option<u64>,
) -> Result<(), PlanError> {
    check(place, LONGEST_PS, &[("start_ps", start_ps), between, ("stop_ps", stop_ps.unwrap_or(0))])
}

impl Plan {
    /// Refuses numbers that are too large for any run.
    pub(super) fn check_limits(&self) -> Result<(), PlanError> {
        let mut qps = 0u64;
        for (index, writer) in self.writers.iter().enumerate() {
            writer.check_limits(&format!("writers[{index}]"))?;
            qps += writer.qps as u64;
            check("writers", MOST_CONNECTIONS, &[("sum of qps", qps)])?;
        }
        let mut connections = 0u64;
        for (index, item) in self.tcp_connections.iter().enumerate() {
            item.check_limits(&format!("tcp_connections[{index}]"))?;
            connections += item.connections as u64;
            check("tcp_connections", MOST_CONNECTIONS, &[("sum of connections", connections)])?;
        }
        for (index, flow) in self.flows.list.iter().enumerate() {
            check(&format!("flows[{index}]"), LONGEST_PS, &[("start", flow.start().0)])?;
        }
        for (index, event) in self.link_events.iter().enumerate() {
            check(&format!("link_events[{index}]"), LONGEST_PS, &[("at_ps", event.0)])?;
        }
        for (index, load) in self.memory_loads.iter().enumerate() {
            let times = [("start_ps", load.start_ps), ("stop_ps", load.stop_ps.unwrap_or(0))];
            check(&format!("memory_loads[{index}]"), LONGEST_PS, &times)?;
        }
        self.veth.as_ref().map_or(Ok(()), VethNetworkPlan::check_limits)
    }
}

impl WriterPlan {
    fn check_limits(&self, place: &str) -> Result<(), PlanError> {
        check_span(place, ("start_spread_ps", self.start_spread_ps), self.start_ps, self.stop_ps)
    }
}

impl TcpConnectionPlan {
    fn check_limits(&self, place: &str) -> Result<(), PlanError> {
        check_span(place, ("start_spread_ps", self.start_spread_ps), self.start_ps, self.stop_ps)
    }
}

impl VethNetworkPlan {
    fn check_limits(&self) -> Result<(), PlanError> {
        for (index, item) in self.datagrams.iter().enumerate() {
            let place = format!("veth.datagrams[{index}]");
            check_span(&place, ("interval_ps", item.interval_ps), item.start_ps, item.stop_ps)?;
            check(&place, MOST_BYTES, &[("sndbuf_bytes", item.sndbuf_bytes)])?;
        }
        for (index, item) in self.pings.iter().enumerate() {
            let place = format!("veth.pings[{index}]");
            check_span(&place, ("interval_ps", item.interval_ps), item.start_ps, item.stop_ps)?;
        }
        for (index, item) in self.frames.iter().enumerate() {
            let place = format!("veth.frames[{index}]");
            check_span(&place, ("interval_ps", item.interval_ps), item.start_ps, item.stop_ps)?;
            check(&place, MOST_AT_ONCE, &[("batch", item.batch as u64)])?;
        }
        Ok(())
    }
}
