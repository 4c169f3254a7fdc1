//! A queue pair: its send queue, its receive side, its rate and its notification point.

use std::collections::VecDeque;

use super::memory::Regions;
use super::receive_queue::{Completed, Outcome, ReceiveQueue};
use super::send_queue::{Answered, SendQueue};
use super::work::{Event, Failure, ReceiveRequest, SendRequest, Status};
use super::{Common, Connection, Counters, NicSettings, Payload, Shown, Standing, Transmit};
use crate::congestion::builtin::Congestion;
use crate::congestion::notification_point::NotificationPoint;
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
    notification_point: NotificationPoint,
    cnp_waits: bool,
    is_failed: bool,
    /// The last data packet was a response: a request is next, if there is one.
    response_was_last: bool,
    /// Whether it is in the NIC's rings, by class, and when the NIC wakes it.
    pub in_ring: [bool; 2],
    pub wake_at: Time,
}

fn common<'a>(connection: &'a Connection, settings: &'a NicSettings) -> Common<'a> {
    let NicSettings { congestion, line_rate, .. } = settings;
    Common { rc: &connection.rc, congestion, line_rate: line_rate.0 as f64 }
}

impl QueuePair {
    pub fn new(qpn: u32, connection: Connection, settings: &NicSettings) -> Self {
        QueuePair {
            qpn,
            sends: SendQueue::new(&connection, &settings.congestion),
            receives: ReceiveQueue::new(connection.rq_psn),
            connection,
            notification_point: NotificationPoint::default(),
            cnp_waits: false,
            is_failed: false,
            response_was_last: false,
            in_ring: [false; 2],
            wake_at: Time::NEVER,
        }
    }

    pub fn is_failed(&self) -> bool {
        self.is_failed
    }

    pub fn shown(&self, congestion: &Congestion, now: Time) -> Shown {
        let flow = &self.sends.half.pacer.flow;
        let signals = 0..congestion.signals().len();
        Shown {
            rate_bps: flow.rate_at(congestion, now),
            signals: signals.map(|number| flow.signal(congestion, now, number)).collect(),
            sent_bytes: self.sends.next_bytes(),
        }
    }

    pub fn post_send(&mut self, request: SendRequest) {
        self.sends.post(request);
    }

    pub fn post_receive(&mut self, request: ReceiveRequest) {
        self.receives.post(request);
    }

    /// Whether an ACK, a NAK or a CNP waits, which no pacing holds up.
    pub fn has_control(&self) -> bool {
        self.cnp_waits || self.receives.has_acknowledge()
    }

    /// When its next data packet may leave, pacing aside; none: there is none.
    fn unpaced_data_at(&self) -> Option<Time> {
        if self.receives.has_response() {
            return Some(Time::ZERO);
        }
        self.request_at()
    }

    /// Where its data stands.
    pub fn standing(&self, now: Time) -> Standing {
        let at = self.unpaced_data_at().map(|at| at.max(self.sends.half.pacer.next_at()));
        Standing::new(at, now)
    }

    /// The same, where its rate may have risen; it waits until it is to be looked at again.
    pub fn look_again(&mut self, settings: &NicSettings, now: Time) -> Standing {
        let standing = self.standing(now);
        let (Standing::Waits(_), Some(from)) = (standing, self.unpaced_data_at()) else { return standing };
        self.sends.half.pacer.look_again(&settings.congestion, now, from, |rate| rate)
    }

    /// When its next request may leave, pacing aside.
    fn request_at(&self) -> Option<Time> {
        self.sends.next_at(&self.connection)
    }

    /// When its transport timer or its controller's is due.
    pub fn next_timeout(&self, settings: &NicSettings) -> Option<Time> {
        let controller = self.sends.half.pacer.flow.next_timeout(&settings.congestion);
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

    /// The next data packet: call only where it is [`Standing::Ready`].
    pub fn send_data(&mut self, context: &mut Context, now: Time) -> Option<Transmit> {
        let may_request = self.request_at().is_some_and(|at| at <= now);
        let responds = self.receives.has_response() && !(may_request && self.response_was_last);
        self.response_was_last = responds;
        if responds {
            let (headers, payload) = self.receives.reply(&self.connection)?;
            let pacer = &mut self.sends.half.pacer;
            let rate = pacer.flow.on_sent(&context.settings.congestion, now, payload.length as u64);
            let frame_bytes = roce_frame_bytes(headers.bth.opcode, payload.length);
            pacer.pace(now, frame_bytes + PREAMBLE_AND_GAP_BYTES, rate);
            return Some(self.transmit(headers, payload));
        }
        if !may_request {
            return None;
        }
        let common = common(&self.connection, context.settings);
        let (headers, payload) = self.sends.send(&self.connection, &common, now, context.counters);
        Some(self.transmit(headers, payload))
    }

    fn transmit(&self, headers: TransportHeaders, payload: Payload) -> Transmit {
        Transmit { qpn: self.qpn, headers, payload }
    }

    /// A packet came. Returns where its payload goes.
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
        if bth.opcode == Opcode::Cnp {
            self.sends.half.on_cnp(congestion, now, context.counters);
            return None;
        }
        if is_marked {
            let point = congestion.uses().cnps.then_some(&mut self.notification_point);
            let half = &self.receives.half;
            self.cnp_waits |= half.on_marked(now, point, *min_time_between_cnps, context.counters);
        }
        if self.is_failed {
            return None;
        }
        match (bth.opcode, headers.extension) {
            (Opcode::Acknowledge, Extension::Aeth(aeth)) => {
                let common = common(&self.connection, context.settings);
                let (c, counters) = (&self.connection, &mut *context.counters);
                let answered = self.sends.on_acknowledge(c, &common, now, bth.psn, &aeth, counters);
                self.sends.inform_controller(congestion, now, bth.becn, counters);
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
                let common = common(&self.connection, context.settings);
                let (answered, address) =
                    self.sends.on_read_response(&common, now, bth, payload_len, context.counters);
                self.on_answered(context, answered);
                address
            }
            (opcode, _) if opcode.is_request() => {
                self.on_request(context, now, headers, payload_len, is_marked)
            }
            _ => None,
        }
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
        let counters = &mut *context.counters;
        self.receives.is_marked |= is_marked;
        let outcome = self.receives.on_request(c, regions, now, headers, payload_len, counters);
        match outcome {
            Outcome::Accepted { address, completed } => {
                if let Some(completed) = completed {
                    self.report_received(context, completed);
                }
                return (payload_len > 0).then_some(address);
            }
            Outcome::Unexpected => {}
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
            Answered::Acknowledged => {}
            Answered::NotReady => context.counters.rnr_naks_received += 1,
            Answered::RnrRetriesExceeded => {
                context.counters.rnr_nak_retry_err += 1;
                self.fail(context, Failure::RnrRetriesExceeded);
            }
            Answered::Refused(code) => self.fail(context, Failure::RefusedByPeer(code)),
            Answered::BadResponse => self.fail(context, Failure::BadResponse),
        }
    }

    /// The transport timer or the controller's may be due, or the NAK of a gap.
    pub fn on_timeout(&mut self, context: &mut Context, now: Time) {
        self.receives.on_timeout(now);
        let congestion = &context.settings.congestion;
        let flow = &mut self.sends.half.pacer.flow;
        if flow.next_timeout(congestion).is_some_and(|at| at <= now) {
            flow.on_timeout(congestion, now);
        }
        let common = common(&self.connection, context.settings);
        if self.sends.on_timeout(&common, now, context.counters) == Timeout::Failed {
            self.fail(context, Failure::RetriesExceeded);
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
