//! Host memory: the controller, shared by cores and I/O, and the cache in front of it.
//!
//! Sources: Vuppalapati et al., "Understanding the host network", SIGCOMM 2024 (cores and I/O are closed loops: what they
//! keep outstanding over its latency is their throughput; writes of I/O wait at the controller); Agarwal et al., "Host
//! congestion control", SIGCOMM 2023, section 2 (under load the IIO fills, credits return late); Intel, "Introduction
//! to memory bandwidth allocation" (MBA delays the requests of cores).
//!
//! A fluid. At utilisation u of the bandwidth a read waits `service * u / (1 - u)` (a bank as an M/M/1 queue); cores that
//! keep Q bytes outstanding then move `Q / (latency + wait)`, and with what I/O moves at the time that gives the
//! utilisation: a quadratic equation for the wait. It is solved again each microsecond or so while packets come, never for a
//! cache line. Writes that miss the cache go through the queue of pending writes ([`WriteQueue`]): they stay there
//! `write_wait` times as long as a read waits, because the controller serves reads first.
//!
//! Leaves out: channels, banks and rows one by one, what refresh does to reads, the turnaround of the bus as a function of the mix, and
//! other sockets; and the cores' own writes in the queue of pending writes, which are part of their closed loop.

use std::collections::VecDeque;
use tailback_proto::units::{Rate, Time};

use crate::engine::{stream, uniform, Stream};
use crate::gauge::{Gauge, TICK_PS};
use crate::host::settings::{DdioParameters, GpuPlan, MemoryPlan, LINE_BYTES};

/// How often the balance is found anew while packets come: above the credits' time of return, below any reaction of the
/// network.
const MEMORY_STEP: Time = Time::from_ns(500);

/// Steps over which I/O's rate is averaged, so that the two loops settle and do not swing.
const STEPS_OF_AVERAGE: f64 = 4.0;

/// Most of the bandwidth that the balance gives to I/O: the rest of its demand waits at the controller.
const MOST_UTILISATION: f64 = 0.995;

/// A host's memory.
#[derive(Debug)]
pub(crate) struct Memory {
    /// Bytes/s.
    bandwidth: f64,
    /// s.
    service: f64,
    write_wait: f64,
    cpu_latency: f64,
    iio_latency: Time,
    pub ddio: Option<Ddio>,
    /// Bytes that cores keep outstanding, and the share of reads in their traffic.
    outstanding: f64,
    reads_outstanding: f64,
    /// MBA: bytes/s.
    limit: Option<f64>,
    /// When the balance was found.
    balanced_at: Time,
    /// Bytes since then: of I/O in memory, and written by I/O to cache or memory.
    io_bytes: u64,
    written: u64,
    io_rate: f64,
    write_rate: f64,
    pub cpu_rate: f64,
    /// Wait of a read, s.
    wait: f64,
    /// Share of I/O writes that miss.
    pub miss_share: f64,
    misses_due: f64,
    writes: WriteQueue,
    /// Mean time that reads are served before a batch of writes, ps.
    reads_ps: f64,
    read_spread: f64,
    stream: Stream,
    last_end: Time,
    pub counters: MemoryCounters,
    /// Bytes that wait at the controller.
    pub level: Gauge,
}

/// Bytes that passed, by owner.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MemoryCounters {
    /// Cache lines that I/O wrote.
    pub write_hits: u64,
    pub write_misses: u64,
    /// Cache lines that I/O read.
    pub lines_read: u64,
    /// Bytes in memory.
    pub io_write_bytes: u64,
    pub io_read_bytes: u64,
    pub cpu_read_bytes: f64,
    pub cpu_write_bytes: f64,
}

fn seconds(ps: u64) -> f64 {
    ps as f64 / 1e12
}

