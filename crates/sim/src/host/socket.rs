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

use std::collections::HashMap;
use tailback_proto::transport::tcp::{
    AckSegment, ControlParameters, DataSegment, TcpParameters, TcpReceiver, TcpSender,
};
use tailback_proto::units::Time;
use tailback_proto::wire::{tcp_frame_bytes, PREAMBLE_AND_GAP_BYTES};

use super::cpu::{Batch, Purpose};
use super::gro::{Headers, Held};
use super::rings::{Descriptor, TxBurst, Work};
use crate::event::Event;
use crate::fabric::packet::{Detail, Kind, Packet, CE_ECHO, CWR, ECT, NONE};
use crate::nic::QpState;
use crate::plan::{Plan, PlanError, TcpSettings};
use crate::world::World;

/// What an application writes or reads at once: iperf3's default block.
const BLOCK_BYTES: u64 = 128 << 10;

/// A kind of TCP stack.
#[derive(Debug)]
pub(crate) struct Stack {
    pub parameters: TcpParameters,
    small_queue: u32,
}

/// A connection, both ends.
#[derive(Debug)]
pub(crate) struct Connection {
    pub sender: TcpSender,
    pub receiver: TcpReceiver,
    pub state: QpState,
    /// Whether its application writes no more.
    closed: bool,
    /// Bytes in transmit rings.
    pub queued: u32,
    /// Whether it waits for them to leave.
    throttled: bool,
    /// Whether its receiver's thread waits for the core, or has it.
    reading: bool,
    /// When the pending timer events of sender and receiver are due; `NEVER`: none.
    timer_at: [Time; 2],
    /// Its latest segment among those held by GRO.
    pub(super) held: u32,
    sender_core: u32,
    receiver_core: u32,
    sender_ring: u32,
    receiver_ring: u32,
    sender_stack: u16,
    receiver_stack: u16,
    pub src: u16,
    pub dst: u16,
    pub class: u8,
    pub code_point: u8,
    pub item: u32,
    /// Among the connections of its two hosts.
    pub number: u32,
    pub start: Time,
    pub end: Time,
    pub packets_sent: u64,
    /// Of these, such as were sent before.
    pub packets_retransmitted: u64,
    /// What its application read.
    pub bytes_read: u64,
    pub duplicate_packets: u64,
}

/// Connections of one traffic item between two hosts.
#[derive(Debug)]
pub(crate) struct Item {
    pub first: u32,
    pub connections: u32,
    pub bytes: Option<u64>,
}

/// All TCP connections.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    pub connections: Vec<Connection>,
    pub items: Vec<Item>,
    /// By kind of NIC in the plan; only those that are used.
    pub stacks: Vec<Stack>,
    /// Number that packets of the first connection carry: flows of all kinds are told apart by it.
    pub first_flow: u32,
    pub(super) headers: Headers,
    pub(super) held: Vec<Held>,
}

/// What waits for a core: a connection and what to do with it.
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

const SENDER: usize = 0;
const RECEIVER: usize = 1;

impl Sockets {
    /// Payload of a connection's full segments.
    pub fn mss(&self, connection: u32) -> u32 {
        let stack = self.connections[connection as usize].sender_stack;
        self.stacks[stack as usize].parameters.mss
    }
}

impl Stack {
    fn new(plan: &TcpSettings) -> Self {
        Stack { parameters: plan.parameters(), small_queue: plan.small_queue.0 as u32 }
    }
}

