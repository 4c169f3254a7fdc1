//! The receiving host's data path: NIC receive buffer, PCIe link, IIO, and memory or a GPU.
//!
//! A packet is the unit; writes, credits and cache lines are arithmetic on it. When the first of those that wait in the
//! receive buffer begins to leave, it is known when its last write will have left: the link's rate and the return of the
//! credits of earlier packets decide ([`PostedCredits`](tailback_proto::flow_control::pcie_credits::PostedCredits)).
//! A packet that need not wait costs no event.
//!
//! The transport takes a packet as it leaves the receive buffer, so that is when it is acknowledged: RoCE's ACK says
//! that the NIC has it, not that memory does. Everything of a priority waits in that priority's buffer, ACKs and CNPs
//! as well; only in-order data goes on to PCIe.
//!
//! Leaves out: the IOMMU, descriptors, completions and doorbells on PCIe, reads by the cores of what arrived, the NIC's
//! context caches, and snoops between sockets other than as latency.

pub(crate) mod ddio;
pub(crate) mod gpu;
mod iio;
pub(crate) mod memory;
mod pcie;
pub(crate) mod reads;
mod receive_buffer;
pub(crate) mod settings;
mod write_queue;

pub(crate) use ddio::LINE_BYTES;
pub(crate) use memory::Memory;

use gpu::Gpu;
use iio::Residence;
use pcie::PcieLink;
use reads::Reads;
use receive_buffer::ReceiveBuffers;
use tailback_proto::units::Time;

use crate::engine::stream;
use crate::fabric::packet::{Kind, Packet};
use crate::fabric::pause::PauseLog;
use crate::gauge::Gauge;
use crate::plan::{HostPathPlan, TargetPlan};

/// No path: the host is ideal.
pub(crate) const IDEAL: u32 = u32::MAX;

/// One host's path.
#[derive(Debug)]
pub(crate) struct HostPath {
    pub host: u32,
    pub port: u32,
    pub buffers: ReceiveBuffers,
    pub pcie: PcieLink,
    pub iio: Residence,
    pub target: Target,
    pub reads: Option<Reads>,
    pub cnp_threshold: Option<u64>,
    /// Least time between two such CNPs of a queue pair; none: as for marks.
    pub cnp_interval: Option<Time>,
    /// Packets that left the receive buffer for the transport.
    pub accepted_packets: u64,
    pub accepted_bytes: u64,
    /// Of the last packet: from its last writes' credits being there to these writes' end.
    pub processing: Time,
    /// Spans in which a write waited for credits.
    pub stalls: PauseLog,
    /// The last of them: its length and its end.
    last_stall: Time,
    stalled_to: Time,
}

/// Where writes end.
#[derive(Debug)]
pub(crate) enum Target {
    Memory(Box<Memory>),
    Gpu(Gpu),
}

impl Target {
    /// Writes `bytes` that reach the IIO from `from` to `to`, now being `now`: the times of the first and the last byte's end.
    fn write(&mut self, now: Time, bytes: u64, from: Time, to: Time) -> (Time, Time) {
        match self {
            Target::Memory(memory) => memory.write(now, bytes, from, to),
            Target::Gpu(gpu) => gpu.write(now, bytes, from, to),
        }
    }

    /// Bytes that wait there, over time.
    pub fn level(&mut self) -> &mut Gauge {
        match self {
            Target::Memory(memory) => &mut memory.level,
            Target::Gpu(gpu) => &mut gpu.level,
        }
    }

    /// From the IIO to a write's end, as it is now.
    pub fn write_latency(&self, now: Time) -> Time {
        match self {
            Target::Memory(memory) => memory.write_latency(now),
            Target::Gpu(gpu) => gpu.write_latency(),
        }
    }

    pub fn as_memory(&mut self) -> Option<&mut Memory> {
        match self {
            Target::Memory(memory) => Some(memory),
            Target::Gpu(_) => None,
        }
    }
}

/// What became of a packet at the PCIe link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crossing {
    /// When its last write has left the NIC.
    pub left: Time,
    /// Of that, what it waited for credits.
    pub stalled: Time,
}