impl Memory {
    pub fn new(plan: &MemoryPlan, iio_latency: Time, mut stream: Stream) -> Self {
        let own = &plan.own;
        let interval = own.refresh_interval;
        // Machines do not refresh in step.
        let phase = match own.refresh_time {
            Time::ZERO => Time::ZERO,
            _ => Time((uniform(&mut stream) * interval.0 as f64) as u64),
        };
        let refresh = Refresh { interval, time: own.refresh_time, phase };
        let mut memory = Memory {
            bandwidth: own.bandwidth.0 as f64 / 8.0,
            service: seconds(own.service.0),
            write_wait: own.write_wait,
            cpu_latency: seconds(own.cpu_latency.0),
            iio_latency,
            ddio: plan.ddio.as_ref().map(Ddio::new),
            outstanding: 0.0,
            reads_outstanding: 0.0,
            limit: None,
            balanced_at: Time::ZERO,
            io_bytes: 0,
            written: 0,
            io_rate: 0.0,
            write_rate: 0.0,
            cpu_rate: 0.0,
            wait: 0.0,
            miss_share: 1.0, // nothing has been written yet
            misses_due: 0.0,
            writes: WriteQueue::new(
                own.write_queue as u64,
                LINE_BYTES as f64 * 8e12 / own.bandwidth.0 as f64,
                refresh,
            ),
            reads_ps: 0.0,
            read_spread: own.read_spread,
            stream,
            last_end: Time::ZERO,
            counters: MemoryCounters::default(),
            level: Gauge::default(),
        };
        memory.balance(Time::ZERO);
        memory
    }

    /// I/O writes `bytes` that come in over a span: the times of the first and the last byte's end.
    pub fn write(&mut self, now: Time, bytes: u64, from: Time, to: Time) -> (Time, Time) {
        self.catch_up(now, MEMORY_STEP);
        let lines = bytes.div_ceil(LINE_BYTES);
        self.misses_due += lines as f64 * self.miss_share;
        let misses = self.misses_due as u64;
        self.misses_due -= misses as f64;
        self.counters.write_misses += misses;
        self.counters.write_hits += lines - misses.min(lines);
        self.counters.io_write_bytes += misses * LINE_BYTES;
        self.io_bytes += misses * LINE_BYTES;
        self.written += bytes;
        let (mean, spread, stream) = (self.reads_ps, self.read_spread, &mut self.stream);
        let reads = || match spread {
            0.0 => Time(mean as u64),
            spread => Time((mean * (1.0 + spread * (2.0 * uniform(stream) - 1.0))) as u64),
        };
        let (entered, last) =
            if misses > 0 { self.writes.enter(misses, from, to, reads) } else { (from, to) };
        // Writes end in order, so that one that waits holds up those behind it, also where they hit.
        let first = (entered + self.iio_latency).max(self.last_end);
        let last = (last.max(to) + self.iio_latency).max(first);
        self.last_end = last;
        (first, last)
    }

    /// I/O reads `bytes`, from memory.
    pub fn read(&mut self, now: Time, bytes: u64) {
        self.catch_up(now, MEMORY_STEP);
        self.counters.lines_read += bytes.div_ceil(LINE_BYTES);
        self.counters.io_read_bytes += bytes;
        self.io_bytes += bytes;
    }

    /// Cores keep more or less outstanding from now on.
    pub fn change_load(&mut self, now: Time, outstanding_bytes: u64, read_share: f64, more: bool) {
        self.catch_up(now, Time::ZERO);
        let sign = if more { 1.0 } else { -1.0 };
        self.outstanding += sign * outstanding_bytes as f64;
        self.reads_outstanding += sign * outstanding_bytes as f64 * read_share;
        self.balance(now);
    }

    /// MBA: delays the requests of cores so that they move no more than this.
    pub fn limit_cores(&mut self, now: Time, limit_bps: Option<u64>) {
        self.catch_up(now, Time::ZERO);
        self.limit = limit_bps.map(|bps| bps as f64 / 8.0);
        self.balance(now);
    }

    /// Brings counters up to now and finds the balance anew, if the last time is `step` ago.
    pub fn catch_up(&mut self, now: Time, step: Time) {
        let elapsed = now.saturating_sub(self.balanced_at);
        if elapsed < step || elapsed == Time::ZERO {
            return;
        }
        let span = seconds(elapsed.0);
        let cpu_bytes = self.cpu_rate * span;
        let reads = if self.outstanding > 0.0 { self.reads_outstanding / self.outstanding } else { 0.0 };
        self.counters.cpu_read_bytes += cpu_bytes * reads;
        self.counters.cpu_write_bytes += cpu_bytes * (1.0 - reads);
        let steps = elapsed.0 as f64 / MEMORY_STEP.0 as f64;
        let weight = steps / (steps + STEPS_OF_AVERAGE);
        self.io_rate += (self.io_bytes as f64 / span - self.io_rate) * weight;
        self.write_rate += (self.written as f64 / span - self.write_rate) * weight;
        (self.io_bytes, self.written) = (0, 0);
        self.balance(now);
    }

