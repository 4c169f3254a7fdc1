//! TCP connections: `iperf` between two hosts, driven by packets, timers and the CPU.
//!
//! Each end of a connection lives on the core that RSS gives it: its packets are polled there, its timers expire
//! there, its application reads there. The sender's application always has a block written ahead; the receiver's
//! reads what has come when it gets the core.
//!
//! Sources: Linux `net/ipv4/tcp_output.c` (`tcp_small_queue_check`: a connection hands nothing more down while
//! `small_queue` of it wait in the NIC; `tcp_tsq_handler`: it goes on when they have left),
//! iperf3 `iperf_tcp.h` (blocks of 128 KiB).
//!
//! Leaves out: opening and closing a connection, a send buffer, the buffers' auto-tuning, TSO sizes by pacing rate,
//! an application on another core than its softirqs (no RFS), and waking it up.

use std::collections::{HashMap, VecDeque};
use tailback_proto::nic::Standing;
use tailback_proto::transport::tcp::{
    AckSegment, ControlParameters, DataSegment, SackBlocks, TcpParameters, TcpReceiver, TcpSender,
};
use tailback_proto::units::Time;
use tailback_proto::wire::{tcp_frame_bytes, PREAMBLE_AND_GAP_BYTES};

use super::cpu::Batch;
use super::Tcp;
use crate::cores::Purpose;
use crate::engine::Arena;
use crate::event::Event;
use crate::fabric::packet::{Amount, Detail, Packet, PacketKind, CE, CE_ECHO, CWR, ECT, NONE};
use crate::fabric::Fabric;
use crate::gauge::QueuedAt;
use crate::nic::queue_pair::QpState;
use crate::nic::{Ethernet, Nics};
use tailback_proto::transport::tcp::TcpSettings;

/// Bytes that an application writes or reads at once: iperf3's default block.
const BLOCK_BYTES: u64 = 128 << 10;

/// Work that waits for a core: a connection and the action on it.
#[derive(Clone, Copy)]
enum Softirq {
    Transmit,
    SenderTimeout,
    ReceiverTimeout,
}

impl Softirq {
    fn of(self, connection: u32) -> u32 {
        connection << 2 | self as u32
    }

    fn decode(work: u32) -> (u32, Softirq) {
        let what = match work & 3 {
            0 => Softirq::Transmit,
            1 => Softirq::SenderTimeout,
            _ => Softirq::ReceiverTimeout,
        };
        (work >> 2, what)
    }
}

impl Ethernet for Tcp {
    #[inline(never)]
    fn receive(&mut self, fabric: &mut Fabric, nics: &mut Nics, packet: u32) {
        let p = &fabric.packets[packet];
        let c = &self.sockets.connections[(p.qp - self.sockets.first_flow) as usize];
        let core = if p.kind == PacketKind::Tcp { c.receiver_core } else { c.sender_core };
        self.core_receive(fabric, nics, core, packet);
    }

    #[inline(never)]
    fn send(&mut self, fabric: &mut Fabric, nics: &mut Nics, port: usize, ring: u32) {
        self.send_from_ring(fabric, nics, port, ring);
    }
}

impl Tcp {
    /// The connections of a group begin.
    #[inline(never)]
    pub fn on_tcp_start(&mut self, fabric: &mut Fabric, nics: &mut Nics, group: u32) {
        let Group { first, connections, bytes } = self.sockets.groups[group as usize];
        for connection in first..first + connections {
            let c = &mut self.sockets.connections[connection as usize];
            c.state = QpState::Running;
            c.start = fabric.run.now;
            if let Some(bytes) = bytes {
                c.sender.write(bytes);
            }
            let core = c.sender_core;
            self.raise_softirq(fabric, nics, core, Softirq::Transmit.of(connection));
        }
    }

