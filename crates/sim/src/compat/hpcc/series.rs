//! What is recorded of hosts, queues and messages: how this engine reads rows of the registry.
//!
//! Time of the series begins when the first flow starts: the simulator's files start at 2 s by custom.

use std::borrow::Cow;
use tailback_proto::units::Time;

use super::cc::AckControl;
use super::port::LANES;
use super::world::World;
use crate::record::bins::{FEW_BINS, FIRST_BIN, MAX_VALUES};
use crate::record::quantity::{counters_as, quantities_as, Bin, Kind};
use crate::record::readings::{Readings, Shown};
use crate::record::series::Detail;
use crate::record::{hosts, ports, queue_pairs, Entity};

quantities_as! {
    HOST: [hosts::NIC], |bin: World, host| {
        "goodput_tx_bps": Rate = bin.world.host_counters[host].goodput_tx;
        "goodput_rx_bps": Rate = bin.world.host_counters[host].goodput_rx;
        "packet_seq_err": Count = bin.world.host_counters[host].packet_seq_err;
        "out_of_sequence": Count = bin.world.host_counters[host].out_of_sequence;
        "local_ack_timeout_err": Count = bin.world.host_counters[host].timeouts;
        "np_cnp_sent": Count = bin.world.host_counters[host].cnp_sent;
        "rp_cnp_handled": Count = bin.world.host_counters[host].cnp_handled;
    }
}

counters_as! {
    HOST_COUNTS: [hosts::NIC, hosts::NIC_COUNTS], |world: World, host| {
        "np_ecn_marked_roce_packets" = world.host_counters[host].marked;
        "np_cnp_sent" = world.host_counters[host].cnp_sent;
        "rp_cnp_handled" = world.host_counters[host].cnp_handled;
        "out_of_sequence" = world.host_counters[host].out_of_sequence;
        "packet_seq_err" = world.host_counters[host].packet_seq_err;
        "local_ack_timeout_err" = world.host_counters[host].timeouts;
        "duplicate_request" = world.host_counters[host].duplicate;
    }
}

quantities_as! {
    DELAY: [hosts::DELAY], |bin: World, host| {
        "delay_probes": Count = bin.world.host_counters[host].delay_probes;
    }
}

quantities_as! {
    WIRE: [hosts::NIC], |bin: World, port| {
        "wire_tx_bps": Rate = bin.world.ports[port].tx_bytes;
        "wire_rx_bps": Rate = bin.world.ports[bin.world.ports[port].peer as usize].tx_bytes;
    }
}

quantities_as! {
    EGRESS: [ports::EGRESS, ports::MARKS, ports::PAUSED], |bin: World, at| {
        "wire_tx_bps": Rate = bin.world.lanes[at].tx_bytes;
        "queue_mean_bytes": Mean = {
            let lane = &mut bin.world.lanes[at];
            lane.integrate(bin.now.0);
            match std::mem::take(&mut lane.byte_ns) {
                0 => 0.0,
                byte_ns => byte_ns as f64 * 1000.0 / bin.span.0 as f64,
            }
        };
        "queue_max_bytes": Max = {
            let lane = &mut bin.world.lanes[at];
            std::mem::replace(&mut lane.max_egress, lane.egress) as f64
        };
        "ecn_marked": Count = bin.world.lane_counters[at].marked;
        "paused_share": Share = bin.world.heard[at].paused_until(bin.now.0);
    }
}

quantities_as! {
    SEND: [ports::SEND, ports::PAUSED], |bin: World, at| {
        "paused_share": Share = bin.world.heard[at].paused_until(bin.now.0);
    }
}

counters_as! {
    LANE_COUNTS: [ports::FRAMES, ports::PAUSED], |world: World, at| {
        "tx_prio#_packets" = world.lanes[at].tx_packets;
        "tx_prio#_bytes" = world.lanes[at].tx_bytes;
        "rx_prio#_pause" = world.heard[at].pauses + world.heard[at].resumes;
        "rx_prio#_pause_duration" = Kind::Share.counted(world.heard[at].paused_until(world.now));
        "rx_prio#_pause_transition" = world.heard[at].transitions;
        "tx_prio#_pause" = world.heard[at].sent;
    }
}

counters_as! {
    SWITCH_LANE_COUNTS: [ports::FRAMES, ports::MARKS, ports::DISCARDS], |world: World, at| {
        "rx_prio#_packets" = world.received(at).0;
        "rx_prio#_bytes" = world.received(at).1;
        "ecn_marked_tc_#" = world.lane_counters[at].marked;
        "tc_no_buffer_discard_uc_tc_#" = world.lane_counters[at].dropped;
    }
}

quantities_as! {
    RATE: [queue_pairs::RATE], |bin: World, flow| {
        "rate_bps": Now = bin.world.rate_and_alpha(flow).0;
    }
}

fn alpha(bin: &mut Bin<World>, flow: usize, _: &mut [u64], values: &mut [f64]) {
    values[0] = bin.world.rate_and_alpha(flow).1;
}

/// All that is recorded, and in which detail.
pub(super) fn readings(world: &World) -> (Readings<World>, Detail) {
    let most = world.plan.record.max_bins as usize;
    let with_queues = Some(hosts_and_queues(world, true));
    let (mut read, detail) = match with_queues.filter(|read| read.len() * FEW_BINS.min(most) <= MAX_VALUES) {
        Some(read) => (read, Detail::EgressQueues),
        None => (hosts_and_queues(world, false), Detail::Hosts),
    };
    let flows = world.plan.flows.len();
    let tracked = (world.plan.record.qps as usize).min(flows);
    for flow in (0..tracked).map(|pick| pick * flows / tracked) {
        let plan = &world.plan.flows[flow];
        let (src, dst) = (world.node_name(plan.0), world.node_name(plan.1));
        read.add(Entity::new(format!("{src}-{dst}/flow{flow}"), "message", src).towards(dst));
        read.read(&RATE, flow);
        read.read_shown(Shown { name: Cow::Borrowed("alpha"), kind: Kind::Now, read: alpha, at: flow });
    }
    read.begin(Time(world.origin), FIRST_BIN, most);
    (read, detail)
}

fn hosts_and_queues(world: &World, queues: bool) -> Readings<World> {
    let mut read = Readings::default();
    for (host, &node) in world.hosts.iter().enumerate() {
        let name = world.node_name(node);
        read.add(Entity::new(name.clone(), "host", name));
        read.read(&HOST, host);
        if world.acks.as_ref().is_some_and(AckControl::hears_delay) {
            read.read(&DELAY, host);
        }
        // Of several NICs the first: the series has one value for a host.
        if let Some(port) = world.first_port(node) {
            read.read(&WIRE, port);
        }
    }
    let priorities = world.priorities();
    for port in (0..world.ports.len()).filter(|_| queues) {
        for &priority in &priorities {
            let at = port * LANES + priority as usize;
            let queue = |name, kind| {
                let (own, peer) = (&world.ports[port], &world.ports[world.ports[port].peer as usize]);
                Entity::new(name, kind, world.node_name(own.node)).towards(world.node_name(peer.node))
            };
            if world.ports[port].is_switch {
                read.add(queue(world.egress_name(port, priority), "egress"));
                read.read(&EGRESS, at);
            } else {
                read.add(queue(world.send_queue_name(port, priority), "send"));
                read.read(&SEND, at);
            }
        }
    }
    read
}
