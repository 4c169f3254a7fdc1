//! A queue pair: its send queue, its receive side, its rate and its notification point.

use std::collections::VecDeque;

use super::memory::Regions;
use super::pacing::Pacer;
use super::receive_queue::{Completed, Outcome, ReceiveQueue};
use super::send_queue::{Answered, SendQueue};
use super::work::{Event, Failure, ReceiveRequest, SendRequest, Status};
use super::{Connection, Counters, NicSettings, Payload, Transmit};
use crate::congestion::dcqcn::NotificationPoint;
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

#[derive(Clone, Debug)]
pub(super) struct QueuePair {
    qpn: u32,
    connection: Connection,
    sends: SendQueue,
    receives: ReceiveQueue,
    pacer: Pacer,
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
            pacer: Pacer::new(settings.dcqcn.as_ref()),
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
        let request_at = self.sends.next_at(&self.connection);
        let at = if self.receives.has_response() { Some(Time::ZERO) } else { request_at };
        at.map(|at| at.max(self.pacer.next_at()))
    }

    /// When its transport timer is due.
    pub fn next_timeout(&self) -> Option<Time> {
        self.sends.next_timeout()
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
        let may_request = self.sends.next_at(&self.connection).is_some_and(|at| at <= now);
        let responds = self.receives.has_response() && !(may_request && self.response_was_last);
        self.response_was_last = responds;
        let (headers, payload) = if responds {
            self.receives.reply(&self.connection)?
        } else if may_request {
            let (headers, payload, is_retransmission) = self.sends.send(&self.connection, now);
            context.counters.retransmitted_packets += is_retransmission as u64;
            (headers, payload)
        } else {
            return None;
        };
        let frame_bytes = roce_frame_bytes(headers.bth.opcode, payload.length);
        let wire_bytes = frame_bytes + PREAMBLE_AND_GAP_BYTES;
        let NicSettings { dcqcn, line_rate, .. } = context.settings;
        self.pacer.on_sent(dcqcn.as_ref(), line_rate.0 as f64, now, payload.length, wire_bytes);
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
        if bth.opcode == Opcode::Cnp {
            if self.pacer.on_cnp(context.settings.dcqcn.as_ref(), now) {
                context.counters.rp_cnp_handled += 1;
            } else {
                context.counters.rp_cnp_ignored += 1;
            }
            return None;
        }
        if is_marked {
            // The notification point sees every packet, in sequence or not.
            context.counters.np_ecn_marked_roce_packets += 1;
            let NicSettings { dcqcn, min_time_between_cnps, .. } = context.settings;
            self.cnp_waits |=
                dcqcn.is_some() && self.notification_point.on_ecn_marked(now, *min_time_between_cnps);
        }
        if self.is_failed {
            return None;
        }
        match (bth.opcode, headers.extension) {
            (Opcode::Acknowledge, Extension::Aeth(aeth)) => {
                let answered = self.sends.on_acknowledge(&self.connection, now, bth.psn, &aeth);
                self.on_answered(context, answered);
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
                self.on_answered(context, answered);
                address
            }
            (opcode, _) if opcode.is_request() => self.on_request(context, headers, payload_len),
            _ => None,
        }
    }

    fn on_request(
        &mut self,
        context: &mut Context,
        headers: &TransportHeaders,
        payload_len: u32,
    ) -> Option<u64> {
        let outcome = self.receives.on_request(&self.connection, context.regions, headers, payload_len);
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

    fn on_answered(&mut self, context: &mut Context, answered: Answered) {
        // What it acknowledges is done, also where the rest fails.
        while let Some(SendRequest { wr_id, .. }) = self.sends.pop_completed() {
            context.events.push_back(Event::Sent { qpn: self.qpn, wr_id, status: Status::Success });
        }
        match answered {
            Answered::Acknowledged(_) => {}
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

    /// The transport timer may be due.
    pub fn on_timeout(&mut self, context: &mut Context, now: Time) {
        match self.sends.on_timeout(&self.connection, now) {
            Timeout::None => {}
            Timeout::Retry => context.counters.local_ack_timeout_err += 1,
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
