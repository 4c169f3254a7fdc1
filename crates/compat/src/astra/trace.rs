//! Chakra execution traces (schema of mlcommons/chakra, `et_def.proto`): a metadata message and then nodes, each preceded by
//! its length.

use prost::encoding::decode_varint;
use prost::Message;
use std::collections::{BTreeMap, HashMap};
use std::fs::{File, Metadata};
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::ops::Bound::{Excluded, Unbounded};
use std::path::{Path, PathBuf};

use super::collective::CollectiveRequest;
use super::plan::{AstraPlan, CollectiveKind};
use super::rank::MOST_BYTES;
use tailback_sim::engine::NumberMap;
use tailback_sim::work::StepRecord;

/// The longest time of a node: 2^64 ps.
const MOST_MICROS: u64 = u64::MAX / 1_000_000;

/// Most bytes of a length.
const VARINT_BYTES: usize = 10;

/// A node of a trace.
#[derive(Debug)]
pub(super) struct Node {
    pub id: u64,
    pub need: Need,
    pub task: Task,
    /// The nodes that it waits for, each once.
    pub parents: Vec<u64>,
}

/// The resource that a node of a trace occupies while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    Cpu,
    Computing,
    Communicating,
    Nothing,
}

/// Definitions of groups: name and ranks.
pub(super) type Groups = Vec<(i32, Vec<u32>)>;

/// The task of a node.
#[derive(Debug)]
pub(super) enum Task {
    /// It ends at once.
    Nothing,
    Groups(Groups),
    Compute {
        ns: u64,
    },
    /// A broadcast, which only takes its time.
    Wait {
        ns: u64,
    },
    Send {
        to: u32,
        bytes: u64,
        tag: u32,
    },
    Receive {
        from: u32,
        bytes: u64,
        tag: u32,
    },
    Collective(Box<CollectiveRequest>),
}

impl Task {
    /// Its step on its rank's row of a timeline; `None` where it occupies nothing of the rank.
    pub fn step(&self, need: Need) -> Option<StepRecord> {
        let (kind, bytes) = match self {
            Task::Nothing | Task::Groups(_) | Task::Receive { .. } => return None,
            Task::Compute { .. } => ("compute", None),
            Task::Wait { .. } => ("broadcast", None),
            Task::Send { bytes, .. } => ("send", Some(*bytes)),
            Task::Collective(asked) => (asked.kind.name(), Some(asked.bytes)),
        };
        let lane = match need {
            Need::Computing | Need::Nothing => 0,
            Need::Communicating => 1,
            Need::Cpu => 2,
        };
        Some(StepRecord { kind, bytes, lane })
    }

    pub fn is_computing(&self) -> bool {
        matches!(self, Task::Compute { .. })
    }

    pub fn name(&self) -> String {
        match self {
            Task::Nothing | Task::Groups(_) => "metadata".into(),
            Task::Compute { .. } => "compute".into(),
            Task::Wait { .. } => "broadcast".into(),
            Task::Send { to, tag, .. } => format!("send to {to}, tag {tag}"),
            Task::Receive { from, tag, .. } => format!("receive from {from}, tag {tag}"),
            Task::Collective(asked) => asked.kind.name().into(),
        }
    }
}

#[derive(Clone, PartialEq, Message)]
struct NodeMessage {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int32, tag = "3")]
    r#type: i32,
    #[prost(uint64, repeated, tag = "4")]
    ctrl_deps: Vec<u64>,
    #[prost(uint64, repeated, tag = "5")]
    data_deps: Vec<u64>,
    #[prost(uint64, tag = "7")]
    duration_micros: u64,
    #[prost(message, optional, tag = "8")]
    inputs: Option<Inputs>,
    #[prost(message, repeated, tag = "10")]
    attr: Vec<Attribute>,
}

#[derive(Clone, PartialEq, Message)]
struct Inputs {
    #[prost(string, tag = "1")]
    values: String,
}

#[derive(Clone, PartialEq, Message)]
struct Attribute {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(oneof = "Value", tags = "3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 28, 29")]
    value: Option<Value>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Value {
    #[prost(double, tag = "3")]
    Double(f64),
    #[prost(float, tag = "5")]
    Float(f32),
    #[prost(int32, tag = "7")]
    Int32(i32),
    #[prost(int64, tag = "9")]
    Int64(i64),
    #[prost(uint32, tag = "11")]
    Uint32(u32),
    #[prost(uint64, tag = "13")]
    Uint64(u64),
    #[prost(sint32, tag = "15")]
    Sint32(i32),
    #[prost(sint64, tag = "17")]
    Sint64(i64),
    #[prost(fixed32, tag = "19")]
    Fixed32(u32),
    #[prost(fixed64, tag = "21")]
    Fixed64(u64),
    #[prost(sfixed32, tag = "23")]
    Sfixed32(i32),
    #[prost(sfixed64, tag = "25")]
    Sfixed64(i64),
    #[prost(bool, tag = "27")]
    Bool(bool),
    #[prost(message, tag = "28")]
    BoolList(Bools),
    #[prost(string, tag = "29")]
    String(String),
}

