//! The agent of a receiving host: RHCC's receiver or hostCC. It reads the host's counters at intervals, sets the memory
//! bandwidth that CPUs have, and, as hostCC, marks packets before the transport sees them.
//!
//! Leaves out: the core that it runs on, and the time that reading a register takes.

use std::collections::BTreeSet;
use tailback_proto::congestion::host::CACHE_LINE_BYTES;
use tailback_proto::congestion::hostcc::{HostCc, HostCcParameters};
use tailback_proto::congestion::rhcc::receiver::{Receiver, ReceiverParameters};
use tailback_proto::units::Time;

use crate::event::Event;
use crate::plan::{NicPlan, Plan, PlanError};
use crate::world::World;

const PS_PER_S: u128 = 1_000_000_000_000;

/// What an agent does.
#[derive(Debug)]
pub(crate) enum Control {
    Rhcc(ReceiverParameters, Receiver),
    HostCc(HostCcParameters, HostCc),
}

impl Control {
    fn clock_hz(&self) -> u64 {
        match self {
            Control::Rhcc(p, _) => p.clock_hz,
            Control::HostCc(p, _) => p.clock_hz,
        }
    }
}

/// The agent of a host.
#[derive(Debug)]
pub(crate) struct Agent {
    pub host: u32,
    pub interval: Time,
    pub control: Control,
    pub level_changes: u64,
}

impl Agent {
    /// The occupancy of the IIO's buffer that it acts on, cache lines.
    pub fn occupancy(&self) -> f64 {
        match &self.control {
            Control::Rhcc(_, receiver) => receiver.occupancy(),
            Control::HostCc(_, hostcc) => hostcc.occupancy(),
        }
    }

    /// Its level of memory bandwidth in effect, 0 being the highest.
    pub fn level(&self) -> usize {
        match &self.control {
            Control::Rhcc(_, receiver) => receiver.level(),
            Control::HostCc(_, hostcc) => hostcc.level(),
        }
    }
}

impl World {
    /// Puts an agent on each host that receives and is to have one.
    pub(crate) fn add_agents(&mut self, plan: &Plan) -> Result<(), PlanError> {
        let receiving: BTreeSet<u16> = self.send_qps.iter().map(|s| s.dst).collect();
        for host in receiving {
            let nic = plan.hosts[host as usize].nic;
            let (interval_ps, control) = match agent_control(&plan.nics[nic]) {
                Ok(None) => continue,
                Ok(Some(found)) => found,
                Err((part, problem)) => {
                    return Err(PlanError::Impossible { place: format!("nics[{nic}].{part}"), problem })
                }
            };
            self.fabric.run.schedule(Time::ZERO, Event::AgentSample(self.agents.len() as u32));
            self.agents.push(Agent {
                host: host as u32,
                interval: Time(interval_ps),
                control,
                level_changes: 0,
            });
        }
        Ok(())
    }

    /// An agent reads its host's counters.
    pub(crate) fn on_agent_sample(&mut self, index: u32) {
        let (host, clock_hz) = {
            let agent = &self.agents[index as usize];
            (agent.host as usize, agent.control.clock_hz())
        };
        let pcie_bytes = self.pcie_write_bytes(host);
        let iio = iio_cycles(self.iio_occupancy_counter(host), clock_hz);
        let agent = &mut self.agents[index as usize];
        let bandwidth = match &mut agent.control {
            Control::Rhcc(p, receiver) => receiver.on_sample(p, self.fabric.run.now, iio),
            Control::HostCc(p, hostcc) => {
                let bandwidth = hostcc.on_sample(p, self.fabric.run.now, iio, pcie_bytes);
                self.nics[host].marks_ce = hostcc.marks();
                bandwidth
            }
        };
        agent.level_changes += bandwidth.is_some() as u64;
        // The highest level is no limit.
        let limit = bandwidth.map(|rate| (agent.level() > 0).then_some(rate.0));
        let next = self.fabric.run.now + agent.interval;
        if let Some(limit) = limit {
            self.limit_cpu_memory(host, limit);
        }
        self.fabric.run.schedule(next, Event::AgentSample(index));
    }
}

/// The IIO's counter, which adds the lines in its buffer at every cycle, from the integral of its bytes over picoseconds.
fn iio_cycles(byte_ps: u128, clock_hz: u64) -> u64 {
    (byte_ps * clock_hz as u128 / (CACHE_LINE_BYTES as u128 * PS_PER_S)) as u64
}

/// What watches the counters of a host with such a NIC, and how often. Errors name the part of the plan.
fn agent_control(plan: &NicPlan) -> Result<Option<(u64, Control)>, (&'static str, String)> {
    if let Some(receiver) = plan.rhcc.as_ref().and_then(|rhcc| rhcc.receiver.as_ref()) {
        let parameters = receiver.parameters().map_err(|problem| ("rhcc.receiver", problem))?;
        return Ok(Some((receiver.sample_interval_ps, Control::Rhcc(parameters, Default::default()))));
    }
    let Some(hostcc) = &plan.hostcc else { return Ok(None) };
    let parameters = hostcc.parameters().map_err(|problem| ("hostcc", problem))?;
    Ok(Some((hostcc.sample_interval_ps, Control::HostCc(parameters, Default::default()))))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 6,400 B for 1 us at 500 MHz: 100 lines for 500 cycles.
    #[test]
    fn the_counter_adds_lines_at_every_cycle() {
        assert_eq!(iio_cycles(6_400 * 1_000_000, 500_000_000), 50_000);
        // Ten hours of a full buffer still fit.
        assert_eq!(iio_cycles(6_400 * 36_000 * PS_PER_S, 500_000_000), 100 * 36_000 * 500_000_000);
    }
}
