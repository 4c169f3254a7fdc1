//! Active queue management: what a queue decides about a packet. `ecn` is what switches do; the rest are the queueing
//! disciplines of Linux, with `qdisc` as what they have in common.

pub mod codel;
pub mod qdisc;
pub mod red;
pub mod sfq;

use std::ops::RangeInclusive;

use crate::units::Bytes;

/// Packets that a discipline may hold: what memory has room for.
const LIMIT_PACKETS: RangeInclusive<u32> = 1..=1 << 24;
/// Bytes that `tc` hands to the kernel in 32 bits.
const LIMIT_BYTES: RangeInclusive<Bytes> = Bytes(1)..=Bytes(u32::MAX as u64);
/// Bytes of a round: the kernel counts what is left of one with a sign.
const QUANTUM_BYTES: RangeInclusive<Bytes> = Bytes(1)..=Bytes(i32::MAX as u64);