impl World {
    /// Sets up the connections of a checked plan, and the CPUs that they need.
    pub(crate) fn add_connections(
        &mut self,
        plan: &Plan,
        names: &HashMap<&str, usize>,
    ) -> Result<(), PlanError> {
        self.sockets.first_flow = self.send_qps.len() as u32;
        let mut stack_of: HashMap<usize, u16> = HashMap::new();
        let mut numbers: HashMap<(usize, usize), u32> = HashMap::new();
        for (index, item) in plan.tcp_connections.iter().enumerate() {
            let ends = [names[item.src.as_str()], names[item.dst.as_str()]];
            let mut stacks = [0; 2];
            for (host, stack) in ends.into_iter().zip(&mut stacks) {
                let nic = &plan.nics[plan.hosts[host].nic];
                let (Some(tcp), Some(cpu)) = (&nic.tcp, &nic.cpu) else { unreachable!("it was checked") };
                self.cpus.add(host, cpu);
                *stack = *stack_of.entry(plan.hosts[host].nic).or_insert_with(|| {
                    self.sockets.stacks.push(Stack::new(tcp));
                    self.sockets.stacks.len() as u16 - 1
                });
            }
            let first = self.sockets.connections.len() as u32;
            let [src, dst] = ends;
            if self.path(src as u16, dst as u16, self.sockets.first_flow + first).is_none() {
                return Err(PlanError::Impossible {
                    place: format!("tcp_connections[{index}]"),
                    problem: format!("no path from {} to {}", item.src, item.dst),
                });
            }
            self.sockets.items.push(Item { first, connections: item.connections, bytes: item.bytes });
            for connection in first..first + item.connections {
                let cores = ends.map(|host| self.cpus.rss(host, plan.seed, connection as u64));
                let classes = ends.map(|host| self.fabric.classes.of(host)[item.code_point as usize]);
                let ports = ends.map(|host| self.nics[host].port);
                let rings = [0, 1].map(|end| self.tx_rings.ring(cores[end], classes[end], ports[end]));
                let number = numbers.entry((src, dst)).or_default();
                let parameters = &self.sockets.stacks[stacks[SENDER] as usize].parameters;
                let receiving = &self.sockets.stacks[stacks[RECEIVER] as usize].parameters;
                self.sockets.connections.push(Connection {
                    sender: TcpSender::new(parameters),
                    receiver: TcpReceiver::new(receiving),
                    state: QpState::Waiting,
                    closed: item.bytes.is_some(),
                    queued: 0,
                    throttled: false,
                    reading: false,
                    timer_at: [Time::NEVER; 2],
                    held: 0,
                    sender_core: cores[SENDER],
                    receiver_core: cores[RECEIVER],
                    sender_ring: rings[SENDER],
                    receiver_ring: rings[RECEIVER],
                    sender_stack: stacks[SENDER],
                    receiver_stack: stacks[RECEIVER],
                    src: src as u16,
                    dst: dst as u16,
                    class: classes[SENDER],
                    code_point: item.code_point,
                    item: index as u32,
                    number: *number,
                    start: Time::ZERO,
                    end: Time::ZERO,
                    packets_sent: 0,
                    packets_retransmitted: 0,
                    bytes_read: 0,
                    duplicate_packets: 0,
                });
                *number += 1;
            }
        }
        self.fabric.run.active_flows += self.sockets.connections.len();
        Ok(())
    }

    /// The connections of an item begin.
    #[inline(never)] // what most runs never need stays out of the way of what they do
    pub(crate) fn on_tcp_start(&mut self, item: u32) {
        let Item { first, connections, bytes } = self.sockets.items[item as usize];
        for connection in first..first + connections {
            let c = &mut self.sockets.connections[connection as usize];
            c.state = QpState::Running;
            c.start = self.fabric.run.now;
            if let Some(bytes) = bytes {
                c.sender.write(bytes);
            }
            let core = c.sender_core;
            self.raise_softirq(core, Softirq::Transmit.of(connection));
        }
    }

    /// The applications of an item write no more; what they wrote is still sent.
    #[inline(never)] // what most runs never need stays out of the way of what they do
    pub(crate) fn on_tcp_stop(&mut self, item: u32) {
        let Item { first, connections, .. } = self.sockets.items[item as usize];
        for connection in first..first + connections {
            let c = &mut self.sockets.connections[connection as usize];
            c.closed = true;
            self.end_connection_if_done(connection);
        }
    }

    /// A TCP packet came over the wire.
    #[inline(never)] // what most runs never need stays out of the way of what they do
    pub(crate) fn tcp_receive(&mut self, index: u32) {
        let packet = &self.fabric.packets[index];
        let c = &self.sockets.connections[(packet.qp - self.sockets.first_flow) as usize];
        let core = if packet.kind == Kind::Tcp { c.receiver_core } else { c.sender_core };
        self.core_receive(core, index);
    }

    pub(super) fn on_tcp_data(&mut self, connection: u32, segment: &DataSegment, batch: &mut Batch) {
        let model = &self.cpus.of(batch.core).model;
        batch.spend(Purpose::Softirq, model.cycles_per_segment);
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
        self.fabric.data.duplicate += duplicate;
        self.fabric.data.delivered += segment.segments as u64 - duplicate;
        if c.receiver.unread() > 0 && !c.reading {
            c.reading = true;
            self.wake_thread(batch.core, connection);
        }
        if let Some(first) = verdict.first {
            self.send_ack(connection, &first, Purpose::Softirq, batch);
        }
        if verdict.ack {
            self.acknowledge(connection, Purpose::Softirq, batch);
        }
        self.arm(connection, RECEIVER);
    }

