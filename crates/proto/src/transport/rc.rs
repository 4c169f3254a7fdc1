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

use super::round_trips::RoundTrips;
use crate::parameters::DELAYS;
use crate::units::Time;
use crate::wire::bth::MAX_24_BITS;
use crate::{choice, parameters};

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

// Settings of reliable connections.

/// Settings of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RcParameters {
    /// Packets between two requests for an ACK.
    pub ack_every: u32,
    /// Transport timer: 4.096 us * 2^code.
    pub ack_timeout: Time,
    /// The timer's first value where it adapts; equal to `ack_timeout` where it does not.
    pub first_timeout: Time,
    /// Retries of a full `ack_timeout` without progress that the connection survives.
    pub retry_count: u32,
    /// The losses that a slow restart follows.
    pub slow_restart: SlowRestart,
    /// From a NAK to the first retransmission; nothing is sent meanwhile.
    pub nak_reaction: Time,
    /// From a gap to its NAK.
    pub nak_delay: Time,
    /// True if each NAK and each timeout is also a CNP to congestion control.
    pub losses_are_cnps: bool,
    /// Whether a marked packet that the transport does not take may cause a CNP.
    pub discarded_cause_cnps: bool,
    /// Selective repeat; `None`: go-back-N.
    pub selective: Option<SelectiveRepeat>,
}

choice! {
    /// What is retransmitted after a loss.
    pub enum LossRecovery {
        /// The missing packet and all that followed it.
        GoBackN = "go-back-n",
        /// What is missing.
        SelectiveRepeat = "selective-repeat",
    }
}

choice! {
    /// The losses that a slow restart follows.
    pub enum SlowRestart {
        /// Nothing: sending goes on at full speed.
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
        /// Time without an ACK until packets are retransmitted.
        ack_timeout: Time = Time(67_108_864_000), in TIMEOUT_RANGE, source "perftest, ib_write_bw: 4.096 us * 2^14";
        /// First value of the timeout, which doubles with each timeout up to ack_timeout and is reset after progress.
        /// null: it is always ack_timeout.
        adaptive_timeout: Option<Time> = Some(Time(4_194_304_000)), in TIMEOUT_RANGE,
            source "assumption: NVIDIA's adaptive retransmission is on by default, but its first value is not given: \
                4.096 us * 2^10, longer than a switch with 16 MB takes to drain at 100 Gbit/s (1.3 ms), and what \
                Yu et al., \"Lumina\", SIGCOMM 2023, saw of ConnectX NICs";
        /// Retries of a full ack_timeout without progress until the queue pair is in error.
        retry_count: u32 = 7, in 0..=7, source "perftest, ib_write_bw: retry_cnt, a field of 3 bits";
        /// From a NAK to the first retransmission; the queue pair sends nothing meanwhile.
        nak_reaction: Time = Time::ZERO, in DELAYS, source "assumption: at once; no vendor document says";
        /// From a gap to the responder's NAK: a slow path, once for each gap.
        nak_delay: Time = Time::ZERO, in DELAYS, source "assumption: at once; ConnectX-5 takes almost 20 us";
        /// When the sender restarts slowly, with one packet, doubled each round trip. timeout: after timeouts; loss:
        /// after NAKs, too.
        slow_restart: SlowRestart = SlowRestart::Loss, of SlowRestart::ALL,
            source "assumption: no document gives the law; see the page on what follows a loss";
        /// Each NAK and each timeout is a CNP to the sender's congestion control, too.
        losses_are_cnps: bool = false,
            source "assumption: counters of ConnectX senders say that they are, those of BlueField that they are not";
        /// A marked packet that the transport discards, out of sequence or a duplicate, may cause a CNP.
        discarded_cause_cnps: bool = true,
            source "assumption: Zhu et al. (DCQCN), SIGCOMM 2015, section 3.1, lets every marked packet cause one";
        /// What is retransmitted after a loss. go-back-n: the missing packet and all after it; selective-repeat: only
        /// what is missing, while the receiver places packets out of order (IRN).
        loss_recovery: LossRecovery = LossRecovery::GoBackN, of LossRecovery::ALL,
            source "IB specification 9.7.5.1.3, and what NICs do without a vendor's mode for adaptive routing";
        /// Under selective-repeat: packets in flight at most. null: as many as the link carries in the longest round trip of
        /// the network without queues, by full packets.
        window_packets: Option<u32> = None, in 1..=MAX_WINDOW,
            source "Mittal et al., \"IRN\", SIGCOMM 2018, section 3.2: the bandwidth-delay product of the longest route";
        /// Under selective-repeat: a packet counts as lost once a packet sent this many packets later has arrived.
        reordering: u32 = 1, in 1..=MAX_WINDOW,
            source "Mittal et al., \"IRN\", SIGCOMM 2018, section 3.1: any later packet; more where packets are sprayed";
        /// Under selective-repeat: first value of the timer with fewer than three packets in flight.
        rto_low: Time = Time::from_us(100), in TIMEOUT_RANGE, source "Mittal et al., \"IRN\", SIGCOMM 2018, section 4.1";
        /// Under selective-repeat: first value of the timer otherwise. It doubles up to ack_timeout.
        rto_high: Time = Time::from_us(320), in TIMEOUT_RANGE, source "Mittal et al., \"IRN\", SIGCOMM 2018, section 4.1";
        /// Under selective-repeat: the timers start at the smoothed round trip and four times its variation where that is
        /// longer than rto_low and rto_high; before a round trip was measured, at adaptive_timeout.
        rto_follows_round_trip: bool = false,
            source "Mittal et al., \"IRN\", SIGCOMM 2018, section 4.1, has fixed timers; RFC 6298 has those that follow";
    }
}