    /// Bytes that cores read and wrote up to now.
    pub fn cpu_bytes(&self, now: Time) -> [u64; 2] {
        let since = self.cpu_rate * seconds(now.saturating_sub(self.balanced_at).0);
        let reads = if self.outstanding > 0.0 { self.reads_outstanding / self.outstanding } else { 0.0 };
        let [read, written] = [self.counters.cpu_read_bytes, self.counters.cpu_write_bytes];
        [(read + since * reads) as u64, (written + since * (1.0 - reads)) as u64]
    }

    /// Finds the wait at which all loops are in balance.
    fn balance(&mut self, now: Time) {
        self.balanced_at = now;
        // MBA adds the latency at which this much outstanding moves no more than the limit.
        let latency = match self.limit {
            Some(limit) => self.cpu_latency.max(self.outstanding / limit),
            None => self.cpu_latency,
        };
        let (m, s, q, b) = (self.bandwidth, self.service, self.outstanding, latency);
        let io = self.io_rate.min(m * MOST_UTILISATION);
        // m w / (s + w) - io = q / (b + w), as a polynomial in w.
        let (free, linear) = (m - io, (m - io) * b - io * s - q);
        let constant = -(io * s * b + q * s);
        self.wait = (-linear + (linear * linear - 4.0 * free * constant).sqrt()) / (2.0 * free);
        self.cpu_rate = q / (b + self.wait);
        if let Some(ddio) = &self.ddio {
            self.miss_share = ddio.miss_share(self.miss_share, self.write_rate, self.cpu_rate);
        }
        self.reads_ps = self.wait * self.write_wait * 1e12 * self.writes.batch_share();
        // Little's law for what cores have waiting here; I/O's lines are counted.
        let lines = self.writes.lines(now);
        self.level.set(now, (self.cpu_rate * self.wait) as u64 + lines * LINE_BYTES);
    }

    /// Time from the IIO to a write's end, as it is now.
    pub fn write_latency(&self, now: Time) -> Time {
        self.iio_latency + self.writes.wait(now)
    }
}

const _: () = assert!(MEMORY_STEP.0 >= TICK_PS, "the integral of the level is in ticks");

// Direct cache access of I/O: which writes find their line in the cache.
//
// Sources: Farshin et al., "Reexamining direct cache access", USENIX ATC 2020 (I/O allocates in a few ways only; what is
// evicted before it is written again costs memory bandwidth: leaky DMA); Wang et al., "Understanding I/O direct cache
// access performance", SIGMETRICS 2022 (hit rate from the reuse distance).
//
// A line of a buffer is written again when the whole working set was. Whatever is allocated in the I/O ways in between,
// by writes that miss and by cores, takes the place of a random line of them, so that a line is still there with
// probability exp(-allocated / capacity). A write that hits costs no memory bandwidth; one that misses evicts a line that
// is dirty, because I/O wrote it, and waits for room in the memory controller.
//
// Leaves out: sets and slices (misses by conflict), reads of the buffers by cores, the two inclusive ways.

/// The part of the last-level cache that I/O may allocate in.
#[derive(Debug)]
pub(crate) struct Ddio {
    capacity: f64,
    cpu_share: f64,
    /// Bytes that are written before the first of them is written again.
    working_set: f64,
    /// True if the plan gave it.
    given: bool,
}

impl Ddio {
    pub fn new(plan: &DdioParameters) -> Self {
        Ddio {
            capacity: plan.capacity.0 as f64,
            cpu_share: plan.cpu_share,
            working_set: plan.working_set.map_or(0.0, |bytes| bytes.0 as f64),
            given: plan.working_set.is_some(),
        }
    }

    /// Another `bytes` are written in turn, unless the plan says how many are.
    pub fn add_working_set(&mut self, bytes: u64) {
        if !self.given {
            self.working_set += bytes as f64;
        }
    }

