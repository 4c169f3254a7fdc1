//! The sending side of a connection: what may be sent, what is in flight, and what is sent again when.

use super::{widen, wire_psn, RNR_RETRY_FOREVER};
use crate::transport::selective::{Scoreboard, Told, FEW};
use crate::transport::settings::{RcParameters, SlowRestart};
use crate::units::Time;

/// A packet that the requester decided to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Position in the stream of packets.
    pub sequence: u64,
    /// The same in 24 bits.
    pub psn: u32,
    /// BTH AckReq.
    pub ack_request: bool,
    /// Whether it was sent before.
    pub retransmission: bool,
    /// By how much [`Requester::unsent`] is less.
    pub taken: i64,
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

/// The sending side of a connection. What each packet needs comes first, and is a cache line.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Requester {
    /// First packet not acknowledged.
    una: u64,
    /// Next packet to send.
    next: u64,
    /// One past the highest packet ever sent.
    sent: u64,
    /// One past the last packet posted.
    posted: u64,
    /// One past the last packet that slow restart, or the window of selective repeat, permits. `u64::MAX`:
    /// there is no limit.
    window_end: u64,
    /// State of selective repeat, if the connection uses it. Boxed: most do not.
    board: Option<Box<Scoreboard>>,
    since_ack_request: u32,
    /// Timeouts in a row.
    timeouts: u32,
    /// RNR NAKs in a row.
    rnr_naks: u8,
    failed: bool,
    /// One past the last packet that asked for an ACK.
    asked: u64,
    /// When the timer is due. `NEVER`: it does not run.
    deadline: Time,
    /// When the timer was first armed since the last progress. `NEVER`: it was not.
    waiting_since: Time,
}

impl Default for Requester {
    fn default() -> Self {
        Requester::new(0)
    }
}

impl Requester {
    /// A connection whose first packet has this PSN, which is also its first sequence number.
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

    /// Makes the connection repeat selectively, if these settings say so. Call before anything is posted.
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

    /// Whether a packet is waiting and may be sent.
    pub fn has_work(&self) -> bool {
        self.next < self.sendable() && !self.failed
    }

    /// One past the last packet that may be sent at the moment.
    fn sendable(&self) -> u64 {
        self.posted.min(self.window_end)
    }

    /// First packet not acknowledged: all packets before it have arrived.
    #[inline]
    pub fn acknowledged(&self) -> u64 {
        self.una
    }

    /// One past the highest packet ever sent.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// The sequence number that the PSN of an answer stands for, if it is that of a packet that was sent.
    pub fn sequence_of(&self, psn: u32) -> Option<u64> {
        widen(psn, self.una).filter(|&sequence| sequence < self.sent)
    }

    /// Where the packets in flight end.
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

    /// Acts as if `packets` more had been sent and acknowledged, and `posted` more had been posted: packets
    /// in flight move on by as much. Not for connections that repeat selectively.
    pub fn skip(&mut self, packets: u64, posted: u64) {
        debug_assert!(self.board.is_none() && self.sent + packets <= self.posted + posted);
        for at in [&mut self.una, &mut self.next, &mut self.sent, &mut self.asked] {
            *at += packets;
        }
        self.posted += posted;
        if self.window_end != u64::MAX {
            self.window_end += packets;
        }
    }

    /// Whether the retries are exhausted, or the responder refused a request.
    pub fn is_failed(&self) -> bool {
        self.failed
    }

    /// When the connection gives up if nothing is acknowledged before. `NEVER`: it waits for nothing.
    pub fn gives_up_at(&self, p: &RcParameters) -> Time {
        Time(self.waiting_since.0.saturating_add(p.patience().0))
    }

    /// Puts the connection in error: nothing is sent any more.
    pub fn fail(&mut self) {
        self.failed = true;
        self.deadline = Time::NEVER;
    }

    /// Whether everything posted was acknowledged.
    pub fn is_idle(&self) -> bool {
        self.una == self.posted
    }

