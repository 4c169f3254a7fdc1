//! A collective as chunks, and a chunk as phases: one for each dimension, or up to two in an all-reduce.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::plan::{
    shapes, Algorithm, AstraPlan, Branch, CollectiveKind, DimensionLayout, Implementation, Ring,
};
use super::rank::{Desk, MOST_BYTES};

/// The algorithm of a phase.
#[derive(Debug)]
pub(super) enum Machine {
    Exchange(Exchange),
    Tree(Tree),
}

/// A phase of a stream, and the queue that it waits in.
#[derive(Debug)]
pub(super) struct Phase {
    pub queue: u32,
    pub machine: Machine,
}

impl Phase {
    /// The largest message of a rank.
    fn message_bytes(&self) -> u64 {
        match &self.machine {
            Machine::Exchange(exchange) => exchange.message_bytes(),
            Machine::Tree(tree) => tree.bytes,
        }
    }
}

/// The next queue of a dimension: for collectives with one pass, and for the two passes of an all-reduce.
#[derive(Clone, Copy, Debug, Default)]
struct Turns {
    once: u32,
    there: u32,
    back: u32,
}

/// The dimensions of a kind of collective, for all ranks or a group, and their algorithms.
#[derive(Clone, Debug)]
struct Layout {
    shapes: Vec<DimensionLayout>,
    implementations: Vec<Implementation>,
}

/// A communicator group.
#[derive(Clone, Debug)]
struct Group {
    ranks: Arc<[u32]>,
    /// Number of its next stream.
    next_stream: i32,
    /// Layouts by kind, where the group does not have all ranks.
    layouts: HashMap<CollectiveKind, Layout>,
}

/// Stream numbers of a group begin at its number times this.
const GROUP_STREAMS: i32 = 1_000_000;

/// Dimensions that a group of all ranks can have.
const GROUP_DIMS: usize = 10;

/// A rank's view of all collectives.
#[derive(Debug)]
pub(super) struct Collectives {
    rank: u32,
    layouts: HashMap<CollectiveKind, Layout>,
    groups: HashMap<i32, Group>,
    turns: Vec<Turns>,
    next_stream: i32,
}

/// A collective that a trace requests.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct CollectiveRequest {
    pub kind: CollectiveKind,
    pub bytes: u64,
    /// Number of the group; 0 has all ranks.
    pub group: i32,
    pub priority: i32,
    /// Dimensions that take part.
    pub dims: Vec<bool>,
}

/// A chunk: the number of its stream, and its phases in reverse order.
pub(super) type Chunk = (i32, Vec<Phase>);

/// How a collective is cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    pub chunks: u64,
    pub bytes: u64,
}

impl Collectives {
    pub fn new(rank: u32, plan: &AstraPlan) -> Collectives {
        let turns = Turns { back: plan.queues_per_dim / 2, ..Turns::default() };
        Collectives {
            rank,
            layouts: HashMap::new(),
            groups: HashMap::new(),
            turns: vec![turns; plan.dims.len()],
            next_stream: 0,
        }
    }

    /// Sets the group with a name, and the number of its streams.
    pub fn set_group(&mut self, name: i32, number: i32, ranks: Vec<u32>) {
        let next_stream = number.wrapping_mul(GROUP_STREAMS);
        self.groups.insert(name, Group { ranks: ranks.into(), next_stream, layouts: HashMap::new() });
    }

    /// Cuts a collective: a chunk has at least a byte for each rank, and the last chunk is as long as the others.
    ///
    /// # Errors
    /// ASTRA-sim would never stop cutting.
    pub fn cut(asked: &CollectiveRequest, plan: &AstraPlan) -> Result<Cut, String> {
        if plan.splits == 0 {
            return Err("comm_size: expected preferred-dataset-splits in the system file".into());
        }
        let (mut bytes, mut chunk) = (asked.bytes, asked.bytes / plan.splits);
        if asked.kind != CollectiveKind::AllGather && chunk < plan.ranks() as u64 {
            chunk = plan.ranks() as u64;
            bytes = plan.splits.saturating_mul(chunk);
        }
        if chunk == 0 && bytes > 0 {
            return Err(format!(
                "comm_size: expected at least preferred-dataset-splits ({}), found {bytes}",
                plan.splits
            ));
        }
        Ok(Cut { chunks: if bytes == 0 { 0 } else { bytes.div_ceil(chunk) }, bytes: chunk })
    }

