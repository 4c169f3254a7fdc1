//! A rank at work: it goes forward layer by layer, and back again. Each layer computes and then has a collective. The rank
//! does not wait for the collectives of weight gradients, which take turns, the latest first.

use std::collections::HashMap;
use tailback_proto::units::Time;

use super::exchange::{Action, Exchange, Label, Piece, TO_MEMORY_NS};
use super::groups::Members;
use super::plan::{Part, SimaiPlan};
use crate::compat::chain::{Cause, Took};
use crate::compat::history::History;
use crate::compat::timers::Timers;
use crate::work::{LayerRecord, Network, StepRecord};

/// Time from one step to the next, ns.
const STEP_NS: u64 = 1;

/// What a rank does before a collective.
const COMPUTE: StepRecord = StepRecord { kind: "compute", bytes: None, lane: 0 };

/// What a rank is told.
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
    Layer(Part, u32, Time),
}

/// What a rank is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Pass(Part),
    /// A forward pass again, before an input gradient.
    Again,
    /// All steps are done; collectives may still run.
    Rest,
}

/// A collective that the rank takes part in.
#[derive(Debug)]
struct Stream {
    layer: u32,
    part: Part,
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
            state: State::Pass(Part::Forward),
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
                Timer::Computed => Took::Compute,
                Timer::Reduced(..) => Took::Reduce,
                Timer::Step | Timer::Memory(..) | Timer::Layer(..) => Took::Delay,
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
            State::Again => Part::Forward,
            State::Rest => return,
        };
        if part == Part::Forward && self.weights.contains_key(&self.layer) {
            self.waits_since.entry(self.layer).or_insert(context.network.now());
            return;
        }
        if part == Part::Input && layer.initiates && !self.went_back {
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
            if is_issued && part != Part::Weight {
                return;
            }
        }
        (self.computed, self.issued) = (false, false);
        let last = layers.len() as u32 - 1;
        match self.state {
            State::Pass(Part::Forward) if self.layer == last => self.state = State::Pass(Part::Input),
            State::Pass(Part::Forward) => self.layer += 1,
            State::Pass(Part::Input) => {
                self.went_back = false;
                self.state = State::Pass(Part::Weight);
            }
            State::Pass(Part::Weight) if self.layer == 0 => self.passed = true,
            State::Pass(Part::Weight) => {
                self.layer -= 1;
                self.state = State::Pass(Part::Input);
            }
            State::Again => {
                self.layer += 1;
                if layers[self.layer as usize].initiates {
                    self.state = State::Pass(Part::Input);
                }
            }
            State::Rest => {}
        }
        self.after(STEP_NS, Timer::Step, context);
    }

    /// Begins the collective of a part of the layer, if there is one.
    fn issue(&mut self, part: Part, context: &mut Context) -> bool {
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
        let queue = (part == Part::Weight) as usize;
        let step = StepRecord { kind: asked.kind.name(), bytes: Some(asked.bytes), lane: 1 + queue as u8 };
        let stream = Stream { layer: self.layer, part, begin, begun: begin, step, exchange };
        self.streams.insert(number, stream);
        if part == Part::Weight {
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

    /// Ends a collective: its layer is told, and the next collective begins.
    fn end(&mut self, number: u32, context: &mut Context) {
        let Some(stream) = self.streams.remove(&number) else { return };
        let Stream { layer, part, begin, begun, step, .. } = stream;
        context.history.does(self.rank, step, begun, context.network.now());
        let update = context.plan.layers[layer as usize].update_ns;
        self.after(update, Timer::Layer(part, layer, begin), context);
        let queue = (part == Part::Weight) as usize;
        self.running[queue] = None;
        self.begin_next(queue, context);
    }

    /// A layer notices that its collective is over.
    fn on_layer(&mut self, part: Part, layer: u32, begin: Time, context: &mut Context) {
        let now = context.network.now();
        let mut waited_since = Some(begin);
        if part == Part::Weight {
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
            "{}: rank {} waits in layer {} ({name}), {}: {to_send} messages are not sent, {to_receive} not received",
            plan.file,
            self.rank,
            stream.layer,
            stream.part.name(),
        ))
    }
}
