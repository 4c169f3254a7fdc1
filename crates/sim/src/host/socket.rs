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

use tailback_proto::transport::tcp::{AckSegment, ControlParameters, DataSegment};
use tailback_proto::units::Time;
use tailback_proto::wire::{tcp_frame_bytes, PREAMBLE_AND_GAP_BYTES};

use super::connection::{Group, RECEIVER, SENDER};
use super::cpu::Batch;
use super::rings::{Descriptor, TxBurst, Work};
use super::Tcp;
use crate::cores::Purpose;
use crate::event::Event;
use crate::fabric::packet::{Amount, Detail, Kind, Packet, CE_ECHO, CWR, ECT, NONE};
use crate::fabric::Fabric;
use crate::gauge::Came;
use crate::nic::qp::QpState;
use crate::nic::{Ethernet, Nics};

/// What an application writes or reads at once: iperf3's default block.
const BLOCK_BYTES: u64 = 128 << 10;

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

impl Ethernet for Tcp {
    #[inline(never)] // what most runs never need stays out of the way of what they do
    fn receive(&mut self, fabric: &mut Fabric, nics: &mut Nics, packet: u32) {
        let p = &fabric.packets[packet];
        let c = &self.sockets.connections[(p.qp - self.sockets.first_flow) as usize];
        let core = if p.kind == Kind::Tcp { c.receiver_core } else { c.sender_core };
        self.core_receive(fabric, nics, core, packet);
    }

    #[inline(never)] // what most runs never need stays out of the way of what they do
    fn send(&mut self, fabric: &mut Fabric, nics: &mut Nics, port: usize, ring: u32) {
        self.send_from_ring(fabric, nics, port, ring);
    }
}

impl Tcp {
    /// The connections of a group begin.
    #[inline(never)] // what most runs never need stays out of the way of what they do
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
    #[inline(never)] // what most runs never need stays out of the way of what they do
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
            let descriptor = Descriptor { ready_at: batch.now(model), work, came: Came::at(fabric.run.now) };
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
            kind: Kind::Tcp,
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
            kind: Kind::TcpAck,
            class: self.rings.class(ring),
            flags: (ack.ece as u8 * CE_ECHO) | (ack_ect as u8 * ECT),
            code_point,
        });
        self.sockets.headers.write_ack(index, ack);
        let came = Came::at(fabric.run.now);
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
    #[inline(never)] // what most runs never need stays out of the way of what they do
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
