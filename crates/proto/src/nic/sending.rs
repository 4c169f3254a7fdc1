//! The sending half of a queue pair: which packet may leave when, and what comes back for it.
//!
//! [`Requester`] counts packets, [`Pacer`] knows their rate. Here the two meet congestion control: what a packet adds to the
//! wait for the next one, which ACKs are asked for, what answers and losses tell the controller. What the packets are made of
//! is for the [`Messages`], their headers and their way to the wire for the driver: [`super::Nic`] writes them out, the
//! simulator lets them run through a fabric.

use std::num::NonZeroU16;

use super::connection::Counters;
use super::messages::{Messages, Segment};
use super::pacing::{BurstPacket, Pacer};
use super::Standing;
use crate::congestion::builtin::Congestion;
use crate::congestion::{AckInfo, HopTelemetry, Loss, Uses};
use crate::transport::rc::{RcParameters, Requester, SlowRestart, Timeout, Told};
use crate::units::Time;
use crate::wire::PREAMBLE_AND_GAP_BYTES;

/// What queue pairs of a kind have in common.
#[derive(Clone, Copy, Debug)]
pub struct Common<'a> {
    /// Their connections.
    pub rc: &'a RcParameters,
    /// Their congestion control.
    pub congestion: &'a Congestion,
    /// Rate of their link, bit/s.
    pub line_rate: f64,
}

/// The sending half of a queue pair.
#[derive(Debug)]
#[repr(C)] // in the order in which a packet needs it
pub struct SendingHalf {
    /// What its controller uses.
    pub uses: Uses,
    held_until: Time,
    /// Its controller, and when the rate lets its next packet leave.
    pub pacer: Pacer,
    /// What the controller knows to be acknowledged, bytes.
    told_bytes: u64,
    /// Its packets by number.
    pub requester: Requester,
}

/// A packet that is being sent.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// Position in the stream of packets.
    pub sequence: u64,
    /// The same as 24 bits.
    pub psn: u32,
    /// BTH AckReq.
    pub ack_request: bool,
    /// Whether it was sent before.
    pub is_retransmission: bool,
    /// Packets that no longer wait to be sent.
    pub taken: i64,
    /// Payload, bytes.
    pub payload_bytes: u32,
    /// Bytes on the wire, preamble and gap included.
    pub wire_bytes: u32,
    /// Its time stamp: see [`Pacer::pace_burst`].
    pub stamp: Time,
}

/// What an answer says of the packet that it answers.
#[derive(Clone, Copy, Debug)]
pub struct Echo<'a> {
    /// From the packet's time stamp to now.
    pub rtt: Time,
    /// See [`AckInfo`].
    pub receiver_delay: Time,
    /// See [`AckInfo`].
    pub marked: bool,
    /// See [`AckInfo`].
    pub hop_count: u32,
    /// See [`AckInfo`].
    pub hops: &'a [HopTelemetry],
    /// See [`AckInfo`].
    pub digest: Option<NonZeroU16>,
}

impl SendingHalf {
    /// That of a connection whose first packet has this PSN.
    pub fn new(psn: u32, congestion: &Congestion) -> Self {
        SendingHalf {
            requester: Requester::new(psn),
            pacer: Pacer::new(congestion),
            uses: congestion.uses(),
            held_until: Time::ZERO,
            told_bytes: 0,
        }
    }

    /// It repeats selectively, if these settings say so.
    pub fn with_recovery(mut self, rc: &RcParameters) -> Self {
        self.requester = self.requester.with_recovery(rc);
        self
    }

    /// Goes on as if `packets` more packets with `bytes` had been sent and acknowledged, and `posted` more been posted: what
    /// is in flight is that much further on.
    pub fn skip(&mut self, packets: u64, posted: u64, bytes: u64) {
        self.requester.skip(packets, posted);
        self.pacer.skip(packets);
        self.told_bytes += bytes;
    }

    /// Where it stands when it may send from `by` on.
    #[inline]
    pub fn standing(&self, messages: &impl Messages, by: Time) -> Standing {
        Standing::new(self.may_send(messages).then(|| self.next_at()), by)
    }

