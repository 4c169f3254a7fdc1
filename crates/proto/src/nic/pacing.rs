//! How fast a queue pair may send: its controller, and when the next data packet may leave.
//!
//! After a packet of `b` bytes on the wire the next one may leave `8 b / rate` later, by the rate at that moment. Where the
//! controller asks for bursts that holds for a burst: its packets follow each other at once.

use crate::congestion::builtin::{Congestion, Flow};
use crate::units::Time;

/// A queue pair's rate. Requests and READ responses share it.
#[derive(Debug)]
pub struct Pacer {
    /// Its controller.
    pub flow: Flow,
    next_at: Time,
    /// Boxed: most queue pairs are paced packet by packet.
    burst: Option<Box<Burst>>,
}

/// What a queue pair has sent of a burst.
#[derive(Clone, Copy, Debug, Default)]
struct Burst {
    began_at: Time,
    /// 0: the next packet begins one.
    wire_bytes: u64,
    /// The packet that continues it. Another one, after going back, begins anew.
    next_sequence: u64,
}

/// A packet of a burst that is being sent.
#[derive(Clone, Copy, Debug)]
pub struct BurstPacket {
    /// Sequence number.
    pub sequence: u64,
    /// Bytes on the wire.
    pub wire_bytes: u32,
    /// Whether the burst ends with it.
    pub is_last: bool,
}

impl Pacer {
    /// That of a new queue pair.
    pub fn new(congestion: &Congestion) -> Self {
        let burst = congestion.burst_bytes().map(|_| Box::default());
        Pacer { flow: congestion.flow(), next_at: Time::ZERO, burst }
    }

    /// When the next data packet may leave.
    #[inline]
    pub fn next_at(&self) -> Time {
        self.next_at
    }

    /// Nothing may leave before `until`.
    pub fn hold(&mut self, until: Time) {
        self.next_at = self.next_at.max(until);
    }

    /// A packet of so many bytes on the wire is being sent; `rate` in bit/s paces the next one.
    #[inline]
    pub fn pace(&mut self, now: Time, wire_bytes: u32, rate: f64) {
        // Below 2^53 ps the product and the quotient are exact to a picosecond. Through a signed number, because that is
        // one instruction of the processor.
        self.next_at = now + Time((wire_bytes as f64 * 8e12 / rate) as i64 as u64);
    }

    /// The same of a packet of a burst, if there are bursts, at `line_rate`. Returns the packet's time stamp: the burst's begin,
    /// and the burst's time on the link up to this packet's end, since what comes back later was not spent on sending it.
    pub fn pace_burst(&mut self, now: Time, packet: &BurstPacket, rate: f64, line_rate: f64) -> Time {
        let &BurstPacket { sequence, wire_bytes, is_last } = packet;
        let Some(burst) = &mut self.burst else {
            self.pace(now, wire_bytes, rate);
            return now;
        };
        if burst.wire_bytes == 0 || sequence != burst.next_sequence {
            **burst = Burst { began_at: now, wire_bytes: 0, next_sequence: sequence };
        }
        burst.wire_bytes += wire_bytes as u64;
        burst.next_sequence += 1;
        let takes = |rate: f64| Time((burst.wire_bytes as f64 * 8e12 / rate) as u64);
        let stamp = burst.began_at + takes(line_rate);
        self.next_at = if is_last { burst.began_at + takes(rate) } else { now };
        if is_last {
            burst.wire_bytes = 0;
        }
        stamp
    }
}
