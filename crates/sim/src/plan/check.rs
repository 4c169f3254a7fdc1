//! Checks of a plan as a whole.

use std::collections::{HashMap, HashSet};
use tailback_proto::parameters::in_words;
use tailback_proto::units::Bytes;

use super::{
    impossible, in_bounds, LoadBalancing, PartnerPlan, Plan, PlanError, QdiscPlan, Skip, StepPlan, StepWork,
    TargetPlan, TcpSettings,
};
use crate::engine::EventQueue;
use crate::fabric::settings::MAX_CODE_POINTS;
use crate::workload::settings::MESSAGE_BYTES;

impl Plan {
    /// How many code points there are.
    pub(super) fn check_code_points(&self) -> Result<usize, PlanError> {
        if self.code_points.len() > MAX_CODE_POINTS {
            return Err(impossible("code_points", format!("more than {MAX_CODE_POINTS}")));
        }
        if self.code_points.iter().any(|mark| mark.dscp > 63 || mark.pcp > 7) {
            return Err(impossible("code_points", "a dscp is above 63 or a pcp above 7"));
        }
        Ok(self.code_points.len())
    }

    /// Who goes back N does so for each packet that is trimmed.
    pub(super) fn check_trimming(&self) -> Result<(), PlanError> {
        let trims = self.switch_models.iter().any(|model| model.trimming.is_some());
        if trims && !self.nics.iter().all(|nic| nic.transport.is_selective()) {
            return Err(impossible(
                "switch_models",
                "trimming needs loss_recovery: selective-repeat of all nics",
            ));
        }
        Ok(())
    }

    pub(super) fn check_memory_loads(&self, names: &HashMap<&str, usize>) -> Result<(), PlanError> {
        for (index, load) in self.memory_loads.iter().enumerate() {
            let place = || format!("memory_loads[{index}]");
            let Some(host) = names.get(load.host.as_str()).and_then(|&node| self.hosts.get(node)) else {
                return Err(impossible(place(), format!("{} is not a host", load.host)));
            };
            let host_path = self.nics[host.nic].host_path.as_ref();
            if !host_path.is_some_and(|host_path| matches!(host_path.target, TargetPlan::Memory(_))) {
                return Err(impossible(place(), format!("{} has no host_path to memory", load.host)));
            }
            in_bounds(&place(), load)?;
            if load.stop.is_some_and(|stop| stop <= load.start) {
                return Err(impossible(place(), "stop is not after start"));
            }
        }
        Ok(())
    }

    /// All NICs have the same congestion controls, and those that are named are among them.
    pub(super) fn check_congestion(&self) -> Result<(), PlanError> {
        let kinds = self.nics.first().map_or(0, |nic| nic.congestion.len());
        if self.nics.iter().any(|nic| nic.congestion.is_empty() || nic.congestion.len() != kinds) {
            return Err(impossible(
                "nics",
                "each has as many congestion controls as the others, and one at least",
            ));
        }
        // Queue pairs name theirs by 8 bits.
        if kinds > 1 << 8 {
            return Err(impossible("nics", "more than 256 congestion controls"));
        }
        let hosts = self.hosts.iter().map(|host| host.congestion);
        let writers = self.writers.iter().filter_map(|writer| writer.congestion);
        let messages = self.flows.congestion.iter().flatten().copied();
        if hosts.chain(writers).chain(messages).any(|index| index >= kinds) {
            return Err(impossible("hosts, writers, flows", "a congestion is not in that of the NICs"));
        }
        Ok(())
    }

    pub(super) fn check_partners(&self) -> Result<(), PlanError> {
        for (index, writer) in self.writers.iter().enumerate() {
            let Some(partner) = writer.partner else { continue };
            let mutual = self.writers.get(partner.writer).is_some_and(|other| {
                let back = PartnerPlan { writer: index, begins: !partner.begins };
                other.partner == Some(back) && other.src == writer.dst && other.dst == writer.src
            });
            if !mutual || writer.qps != 1 {
                let problem = "partner is not the one that answers, or there is more than one queue pair";
                return Err(impossible(format!("writers[{index}]"), problem));
            }
        }
        Ok(())
    }

    pub(super) fn check_flows(&self) -> Result<(), PlanError> {
        for (index, flow) in self.flows.list.iter().enumerate() {
            let problem = if flow.src().max(flow.dst()) >= self.hosts.len() {
                "src or dst is not a host"
            } else if flow.src() == flow.dst() {
                "src and dst are the same host"
            } else if flow.item() >= self.flows.items.len() {
                "its item is not in items"
            } else if flow.code_point() as usize >= self.code_points.len() {
                "its code_point is not in code_points"
            } else if !MESSAGE_BYTES.contains(&Bytes(flow.bytes())) {
                "bytes is not in 1 to 2^31 (IB specification 9.7.6)"
            } else {
                continue;
            };
            return Err(impossible(format!("flows[{index}]"), problem));
        }
        Ok(())
    }

