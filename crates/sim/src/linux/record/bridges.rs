//! Quantities of Linux bridges.

use crate::cores::Purpose;
use crate::fabric::packet::Packet;
use crate::fabric::port::DropReason;
use crate::fabric::{lane, CLASSES};
use crate::linux::device::Channel;
use crate::plan::{Plan, QdiscPlan};
use crate::record::quantity::{counters, quantities, recorded, Table};
use crate::record::recording::{at_port, peer_name, Entity};
use crate::record::recording::{BridgeCore, Queue};
use crate::record::signals::Signal;
use crate::world::World;

recorded! {
    quantities {
        /// The transmit rings of a port, counted among all ports of bridges.
        TX_RING of ["tx-ring"], |bin, port| {
            "queue_mean_bytes": Mean, "bytes", "bytes given to the device and not yet completed, weighted by time"
                = bin.world.linux.bridge_ports[port].tx_backlog.take_mean(bin.now, bin.span);
            "queue_max_bytes": Max, "bytes", "most such bytes" = bin.world.linux.bridge_ports[port].tx_backlog.take_max() as f64;
        }
    }

    quantities {
        /// The queueing disciplines of a port, all together.
        QDISC of ["qdisc"], |bin, port| {
            "queue_mean_bytes": Mean, "bytes", "bytes waiting, weighted by time"
                = bin.world.linux.bridge_ports[port].qdisc_backlog.take_mean(bin.now, bin.span);
            "queue_max_bytes": Max, "bytes", "most bytes waiting" = bin.world.linux.bridge_ports[port].qdisc_backlog.take_max() as f64;
            "ecn_marked": Count [CeMark], "packets", "packets that it marked CE" = egresses(bin.world, port).map(|egress| egress.marked).sum();
            "dropped": Count [Drop], "packets", "packets that it dropped" = {
                let at = lane(bin.world.linux.first_bridge_port + port, 0);
                bin.world.fabric.drops[at][DropReason::Qdisc as usize].packets
            };
        }
    }

    quantities {
        /// The receive rings of a port.
        RX_RING of ["rx-ring"], |bin, port| {
            "queue_mean_bytes": Mean, "bytes", "bytes that wait for a poll, weighted by time"
                = bin.world.linux.bridge_ports[port].rx_backlog.take_mean(bin.now, bin.span);
            "queue_max_bytes": Max, "bytes", "most such bytes" = bin.world.linux.bridge_ports[port].rx_backlog.take_max() as f64;
            "dropped": Count [Drop], "packets", "packets that found a ring full, or came out of it and had nowhere to go" = {
                let port = bin.world.linux.first_bridge_port + port;
                let no_route = |class| bin.world.fabric.drops[lane(port, class)][DropReason::NoRoute as usize].packets;
                out_of_buffer(bin.world, port) + (0..CLASSES as u8).map(no_route).sum::<u64>()
            };
        }
    }

    quantities {
        /// A core of a bridge.
        CORE of ["core"] always, |bin, core| {
            "irq_share": Share, "share", "time that it spent on hard interrupts"
                = bin.world.linux.cores[core].core.spent(Purpose::Irq, bin.now).0;
            "softirq_share": Share, "share", "time that it spent on softirqs, ksoftirqd included"
                = bin.world.linux.cores[core].core.spent(Purpose::Soft, bin.now).0;
            "guest_share": Share, "share", "time that it spent on virtual CPUs"
                = bin.world.linux.cores[core].core.spent(Purpose::Guest, bin.now).0;
        }
    }

    counters {
        /// Of a port of a bridge, under the names of `ethtool -S`.
        PORT_COUNTS of ["bridge port"], |world: World, port| {
            "rx_packets": "packets", "packets received" = world.fabric.groups.of_port(port).map(|group| group.rx_packets).sum();
            "rx_bytes": "bytes", "bytes received" = world.fabric.groups.of_port(port).map(|group| group.rx_bytes).sum();
            "rx_out_of_buffer": "packets", "packets that found a receive ring full" = out_of_buffer(world, port);
            "tx_packets": "packets", "packets sent" = world.fabric.queues.of_port(port).map(|queue| queue.tx_packets).sum();
            "tx_bytes": "bytes", "bytes sent" = world.fabric.queues.of_port(port).map(|queue| queue.tx_bytes).sum();
            "tx_queue_stopped": "stops", "how often a transmit ring was full"
                = channels(world, port).iter().map(|channel| channel.tx.ring_stops).sum();
            "bql_stopped": "stops", "how often byte queue limits stopped a transmit queue"
                = channels(world, port).iter().map(|channel| channel.tx.bql_stops).sum();
            "bql_limit": "bytes", "limits of the transmit queues at the end, all together"
                = channels(world, port).iter().filter_map(|c| c.tx.dql.as_ref()).map(|dql| dql.limit() as u64).sum();
        }
    }
}

