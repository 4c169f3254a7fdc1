//! A rank at work: it goes forward layer by layer, and back again. Each layer computes and then has a collective. The rank
//! does not wait for the collectives of weight gradients, which take turns, the latest first.

use std::collections::HashMap;
use tailback_proto::units::Time;

use super::plan::{CollectiveKind, Group, LayerPart, SimaiPlan};
use crate::history::{Cause, History, TimeSpent, Timers};
use tailback_sim::work::{LayerRecord, Network, StepRecord};

/// Time from one step to the next, ns.
const STEP_NS: u64 = 1;

/// What a rank does before a collective.
const COMPUTE: StepRecord = StepRecord { kind: "compute", bytes: None, lane: 0 };

/// What a rank is notified of.
#[derive(Clone, Copy, Debug)]
pub(super) enum Timer {
    /// It goes on with the next step.
    Step,
    /// It goes on after computing.
    Computed,
    /// The memory has a piece, and takes this time in ns to reduce it.
    Memory(u32, Piece, u64),
    /// It has reduced a piece.
    Reduced(u32, Piece),
    /// A layer notices that its collective is over.
    Layer(LayerPart, u32, Time),
}

/// What a rank is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Pass(LayerPart),
    /// A forward pass again, before an input gradient.
    Again,
    /// All steps are done; collectives may still run.
    Rest,
}

/// A collective that the rank takes part in.
#[derive(Debug)]
struct Stream {
    layer: u32,
    part: LayerPart,
    /// When it was asked for, and when its turn came.
    begin: Time,
    begun: Time,
    step: StepRecord,
    exchange: Exchange,
}

/// A message that a rank sends in one of its collectives.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outgoing {
    pub stream: u32,
    pub from: u32,
    pub to: u32,
    pub bytes: u64,
    pub label: Label,
    pub cause: Cause,
}

/// What a rank needs while it acts.
pub(super) struct Context<'a> {
    pub plan: &'a SimaiPlan,
    pub network: &'a mut dyn Network,
    pub outgoing: &'a mut Vec<Outgoing>,
    pub history: &'a mut History,
    pub records: Option<&'a mut Vec<LayerRecord>>,
}

/// A rank.
#[derive(Debug)]
pub(super) struct Rank {
    rank: u32,
    state: State,
    layer: u32,
    computed: bool,
    issued: bool,
    went_back: bool,
    passed: bool,
    /// Time of all computation begun, ns.
    pub computed_ns: u64,
    timers: Timers<(Timer, Cause)>,
    /// Collectives by number, which is the same at all ranks.
    streams: HashMap<u32, Stream>,
    next_stream: u32,
    /// Messages of collectives that this rank has not begun.
    early: HashMap<u32, Vec<Label>>,
    /// Collectives that wait for their turn, the next one last: within groups of tensor parallelism, and among groups.
    waiting: [Vec<u32>; 2],
    running: [Option<u32>; 2],
    /// For each layer its weight gradients that are not over, and since when the rank waits for them.
    weights: HashMap<u32, u32>,
    waits_since: HashMap<u32, Time>,
    ended: u32,
    finished: bool,
}

impl Rank {
    pub fn new(rank: u32) -> Rank {
        Rank {
            rank,
            state: State::Pass(LayerPart::Forward),
            layer: 0,
            computed: false,
            issued: false,
            went_back: false,
            passed: false,
            computed_ns: 0,
            timers: Timers::default(),
            streams: HashMap::new(),
            next_stream: 0,
            early: HashMap::new(),
            waiting: Default::default(),
            running: [None; 2],
            weights: HashMap::new(),
            waits_since: HashMap::new(),
            ended: 0,
            finished: false,
        }
    }

    pub fn is_finished(&self) -> bool {
        self.finished
    }

    fn after(&mut self, ns: u64, timer: Timer, context: &mut Context) {
        let timer = (timer, context.history.chains.cause());
        self.timers.add(self.rank, Time(ns.saturating_mul(1000)), timer, context.network);
    }

