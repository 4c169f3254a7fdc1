//! The agent of a receiving host: RHCC's receiver or hostCC. It reads the host's counters at intervals, sets the memory
//! bandwidth that CPUs have, and, as hostCC, marks packets before the transport sees them.
//!
//! Leaves out: the core that it runs on, and the time that reading a register takes.

use std::collections::BTreeSet;
use tailback_proto::congestion::host::CACHE_LINE_BYTES;
use tailback_proto::congestion::host::{HostCc, HostCcParameters};
use tailback_proto::congestion::rhcc::{Receiver, ReceiverParameters};
use tailback_proto::units::Time;

use crate::event::Event;
use crate::nic::settings::NicPlan;
use crate::nic::Nics;
use crate::run::Run;

const PS_PER_S: u128 = 1_000_000_000_000;

/// The controller that an agent runs.
#[derive(Debug)]
pub(crate) enum Control {
    Rhcc(ReceiverParameters, Receiver),
    HostCc(HostCcParameters, HostCc),
}

impl Control {
    fn clock_hz(&self) -> u64 {
        match self {
            Control::Rhcc(p, _) => p.clock_hz(),
            Control::HostCc(p, _) => p.clock_hz(),
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

    /// It reads its host's counters. `own`: its number.
    pub fn on_sample(&mut self, run: &mut Run, nics: &mut Nics, own: u32) {
        let host = self.host as usize;
        let pcie_bytes = nics.pcie_write_bytes(host);
        let iio = iio_cycles(nics.iio_occupancy_counter(host, run.now), self.control.clock_hz());
        let bandwidth = match &mut self.control {
            Control::Rhcc(p, receiver) => receiver.on_sample(p, run.now, iio),
            Control::HostCc(p, hostcc) => {
                let bandwidth = hostcc.on_sample(p, run.now, iio, pcie_bytes);
                nics[host].marks_ce = hostcc.marks();
                bandwidth
            }
        };
        self.level_changes += bandwidth.is_some() as u64;
        if let Some(rate) = bandwidth {
            // The highest level is no limit.
            nics.limit_cpu_memory(host, run.now, (self.level() > 0).then_some(rate.0));
        }
        run.schedule(run.now + self.interval, Event::AgentSample(own));
    }
}

/// Puts an agent on each host that receives and is to have one.
pub(crate) fn agents<'a>(nic_of: impl Fn(usize) -> &'a NicPlan, run: &mut Run, nics: &Nics) -> Vec<Agent> {
    let receiving: BTreeSet<u16> = nics.send_qps.iter().map(|s| s.dst).collect();
    let mut agents = Vec::new();
    for host in receiving {
        let Some((interval, control)) = agent_control(nic_of(host as usize)) else { continue };
        run.schedule(Time::ZERO, Event::AgentSample(agents.len() as u32));
        agents.push(Agent { host: host as u32, interval, control, level_changes: 0 });
    }
    agents
}

/// The IIO's counter, which adds the lines in its buffer at every cycle, from the integral of its bytes over picoseconds.
fn iio_cycles(byte_ps: u128, clock_hz: u64) -> u64 {
    (byte_ps * clock_hz as u128 / (CACHE_LINE_BYTES as u128 * PS_PER_S)) as u64
}

/// The control of the agent of a host with such a NIC, and the interval at which it reads the counters.
fn agent_control(plan: &NicPlan) -> Option<(Time, Control)> {
    if let Some(receiver) = plan.rhcc.as_ref().and_then(|rhcc| rhcc.receiver) {
        return Some((receiver.sample_interval, Control::Rhcc(receiver, Default::default())));
    }
    plan.hostcc.map(|hostcc| (hostcc.sample_interval, Control::HostCc(hostcc, Default::default())))
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
