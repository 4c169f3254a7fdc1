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

pub(crate) mod memory;

use std::collections::VecDeque;
use tailback_proto::flow_control::pcie_credits::{Credits, PostedCredits, DATA_CREDIT_BYTES};
use tailback_proto::units::{Rate, Time};

use self::memory::Gpu;
use crate::engine::{stream, Fifo};
use crate::fabric::packet::{Packet, PacketKind};
use crate::fabric::CLASSES;
use crate::gauge::Gauge;
use crate::gauge::PauseLog;
use crate::host::settings::{HostPathPlan, ReceiveBufferParameters, ReceiveBufferPlan, TargetPlan};

pub(crate) use self::memory::Memory;
pub(crate) use crate::host::settings::LINE_BYTES;

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
    /// Rate of one queue pair alone.
    queue_pair_rate: Option<Rate>,
    /// Of the packet that left last.
    last_qp: u32,
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

/// Result of offering a packet to the PCIe link.
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
            queue_pair_rate: plan.pcie.queue_pair_rate,
            last_qp: u32::MAX,
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
    pub fn cross(&mut self, now: Time, start: Time, qp: u32, payload: u64) -> Crossing {
        let mut at = start.max(self.pcie.free_at);
        let alone = self.queue_pair_rate.filter(|_| self.last_qp == qp);
        let ready = alone.map_or(Time::ZERO, |rate| at + rate.serialization(payload));
        self.last_qp = qp;
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
        self.pcie.free_at = at.max(ready);
        if stalled > Time::ZERO {
            self.stalls.add(at - stalled, at);
            (self.last_stall, self.stalled_to) = (stalled, at);
        }
        Crossing { left: self.pcie.free_at, stalled }
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

/// Payload of a packet for memory, if the transport takes it.
pub(crate) fn payload_of(packet: &Packet) -> u64 {
    match packet.kind {
        PacketKind::Data => packet.payload_bytes() as u64,
        PacketKind::Probe => LINE_BYTES, // its timestamp
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

// The NIC's receive buffer: where packets wait for PCIe.
//
// Source: `mlnx_qos` and the devlink and dcbnl interfaces of mlx5: the port's buffer is split into parts, each with the
// priorities that use it, its size, and for lossless ones xoff and xon. What passes xoff has the NIC ask its peer for a pause
// of the priorities of that buffer, what falls to xon ends it (IEEE 802.1Qbb). A lossy buffer that is full drops
// (`rx_discards_phy`); from a threshold on the NIC tells senders by CNPs of its own.
//
// Buffers take turns, a packet each.
//
// Leaves out: cells, and the spare part that no priority uses.

/// One part of the buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReceiveBuffer {
    pub size: u64,
    pub xoff: Option<u64>,
    pub xon: u64,
    /// Priorities that use it.
    pub priorities: u8,
    pub fifo: Fifo,
    pub bytes: u64,
    pub max_bytes: u64,
    pub paused: bool,
}

/// A NIC's receive buffer.
#[derive(Debug)]
pub(crate) struct ReceiveBuffers {
    pub parts: Vec<ReceiveBuffer>,
    /// By priority.
    pub of: [u8; CLASSES],
    /// Parts with a packet.
    pub waiting: u8,
    /// Part served last.
    pub last: u8,
    /// Part whose first packet is leaving.
    pub leaving: Option<u8>,
    /// All parts together.
    pub level: Gauge,
    pub dropped: u64,
    /// CNPs that the NIC sent for its own sake.
    pub cnps: u64,
}

impl ReceiveBuffers {
    pub fn new(sizes: &ReceiveBufferParameters, plan: &[ReceiveBufferPlan]) -> Self {
        let mut of = [0; CLASSES];
        for (index, part) in plan.iter().enumerate() {
            part.priorities.iter().for_each(|&priority| of[priority as usize] = index as u8);
        }
        let part = |part: &ReceiveBufferPlan| ReceiveBuffer {
            size: if part.xoff_bytes.is_some() { sizes.lossless_size.0 } else { sizes.lossy_size.0 },
            xoff: part.xoff_bytes,
            xon: part.xon_bytes.unwrap_or(0),
            priorities: part.priorities.iter().fold(0, |mask, priority| mask | 1 << priority),
            fifo: Fifo::EMPTY,
            bytes: 0,
            max_bytes: 0,
            paused: false,
        };
        ReceiveBuffers {
            parts: plan.iter().map(part).collect(),
            of,
            waiting: 0,
            last: 7,
            leaving: None,
            level: Gauge::default(),
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

// The PCIe link between the NIC and the root port.
//
// Source: PCI Express base specification 3.1, sections 2.6 and 3.5; Neugebauer et al., "Understanding PCIe performance
// for end host networking", SIGCOMM 2018, section 3: a memory write of up to the maximum payload takes 24 B beside it.

/// Bursts to the credits: a burst is short against them, so that the credits of its first writes are back before its
/// last ones need them, as they are in hardware.
const BURSTS_OF_CREDITS: u64 = 4;

/// A PCIe link and the credits of the writes on it.
#[derive(Debug)]
pub(crate) struct PcieLink {
    pub rate: Rate,
    max_payload: u64,
    tlp_overhead: u64,
    credit_latency: Time,
    pub credits: PostedCredits,
    /// Largest burst that is one step.
    pub burst_bytes: u64,
    /// When the last write of what was begun has left.
    pub free_at: Time,
    /// Payload written.
    pub write_bytes: u64,
    /// With headers, both ways: nothing may exceed the rate.
    pub link_bytes: u64,
    /// Credits that were given back, or will be.
    pub given_back: Credits,
    /// Time that writes waited for credits.
    pub stalled: Time,
    /// Payload whose credits are away.
    pub away: Residence,
}

/// A burst of writes on the link.
pub(crate) struct Burst {
    pub credits: Credits,
    pub from: Time,
    pub to: Time,
    /// Time on the link.
    pub span: Time,
    pub stalled: Time,
}

impl PcieLink {
    pub fn new(plan: &HostPathPlan) -> Self {
        let granted = Credits { header: plan.pcie.header_credits as u64, data: plan.data_credits() };
        let payload = plan.pcie.max_payload.0;
        let by_data = granted.data * DATA_CREDIT_BYTES / BURSTS_OF_CREDITS;
        let by_headers = granted.header * payload / BURSTS_OF_CREDITS;
        // Whole writes, at least one.
        let burst = by_data.min(by_headers) / payload * payload;
        PcieLink {
            rate: plan.pcie.rate,
            max_payload: payload,
            tlp_overhead: plan.tlp_overhead_bytes,
            credit_latency: plan.pcie.credit_latency,
            credits: PostedCredits::new(granted),
            burst_bytes: burst.max(payload),
            free_at: Time::ZERO,
            write_bytes: 0,
            link_bytes: 0,
            given_back: Credits::default(),
            stalled: Time::ZERO,
            away: Residence::default(),
        }
    }

    /// Sends a burst from `at` on, as soon as there are credits.
    pub fn depart(&mut self, at: Time, bytes: u64) -> Burst {
        let credits = Credits::of_write(bytes, self.max_payload);
        let link_bytes = bytes + credits.header * self.tlp_overhead;
        let span = self.rate.serialization(link_bytes);
        let (from, to) = self.credits.departure(credits, at, span);
        let stalled = to - (at + span);
        self.stalled += stalled;
        self.write_bytes += bytes;
        self.link_bytes += link_bytes;
        Burst { credits, from, to, span, stalled }
    }

    /// Books when the credits of a burst come back that ends from `from` to `to`.
    pub fn give_back(&mut self, now: Time, bytes: u64, burst: &Burst, from: Time, to: Time) {
        let (from, to) = (from + self.credit_latency, to + self.credit_latency);
        self.credits.send(burst.credits, from, to);
        self.given_back.header += burst.credits.header;
        self.given_back.data += burst.credits.data;
        self.away.pass(now, bytes, (burst.from, burst.to), (from, to));
    }

    /// Time that the completions of a read take on the link: as a write's, the other way.
    pub fn read_span(&self, bytes: u64) -> Time {
        let headers = bytes.div_ceil(self.max_payload);
        self.rate.serialization(bytes + headers * self.tlp_overhead)
    }
}

// The integrated I/O controller: the buffer between PCIe and the mesh.
//
// What is in it came over PCIe and is not yet written. Its size is the data credits that it grants (93 cache lines on the
// servers of Agarwal et al., "Host congestion control", SIGCOMM 2023, section 3), its service time what follows takes.

/// Bytes that come in evenly over one span and leave evenly over another.
#[derive(Clone, Copy, Debug)]
struct HeldBytes {
    bytes: u64,
    arrival: (Time, Time),
    end: (Time, Time),
}

/// Bytes that stay somewhere for a while: those in the IIO; those whose credits are away.
#[derive(Debug)]
pub(crate) struct Residence {
    /// Those that may still be there, oldest first.
    bursts: VecDeque<HeldBytes>,
    /// Occupancy over time of all bursts, byte-ps, each counted to its end.
    booked: u128,
    /// Bytes that came.
    pub passed_bytes: u64,
    /// Largest occupancy from the last sample to `seen_to`.
    max_bytes: u64,
    seen_to: Time,
    /// Bytes there over time until `seen_to`, byte-ps, and the number of bursts that came: for the audit.
    #[cfg(debug_assertions)]
    held: f64,
    #[cfg(debug_assertions)]
    came: u64,
}

impl Default for Residence {
    fn default() -> Self {
        Residence {
            bursts: VecDeque::with_capacity(64),
            booked: 0,
            passed_bytes: 0,
            max_bytes: 0,
            seen_to: Time::ZERO,
            #[cfg(debug_assertions)]
            held: 0.0,
            #[cfg(debug_assertions)]
            came: 0,
        }
    }
}

/// Mean of `max(x, at)` over x from one instant to another, doubled.
fn twice_mean_after(span: (Time, Time), at: Time) -> u128 {
    let (from, to, at) = (span.0 .0 as u128, span.1 .0 as u128, at.0 as u128);
    if at <= from {
        from + to
    } else if at >= to {
        2 * at
    } else {
        (2 * at * (at - from) + (to * to - at * at)) / (to - from)
    }
}

/// The part of `bytes` that has passed, if they pass evenly over a span; all at its end if the span is no time.
fn passed(bytes: u64, span: (Time, Time), at: Time) -> u64 {
    if at >= span.1 {
        bytes
    } else if at <= span.0 {
        0
    } else {
        // Bursts are at most a packet and spans below a second: 64 bits are enough.
        bytes.saturating_mul((at - span.0).0) / (span.1 - span.0).0
    }
}

impl Residence {
    /// A burst passes: it begins to come at `now` or later, and not before those that passed have come.
    pub fn pass(&mut self, now: Time, bytes: u64, arrival: (Time, Time), end: (Time, Time)) {
        self.see_to(now);
        while self.bursts.front().is_some_and(|burst| burst.end.1 <= now) {
            self.bursts.pop_front();
        }
        let residence = end.0 .0 + end.1 .0 - arrival.0 .0 - arrival.1 .0;
        self.booked += bytes as u128 * residence as u128 / 2;
        self.passed_bytes += bytes;
        self.bursts.push_back(HeldBytes { bytes, arrival, end });
        #[cfg(debug_assertions)]
        {
            self.came += 1;
        }
    }

    /// Largest occupancy since the last sample. What is to come counts when it has come: a burst may be booked long before.
    pub fn take_max(&mut self, now: Time) -> u64 {
        self.see_to(now);
        let held = self.occupancy(now);
        std::mem::replace(&mut self.max_bytes, held).max(held)
    }

    /// Looks for the largest occupancy up to an instant. It grows and falls evenly, and is largest where a burst has come or
    /// begins to leave; what leaves at once there is still counted.
    fn see_to(&mut self, now: Time) {
        let mut most = self.max_bytes;
        for burst in &self.bursts {
            for at in [burst.arrival.1, burst.end.0] {
                if self.seen_to < at && at <= now {
                    let leaves = self.bursts.iter().filter(|burst| burst.end == (at, at));
                    most = most.max(self.occupancy(at) + leaves.map(|burst| burst.bytes).sum::<u64>());
                }
            }
        }
        #[cfg(debug_assertions)]
        {
            self.held += self.integral(self.seen_to, now);
        }
        (self.max_bytes, self.seen_to) = (most, now);
    }

    /// Bytes in the buffer, integrated from one instant to another, byte-ps, worked out anew: between the instants at which a
    /// burst begins or ends to come or to leave, they grow and fall evenly.
    #[cfg(debug_assertions)]
    fn integral(&self, from: Time, to: Time) -> f64 {
        let share = |span: (Time, Time), at: f64| {
            let (begin, end) = (span.0 .0 as f64, span.1 .0 as f64);
            if at >= end {
                1.0
            } else {
                ((at - begin) / (end - begin)).max(0.0)
            }
        };
        let found = |at: f64| -> f64 {
            let held =
                |burst: &HeldBytes| burst.bytes as f64 * (share(burst.arrival, at) - share(burst.end, at));
            self.bursts.iter().map(held).sum()
        };
        let ends = self.bursts.iter().flat_map(|b| [b.arrival.0, b.arrival.1, b.end.0, b.end.1]);
        let mut at: Vec<Time> = ends.filter(|&at| from < at && at < to).chain([from, to]).collect();
        at.sort_unstable();
        at.windows(2)
            .map(|at| (at[1] - at[0]).0 as f64 * found((at[0].0 as f64 + at[1].0 as f64) / 2.0))
            .sum()
    }

    /// Little's law: what was found there over time is each burst's bytes times its own stay, of which whole byte-ps are
    /// booked. What is wrong, if they differ.
    #[cfg(debug_assertions)]
    pub fn judge(&self, now: Time) -> Option<String> {
        let (held, waited) = (self.held + self.integral(self.seen_to, now), self.byte_time(now) as f64);
        // Of bursts that stay, the mean until now is in whole picoseconds.
        let stay = self.bursts.iter().map(|burst| burst.bytes as f64).sum::<f64>();
        let differ = (held - waited).abs() > waited * 1e-9 + 2.0 * self.came as f64 + stay;
        differ.then(|| format!("held {held:e} byte-ps, and its bursts stayed for {waited:e}"))
    }

    /// Bytes in the buffer at an instant that is not before the last packet's beginning.
    pub fn occupancy(&self, at: Time) -> u64 {
        let held = |burst: &HeldBytes| {
            passed(burst.bytes, burst.arrival, at).saturating_sub(passed(burst.bytes, burst.end, at))
        };
        self.bursts.iter().map(held).sum()
    }

    /// Occupancy added up over time until `now`, byte-ps.
    pub fn byte_time(&self, now: Time) -> u128 {
        let rest = |burst: &HeldBytes| {
            let wait = twice_mean_after(burst.end, now) - twice_mean_after(burst.arrival, now);
            burst.bytes as u128 * wait / 2
        };
        self.booked - self.bursts.iter().map(rest).sum::<u128>()
    }
}

// How a NIC fetches what it sends over PCIe.

/// How a NIC fetches what it sends: requests are outstanding all the time, so what has been fetched is ahead of the wire
/// by up to that many bytes.
#[derive(Debug)]
pub(crate) struct Reads {
    pub outstanding_bytes: u64,
    pub latency: Time,
    /// When the payload of the next packet is fetched.
    pub fetched: Time,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_may_be_there_before_the_last_byte_has_come() {
        let mut iio = Residence::default();
        let ns = Time::from_ns;
        iio.pass(Time::ZERO, 1000, (ns(0), ns(10)), (ns(100), ns(110)));
        iio.pass(Time::ZERO, 1000, (ns(50), ns(150)), (ns(200), ns(210)));
        // 1,500 B are there when the first burst begins to leave, ten times as fast as the second comes.
        assert_eq!(iio.take_max(ns(99)), 1490);
        assert_eq!(iio.take_max(ns(160)), 1500);
        assert_eq!(iio.take_max(ns(300)), 1000);
        assert_eq!(iio.take_max(ns(400)), 0);
    }

    #[test]
    fn what_leaves_at_once_has_been_there() {
        let mut iio = Residence::default();
        let ns = Time::from_ns;
        iio.pass(Time::ZERO, 1000, (ns(0), ns(10)), (ns(100), ns(100)));
        iio.pass(Time::ZERO, 1000, (ns(50), ns(150)), (ns(200), ns(210)));
        assert_eq!(iio.take_max(ns(90)), 1400);
        assert_eq!(iio.take_max(ns(120)), 1500);
        assert_eq!(iio.take_max(ns(130)), 800);
    }

    /// Bursts that stay are judged, too, and a stay that is booked a picosecond longer for each byte is noticed.
    #[test]
    #[cfg(debug_assertions)]
    fn what_was_found_there_is_what_stayed() {
        let mut iio = Residence::default();
        let ns = Time::from_ns;
        for at in 0..100 {
            let to = 10 * at + 7 * (at % 3);
            iio.pass(ns(10 * at), 1000 + at, (ns(10 * at), ns(to)), (ns(to + 90), ns(to + 90 + at % 5)));
            assert_eq!(iio.judge(ns(10 * at + 5)), None);
        }
        iio.take_max(ns(1050));
        assert_eq!(iio.judge(ns(1060)), None);
        iio.booked += 100 * 1050;
        assert!(iio.judge(ns(1060)).is_some());
    }

    #[test]
    fn the_counter_grows_by_what_is_there() {
        let mut iio = Residence::default();
        let ns = Time::from_ns;
        iio.pass(Time::ZERO, 1000, (ns(10), ns(20)), (ns(110), ns(120)));
        assert_eq!(iio.occupancy(ns(15)), 500);
        assert_eq!(iio.occupancy(ns(60)), 1000);
        assert_eq!(iio.byte_time(ns(10)), 0);
        // A triangle, then a rectangle.
        assert_eq!(iio.byte_time(ns(20)), 1000 * 10_000 / 2);
        assert_eq!(iio.byte_time(ns(30)), 1000 * 10_000 / 2 + 1000 * 10_000);
        assert_eq!(iio.byte_time(ns(500)), 1000 * 100_000);
    }
}
