//! The Linux path: cores, NAPI, and what forwards packets on them.

pub(crate) mod device;
pub(crate) mod egress;
pub(crate) mod record;
pub(crate) mod settings;
pub(crate) mod softirq;
#[cfg(test)]
mod tests;
pub(crate) mod veth;

use tailback_proto::aqm::qdisc::{DropReason, Skb};
use tailback_proto::flow_control::byte_queue_limits::{Dql, DqlParameters};
use tailback_proto::units::Time;

use crate::declare::PlanError;
use crate::engine::stream;
use crate::fabric::Fabric;
use crate::gauge::Gauge;
use crate::linux::device::{Channel, Costs, Mode, Moderation, TxQueue};
use crate::linux::egress::Egress;
use crate::linux::settings::{BridgeModelPlan, BridgePlan};
use crate::linux::softirq::{Bridge, BridgePort, CoreModel, LinuxCore, Napi, Output, SendCosts, Thread};

/// All Linux hosts of a run.
#[derive(Debug, Default)]
pub(crate) struct Linux {
    pub cores: Vec<softirq::LinuxCore>,
    pub napis: Vec<Napi>,
    pub outputs: Vec<Output>,
    pub threads: Vec<Thread>,
    pub timers: Vec<Timer>,
    pub bridges: Vec<Bridge>,
    /// All their ports, which are the last ports of the world.
    pub bridge_ports: Vec<BridgePort>,
    pub first_bridge_port: usize,
    pub channels: Vec<Channel>,
    pub egresses: Vec<Egress>,
    /// Packets that a queueing discipline dropped from its queue, not yet accounted for.
    drops: Vec<(Skb, DropReason)>,
    pub veths: veth::Veths,
}

/// The timer of a [`crate::event::Event::LinuxTimer`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum Timer {
    /// The watchdog of an end of a veth pair.
    VethWatchdog(u32),
    /// The queueing discipline of an end of a veth pair may let go of a packet (`qdisc_watchdog`).
    VethShaper(u32),
    /// A thread that sends datagrams.
    Flood(u32),
    /// The next echo request.
    Ping(u32),
    /// The next batch of XDP frames.
    Frames(u32),
    /// The same of a bridge.
    Watchdog { egress: u32 },
}

// Bridges are built from their kinds in the plan.

impl Linux {
    /// Builds the bridges of a plan. Their ports come after all others.
    pub(crate) fn add_bridges(
        &mut self,
        fabric: &mut Fabric,
        (bridges, models): (&[BridgePlan], &[BridgeModelPlan]),
        seed: u64,
        first_ports: &[usize],
    ) -> Result<(), PlanError> {
        self.first_bridge_port = first_ports.first().copied().unwrap_or(fabric.ports.len());
        for (number, bridge) in bridges.iter().enumerate() {
            let model = &models[bridge.model];
            self.add_bridge(fabric, seed, &bridge.name, model, first_ports[number] as u32)?;
        }
        Ok(())
    }

    /// Builds a bridge.
    ///
    /// # Errors
    /// A queueing discipline with impossible settings.
    fn add_bridge(
        &mut self,
        fabric: &mut Fabric,
        seed: u64,
        name: &str,
        model: &BridgeModelPlan,
        first_port: u32,
    ) -> Result<(), PlanError> {
        let first_core = self.add_cores(fabric, model);
        self.bridges.push(Bridge { first_core });
        for at in 0..model.ports.len() {
            self.add_bridge_port(seed, name, model, at, first_port + at as u32)?;
        }
        Ok(())
    }

    fn add_cores(&mut self, fabric: &mut Fabric, model: &BridgeModelPlan) -> u32 {
        let first_core = self.cores.len() as u32;
        let costs = CoreModel {
            idle_exit: model.host.idle_exit,
            interrupt: model.host.interrupt,
            poll: model.host.poll,
        };
        for (core, plan) in (first_core..).zip(&model.cores) {
            self.cores.push(LinuxCore::new(costs));
            if plan.guest {
                self.threads.push(Thread::Guest);
                self.wake_linux_thread(fabric, core, self.threads.len() as u32 - 1);
            }
        }
        first_core
    }

    fn add_bridge_port(
        &mut self,
        seed: u64,
        name: &str,
        model: &BridgeModelPlan,
        at: usize,
        port: u32,
    ) -> Result<(), PlanError> {
        let bridge = self.bridges.len() as u32 - 1;
        let of_port = &model.ports[at];
        let first_core = self.bridges[bridge as usize].first_core;
        let factor = |core: u32| match model.cores[core as usize].numa == of_port.numa {
            true => 1.0,
            false => model.costs.remote_factor,
        };
        let scaled = |time: Time, core: u32| Time((time.0 as f64 * factor(core)) as u64);
        let send_costs = |core: u32| SendCosts {
            qdisc: scaled(model.costs.qdisc, core),
            transmit: scaled(model.costs.transmit, core),
        };
        let channels = of_port.irq_cores.len() as u32;
        let first_channel = self.channels.len() as u32;
        let first_egress = self.egresses.len() as u32;
        let egresses = if model.multiqueue { channels } else { 1 };
        for at in 0..egresses {
            let number = self.egresses.len() as u32;
            self.outputs.push(Output::Bridge(number));
            self.timers.push(Timer::Watchdog { egress: number });
            self.egresses.push(Egress::new(
                (model.qdisc).build(&format!("{name}.qdisc"), model.frame_bytes)?,
                port,
                (egresses == channels).then_some(first_channel + at),
                self.outputs.len() as u32 - 1,
                self.timers.len() as u32 - 1,
                stream(seed, "qdisc", number as u64),
            ));
        }
        for (number, &core) in of_port.irq_cores.iter().enumerate() {
            let channel = self.channels.len() as u32;
            self.napis.push(Napi::Channel(channel));
            let costs = Costs {
                receive: scaled(model.costs.receive, core),
                receive_ps_per_byte: model.costs.per_byte * 1e3 * factor(core),
                complete: scaled(model.costs.complete, core),
            };
            let dql = model.bql.as_ref().map(|bql| {
                let parameters = DqlParameters {
                    min_limit: bql.limit_min.0 as u32,
                    max_limit: bql.limit_max.0 as u32,
                    hold_time: bql.hold_time,
                };
                Dql::new(parameters, Time::ZERO)
            });
            let egress = first_egress + if model.multiqueue { number as u32 } else { 0 };
            let tx =
                TxQueue::new(model.host.tx_ring, dql, Moderation::new(&model.tx, Mode::Interrupt), egress);
            self.channels.push(Channel::new(
                port,
                number as u32,
                first_core + core,
                self.napis.len() as u32 - 1,
                costs,
                model.host.rx_ring,
                Moderation::new(&model.rx, Mode::Packet),
                tx,
            ));
        }
        let xps = |core: u32| of_port.irq_cores.iter().position(|&of| of == core).map(|at| at as u32);
        self.bridge_ports.push(BridgePort {
            bridge,
            tx_latency: model.host.tx_latency,
            first_channel,
            channels,
            rss: of_port.rss.clone(),
            xps: (0..model.cores.len() as u32).map(xps).collect(),
            send_costs: (0..model.cores.len() as u32).map(send_costs).collect(),
            rx_backlog: Gauge::default(),
            qdisc_backlog: Gauge::default(),
            tx_backlog: Gauge::default(),
        });
        Ok(())
    }
}
