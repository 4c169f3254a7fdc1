//! What of a plan goes with skipping.

use tailback_proto::parameters::in_words;

use super::{impossible, LoadBalancing, Plan, PlanError, Skip};

impl Plan {
    /// Refuses to skip in what is not known to go on as it was seen to.
    pub(super) fn check_skip(&self) -> Result<(), PlanError> {
        if self.run.skip == Skip::Never {
            return Ok(());
        }
        let nic = |has: fn(&super::NicPlan) -> bool| self.nics.iter().any(has);
        let balances = |model: &super::SwitchModelPlan| model.load_balancing != LoadBalancing::Ecmp;
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
