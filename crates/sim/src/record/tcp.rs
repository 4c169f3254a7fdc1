//! Quantities of TCP and of the CPUs that serve it.

use super::flows::Flow;
use super::quantity::{bits_per_second, counters, quantities, recorded};
use super::recording::Entity;
use super::recording::{CoreShares, Cpu};
use crate::cores::Purpose;
use crate::fabric::packet::PacketKind;
use crate::host::cpu::Cpus;
use crate::nic::queue_pair::QpState;
use crate::plan::Plan;
use crate::world::World;

recorded! {
    quantities {
        /// The CPU of a host that speaks TCP.
        CPU of ["host"], |bin, host| {
            "cpu_share": Share, "share", "time for which its cores were busy, all together" = {
                let cores = bin.world.tcp.cpus.cores_of(host);
                cores.iter().map(|core| core.core.busy(bin.now).0).sum::<u64>() / cores.len() as u64
            };
        }
    }

    quantities {
        /// Its receive rings, all together.
        RINGS of ["receive"], |bin, host| {
            "queue_mean_bytes": Mean, "bytes", "bytes that wait for the CPU, weighted by time"
                = bin.world.tcp.cpus.backlog(host).take_mean(bin.now, bin.span);
            "queue_max_bytes": Max, "bytes", "most such bytes" = bin.world.tcp.cpus.backlog(host).take_max() as f64;
            "dropped": Count ("rx_out_of_buffer") [Drop], "packets", "packets that found the ring of their core full"
                = bin.world.tcp.cpus.cores_of(host).iter().map(|core| core.rx_out_of_buffer).sum();
        }
    }

    quantities {
        /// A connection.
        CONNECTION of ["connection"] always, |bin, connection| {
            "cwnd_bytes": Now, "bytes", "its congestion window at the end of the bin"
                = bin.world.tcp.sockets.connections[connection].sender.cwnd() as f64;
            "goodput_bps": Rate, "bit/s", "payload that the receiving application read"
                = bin.world.tcp.sockets.connections[connection].bytes_read;
        }
    }

    counters {
        /// Packets taken from its receive rings, under the names of `ethtool -S`.
        RECEIVED of ["host"], |cpus: Cpus, host| {
            "rx_packets": "packets", "packets that came to the receive rings" = cpus.cores_of(host).iter().map(|core| core.rx_packets).sum();
            "rx_bytes": "bytes", "the same in bytes" = cpus.cores_of(host).iter().map(|core| core.rx_bytes).sum();
        }
    }

    counters {
        /// Sums over the connections of a host, under the names of `nstat`.
        SEGMENTS of ["host"], |totals: HostTotals, _| {
            "TcpOutDataSegs": "segments", "data segments sent" = totals.packets_sent;
            "TcpRetransSegs": "segments", "of these, those sent again" = totals.retransmitted_segments;
            "TcpExtTCPTimeouts": "timeouts", "retransmission timeouts" = totals.timeouts;
            "TcpExtTCPOFOQueue": "segments", "segments that came ahead of a gap" = totals.out_of_order_segments;
        }
    }
}

/// CPUs that served packets.
pub(super) fn cpus(plan: &Plan, world: &World) -> Vec<Cpu> {
    let mut rows = Vec::new();
    for (host, cpu) in world.tcp.cpus.hosts.iter().enumerate() {
        if cpu.is_none() {
            continue;
        }
        let cores = world.tcp.cpus.cores_of(host).iter().map(|core| {
            let [irq, softirq, system] = [Purpose::Irq, Purpose::Soft, Purpose::Sys]
                .map(|purpose| core.core.share(purpose, world.fabric.run.now));
            CoreShares { irq, softirq, system }
        });
        rows.push(Cpu { host: plan.hosts[host].name.clone(), cores: cores.collect() });
    }
    rows
}

