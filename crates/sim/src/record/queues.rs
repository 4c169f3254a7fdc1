//! The queues that a run lists: those on the routes of its connections.

use std::collections::BTreeMap;

use super::bridges;
use super::entity::{node_name, peer_name};
use super::recording::Queue;
use super::series::{egress_name, ingress_name, receive_name, send_queue_name, Chosen, Detail};
use crate::fabric::lane;
use crate::fabric::link::Ways;
use crate::host::path::{HostPath, Target};
use crate::nic::slots::GONE;
use crate::plan::Plan;
use crate::world::World;
use tailback_proto::flow_control::pcie_credits::DATA_CREDIT_BYTES;

/// Queues that were found: by lane, a bit for each kind and each of the first 16 places of a path. Very many connections
/// meet the same few queues.
#[derive(Default)]
struct Seen(Vec<u64>);

/// Kinds of queues that ports have.
#[derive(Clone, Copy)]
enum Kind {
    Receive,
    Egress,
    Ingress,
    Send,
}

impl Kind {
    fn text(self) -> &'static str {
        ["receive", "egress", "ingress", "send"][self as usize]
    }
}

impl Seen {
    /// Whether it may not have been found yet.
    fn is_new(&mut self, lane: usize, kind: Kind, order: u32) -> bool {
        if order >= 16 {
            return true;
        }
        let bit = 1u64 << (16 * kind as u32 + order);
        let known = self.0[lane] & bit != 0;
        self.0[lane] |= bit;
        !known
    }
}

/// A connection: number, sender, receiver, code point.
pub(crate) type Connection = (u32, u16, u16, u8);

/// Queues that lie on the route of a connection, receivers first. In a large fabric only those of which there are series: tens of
/// thousands of queues without a curve say nothing.
#[derive(Default)]
pub(crate) struct Listed {
    /// By place on the route, lane and kind.
    found: BTreeMap<(u32, usize, &'static str), Queue>,
    seen: Seen,
    last: Option<(u16, u16, u8)>,
    chosen: Option<Chosen>,
    /// Of the connection that was looked at last.
    ways: Ways,
}

impl Listed {
    /// Adds those on the routes of connections, as the routes are now.
    pub fn add(
        &mut self,
        plan: &Plan,
        world: &World,
        detail: Detail,
        connections: impl Iterator<Item = Connection>,
    ) {
        let Listed { found, seen, last, chosen, ways } = self;
        seen.0.resize(world.fabric.queues.len(), 0);
        let chosen = chosen.get_or_insert_with(|| Chosen::of(plan));
        for (number, src, dst, code_point) in connections {
            // Routes of two hosts are equally long, and are all that tells connections of theirs apart.
            if detail == Detail::Hosts && *last == Some((src, dst, code_point)) {
                continue;
            }
            if !world.find_ways((src, dst), number, ways) {
                continue;
            }
            *last = Some((src, dst, code_point));
            let mut order = 0;
            let mut add = |found: &mut BTreeMap<_, _>, kind: Kind, port: usize, order: u32| {
                let owner = world.fabric.ports[port].owner as usize;
                let class = world.fabric.classes.of(owner)[code_point as usize];
                let at = lane(port, class);
                if !seen.is_new(at, kind, order) {
                    return;
                }
                let of_switch = matches!(kind, Kind::Egress | Kind::Ingress);
                if detail.lists(kind.text()) && (!of_switch || chosen.has(world, port)) {
                    found
                        .entry((order, at, kind.text()))
                        .or_insert_with(|| queue(plan, world, kind, port, class, order));
                }
            };
            let receive_port = world.fabric.ports[ways[ways.len() - 1][0]].peer as usize;
            match world.nics.host_paths.get(world.nics[dst as usize].host_path as usize) {
                Some(host_path) => {
                    let class = world.fabric.classes.of(dst as usize)[code_point as usize];
                    for row in super::host_paths::ROWS {
                        let at = (order, lane(receive_port, 0), row);
                        if detail.lists(row) {
                            found.entry(at).or_insert_with(|| {
                                host_path_queue(plan, world, host_path, row, class, order)
                            });
                        }
                        order += 1;
                    }
                    order -= 1;
                }
                None => add(found, Kind::Receive, receive_port, order),
            }
            for hop in (1..ways.len()).rev() {
                let ingress_of = |before: &usize| world.fabric.ports[*before].peer as usize;
                let (port, ingress) = (ways[hop][0], ingress_of(&ways[hop - 1][0]));
                if world.fabric.is_bridge(port) {
                    for (kind, at) in [("tx-ring", port), ("qdisc", port), ("rx-ring", ingress)] {
                        order += 1;
                        if detail.lists(kind) {
                            found
                                .entry((order, lane(at, 0), kind))
                                .or_insert_with(|| bridges::queue(plan, world, kind, at, order));
                        }
                    }
                    continue;
                }
                ways[hop].iter().for_each(|&port| add(found, Kind::Egress, port, order + 1));
                ways[hop - 1]
                    .iter()
                    .for_each(|before| add(found, Kind::Ingress, ingress_of(before), order + 2));
                order += 2;
            }
            add(found, Kind::Send, ways[0][0], order + 1);
        }
    }

