//! Links that fail and are repaired.
//!
//! A link fails both ways at once: what is on it and what waits at its two ports is dropped, pauses on it end, and
//! every switch forwards by the routes that are left from that instant on. Connections get over it by their transport
//! timers. Leaves out: the time that a routing protocol takes to notice.

use std::collections::HashMap;
use std::ops::Index;
use tailback_proto::units::Time;

use super::port::{DropReason, LOSSY};
use super::routing::{Adjacency, Routes};
use super::switch::BALANCES;
use super::{lane, Fabric, CLASSES};
use crate::fabric::settings::LinkPlan;

/// The ports by which packets of a connection may leave, hop by hop: those of a hop are equally far away.
#[derive(Default)]
pub(crate) struct RoutePorts {
    ports: Vec<usize>,
    /// Of each hop, where its ports end.
    ends: Vec<usize>,
}

impl RoutePorts {
    pub fn len(&self) -> usize {
        self.ends.len()
    }
}

impl Index<usize> for RoutePorts {
    type Output = [usize];

    fn index(&self, hop: usize) -> &[usize] {
        &self.ports[hop.checked_sub(1).map_or(0, |before| self.ends[before])..self.ends[hop]]
    }
}

impl Fabric {
    /// Every node's links that are up, by node: own port and the node at the other end.
    pub fn adjacency(&self) -> Adjacency {
        let mut adjacency: Adjacency = vec![Vec::new(); self.nodes];
        for (index, port) in self.ports.iter().enumerate().filter(|(_, port)| port.up) {
            let neighbour = self.ports[port.peer as usize].owner as usize;
            adjacency[port.owner as usize].push((index as u32, neighbour));
        }
        adjacency
    }

    /// The ports by which a connection's packets leave, the sender's `port` first, as the routes are now. `None`: no way.
    pub fn route(&self, port: usize, dst: u16, qp: u32) -> Option<Vec<usize>> {
        let mut ports = Vec::with_capacity(8); // a host, and the switches up and down a fat tree
        self.follow(port, dst, qp, &mut ports).then_some(ports)
    }

    fn follow(&self, mut port: usize, dst: u16, qp: u32, ports: &mut Vec<usize>) -> bool {
        loop {
            if !self.ports[port].up {
                return false;
            }
            ports.push(port);
            let node = self.ports[self.ports[port].peer as usize].owner as usize;
            let Some(switch) = node.checked_sub(self.hosts) else { return node == dst as usize };
            let Some(next) = self.routes.next_port(switch, dst, qp) else { return false };
            port = next;
        }
    }

    /// Finds the ports by which packets of a connection may leave, the sender's `port` first. `false`: no way.
    pub fn find_ways(&self, port: usize, dst: u16, qp: u32, ways: &mut RoutePorts) -> bool {
        ways.ports.clear();
        ways.ends.clear();
        if !self.follow(port, dst, qp, &mut ways.ports) {
            return false;
        }
        if ways.ports.iter().any(|&port| self.balances(port)) {
            self.widen(dst, qp, ways);
        } else {
            ways.ends.extend(1..=ways.ports.len());
        }
        true
    }

    /// Adds the ports that are equally far away to those of a route.
    fn widen(&self, dst: u16, qp: u32, ways: &mut RoutePorts) {
        let hops = ways.ports.len();
        ways.ports.truncate(1);
        ways.ends.push(1);
        for hop in 1..hops {
            let mut next: Vec<usize> = Vec::new();
            for &port in &ways[hop - 1] {
                let switch = self.ports[self.ports[port].peer as usize].owner as usize - self.hosts;
                match self.switches.get(switch) {
                    Some(s) if s.detours & BALANCES != 0 => {
                        next.extend(self.routes.next_ports(switch, dst).iter().map(|&port| port as usize));
                    }
                    _ => next.extend(self.routes.next_port(switch, dst, qp)),
                }
            }
            next.sort_unstable();
            next.dedup();
            ways.ports.extend(next);
            ways.ends.push(ways.ports.len());
        }
    }

    /// True if a port is of a switch that divides the packets of a connection.
    fn balances(&self, port: usize) -> bool {
        self.switch_of(port).is_some_and(|s| self.switches[s].detours & BALANCES != 0)
    }

    /// The link behind a port fails or works again. While nobody has noticed a failure, packets are sent and lost.
    pub fn set_works(&mut self, port: usize, works: bool) {
        self.links[port].works = works;
        let is_lossy = !works || self.links[port].loss > 0.0;
        let flags = self.ports[port].flags & !LOSSY;
        self.ports[port].flags = if is_lossy { flags | LOSSY } else { flags };
        if !works {
            self.lose_link(port);
        }
    }

    /// A port is taken out of use, or into use again: whether that is a change.
    pub fn set_up(&mut self, port: usize, up: bool) -> bool {
        std::mem::replace(&mut self.ports[port].up, up) != up
    }

    /// Links changed: every switch forwards by the routes that are left.
    pub fn find_routes(&mut self) {
        // As many ports as before or fewer lie on shortest routes of a plan that passed this test at the start.
        if let Some(mut routes) = Routes::new(self.hosts, &self.adjacency()) {
            routes.salt = self.routes.salt;
            self.routes = routes;
            self.switches.iter_mut().for_each(|switch| switch.cold.balancer.forget());
        }
    }

    /// One end of a link that failed: what is on the link is lost. Nothing more comes out of this port.
    pub fn lose_link(&mut self, port: usize) {
        if self.is_bridge(port) {
            self.ports[port].wire_bytes -= self.unsent_bytes(port);
        }
        while let Some(packet) = self.ports[port].in_flight.pop(&self.packets) {
            self.drop_packet(port, packet, DropReason::LinkDown);
        }
        self.link_epochs[port] = self.link_epochs[port].wrapping_add(1);
    }

