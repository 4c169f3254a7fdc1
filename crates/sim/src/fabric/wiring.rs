//! How a plan's links become ports: those of a node lie next to each other.

use std::collections::HashMap;

use crate::plan::Plan;

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
    pub fn new(plan: &Plan, names: &HashMap<&str, usize>, nodes: usize) -> Wiring {
        let mut of_node: Vec<Vec<(usize, usize)>> = vec![Vec::new(); nodes];
        for (index, link) in plan.links.iter().enumerate() {
            let (a, b) = (names[link.a.as_str()], names[link.b.as_str()]);
            of_node[a].push((index, b));
            of_node[b].push((index, a));
        }
        let name_of = |node: usize| match node.checked_sub(plan.hosts.len()) {
            Some(switch) => match switch.checked_sub(plan.switches.len()) {
                Some(bridge) => &plan.bridges[bridge].name,
                None => &plan.switches[switch].name,
            },
            None => &plan.hosts[node].name,
        };
        let mut ends: Vec<End> = Vec::with_capacity(plan.links.len() * 2);
        let mut first_port = Vec::with_capacity(nodes + 1);
        let mut open: HashMap<usize, usize> = HashMap::new();
        for (node, own) in of_node.iter().enumerate() {
            first_port.push(ends.len());
            let mut seen: HashMap<usize, usize> = HashMap::new();
            for &(link, peer_node) in own {
                let port = ends.len();
                // Parallel links are told apart by their number.
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
                    name: format!("{}:{}{number}", name_of(node), name_of(peer_node)),
                });
            }
        }
        first_port.push(ends.len());
        Wiring { ends, first_port }
    }
}
