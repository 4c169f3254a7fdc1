//! A row of the flow table.

use std::collections::BTreeMap;
use tailback_proto::nic::Messages;

use super::quantity::bits_per_second;
use crate::nic::queue_pair::{QpState, GONE};
use crate::plan::Plan;
use crate::world::World;

/// A queue pair or TCP connection and what became of it: [`crate::record::COLUMNS`] says what each field is. Counters of the other
/// protocol are 0.
#[derive(Clone, Debug, Default)]
pub struct Flow {
    pub item: String,
    pub protocol: &'static str,
    pub congestion: Option<String>,
    pub src: String,
    pub dst: String,
    pub qp: u32,
    pub priority: u8,
    pub start_ps: Option<u64>,
    pub end_ps: Option<u64>,
    pub state: &'static str,
    pub error: Option<String>,
    pub message_bytes: Option<u64>,
    pub messages_posted: u64,
    pub messages_completed: u64,
    pub bytes_delivered: u64,
    pub fct_ps: Option<u64>,
    pub ideal_fct_ps: Option<u64>,
    pub goodput_bps: f64,
    pub packets_sent: u64,
    pub packets_retransmitted: u64,
    pub packet_seq_err: u64,
    pub out_of_sequence: u64,
    pub duplicate_request: u64,
    pub local_ack_timeout_err: u64,
    pub rp_cnp_handled: u64,
    pub np_cnp_sent: u64,
    pub np_ecn_marked_roce_packets: u64,
    pub rate_bps: Option<f64>,
    /// How long its packets waited by the lowest rate that its controller may set; none: none ever did.
    pub min_rate_wait_ps: Option<u64>,
    /// When the first such wait began, and when the last one ended.
    pub min_rate_span_ps: Option<(u64, u64)>,
    pub retransmitted_segments: u64,
    pub timeouts: u64,
    pub fast_recoveries: u64,
    pub ece_received: u64,
    pub cwnd_bytes: Option<u64>,
    pub srtt_ps: Option<u64>,
}

impl Flow {
    /// Completion time over the ideal one, of a single message that is done.
    pub fn slowdown(&self) -> Option<f64> {
        Some(self.fct_ps? as f64 / self.ideal_fct_ps? as f64)
    }
}

// The flow table: a row a queue pair or TCP connection.

/// The rows of queue pairs, with their numbers; not of those whose slots are free.
pub(super) fn flows<'a>(plan: &'a Plan, world: &'a World) -> impl Iterator<Item = (usize, Flow)> + 'a {
    let numbers = world.nics.send_qps.iter().map(|s| s.number).enumerate();
    let there = numbers.filter(|&(_, number)| number != GONE);
    there.map(move |(slot, number)| (number as usize, flow(plan, world, slot)))
}

