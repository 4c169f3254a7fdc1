//! Little's law at every queue of packets of a run: see [`crate::gauge`]. Builds with assertions judge it at the end.
//!
//! Not here, because no packets wait in them, or nothing records how long they are: links, on which everything takes its
//! time; what was posted and not sent yet, which has no packets and is recorded at the end of a bin; memory and GPUs, whose
//! lines are a fluid that is looked at now and then; a packet that a core or a NIC is working on. Ports of the HPCC profile
//! are judged with its own books.

use super::hosts;
use crate::fabric::packet::Packet;
use crate::fabric::{lane, port_and_class};
use crate::gauge::{Gauge, OverTime, QueuedAt};
use crate::linux::record::{bridges, veth};
use crate::plan::Plan;
use crate::world::World;
use tailback_proto::units::Time;

/// Queues with what is wrong at them.
pub(super) fn audit(plan: &Plan, world: &World) -> Vec<(String, String)> {
    let mut books = Books { now: world.fabric.run.now, errors: Vec::new() };
    books.fabric(world);
    books.host_paths(plan, world);
    books.tcp(world);
    books.bridges(world);
    books.veths(plan, world);
    books.errors
}

struct Books {
    now: Time,
    errors: Vec<(String, String)>,
}

/// Bytes of a packet, and since when it waits.
fn wait(packet: &Packet) -> (u64, QueuedAt) {
    (packet.frame_bytes() as u64, QueuedAt::at(packet.arrival))
}

impl Books {
    fn judge(
        &mut self,
        name: impl FnOnce() -> String,
        over_time: &OverTime,
        length: u64,
        waiting: impl IntoIterator<Item = (u64, QueuedAt)>,
    ) {
        self.errors.extend(over_time.judge(self.now, length, waiting).map(|error| (name(), error)));
    }

    fn gauge(
        &mut self,
        name: impl FnOnce() -> String,
        gauge: &Gauge,
        waiting: impl IntoIterator<Item = (u64, QueuedAt)>,
    ) {
        self.judge(name, &gauge.over_time, gauge.value, waiting);
    }

    /// Egress queues of switches and of hosts; at switches also ingress groups, which are charged for what waits there.
    fn fabric(&mut self, world: &World) {
        let fabric = &world.fabric;
        let mut charged: Vec<Vec<(u64, QueuedAt)>> = vec![Vec::new(); fabric.groups.len()];
        for (at, queue) in fabric.queues.iter().enumerate() {
            let (port, class) = port_and_class(at);
            let name = || format!("{}/tc{class}", fabric.links[port].name);
            let waiting = queue.fifo.iter(&fabric.packets).map(wait);
            self.judge(name, &queue.over_time, queue.bytes as u64, waiting);
            if let Some(switch) = fabric.switch_of(port) {
                for packet in queue.fifo.iter(&fabric.packets) {
                    let in_port = fabric.switches[switch].first_port as usize + packet.ingress as usize;
                    charged[lane(in_port, class)].push(wait(packet));
                }
            }
        }
        for ((at, group), waiting) in fabric.groups.iter().enumerate().zip(charged) {
            let (port, class) = port_and_class(at);
            let name = || format!("{}/pg{class}", fabric.links[port].name);
            self.judge(name, &group.over_time, group.held.bytes() as u64, waiting);
        }
    }

    /// The NIC's receive buffer, PCIe and IIO.
    fn host_paths(&mut self, plan: &Plan, world: &World) {
        for host_path in &world.nics.host_paths {
            let name = |row| hosts::row_name(plan, host_path, row);
            let parts = host_path.buffers.parts.iter();
            let waiting = parts.flat_map(|part| part.fifo.iter(&world.fabric.packets)).map(wait);
            self.gauge(|| name("nic-rx"), &host_path.buffers.level, waiting);
            for (row, stays) in [("pcie", &host_path.pcie.away), ("iio", &host_path.iio)] {
                self.errors.extend(stays.judge(self.now).map(|error| (name(row), error)));
            }
        }
    }

