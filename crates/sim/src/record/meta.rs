//! What a recording says about the run as a whole.

use std::collections::BTreeSet;

use tailback_proto::flow_control::pfc::headroom_bytes;
use tailback_proto::units::Rate;
use tailback_proto::wire::{tcp_frame_bytes, write_frame_bytes, PREAMBLE_AND_GAP_BYTES};

use super::bridges;
use super::entity::{node_name, peer_name};
use super::recording::{Drop, Fault, Latency, Meta, Pause, PauseStorm, Queue, Series};
use super::series::{egress_name, ingress_name, receive_name};
use crate::fabric::drops::DropReason;
use crate::fabric::packet::Kind;
use crate::fabric::port_and_class;
use crate::plan::{NicPlan, Plan};
use crate::workload::latency::LatencyTest;
use crate::world::World;

pub(super) fn meta(
    plan: &Plan,
    world: &World,
    series: &Series,
    queues: Vec<Queue>,
    events: u64,
    complete: bool,
) -> Meta {
    let (conservation, errors) = super::audit::audit(plan, world);
    let mut faults = faults(plan, world);
    faults.extend(errors.into_iter().map(|(place, text)| Fault {
        kind: "conservation",
        text: format!("{place} {text}"),
        r#where: place,
        node: String::new(),
        peer: String::new(),
    }));
    let sent = |kind: Kind| world.fabric.transmissions[kind as usize];
    let packets = [
        ("data", sent(Kind::Data)),
        ("ack", sent(Kind::Ack)),
        ("nak", sent(Kind::Nak)),
        ("cnp", sent(Kind::Cnp)),
        ("pfc", world.fabric.pause_frames.sent),
        ("probe", sent(Kind::Probe)),
        ("probe_ack", sent(Kind::ProbeAck)),
        ("trimmed", sent(Kind::Trimmed)),
        ("tcp_data", sent(Kind::Tcp)),
        ("tcp_ack", sent(Kind::TcpAck)),
    ]
    .into_iter()
    .filter(|&(name, count)| count > 0 || !(name.starts_with("probe") || name == "trimmed"))
    .collect();
    Meta {
        name: plan.name.clone(),
        seed: plan.run.seed,
        end_ps: world.fabric.run.simulated().0,
        complete,
        bin_ps: series.bin.0,
        recorded: series.detail,
        packet_hops: world.packet_hops(),
        events,
        packets,
        line_rate_bps: plan
            .hosts
            .iter()
            .enumerate()
            .map(|(index, host)| {
                (host.name.clone(), world.fabric.links[world.nics[index].port as usize].rate.0)
            })
            .collect(),
        faults,
        drops: drops(plan, world),
        conservation,
        pauses: pauses(world),
        pause_storms: pause_storms(world),
        queues,
        cpu: super::tcp::cpus(plan, world),
        veth: super::veth::meta(plan, world),
        latency: latency(plan, world),
        bridge_cores: super::bridges::cores(plan, world),
        jobs: Vec::new(),
        skipped: Vec::new(),
    }
}

fn latency(plan: &Plan, world: &World) -> Vec<Latency> {
    let row = |test: &LatencyTest| {
        let mut sorted: Vec<u64> = test.round_trips.iter().map(|time| time.0 / 2).collect();
        sorted.sort_unstable();
        let writer = &plan.writers[world.nics.send_qps[test.qp as usize].writer as usize];
        let last = sorted.len().checked_sub(1)?;
        Some(Latency {
            item: writer.item.clone(),
            src: writer.src.clone(),
            dst: writer.dst.clone(),
            iterations: sorted.len(),
            min_ps: sorted[0],
            median_ps: sorted[sorted.len() / 2],
            p99_ps: sorted[last.min(sorted.len() * 99 / 100)],
            max_ps: sorted[last],
        })
    };
    world.nics.latency_tests.iter().filter_map(row).collect()
}