/// Name of a port's row: `br0:h1/qdisc`.
pub(crate) fn row_name(world: &World, port: usize, row: &str) -> String {
    format!("{}/{row}", world.fabric.links[port].name)
}

/// All cores: their numbers among all, bridge and number there.
fn all_cores<'a>(plan: &'a Plan, world: &'a World) -> impl Iterator<Item = (usize, &'a str, u32)> {
    world.linux.bridges.iter().zip(&plan.bridges).flat_map(|(bridge, of_plan)| {
        let cores = &plan.bridge_models[of_plan.model].cores;
        cores
            .iter()
            .enumerate()
            .map(move |(at, core)| (bridge.first_core as usize + at, of_plan.name.as_str(), core.cpu))
    })
}

/// Entities of bridges, each with its table and place.
pub(crate) fn entities(plan: &Plan, world: &World) -> Vec<(Entity, &'static Table<World>, usize)> {
    let mut rows = Vec::new();
    for port in 0..world.linux.bridge_ports.len() {
        let at = world.linux.first_bridge_port + port;
        let queue = |row| at_port(plan, world, row_name(world, at, row), row, at);
        rows.push((queue("tx-ring"), &TX_RING, port));
        rows.push((queue("qdisc"), &QDISC, port));
        rows.push((queue("rx-ring"), &RX_RING, port));
    }
    for (core, bridge, number) in all_cores(plan, world) {
        rows.push((Entity::new(format!("{bridge}/cpu{number}"), "core", bridge), &CORE, core));
    }
    rows
}

/// Of a port, counted among all.
pub(crate) fn channels(world: &World, port: usize) -> &[Channel] {
    let p = &world.linux.bridge_ports[port - world.linux.first_bridge_port];
    &world.linux.channels[p.first_channel as usize..(p.first_channel + p.channels) as usize]
}

fn out_of_buffer(world: &World, port: usize) -> u64 {
    channels(world, port).iter().map(|channel| channel.rx_out_of_buffer).sum()
}

pub(crate) fn egresses(world: &World, port: usize) -> impl Iterator<Item = &crate::linux::egress::Egress> {
    let port = (world.linux.first_bridge_port + port) as u32;
    world.linux.egresses.iter().filter(move |egress| egress.port == port)
}

/// A queue of a bridge's port.
pub(crate) fn queue(plan: &Plan, world: &World, kind: &'static str, port: usize, order: u32) -> Queue {
    let node = world.fabric.ports[port].owner as usize - world.nics.nics.len() - world.fabric.switches.len();
    let model = &plan.bridge_models[plan.bridges[node].model];
    let red = match &model.qdisc {
        QdiscPlan::Red(red) if kind == "qdisc" => Some(red),
        _ => None,
    };
    Queue {
        queue: row_name(world, port, kind),
        kind,
        node: plan.bridges[node].name.clone(),
        port: world.fabric.links[port].name.clone(),
        peer: peer_name(plan, world, port),
        priority: 0,
        order,
        k_min_bytes: red.map(|red| red.min.0),
        k_max_bytes: red.map(|red| red.max.0),
        limit_bytes: red.map(|red| red.limit.0),
    }
}

