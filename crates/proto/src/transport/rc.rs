//! The reliable connection (RC) transport of RoCEv2: requester and responder.
//!
//! Source: InfiniBand architecture specification, volume 1, section 9.7 (PSNs, ACK coalescing, NAK on the first packet
//! out of sequence, RNR NAKs, go-back-N, transport timer, retry counters, duplicates).
//!
//! Packets only: which message a packet belongs to, and what is in it, is the business of whoever posts it
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
//! Leaves out: selective repeat, credits in the AETH, and the 1x to 4x slack that the specification allows the timer.

use crate::parameters::DELAY;
use crate::units::Time;
use crate::wire::bth::MAX_24_BITS;
use crate::{choice, parameters};

/// Packet sequence numbers that there are.
const PSN_MODULUS: u64 = MAX_24_BITS as u64 + 1;

/// Settings of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RcParameters {
    /// Packets between two requests for an ACK.
    pub ack_every: u32,
    /// Transport timer: 4.096 us * 2^code.
    pub ack_timeout: Time,
    /// The timer's first value where it adapts; equal to `ack_timeout` where it does not.
    pub first_timeout: Time,
    /// Retries of a full `ack_timeout`, without progress, that the connection survives.
    pub retry_count: u32,
    /// What a slow restart follows.
    pub slow_restart: SlowRestart,
    /// From a NAK to the first packet that is sent again; nothing is sent meanwhile.
    pub nak_reaction: Time,
    /// From a gap to the NAK of it.
    pub nak_delay: Time,
    /// Each NAK and each timeout is a CNP to congestion control, too.
    pub losses_are_cnps: bool,
}

choice! {
    /// What a slow restart follows.
    pub enum SlowRestart {
        /// Nothing: all that is posted goes again at once.
        Never = "never",
        /// A timeout.
        Timeout = "timeout",
        /// A timeout, or a NAK that makes the requester go back.
        Loss = "loss",
    }
}

parameters! {
    /// Reliable connections of the NIC.
    pub struct TransportParameters {
        /// Packets between two requests for an ACK. Where it is not given, hpcc and dctcp take 1.
        ack_every: u32 = 16, in 1..=65_536,
            source "assumption: no vendor document says; at MTU 1024 ACKs then take 0.5 % of the reverse direction";
        /// Time without an ACK until packets are sent again.
        ack_timeout: Time = Time(67_108_864_000), in TIMEOUT, source "perftest, ib_write_bw: 4.096 us * 2^14";
        /// First value of that time, which doubles with each timeout up to ack_timeout and is back after progress. null:
        /// it is always ack_timeout.
        adaptive_timeout: Option<Time> = Some(Time(4_194_304_000)), in TIMEOUT,
            source "assumption: NVIDIA's adaptive retransmission is on by default, but its first value is not given: \
                4.096 us * 2^10, longer than a switch with 16 MB takes to drain at 100 Gbit/s (1.3 ms), and what \
                Yu et al., \"Lumina\", SIGCOMM 2023, saw of ConnectX NICs";
        /// Retries of a full ack_timeout without progress until the queue pair is in error.
        retry_count: u32 = 7, in 0..=7, source "perftest, ib_write_bw: retry_cnt, a field of 3 bits";
        /// From a NAK to the first packet that is sent again; the queue pair sends nothing meanwhile.
        nak_reaction: Time = Time::ZERO, in DELAY, source "assumption: at once; no vendor document says";
        /// From a gap to the responder's NAK of it: a slow path, once a gap.
        nak_delay: Time = Time::ZERO, in DELAY, source "assumption: at once; ConnectX-5 takes almost 20 us";
        /// What the sender restarts slowly after: one packet, doubled each round trip. timeout: after timeouts; loss: after
        /// NAKs, too.
        slow_restart: SlowRestart = SlowRestart::Loss, of SlowRestart::ALL,
            source "assumption: no document gives the law; see the page on what follows a loss";
        /// Each NAK and each timeout is a CNP to the sender's congestion control, too.
        losses_are_cnps: bool = false,
            source "assumption: counters of ConnectX senders say that they are, those of BlueField that they are not";
    }
}

