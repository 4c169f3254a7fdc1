//! Quantities of the ports of hosts and switches, by lane: queues of a class, their traffic, their pauses.

use std::collections::BTreeMap;
use tailback_proto::flow_control::pcie_credits::DATA_CREDIT_BYTES;
use tailback_proto::wire::PREAMBLE_AND_GAP_BYTES;

use super::quantity::{counters, quantities, recorded};
use super::recording::{node_name, peer_name, Queue};
use super::series::{egress_name, ingress_name, receive_name, send_queue_name, Chosen, Detail};
use crate::fabric::link::RoutePorts;
use crate::fabric::port::DropReason;
use crate::fabric::{lane, port_and_class, Fabric};
use crate::host::path::{HostPath, Target};
use crate::linux::record::bridges;
use crate::nic::queue_pair::GONE;
use crate::plan::Plan;
use crate::world::World;

recorded! {
    quantities {
        /// How long an egress queue is, and how much of its link it takes.
        EGRESS of ["egress"], |bin, at| {
            "wire_tx_bps": Rate, "bit/s", "packets sent from it, with preamble and gap; the share of its class in its port's link" = {
                let queue = &bin.world.fabric.queues[at];
                queue.tx_bytes + queue.tx_packets * u64::from(PREAMBLE_AND_GAP_BYTES)
            };
            "queue_mean_bytes": Mean, "bytes", "bytes waiting, weighted by time" = {
                let queue = &mut bin.world.fabric.queues[at];
                queue.over_time.take_mean((bin.now, bin.span), queue.bytes as u64)
            };
            "queue_max_bytes": Max, "bytes", "most bytes waiting" = {
                let queue = &mut bin.world.fabric.queues[at];
                std::mem::replace(&mut queue.max_bytes, queue.bytes) as f64
            };
        }
    }

    quantities {
        /// Marks and drops at an egress queue.
        MARKS of ["egress"], |bin, at| {
            "ecn_marked": Count ("ecn_marked_tc_#") [CeMark], "packets", "packets marked CE at it"
                = bin.world.fabric.marked[at];
            "dropped": Count keeps [Drop], "packets", "packets for it that were dropped" = bin.world.fabric.dropped[at][0];
        }
    }

    quantities {
        /// Pauses that a port obeys.
        PAUSED of ["send", "egress"], |bin, at| {
            "paused_share": Share keeps ("rx_prio#_pause_duration") [PfcPause], "share", "time for which the peer had it paused; the counter in us"
                = bin.world.fabric.pauses[at].paused_until(bin.now).0;
        }
    }

    quantities {
        /// Pauses that a port asks its peer for.
        PAUSING of ["ingress", "nic-rx"], |bin, at| {
            "pausing_share": Share ("tx_prio#_pause_duration") [PfcXoff], "share", "time for which it held its peer paused; the counter in us"
                = bin.world.fabric.pausing[at].held_until(bin.now).0;
        }
    }

    quantities {
        /// How full an ingress group is.
        INGRESS of ["ingress"], |bin, at| {
            "queue_mean_bytes": Mean, "bytes", "bytes of its packets that wait in egress queues, weighted by time" = {
                let group = &mut bin.world.fabric.groups[at];
                let bytes = group.held.bytes() as u64;
                group.over_time.take_mean((bin.now, bin.span), bytes)
            };
            "queue_max_bytes": Max, "bytes", "most bytes of its packets that wait" = {
                let group = &mut bin.world.fabric.groups[at];
                let bytes = group.held.bytes();
                std::mem::replace(&mut group.max_bytes, bytes) as f64
            };
            "xoff_bytes": Now, "bytes", "its threshold at the end of the bin" = xoff(&bin.world.fabric, at);
        }
    }

    quantities {
        /// Drops of an ingress group.
        REFUSED of ["ingress"], |bin, at| {
            "dropped": Count keeps [Drop], "packets", "packets that its headroom had no room for" = bin.world.fabric.dropped[at][1];
        }
    }

    quantities {
        /// Backlog of a host in a class.
        SEND of ["send"], |bin, at| {
            "queue_mean_bytes": Now, "bytes", "posted and not yet sent, at the end of the bin" = {
                let (port, class) = port_and_class(at);
                bin.world.nics[bin.world.fabric.ports[port].owner as usize].backlog_bytes[class as usize] as f64
            };
            "queue_max_bytes": Max, "bytes", "the same" = {
                let (port, class) = port_and_class(at);
                bin.world.nics[bin.world.fabric.ports[port].owner as usize].backlog_bytes[class as usize] as f64
            };
        }
    }

    counters {
        /// Frames of a class, from address to FCS.
        FRAMES of ["port"], |fabric: Fabric, at| {
            "tx_prio#_packets": "packets", "frames sent; PFC frames belong to no priority" = fabric.queues[at].tx_packets;
            "tx_prio#_bytes": "bytes", "bytes sent, from address to FCS" = fabric.queues[at].tx_bytes;
            "rx_prio#_packets": "packets", "frames received" = fabric.groups[at].rx_packets;
            "rx_prio#_bytes": "bytes", "bytes received, from address to FCS" = fabric.groups[at].rx_bytes;
            "rx_prio#_pause": "packets", "PFC frames received: pauses, repeats and resumes" = fabric.pauses[at].frames;
            "rx_prio#_pause_transition": "changes", "changes from paused to running" = fabric.pauses[at].transitions;
            "tx_prio#_pause": "packets", "PFC frames sent" = fabric.pausing[at].frames;
        }
    }

    counters {
        /// Drops of a switch for want of buffer.
        DISCARDS of ["switch port"], |fabric: Fabric, at| {
            "tc_no_buffer_discard_uc_tc_#": "packets", "packets dropped because there was no buffer for them: for this egress queue, or of a lossless group of this port"
                = dropped(fabric, at, DropReason::lacks_buffer);
            "SAI_INGRESS_PRIORITY_GROUP_STAT_DROPPED_PACKETS:#": "packets", "packets that came by this port and were dropped there"
                = dropped(fabric, at, DropReason::is_ingress);
            "SAI_QUEUE_STAT_DROPPED_PACKETS:#": "packets", "packets dropped at this egress queue; what a link loses is none of them"
                = dropped(fabric, at, |reason| !reason.is_ingress() && !reason.was_on_link());
        }
    }

    counters {
        /// Packets that a switch trimmed, as SONiC's counters database has it.
        TRIMS of ["switch port"], |fabric: Fabric, at| {
            "SAI_QUEUE_STAT_TRIM_PACKETS:#": "packets", "packets of this egress queue that were trimmed: dropped, and their headers went on"
                = dropped(fabric, at, |reason| reason == DropReason::Trimmed);
        }
    }

    counters {
        /// The most that an ingress group ever held, as SONiC's counters database has it.
        WATERMARKS of ["switch port"], |fabric: Fabric, at| {
            "SAI_INGRESS_PRIORITY_GROUP_STAT_SHARED_WATERMARK_BYTES:#": "bytes", "most bytes of the shared buffer that its packets held"
                = fabric.groups[at].max_shared as u64;
            "SAI_INGRESS_PRIORITY_GROUP_STAT_XOFF_ROOM_WATERMARK_BYTES:#": "bytes", "most bytes of its headroom that its packets held"
                = fabric.groups[at].max_headroom as u64;
        }
    }

    counters {
        /// Actions of a PFC watchdog, as SONiC's counters database has it, by queue.
        WATCHDOG of ["switch port"], |fabric: Fabric, at| {
            "PFC_WD_QUEUE_STATS_DEADLOCK_DETECTED:#": "storms", "pause storms that the PFC watchdog detected"
                = fabric.watchdogs.get(&at).map_or(0, |watchdog| watchdog.detected);
            "PFC_WD_QUEUE_STATS_DEADLOCK_RESTORED:#": "storms", "pause storms of them that are over"
                = fabric.watchdogs.get(&at).map_or(0, |watchdog| watchdog.restored);
            "PFC_WD_QUEUE_STATS_TX_DROPPED_PACKETS:#": "packets", "packets that waited at the port, or came for it, in a pause storm"
                = dropped(fabric, at, |reason| reason.is_pause_storm() && reason != DropReason::PauseStormIngress);
            "PFC_WD_QUEUE_STATS_RX_DROPPED_PACKETS:#": "packets", "packets that came from the port in a pause storm"
                = dropped(fabric, at, |reason| reason == DropReason::PauseStormIngress);
        }
    }
}

