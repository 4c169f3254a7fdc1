//! Work: messages that wait for messages. Its planner, such as a training job, hears when a message is done
//! or a time has come, and answers with new messages, which a network carries. Nothing here happens per
//! packet.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use tailback_proto::units::{Rate, Time};

/// A message to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Message {
    /// Host that sends it, by its node.
    pub from: u32,
    /// Host that receives it.
    pub to: u32,
    /// Its size.
    pub bytes: u64,
    /// Its traffic item.
    pub item: u32,
    /// Code point of data and ACKs.
    pub code_point: u8,
    /// Its queue pair: the one for all messages of this item, channel and size between the two hosts. None: a
    /// queue pair of its own.
    pub channel: Option<u32>,
}

/// A network that carries messages between hosts during a run.
pub trait Network {
    /// Simulated time.
    fn now(&self) -> Time;
    /// Sends a message from now on. Returns its number.
    fn send(&mut self, message: &Message) -> u32;
    /// Calls [`Work::on_timer`] with `timer` after `delay`.
    fn call_after(&mut self, delay: Time, timer: u32);
    /// How a message has come through so far. Call it from [`Work::on_sent`] or [`Work::on_done`] of the
    /// message.
    fn passage(&self, message: u32) -> Passage;
}

/// How a message came through the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passage {
    /// Time of the message in an empty network, until its sender knows that it has arrived.
    pub ideal: Time,
    /// How long it takes the sender's link.
    pub link: Time,
    /// How long the sender's link was taken by other messages meanwhile.
    pub behind: Time,
    /// How long the sender's link was paused for its priority meanwhile.
    pub paused: Time,
    /// Packets of the message that were sent again.
    pub resent: u64,
}

/// A message that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// Its number.
    pub message: u32,
    /// Time of the message in an empty network.
    pub ideal: Time,
    /// How long the sender's link, at its full rate, was taken by messages posted before it.
    pub behind: Time,
    /// Packets that its queue pair sent again meanwhile.
    pub resent: u64,
}

/// A rank that has done everything it had to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Its number.
    pub rank: u32,
    /// When it finished.
    pub at: Time,
    /// How long it computed.
    pub computed: Time,
}

/// The work of all ranks, and their progress.
pub trait Work: Send + Sync + std::fmt::Debug {
    /// The run begins.
    fn begin(&mut self, network: &mut dyn Network);
    /// A time has come.
    fn on_timer(&mut self, timer: u32, network: &mut dyn Network);
    /// A message has left its sender's NIC. Only some networks report this, for front ends that ask for it.
    fn on_sent(&mut self, _message: u32, _network: &mut dyn Network) {}
    /// A message is acknowledged to its last byte.
    fn on_done(&mut self, _message: u32, _network: &mut dyn Network) {}
    /// A message is in its receiver's memory.
    fn on_arrived(&mut self, _arrived: Arrived, _network: &mut dyn Network) {}
    /// Ranks that have finished, in the order in which they did.
    fn finished(&self) -> &[Finished];
    /// True if nothing is left to do, or nothing can be done.
    fn is_over(&self) -> bool;
    /// Why the work cannot go on: one line.
    fn problem(&self) -> Option<&str>;
    /// For each rank that has not finished: its host, and a line about what it waits for.
    fn waiting(&self) -> Vec<(u32, String)>;
    /// Results of the jobs.
    fn jobs(&self) -> Vec<JobRecord> {
        Vec::new()
    }
    /// Progress of the first rank through the layers of a workload.
    fn layers(&self) -> &[LayerRecord] {
        &[]
    }
}

/// A collective of a layer at the first rank: layer, kind (0 forward, 1 input gradient, 2 weight gradient),
/// when it was asked for, when its layer knew that it was over, and how long the rank waited for it, ps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerRecord(pub u32, pub u8, pub u64, pub u64, pub u64);

