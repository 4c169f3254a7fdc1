//! Shortest routes, the hashes that choose among them, and the figures of a pair of hosts that follow from its route.
//!
//! Hosts pass nothing on, so those with the same links to the same switches are reached by the same routes: there is one
//! tree for all of them, over switches only, and none for hosts that are never asked for. What is held grows with the links
//! and never with the pairs of hosts.

#[cfg(test)]
pub(super) mod tests;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::packet::NONE;
use super::plan::{HpccPlan, Link, LinkDown};

/// Most switches in all trees that are held at a time, 40 B each; beyond it they are made anew. A fat tree of 8,192
/// hosts that all send has 655,360.
const MOST_REACHED: usize = 1 << 24;

/// A node's neighbour and the link to it.
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
    /// Rate times round trip, in bytes.
    pub bdp: u64,
}

impl Pair {
    fn new(way: PathSums) -> Self {
        let rtt_ns = way.delay_ns * 2 + way.sending_ns;
        Pair { rtt_ns, rate: way.rate, bdp: rtt_ns.wrapping_mul(way.rate) / 1_000_000_000 / 8 }
    }
}

/// Sums over the links of a path.
#[derive(Clone, Copy, Debug)]
struct PathSums {
    delay_ns: u64,
    sending_ns: u64,
    rate: u64,
}

impl PathSums {
    const NONE: PathSums = PathSums { delay_ns: 0, sending_ns: 0, rate: u64::MAX };

    fn over(self, link: &Neighbour, payload_bytes: u64) -> PathSums {
        PathSums {
            delay_ns: self.delay_ns + link.delay_ns,
            sending_ns: self.sending_ns + payload_bytes * 1_000_000_000 * 8 / link.rate,
            rate: self.rate.min(link.rate),
        }
    }
}

/// A switch as the walk from a host found it.
#[derive(Clone, Copy, Debug)]
struct Reached {
    /// Links to the host; 0 if there is no way.
    distance: u32,
    /// Its turn in the walk.
    turn: u32,
    /// From the host to here.
    way: PathSums,
    /// Where its next hops begin and end in the ports of the tree.
    ports: (u32, u32),
}

/// All switches as the walk from one host found them, by their number.
#[derive(Clone, Debug, Default)]
struct Tree {
    reached: Vec<Reached>,
    ports: Vec<u32>,
}

/// Next hops of every node towards every host, and the figures of every pair.
#[derive(Clone, Debug, Default)]
pub(super) struct Routes {
    payload_bytes: u64,
    /// Nodes of the hosts.
    hosts: Vec<u32>,
    /// Number of a node among the hosts or among the switches.
    number: Vec<u32>,
    is_switch: Vec<bool>,
    /// By node: a switch inside of a server, which hosts prefer.
    is_inner: Vec<bool>,
    neighbours: Vec<Vec<Neighbour>>,
    /// By host: hosts with the same links to the same switches are of one kind.
    kinds: Vec<u32>,
    /// By kind; empty until it is asked for.
    trees: Vec<Tree>,
    /// How many are not empty.
    made: usize,
    /// The next hops of a host, which are in no tree.
    ports: Vec<u32>,
}

impl Routes {
    /// The network of a plan, `without` the link that has failed.
    pub fn new(plan: &HpccPlan, without: Option<LinkDown>) -> Routes {
        let nodes = plan.nodes as usize;
        let mut number = vec![NONE; nodes];
        for (switch, &id) in (0..).zip(&plan.switches) {
            number[id as usize] = switch;
        }
        let is_switch: Vec<bool> = number.iter().map(|&number| number != NONE).collect();
        let hosts: Vec<u32> = (0..plan.nodes).filter(|&id| !is_switch[id as usize]).collect();
        for (host, &id) in (0..).zip(&hosts) {
            number[id as usize] = host;
        }
        let neighbours = neighbours(plan, without);
        let mut known: BTreeMap<Vec<(u32, u64, u64)>, u32> = BTreeMap::new();
        let kinds = hosts.iter().map(|&host| {
            let links = neighbours[host as usize].iter().filter(|link| is_switch[link.node as usize]);
            let links = links.map(|link| (link.node, link.delay_ns, link.rate)).collect();
            let next = known.len() as u32;
            *known.entry(links).or_insert(next)
        });
        let kinds = kinds.collect();
        let mut is_inner = vec![false; nodes];
        plan.inner_switches.iter().for_each(|&id| is_inner[id as usize] = true);
        Routes {
            payload_bytes: plan.payload_bytes as u64,
            hosts,
            number,
            is_switch,
            is_inner,
            neighbours,
            kinds,
            trees: vec![Tree::default(); known.len()],
            ..Routes::default()
        }
    }