    /// True if a collective can be carried out.
    ///
    /// # Errors
    /// Which field is impossible, and why.
    pub fn check(&mut self, asked: &CollectiveRequest, plan: &AstraPlan) -> Result<(), String> {
        let cut = Self::cut(asked, plan)?;
        let layout = self.layout(asked, plan)?;
        if cut.chunks == 0 {
            return Err("comm_size: expected 1 B or more: without any a collective never ends".into());
        }
        let mut turns = vec![Turns::default(); layout.shapes.len()];
        let phases = layout.phases(asked, cut.bytes, plan, &mut turns);
        if phases.is_empty() {
            let field = if asked.group == 0 { "involved_dim" } else { "pg_name" };
            return Err(format!("{field}: expected two ranks or more to take part: alone none ends"));
        }
        match phases.iter().map(Phase::message_bytes).find(|&bytes| bytes > MOST_BYTES) {
            Some(bytes) => Err(format!(
                "comm_size: expected messages of at most {MOST_BYTES} B, found {} B, which sends {bytes} B in one",
                asked.bytes
            )),
            None => Ok(()),
        }
    }

    fn layout(&mut self, asked: &CollectiveRequest, plan: &AstraPlan) -> Result<&mut Layout, String> {
        let kind = asked.kind;
        let group = match asked.group {
            0 => None,
            number => {
                if let (false, Some(ranks)) = (self.groups.contains_key(&number), plan.groups.get(&number)) {
                    self.set_group(number, number, ranks.clone());
                }
                let unknown = || format!("pg_name: expected a group of the group file, found {number}");
                Some(self.groups.get_mut(&number).ok_or_else(unknown)?)
            }
        };
        let list = plan.implementations(kind).ok_or_else(|| {
            format!("comm_type: expected {}-implementation in the system file", kind.name())
        })?;
        let place = |problem: String| format!("comm_type: {}-implementation: {problem}", kind.name());
        let halving = |one: &Implementation| one.algorithm == Algorithm::HalvingDoubling;
        if kind == CollectiveKind::AllToAll && list.iter().any(halving) {
            return Err(place(
                "expected ring or direct: there is no all-to-all by halving and doubling".into(),
            ));
        }
        let part = group.filter(|group| group.ranks.len() as u32 != plan.ranks());
        let Some(group) = part else {
            let dims = if asked.group == 0 { asked.dims.len() } else { GROUP_DIMS };
            if !self.layouts.contains_key(&kind) {
                let shapes = shapes(plan, self.rank, list).map_err(place)?;
                self.layouts.insert(kind, Layout { shapes, implementations: list.to_vec() });
            }
            let layout = &self.layouts[&kind];
            if dims < layout.shapes.len() {
                return Err(format!("involved_dim: expected {} values, found {dims}", layout.shapes.len()));
            }
            return self.layouts.get_mut(&kind).ok_or_else(String::new);
        };
        if !group.layouts.contains_key(&kind) {
            let ring = Ring::listed(self.rank, &group.ranks).ok_or_else(|| {
                format!(
                    "pg_name: expected a group of rank {}, which group {} leaves out",
                    self.rank, asked.group
                )
            })?;
            let implementation = match list {
                [one] => *one,
                _ => Implementation { algorithm: Algorithm::Ring, window: None, of_all: false },
            };
            match implementation.algorithm {
                Algorithm::DoubleBinaryTree => {
                    return Err(place("expected another for a group of a part of the ranks".into()));
                }
                Algorithm::HalvingDoubling if !ring.size.is_power_of_two() => {
                    let text = format!("expected a power of two, found a group of {}", ring.size);
                    return Err(place(text));
                }
                _ => {}
            }
            let layout =
                Layout { shapes: vec![DimensionLayout::Ring(ring)], implementations: vec![implementation] };
            group.layouts.insert(kind, layout);
        }
        group.layouts.get_mut(&kind).ok_or_else(String::new)
    }

    /// The next chunk of a checked collective; `None` if no dimension takes part.
    pub fn chunk(&mut self, asked: &CollectiveRequest, bytes: u64, plan: &AstraPlan) -> Option<Chunk> {
        let mut turns = std::mem::take(&mut self.turns);
        let phases = self.layout(asked, plan).map(|layout| layout.phases(asked, bytes, plan, &mut turns));
        self.turns = turns;
        let mut phases = phases.unwrap_or_default();
        if phases.is_empty() {
            return None;
        }
        phases.reverse();
        // Both numbers count up, even where only the group's is used.
        let number = self.next_stream;
        self.next_stream = number.wrapping_add(1);
        let number = match self.groups.get_mut(&asked.group) {
            Some(group) if asked.group != 0 => {
                let number = group.next_stream;
                group.next_stream = number.wrapping_add(1);
                number
            }
            _ => number,
        };
        Some((number, phases))
    }
}