    /// Share of writes that miss, where so far a share of `before` did, at these rates in bytes/s.
    pub fn miss_share(&self, before: f64, written: f64, cores: f64) -> f64 {
        if written <= 0.0 {
            return before; // nothing is written
        }
        let allocated = self.working_set * (before + self.cpu_share * cores / written);
        1.0 - libm::exp(-allocated / self.capacity)
    }
}

// The memory controller's queue of pending writes.
//
// Sources: Intel, "Xeon Processor E5-2600 product family uncore performance monitoring guide" (327043-001), section on the
// iMC: 32 entries a channel; a write is complete for the rest of the system once it is posted there; what has no entry waits
// for one; the controller is in read mode or in *write major mode*. Chatterjee et al., "Staged reads", HPCA 2012,
// section 2 (writes are drained in batches between two watermarks of the queue).
//
// A write *ends* when it gets an entry, not when it is in DRAM. So it waits only while the queue is full,
// for as long as the queue takes to drain what is ahead of it. If a queue drains faster than it fills,
// no write waits, however busy the controller is.
//
// The queue is drained in batches. Before each batch, reads are served for a random time. Take K entries in
// B batches, and let L be the mean time that a write of a full queue stays beyond what the bus needs for it.
// Then the mean time of reads is L / B, and a full queue drains at `K / (K / bandwidth + L)`: Little's law.
//
// There are no events for lines. Lines are numbered as they come, and a line may enter once the batch B
// before its own has been drained. Batch j is drained when batch j - 1 is, or when its own last line came,
// plus the reads before it, plus its time on the bus.
//
// In every refresh interval, nothing is drained for the time of a refresh (JEDEC JESD79-4, section on
// refresh: tREFI, tRFC). The work in between takes that much less time, so that the mean drain rate is the
// same as without refresh: the bandwidth is a measured one, which includes refresh. All channels are
// refreshed at once (assumption: writes end in order, so a single stalled channel holds up as many lines for
// each of its entries as all channels stalled together).
//
// Leaves out: entries taken by the cores' writes; a full queue of one channel while others have room; ranks,
// one of which may be refreshed while another is written.

/// Lines of a batch: half of the 32 entries of a channel (assumption: watermarks half of the queue apart, and channels
/// one after the other, as addresses are spread over them).
const BATCH_LINES: u64 = 16;

/// Times in which the memory serves nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refresh {
    /// From the beginning of one to the beginning of the next; longer than `time`.
    pub interval: Time,
    pub time: Time,
    /// How long before time 0 one began; less than `interval`.
    pub phase: Time,
}

impl Refresh {
    /// When work is done that takes the time `work` on average, including refresh.
    fn end(&self, start: Time, work: Time) -> Time {
        let Refresh { interval, time, phase } = *self;
        if time == Time::ZERO {
            return start + work;
        }
        let free = interval - time;
        let work = Time((work.0 as f64 * (free.0 as f64 / interval.0 as f64)) as u64);
        let within = (start + phase).0 % interval.0;
        let served = within.saturating_sub(time.0) + work.0;
        let under_way = time.0.saturating_sub(within);
        let more = served.saturating_sub(1) / free.0 * time.0;
        start + work + Time(under_way + more)
    }
}

/// The queue of writes that no DRAM page has taken yet.
#[derive(Debug)]
pub(crate) struct WriteQueue {
    /// Lines in a batch.
    batch: u64,
    /// Time of a batch on the bus.
    span: Time,
    refresh: Refresh,
    /// Lines that have entered so far.
    entered: u64,
    /// When the batches before the one being filled were drained, for as many as the queue has room for,
    /// oldest first.
    drained: VecDeque<Time>,
}

impl WriteQueue {
    /// A queue of `lines` entries, where a line takes `line_ps` on the bus.
    pub fn new(lines: u64, line_ps: f64, refresh: Refresh) -> Self {
        let batch = BATCH_LINES.min(lines);
        WriteQueue {
            batch,
            span: Time((batch as f64 * line_ps) as u64),
            refresh,
            entered: 0,
            drained: VecDeque::from(vec![Time::ZERO; (lines / batch) as usize]),
        }
    }

    /// When a line of the batch being filled may enter.
    fn room_at(&self) -> Time {
        self.drained[0]
    }

