//! Shortest paths and ECMP.
//!
//! Every switch holds, for every host, the ports that lie on a shortest path (by hops). Where there are several, a
//! hash of the connection and of the switch chooses, as a hash of the UDP five-tuple does in RoCEv2: all packets of a
//! connection in one direction take one path. Hosts never forward.
//!
//! Leaves out: weights, routes that change while a run goes on, and the spraying of packets over paths.

use std::collections::VecDeque;

/// Set in a table entry that names a set of ports and not a port.
const SET: u32 = 1 << 31;
/// Entry of a host that cannot be reached.
const UNREACHABLE: u32 = u32::MAX;

/// Next hops of all switches.
#[derive(Debug)]
pub(crate) struct Routes {
    hosts: usize,
    /// By switch and host: a port, or a set.
    table: Vec<u32>,
    sets: Vec<Vec<u32>>,
}

/// A node's links as (own port, node at the other end).
pub(crate) type Adjacency = Vec<Vec<(u32, usize)>>;

impl Routes {
    /// Computes all routes. Nodes are numbered hosts first, then switches.
    pub fn new(hosts: usize, adjacency: &Adjacency) -> Self {
        let switches = adjacency.len() - hosts;
        let mut routes = Routes { hosts, table: vec![UNREACHABLE; switches * hosts], sets: Vec::new() };
        let mut distance = vec![u32::MAX; adjacency.len()];
        let mut frontier = VecDeque::new();
        for host in 0..hosts {
            distance.fill(u32::MAX);
            distance[host] = 0;
            frontier.push_back(host);
            while let Some(node) = frontier.pop_front() {
                for &(_, neighbour) in &adjacency[node] {
                    if distance[neighbour] == u32::MAX && neighbour >= hosts {
                        distance[neighbour] = distance[node] + 1;
                        frontier.push_back(neighbour);
                    }
                }
            }
            for switch in 0..switches {
                let node = hosts + switch;
                if distance[node] == u32::MAX {
                    continue;
                }
                let ports: Vec<u32> = adjacency[node]
                    .iter()
                    .filter(|(_, neighbour)| distance[*neighbour] == distance[node] - 1)
                    .map(|&(port, _)| port)
                    .collect();
                routes.table[switch * hosts + host] = routes.entry(ports);
            }
        }
        routes
    }

    fn entry(&mut self, ports: Vec<u32>) -> u32 {
        if let [port] = ports[..] {
            return port;
        }
        // Few distinct sets exist; the newest are the likeliest to come again.
        let index = self.sets.iter().rposition(|set| *set == ports).unwrap_or_else(|| {
            self.sets.push(ports);
            self.sets.len() - 1
        });
        index as u32 | SET
    }

    /// Whether a switch knows a way to a host.
    pub fn reaches(&self, switch: usize, host: usize) -> bool {
        self.table[switch * self.hosts + host] != UNREACHABLE
    }

    /// The port by which `switch` forwards a packet of connection `qp` to host `dst`.
    #[inline]
    pub fn next_port(&self, switch: usize, dst: u16, qp: u32) -> usize {
        let entry = self.table[switch * self.hosts + dst as usize];
        if entry & SET == 0 {
            return entry as usize;
        }
        let set = &self.sets[(entry & !SET) as usize];
        let hash = mix((qp as u64) << 32 | (dst as u64) << 16 | (switch as u64 & 0xffff));
        set[((hash as u128 * set.len() as u128) >> 64) as usize] as usize
    }
}

/// A 64-bit finalizer (splitmix64's): every input bit changes every output bit with probability near one half.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
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
    fn connections_spread_over_equal_paths_and_each_keeps_its_own() {
        let routes = Routes::new(2, &leaf_spine());
        let ports: Vec<usize> = (0..1000).map(|qp| routes.next_port(0, 1, qp)).collect();
        let up = ports.iter().filter(|&&port| port == 3).count();
        assert!((400..600).contains(&up), "{up} of 1000 took the first spine");
        assert!(ports.iter().all(|port| [3, 4].contains(port)));
        assert_eq!(ports[7], routes.next_port(0, 1, 7));
    }

    #[test]
    fn the_last_hop_is_the_host() {
        let routes = Routes::new(2, &leaf_spine());
        assert_eq!(routes.next_port(1, 1, 9), 5);
        assert_eq!(routes.next_port(2, 0, 9), 8);
        assert!(routes.reaches(3, 0));
    }
}