#[derive(Clone, PartialEq, Message)]
struct Bools {
    #[prost(bool, repeated, tag = "1")]
    values: Vec<bool>,
}

/// A group's definition within a metadata node.
#[derive(serde::Deserialize)]
struct Defined {
    pg_name: String,
    ranks: Vec<u32>,
}

impl NodeMessage {
    /// The first attribute with a name.
    fn value(&self, name: &str) -> Option<&Value> {
        self.attr.iter().find(|attribute| attribute.name == name).and_then(|found| found.value.as_ref())
    }

    /// A number or a truth value, cast as in ASTRA-sim. `None`: there is no such attribute.
    fn number(&self, name: &str) -> Result<Option<u64>, String> {
        let has_it = self.attr.iter().any(|attribute| attribute.name == name);
        Ok(Some(match self.value(name) {
            None if !has_it => return Ok(None),
            Some(&Value::Int32(value) | &Value::Sint32(value) | &Value::Sfixed32(value)) => value as u64,
            Some(&Value::Int64(value) | &Value::Sint64(value) | &Value::Sfixed64(value)) => value as u64,
            Some(&Value::Uint32(value) | &Value::Fixed32(value)) => value as u64,
            Some(&Value::Uint64(value) | &Value::Fixed64(value)) => value,
            Some(&Value::Bool(value)) => value as u64,
            _ => return Err(format!("{name}: expected a whole number")),
        }))
    }

    fn needed(&self, name: &str) -> Result<u64, String> {
        self.number(name)?.ok_or_else(|| format!("expected the attribute {name}"))
    }

    /// Bytes of a message or a collective. ASTRA-sim's cast would turn a negative number into one near 2^64.
    fn bytes(&self) -> Result<u64, String> {
        let found = self.needed("comm_size")?;
        match found as i64 {
            negative @ ..=-1 => Err(format!("comm_size: expected 0 B or more, found {negative}")),
            _ => Ok(found),
        }
    }

    /// The rank at the other end of a message.
    fn rank(&self, name: &str, own: u32, plan: &AstraPlan) -> Result<u32, String> {
        let found = self.needed(name)?;
        let ranks = plan.ranks();
        if found >= ranks as u64 || found == own as u64 {
            return Err(format!("{name}: expected another rank, below {ranks}, found {found}"));
        }
        Ok(found as u32)
    }

    /// Its recorded time, ns.
    fn recorded(&self) -> Result<u64, String> {
        match self.duration_micros {
            ..=MOST_MICROS => Ok((self.duration_micros * 1000).max(1)),
            longer => Err(format!("duration_micros: expected at most {MOST_MICROS}, found {longer}")),
        }
    }