/// How a phase passes a dimension.
#[derive(Clone, Copy)]
enum Pass {
    Once,
    There,
    Back,
}

impl Layout {
    fn phases(
        &mut self,
        asked: &CollectiveRequest,
        bytes: u64,
        plan: &AstraPlan,
        turns: &mut [Turns],
    ) -> Vec<Phase> {
        let takes_part = |dim: &usize| {
            self.shapes[*dim].size() > 1
                && (asked.group != 0 || asked.dims.get(*dim).copied().unwrap_or(false))
        };
        let dims: Vec<usize> = (0..self.shapes.len()).filter(takes_part).collect();
        let passes: Vec<(usize, CollectiveKind, Pass)> = match (asked.kind, dims.split_last()) {
            (CollectiveKind::AllReduce, Some((&last, others))) if plan.local_bw_aware => {
                let there = others.iter().map(|&dim| (dim, CollectiveKind::ReduceScatter, Pass::There));
                let turn = [(last, CollectiveKind::AllReduce, Pass::There)];
                let back = others.iter().rev().map(|&dim| (dim, CollectiveKind::AllGather, Pass::Back));
                there.chain(turn).chain(back).collect()
            }
            (CollectiveKind::AllGather, _) => {
                dims.iter().rev().map(|&dim| (dim, asked.kind, Pass::Once)).collect()
            }
            _ => dims.iter().map(|&dim| (dim, asked.kind, Pass::Once)).collect(),
        };
        let mut left = bytes;
        let mut phases = Vec::new();
        for (dim, kind, pass) in passes {
            let (queue, onwards) = turns[dim].next(plan.queues_per_dim, pass);
            let queue = dim as u32 * plan.queues_per_dim + queue;
            let size = self.shapes[dim].size() as u64;
            let (machine, after) = match (&mut self.shapes[dim], kind) {
                (DimensionLayout::Ring(ring), _) => {
                    let exchange =
                        Exchange::new(kind, ring.clone(), &self.implementations[dim], onwards, left);
                    let after = match kind {
                        CollectiveKind::AllGather => left.saturating_mul(size),
                        CollectiveKind::ReduceScatter => left / size,
                        CollectiveKind::AllReduce | CollectiveKind::AllToAll => left,
                    };
                    (Some(Machine::Exchange(exchange)), after)
                }
                // A tree always does an all-reduce, whatever was asked for.
                (trees, _) => {
                    (trees.next_branch().map(|branch| Machine::Tree(Tree::new(branch, left))), left)
                }
            };
            left = after;
            phases.extend(machine.map(|machine| Phase { queue, machine }));
        }
        phases
    }
}

impl Turns {
    /// The next queue of a dimension, and whether rings go onwards.
    fn next(&mut self, queues: u32, pass: Pass) -> (u32, bool) {
        let half = queues / 2;
        let (turn, end, begin, onwards) = match pass {
            Pass::Once => {
                let onwards = queues == 1 || self.once < half;
                (&mut self.once, queues, 0, onwards)
            }
            Pass::There => (&mut self.there, half, 0, true),
            Pass::Back => (&mut self.back, queues, half, false),
        };
        let queue = *turn;
        *turn += 1;
        if *turn >= end {
            *turn = begin;
        }
        (queue, onwards)
    }
}

// Rings, direct exchanges, and halving and doubling: one state machine, in which the next partner and the size differ.
//
// A message is sent when the memory is done with it, and the next one is made when a message has arrived. The memory works
// in cycles: first it copies some messages, then it reduces some, if the collective reduces.

/// A message to be sent, and the message expected in return.
#[derive(Clone, Copy, Debug)]
struct Message {
    to: u32,
    from: u32,
    bytes: u64,
}

/// The next partner, and the size.
#[derive(Debug)]
enum Partner {
    /// Always the neighbours.
    Neighbours { onwards: bool },
    /// All others in turn, further away each time; places in the ring.
    Everyone { onwards: bool, to: u32, from: u32 },
    /// Half or twice as far away each time. `doubles` says which, and whether an all-reduce is in its second half.
    Halving { offset: u32, doubles: bool },
}

