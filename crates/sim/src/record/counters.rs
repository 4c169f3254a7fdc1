//! Counters under the names that `ethtool -S`, `rdma statistic` and the switch's tools print.

use crate::fabric::port::DropReason;
use crate::fabric::{lane, CLASSES};
use crate::plan::Plan;
use crate::world::World;

/// One counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counter {
    /// Host or switch.
    pub node: String,
    /// Port, `node:peer`; empty for the whole node.
    pub port: String,
    /// Name.
    pub counter: String,
    /// Value; pause durations in microseconds, bytes of frames from address to FCS.
    pub value: u64,
}

const PICOSECONDS_TO_MICROSECONDS: u64 = 1_000_000;

pub(super) fn counters(plan: &Plan, world: &World) -> Vec<Counter> {
    let mut rows = Vec::new();
    for (host, host_plan) in plan.hosts.iter().enumerate() {
        let c = &world.nics[host].counters;
        for (name, value) in [
            ("np_ecn_marked_roce_packets", c.np_ecn_marked_roce_packets),
            ("np_cnp_sent", c.np_cnp_sent),
            ("rp_cnp_handled", c.rp_cnp_handled),
            ("rp_cnp_ignored", c.rp_cnp_ignored),
            ("out_of_sequence", c.out_of_sequence),
            ("packet_seq_err", c.packet_seq_err),
            ("local_ack_timeout_err", c.local_ack_timeout_err),
            ("duplicate_request", c.duplicate_request),
            ("req_transport_retries_exceeded", c.transport_retry_exceeded),
        ] {
            rows.push(Counter {
                node: host_plan.name.clone(),
                port: String::new(),
                counter: name.into(),
                value,
            });
        }
        if let Some(path) = world.paths.get(world.nics[host].path as usize) {
            super::paths::counters(world, path, &host_plan.name, &mut rows);
        }
        host_control(world, host, &host_plan.name, &mut rows);
        super::tcp::counters(host, &host_plan.name, world, &mut rows);
        port_counters(world, &host_plan.name, "", world.nics[host].port as usize, &mut rows);
    }
    for (index, switch) in plan.switches.iter().enumerate() {
        let node = (plan.hosts.len() + index) as u32;
        let first = world.switches[index].first_port as usize;
        for port in (first..world.ports.len()).take_while(|&port| world.ports[port].owner == node) {
            let name = world.links[port].name.clone();
            port_counters(world, &switch.name, &name, port, &mut rows);
        }
    }
    super::veth::counters(plan, world, &mut rows);
    super::bridges::counters(plan, world, &mut rows);
    rows
}

/// What RHCC's sender and the agent did, at hosts that have them.
fn host_control(world: &World, host: usize, name: &str, rows: &mut Vec<Counter>) {
    let own = world.send_qps.iter().filter(|s| s.src as usize == host);
    let mut probers = own.filter_map(|s| s.prober.as_ref()).peekable();
    let mut add = |counter: &str, value| {
        rows.push(Counter { node: name.into(), port: String::new(), counter: counter.into(), value });
    };
    if probers.peek().is_some() {
        let (sent, answers) = probers.fold((0, 0), |(a, b), p| (a + p.probes_sent, b + p.answers));
        add("rhcc_probes_sent", sent);
        add("rhcc_probe_answers", answers);
    }
    if let Some(agent) = world.agents.iter().find(|agent| agent.host as usize == host) {
        add("mba_level_changes", agent.level_changes);
    }
}

/// Counters of the classes that a port ever carried or paused.
fn port_counters(world: &World, node: &str, port_name: &str, port: usize, rows: &mut Vec<Counter>) {
    for class in 0..CLASSES as u8 {
        let at = lane(port, class);
        let (queue, group, pause, pausing) =
            (&world.queues[at], &world.groups[at], &world.pauses[at], &world.pausing[at]);
        let tallies = || world.drops[at].iter().zip(DropReason::ALL);
        let dropped = |count: fn(DropReason) -> bool| -> u64 {
            tallies().filter(|&(_, reason)| count(reason)).map(|(tally, _)| tally.packets).sum()
        };
        let in_storms = dropped(DropReason::is_storm);
        if queue.tx_packets + group.rx_packets + pause.frames + pausing.frames + dropped(|_| true) == 0 {
            continue;
        }
        let held = pausing.held_until(world.now);
        let microseconds = |ps: u64| ps / PICOSECONDS_TO_MICROSECONDS;
        let mut values = vec![
            (format!("tx_prio{class}_packets"), queue.tx_packets),
            (format!("tx_prio{class}_bytes"), queue.tx_bytes),
            (format!("rx_prio{class}_packets"), group.rx_packets),
            (format!("rx_prio{class}_bytes"), group.rx_bytes),
            (format!("rx_prio{class}_pause"), pause.frames),
            (format!("rx_prio{class}_pause_duration"), microseconds(pause.paused_until(world.now).0)),
            (format!("rx_prio{class}_pause_transition"), pause.transitions),
            (format!("tx_prio{class}_pause"), pausing.frames),
            (format!("tx_prio{class}_pause_duration"), microseconds(held.0)),
        ];
        if !port_name.is_empty() {
            values.push((format!("ecn_marked_tc_{class}"), world.marked[at]));
            values.push((format!("tc_no_buffer_discard_uc_tc_{class}"), dropped(DropReason::lacks_buffer)));
        }
        if let Some(watchdog) = world.watchdogs.get(&at).filter(|watchdog| watchdog.detected > 0) {
            // As SONiC's counters database has them, by queue.
            let from_it = world.drops[at][DropReason::StormIngress as usize].packets;
            for (name, value) in [
                ("DEADLOCK_DETECTED", watchdog.detected),
                ("DEADLOCK_RESTORED", watchdog.restored),
                ("TX_DROPPED_PACKETS", in_storms - from_it),
                ("RX_DROPPED_PACKETS", from_it),
            ] {
                values.push((format!("PFC_WD_QUEUE_STATS_{name}:{class}"), value));
            }
        }
        rows.extend(values.into_iter().map(|(counter, value)| Counter {
            node: node.into(),
            port: port_name.into(),
            counter,
            value,
        }));
    }
}
