//! A Linux bridge: a host that forwards Ethernet frames between its ports, in softirq.
//!
//! Sources: Linux net/bridge/br_input.c, br_forward.c (a frame from one port goes out by another, by its address),
//! net/core/dev.c (`netdev_pick_tx`: the transmit queue that XPS maps to the sending core, else the number of the queue that
//! received the packet), Documentation/networking/scaling.rst (RSS, XPS).
//!
//! A packet arrives in the receive ring of one of its port's channels, is polled by the core that takes that channel's interrupts, goes
//! through the queueing discipline of the other port and into a transmit ring there; completions may be served by another
//! core. ACKs and CNPs return the same way. Addresses are known from the start.
//!
//! Leaves out: learning and ageing of addresses, spanning tree, VLANs, firewall hooks, GRO and forwarding in the
//! driver (XDP), flow control of the ports (a bridge passes no pause on), and more than one host's worth of memory
//! bandwidth.

use tailback_proto::flow_control::dql::{Dql, DqlParameters};
use tailback_proto::parameters::DELAY;
use tailback_proto::units::{Bytes, Time};

use super::core::{Core, CoreModel};
use super::device::{Channel, Costs, TxQueue};
use super::egress::Egress;
use super::moderation::{Mode, Moderation};
use super::napi::{Napi, Output, Thread};
use super::Timer;
use crate::engine::{splitmix64, stream};
use crate::fabric::drops::DropReason;
use crate::fabric::packet::{Kind, Packet};
use crate::host::Gauge;
use crate::plan::{BridgeModelPlan, Plan, PlanError};
use crate::world::World;

/// The order of what forwarding costs.
const COST: &str = "assumption: the order of what forwarding costs a core of 3 GHz; a measurement decides";

tailback_proto::parameters! {
    /// What a packet costs a core.
    pub struct BridgeCosts {
        /// Receiving it and looking up its port, up to the queueing discipline.
        receive: Time = Time::from_ns(1500), in DELAY, source COST;
        /// The same, ns for each byte of the frame.
        per_byte: f64 = 0.0, in 0.0..=1000.0, source "assumption: forwarding touches headers only";
        /// Queueing it and taking it out again, where the discipline is not bypassed.
        qdisc: Time = Time::ZERO, in DELAY, source "assumption: part of receive and transmit";
        /// Handing it to the device.
        transmit: Time = Time::from_ns(400), in DELAY, source COST;
        /// Its transmit completion: unmapping and freeing it.
        complete: Time = Time::from_ns(150), in DELAY, source COST;
        /// All of these times this, where the core is not on the NUMA node of the device.
        remote_factor: f64 = 1.0, in 1.0..=100.0,
            source "assumption: no document says; 1 = it makes no difference";
    }
}

tailback_proto::parameters! {
    /// Byte queue limits: how much may wait in a transmit ring.
    pub struct BqlParameters {
        /// The limit is not below this.
        limit_min: Bytes = Bytes(0), in LIMIT, source "Linux lib/dynamic_queue_limits.c";
        /// Nor above this.
        limit_max: Bytes = Bytes(1 << 30), in LIMIT,
            source "Linux lib/dynamic_queue_limits.c: DQL_MAX_LIMIT, about 1.9 GB";
        /// How long slack is looked for until it is taken off.
        hold_time: Time = Time::from_ms(1000), in DELAY, source "Linux net/core/dev.c: HZ";
    }
}

/// Below the kernel's greatest limit, `DQL_MAX_LIMIT`.
const LIMIT: std::ops::RangeInclusive<Bytes> = Bytes(0)..=Bytes(1 << 30);

/// A bridge.
#[derive(Debug)]
pub(crate) struct Bridge {
    /// First of its cores among all.
    pub first_core: u32,
}

/// What sending a packet by a port costs a core.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendCosts {
    /// To queue it and take it again.
    pub qdisc: Time,
    /// To hand it to the device.
    pub transmit: Time,
}

/// A port of a bridge.
#[derive(Debug)]
pub(crate) struct BridgePort {
    pub bridge: u32,
    pub tx_latency: Time,
    /// Its channels among all: the first, and how many.
    pub first_channel: u32,
    pub channels: u32,
    /// Channels that receive.
    rss: Vec<u32>,
    /// By core of the bridge: the channel that XPS gives it, if any.
    xps: Vec<Option<u32>>,
    /// By core of the bridge.
    pub send_costs: Vec<SendCosts>,
    /// Bytes in its receive rings, in its queueing disciplines, and between its transmit rings and their completions.
    pub rx_backlog: Gauge,
    pub qdisc_backlog: Gauge,
    pub tx_backlog: Gauge,
}

/// The hash of a packet's addresses and ports, for RSS and queueing disciplines.
pub(super) fn flow_hash(packet: &Packet) -> u32 {
    let forward = matches!(packet.kind, Kind::Data | Kind::Probe | Kind::Tcp);
    let flow = (packet.qp as u64) << 17 | (packet.dst as u64) << 1 | forward as u64;
    splitmix64(flow) as u32
}