/// Up to 4.096 us * 2^27: the engine has 18 minutes.
const TIMEOUT: std::ops::RangeInclusive<Time> = Time(1)..=Time(4_096_000 << 27);

impl TransportParameters {
    /// Of a connection.
    pub fn connection(&self) -> RcParameters {
        RcParameters {
            ack_every: self.ack_every,
            ack_timeout: self.ack_timeout,
            first_timeout: self.adaptive_timeout.unwrap_or(self.ack_timeout),
            retry_count: self.retry_count,
            slow_restart: self.slow_restart,
            nak_reaction: self.nak_reaction,
            nak_delay: self.nak_delay,
            losses_are_cnps: self.losses_are_cnps,
        }
    }
}

impl RcParameters {
    /// How long a connection may be without progress: the first wait and `retry_count` more.
    pub fn patience(&self) -> Time {
        Time(self.ack_timeout.0.saturating_mul(self.retry_count as u64 + 1))
    }

    /// The timer's value after `timeouts` of them in a row.
    fn timeout_after(&self, timeouts: u32) -> Time {
        let doubled = self.first_timeout.0.saturating_mul(1u64.checked_shl(timeouts).unwrap_or(u64::MAX));
        Time(doubled.min(self.ack_timeout.0))
    }
}

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

/// A packet that the requester decided to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Position in the stream of packets.
    pub sequence: u64,
    /// The same as 24 bits.
    pub psn: u32,
    /// BTH AckReq.
    pub ack_request: bool,
    /// Whether it was sent before.
    pub retransmission: bool,
}

/// What the transport timer led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeout {
    /// Nothing was due.
    None,
    /// Everything unacknowledged will be sent again.
    Retry,
    /// The retries are exhausted: the connection is in error.
    Failed,
}

/// The sending side of a connection.
#[derive(Clone, Debug)]
pub struct Requester {
    /// First packet not acknowledged.
    una: u64,
    /// Next packet to send.
    next: u64,
    /// One past the highest packet ever sent.
    sent: u64,
    /// One past the last packet posted.
    posted: u64,
    /// One past the last packet that asked for an ACK.
    asked: u64,
    /// One past the last packet that a slow restart lets go; `u64::MAX`: there is none.
    window_end: u64,
    /// When the timer is due; `NEVER`: it does not run.
    deadline: Time,
    /// When the timer was first armed since the last progress; `NEVER`: it was not.
    waiting_since: Time,
    since_ack_request: u32,
    /// Timeouts in a row.
    timeouts: u32,
    /// RNR NAKs in a row.
    rnr_naks: u8,
    failed: bool,
}

impl Default for Requester {
    fn default() -> Self {
        Requester::new(0)
    }
}

impl Requester {
    /// A connection whose first packet has this PSN; its sequence numbers start there, too.
    pub fn new(psn: u32) -> Self {
        let first = psn as u64;
        Requester {
            una: first,
            next: first,
            sent: first,
            posted: first,
            asked: first,
            window_end: u64::MAX,
            deadline: Time::NEVER,
            waiting_since: Time::NEVER,
            since_ack_request: 0,
            timeouts: 0,
            rnr_naks: 0,
            failed: false,
        }
    }

    /// Adds `packets` to what is to be sent.
    pub fn post(&mut self, packets: u64) {
        self.posted += packets;
    }

    /// Whether a packet waits to be sent, and may be.
    pub fn has_work(&self) -> bool {
        self.next < self.sendable() && !self.failed
    }

    /// One past the last packet that may be sent for now.
    fn sendable(&self) -> u64 {
        self.posted.min(self.window_end)
    }

    /// First packet not acknowledged: all before it arrived.
    pub fn acknowledged(&self) -> u64 {
        self.una
    }

    /// One past the highest packet ever sent.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// The sequence number that a PSN of an answer stands for, where it is one of a packet that was sent.
    pub fn sequence_of(&self, psn: u32) -> Option<u64> {
        widen(psn, self.una).filter(|&sequence| sequence < self.sent)
    }

