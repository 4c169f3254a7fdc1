//! The recording of a run: plain data.

use serde::Serialize;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use tailback_proto::flow_control::pfc::headroom_bytes;
use tailback_proto::units::{Rate, Time};
use tailback_proto::wire::{tcp_frame_bytes, write_frame_bytes, PREAMBLE_AND_GAP_BYTES};

use super::flows::Flow;
use super::rows::FlowBlocks;
use super::series::{egress_name, ingress_name, receive_name};
use super::signals::Signals;
use crate::fabric::packet::PacketKind;
use crate::fabric::port::DropReason;
use crate::fabric::port_and_class;
use crate::linux::record::bridges;
use crate::plan::{NicPlan, Plan};
use crate::work::JobRecord;
use crate::workload::LatencyTest;
use crate::world::World;

/// Everything that was recorded.
#[derive(Debug)]
pub struct Recording {
    /// The first rows of the flow table, which has a row for each queue pair or TCP connection: full blocks of
    /// [`super::BLOCK_ROWS`].
    pub blocks: FlowBlocks,
    /// The rest of its rows.
    pub flows: Vec<Flow>,
    /// Time series.
    pub series: Series,
    /// The log of signals: marks, pauses, CNPs, NAKs, drops, with the nodes at both ends.
    pub signals: Signals,
    /// Counters of hosts and switch ports.
    pub counters: Vec<Counter>,
    /// The rest.
    pub meta: Meta,
}

/// Recorded time series: for each column a value a bin.
#[derive(Debug)]
pub struct Series {
    /// Hosts, queues, queue pairs, and whatever else has series.
    pub entities: Vec<Entity>,
    /// For each column the index into `entities`, and the metric.
    pub names: Vec<(usize, Cow<'static, str>)>,
    /// The values, column by column.
    pub values: Vec<f64>,
    /// Length of a bin; the last may be shorter.
    pub bin: Time,
    /// Bins in each column.
    pub bins: usize,
    /// Recorded parts of the fabric, in words.
    pub detail: &'static str,
}

impl Series {
    /// Index into `entities`, metric and values of each column.
    pub fn columns(&self) -> impl Iterator<Item = (usize, &str, &[f64])> {
        let names = self.names.iter().enumerate();
        names.map(|(at, (entity, metric))| (*entity, &**metric, &self.values[at * self.bins..][..self.bins]))
    }

