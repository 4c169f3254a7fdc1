//! The recording of a run in the form that all runs have.
//!
//! Hosts are called h and their number, switches s and theirs, ports `node:peer`. Times count from the start of the
//! first flow.

use std::collections::BTreeMap;
use tailback_proto::units::Time;

use super::audit::audit;
use super::packet::{Kind, Packet, ON_WIRE};
use super::plan::Flow as FlowPlan;
use super::port::{Heard, LANES};
use super::series::{HOST_COUNTS, LANE_COUNTS, SWITCH_LANE_COUNTS};
use super::work::{WORK_PORT, WORK_PRIORITY};
use super::world::World;
use crate::record::counters::Rows;
use crate::record::quantity::bits_per_second;
use crate::record::readings::Readings;
use crate::record::series::Detail;
use crate::record::signals::{Signal, Signals, Who};
use crate::record::{Counter, Drop, Entity, Fault, Flow, FlowBlocks, Meta, Pause, Queue, Recording};
use crate::work::JobRecord;

impl Heard {
    /// Time paused, a pause that lasts included.
    pub fn paused_until(&self, now: u64) -> u64 {
        self.paused + self.since.map_or(0, |since| now - since)
    }
}

impl World {
    pub fn node_name(&self, node: u32) -> String {
        let is_host = self.hosts.binary_search(&node).is_ok();
        format!("{}{node}", if is_host { "h" } else { "s" })
    }

    pub fn port_name(&self, port: usize) -> String {
        let p = &self.ports[port];
        format!("{}:{}", self.node_name(p.node), self.node_name(self.ports[p.peer as usize].node))
    }

    pub fn egress_name(&self, port: usize, priority: u8) -> String {
        format!("{}/tc{priority}", self.port_name(port))
    }

    fn ingress_name(&self, port: usize, priority: u8) -> String {
        format!("{}/pg{priority}", self.port_name(port))
    }

    pub fn send_queue_name(&self, port: usize, priority: u8) -> String {
        format!("{}/sq{priority}", self.node_name(self.ports[port].node))
    }

    /// Priorities that flows have.
    pub fn priorities(&self) -> Vec<u8> {
        let of_work = self.work.as_ref().map(|_| WORK_PRIORITY);
        let mut priorities: Vec<u8> =
            self.plan.flows.iter().map(|flow| flow.2 as u8).chain(of_work).collect();
        priorities.sort_unstable();
        priorities.dedup();
        priorities
    }

    /// At the end of the run: packets and bytes that came in at a lane: what the peer sent, less what is on the wire.
    pub fn received(&self, at: usize) -> (u64, u64) {
        let (port, priority) = (at / LANES, at % LANES);
        let peer = self.ports[port].peer as usize;
        let sent = &self.lanes[peer * LANES + priority];
        let (packets, bytes) = self.on_wire.get(&at).copied().unwrap_or_default();
        (sent.tx_packets - packets, sent.tx_bytes - bytes)
    }

    /// Notes what is on the links.
    fn note_on_wire(&mut self) {
        let mut on_wire = std::mem::take(&mut self.on_wire);
        for packet in self.on_links() {
            let lane = packet.ingress as usize * LANES + packet.priority() as usize;
            let (packets, bytes) = on_wire.entry(lane).or_default();
            (*packets, *bytes) = (*packets + 1, *bytes + packet.wire as u64);
        }
        self.on_wire = on_wire;
    }

    /// Packets on links.
    pub fn on_links(&self) -> impl Iterator<Item = &Packet> {
        let late = self.packets.iter().filter(|packet| packet.next == ON_WIRE);
        let to_come = self.events.pending(&self.packets).map(|at| &self.packets[at]);
        let is_packet = |packet: &&Packet| !matches!(packet.kind, Kind::Sent | Kind::Wake | Kind::Event);
        late.chain(to_come).filter(is_packet)
    }

    /// Rate and alpha of a flow's queue pair now; 0 before it starts and after it is done.
    pub fn rate_and_alpha(&self, flow: usize) -> (f64, f64) {
        match self.send.get(flow) {
            Some(qp) if qp.number as usize == flow && qp.started && !qp.done => {
                let mut reaction = qp.reaction.clone();
                if let Some(parameters) = &self.reaction {
                    reaction.update_alpha(parameters, self.now);
                }
                (reaction.rate as f64, if self.reaction.is_some() { reaction.alpha } else { 0.0 })
            }
            _ => (0.0, 0.0),
        }
    }
}

