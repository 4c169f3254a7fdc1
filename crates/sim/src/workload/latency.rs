//! Latency tests like perftest's `ib_write_lat`: one message at a time, answered by one of the same size.
//!
//! Source: perftest (`ib_write_lat`, `perftest_resources.c`, `run_iter_lat_write`): each side polls the memory that the other
//! writes to, and writes when it has changed; what is reported is half of the median round trip.
//!
//! Leaves out: what polling and posting cost the CPU, which is part of the NIC's latency here.

use std::num::NonZeroU32;

use tailback_proto::units::Time;

/// The side that begins.
#[derive(Clone, Debug)]
pub(crate) struct LatencyTest {
    /// Its queue pair.
    pub qp: u32,
    pub sent_at: Time,
    /// Round trips so far.
    pub round_trips: Vec<Time>,
}

/// Number of a queue pair, plus one.
pub(crate) type QpNumber = NonZeroU32;

/// A queue pair by number.
pub(crate) fn number(qp: u32) -> Option<QpNumber> {
    NonZeroU32::new(qp + 1)
}