fn faults(plan: &Plan, world: &World) -> Vec<Fault> {
    let mut faults = Vec::new();
    for &at in &world.fabric.lossless_drops {
        let (port, class) = port_and_class(at);
        let owner = world.fabric.ports[port].owner as usize;
        let name = drop_place(plan, world, port, class, DropReason::ReceiveBufferFull);
        let host_path =
            world.nics.nics.get(owner).and_then(|nic| world.nics.host_paths.get(nic.host_path as usize));
        let above_xoff = above_xoff(plan, world, port);
        let (place, what, bytes, enough) = match host_path {
            Some(host_path) => {
                let (size, xoff) = host_path.buffers.part_of(class);
                (name.clone(), "buffer", size, xoff.unwrap_or(0) + above_xoff)
            }
            None => {
                let link = &world.fabric.links[port];
                (format!("port {}", link.name), "headroom", link.headroom_bytes, above_xoff)
            }
        };
        let paused = host_path.map_or(1 << class, |host_path| host_path.buffers.paused_with(class));
        let why = not_paused(plan, world, port, class, paused);
        let remedy = match (why.is_empty(), host_path.is_some()) {
            (false, _) => format!("no {what} is enough{why}"),
            (true, false) => format!("{enough} B are enough at this port, as headroom: auto has them"),
            (true, true) => format!("{enough} B are enough with its xoff"),
        };
        let text = format!(
            "lossless priority {class} dropped packets at {place}: its {what} of {bytes} B overflowed; {remedy}"
        );
        faults.push(Fault {
            kind: "lossless_drop",
            r#where: name,
            node: node_name(plan, owner).to_string(),
            peer: peer_name(plan, world, port),
            text,
        });
    }
    if let Some((lanes, since)) = &world.deadlocks.found {
        let (first, _) = port_and_class(lanes[0]);
        let names: Vec<String> = lanes
            .iter()
            .map(|&at| port_and_class(at))
            .map(|(port, class)| egress_name(world, port, class))
            .collect();
        faults.push(Fault {
            kind: "deadlock",
            r#where: names[0].clone(),
            node: node_name(plan, world.fabric.ports[first].owner as usize).to_string(),
            peer: peer_name(plan, world, first),
            text: format!(
                "PFC deadlock: each waits for the next, and nothing has moved since {since}: {} -> {}",
                names.join(" -> "),
                names[0]
            ),
        });
    }
    faults
}

/// Bytes that may still come in by a port once a priority of it has to ask for a pause, as `headroom: auto` has them.
fn above_xoff(plan: &Plan, world: &World, port: usize) -> u64 {
    let (fabric, link) = (&world.fabric, &world.fabric.links[port]);
    let owner = fabric.ports[port].owner as usize;
    let latency = match owner.checked_sub(plan.hosts.len()) {
        Some(switch) => plan.switch_models[plan.switches[switch].model].latency,
        None => plan.nics[plan.hosts[owner].nic].rx_latency,
    };
    // The peer's clock may be fast, and this end's slow.
    let rate = Rate((link.rate.0 as f64 * (1.0 + 2e-6 * plan.run.clock_ppm)).ceil() as u64);
    headroom_bytes(rate, link.delay, fabric.pfc_response_delay[port], latency, largest_packet(plan, world))
}

/// Bytes on the wire of the largest packet of any priority: a pause waits for it.
fn largest_packet(plan: &Plan, world: &World) -> u32 {
    let controllers = world.nics.models.iter().flat_map(|model| &model.congestion);
    let telemetry = controllers.map(|controller| controller.telemetry_bytes()).max().unwrap_or(0);
    let frame = |nic: &NicPlan| {
        let tcp = nic.tcp.as_ref().map_or(0, |tcp| tcp_frame_bytes(tcp.mss(), 0));
        tcp.max(write_frame_bytes(nic.mtu.0 as u32, true) + telemetry)
    };
    plan.nics.iter().map(frame).max().unwrap_or(0) + PREAMBLE_AND_GAP_BYTES
}

