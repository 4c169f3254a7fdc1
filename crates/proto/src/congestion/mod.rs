//! Congestion control: how fast a flow may send. One file a controller.
//!
//! DCQCN hears of congestion by notification packets. The others hear of it with each acknowledgement, and all that
//! they may be told is in [`AckInfo`].

pub mod dcqcn;
pub mod dctcp;
pub mod hpcc;
pub mod timely;

use crate::units::{Rate, Time};

/// What an egress port wrote into a packet that left it (Li et al., "HPCC", SIGCOMM 2019, section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HopTelemetry {
    /// When the packet left its queue, by the switch's clock: only differences count.
    pub at: Time,
    /// Bytes that the port has sent so far.
    pub tx_bytes: u64,
    /// Bytes in the egress queue that the packet left behind.
    pub queue_bytes: u64,
    /// Rate of the link.
    pub rate: Rate,
}

/// What an acknowledgement tells a controller. Bytes are positions in, or spans of, the flow's stream of payload.
#[derive(Clone, Copy, Debug)]
pub struct AckInfo<'a> {
    /// When it arrived.
    pub now: Time,
    /// `now` less the time at which the packet that it answers was sent (its timestamp comes back with the ACK). Where
    /// the sender paces bursts: less the time at which the packet's burst was begun, and less the time that the burst
    /// up to this packet takes on the sender's link.
    pub rtt: Time,
    /// Whether the packet that it answers ended a burst, and is acknowledged for the first time. Always false where
    /// the sender paces packets.
    pub completes_burst: bool,
    /// Bytes that it acknowledges for the first time.
    pub newly_acked_bytes: u64,
    /// All bytes acknowledged so far, these included.
    pub acknowledged_bytes: u64,
    /// End of what was sent: the next new byte's position.
    pub sent_bytes: u64,
    /// Whether the packet that it answers carried a CE mark.
    pub marked: bool,
    /// Telemetry of that packet, in the order of its path. Empty where no switch writes any.
    pub hops: &'a [HopTelemetry],
}

/// Round trips of a flow, by sequence number: one ends when data is acknowledged that was sent after it began. This is
/// `lastUpdateSeq` of HPCC's algorithm 1.
#[derive(Clone, Copy, Debug, Default)]
struct RoundTrip {
    ends_after: u64,
}

impl RoundTrip {
    /// Whether one has begun: the first acknowledgement of a flow begins it.
    fn has_begun(&self) -> bool {
        self.ends_after > 0
    }

    /// Whether this acknowledgement ends a round trip; the next one then begins.
    fn ends(&mut self, ack: &AckInfo) -> bool {
        let ends = ack.acknowledged_bytes > self.ends_after;
        if ends {
            // What was sent may go back to what is acknowledged; round trips do not.
            self.ends_after = self.ends_after.max(ack.sent_bytes);
        }
        ends
    }
}

/// What every controller's bounds must obey.
fn check_bounds(min_rate: f64, line_rate: Rate) -> Result<(), String> {
    if !(min_rate > 0.0 && min_rate <= line_rate.0 as f64) {
        return Err(format!("min_rate is not above 0 and up to the line rate of {} bit/s", line_rate.0));
    }
    Ok(())
}