    fn task(&self, rank: u32, on_cpu: bool, plan: &AstraPlan) -> Result<Task, String> {
        if plan.replay_only {
            return Ok(Task::Compute { ns: self.recorded()? });
        }
        if on_cpu && (5..=7).contains(&self.r#type) {
            return Err("is_cpu_op: expected false: a CPU does not communicate".into());
        }
        let own = |name: &str| match self.number(name)? {
            Some(found) if found as u32 != rank => {
                Err(format!("{name}: expected {rank}, the trace's own rank, found {found}"))
            }
            _ => Ok(()),
        };
        Ok(match self.r#type {
            0 => Task::Nothing,
            1 => Task::Groups(self.groups(plan)),
            4 if plan.roofline && !on_cpu => self.roofline(plan)?,
            4 => Task::Compute { ns: self.recorded()? },
            5 => {
                own("comm_src")?;
                let to = self.rank("comm_dst", rank, plan)?;
                let bytes = self.bytes()?;
                if !(1..=MOST_BYTES).contains(&bytes) {
                    return Err(format!(
                        "comm_size: expected 1 to {MOST_BYTES} B in a message, found {bytes}"
                    ));
                }
                Task::Send { to, bytes, tag: self.needed("comm_tag")? as u32 }
            }
            6 => {
                own("comm_dst")?;
                let from = self.rank("comm_src", rank, plan)?;
                Task::Receive { from, bytes: self.bytes()?, tag: self.needed("comm_tag")? as u32 }
            }
            7 => self.collective()?,
            2 | 3 => return Err("expected no node of remote memory (type 2 or 3): it is not modelled".into()),
            other => return Err(format!("type: expected 0 to 7, found {other}")),
        })
    }

    /// Time of its arithmetic or of its memory accesses, whichever is longer.
    fn roofline(&self, plan: &AstraPlan) -> Result<Task, String> {
        let count = self.needed("num_ops")?;
        let (operations, tensor) = (count as f64, self.needed("tensor_size")? as f64);
        if tensor == 0.0 {
            return Ok(Task::Nothing);
        }
        let performance = (plan.local_mem_bw * (operations / tensor)).min(plan.peak_perf);
        // With neither, ASTRA-sim has no number here, and its result is undefined.
        match (operations / performance * 1e9) as u64 {
            ns if count > 0 && ns <= MOST_MICROS * 1000 => Ok(Task::Compute { ns }),
            _ => {
                Err(format!("num_ops: expected 1 or more that take at most {MOST_MICROS} us, found {count}"))
            }
        }
    }

    fn collective(&self) -> Result<Task, String> {
        let dims = match self.value("involved_dim") {
            Some(Value::BoolList(list)) => list.values.clone(),
            None if !self.attr.iter().any(|attribute| attribute.name == "involved_dim") => vec![true; 4],
            _ => return Err("involved_dim: expected a list of truth values".into()),
        };
        let group = match self.value("pg_name") {
            None => 0,
            Some(Value::String(name)) if name.is_empty() => 0,
            Some(Value::String(name)) => {
                name.parse().map_err(|_| format!("pg_name: expected a number, found {name:?}"))?
            }
            Some(_) => return Err("pg_name: expected a text".into()),
        };
        let kind = match self.needed("comm_type")? {
            0 => CollectiveKind::AllReduce,
            2 => CollectiveKind::AllGather,
            5 => return Ok(Task::Wait { ns: self.recorded()? }),
            6 => CollectiveKind::AllToAll,
            7 => CollectiveKind::ReduceScatter,
            other => {
                return Err(format!(
                    "comm_type: expected 0 all-reduce, 2 all-gather, 5 broadcast, 6 all-to-all or 7 reduce-scatter, \
                     found {other}"
                ));
            }
        };
        let priority = self.number("comm_priority")?.unwrap_or(0) as i32;
        Ok(Task::Collective(Box::new(CollectiveRequest {
            kind,
            bytes: self.bytes()?,
            group,
            priority,
            dims,
        })))
    }

    /// Groups as PyTorch's traces define them: JSON in quotes and brackets. Unreadable text defines no group.
    fn groups(&self, plan: &AstraPlan) -> Groups {
        let text = self.inputs.as_ref().map_or("", |inputs| inputs.values.as_str());
        let inner = text.get(2..text.len().saturating_sub(2)).unwrap_or_default();
        let Ok(defined) = serde_json::from_str::<Vec<Defined>>(inner) else { return Vec::new() };
        let named = defined.into_iter().map_while(|group| {
            let name = group.pg_name.parse().ok()?;
            let all = group.ranks.is_empty();
            Some((name, if all { (0..plan.ranks()).collect() } else { group.ranks }))
        });
        named.collect()
    }
}

impl Node {
    /// Reads a node from its message. `what`: its name until its id is known.
    fn of(message: &[u8], what: &str, plan: &AstraPlan, rank: u32) -> Result<Node, String> {
        let read = NodeMessage::decode(message).map_err(|error| format!("{what}: not readable: {error}"))?;
        let of_node = |problem: String| format!("node {}: {problem}", read.id);
        let on_cpu = read.number("is_cpu_op").map_err(of_node)?.unwrap_or(0) != 0;
        let task = read.task(rank, on_cpu, plan).map_err(of_node)?;
        let need = match read.r#type {
            _ if on_cpu => Need::Cpu,
            4 => Need::Computing,
            6 => Need::Nothing,
            _ => Need::Communicating,
        };
        let mut parents = read.ctrl_deps;
        parents.extend(read.data_deps);
        parents.sort_unstable();
        parents.dedup();
        Ok(Node { id: read.id, need, task, parents })
    }
}

/// Reads the nodes of a part of a file one after the other.
pub(super) struct Nodes<'a, R> {
    file: R,
    /// Where the next one is, and where the part ends.
    pub at: u64,
    end: u64,
    read: u64,
    message: Vec<u8>,
    plan: &'a AstraPlan,
    rank: u32,
}

