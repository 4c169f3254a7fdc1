//! The NIC's receive buffer: where packets wait for PCIe.
//!
//! Source: `mlnx_qos` and the devlink and dcbnl interfaces of mlx5: the port's buffer is split into parts, each with the
//! priorities that use it, its size, and for lossless ones xoff and xon. What passes xoff has the NIC ask its peer for a pause
//! of the priorities of that buffer, what falls to xon ends it (IEEE 802.1Qbb). A lossy buffer that is full drops
//! (`rx_discards_phy`); from a threshold on the NIC tells senders by CNPs of its own.
//!
//! Buffers take turns, a packet each.
//!
//! Leaves out: cells, and the spare part that no priority uses.

use tailback_proto::scheduling::ets::pick_round_robin;
use tailback_proto::units::Time;

use super::{payload_of, Crossing, Level, IDEAL};
use crate::event::Event;
use crate::fabric::drops::DropReason;
use crate::fabric::packet::{Fifo, Kind};
use crate::fabric::CLASSES;
use crate::plan::ReceiveBufferPlan;
use crate::world::World;

/// One part of the buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReceiveBuffer {
    pub size: u64,
    xoff: Option<u64>,
    xon: u64,
    /// Priorities that use it.
    priorities: u8,
    pub fifo: Fifo,
    pub bytes: u64,
    pub max_bytes: u64,
    paused: bool,
    /// Bytes dropped since the pause that is held, or was held last, began.
    overflow: u64,
}

/// A NIC's receive buffer.
#[derive(Debug)]
pub(crate) struct ReceiveBuffers {
    pub parts: Vec<ReceiveBuffer>,
    /// By priority.
    of: [u8; CLASSES],
    /// Parts with a packet.
    waiting: u8,
    /// Part served last.
    last: u8,
    /// Part whose first packet is leaving.
    leaving: Option<u8>,
    /// All parts together.
    pub level: Level,
    pub dropped: u64,
    /// CNPs that the NIC sent for its own sake.
    pub cnps: u64,
}

impl ReceiveBuffers {
    pub fn new(plan: &[ReceiveBufferPlan]) -> Self {
        let mut of = [0; CLASSES];
        for (index, part) in plan.iter().enumerate() {
            part.priorities.iter().for_each(|&priority| of[priority as usize] = index as u8);
        }
        let part = |part: &ReceiveBufferPlan| ReceiveBuffer {
            size: part.bytes,
            xoff: part.xoff_bytes,
            xon: part.xon_bytes.unwrap_or(0),
            priorities: part.priorities.iter().fold(0, |mask, priority| mask | 1 << priority),
            fifo: Fifo::EMPTY,
            bytes: 0,
            max_bytes: 0,
            paused: false,
            overflow: 0,
        };
        ReceiveBuffers {
            parts: plan.iter().map(part).collect(),
            of,
            waiting: 0,
            last: 7,
            leaving: None,
            level: Level::default(),
            dropped: 0,
            cnps: 0,
        }
    }

    /// The part that a priority uses: its size and its xoff.
    pub fn part_of(&self, class: u8) -> (u64, Option<u64>) {
        let part = &self.parts[self.of[class as usize] as usize];
        (part.size, part.xoff)
    }

    /// The priorities that are paused together with one: those of its part.
    pub fn paused_with(&self, class: u8) -> u8 {
        self.parts[self.of[class as usize] as usize].priorities
    }
}

impl World {
    /// A packet has reached a NIC whose host has a path.
    #[inline(never)] // what most runs never need stays out of the way of what they do
    pub(crate) fn path_receive(&mut self, host: usize, index: u32) {
        let path = &mut self.paths[self.nics[host].path as usize];
        let packet = self.fabric.packets[index];
        let bytes = packet.frame_bytes() as u64;
        if path.buffers.waiting == 0 && path.pcie.free_at <= self.fabric.run.now {
            let crossing = self.cross(host, index, self.fabric.run.now);
            let path = &mut self.paths[self.nics[host].path as usize];
            if crossing.stalled == Time::ZERO {
                // It passes through.
                let part = &mut path.buffers.parts[path.buffers.of[packet.class as usize] as usize];
                part.max_bytes = part.max_bytes.max(bytes);
                path.buffers.level.max_bytes = path.buffers.level.max_bytes.max(bytes);
                self.accept(host, index);
                return;
            }
            path.buffers.leaving = Some(path.buffers.of[packet.class as usize]);
            let drain = Event::PathDrain(self.nics[host].path);
            self.fabric.run.schedule(crossing.left, drain);
        }
        let path = &mut self.paths[self.nics[host].path as usize];
        let number = path.buffers.of[packet.class as usize];
        let part = &mut path.buffers.parts[number as usize];
        if part.bytes + bytes > part.size {
            path.buffers.dropped += 1;
            part.overflow += bytes;
            let (lossless, enough, unpaused) =
                (part.xoff.is_some(), part.bytes + part.overflow, !part.paused);
            let port = path.port as usize;
            if lossless {
                self.fabric.lossless_drop(port, packet.class, enough);
            }
            self.fabric.drop_packet(port, index, DropReason::ReceiveBufferFull);
            if lossless && unpaused {
                self.pause_buffer(host, number);
            }
            return;
        }
        part.fifo.push(&mut self.fabric.packets, index);
        part.bytes += bytes;
        part.max_bytes = part.max_bytes.max(part.bytes);
        let fill = part.bytes;
        let passes_xoff = !part.paused && part.xoff.is_some_and(|xoff| fill >= xoff);
        let notifies = packet.kind == Kind::Data
            && part.xoff.is_none()
            && path.cnp_threshold.is_some_and(|at| fill > at);
        path.buffers.waiting |= 1 << number;
        path.buffers.level.add(self.fabric.run.now, bytes);
        if path.buffers.leaving.is_none() {
            self.drain_next(host);
        }
        if passes_xoff {
            self.pause_buffer(host, number);
        }
        if notifies {
            self.notify(host, packet.qp, packet.code_point);
        }
    }