fn xoff(fabric: &Fabric, at: usize) -> f64 {
    let (port, class) = port_and_class(at);
    let switch = &fabric.switches[fabric.ports[port].owner as usize - fabric.hosts];
    switch.buffer.ingress_threshold(switch.buffer.pool(class)) as f64
}

/// Packets dropped at a lane for some of the reasons.
pub(super) fn dropped(fabric: &Fabric, at: usize, counts: fn(DropReason) -> bool) -> u64 {
    let Some(drops) = fabric.drops.get(at) else { return 0 };
    let tallies = drops.iter().zip(DropReason::ALL);
    tallies.filter(|&(_, reason)| counts(reason)).map(|(tally, _)| tally.packets).sum()
}

// The queues that a run lists: those on the routes of its connections.

/// Queues that were found: by lane, a bit for each kind and each of the first 16 places of a path. Very many connections
/// meet the same few queues.
#[derive(Default)]
struct SeenQueues(Vec<u64>);

/// Kinds of queues that ports have.
#[derive(Clone, Copy)]
enum QueueKind {
    Receive,
    Egress,
    Ingress,
    Send,
}

impl QueueKind {
    fn text(self) -> &'static str {
        ["receive", "egress", "ingress", "send"][self as usize]
    }
}

impl SeenQueues {
    /// True unless this queue was found before.
    fn is_new(&mut self, lane: usize, kind: QueueKind, order: u32) -> bool {
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
pub(crate) struct ListedQueues {
    /// By place on the route, lane and kind.
    found: BTreeMap<(u32, usize, &'static str), Queue>,
    seen: SeenQueues,
    last: Option<(u16, u16, u8)>,
    chosen: Option<Chosen>,
    /// The route of the connection that was looked up last.
    ways: RoutePorts,
}

impl ListedQueues {
    /// Adds those on the routes of connections, as the routes are now.
    pub fn add(
        &mut self,
        plan: &Plan,
        world: &World,
        detail: Detail,
        connections: impl Iterator<Item = Connection>,
    ) {
        let ListedQueues { found, seen, last, chosen, ways } = self;
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
            let mut add = |found: &mut BTreeMap<_, _>, kind: QueueKind, port: usize, order: u32| {
                let owner = world.fabric.ports[port].owner as usize;
                let class = world.fabric.classes.of(owner)[code_point as usize];
                let at = lane(port, class);
                if !seen.is_new(at, kind, order) {
                    return;
                }
                let of_switch = matches!(kind, QueueKind::Egress | QueueKind::Ingress);
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
                    for row in crate::record::hosts::ROWS {
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
                None => add(found, QueueKind::Receive, receive_port, order),
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
                ways[hop].iter().for_each(|&port| add(found, QueueKind::Egress, port, order + 1));
                ways[hop - 1]
                    .iter()
                    .for_each(|before| add(found, QueueKind::Ingress, ingress_of(before), order + 2));
                order += 2;
            }
            add(found, QueueKind::Send, ways[0][0], order + 1);
        }
    }

    /// All of them: with those on the routes of connections that are still there, and of namespaces.
    pub fn finish(mut self, plan: &Plan, world: &World, detail: Detail) -> Vec<Queue> {
        let there = world.nics.send_qps.iter().filter(|s| s.number != GONE);
        self.add(plan, world, detail, there.map(|s| (s.number, s.src, s.dst, s.code_point)));
        let sockets = &world.tcp.sockets;
        let tcp = (sockets.first_flow..).zip(&sockets.connections);
        self.add(plan, world, detail, tcp.map(|(number, c)| (number, c.src, c.dst, c.code_point)));
        let veths = crate::linux::record::veth::queues(plan, world)
            .into_iter()
            .filter(|queue| detail.lists(queue.kind));
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
        queue: crate::record::hosts::row_name(plan, host_path, row),
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

fn queue(plan: &Plan, world: &World, kind: QueueKind, port: usize, class: u8, order: u32) -> Queue {
    let owner = world.fabric.ports[port].owner as usize;
    let switch = owner.checked_sub(plan.hosts.len());
    let marks = switch.filter(|_| matches!(kind, QueueKind::Egress));
    let ecn = marks.and_then(|_| world.fabric.marking.thresholds(lane(port, class)));
    let name = match kind {
        QueueKind::Receive => receive_name(plan, owner),
        QueueKind::Send => send_queue_name(plan, owner, class),
        QueueKind::Egress => egress_name(world, port, class),
        QueueKind::Ingress => ingress_name(world, port, class),
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
            switch.buffer.pool_bytes(switch.buffer.pool(class))
        }),
    }
}
