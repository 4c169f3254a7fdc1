//! What controllers inside a host share: how they read the IIO's counter, and how they hold back the CPUs' memory traffic.

use std::ops::RangeInclusive;

use super::parameters::{FallingRates, DELAYS, POSITIVE_RATE, SHARE};
use crate::units::{Rate, Time};

/// Size of a cache line, which occupancies are counted in.
pub const CACHE_LINE_BYTES: u64 = 64;

/// Between two readings of the counters: an agent that read them more often would take most of a run's events.
pub(super) const SAMPLE_INTERVALS: RangeInclusive<Time> = Time::from_ns(10)..=Time::from_ms(1000);

/// Of the IIO, in MHz.
pub(super) const IIO_CLOCKS_MHZ: RangeInclusive<u32> = 1..=100_000;

/// Occupancies, in cache lines.
pub(super) const OCCUPANCY_LINES: RangeInclusive<f64> = 0.0..=1e6;

/// Where levels of RHCC's paper come from.
pub(super) const WAN: &str = "Wan et al. (RHCC), APNet 2024";

/// Where constants of hostCC come from.
pub(super) const MODULE: &str = "hostCC's kernel module (github.com/Terabit-Ethernet/hostCC)";

/// Declares the settings of an agent: those that all agents have, and then its own. `levels` and `raise_interval` are among
/// these, as each source has others.
macro_rules! agent {
    ($(#[doc = $about:literal])+ pub struct $Name:ident { $($own:tt)* }) => {
        $crate::parameters! {
            $(#[doc = $about])+
            pub struct $Name {
                /// Time between two readings of the counters.
                sample_interval: Time = Time::from_us(1), in $crate::congestion::host::SAMPLE_INTERVALS,
                    source "assumption: below a round trip; hostCC's module polls its registers without a pause";
                /// Clock of the IIO in MHz: its counter grows by the occupancy at every cycle.
                iio_clock_mhz: u32 = 500, in $crate::congestion::host::IIO_CLOCKS_MHZ, source format!("{MODULE}: Intel Cascade Lake");
                /// Time to write a level, which then takes effect; nothing else is decided meanwhile.
                write_time: Time = Time::from_us(20), in $crate::parameters::DELAYS,
                    source "assumption: no source gives it; registers of other cores are written through interrupts to them";
                $($own)*
            }
        }

        impl $Name {
            /// The levels and how they are written.
            pub fn ladder(&self) -> $crate::congestion::host::LadderParameters {
                let $Name { levels, write_time, raise_interval, .. } = *self;
                $crate::congestion::host::LadderParameters { levels, write_time, raise_interval }
            }

            /// Cycles of the IIO in a second.
            pub fn clock_hz(&self) -> u64 {
                self.iio_clock_mhz as u64 * 1_000_000
            }
        }
    };
}

pub(super) use agent;

/// A cumulative counter, read now and then.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counter {
    last: Option<(Time, u64)>,
}

impl Counter {
    /// A reading: what the counter grew by in a second, on average since the reading before. None: the first one, or no
    /// time has passed.
    pub fn sample(&mut self, now: Time, value: u64) -> Option<f64> {
        if self.last.is_some_and(|(at, _)| now <= at) {
            return None;
        }
        let (at, before) = self.last.replace((now, value))?;
        Some(value.wrapping_sub(before) as f64 * 1e12 / (now - at).0 as f64)
    }
}

/// The occupancy of the IIO's buffer. The counter grows at each cycle of its clock by the cache lines in the buffer, so
/// that the difference of two readings over the cycles between them is the mean occupancy.
#[derive(Clone, Copy, Debug, Default)]
pub struct OccupancyMeter {
    counter: Counter,
}

impl OccupancyMeter {
    /// A reading: the mean occupancy since the one before, in cache lines.
    pub fn sample(&mut self, now: Time, counter: u64, clock_hz: u64) -> Option<f64> {
        Some(self.counter.sample(now, counter)? / clock_hz as f64)
    }
}

/// Levels of the memory bandwidth that is left to CPUs, as Intel's Memory Bandwidth Allocation sets them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LadderParameters {
    /// Bandwidth of each level.
    pub levels: FallingRates,
    /// What writing a level's register takes. It has its effect then, and no other is written meanwhile.
    pub write_time: Time,
    /// Least time between the effect of a level and the next one up.
    pub raise_interval: Time,
}

/// A host's place on its ladder of levels.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ladder {
    /// In effect.
    level: usize,
    /// Level that is being written, and when that is done.
    writing: Option<(usize, Time)>,
    /// No level up before.
    raise_from: Time,
}

impl Ladder {
    /// The level in effect, 0 being the highest bandwidth.
    pub fn level(&self) -> usize {
        self.level
    }

    /// Ends a write whose time has come. `Some`: the bandwidth from now on.
    pub fn on_time(&mut self, p: &LadderParameters, now: Time) -> Option<Rate> {
        let (level, done) = self.writing?;
        if now < done {
            return None;
        }
        self.writing = None;
        if level < self.level {
            self.raise_from = self.raise_from.max(now + p.raise_interval);
        }
        self.level = level;
        Some(p.levels[level])
    }

    /// No level up before this time.
    pub fn hold(&mut self, until: Time) {
        self.raise_from = self.raise_from.max(until);
    }

    /// Less bandwidth, unless a write is under way or there is no level below.
    pub fn lower(&mut self, p: &LadderParameters, now: Time) -> Option<Rate> {
        let below = self.level + 1;
        (self.writing.is_none() && below < p.levels.len()).then(|| self.write(p, now, below)).flatten()
    }

