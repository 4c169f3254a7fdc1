//! A rank at work. It begins the nodes of its trace in the order of their numbers, as soon as the nodes that they wait for
//! are done and what they need is free. It has one CPU, one GPU for computing, and one place for a collective or a send;
//! receives need nothing.

use std::collections::BTreeMap;
use tailback_proto::units::Time;

use super::collective::{CollectiveRequest, Collectives, Machine, Phase};
use super::plan::{AstraPlan, Policy};
use super::trace::{Checked, Free, Need, Task, Window};
use crate::history::{Cause, History, Matching, TimeSpent, Timers};
use tailback_sim::engine::NumberMap;
use tailback_sim::work::{Finished, Message, Network};

/// A rank.
#[derive(Debug)]
pub(super) struct Rank {
    rank: u32,
    nodes: Window,
    /// Nodes that wait for nothing.
    free: Free,
    /// Nodes that have begun and not ended, and when they began.
    ongoing: BTreeMap<u64, Time>,
    busy: Busy,
    /// Time of all compute nodes begun, ns.
    computed: u64,
    timers: Timers<(Timer, Cause)>,
    collectives: Collectives,
    streams: Streams,
    /// For each collective's node its streams that have not finished.
    unfinished: NumberMap<u64, u64>,
    next_priority: i32,
    finished: bool,
    report: Option<Finished>,
}

/// Resources in use.
#[derive(Clone, Copy, Debug, Default)]
struct Busy {
    cpu: bool,
    computing: bool,
    communicating: bool,
}

impl Busy {
    fn may(mut self, need: Need) -> bool {
        self.need(need).is_none_or(|busy| !*busy)
    }

    fn need(&mut self, need: Need) -> Option<&mut bool> {
        match need {
            Need::Cpu => Some(&mut self.cpu),
            Need::Computing => Some(&mut self.computing),
            Need::Communicating => Some(&mut self.communicating),
            Need::Nothing => None,
        }
    }
}

impl Rank {
    /// A rank with a checked trace, whose groups and collectives may still be impossible.
    pub fn new(rank: u32, trace: Checked, plan: &AstraPlan) -> Result<Rank, String> {
        // Groups defined anywhere in the trace count for all of it here, so that errors are found before the run.
        let mut checked = Collectives::new(rank, plan);
        for (name, ranks) in trace.groups {
            checked.set_group(name, name.wrapping_add(1), ranks);
        }
        let mut collectives: Vec<_> = trace.collectives.into_iter().collect();
        collectives.sort_by_key(|collective| collective.1);
        for (asked, node) in collectives {
            checked.check(&asked, plan).map_err(|problem| format!("node {node}: {problem}"))?;
        }
        Ok(Rank {
            rank,
            nodes: trace.window,
            free: trace.free,
            ongoing: BTreeMap::new(),
            busy: Busy::default(),
            computed: 0,
            timers: Timers::default(),
            collectives: Collectives::new(rank, plan),
            streams: Streams::new(plan.dims.len() * plan.queues_per_dim as usize, plan.streams_per_queue()),
            unfinished: NumberMap::default(),
            next_priority: 0,
            finished: false,
            report: None,
        })
    }

    pub fn begin(&mut self, context: &mut Context) {
        self.issue(context);
        self.look_for_the_end(context);
    }

    pub fn take_finished(&mut self) -> Option<Finished> {
        self.report.take()
    }