/// Collects the recording at the end of a run.
pub(super) fn recording(
    world: &mut World,
    (mut read, detail): (Readings<World>, Detail),
    events: u64,
    complete: bool,
) -> Recording {
    let origin = world.origin;
    world.now = world.now.max(origin);
    world.note_on_wire();
    for lane in 0..world.heard.len() {
        if let Some(since) = world.heard[lane].since {
            let until = Time(world.now - origin);
            world.pause_logs.entry(lane).or_default().add(Time(since - origin), until);
        }
    }
    let (now, end) = (Time(world.now), Time(world.now - origin));
    if read.bins.span(now) > Time::ZERO {
        read.close_bin(world, (now, now), None);
    }
    let mut signals = Signals::default();
    let series = read.into_series(detail.text(false), |signal, entity, kind, values, bin| {
        signals.add_column(|| Who::at(signal, entity), kind, values, (bin, end));
    });
    signals.add_rest(end, counted_signals(world));
    let queues = queues(world);
    let (conservation, errors) = audit(world);
    let mut faults = lossless_drops(world);
    faults.extend(unfinished_work(world, complete));
    faults.extend(errors.into_iter().map(|(place, text)| Fault {
        kind: "conservation",
        text: format!("{place} {text}"),
        r#where: place,
        node: String::new(),
        peer: String::new(),
    }));
    let sent = |kind: Kind| world.transmissions.iter().map(|kinds| kinds[kind as usize]).sum();
    let kinds = [("data", Kind::Data), ("ack", Kind::Ack), ("nak", Kind::Nack), ("pfc", Kind::Pfc)];
    let line_rate = |node: u32| world.first_port(node).map_or(0, |port| world.ports[port].rate);
    let meta = Meta {
        name: world.plan.name.clone(),
        seed: world.plan.seed,
        end_ps: world.now - origin,
        complete,
        bin_ps: series.bin.0,
        recorded: series.detail,
        packet_hops: world.transmissions.iter().flatten().sum(),
        events,
        // That simulator has no CNP packets: the flag travels in ACKs.
        packets: kinds.into_iter().map(|(name, kind)| (name, sent(kind))).chain([("cnp", 0)]).collect(),
        line_rate_bps: world.hosts.iter().map(|&node| (world.node_name(node), line_rate(node))).collect(),
        faults,
        drops: drops(world),
        conservation,
        pauses: pauses(world),
        pause_storms: Vec::new(),
        queues,
        cpu: Vec::new(),
        veth: None,
        jobs: jobs(world),
        skipped: Vec::new(),
        latency: Vec::new(),
        bridge_cores: Vec::new(),
    };
    let ((blocks, flows), counters) = (flows(world), counters(world));
    Recording { blocks, flows, series, signals, counters, meta }
}

/// Signals of queues, which may have no series.
fn counted_signals(world: &World) -> impl Iterator<Item = (Signal, Entity, u64)> + '_ {
    let at_lane = |at: usize| {
        let (port, priority) = (at / LANES, (at % LANES) as u8);
        let (lane, (node, peer)) = (&world.lane_counters[at], ends(world, port));
        let egress = match world.ports[port].is_switch {
            true => world.egress_name(port, priority),
            false => world.send_queue_name(port, priority),
        };
        let queue = |name| Entity::new(name, "", node.clone()).towards(peer.clone());
        [
            (Signal::CeMark, queue(egress.clone()), lane.marked),
            (Signal::PfcPause, queue(egress), world.heard[at].paused_until(world.now)),
            (Signal::Drop, queue(world.ingress_name(port, priority)), lane.dropped + lane.lost),
        ]
    };
    let told = |at: &usize| {
        let lane = &world.lane_counters[*at];
        lane.marked + lane.dropped + lane.lost + world.heard[*at].paused_until(world.now) > 0
    };
    (0..world.lane_counters.len()).filter(told).flat_map(at_lane)
}