    /// A batch's share of the queue.
    pub fn batch_share(&self) -> f64 {
        1.0 / self.drained.len() as f64
    }

    /// Takes `lines` that come evenly over a span. Returns when the first and the last of them have entered.
    /// `reads` draws how long reads are served before a batch.
    pub fn enter(
        &mut self,
        lines: u64,
        from: Time,
        to: Time,
        mut reads: impl FnMut() -> Time,
    ) -> (Time, Time) {
        let first = from.max(self.room_at());
        let mut last = first;
        let end = self.entered + lines;
        let mut come = 0;
        while self.entered < end {
            let left = (self.batch - self.entered % self.batch).min(end - self.entered);
            come += left;
            self.entered += left;
            let arrival = from + Time((to - from).0 * come / lines); // spans are below a second, lines below a packet
            last = arrival.max(self.room_at()).max(last);
            if self.entered.is_multiple_of(self.batch) {
                let before = self.drained[self.drained.len() - 1];
                self.drained.pop_front();
                self.drained.push_back(self.refresh.end(before.max(last), reads() + self.span));
            }
        }
        (first, last)
    }

    /// How long a line that comes now waits for an entry.
    pub fn wait(&self, now: Time) -> Time {
        self.room_at().saturating_sub(now)
    }

    /// Lines in the queue, and lines already known to enter, rounded to a batch.
    pub fn lines(&self, now: Time) -> u64 {
        let full = self.drained.iter().rev().take_while(|&&at| at > now).count() as u64;
        full * self.batch + self.entered % self.batch
    }
}

// A GPU's memory behind its BAR1, reached peer to peer from another root port.
//
// Source: NVIDIA, "GPUDirect RDMA" (design considerations: supported systems): through the CPU's root complex
// peer-to-peer works but slower than through a PCIe switch, reads above all, and worse between sockets. Measured through one CPU:
// about 7 GB/s of writes to one GPU (NVIDIA developer forum, "P2P DMA performance limitation", Xeon E5 v4).
//
// Reads (of what the host sends) and writes (of what it receives) are served in turn by one path of a given bandwidth; a
// hop between NUMA nodes adds latency, and with the writes that may be outstanding between the root ports latency limits
// the writes' throughput.
//
// The path may stall: for a while it serves neither. Stalls begin at random, with exponential gaps, as from a cause that
// knows nothing of the traffic; a stall lasts anything up to twice the mean, evenly. Which one it is on a given machine (power states of the GPU or of the CPU's fabric,
// retraining of a link, translation of addresses) the model does not say.
//
// Leaves out: the GPU's own use of its memory, and the limits of its address translation.

/// A GPU's path.
#[derive(Debug)]
pub(crate) struct Gpu {
    rate: Rate,
    latency: Time,
    /// When what was asked for so far is served.
    free_at: Time,
    last_end: Time,
    stalls: Option<Stalls>,
    /// End of the last stall.
    stalled_until: Time,
    pub read_bytes: u64,
    pub write_bytes: u64,
    pub stalled: Time,
    /// Bytes that wait for the path.
    pub level: Gauge,
}

#[derive(Debug)]
struct Stalls {
    stream: Stream,
    interval_ps: f64,
    duration_ps: f64,
    next: Time,
}

impl Stalls {
    fn gap(stream: &mut Stream, mean_ps: f64) -> Time {
        Time((-libm::log(1.0 - uniform(stream)) * mean_ps) as u64)
    }
}

impl Gpu {
    pub fn new(plan: &GpuPlan, iio_latency: Time, seed: u64, host: u32) -> Self {
        Gpu {
            rate: plan.own.bandwidth,
            latency: Time(iio_latency.0 + plan.own.hops as u64 * plan.own.hop_latency.0),
            free_at: Time::ZERO,
            last_end: Time::ZERO,
            stalls: plan.stalls.as_ref().map(|stalls| {
                let mut stream = stream(seed, "gpu stall", host as u64);
                let interval_ps = stalls.interval.0 as f64;
                let next = Stalls::gap(&mut stream, interval_ps);
                Stalls { stream, interval_ps, duration_ps: stalls.duration.0 as f64, next }
            }),
            stalled_until: Time::ZERO,
            read_bytes: 0,
            write_bytes: 0,
            stalled: Time::ZERO,
            level: Gauge::default(),
        }
    }