    /// Acts on all that is noted for this instant, in order; more may be noted meanwhile.
    pub fn on_timers(&mut self, context: &mut Context) {
        let now = context.now();
        let mut place = 0;
        while let Some((timer, cause)) = self.timers.get(now, place) {
            place += 1;
            let took = match timer {
                Timer::Node(node) if self.nodes.get(node).is_some_and(|node| node.task.is_computing()) => {
                    TimeSpent::Compute
                }
                Timer::Node(_) | Timer::Memory { .. } => TimeSpent::Delay,
                Timer::Reduced { .. } => TimeSpent::Reduce,
            };
            context.history.chains.happens(cause, self.rank, now, took);
            match timer {
                Timer::Node(node) => self.on_node_done(node, context),
                Timer::Memory { stream, reduces: Some(bytes) } => {
                    let delay = time(context.plan.reduction(bytes));
                    let reduced = (Timer::Reduced { stream }, context.history.chains.cause());
                    self.timers.add(self.rank, delay, reduced, context.network);
                }
                Timer::Memory { stream, reduces: None } | Timer::Reduced { stream } => {
                    self.act(stream, context, |machine, desk| match machine {
                        Machine::Exchange(exchange) => exchange.on_memory(desk),
                        Machine::Tree(tree) => tree.on_memory(desk),
                    });
                }
            }
            context.history.chains.over();
        }
        self.timers.end();
    }

    pub fn on_received(&mut self, stream: u32, context: &mut Context) {
        self.act(stream, context, |machine, desk| {
            match machine {
                Machine::Exchange(exchange) => exchange.on_received(desk),
                Machine::Tree(tree) => tree.on_received(desk),
            }
            false
        });
    }

    /// A node has ended.
    pub fn on_node_done(&mut self, node: u64, context: &mut Context) {
        if self.finished {
            return;
        }
        self.release(node, context);
        self.issue(context);
        self.look_for_the_end(context);
    }

    /// Returns what a node needed, and frees the nodes that waited for it.
    fn release(&mut self, id: u64, context: &mut Context) {
        let begun = self.ongoing.remove(&id);
        let Some(node) = self.nodes.ends(id, &mut self.free) else { return };
        if let (Some(begun), Some(step)) = (begun, node.task.step(node.need)) {
            context.history.does(self.rank, step, begun, context.network.now());
        }
        if let Some(need) = self.busy.need(node.need) {
            *need = false;
        }
    }

    /// Begins all nodes that are free now and whose resource is. Nodes that become free meanwhile wait for the next call.
    fn issue(&mut self, context: &mut Context) {
        let (added, mut last) = (self.free.added(), None);
        while let Some((id, need)) = self.free.next(last, added, |need| self.busy.may(need)) {
            last = Some(id);
            if let Some(busy) = self.busy.need(need) {
                *busy = true;
            }
            self.free.remove(id, need);
            self.ongoing.insert(id, context.now());
            if let Err(problem) = self.nodes.begins(id, context.plan, self.rank) {
                let file = &context.plan.files[self.rank as usize];
                context.problem.get_or_insert(format!("{file}: {problem}"));
                return;
            }
            self.begin_node(id, context);
        }
    }

    fn begin_node(&mut self, id: u64, context: &mut Context) {
        let Some(node) = self.nodes.get(id) else { return };
        if node.task.step(node.need).is_some() {
            context.history.begins();
        }
        let rank = self.rank;
        match &node.task {
            Task::Nothing => self.release(id, context),
            Task::Groups(groups) => {
                for (name, ranks) in groups.clone() {
                    self.collectives.set_group(name, name.wrapping_add(1), ranks);
                }
                self.release(id, context);
            }
            &Task::Compute { ns } | &Task::Wait { ns } => {
                if node.task.is_computing() && node.need != Need::Cpu {
                    self.computed = self.computed.wrapping_add(ns);
                }
                let timer = (Timer::Node(id), context.history.chains.cause());
                self.timers.add(rank, time(ns), timer, context.network);
            }
            &Task::Send { to, bytes, tag } => {
                context.send(own_tag(tag), (rank, to), bytes, Some(id));
            }
            &Task::Receive { from, bytes, tag } => {
                let key = (own_tag(tag), from, rank);
                if context.matching.expect(key, bytes, Receiver::Node(id)) {
                    self.on_node_done(id, context);
                }
            }
            Task::Collective(asked) => {
                let asked = (**asked).clone();
                self.begin_collective(id, &asked, context);
            }
        }
    }