    /// The first packet that waits has left the receive buffer.
    pub(crate) fn on_path_drain(&mut self, path: u32) {
        let host = self.paths[path as usize].host as usize;
        let number = self.paths[path as usize].buffers.leaving.take().expect("a packet is leaving");
        self.take(host, number);
        self.drain_next(host);
    }

    /// Lets the next packet begin to leave.
    fn drain_next(&mut self, host: usize) {
        loop {
            let path = &mut self.paths[self.nics[host].path as usize];
            if path.buffers.waiting == 0 {
                return;
            }
            let number = pick_round_robin(path.buffers.waiting, 0, path.buffers.last);
            path.buffers.last = number;
            path.buffers.leaving = Some(number);
            let head = path.buffers.parts[number as usize].fifo.head().expect("it waits");
            let left = self.cross(host, head, self.fabric.run.now).left;
            if left > self.fabric.run.now {
                let drain = Event::PathDrain(self.nics[host].path);
                self.fabric.run.schedule(left, drain);
                return;
            }
            self.paths[self.nics[host].path as usize].buffers.leaving = None;
            self.take(host, number);
        }
    }

    /// Takes the first packet of a part of the buffer to the transport.
    fn take(&mut self, host: usize, number: u8) {
        let path = &mut self.paths[self.nics[host].path as usize];
        let part = &mut path.buffers.parts[number as usize];
        let index = part.fifo.pop(&self.fabric.packets).expect("it has a head");
        let bytes = self.fabric.packets[index].frame_bytes() as u64;
        part.bytes -= bytes;
        if part.fifo.is_empty() {
            path.buffers.waiting &= !(1 << number);
        }
        path.buffers.level.remove(self.fabric.run.now, bytes);
        let resumes = part.paused && part.bytes <= part.xon;
        self.accept(host, index);
        if resumes {
            self.resume_buffer(host, number);
        }
    }

    /// A packet begins to leave the receive buffer.
    fn cross(&mut self, host: usize, index: u32, start: Time) -> Crossing {
        let packet = &self.fabric.packets[index];
        let mut payload = payload_of(packet);
        let sequenced = packet.kind == Kind::Data;
        if sequenced && !self.recv_qps[packet.qp as usize].responder.expects(packet.psn()) {
            payload = 0; // the transport will not take it
        }
        self.paths[self.nics[host].path as usize].cross(self.fabric.run.now, start, payload)
    }

    #[inline(never)] // the transport is in it
    fn accept(&mut self, host: usize, index: u32) {
        let path = &mut self.paths[self.nics[host].path as usize];
        path.accepted_packets += 1;
        path.accepted_bytes += self.fabric.packets[index].frame_bytes() as u64;
        self.transport_receive(host, index);
    }

    /// A part of the buffer passed xoff.
    #[cold]
    fn pause_buffer(&mut self, host: usize, number: u8) {
        let path = &mut self.paths[self.nics[host].path as usize];
        let port = path.port as usize;
        let part = &mut path.buffers.parts[number as usize];
        (part.paused, part.overflow) = (true, 0);
        let priorities = part.priorities;
        for class in (0..CLASSES as u8).filter(|class| priorities & (1 << class) != 0) {
            self.fabric.assert_pause(port, class);
        }
    }

    /// It fell to xon.
    #[cold]
    fn resume_buffer(&mut self, host: usize, number: u8) {
        let path = &mut self.paths[self.nics[host].path as usize];
        let port = path.port as usize;
        let part = &mut path.buffers.parts[number as usize];
        part.paused = false;
        let priorities = part.priorities;
        for class in (0..CLASSES as u8).filter(|class| priorities & (1 << class) != 0) {
            self.fabric.release_pause(port, class);
        }
    }

    /// The buffer is filling: a CNP of the NIC's own, as often as its notification point may.
    #[cold]
    fn notify(&mut self, host: usize, qp: u32, code_point: u8) {
        let nic = &mut self.nics[host];
        debug_assert_ne!(nic.path, IDEAL);
        let model = &self.nic_models[nic.model as usize];
        let r = &self.recv_qps[qp as usize];
        if !r.sends_cnps {
            return;
        }
        let point = &mut self.notification_points[r.notification_point as usize];
        if point.on_ecn_marked(self.fabric.run.now, model.min_time_between_cnps[r.congestion as usize]) {
            self.paths[nic.path as usize].buffers.cnps += 1;
            self.send_cnp(host, qp, code_point);
        }
    }
}
