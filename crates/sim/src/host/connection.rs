//! TCP connections: both ends, and what packets carry for them.

use tailback_proto::transport::tcp::{
    AckSegment, DataSegment, SackBlocks, TcpParameters, TcpReceiver, TcpSender,
};
use tailback_proto::units::Time;

use crate::nic::qp::QpState;
use crate::plan::TcpSettings;

/// The ends of a connection.
pub(super) const SENDER: usize = 0;
pub(super) const RECEIVER: usize = 1;

/// A kind of TCP stack.
#[derive(Debug)]
pub(crate) struct Stack {
    pub parameters: TcpParameters,
    pub(super) small_queue: u32,
}

/// A connection, both ends.
#[derive(Debug)]
pub(crate) struct Connection {
    pub sender: TcpSender,
    pub receiver: TcpReceiver,
    pub state: QpState,
    /// Whether its application writes no more.
    pub(super) closed: bool,
    /// Bytes in transmit rings.
    pub queued: u32,
    /// Whether it waits for them to leave.
    pub(super) throttled: bool,
    /// Whether its receiver's thread waits for the core, or has it.
    pub(super) reading: bool,
    /// When the pending timer events of sender and receiver are due; `NEVER`: none.
    pub(super) timer_at: [Time; 2],
    /// Its latest segment among those held by GRO.
    pub(super) held: u32,
    pub(super) sender_core: u32,
    pub(super) receiver_core: u32,
    pub(super) sender_ring: u32,
    pub(super) receiver_ring: u32,
    pub(super) sender_stack: u16,
    pub(super) receiver_stack: u16,
    pub src: u16,
    pub dst: u16,
    pub class: u8,
    pub code_point: u8,
    /// The group of connections that it is of.
    pub group: u32,
    /// Among the connections of its two hosts.
    pub number: u32,
    pub start: Time,
    pub end: Time,
    pub packets_sent: u64,
    /// Those of them that had been sent before.
    pub packets_retransmitted: u64,
    /// What its application read.
    pub bytes_read: u64,
    pub duplicate_packets: u64,
}

/// The connections of a traffic item from one host to another.
#[derive(Debug)]
pub(crate) struct Group {
    pub first: u32,
    pub connections: u32,
    pub bytes: Option<u64>,
}

/// All TCP connections.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    pub connections: Vec<Connection>,
    pub groups: Vec<Group>,
    /// By kind of NIC in the plan; only those that are used.
    pub stacks: Vec<Stack>,
    /// Number that packets of the first connection carry: flows of all kinds are told apart by it.
    pub first_flow: u32,
    pub headers: Headers,
    pub(super) held: Vec<Held>,
}

/// A segment that GRO holds, or an ACK on its way.
#[derive(Debug)]
pub(super) enum Held {
    /// `order`: its number among those of the poll.
    Data {
        connection: u32,
        order: u32,
        segment: DataSegment,
    },
    Ack {
        connection: u32,
        segment: AckSegment,
    },
}

/// What TCP headers say that a packet has no room for. Lies beside the packet arena, indexed like it, and takes no
/// memory where there is no TCP.
#[derive(Debug, Default)]
pub(crate) struct Headers {
    /// Position of data or ACK, and timestamp of data or timestamp echo.
    pub(super) stamps: Vec<(u64, Time)>,
    /// Window and SACK blocks of an ACK.
    pub(super) acks: Vec<(u64, SackBlocks)>,
}

fn slot<T: Copy + Default>(values: &mut Vec<T>, index: u32) -> &mut T {
    let index = index as usize;
    if index >= values.len() {
        values.resize(index + 1, T::default());
    }
    &mut values[index]
}

impl Headers {
    /// Of a data packet.
    pub fn write(&mut self, packet: u32, position: u64, sent_at: Time) {
        *slot(&mut self.stamps, packet) = (position, sent_at);
    }

    /// Position of a data packet or an ACK, and its timestamp or timestamp echo.
    pub fn stamp(&self, packet: u32) -> (u64, Time) {
        self.stamps[packet as usize]
    }

    /// Window and SACK blocks of an ACK.
    pub fn ack(&self, packet: u32) -> (u64, SackBlocks) {
        self.acks[packet as usize]
    }

    /// Of an ACK.
    pub fn write_ack(&mut self, packet: u32, ack: &AckSegment) {
        *slot(&mut self.stamps, packet) = (ack.ack, ack.echo);
        *slot(&mut self.acks, packet) = (ack.window, ack.sack);
    }
}

impl Sockets {
    /// Payload of a connection's full segments.
    pub fn mss(&self, connection: u32) -> u32 {
        let stack = self.connections[connection as usize].sender_stack;
        self.stacks[stack as usize].parameters.mss
    }
}

impl Stack {
    pub fn new(plan: &TcpSettings) -> Self {
        Stack { parameters: plan.parameters(), small_queue: plan.small_queue.0 as u32 }
    }
}