impl<'a, R: BufRead> Nodes<'a, R> {
    /// `file` is positioned at `at`, where a node begins.
    pub fn new(file: R, (at, end): (u64, u64), plan: &'a AstraPlan, rank: u32) -> Self {
        Nodes { file, at, end, read: 0, message: Vec::new(), plan, rank }
    }

    /// Reads the metadata before the first node.
    ///
    /// # Errors
    /// One line.
    pub fn metadata(&mut self) -> Result<(), String> {
        self.framed("the metadata")
    }

    /// The next node; `None` after the last.
    ///
    /// # Errors
    /// One line with node and field.
    pub fn next(&mut self) -> Result<Option<Node>, String> {
        if self.at == self.end {
            return Ok(None);
        }
        self.read += 1;
        let what = format!("node number {}", self.read);
        self.framed(&what)?;
        Node::of(&self.message, &what, self.plan, self.rank).map(Some)
    }

    /// Reads a length and the message that follows.
    fn framed(&mut self, what: &str) -> Result<(), String> {
        let begin = self.at;
        let no_length = || format!("byte {begin}: expected the length of {what}");
        let mut length = [0; VARINT_BYTES];
        let mut bytes = 0;
        while bytes == 0 || length[bytes - 1] >= 0x80 {
            if self.at == self.end || bytes == VARINT_BYTES {
                return Err(no_length());
            }
            self.file.read_exact(&mut length[bytes..=bytes]).map_err(unreadable)?;
            (bytes, self.at) = (bytes + 1, self.at + 1);
        }
        let length = decode_varint(&mut &length[..bytes]).map_err(|_| no_length())?;
        let follow = self.end - self.at;
        if length > follow {
            return Err(format!("byte {begin}: {what} declares {length} B, and {follow} follow"));
        }
        self.message.resize(length as usize, 0);
        self.file.read_exact(&mut self.message).map_err(unreadable)?;
        self.at += length;
        Ok(())
    }
}

/// Why a file cannot be read.
pub(super) fn unreadable(error: std::io::Error) -> String {
    format!("expected a file that can be read: {error}")
}

// A rank's trace. Only nodes that may begin or run are in memory.
//
// A trace is read twice: as a whole before the run, which finds all errors, and again during the run, a block of nodes at a
// time. Every node whose parents have ended must be in memory, as if the whole trace were. So before the run, all blocks
// with a node that waits for nothing are read, and when a node begins, all blocks with a node that waits for one of its
// block. A node that has ended is forgotten.

/// Nodes in a block; more where a file is not in the order of ids. 1,024 ranks with two blocks each take some 70 MB.
const BLOCK_NODES: u64 = 256;

/// Consecutive nodes of the file. Their ids are above those of all earlier blocks.
#[derive(Debug)]
struct Block {
    /// Its place in the file.
    at: u64,
    nodes: u64,
    /// The highest id.
    last: u64,
    /// The last block with a node that waits for a node of this one.
    reach: u32,
}

/// A node in memory.
#[derive(Debug)]
pub(super) struct Held {
    pub need: Need,
    pub task: Task,
    block: u32,
    /// How many nodes it waits for.
    waits_for: u32,
    /// The nodes that wait for it.
    children: Vec<u64>,
}

/// The nodes of a trace that are in memory, by id.
#[derive(Debug)]
pub(super) struct Window {
    path: PathBuf,
    /// Metadata of the file when it was checked.
    known: Metadata,
    blocks: Vec<Block>,
    /// Number of blocks read.
    read: usize,
    nodes: NumberMap<u64, Held>,
    /// For nodes that have not been read, by id: the nodes that wait for them.
    ahead: NumberMap<u64, Vec<u64>>,
}

/// A trace without errors.
pub(super) struct Checked {
    pub window: Window,
    /// Nodes that wait for nothing.
    pub free: Free,
    /// Groups that it defines, in the order of ids.
    pub groups: Groups,
    /// The different collectives, each with the lowest id of its nodes.
    pub collectives: HashMap<CollectiveRequest, u64>,
}

/// Checks a rank's trace, and reads the blocks that must be in memory when the run begins.
///
/// # Errors
/// One line with node and field.
pub(super) fn open(path: &Path, plan: &AstraPlan, rank: u32) -> Result<Checked, String> {
    let in_order = look_through(path, plan, rank, Order::default())?;
    let mut found = match in_order {
        Some(found) => found,
        None => look_through(path, plan, rank, Order { all: Some(Vec::new()), ..Order::default() })?
            .expect("any order will do"),
    };
    let first = found.order.check()?;
    let mut window = Window {
        path: path.to_owned(),
        known: found.known,
        blocks: found.order.blocks,
        read: 0,
        nodes: NumberMap::default(),
        ahead: NumberMap::default(),
    };
    window.read(first, plan, rank)?;
    let mut free = Free::default();
    window
        .nodes
        .iter()
        .filter(|(_, node)| node.waits_for == 0)
        .for_each(|(&id, node)| free.add(id, node.need));
    found.groups.sort_by_key(|group| group.0);
    let groups = found.groups.into_iter().flat_map(|(_, defined)| defined).collect();
    Ok(Checked { window, free, groups, collectives: found.collectives })
}

