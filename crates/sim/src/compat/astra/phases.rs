//! A collective as chunks, and a chunk as phases: one for each dimension, or up to two in an all-reduce.

use std::collections::HashMap;
use std::sync::Arc;

use super::desk::MOST_BYTES;
use super::exchange::Exchange;
use super::groups::{shapes, Ring, Shape};
use super::plan::{Algorithm, AstraPlan, Implementation, Kind};
use super::tree::Tree;

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
    shapes: Vec<Shape>,
    implementations: Vec<Implementation>,
}

/// A communicator group.
#[derive(Clone, Debug)]
struct Group {
    ranks: Arc<[u32]>,
    /// Number of its next stream.
    next_stream: i32,
    /// Layouts by kind, where the group does not have all ranks.
    layouts: HashMap<Kind, Layout>,
}

/// Stream numbers of a group begin at its number times this.
const GROUP_STREAMS: i32 = 1_000_000;
/// Dimensions that a group of all ranks can have.
const GROUP_DIMS: usize = 10;

/// A rank's view of all collectives.
#[derive(Debug)]
pub(super) struct Collectives {
    rank: u32,
    layouts: HashMap<Kind, Layout>,
    groups: HashMap<i32, Group>,
    turns: Vec<Turns>,
    next_stream: i32,
}

/// A collective as a trace asks for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Asked {
    pub kind: Kind,
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
    pub fn cut(asked: &Asked, plan: &AstraPlan) -> Result<Cut, String> {
        if plan.splits == 0 {
            return Err("comm_size: expected preferred-dataset-splits in the system file".into());
        }
        let (mut bytes, mut chunk) = (asked.bytes, asked.bytes / plan.splits);
        if asked.kind != Kind::AllGather && chunk < plan.ranks() as u64 {
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

    /// Whether a collective can be carried out.
    ///
    /// # Errors
    /// Which field is impossible, and why.
    pub fn check(&mut self, asked: &Asked, plan: &AstraPlan) -> Result<(), String> {
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

    fn layout(&mut self, asked: &Asked, plan: &AstraPlan) -> Result<&mut Layout, String> {
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
        if kind == Kind::AllToAll && list.iter().any(halving) {
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
            let layout = Layout { shapes: vec![Shape::Ring(ring)], implementations: vec![implementation] };
            group.layouts.insert(kind, layout);
        }
        group.layouts.get_mut(&kind).ok_or_else(String::new)
    }

    /// The next chunk of a checked collective; `None` if no dimension takes part.
    pub fn chunk(&mut self, asked: &Asked, bytes: u64, plan: &AstraPlan) -> Option<Chunk> {
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
    fn phases(&mut self, asked: &Asked, bytes: u64, plan: &AstraPlan, turns: &mut [Turns]) -> Vec<Phase> {
        let takes_part = |dim: &usize| {
            self.shapes[*dim].size() > 1
                && (asked.group != 0 || asked.dims.get(*dim).copied().unwrap_or(false))
        };
        let dims: Vec<usize> = (0..self.shapes.len()).filter(takes_part).collect();
        let passes: Vec<(usize, Kind, Pass)> = match (asked.kind, dims.split_last()) {
            (Kind::AllReduce, Some((&last, others))) if plan.local_bw_aware => {
                let there = others.iter().map(|&dim| (dim, Kind::ReduceScatter, Pass::There));
                let turn = [(last, Kind::AllReduce, Pass::There)];
                let back = others.iter().rev().map(|&dim| (dim, Kind::AllGather, Pass::Back));
                there.chain(turn).chain(back).collect()
            }
            (Kind::AllGather, _) => dims.iter().rev().map(|&dim| (dim, asked.kind, Pass::Once)).collect(),
            _ => dims.iter().map(|&dim| (dim, asked.kind, Pass::Once)).collect(),
        };
        let mut left = bytes;
        let mut phases = Vec::new();
        for (dim, kind, pass) in passes {
            let (queue, onwards) = turns[dim].next(plan.queues_per_dim, pass);
            let queue = dim as u32 * plan.queues_per_dim + queue;
            let size = self.shapes[dim].size() as u64;
            let (machine, after) = match (&mut self.shapes[dim], kind) {
                (Shape::Ring(ring), _) => {
                    let exchange =
                        Exchange::new(kind, ring.clone(), &self.implementations[dim], onwards, left);
                    let after = match kind {
                        Kind::AllGather => left.saturating_mul(size),
                        Kind::ReduceScatter => left / size,
                        Kind::AllReduce | Kind::AllToAll => left,
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
