//! The columns of the flow table.

use super::flow::Flow;

/// A column.
#[derive(Debug)]
pub struct Column {
    /// Name.
    pub name: &'static str,
    /// How it is read.
    pub read: Read,
    /// One line.
    pub help: &'static str,
    /// Whether it is left out where no row has a value.
    sometimes: bool,
}

impl Column {
    /// Whether a table has it, whose rows have values there or not.
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
