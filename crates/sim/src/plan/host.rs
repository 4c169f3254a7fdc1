//! TCP and the CPU in a plan.

use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use tailback_proto::transport::tcp::TcpSettings;

use super::{impossible, in_bounds, Plan, PlanError};

/// Most connections of a plan: each end of each has an event of its own kind.
const MAX_CONNECTIONS: usize = 1 << 24;

/// TCP connections from one host to another: `iperf -P`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TcpConnectionPlan {
    /// Name of the traffic item.
    pub name: String,
    /// Sending host.
    pub src: String,
    /// Receiving host.
    pub dst: String,
    /// Code point of segments and ACKs.
    pub code_point: u8,
    /// Connections.
    pub connections: u32,
    /// What each sends; none: until stopped.
    pub bytes: Option<u64>,
    /// Earliest start.
    pub start_ps: u64,
    /// The start is drawn uniformly from this span after `start_ps`.
    pub start_spread_ps: u64,
    /// The application writes no more from here on.
    pub stop_ps: Option<u64>,
}

/// A stack that no host can have.
pub(super) fn check_stack(place: &str, tcp: &TcpSettings) -> Result<(), PlanError> {
    in_bounds(place, tcp)?;
    tcp.parameters().check().map_err(|problem| impossible(place, problem))
}

impl Plan {
    pub(super) fn check_tcp(&self, names: &HashMap<&str, usize>, marks: usize) -> Result<(), PlanError> {
        let mut connections = 0usize;
        for (index, item) in self.tcp_connections.iter().enumerate() {
            let place = format!("tcp_connections[{index}]");
            connections = connections.saturating_add(item.connections as usize);
            let mut stacks = Vec::new();
            for end in [&item.src, &item.dst] {
                let Some(host) = names.get(end.as_str()).and_then(|&node| self.hosts.get(node)) else {
                    return Err(impossible(place, format!("{end} is not a host")));
                };
                let nic = &self.nics[host.nic];
                match (&nic.tcp, &nic.cpu) {
                    (Some(tcp), Some(_)) => stacks.push(tcp),
                    _ => return Err(impossible(place, format!("{end} has no tcp or no cpu"))),
                }
            }
            let agreed = |tcp: &TcpSettings| (tcp.mtu, tcp.sack, tcp.ecn);
            let problem = if item.src == item.dst {
                "src and dst are the same host"
            } else if agreed(stacks[0]) != agreed(stacks[1]) {
                "tcp of src and of dst differ in mtu, sack or ecn"
            } else if item.code_point as usize >= marks {
                "its code_point is not in code_points"
            } else if item.connections == 0 {
                "connections must be above 0"
            } else if connections > MAX_CONNECTIONS {
                "more than 2^24 connections in all"
            } else if item.bytes.is_some_and(|bytes| bytes == 0 || bytes > 1 << 60) {
                "bytes is not in 1 to 2^60"
            } else if item.stop_ps.is_some_and(|stop| stop <= item.start_ps) {
                "stop_ps is not after start_ps"
            } else {
                continue;
            };
            return Err(impossible(place, problem));
        }
        Ok(())
    }
}