/// One rank's part of a phase.
#[derive(Debug)]
pub(super) struct Exchange {
    ring: Ring,
    kind: CollectiveKind,
    partner: Partner,
    bytes: u64,
    /// Messages that it starts with.
    width: u32,
    /// Messages still to be sent.
    left: u32,
    /// Messages that the memory is done with, and that are not sent yet.
    ready: u32,
    waiting: VecDeque<Message>,
    received: u32,
    /// Messages of the current cycle: copied, and reduced if the collective reduces.
    plain: u32,
    reduced: u32,
    odd_cycle: bool,
}

impl Exchange {
    pub fn new(
        kind: CollectiveKind,
        ring: Ring,
        implementation: &Implementation,
        onwards: bool,
        bytes: u64,
    ) -> Exchange {
        let size = ring.size;
        let share = if kind == CollectiveKind::AllGather { bytes } else { bytes / size as u64 };
        let most = size - 1;
        let (partner, bytes, width, left) = match implementation.algorithm {
            Algorithm::Direct => {
                let width = implementation.window.map_or(most, |window| window.min(most));
                let (to, from) = (ring.step(ring.place, 1, onwards), ring.step(ring.place, 1, !onwards));
                let left = if kind == CollectiveKind::AllReduce { 2 * most } else { most };
                (Partner::Everyone { onwards, to, from }, share, width, left)
            }
            Algorithm::HalvingDoubling => {
                let steps = size.ilog2();
                let (offset, bytes) = match kind {
                    CollectiveKind::AllGather => (size / 2, bytes),
                    _ => (1, bytes / 2),
                };
                let left = if kind == CollectiveKind::AllReduce { 2 * steps } else { steps };
                (Partner::Halving { offset, doubles: kind == CollectiveKind::AllGather }, bytes, 1, left)
            }
            Algorithm::Ring | Algorithm::DoubleBinaryTree => {
                let left = match kind {
                    CollectiveKind::AllReduce => 2 * most,
                    CollectiveKind::AllToAll => most * size / 2,
                    CollectiveKind::AllGather | CollectiveKind::ReduceScatter => most,
                };
                (Partner::Neighbours { onwards }, share, 1, left)
            }
        };
        Exchange {
            ring,
            kind,
            partner,
            bytes,
            width,
            left,
            ready: 0,
            waiting: VecDeque::new(),
            received: 0,
            plain: 0,
            reduced: 0,
            odd_cycle: false,
        }
    }

    /// The largest message that a rank sends; call before it begins.
    pub fn message_bytes(&self) -> u64 {
        match self.partner {
            Partner::Halving { doubles: true, .. } => self.bytes.saturating_mul(self.ring.size as u64 / 2),
            _ => self.bytes,
        }
    }

    pub fn is_local(&self) -> bool {
        self.ring.local
    }

    pub fn begin(&mut self, desk: &mut Desk) {
        for _ in 0..self.width {
            self.add(desk);
        }
    }

    /// A message has arrived.
    pub fn on_received(&mut self, desk: &mut Desk) {
        self.received += 1;
        self.add(desk);
    }

    /// The memory is done with a message. True: this rank's part is over.
    pub fn on_memory(&mut self, desk: &mut Desk) -> bool {
        self.ready += 1;
        let others = self.ring.size - 1;
        let direct = matches!(self.partner, Partner::Everyone { .. });
        let turns = if direct && self.kind == CollectiveKind::AllReduce && self.left <= others {
            // Everything is reduced before any of it is passed on.
            if self.received < others {
                return false;
            }
            self.width
        } else {
            1
        };
        for _ in 0..turns {
            self.send(desk);
        }
        self.left == 0 && self.ready == self.width
    }

    /// Messages of a cycle that are reduced.
    fn reduced_in_a_cycle(&self) -> u32 {
        match self.partner {
            Partner::Halving { .. } => self.ring.size.ilog2() - 1,
            Partner::Everyone { .. } if !self.ring.local => self.width,
            _ => (self.ring.size - 1) * self.width,
        }
    }

    /// Makes the next message and hands it to the memory.
    fn add(&mut self, desk: &mut Desk) {
        if self.plain == 0 && self.reduced == 0 {
            self.plain = self.width;
            self.reduced = self.reduced_in_a_cycle();
            self.odd_cycle = !self.odd_cycle;
        }
        let reduces = if self.plain > 0 {
            self.plain -= 1;
            false
        } else {
            self.reduced -= 1;
            self.kind == CollectiveKind::ReduceScatter
                || self.kind == CollectiveKind::AllReduce && self.odd_cycle
        };
        let message = self.next_message();
        self.waiting.push_back(message);
        desk.wait(reduces.then_some(message.bytes));
    }