    /// Whether a packet waits and the window lets it go. The last one may pass the window's end.
    #[inline]
    pub fn may_send(&self, messages: &impl Messages) -> bool {
        self.requester.has_work() && (!self.uses.window || self.window_is_open(messages))
    }

    /// Whether the controller's window lets a packet go.
    #[inline(never)] // what most runs never need stays out of the way of what they do
    fn window_is_open(&self, messages: &impl Messages) -> bool {
        let [una, next] =
            [self.requester.acknowledged(), self.requester.next_sequence()].map(|at| messages.position(at));
        self.pacer.flow.window_bytes().is_none_or(|window| next - una < window)
    }

    /// Before that no request leaves: a NAK said so.
    pub fn held_until(&self) -> Time {
        self.held_until
    }

    /// When its next packet may leave.
    #[inline]
    pub fn next_at(&self) -> Time {
        self.pacer.next_at().max(self.held_until)
    }

    /// Sends the next packet. Call only while [`Self::may_send`] and [`Self::next_at`] allow. `extra_bytes`: what it carries
    /// beyond its frame. `limit`: who else has a say in the rate after this payload.
    #[inline(always)] // a driver has one place that sends
    pub fn send(
        &mut self,
        common: &Common,
        now: Time,
        messages: &impl Messages,
        extra_bytes: u32,
        limit: impl FnOnce(u32, f64) -> f64,
    ) -> Sent {
        let next = self.requester.next_sequence();
        let responses = messages.responses(next);
        let (mut is_last, mut ask) = (false, responses.is_some() | self.uses.each_ack);
        if self.uses.acks {
            let burst = common.congestion.burst_bytes();
            is_last = burst.is_some_and(|burst| messages.ends_burst(next, burst));
            // What ends a burst asks for the ACK that shows its time. A window may become smaller than what is under way, of which
            // each packet might then be the last.
            ask = ask || is_last || self.uses.window;
        }
        let out = self.requester.send(common.rc, now, ask, responses.unwrap_or(1));
        let Segment { payload_bytes, frame_bytes } = messages.segment(out.sequence);
        let wire_bytes = frame_bytes + extra_bytes + PREAMBLE_AND_GAP_BYTES;
        let rate = self.pacer.flow.on_sent(common.congestion, now, payload_bytes as u64);
        let rate = limit(payload_bytes, rate);
        let mut stamp = now;
        if self.uses.acks {
            let packet = BurstPacket { sequence: out.sequence, wire_bytes, is_last };
            stamp = self.pacer.pace_burst(now, &packet, rate, common.line_rate);
        } else {
            self.pacer.pace(now, wire_bytes, rate);
        }
        Sent {
            sequence: out.sequence,
            psn: out.psn,
            ack_request: out.ack_request,
            is_retransmission: out.retransmission,
            taken: out.taken,
            payload_bytes,
            wire_bytes,
            stamp,
        }
    }

    /// An ACK of all packets up to and including `psn`. Returns how many it newly acknowledges.
    #[inline]
    pub fn on_ack(&mut self, common: &Common, now: Time, psn: u32) -> u64 {
        self.requester.on_ack(common.rc, now, psn)
    }

    /// A NAK: the receiver misses `psn`. Returns how many packets before it that acknowledges.
    pub fn on_nak(&mut self, common: &Common, now: Time, psn: u32, counters: &mut Counters) -> u64 {
        counters.packet_seq_err += 1;
        let next = self.requester.next_sequence();
        let newly = self.go_back_to(common, now, psn, counters);
        if self.requester.next_sequence() < next {
            self.hold(now + common.rc.nak_reaction);
        }
        newly
    }

    /// A NAK of a receiver under selective repeat: it misses `psn`, and has the packet that is `ahead` packets further on, with
    /// what that told it. Returns how many packets before `psn` this acknowledges, and whether it shows a new loss.
    pub fn on_selective_nak(
        &mut self,
        common: &Common,
        now: Time,
        psn: u32,
        ahead: u32,
        told: Told,
        counters: &mut Counters,
    ) -> (u64, bool) {
        let (newly, begins) = self.requester.on_selective_nak(common.rc, now, psn, ahead, told);
        if begins {
            counters.packet_seq_err += 1;
            self.on_loss(common, now, Loss::Nak, counters);
        }
        (newly, begins)
    }