/// The row of the queue pair in a slot.
pub(super) fn flow(plan: &Plan, world: &World, slot: usize) -> Flow {
    let message = slot.checked_sub(world.nics.first_flow_qp as usize);
    let (s, r) = (&world.nics.send_qps[slot], &world.nics.recv_qps[slot]);
    let kinds = &world.nics.models[world.nics[s.src as usize].model as usize].congestion;
    let writer = &world.nics.writers[s.writer as usize];
    let ended = matches!(s.state, QpState::Done | QpState::Error);
    let simulated = |at| world.fabric.run.skips.simulated_at(at);
    let (start, end) =
        (simulated(s.start), if ended { simulated(s.end) } else { world.fabric.run.simulated() });
    let error = (s.state == QpState::Error).then(|| {
        format!(
            "transport retry counter exceeded: no progress past packet {} for {}",
            s.half.requester.acknowledged(),
            world.nics.models[world.nics[s.src as usize].model as usize].rc.patience(),
        )
    });
    // What a queue pair that gave up had on the way may still arrive, in the end more than the link carries up to then.
    let counted = match s.state {
        QpState::Error => writer.writes.position(s.half.requester.acknowledged()),
        _ => r.bytes_delivered,
    };
    let waits = s.at_min_rate.as_deref();
    // Of many messages on one queue pair none has a completion time of its own here.
    let single = message.filter(|_| writer.messages == Some(1));
    // A message of work may be forgotten when it is done.
    let is_of_work = single.is_some() && world.nics.slots.is_of_work(s.number);
    let rate_at = if is_of_work && ended { s.end } else { world.fabric.run.now };
    Flow {
        item: match message {
            Some(message) => plan.flows.items[plan.flows.list[message].item()].clone(),
            None => plan.writers[s.writer as usize].item.clone(),
        },
        protocol: "roce",
        src: plan.hosts[s.src as usize].name.clone(),
        dst: plan.hosts[s.dst as usize].name.clone(),
        qp: writer.number_of(slot as u32),
        congestion: (kinds.len() > 1).then(|| kinds[s.congestion as usize].name()),
        priority: s.class,
        start_ps: (s.state != QpState::Waiting).then_some(start.0),
        end_ps: ended.then_some(end.0),
        state: s.state.text(),
        error,
        message_bytes: Some(writer.writes.message_bytes),
        messages_posted: s.messages_posted,
        messages_completed: s.half.requester.acknowledged() / writer.writes.packets_per_message,
        bytes_delivered: r.bytes_delivered,
        fct_ps: (single.is_some() && s.state == QpState::Done).then(|| (end - start).0),
        ideal_fct_ps: single.map(|message| world.nics.ideal_fct[message].0),
        goodput_bps: bits_per_second(counted, end.saturating_sub(start)),
        packets_sent: s.packets_sent,
        packets_retransmitted: s.packets_retransmitted,
        packet_seq_err: s.packet_seq_err,
        out_of_sequence: r.out_of_sequence,
        duplicate_request: r.duplicate_request,
        local_ack_timeout_err: s.local_ack_timeout_err,
        rp_cnp_handled: s.rp_cnp_handled,
        np_cnp_sent: r.np_cnp_sent,
        np_ecn_marked_roce_packets: r.np_ecn_marked_roce_packets,
        rate_bps: Some(super::queue_pairs::rate(world, slot, rate_at)),
        // The last wait may reach past the end.
        min_rate_wait_ps: waits.map(|waits| waits.waited.0 - simulated(waits.to).saturating_sub(end).0),
        min_rate_span_ps: waits.map(|waits| (simulated(waits.from).0, simulated(waits.to).min(end).0)),
        ..Flow::default()
    }
}

// The columns of the flow table.

/// A column.
#[derive(Debug)]
pub struct Column {
    /// Name.
    pub name: &'static str,
    /// How it is read.
    pub read: Read,
    /// One line.
    pub help: &'static str,
    /// True if it is left out where no row has a value.
    sometimes: bool,
}

impl Column {
    /// True if a table has it, whose rows have values there or not.
    pub fn is_in(&self, has_values: bool) -> bool {
        !self.sometimes || has_values
    }
}

/// How a value is read, by its type.
#[derive(Debug)]
pub enum Read {
    /// The number of the row.
    Row,
    Text(fn(&Flow) -> &str),
    OptionalText(fn(&Flow) -> Option<&str>),
    U8(fn(&Flow) -> u8),
    U32(fn(&Flow) -> u32),
    Integer(fn(&Flow) -> u64),
    OptionalInteger(fn(&Flow) -> Option<u64>),
    Float(fn(&Flow) -> f64),
    OptionalFloat(fn(&Flow) -> Option<f64>),
}

impl Read {
    /// The type of the column.
    pub fn type_name(&self) -> &'static str {
        match self {
            Read::Row | Read::Integer(_) | Read::OptionalInteger(_) => "int64",
            Read::Text(_) | Read::OptionalText(_) => "string",
            Read::U8(_) => "uint8",
            Read::U32(_) => "uint32",
            Read::Float(_) | Read::OptionalFloat(_) => "float64",
        }
    }
}