    /// Acts on all that is noted for this instant, in order; more may be noted meanwhile.
    pub fn on_timers(&mut self, context: &mut Context) {
        let now = context.network.now();
        let mut place = 0;
        while let Some((timer, cause)) = self.timers.get(now, place) {
            place += 1;
            let took = match timer {
                Timer::Computed => TimeSpent::Compute,
                Timer::Reduced(..) => TimeSpent::Reduce,
                Timer::Step | Timer::Memory(..) | Timer::Layer(..) => TimeSpent::Delay,
            };
            context.history.chains.happens(cause, self.rank, now, took);
            match timer {
                Timer::Step | Timer::Computed => self.step(context),
                Timer::Memory(stream, piece, 0) | Timer::Reduced(stream, piece) => {
                    self.act(stream, context, |exchange, actions| exchange.on_memory(piece, actions));
                }
                Timer::Memory(stream, piece, ns) => self.after(ns, Timer::Reduced(stream, piece), context),
                Timer::Layer(part, layer, begin) => self.on_layer(part, layer, begin, context),
            }
            context.history.chains.over();
        }
        self.timers.end();
    }

    /// Goes on with its steps as far as possible.
    pub fn step(&mut self, context: &mut Context) {
        let layers = &context.plan.layers;
        if self.passed {
            self.state = State::Rest;
            if self.ended == self.next_stream {
                context.history.chains.finish();
                self.finished = true;
            } else if self.weights.contains_key(&0) {
                self.waits_since.entry(0).or_insert(context.network.now());
            }
            return;
        }
        let layer = &layers[self.layer as usize];
        let part = match self.state {
            State::Pass(part) => part,
            State::Again => LayerPart::Forward,
            State::Rest => return,
        };
        if part == LayerPart::Forward && self.weights.contains_key(&self.layer) {
            self.waits_since.entry(self.layer).or_insert(context.network.now());
            return;
        }
        if part == LayerPart::Input && layer.initiates && !self.went_back {
            let before = &layers[..self.layer as usize];
            let checkpoint = before.iter().rposition(|layer| layer.is_checkpoint);
            self.layer = checkpoint.expect("the plan was checked") as u32;
            self.state = State::Again;
            self.went_back = true;
            self.after(STEP_NS, Timer::Step, context);
            return;
        }
        if !self.computed {
            self.computed = true;
            let ns = layer.parts[part as usize].compute_ns;
            self.computed_ns += ns;
            if ns > 0 {
                let now = context.network.now();
                let end = Time(now.0.saturating_add(ns.saturating_mul(1000)));
                context.history.begins();
                context.history.does(self.rank, COMPUTE, now, end);
                self.after(ns, Timer::Computed, context);
                return;
            }
        }
        if !self.issued {
            self.issued = true;
            let is_issued = self.issue(part, context);
            if is_issued && part != LayerPart::Weight {
                return;
            }
        }
        (self.computed, self.issued) = (false, false);
        let last = layers.len() as u32 - 1;
        match self.state {
            State::Pass(LayerPart::Forward) if self.layer == last => {
                self.state = State::Pass(LayerPart::Input)
            }
            State::Pass(LayerPart::Forward) => self.layer += 1,
            State::Pass(LayerPart::Input) => {
                self.went_back = false;
                self.state = State::Pass(LayerPart::Weight);
            }
            State::Pass(LayerPart::Weight) if self.layer == 0 => self.passed = true,
            State::Pass(LayerPart::Weight) => {
                self.layer -= 1;
                self.state = State::Pass(LayerPart::Input);
            }
            State::Again => {
                self.layer += 1;
                if layers[self.layer as usize].initiates {
                    self.state = State::Pass(LayerPart::Input);
                }
            }
            State::Rest => {}
        }
        self.after(STEP_NS, Timer::Step, context);
    }

    /// Begins the collective of a part of the layer, if there is one.
    fn issue(&mut self, part: LayerPart, context: &mut Context) -> bool {
        let plan = context.plan;
        let Some(asked) = plan.layers[self.layer as usize].parts[part as usize].collective else {
            return false;
        };
        let Some(dimension) = plan.dimension(part) else { return false };
        // Without a group it was refused before the run.
        let Some(members) = Members::of(plan, asked.group, self.rank) else { return false };
        let exchange = Exchange::new(asked.kind, members, self.rank, asked.bytes, dimension, plan.pxn);
        let number = self.next_stream;
        self.next_stream += 1;
        let begin = context.network.now();
        let queue = (part == LayerPart::Weight) as usize;
        let step = StepRecord { kind: asked.kind.name(), bytes: Some(asked.bytes), lane: 1 + queue as u8 };
        let stream = Stream { layer: self.layer, part, begin, begun: begin, step, exchange };
        self.streams.insert(number, stream);
        if part == LayerPart::Weight {
            *self.weights.entry(self.layer).or_default() += 1;
        }
        self.waiting[queue].push(number);
        self.begin_next(queue, context);
        true
    }