    /// The applications of a group write no more; what they wrote is still sent.
    #[inline(never)]
    pub fn on_tcp_stop(&mut self, fabric: &mut Fabric, group: u32) {
        let Group { first, connections, .. } = self.sockets.groups[group as usize];
        for connection in first..first + connections {
            let c = &mut self.sockets.connections[connection as usize];
            c.closed = true;
            self.end_connection_if_done(fabric, connection);
        }
    }

    pub(super) fn on_tcp_data(
        &mut self,
        fabric: &mut Fabric,
        nics: &mut Nics,
        connection: u32,
        segment: &DataSegment,
        batch: &mut Batch,
    ) {
        let model = &self.cpus.of(batch.core).model;
        batch.spend(Purpose::Soft, model.cycles_per_segment);
        let now = batch.now(model);
        let c = &mut self.sockets.connections[connection as usize];
        let p = &self.sockets.stacks[c.receiver_stack as usize].parameters;
        let verdict = c.receiver.on_segment(p, now, segment);
        // Of a run of which a part is discarded, whole segments are.
        let duplicate = match segment.bytes {
            0 => 1,
            bytes => verdict.discarded * segment.segments as u64 / bytes as u64,
        };
        c.duplicate_packets += duplicate;
        fabric.data.duplicate += duplicate;
        fabric.data.delivered += segment.segments as u64 - duplicate;
        if c.receiver.unread() > 0 && !c.reading {
            c.reading = true;
            self.wake_thread(batch.core, connection);
        }
        if let Some(first) = verdict.first {
            self.send_ack(fabric, nics, connection, &first, Purpose::Soft, batch);
        }
        if verdict.ack {
            self.acknowledge(fabric, nics, connection, Purpose::Soft, batch);
        }
        self.arm(fabric, connection, RECEIVER);
    }

    pub(super) fn on_tcp_ack(
        &mut self,
        fabric: &mut Fabric,
        nics: &mut Nics,
        connection: u32,
        segment: &AckSegment,
        batch: &mut Batch,
    ) {
        let model = &self.cpus.of(batch.core).model;
        batch.spend(Purpose::Soft, model.cycles_per_segment);
        let now = batch.now(model);
        let c = &mut self.sockets.connections[connection as usize];
        if c.state != QpState::Running {
            return;
        }
        let p = &self.sockets.stacks[c.sender_stack as usize].parameters;
        c.sender.on_ack(p, now, segment);
        self.transmit(fabric, nics, connection, batch);
        self.end_connection_if_done(fabric, connection);
    }

    /// Hands down what the windows and the small queue allow.
    fn transmit(&mut self, fabric: &mut Fabric, nics: &mut Nics, connection: u32, batch: &mut Batch) {
        loop {
            let model = &self.cpus.of(batch.core).model;
            let c = &mut self.sockets.connections[connection as usize];
            let stack = &self.sockets.stacks[c.sender_stack as usize];
            c.throttled = c.queued >= stack.small_queue;
            if c.throttled || c.state != QpState::Running {
                break;
            }
            if !c.closed && c.sender.written() - c.sender.next_position() < BLOCK_BYTES {
                c.sender.write(BLOCK_BYTES);
            }
            let now = batch.now(model);
            let Some(burst) = c.sender.poll_transmit(&stack.parameters, now, u32::MAX) else { break };
            batch.spend(Purpose::Soft, model.cycles_per_segment);
            if !burst.retransmission {
                batch.spend(Purpose::Sys, burst.bytes as f64 * model.cycles_per_byte);
            }
            c.queued += burst.bytes;
            let work = Work::Burst(TxBurst {
                connection,
                position: burst.position,
                bytes: burst.bytes,
                whole: burst.bytes,
                sent_at: now,
                retransmission: burst.retransmission,
                flags: (burst.cwr as u8 * CWR) | (burst.ect as u8 * ECT),
            });
            let descriptor =
                Descriptor { ready_at: batch.now(model), work, came: QueuedAt::at(fabric.run.now) };
            let ring = c.sender_ring;
            self.ring_push(fabric, nics, ring, descriptor);
        }
        self.arm(fabric, connection, SENDER);
    }