/// Transmit queues that were stopped: why, the rings of the port, and how often.
pub(crate) fn stops(plan: &Plan, world: &World) -> Vec<(Signal, Entity, u64)> {
    let of_port = |port: usize| {
        let at = world.linux.first_bridge_port + port;
        let rings = at_port(plan, world, row_name(world, at, "tx-ring"), "tx-ring", at);
        let stops = |count: fn(&Channel) -> u64| channels(world, at).iter().map(count).sum();
        [
            (Signal::BqlStop, rings.clone(), stops(|channel| channel.tx.bql_stops)),
            (Signal::RingStop, rings, stops(|channel| channel.tx.ring_stops)),
        ]
    };
    (0..world.linux.bridge_ports.len()).flat_map(of_port).collect()
}

/// Uses of the cores of bridges.
pub(crate) fn cores(plan: &Plan, world: &World) -> Vec<BridgeCore> {
    let row = |(core, bridge, number): (usize, &str, u32)| {
        let core = &world.linux.cores[core];
        let share = |purpose| {
            core.core.spent(purpose, world.fabric.run.now).0 as f64 / world.fabric.run.now.0.max(1) as f64
        };
        BridgeCore {
            bridge: bridge.to_owned(),
            core: number,
            irq: share(Purpose::Irq),
            softirq: share(Purpose::Soft),
            guest: share(Purpose::Guest),
            interrupts: core.interrupts_taken,
            polls: core.polls,
        }
    };
    all_cores(plan, world).map(row).collect()
}

