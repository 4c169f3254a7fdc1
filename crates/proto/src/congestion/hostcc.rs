//! hostCC: a host that answers its own congestion below a round trip, and tells the network of it by ECN.
//!
//! Source: Agarwal, Krishnamurthy, Agarwal, "Host Congestion Control", SIGCOMM 2023, and its authors' kernel module
//! (github.com/Terabit-Ethernet/hostCC, receiving mode), whose constants and rules these are. The code is not theirs.
//!
//! - Signals: the occupancy I of the IIO's buffer and the PCIe bandwidth B towards it, each the difference of two readings
//!   of a cumulative counter, averaged with weights 1/8 and 1/256.
//! - Host-local response: `B < B_T` and `I > I_T` takes memory bandwidth from the CPUs, a level at a time; `B > B_T` and
//!   `I < I_T` gives it back, a level each 150 us at most. Otherwise nothing changes: a full IIO buffer while the network
//!   has what it was promised is no reason, and neither is a network that does not ask for more.
//! - Network response: while `I > I_T` every packet is marked CE before the transport sees it.
//!
//! Leaves out: the sending mode; that the module ignores occupancies of 10 lines and less and bandwidths above
//! 150 Gbit/s, as wrong readings (its average of I so stays where it was on a host that falls silent); that its two threads
//! poll at intervals of their own (here one agent reads both counters).

use super::host::{agent, Counter, Ladder, OccupancyMeter, LINES, MODULE};
use super::parameters::{FallingRates, DELAY, POSITIVE_RATE, SHARE};
use crate::units::{Rate, Time};

agent! {
    /// HostCC: the receiver sets its CPUs' memory bandwidth and marks packets before the transport.
    pub struct HostCcParameters {
        /// I_T in cache lines of 64 B.
        iio_threshold: f64 = 70.0, in LINES, source format!("{MODULE}: target_iio_thresh");
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
        raise_interval: Time = Time::from_us(150), in DELAY, source format!("{MODULE}: REDUCTION_TIMEOUT_US");
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

    /// Whether packets that reach the transport are marked CE.
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
