//! Token bucket filter: a rate and a burst; packets wait in a child discipline until there are tokens.
//!
//! Source: Linux net/sched/sch_tbf.c and `psched_l2t_ns` of include/net/sch_generic.h: tokens are nanoseconds, and a
//! packet's length is converted by a 32-bit multiplication and a shift.
//!
//! Leaves out: `peakrate`, `overhead`, `mpu`, and the segmentation of GSO packets larger than the bucket.

use super::SIZES;
use crate::units::{Bytes, Rate, Time};

crate::parameters! {
    /// A rate and a burst: packets wait in another discipline until there are tokens for them.
    pub struct TbfParameters {
        /// Rate that is not exceeded.
        rate: Rate, in Rate(8)..=Rate(100_000_000_000_000);
        /// Size of the bucket: what may be sent at once. Larger packets are dropped.
        burst: Bytes, in SIZES;
        /// Most bytes that wait, where there is no child.
        limit: Option<Bytes> = None, in SIZES, source "assumption: child is set";
    }
}

/// Nanoseconds of a packet at a rate: bytes * `multiplier` >> `shift`.
#[derive(Clone, Copy, Debug)]
struct Pace {
    multiplier: u32,
    shift: u32,
}

impl Pace {
    /// Uses as many bits as the multiplier holds.
    fn new(bytes_per_second: u64) -> Self {
        let mut factor = 1_000_000_000u64;
        let mut shift = 0;
        loop {
            let multiplier = (factor / bytes_per_second) as u32;
            if multiplier >> 31 != 0 || factor >> 63 != 0 {
                return Pace { multiplier, shift };
            }
            factor <<= 1;
            shift += 1;
        }
    }

    fn ns(self, bytes: u32) -> i64 {
        ((bytes as u64 * self.multiplier as u64) >> self.shift) as i64
    }
}

/// State.
#[derive(Clone, Debug)]
pub struct Tbf {
    pace: Pace,
    burst_bytes: u32,
    /// The bucket's size, ns.
    depth: i64,
    /// Tokens at `checked`, ns.
    tokens: i64,
    checked: i64,
    /// When there are tokens for the packet at the head.
    watchdog: Option<Time>,
    overlimits: u64,
}

impl Tbf {
    /// A full bucket.
    pub fn new(parameters: &TbfParameters) -> Self {
        let pace = Pace::new((parameters.rate.0 / 8).max(1));
        let burst_bytes = parameters.burst.0 as u32;
        let depth = pace.ns(burst_bytes);
        Tbf { pace, burst_bytes, depth, tokens: depth, checked: 0, watchdog: None, overlimits: 0 }
    }

    /// How often the packet at the head had to wait for tokens (`overlimits`).
    pub fn overlimits(&self) -> u64 {
        self.overlimits
    }

    /// When there are tokens for the packet at the head, if it waits for them.
    pub fn next_at(&self) -> Option<Time> {
        self.watchdog
    }

    /// Whether a packet of this size ever gets enough tokens.
    pub fn admits(&self, bytes: u32) -> bool {
        bytes <= self.burst_bytes
    }

    /// Whether the packet at the head, `head` bytes long, may go; it then takes its tokens. None: there is no packet.
    pub fn lets_go(&mut self, now: Time, head: Option<u32>) -> bool {
        self.watchdog = None;
        let Some(bytes) = head else { return false };
        let now_ns = (now.ps() / 1000) as i64;
        let gained = (now_ns - self.checked).min(self.depth);
        let tokens = (gained + self.tokens).min(self.depth) - self.pace.ns(bytes);
        if tokens < 0 {
            self.watchdog = Some(Time::from_ns((now_ns - tokens) as u64));
            self.overlimits += 1;
            return false;
        }
        self.checked = now_ns;
        self.tokens = tokens;
        true
    }
}
