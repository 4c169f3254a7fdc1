//! A GPU's memory behind its BAR1, reached peer to peer from another root port.
//!
//! Source: NVIDIA, "GPUDirect RDMA" (design considerations: supported systems): through the CPU's root complex
//! peer-to-peer works but slower than through a PCIe switch, reads above all, and worse between sockets. Measured through one CPU:
//! about 7 GB/s of writes to one GPU (NVIDIA developer forum, "P2P DMA performance limitation", Xeon E5 v4).
//!
//! Reads (of what the host sends) and writes (of what it receives) are served in turn by one path of a given bandwidth; a
//! hop between NUMA nodes adds latency, and with the writes that may be outstanding between the root ports latency limits
//! the writes' throughput.
//!
//! The path may stall: for a while it serves neither. Stalls begin at random, with exponential gaps, as from a cause that
//! knows nothing of the traffic; a stall lasts anything up to twice the mean, evenly. Which one it is on a given machine (power states of the GPU or of the CPU's fabric,
//! retraining of a link, translation of addresses) the model does not say.
//!
//! Leaves out: the GPU's own use of its memory, and the limits of its address translation.

use tailback_proto::units::{Rate, Time};

use crate::engine::{stream, uniform, Stream};
use crate::gauge::Gauge;
use crate::plan::GpuPlan;

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
