//! Fabrics without a run around them: a switch alone, driven by its events.

use tailback_proto::flow_control::pfc::{PauseParameters, PfcParameters};
use tailback_proto::units::{Bytes, Rate, Time};

use super::packet::Telemetry;
use super::packet::{Amount, Detail, Packet, PacketKind, NONE};
use super::switch::Switch;
use super::NewPort;
use super::{Arrived, Fabric, CLASSES};
use super::{Classes, ONE_CLASS};
use crate::event::Event;
use crate::fabric::settings::{LoadBalancing, SwitchModelPlan};

/// A port at 8 Gbit/s, a byte a nanosecond, 100 ns from its peer.
pub(crate) fn port(owner: usize, peer: usize) -> NewPort<'static> {
    NewPort {
        name: format!("{owner}:{peer}"),
        owner,
        peer,
        stream: owner as u64,
        rate: Rate(8_000_000_000),
        clock_ppm: 0.0,
        delay: Time::from_ns(100),
        latency: Time::ZERO,
        loss: 0.0,
        headroom_bytes: 20_000,
        strict: 0,
        weights: None,
        pfc_response_delay: Time::ZERO,
        pfc_quanta: 65_535,
        ecn: [None; CLASSES],
    }
}

/// Nodes of one class: hosts, then switches, then bridges.
pub(crate) fn classes(nodes: usize) -> Classes {
    let mut classes = Classes::default();
    (0..nodes).for_each(|_| classes.add(&ONE_CLASS));
    classes
}

/// A packet with its number and its bytes on the wire.
pub(crate) fn packet(dst: u16, number: u32, wire_bytes: u16) -> Packet {
    Packet {
        arrival: Time::ZERO,
        qp: number,
        detail: Detail::psn(number),
        next: NONE,
        wire_bytes,
        amount: Amount::NONE,
        dst,
        ingress: 0,
        kind: PacketKind::Data,
        class: 0,
        flags: 0,
        code_point: 0,
    }
}

/// Hosts at the ports of a switch whose class is lossless.
fn star(hosts: usize, shared_bytes: u64) -> Fabric {
    let model = SwitchModelPlan {
        buffer: Bytes(1 << 20),
        shared_bytes,
        latency: Time::ZERO,
        class_of: vec![0],
        lossless: vec![0],
        strict: vec![],
        weights: None,
        pools: None,
        ecn: vec![],
        ingress_alpha: 1.0,
        egress_alpha: 1.0,
        load_balancing: LoadBalancing::Ecmp,
        flowlet_gap: Time::ZERO,
        pfc: PfcParameters::default(),
        pause: PauseParameters::default(),
        watchdog: None,
        trimming: None,
    };
    let host_ports = (0..hosts).map(|host| port(host, hosts + host));
    let ports = host_ports.chain((0..hosts).map(|host| port(hosts, host))).collect();
    let switch = Switch::new(&model, hosts as u32, 1, 0);
    Fabric::new(1, hosts, vec![switch], classes(hosts + 1), ports, Telemetry::OFF).expect("it is small")
}

/// Two hosts send to a third at once, as fast as they may: the switch asks both for pauses in time, drops nothing, and keeps
/// the order of each.
#[test]
fn a_switch_alone_pauses_and_drops_nothing() {
    const PACKETS: u32 = 200;
    let mut fabric = star(3, 30_000);
    for sender in 0..2 {
        for number in 0..PACKETS {
            let index = fabric.packets.add(packet(2, number << 1 | sender, 1024));
            fabric.enqueue(sender as usize, index);
        }
        fabric.run.schedule(Time::ZERO, Event::PortWake(sender));
        fabric.ports[sender as usize].wake_at = Time::ZERO;
    }
    let mut next = [0; 2];
    let mut most_paused = 0;
    while let Some((time, code)) = fabric.run.events.pop() {
        fabric.run.now = time;
        let turn = match Event::decode(code) {
            Event::Arrival(port) => {
                let Arrived { node, port, packet } = fabric.on_arrival(port as usize).expect("no link fails");
                if node == 3 {
                    fabric.switch_receive(0, port, packet);
                } else {
                    assert_eq!(node, 2);
                    let number = fabric.packets[packet].qp;
                    assert_eq!(number >> 1, next[(number & 1) as usize], "in order");
                    next[(number & 1) as usize] += 1;
                    fabric.packets.remove(packet);
                }
                None
            }
            Event::PortWake(port) => fabric.on_port_wake(port as usize),
            Event::PauseEffect(port) => {
                let frame = fabric.on_pause_effect(port as usize).expect("no link fails");
                frame.classes().find_map(|class| fabric.take_pause(port as usize, class, frame))
            }
            Event::PauseExpiry(lane) => fabric.on_pause_expiry(lane as usize),
            Event::PauseRefresh(lane) => {
                fabric.on_pause_refresh(lane as usize);
                None
            }
            other => unreachable!("{other:?}"),
        };
        // A host sends what waits at its port.
        if let Some(host) =
            turn.filter(|&host| fabric.ports[host].backlogged & !fabric.ports[host].paused != 0)
        {
            let index = fabric.dequeue(host, 0);
            fabric.send(host, index);
            let free_at = fabric.ports[host].busy_until;
            fabric.wake_port(host, free_at);
        }
        most_paused = most_paused.max((0..2).filter(|&host| fabric.ports[host].paused != 0).count());
    }
    assert_eq!(next, [PACKETS; 2]);
    assert_eq!(fabric.data.dropped, 0);
    assert_eq!(most_paused, 2);
    assert_eq!(fabric.switches[0].buffer.used_bytes(0), 0, "all of the buffer is free again");
    // The third host's link carried everything, and was never idle for long.
    let least = Time::from_ns(2 * PACKETS as u64 * 1024);
    assert!(fabric.ports[5].busy_until > least && fabric.ports[5].busy_until < least + Time::from_us(10));
}
