//! Chakra execution traces (schema of mlcommons/chakra, `et_def.proto`): a metadata message and then nodes, each preceded by
//! its length.

use prost::encoding::decode_varint;
use prost::Message;
use std::io::BufRead;

use super::desk::MOST_BYTES;
use super::phases::Asked;
use super::plan::{AstraPlan, Kind};
use crate::work::StepRecord;

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

/// What a node occupies while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    Cpu,
    Computing,
    Communicating,
    Nothing,
}

/// Definitions of groups: name and ranks.
pub(super) type Groups = Vec<(i32, Vec<u32>)>;

/// What a node is.
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
    Collective(Box<Asked>),
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
            0 => Kind::AllReduce,
            2 => Kind::AllGather,
            5 => return Ok(Task::Wait { ns: self.recorded()? }),
            6 => Kind::AllToAll,
            7 => Kind::ReduceScatter,
            other => {
                return Err(format!(
                    "comm_type: expected 0 all-reduce, 2 all-gather, 5 broadcast, 6 all-to-all or 7 reduce-scatter, \
                     found {other}"
                ));
            }
        };
        let priority = self.number("comm_priority")?.unwrap_or(0) as i32;
        Ok(Task::Collective(Box::new(Asked { kind, bytes: self.bytes()?, group, priority, dims })))
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