    fn begin_collective(&mut self, node: u64, asked: &CollectiveRequest, context: &mut Context) {
        let priority = match context.plan.policy {
            Policy::Lifo => self.next_priority,
            Policy::Fifo => -self.next_priority,
            Policy::Explicit => asked.priority,
        };
        self.next_priority = self.next_priority.wrapping_add(1);
        // The group may have changed since the trace was read; it was checked as it is in the end.
        let Ok(cut) = Collectives::cut(asked, context.plan) else { return };
        if cut.chunks > 0 {
            self.unfinished.insert(node, cut.chunks);
        }
        for _ in 0..cut.chunks {
            // If no dimension takes part, a collective never ends, in ASTRA-sim as here.
            let Some((tag, phases)) = self.collectives.chunk(asked, cut.bytes, context.plan) else { return };
            let stream = self.streams.add(Stream::new(tag, priority, node, phases));
            self.go_on(stream, context);
        }
    }

    /// Lets the algorithm of a stream act. When the phase is over, the stream goes on.
    fn act(&mut self, stream: u32, context: &mut Context, act: impl FnOnce(&mut Machine, &mut Desk) -> bool) {
        let found = self.streams.get(stream);
        let tag = found.tag;
        let Some(mut machine) = found.machine.take() else { return };
        let local = matches!(&machine, Machine::Exchange(exchange) if exchange.is_local());
        let mut desk =
            Desk { rank: self.rank, stream, tag: stream_tag(tag), local, timers: &mut self.timers, context };
        let is_over = act(&mut machine, &mut desk);
        self.streams.get(stream).machine = Some(machine);
        if is_over {
            self.go_on(stream, context);
        }
    }

    /// Moves a stream to its next phase, or ends it. A collective ends before the turn of its last stream is free.
    fn go_on(&mut self, stream: u32, context: &mut Context) {
        let found = self.streams.get(stream);
        let (before, is_last, node) = (found.queue, found.phases.is_empty(), found.node);
        if is_last {
            let unfinished = self.unfinished.entry(node).or_default();
            *unfinished -= 1;
            if *unfinished == 0 {
                self.unfinished.remove(&node);
                self.on_node_done(node, context);
            }
        }
        self.streams.leave(stream);
        let next = if is_last {
            self.streams.remove(stream);
            None
        } else {
            self.streams.enter_next(stream);
            self.streams.get(stream).queue
        };
        if let Some(before) = before {
            self.streams.free_turn(before);
        }
        for queue in before.into_iter().chain(next) {
            while let Some(begun) = self.streams.next_to_begin(queue) {
                self.act(begun, context, |machine, desk| {
                    match machine {
                        Machine::Exchange(exchange) => exchange.begin(desk),
                        Machine::Tree(tree) => tree.begin(desk),
                    }
                    false
                });
            }
        }
    }

    fn look_for_the_end(&mut self, context: &mut Context) {
        let Busy { cpu, computing, communicating } = self.busy;
        let idle = !cpu && !computing && !communicating;
        if !self.finished && self.free.is_empty() && self.ongoing.is_empty() && idle {
            self.finished = true;
            context.history.chains.finish();
            let (rank, at) = (self.rank, context.now());
            self.report = Some(Finished { rank, at, computed: time(self.computed) });
        }
    }

    /// What the rank waits for, unless it has finished.
    pub fn waiting(&self, plan: &AstraPlan) -> Option<String> {
        if self.finished {
            return None;
        }
        let file = &plan.files[self.rank as usize];
        let id = self.ongoing.keys().next().copied().or(self.free.first());
        let text = match id.and_then(|id| Some((id, self.nodes.get(id)?))) {
            Some((id, node)) => {
                format!("{file}: rank {} waits at node {id} ({})", self.rank, node.task.name())
            }
            None => format!("{file}: rank {} waits for nodes that nothing frees", self.rank),
        };
        Some(text)
    }
}

// How a rank and its algorithms act on the rest of the world: they send, expect, and wait.