/// The most that a NAK can say of how far ahead a packet was.
const MAX_WINDOW: u32 = 65_535;

/// Up to 4.096 us * 2^27, 9 minutes: the engine has 18 minutes for a timer.
const TIMEOUT_RANGE: std::ops::RangeInclusive<Time> = Time(1)..=Time(4_096_000 << 27);

impl TransportParameters {
    /// True if only missing packets are retransmitted.
    pub fn is_selective(&self) -> bool {
        self.loss_recovery == LossRecovery::SelectiveRepeat
    }

    /// The parameters of a connection. Selective repeat needs a window; without one there is no selective repeat.
    pub fn connection(&self) -> RcParameters {
        let selective = self.window_packets.filter(|_| self.is_selective());
        RcParameters {
            ack_every: self.ack_every,
            ack_timeout: self.ack_timeout,
            first_timeout: self.adaptive_timeout.unwrap_or(self.ack_timeout),
            retry_count: self.retry_count,
            slow_restart: self.slow_restart,
            nak_reaction: self.nak_reaction,
            nak_delay: self.nak_delay,
            losses_are_cnps: self.losses_are_cnps,
            discarded_cause_cnps: self.discarded_cause_cnps,
            selective: selective.map(|window| SelectiveRepeat {
                window,
                reordering: self.reordering,
                low_timeout: self.rto_low,
                high_timeout: self.rto_high,
                unmeasured_timeout: self
                    .rto_follows_round_trip
                    .then(|| self.adaptive_timeout.unwrap_or(self.ack_timeout)),
            }),
        }
    }
}

impl RcParameters {
    /// True if the timer starts shorter than it may become.
    pub fn is_adaptive(&self) -> bool {
        let first = self
            .selective
            .map_or(self.first_timeout, |selective| selective.low_timeout.min(selective.high_timeout));
        first < self.ack_timeout
    }

    /// Longest time without progress: the first wait and `retry_count` more waits.
    pub fn patience(&self) -> Time {
        Time(self.ack_timeout.0.saturating_mul(self.retry_count as u64 + 1))
    }

    /// The timer's value after `timeouts` timeouts in a row, where it starts at `first`.
    pub(super) fn timeout_after(&self, first: Time, timeouts: u32) -> Time {
        let doubled = first.0.saturating_mul(1u64.checked_shl(timeouts).unwrap_or(u64::MAX));
        Time(doubled.min(self.ack_timeout.0))
    }
}

// The sending side of a connection: what may be sent, what is in flight, and what is sent again when.

/// A packet that the requester decided to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Position in the stream of packets.
    pub sequence: u64,
    /// The same in 24 bits.
    pub psn: u32,
    /// BTH AckReq.
    pub ack_request: bool,
    /// True if it was sent before.
    pub retransmission: bool,
    /// By how much [`Requester::unsent`] is less.
    pub taken: i64,
}

