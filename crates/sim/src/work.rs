//! Work: messages that wait for messages. Whoever plans it, such as a training job, is told when a message is done or a
//! time has come, and answers with new messages; a network carries them. Nothing here happens once a packet.

use serde::Serialize;
use tailback_proto::units::Time;

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
    /// Its queue pair: that of all messages of this item, channel and size between the two hosts; none: one of its own.
    pub channel: Option<u32>,
}

/// A network that carries messages between hosts during a run.
pub trait Network {
    /// Simulated time.
    fn now(&self) -> Time;
    /// Sends a message from now on. Its number.
    fn send(&mut self, message: &Message) -> u32;
    /// Calls [`Work::on_timer`] with `timer` after `delay`.
    fn call_after(&mut self, delay: Time, timer: u32);
    /// How a message came through so far. Asked while [`Work::on_sent`] or [`Work::on_done`] tells of it.
    fn passage(&self, message: u32) -> Passage;
}

/// How a message came through the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passage {
    /// What its way takes in an empty network, until its sender knows that it is there.
    pub ideal: Time,
    /// What its sender's link takes for it.
    pub link: Time,
    /// How long its sender's link was taken by other messages meanwhile.
    pub behind: Time,
    /// How long its sender's link was paused for its priority meanwhile.
    pub paused: Time,
    /// Packets of it that were sent again.
    pub resent: u64,
}

/// A message that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// Its number.
    pub message: u32,
    /// What its way takes in an empty network.
    pub ideal: Time,
    /// How long its sender's link was taken by messages posted before it, at its full rate.
    pub behind: Time,
    /// Packets that its queue pair sent again meanwhile.
    pub resent: u64,
}

/// A rank that has done all it had to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Its number.
    pub rank: u32,
    /// When.
    pub at: Time,
    /// How long it computed.
    pub computed: Time,
}

/// What ranks have to do, and how far they are.
pub trait Work: Send + Sync + std::fmt::Debug {
    /// The run begins.
    fn begin(&mut self, network: &mut dyn Network);
    /// A time has come.
    fn on_timer(&mut self, timer: u32, network: &mut dyn Network);
    /// A message is out of its sender's NIC; told by networks whose front end asks for it.
    fn on_sent(&mut self, _message: u32, _network: &mut dyn Network) {}
    /// A message is acknowledged to its last byte.
    fn on_done(&mut self, _message: u32, _network: &mut dyn Network) {}
    /// A message is in its receiver's memory.
    fn on_arrived(&mut self, _arrived: Arrived, _network: &mut dyn Network) {}
    /// Ranks that have finished, in this order.
    fn finished(&self) -> &[Finished];
    /// Whether nothing is left to do, or nothing can be done.
    fn is_over(&self) -> bool;
    /// Why the work cannot go on: one line.
    fn problem(&self) -> Option<&str>;
    /// Each rank that has not finished: its host, and in a line what it waits for.
    fn waiting(&self) -> Vec<(u32, String)>;
    /// What became of its jobs.
    fn jobs(&self) -> Vec<JobRecord> {
        Vec::new()
    }
    /// What its first rank has done of the layers of a workload, as it goes.
    fn layers(&self) -> &[LayerRecord] {
        &[]
    }
}

/// A collective of a layer at the first rank: layer, what of it (0 forward, 1 input gradient, 2 weight gradient), when it
/// was asked for, when its layer knew that it was over, and how long the rank waited for it, ps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerRecord(pub u32, pub u8, pub u64, pub u64, pub u64);

/// A job, and what became of it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct JobRecord {
    /// Its name.
    pub name: String,
    /// Its traffic item.
    pub item: String,
    /// By rank: its host.
    pub hosts: Vec<String>,
    /// Operations that there were, and that ended.
    pub operations: u64,
    /// See `operations`.
    pub ended: u64,
    /// When all ranks had taken all steps: once for each repetition, ps.
    pub iterations_ps: Vec<u64>,
    /// When each rank had done all it had to, ps; none: it has not.
    pub finished_ps: Vec<Option<u64>>,
    /// Its collectives and graphs in the order in which they ended, at most [`MOST_RECORDED`].
    pub parts: Vec<PartRecord>,
    /// What ranks did, in the order in which it ended or, of computing, began, and then what had not ended; the first
    /// [`MOST_SPANS`].
    pub spans: Vec<SpanRecord>,
    /// By step: how many of its collectives and graphs ended.
    pub parts_ended: Vec<u64>,
    /// Of inputs of another simulator, whose jobs have no steps of the plan and no parts; else none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inputs: Option<InputsRecord>,
}