/// A row a connection.
pub(super) fn flows<'a>(plan: &'a Plan, world: &'a World) -> impl Iterator<Item = Flow> + 'a {
    let row = move |c: &crate::host::socket::Connection| {
        let item = &plan.tcp_connections[c.group as usize];
        let done = c.state == QpState::Done;
        let started = c.state != QpState::Waiting;
        let end = if done { c.end } else { world.fabric.run.now };
        let statistics = c.sender.statistics();
        Flow {
            item: item.item.clone(),
            protocol: "tcp",
            src: item.src.clone(),
            dst: item.dst.clone(),
            qp: c.number,
            priority: c.class,
            start_ps: started.then_some(c.start.0),
            end_ps: done.then_some(c.end.0),
            state: c.state.text(),
            message_bytes: item.bytes.map(|bytes| bytes.0),
            bytes_delivered: c.bytes_read,
            fct_ps: (done && item.bytes.is_some()).then(|| (c.end - c.start).0),
            goodput_bps: bits_per_second(c.bytes_read, end.saturating_sub(c.start)),
            packets_sent: c.packets_sent,
            packets_retransmitted: c.packets_retransmitted,
            retransmitted_segments: c.packets_retransmitted,
            timeouts: statistics.timeouts,
            fast_recoveries: statistics.fast_recoveries,
            ece_received: statistics.ece_received,
            cwnd_bytes: Some(c.sender.cwnd()),
            srtt_ps: c.sender.srtt().map(|srtt| srtt.0),
            ..Flow::default()
        }
    };
    world.tcp.sockets.connections.iter().map(row)
}

/// A connection whose series are recorded.
pub(super) fn entity(plan: &Plan, world: &World, connection: usize) -> Entity {
    let c = &world.tcp.sockets.connections[connection];
    let (src, dst) = (&plan.hosts[c.src as usize].name, &plan.hosts[c.dst as usize].name);
    Entity::new(format!("{src}-{dst}/tcp{}", c.number), "connection", src)
        .towards(dst)
        .of_item(&plan.tcp_connections[c.group as usize].item)
}

/// Sums over the connections of a host.
#[derive(Clone, Default)]
pub(super) struct HostTotals {
    packets_sent: u64,
    retransmitted_segments: u64,
    timeouts: u64,
    out_of_order_segments: u64,
}

impl HostTotals {
    /// By host.
    pub fn of_hosts(world: &World) -> Vec<HostTotals> {
        let mut found = vec![HostTotals::default(); world.nics.nics.len()];
        for c in &world.tcp.sockets.connections {
            let (statistics, sender) = (c.sender.statistics(), &mut found[c.src as usize]);
            sender.packets_sent += c.packets_sent;
            sender.retransmitted_segments += c.packets_retransmitted;
            sender.timeouts += statistics.timeouts;
            found[c.dst as usize].out_of_order_segments += c.receiver.out_of_order_segments();
        }
        found
    }
}