    /// Receive and transmit rings of hosts that speak TCP.
    fn tcp(&mut self, world: &World) {
        for (host, cpu) in world.tcp.cpus.hosts.iter().enumerate() {
            let Some(cpu) = cpu else { continue };
            let rings = world.tcp.cpus.cores_of(host).iter().map(|core| &core.ring);
            let waiting = rings.flat_map(|ring| ring.iter(&world.fabric.packets)).map(wait);
            self.gauge(|| format!("receive rings of host {host}"), &cpu.backlog, waiting);
        }
        for (number, ring) in world.tcp.rings.rings().iter().enumerate() {
            let waiting = ring.waits(&world.fabric.packets);
            self.gauge(|| format!("transmit ring {number}"), &ring.waiting, waiting);
        }
    }

    /// Receive rings, queueing disciplines and transmit rings of each port of a bridge.
    fn bridges(&mut self, world: &World) {
        for (number, port) in world.linux.bridge_ports.iter().enumerate() {
            let name = |row| bridges::row_name(world, world.linux.first_bridge_port + number, row);
            let channels = bridges::channels(world, world.linux.first_bridge_port + number);
            let rings = channels.iter().flat_map(|channel| channel.ring.iter(&world.fabric.packets));
            self.gauge(|| name("rx-ring"), &port.rx_backlog, rings.map(wait));
            let now = self.now;
            let queued = bridges::egresses(world, number).flat_map(|egress| egress.qdisc.waiting(now));
            let queued = queued.map(|skb| (skb.bytes as u64, QueuedAt::at(skb.enqueued)));
            self.gauge(|| name("qdisc"), &port.qdisc_backlog, queued);
            let sent = channels.iter().flat_map(|channel| channel.tx.waits());
            self.gauge(|| name("tx-ring"), &port.tx_backlog, sent);
        }
    }

