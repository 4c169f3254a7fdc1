//! The plan: a run with nothing left to decide. All numbers are in base units and nothing has a default.
//!
//! Settings of a component stand with it, in its `settings.rs`. The plan puts them together, and only what builds, runs and records a
//! whole run knows it.

use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use tailback_proto::units::Time;

mod check;
mod run;

pub use tailback_proto::aqm::red::EcnParameters;
pub use tailback_proto::congestion::builtin::Settings as CongestionPlan;
pub use tailback_proto::flow_control::pfc::{PauseParameters, PfcParameters, WatchdogParameters};
pub use tailback_proto::flow_control::shared_buffer::PoolSizes;
pub use tailback_proto::transport::rc::{LossRecovery, SlowRestart, TransportParameters};
pub use tailback_proto::transport::tcp::{Control as TcpControl, TcpSettings};

pub use crate::declare::PlanError;
use crate::declare::{impossible, in_bounds};
pub use crate::fabric::settings::*;
pub use crate::host::settings::*;
pub use crate::jobs::settings::*;
pub use crate::linux::settings::*;
pub use crate::nic::settings::*;
pub use crate::record::settings::RecordParameters;
pub use crate::workload::settings::*;
pub use run::*;

/// A whole run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Name of the scenario.
    pub name: String,
    /// How long, and with which random numbers.
    pub run: RunParameters,
    /// Hosts.
    pub hosts: Vec<HostPlan>,
    /// Kinds of NIC, named by index.
    pub nics: Vec<NicPlan>,
    /// Switches.
    pub switches: Vec<SwitchPlan>,
    /// Kinds of switch, named by index.
    pub switch_models: Vec<SwitchModelPlan>,
    /// Linux hosts that forward.
    pub bridges: Vec<BridgePlan>,
    /// Kinds of bridge, named by index.
    pub bridge_models: Vec<BridgeModelPlan>,
    /// Full-duplex links.
    pub links: Vec<LinkPlan>,
    /// Distinct code points that packets carry, named by index.
    pub code_points: Vec<CodePointPlan>,
    /// Senders of messages.
    pub writers: Vec<WriterPlan>,
    /// Single messages.
    pub flows: FlowsPlan,
    /// Ranks whose messages wait for messages. What has none does not mention them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<JobPlan>,
    /// Generators of memory traffic at hosts.
    pub memory_loads: Vec<MemoryLoadPlan>,
    /// TCP connections.
    pub tcp_connections: Vec<TcpConnectionPlan>,
    /// Links that fail and may be repaired, in any order.
    pub failures: Vec<FailurePlan>,
    /// Network namespaces joined by veth pairs; none: there are none.
    pub veth: Option<VethNetworkPlan>,
    pub record: RecordParameters,
}

/// A host: one NIC with one port.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostPlan {
    /// Unique name.
    pub name: String,
    /// Index into [`Plan::nics`].
    pub nic: usize,
    /// Congestion control of what it sends: index into [`NicPlan::congestion`].
    #[serde(default)]
    pub congestion: usize,
}

/// Priority in a packet's headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CodePointPlan {
    /// Differentiated services code point of the IP header (RFC 2474).
    pub dscp: u8,
    /// Priority code point of the VLAN tag (802.1Q).
    pub pcp: u8,
}

/// What happens to a link at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkChange {
    pub at: Time,
    pub link: usize,
    /// It fails, or works again.
    pub works: Option<bool>,
    /// Routing takes notice of its state.
    pub is_noticed: bool,
}

impl Plan {
    /// Reads and checks a plan.
    pub fn from_json(json: &str) -> Result<Plan, PlanError> {
        Self::with_lists(json, Vec::new(), Vec::new())
    }