    /// All of them: with those on the routes of connections that are still there, and of namespaces.
    pub fn finish(mut self, plan: &Plan, world: &World, detail: Detail) -> Vec<Queue> {
        let there = world.nics.send_qps.iter().filter(|s| s.number != GONE);
        self.add(plan, world, detail, there.map(|s| (s.number, s.src, s.dst, s.code_point)));
        let sockets = &world.tcp.sockets;
        let tcp = (sockets.first_flow..).zip(&sockets.connections);
        self.add(plan, world, detail, tcp.map(|(number, c)| (number, c.src, c.dst, c.code_point)));
        let veths = super::veth::queues(plan, world).into_iter().filter(|queue| detail.lists(queue.kind));
        self.found.into_values().chain(veths).collect()
    }
}

/// A queue of a host's data path.
fn host_path_queue(
    plan: &Plan,
    world: &World,
    host_path: &HostPath,
    row: &'static str,
    class: u8,
    order: u32,
) -> Queue {
    let credits = host_path.pcie.credits.granted().data * DATA_CREDIT_BYTES;
    Queue {
        queue: super::host_paths::row_name(plan, host_path, row),
        kind: if row == "memory" && matches!(host_path.target, Target::Gpu(_)) { "gpu" } else { row },
        node: plan.hosts[host_path.host as usize].name.clone(),
        port: world.fabric.links[host_path.port as usize].name.clone(),
        peer: peer_name(plan, world, host_path.port as usize),
        priority: class,
        order,
        k_min_bytes: None,
        k_max_bytes: None,
        limit_bytes: match row {
            "nic-rx" => Some(host_path.buffers.part_of(class).0),
            "pcie" | "iio" => Some(credits),
            _ => None,
        },
    }
}

fn queue(plan: &Plan, world: &World, kind: Kind, port: usize, class: u8, order: u32) -> Queue {
    let owner = world.fabric.ports[port].owner as usize;
    let switch = owner.checked_sub(plan.hosts.len());
    let marks = switch.filter(|_| matches!(kind, Kind::Egress));
    let ecn = marks.and_then(|_| world.fabric.marking.thresholds(lane(port, class)));
    let name = match kind {
        Kind::Receive => receive_name(plan, owner),
        Kind::Send => send_queue_name(plan, owner, class),
        Kind::Egress => egress_name(world, port, class),
        Kind::Ingress => ingress_name(world, port, class),
    };
    Queue {
        queue: name,
        kind: kind.text(),
        node: node_name(plan, owner).to_string(),
        port: world.fabric.links[port].name.clone(),
        peer: peer_name(plan, world, port),
        priority: class,
        order,
        k_min_bytes: ecn.map(|ecn| ecn.k_min_bytes),
        k_max_bytes: ecn.map(|ecn| ecn.k_max_bytes),
        limit_bytes: switch.map(|index| {
            let switch = &world.fabric.switches[index];
            switch.cold.shared_bytes[switch.pool(class)]
        }),
    }
}
