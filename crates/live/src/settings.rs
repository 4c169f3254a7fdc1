//! Settings of a congestion point, with nothing left to decide. Times in picoseconds.

use serde::Deserialize;
use tailback_proto::aqm::red::EcnThresholds;
use tailback_proto::units::{Rate, Time};

use crate::events::EventSettings;

/// A congestion point; both directions are alike.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PointSettings {
    /// Rate of the emulated link.
    pub rate_bps: u64,
    /// Its delay.
    pub delay_ps: u64,
    /// Most bytes that wait for it, counted with what frames take on the wire.
    pub buffer_bytes: u64,
    /// Where it marks; none: it does not.
    pub ecn: Option<EcnThresholds>,
    /// Where it pauses who sends to it; none: it does not.
    pub pfc: Option<PfcSettings>,
    /// Probability that a frame is lost.
    pub loss: f64,
    /// Of its random numbers.
    pub seed: u64,
    /// Events of single packets.
    pub events: Vec<EventSettings>,
}

/// Pauses by what waits.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PfcSettings {
    /// Bytes from which on the sender is paused.
    pub xoff_bytes: u64,
    /// Bytes down to which it is.
    pub xon_bytes: u64,
    /// Which priority, 0 to 7.
    pub priority: u8,
    /// For how many quanta of 512 bit times at the emulated rate.
    pub quanta: u16,
}

impl PointSettings {
    /// The rate.
    pub fn rate(&self) -> Rate {
        Rate(self.rate_bps.max(1))
    }

    /// The delay.
    pub fn delay(&self) -> Time {
        Time(self.delay_ps)
    }
}