/// Every flow of the plan, those that had not started included, and every message of work. Those of a plan are grouped by
/// destination port, by which that simulator's users tell kinds of traffic apart; work has one.
fn flows(world: &mut World) -> (FlowBlocks, Vec<Flow>) {
    let mut rows = std::mem::take(&mut world.over.rows);
    let mut numbers: BTreeMap<u32, u32> = BTreeMap::new();
    for flow in 0..world.plan.flows.len() {
        let mut row = world.row(flow);
        let number = world.send.get(flow).map_or(flow, |qp| qp.number as usize);
        if world.work.is_none() {
            let of_port = numbers.entry(world.plan.flows[flow].3).or_default();
            row.qp = *of_port;
            *of_port += 1;
        }
        rows.put(number, row);
    }
    rows.finish()
}

impl World {
    /// The row of a flow that has this place.
    pub fn row(&self, flow: usize) -> Flow {
        let FlowPlan(src, dst, priority, dport, bytes, _) = self.plan.flows[flow];
        let pair = (self.send.get(flow), self.recv.get(flow));
        let started = pair.0.is_some_and(|qp| qp.started);
        let done = pair.0.is_some_and(|qp| qp.done);
        let send = |value: fn(&super::qp::SendQp) -> u64| pair.0.map_or(0, value);
        let recv = |value: fn(&super::qp::RecvQp) -> u64| pair.1.map_or(0, value);
        let (start, end) = (send(|qp| qp.start), if done { send(|qp| qp.end) } else { self.now });
        let ideal = self.standalone_ns(flow).saturating_mul(1000);
        let needed = send(|qp| qp.furthest as u64).div_ceil(self.plan.payload_bytes as u64);
        Flow {
            item: format!("port {dport}"),
            protocol: "roce",
            src: self.node_name(src),
            dst: self.node_name(dst),
            qp: send(|qp| qp.number as u64) as u32,
            priority: priority as u8,
            start_ps: started.then(|| start - self.origin),
            end_ps: done.then(|| end - self.origin),
            state: match (started, done) {
                (false, _) => "waiting",
                (true, false) => "running",
                (true, true) => "done",
            },
            message_bytes: Some(bytes),
            messages_posted: started as u64,
            messages_completed: done as u64,
            bytes_delivered: recv(|qp| qp.delivered),
            fct_ps: done.then(|| end - start),
            ideal_fct_ps: Some(ideal),
            goodput_bps: bits_per_second(recv(|qp| qp.delivered), Time(end.saturating_sub(start))),
            packets_sent: send(|qp| qp.packets_sent),
            packets_retransmitted: send(|qp| qp.packets_sent).saturating_sub(needed),
            packet_seq_err: send(|qp| qp.nacks),
            out_of_sequence: recv(|qp| qp.out_of_sequence),
            duplicate_request: recv(|qp| qp.duplicate),
            local_ack_timeout_err: send(|qp| qp.timeouts),
            rp_cnp_handled: send(|qp| qp.cnps),
            np_cnp_sent: recv(|qp| qp.cnp_sent),
            np_ecn_marked_roce_packets: recv(|qp| qp.marked),
            rate_bps: Some(send(|qp| qp.reaction.rate) as f64),
            ..Flow::default()
        }
    }
}

/// What became of the work, on the hosts that are its ranks.
fn jobs(world: &World) -> Vec<JobRecord> {
    let mut jobs = world.work.as_ref().map_or_else(Vec::new, |work| work.jobs());
    for job in &mut jobs {
        job.item = format!("port {WORK_PORT}");
        job.hosts = (0..job.finished_ps.len() as u32).map(|rank| world.node_name(rank)).collect();
    }
    jobs
}