/// What the first reading of a trace file found.
struct TraceSummary {
    known: Metadata,
    order: Order,
    /// By the id of the node that defines them.
    groups: Vec<(u64, Groups)>,
    collectives: HashMap<CollectiveRequest, u64>,
}

/// Reads all nodes; `None` where they are not in the expected order.
fn look_through(
    path: &Path,
    plan: &AstraPlan,
    rank: u32,
    mut order: Order,
) -> Result<Option<TraceSummary>, String> {
    let file = File::open(path).map_err(unreadable)?;
    let known = file.metadata().map_err(unreadable)?;
    let mut nodes = Nodes::new(BufReader::new(file), (0, known.len()), plan, rank);
    nodes.metadata()?;
    let (mut groups, mut collectives) = (Vec::new(), HashMap::new());
    let mut at = nodes.at;
    while let Some(node) = nodes.next()? {
        if !order.add(at, node.id, &node.parents) {
            return Ok(None);
        }
        match node.task {
            Task::Groups(defined) => groups.push((node.id, defined)),
            Task::Collective(asked) => {
                let lowest = collectives.entry(*asked).or_insert(node.id);
                *lowest = node.id.min(*lowest);
            }
            _ => {}
        }
        at = nodes.at;
    }
    Ok(Some(TraceSummary { known, order, groups, collectives }))
}

impl Window {
    /// A node that has not ended.
    pub fn get(&self, id: u64) -> Option<&Held> {
        self.nodes.get(&id)
    }

    /// Call before a node begins: reads the nodes that may begin once it has ended.
    ///
    /// # Errors
    /// One line, where the file is no longer what it was.
    pub fn begins(&mut self, id: u64, plan: &AstraPlan, rank: u32) -> Result<(), String> {
        let reach = self.nodes.get(&id).map_or(0, |node| self.blocks[node.block as usize].reach);
        self.read(reach as usize + 1, plan, rank)
    }

    /// Forgets a node that has ended. Nodes that waited for nothing else become `free`.
    pub fn ends(&mut self, id: u64, free: &mut Free) -> Option<Held> {
        let ended = self.nodes.remove(&id)?;
        for &child in &ended.children {
            let Some(node) = self.nodes.get_mut(&child) else { continue };
            node.waits_for -= 1;
            if node.waits_for == 0 {
                free.add(child, node.need);
            }
        }
        Some(ended)
    }

    /// Reads on until this number of blocks has been read.
    fn read(&mut self, blocks: usize, plan: &AstraPlan, rank: u32) -> Result<(), String> {
        if blocks <= self.read {
            return Ok(());
        }
        let mut file = File::open(&self.path).map_err(unreadable)?;
        let now = file.metadata().map_err(unreadable)?;
        let known = &self.known;
        if now.len() != known.len() || now.modified().ok() != known.modified().ok() {
            return Err(
                "expected a file that stays as it is during the run, found that it was changed".into()
            );
        }
        let place = |block: usize| self.blocks.get(block).map_or(known.len(), |block| block.at);
        let part = (place(self.read), place(blocks));
        file.seek(SeekFrom::Start(part.0)).map_err(unreadable)?;
        let mut nodes = Nodes::new(BufReader::new(file), part, plan, rank);
        for block in self.read..blocks {
            let mut own = Vec::with_capacity(self.blocks[block].nodes as usize);
            for _ in 0..self.blocks[block].nodes {
                own.extend(nodes.next()?);
            }
            own.sort_by_key(|node| node.id);
            own.into_iter().for_each(|node| self.hold(node, block as u32));
        }
        self.read = blocks;
        Ok(())
    }

    /// Adds a node. Blocks come in the order of ids, so a missing node with a lower id has ended.
    fn hold(&mut self, node: Node, block: u32) {
        let mut waits_for = 0;
        for parent in node.parents {
            let children = match self.nodes.get_mut(&parent) {
                Some(held) => &mut held.children,
                None if parent > node.id => self.ahead.entry(parent).or_default(),
                None => continue,
            };
            children.push(node.id);
            waits_for += 1;
        }
        let children = self.ahead.remove(&node.id).unwrap_or_default();
        self.nodes.insert(node.id, Held { need: node.need, task: node.task, block, waits_for, children });
    }
}