    /// How many ports each node has.
    pub(super) fn check_links(&self, names: &HashMap<&str, usize>) -> Result<Vec<usize>, PlanError> {
        let mut ports = vec![0usize; names.len()];
        for (index, link) in self.links.iter().enumerate() {
            let place = format!("links[{index}]");
            for end in [&link.a, &link.b] {
                match names.get(end.as_str()) {
                    Some(&node) => ports[node] += 1,
                    None => return Err(impossible(place, format!("{end} is no host, switch or bridge"))),
                }
            }
            if link.a == link.b {
                return Err(impossible(place, format!("both ends are {}", link.a)));
            }
            in_bounds(&place, link)?;
        }
        if let Some(host) = (0..self.hosts.len()).find(|&node| ports[node] != 1) {
            return Err(impossible(&self.hosts[host].name, "a host has exactly one link"));
        }
        Ok(ports)
    }

    pub(super) fn check_bridges(&self, ports: &[usize]) -> Result<(), PlanError> {
        for (index, model) in self.bridge_models.iter().enumerate() {
            let place = format!("bridge_models[{index}]");
            model.check_settings(&place)?;
            if let Some(problem) = model.problem() {
                return Err(impossible(place, problem));
            }
            if model.qdisc == QdiscPlan::Noqueue {
                return Err(impossible(place, "a port that a device is behind needs a queue"));
            }
            model.qdisc.check(&format!("{place}.qdisc"), model.frame_bytes)?;
        }
        for (bridge, &ports) in self.bridges.iter().zip(&ports[self.hosts.len() + self.switches.len()..]) {
            match self.bridge_models.get(bridge.model) {
                None => return Err(impossible(&bridge.name, "its model is not in bridge_models")),
                Some(model) if model.ports.len() != ports => {
                    let described = model.ports.len();
                    let problem = format!("has {ports} links, but its model describes {described} ports");
                    return Err(impossible(&bridge.name, problem));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    pub(super) fn check_buffers(&self, names: &HashMap<&str, usize>) -> Result<(), PlanError> {
        let mut kept = vec![0u64; names.len()];
        for link in &self.links {
            for end in [&link.a, &link.b] {
                let total = &mut kept[names[end.as_str()]];
                *total = total.saturating_add(link.headroom_bytes);
            }
        }
        for (switch, kept) in self.switches.iter().zip(&kept[self.hosts.len()..]) {
            let model = &self.switch_models[switch.model];
            let own = kept.saturating_mul(model.lossless.len() as u64);
            let headroom = model.pfc.headroom_pool.map_or(own, |pool| own.min(pool.0));
            if model.shared_bytes == 0 || headroom.saturating_add(model.shared_bytes) > model.buffer.0 {
                return Err(impossible(
                    &switch.name,
                    format!(
                        "headroom of {headroom} B over all ports and lossless priorities and {} B shared do not fit its buffer of {} B",
                        model.shared_bytes, model.buffer.0
                    ),
                ));
            }
        }
        Ok(())
    }
}

/// Most connections of a plan: each end of each has an event of its own kind.
const MAX_CONNECTIONS: usize = 1 << 24;

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

impl Plan {
    pub(super) fn check_jobs(&self) -> Result<(), PlanError> {
        let (hosts, items) = (self.hosts.len() as u32, self.flows.items.len());
        let mut names = HashSet::new();
        for (index, job) in self.jobs.iter().enumerate() {
            if let Some(problem) = job.problem(hosts, items, self.code_points.len()) {
                return Err(impossible(format!("jobs[{index}]"), problem));
            }
            if !names.insert(&job.name) {
                return Err(impossible(format!("jobs[{index}]"), format!("two are named {}", job.name)));
            }
        }
        Ok(())
    }
}

// The largest numbers of a plan. With them no sum of times passes 64 bits, no piece of work takes for ever at one instant,
// and what memory is set aside for is in proportion to what such things have in the world.
//
// Numbers that have a reason of their own to be bounded are checked where they are; those of controllers where they are
// declared.

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
fn computes((_, what): (u32, StepWork)) -> u64 {
    match what {
        StepWork::Compute(ps) => ps,
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

// What of a plan goes with skipping.

impl Plan {
    /// Refuses to skip in what is not known to go on as it was seen to.
    pub(super) fn check_skip(&self) -> Result<(), PlanError> {
        if self.run.skip == Skip::Never {
            return Ok(());
        }
        let nic = |has: fn(&crate::plan::NicPlan) -> bool| self.nics.iter().any(has);
        let balances = |model: &crate::plan::SwitchModelPlan| model.load_balancing != LoadBalancing::Ecmp;
        let without = [
            (!self.tcp_connections.is_empty(), "TCP connections"),
            (!self.bridges.is_empty(), "Linux bridges"),
            (self.veth.is_some(), "network namespaces"),
            (!self.jobs.is_empty() || self.flows.of_work, "messages that wait for messages"),
            (self.writers.iter().any(|writer| writer.partner.is_some()), "latency tests"),
            (nic(|nic| nic.host_path.is_some()), "host paths"),
            (nic(|nic| nic.rhcc.is_some()), "RHCC"),
            (nic(|nic| nic.transport.is_selective()), "selective repeat"),
            (self.switch_models.iter().any(balances), "switches that divide packets of a connection"),
        ];
        without.into_iter().find(|(has, _)| *has).map_or(Ok(()), |(_, what)| Err(self.not_skipped(what)))
    }

    /// Why nothing is skipped in it.
    pub(crate) fn not_skipped(&self, what: &str) -> PlanError {
        impossible("run.skip", format!("found {}, expected never: it has {what}", in_words(self.run.skip)))
    }
}