    /// Removes columns that are not `used` from `values`, and frees their memory. Returns the rest.
    pub(crate) fn keep<T>(
        columns: impl Iterator<Item = T>,
        used: impl Fn(&T) -> bool,
        bins: usize,
        values: &mut Vec<f64>,
    ) -> Vec<T> {
        let mut kept = Vec::new();
        for (at, column) in columns.enumerate() {
            if used(&column) {
                values.copy_within(at * bins..(at + 1) * bins, kept.len() * bins);
                kept.push(column);
            }
        }
        values.truncate(kept.len() * bins);
        values.shrink_to_fit();
        kept
    }
}

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

/// The run as a whole.
#[derive(Clone, Debug, Serialize)]
pub struct Meta {
    pub name: String,
    pub seed: u64,
    pub end_ps: u64,
    /// True if the run reached its end.
    pub complete: bool,
    /// Length of a bin of the time series.
    pub bin_ps: u64,
    /// Coverage of the time series, in words: in large fabrics that is not every queue.
    pub recorded: &'static str,
    /// Packets put on a link.
    pub packet_hops: u64,
    pub events: u64,
    /// Transmissions by kind of packet.
    pub packets: BTreeMap<&'static str, u64>,
    pub line_rate_bps: BTreeMap<String, u64>,
    pub faults: Vec<Fault>,
    pub drops: Vec<Drop>,
    pub conservation: Conservation,
    pub pauses: Vec<Pause>,
    pub pause_storms: Vec<PauseStorm>,
    pub queues: Vec<Queue>,
    /// CPUs that served packets.
    pub cpu: Vec<Cpu>,
    /// Latency tests.
    pub latency: Vec<Latency>,
    /// Cores of Linux bridges.
    pub bridge_cores: Vec<BridgeCore>,
    /// Network namespaces joined by veth pairs.
    pub veth: Option<Veth>,
    /// Ranks whose messages wait for messages. Left out where there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<JobRecord>,
    /// Spans that were skipped. Left out where there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<Skipped>,
}

/// A span that was skipped.
#[derive(Clone, Debug, Serialize)]
pub struct Skipped {
    /// When it began.
    pub from_ps: u64,
    /// When it ended.
    pub to_ps: u64,
    /// Length of the sample that the estimate is from.
    pub observed_ps: u64,
    /// Packets of any kind put on a link meanwhile.
    pub packet_hops: u64,
    /// Relative error of goodput at the receiver where it is largest: half of a 95 % prediction interval, or what the
    /// packets after the span showed, whichever is larger.
    pub goodput_error: f64,
    /// The same for the mean length of egress queues.
    pub queue_error: f64,
    /// The same for CNPs and marks of the whole run.
    pub signal_error: f64,
    /// The same for single queue pairs, as the root of their mean square.
    pub qp_error: f64,
    /// Do the packets after the span agree with its estimate? `none` (there were none), `confirmed` or `contradicted`.
    pub check: &'static str,
    /// How far these packets were from the estimate: of goodput, relative, where it differs most; null where none says.
    pub goodput_off: Option<f64>,
    /// The same for queues.
    pub queue_off: Option<f64>,
    /// The same for CNPs and marks of the whole run.
    pub signal_off: Option<f64>,
}

impl Skipped {
    /// Notes how far off the estimate was, by the packets after the span. The errors become at least that large.
    pub(crate) fn check(&mut self, off: [f64; 3], contradicts: bool) {
        self.check = if contradicts { "contradicted" } else { "confirmed" };
        let [goodput, queue, signals] = off;
        (self.goodput_off, self.queue_off, self.signal_off) = (Some(goodput), Some(queue), Some(signals));
        self.goodput_error = self.goodput_error.max(goodput);
        self.queue_error = self.queue_error.max(queue);
        self.signal_error = self.signal_error.max(signals);
    }
}

/// A latency test: half of the measured round trips, as perftest reports them.
#[derive(Clone, Debug, Serialize)]
pub struct Latency {
    /// Traffic item.
    pub item: String,
    pub src: String,
    pub dst: String,
    /// Round trips.
    pub iterations: usize,
    pub min_ps: u64,
    pub median_ps: u64,
    pub p99_ps: u64,
    pub max_ps: u64,
}

/// Something that must not happen.
#[derive(Clone, Debug, Serialize)]
pub struct Fault {
    /// `lossless_drop`, `deadlock`, `unfinished` or `conservation`.
    pub kind: &'static str,
    /// Queue or port.
    pub r#where: String,
    /// The node where it happened; empty where no node is known.
    pub node: String,
    /// The node at the other end of its port.
    pub peer: String,
    /// One line in words.
    pub text: String,
}

/// Packets dropped at a queue for one reason.
#[derive(Clone, Debug, Serialize)]
pub struct Drop {
    /// Egress queue of the packets, or ingress group that had no room.
    pub r#where: String,
    /// The node that it is at.
    pub node: String,
    /// The node at the other end of its port.
    pub peer: String,
    /// In words.
    pub reason: &'static str,
    /// Packets dropped.
    pub packets: u64,
    /// Bytes of their frames.
    pub bytes: u64,
}

/// The result of checking the books.
#[derive(Clone, Debug, Serialize)]
pub struct Conservation {
    /// Queues that any packet passed.
    pub checked_queues: u64,
    /// Fates of the data packets.
    pub data_packets: DataPackets,
    /// True if everything added up.
    pub ok: bool,
}

/// Fates of the data packets that were sent.
#[derive(Clone, Debug, Serialize)]
pub struct DataPackets {
    pub sent: u64,
    pub delivered: u64,
    pub dropped: u64,
    pub discarded_out_of_order: u64,
    pub discarded_duplicate: u64,
    pub in_flight: u64,
}

/// How long a port was paused.
#[derive(Clone, Debug, Serialize)]
pub struct Pause {
    /// Port that was paused, `node:peer`.
    pub port: String,
    /// Priority.
    pub priority: u8,
    /// PFC frames received, resumes included.
    pub rx_frames: u64,
    /// Changes from paused to running.
    pub transitions: u64,
    /// Time paused.
    pub paused_ps: u64,
    /// Largest share of one second of the run, 0 to 1.
    pub max_share_of_a_second: f64,
    /// When the last pause ended.
    pub last_pause_ps: u64,
}

/// A port and priority whose PFC watchdog acted.
#[derive(Clone, Debug, Serialize)]
pub struct PauseStorm {
    /// Port, `node:peer`.
    pub port: String,
    /// Priority.
    pub priority: u8,
    /// Pause storms detected.
    pub detected: u64,
    /// Pause storms that are over.
    pub restored: u64,
    /// When the first was detected.
    pub first_ps: u64,
    /// Packets dropped that waited at the port or were to leave by it.
    pub tx_dropped_packets: u64,
    /// Packets dropped that had come in by the port.
    pub rx_dropped_packets: u64,
}

/// A queue: a place where bytes wait.
#[derive(Clone, Debug, Serialize)]
pub struct Queue {
    /// Name; also the entity of its time series.
    pub queue: String,
    /// `memory`, `gpu`, `iio`, `pcie`, `nic-rx`, `receive`, `egress`, `ingress`, `tx-ring`, `qdisc`, `rx-ring`, `veth-napi`,
    /// `veth-ring`, `veth-qdisc` or `send`.
    pub kind: &'static str,
    /// Host, switch or bridge.
    pub node: String,
    /// Port, `node:peer`.
    pub port: String,
    /// The node at the other end of it.
    pub peer: String,
    /// Class or priority group.
    pub priority: u8,
    /// Its place in the order of the chart: 0 at the receiver's memory, growing towards the sender.
    pub order: u32,
    /// ECN thresholds of an egress queue.
    pub k_min_bytes: Option<u64>,
    /// ECN thresholds of an egress queue.
    pub k_max_bytes: Option<u64>,
    /// Bytes that the queues of the switch, or of its pool, share.
    pub limit_bytes: Option<u64>,
}

/// The CPU of a host over the run.
#[derive(Clone, Debug, Serialize)]
pub struct Cpu {
    /// Host.
    pub host: String,
    /// Its cores.
    pub cores: Vec<CoreShares>,
}

/// Uses of a core, as shares of the run, 0 to 1, under the names of `mpstat`; the rest was idle. A batch of work under way
/// counts by the part that is done, evenly over all that it consists of.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct CoreShares {
    /// Interrupts.
    pub irq: f64,
    /// Polls and the protocol.
    pub softirq: f64,
    /// Copying to and from applications.
    pub system: f64,
}