    /// Sends the next packet, which takes `packets` sequence numbers: a READ request takes one for each
    /// response (IBTA 9.7.3.1). Call only while `has_work()`. `ask`: the packet asks for an ACK, even if it
    /// is not its turn.
    #[inline(always)] // a sender's packets have one way out
    pub fn send(&mut self, p: &RcParameters, now: Time, ask: bool, packets: u64) -> Outgoing {
        if self.board.is_some() {
            return self.send_selectively(p, now, ask, packets);
        }
        debug_assert!(self.has_work());
        let sequence = self.next;
        let retransmission = sequence < self.sent;
        self.next += packets;
        self.sent = self.sent.max(self.next);
        let ack_request = self.asks(p, ask);
        if ack_request {
            self.await_ack(p, now);
        }
        let psn = wire_psn(sequence);
        Outgoing { sequence, psn, ack_request, retransmission, taken: packets as i64 }
    }

    /// Whether the packet that is sent asks for an ACK.
    #[inline(always)] // as above
    fn asks(&mut self, p: &RcParameters, ask: bool) -> bool {
        self.since_ack_request += 1;
        ask || self.since_ack_request >= p.ack_every || self.next >= self.sendable()
    }

    /// The packet that is sent asks for an ACK.
    #[inline]
    fn await_ack(&mut self, p: &RcParameters, now: Time) {
        self.since_ack_request = 0;
        self.asked = self.asked.max(self.next);
        self.waiting_since = self.waiting_since.min(now);
        self.deadline = self.deadline.min(now + self.timeout(p));
    }

    /// The same where the connection repeats selectively.
    #[inline(never)] // what most runs never need stays out of the way of what they do
    fn send_selectively(&mut self, p: &RcParameters, now: Time, ask: bool, packets: u64) -> Outgoing {
        debug_assert!(self.has_work());
        let sequence = self.next;
        let waited = self.unsent();
        let retransmission = sequence < self.sent;
        let was_few = self.sent - self.una < FEW;
        self.next += packets;
        self.sent = self.sent.max(self.next);
        let mut ack_request = self.asks(p, ask);
        if let Some(board) = &mut self.board {
            // A packet that fills a gap is worth an answer.
            ack_request |= retransmission;
            if retransmission {
                board.sent_again(sequence);
            }
            // A flight that grows beyond few packets gets the timeout for many.
            if was_few && self.sent - self.una >= FEW && self.deadline != Time::NEVER {
                self.deadline = self.waiting_since + self.timeout(p);
            }
        }
        if ack_request {
            self.await_ack(p, now);
        }
        self.choose_next();
        let taken = waited as i64 - self.unsent() as i64;
        Outgoing { sequence, psn: wire_psn(sequence), ack_request, retransmission, taken }
    }

    /// Handles an ACK of all packets up to and including `psn`. Returns how many it newly acknowledges.
    pub fn on_ack(&mut self, p: &RcParameters, now: Time, psn: u32) -> u64 {
        match widen(psn, self.una) {
            Some(sequence) => self.acknowledge(p, now, sequence + 1),
            None => 0,
        }
    }

    /// Handles a NAK: the responder misses `psn`. Goes back to it, and returns how many earlier packets the
    /// NAK acknowledges.
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

    /// Handles a NAK of a responder that repeats selectively: it misses `psn`, and `told` is about the packet
    /// `ahead` packets after that. Returns how many packets the NAK newly acknowledges, and whether it shows
    /// a new loss.
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
            // The timer is for losses that nobody reports.
            self.deadline = self.deadline.max(now + self.timeout(p));
        }
        self.choose_next();
        (newly, begins)
    }

    /// Handles an RNR NAK: the responder had no receive for `psn`. Goes back to it, to wait for as long as
    /// the NAK says. Returns how many earlier packets the NAK acknowledges. `None`: this was one RNR NAK too
    /// many, and the connection is in error.
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
        // The responder is alive, so the transport timer starts counting anew.
        self.timeouts = 0;
        self.waiting_since = Time::NEVER;
        Some(newly)
    }

    /// When the transport timer is due.
    pub fn next_timeout(&self) -> Option<Time> {
        (self.deadline != Time::NEVER).then_some(self.deadline)
    }

    /// Called when the clock has passed `next_timeout()`.
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
            // The window grows by as much as was acknowledged. It is dropped once all that is posted may go.
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

    /// With selective repeat, lost packets go before new ones.
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
        // The next packet that asks for an ACK arms it again.
        self.deadline = Time::NEVER;
    }

    /// Lets one packet go, and the next ones as ACKs come.
    fn restart_slowly(&mut self) {
        self.window_end = self.una + 1;
    }
}