const fn column(name: &'static str, read: Read, help: &'static str) -> Column {
    Column { name, read, help, sometimes: false }
}

const fn sometimes(name: &'static str, read: Read, help: &'static str) -> Column {
    Column { name, read, help, sometimes: true }
}

/// All of them, in order.
#[rustfmt::skip] // a line each
pub static COLUMNS: [Column; 39] = {
    use Read::*;
    [
        column("flow", Row, "number of the queue pair in the run"),
        column("item", Text(|f| &f.item), "traffic item: its kind and number, `write0`, `poisson1` or `tcp2`"),
        column("protocol", Text(|f| f.protocol), "`roce` or `tcp`"),
        column("src", Text(|f| &f.src), "host that sends"),
        column("dst", Text(|f| &f.dst), "host that receives"),
        column("qp", U32(|f| f.qp), "number among the queue pairs, or the TCP connections, of its pair of hosts; of a single message, among those of its item"),
        column("priority", U8(|f| f.priority), "of data and ACKs"),
        column("start_ps", OptionalInteger(|f| f.start_ps), "when its writer started; null if it has not"),
        column("end_ps", OptionalInteger(|f| f.end_ps), "when its last message was acknowledged, or when it failed; null while running"),
        column("state", Text(|f| f.state), "`waiting` (not started), `running`, `done`, `error`"),
        column("error", OptionalText(|f| f.error.as_deref()), "why it failed; null otherwise"),
        column("message_bytes", OptionalInteger(|f| f.message_bytes), "size of a message; of TCP what the connection sends, null without an end"),
        column("messages_posted", Integer(|f| f.messages_posted), "messages that its writer posted"),
        column("messages_completed", Integer(|f| f.messages_completed), "messages that were acknowledged"),
        column("bytes_delivered", Integer(|f| f.bytes_delivered), "payload delivered in order at the receiver"),
        column("fct_ps", OptionalInteger(|f| f.fct_ps), "of a finite message that is done: from its start to the arrival of the last ACK; null otherwise"),
        column("ideal_fct_ps", OptionalInteger(|f| f.ideal_fct_ps), "the same in an empty network on the routes that data and ACKs take; null for writers without an end"),
        column("slowdown", OptionalFloat(Flow::slowdown), "`fct_ps` over `ideal_fct_ps`; null where either is. Tables and plots count a value below 1 as 1, as the HPCC paper does: that simulator's rounded times can be a little below its ideal ones"),
        column("goodput_bps", Float(|f| f.goodput_bps), "of the payload delivered, from start to end (or to the end of the run); of a queue pair that gave up, of what was acknowledged by then"),
        column("packets_sent", Integer(|f| f.packets_sent), "data packets, retransmissions included"),
        column("packets_retransmitted", Integer(|f| f.packets_retransmitted), "data packets sent again"),
        column("packet_seq_err", Integer(|f| f.packet_seq_err), "NAKs that the sender got"),
        column("out_of_sequence", Integer(|f| f.out_of_sequence), "packets that the receiver got out of order, and discarded"),
        column("duplicate_request", Integer(|f| f.duplicate_request), "packets that the receiver had before"),
        column("local_ack_timeout_err", Integer(|f| f.local_ack_timeout_err), "timeouts"),
        column("rp_cnp_handled", Integer(|f| f.rp_cnp_handled), "CNPs that the sender acted on"),
        column("np_cnp_sent", Integer(|f| f.np_cnp_sent), "CNPs that the receiver sent"),
        column("np_ecn_marked_roce_packets", Integer(|f| f.np_ecn_marked_roce_packets), "packets with a CE mark that reached the receiver"),
        column("rate_bps", OptionalFloat(|f| f.rate_bps), "the controller's rate at the end, of a message of a job when it was done; the line rate without a limiter; null for TCP"),
        column("retransmitted_segments", Integer(|f| f.retransmitted_segments), "TCP: segments sent again, the same as `packets_retransmitted`"),
        column("timeouts", Integer(|f| f.timeouts), "TCP: retransmission timeouts"),
        column("fast_recoveries", Integer(|f| f.fast_recoveries), "TCP: recoveries from a loss without a timeout"),
        column("ece_received", Integer(|f| f.ece_received), "TCP: ACKs that told the sender of a mark"),
        column("cwnd_bytes", OptionalInteger(|f| f.cwnd_bytes), "TCP: congestion window at the end; null for RoCE"),
        column("srtt_ps", OptionalInteger(|f| f.srtt_ps), "TCP: smoothed round-trip time at the end; null where none was measured"),
        sometimes("congestion", OptionalText(|f| f.congestion.as_deref()), "RoCE: its congestion control; null for TCP. Only where a scenario has several"),
        sometimes("min_rate_wait_ps", OptionalInteger(|f| f.min_rate_wait_ps), "how long its packets waited by the lowest rate of its controller (`rpg_min_rate`); null where none did. Only where a queue pair waited so, as the next two"),
        sometimes("min_rate_from_ps", OptionalInteger(|f| f.min_rate_span_ps.map(|(from, _)| from)), "when the first such wait began"),
        sometimes("min_rate_to_ps", OptionalInteger(|f| f.min_rate_span_ps.map(|(_, to)| to)), "when the last such wait ended"),
    ]
};