/// Which nodes there are, and what they wait for. In most traces nodes are in the order of ids, and wait only for nodes
/// before them: then only blocks and ids are kept.
#[derive(Default)]
struct Order {
    blocks: Vec<Block>,
    /// Where nodes are in order: ranges of ids without a gap, by first and last id.
    ids: Vec<(u64, u64)>,
    /// Number of blocks up to the last one with a node that waits for nothing.
    first: usize,
    /// Where nodes are in any order: ids, each with what the node waits for.
    all: Option<Vec<(u64, Box<[u64]>)>>,
}

impl Order {
    /// Adds a node. False: it is not in order.
    fn add(&mut self, at: u64, id: u64, parents: &[u64]) -> bool {
        if let Some(all) = &mut self.all {
            all.push((id, parents.into()));
            self.put(at, id);
            return true;
        }
        match self.ids.last_mut() {
            Some((_, last)) if *last >= id => return false,
            Some((_, last)) if *last + 1 == id => *last = id,
            _ => self.ids.push((id, id)),
        }
        self.put(at, id);
        let block = self.blocks.len() - 1;
        if parents.is_empty() {
            self.first = block + 1;
        }
        parents.iter().all(|&parent| {
            let run = self.ids.partition_point(|ids| ids.1 < parent);
            let is_there = parent < id && self.ids[run].0 <= parent;
            if is_there {
                self.waits(block, parent);
            }
            is_there
        })
    }

    /// Puts a node into the last block, or into a new one.
    fn put(&mut self, at: u64, id: u64) {
        match self.blocks.last_mut() {
            Some(block) if block.nodes < BLOCK_NODES => {
                block.nodes += 1;
                block.last = block.last.max(id);
            }
            _ => self.blocks.push(Block { at, nodes: 1, last: id, reach: 0 }),
        }
        while let [.., before, block] = &mut self.blocks[..] {
            if before.last < id {
                break;
            }
            (before.nodes, before.last) = (before.nodes + block.nodes, before.last.max(block.last));
            self.blocks.pop();
        }
    }

    /// A node of a block waits for another.
    fn waits(&mut self, block: usize, parent: u64) {
        let of_parent = self.blocks.partition_point(|block| block.last < parent);
        let reach = &mut self.blocks[of_parent].reach;
        *reach = (*reach).max(block as u32);
    }

    /// Number of blocks up to the last one with a node that waits for nothing.
    ///
    /// # Errors
    /// One line, where an id occurs twice, a parent does not exist, or nodes wait for each other.
    fn check(&mut self) -> Result<usize, String> {
        let Some(mut nodes) = self.all.take() else { return Ok(self.first) };
        nodes.sort_by_key(|node| node.0);
        if let Some(twice) = nodes.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(format!("node {}: expected one node of this id, found more", twice[0].0));
        }
        let mut block = 0;
        for (id, parents) in &nodes {
            while self.blocks[block].last < *id {
                block += 1;
            }
            if parents.is_empty() {
                self.first = block + 1;
            }
            for &parent in parents {
                if nodes.binary_search_by_key(&parent, |node| node.0).is_err() {
                    return Err(format!("node {id}: depends on node {parent}, which is not in the file"));
                }
                self.waits(block, parent);
            }
        }
        match circle(&nodes) {
            Some(ids) if ids.contains(',') => Err(format!("nodes {ids} wait for each other in a circle")),
            Some(id) => Err(format!("node {id}: depends on itself")),
            None => Ok(self.first),
        }
    }
}

/// Most ids of a circle that a message names.
const MOST_NAMED: usize = 8;