impl World {
    /// Builds the bridges of a plan. Their ports come after all others.
    pub(crate) fn add_bridges(&mut self, plan: &Plan, first_ports: &[usize]) -> Result<(), PlanError> {
        self.linux.first_bridge_port = first_ports.first().copied().unwrap_or(self.fabric.ports.len());
        for (number, bridge) in plan.bridges.iter().enumerate() {
            let model = &plan.bridge_models[bridge.model];
            let first_core = self.add_cores(model);
            let first_port = first_ports[number] as u32;
            self.linux.bridges.push(Bridge { first_core });
            for at in 0..model.ports.len() {
                self.add_bridge_port(plan, model, number as u32, at, first_port + at as u32)?;
            }
        }
        Ok(())
    }

    fn add_cores(&mut self, model: &BridgeModelPlan) -> u32 {
        let first_core = self.linux.cores.len() as u32;
        let costs = CoreModel {
            idle_exit: Time(model.idle_exit_ps),
            interrupt: Time(model.interrupt_ps),
            poll: Time(model.poll_ps),
        };
        for (core, plan) in (first_core..).zip(&model.cores) {
            self.linux.cores.push(Core::new(costs));
            if plan.guest {
                self.linux.threads.push(Thread::Guest);
                self.wake_linux_thread(core, self.linux.threads.len() as u32 - 1);
            }
        }
        first_core
    }

    fn add_bridge_port(
        &mut self,
        plan: &Plan,
        model: &BridgeModelPlan,
        bridge: u32,
        at: usize,
        port: u32,
    ) -> Result<(), PlanError> {
        let of_port = &model.ports[at];
        let first_core = self.linux.bridges[bridge as usize].first_core;
        let factor = |core: u32| match model.cores[core as usize].node == of_port.node {
            true => 1.0,
            false => model.costs.remote_factor,
        };
        let scaled = |time: Time, core: u32| Time((time.0 as f64 * factor(core)) as u64);
        let send_costs = |core: u32| SendCosts {
            qdisc: scaled(model.costs.qdisc, core),
            transmit: scaled(model.costs.transmit, core),
        };
        let channels = of_port.irq_cores.len() as u32;
        let first_channel = self.linux.channels.len() as u32;
        let first_egress = self.linux.egresses.len() as u32;
        let egresses = if model.multiqueue { channels } else { 1 };
        for at in 0..egresses {
            let number = self.linux.egresses.len() as u32;
            self.linux.outputs.push(Output::Bridge(number));
            self.linux.timers.push(Timer::Watchdog { egress: number });
            self.linux.egresses.push(Egress::new(
                model.qdisc.build(&format!("{}.qdisc", plan.bridges[bridge as usize].name))?,
                port,
                (egresses == channels).then_some(first_channel + at),
                self.linux.outputs.len() as u32 - 1,
                self.linux.timers.len() as u32 - 1,
                stream(plan.seed, "qdisc", number as u64),
            ));
        }
        for (number, &core) in of_port.irq_cores.iter().enumerate() {
            let channel = self.linux.channels.len() as u32;
            self.linux.napis.push(Napi::Channel(channel));
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
            let tx = TxQueue::new(model.tx_ring, dql, Moderation::new(&model.tx, Mode::Interrupt), egress);
            self.linux.channels.push(Channel::new(
                port,
                number as u32,
                first_core + core,
                self.linux.napis.len() as u32 - 1,
                costs,
                model.rx_ring,
                Moderation::new(&model.rx, Mode::Packet),
                tx,
            ));
        }
        let xps = |core: u32| of_port.irq_cores.iter().position(|&of| of == core).map(|at| at as u32);
        self.linux.bridge_ports.push(BridgePort {
            bridge,
            tx_latency: Time(model.tx_latency_ps),
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

    /// A packet has reached a port of a bridge.
    #[inline(never)] // what most runs never need stays out of the way of what they do
    pub(crate) fn bridge_receive(&mut self, port: usize, index: u32) {
        let p = &self.linux.bridge_ports[port - self.linux.first_bridge_port];
        let channels = p.rss.len() as u64;
        let at = (flow_hash(&self.fabric.packets[index]) as u64 * channels) >> 32;
        let channel = p.first_channel + p.rss[at as usize];
        self.channel_receive(channel, index);
    }

    /// A core has taken a packet from a channel and forwards it to its output port.
    pub(super) fn forward(&mut self, core: u32, channel: u32, index: u32) {
        let c = &self.linux.channels[channel as usize];
        let (in_port, number) = (c.port as usize, c.number);
        let packet = &self.fabric.packets[index];
        let node = self.fabric.ports[in_port].owner as usize - self.nics.len();
        let Some(out) = self.fabric.routes.next_port(node, packet.dst, packet.qp) else {
            self.fabric.drop_packet(in_port, index, DropReason::NoRoute);
            return;
        };
        let p = &self.linux.bridge_ports[out - self.linux.first_bridge_port];
        let of_bridge = core - self.linux.bridges[p.bridge as usize].first_core;
        let queue = p.xps[of_bridge as usize].unwrap_or(number % p.channels);
        let egress = self.linux.channels[(p.first_channel + queue) as usize].tx.egress;
        // Which transmit queue it has stands where a switch notes the port that a packet came in by.
        self.fabric.packets[index].ingress = (p.first_channel + queue) as u16;
        if self.egress_enqueue(egress, index) {
            self.linux.channels[channel as usize].running = Some(egress);
        }
    }

    /// The channel whose transmit queue a packet has.
    pub(super) fn transmit_queue(&self, packet: u32) -> u32 {
        self.fabric.packets[packet].ingress as u32
    }
}