/// A job, and what became of it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct JobRecord {
    /// Its name.
    pub name: String,
    /// Its traffic item.
    pub item: String,
    /// The host of each rank.
    pub hosts: Vec<String>,
    /// All operations, and those that ended.
    pub operations: u64,
    /// See `operations`.
    pub ended: u64,
    /// When all ranks had taken all steps, for each repetition, ps.
    pub iterations_ps: Vec<u64>,
    /// When each rank had done everything it had to do, ps. None: it has not.
    pub finished_ps: Vec<Option<u64>>,
    /// Its collectives and graphs in the order in which they ended, at most [`MOST_RECORDED`].
    pub parts: Vec<PartRecord>,
    /// Operations of ranks, ordered by their end (computing: by its beginning), followed by those that had not
    /// ended; the first [`MOST_SPANS`].
    pub spans: Vec<SpanRecord>,
    /// For each step: how many of its collectives and graphs ended.
    pub parts_ended: Vec<u64>,
    /// Only for inputs of another simulator, whose jobs have neither steps of the plan nor parts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inputs: Option<InputsRecord>,
}

/// The outcome of another simulator's inputs: nodes of traces, or layers of a workload.
#[derive(Clone, Debug, Default, Serialize)]
pub struct InputsRecord {
    /// The steps that spans refer to.
    pub steps: Vec<StepRecord>,
    /// How long each rank computed, ps. None: it has not finished.
    pub computed_ps: Vec<Option<u64>>,
    /// The wait of the rank that finished last. None: ranks have not finished, or too many events were waited
    /// for at the same time to keep it.
    pub chain: Option<ChainRecord>,
}

/// Something that ranks do.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct StepRecord {
    /// Computing, or which collective.
    pub kind: &'static str,
    /// Size of a message or a collective.
    pub bytes: Option<u64>,
    /// Steps in different lanes of a rank run side by side: 0 computes, 1 communicates, 2 is its CPU.
    pub lane: u8,
}

impl JobRecord {
    /// Keeps a span, if there is room.
    pub fn add(&mut self, span: SpanRecord) {
        if self.has_room() {
            self.spans.push(span);
        }
    }

    /// True if there is room for a span.
    pub fn has_room(&self) -> bool {
        self.spans.len() < MOST_SPANS
    }
}

/// Most collectives of a job whose details are kept, and most events of a chain.
pub const MOST_RECORDED: usize = 10_000;

/// Most spans of a job that are kept.
pub const MOST_SPANS: usize = 100_000;

/// A step of a rank, computing or a collective: rank, repetition, step, when it began, and when it ended if
/// it did, ps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SpanRecord(pub u32, pub u32, pub u32, pub u64, pub Option<u64>);

/// A collective or a graph of operations that has ended. Times are ps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PartRecord {
    /// Which repetition, from 0.
    pub iteration: u32,
    /// Which step, from 0.
    pub step: u32,
    /// When its first rank took part.
    pub begin_ps: u64,
    /// When its last rank was done.
    pub end_ps: u64,
    /// The rank that was done last.
    pub slowest: u32,
    /// When the first rank was done.
    pub first_end_ps: u64,
    /// The critical path: the chain of operations that ended last, back to its beginning.
    pub chain: PartChainRecord,
}

/// The chain of operations at the end of a part. Times are ps; they add up to the part's time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PartChainRecord {
    /// Number of operations in the chain.
    pub operations: u32,
    /// Time until the first rank took part.
    pub late_ps: u64,
    /// Time of computing.
    pub compute_ps: u64,
    /// Time of reducing.
    pub reduce_ps: u64,
    /// Time of messages within servers.
    pub domain_ps: u64,
    /// Time of messages in the network, as far as they take it in an empty one.
    pub ideal_ps: u64,
    /// Time of messages in the network behind messages that the same sender had posted before.
    pub behind_ps: u64,
    /// Time of messages in the network beyond all that: in queues, paused, or sent again.
    pub excess_ps: u64,
    /// Packets that were sent again on their queue pairs meanwhile.
    pub resent: u64,
    /// The messages with most of that excess.
    pub worst: Vec<LateRecord>,
}