    /// A packet of a burst, as the NIC cuts it.
    pub fn data_packet(&mut self, fabric: &mut Fabric, burst: &TxBurst, payload: u32, class: u8) -> u32 {
        let c = &mut self.sockets.connections[burst.connection as usize];
        c.packets_sent += 1;
        c.packets_retransmitted += burst.retransmission as u64;
        fabric.data.sent += 1;
        let index = fabric.packets.add(Packet {
            arrival: Time::ZERO,
            qp: self.sockets.first_flow + burst.connection,
            detail: Detail::NONE, // its position is in `headers`
            next: NONE,
            wire_bytes: (tcp_frame_bytes(payload, 0) + PREAMBLE_AND_GAP_BYTES) as u16,
            amount: Amount::payload(payload),
            dst: c.dst,
            ingress: 0,
            kind: PacketKind::Tcp,
            class,
            flags: burst.flags,
            code_point: c.code_point,
        });
        self.sockets.headers.write(index, burst.position, burst.sent_at);
        index
    }

    /// The last packet of a burst has left the NIC.
    pub fn on_burst_sent(&mut self, fabric: &mut Fabric, nics: &mut Nics, burst: &TxBurst) {
        let c = &mut self.sockets.connections[burst.connection as usize];
        c.queued -= burst.whole;
        let limit = self.sockets.stacks[c.sender_stack as usize].small_queue;
        if c.throttled && c.queued < limit {
            c.throttled = false;
            let core = c.sender_core;
            self.raise_softirq(fabric, nics, core, Softirq::Transmit.of(burst.connection));
        }
    }

    /// Sends what a receiver has to say now.
    fn acknowledge(
        &mut self,
        fabric: &mut Fabric,
        nics: &mut Nics,
        connection: u32,
        purpose: Purpose,
        batch: &mut Batch,
    ) {
        let c = &mut self.sockets.connections[connection as usize];
        let p = &self.sockets.stacks[c.receiver_stack as usize].parameters;
        let ack = c.receiver.ack(p);
        self.send_ack(fabric, nics, connection, &ack, purpose, batch);
    }

    fn send_ack(
        &mut self,
        fabric: &mut Fabric,
        nics: &mut Nics,
        connection: u32,
        ack: &AckSegment,
        purpose: Purpose,
        batch: &mut Batch,
    ) {
        let model = &self.cpus.of(batch.core).model;
        batch.spend(purpose, model.cycles_per_segment);
        let ready_at = batch.now(model);
        let c = &self.sockets.connections[connection as usize];
        // RFC 8257, 3: DCTCP's hosts mark all their packets as ECN-capable.
        let stack = &self.sockets.stacks[c.receiver_stack as usize];
        let ack_ect = matches!(stack.parameters.control, ControlParameters::Dctcp(_));
        let (ring, dst, code_point) = (c.receiver_ring, c.src, c.code_point);
        let blocks = ack.sack.as_slice().len() as u32;
        let index = fabric.packets.add(Packet {
            arrival: Time::ZERO,
            qp: self.sockets.first_flow + connection,
            detail: Detail::NONE,
            next: NONE,
            wire_bytes: (tcp_frame_bytes(0, blocks) + PREAMBLE_AND_GAP_BYTES) as u16,
            amount: Amount::NONE,
            dst,
            ingress: 0,
            kind: PacketKind::TcpAck,
            class: self.rings.class(ring),
            flags: (ack.ece as u8 * CE_ECHO) | (ack_ect as u8 * ECT),
            code_point,
        });
        self.sockets.headers.write_ack(index, ack);
        let came = QueuedAt::at(fabric.run.now);
        self.ring_push(fabric, nics, ring, Descriptor { ready_at, work: Work::Packet(index), came });
    }