    fn begin_next(&mut self, queue: usize, context: &mut Context) {
        if self.running[queue].is_some() {
            return;
        }
        let Some(number) = self.waiting[queue].pop() else { return };
        self.running[queue] = Some(number);
        context.history.begins();
        if let Some(stream) = self.streams.get_mut(&number) {
            stream.begun = context.network.now();
        }
        let early = self.early.remove(&number).unwrap_or_default();
        self.act(number, context, |exchange, actions| {
            exchange.begin(actions);
            for label in early {
                exchange.on_received(label, actions);
            }
        });
    }

    /// Lets a collective act, and carries out its actions.
    fn act(&mut self, number: u32, context: &mut Context, act: impl FnOnce(&mut Exchange, &mut Vec<Action>)) {
        let Some(stream) = self.streams.get_mut(&number) else { return };
        let mut actions = Vec::new();
        act(&mut stream.exchange, &mut actions);
        let (bytes, is_over) = (stream.exchange.bytes, stream.exchange.is_over());
        for action in actions {
            match action {
                Action::Wait(piece, ns) => {
                    self.after(TO_MEMORY_NS, Timer::Memory(number, piece, ns), context);
                }
                Action::Send(to, label) => {
                    let (stream, from, cause) = (number, self.rank, context.history.chains.cause());
                    context.outgoing.push(Outgoing { stream, from, to, bytes, label, cause });
                }
            }
        }
        if is_over {
            self.end(number, context);
        }
    }

    /// Ends a collective: its layer is notified, and the next collective begins.
    fn end(&mut self, number: u32, context: &mut Context) {
        let Some(stream) = self.streams.remove(&number) else { return };
        let Stream { layer, part, begin, begun, step, .. } = stream;
        context.history.does(self.rank, step, begun, context.network.now());
        let update = context.plan.layers[layer as usize].update_ns;
        self.after(update, Timer::Layer(part, layer, begin), context);
        let queue = (part == LayerPart::Weight) as usize;
        self.running[queue] = None;
        self.begin_next(queue, context);
    }

    /// A layer notices that its collective is over.
    fn on_layer(&mut self, part: LayerPart, layer: u32, begin: Time, context: &mut Context) {
        let now = context.network.now();
        let mut waited_since = Some(begin);
        if part == LayerPart::Weight {
            let left = self.weights.entry(layer).or_default();
            *left -= 1;
            if *left == 0 {
                self.weights.remove(&layer);
            }
            waited_since = self.waits_since.remove(&layer);
        }
        if let Some(records) = &mut context.records {
            let waited = waited_since.map_or(0, |since| now.ps() - since.ps());
            records.push(LayerRecord(layer, part as u8, begin.ps(), now.ps(), waited));
        }
        if waited_since.is_some() {
            self.step(context);
        }
        self.ended += 1;
        if self.state == State::Rest {
            self.step(context);
        }
    }

    /// A message for the rank has arrived.
    pub fn on_received(&mut self, number: u32, label: Label, context: &mut Context) {
        let has_begun = self.running.contains(&Some(number));
        if has_begun {
            self.act(number, context, |exchange, actions| exchange.on_received(label, actions));
        } else {
            self.early.entry(number).or_default().push(label);
        }
    }

    /// A message of the rank has left its NIC.
    pub fn on_sent(&mut self, number: u32, context: &mut Context) {
        self.act(number, context, |exchange, _| exchange.on_sent());
    }

    /// What the rank waits for, unless it has finished.
    pub fn waiting(&self, plan: &SimaiPlan) -> Option<String> {
        if self.finished {
            return None;
        }
        let running = self.running.iter().flatten().min()?;
        let stream = self.streams.get(running)?;
        let (to_send, to_receive) = stream.exchange.left();
        let name = &plan.layers[stream.layer as usize].name;
        Some(format!(
            "{}: rank {} waits in layer {} ({name}), {}: messages not sent: {to_send}, not received: {to_receive}",
            plan.file,
            self.rank,
            stream.layer,
            stream.part.name(),
        ))
    }
}

// One rank's part of a collective: which messages it sends once which others have arrived.
//
// A collective on rings is cut by ranks and by channels; a rank sends its next piece when a piece has arrived. A piece that
// arrives before the rank has sent its own piece with that number waits for that. An all-to-all sends everything at once.
// The memory handles a message before it is sent: the first of a cycle is only copied, the others are reduced.