    pub(super) fn on_tcp_ack(&mut self, connection: u32, segment: &AckSegment, batch: &mut Batch) {
        let model = &self.cpus.of(batch.core).model;
        batch.spend(Purpose::Softirq, model.cycles_per_segment);
        let now = batch.now(model);
        let c = &mut self.sockets.connections[connection as usize];
        if c.state != QpState::Running {
            return;
        }
        let p = &self.sockets.stacks[c.sender_stack as usize].parameters;
        c.sender.on_ack(p, now, segment);
        self.transmit(connection, batch);
        self.end_connection_if_done(connection);
    }

    /// Hands down what the windows and the small queue allow.
    fn transmit(&mut self, connection: u32, batch: &mut Batch) {
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
            batch.spend(Purpose::Softirq, model.cycles_per_segment);
            if !burst.retransmission {
                batch.spend(Purpose::Syscall, burst.bytes as f64 * model.cycles_per_byte);
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
            let descriptor = Descriptor { ready_at: batch.now(model), work };
            let ring = c.sender_ring;
            self.ring_push(ring, descriptor);
        }
        self.arm(connection, SENDER);
    }

    /// A packet of a burst, as the NIC cuts it.
    pub(crate) fn data_packet(&mut self, burst: &TxBurst, payload: u32, class: u8) -> u32 {
        let c = &mut self.sockets.connections[burst.connection as usize];
        c.packets_sent += 1;
        c.packets_retransmitted += burst.retransmission as u64;
        self.fabric.data.sent += 1;
        let index = self.fabric.packets.add(Packet {
            arrival: Time::ZERO,
            qp: self.sockets.first_flow + burst.connection,
            detail: Detail::NONE, // its position is in `headers`
            next: NONE,
            wire_bytes: (tcp_frame_bytes(payload, 0) + PREAMBLE_AND_GAP_BYTES) as u16,
            payload_bytes: payload as u16,
            dst: c.dst,
            ingress: 0,
            kind: Kind::Tcp,
            class,
            flags: burst.flags,
            code_point: c.code_point,
        });
        self.sockets.headers.write(index, burst.position, burst.sent_at);
        index
    }

    /// The last packet of a burst has left the NIC.
    pub(crate) fn on_burst_sent(&mut self, burst: &TxBurst) {
        let c = &mut self.sockets.connections[burst.connection as usize];
        c.queued -= burst.whole;
        let limit = self.sockets.stacks[c.sender_stack as usize].small_queue;
        if c.throttled && c.queued < limit {
            c.throttled = false;
            let core = c.sender_core;
            self.raise_softirq(core, Softirq::Transmit.of(burst.connection));
        }
    }

    /// Sends what a receiver has to say now.
    fn acknowledge(&mut self, connection: u32, purpose: Purpose, batch: &mut Batch) {
        let c = &mut self.sockets.connections[connection as usize];
        let p = &self.sockets.stacks[c.receiver_stack as usize].parameters;
        let ack = c.receiver.ack(p);
        self.send_ack(connection, &ack, purpose, batch);
    }

    fn send_ack(&mut self, connection: u32, ack: &AckSegment, purpose: Purpose, batch: &mut Batch) {
        let model = &self.cpus.of(batch.core).model;
        batch.spend(purpose, model.cycles_per_segment);
        let ready_at = batch.now(model);
        let c = &self.sockets.connections[connection as usize];
        // RFC 8257, 3: DCTCP's hosts mark all their packets as ECN-capable.
        let stack = &self.sockets.stacks[c.receiver_stack as usize];
        let ack_ect = matches!(stack.parameters.control, ControlParameters::Dctcp(_));
        let (ring, dst, code_point) = (c.receiver_ring, c.src, c.code_point);
        let blocks = ack.sack.as_slice().len() as u32;
        let index = self.fabric.packets.add(Packet {
            arrival: Time::ZERO,
            qp: self.sockets.first_flow + connection,
            detail: Detail::NONE,
            next: NONE,
            wire_bytes: (tcp_frame_bytes(0, blocks) + PREAMBLE_AND_GAP_BYTES) as u16,
            payload_bytes: 0,
            dst,
            ingress: 0,
            kind: Kind::TcpAck,
            class: self.tx_rings.class(ring),
            flags: (ack.ece as u8 * CE_ECHO) | (ack_ect as u8 * ECT),
            code_point,
        });
        self.sockets.headers.write_ack(index, ack);
        self.ring_push(ring, Descriptor { ready_at, work: Work::Packet(index) });
    }