    /// Softirq work other than a poll.
    pub fn run_softirq(&mut self, fabric: &mut Fabric, nics: &mut Nics, work: u32, batch: &mut Batch) {
        let (connection, what) = Softirq::decode(work);
        let now = batch.now(&self.cpus.of(batch.core).model);
        let c = &mut self.sockets.connections[connection as usize];
        match what {
            Softirq::Transmit => self.transmit(fabric, nics, connection, batch),
            Softirq::SenderTimeout => {
                if c.state == QpState::Running && c.sender.next_timeout().is_some_and(|at| at <= now) {
                    let p = &self.sockets.stacks[c.sender_stack as usize].parameters;
                    c.sender.on_timeout(p, now);
                }
                self.transmit(fabric, nics, connection, batch);
            }
            Softirq::ReceiverTimeout => {
                if c.receiver.on_timeout(now) {
                    self.acknowledge(fabric, nics, connection, Purpose::Soft, batch);
                }
                self.arm(fabric, connection, RECEIVER);
            }
        }
    }

    /// A receiver's application reads.
    pub fn run_thread(&mut self, fabric: &mut Fabric, nics: &mut Nics, connection: u32, batch: &mut Batch) {
        let model = &self.cpus.of(batch.core).model;
        let c = &mut self.sockets.connections[connection as usize];
        let bytes = c.receiver.unread().min(BLOCK_BYTES);
        batch.spend(Purpose::Sys, bytes as f64 * model.cycles_per_byte);
        let p = &self.sockets.stacks[c.receiver_stack as usize].parameters;
        let ack = c.receiver.on_read(p, bytes);
        c.bytes_read += bytes;
        c.reading = c.receiver.unread() > 0;
        let (src, dst, reading) = (c.src as usize, c.dst as usize, c.reading);
        nics[src].goodput_tx_bytes += bytes;
        nics[dst].goodput_rx_bytes += bytes;
        if reading {
            self.wake_thread(batch.core, connection);
        }
        if ack {
            self.acknowledge(fabric, nics, connection, Purpose::Sys, batch);
        }
        self.arm(fabric, connection, RECEIVER);
        self.end_connection_if_done(fabric, connection);
    }

    /// Makes sure that a timer event is pending no later than a timer of a connection. The event stays where it is when
    /// the deadline moves on, and looks again when it fires.
    fn arm(&mut self, fabric: &mut Fabric, connection: u32, end: usize) {
        let c = &mut self.sockets.connections[connection as usize];
        let deadline = if end == SENDER { c.sender.next_timeout() } else { c.receiver.next_timeout() };
        let Some(deadline) = deadline else { return };
        if deadline < c.timer_at[end] {
            c.timer_at[end] = deadline;
            fabric.run.schedule(deadline.max(fabric.run.now), Event::TcpTimer(connection << 1 | end as u32));
        }
    }

    /// A timer of a connection may be due.
    #[inline(never)]
    pub fn on_tcp_timer(&mut self, fabric: &mut Fabric, nics: &mut Nics, timer: u32) {
        let (connection, end) = (timer >> 1, (timer & 1) as usize);
        let c = &mut self.sockets.connections[connection as usize];
        if c.timer_at[end] > fabric.run.now {
            return; // stale: an earlier one took its place
        }
        c.timer_at[end] = Time::NEVER;
        let (deadline, core, what) = if end == SENDER {
            (c.sender.next_timeout(), c.sender_core, Softirq::SenderTimeout)
        } else {
            (c.receiver.next_timeout(), c.receiver_core, Softirq::ReceiverTimeout)
        };
        if c.state == QpState::Done {
            return;
        }
        if deadline.is_some_and(|at| at <= fabric.run.now) {
            self.raise_softirq(fabric, nics, core, what.of(connection));
        } else {
            self.arm(fabric, connection, end);
        }
    }

    /// A connection is done when all was written, acknowledged and read.
    fn end_connection_if_done(&mut self, fabric: &mut Fabric, connection: u32) {
        let c = &mut self.sockets.connections[connection as usize];
        if c.state == QpState::Running && c.closed && c.sender.is_idle() && c.bytes_read == c.sender.written()
        {
            c.state = QpState::Done;
            c.end = fabric.run.now;
            fabric.run.flow_ended();
        }
    }
}