/// Counters of a port, its queueing disciplines included: of all of them together.
pub(crate) fn count(world: &World, number: usize, add: &mut dyn FnMut(&'static str, u64)) {
    (PORT_COUNTS.count)(world, world.linux.first_bridge_port + number, add);
    for egress in egresses(world, number) {
        super::qdisc::count(&egress.qdisc, world.fabric.run.now, add);
    }
}

/// Checks the books of all bridges. Returns the packets of data that they hold, and a line for each error.
pub(crate) fn audit(plan: &Plan, world: &World) -> (u64, Vec<(String, String)>) {
    let mut errors = Vec::new();
    let mut held_data = 0;
    for (number, bridge) in plan.bridges.iter().enumerate() {
        let of_bridge = |port: usize| world.linux.bridge_ports[port].bridge as usize == number;
        let ports: Vec<usize> = (0..world.linux.bridge_ports.len()).filter(|&port| of_bridge(port)).collect();
        let (mut came, mut went) = (0u64, 0u64);
        for &at in &ports {
            let port = world.linux.first_bridge_port + at;
            let (mut waiting, mut counted, mut in_rings) = (0u64, 0u64, 0u64);
            let mut hold = |packet: &Packet| {
                held_data += packet.kind.is_data() as u64;
                went += 1;
            };
            let p = &world.linux.bridge_ports[at];
            let mut unsent = 0;
            for c in &world.linux.channels[p.first_channel as usize..(p.first_channel + p.channels) as usize]
            {
                for packet in c.ring.iter(&world.fabric.packets) {
                    waiting += 1;
                    in_rings += packet.frame_bytes() as u64;
                    hold(packet);
                }
                counted += c.waiting as u64;
                c.in_hand().into_iter().for_each(|packet| hold(&world.fabric.packets[packet]));
                unsent += c.tx.bytes();
                if let Some(dql) = c.tx.dql.as_ref().filter(|dql| dql.in_flight() as u64 != c.charged()) {
                    let (counted, found) = (dql.in_flight(), c.charged());
                    let text = format!("BQL counts {counted} B and {found} B wait for their completion");
                    errors.push((row_name(world, port, "tx-ring"), text));
                }
            }
            if waiting != counted || in_rings != p.rx_backlog.value {
                let text = format!(
                    "counts {counted} packets of {} B but holds {waiting} of {in_rings} B",
                    p.rx_backlog.value
                );
                errors.push((row_name(world, port, "rx-ring"), text));
            }
            if unsent != p.tx_backlog.value {
                let text = format!("counts {} B but holds {unsent} B", p.tx_backlog.value);
                errors.push((row_name(world, port, "tx-ring"), text));
            }
            let mut queued = 0;
            for egress in egresses(world, at) {
                egress.in_hand().into_iter().for_each(|packet| hold(&world.fabric.packets[packet]));
                queued += egress.qdisc.backlog_bytes();
            }
            if queued != p.qdisc_backlog.value {
                let text = format!("counts {} B but holds {queued} B", p.qdisc_backlog.value);
                errors.push((row_name(world, port, "qdisc"), text));
            }
            for egress in egresses(world, at) {
                held_data += egress.data_packets;
                went += egress.qdisc.qlen() as u64;
            }
            for class in 0..CLASSES as u8 {
                let at = lane(port, class);
                came += world.fabric.groups[at].rx_packets;
                went += world.fabric.queues[at].tx_packets;
                let reasons = DropReason::ALL.into_iter().filter(|reason| !reason.was_on_link());
                went += reasons.map(|reason| world.fabric.drops[at][reason as usize].packets).sum::<u64>();
            }
        }
        if came != went {
            let text = format!("got {came} packets, and {went} left, were dropped or wait");
            errors.push((bridge.name.clone(), text));
        }
    }
    (held_data, errors)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Simulation;

    const PLAN: &str = include_str!("../../../tests/data/bridge.json");

    /// A run stopped in the middle, its books changed by `cook`.
    fn cooked(cook: impl Fn(&mut World)) -> Vec<(String, String)> {
        let mut simulation = Simulation::new(Plan::from_json(PLAN).unwrap()).unwrap();
        simulation.advance(7_000);
        let plan = Plan::from_json(PLAN).unwrap();
        let world = simulation.world_mut();
        cook(world);
        audit(&plan, world).1
    }

    #[test]
    fn honest_books_add_up_with_packets_everywhere() {
        let found = cooked(|world| {
            let ports = &world.linux.bridge_ports;
            assert!(ports.iter().any(|port| port.rx_backlog.value > 0));
            assert!(ports.iter().any(|port| port.tx_backlog.value > 0));
            assert!(world.linux.channels.iter().any(|channel| channel.in_hand().is_some()));
        });
        assert_eq!(found, []);
    }

    /// Each counter, off by one, is noticed and the place is named.
    #[test]
    fn every_cooked_book_is_noticed() {
        type Cook<'a> = &'a dyn Fn(&mut World);
        let first = |w: &World| lane(w.linux.first_bridge_port, 0);
        let cooks: [(&str, Cook); 7] = [
            ("br0:h1/rx-ring", &|w| w.linux.bridge_ports[1].rx_backlog.value += 1),
            ("br0:h1/rx-ring", &|w| w.linux.channels.iter_mut().for_each(|channel| channel.waiting += 1)),
            ("br0:h0/qdisc", &|w| w.linux.bridge_ports[0].qdisc_backlog.value += 1),
            ("br0:h0/tx-ring", &|w| w.linux.bridge_ports[0].tx_backlog.value += 1),
            ("br0:h0/tx-ring", &|w| w.linux.channels[0].tx.dql.as_mut().expect("BQL is on").queued(1)),
            ("br0", &|w| {
                let at = first(w);
                w.fabric.groups[at].rx_packets += 1;
            }),
            ("br0", &|w| {
                let at = first(w);
                w.fabric.drops[at][DropReason::Qdisc as usize].packets += 1;
            }),
        ];
        for (number, (place, cook)) in cooks.iter().enumerate() {
            let errors = cooked(|world| cook(world));
            assert!(errors.iter().any(|(found, _)| found == place), "{number}: {errors:?}");
        }
    }
}