    /// Softirq work other than a poll.
    pub(crate) fn run_softirq(&mut self, work: u32, batch: &mut Batch) {
        let (connection, what) = Softirq::decode(work);
        let now = batch.now(&self.cpus.of(batch.core).model);
        let c = &mut self.sockets.connections[connection as usize];
        match what {
            Softirq::Transmit => self.transmit(connection, batch),
            Softirq::SenderTimeout => {
                if c.state == QpState::Running && c.sender.next_timeout().is_some_and(|at| at <= now) {
                    let p = &self.sockets.stacks[c.sender_stack as usize].parameters;
                    c.sender.on_timeout(p, now);
                }
                self.transmit(connection, batch);
            }
            Softirq::ReceiverTimeout => {
                if c.receiver.on_timeout(now) {
                    self.acknowledge(connection, Purpose::Softirq, batch);
                }
                self.arm(connection, RECEIVER);
            }
        }
    }

    /// A receiver's application reads.
    pub(crate) fn run_thread(&mut self, connection: u32, batch: &mut Batch) {
        let model = &self.cpus.of(batch.core).model;
        let c = &mut self.sockets.connections[connection as usize];
        let bytes = c.receiver.unread().min(BLOCK_BYTES);
        batch.spend(Purpose::Syscall, bytes as f64 * model.cycles_per_byte);
        let p = &self.sockets.stacks[c.receiver_stack as usize].parameters;
        let ack = c.receiver.on_read(p, bytes);
        c.bytes_read += bytes;
        c.reading = c.receiver.unread() > 0;
        let (src, dst, reading) = (c.src as usize, c.dst as usize, c.reading);
        self.nics[src].counters.goodput_tx_bytes += bytes;
        self.nics[dst].counters.goodput_rx_bytes += bytes;
        if reading {
            self.wake_thread(batch.core, connection);
        }
        if ack {
            self.acknowledge(connection, Purpose::Syscall, batch);
        }
        self.arm(connection, RECEIVER);
        self.end_connection_if_done(connection);
    }

    /// Makes sure that a timer event is pending no later than a timer of a connection. The event stays where it is when
    /// the deadline moves on, and looks again when it fires.
    fn arm(&mut self, connection: u32, end: usize) {
        let c = &mut self.sockets.connections[connection as usize];
        let deadline = if end == SENDER { c.sender.next_timeout() } else { c.receiver.next_timeout() };
        let Some(deadline) = deadline else { return };
        if deadline < c.timer_at[end] {
            c.timer_at[end] = deadline;
            self.fabric
                .run
                .schedule(deadline.max(self.fabric.run.now), Event::TcpTimer(connection << 1 | end as u32));
        }
    }

    /// A timer of a connection may be due.
    #[inline(never)] // what most runs never need stays out of the way of what they do
    pub(crate) fn on_tcp_timer(&mut self, timer: u32) {
        let (connection, end) = (timer >> 1, (timer & 1) as usize);
        let c = &mut self.sockets.connections[connection as usize];
        if c.timer_at[end] > self.fabric.run.now {
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
        if deadline.is_some_and(|at| at <= self.fabric.run.now) {
            self.raise_softirq(core, what.of(connection));
        } else {
            self.arm(connection, end);
        }
    }

    /// A connection is done when all was written, acknowledged and read.
    fn end_connection_if_done(&mut self, connection: u32) {
        let c = &mut self.sockets.connections[connection as usize];
        if c.state == QpState::Running && c.closed && c.sender.is_idle() && c.bytes_read == c.sender.written()
        {
            c.state = QpState::Done;
            c.end = self.fabric.run.now;
            self.fabric.run.flow_ended();
        }
    }
}

/// Schedules the starts and stops of all connections: each item draws from its own stream.
pub(crate) fn schedule(world: &mut World, plan: &Plan) {
    for (index, item) in plan.tcp_connections.iter().enumerate() {
        let mut stream = crate::engine::stream(plan.seed, "tcp start", index as u64);
        let offset = crate::engine::uniform(&mut stream) * item.start_spread_ps as f64;
        let start = Time(item.start_ps + offset as u64);
        world.fabric.run.schedule(start, Event::TcpStart(index as u32));
        if let Some(stop) = item.stop_ps {
            world.fabric.run.schedule(Time(stop.max(start.0 + 1)), Event::TcpStop(index as u32));
        }
    }
}
