//! How a rank and its algorithms act on the rest of the world: they send, expect, and wait.

use tailback_proto::units::Time;

use super::plan::AstraPlan;
use crate::compat::chain::Cause;
use crate::compat::history::History;
use crate::compat::matching::Matching;
use crate::compat::timers::Timers;
use crate::engine::NumberMap;
use crate::work::{Message, Network};

/// First tag of messages of collectives; tags of a trace's own messages are below.
const COLLECTIVE_TAGS: i32 = 500_000_000;
/// The largest message: sizes are signed 32 bits there.
pub(super) const MOST_BYTES: u64 = i32::MAX as u64;

/// The time of a whole number of nanoseconds; `NEVER` if it is too large.
pub(super) fn time(ns: u64) -> Time {
    Time(ns.saturating_mul(1000))
}

/// The receiver that is told of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Receiver {
    Node(u64),
    Stream(u32),
}

/// A message under way, and the node that ends when the sender knows that it has arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub tag: i32,
    pub from: u32,
    pub to: u32,
    pub bytes: u64,
    pub node: Option<u64>,
    pub cause: Cause,
}

/// What all ranks share while one of them acts.
pub(super) struct Context<'a> {
    pub plan: &'a AstraPlan,
    pub network: &'a mut dyn Network,
    pub matching: &'a mut Matching<Receiver>,
    pub sent: &'a mut NumberMap<u32, Sent>,
    pub history: &'a mut History,
    pub problem: &'a mut Option<String>,
}

impl Context<'_> {
    pub fn now(&self) -> Time {
        self.network.now()
    }

    /// Sends a message; `node` ends with it. A message without bytes would never be acknowledged, in ASTRA-sim as here.
    pub fn send(&mut self, tag: i32, (from, to): (u32, u32), bytes: u64, node: Option<u64>) {
        if bytes > MOST_BYTES {
            let problem =
                format!("rank {from} sends {bytes} B to {to}: expected at most {MOST_BYTES} B in a message");
            self.problem.get_or_insert(problem);
            return;
        }
        if bytes > 0 {
            let message = Message { from, to, bytes, item: 0, code_point: 0, channel: None };
            let cause = self.history.chains.cause();
            self.sent.insert(self.network.send(&message), Sent { tag, from, to, bytes, node, cause });
        }
    }
}

/// The tag of a trace's own message.
pub(super) fn own_tag(tag: u32) -> i32 {
    tag as i32 % COLLECTIVE_TAGS
}

/// The tag of a stream's messages.
pub(super) fn stream_tag(number: i32) -> i32 {
    number % COLLECTIVE_TAGS + COLLECTIVE_TAGS
}

/// What a rank is told at some instant.
#[derive(Clone, Copy, Debug)]
pub(super) enum Timer {
    /// A node ends.
    Node(u64),
    /// The memory is done for a stream; if it has bytes to reduce, that comes first.
    Memory { stream: u32, reduces: Option<u64> },
    /// The memory has reduced for a stream.
    Reduced { stream: u32 },
}

/// What a stream's algorithm needs while it acts.
pub(super) struct Desk<'a, 'b> {
    pub rank: u32,
    pub stream: u32,
    pub tag: i32,
    /// Whether its group has only a part of the ranks, where the memory takes another time.
    pub local: bool,
    pub timers: &'a mut Timers<(Timer, Cause)>,
    pub context: &'a mut Context<'b>,
}

/// Wait before a message within a group that has only a part of the ranks, ns.
const LOCAL_DELAY: u64 = 10;

impl Desk<'_, '_> {
    /// Sends to a rank. Nothing waits for the end of the message.
    pub fn send(&mut self, to: u32, bytes: u64) {
        self.context.send(self.tag, (self.rank, to), bytes, None);
    }

    /// Expects bytes from a rank. True: they have arrived.
    pub fn expect(&mut self, from: u32, bytes: u64) -> bool {
        let receiver = Receiver::Stream(self.stream);
        self.context.matching.expect((self.tag, from, self.rank), bytes, receiver)
    }

    /// Waits for the memory.
    pub fn wait(&mut self, reduces: Option<u64>) {
        let delay = if self.local { LOCAL_DELAY } else { self.context.plan.endpoint_delay };
        let timer = Timer::Memory { stream: self.stream, reduces };
        let cause = self.context.history.chains.cause();
        self.timers.add(self.rank, time(delay), (timer, cause), self.context.network);
    }
}