    /// Number of a host's node among the hosts.
    pub fn host(&self, node: u32) -> u32 {
        self.number[node as usize]
    }

    /// The link between two nodes, as the first has it.
    fn link(&self, node: u32, other: u32) -> Option<Neighbour> {
        let links = &self.neighbours[node as usize];
        links.binary_search_by_key(&Reverse(other), |link| Reverse(link.node)).ok().map(|at| links[at])
    }

    /// Number of the tree of a host: breadth-first from it, over switches only.
    ///
    /// Neighbours are visited in the order of the node objects' addresses; those of switches fall with their number,
    /// since each is large enough for a mapping of its own and mappings grow downwards. So equal next hops stand in
    /// falling order of their node wherever they were found from one node, and in order of discovery otherwise.
    /// Hosts' addresses do not matter: nothing passes through them. Of several links between two nodes the last counts.
    fn tree(&mut self, host: u32) -> usize {
        let kind = self.kinds[host as usize] as usize;
        if self.trees[kind].reached.is_empty() {
            let switches = self.number.len() - self.hosts.len();
            if (self.made + 1) * switches > MOST_REACHED {
                self.trees.fill(Tree::default());
                self.made = 0;
            }
            self.trees[kind] = self.walk(self.hosts[host as usize], switches);
            self.made += 1;
        }
        kind
    }

    fn walk(&self, from: u32, switches: usize) -> Tree {
        let unknown = Reached { distance: 0, turn: 0, way: PathSums::NONE, ports: (0, 0) };
        let mut reached = vec![unknown; switches];
        let mut queue = vec![from];
        let mut head = 0;
        while let Some(&at) = queue.get(head) {
            let here = if head == 0 { unknown } else { reached[self.number[at as usize] as usize] };
            head += 1;
            for link in self.neighbours[at as usize].iter().filter(|link| self.is_switch[link.node as usize])
            {
                let there = &mut reached[self.number[link.node as usize] as usize];
                if there.distance == 0 {
                    there.distance = here.distance + 1;
                    there.turn = queue.len() as u32;
                    there.way = here.way.over(link, self.payload_bytes);
                    queue.push(link.node);
                }
            }
        }
        let mut tree = Tree { reached, ports: Vec::new() };
        let mut found = Vec::new();
        for &node in &queue[1..] {
            let number = self.number[node as usize] as usize;
            let nearer = tree.reached[number].distance - 1;
            // The next hop of those at distance 1 is the host itself.
            in_turn(&mut found, &self.neighbours[node as usize], |link| {
                self.reached(&tree, link).filter(|at| at.distance == nearer)
            });
            let begin = tree.ports.len() as u32;
            tree.ports.extend(found.iter().map(|&(_, port)| port));
            tree.reached[number].ports = (begin, tree.ports.len() as u32);
        }
        tree
    }