// Rows of the flow table in blocks. Many rows take little room this way, since most columns of a block hold
// a single value.

/// Rows in a block.
pub const BLOCK_ROWS: usize = 1 << 15;

/// The values of a column in a block.
#[derive(Debug, PartialEq)]
pub enum Values<T> {
    /// One value for all rows.
    Same(T),
    /// A value for each row.
    Each(Vec<T>),
}

impl<T: Clone + PartialEq> Values<T> {
    fn of(values: Vec<T>) -> Values<T> {
        match values.split_first() {
            Some((first, rest)) if rest.iter().all(|other| other == first) => Values::Same(first.clone()),
            _ => Values::Each(values),
        }
    }

    /// The value of each of `rows` rows.
    pub fn iter(&self, rows: usize) -> impl Iterator<Item = T> + '_ {
        let (same, each) = match self {
            Values::Same(value) => (Some(std::iter::repeat_n(value, rows)), None),
            Values::Each(values) => (None, Some(values)),
        };
        same.into_iter().flatten().chain(each.into_iter().flatten()).cloned()
    }

    fn is_same(&self) -> bool {
        matches!(self, Values::Same(_))
    }

    fn any(&self, has: impl Fn(&T) -> bool) -> bool {
        match self {
            Values::Same(value) => has(value),
            Values::Each(values) => values.iter().any(has),
        }
    }
}

/// A column of a block.
#[derive(Debug, PartialEq)]
pub enum Cells {
    /// The number of the row.
    Row,
    /// Texts, and for each row which of them it has, if any.
    Text(Vec<String>, Values<Option<u32>>),
    Integer(Values<u64>),
    OptionalInteger(Values<Option<u64>>),
    Float(Values<f64>),
    OptionalFloat(Values<Option<f64>>),
}

impl Cells {
    fn of(column: &Column, rows: &[Flow]) -> Cells {
        match column.read {
            Read::Row => Cells::Row,
            Read::Text(read) => texts(rows.iter().map(|row| Some(read(row)))),
            Read::OptionalText(read) => texts(rows.iter().map(read)),
            Read::U8(read) => Cells::Integer(Values::of(rows.iter().map(|row| read(row) as u64).collect())),
            Read::U32(read) => Cells::Integer(Values::of(rows.iter().map(|row| read(row) as u64).collect())),
            Read::Integer(read) => Cells::Integer(Values::of(rows.iter().map(read).collect())),
            Read::Float(read) => Cells::Float(Values::of(rows.iter().map(read).collect())),
            Read::OptionalInteger(read) => match rows.iter().map(read).collect::<Option<Vec<u64>>>() {
                Some(values) => Cells::Integer(Values::of(values)),
                None => Cells::OptionalInteger(Values::of(rows.iter().map(read).collect())),
            },
            Read::OptionalFloat(read) => match rows.iter().map(read).collect::<Option<Vec<f64>>>() {
                Some(values) => Cells::Float(Values::of(values)),
                None => Cells::OptionalFloat(Values::of(rows.iter().map(read).collect())),
            },
        }
    }

