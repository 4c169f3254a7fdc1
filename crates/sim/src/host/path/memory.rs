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

use tailback_proto::units::Time;

use super::ddio::{Ddio, LINE_BYTES};
use super::write_queue::{Refresh, WriteQueue};
use crate::engine::{uniform, Stream};
use crate::gauge::{Gauge, TICK};
use crate::plan::MemoryPlan;

/// How often the balance is found anew while packets come: above the credits' time of return, below any reaction of the
/// network.
const STEP: Time = Time::from_ns(500);
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

/// What passed, by owner.
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
        self.catch_up(now, STEP);
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
        self.catch_up(now, STEP);
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
        let steps = elapsed.0 as f64 / STEP.0 as f64;
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

const _: () = assert!(STEP.0 >= TICK, "the integral of the level is in ticks");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::path::settings::MemoryParameters;
    use crate::plan::DdioParameters;
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