/// First tag of messages of collectives; tags of a trace's own messages are below.
const COLLECTIVE_TAGS: i32 = 500_000_000;

/// The largest message: sizes are signed 32 bits there.
pub(super) const MOST_BYTES: u64 = i32::MAX as u64;

/// The time of a whole number of nanoseconds; `NEVER` if it is too large.
pub(super) fn time(ns: u64) -> Time {
    Time(ns.saturating_mul(1000))
}

/// The receiver that is notified of a message.
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

/// What a rank is notified of at some instant.
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
    /// True if its group has only a part of the ranks, where the memory takes another time.
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

// Streams take turns. In each queue a number of them run at the same time. A new one waits behind all that have begun,
// and behind those of the same or a higher priority.

/// A chunk of a collective on its way through its phases.
#[derive(Debug)]
pub(super) struct Stream {
    /// Tag of its messages.
    pub tag: i32,
    pub priority: i32,
    /// The collective's node.
    pub node: u64,
    /// Phases to come, in reverse order.
    pub phases: Vec<Phase>,
    /// The queue that it is in.
    pub queue: Option<u32>,
    begun: bool,
    /// Its current phase; `None` while that acts.
    pub machine: Option<Machine>,
}

impl Stream {
    pub fn new(tag: i32, priority: i32, node: u64, phases: Vec<Phase>) -> Stream {
        Stream { tag, priority, node, phases, queue: None, begun: false, machine: None }
    }
}

#[derive(Clone, Debug, Default)]
struct Queue {
    streams: Vec<u32>,
    running: usize,
}

/// A rank's streams and queues.
#[derive(Debug)]
pub(super) struct Streams {
    slots: Vec<Stream>,
    free: Vec<u32>,
    queues: Vec<Queue>,
    most_running: usize,
}

impl Streams {
    pub fn new(queues: usize, most_running: u32) -> Streams {
        let queues = vec![Queue::default(); queues];
        Streams { slots: Vec::new(), free: Vec::new(), queues, most_running: most_running as usize }
    }

    pub fn add(&mut self, stream: Stream) -> u32 {
        if let Some(at) = self.free.pop() {
            self.slots[at as usize] = stream;
            return at;
        }
        self.slots.push(stream);
        self.slots.len() as u32 - 1
    }

    pub fn remove(&mut self, at: u32) {
        self.free.push(at);
    }

    pub fn get(&mut self, at: u32) -> &mut Stream {
        &mut self.slots[at as usize]
    }

    /// Takes a stream out of its queue. Its turn there is not free yet.
    pub fn leave(&mut self, at: u32) {
        if let Some(queue) = self.slots[at as usize].queue {
            self.queues[queue as usize].streams.retain(|&stream| stream != at);
        }
    }

    /// Puts a stream into the queue of its next phase. False: there is no next phase.
    pub fn enter_next(&mut self, at: u32) -> bool {
        let stream = &mut self.slots[at as usize];
        let Some(Phase { queue, machine }) = stream.phases.pop() else { return false };
        stream.queue = Some(queue);
        stream.machine = Some(machine);
        stream.begun = false;
        let priority = stream.priority;
        let queue = &mut self.queues[queue as usize].streams;
        let goes_before = |&other: &u32| {
            let other = &self.slots[other as usize];
            !other.begun && other.priority < priority
        };
        let place = queue.iter().position(goes_before).unwrap_or(queue.len());
        queue.insert(place, at);
        true
    }

    /// Frees a turn of a queue.
    pub fn free_turn(&mut self, queue: u32) {
        self.queues[queue as usize].running -= 1;
    }

    /// Begins the next stream of a queue, if one may begin.
    pub fn next_to_begin(&mut self, queue: u32) -> Option<u32> {
        let queue = &mut self.queues[queue as usize];
        if queue.running >= self.most_running {
            return None;
        }
        let at = *queue.streams.get(queue.running)?;
        queue.running += 1;
        self.slots[at as usize].begun = true;
        Some(at)
    }
}