    fn next_message(&mut self) -> Message {
        let ring = &self.ring;
        let bytes = self.bytes;
        match &mut self.partner {
            Partner::Neighbours { onwards } => Message {
                to: ring.rank(ring.step(ring.place, 1, *onwards)),
                from: ring.rank(ring.step(ring.place, 1, !*onwards)),
                bytes,
            },
            Partner::Everyone { onwards, to, from } => {
                let message = Message { to: ring.rank(*to), from: ring.rank(*from), bytes };
                for (place, onwards) in [(to, *onwards), (from, !*onwards)] {
                    *place = ring.step(*place, 1, onwards);
                    if *place == ring.place {
                        *place = ring.step(*place, 1, onwards);
                    }
                }
                message
            }
            Partner::Halving { offset, doubles } => {
                let onwards = *offset == 0 || (ring.place / *offset).is_multiple_of(2);
                let partner = ring.rank(ring.step(ring.place, *offset, onwards));
                if *doubles {
                    *offset /= 2;
                    self.bytes *= 2;
                } else {
                    *offset *= 2;
                    self.bytes /= 2;
                    if *offset == ring.size && self.kind == CollectiveKind::AllReduce {
                        *doubles = true;
                        *offset /= 2;
                        self.bytes *= 2;
                    }
                }
                Message { to: partner, from: partner, bytes }
            }
        }
    }

    /// Sends the next message, if one may be sent, and expects its counterpart.
    fn send(&mut self, desk: &mut Desk) {
        if self.left == 0 || self.ready == 0 {
            return;
        }
        let Some(&Message { to, from, bytes }) = self.waiting.front() else { return };
        desk.send(to, bytes);
        if desk.expect(from, bytes) {
            self.on_received(desk);
        }
        self.left -= 1;
        self.ready -= 1;
        self.waiting.pop_front();
    }
}

// An all-reduce along a binary tree: data goes up to the root, is reduced on the way, and comes down again.

/// What a rank does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Begin,
    /// A leaf waits for its memory before it sends.
    Leaf,
    /// It expects data of this many children.
    Children(u32),
    /// All data of the children have arrived, and are being reduced.
    Reducing,
    Parent,
    /// The data of the parent have arrived.
    Down,
}

/// One rank's part of a chunk.
#[derive(Debug)]
pub(super) struct Tree {
    branch: Branch,
    pub bytes: u64,
    state: State,
    /// Reductions that have ended.
    reduced: u32,
}

impl Tree {
    pub fn new(branch: Branch, bytes: u64) -> Tree {
        Tree { branch, bytes, state: State::Begin, reduced: 0 }
    }

    fn children(&self) -> impl Iterator<Item = u32> {
        [self.branch.left, self.branch.right].into_iter().flatten()
    }

    fn is_leaf(&self) -> bool {
        self.children().next().is_none()
    }

    pub fn begin(&mut self, desk: &mut Desk) {
        if self.is_leaf() {
            self.state = State::Leaf;
            desk.wait(None);
            return;
        }
        self.state = State::Children(self.children().count() as u32);
        for child in self.children() {
            if desk.expect(child, self.bytes) {
                self.on_received(desk);
            }
        }
    }

    pub fn on_received(&mut self, desk: &mut Desk) {
        match self.state {
            State::Children(left) => {
                self.state = if left > 1 { State::Children(left - 1) } else { State::Reducing };
                desk.wait(Some(self.bytes));
            }
            State::Parent => {
                self.state = State::Down;
                // A leaf only stores them.
                desk.wait((!self.is_leaf()).then_some(self.bytes));
            }
            _ => {}
        }
    }

    /// The memory is done. True: this rank's part is over.
    pub fn on_memory(&mut self, desk: &mut Desk) -> bool {
        match self.state {
            State::Leaf => self.send_up(desk),
            State::Children(_) | State::Reducing => {
                self.reduced += 1;
                if self.reduced < self.children().count() as u32 {
                    return false;
                }
                if self.branch.parent.is_none() {
                    return self.send_down(desk);
                }
                self.send_up(desk);
            }
            State::Down => return self.send_down(desk),
            State::Begin | State::Parent => {}
        }
        false
    }

    fn send_up(&mut self, desk: &mut Desk) {
        let Some(parent) = self.branch.parent else { return };
        self.state = State::Parent;
        desk.send(parent, self.bytes);
        if desk.expect(parent, self.bytes) {
            self.on_received(desk);
        }
    }

    fn send_down(&mut self, desk: &mut Desk) -> bool {
        for child in self.children() {
            desk.send(child, self.bytes);
        }
        true
    }
}
