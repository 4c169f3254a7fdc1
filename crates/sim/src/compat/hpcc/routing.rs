//! Shortest paths, the hashes that choose among them, and the figures of a pair of hosts that follow from its path.

use super::plan::{HpccPlan, Link, LinkDown};

/// Where a node's links lead.
#[derive(Clone, Copy, Debug)]
struct Neighbour {
    node: u32,
    /// Port that leads there, a global number.
    port: u32,
    delay_ns: u64,
    rate: u64,
}

/// Figures of the way from a host to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pair {
    /// Propagation there and back, and the payload of one packet through each hop there.
    pub rtt_ns: u64,
    /// Rate of the slowest link; 0 where there is no way.
    pub rate: u64,
}

impl Pair {
    /// Bandwidth times delay, in bytes.
    pub fn bdp(&self) -> u64 {
        self.rtt_ns.wrapping_mul(self.rate) / 1_000_000_000 / 8
    }
}

/// Next hops of every node towards every host, and the figures of every pair.
#[derive(Clone, Debug, Default)]
pub(super) struct Routes {
    hosts: usize,
    /// Host number of a node.
    host_of: Vec<u32>,
    /// By node and host: where its ports begin in `ports`.
    spans: Vec<u32>,
    ports: Vec<u32>,
    pairs: Vec<Pair>,
}

impl Routes {
    /// Breadth-first from every host, over switches only.
    ///
    /// Neighbours are visited in the order of the node objects' addresses; those of switches fall with their number,
    /// since each is large enough for a mapping of its own and mappings grow downwards. So equal next hops stand in
    /// falling order of their node wherever they were found from one node, and in order of discovery otherwise.
    /// Hosts' addresses do not matter: nothing passes through them. Of several links between two nodes the last counts.
    pub fn new(plan: &HpccPlan, without: Option<LinkDown>) -> Routes {
        let nodes = plan.nodes as usize;
        let mut is_switch = vec![false; nodes];
        for &id in &plan.switches {
            is_switch[id as usize] = true;
        }
        let hosts: Vec<u32> = (0..plan.nodes).filter(|&id| !is_switch[id as usize]).collect();
        let mut host_of = vec![u32::MAX; nodes];
        for (number, &id) in hosts.iter().enumerate() {
            host_of[id as usize] = number as u32;
        }
        let neighbours = neighbours(plan, without);
        let mut routes = Routes {
            hosts: hosts.len(),
            host_of,
            pairs: vec![Pair::default(); hosts.len() * hosts.len()],
            ..Routes::default()
        };
        let mut next: Vec<Vec<u32>> = vec![Vec::new(); nodes * hosts.len()];
        for (number, &host) in hosts.iter().enumerate() {
            let mut reached: Vec<Option<(u32, u64, u64, u64)>> = vec![None; nodes];
            reached[host as usize] = Some((0, 0, 0, u64::MAX));
            let mut queue = vec![host];
            let mut head = 0;
            while head < queue.len() {
                let at = queue[head];
                head += 1;
                let (distance, delay, sending, rate) = reached[at as usize].unwrap_or_default();
                for link in &neighbours[at as usize] {
                    let there = link.node as usize;
                    if reached[there].is_none() {
                        let packet = plan.payload_bytes as u64 * 1_000_000_000 * 8 / link.rate;
                        reached[there] = Some((
                            distance + 1,
                            delay + link.delay_ns,
                            sending + packet,
                            rate.min(link.rate),
                        ));
                        if is_switch[there] {
                            queue.push(link.node);
                        }
                    }
                    if reached[there].is_some_and(|to| to.0 == distance + 1) {
                        let back = neighbours[there].iter().find(|way| way.node == at);
                        next[there * hosts.len() + number].extend(back.map(|way| way.port));
                    }
                }
            }
            for (from, &id) in hosts.iter().enumerate() {
                if let Some((_, delay, sending, rate)) = reached[id as usize] {
                    routes.pairs[from * hosts.len() + number] = Pair { rtt_ns: delay * 2 + sending, rate };
                }
            }
        }
        routes.spans = std::iter::once(0)
            .chain(next.iter().scan(0, |end, ports| {
                *end += ports.len() as u32;
                Some(*end)
            }))
            .collect();
        routes.ports = next.concat();
        routes
    }

    /// Number of a node among the hosts.
    pub fn host(&self, node: u32) -> u32 {
        self.host_of[node as usize]
    }

    /// Ports of `node` that lead to a host by a shortest path.
    #[inline]
    pub fn next_ports(&self, node: u32, host: u32) -> &[u32] {
        let at = node as usize * self.hosts + host as usize;
        &self.ports[self.spans[at] as usize..self.spans[at + 1] as usize]
    }

    /// Figures of the way from one host to another, by their numbers among the hosts.
    pub fn pair(&self, from: u32, to: u32) -> Pair {
        self.pairs[from as usize * self.hosts + to as usize]
    }

    /// The largest round trip and the largest bandwidth-delay product of all pairs.
    pub fn largest(&self) -> (u64, u64) {
        self.pairs.iter().fold((0, 0), |(rtt, bdp), pair| (rtt.max(pair.rtt_ns), bdp.max(pair.bdp())))
    }
}

/// For each node its neighbours in falling order of their number.
fn neighbours(plan: &HpccPlan, without: Option<LinkDown>) -> Vec<Vec<Neighbour>> {
    let mut found: Vec<Vec<Neighbour>> = vec![Vec::new(); plan.nodes as usize];
    for (index, &Link(a, b, rate, delay_ns, _)) in plan.links.iter().enumerate() {
        if without.is_some_and(|down| (down.1, down.2) == (a, b) || (down.1, down.2) == (b, a)) {
            continue;
        }
        for (end, node, other) in [(0, a, b), (1, b, a)] {
            let link = Neighbour { node: other, port: (index * 2 + end) as u32, delay_ns, rate };
            let known = &mut found[node as usize];
            match known.iter_mut().find(|neighbour| neighbour.node == other) {
                Some(neighbour) => *neighbour = link,
                None => known.push(link),
            }
        }
    }
    for links in &mut found {
        links.sort_unstable_by_key(|link| std::cmp::Reverse(link.node));
    }
    found
}

/// IPv4 address of a host.
pub fn address(node: u32) -> u32 {
    0x0b00_0001 + (node / 256) * 0x1_0000 + (node % 256) * 0x100
}

/// The three words that both hashes take: addresses, and both ports in one.
pub(super) fn flow_key(src: u32, dst: u32, src_port: u16, dst_port: u16) -> [u32; 3] {
    [address(src), address(dst), src_port as u32 | (dst_port as u32) << 16]
}

/// Seed of the hash by which a host with several NICs chooses one (ns-3's `Hash32`).
pub(super) const NIC_SEED: u32 = 0x8BAD_F00D;

/// MurmurHash3 (x86, 32 bits) of three words; a switch's seed is its node number.
#[inline]
pub(super) fn murmur3(key: [u32; 3], seed: u32) -> u32 {
    let mut hash = seed;
    for word in key {
        let k = word.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
        hash = (hash ^ k).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64);
    }
    hash ^= 12;
    hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}
