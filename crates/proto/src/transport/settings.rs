//! Settings of reliable connections.

use super::selective::SelectiveRepeat;
use crate::parameters::DELAY;
use crate::units::Time;
use crate::{choice, parameters};

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
    /// What a slow restart follows.
    pub slow_restart: SlowRestart,
    /// From a NAK to the first retransmission; nothing is sent meanwhile.
    pub nak_reaction: Time,
    /// From a gap to its NAK.
    pub nak_delay: Time,
    /// Whether each NAK and each timeout is also a CNP to congestion control.
    pub losses_are_cnps: bool,
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
    /// What a slow restart follows.
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
        ack_timeout: Time = Time(67_108_864_000), in TIMEOUT, source "perftest, ib_write_bw: 4.096 us * 2^14";
        /// First value of the timeout, which doubles with each timeout up to ack_timeout and is reset after progress.
        /// null: it is always ack_timeout.
        adaptive_timeout: Option<Time> = Some(Time(4_194_304_000)), in TIMEOUT,
            source "assumption: NVIDIA's adaptive retransmission is on by default, but its first value is not given: \
                4.096 us * 2^10, longer than a switch with 16 MB takes to drain at 100 Gbit/s (1.3 ms), and what \
                Yu et al., \"Lumina\", SIGCOMM 2023, saw of ConnectX NICs";
        /// Retries of a full ack_timeout without progress until the queue pair is in error.
        retry_count: u32 = 7, in 0..=7, source "perftest, ib_write_bw: retry_cnt, a field of 3 bits";
        /// From a NAK to the first retransmission; the queue pair sends nothing meanwhile.
        nak_reaction: Time = Time::ZERO, in DELAY, source "assumption: at once; no vendor document says";
        /// From a gap to the responder's NAK: a slow path, once for each gap.
        nak_delay: Time = Time::ZERO, in DELAY, source "assumption: at once; ConnectX-5 takes almost 20 us";
        /// When the sender restarts slowly, with one packet, doubled each round trip. timeout: after timeouts; loss:
        /// after NAKs, too.
        slow_restart: SlowRestart = SlowRestart::Loss, of SlowRestart::ALL,
            source "assumption: no document gives the law; see the page on what follows a loss";
        /// Each NAK and each timeout is a CNP to the sender's congestion control, too.
        losses_are_cnps: bool = false,
            source "assumption: counters of ConnectX senders say that they are, those of BlueField that they are not";
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
        rto_low: Time = Time::from_us(100), in TIMEOUT, source "Mittal et al., \"IRN\", SIGCOMM 2018, section 4.1";
        /// Under selective-repeat: first value of the timer otherwise. It doubles up to ack_timeout.
        rto_high: Time = Time::from_us(320), in TIMEOUT, source "Mittal et al., \"IRN\", SIGCOMM 2018, section 4.1";
    }
}

/// The most that a NAK can say of how far ahead a packet was.
const MAX_WINDOW: u32 = 65_535;
/// Up to 4.096 us * 2^27, 9 minutes: the engine has 18 minutes for a timer.
const TIMEOUT: std::ops::RangeInclusive<Time> = Time(1)..=Time(4_096_000 << 27);

impl TransportParameters {
    /// Whether only missing packets are retransmitted.
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
            selective: selective.map(|window| SelectiveRepeat {
                window,
                reordering: self.reordering,
                low_timeout: self.rto_low,
                high_timeout: self.rto_high,
            }),
        }
    }
}

impl RcParameters {
    /// Whether the timer starts shorter than it may become.
    pub fn is_adaptive(&self) -> bool {
        let first = self
            .selective
            .map_or(self.first_timeout, |selective| selective.low_timeout.min(selective.high_timeout));
        first < self.ack_timeout
    }

    /// How long a connection may be without progress: the first wait and `retry_count` more waits.
    pub fn patience(&self) -> Time {
        Time(self.ack_timeout.0.saturating_mul(self.retry_count as u64 + 1))
    }

    /// The timer's value after `timeouts` timeouts in a row, where it starts at `first`.
    pub(super) fn timeout_after(&self, first: Time, timeouts: u32) -> Time {
        let doubled = first.0.saturating_mul(1u64.checked_shl(timeouts).unwrap_or(u64::MAX));
        Time(doubled.min(self.ack_timeout.0))
    }
}