    /// Writes `bytes` that come in over a span: the times of the first and the last byte's end.
    pub fn write(&mut self, now: Time, bytes: u64, from: Time, to: Time) -> (Time, Time) {
        self.write_bytes += bytes;
        let begun = self.serve(now, bytes);
        let first = (from.max(begun) + self.latency).max(self.last_end);
        let last = (to.max(self.free_at) + self.latency).max(first);
        self.last_end = last;
        (first, last)
    }

    /// Reads `bytes`. Returns when they are read, without the latency of the first ones.
    pub fn read(&mut self, now: Time, bytes: u64) -> Time {
        self.read_bytes += bytes;
        self.serve(now, bytes);
        self.free_at
    }

    /// Serves a request that comes now after all earlier ones: when that begins.
    fn serve(&mut self, now: Time, bytes: u64) -> Time {
        if self.stalls.as_ref().is_some_and(|stalls| stalls.next <= now) {
            self.stall(now);
        }
        let begun = self.free_at.max(now);
        self.free_at = begun + self.rate.serialization(bytes);
        // While the path stalls it serves nothing: that time is no bytes.
        let waiting = self.rate.bytes_in(self.free_at - now.max(self.stalled_until));
        self.level.set(now, waiting);
        begun
    }

    #[cold]
    fn stall(&mut self, now: Time) {
        let Some(stalls) = &mut self.stalls else { return };
        while stalls.next <= now {
            let duration = Time((2.0 * stalls.duration_ps * uniform(&mut stalls.stream)) as u64);
            let end = stalls.next + duration;
            self.stalled += duration;
            self.free_at = self.free_at.max(end);
            self.stalled_until = end;
            stalls.next = end + Stalls::gap(&mut stalls.stream, stalls.interval_ps);
        }
    }

    /// From the IIO to a write's end, with nothing in its way.
    pub fn write_latency(&self) -> Time {
        self.latency
    }
}

#[cfg(test)]
mod memory_tests {
    use super::*;
    use crate::host::settings::DdioParameters;
    use crate::host::settings::MemoryParameters;
    use tailback_proto::units::{Bytes, Rate};

    fn memory(ddio: Option<DdioParameters>) -> Memory {
        let own = MemoryParameters {
            bandwidth: Rate(265_600_000_000),
            service: Time(10_000),
            write_queue: 64,
            write_wait: 8.0,
            read_spread: 0.0,
            cpu_latency: Time(90_000),
            refresh_interval: Time(7_800_000),
            refresh_time: Time::ZERO,
        };
        let plan = MemoryPlan { own, ddio };
        Memory::new(&plan, Time(110_000), crate::engine::stream(1, "memory", 0))
    }

