//! What a run leaves behind: plain data.

use serde::Serialize;
use std::borrow::Cow;
use std::collections::BTreeMap;
use tailback_proto::units::Time;

use super::entity::Entity;
use super::flow::Flow;
use super::rows::FlowBlocks;
use super::signals::Signals;
use crate::work::JobRecord;

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
    /// Who told whom to wait.
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
    /// What was recorded, in words.
    pub detail: &'static str,
}

impl Series {
    /// Index into `entities`, metric and values of each column.
    pub fn columns(&self) -> impl Iterator<Item = (usize, &str, &[f64])> {
        let names = self.names.iter().enumerate();
        names.map(|(at, (entity, metric))| (*entity, &**metric, &self.values[at * self.bins..][..self.bins]))
    }

    /// Keeps the columns of entities that are used. `values` has all columns, and returns memory.
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
    /// Whether the run reached its end.
    pub complete: bool,
    /// Length of a bin of the time series.
    pub bin_ps: u64,
    /// What the time series cover, in words: in large fabrics that is not every queue.
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
    /// Half of a 95 % prediction interval, or the error that the packets after it showed, whichever is larger: of goodput,
    /// relative, at the receiver where it is largest.
    pub goodput_error: f64,
    /// The same for the mean length of egress queues.
    pub queue_error: f64,
    /// The same for CNPs and marks of the whole run.
    pub signal_error: f64,
    /// The same for single queue pairs, as the root of their mean square.
    pub qp_error: f64,
    /// Whether the packets after it agree with its estimate: `none` (no packet says), `confirmed`, `contradicted`.
    pub check: &'static str,
    /// How far these packets were from the estimate: of goodput, relative, where it differs most; null where none says.
    pub goodput_off: Option<f64>,
    /// The same for queues.
    pub queue_off: Option<f64>,
    /// The same for CNPs and marks of the whole run.
    pub signal_off: Option<f64>,
}

impl Skipped {
    /// Notes how far the packets after it are from the estimate, which they may contradict. Errors are at least that large.
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
    /// What became of the data packets.
    pub data_packets: DataPackets,
    /// Whether everything added up.
    pub ok: bool,
}

/// What became of the data packets that were sent.
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
    /// Packets that waited at the port or came for it.
    pub tx_dropped_packets: u64,
    /// Packets that came from it.
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

/// What a core did, as shares of the run, 0 to 1, under the names of `mpstat`; the rest was idle. A batch of work under way
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

/// What happened on the veth pairs.
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
    /// What removing the peer's NAPI at the end of the run does.
    pub teardown: Teardown,
}

/// What there is before and after the peer's NAPI is removed.
#[derive(Clone, Debug, Serialize)]
pub struct Teardown {
    /// Packets that were in the ring.
    pub freed_packets: u64,
    /// What byte queue limits had charged and not completed, before the removal.
    pub inflight_before: u32,
    /// The same after it.
    pub inflight_after: u32,
    /// Whether the queue was stopped before the removal.
    pub stopped_before: bool,
    /// The same after it.
    pub stopped_after: bool,
}

/// What became of the echo requests of a ping.
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

/// What a sender of datagrams or of XDP frames did.
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