/// Ids of nodes that wait for each other, if any do. `nodes`: ids in order, each with what the node waits for.
fn circle(nodes: &[(u64, Box<[u64]>)]) -> Option<String> {
    let place = |id: &u64| nodes.partition_point(|node| node.0 < *id);
    let parents_of = |own: usize| nodes[own].1.iter().map(place);
    let mut first = vec![0; nodes.len() + 1];
    (0..nodes.len()).flat_map(parents_of).for_each(|parent| first[parent + 1] += 1);
    for place in 0..nodes.len() {
        first[place + 1] += first[place];
    }
    let (mut at, mut children) = (first.clone(), vec![0; first[nodes.len()]]);
    for own in 0..nodes.len() {
        for parent in parents_of(own) {
            children[at[parent]] = own;
            at[parent] += 1;
        }
    }
    let mut left: Vec<usize> = nodes.iter().map(|node| node.1.len()).collect();
    let mut free: Vec<usize> = (0..nodes.len()).filter(|&place| left[place] == 0).collect();
    let mut done = 0;
    while let Some(place) = free.pop() {
        done += 1;
        for &child in &children[first[place]..first[place + 1]] {
            left[child] -= 1;
            if left[child] == 0 {
                free.push(child);
            }
        }
    }
    if done == nodes.len() {
        return None;
    }
    // Every node left waits for another one left, so following these links backwards reaches some node twice.
    let before = |own: usize| parents_of(own).filter(|&parent| left[parent] > 0).max();
    let mut at = left.iter().position(|&left| left > 0)?;
    let mut seen = vec![false; nodes.len()];
    while !std::mem::replace(&mut seen[at], true) {
        at = before(at)?;
    }
    let mut ids = vec![nodes[at].0.to_string()];
    let mut next = before(at)?;
    while next != at && ids.len() < MOST_NAMED {
        ids.push(nodes[next].0.to_string());
        next = before(next)?;
    }
    if next != at {
        ids.push("...".into());
    }
    ids.reverse();
    Some(ids.join(", "))
}

// Nodes that wait for no other.

const NEEDS: [Need; 4] = [Need::Cpu, Need::Computing, Need::Communicating, Need::Nothing];

/// By the resource that they need: while it is busy, none of its nodes is visited.
#[derive(Debug, Default)]
pub(super) struct Free {
    /// Ids, each with its turn among all that were ever added.
    of: [BTreeMap<u64, u64>; NEEDS.len()],
    added: u64,
}

impl Free {
    pub fn add(&mut self, id: u64, need: Need) {
        self.of[need as usize].insert(id, self.added);
        self.added += 1;
    }

    pub fn remove(&mut self, id: u64, need: Need) {
        self.of[need as usize].remove(&id);
    }

    /// How many were ever added.
    pub fn added(&self) -> u64 {
        self.added
    }

    pub fn is_empty(&self) -> bool {
        self.of.iter().all(BTreeMap::is_empty)
    }

    /// The lowest id.
    pub fn first(&self) -> Option<u64> {
        self.of.iter().filter_map(|of| of.keys().next().copied()).min()
    }

    /// The lowest id above `after`, among the first `added` nodes, whose resource is available (`may`).
    pub fn next(&self, after: Option<u64>, added: u64, may: impl Fn(Need) -> bool) -> Option<(u64, Need)> {
        let after = after.map_or(Unbounded, Excluded);
        let next = |need: Need| {
            let mut later = self.of[need as usize].range((after, Unbounded));
            later.find(|(_, &turn)| turn < added).map(|(&id, _)| (id, need))
        };
        NEEDS.into_iter().filter(|&need| may(need)).filter_map(next).min_by_key(|found| found.0)
    }
}