/// A chain of events from the beginning of the run to the end of the rank that finished last: each began when
/// the one before it had happened. Times are ps; they add up to the time of that end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ChainRecord {
    /// The rank.
    pub rank: u32,
    /// When it finished.
    pub end_ps: u64,
    /// Number of events.
    pub events: u64,
    /// Computing.
    pub compute_ps: u64,
    /// Fixed delays of end points before messages or between layers, and collectives that are only their recorded time.
    pub delay_ps: u64,
    /// Reducing.
    pub reduce_ps: u64,
    /// Messages inside of servers that the network does not carry.
    pub domain_ps: u64,
    /// Messages, as long as they take in an empty network.
    pub ideal_ps: u64,
    /// Messages beyond that, while their sender's link was taken by others.
    pub behind_ps: u64,
    /// Messages beyond that, while their sender's link was paused.
    pub paused_ps: u64,
    /// Messages beyond all that: in queues of the network, held back by their sender's window or rate, or sent again.
    pub queued_ps: u64,
    /// Packets that were sent again.
    pub resent: u64,
    /// The message with the longest time beyond the empty network and what its sender's link was taken for,
    /// if there is one.
    pub worst: Vec<LateRecord>,
    /// The last events, in order: [`MOST_RECORDED`], or fewer in a long run.
    pub steps: Vec<ChainStep>,
}

/// An event of a chain: what the time until it was spent on, whose rank it was, the receiver of a message,
/// and when it began and ended, ps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChainStep(pub &'static str, pub u32, pub Option<u32>, pub u64, pub u64);

/// A message that took longer than in an empty network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LateRecord {
    /// Ranks.
    pub from: u32,
    /// See `from`.
    pub to: u32,
    /// Its size.
    pub bytes: u64,
    /// When the message was posted, and when it had arrived.
    pub start_ps: u64,
    /// See `start_ps`.
    pub end_ps: u64,
    /// Time of the message in an empty network.
    pub ideal_ps: u64,
    /// How long the sender's link was taken by messages posted before it.
    pub behind_ps: u64,
    /// Packets sent again on the message's queue pair meanwhile.
    pub resent: u64,
}

/// Messages of a chain that are named.
const MOST_NAMED: usize = 8;

impl LateRecord {
    /// Time of the message beyond an empty network and the messages before it, ps.
    pub fn excess(&self) -> u64 {
        (self.end_ps - self.start_ps).saturating_sub(self.ideal_ps + self.behind_ps)
    }

    /// Enters it into the list of messages with the largest excess, the worst first, and of two alike the later one.
    pub fn keep(self, worst: &mut Vec<LateRecord>) {
        if self.excess() > 0 {
            let at = worst.partition_point(|one| one.excess() > self.excess());
            worst.insert(at, self);
            worst.truncate(MOST_NAMED);
        }
    }
}

// Links inside of servers, such as NVLink: a rank sends at one rate, one message after the other, and receives so, too.
//
// Leaves out: packets, and whatever a switch between them does. A message takes its latency and its bytes at the rate, and
// waits for those before it at both ends.

/// Links inside of servers: each rank sends, and receives, at one rate.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DomainPlan {
    /// Rate of a rank's link, each way.
    pub rate: Rate,
    /// From the first bit sent to the first bit received.
    pub latency: Time,
}

/// Until when the links of each host are taken: sending, and receiving.
#[derive(Debug, Default)]
pub struct DomainLinks(HashMap<u32, (Time, Time)>);

impl DomainLinks {
    /// A message is sent, behind those before it: when its first bit arrives.
    pub fn send(&mut self, domain: &DomainPlan, now: Time, from: u32, bytes: u64) -> Time {
        let sending = &mut self.0.entry(from).or_default().0;
        let begun = now.max(*sending);
        *sending = begun + domain.rate.serialization(bytes);
        begun + domain.latency
    }

    /// Its first bit has arrived: when the last one does, behind the messages that came before it.
    pub fn receive(&mut self, domain: &DomainPlan, now: Time, to: u32, bytes: u64) -> Time {
        let receiving = &mut self.0.entry(to).or_default().1;
        *receiving = now.max(*receiving) + domain.rate.serialization(bytes);
        *receiving
    }
}