/// Time in which the memory reads or writes, ns, whatever the size.
const ACCESS_NS: u64 = 10;

/// A message within a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub channel: u32,
    /// Its number in the channel; in an all-to-all its receiver's place in the group.
    pub step: u32,
    /// The rank that it is handed on to, if this rank only passes it on.
    pub to: Option<u32>,
}

/// What a message tells its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Label {
    pub channel: u32,
    pub step: u32,
    /// The rank that it is to be handed on to.
    pub hand_on: Option<u32>,
}

/// What a rank does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// The memory takes this long before a piece is sent.
    Wait(Piece, u64),
    /// A message goes to a rank.
    Send(u32, Label),
}

#[derive(Debug)]
struct Channel {
    ring: Neighbours,
    /// Pieces that this rank sent, whose counterparts it expects.
    sent: u32,
    /// Pieces that arrived before they were expected.
    early: Vec<u32>,
    /// Messages of the memory's current cycle: copied, and reduced.
    plain: u32,
    reduced: u32,
}

/// One rank's part of a collective.
#[derive(Debug)]
pub(super) struct Exchange {
    kind: CollectiveKind,
    members: Members,
    rank: u32,
    /// Size of each message.
    pub bytes: u64,
    channels: Vec<Channel>,
    /// Pieces of a channel that each rank sends.
    steps: u32,
    /// Messages of a cycle that are reduced: one fewer than the dimension has ranks.
    reduced_in_a_cycle: u32,
    odd_cycle: bool,
    /// Messages that have not left the NIC, and messages that have not arrived.
    to_send: u32,
    to_receive: u32,
}

impl Exchange {
    fn channels(kind: CollectiveKind, members: &Members) -> u32 {
        if kind == CollectiveKind::AllToAll {
            1
        } else {
            members.channels()
        }
    }

    /// Size of each message of a collective of `bytes`.
    pub fn message_bytes(kind: CollectiveKind, members: &Members, bytes: u64) -> u64 {
        bytes / members.count() as u64 / Self::channels(kind, members) as u64
    }

    /// `dimension`: its ranks, as the logical topology counts them.
    pub fn new(
        kind: CollectiveKind,
        members: Members,
        rank: u32,
        bytes: u64,
        dimension: u32,
        pxn: bool,
    ) -> Exchange {
        let count = members.count();
        let channels = Self::channels(kind, &members);
        let steps = if kind == CollectiveKind::AllReduce { 2 * (count - 1) } else { count - 1 };
        // SimAI's all-gather asks for PXN in a way that never finds it.
        let pxn = pxn && kind != CollectiveKind::AllGather;
        let bytes = Self::message_bytes(kind, &members, bytes);
        let channels: Vec<Channel> = (0..channels)
            .map(|channel| Channel {
                ring: members.ring(rank, channel, pxn),
                sent: 0,
                early: Vec::new(),
                plain: 0,
                reduced: 0,
            })
            .collect();
        let handed_on = channels.iter().filter(|channel| channel.ring.for_whom.is_some()).count() as u32;
        let all = if bytes == 0 { 0 } else { (channels.len() as u32 + handed_on) * steps };
        Exchange {
            kind,
            members,
            rank,
            bytes,
            channels,
            steps,
            reduced_in_a_cycle: dimension - 1,
            odd_cycle: false,
            to_send: all,
            to_receive: all,
        }
    }

    pub fn is_over(&self) -> bool {
        self.to_send == 0 && self.to_receive == 0
    }

    pub fn begin(&mut self, actions: &mut Vec<Action>) {
        if self.bytes == 0 {
            return;
        }
        if self.kind == CollectiveKind::AllToAll {
            for step in 0..self.members.count() {
                if self.members.ranks[step as usize] != self.rank {
                    self.wait(Piece { channel: 0, step, to: None }, actions);
                }
            }
            return;
        }
        for channel in 0..self.channels.len() as u32 {
            self.wait(Piece { channel, step: 0, to: None }, actions);
        }
    }

