//! Counters under the names that `ethtool -S`, `rdma statistic` and the switch's tools print.

use super::hosts::{HostControl, NIC, NIC_COUNTS};
use super::quantity::{Add, Bin};
use super::recording::Counter;
use super::tcp::{HostTotals, RECEIVED, RINGS, SEGMENTS};
use super::{hosts, ports};
use crate::fabric::{lane, CLASSES};
use crate::linux::record::{bridges, veth};
use crate::plan::Plan;
use crate::world::World;
use tailback_proto::units::Time;

/// Rows of counters, of a node and a port at a time.
pub struct Rows<'a, W> {
    pub bin: Bin<'a, W>,
    pub rows: Vec<Counter>,
}

impl<'a, W> Rows<'a, W> {
    pub fn at_end(world: &'a mut W, now: Time) -> Self {
        Rows { bin: Bin { world, items: None, now, span: Time::ZERO }, rows: Vec::new() }
    }

    /// All that `count` gives out; what has one name is added up.
    pub fn add(&mut self, node: &str, port: &str, count: impl FnOnce(&mut Bin<W>, Add)) {
        let first = self.rows.len();
        let rows = &mut self.rows;
        count(&mut self.bin, &mut |counter, value| match rows[first..]
            .iter_mut()
            .find(|row| row.counter == counter)
        {
            Some(row) => row.value += value,
            None => {
                rows.push(Counter { node: node.into(), port: port.into(), counter: counter.into(), value })
            }
        });
    }

    /// The same of a class, whose number takes the place of `#` in names.
    pub fn add_class(&mut self, node: &str, port: &str, class: u8, count: impl FnOnce(&mut Bin<W>, Add)) {
        let first = self.rows.len();
        self.add(node, port, count);
        let class = class.to_string();
        self.rows[first..].iter_mut().for_each(|row| row.counter = row.counter.replace('#', &class));
    }
}

impl Rows<'_, World> {
    /// Of those classes that a port ever carried or paused.
    fn add_port(&mut self, node: &str, port_name: &str, port: usize, classes: &[u8]) {
        for &class in classes {
            let at = lane(port, class);
            let fabric = &self.bin.world.fabric;
            let used = fabric.queues[at].tx_packets
                + fabric.groups[at].rx_packets
                + fabric.pauses[at].frames
                + fabric.pausing[at].frames
                + ports::dropped(fabric, at, |_| true);
            if used == 0 {
                continue;
            }
            let trims = fabric.switch_of(port).is_some_and(|s| fabric.switches[s].cold.trimming.is_some());
            let stormy = fabric.watchdogs.get(&at).is_some_and(|watchdog| watchdog.detected > 0);
            self.add_class(node, port_name, class, |bin, add| {
                (ports::FRAMES.count)(&bin.world.fabric, at, add);
                (ports::PAUSED.count)(bin, at, add);
                (ports::PAUSING.count)(bin, at, add);
                if !port_name.is_empty() {
                    (ports::MARKS.count)(bin, at, add);
                    (ports::DISCARDS.count)(&bin.world.fabric, at, add);
                    (ports::WATERMARKS.count)(&bin.world.fabric, at, add);
                }
                if trims {
                    (ports::TRIMS.count)(&bin.world.fabric, at, add);
                }
                if stormy {
                    (ports::WATCHDOG.count)(&bin.world.fabric, at, add);
                }
            });
        }
    }
}

pub(super) fn counters(plan: &Plan, world: &mut World) -> Vec<Counter> {
    let now = world.fabric.run.now;
    let control = HostControl::of_hosts(world);
    let tcp = HostTotals::of_hosts(world);
    let used = world.fabric.classes_in_use();
    let classes: Vec<u8> = (0..CLASSES as u8).filter(|&class| used[class as usize]).collect();
    let mut rows = Rows::at_end(world, now);
    for (host, name) in plan.hosts.iter().map(|host| host.name.as_str()).enumerate() {
        rows.add(name, "", |bin, add| {
            (NIC.count)(bin, host, add);
            (NIC_COUNTS.count)(&bin.world.nics[host].counters.rdma, 0, add);
            control[host].count(add);
            let host_path = bin.world.nics[host].host_path as usize;
            if host_path < bin.world.nics.host_paths.len() {
                (hosts::BUFFER.count)(bin, host_path, add);
                hosts::count(bin.world, host_path, add);
            }
            if !bin.world.tcp.cpus.cores_of(host).is_empty() {
                (RECEIVED.count)(&bin.world.tcp.cpus, host, add);
                (RINGS.count)(bin, host, add);
                (SEGMENTS.count)(&tcp[host], 0, add);
            }
        });
        rows.add_port(name, "", rows.bin.world.nics[host].port as usize, &classes);
    }
    for (index, switch) in plan.switches.iter().enumerate() {
        for port in rows.bin.world.fabric.ports_of(index) {
            let name = rows.bin.world.fabric.links[port].name.clone();
            rows.add_port(&switch.name, &name, port, &classes);
        }
    }
    veth::counters(plan, rows.bin.world, &mut rows.rows);
    for number in 0..rows.bin.world.linux.bridge_ports.len() {
        let linux = &rows.bin.world.linux;
        let node = &plan.bridges[linux.bridge_ports[number].bridge as usize].name;
        let port = rows.bin.world.fabric.links[linux.first_bridge_port + number].name.clone();
        rows.add(node, &port, |bin, add| bridges::count(bin.world, number, add));
    }
    rows.rows
}