    /// True if all rows have the same value.
    pub fn is_same(&self) -> bool {
        match self {
            Cells::Row => false,
            Cells::Text(_, values) => values.is_same(),
            Cells::Integer(values) => values.is_same(),
            Cells::OptionalInteger(values) => values.is_same(),
            Cells::Float(values) => values.is_same(),
            Cells::OptionalFloat(values) => values.is_same(),
        }
    }

    /// True if some row has no value.
    pub fn has_none(&self) -> bool {
        match self {
            Cells::Row | Cells::Integer(_) | Cells::Float(_) => false,
            Cells::Text(_, at) => at.any(Option::is_none),
            Cells::OptionalInteger(values) => values.any(Option::is_none),
            Cells::OptionalFloat(values) => values.any(Option::is_none),
        }
    }

    /// True if some row has a value. Without rows, none has.
    pub fn has_some(&self) -> bool {
        match self {
            Cells::Row => true,
            Cells::Integer(values) => values.any(|_| true),
            Cells::Float(values) => values.any(|_| true),
            Cells::Text(_, at) => at.any(Option::is_some),
            Cells::OptionalInteger(values) => values.any(Option::is_some),
            Cells::OptionalFloat(values) => values.any(Option::is_some),
        }
    }
}

fn texts<'a>(rows: impl Iterator<Item = Option<&'a str>>) -> Cells {
    let mut number_of: BTreeMap<&str, u32> = BTreeMap::new();
    let mut names = Vec::new();
    let mut number = |text: &'a str| {
        *number_of.entry(text).or_insert_with(|| {
            names.push(text.to_owned());
            names.len() as u32 - 1
        })
    };
    let at = rows.map(|text| text.map(&mut number)).collect();
    Cells::Text(names, Values::of(at))
}

/// Consecutive rows of the flow table.
#[derive(Debug, PartialEq)]
pub struct FlowBlock {
    /// Number of rows.
    pub rows: usize,
    /// One for each column of [`COLUMNS`].
    pub columns: Vec<Cells>,
}

impl FlowBlock {
    /// A block of some rows.
    pub fn new(rows: &[Flow]) -> FlowBlock {
        FlowBlock {
            rows: rows.len(),
            columns: COLUMNS.iter().map(|column| Cells::of(column, rows)).collect(),
        }
    }
}

impl FlowBlock {
    /// Merges the rows of two blocks. `first` says for each row whether it is the next one of the first
    /// block.
    pub(super) fn merged(self, other: FlowBlock, first: &[bool]) -> FlowBlock {
        let rows = (self.rows, other.rows);
        let columns = self.columns.into_iter().zip(other.columns);
        FlowBlock {
            rows: first.len(),
            columns: columns.map(|(one, two)| one.merged(two, rows, first)).collect(),
        }
    }
}