    /// Hands a piece to the memory.
    fn wait(&mut self, piece: Piece, actions: &mut Vec<Action>) {
        let channel = &mut self.channels[piece.channel as usize];
        if channel.plain == 0 && channel.reduced == 0 {
            (channel.plain, channel.reduced) = (1, self.reduced_in_a_cycle);
            self.odd_cycle = !self.odd_cycle;
        }
        let reduces = if channel.plain > 0 {
            channel.plain -= 1;
            false
        } else {
            channel.reduced -= 1;
            self.kind == CollectiveKind::ReduceScatter
                || self.kind == CollectiveKind::AllReduce && self.odd_cycle
        };
        actions.push(Action::Wait(piece, if reduces { 3 * ACCESS_NS } else { 0 }));
    }

    /// The memory is done with a piece. Pieces that arrived early count now.
    pub fn on_memory(&mut self, piece: Piece, actions: &mut Vec<Action>) {
        let Piece { channel: number, step, to } = piece;
        if let Some(to) = to {
            actions.push(Action::Send(to, Label { channel: number, step, hand_on: None }));
            return;
        }
        let channel = &mut self.channels[number as usize];
        if self.kind == CollectiveKind::AllToAll {
            channel.sent += 1;
            self.to_receive -= std::mem::take(&mut channel.early).len() as u32;
            let to = self.members.ranks[step as usize];
            actions.push(Action::Send(to, Label { channel: number, step, hand_on: None }));
            return;
        }
        channel.sent = step + 1;
        let ring = channel.ring;
        if let Some(at) = channel.early.iter().position(|&early| early == step) {
            channel.early.swap_remove(at);
            self.take(number, step, actions);
        }
        let (to, hand_on) = match ring.by {
            Some(by) => (by, Some(ring.next)),
            None => (ring.next, None),
        };
        actions.push(Action::Send(to, Label { channel: number, step, hand_on }));
    }

    /// A message has arrived.
    pub fn on_received(&mut self, label: Label, actions: &mut Vec<Action>) {
        let Label { channel: number, step, hand_on } = label;
        if hand_on.is_some() {
            self.to_receive -= 1;
            self.wait(Piece { channel: number, step, to: hand_on }, actions);
            return;
        }
        let channel = &mut self.channels[number as usize];
        let expected =
            if self.kind == CollectiveKind::AllToAll { channel.sent > 0 } else { step < channel.sent };
        if expected {
            self.take(number, step, actions);
        } else {
            channel.early.push(step);
        }
    }

    /// An expected piece has arrived: the next one may be sent.
    fn take(&mut self, channel: u32, step: u32, actions: &mut Vec<Action>) {
        self.to_receive -= 1;
        if self.kind != CollectiveKind::AllToAll && step + 1 < self.steps {
            self.wait(Piece { channel, step: step + 1, to: None }, actions);
        }
    }

    /// A message of this rank has left its NIC.
    pub fn on_sent(&mut self) {
        self.to_send -= 1;
    }

    /// How many messages it has not sent, and how many have not arrived.
    pub fn left(&self) -> (u32, u32) {
        (self.to_send, self.to_receive)
    }
}

/// Time until the memory has a piece that is handed to it, ns.
pub(super) const TO_MEMORY_NS: u64 = ACCESS_NS;

// The ranks that take part in a collective, and rings through their servers.
//
// A ring passes all ranks of a server before it goes to the next server. There are as many channels as ranks in a server.
// Each has its own ring, which enters every server at another rank.

/// The ranks of a group, in rising order; all servers have equally many of them.
#[derive(Clone, Debug)]
pub(super) struct Members {
    pub ranks: Vec<u32>,
    servers: u32,
}

/// A rank's place in the ring of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Neighbours {
    /// The rank that it sends to, and the rank that passes that on: the one of its own server in the receiver's rail.
    pub next: u32,
    pub by: Option<u32>,
    /// The rank that it receives from, which may pass on messages of another rank.
    pub previous: u32,
    /// The rank of its server that it passes messages on for.
    pub for_whom: Option<u32>,
}

impl Members {
    /// The group of a rank, if it has two or more ranks, equally many in each server.
    pub fn of(plan: &SimaiPlan, group: Group, rank: u32) -> Option<Members> {
        let SimaiPlan { tensor, expert, gpus, gpus_per_server, .. } = *plan;
        let (within, number) = (rank % tensor, rank / tensor);
        let ranks: Vec<u32> = match group {
            Group::Tensor => (0..tensor).map(|at| number * tensor + at).collect(),
            Group::Data => (0..gpus / tensor).map(|at| at * tensor + within).collect(),
            Group::Expert => {
                let first = number / expert * expert;
                (first..first + expert).map(|at| at * tensor + within).collect()
            }
            Group::DataExpert => (number % expert..gpus / tensor)
                .step_by(expert as usize)
                .map(|at| at * tensor + within)
                .collect(),
        };
        let mut servers: Vec<u32> = ranks.iter().map(|rank| rank / gpus_per_server).collect();
        servers.dedup();
        let servers = servers.len() as u32;
        let count = ranks.len() as u32;
        (count > 1 && count.is_multiple_of(servers)).then_some(Members { ranks, servers })
    }

