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

use super::host::{check_occupancy, Counter, Ladder, LadderParameters, OccupancyMeter};
use crate::units::{Rate, Time};

/// Parameters of a host.
#[derive(Clone, Debug, PartialEq)]
pub struct HostCcParameters {
    /// The IIO's clock: its counter grows by the occupancy at every cycle.
    pub clock_hz: u64,
    /// I_T, cache lines.
    pub iio_threshold: f64,
    /// Weight of the newest occupancy in its average.
    pub iio_weight: f64,
    /// B_T.
    pub pcie_threshold: Rate,
    /// Weight of the newest bandwidth in its average.
    pub pcie_weight: f64,
    /// The levels and how they are written.
    pub ladder: LadderParameters,
    /// Whether packets are marked.
    pub mark: bool,
}

impl HostCcParameters {
    /// # Errors
    /// One line naming the parameter that makes no sense.
    pub fn check(&self) -> Result<(), String> {
        check_occupancy(self.clock_hz, self.iio_threshold)?;
        for (name, weight) in [("iio_weight", self.iio_weight), ("pcie_weight", self.pcie_weight)] {
            if !(weight > 0.0 && weight <= 1.0) {
                return Err(format!("{name} is not above 0 and up to 1"));
            }
        }
        self.ladder.check()
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
        let written = self.ladder.on_time(&p.ladder, now);
        let readings = (self.meter.sample(now, iio_counter, p.clock_hz), self.pcie.sample(now, pcie_bytes));
        let (Some(occupancy), Some(bytes_per_second)) = readings else { return written };
        self.occupancy += p.iio_weight * (occupancy - self.occupancy);
        self.bandwidth += p.pcie_weight * (bytes_per_second * 8.0 - self.bandwidth);
        self.marks = p.mark && self.occupancy > p.iio_threshold;
        let promised = p.pcie_threshold.0 as f64;
        let changed = if self.bandwidth < promised && self.occupancy > p.iio_threshold {
            self.ladder.lower(&p.ladder, now)
        } else if self.bandwidth > promised && self.occupancy < p.iio_threshold {
            self.ladder.raise(&p.ladder, now)
        } else {
            None
        };
        changed.or(written)
    }
}
