//! RHCC's receiver: memory bandwidth that CPUs may use, by the occupancy of the IIO's buffer.
//!
//! Source: Wan et al., APNet 2024, section 3.2. The occupancy is the difference of two readings of the IIO's cumulative
//! counter, at intervals below a round trip. Above the threshold there is congestion, and the CPUs' bandwidth goes down a
//! level.
//!
//! Where the paper leaves it open: it names no threshold, and not when or how fast the bandwidth goes up again. Here it
//! goes up a level when no sample was above the threshold for a while, and after each level waits as long again (assumption).
//! While a level is being written the agent, a single thread, decides nothing (assumption).

use crate::congestion::host::{check_occupancy, Ladder, LadderParameters, OccupancyMeter};
use crate::units::{Rate, Time};

/// Parameters of a host.
#[derive(Clone, Debug, PartialEq)]
pub struct ReceiverParameters {
    /// The IIO's clock: its counter grows by the occupancy at every cycle.
    pub clock_hz: u64,
    /// I_thr, cache lines.
    pub threshold: f64,
    /// The levels and how they are written. `raise_interval` is the time without congestion before a level up.
    pub ladder: LadderParameters,
}

impl ReceiverParameters {
    /// # Errors
    /// One line naming the parameter that makes no sense.
    pub fn check(&self) -> Result<(), String> {
        check_occupancy(self.clock_hz, self.threshold)?;
        self.ladder.check()
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
        let written = self.ladder.on_time(&p.ladder, now);
        let Some(occupancy) = self.meter.sample(now, counter, p.clock_hz) else { return written };
        self.occupancy = occupancy;
        if occupancy > p.threshold {
            self.ladder.hold(now + p.ladder.raise_interval);
            self.ladder.lower(&p.ladder, now).or(written)
        } else {
            self.ladder.raise(&p.ladder, now).or(written)
        }
    }
}
