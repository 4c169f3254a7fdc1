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
//! Where a connection repeats selectively ([`super::selective`]) the responder keeps what comes out of order, and the requester
//! sends again only what is missing, within a window, and without a slow restart.
//!
//! Leaves out: credits in the AETH, and the 1x to 4x slack that the specification allows the timer.

pub use super::selective::Told;
use super::selective::{Ahead, Scoreboard, FEW};
pub use super::settings::{LossRecovery, RcParameters, SlowRestart, TransportParameters};
use crate::units::Time;
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
    /// One past the last packet that a slow restart, or the window of selective repeat, lets go; `u64::MAX`: there is none.
    window_end: u64,
    /// Where it repeats selectively. Boxed: most do not.
    board: Option<Box<Scoreboard>>,
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
            board: None,
            deadline: Time::NEVER,
            waiting_since: Time::NEVER,
            since_ack_request: 0,
            timeouts: 0,
            rnr_naks: 0,
            failed: false,
        }
    }

    /// It repeats selectively, if these settings say so. Call before anything is posted.
    pub fn with_recovery(mut self, p: &RcParameters) -> Self {
        if let Some(selective) = p.selective {
            self.board = Some(Box::new(Scoreboard::new(selective, self.una)));
            self.window_end = self.una + selective.window as u64;
        }
        self
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

    /// Where what is in flight ends.
    pub fn in_flight_until(&self) -> u64 {
        match self.board {
            Some(_) => self.sent,
            None => self.next, // all after it goes again
        }
    }

    /// Next packet to send.
    pub fn next_sequence(&self) -> u64 {
        self.next
    }

    /// Packets that wait to be sent, for the first time or again.
    pub fn unsent(&self) -> u64 {
        match &self.board {
            None => self.posted - self.next,
            Some(board) => self.posted - self.sent + board.waiting(),
        }
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
        let was_few = self.sent - self.una < FEW;
        self.next += packets;
        self.sent = self.sent.max(self.next);
        self.since_ack_request += 1;
        let mut ack_request = ask || self.since_ack_request >= p.ack_every || self.next >= self.sendable();
        if let Some(board) = &mut self.board {
            // What fills a gap is worth an answer.
            ack_request |= retransmission;
            if retransmission {
                board.sent_again(sequence);
            }
            // A flight that grows from few packets has the time of many.
            if was_few && self.sent - self.una >= FEW && self.deadline != Time::NEVER {
                self.deadline = self.waiting_since + self.timeout(p);
            }
        }
        if ack_request {
            self.since_ack_request = 0;
            self.asked = self.asked.max(self.next);
            self.waiting_since = self.waiting_since.min(now);
            self.deadline = self.deadline.min(now + self.timeout(p));
        }
        self.choose_next();
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

    /// A NAK of a responder that repeats selectively: it misses `psn`, and this is what it was told of the packet that is `ahead`
    /// of that by so many. Returns how many packets it newly acknowledges, and whether that shows a new loss.
    pub fn on_selective_nak(
        &mut self,
        p: &RcParameters,
        now: Time,
        psn: u32,
        ahead: u32,
        told: Told,
    ) -> (u64, bool) {
        let Some(missing) = widen(psn, self.una).filter(|&missing| missing <= self.sent) else {
            return (0, false);
        };
        let newly = self.acknowledge(p, now, missing);
        let answered = missing + ahead as u64;
        let Some(board) = &mut self.board else { return (newly, false) };
        if answered >= self.una && answered < self.sent && !self.failed {
            match told {
                Told::Arrived => board.arrived(answered),
                Told::Trimmed => board.trimmed(answered),
            }
        }
        let begins = board.next_lost().is_some() && board.begins_recovery(self.una, self.sent);
        if told == Told::Trimmed && self.deadline != Time::NEVER {
            // The timer is for losses that nobody tells of.
            self.deadline = self.deadline.max(now + self.timeout(p));
        }
        self.choose_next();
        (newly, begins)
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
        if let Some(board) = &mut self.board {
            board.all_lost(self.una, self.sent);
            self.choose_next();
            self.deadline = now + self.timeout(p);
            return Timeout::Retry;
        }
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
        if let Some(board) = &mut self.board {
            board.acknowledged(self.una, upto);
            self.window_end = upto + board.p.window as u64;
        } else if self.window_end != u64::MAX {
            // As much again as was acknowledged. It is over once all that is posted may go.
            let end = self.window_end + 2 * newly;
            self.window_end = if end >= self.posted { u64::MAX } else { end };
        }
        self.una = upto;
        // After a go-back an ACK may still arrive for what is about to be sent again.
        self.next = self.next.max(upto);
        self.timeouts = 0;
        self.rnr_naks = 0;
        let open = self.asked > self.una;
        (self.waiting_since, self.deadline) =
            if open { (now, now + self.timeout(p)) } else { (Time::NEVER, Time::NEVER) };
        self.choose_next();
        newly
    }

    /// The timer's value now.
    fn timeout(&self, p: &RcParameters) -> Time {
        let first = match &self.board {
            None => p.first_timeout,
            Some(board) if self.sent - self.una < FEW => board.p.low_timeout,
            Some(board) => board.p.high_timeout,
        };
        p.timeout_after(first, self.timeouts)
    }

    /// Where it repeats selectively, what is lost goes before what is new.
    #[inline]
    fn choose_next(&mut self) {
        if let Some(board) = &mut self.board {
            self.next = board.next_lost().unwrap_or(self.sent);
        }
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
    /// Out of sequence, and kept: to memory, and a NAK that names the packet expected and this one.
    Placed,
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Responder {
    expected: u64,
    nak_sent: bool,
    /// Where it repeats selectively. Boxed: most do not.
    ahead: Option<Box<Ahead>>,
}

impl Responder {
    /// A connection whose first packet has this PSN.
    pub fn new(psn: u32) -> Self {
        Responder { expected: psn as u64, nak_sent: false, ahead: None }
    }

    /// It keeps what comes out of order, if these settings say so.
    pub fn with_recovery(mut self, p: &RcParameters) -> Self {
        self.ahead = p.selective.map(|selective| Box::new(Ahead::new(selective.window)));
        self
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

    /// Whether a packet of a WRITE would go to memory.
    #[inline]
    pub fn takes(&self, psn: u32) -> bool {
        match &self.ahead {
            None => self.expects(psn),
            Some(ahead) => widen(psn, self.expected).is_some_and(|sequence| {
                sequence >= self.expected
                    && sequence - self.expected < ahead.window as u64
                    && !ahead.has(sequence)
            }),
        }
    }

    /// How far ahead of the packet expected this one is; 0: it is not.
    pub fn ahead(&self, psn: u32) -> u32 {
        widen(psn, self.expected).map_or(0, |sequence| sequence.saturating_sub(self.expected) as u32)
    }

    /// What was placed ahead of the packet expected.
    pub fn placed(&self) -> impl Iterator<Item = u64> + '_ {
        let ahead = self.ahead.iter().flat_map(|ahead| (0..ahead.window as u64).map(move |at| (ahead, at)));
        ahead
            .map(|(ahead, at)| (ahead, self.expected + at))
            .filter(|(ahead, at)| ahead.has(*at))
            .map(|(_, at)| at)
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
                let mut ack = ack_request;
                if let Some(ahead) = &mut self.ahead {
                    let closed = ahead.close(self.expected);
                    // The requester waits for news of a gap.
                    ack |= closed > self.expected;
                    self.expected = closed;
                }
                Verdict::Accepted { ack }
            }
            Some(sequence) if sequence > self.expected => {
                if let Some(ahead) = &mut self.ahead {
                    return if sequence - self.expected >= ahead.window as u64 {
                        Verdict::OutOfSequence { nak: false } // no requester sends it
                    } else if ahead.place(sequence) {
                        Verdict::Placed
                    } else {
                        Verdict::Duplicate { ack: true }
                    };
                }
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
