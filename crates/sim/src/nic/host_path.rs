//! A NIC's calls to its host's data path, and the readings of that path. 0 without a path.

use tailback_proto::scheduling::pick_round_robin;
use tailback_proto::units::Time;

use super::{Ethernet, Nics};
use crate::event::Event;
use crate::fabric::packet::{Packet, PacketKind};
use crate::fabric::port::DropReason;
use crate::fabric::{Fabric, CLASSES};
use crate::gauge::QueuedAt;
use crate::host::path::{payload_of, Crossing, HostPath, IDEAL};

impl Nics {
    fn host_path_of(&self, host: usize) -> Option<&HostPath> {
        self.host_paths.get(self.nics[host].host_path as usize)
    }

    /// Occupancy of a host's IIO added up since the start of the run, byte-picoseconds, exact at this instant; what the
    /// CPU counts in cache lines and cycles of the IIO's clock.
    pub fn iio_occupancy_counter(&self, host: usize, now: Time) -> u128 {
        self.host_path_of(host).map_or(0, |host_path| host_path.iio.byte_time(now))
    }

    /// Payload that crossed a host's PCIe link as writes since the start of the run.
    pub fn pcie_write_bytes(&self, host: usize) -> u64 {
        self.host_path_of(host).map_or(0, |host_path| host_path.pcie.write_bytes)
    }

    /// Limits the memory traffic of a host's cores (MBA); none: no limit.
    pub fn limit_cpu_memory(&mut self, host: usize, now: Time, limit_bps: Option<u64>) {
        if let Some(host_path) = self.host_paths.get_mut(self.nics[host].host_path as usize) {
            if let Some(memory) = host_path.target.as_memory() {
                memory.limit_cores(now, limit_bps);
            }
        }
    }

    /// A generator of memory traffic begins or ends.
    pub fn on_memory_load(&mut self, now: Time, change: u32) {
        let change = self.memory_loads[change as usize];
        if let Some(memory) = self.host_paths[change.host_path as usize].target.as_memory() {
            memory.change_load(now, change.outstanding_bytes, change.read_share, change.begins);
        }
    }

    /// The NIC put a packet on the wire: its next data waits until it has been fetched.
    #[inline(never)]
    pub(super) fn fetch_next(&mut self, now: Time, host: usize, payload: u32) {
        let nic = &mut self.nics[host];
        nic.data_ready = self.host_paths[nic.host_path as usize].fetch(now, payload as u64);
    }
}

// What a NIC does whose host has a path of its own: packets wait in the receive buffer for PCIe, and the transport takes
// them as they leave. A buffer that fills asks for a pause, or tells senders by CNPs.

impl Nics {
    /// A packet has reached a NIC whose host has a path.
    #[inline(never)]
    pub fn path_receive(
        &mut self,
        fabric: &mut Fabric,
        ethernet: &mut impl Ethernet,
        host: usize,
        index: u32,
    ) {
        let host_path = &mut self.host_paths[self.nics[host].host_path as usize];
        let packet = fabric.packets[index];
        let bytes = packet.frame_bytes() as u64;
        if host_path.buffers.waiting == 0 && host_path.pcie.free_at <= fabric.run.now {
            let crossing = self.cross(fabric, host, index, fabric.run.now);
            let host_path = &mut self.host_paths[self.nics[host].host_path as usize];
            if crossing.stalled == Time::ZERO {
                // It passes through.
                let part = &mut host_path.buffers.parts[host_path.buffers.of[packet.class as usize] as usize];
                part.max_bytes = part.max_bytes.max(bytes);
                host_path.buffers.level.passes(bytes);
                self.accept(fabric, ethernet, host, index);
                return;
            }
            host_path.buffers.leaving = Some(host_path.buffers.of[packet.class as usize]);
            let drain = Event::HostPathDrain(self.nics[host].host_path);
            fabric.run.schedule(crossing.left, drain);
        }
        let host_path = &mut self.host_paths[self.nics[host].host_path as usize];
        let number = host_path.buffers.of[packet.class as usize];
        let part = &mut host_path.buffers.parts[number as usize];
        if part.bytes + bytes > part.size {
            host_path.buffers.dropped += 1;
            let (lossless, unpaused) = (part.xoff.is_some(), !part.paused);
            let port = host_path.port as usize;
            if lossless {
                fabric.lossless_drop(port, packet.class);
            }
            fabric.drop_packet(port, index, DropReason::ReceiveBufferFull);
            if lossless && unpaused {
                self.pause_buffer(fabric, host, number);
            }
            return;
        }
        part.fifo.push(&mut fabric.packets, index);
        part.bytes += bytes;
        part.max_bytes = part.max_bytes.max(part.bytes);
        let fill = part.bytes;
        let passes_xoff = !part.paused && part.xoff.is_some_and(|xoff| fill >= xoff);
        let notifies = packet.kind == PacketKind::Data
            && part.xoff.is_none()
            && host_path.cnp_threshold.is_some_and(|at| fill > at);
        host_path.buffers.waiting |= 1 << number;
        host_path.buffers.level.change(fabric.run.now, bytes as i64);
        if host_path.buffers.leaving.is_none() {
            self.drain_next(fabric, ethernet, host);
        }
        if passes_xoff {
            self.pause_buffer(fabric, host, number);
        }
        if notifies {
            self.notify(fabric, ethernet, host, &packet);
        }
    }