// TCP connections: both ends, and what packets carry for them.

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
    /// True if its application writes no more.
    pub(super) closed: bool,
    /// Bytes in transmit rings.
    pub queued: u32,
    /// True if it waits for them to leave.
    pub(super) throttled: bool,
    /// True if its receiver's thread waits for the core, or has it.
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
    /// Bytes that its application read.
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
    /// Number that packets of the first connection carry: it identifies flows of all kinds.
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

/// TCP header fields that a packet has no room for. They lie beside the packet arena, indexed like it, and take no
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

// Ethernet transmit rings: one for each core and class, next to the queue pairs in the NIC's arbiter.
//
// A ring takes a turn of its class like a queue pair does, a packet each. A burst (TSO) is cut into segments by the
// NIC, which follow each other at line rate unless others of the class have their turns in between.
//
// Leaves out: the number of descriptors of a ring (TCP small queues keep them few), what fetching them takes, and the
// interrupts that tell the driver what has left.

/// Descriptor that a core handed to the NIC.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Descriptor {
    /// When it did.
    pub ready_at: Time,
    pub work: Work,
    pub came: QueuedAt,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    /// A packet as it is.
    Packet(u32),
    Burst(TxBurst),
}

impl Work {
    /// Of a burst what was not sent yet, of a packet its frame.
    #[cfg(debug_assertions)]
    fn bytes(&self, packets: &Arena<Packet>) -> u64 {
        match self {
            Work::Packet(index) => packets[*index].frame_bytes() as u64,
            Work::Burst(burst) => burst.bytes as u64,
        }
    }
}

/// A burst, as far as it was not sent yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TxBurst {
    pub connection: u32,
    pub position: u64,
    pub bytes: u32,
    /// Whole length, bytes.
    pub whole: u32,
    /// Its timestamp.
    pub sent_at: Time,
    /// True if it was sent before.
    pub retransmission: bool,
    /// Of its next packet.
    pub flags: u8,
}

#[derive(Debug)]
pub(crate) struct TxRing {
    pub(super) descriptors: VecDeque<Descriptor>,
    pub(super) port: u32,
    pub(super) class: u8,
    /// True if it is in the NIC's ready ring, or has an event that will put it there.
    pub(super) scheduled: bool,
    /// Payload of bursts and frames that wait in it; nothing records this.
    #[cfg(debug_assertions)]
    pub waiting: crate::gauge::Gauge,
}

impl TxRing {
    /// A core hands over a burst or a frame.
    #[inline(always)]
    pub(super) fn note_comes(&mut self, _now: Time, _packets: &Arena<Packet>, _descriptor: &Descriptor) {
        #[cfg(debug_assertions)]
        self.waiting.change(_now, _descriptor.work.bytes(_packets) as i64);
    }

    /// `_bytes` of what came at `_came` leave.
    #[inline(always)]
    pub(super) fn note_left(&mut self, _now: Time, _bytes: impl FnOnce() -> u32, _came: QueuedAt) {
        #[cfg(debug_assertions)]
        {
            let bytes = _bytes();
            self.waiting.change(_now, -(bytes as i64));
            self.waiting.left(bytes as u64, _came, _now);
        }
    }

    /// Bytes that wait, and since when.
    #[cfg(debug_assertions)]
    pub fn waits<'a>(&'a self, packets: &'a Arena<Packet>) -> impl Iterator<Item = (u64, QueuedAt)> + 'a {
        self.descriptors.iter().map(|descriptor| (descriptor.work.bytes(packets), descriptor.came))
    }

    /// True if the next packet may leave at `by`.
    pub(super) fn standing(&self, by: Time) -> Standing {
        Standing::new(self.descriptors.front().map(|next| next.ready_at), by)
    }
}

/// All transmit rings.
#[derive(Debug, Default)]
pub(crate) struct TxRings {
    pub(super) rings: Vec<TxRing>,
    pub(super) known: HashMap<(u32, u8), u32>,
}