    /// `psn` is missing, as a NAK says or an answer that cannot be without it: goes back to it, if it was sent since.
    pub fn go_back_to(&mut self, common: &Common, now: Time, psn: u32, counters: &mut Counters) -> u64 {
        let next = self.requester.next_sequence();
        let newly = self.requester.on_nak(common.rc, now, psn);
        if self.requester.next_sequence() < next {
            self.on_loss(common, now, Loss::Nak, counters);
        }
        newly
    }

    /// No request leaves before `until`.
    pub fn hold(&mut self, until: Time) {
        self.held_until = self.held_until.max(until);
    }

    /// The transport timer may be due.
    pub fn on_timeout(&mut self, common: &Common, now: Time, counters: &mut Counters) -> Timeout {
        let timeout = self.requester.on_timeout(common.rc, now);
        counters.local_ack_timeout_err += (timeout != Timeout::None) as u64;
        match timeout {
            Timeout::None => {}
            Timeout::Retry => self.on_loss(common, now, Loss::Timeout, counters),
            Timeout::Failed => counters.req_transport_retries_exceeded += 1,
        }
        timeout
    }

    /// It goes back: its controller hears of it.
    #[cold]
    fn on_loss(&mut self, common: &Common, now: Time, loss: Loss, counters: &mut Counters) {
        let &Common { rc, congestion, .. } = common;
        self.pacer.flow.on_loss(congestion, now, loss);
        let is_timeout = loss == Loss::Timeout;
        let restarts = match rc.slow_restart {
            _ if rc.selective.is_some() => false,
            SlowRestart::Never => false,
            SlowRestart::Timeout => is_timeout,
            SlowRestart::Loss => true,
        };
        counters.roce_adp_retrans += (is_timeout && rc.is_adaptive()) as u64;
        counters.roce_slow_restart += restarts as u64;
        if rc.losses_are_cnps && self.uses.cnps {
            *(if is_timeout { &mut counters.roce_slow_restart_cnps } else { &mut counters.nak_cnps }) += 1;
            counters.rp_cnp_handled += 1;
            self.pacer.flow.on_cnp(congestion, now);
        }
    }

    /// A CNP has come. Whether its controller hears of it.
    #[inline]
    pub fn on_cnp(&mut self, congestion: &Congestion, now: Time, counters: &mut Counters) -> bool {
        if !self.uses.cnps {
            counters.rp_cnp_ignored += 1;
            return false;
        }
        counters.rp_cnp_handled += 1;
        self.pacer.flow.on_cnp(congestion, now);
        true
    }

    /// An answer has come whose packet's time is known: what it acknowledges was taken, and the messages are still there.
    /// `is_ack`: it is no NAK.
    #[inline]
    pub fn inform_controller(
        &mut self,
        congestion: &Congestion,
        now: Time,
        messages: &impl Messages,
        is_ack: bool,
        echo: &Echo,
        counters: &mut Counters,
    ) {
        counters.delay_probes += self.uses.delay as u64;
        let acknowledged = self.requester.acknowledged();
        let acknowledged_bytes = messages.position(acknowledged);
        let newly_acked_bytes =
            acknowledged_bytes - std::mem::replace(&mut self.told_bytes, acknowledged_bytes);
        let burst = congestion.burst_bytes().filter(|_| is_ack && newly_acked_bytes > 0);
        let &Echo { rtt, receiver_delay, marked, hop_count, hops, digest } = echo;
        let ack = AckInfo {
            now,
            rtt,
            receiver_delay,
            completes_burst: burst.is_some_and(|burst| messages.ends_burst(acknowledged - 1, burst)),
            newly_acked_bytes,
            acknowledged_bytes,
            sent_bytes: messages.position(self.requester.in_flight_until()),
            marked,
            hop_count,
            hops,
            digest,
        };
        self.pacer.flow.on_ack(congestion, &ack);
    }
}