    /// More bandwidth, unless a write is under way, it is too early, or there is no level above.
    pub fn raise(&mut self, p: &LadderParameters, now: Time) -> Option<Rate> {
        let may = self.writing.is_none() && self.level > 0 && now >= self.raise_from;
        may.then(|| self.write(p, now, self.level - 1)).flatten()
    }

    fn write(&mut self, p: &LadderParameters, now: Time, level: usize) -> Option<Rate> {
        self.writing = Some((level, now + p.write_time));
        self.on_time(p, now)
    }
}

// hostCC: a host that answers its own congestion below a round trip, and tells the network of it by ECN.
//
// Source: Agarwal, Krishnamurthy, Agarwal, "Host Congestion Control", SIGCOMM 2023, and its authors' kernel module
// (github.com/Terabit-Ethernet/hostCC, receiving mode), whose constants and rules these are. The code is not theirs.
//
// - Signals: the occupancy I of the IIO's buffer and the PCIe bandwidth B towards it, each the difference of two readings
//   of a cumulative counter, averaged with weights 1/8 and 1/256.
// - Host-local response: `B < B_T` and `I > I_T` takes memory bandwidth from the CPUs, a level at a time; `B > B_T` and
//   `I < I_T` gives it back, a level each 150 us at most. Otherwise nothing changes: a full IIO buffer while the network
//   has what it was promised is no reason, and neither is a network that does not ask for more.
// - Network response: while `I > I_T` every packet is marked CE before the transport sees it.
//
// Leaves out: the sending mode; that the module ignores occupancies of 10 lines and less and bandwidths above
// 150 Gbit/s, as wrong readings (its average of I so stays where it was on a host that falls silent); that its two threads
// poll at intervals of their own (here one agent reads both counters).

agent! {
    /// HostCC: the receiver sets its CPUs' memory bandwidth and marks packets before the transport.
    pub struct HostCcParameters {
        /// I_T in cache lines of 64 B.
        iio_threshold: f64 = 70.0, in OCCUPANCY_LINES, source format!("{MODULE}: target_iio_thresh");
        /// Weight of the newest occupancy in its average.
        iio_weight: f64 = 0.125, in SHARE, source format!("{MODULE}: 1/8");
        /// B_T: PCIe bandwidth promised to the network. auto: 84 % of the link's rate.
        pcie_threshold: Rate, or auto, in POSITIVE_RATE, source format!("{MODULE}: 84 Gbit/s at 100 Gbit/s");
        /// Weight of the newest bandwidth in its average.
        pcie_weight: f64 = 0.00390625, in SHARE, source format!("{MODULE}: 1/256");
        /// Memory bandwidths that CPUs may have (Intel MBA), falling; the first is no limit.
        levels: FallingRates = [265_600, 185_900, 106_200, 26_600, 1].map(Rate::from_mbps).into(), in POSITIVE_RATE,
            source format!("assumption: {MODULE} throttles none to three of three NUMA nodes to 10 %, then stops the process (1 Mbit/s here); of the 33.2 GB/s that Wan et al. measured");
        /// Least time between two levels up.
        raise_interval: Time = Time::from_us(150), in DELAYS, source format!("{MODULE}: REDUCTION_TIMEOUT_US");
        /// Whether packets are marked CE while the occupancy is above iio_threshold.
        mark: bool = true, source MODULE;
    }
}

/// hostCC on one host.
#[derive(Clone, Debug, Default)]
pub struct HostCc {
    meter: OccupancyMeter,
    pcie: Counter,
    occupancy: f64,
    bandwidth: f64,
    ladder: Ladder,
    marks: bool,
}

impl HostCc {
    /// I: the average occupancy, cache lines.
    pub fn occupancy(&self) -> f64 {
        self.occupancy
    }

    /// B: the average PCIe bandwidth, bit/s.
    pub fn bandwidth(&self) -> f64 {
        self.bandwidth
    }

    /// The level in effect, 0 being the highest bandwidth.
    pub fn level(&self) -> usize {
        self.ladder.level()
    }

    /// True if packets that reach the transport are marked CE.
    pub fn marks(&self) -> bool {
        self.marks
    }

    /// Readings of the IIO's counter, and of the bytes that crossed PCIe towards it. `Some`: from now on CPUs have this
    /// bandwidth.
    pub fn on_sample(
        &mut self,
        p: &HostCcParameters,
        now: Time,
        iio_counter: u64,
        pcie_bytes: u64,
    ) -> Option<Rate> {
        let ladder = p.ladder();
        let written = self.ladder.on_time(&ladder, now);
        let readings = (self.meter.sample(now, iio_counter, p.clock_hz()), self.pcie.sample(now, pcie_bytes));
        let (Some(occupancy), Some(bytes_per_second)) = readings else { return written };
        self.occupancy += p.iio_weight * (occupancy - self.occupancy);
        self.bandwidth += p.pcie_weight * (bytes_per_second * 8.0 - self.bandwidth);
        self.marks = p.mark && self.occupancy > p.iio_threshold;
        let promised = p.pcie_threshold.0 as f64;
        let changed = if self.bandwidth < promised && self.occupancy > p.iio_threshold {
            self.ladder.lower(&ladder, now)
        } else if self.bandwidth > promised && self.occupancy < p.iio_threshold {
            self.ladder.raise(&ladder, now)
        } else {
            None
        };
        changed.or(written)
    }
}