/// The effect of the transport timer.
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

    /// True if a packet is waiting and may be sent.
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

    /// True if the retries are exhausted, or the responder refused a request.
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

    /// True if everything posted was acknowledged.
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

    /// True if the packet that is sent asks for an ACK.
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
    #[inline(never)]
    fn send_selectively(&mut self, p: &RcParameters, now: Time, ask: bool, packets: u64) -> Outgoing {
        debug_assert!(self.has_work());
        let sequence = self.next;
        let waited = self.unsent();
        let retransmission = sequence < self.sent;
        let was_few = self.sent - self.una < FEW_PACKETS_IN_FLIGHT;
        self.next += packets;
        self.sent = self.sent.max(self.next);
        let mut ack_request = self.asks(p, ask);
        if let Some(board) = &mut self.board {
            // A packet that fills a gap is worth an answer.
            ack_request |= retransmission;
            if retransmission {
                board.sent_again(sequence);
            } else {
                board.sent_first(sequence, now);
            }
            // A flight that grows beyond few packets gets the timeout for many.
            if was_few && self.sent - self.una >= FEW_PACKETS_IN_FLIGHT && self.deadline != Time::NEVER {
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

    /// Handles a NAK of a responder that repeats selectively: it misses `psn`, and `cause` is about the packet
    /// `ahead` packets after that. Returns how many packets the NAK newly acknowledges, and whether it shows
    /// a new loss.
    pub fn on_selective_nak(
        &mut self,
        p: &RcParameters,
        now: Time,
        psn: u32,
        ahead: u32,
        cause: NakCause,
    ) -> (u64, bool) {
        let Some(missing) = widen(psn, self.una).filter(|&missing| missing <= self.sent) else {
            return (0, false);
        };
        let newly = self.acknowledge(p, now, missing);
        let answered = missing + ahead as u64;
        let Some(board) = &mut self.board else { return (newly, false) };
        if answered >= self.una && answered < self.sent && !self.failed {
            match cause {
                NakCause::Arrived => board.arrived(answered, now),
                NakCause::Trimmed => board.trimmed(answered),
            }
        }
        let begins = board.next_lost().is_some() && board.begins_recovery(self.una, self.sent);
        if cause == NakCause::Trimmed && self.deadline != Time::NEVER {
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
            board.acknowledged(self.una, upto, now);
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
            Some(board) => board.first_timeout(self.sent - self.una),
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

// The receiving side of a connection: what is taken, and what is answered.

/// The responder's decision about a packet.
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

    /// As if `packets` more had been received. Not where it repeats selectively.
    pub fn skip(&mut self, packets: u64) {
        debug_assert!(self.ahead.is_none());
        self.expected += packets;
    }

    /// PSN that an ACK carries: the last packet received in order. `None` before the first.
    pub fn ack_psn(&self) -> Option<u32> {
        self.expected.checked_sub(1).map(wire_psn)
    }

    /// PSN that a NAK carries: the packet expected.
    pub fn nak_psn(&self) -> u32 {
        wire_psn(self.expected)
    }

    /// True if a packet would be accepted.
    pub fn expects(&self, psn: u32) -> bool {
        widen(psn, self.expected) == Some(self.expected)
    }

    /// True if a packet of a WRITE would go to memory.
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

    /// Sequence numbers placed ahead of the expected packet.
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

// What selective repeat adds to a reliable connection: which packets are sent again, and what has arrived
// beyond a gap.
//
// Source: Mittal et al., "Revisiting network support for RDMA" (IRN), SIGCOMM 2018, section 3. The responder
// places packets that come out of order, and answers each with a NAK that names the packet expected and the
// packet that came. The requester sends only the missing packets again, once each until a timeout. At most a
// bandwidth-delay product is in flight. The timer is short while few packets are in flight, since no NAK may
// follow then. Section 7: if packets take several ways, a later packet says little about those before it,
// and the requester waits for more of them (`reordering`).
//
// If switches trim packets that they have no room for, headers tell which packet is missing: Handley et al.,
// "Re-architecting datacenter networks and stacks for low latency and high performance" (NDP), SIGCOMM 2017,
// section 3. The responder answers such headers with a NAK at once, and the requester sends the packet
// again, each time that it is trimmed.
//
// Leaves out: IRN's header fields, a RETH in each packet, and READs, SENDs and atomics out of order.

/// Settings of selective repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelectiveRepeat {
    /// Packets that may be in flight.
    pub window: u32,
    /// A packet counts as lost once a packet that was sent this many packets later has arrived.
    pub reordering: u32,
    /// First value of the timer while fewer than [`FEW_PACKETS_IN_FLIGHT`] packets are in flight.
    pub low_timeout: Time,
    /// First value of the timer otherwise.
    pub high_timeout: Time,
    /// First value of the timer before a round trip was measured, where the timer follows the round trip: it starts at
    /// RFC 6298's timeout then, and not below the two values above. `None`: it does not.
    pub unmeasured_timeout: Option<Time>,
}

/// Why a responder answers a packet with a NAK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NakCause {
    /// The packet came, out of order.
    Arrived,
    /// A switch trimmed the packet: only its headers came.
    Trimmed,
}

/// With at least this many packets in flight, NAKs are taken as losses (IRN's N).
pub const FEW_PACKETS_IN_FLIGHT: u64 = 3;

/// A flag for each sequence number of a window. It takes memory only once a flag is set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Flags {
    words: Vec<u64>,
}

impl Flags {
    fn place(&self, sequence: u64) -> (usize, u64) {
        let bit = sequence % (self.words.len() as u64 * 64);
        (bit as usize / 64, 1 << (bit % 64))
    }

    fn has(&self, sequence: u64) -> bool {
        if self.words.is_empty() {
            return false;
        }
        let (word, bit) = self.place(sequence);
        self.words[word] & bit != 0
    }

    /// Sets one of `window` flags. Returns whether it was clear before.
    fn set(&mut self, sequence: u64, window: u32) -> bool {
        if self.words.is_empty() {
            self.words = vec![0; window.div_ceil(64) as usize];
        }
        let (word, bit) = self.place(sequence);
        let was = self.words[word] & bit != 0;
        self.words[word] |= bit;
        !was
    }

    /// Clears a flag. Returns whether it was set.
    fn take(&mut self, sequence: u64) -> bool {
        if self.words.is_empty() {
            return false;
        }
        let (word, bit) = self.place(sequence);
        let was = self.words[word] & bit != 0;
        self.words[word] &= !bit;
        was
    }

    fn clear(&mut self) {
        self.words.fill(0);
    }
}

/// Packets that were trimmed according to NAKs.
#[derive(Clone, Debug, Default)]
struct Trimmed {
    /// Packets trimmed since the last acknowledgement, sent again or not: there is no need to guess about
    /// them.
    known: Flags,
    /// Packets to send again, their number, and where to start looking for the first of them.
    waiting: Flags,
    count: u32,
    from: u64,
}

impl Trimmed {
    fn add(&mut self, sequence: u64, window: u32) {
        self.known.set(sequence, window);
        if self.waiting.set(sequence, window) {
            self.from = if self.count == 0 { sequence } else { self.from.min(sequence) };
            self.count += 1;
        }
    }

    /// Called when a packet is sent again, or need not be. Returns whether it was to be sent again.
    fn take(&mut self, sequence: u64) -> bool {
        let was = self.waiting.take(sequence);
        self.count -= was as u32;
        was
    }

    fn first(&mut self) -> Option<u64> {
        if self.count == 0 {
            return None;
        }
        while !self.waiting.has(self.from) {
            self.from += 1;
        }
        Some(self.from)
    }

    /// All packets before `upto` have arrived; those before `una` were known to have.
    fn acknowledged(&mut self, una: u64, upto: u64) {
        for sequence in una..upto {
            self.take(sequence);
            self.known.take(sequence);
        }
        // Each flag stands for a whole series of sequence numbers, so none behind `upto` may be looked at
        // again.
        self.from = self.from.max(upto);
    }

    fn clear(&mut self) {
        self.known.clear();
        self.waiting.clear();
        self.count = 0;
    }
}

/// The requester's state of packets beyond the first missing one.
#[derive(Clone, Debug)]
pub(super) struct Scoreboard {
    pub p: SelectiveRepeat,
    arrived: Flags,
    trimmed: Trimmed,
    /// One past the last packet that is known to have arrived.
    highest: u64,
    /// The first packet that was not yet considered for being sent again.
    resend: u64,
    /// One past the last packet that counts as lost unless it arrived.
    lost_end: u64,
    /// The end of what was sent before the losses were noticed: until it is acknowledged, they count as one
    /// loss.
    recovery_end: u64,
    /// The packet whose round trip is being measured, and when it was sent. One at a time, and none that was sent again
    /// (RFC 6298, section 3).
    timed: Option<(u64, Time)>,
    round_trips: RoundTrips,
}

impl Scoreboard {
    pub fn new(p: SelectiveRepeat, first: u64) -> Self {
        Scoreboard {
            p,
            arrived: Flags::default(),
            trimmed: Trimmed::default(),
            highest: first,
            resend: first,
            lost_end: first,
            recovery_end: first,
            timed: None,
            round_trips: RoundTrips::default(),
        }
    }

    /// A packet is sent for the first time.
    pub fn sent_first(&mut self, sequence: u64, now: Time) {
        if self.p.unmeasured_timeout.is_some() && self.timed.is_none() {
            self.timed = Some((sequence, now));
        }
    }

    /// An answer says that a packet, or all packets up to it, has arrived.
    fn answered(&mut self, sequence: u64, up_to_it: bool, now: Time) {
        if let Some((timed, at)) = self.timed {
            if timed == sequence || (up_to_it && timed < sequence) {
                self.round_trips.add(now - at);
                self.timed = None;
            }
        }
    }

    /// First value of the timer, with `in_flight` packets in flight.
    pub fn first_timeout(&self, in_flight: u64) -> Time {
        let floor = if in_flight < FEW_PACKETS_IN_FLIGHT { self.p.low_timeout } else { self.p.high_timeout };
        match self.p.unmeasured_timeout {
            None => floor,
            Some(unmeasured) => floor.max(self.round_trips.timeout().unwrap_or(unmeasured)),
        }
    }

    /// A packet has arrived ahead of a gap.
    pub fn arrived(&mut self, sequence: u64, now: Time) {
        self.answered(sequence, false, now);
        self.arrived.set(sequence, self.p.window);
        self.trimmed.take(sequence);
        self.highest = self.highest.max(sequence + 1);
        self.lost_end = self.lost_end.max(self.highest.saturating_sub(self.p.reordering as u64));
    }

    /// A packet was trimmed on its way. It is lost, unless another copy has arrived.
    pub fn trimmed(&mut self, sequence: u64) {
        if !self.arrived.has(sequence) {
            self.trimmed.add(sequence, self.p.window);
        }
    }

    /// All packets before `upto` have arrived; those before `una` were known to have.
    pub fn acknowledged(&mut self, una: u64, upto: u64, now: Time) {
        self.answered(upto - 1, true, now);
        (una..upto).for_each(|sequence| _ = self.arrived.take(sequence));
        self.trimmed.acknowledged(una, upto);
        self.resend = self.resend.max(upto);
    }

    /// The timer fired: everything that was sent and is not known to have arrived counts as lost.
    pub fn all_lost(&mut self, una: u64, sent: u64) {
        (self.resend, self.lost_end, self.recovery_end) = (una, sent, sent);
        self.trimmed.clear();
    }

    /// The next packet to send again; none: what follows is new.
    pub fn next_lost(&mut self) -> Option<u64> {
        let is_known = |at: u64| self.arrived.has(at) || self.trimmed.known.has(at);
        while self.resend < self.lost_end && is_known(self.resend) {
            self.resend += 1;
        }
        let missing = (self.resend < self.lost_end).then_some(self.resend);
        match self.trimmed.first() {
            None => missing,
            Some(trimmed) => Some(missing.map_or(trimmed, |missing| missing.min(trimmed))),
        }
    }

    /// A packet is being sent again.
    pub fn sent_again(&mut self, sequence: u64) {
        if self.timed.is_some_and(|(timed, _)| timed == sequence) {
            self.timed = None;
        }
        if !self.trimmed.take(sequence) {
            self.resend = sequence + 1;
        }
    }

    /// Packets that count as lost and may have to be sent again.
    pub fn waiting(&self) -> u64 {
        self.lost_end.saturating_sub(self.resend) + self.trimmed.count as u64
    }

    /// Packets are to be sent again. Returns whether that is a new loss.
    pub fn begins_recovery(&mut self, una: u64, sent: u64) -> bool {
        let begins = una >= self.recovery_end;
        if begins {
            self.recovery_end = sent;
        }
        begins
    }
}

/// Packets that a responder has placed ahead of a gap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ahead {
    pub window: u32,
    placed: Flags,
    count: u32,
}

impl Ahead {
    pub fn new(window: u32) -> Self {
        Ahead { window, placed: Flags::default(), count: 0 }
    }

    pub fn has(&self, sequence: u64) -> bool {
        self.placed.has(sequence)
    }

    /// A packet ahead of the gap; whether it is new.
    pub fn place(&mut self, sequence: u64) -> bool {
        let is_new = self.placed.set(sequence, self.window);
        self.count += is_new as u32;
        is_new
    }

    /// The expected packet has arrived. Returns which one is expected next.
    pub fn close(&mut self, mut expected: u64) -> u64 {
        while self.count > 0 && self.placed.take(expected) {
            self.count -= 1;
            expected += 1;
        }
        expected
    }
}

#[cfg(test)]
mod rc_tests {
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

#[cfg(test)]
mod selective_tests {
    use super::*;

    /// Flags come round after 64: 100 has that of 36.
    #[test]
    fn the_first_that_was_trimmed_is_never_looked_for_behind_what_is_acknowledged() {
        let mut trimmed = Trimmed::default();
        trimmed.add(10, 64);
        trimmed.add(60, 64);
        trimmed.acknowledged(0, 40);
        trimmed.add(100, 64);
        assert_eq!(trimmed.first(), Some(60));
        trimmed.acknowledged(40, 61);
        assert_eq!((trimmed.first(), trimmed.count), (Some(100), 1));
    }
}