    #[test]
    fn cores_alone_move_what_they_keep_outstanding_over_the_latency() {
        let mut memory = memory(None);
        memory.change_load(Time::ZERO, 640, 0.5, true);
        // 640 B / 90 ns is 7.1 GB/s of 33.2: 21 %, so a read waits 2.7 ns longer.
        assert!((memory.cpu_rate / 1e9 - 6.9).abs() < 0.02, "{}", memory.cpu_rate);
        memory.change_load(Time::ZERO, 640 * 99, 0.5, true);
        assert!(memory.cpu_rate < 33.2e9 && memory.cpu_rate > 32.5e9, "{}", memory.cpu_rate);
        memory.catch_up(Time::from_us(1), Time::ZERO);
        let moved = memory.counters.cpu_read_bytes + memory.counters.cpu_write_bytes;
        assert!((moved / memory.cpu_rate / 1e-6 - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_limit_delays_cores() {
        let mut memory = memory(None);
        memory.change_load(Time::ZERO, 6400, 0.5, true);
        let free = memory.cpu_rate;
        memory.limit_cores(Time::ZERO, Some(80_000_000_000));
        assert!(memory.cpu_rate <= 10e9 && memory.cpu_rate > 9e9 && free > 25e9, "{}", memory.cpu_rate);
    }

    /// However much is outstanding, the sum never exceeds the bandwidth.
    #[test]
    fn io_and_cores_share_the_bandwidth() {
        for outstanding in [0, 1000, 10_000, 100_000] {
            let mut memory = memory(None);
            memory.change_load(Time::ZERO, outstanding, 0.5, true);
            let (mut at, step) = (Time::ZERO, Time::from_ns(82));
            let mut end = Time::ZERO;
            for _ in 0..10_000 {
                // 1 KiB in 82 ns is 12.5 GB/s.
                end = memory.write(at, 1024, at, at + step).1;
                at += step;
            }
            memory.catch_up(at, Time::ZERO);
            let c = memory.counters;
            let moved = c.cpu_read_bytes + c.cpu_write_bytes + c.io_write_bytes as f64;
            assert!(moved / at.as_secs_f64() < 33.2e9 * 1.01, "{moved}");
            assert!(end >= at);
        }
    }

    #[test]
    fn writes_that_hit_use_no_memory_bandwidth() {
        let ddio =
            DdioParameters { capacity: Bytes(4_000_000), cpu_share: 0.18, working_set: Some(Bytes(100_000)) };
        let mut memory = memory(Some(ddio));
        let mut at = Time::ZERO;
        for _ in 0..1_000 {
            memory.write(at, 1024, at, at + Time::from_ns(82));
            at += Time::from_ns(82);
        }
        assert!(memory.counters.write_hits > 10 * memory.counters.write_misses);
        let lines = memory.counters.write_hits + memory.counters.write_misses;
        assert_eq!(lines, 16_000);
        assert_eq!(memory.counters.io_write_bytes, memory.counters.write_misses * 64);
    }
}

#[cfg(test)]
mod ddio_tests {
    use super::*;
    use tailback_proto::units::Bytes;

    fn settled(working_set: u64, cores: f64) -> f64 {
        let ddio = Ddio::new(&DdioParameters {
            capacity: Bytes(4_000_000),
            cpu_share: 0.18,
            working_set: Some(Bytes(working_set)),
        });
        (0..2000).fold(1.0, |share, _| ddio.miss_share(share, 10e9, cores))
    }

    #[test]
    fn a_working_set_that_fits_hits_and_a_larger_one_leaks() {
        assert!(settled(1_000_000, 0.0) < 1e-6);
        // 1 - x = exp(-2 x) at twice the capacity.
        assert!((settled(8_000_000, 0.0) - 0.7968).abs() < 1e-3, "{}", settled(8_000_000, 0.0));
        assert!(settled(128_000_000, 0.0) > 0.999);
    }

    #[test]
    fn traffic_of_cores_evicts_what_io_wrote() {
        assert!(settled(1_000_000, 10e9) > 0.04);
        assert!(settled(8_000_000, 20e9) > settled(8_000_000, 10e9));
    }
}

#[cfg(test)]
mod write_queue_tests {
    use super::*;
    use proptest::prelude::*;

    const LINE: Time = Time::from_ns(2);

    const NO_REFRESH: Refresh =
        Refresh { interval: Time::from_ns(7800), time: Time::ZERO, phase: Time::ZERO };

    fn queue() -> WriteQueue {
        WriteQueue::new(64, LINE.0 as f64, NO_REFRESH)
    }

    /// Goes in steps of 1 ns, and compares when all of the work is done.
    #[test]
    fn work_ends_as_it_does_step_by_step() {
        for phase in [0, 1, 349, 350, 5000, 7799] {
            let refresh = Refresh {
                interval: Time::from_ns(7800),
                time: Time::from_ns(350),
                phase: Time::from_ns(phase),
            };
            for start in [0, 1, 2449, 7449, 7450, 7799, 12_345] {
                for shares in [1, 2, 50, 100, 170] {
                    // Work with refresh in it, of which 149 in 156 are without.
                    let (work, mut left) = (156 * shares, 149 * shares);
                    let mut at = start;
                    while left > 0 {
                        left -= u64::from((at + phase) % 7800 >= 350);
                        at += 1;
                    }
                    let end = refresh.end(Time::from_ns(start), Time::from_ns(work));
                    assert!(end.0.abs_diff(at * 1000) <= 1, "{phase} {start} {work}: {end:?}, {at} ns");
                }
            }
        }
    }

    /// A queue that is always full drains as much as without refresh.
    #[test]
    fn refresh_is_in_the_bandwidth() {
        let refresh = Refresh { interval: Time::from_ns(7800), time: Time::from_ns(350), phase: Time::ZERO };
        let mut queue = WriteQueue::new(64, LINE.0 as f64, refresh);
        let mut at = Time::ZERO;
        for _ in 0..100_000 {
            at = queue.enter(20, at, at, || Time::ZERO).1;
        }
        let per_line = at.0 as f64 / 2_000_000.0;
        assert!((per_line / LINE.0 as f64 - 1.0).abs() < 1e-3, "{per_line} ps");
    }

    /// 64 lines hold what comes in 128 ns at a line every 2 ns; writes wait for the rest of the 350 ns of a
    /// refresh.
    #[test]
    fn a_refresh_fills_the_queue() {
        let refresh = Refresh { interval: Time::from_ns(7800), time: Time::from_ns(350), phase: Time::ZERO };
        let mut queue = WriteQueue::new(64, LINE.0 as f64, refresh);
        let (_, entered) = queue.enter(80, Time::ZERO, Time::from_ns(160), || Time::ZERO);
        assert!(entered > Time::from_ns(350) && entered < Time::from_ns(400), "{entered:?}");
        let (_, entered) = queue.enter(80, Time::from_ns(1000), Time::from_ns(1160), || Time::ZERO);
        assert_eq!(entered, Time::from_ns(1160));
    }

    #[test]
    fn what_finds_room_does_not_wait() {
        let mut queue = queue();
        let ns = Time::from_ns;
        assert_eq!(queue.enter(64, ns(100), ns(400), || ns(1000)), (ns(100), ns(400)));
        // Line 16 came at 175 ns: 1000 ns of reads and 32 ns of bus later there is room for 16 more.
        assert_eq!(queue.wait(ns(400)), ns(175 + 1032 - 400));
        assert_eq!(queue.lines(ns(400)), 64);
        assert_eq!(queue.lines(ns(175 + 1032)), 48);
        assert_eq!(queue.lines(ns(175 + 4 * 1032)), 0);
        assert_eq!(queue.enter(1, ns(5000), ns(5000), || ns(1000)), (ns(5000), ns(5000)));
    }

    /// Little's law: entries over the time that each is held, and never more than the bus carries.
    #[test]
    fn a_full_queue_drains_at_its_entries_over_their_time() {
        for reads in [0, 100, 1000] {
            let mut queue = queue();
            let mut at = Time::ZERO;
            for _ in 0..10_000 {
                at = queue.enter(20, at, at, || Time::from_ns(reads)).1;
            }
            let per_line = at.0 as f64 / 200_000.0;
            let expected = LINE.0 as f64 + reads as f64 * 1e3 / 16.0;
            assert!((per_line / expected - 1.0).abs() < 1e-3, "{per_line} ps, expected {expected}");
        }
    }

    /// Writes that come more slowly than the queue drains find room, whatever the controller does in between.
    #[test]
    fn below_its_drain_rate_the_queue_stays_empty() {
        let mut queue = queue();
        let reads = Time::from_ns(250);
        // 16 lines take 282 ns; here they come in 320.
        for packet in 0..1000 {
            let at = Time::from_ns(1280 * packet);
            assert_eq!(queue.enter(64, at, at + Time::from_ns(330), || reads).1, at + Time::from_ns(330));
        }
    }

    proptest! {
        #[test]
        fn lines_enter_in_order_and_never_more_than_there_are_entries(
            bursts in prop::collection::vec((1u64..200, 0u64..2000, 0u64..500, 0u64..3000), 1..100),
            entries in 2u64..200,
        ) {
            let mut queue = WriteQueue::new(entries, LINE.0 as f64, NO_REFRESH);
            let (mut at, mut last) = (Time::ZERO, Time::ZERO);
            for (lines, gap, span, reads) in bursts {
                // A burst begins when the one before has ended, or later: bursts that overlap are not in
                // order.
                at += Time::from_ns(gap);
                let to = at + Time::from_ns(span);
                let (first, end) = queue.enter(lines, at, to, || Time::from_ns(reads));
                prop_assert!(first >= at && end >= to && end >= first);
                prop_assert!(first >= last, "{first:?} is before {last:?}");
                prop_assert!(queue.lines(end) <= entries, "{} of {entries}", queue.lines(end));
                (at, last) = (to, end);
            }
        }
    }
}
