//! The recording of a run in the form that all runs have.
//!
//! Hosts are called h and their number, switches s and theirs, ports `node:peer`. Times count from the start of the
//! first flow.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::io::Write as _;
use std::path::PathBuf;
use tailback_proto::units::Time;

use super::calendar::EventKey;
use super::cc::AckControl;
use super::packet::{EntryKind, Packet, ON_WIRE};
use super::plan::{Flow as FlowPlan, HpccPlan, QueueMonitor};
use super::routing::address;
use super::switch::{Heard, LANES};
use super::work::{WORK_PORT, WORK_PRIORITY};
use super::world::{Fct, World};
use tailback_sim::engine::Fifo;
use tailback_sim::record::Rows;
use tailback_sim::record::{bits_per_second, Bin, ValueKind};
use tailback_sim::record::{
    Conservation, Counter, DataPackets, Drop, Entity, Fault, Flow, FlowBlocks, Meta, Pause, Queue, Recording,
};
use tailback_sim::record::{Detail, Readings, ShownSignal, FEW_BINS, FIRST_BIN, MAX_VALUES};
use tailback_sim::record::{Signal, SignalEnds, Signals};
use tailback_sim::work::JobRecord;
use tailback_sim::{counters_as, quantities_as};

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
        let is_packet =
            |packet: &&Packet| !matches!(packet.kind, EntryKind::Sent | EntryKind::Wake | EntryKind::Event);
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
        read.close_bin(world, (now, now));
    }
    let mut signals = Signals::default();
    let series = read.into_series(detail.text(false), |signal, entity, kind, values, bin| {
        signals.add_column(|| SignalEnds::at(signal, entity), kind, values, (bin, end));
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
    let sent = |kind: EntryKind| world.transmissions.iter().map(|kinds| kinds[kind as usize]).sum();
    let kinds = [
        ("data", EntryKind::Data),
        ("ack", EntryKind::Ack),
        ("nak", EntryKind::Nack),
        ("pfc", EntryKind::Pfc),
    ];
    // A host may have several links, and its flows use all of them; a node without a link has a rate of 0.
    let mut rates = vec![0; world.plan.nodes as usize];
    world.ports.iter().for_each(|port| rates[port.node as usize] += port.rate);
    let line_rate = |node: u32| rates[node as usize];
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
    let has_counts = |at: &usize| {
        let lane = &world.lane_counters[*at];
        lane.marked + lane.dropped + lane.lost + world.heard[*at].paused_until(world.now) > 0
    };
    (0..world.lane_counters.len()).filter(has_counts).flat_map(at_lane)
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
        let send = |value: fn(&crate::hpcc::host::SendQp) -> u64| pair.0.map_or(0, value);
        let recv = |value: fn(&crate::hpcc::host::RecvQp) -> u64| pair.1.map_or(0, value);
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
                "{name} had no room in the shared buffer and in its headroom; packets dropped: {}",
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

// What is recorded of hosts, queues and messages: how this engine reads what the simulator declares.
//
// Time of the series begins when the first flow starts: the simulator's files start at 2 s by custom.

quantities_as! {
    HOST of "host", |bin: World, host| {
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
    HOST_COUNTS, |world: World, host| {
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
    DELAY of "host", |bin: World, host| {
        "delay_probes": Count = bin.world.host_counters[host].delay_probes;
    }
}

quantities_as! {
    WIRE of "host", |bin: World, port| {
        "wire_tx_bps": Rate = bin.world.ports[port].tx_bytes;
        "wire_rx_bps": Rate = bin.world.ports[bin.world.ports[port].peer as usize].tx_bytes;
    }
}

quantities_as! {
    EGRESS of "egress", |bin: World, at| {
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
    SEND of "send", |bin: World, at| {
        "paused_share": Share = bin.world.heard[at].paused_until(bin.now.0);
    }
}

counters_as! {
    LANE_COUNTS, |world: World, at| {
        "tx_prio#_packets" = world.lanes[at].tx_packets;
        "tx_prio#_bytes" = world.lanes[at].tx_bytes;
        "rx_prio#_pause" = world.heard[at].pauses + world.heard[at].resumes;
        "rx_prio#_pause_duration" = ValueKind::Share.counted(world.heard[at].paused_until(world.now));
        "rx_prio#_pause_transition" = world.heard[at].transitions;
        "tx_prio#_pause" = world.heard[at].sent;
    }
}

counters_as! {
    SWITCH_LANE_COUNTS, |world: World, at| {
        "rx_prio#_packets" = world.received(at).0;
        "rx_prio#_bytes" = world.received(at).1;
        "ecn_marked_tc_#" = world.lane_counters[at].marked;
        "tc_no_buffer_discard_uc_tc_#" = world.lane_counters[at].dropped;
    }
}

quantities_as! {
    RATE of "message", |bin: World, flow| {
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
    let (mut read, detail) =
        match with_queues.filter(|read| read.column_count() * FEW_BINS.min(most) <= MAX_VALUES) {
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
        read.read_shown(ShownSignal {
            name: Cow::Borrowed("alpha"),
            kind: ValueKind::Now,
            read: alpha,
            at: flow,
        });
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

// That simulator's file of finished messages.

/// Its name.
pub const FCT_FILE: &str = "fct.txt";

/// Bytes of a line, about.
const LINE_BYTES: usize = 56;

/// `fct.txt`: a line a finished message. Addresses in hexadecimal, ports, bytes, start, completion time and its ideal, ns.
pub fn fct_text(rows: &[Fct]) -> String {
    let mut text = String::with_capacity(rows.len() * LINE_BYTES);
    for &Fct { src, dst, sport, dport, bytes, start_ns, fct_ns, standalone_ns } in rows {
        let (src, dst) = (address(src), address(dst));
        let line =
            format_args!("{src:08x} {dst:08x} {sport} {dport} {bytes} {start_ns} {fct_ns} {standalone_ns}\n");
        text.write_fmt(line).expect("a text takes all");
    }
    text
}

/// The file, while the run goes on.
#[derive(Debug)]
pub(super) struct FctFile {
    folder: PathBuf,
    file: Option<File>,
    failed: Option<io::Error>,
}

impl FctFile {
    /// It is in this folder as soon as it has a line.
    pub fn new(folder: PathBuf) -> FctFile {
        FctFile { folder, file: None, failed: None }
    }

    /// Takes messages, which leave.
    pub fn put(&mut self, rows: &mut Vec<Fct>) {
        if let Err(error) = self.write(rows) {
            self.failed.get_or_insert(error);
        }
        rows.clear();
    }

    fn write(&mut self, rows: &[Fct]) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(File::create_new(self.folder.join(FCT_FILE))?),
        };
        file.write_all(fct_text(rows).as_bytes())
    }

    pub fn failed(&mut self) -> Option<io::Error> {
        self.failed.take()
    }

    /// Takes the last messages, if there is a file, and says where that is.
    pub fn finish(&mut self, rows: &mut Vec<Fct>) -> io::Result<Option<PathBuf>> {
        if self.file.is_some() {
            self.put(rows);
        }
        let path = self.file.is_some().then(|| self.folder.join(FCT_FILE));
        self.failed.take().map_or(Ok(path), Err)
    }
}

// The queue-length file: how often each port of each switch was found with how many bytes waiting.

/// Between two samples, in ns.
const INTERVAL_NS: u64 = 100;

/// The counts are written where this divides the time, in ns.
const DUMP_NS: u64 = 100_000_000;

/// Width of a count, in bytes.
const BIN_BYTES: u32 = 1000;

/// After all that happens.
const NEVER: EventKey = EventKey::LAST;

/// Samples of all ports of switches.
#[derive(Debug, Default)]
pub(super) struct QueueLengths {
    start_ns: u64,
    /// The last instant that writes the counts, and the first that is not before the end: samples after either leave no trace.
    last_ns: Option<u64>,
    until_ns: u64,
    /// The next instant that writes them.
    dump_ns: u64,
    /// Ports of switches: node, number, place.
    ports: Vec<(u32, u16, usize)>,
    /// The next sample, in ps; none: at the end of time. It is no event: what the next one finds is as it was.
    pub next: EventKey,
    /// Samples so far.
    samples: u32,
    /// By port: up to which of them it is counted. What waits there has not changed since.
    counted: Vec<u32>,
    /// By port: how many samples found that many bytes, from [`BIN_BYTES`] on. All others found fewer.
    counts: Vec<Vec<u32>>,
    /// Priorities that flows have. Queue 0 does not count.
    priorities: Vec<usize>,
    /// The file so far.
    pub text: String,
}

impl QueueLengths {
    pub fn new(plan: &HpccPlan) -> Self {
        let Some(QueueMonitor(start_ns, end_ns)) = plan.queue_monitor else {
            return QueueLengths { next: NEVER, ..Self::default() };
        };
        // Samples go on until one is not before the end.
        let samples = end_ns.saturating_sub(start_ns).div_ceil(INTERVAL_NS);
        let last = start_ns.saturating_add(samples.saturating_mul(INTERVAL_NS)).min(plan.stop_ns);
        let last = last / DUMP_NS * DUMP_NS;
        let writes = start_ns <= last && (last - start_ns).is_multiple_of(INTERVAL_NS);
        let mut priorities: Vec<usize> = plan.flows.iter().map(|flow| flow.2 as usize).collect();
        priorities.sort_unstable();
        priorities.dedup();
        priorities.retain(|&priority| priority != 0);
        QueueLengths {
            start_ns,
            last_ns: writes.then_some(last),
            until_ns: last.min(end_ns),
            dump_ns: start_ns.div_ceil(DUMP_NS).saturating_mul(DUMP_NS),
            priorities,
            next: NEVER,
            ..Self::default()
        }
    }

    /// True if there is another sample to come.
    pub fn goes_on(&self) -> bool {
        self.next != NEVER
    }
}

impl World {
    /// The first sample, if any will be written.
    pub fn begin_queue_monitor(&mut self) {
        if self.queue_lengths.last_ns.is_none() {
            return;
        }
        let ports = self.ports.iter().enumerate().filter(|(_, port)| port.is_switch);
        self.queue_lengths.ports = ports.map(|(at, port)| (port.node, port.number, at)).collect();
        self.queue_lengths.ports.sort_unstable();
        self.queue_lengths.counts = vec![Vec::new(); self.ports.len()];
        self.queue_lengths.counted = vec![0; self.ports.len()];
        self.sample_next(self.queue_lengths.start_ns.saturating_mul(1000));
    }

    /// Samples queues at a time, unless it lies past the end of the run.
    fn sample_next(&mut self, at: u64) {
        self.queue_lengths.next = if at <= self.stop { self.events.reserve(at) } else { NEVER };
    }

    /// The queue at a switch's port is about to change: all samples since its last change found it as it is now.
    #[inline]
    pub fn count_samples(&mut self, port: usize) {
        let counted = self.queue_lengths.counted.get(port);
        if counted.is_some_and(|&counted| counted != self.queue_lengths.samples) {
            self.count(port);
        }
    }

    #[inline(never)]
    fn count(&mut self, port: usize) {
        let all = &mut self.queue_lengths;
        let samples = all.samples - std::mem::replace(&mut all.counted[port], all.samples);
        let waiting = |&priority: &usize| self.lanes[port * LANES + priority].egress;
        let bin = (all.priorities.iter().map(waiting).fold(0, u32::wrapping_add) / BIN_BYTES) as usize;
        let counts = &mut all.counts[port];
        if counts.len() < bin {
            counts.resize(bin, 0);
        }
        if bin > 0 {
            counts[bin - 1] += samples;
        }
    }

    /// All samples before the event that was taken now. `bookkeeping` is how many events there are that change no queue.
    #[inline(never)]
    pub fn sample_queues(&mut self, bookkeeping: usize) {
        while self.events.is_past(self.queue_lengths.next) {
            self.sample(bookkeeping);
        }
    }

    fn sample(&mut self, bookkeeping: usize) {
        let now = self.queue_lengths.next.time / 1000;
        self.queue_lengths.samples += 1;
        if now == self.queue_lengths.dump_ns {
            self.write_lengths(now);
            self.queue_lengths.dump_ns += DUMP_NS;
        }
        let all = &mut self.queue_lengths;
        if now >= all.until_ns {
            all.next = NEVER;
            return;
        }
        let mut next = now + INTERVAL_NS;
        // The one that was taken is to come, too.
        if self.events.len() < bookkeeping {
            // Nothing happens until the next instant that writes: the samples until then are like this one.
            next = all.dump_ns;
            all.samples += ((next - now) / INTERVAL_NS - 1) as u32;
        }
        self.sample_next(next * 1000);
    }

    fn write_lengths(&mut self, now: u64) {
        for at in 0..self.queue_lengths.ports.len() {
            self.count_samples(self.queue_lengths.ports[at].2);
        }
        let all = &mut self.queue_lengths;
        all.text += &format!("time: {now}\n");
        for &(node, number, port) in &all.ports {
            let counts = &all.counts[port];
            let others = all.samples - counts.iter().sum::<u32>();
            all.text += &format!("{node} {number} {others}");
            for count in counts {
                all.text += &format!(" {count}");
            }
            all.text.push('\n');
        }
    }
}

// The books: every queue and every switch holds what it says, and every data packet is somewhere.

/// The result, and what did not add up: place and text.
pub(super) fn audit(world: &World) -> (Conservation, Vec<(String, String)>) {
    let mut errors = Vec::new();
    let bytes = |list: &Fifo| list.iter(&world.packets).map(|packet| packet.wire as u64).sum::<u64>();
    let data = |list: &Fifo| {
        list.iter(&world.packets).filter(|packet| packet.kind == EntryKind::Data).count() as u64
    };
    let mut checked_queues = 0;
    let mut held = vec![(0u64, 0u64); world.switches.len()];
    for (at, lane) in world.lanes.iter().enumerate() {
        let port = &world.ports[at / LANES];
        let priority = (at % LANES) as u8;
        checked_queues += (lane.tx_packets > 0) as u64;
        // What a link took down with it is not given back to the buffer.
        if !port.is_switch || world.rerouted {
            continue;
        }
        if bytes(&lane.queue) != lane.egress as u64 {
            let text = format!("counts {} B but holds {} B", lane.egress, bytes(&lane.queue));
            errors.push((world.egress_name(at / LANES, priority), text));
        }
        let waiting = lane.queue.iter(&world.packets).map(|packet| (packet.wire as u64, packet.came));
        // The integral is in whole nanoseconds.
        let now = Time(world.now / 1000 * 1000);
        if let Some(text) = lane.law.judge(now, (lane.egress as u64, Time(lane.since)), waiting) {
            errors.push((world.egress_name(at / LANES, priority), text));
        }
        // The buffer's accounting leaves queue 0 out.
        if priority == 0 {
            continue;
        }
        let (ingress, egress) = &mut held[port.owner as usize];
        *ingress += lane.ingress as u64 + lane.headroom as u64;
        *egress += lane.egress as u64;
    }
    for (switch, (ingress, egress)) in held.into_iter().enumerate().filter(|(_, (i, e))| i != e) {
        let text = format!("accounts for {ingress} B that came in and {egress} B that wait to go out");
        errors.push((world.node_name(world.plan.switches[switch]), text));
    }
    let in_flight = world.lanes.iter().map(|lane| data(&lane.queue)).sum::<u64>()
        + world.on_links().filter(|packet| packet.kind == EntryKind::Data).count() as u64;
    let packets = DataPackets {
        sent: world.over.packets_sent + world.send.iter().map(|qp| qp.packets_sent).sum::<u64>(),
        delivered: world.delivered,
        dropped: world.data_lost,
        discarded_out_of_order: world.recv.iter().map(|qp| qp.out_of_sequence).sum(),
        discarded_duplicate: world.recv.iter().map(|qp| qp.duplicate).sum(),
        in_flight,
    };
    let found = packets.delivered
        + packets.dropped
        + packets.discarded_out_of_order
        + packets.discarded_duplicate
        + packets.in_flight;
    if found != packets.sent {
        errors.push(("the run".into(), format!("sent {} data packets and knows of {found}", packets.sent)));
    }
    (Conservation { checked_queues, data_packets: packets, ok: errors.is_empty() }, errors)
}

#[cfg(test)]
mod outputs_tests {
    use super::*;

    /// Addresses are 11.(id / 256).(id % 256).1.
    #[test]
    fn a_line_a_message() {
        let row = |src, dst| Fct {
            src,
            dst,
            sport: 10_000,
            dport: 100,
            bytes: 1,
            start_ns: 2,
            fct_ns: 3,
            standalone_ns: 4,
        };
        let text = fct_text(&[row(0, 1), row(255, 256), row(65_535, 0)]);
        let ends: Vec<&str> =
            text.lines().filter_map(|line| line.strip_suffix(" 10000 100 1 2 3 4")).collect();
        assert_eq!(ends, ["0b000001 0b000101", "0b00ff01 0b010001", "0bffff01 0b000001"]);
    }
}

#[cfg(test)]
mod queue_monitor_tests {
    use super::*;
    use crate::hpcc::plan::{Flow, Link, LinkDown};
    use crate::hpcc::routing::tests::network;
    use crate::hpcc::HpccSimulation;

    /// Counts that are kept by change are those that each sample finds: five senders, two priorities, marks, and a link that
    /// goes down and leaves its queues counted.
    #[test]
    fn every_sample_counts() {
        const HOSTS: u32 = 6;
        let links = (0..HOSTS).map(|host| Link(host, HOSTS, 100_000_000_000, 1000, 0.0));
        let mut plan = network(HOSTS + 1, vec![HOSTS], links.collect());
        plan.stop_ns = 1_000_000_000;
        plan.flows = (1..HOSTS)
            .map(|host| Flow(host, 0, 1 + host % 2, 100, 50_000 * host as u64, 99_960_000))
            .collect();
        plan.queue_monitor = Some(QueueMonitor(99_961_000, 100_000_000));
        for down in [None, Some(LinkDown(99_970_000, 0, HOSTS))] {
            plan.link_down = down;
            let mut simulation = HpccSimulation::new(&plan).expect("it is possible");
            let mut found = vec![vec![0; 1]; HOSTS as usize];
            let mut samples = 0;
            loop {
                // Samples between two events find what was there before the second.
                let world = &simulation.world;
                let waiting = |port: usize| {
                    let of = |priority: usize| world.lanes[port * LANES + priority].egress;
                    of(1) + of(2)
                };
                let ports = world.queue_lengths.ports.iter();
                let before: Vec<(u16, u32)> =
                    ports.map(|&(_, number, port)| (number, waiting(port))).collect();
                let done = simulation.advance(1).done;
                let more = simulation.world.queue_lengths.samples - samples;
                samples += more;
                for (number, bytes) in before.into_iter().filter(|_| more > 0) {
                    let bin = (bytes / BIN_BYTES) as usize;
                    let counts = &mut found[number as usize - 1];
                    counts.resize(counts.len().max(bin + 1), 0);
                    counts[bin] += more;
                }
                if done {
                    break;
                }
            }
            assert_eq!(samples, 391);
            let lines = found.iter().enumerate().map(|(port, counts)| {
                let words: Vec<String> = counts.iter().map(u32::to_string).collect();
                format!("{HOSTS} {} {}\n", port + 1, words.join(" "))
            });
            let expected = format!("time: 100000000\n{}", lines.collect::<String>());
            assert!(found[0].len() > 100, "no queue to speak of: {expected}");
            assert_eq!(simulation.finish().qlen, expected);
        }
    }
}

#[cfg(test)]
#[cfg(debug_assertions)]
mod audit_tests {
    use super::*;
    use crate::hpcc::plan::{Flow, Link};
    use crate::hpcc::routing::tests::network;
    use crate::hpcc::HpccSimulation;
    use tailback_sim::gauge::QueuedAt;

    /// Two hosts send to a third through a switch, at any priority: the queue of that priority is the one recorded as long.
    #[test]
    fn the_queue_of_every_priority_is_counted() {
        for priority in 0..LANES as u32 {
            let links = [0, 1, 2].map(|host| Link(host, 3, 100_000_000_000, 1000, 0.0));
            let mut plan = network(4, vec![3], links.to_vec());
            plan.flows =
                vec![Flow(0, 2, priority, 100, 1_000_000, 0), Flow(1, 2, priority, 101, 1_000_000, 0)];
            plan.stop_ns = 1_000_000;
            let mut simulation = HpccSimulation::new(&plan).expect("it is possible");
            simulation.advance(3_000);
            assert_eq!(audit(&simulation.world).1, []);
            let longest = simulation.world.lanes.iter().enumerate().max_by_key(|(_, lane)| lane.egress);
            let (at, lane) = longest.expect("there are lanes");
            assert_eq!(at % LANES, priority as usize);
            assert!(lane.egress > 10_000, "{}", lane.egress);
            while !simulation.advance(1_000_000).done {}
            assert!(simulation.world.lanes.iter().all(|lane| lane.egress == 0));
        }
    }

    /// Two hosts send to a third through a switch. In the middle of it a wait of a byte that is a nanosecond longer is noticed.
    #[test]
    fn queues_obey_littles_law() {
        let links = [0, 1, 2].map(|host| Link(host, 3, 100_000_000_000, 1000, 0.0));
        let mut plan = network(4, vec![3], links.to_vec());
        plan.flows = vec![Flow(0, 2, 3, 100, 1_000_000, 0), Flow(1, 2, 3, 101, 1_000_000, 0)];
        plan.stop_ns = 1_000_000;
        let mut simulation = HpccSimulation::new(&plan).expect("it is possible");
        simulation.advance(3_000);
        let world = &mut simulation.world;
        assert_eq!(audit(world).1, []);
        let at = world.lanes.iter().rposition(|lane| lane.egress > 0).expect("a queue stands");
        let now = Time(world.now);
        world.lanes[at].law.left(1, QueuedAt::at(now - Time(1000)), now);
        let name = world.egress_name(at / LANES, (at % LANES) as u8);
        let found: Vec<String> = audit(world).1.into_iter().map(|(place, _)| place).collect();
        assert_eq!(found, [name]);
    }
}