    /// The first packet that waits has left the receive buffer.
    pub fn on_host_path_drain(&mut self, fabric: &mut Fabric, ethernet: &mut impl Ethernet, host_path: u32) {
        let host = self.host_paths[host_path as usize].host as usize;
        let number = self.host_paths[host_path as usize].buffers.leaving.take().expect("a packet is leaving");
        self.take(fabric, ethernet, host, number);
        self.drain_next(fabric, ethernet, host);
    }

    /// Lets the next packet begin to leave.
    fn drain_next(&mut self, fabric: &mut Fabric, ethernet: &mut impl Ethernet, host: usize) {
        loop {
            let host_path = &mut self.host_paths[self.nics[host].host_path as usize];
            if host_path.buffers.waiting == 0 {
                return;
            }
            let number = pick_round_robin(host_path.buffers.waiting, 0, host_path.buffers.last);
            host_path.buffers.last = number;
            host_path.buffers.leaving = Some(number);
            let head = host_path.buffers.parts[number as usize].fifo.head().expect("it waits");
            let left = self.cross(fabric, host, head, fabric.run.now).left;
            if left > fabric.run.now {
                let drain = Event::HostPathDrain(self.nics[host].host_path);
                fabric.run.schedule(left, drain);
                return;
            }
            self.host_paths[self.nics[host].host_path as usize].buffers.leaving = None;
            self.take(fabric, ethernet, host, number);
        }
    }

    /// Takes the first packet of a part of the buffer to the transport.
    fn take(&mut self, fabric: &mut Fabric, ethernet: &mut impl Ethernet, host: usize, number: u8) {
        let host_path = &mut self.host_paths[self.nics[host].host_path as usize];
        let part = &mut host_path.buffers.parts[number as usize];
        let index = part.fifo.pop(&fabric.packets).expect("it has a head");
        let bytes = fabric.packets[index].frame_bytes() as u64;
        part.bytes -= bytes;
        if part.fifo.is_empty() {
            host_path.buffers.waiting &= !(1 << number);
        }
        host_path.buffers.level.change(fabric.run.now, -(bytes as i64));
        host_path.buffers.level.left(bytes, QueuedAt::at(fabric.packets[index].arrival), fabric.run.now);
        let resumes = part.paused && part.bytes <= part.xon;
        self.accept(fabric, ethernet, host, index);
        if resumes {
            self.resume_buffer(fabric, host, number);
        }
    }

    /// A packet begins to leave the receive buffer.
    fn cross(&mut self, fabric: &mut Fabric, host: usize, index: u32, start: Time) -> Crossing {
        let packet = &fabric.packets[index];
        let mut payload = payload_of(packet);
        let sequenced = packet.kind == PacketKind::Data;
        let qp = self.slots.of(packet.qp) as usize;
        if sequenced && !self.recv_qps[qp].half.responder.takes(packet.psn()) {
            payload = 0; // the transport will not take it
        }
        self.host_paths[self.nics[host].host_path as usize].cross(fabric.run.now, start, packet.qp, payload)
    }

    #[inline(never)] // the transport is in it
    fn accept(&mut self, fabric: &mut Fabric, ethernet: &mut impl Ethernet, host: usize, index: u32) {
        let host_path = &mut self.host_paths[self.nics[host].host_path as usize];
        host_path.accepted_packets += 1;
        host_path.accepted_bytes += fabric.packets[index].frame_bytes() as u64;
        self.transport_receive(fabric, ethernet, host, index);
    }

    /// A part of the buffer passed xoff.
    #[cold]
    fn pause_buffer(&mut self, fabric: &mut Fabric, host: usize, number: u8) {
        let host_path = &mut self.host_paths[self.nics[host].host_path as usize];
        let port = host_path.port as usize;
        let part = &mut host_path.buffers.parts[number as usize];
        part.paused = true;
        let priorities = part.priorities;
        for class in (0..CLASSES as u8).filter(|class| priorities & (1 << class) != 0) {
            fabric.assert_pause(port, class);
        }
    }

    /// It fell to xon.
    #[cold]
    fn resume_buffer(&mut self, fabric: &mut Fabric, host: usize, number: u8) {
        let host_path = &mut self.host_paths[self.nics[host].host_path as usize];
        let port = host_path.port as usize;
        let part = &mut host_path.buffers.parts[number as usize];
        part.paused = false;
        let priorities = part.priorities;
        for class in (0..CLASSES as u8).filter(|class| priorities & (1 << class) != 0) {
            fabric.release_pause(port, class);
        }
    }

    /// The buffer is filling: a CNP of the NIC's own, as often as its notification point may.
    #[cold]
    fn notify(&mut self, fabric: &mut Fabric, ethernet: &mut impl Ethernet, host: usize, packet: &Packet) {
        let nic = &mut self.nics[host];
        debug_assert_ne!(nic.host_path, IDEAL);
        let model = &self.models[nic.model as usize];
        let qp = self.slots.of(packet.qp) as usize;
        let r = &self.recv_qps[qp];
        if !r.sends_cnps {
            return;
        }
        let now = fabric.run.now;
        let notifies = match self.host_paths[nic.host_path as usize].cnp_interval {
            Some(interval) => self.recv_qps[qp].own_cnps.on_ecn_marked(now, interval),
            None => {
                let point = &mut self.notification_points[r.notification_point as usize];
                point.on_ecn_marked(now, model.min_time_between_cnps[r.congestion as usize])
            }
        };
        if notifies {
            self.host_paths[nic.host_path as usize].buffers.cnps += 1;
            self.send_cnp(fabric, ethernet, host, packet);
        }
    }
}