#[cfg(test)]
mod window_tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// A node that computes, as a message after its length.
    fn node(id: u64, parents: &[u64]) -> Vec<u8> {
        let mut body = Vec::new();
        let fields = [(1, id), (3, 4)].into_iter().chain(parents.iter().map(|&parent| (5, parent)));
        for (field, value) in fields {
            prost::encoding::encode_varint(field << 3, &mut body);
            prost::encoding::encode_varint(value, &mut body);
        }
        let mut message = Vec::new();
        prost::encoding::encode_varint(body.len() as u64, &mut message);
        [message, body].concat()
    }

    fn plan() -> AstraPlan {
        serde_json::from_str(
            r#"{"files": ["w.0.et"], "dims": [1], "queues_per_dim": 1, "endpoint_delay": 0, "active_chunks": 1,
                "splits": 1, "policy": "lifo", "local_bw_aware": false, "local_mem_bw": 0.0, "peak_perf": 0.0,
                "roofline": false, "replay_only": false, "groups": {}, "implementations":
                {"all_reduce": null, "all_gather": null, "reduce_scatter": null, "all_to_all": null}}"#,
        )
        .expect("it is a plan")
    }

    fn written(name: &str, nodes: &[(u64, Vec<u64>)]) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("tailback-window-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join(name);
        let bytes: Vec<u8> = nodes.iter().flat_map(|(id, parents)| node(*id, parents)).collect();
        std::fs::write(&path, [vec![0], bytes].concat()).expect("a file");
        path
    }

    fn ids(free: &Free) -> BTreeSet<u64> {
        let next = |&last: &u64| free.next(Some(last), u64::MAX, |_| true).map(|found| found.0);
        std::iter::successors(free.first(), next).collect()
    }

    /// Ends nodes in the order in which `choose` picks free ones. Returns the most nodes that were in memory.
    fn run(path: &Path, nodes: &[(u64, Vec<u64>)], mut choose: impl FnMut(usize) -> usize) -> usize {
        let plan = plan();
        let Checked { mut window, mut free, .. } = open(path, &plan, 0).expect("it is right");
        let mut left: HashMap<u64, usize> = nodes.iter().map(|node| (node.0, node.1.len())).collect();
        let mut expected: BTreeSet<u64> =
            nodes.iter().filter(|node| node.1.is_empty()).map(|node| node.0).collect();
        let mut most = 0;
        while !expected.is_empty() {
            assert_eq!(ids(&free), expected);
            let id = *expected.iter().nth(choose(expected.len())).expect("one of them");
            free.remove(id, Need::Computing);
            window.begins(id, &plan, 0).expect("it is as it was");
            most = most.max(window.nodes.len());
            window.ends(id, &mut free).expect("it was there");
            expected.remove(&id);
            left.remove(&id);
            for (child, parents) in nodes.iter().filter(|node| node.1.contains(&id)) {
                let left = left.get_mut(child).expect("it has not ended");
                *left -= 1;
                if *left == 0 && !parents.is_empty() {
                    expected.insert(*child);
                }
            }
        }
        assert!(left.is_empty() && window.nodes.is_empty() && window.ahead.is_empty());
        most
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// In any order of nodes in a file, the free nodes are those of the whole trace.
        #[test]
        fn free_is_what_has_nothing_to_wait_for(
            count in 1usize..1500, gap in 1u64..4, back in 1usize..900, swaps in 0usize..40, seed in any::<u64>(),
        ) {
            let mut random = seed;
            let mut draw = |below: usize| {
                random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (random >> 33) as usize % below
            };
            // Dependencies have an order of their own, so a node may wait for one with a higher id.
            let mut ids: Vec<u64> = (0..count as u64).map(|id| id * gap).collect();
            for _ in 0..swaps {
                ids.swap(draw(count), draw(count));
            }
            let mut nodes: Vec<(u64, Vec<u64>)> = Vec::new();
            for place in 0..count {
                let wanted = if place < 2 { 0 } else { 1 + draw(3) };
                let mut parents: Vec<u64> =
                    (0..wanted).map(|_| ids[place - 1 - draw(back.min(place))]).collect();
                parents.sort_unstable();
                parents.dedup();
                nodes.push((ids[place], parents));
            }
            // The file is in the order of ids, except for a few nodes.
            nodes.sort_by_key(|node| node.0);
            for _ in 0..draw(3) {
                let (one, other) = (draw(count), draw(count));
                nodes.swap(one, other);
            }
            let path = written(&format!("{seed}.et"), &nodes);
            run(&path, &nodes, draw);
            std::fs::remove_file(path).expect("it was there");
        }
    }

    #[test]
    fn a_long_chain_takes_two_blocks() {
        let nodes: Vec<_> = (0..3000).map(|id: u64| (id, Vec::from_iter(id.checked_sub(1)))).collect();
        let path = written("chain.et", &nodes);
        assert!(run(&path, &nodes, |_| 0) <= 2 * BLOCK_NODES as usize);
        std::fs::remove_file(path).expect("it was there");
    }

    #[test]
    fn a_file_that_is_changed_is_noticed() {
        let nodes: Vec<_> = (0..600).map(|id: u64| (id, Vec::from_iter(id.checked_sub(1)))).collect();
        let path = written("changed.et", &nodes);
        let mut window = open(&path, &plan(), 0).expect("it is right").window;
        written("changed.et", &nodes[..599]);
        assert!(window.begins(0, &plan(), 0).unwrap_err().contains("found that it was changed"));
        std::fs::remove_file(path).expect("it was there");
    }
}

#[cfg(test)]
mod free_tests {
    use super::*;

    #[test]
    fn next_is_the_lowest_that_may_begin() {
        let mut free = Free::default();
        for (id, need) in [(7, Need::Cpu), (3, Need::Nothing), (5, Need::Communicating)] {
            free.add(id, need);
        }
        let added = free.added();
        free.add(4, Need::Nothing);
        let any = |_| true;
        assert_eq!(free.next(None, added, any), Some((3, Need::Nothing)));
        assert_eq!(free.next(Some(3), added, any), Some((5, Need::Communicating)));
        assert_eq!(free.next(Some(3), added, |need| need != Need::Communicating), Some((7, Need::Cpu)));
        assert_eq!(free.next(Some(3), added + 1, any), Some((4, Need::Nothing)));
        assert_eq!((free.next(Some(7), added, any), free.first()), (None, Some(3)));
        free.remove(3, Need::Nothing);
        assert_eq!((free.first(), free.is_empty()), (Some(4), false));
    }
}
