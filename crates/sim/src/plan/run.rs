//! The run of a plan.

use tailback_proto::units::Time;

use super::traffic::ENDS;

tailback_proto::parameters! {
    /// How long, and with which random numbers.
    pub struct RunParameters {
        /// Simulated time; the run ends earlier if everything is sent.
        duration: Time, in ENDS;
        /// Seed of all random numbers: starts of writers; clocks; times, sizes and receivers of messages; ECN marks; lost
        /// packets.
        seed: u64 = 1, in 0..=i64::MAX as u64, source "assumption: any number would do";
        /// Each port sends by a clock of its own, drawn by the seed from so many millionths below its link's rate to as many
        /// above. 0: all clocks are exact.
        clock_ppm: f64 = 100.0, in 0.0..=1000.0,
            source "IEEE 802.3: clocks within 100 ppm; assumption: all within are equally likely";
    }
}
