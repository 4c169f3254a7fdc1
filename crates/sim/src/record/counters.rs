//! Counters under the names that `ethtool -S`, `rdma statistic` and the switch's tools print.

use super::recording::Counter;
use crate::fabric::drops::DropReason;
use crate::fabric::{lane, CLASSES};
use crate::plan::Plan;
use crate::world::World;

const PICOSECONDS_TO_MICROSECONDS: u64 = 1_000_000;

pub(super) fn counters(plan: &Plan, world: &World) -> Vec<Counter> {
    let mut rows = Vec::new();
    let control = HostControl::of_hosts(world);
    let tcp = super::tcp::HostTotals::of_hosts(world);
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
        if let Some(path) = world.nics.paths.get(world.nics[host].path as usize) {
            super::paths::counters(world, path, &host_plan.name, &mut rows);
        }
        control[host].counters(&host_plan.name, &mut rows);
        super::tcp::counters(host, &host_plan.name, world, &tcp[host], &mut rows);
        port_counters(world, &host_plan.name, "", world.nics[host].port as usize, &mut rows);
    }
    for (index, switch) in plan.switches.iter().enumerate() {
        for port in world.fabric.ports_of(index) {
            let name = world.fabric.links[port].name.clone();
            port_counters(world, &switch.name, &name, port, &mut rows);
        }
    }
    super::veth::counters(plan, world, &mut rows);
    super::bridges::counters(plan, world, &mut rows);
    rows
}

/// What RHCC's senders and the agent of a host did, where it has them.
#[derive(Clone, Default)]
struct HostControl {
    /// Probes sent, and answers.
    probes: Option<(u64, u64)>,
    level_changes: Option<u64>,
}

impl HostControl {
    /// By host.
    fn of_hosts(world: &World) -> Vec<HostControl> {
        let mut found = vec![HostControl::default(); world.nics.nics.len()];
        for s in &world.nics.send_qps {
            if let Some(prober) = &s.prober {
                let (sent, answers) = found[s.src as usize].probes.get_or_insert_default();
                *sent += prober.probes_sent;
                *answers += prober.answers;
            }
        }
        for agent in &world.agents {
            found[agent.host as usize].level_changes = Some(agent.level_changes);
        }
        found
    }

    fn counters(&self, name: &str, rows: &mut Vec<Counter>) {
        let mut add = |counter: &str, value| {
            rows.push(Counter { node: name.into(), port: String::new(), counter: counter.into(), value });
        };
        if let Some((sent, answers)) = self.probes {
            add("rhcc_probes_sent", sent);
            add("rhcc_probe_answers", answers);
        }
        if let Some(changes) = self.level_changes {
            add("mba_level_changes", changes);
        }
    }
}

/// Counters of the classes that a port ever carried or paused.
fn port_counters(world: &World, node: &str, port_name: &str, port: usize, rows: &mut Vec<Counter>) {
    for class in 0..CLASSES as u8 {
        let at = lane(port, class);
        let (queue, group, pause, pausing) = (
            &world.fabric.queues[at],
            &world.fabric.groups[at],
            &world.fabric.pauses[at],
            &world.fabric.pausing[at],
        );
        let tallies = || world.fabric.drops[at].iter().zip(DropReason::ALL);
        let dropped = |count: fn(DropReason) -> bool| -> u64 {
            tallies().filter(|&(_, reason)| count(reason)).map(|(tally, _)| tally.packets).sum()
        };
        let in_storms = dropped(DropReason::is_storm);
        if queue.tx_packets + group.rx_packets + pause.frames + pausing.frames + dropped(|_| true) == 0 {
            continue;
        }
        let held = pausing.held_until(world.fabric.run.now);
        let microseconds = |ps: u64| ps / PICOSECONDS_TO_MICROSECONDS;
        let mut values = vec![
            (format!("tx_prio{class}_packets"), queue.tx_packets),
            (format!("tx_prio{class}_bytes"), queue.tx_bytes),
            (format!("rx_prio{class}_packets"), group.rx_packets),
            (format!("rx_prio{class}_bytes"), group.rx_bytes),
            (format!("rx_prio{class}_pause"), pause.frames),
            (
                format!("rx_prio{class}_pause_duration"),
                microseconds(pause.paused_until(world.fabric.run.now).0),
            ),
            (format!("rx_prio{class}_pause_transition"), pause.transitions),
            (format!("tx_prio{class}_pause"), pausing.frames),
            (format!("tx_prio{class}_pause_duration"), microseconds(held.0)),
        ];
        if !port_name.is_empty() {
            values.push((format!("ecn_marked_tc_{class}"), world.fabric.marked[at]));
            values.push((format!("tc_no_buffer_discard_uc_tc_{class}"), dropped(DropReason::lacks_buffer)));
            // As SONiC's counters database has them, by priority group and by queue.
            let at_queue = dropped(|reason| !reason.is_ingress() && !reason.was_on_link());
            for (name, value) in [
                ("INGRESS_PRIORITY_GROUP_STAT_SHARED_WATERMARK_BYTES", group.max_shared as u64),
                ("INGRESS_PRIORITY_GROUP_STAT_XOFF_ROOM_WATERMARK_BYTES", group.max_headroom as u64),
                ("INGRESS_PRIORITY_GROUP_STAT_DROPPED_PACKETS", dropped(DropReason::is_ingress)),
                ("QUEUE_STAT_DROPPED_PACKETS", at_queue),
            ] {
                values.push((format!("SAI_{name}:{class}"), value));
            }
        }
        if let Some(watchdog) = world.fabric.watchdogs.get(&at).filter(|watchdog| watchdog.detected > 0) {
            // As SONiC's counters database has them, by queue.
            let from_it = world.fabric.drops[at][DropReason::StormIngress as usize].packets;
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