    /// Next packet to send.
    pub fn next_sequence(&self) -> u64 {
        self.next
    }

    /// One past the last packet posted.
    pub fn posted(&self) -> u64 {
        self.posted
    }

    /// Whether the retries are exhausted, or the responder refused a request.
    pub fn is_failed(&self) -> bool {
        self.failed
    }

    /// When it is given up, should nothing be acknowledged before; `NEVER`: it waits for nothing.
    pub fn gives_up_at(&self, p: &RcParameters) -> Time {
        Time(self.waiting_since.0.saturating_add(p.patience().0))
    }

    /// The connection is in error: nothing is sent any more.
    pub fn fail(&mut self) {
        self.failed = true;
        self.deadline = Time::NEVER;
    }

    /// Whether everything posted was acknowledged.
    pub fn is_idle(&self) -> bool {
        self.una == self.posted
    }

    /// Sends the next packet, which takes `packets` sequence numbers: a READ request takes one for each response (IBTA
    /// 9.7.3.1). Call only while `has_work()`. `ask`: it asks for an ACK, whatever its turn.
    #[inline]
    pub fn send(&mut self, p: &RcParameters, now: Time, ask: bool, packets: u64) -> Outgoing {
        debug_assert!(self.has_work());
        let sequence = self.next;
        let retransmission = sequence < self.sent;
        self.next += packets;
        self.sent = self.sent.max(self.next);
        self.since_ack_request += 1;
        let ack_request = ask || self.since_ack_request >= p.ack_every || self.next >= self.sendable();
        if ack_request {
            self.since_ack_request = 0;
            self.asked = self.asked.max(self.next);
            self.waiting_since = self.waiting_since.min(now);
            self.deadline = self.deadline.min(now + p.timeout_after(self.timeouts));
        }
        Outgoing { sequence, psn: wire_psn(sequence), ack_request, retransmission }
    }

    /// An ACK of all packets up to and including `psn`. Returns how many it newly acknowledges.
    pub fn on_ack(&mut self, p: &RcParameters, now: Time, psn: u32) -> u64 {
        match widen(psn, self.una) {
            Some(sequence) => self.acknowledge(p, now, sequence + 1),
            None => 0,
        }
    }

    /// A NAK: the responder misses `psn`. Goes back to it, and returns how many packets before it that acknowledges.
    pub fn on_nak(&mut self, p: &RcParameters, now: Time, psn: u32) -> u64 {
        let Some(missing) = widen(psn, self.una) else { return 0 };
        if missing < self.una || missing > self.sent {
            return 0;
        }
        let newly = self.acknowledge(p, now, missing);
        if self.next > missing {
            self.go_back();
            if p.slow_restart == SlowRestart::Loss {
                self.restart_slowly();
            }
        }
        newly
    }

    /// An RNR NAK: the responder had no receive for `psn`. Goes back to it, to wait for as long as the NAK says. Returns how
    /// many packets before it that acknowledges; `None`: that was one RNR NAK too many, and the connection is in error.
    pub fn on_rnr_nak(&mut self, p: &RcParameters, now: Time, psn: u32, rnr_retry: u8) -> Option<u64> {
        let in_flight = |&refused: &u64| refused >= self.una && refused < self.sent;
        let Some(refused) = widen(psn, self.una).filter(in_flight) else { return Some(0) };
        let newly = self.acknowledge(p, now, refused);
        if self.rnr_naks >= rnr_retry && rnr_retry < RNR_RETRY_FOREVER {
            self.fail();
            return None;
        }
        self.rnr_naks = self.rnr_naks.saturating_add(1);
        self.go_back();
        // The responder is there: what the transport timer counts begins anew.
        self.timeouts = 0;
        self.waiting_since = Time::NEVER;
        Some(newly)
    }

    /// When the transport timer is due.
    pub fn next_timeout(&self) -> Option<Time> {
        (self.deadline != Time::NEVER).then_some(self.deadline)
    }