/// Ranks that wait for what never comes: nothing was left that could happen.
fn unfinished_work(world: &World, complete: bool) -> Vec<Fault> {
    let waiting = world.work.as_ref().filter(|_| complete).map_or_else(Vec::new, |work| work.waiting());
    let fault = |(host, text): (u32, String)| {
        let node = world.node_name(host);
        Fault { kind: "unfinished", r#where: node.clone(), node, peer: String::new(), text }
    };
    waiting.into_iter().map(fault).collect()
}

fn lossless_drops(world: &World) -> Vec<Fault> {
    let lanes = world.lane_counters.iter().enumerate().filter(|(_, lane)| lane.dropped > 0);
    lanes
        .map(|(at, lane)| {
            let name = world.ingress_name(at / LANES, (at % LANES) as u8);
            let text = format!(
                "{name} dropped {} packets: no room in the shared buffer and in its headroom",
                lane.dropped
            );
            let (node, peer) = ends(world, at / LANES);
            Fault { kind: "lossless_drop", r#where: name, node, peer, text }
        })
        .collect()
}

/// The node of a port, and the one at its other end.
fn ends(world: &World, port: usize) -> (String, String) {
    let p = &world.ports[port];
    (world.node_name(p.node), world.node_name(world.ports[p.peer as usize].node))
}

fn drops(world: &World) -> Vec<Drop> {
    let drop = |at: usize, reason, packets, bytes| {
        let (node, peer) = ends(world, at / LANES);
        Drop {
            r#where: world.ingress_name(at / LANES, (at % LANES) as u8),
            node,
            peer,
            reason,
            packets,
            bytes,
        }
    };
    let lanes = || world.lane_counters.iter().enumerate();
    let no_room = "no room in the shared buffer and in the headroom";
    let full = lanes().map(|(at, lane)| drop(at, no_room, lane.dropped, lane.dropped_bytes));
    let cut = "lost on the link, or the link was down";
    let lost = lanes().map(|(at, lane)| drop(at, cut, lane.lost, lane.lost_bytes));
    full.chain(lost).filter(|drop| drop.packets > 0).collect()
}

fn pauses(world: &World) -> Vec<Pause> {
    let logs = world.pause_logs.iter();
    logs.map(|(&at, log)| {
        let heard = &world.heard[at];
        Pause {
            port: world.port_name(at / LANES),
            priority: (at % LANES) as u8,
            rx_frames: heard.pauses + heard.resumes,
            transitions: heard.transitions,
            paused_ps: heard.paused_until(world.now),
            max_share_of_a_second: log.max_share_of_a_second(),
            last_pause_ps: log.last.0,
        }
    })
    .collect()
}

/// Every queue that lies on the route of a flow, receivers first.
fn queues(world: &mut World) -> Vec<Queue> {
    let mut found = std::mem::take(&mut world.over.queues);
    for flow in 0..world.send.len() {
        found.extend(world.queues_of(flow));
    }
    let of = |(order, at, kind)| queue(world, kind, at / LANES, (at % LANES) as u8, order);
    found.into_iter().map(of).collect()
}

fn queue(world: &World, kind: &'static str, port: usize, priority: u8, order: u32) -> Queue {
    let p = &world.ports[port];
    let marks = kind == "egress" && world.plan.ecn.enabled && priority != 0;
    Queue {
        queue: match kind {
            "send" => world.send_queue_name(port, priority),
            "egress" => world.egress_name(port, priority),
            _ => world.ingress_name(port, priority),
        },
        kind,
        node: world.node_name(p.node),
        port: world.port_name(port),
        peer: world.node_name(world.ports[p.peer as usize].node),
        priority,
        order,
        k_min_bytes: marks.then_some(p.kmin as u64),
        k_max_bytes: marks.then_some(p.kmax as u64),
        limit_bytes: p.is_switch.then_some((world.plan.buffer_mib as u64) << 20),
    }
}

fn counters(world: &mut World) -> Vec<Counter> {
    let now = Time(world.now);
    let mut rows = Rows::at_end(world, now);
    for host in 0..rows.bin.world.hosts.len() {
        let name = rows.bin.world.node_name(rows.bin.world.hosts[host]);
        rows.add(&name, "", |bin, add| (HOST_COUNTS.count)(bin.world, host, add));
    }
    for at in 0..rows.bin.world.lanes.len() {
        let (world, port) = (&*rows.bin.world, at / LANES);
        let (heard, is_switch) = (&world.heard[at], world.ports[port].is_switch);
        let traffic = world.lanes[at].tx_packets + world.received(at).0;
        if traffic + heard.pauses + heard.resumes + heard.sent == 0 {
            continue;
        }
        let name = if is_switch { world.port_name(port) } else { String::new() };
        rows.add_class(&world.node_name(world.ports[port].node), &name, (at % LANES) as u8, |bin, add| {
            (LANE_COUNTS.count)(bin.world, at, add);
            if is_switch {
                (SWITCH_LANE_COUNTS.count)(bin.world, at, add);
            }
        });
    }
    rows.rows
}
