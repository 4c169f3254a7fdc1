//! The reliable connection (RC) transport of RoCEv2: requester and responder.
//!
//! Source: InfiniBand architecture specification, volume 1, section 9.7 (PSNs, ACK coalescing, NAK on the first packet
//! out of sequence, RNR NAKs, go-back-N, transport timer, retry counters, duplicates).
//!
//! It knows packets only: which message a packet belongs to, and what is in it, is up to the caller that posts it
//! ([`crate::nic`]). PSNs are 24 bits on the wire and are widened here, so that sequence numbers never wrap inside. A READ
//! request takes as many of them as its responses.
//!
//! When the requester asks for an ACK is its own choice (9.7.5.1.2 lets the responder coalesce). Here: with every
//! `ack_every`-th packet, and with the last packet that it may send for now, so that no tail stays unacknowledged. The
//! timer runs while such a request is open.
//!
//! The timer adapts as ConnectX NICs' does (NVIDIA, "Adaptive Retransmission: Parameters Control"; on by default): it
//! starts short, doubles with each timeout up to the queue pair's own, and is short again after progress. Without
//! progress for as long as `retry_count` retries of the full timer take, the queue pair is in error.
//!
//! After a loss the requester may restart slowly: one packet, and for each that is acknowledged two more, so that what is in
//! flight doubles each round trip until all that is posted is. NICs have registers for it (ROCE_ACCL: `roce_tx_window_en`,
//! `roce_slow_restart_en`) and counters; no document gives its law. One packet to begin with, or 16, hardly matters.
//!
//! Where a connection repeats selectively ([`super::selective`]) the responder keeps what comes out of order, and the requester
//! sends again only what is missing, within a window, and without a slow restart.
//!
//! Leaves out: credits in the AETH, and the 1x to 4x slack that the specification allows the timer.

mod requester;
mod responder;

pub use requester::{Outgoing, Requester, Timeout};
pub use responder::{Responder, Verdict};

pub use super::selective::Told;
pub use super::settings::{LossRecovery, RcParameters, SlowRestart, TransportParameters};
use crate::wire::bth::MAX_24_BITS;

/// Packet sequence numbers that there are.
const PSN_MODULUS: u64 = MAX_24_BITS as u64 + 1;

/// Number of RNR retries that stands for any number (IBTA 9.7.5.2.8; `ibv_modify_qp`, `rnr_retry`).
pub const RNR_RETRY_FOREVER: u8 = 7;

/// A sequence number as it is on the wire.
pub fn wire_psn(sequence: u64) -> u32 {
    (sequence % PSN_MODULUS) as u32
}

/// The sequence number nearest to `near` that has this PSN on the wire; `None` where it would be negative.
fn widen(psn: u32, near: u64) -> Option<u64> {
    let forward = (psn as u64).wrapping_sub(near) % PSN_MODULUS;
    if forward < PSN_MODULUS / 2 {
        Some(near + forward)
    } else {
        (near + forward).checked_sub(PSN_MODULUS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn psns_widen_across_the_24_bit_wrap() {
        assert_eq!(widen(3, 5), Some(3));
        assert_eq!(widen(0xff_ffff, 5), None, "before the first packet");
        assert_eq!(widen(2, (1 << 24) - 1), Some((1 << 24) + 2));
        assert_eq!(widen(0xff_fffe, 1 << 24), Some((1 << 24) - 2));
        // Half of all PSNs lie before the one that is expected (9.7.1): just as far is behind.
        assert_eq!(widen(1 << 23, 1 << 24), Some(1 << 23));
        assert_eq!(wire_psn((1 << 24) + 5), 5);
    }
}