    /// The queueing discipline, the ring and GRO's list of each end of a veth pair, in packets and in bytes.
    fn veths(&mut self, plan: &Plan, world: &World) {
        let Some(network) = &plan.veth else { return };
        let veths = &world.linux.veths;
        for (number, end) in veths.ends.iter().enumerate() {
            let queued = end.qdisc.waiting(self.now).into_iter();
            let queued = queued.map(|skb| (skb.bytes as u64, QueuedAt::at(skb.enqueued))).collect();
            let in_ring = veths.waits(end.queue.packets()).collect();
            let in_list = veths.waits(veths.in_list(number)).collect();
            let places = [
                (veth::Row::Qdisc, &end.waiting, queued),
                (veth::Row::Ring, &end.in_ring, in_ring),
                (veth::Row::Core, &end.in_list, in_list),
            ];
            for (row, place, waiting) in places {
                let waiting: Vec<(u64, QueuedAt)> = waiting;
                let name = || veth::row_name(network, world, number, row);
                self.gauge(name, &place.packets, waiting.iter().map(|&(_, came)| (1, came)));
                self.gauge(name, &place.bytes, waiting);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gauge::{LittlesLaw, TICK_PS};
    use crate::plan::{
        GpuParameters, GpuPlan, HostPathPlan, PauseParameters, PcieParameters, ReceiveBufferParameters,
        ReceiveBufferPlan, TargetPlan, TcpConnectionPlan, TcpSettings,
    };
    use crate::Simulation;
    use tailback_proto::units::{Bytes, Rate};

    fn plan(json: &str) -> Plan {
        Plan::from_json(json).expect("it is a plan")
    }

    /// Two hosts send to a third by RDMA and TCP, by way of a slow PCIe link there.
    fn hosts() -> Plan {
        let mut plan = plan(include_str!("../../tests/data/two_to_one.json"));
        let nic = &mut plan.nics[0];
        nic.tcp = Some(TcpSettings::default());
        nic.cpu = Some(Default::default());
        let all = ReceiveBufferPlan { xoff_bytes: None, xon_bytes: None, priorities: (0..8).collect() };
        let gpu = GpuParameters {
            bandwidth: Rate(50_000_000_000),
            hops: 1,
            hop_latency: Time::from_ns(150),
            outstanding: Bytes(8_192),
        };
        nic.host_path = Some(HostPathPlan {
            receive_buffer: ReceiveBufferParameters {
                lossy_size: Bytes(1_000_000),
                ..ReceiveBufferParameters::default()
            },
            receive_buffers: vec![all],
            pause: PauseParameters::default(),
            pcie: PcieParameters {
                rate: Rate(10_000_000_000),
                queue_pair_rate: None,
                max_payload: Bytes(256),
                header_credits: 128,
                iio_lines: 93,
                credit_latency: Time::from_ns(200),
                iio_latency: Time::from_ns(150),
            },
            tlp_overhead_bytes: 24,
            target: TargetPlan::Gpu(GpuPlan { own: gpu, stalls: None }),
            reads: None,
        });
        plan.tcp_connections = vec![TcpConnectionPlan {
            item: "tcp".into(),
            src: plan.hosts[0].name.clone(),
            dst: plan.hosts[2].name.clone(),
            code_point: plan.writers[0].code_point,
            connections: 2,
            bytes: None,
            start: Time::ZERO,
            start_spread: Time::ZERO,
            stop: None,
        }];
        plan
    }

    /// The law of a queue, by its name in the errors.
    type Law = fn(&mut World) -> &mut LittlesLaw;

    /// A run is stopped in the middle: its queues obey the law, each has been in use, and a wait that is a byte-tick longer
    /// is noticed.
    fn each_is_judged(plan: &Plan, events: u64, laws: &[(&str, Law)]) {
        let mut simulation = Simulation::new(plan.clone()).expect("it is possible");
        simulation.advance(events);
        let world = simulation.world_mut();
        assert_eq!(audit(plan, world), []);
        let now = world.fabric.run.now;
        for (name, law) in laws {
            let before = *law(world);
            assert_ne!(
                before.judge(now, (0, now), [(1, QueuedAt::at(now - Time(TICK_PS)))]),
                None,
                "{name} is empty"
            );
            law(world).left(1, QueuedAt::at(now - Time(TICK_PS)), now);
            let found: Vec<String> = audit(plan, world).into_iter().map(|(place, _)| place).collect();
            assert_eq!(found, [*name]);
            *law(world) = before;
        }
    }

    #[test]
    fn queues_of_switches_and_hosts() {
        let laws: [(&str, Law); 5] = [
            ("sw0:h2/tc3", |w| &mut w.fabric.queues[(5, 3)].over_time.law),
            ("sw0:h0/pg3", |w| &mut w.fabric.groups[(3, 3)].over_time.law),
            ("h2/nic-rx", |w| &mut w.nics.host_paths[2].buffers.level.over_time.law),
            ("receive rings of host 2", |w| &mut w.tcp.cpus.backlog(2).over_time.law),
            ("transmit ring 0", |w| &mut w.tcp.rings.rings_mut()[0].waiting.over_time.law),
        ];
        each_is_judged(&hosts(), 20_000, &laws);
    }

    #[test]
    fn queues_of_a_bridge() {
        let laws: [(&str, Law); 3] = [
            ("br0:h1/rx-ring", |w| &mut w.linux.bridge_ports[1].rx_backlog.over_time.law),
            ("br0:h0/qdisc", |w| &mut w.linux.bridge_ports[0].qdisc_backlog.over_time.law),
            ("br0:h0/tx-ring", |w| &mut w.linux.bridge_ports[0].tx_backlog.over_time.law),
        ];
        each_is_judged(&plan(include_str!("../../tests/data/bridge.json")), 7_000, &laws);
    }

    #[test]
    fn queues_of_namespaces() {
        let laws: [(&str, Law); 6] = [
            ("a-b/qdisc", |w| &mut w.linux.veths.ends[0].waiting.packets.over_time.law),
            ("a-b/qdisc", |w| &mut w.linux.veths.ends[0].waiting.bytes.over_time.law),
            ("a-b/ring", |w| &mut w.linux.veths.ends[0].in_ring.packets.over_time.law),
            ("a-b/ring", |w| &mut w.linux.veths.ends[0].in_ring.bytes.over_time.law),
            ("a-b/napi", |w| &mut w.linux.veths.ends[0].in_list.packets.over_time.law),
            ("a-b/napi", |w| &mut w.linux.veths.ends[0].in_list.bytes.over_time.law),
        ];
        each_is_judged(&plan(include_str!("../../tests/data/veth.json")), 3_000, &laws);
    }
}