/// Why pauses of the priorities `paused` do not stop all that the peer of a port sends and the port has in a class, in words
/// for a fault; empty if they do.
fn not_paused(plan: &Plan, world: &World, port: usize, class: u8, paused: u8) -> String {
    let p = &world.fabric.ports[port];
    let peer = world.fabric.links[p.peer as usize].name.split(':').next().unwrap_or_default();
    if world.fabric.is_bridge(p.peer as usize) {
        return format!("; a Linux bridge such as {peer} takes no pauses");
    }
    let (here, there) =
        (world.fabric.classes.of(p.owner as usize), world.fabric.classes.of(p.peer_owner as usize));
    let others = here.iter().zip(there).take(plan.code_points.len());
    let others = others.filter(|(&own, &other)| own == class && paused & (1 << other) == 0);
    let sent: BTreeSet<String> = others.map(|(_, other)| other.to_string()).collect();
    if sent.is_empty() {
        return String::new();
    }
    let sent: Vec<String> = sent.into_iter().collect();
    format!(
        "; no pause of it stops what {peer} sends in priority {} (host.qos and switch.qos differ)",
        sent.join(" or ")
    )
}

/// Queue at which packets were dropped.
fn drop_place(plan: &Plan, world: &World, port: usize, class: u8, reason: DropReason) -> String {
    let owner = world.fabric.ports[port].owner as usize;
    if world.fabric.is_bridge(port) && !reason.was_on_link() {
        let row = if reason == DropReason::Qdisc { "qdisc" } else { "rx-ring" };
        bridges::row_name(world, port, row)
    } else if reason == DropReason::ReceiveBufferFull && owner < plan.hosts.len() {
        format!("{}/nic-rx", plan.hosts[owner].name)
    } else if reason == DropReason::ReceiveRing {
        receive_name(plan, owner)
    } else if reason.is_ingress() {
        ingress_name(world, port, class)
    } else {
        egress_name(world, port, class)
    }
}

fn drops(plan: &Plan, world: &World) -> Vec<Drop> {
    let mut rows = Vec::new();
    for (at, reasons) in world.fabric.drops.iter() {
        let (port, class) = port_and_class(at);
        for (tally, reason) in reasons.iter().zip(DropReason::ALL).filter(|(tally, _)| tally.packets > 0) {
            rows.push(Drop {
                r#where: drop_place(plan, world, port, class, reason),
                node: node_name(plan, world.fabric.ports[port].owner as usize).to_string(),
                peer: peer_name(plan, world, port),
                reason: reason.text(),
                packets: tally.packets,
                bytes: tally.bytes,
            });
        }
    }
    rows
}

fn pauses(world: &World) -> Vec<Pause> {
    world
        .fabric
        .pause_logs
        .iter()
        .map(|(&at, log)| {
            let (port, class) = port_and_class(at);
            let sink = &world.fabric.pauses[at];
            Pause {
                port: world.fabric.links[port].name.clone(),
                priority: class,
                rx_frames: sink.frames,
                transitions: sink.transitions,
                paused_ps: sink.paused_until(world.fabric.run.now).0,
                max_share_of_a_second: log.max_share_of_a_second(),
                last_pause_ps: log.last.0,
            }
        })
        .collect()
}

fn pause_storms(world: &World) -> Vec<PauseStorm> {
    let rows = world.fabric.watchdogs.iter().filter_map(|(&at, watchdog)| {
        let (port, class) = port_and_class(at);
        let dropped = |reason| world.fabric.drops[at][reason as usize].packets;
        Some(PauseStorm {
            port: world.fabric.links[port].name.clone(),
            priority: class,
            detected: watchdog.detected,
            restored: watchdog.restored,
            first_ps: watchdog.first?.0,
            tx_dropped_packets: dropped(DropReason::PauseStormQueued) + dropped(DropReason::PauseStormEgress),
            rx_dropped_packets: dropped(DropReason::PauseStormIngress),
        })
    });
    rows.collect()
}