impl HostPath {
    pub fn new(plan: &HostPathPlan, host: u32, port: u32, seed: u64) -> Self {
        HostPath {
            host,
            port,
            buffers: ReceiveBuffers::new(&plan.receive_buffer, &plan.receive_buffers),
            pcie: PcieLink::new(plan),
            iio: Residence::default(),
            target: match &plan.target {
                TargetPlan::Memory(memory) => Target::Memory(Box::new(Memory::new(
                    memory,
                    plan.pcie.iio_latency,
                    stream(seed, "memory", host as u64),
                ))),
                TargetPlan::Gpu(gpu) => Target::Gpu(Gpu::new(gpu, plan.pcie.iio_latency, seed, host)),
            },
            reads: plan.reads.as_ref().map(|reads| Reads {
                outstanding_bytes: reads.outstanding.0,
                latency: reads.latency,
                fetched: Time::ZERO,
            }),
            cnp_threshold: plan.receive_buffer.cnp_threshold.map(|bytes| bytes.0),
            cnp_interval: plan.receive_buffer.cnp_interval,
            accepted_packets: 0,
            accepted_bytes: 0,
            processing: Time::ZERO,
            stalls: PauseLog::default(),
            last_stall: Time::ZERO,
            stalled_to: Time::ZERO,
        }
    }

    /// Time that writes waited for credits up to now.
    pub fn stalled_until(&self, now: Time) -> Time {
        // The last wait was booked to its end, which may be ahead.
        let ahead = self.stalled_to.saturating_sub(now).0.min(self.last_stall.0);
        Time(self.pcie.stalled.0 - ahead)
    }

    /// Another queue pair writes to this host, over and over to the same `bytes`.
    pub fn add_working_set(&mut self, bytes: u64) {
        if let Some(ddio) = self.target.as_memory().and_then(|memory| memory.ddio.as_mut()) {
            ddio.add_working_set(bytes);
        }
    }

    /// Moves a packet's payload over PCIe from `start` on.
    pub fn cross(&mut self, now: Time, start: Time, payload: u64) -> Crossing {
        let mut at = start.max(self.pcie.free_at);
        let mut stalled = Time::ZERO;
        let mut rest = payload;
        while rest > 0 {
            let bytes = rest.min(self.pcie.burst_bytes);
            rest -= bytes;
            let burst = self.pcie.depart(at, bytes);
            let (from, to) = self.target.write(now, bytes, burst.from, burst.to);
            self.pcie.give_back(now, bytes, &burst, from, to);
            self.iio.pass(now, bytes, (burst.from, burst.to), (from, to));
            stalled += burst.stalled;
            self.processing = to - (burst.to - burst.span);
            at = burst.to;
        }
        self.pcie.free_at = at;
        if stalled > Time::ZERO {
            self.stalls.add(at - stalled, at);
            (self.last_stall, self.stalled_to) = (stalled, at);
        }
        Crossing { left: at, stalled }
    }

    /// The NIC sent a packet with `payload`: when can the next one, of the same size, go?
    pub fn fetch(&mut self, now: Time, payload: u64) -> Time {
        let Some(reads) = &mut self.reads else { return now };
        let span = self.pcie.read_span(payload);
        let by_latency = Time(payload * reads.latency.0 / reads.outstanding_bytes);
        let begun = reads.fetched.max(now.saturating_sub(reads.latency));
        reads.fetched = begun + span.max(by_latency);
        match &mut self.target {
            Target::Memory(memory) => memory.read(now, payload),
            Target::Gpu(gpu) => reads.fetched = reads.fetched.max(gpu.read(now, payload)),
        }
        reads.fetched
    }
}

/// What a packet brings for memory, if the transport takes it.
pub(crate) fn payload_of(packet: &Packet) -> u64 {
    match packet.kind {
        Kind::Data => packet.payload_bytes() as u64,
        Kind::Probe => LINE_BYTES, // its timestamp
        _ => 0,
    }
}

/// A generator of memory traffic begins or ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoadChange {
    pub host_path: u32,
    pub at: Time,
    pub begins: bool,
    pub outstanding_bytes: u64,
    pub read_share: f64,
}
