//! A queue pair: its send queue, its receive side, its rate and its notification point.

use std::collections::VecDeque;

use super::memory::Regions;
use super::pacing::{BurstPacket, Pacer};
use super::receive_queue::{Completed, Outcome, ReceiveQueue};
use super::send_queue::{Answered, SendQueue, Sent};
use super::work::{Event, Failure, ReceiveRequest, SendRequest, Status};
use super::{Connection, Counters, NicSettings, Payload, Shown, Transmit};
use crate::congestion::builtin::Congestion;
use crate::congestion::dcqcn::NotificationPoint;
use crate::congestion::{AckInfo, Loss};
use crate::transport::rc::Timeout;
use crate::units::Time;
use crate::wire::cnp::cnp;
use crate::wire::{roce_frame_bytes, Extension, Opcode, TransportHeaders, PREAMBLE_AND_GAP_BYTES};

/// What a queue pair is given beside its own state.
pub(super) struct Context<'a> {
    pub settings: &'a NicSettings,
    pub regions: &'a Regions,
    pub counters: &'a mut Counters,
    pub events: &'a mut VecDeque<Event>,
}

#[derive(Debug)]
pub(super) struct QueuePair {
    qpn: u32,
    connection: Connection,
    sends: SendQueue,
    receives: ReceiveQueue,
    pacer: Pacer,
    /// What the controller knows to be acknowledged, bytes.
    told_bytes: u64,
    notification_point: NotificationPoint,
    cnp_waits: bool,
    is_failed: bool,
    /// The last data packet was a response: a request is next, if there is one.
    response_was_last: bool,
    /// Whether the NIC's rings hold it, and when the NIC wakes it.
    pub in_control: bool,
    pub in_ready: bool,
    pub wake_at: Time,
}

impl QueuePair {
    pub fn new(qpn: u32, connection: Connection, settings: &NicSettings) -> Self {
        QueuePair {
            qpn,
            sends: SendQueue::new(connection.sq_psn),
            receives: ReceiveQueue::new(connection.rq_psn),
            pacer: Pacer::new(&settings.congestion),
            told_bytes: 0,
            connection,
            notification_point: NotificationPoint::default(),
            cnp_waits: false,
            is_failed: false,
            response_was_last: false,
            in_control: false,
            in_ready: false,
            wake_at: Time::NEVER,
        }
    }

    pub fn is_failed(&self) -> bool {
        self.is_failed
    }

    pub fn shown(&self, congestion: &Congestion, now: Time) -> Shown {
        let flow = &self.pacer.flow;
        let signals = 0..congestion.signals().len();
        Shown {
            rate_bps: flow.rate_at(congestion, now),
            signals: signals.map(|number| flow.signal(congestion, now, number)).collect(),
            sent_bytes: self.sends.next_bytes(&self.connection),
        }
    }

    pub fn post_send(&mut self, request: SendRequest) {
        self.sends.post(&self.connection, request);
    }

    pub fn post_receive(&mut self, request: ReceiveRequest) {
        self.receives.post(request);
    }

    /// Whether an ACK, a NAK or a CNP waits, which no pacing holds up.
    pub fn has_control(&self) -> bool {
        self.cnp_waits || self.receives.has_acknowledge()
    }

    /// When its next data packet may leave; none: there is none.
    pub fn data_at(&self) -> Option<Time> {
        let at = if self.receives.has_response() { Some(Time::ZERO) } else { self.request_at() };
        at.map(|at| at.max(self.pacer.next_at()))
    }

    /// When to look at its data again, where some of it waits; none: there is none, or it may leave now.
    pub fn look_at(&mut self, settings: &NicSettings, now: Time) -> Option<Time> {
        self.data_at().filter(|at| *at > now)?;
        if self.pacer.next_at() > now {
            self.pacer.follow_rate(&settings.congestion, now, |rate| rate);
        }
        let at = self.data_at()?;
        let rises_at =
            if self.pacer.next_at() > now { self.pacer.look_at(&settings.congestion) } else { Time::NEVER };
        Some(at.min(rises_at)).filter(|at| *at > now)
    }

    /// When its next request may leave, pacing aside.
    fn request_at(&self) -> Option<Time> {
        self.sends.next_at(&self.connection).filter(|_| self.window_is_open(0))
    }

    /// Whether the controller's window lets a packet go after so many bytes more. The last one may pass the window's end.
    fn window_is_open(&self, more: u64) -> bool {
        self.pacer.flow.window_bytes().is_none_or(|window| {
            let c = &self.connection;
            self.sends.next_bytes(c) - self.sends.acknowledged_bytes(c) + more < window
        })
    }

    /// When its transport timer or its controller's is due.
    pub fn next_timeout(&self, settings: &NicSettings) -> Option<Time> {
        let controller = self.pacer.flow.next_timeout(&settings.congestion);
        let timers = [self.sends.next_timeout(), controller, self.receives.nak_due()];
        timers.into_iter().flatten().min()
    }