/// A core of a bridge over the run, as shares of it, 0 to 1, under the names of `mpstat`; the rest was idle.
#[derive(Clone, Debug, Serialize)]
pub struct BridgeCore {
    /// Bridge.
    pub bridge: String,
    /// Number of the core.
    pub core: u32,
    /// Hard interrupts.
    pub irq: f64,
    /// Softirqs, ksoftirqd included.
    pub softirq: f64,
    /// Virtual CPUs.
    pub guest: f64,
    /// Hard interrupts taken.
    pub interrupts: u64,
    /// Polls of NAPI instances.
    pub polls: u64,
}

/// Results of the veth pairs.
#[derive(Clone, Debug, Serialize)]
pub struct Veth {
    pub ends: Vec<VethEnd>,
    pub pings: Vec<Pings>,
    pub senders: Vec<Sender>,
}

/// An end of a veth pair: its transmit queue, and the peer that polls its ring.
#[derive(Clone, Debug, Serialize)]
pub struct VethEnd {
    /// `from-to`.
    pub name: String,
    /// Counters by name.
    pub counters: BTreeMap<&'static str, u64>,
    /// Effect of removing the peer's NAPI at the end of the run.
    pub teardown: Teardown,
}

/// The queue before and after the peer's NAPI is removed.
#[derive(Clone, Debug, Serialize)]
pub struct Teardown {
    /// Packets that were in the ring.
    pub freed_packets: u64,
    /// Amount that byte queue limits had charged and not completed, before the removal.
    pub inflight_before: u32,
    /// The same after it.
    pub inflight_after: u32,
    /// True if the queue was stopped before the removal.
    pub stopped_before: bool,
    /// The same after it.
    pub stopped_after: bool,
}