/// Checks receive rings and connections. Returns how many data packets wait in rings and what the applications read.
pub(super) fn audit(world: &World, errors: &mut Vec<(String, String)>) -> (u64, u64) {
    let mut in_rings = 0;
    for (host, cpu) in world.tcp.cpus.hosts.iter().enumerate() {
        let Some(cpu) = cpu else { continue };
        let mut waiting = 0;
        for (number, core) in world.tcp.cpus.cores_of(host).iter().enumerate() {
            let place = format!("receive ring of host {host}, core {number}");
            let packets = core.ring.iter(&world.fabric.packets).count() as u64;
            waiting +=
                core.ring.iter(&world.fabric.packets).map(|packet| packet.frame_bytes() as u64).sum::<u64>();
            in_rings +=
                core.ring.iter(&world.fabric.packets).filter(|packet| packet.kind == PacketKind::Tcp).count()
                    as u64;
            if packets != core.ring_packets as u64 {
                errors.push((
                    place.clone(),
                    format!("counts {} packets but holds {packets}", core.ring_packets),
                ));
            }
            if core.rx_packets != core.rx_out_of_buffer + core.polled_packets + packets {
                errors.push((
                    place,
                    format!(
                        "got {} packets, of which {} were dropped, {} polled and {packets} are left",
                        core.rx_packets, core.rx_out_of_buffer, core.polled_packets
                    ),
                ));
            }
        }
        if waiting != cpu.backlog.value {
            let text = format!("count {} B but hold {waiting} B", cpu.backlog.value);
            errors.push((format!("receive rings of host {host}"), text));
        }
    }
    let connections = &world.tcp.sockets.connections;
    let in_bursts = world.tcp.ring_payload(connections.len());
    for (number, (c, in_bursts)) in connections.iter().zip(in_bursts).enumerate() {
        let mut wrong = |text: String| errors.push((format!("TCP connection {number}"), text));
        if c.bytes_read + c.receiver.unread() != c.receiver.delivered() {
            wrong(format!(
                "delivered {} B, of which {} were read and {} wait",
                c.receiver.delivered(),
                c.bytes_read,
                c.receiver.unread()
            ));
        }
        if !(c.sender.acknowledged()..=c.sender.next_position()).contains(&c.receiver.delivered()) {
            wrong(format!(
                "delivered {} B, which were not sent, or less than acknowledged",
                c.receiver.delivered()
            ));
        }
        if c.queued as u64 != in_bursts {
            wrong(format!("counts {} B in the NIC's rings, where {in_bursts} are", c.queued));
        }
    }
    (in_rings, connections.iter().map(|c| c.bytes_read).sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{CpuParameters, TcpConnectionPlan, TcpSettings};
    use crate::Simulation;
    use tailback_proto::units::{Bytes, Hertz, Time};

    const MS: u64 = 1_000_000_000;

    /// Two hosts send to a third whose only core is slow; stopped in the middle, its books changed by `cook`.
    fn cooked(cook: impl Fn(&mut World)) -> Vec<(String, String)> {
        let mut plan = Plan::from_json(include_str!("../../tests/data/two_to_one.json")).unwrap();
        plan.nics[0].tcp = Some(TcpSettings { initial_rto: Some(Time(1000 * MS)), ..TcpSettings::default() });
        plan.nics[0].cpu = Some(CpuParameters {
            cores: 1,
            clock: Hertz(1_000_000_000),
            rx_ring: 64,
            interrupt_delay: Time(8_000_000),
            interrupt_packets: 32,
            napi_budget: 16,
            gro: Bytes(65536),
            cycles_per_interrupt: 2500.0,
            cycles_per_packet: 700.0,
            cycles_per_segment: 3000.0,
            cycles_per_byte: 0.3,
        });
        plan.tcp_connections = (0..2)
            .map(|src| TcpConnectionPlan {
                item: "tcp".into(),
                src: plan.hosts[src].name.clone(),
                dst: plan.hosts[2].name.clone(),
                code_point: plan.writers[0].code_point,
                connections: 2,
                bytes: None,
                start: Time::ZERO,
                start_spread: Time::ZERO,
                stop: None,
            })
            .collect();
        let mut simulation = Simulation::new(plan.clone()).unwrap();
        simulation.advance(20_000);
        let world = simulation.world_mut();
        assert!(world.tcp.cpus.cores_of(2)[0].rx_out_of_buffer > 0, "a ring overflowed");
        cook(world);
        super::super::audit::audit(&plan, world).1
    }

    /// Each counter, off by one, is noticed and the place is named.
    #[test]
    fn every_cooked_book_is_noticed() {
        assert_eq!(cooked(|_| {}), []);
        type Cook<'a> = &'a dyn Fn(&mut World);
        let receiver = |w: &mut World| w.tcp.cpus.hosts[2].as_ref().unwrap().first_core as usize;
        let cooks: [(&str, Cook); 7] = [
            ("receive ring of host 2, core 0", &|w| {
                let core = receiver(w);
                w.tcp.cpus.cores[core].rx_packets += 1;
            }),
            ("receive ring of host 2, core 0", &|w| {
                let core = receiver(w);
                w.tcp.cpus.cores[core].ring_packets += 1;
            }),
            ("receive rings of host 2", &|w| w.tcp.cpus.backlog(2).value += 1),
            ("TCP connection 0", &|w| w.tcp.sockets.connections[0].bytes_read += 1),
            ("TCP connection 1", &|w| w.tcp.sockets.connections[1].queued += 1),
            ("the run", &|w| w.tcp.sockets.connections[3].bytes_read += 1),
            ("the run", &|w| w.fabric.data.delivered += 1),
        ];
        for (number, (place, cook)) in cooks.iter().enumerate() {
            let errors = cooked(|world| cook(world));
            assert!(errors.iter().any(|(found, _)| found == place), "{number}: {errors:?}");
        }
    }
}