    /// The CNP, ACK or NAK that waits: a CNP first, for it is late already.
    pub fn send_control(&mut self, context: &mut Context) -> Option<Transmit> {
        if std::mem::take(&mut self.cnp_waits) {
            context.counters.np_cnp_sent += 1;
            return Some(self.transmit(cnp(self.connection.dest_qp), Payload::NONE));
        }
        if !self.receives.has_acknowledge() {
            return None;
        }
        let (headers, payload) = self.receives.reply(&self.connection)?;
        Some(self.transmit(headers, payload))
    }

    /// The next data packet: call only where [`Self::data_at`] has come.
    pub fn send_data(&mut self, context: &mut Context, now: Time) -> Option<Transmit> {
        let may_request = self.request_at().is_some_and(|at| at <= now);
        let congestion = &context.settings.congestion;
        let responds = self.receives.has_response() && !(may_request && self.response_was_last);
        self.response_was_last = responds;
        let wire_bytes = |headers: &TransportHeaders, payload: &Payload| {
            roce_frame_bytes(headers.bth.opcode, payload.length) + PREAMBLE_AND_GAP_BYTES
        };
        if responds {
            let (headers, payload) = self.receives.reply(&self.connection)?;
            let rate = self.pacer.flow.on_sent(congestion, now, payload.length as u64);
            self.pacer.pace(now, wire_bytes(&headers, &payload), rate);
            return Some(self.transmit(headers, payload));
        }
        if !may_request {
            return None;
        }
        let c = &self.connection;
        let is_last = congestion.burst_bytes().is_some_and(|burst| self.sends.next_ends_burst(c, burst));
        // What ends a burst asks for the ACK that shows its time, and what closes the window for the one that opens it.
        let ask = is_last || congestion.uses().each_ack || !self.window_is_open(c.path_mtu as u64);
        let Sent { sequence, headers, payload, is_retransmission } = self.sends.send(c, now, ask);
        context.counters.retransmitted_packets += is_retransmission as u64;
        let rate = self.pacer.flow.on_sent(congestion, now, payload.length as u64);
        let packet = BurstPacket { sequence, wire_bytes: wire_bytes(&headers, &payload), is_last };
        let stamp = self.pacer.pace_burst(now, &packet, rate, context.settings.line_rate.0 as f64);
        if headers.bth.ack_req && !is_retransmission {
            self.sends.stamp(sequence, stamp);
        }
        Some(self.transmit(headers, payload))
    }

    fn transmit(&self, headers: TransportHeaders, payload: Payload) -> Transmit {
        Transmit { qpn: self.qpn, headers, payload }
    }

    /// A packet came, with so much payload: where that goes.
    pub fn on_packet(
        &mut self,
        context: &mut Context,
        now: Time,
        headers: &TransportHeaders,
        payload_len: u32,
        is_marked: bool,
    ) -> Option<u64> {
        let bth = &headers.bth;
        let NicSettings { congestion, min_time_between_cnps, .. } = context.settings;
        let uses = congestion.uses();
        if bth.opcode == Opcode::Cnp {
            if uses.cnps {
                self.pacer.flow.on_cnp(congestion, now);
                context.counters.rp_cnp_handled += 1;
            } else {
                context.counters.rp_cnp_ignored += 1;
            }
            return None;
        }
        if is_marked {
            // The notification point sees every packet, in sequence or not.
            context.counters.np_ecn_marked_roce_packets += 1;
            self.cnp_waits |= uses.cnps && self.notification_point.on_ecn_marked(now, *min_time_between_cnps);
        }
        if self.is_failed {
            return None;
        }
        match (bth.opcode, headers.extension) {
            (Opcode::Acknowledge, Extension::Aeth(aeth)) => {
                let answered = self.sends.on_acknowledge(&self.connection, now, bth.psn, &aeth);
                if let Some(rtt) = self.sends.take_rtt().filter(|_| uses.acks) {
                    self.inform_controller(congestion, now, rtt, bth.becn);
                }
                self.on_answered(context, now, answered);
                None
            }
            (
                Opcode::ReadResponseFirst
                | Opcode::ReadResponseMiddle
                | Opcode::ReadResponseLast
                | Opcode::ReadResponseOnly,
                _,
            ) => {
                let (answered, address) =
                    self.sends.on_read_response(&self.connection, now, bth, payload_len);
                self.on_answered(context, now, answered);
                address
            }
            (opcode, _) if opcode.is_request() => {
                self.on_request(context, now, headers, payload_len, is_marked)
            }
            _ => None,
        }
    }

    /// An ACK came whose packet's time is known. What it acknowledges is not completed yet.
    fn inform_controller(&mut self, congestion: &Congestion, now: Time, rtt: Time, marked: bool) {
        let (c, sends) = (&self.connection, &self.sends);
        let acknowledged_bytes = sends.acknowledged_bytes(c);
        let newly_acked_bytes =
            acknowledged_bytes - std::mem::replace(&mut self.told_bytes, acknowledged_bytes);
        let burst = congestion.burst_bytes().filter(|_| newly_acked_bytes > 0);
        let ack = AckInfo {
            now,
            rtt,
            receiver_delay: Time::ZERO,
            completes_burst: burst.is_some_and(|burst| sends.acknowledged_ends_burst(c, burst)),
            newly_acked_bytes,
            acknowledged_bytes,
            sent_bytes: sends.next_bytes(c),
            marked,
            hop_count: 0,
            hops: &[],
        };
        self.pacer.flow.on_ack(congestion, &ack);
    }