/// Fates of the echo requests of a ping.
#[derive(Clone, Debug, Serialize)]
pub struct Pings {
    /// Traffic item.
    pub item: String,
    /// Who asks.
    pub src: String,
    /// Who answers.
    pub dst: String,
    /// Requests sent.
    pub sent: u64,
    /// Requests or answers that were dropped.
    pub lost: u64,
    /// When each request was sent, and its round trip; `None`: lost, or still on its way.
    pub samples: Vec<(u64, Option<u64>)>,
}

/// Results of a sender of datagrams or of XDP frames.
#[derive(Clone, Debug, Serialize)]
pub struct Sender {
    /// Traffic item.
    pub item: String,
    /// `udp` or `xdp`.
    pub kind: &'static str,
    /// Namespace of the sender.
    pub src: String,
    /// Namespace of the receiver.
    pub dst: String,
    /// Packets sent.
    pub sent: u64,
    /// Packets delivered.
    pub delivered: u64,
    /// Packets dropped.
    pub dropped: u64,
    /// How often the sender waited because its socket's buffer was full.
    pub waits: u64,
}

// What a recording says about the run as a whole.

pub(crate) fn meta(
    plan: &Plan,
    world: &World,
    series: &Series,
    queues: Vec<Queue>,
    events: u64,
    complete: bool,
) -> Meta {
    let (conservation, errors) = crate::record::audit::audit(plan, world);
    let mut faults = faults(plan, world);
    faults.extend(errors.into_iter().map(|(place, text)| Fault {
        kind: "conservation",
        text: format!("{place} {text}"),
        r#where: place,
        node: String::new(),
        peer: String::new(),
    }));
    let sent = |kind: PacketKind| world.fabric.transmissions[kind as usize];
    let packets = [
        ("data", sent(PacketKind::Data)),
        ("ack", sent(PacketKind::Ack)),
        ("nak", sent(PacketKind::Nak)),
        ("cnp", sent(PacketKind::Cnp)),
        ("pfc", world.fabric.pause_frames.sent),
        ("probe", sent(PacketKind::Probe)),
        ("probe_ack", sent(PacketKind::ProbeAck)),
        ("trimmed", sent(PacketKind::Trimmed)),
        ("tcp_data", sent(PacketKind::Tcp)),
        ("tcp_ack", sent(PacketKind::TcpAck)),
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
        cpu: crate::record::tcp::cpus(plan, world),
        veth: crate::linux::record::veth::meta(plan, world),
        latency: latency(plan, world),
        bridge_cores: crate::linux::record::bridges::cores(plan, world),
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

/// Bytes that may still arrive at a port after a priority has passed xoff, as `headroom: auto` computes them.
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

// What time series belong to.

/// Kinds of entities, and what each is.
pub const KINDS: [(&str, &str); 24] = [
    ("host", "a host, as `h3`"),
    ("namespace", "a network namespace of a veth pair, as `producer`"),
    ("item", "a traffic item, as `item:write0`; only in runs with two or more"),
    ("item-at-sender", "a traffic item at one of its senders, as `h3/write0`; only in runs with two or more"),
    ("queue-pair", "a queue pair, as `h3-h16/qp5`; `record.qps` of them have series, spread evenly over all"),
    ("message", "a queue pair with a single message, as `h3-h16/flow5`; `record.qps` of them have series"),
    ("connection", "a TCP connection, as `h3-h16/tcp5`; `record.qps` of them have series"),
    ("ping", "a ping between namespaces"),
    ("core", "a core of a Linux bridge, as `br0/cpu1`"),
    ("send", "queue of a class at a host, as `h3/sq3`: what its queue pairs posted and did not yet send"),
    ("egress", "egress queue of a switch's port, as `sw0:h16/tc3`"),
    ("ingress", "ingress group of a switch's port, as `sw0:h3/pg3`: the same bytes as in the egress queues, by where they came in"),
    ("receive", "receive rings of a host whose CPU serves TCP, as `h16/rx`"),
    ("nic-rx", "receive buffer of the NIC, of a host with `host.path`, as `h16/nic-rx`"),
    ("pcie", "PCIe link of such a host, as `h16/pcie`"),
    ("iio", "IIO of such a host, as `h16/iio`"),
    ("memory", "memory of such a host, as `h16/memory`"),
    ("gpu", "memory of the GPU that takes the place of the host's, as `h16/gpu`"),
    ("tx-ring", "transmit rings of a Linux bridge's port, as `br0:h1/tx-ring`"),
    ("qdisc", "queueing disciplines of a Linux bridge's port, as `br0:h1/qdisc`"),
    ("rx-ring", "receive rings of a Linux bridge's port, as `br0:h1/rx-ring`"),
    ("veth-napi", "packets that the NAPI instance of a veth end has taken from the ring, as `producer-consumer/napi`"),
    ("veth-ring", "ring of a veth end, as `producer-consumer/ring`"),
    ("veth-qdisc", "queueing discipline of a veth end, as `producer-consumer/qdisc`"),
];

/// A host, a queue, a queue pair or whatever else has time series: a row of the table of entities. It is compared and shown
/// by its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entity {
    /// Unique among all.
    pub name: String,
    /// One of [`KINDS`].
    pub kind: &'static str,
    /// Host, switch, bridge or namespace; of what lies between two, the sender. Empty for an item.
    pub node: String,
    /// The node at the other end of a port, or the receiver; empty: there is none.
    pub peer: String,
    /// Traffic item; empty: of all or of none.
    pub item: String,
}

impl Entity {
    pub fn new(name: impl Into<String>, kind: &'static str, node: impl Into<String>) -> Self {
        Entity { name: name.into(), kind, node: node.into(), ..Entity::default() }
    }

    /// The same towards another node.
    pub fn towards(self, peer: impl Into<String>) -> Self {
        Entity { peer: peer.into(), ..self }
    }

    /// The same of a traffic item.
    pub fn of_item(self, item: impl Into<String>) -> Self {
        Entity { item: item.into(), ..self }
    }
}

impl std::ops::Deref for Entity {
    type Target = str;
    fn deref(&self) -> &str {
        &self.name
    }
}

impl PartialEq<str> for Entity {
    fn eq(&self, name: &str) -> bool {
        self.name == name
    }
}

impl PartialEq<&str> for Entity {
    fn eq(&self, name: &&str) -> bool {
        self.name == *name
    }
}

impl std::fmt::Display for Entity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

/// The name of a node, counted over hosts, switches and bridges.
pub(crate) fn node_name(plan: &Plan, node: usize) -> &str {
    let (hosts, switches) = (plan.hosts.len(), plan.switches.len());
    match node.checked_sub(hosts) {
        None => &plan.hosts[node].name,
        Some(switch) if switch < switches => &plan.switches[switch].name,
        Some(other) => &plan.bridges[other - switches].name,
    }
}

/// Something at a port, towards its peer.
pub(crate) fn at_port(plan: &Plan, world: &World, name: String, kind: &'static str, port: usize) -> Entity {
    let port = &world.fabric.ports[port];
    Entity::new(name, kind, node_name(plan, port.owner as usize))
        .towards(node_name(plan, port.peer_owner as usize))
}

/// The name of the node at the other end of a port.
pub(crate) fn peer_name(plan: &Plan, world: &World, port: usize) -> String {
    node_name(plan, world.fabric.ports[port].peer_owner as usize).to_string()
}
