//! Cuts a network into parts, one for each core.
//!
//! A host stays with its switch. So do the two ends of a link that loses packets, since the receiver counts a loss at the
//! sender's port. Switches with hosts are dealt out in their order, which is that of pods and rows. Each of the others goes
//! to the part that most of its links lead to, among parts that have not got their share. The cut does not change results.

use std::cmp::Reverse;

use crate::fabric::port::LOSSY;
use crate::fabric::Fabric;

/// The part of each node, by node. None: the network cannot be cut into `parts`.
pub(super) fn cut(fabric: &Fabric, parts: usize) -> Option<Vec<u8>> {
    let cluster = clusters(fabric);
    let count = cluster.iter().max()? + 1;
    // Nearly all events are of packets at ports.
    let mut weight = vec![0usize; count];
    let mut links = vec![Vec::new(); count];
    for port in &fabric.ports {
        let (own, other) = (cluster[port.owner as usize], cluster[port.peer_owner as usize]);
        weight[own] += 1;
        if own != other {
            links[own].push(other);
        }
    }
    let mut hosts = vec![0usize; count];
    cluster.iter().take(fabric.hosts).for_each(|&own| hosts[own] += 1);
    let with_hosts: Vec<usize> = (0..count).filter(|&own| hosts[own] > 0).collect();
    if with_hosts.len() < parts {
        return None;
    }
    let mut part_of: Vec<Option<u8>> = vec![None; count];
    let mut load = vec![0usize; parts];
    let (mut dealt, mut open) = (0, 0);
    for (at, &own) in with_hosts.iter().enumerate() {
        // The part that its middle host falls into, as long as no part stays empty.
        let middle = (2 * dealt + hosts[own]) * parts / (2 * fabric.hosts);
        let least = (parts + at).saturating_sub(with_hosts.len());
        let part = middle.min(open).max(least);
        dealt += hosts[own];
        part_of[own] = Some(part as u8);
        load[part] += weight[own];
        open = part + 1;
    }
    // There is always a next one with a link to a switch that has its part.
    while let Some(own) = (0..count)
        .find(|&own| part_of[own].is_none() && links[own].iter().any(|&other| part_of[other].is_some()))
    {
        let mut leads = vec![0usize; parts];
        links[own].iter().filter_map(|&other| part_of[other]).for_each(|part| leads[part as usize] += 1);
        let share = fabric.ports.len().div_ceil(parts);
        let has_room = |part: usize| load[part] + weight[own] <= share;
        let part = (0..parts).max_by_key(|&part| (has_room(part), leads[part], Reverse(load[part])))?;
        part_of[own] = Some(part as u8);
        load[part] += weight[own];
    }
    if load.contains(&0) {
        return None;
    }
    Some(cluster.iter().map(|&own| part_of[own].unwrap_or(0)).collect())
}

/// For each node the number of its cluster, whose nodes must stay together; clusters are numbered in the order of nodes.
fn clusters(fabric: &Fabric) -> Vec<usize> {
    let mut first: Vec<usize> = (0..fabric.nodes).collect();
    fn of(first: &[usize], mut node: usize) -> usize {
        while first[node] != node {
            node = first[node];
        }
        node
    }
    for port in &fabric.ports {
        let (own, other) = (port.owner as usize, port.peer_owner as usize);
        if own < fabric.hosts || port.flags & LOSSY != 0 {
            let (own, other) = (of(&first, own), of(&first, other));
            first[own.max(other)] = own.min(other);
        }
    }
    let mut number = vec![usize::MAX; fabric.nodes];
    let mut count = 0;
    (0..fabric.nodes)
        .map(|node| {
            let first = of(&first, node);
            if number[first] == usize::MAX {
                number[first] = count;
                count += 1;
            }
            number[first]
        })
        .collect()
}
