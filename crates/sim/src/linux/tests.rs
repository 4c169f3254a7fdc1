//! A bridge between two hosts, without a run around it.

use tailback_proto::units::Time;

use super::Linux;
use crate::event::Event;
use crate::fabric::packet::Detail;
use crate::fabric::packet::Telemetry;
use crate::fabric::tests::{classes, packet, port};
use crate::fabric::{Arrived, Fabric};
use crate::linux::settings::{
    BridgeCorePlan, BridgeCosts, BridgeModelPlan, BridgeParameters, BridgePortPlan, CoalescingParameters,
    PfifoParameters, QdiscPlan,
};

/// A bridge with a core, and a port to each of two hosts.
fn bridge(fabric: &mut Fabric) -> (Linux, BridgeModelPlan) {
    let at_once = CoalescingParameters { adaptive: false, usecs: 0, frames: 1 };
    let to_host = || BridgePortPlan { numa: 0, irq_cores: vec![0], rss: vec![0] };
    let model = BridgeModelPlan {
        cores: vec![BridgeCorePlan { cpu: 0, numa: 0, guest: false }],
        host: BridgeParameters::default(),
        costs: BridgeCosts::default(),
        ports: vec![to_host(), to_host()],
        rx: at_once,
        tx: at_once,
        bql: None,
        qdisc: QdiscPlan::Pfifo(PfifoParameters::default()),
        frame_bytes: 1514,
        multiqueue: false,
    };
    let mut linux = Linux { first_bridge_port: 2, ..Linux::default() };
    linux.add_bridge(fabric, 1, "br0", &model, 2).expect("it is possible");
    (linux, model)
}

/// A packet takes an interrupt, a poll and its own costs on a bridge that sleeps; those behind it go as fast as the core takes
/// them, in order.
#[test]
fn a_bridge_alone_forwards_in_order_and_takes_what_its_core_takes() {
    const PACKETS: u32 = 50;
    let ports = vec![port(0, 2), port(1, 3), port(2, 0), port(2, 1)];
    let mut fabric = Fabric::new(1, 2, vec![], classes(3), ports, Telemetry::OFF).expect("it is small");
    let (mut linux, model) = bridge(&mut fabric);
    let mut came = Vec::new();
    for number in 0..PACKETS {
        let index = fabric.packets.add(packet(1, 7, 1024));
        fabric.packets[index].detail = Detail::psn(number);
        fabric.enqueue(0, index);
    }
    fabric.wake_port(0, Time::ZERO);
    while let Some((time, code)) = fabric.run.events.pop() {
        fabric.run.now = time;
        match Event::decode(code) {
            Event::Arrival(port) => match fabric.on_arrival(port as usize) {
                Some(Arrived { node: 2, port, packet }) => linux.receive(&mut fabric, port, packet),
                Some(Arrived { node: 1, packet, .. }) => {
                    assert_eq!(fabric.packets[packet].psn() as usize, came.len(), "in order");
                    came.push(time);
                    fabric.packets.remove(packet);
                }
                other => unreachable!("{other:?}"),
            },
            Event::PortWake(port) => {
                let turn =
                    fabric.on_port_wake(port as usize).filter(|&host| fabric.ports[host].backlogged != 0);
                if let Some(host) = turn {
                    let index = fabric.dequeue(host, 0);
                    fabric.send(host, index);
                    let free_at = fabric.ports[host].busy_until;
                    fabric.wake_port(host, free_at);
                }
            }
            Event::LinuxCore(core) => linux.on_linux_core(&mut fabric, core),
            Event::LinuxIrq(napi) => linux.on_linux_irq(&mut fabric, napi),
            other => unreachable!("{other:?}"),
        }
    }
    assert_eq!(came.len(), PACKETS as usize);
    let (host, costs) = (model.host, model.costs);
    let on_wires = Time::from_ns(2 * (1024 + 100));
    let on_core = host.idle_exit + host.interrupt + host.poll + costs.receive + costs.transmit;
    assert_eq!(came[0], on_wires + on_core + host.tx_latency);
    // The core is slower than the links: it never sleeps again, and each packet costs it what it costs.
    let each = costs.receive + costs.transmit;
    assert!((came[PACKETS as usize - 1] - came[0]).0 >= (PACKETS as u64 - 1) * each.0);
}