    fn on_request(
        &mut self,
        context: &mut Context,
        now: Time,
        headers: &TransportHeaders,
        payload_len: u32,
        is_marked: bool,
    ) -> Option<u64> {
        let (c, regions) = (&self.connection, context.regions);
        let outcome = self.receives.on_request(c, regions, now, headers, payload_len, is_marked);
        match outcome {
            Outcome::Accepted { address, completed } => {
                if let Some(completed) = completed {
                    self.report_received(context, completed);
                }
                return (payload_len > 0).then_some(address);
            }
            Outcome::OutOfSequence { is_new } => context.counters.out_of_sequence += is_new as u64,
            Outcome::Duplicate => context.counters.duplicate_request += 1,
            Outcome::NotReady => context.counters.rnr_naks_sent += 1,
            Outcome::Refused(code) => self.fail(context, Failure::RefusedPeer(code)),
        }
        None
    }

    fn on_answered(&mut self, context: &mut Context, now: Time, answered: Answered) {
        // What it acknowledges is done, also where the rest fails.
        while let Some(SendRequest { wr_id, .. }) = self.sends.pop_completed() {
            context.events.push_back(Event::Sent { qpn: self.qpn, wr_id, status: Status::Success });
        }
        if matches!(answered, Answered::Nak | Answered::ImpliedNak) {
            self.on_loss(context, now, Loss::Nak);
        }
        match answered {
            Answered::Acknowledged => {}
            Answered::Nak => context.counters.packet_seq_err += 1,
            Answered::ImpliedNak => context.counters.implied_nak_seq_err += 1,
            Answered::NotReady => context.counters.rnr_naks_received += 1,
            Answered::RnrRetriesExceeded => {
                context.counters.rnr_nak_retry_err += 1;
                self.fail(context, Failure::RnrRetriesExceeded);
            }
            Answered::Refused(code) => self.fail(context, Failure::RefusedByPeer(code)),
            Answered::BadResponse => self.fail(context, Failure::BadResponse),
        }
    }

    /// This end goes back: its controller hears of it.
    fn on_loss(&mut self, context: &mut Context, now: Time, loss: Loss) {
        let congestion = &context.settings.congestion;
        self.pacer.flow.on_loss(congestion, now, loss);
        if self.connection.losses_are_cnps && congestion.uses().cnps {
            self.pacer.flow.on_cnp(congestion, now);
            context.counters.rp_cnp_handled += 1;
            context.counters.roce_slow_restart_cnps += (loss == Loss::Timeout) as u64;
        }
    }

    /// The transport timer or the controller's may be due, or the NAK of a gap.
    pub fn on_timeout(&mut self, context: &mut Context, now: Time) {
        self.receives.on_timeout(now);
        let congestion = &context.settings.congestion;
        if self.pacer.flow.next_timeout(congestion).is_some_and(|at| at <= now) {
            self.pacer.flow.on_timeout(congestion, now);
        }
        match self.sends.on_timeout(&self.connection, now) {
            Timeout::None => {}
            Timeout::Retry => {
                context.counters.local_ack_timeout_err += 1;
                self.on_loss(context, now, Loss::Timeout);
            }
            Timeout::Failed => {
                context.counters.local_ack_timeout_err += 1;
                self.fail(context, Failure::RetriesExceeded);
            }
        }
    }

    /// The queue pair is in error: says so, and ends all its work requests. The first of those sent is the one that failed,
    /// unless it was the peer's.
    fn fail(&mut self, context: &mut Context, failure: Failure) {
        let qpn = self.qpn;
        self.is_failed = true;
        self.sends.fail();
        context.events.push_back(Event::Failed { qpn, failure });
        let is_own = !matches!(failure, Failure::RefusedPeer(_));
        let mut status = if is_own { Status::Failed(failure) } else { Status::Flushed };
        while let Some(SendRequest { wr_id, .. }) = self.sends.pop_flushed() {
            context.events.push_back(Event::Sent { qpn, wr_id, status });
            status = Status::Flushed;
        }
        while let Some(ReceiveRequest { wr_id, .. }) = self.receives.pop_flushed() {
            let status = Status::Flushed;
            context.events.push_back(Event::Received { qpn, wr_id, status, length: 0, immediate: None });
        }
    }

    fn report_received(&self, context: &mut Context, completed: Completed) {
        let Completed { receive: ReceiveRequest { wr_id, .. }, length, immediate } = completed;
        let (qpn, status) = (self.qpn, Status::Success);
        context.events.push_back(Event::Received { qpn, wr_id, status, length, immediate });
    }
}