impl Cells {
    fn merged(self, other: Cells, (one, two): (usize, usize), first: &[bool]) -> Cells {
        fn mix<T>(
            (mut one, mut two): (impl Iterator<Item = T>, impl Iterator<Item = T>),
            first: &[bool],
        ) -> Vec<T> {
            first.iter().filter_map(|&first| if first { one.next() } else { two.next() }).collect()
        }
        match (self, other) {
            (Cells::Text(names, at), Cells::Text(others, others_at)) => {
                let own = at.iter(one).map(|at| at.map(|at| names[at as usize].as_str()));
                let other = others_at.iter(two).map(|at| at.map(|at| others[at as usize].as_str()));
                texts(mix((own, other), first).into_iter())
            }
            (Cells::Integer(a), Cells::Integer(b)) => {
                Cells::Integer(Values::of(mix((a.iter(one), b.iter(two)), first)))
            }
            (Cells::Float(a), Cells::Float(b)) => {
                Cells::Float(Values::of(mix((a.iter(one), b.iter(two)), first)))
            }
            (a @ (Cells::Integer(_) | Cells::OptionalInteger(_)), b) => {
                let both = (a.integers(one), b.integers(two));
                Cells::OptionalInteger(Values::of(mix(both, first)))
            }
            (a @ (Cells::Float(_) | Cells::OptionalFloat(_)), b) => {
                let both = (a.floats(one), b.floats(two));
                Cells::OptionalFloat(Values::of(mix(both, first)))
            }
            _ => Cells::Row,
        }
    }

    /// The integer of each row, if it has one.
    fn integers(&self, rows: usize) -> Box<dyn Iterator<Item = Option<u64>> + '_> {
        match self {
            Cells::Integer(values) => Box::new(values.iter(rows).map(Some)),
            Cells::OptionalInteger(values) => Box::new(values.iter(rows)),
            _ => unreachable!("columns are of one type in all blocks"),
        }
    }

    /// The number of each row, if it has one.
    fn floats(&self, rows: usize) -> Box<dyn Iterator<Item = Option<f64>> + '_> {
        match self {
            Cells::Float(values) => Box::new(values.iter(rows).map(Some)),
            Cells::OptionalFloat(values) => Box::new(values.iter(rows)),
            _ => unreachable!("columns are of one type in all blocks"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_rows_have_no_values() {
        let empty = FlowBlock::new(&[]);
        let optional =
            COLUMNS.iter().zip(&empty.columns).filter(|(column, _)| column.name == "min_rate_wait_ps");
        assert_eq!(optional.map(|(_, cells)| cells.has_some()).collect::<Vec<_>>(), [false]);
    }

    /// Rows with and without values, in any order, merge as if they had been one block.
    #[test]
    fn two_blocks_as_one() {
        let row = |number: usize| Flow {
            qp: number as u32,
            fct_ps: (!number.is_multiple_of(3)).then_some(number as u64),
            ideal_fct_ps: (!number.is_multiple_of(2)).then_some(7),
            src: format!("h{}", number % 5),
            error: (number == 8).then(|| "gave up".into()),
            goodput_bps: number as f64 / 2.0,
            ..Flow::default()
        };
        let all: Vec<Flow> = (0..12).map(row).collect();
        let one: Vec<bool> = (0..12).map(|number| number % 4 != 3).collect();
        let of = |which: bool| {
            let rows = all.iter().zip(&one).filter(|(_, &first)| first == which);
            FlowBlock::new(&rows.map(|(row, _)| row.clone()).collect::<Vec<_>>())
        };
        let merged = of(true).merged(of(false), &one);
        assert!(merged.alike(&FlowBlock::new(&all)));
        assert!(!merged.alike(&of(true)));
    }

    impl FlowBlock {
        /// True if all rows are the same, no matter how they are stored.
        pub fn alike(&self, other: &FlowBlock) -> bool {
            let text = |block: &FlowBlock, cells: &Cells| match cells {
                Cells::Row => "rows".to_owned(),
                Cells::Text(names, at) => {
                    let name = |at: Option<u32>| at.map(|at| &names[at as usize]);
                    format!("{:?}", at.iter(block.rows).map(name).collect::<Vec<_>>())
                }
                Cells::Integer(_) | Cells::OptionalInteger(_) => {
                    format!("{:?}", cells.integers(block.rows).collect::<Vec<_>>())
                }
                Cells::Float(_) | Cells::OptionalFloat(_) => {
                    format!("{:?}", cells.floats(block.rows).collect::<Vec<_>>())
                }
            };
            let mut columns = self.columns.iter().zip(&other.columns);
            self.rows == other.rows && columns.all(|(one, two)| text(self, one) == text(other, two))
        }
    }
}
