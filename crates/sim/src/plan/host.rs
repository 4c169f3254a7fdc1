//! TCP and the CPU in a plan.

use std::collections::HashMap;
use tailback_proto::transport::tcp::TcpSettings;

use super::{impossible, in_bounds, Plan, PlanError};

/// Most connections of a plan: each end of each has an event of its own kind.
const MAX_CONNECTIONS: usize = 1 << 24;

/// A stack that no host can have.
pub(super) fn check_stack(place: &str, tcp: &TcpSettings) -> Result<(), PlanError> {
    in_bounds(place, tcp)?;
    tcp.parameters().check().map_err(|problem| impossible(place, problem))
}

impl Plan {
    pub(super) fn check_tcp(
        &self,
        names: &HashMap<&str, usize>,
        code_points: usize,
    ) -> Result<(), PlanError> {
        let mut connections = 0usize;
        for (index, item) in self.tcp_connections.iter().enumerate() {
            let place = format!("tcp_connections[{index}]");
            in_bounds(&place, item)?;
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
            } else if item.code_point as usize >= code_points {
                "its code_point is not in code_points"
            } else if connections > MAX_CONNECTIONS {
                "more than 2^24 connections in all"
            } else if item.stop.is_some_and(|stop| stop <= item.start) {
                "stop is not after start"
            } else {
                continue;
            };
            return Err(impossible(place, problem));
        }
        Ok(())
    }
}