    /// Drops the packets that wait at a port whose link failed, and ends the pauses on it.
    pub fn empty_port(&mut self, port: usize) {
        for class in 0..CLASSES as u8 {
            while self.ports[port].backlogged & (1 << class) != 0 {
                let packet = self.dequeue(port, class);
                if self.ports[port].owner as usize >= self.hosts {
                    self.release(port, packet);
                }
                self.drop_packet(port, packet, DropReason::PortDown);
            }
            let at = lane(port, class);
            let ended = self.pauses[at].on_link_failure(self.run.now);
            let turn = self.end_pause(at, ended);
            debug_assert_eq!(turn, None, "the port is down");
        }
    }

    /// How long a message of `packets` takes from a sender's port to `dst` in an empty network: from its posting to its
    /// arrival, and to that of the ACK of its last packet. Where switches divide its packets among several ports, as
    /// long as if these were one that is as fast as all of them. `back`: the ACK's route, which may lead over other
    /// switches. `frames`: wire bytes of the first packet, of those between, of the last, and of the ACK.
    pub fn ideal_completion(
        &self,
        route: &[usize],
        (dst, qp): (u16, u32),
        back: &[usize],
        packets: u64,
        frames: [u32; 4],
    ) -> (Time, Time) {
        const WARM: u64 = 16;
        let ways = route.iter().any(|&port| self.balances(port)).then(|| {
            let mut ways = RoutePorts::default();
            self.find_ways(route[0], dst, qp, &mut ways);
            ways
        });
        // Of each hop: until the next packet may begin, and until this one has arrived.
        let takes = |hop: usize, bytes: u32| {
            let of = |port: usize| (self.serialization(port, bytes), self.ports[port].arrival_delay);
            let Some(ways) = &ways else {
                let (sending, delay) = of(route[hop]);
                return (sending, sending + delay);
            };
            let rates: f64 = ways[hop].iter().map(|&port| 1.0 / of(port).0 .0 as f64).sum();
            let arriving =
                ways[hop].iter().map(|&port| of(port).0 + of(port).1).min().expect("a way has a port");
            (if ways[hop].len() == 1 { of(ways[hop][0]).0 } else { Time((1.0 / rates) as u64) }, arriving)
        };
        let mut left = vec![Time::ZERO; route.len()];
        let send = |left: &mut [Time], bytes: u32| {
            let mut arrived = Time::ZERO;
            for (hop, left) in left.iter_mut().enumerate() {
                let (sending, arriving) = takes(hop, bytes);
                let begins = (*left).max(arrived);
                *left = begins + sending;
                arrived = begins + arriving;
            }
            arrived
        };
        let mut arrived = send(&mut left, frames[if packets == 1 { 2 } else { 0 }]);
        let between = packets.saturating_sub(2);
        for _ in 0..between.min(WARM) {
            send(&mut left, frames[1]);
        }
        // Packets behind these are alike: the last one leaves a hop after all that wait there, or as soon as it has come.
        let rest = between - between.min(WARM);
        let mut came = Time::ZERO;
        for (hop, left) in left.iter_mut().enumerate().filter(|_| rest > 0) {
            let (sending, arriving) = takes(hop, frames[1]);
            *left = Time(left.0 + rest * sending.0).max(came + sending);
            came = *left - sending + arriving;
        }
        if packets > 1 {
            arrived = send(&mut left, frames[2]);
        }
        let acknowledged = back.iter().fold(arrived, |at, &port| {
            at + self.serialization(port, frames[3]) + self.ports[port].arrival_delay
        });
        (arrived, acknowledged)
    }
}

// How a plan's links become ports: those of a node lie next to each other.

/// One end of a link.
pub(crate) struct End {
    pub node: usize,
    pub link: usize,
    /// Number of its random streams: a link's own, whatever other nodes have ports.
    pub stream: u64,
    pub peer: usize,
    pub name: String,
}

/// All ports, those of a node next to each other.
pub(crate) struct Wiring {
    pub ends: Vec<End>,
    /// By node: its first port; one more entry for the end.
    pub first_port: Vec<usize>,
}

impl Wiring {
    /// Of nodes with these names, in their order.
    pub fn new(links: &[LinkPlan], nodes: &[&str], numbers: &HashMap<&str, usize>) -> Wiring {
        let mut of_node: Vec<Vec<(usize, usize)>> = vec![Vec::new(); nodes.len()];
        for (index, link) in links.iter().enumerate() {
            let (a, b) = (numbers[link.a.as_str()], numbers[link.b.as_str()]);
            of_node[a].push((index, b));
            of_node[b].push((index, a));
        }
        let mut ends: Vec<End> = Vec::with_capacity(links.len() * 2);
        let mut first_port = Vec::with_capacity(nodes.len() + 1);
        let mut open: HashMap<usize, usize> = HashMap::new();
        for (node, own) in of_node.iter().enumerate() {
            first_port.push(ends.len());
            let mut seen: HashMap<usize, usize> = HashMap::new();
            for &(link, peer_node) in own {
                let port = ends.len();
                // Parallel links differ by their number.
                let count = seen.entry(peer_node).or_insert(0);
                *count += 1;
                let number = if *count > 1 { format!("#{count}") } else { String::new() };
                let peer = open.remove(&link);
                if let Some(peer) = peer {
                    ends[peer].peer = port;
                } else {
                    open.insert(link, port);
                }
                ends.push(End {
                    node,
                    link,
                    stream: 2 * link as u64 + peer.is_some() as u64,
                    peer: peer.unwrap_or(usize::MAX),
                    name: format!("{}:{}{number}", nodes[node], nodes[peer_node]),
                });
            }
        }
        first_port.push(ends.len());
        Wiring { ends, first_port }
    }
}