impl TxRings {
    /// The ring of a core and class, of a NIC with this port.
    pub fn ring(&mut self, core: u32, class: u8, port: u32) -> u32 {
        *self.known.entry((core, class)).or_insert_with(|| {
            self.rings.push(TxRing {
                descriptors: VecDeque::new(),
                port,
                class,
                scheduled: false,
                #[cfg(debug_assertions)]
                waiting: Default::default(),
            });
            self.rings.len() as u32 - 1
        })
    }

    /// All of them.
    #[cfg(debug_assertions)]
    pub fn rings(&self) -> &[TxRing] {
        &self.rings
    }

    #[cfg(all(test, debug_assertions))]
    pub fn rings_mut(&mut self) -> &mut [TxRing] {
        &mut self.rings
    }

    /// Class of what goes out by a ring.
    pub fn class(&self, ring: u32) -> u8 {
        self.rings[ring as usize].class
    }
}

// GRO: segments of one poll that follow each other in a connection go up the stack as one.
//
// Source: Linux, `net/ipv4/tcp_offload.c` (`tcp_gro_receive`) and `net/ipv4/af_inet.c` (`inet_gro_receive`): a change of
// CE and a CWR keep segments apart; ACKs are not merged.
//
// Leaves out: that a timestamp that differs (Linux counts milliseconds) keeps them apart too, and merging across polls
// (`gro_flush_timeout`).

/// Connections that GRO holds a segment of at once; the oldest gives way. Linux, `net/core/dev.c`, `MAX_GRO_SKBS`; from
/// 4.19 on that many in each of 8 hash buckets.
const GRO_FLOWS: u32 = 8;

impl Tcp {
    /// Packets that a poll took from a ring go through GRO and then up the stack.
    pub fn receive_polled(
        &mut self,
        fabric: &mut Fabric,
        nics: &mut Nics,
        polled: &[u32],
        batch: &mut Batch,
    ) {
        let gro_bytes = self.cpus.of(batch.core).model.gro_bytes;
        let mut held = std::mem::take(&mut self.sockets.held);
        let mut runs = 0;
        for &index in polled {
            let packet = fabric.packets[index];
            fabric.packets.remove(index);
            let connection = packet.qp - self.sockets.first_flow;
            let (position, time) = self.sockets.headers.stamps[index as usize];
            if packet.kind == PacketKind::TcpAck {
                let (window, sack) = self.sockets.headers.acks[index as usize];
                let ece = packet.flags & CE_ECHO != 0;
                let segment = AckSegment { ack: position, window, sack, ece, echo: time };
                held.push(Held::Ack { connection, segment });
                continue;
            }
            let new = DataSegment {
                position,
                bytes: packet.payload_bytes(),
                segments: 1,
                ce: packet.flags & CE != 0,
                cwr: packet.flags & CWR != 0,
                sent_at: time,
            };
            let c = &mut self.sockets.connections[connection as usize];
            match held.get_mut(c.held as usize) {
                Some(Held::Data { connection: of, order, segment: run })
                    if *of == connection
                        && runs - *order <= GRO_FLOWS
                        && run.position + run.bytes as u64 == new.position
                        && run.ce == new.ce
                        && !new.cwr
                        && new.bytes > 0
                        && run.bytes + new.bytes <= gro_bytes =>
                {
                    run.bytes += new.bytes;
                    run.segments += 1;
                }
                _ => {
                    c.held = held.len() as u32;
                    held.push(Held::Data { connection, order: runs, segment: new });
                    runs += 1;
                }
            }
        }
        for segment in held.drain(..) {
            match segment {
                Held::Data { connection, segment, .. } => {
                    self.on_tcp_data(fabric, nics, connection, &segment, batch)
                }
                Held::Ack { connection, segment } => {
                    self.on_tcp_ack(fabric, nics, connection, &segment, batch)
                }
            }
        }
        self.sockets.held = held;
    }
}
