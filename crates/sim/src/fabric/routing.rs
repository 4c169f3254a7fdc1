//! Shortest routes and ECMP.
//!
//! Hosts on one switch are reached alike, so a switch holds, for every other switch that has hosts (an *edge*), the
//! ports that lie on a shortest route (by hops); an edge knows the port of each of its hosts. Where there are several
//! ports, a hash of the connection and of the switch chooses, as a hash of the UDP five-tuple does in RoCEv2: all
//! packets of a connection in one direction take one route, unless the switch [divides](super::balancing) them by other means.
//! Hosts never forward.
//!
//! Leaves out: weights. A route changes the instant that a link does: no routing protocol takes its time.

use rand_core::Rng;
use std::collections::{HashMap, VecDeque};
use tailback_proto::units::Time;

use super::packet::{Packet, PacketKind};
use crate::engine::{mix, stream, Stream};
use crate::fabric::settings::LoadBalancing;

/// Bits of a table entry that hold the number of ports in a set; the rest is where the set begins.
const COUNT_BITS: u32 = 10;

/// Entry of an edge that cannot be reached: an empty set.
const UNREACHABLE: u32 = 0;

/// Next hops of all switches.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    edges: usize,
    /// By host: the switch that it hangs on, that switch's number among the edges, and its port there.
    homes: Vec<Home>,
    /// By switch and edge: where the set of ports begins in `ports`, and how many they are.
    table: Vec<u32>,
    ports: Vec<u32>,
    /// Goes into every hash.
    pub salt: u64,
}

#[derive(Clone, Copy, Debug)]
struct Home {
    switch: u32,
    edge: u32,
    /// `u32::MAX`: its link is down, or its peer is a host.
    port: u32,
}

/// A node's links as (own port, node at the other end).
pub(crate) type Adjacency = Vec<Vec<(u32, usize)>>;

impl Routes {
    /// Computes all routes over links that are up. Nodes are numbered hosts first, then switches. `None` where more
    /// ports lie on shortest routes than a table can name.
    pub fn new(hosts: usize, adjacency: &Adjacency) -> Option<Self> {
        let switches = adjacency.len() - hosts;
        let mut edge_of: Vec<u32> = vec![u32::MAX; switches];
        let mut edges: Vec<usize> = Vec::new();
        let mut homes = vec![Home { switch: u32::MAX, edge: 0, port: u32::MAX }; hosts];
        for (switch, edge) in edge_of.iter_mut().enumerate() {
            for &(port, neighbour) in &adjacency[hosts + switch] {
                if neighbour < hosts {
                    if *edge == u32::MAX {
                        *edge = edges.len() as u32;
                        edges.push(switch);
                    }
                    homes[neighbour] = Home { switch: switch as u32, edge: *edge, port };
                }
            }
        }
        let mut routes = Routes {
            edges: edges.len(),
            homes,
            table: vec![UNREACHABLE; switches * edges.len()],
            ports: Vec::new(),
            salt: 0,
        };
        let mut sets: HashMap<Vec<u32>, u32> = HashMap::new();
        let mut distance = vec![u32::MAX; switches];
        let mut frontier = VecDeque::new();
        let mut set = Vec::new();
        for (edge, &root) in edges.iter().enumerate() {
            distance.fill(u32::MAX);
            distance[root] = 0;
            frontier.push_back(root);
            while let Some(switch) = frontier.pop_front() {
                // Everything nearer is known by now.
                set.clear();
                for &(port, neighbour) in &adjacency[hosts + switch] {
                    let Some(neighbour) = neighbour.checked_sub(hosts) else { continue };
                    if distance[neighbour] == u32::MAX {
                        distance[neighbour] = distance[switch] + 1;
                        frontier.push_back(neighbour);
                    } else if distance[neighbour] + 1 == distance[switch] {
                        set.push(port);
                    }
                }
                if set.is_empty() {
                    continue;
                }
                let entry = match sets.get(&set) {
                    Some(&entry) => entry,
                    None => {
                        let first = routes.ports.len();
                        if set.len() >= 1 << COUNT_BITS || first >= 1 << (32 - COUNT_BITS) {
                            return None;
                        }
                        routes.ports.extend_from_slice(&set);
                        let entry = (first as u32) << COUNT_BITS | set.len() as u32;
                        sets.insert(set.clone(), entry);
                        entry
                    }
                };
                routes.table[switch * routes.edges + edge] = entry;
            }
        }
        Some(routes)
    }

    /// The ports by which a switch may forward to a host; none: it knows no way.
    #[inline]
    pub fn next_ports(&self, switch: usize, host: u16) -> &[u32] {
        let home = &self.homes[host as usize];
        if home.switch as usize == switch {
            return std::slice::from_ref(&home.port);
        }
        if home.port == u32::MAX {
            return &[];
        }
        let entry = self.table[switch * self.edges + home.edge as usize];
        let (first, count) = ((entry >> COUNT_BITS) as usize, (entry & ((1 << COUNT_BITS) - 1)) as usize);
        &self.ports[first..first + count]
    }

    /// Asks for the memory that [`Self::next_ports`] will read.
    #[inline]
    pub fn prefetch(&self, switch: usize, host: u16) {
        let edge = self.homes[host as usize].edge as usize;
        crate::engine::prefetch(&self.table, switch * self.edges + edge);
    }

    /// The port by which `switch` forwards a packet of connection `qp` to host `dst`, if it knows a way.
    #[inline(always)] // to the switch's own hosts it is less than a call
    pub fn next_port(&self, switch: usize, dst: u16, qp: u32) -> Option<usize> {
        let home = &self.homes[dst as usize];
        if home.switch as usize == switch {
            return Some(home.port as usize);
        }
        self.next_port_away(switch, dst, qp)
    }

