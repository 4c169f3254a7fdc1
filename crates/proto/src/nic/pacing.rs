//! How fast a queue pair may send: its controller, and when the next data packet may leave.
//!
//! After a packet of `b` bytes on the wire the next one may leave `8 b / rate` later, by the rate at that moment. Where the
//! controller asks for bursts that holds for a burst: its packets follow each other at once.
//!
//! A wait is looked at again whenever its controller's rate may have risen ([`Pacer::look_at`]): what is left of it shrinks by as
//! much as the rate has risen, as with a limiter that gathers tokens at that rate. A wait that ends before costs nothing. A cut
//! leaves the packet that waits where it is.

use super::Standing;
use crate::congestion::builtin::{Congestion, Flow};
use crate::units::Time;

/// A queue pair's rate. Requests and READ responses share it.
#[derive(Debug)]
#[repr(C)] // in the order in which a packet needs it
pub struct Pacer {
    next_at: Time,
    /// The rate that it waits by, bit/s.
    waits_by: f64,
    /// Its controller.
    pub flow: Flow,
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
        Pacer { flow: congestion.flow(), next_at: Time::ZERO, waits_by: 0.0, burst }
    }

    /// As if `packets` more had been sent.
    pub(super) fn skip(&mut self, packets: u64) {
        if let Some(burst) = &mut self.burst {
            burst.next_sequence += packets;
        }
    }

    /// When the rate lets the next data packet leave.
    #[inline]
    pub fn next_at(&self) -> Time {
        self.next_at
    }

    /// When to look again whether a data packet may leave, if only the rate stops it after `from`: at its time, or earlier if
    /// the rate may rise before.
    #[inline]
    pub fn look_at(&self, congestion: &Congestion, from: Time) -> Time {
        self.next_at.max(from).min(self.flow.rises_at(congestion))
    }

    /// The rate may have risen while that packet waits: where its sender stands, which waits until it is to be looked at again.
    /// `limit`: who else has a say in the rate.
    pub fn look_again(
        &mut self,
        congestion: &Congestion,
        now: Time,
        from: Time,
        limit: impl FnOnce(f64) -> f64,
    ) -> Standing {
        self.follow_rate(congestion, now, limit);
        if self.next_at.max(from) <= now {
            Standing::Ready
        } else {
            Standing::Waits(self.look_at(congestion, from))
        }
    }

    fn follow_rate(&mut self, congestion: &Congestion, now: Time, limit: impl FnOnce(f64) -> f64) {
        let Some(rate) = self.flow.followed_rate(congestion, now).map(limit) else { return };
        if self.next_at <= now || rate <= self.waits_by {
            return;
        }
        let left = (self.next_at - now).0 as f64 * (self.waits_by / rate);
        self.next_at = now + Time(left as u64);
        self.waits_by = rate;
    }

    /// A packet of `wire_bytes` is being sent; `rate` in bit/s paces the next one.
    #[inline]
    pub fn pace(&mut self, now: Time, wire_bytes: u32, rate: f64) {
        // Below 2^53 ps the product and the quotient are exact to a picosecond. Through a signed number, because that is
        // one instruction of the processor.
        self.next_at = now + Time((wire_bytes as f64 * 8e12 / rate) as i64 as u64);
        self.waits_by = rate;
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
        self.waits_by = rate;
        if is_last {
            burst.wire_bytes = 0;
        }
        stamp
    }
}
