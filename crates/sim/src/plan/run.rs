//! The run of a plan.

use tailback_proto::units::Time;

use crate::declare::ENDS;

/// From a tenth of a percent, which is the least that is ever stated, to ten percent.
const MOST_ERROR: std::ops::RangeInclusive<f64> = 1e-3..=0.1;

tailback_proto::choice! {
    /// Parts of a run that are skipped.
    pub enum Skip {
        /// Nothing.
        Never = "never",
        /// Steady parts, within an error.
        Steady = "steady",
    }
}

tailback_proto::parameters! {
    /// How long, and with which random numbers.
    pub struct RunParameters {
        /// Simulated time; the run ends earlier if everything is sent.
        duration: Time, in ENDS;
        /// Seed of all random numbers: starts of writers; clocks; times, sizes and receivers of messages; ECN marks; lost
        /// packets.
        seed: u64 = 1, in 0..=i64::MAX as u64, source "assumption: any number would do";
        /// Whether the seed also draws the hash by which switches choose among equally short routes. false: a
        /// connection takes the same route with every seed.
        ecmp_by_seed: bool = false, source "assumption: seeds repeat what one placement of flows does; a switch has one hash";
        /// Each port sends by a clock of its own, drawn by the seed from this many millionths below its link's rate to as
        /// many above. 0: all clocks are exact.
        clock_ppm: f64 = 100.0, in 0.0..=1000.0,
            source "IEEE 802.3: clocks within 100 ppm; assumption: all within are equally likely";
        /// What is not simulated packet by packet. never: all is. steady: where rates and queues have been steady for a while,
        /// and nothing starts, ends, is dropped or paused, the run goes on as they were measured to be, in steps that are
        /// checked by packets after each.
        skip: Skip = Skip::Never, of Skip::ALL, source "assumption: results are exact unless an estimate is asked for";
        /// Largest error of goodput in a sample that `skip: steady` goes by (half of a 95 % confidence interval, relative to the
        /// goodput); twice as much of the mean queue, and as much of the completion time of a message.
        skip_error: f64 = 0.01, in MOST_ERROR,
            source "assumption: what a plot can show; clocks and drawn starts change more";
    }
}