    /// The next port towards a host of another switch.
    #[inline(never)]
    fn next_port_away(&self, switch: usize, dst: u16, qp: u32) -> Option<usize> {
        let ports = self.next_ports(switch, dst);
        if ports.len() <= 1 {
            return ports.first().map(|&port| port as usize);
        }
        let connection = (qp as u64) << 32 | (dst as u64) << 16 | (switch as u64 & 0xffff);
        let hash = mix(connection ^ self.salt);
        Some(ports[((hash as u128 * ports.len() as u128) >> 64) as usize] as usize)
    }
}

// Equally short ways and who takes which, where it is not a hash that decides.
//
// Sources: Dixit et al., "On the impact of packet spraying in data center networks", INFOCOM 2013 (a random port for each
// packet); Vanini et al., "Let it flow", NSDI 2017 (a random port for each flowlet); Alizadeh et al., "CONGA", SIGCOMM
// 2014, section 3.4 (the flowlet table: entries by a hash, which connections may share); NVIDIA, "Adaptive routing" of
// Spectrum switches (the egress queue with the lowest load, of packets that NICs allow it for).
//
// What is divided is data. ACKs, NAKs, CNPs and probes keep to the hash, and so does TCP except for flowlets, as on switches
// that route adaptively only what a NIC says may come out of order.
//
// Leaves out: load further away than the switch's own queues, weights, and packets that carry what the sender wants.

/// Flowlets that a switch tells apart: a power of two. Assumption: CONGA's chip has 64K, more than matter here.
const FLOWLET_TABLE_ENTRIES: usize = 4096;

/// How a switch divides packets.
#[derive(Debug)]
pub(crate) struct Balancer {
    pub how: LoadBalancing,
    gap: Time,
    stream: Stream,
    /// By hash of the connection; empty where there are no flowlets.
    flowlets: Vec<Flowlet>,
}

#[derive(Clone, Copy, Debug)]
struct Flowlet {
    /// When a packet of it came last.
    at: Time,
    /// The port that it takes; `u32::MAX`: none yet.
    port: u32,
}

const SILENT: Flowlet = Flowlet { at: Time::ZERO, port: u32::MAX };

impl Balancer {
    pub fn new(how: LoadBalancing, gap: Time, seed: u64, switch: usize) -> Balancer {
        let flowlets =
            if how == LoadBalancing::Flowlet { vec![SILENT; FLOWLET_TABLE_ENTRIES] } else { Vec::new() };
        Balancer { how, gap, stream: stream(seed, "load balancing", switch as u64), flowlets }
    }

    /// True if it chooses the port of packets of this kind.
    pub fn divides(&self, kind: PacketKind) -> bool {
        match self.how {
            LoadBalancing::Ecmp => false,
            LoadBalancing::Flowlet => kind.is_data(),
            LoadBalancing::Spray | LoadBalancing::Adaptive => kind == PacketKind::Data,
        }
    }

    /// A number below `count`, by chance.
    pub fn pick(&mut self, count: usize) -> usize {
        ((self.stream.next_u32() as u64 * count as u64) >> 32) as usize
    }

    /// Ways have changed: flowlets begin anew.
    pub fn forget(&mut self) {
        self.flowlets.fill(SILENT);
    }

    /// The port of a packet's flowlet, one of these.
    pub fn of_flowlet(&mut self, now: Time, packet: &Packet, ports: &[u32]) -> u32 {
        let hash = mix((packet.qp as u64) << 32 | packet.dst as u64);
        let at = hash as usize % FLOWLET_TABLE_ENTRIES;
        let Flowlet { at: last, mut port } = self.flowlets[at];
        // Another connection's port may be none of these.
        if now - last > self.gap || !ports.contains(&port) {
            port = ports[self.pick(ports.len())];
        }
        self.flowlets[at] = Flowlet { at: now, port };
        port
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two hosts, two leaves (nodes 2, 3), two spines (4, 5); ports numbered as listed.
    fn leaf_spine() -> Adjacency {
        vec![
            vec![(0, 2)],
            vec![(1, 3)],
            vec![(2, 0), (3, 4), (4, 5)],
            vec![(5, 1), (6, 4), (7, 5)],
            vec![(8, 2), (9, 3)],
            vec![(10, 2), (11, 3)],
        ]
    }

    #[test]
    fn connections_spread_over_equal_routes_and_each_keeps_its_own() {
        let routes = Routes::new(2, &leaf_spine()).unwrap();
        let ports: Vec<usize> = (0..1000).map(|qp| routes.next_port(0, 1, qp).unwrap()).collect();
        let up = ports.iter().filter(|&&port| port == 3).count();
        assert!((400..600).contains(&up), "{up} of 1000 took the first spine");
        assert!(ports.iter().all(|port| [3, 4].contains(port)));
        assert_eq!(Some(ports[7]), routes.next_port(0, 1, 7));
    }

    #[test]
    fn the_last_hop_is_the_host() {
        let routes = Routes::new(2, &leaf_spine()).unwrap();
        assert_eq!(routes.next_port(1, 1, 9), Some(5));
        assert_eq!(routes.next_port(2, 0, 9), Some(8));
        assert_eq!(routes.next_ports(3, 0), [10]);
    }

    #[test]
    fn a_host_without_its_link_is_not_reached() {
        let mut links = leaf_spine();
        links[3].remove(0);
        links[1].clear();
        let routes = Routes::new(2, &links).unwrap();
        assert_eq!(routes.next_port(0, 1, 9), None);
        assert_eq!(routes.next_port(1, 1, 9), None);
        assert_eq!(routes.next_port(1, 0, 9).map(|port| port == 6 || port == 7), Some(true));
    }
}
