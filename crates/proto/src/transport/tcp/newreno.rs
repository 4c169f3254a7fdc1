//! NewReno's window (RFC 5681, 3.1): one segment more each round trip, half of it after congestion.
//!
//! Bytes are counted, not ACKs (RFC 5681, 3.1; RFC 3465): an ACK of many segments counts for all of them, as in Linux.

use super::control::Acknowledged;

/// The window after an ACK in congestion avoidance, bytes (RFC 5681, equation 3, in bytes).
pub(crate) fn grow(cwnd: f64, ack: &Acknowledged) -> f64 {
    cwnd + ack.mss * ack.bytes / cwnd
}

/// The share of the window that congestion leaves (RFC 5681, equation 4).
pub const BETA: f64 = 0.5;
