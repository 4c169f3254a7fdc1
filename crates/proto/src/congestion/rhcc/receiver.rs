//! RHCC's receiver: memory bandwidth that CPUs may use, by the occupancy of the IIO's buffer.
//!
//! Source: Wan et al., APNet 2024, section 3.2. The occupancy is the difference of two readings of the IIO's cumulative
//! counter, at intervals below a round trip. Above the threshold there is congestion, and the CPUs' bandwidth goes down a
//! level.
//!
//! Where the paper leaves it open: it names no threshold, and not when or how fast the bandwidth goes up again. Here it
//! goes up a level when no sample was above the threshold for a while, and after each level waits as long again (assumption).
//! While a level is being written the agent, a single thread, decides nothing (assumption).

use crate::congestion::host::{agent, Ladder, OccupancyMeter, LINES, MODULE, WAN};
use crate::parameters::{FallingRates, DELAY, POSITIVE_RATE};
use crate::units::{Rate, Time};

agent! {
    /// RHCC's receiver: it takes memory bandwidth from its CPUs.
    pub struct ReceiverParameters {
        /// I_thr in cache lines of 64 B. auto: what the link's rate keeps in the IIO at threshold_delay.
        iio_threshold: f64, or auto, in LINES,
            source "assumption: the paper names no value; by Little's law the same congestion as D_thr";
        /// Memory bandwidths that CPUs may have (Intel MBA), falling; the first is no limit.
        levels: FallingRates = [265_600, 212_000, 160_000, 120_000, 80_000].map(Rate::from_mbps).into(), in POSITIVE_RATE,
            source format!("{WAN}, section 3.2: 33.2, 26.5, 20, 15 and 10 GB/s");
        /// Time without congestion before the bandwidth goes up a level, and from there to the next level.
        raise_interval: Time = Time::from_us(150), in DELAY,
            source format!("assumption: the paper does not say when; {MODULE}: 150 us between two levels up");
    }
}

/// The receiver's half, for one host.
#[derive(Clone, Debug, Default)]
pub struct Receiver {
    meter: OccupancyMeter,
    occupancy: f64,
    ladder: Ladder,
}

impl Receiver {
    /// I_cur: the occupancy that the latest sample gave, cache lines.
    pub fn occupancy(&self) -> f64 {
        self.occupancy
    }

    /// The level in effect, 0 being the highest bandwidth.
    pub fn level(&self) -> usize {
        self.ladder.level()
    }

    /// A reading of the IIO's counter. `Some`: from now on CPUs have this bandwidth.
    pub fn on_sample(&mut self, p: &ReceiverParameters, now: Time, counter: u64) -> Option<Rate> {
        let ladder = p.ladder();
        let written = self.ladder.on_time(&ladder, now);
        let Some(occupancy) = self.meter.sample(now, counter, p.clock_hz()) else { return written };
        self.occupancy = occupancy;
        if occupancy > p.iio_threshold {
            self.ladder.hold(now + ladder.raise_interval);
            self.ladder.lower(&ladder, now).or(written)
        } else {
            self.ladder.raise(&ladder, now).or(written)
        }
    }
}