/// What becomes of the inputs of another simulator: nodes of traces, or layers of a workload.
#[derive(Clone, Debug, Default, Serialize)]
pub struct InputsRecord {
    /// What steps of spans are.
    pub steps: Vec<StepRecord>,
    /// By rank: how long it computed, ps; none: it has not finished.
    pub computed_ps: Vec<Option<u64>>,
    /// What the rank waited for that finished last. None: ranks have not finished, or too many events were waited for at once to keep it.
    pub chain: Option<ChainRecord>,
}

/// What ranks do at a time.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct StepRecord {
    /// Computing, or which collective.
    pub kind: &'static str,
    /// Size of a message or a collective.
    pub bytes: Option<u64>,
    /// What a rank does in different lanes it does at a time: 0 that which computes, 1 that which communicates, 2 its CPU.
    pub lane: u8,
}

impl JobRecord {
    /// Keeps a span, if there is room.
    pub fn add(&mut self, span: SpanRecord) {
        if self.has_room() {
            self.spans.push(span);
        }
    }

    /// Whether there is room for a span.
    pub fn has_room(&self) -> bool {
        self.spans.len() < MOST_SPANS
    }
}

/// Most collectives of a job whose details are kept.
pub const MOST_RECORDED: usize = 10_000;

/// Most spans of a job that are kept.
pub const MOST_SPANS: usize = 100_000;

/// A step of a rank, computing or a collective: rank, repetition, step, when it began, and when it ended, if it did, ps.
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
    /// What the last rank waited for: the chain of operations that ended last, back to the beginning.
    pub path: PathRecord,
}

/// The chain of operations that a part ended with. Times are ps; all together are the part's time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PathRecord {
    /// Operations on it.
    pub operations: u32,
    /// Until its first rank took part.
    pub late_ps: u64,
    /// Computing.
    pub compute_ps: u64,
    /// Reducing.
    pub reduce_ps: u64,
    /// Messages inside of servers.
    pub domain_ps: u64,
    /// Messages in the network, as long as they take in an empty one.
    pub ideal_ps: u64,
    /// Messages in the network, behind those that the same sender had posted before.
    pub behind_ps: u64,
    /// Messages in the network, beyond all that: in queues, paused, or sent again.
    pub excess_ps: u64,
    /// Packets that were sent again on their queue pairs meanwhile.
    pub resent: u64,
    /// The messages that took most of that excess.
    pub worst: Vec<LateRecord>,
}

/// A chain of events in which each began when the one before it had happened, from the beginning of the run to the end of
/// the rank that finished last. Times are ps; all together are the time of that end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ChainRecord {
    /// The rank.
    pub rank: u32,
    /// When it finished.
    pub end_ps: u64,
    /// How many there are.
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
    /// The message that took longest beyond the empty network and what its sender's link was taken for, if one did.
    pub worst: Vec<LateRecord>,
    /// The last of them, in order: [`MOST_RECORDED`], or fewer in a long run.
    pub steps: Vec<ChainStep>,
}

/// An event of a chain: what took the time until it, whose rank's, of a message to whom, when it began and ended, ps.
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
    /// When it was posted, and when it had arrived.
    pub start_ps: u64,
    /// See `start_ps`.
    pub end_ps: u64,
    /// What it takes in an empty network.
    pub ideal_ps: u64,
    /// How long its sender's link was taken by messages posted before it.
    pub behind_ps: u64,
    /// Packets sent again on its queue pair meanwhile.
    pub resent: u64,
}

/// Messages of a chain that are named.
const MOST_NAMED: usize = 8;

impl LateRecord {
    /// What it took beyond an empty network and those before it, ps.
    pub(crate) fn excess(&self) -> u64 {
        (self.end_ps - self.start_ps).saturating_sub(self.ideal_ps + self.behind_ps)
    }

    /// Enters it among the messages that took most beyond what they take in an empty network, the worst first.
    pub(crate) fn keep(self, worst: &mut Vec<LateRecord>) {
        if self.excess() > 0 {
            let at = worst.partition_point(|one| one.excess() >= self.excess());
            worst.insert(at, self);
            worst.truncate(MOST_NAMED);
        }
    }
}