    /// The clock passed `next_timeout()`.
    pub fn on_timeout(&mut self, p: &RcParameters, now: Time) -> Timeout {
        if self.deadline > now {
            return Timeout::None;
        }
        if now.saturating_sub(self.waiting_since) >= p.patience() {
            self.fail();
            return Timeout::Failed;
        }
        self.timeouts += 1;
        self.go_back();
        if p.slow_restart != SlowRestart::Never {
            self.restart_slowly();
        }
        Timeout::Retry
    }

    fn acknowledge(&mut self, p: &RcParameters, now: Time, upto: u64) -> u64 {
        // Nothing unsent can be acknowledged: such an ACK is not for this stream.
        if upto <= self.una || upto > self.sent || self.failed {
            return 0;
        }
        let newly = upto - self.una;
        self.una = upto;
        if self.window_end != u64::MAX {
            // As much again as was acknowledged. It is over once all that is posted may go.
            let end = self.window_end + 2 * newly;
            self.window_end = if end >= self.posted { u64::MAX } else { end };
        }
        // After a go-back an ACK may still arrive for what is about to be sent again.
        self.next = self.next.max(upto);
        self.timeouts = 0;
        self.rnr_naks = 0;
        let open = self.asked > self.una;
        (self.waiting_since, self.deadline) =
            if open { (now, now + p.timeout_after(0)) } else { (Time::NEVER, Time::NEVER) };
        newly
    }

    fn go_back(&mut self) {
        self.next = self.una;
        self.asked = self.una;
        self.since_ack_request = 0;
        // Armed again by the next packet that asks for an ACK.
        self.deadline = Time::NEVER;
    }

    /// One packet may go, and the next ones as ACKs come.
    fn restart_slowly(&mut self) {
        self.window_end = self.una + 1;
    }
}

/// What the responder does with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// In order: to memory. `ack`: send an ACK of it.
    Accepted {
        /// Send an ACK.
        ack: bool,
    },
    /// Out of sequence: discarded. `nak`: send a NAK that names the packet expected.
    OutOfSequence {
        /// Send a NAK.
        nak: bool,
    },
    /// Received before: discarded. `ack`: acknowledge again, the first ACK may be lost.
    Duplicate {
        /// Send an ACK.
        ack: bool,
    },
}

/// The receiving side of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Responder {
    expected: u64,
    nak_sent: bool,
}

impl Responder {
    /// A connection whose first packet has this PSN.
    pub fn new(psn: u32) -> Self {
        Responder { expected: psn as u64, nak_sent: false }
    }

    /// The packet expected: all before it arrived in order.
    pub fn received(&self) -> u64 {
        self.expected
    }

    /// PSN that an ACK carries: the last packet received in order. `None` before the first.
    pub fn ack_psn(&self) -> Option<u32> {
        self.expected.checked_sub(1).map(wire_psn)
    }

    /// PSN that a NAK carries: the packet expected.
    pub fn nak_psn(&self) -> u32 {
        wire_psn(self.expected)
    }

    /// Whether a packet would be accepted.
    pub fn expects(&self, psn: u32) -> bool {
        widen(psn, self.expected) == Some(self.expected)
    }

    /// The sequence number that a request's PSN stands for; none: one from before the connection.
    pub fn sequence_of(&self, psn: u32) -> Option<u64> {
        widen(psn, self.expected)
    }

    /// The packet expected was answered with an RNR NAK. What follows it is discarded in silence until it comes again.
    pub fn on_not_ready(&mut self) {
        self.nak_sent = true;
    }

    /// A request arrived that takes `packets` sequence numbers.
    #[inline]
    pub fn on_request(&mut self, psn: u32, packets: u64, ack_request: bool) -> Verdict {
        match widen(psn, self.expected) {
            Some(sequence) if sequence == self.expected => {
                self.expected += packets;
                self.nak_sent = false;
                Verdict::Accepted { ack: ack_request }
            }
            Some(sequence) if sequence > self.expected => {
                // One NAK for each gap (9.7.5.1.3): more would make the requester go back again and again.
                let nak = !self.nak_sent;
                self.nak_sent = true;
                Verdict::OutOfSequence { nak }
            }
            _ => Verdict::Duplicate { ack: ack_request && self.expected > 0 },
        }
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