    pub fn count(&self) -> u32 {
        self.ranks.len() as u32
    }

    /// Number of channels, which is the number of ranks in a server.
    pub fn channels(&self) -> u32 {
        self.count() / self.servers
    }

    /// A rank's neighbours in the ring of a channel.
    pub fn ring(&self, rank: u32, channel: u32, pxn: bool) -> Neighbours {
        let local = self.channels();
        let place = self.ranks.partition_point(|&other| other < rank) as u32;
        let (server, at) = (place / local, (place % local + local - channel) % local);
        let there = |server: u32, at: u32| {
            self.ranks[(server % self.servers * local + (at + channel) % local) as usize]
        };
        let (enters, leaves) = (at == 0, at == local - 1);
        let pxn = pxn && self.servers > 1 && local > 1;
        let before = server + self.servers - 1;
        Neighbours {
            next: if leaves { there(server + 1, 0) } else { there(server, at + 1) },
            by: (pxn && leaves).then(|| there(server, 0)),
            previous: match enters {
                true if pxn => there(before, 0),
                true => there(before, local - 1),
                false => there(server, at - 1),
            },
            for_whom: (pxn && enters).then(|| there(server, local - 1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(gpus: u32, gpus_per_server: u32, tensor: u32, expert: u32) -> SimaiPlan {
        let text = format!(
            r#"{{"file": "w", "gpus": {gpus}, "gpus_per_server": {gpus_per_server}, "nodes": {gpus},
                "tensor": {tensor}, "expert": {expert}, "layers": [], "send_latency_ns": 0, "pxn": false,
                "inside": null}}"#
        );
        serde_json::from_str(&text).expect("it is readable")
    }

    fn ranks(plan: &SimaiPlan, group: Group, rank: u32) -> Vec<u32> {
        Members::of(plan, group, rank).expect("it has several ranks").ranks
    }

    #[test]
    fn groups_cut_the_ranks_in_four_ways() {
        let plan = plan(16, 4, 2, 4);
        assert_eq!(ranks(&plan, Group::Tensor, 5), [4, 5]);
        assert_eq!(ranks(&plan, Group::Data, 5), [1, 3, 5, 7, 9, 11, 13, 15]);
        assert_eq!(ranks(&plan, Group::Expert, 5), [1, 3, 5, 7]);
        assert_eq!(ranks(&plan, Group::DataExpert, 5), [5, 13]);
    }

    #[test]
    fn a_ring_of_each_channel_goes_once_through_every_rank() {
        for (gpus, per_server) in [(8, 8), (16, 8), (16, 4), (6, 3), (4, 1)] {
            let plan = plan(gpus, per_server, gpus, 1);
            let members = Members::of(&plan, Group::Tensor, 0).expect("it has several ranks");
            assert_eq!(members.channels(), per_server);
            for channel in 0..members.channels() {
                let mut seen = vec![0];
                for _ in 1..gpus {
                    let here = seen[seen.len() - 1];
                    let next = members.ring(here, channel, false).next;
                    assert_eq!(members.ring(next, channel, false).previous, here);
                    seen.push(next);
                }
                assert_eq!(members.ring(seen[seen.len() - 1], channel, false).next, 0);
                seen.sort_unstable();
                assert_eq!(seen, members.ranks);
            }
        }
    }

    #[test]
    fn with_pxn_what_leaves_a_server_goes_through_the_rank_in_its_receivers_rail() {
        let plan = plan(8, 4, 8, 1);
        let members = Members::of(&plan, Group::Tensor, 0).expect("it has several ranks");
        // Channel 1 goes 1, 2, 3, 0 and on to 5.
        let last = members.ring(0, 1, true);
        assert_eq!((last.next, last.by), (5, Some(1)));
        let first = members.ring(5, 1, true);
        assert_eq!((first.previous, first.for_whom), (1, Some(4)));
        assert_eq!(members.ring(2, 1, true), members.ring(2, 1, false));
    }
}