    /// As [`Self::from_json`], with messages after those that it lists, and graphs in the place of its empty ones, in order.
    pub fn with_lists(
        json: &str,
        messages: Vec<FlowPlan>,
        graphs: Vec<Operations>,
    ) -> Result<Plan, PlanError> {
        let mut plan: Plan =
            serde_json::from_str(json).map_err(|error| PlanError::Format(error.to_string()))?;
        plan.flows.list.extend(messages);
        let steps = plan.jobs.iter_mut().flat_map(|job| &mut job.steps);
        let empty = steps.filter_map(|step| match step {
            StepPlan::Graph(operations) if operations.is_empty() => Some(operations),
            _ => None,
        });
        empty.zip(graphs).for_each(|(empty, graph)| *empty = graph);
        plan.check()?;
        Ok(plan)
    }

    /// Refuses what cannot run.
    pub fn check(&self) -> Result<(), PlanError> {
        in_bounds("run", &self.run)?;
        self.check_limits()?;
        if self.hosts.len() > u16::MAX as usize {
            return Err(impossible("hosts", "more than 65,535"));
        }
        let mut names = HashMap::new();
        let switches = self.switches.iter().map(|switch| &switch.name);
        let forwarding = switches.chain(self.bridges.iter().map(|bridge| &bridge.name));
        for (index, name) in self.hosts.iter().map(|h| &h.name).chain(forwarding).enumerate() {
            if names.insert(name.as_str(), index).is_some() {
                return Err(impossible("hosts, switches, bridges", format!("two are named {name}")));
            }
        }
        let code_points = self.check_code_points()?;
        for (index, nic) in self.nics.iter().enumerate() {
            nic.check(&format!("nics[{index}]"), code_points)?;
        }
        for (index, model) in self.switch_models.iter().enumerate() {
            model.check(&format!("switch_models[{index}]"), code_points)?;
        }
        if let Some(host) = self.hosts.iter().find(|h| h.nic >= self.nics.len()) {
            return Err(impossible(&host.name, "its nic is not in nics"));
        }
        self.check_congestion()?;
        self.check_trimming()?;
        if let Some(switch) = self.switches.iter().find(|s| s.model >= self.switch_models.len()) {
            return Err(impossible(&switch.name, "its model is not in switch_models"));
        }
        let ports = self.check_links(&names)?;
        self.check_bridges(&ports)?;
        self.check_buffers(&names)?;
        for (index, writer) in self.writers.iter().enumerate() {
            let place = format!("writers[{index}]");
            writer.check(&place, code_points)?;
            for end in [&writer.src, &writer.dst] {
                if names.get(end.as_str()).is_none_or(|&node| node >= self.hosts.len()) {
                    return Err(impossible(place, format!("{end} is not a host")));
                }
            }
        }
        self.check_partners()?;
        self.check_flows()?;
        self.check_jobs()?;
        self.check_memory_loads(&names)?;
        self.check_tcp(&names, code_points)?;
        self.veth.as_ref().map_or(Ok(()), VethNetworkPlan::check)?;
        for (index, failure) in self.failures.iter().enumerate() {
            let place = format!("failures[{index}]");
            in_bounds(&place, failure)?;
            if failure.link >= self.links.len() {
                return Err(impossible(place, format!("there is no link {}", failure.link)));
            }
        }
        self.check_skip()?;
        in_bounds("record", &self.record)
    }

    /// When which link fails, comes up again, or is noticed to have: by time, at the same time in the order of the failures.
    pub(crate) fn link_changes(&self) -> Vec<LinkChange> {
        let of_failure = |failure: &FailurePlan| {
            let FailurePlan { link, detection, .. } = *failure;
            let times = [(failure.at, false)].into_iter().chain(failure.repair.map(|at| (at, true)));
            times.flat_map(move |(at, works)| {
                let at_once = detection == Time::ZERO;
                let change = LinkChange { at, link, works: Some(works), is_noticed: at_once };
                let later = LinkChange { at: at + detection, link, works: None, is_noticed: true };
                [Some(change), (!at_once).then_some(later)].into_iter().flatten()
            })
        };
        let mut changes: Vec<_> = self.failures.iter().flat_map(of_failure).collect();
        changes.sort_by_key(|change| change.at);
        changes
    }
}