    /// The switch at the other end of a link, if there is a way from it.
    fn reached<'a>(&self, tree: &'a Tree, link: &Neighbour) -> Option<&'a Reached> {
        let node = link.node as usize;
        let at = self.is_switch[node].then(|| &tree.reached[self.number[node] as usize]);
        at.filter(|at| at.distance > 0)
    }

    /// Ports of `node` that lead to a host by a shortest route, in the order in which the hash chooses among them.
    pub fn next_ports(&mut self, node: u32, host: u32) -> &[u32] {
        let to = self.hosts[host as usize];
        self.ports.clear();
        if let Some(link) = self.link(node, to) {
            self.ports.push(link.port);
            return &self.ports;
        }
        let number = self.number[node as usize] as usize;
        let tree = self.tree(host);
        let tree = &self.trees[tree];
        if self.is_switch[node as usize] {
            let (begin, end) = tree.reached[number].ports;
            return &tree.ports[begin as usize..end as usize];
        }
        if node != to {
            let links = &self.neighbours[node as usize];
            let at = |link: &Neighbour| self.reached(tree, link);
            let least = links.iter().filter_map(at).map(|at| at.distance).min();
            let mut found = Vec::new();
            let mut nearest = |inner: bool| {
                let may = |link: &Neighbour| !inner || self.is_inner[link.node as usize];
                let at = |link: &Neighbour| at(link).filter(|at| Some(at.distance) == least && may(link));
                in_turn(&mut found, links, at);
                found.is_empty()
            };
            if nearest(true) {
                nearest(false);
            }
            self.ports.extend(found.iter().map(|&(_, port)| port));
        }
        &self.ports
    }

    /// Figures of the way from one host to another, by their numbers among the hosts.
    pub fn pair(&mut self, from: u32, to: u32) -> Pair {
        let payload = self.payload_bytes;
        let node = self.hosts[from as usize];
        if let Some(link) = self.link(node, self.hosts[to as usize]) {
            return Pair::new(PathSums::NONE.over(&link, payload));
        }
        let tree = self.tree(to);
        let tree = &self.trees[tree];
        let ways =
            self.neighbours[node as usize].iter().filter_map(|link| Some((self.reached(tree, link)?, link)));
        // The walk came here from the first switch that it found.
        let first = ways.min_by_key(|(at, _)| at.turn);
        first.map_or(Pair::default(), |(at, link)| Pair::new(at.way.over(link, payload)))
    }

    /// The largest round trip and the largest bandwidth-delay product of all pairs of hosts.
    pub fn largest(&mut self) -> (u64, u64) {
        let mut largest = (0, 0);
        // Hosts of one kind are alike, except for those that have a link to another host.
        let mut known = vec![0u8; self.trees.len()];
        let mut asked = Vec::new();
        let mut seconds = Vec::new();
        for host in 0..self.hosts.len() as u32 {
            let links = &self.neighbours[self.hosts[host as usize] as usize];
            let kind = &mut known[self.kinds[host as usize] as usize];
            if links.iter().any(|link| !self.is_switch[link.node as usize]) {
                asked.push(host);
            } else if !links.is_empty() && *kind < 2 {
                *kind += 1;
                if *kind == 1 { &mut asked } else { &mut seconds }.push(host);
            }
        }
        // Of one kind one after the other: the tree is the same.
        asked.sort_by_key(|&host| self.kinds[host as usize]);
        seconds.sort_by_key(|&host| self.kinds[host as usize]);
        let mut seconds = seconds.into_iter().peekable();
        for &to in &asked {
            let kind = self.kinds[to as usize];
            let second = seconds.next_if(|&other| self.kinds[other as usize] == kind);
            for from in asked.iter().copied().chain(second).filter(|&from| from != to) {
                let pair = self.pair(from, to);
                largest = (largest.0.max(pair.rtt_ns), largest.1.max(pair.bdp));
            }
        }
        largest
    }
}

/// The links to switches that `at` gives, in the order of their turns: turn and port.
fn in_turn<'a>(
    found: &mut Vec<(u32, u32)>,
    links: &[Neighbour],
    at: impl Fn(&Neighbour) -> Option<&'a Reached>,
) {
    found.clear();
    found.extend(links.iter().filter_map(|link| at(link).map(|at| (at.turn, link.port))));
    found.sort_unstable();
}

/// For each node its neighbours in falling order of their number.
fn neighbours(plan: &HpccPlan, without: Option<LinkDown>) -> Vec<Vec<Neighbour>> {
    let mut found: Vec<Vec<Neighbour>> = vec![Vec::new(); plan.nodes as usize];
    for (index, &Link(a, b, rate, delay_ns, _)) in plan.links.iter().enumerate() {
        if without.is_some_and(|down| (down.1, down.2) == (a, b) || (down.1, down.2) == (b, a)) {
            continue;
        }
        for (end, node, other) in [(0, a, b), (1, b, a)] {
            let port = (index * 2 + end) as u32;
            found[node as usize].push(Neighbour { node: other, port, delay_ns, rate });
        }
    }
    for links in &mut found {
        // The last of several links comes first, and stays.
        links.reverse();
        links.sort_by_key(|link| Reverse(link.node));
        links.dedup_by_key(|link| link.node);
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

// The order in which that simulator walks a host's queue pairs when a link went down: that of a C++ hash table.
//
// The table is libstdc++'s `unordered_map` with 64-bit keys, which are their own hash. Elements stand in one list,
// those of a bucket together. A new one stands before the first of its bucket, or at the front of the list if the
// bucket is empty; growing puts the elements, first to last, into a new list by the same rule.

/// Numbers of buckets: the first, and then each time the least of the library's primes that is twice as many.
const BUCKETS: [u64; 15] =
    [13, 29, 59, 127, 257, 541, 1109, 2357, 5087, 10_273, 20_753, 42_043, 85_229, 172_933, 351_061];

/// A host's queue pairs in the order of the table.
#[derive(Clone, Debug, Default)]
pub(super) struct HashOrder {
    size: usize,
    entries: Vec<(u64, u32)>,
}

impl HashOrder {
    /// A queue pair is made.
    pub fn insert(&mut self, key: u64, flow: u32) {
        if self.entries.len() as u64 >= BUCKETS[self.size] && self.size + 1 < BUCKETS.len() {
            self.size += 1;
            for entry in std::mem::take(&mut self.entries) {
                self.place(entry);
            }
        }
        self.place((key, flow));
    }

    fn place(&mut self, entry: (u64, u32)) {
        let bucket = |entry: &(u64, u32)| entry.0 % BUCKETS[self.size];
        let at = self.entries.iter().position(|other| bucket(other) == bucket(&entry)).unwrap_or(0);
        self.entries.insert(at, entry);
    }

    /// A queue pair is done.
    pub fn remove(&mut self, flow: u32) {
        self.entries.retain(|entry| entry.1 != flow);
    }

    /// The queue pairs that there are, first to last.
    pub fn flows(&self) -> Vec<u32> {
        self.entries.iter().map(|entry| entry.1).collect()
    }
}

#[cfg(test)]
mod hash_order_tests {
    use super::HashOrder;

    /// What a program with such a table prints (GCC 12): keys of 70 queue pairs to five hosts, the third last of
    /// which is taken out after every fourth.
    #[test]
    fn the_order_is_that_of_the_library() {
        let mut table = HashOrder::default();
        let mut seen = Vec::new();
        for flow in 0..70u64 {
            let address = 0x0b00_0001 + flow * 7 % 5 * 256;
            table.insert(address << 32 | (10_000 + flow) << 16 | 3, flow as u32);
            if flow % 4 == 3 {
                table.remove(flow as u32 - 2);
            }
            if [1, 5, 12, 20, 69].contains(&flow) {
                seen.push(table.flows());
            }
        }
        let expected: [&[u32]; 5] = [
            &[1, 0],
            &[5, 4, 3, 2, 0],
            &[12, 10, 8, 7, 6, 4, 3, 2, 11, 0],
            &[20, 19, 18, 11, 2, 3, 14, 4, 6, 0, 7, 8, 10, 12, 15, 16],
            &[
                69, 66, 64, 63, 62, 59, 56, 55, 54, 51, 46, 44, 43, 42, 40, 39, 38, 16, 52, 15, 68, 22, 58,
                12, 47, 10, 8, 7, 6, 50, 4, 35, 60, 14, 3, 48, 2, 11, 18, 19, 20, 27, 23, 24, 26, 28, 67, 30,
                0, 31, 32, 34, 36,
            ],
        ];
        assert_eq!(seen, expected);
    }
}
