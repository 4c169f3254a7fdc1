//! A queue pair: its send queue, its receive side, its rate and its notification point.

use std::collections::{BTreeMap, VecDeque};
use std::iter::Sum;
use std::num::{NonZeroU16, NonZeroU64};

use super::Standing;
use crate::congestion::builtin::{Congestion, Flow};
use crate::congestion::dcqcn::NotificationPoint;
use crate::congestion::{AckInfo, HopTelemetry, Loss, Uses};
use crate::transport::rc::{
    wire_psn, NakCause, RcParameters, Requester, Responder, SlowRestart, Timeout, Verdict,
};
use crate::units::{Rate, Time};
use crate::wire::bth::{cnp, rnr_timer, MAX_24_BITS};
use crate::wire::{
    roce_frame_bytes, write_frame_bytes, Aeth, Bth, Extension, ImmDt, NakCode, Opcode, Reth, Syndrome,
    TransportHeaders, PREAMBLE_AND_GAP_BYTES,
};

/// The NIC's state that a queue pair works with.
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
    /// By class, true if it is in the NIC's ring; and when the NIC wakes it.
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

    /// True if an ACK, a NAK or a CNP waits, which no pacing holds up.
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

    /// True if its next data packet may leave.
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
            let half = &self.receives.half;
            let answers = self.connection.rc.discarded_cause_cnps || half.responder.takes(bth.psn);
            let point = (congestion.uses().cnps && answers).then_some(&mut self.notification_point);
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

// What is asked of a queue pair, and what it reports (IBTA 10.8 and 11.4: work requests and completions).

/// Most bytes in one message (IBTA 9.7.7: 2^31).
pub const MAX_MESSAGE_BYTES: u32 = 1 << 31;

/// A send work request. Addresses are those of the host's own memory, which its driver reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendRequest {
    /// Chosen by whoever posts it; its completion has it, too.
    pub wr_id: u64,
    pub operation: Operation,
    /// Local memory that is sent, or that a READ fills.
    pub address: u64,
    /// Bytes, at most [`MAX_MESSAGE_BYTES`].
    pub length: u32,
}

/// What a send work request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// To the peer's next receive.
    Send {
        /// For the receive's completion.
        immediate: Option<ImmDt>,
    },
    /// To the peer's memory. With immediate data it completes a receive there, too.
    Write {
        remote_address: u64,
        /// Key of the peer's memory region.
        r_key: u32,
        /// For the receive's completion.
        immediate: Option<ImmDt>,
    },
    /// From the peer's memory.
    Read {
        remote_address: u64,
        /// Key of the peer's memory region.
        r_key: u32,
    },
}

/// A receive work request: where the next SEND goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveRequest {
    /// Chosen by whoever posts it.
    pub wr_id: u64,
    /// Key of the memory region that it lies in.
    pub l_key: u32,
    /// Memory to fill.
    pub address: u64,
    /// Room, bytes.
    pub length: u32,
}

/// Why a queue pair is in error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Nothing came back for as long as the retries take.
    RetriesExceeded,
    /// The peer had no receive too often.
    RnrRetriesExceeded,
    /// The peer refused a request of this end.
    RefusedByPeer(NakCode),
    /// This end refused a request of the peer.
    RefusedPeer(NakCode),
    /// A READ response does not fit the READ.
    BadResponse,
}

/// How a work request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It is done.
    Success,
    /// It is what the queue pair failed at.
    Failed(Failure),
    /// The queue pair failed before it came to it.
    Flushed,
}

/// Something to know of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A send work request ended.
    Sent {
        /// Queue pair.
        qpn: u32,
        /// The request's.
        wr_id: u64,
        /// How it ended.
        status: Status,
    },
    /// A receive work request ended.
    Received {
        /// Queue pair.
        qpn: u32,
        /// The request's.
        wr_id: u64,
        /// How it ended.
        status: Status,
        /// Bytes of the message: in the receive's memory, or where the WRITE with immediate went.
        length: u32,
        /// Immediate data.
        immediate: Option<ImmDt>,
    },
    /// The queue pair is in error. The ends of its work requests follow.
    Failed {
        /// Queue pair.
        qpn: u32,
        /// Why.
        failure: Failure,
    },
}

/// Why a request cannot be posted, or a queue pair not be set so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostError {
    /// There is no such queue pair, or it is not connected.
    NoQueuePair,
    /// The queue pair is in error.
    Failed,
    /// The message is longer than [`MAX_MESSAGE_BYTES`].
    TooLong,
}

// Messages as the sending half of a queue pair sees them: a stream of packets.

/// A packet of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Payload that it brings, bytes.
    pub payload_bytes: u32,
    /// Its frame, bytes.
    pub frame_bytes: u32,
}

/// Posted messages, by sequence number.
pub trait Messages {
    /// A packet.
    fn segment(&self, sequence: u64) -> Segment;

    /// How many responses a packet asks for, where it is the request of a READ: it takes as many sequence numbers.
    fn responses(&self, sequence: u64) -> Option<u64>;

    /// Where a packet begins in the stream of payload.
    fn position(&self, sequence: u64) -> u64;

    /// True if a packet is the last of a burst: bursts begin with their message, and a message's last may be shorter.
    fn ends_burst(&self, sequence: u64, burst_bytes: NonZeroU64) -> bool;
}

/// WRITEs of one size, one after the other, from sequence number 0 on. However many there are, they take no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EqualWrites {
    /// Payload of one.
    pub message_bytes: u64,
    /// Payload of a full packet.
    pub mtu: u32,
    /// Packets of one.
    pub packets_per_message: u64,
    /// Payload of its last packet.
    pub last_payload: u32,
    /// Its first packet, those between, and its last.
    segments: [Segment; 3],
}

impl EqualWrites {
    /// WRITEs of `message_bytes` each, more than none.
    pub fn new(message_bytes: u64, mtu: u32) -> Self {
        let packets = message_bytes.div_ceil(mtu as u64);
        let last_payload = (message_bytes - (packets - 1) * mtu as u64) as u32;
        let segment = |payload_bytes, is_first| Segment {
            payload_bytes,
            frame_bytes: write_frame_bytes(payload_bytes, is_first),
        };
        EqualWrites {
            message_bytes,
            mtu,
            packets_per_message: packets,
            last_payload,
            segments: [segment(mtu, true), segment(mtu, false), segment(last_payload, packets == 1)],
        }
    }

    /// Messages that are complete before a packet.
    #[inline]
    pub fn complete_before(&self, sequence: u64) -> u64 {
        sequence / self.packets_per_message
    }
}

impl Messages for EqualWrites {
    #[inline]
    fn segment(&self, sequence: u64) -> Segment {
        let [first, between, last] = &self.segments;
        if self.packets_per_message == 1 {
            return *last;
        }
        let position = sequence % self.packets_per_message;
        if position + 1 == self.packets_per_message {
            *last
        } else if position == 0 {
            *first
        } else {
            *between
        }
    }

    #[inline]
    fn responses(&self, _: u64) -> Option<u64> {
        None
    }

    fn position(&self, sequence: u64) -> u64 {
        let (messages, packets) = (sequence / self.packets_per_message, sequence % self.packets_per_message);
        messages * self.message_bytes + packets * self.mtu as u64
    }

    fn ends_burst(&self, sequence: u64, burst_bytes: NonZeroU64) -> bool {
        let after = sequence % self.packets_per_message + 1;
        after == self.packets_per_message || after.is_multiple_of(burst_bytes.get().div_ceil(self.mtu as u64))
    }
}

// The inputs, the outputs and the counters of a NIC and its queue pairs.

/// Settings of a NIC.
#[derive(Debug)]
pub struct NicSettings {
    /// Congestion control of its queue pairs, on its link. One that listens to CNPs also makes them.
    pub congestion: Congestion,
    pub line_rate: Rate,
    /// Least time between two CNPs of a queue pair.
    pub min_time_between_cnps: Time,
    /// Number of its first queue pair; the others follow. 0 and 1 are for management (IBTA 3.9.5).
    pub first_qpn: u32,
}

/// The settings with which a queue pair is connected (`ibv_modify_qp`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The peer's queue pair, 24 bits.
    pub dest_qp: u32,
    /// PSN of the first packet to send, 24 bits.
    pub sq_psn: u32,
    /// PSN of the first packet to receive, 24 bits.
    pub rq_psn: u32,
    /// Payload of a full packet, bytes; 256 to 4096 by powers of two.
    pub path_mtu: u32,
    /// Requests for ACKs, timer, retries, and what follows a loss.
    pub rc: RcParameters,
    /// RNR NAKs in a row that are followed by a retry; 7: any number.
    pub rnr_retry: u8,
    /// Code of the time that this end's RNR NAKs ask for, 5 bits ([`crate::wire::bth::rnr_timer`]).
    pub min_rnr_timer: u8,
    /// READs that this end may have under way.
    pub max_rd_atomic: u8,
    /// READs of the peer that this end answers at a time.
    pub max_dest_rd_atomic: u8,
}

/// Memory that is the payload of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payload {
    pub address: u64,
    /// Bytes; 0: there is none.
    pub length: u32,
}

impl Payload {
    pub(super) const NONE: Payload = Payload { address: 0, length: 0 };
}

/// A packet to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Queue pair that sends it.
    pub qpn: u32,
    /// Its headers.
    pub headers: TransportHeaders,
    /// Its payload.
    pub payload: Payload,
}

/// What a queue pair shows.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    /// Rate of its controller, bit/s.
    pub rate_bps: f64,
    /// The controller's signals: see [`Congestion::signals`].
    pub signals: Vec<f64>,
    /// Payload of its WRITEs and SENDs that was sent, what is sent again not counted.
    pub sent_bytes: u64,
}

macro_rules! counters {
    ($($(#[$help:meta])* $name:ident,)*) => {
        /// Counters of a queue pair or a NIC, under their mlx5 names where those exist (`rdma statistic`, `ethtool -S`).
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize))]
        pub struct Counters {
            $($(#[$help])* pub $name: u64,)*
        }

        impl Sum<Counters> for Counters {
            fn sum<I: Iterator<Item = Counters>>(all: I) -> Counters {
                all.fold(Counters::default(), |sum, one| Counters { $($name: sum.$name + one.$name,)* })
            }
        }
    };
}

counters! {
    np_ecn_marked_roce_packets,
    np_cnp_sent,
    rp_cnp_handled,
    rp_cnp_ignored,
    /// Answers with a delay that congestion control acts on; no NIC shows this one.
    delay_probes,
    /// Gaps, at the responder.
    out_of_sequence,
    /// NAKs of gaps, at the requester.
    packet_seq_err,
    /// READ responses that were found missing.
    implied_nak_seq_err,
    local_ack_timeout_err,
    /// Timeouts that were CNPs to congestion control.
    roce_slow_restart_cnps,
    /// NAKs that were; no NIC shows this one.
    nak_cnps,
    /// Timeouts of a timer that adapts.
    roce_adp_retrans,
    /// Slow restarts after losses.
    roce_slow_restart,
    /// Queue pairs that ran out of retries.
    req_transport_retries_exceeded,
    duplicate_request,
    /// Queue pairs that ran out of RNR retries.
    rnr_nak_retry_err,
    rnr_naks_sent,
    rnr_naks_received,
    retransmitted_packets,
}

// Memory regions: which addresses a key opens, and to what (IBTA 10.6).

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// WRITE.
    pub remote_write: bool,
    /// READ.
    pub remote_read: bool,
}

/// A memory region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    pub address: u64,
    /// Bytes.
    pub length: u64,
    /// What peers may do.
    pub access: Access,
}

/// The regions of a NIC by their keys; local and remote key of a region are one here, as in Linux' rxe.
#[derive(Clone, Debug, Default)]
pub(super) struct Regions(BTreeMap<u32, Region>);

impl Regions {
    pub fn insert(&mut self, key: u32, region: Region) {
        self.0.insert(key, region);
    }

    /// True if a key opens all of a range. An empty range needs no key (IBTA 9.7.4.1.3).
    pub fn allow(&self, key: u32, address: u64, length: u32, access: impl Fn(Access) -> bool) -> bool {
        if length == 0 {
            return true;
        }
        let Some(region) = self.0.get(&key) else { return false };
        let offset = address.checked_sub(region.address);
        access(region.access)
            && offset.is_some_and(|offset| offset.saturating_add(length as u64) <= region.length)
    }
}

// The sending half of a queue pair: which packet may leave when, and what comes back for it.
//
// [`Requester`] counts packets, [`Pacer`] knows their rate. Here the two meet congestion control: what a packet adds to the
// wait for the next one, which ACKs are asked for, what answers and losses tell the controller. What the packets are made of
// is for the [`Messages`], their headers and their way to the wire for the driver: [`super::Nic`] writes them out, the
// simulator lets them run through a fabric.

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
    /// Features that its controller uses.
    pub uses: Uses,
    held_until: Time,
    /// Its controller, and when the rate lets its next packet leave.
    pub pacer: Pacer,
    /// Bytes that the controller has been told are acknowledged.
    controller_acked_bytes: u64,
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
    /// True if it was sent before.
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

/// What an answer echoes of the packet that it answers.
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
    /// For a connection whose first packet has this PSN.
    pub fn new(psn: u32, congestion: &Congestion) -> Self {
        SendingHalf {
            requester: Requester::new(psn),
            pacer: Pacer::new(congestion),
            uses: congestion.uses(),
            held_until: Time::ZERO,
            controller_acked_bytes: 0,
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
        self.controller_acked_bytes += bytes;
    }

    /// True if the next packet may leave at `by`.
    #[inline]
    pub fn standing(&self, messages: &impl Messages, by: Time) -> Standing {
        Standing::new(self.may_send(messages).then(|| self.next_at()), by)
    }

    /// True if a packet waits and the window lets it go. The last one may pass the window's end.
    #[inline]
    pub fn may_send(&self, messages: &impl Messages) -> bool {
        self.requester.has_work() && (!self.uses.window || self.window_is_open(messages))
    }

    /// True if the controller's window lets a packet go.
    #[inline(never)]
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
        } else if let Some(burst) = common.congestion.burst_bytes() {
            self.pacer.pace_limited(now, wire_bytes, rate, burst);
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
        cause: NakCause,
        counters: &mut Counters,
    ) -> (u64, bool) {
        let (newly, begins) = self.requester.on_selective_nak(common.rc, now, psn, ahead, cause);
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

    /// A CNP has come. Returns whether its controller hears of it.
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
            acknowledged_bytes - std::mem::replace(&mut self.controller_acked_bytes, acknowledged_bytes);
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

// How fast a queue pair may send: its controller, and when the next data packet may leave.
//
// After a packet of `b` bytes on the wire the next one may leave `8 b / rate` later, by the rate at that moment. Where the
// controller asks for bursts that holds for a burst: its packets follow each other at once.
//
// A wait is looked at again whenever its controller's rate may have risen ([`Pacer::look_at`]): what is left of it shrinks by as
// much as the rate has risen, as with a limiter that gathers tokens at that rate. A wait that ends before costs nothing. A cut
// leaves the packet that waits where it is.

/// A queue pair's rate. Requests and READ responses share it.
#[derive(Debug)]
#[repr(C)] // in the order in which a packet needs it
pub struct Pacer {
    next_at: Time,
    /// The rate that it waits by, bit/s.
    waits_by: f64,
    /// Its controller.
    pub flow: Flow,
    /// Boxed: most queue pairs are paced packet by packet.
    burst: Option<Box<Burst>>,
}

/// What a queue pair has sent of a burst.
#[derive(Clone, Copy, Debug, Default)]
struct Burst {
    began_at: Time,
    /// 0: the next packet begins one.
    wire_bytes: u64,
    /// The packet that continues it. Another one, after going back, begins anew.
    next_sequence: u64,
}

/// A packet of a burst that is being sent.
#[derive(Clone, Copy, Debug)]
pub struct BurstPacket {
    /// Sequence number.
    pub sequence: u64,
    /// Bytes on the wire.
    pub wire_bytes: u32,
    /// True if the burst ends with it.
    pub is_last: bool,
}

impl Pacer {
    /// That of a new queue pair.
    pub fn new(congestion: &Congestion) -> Self {
        let burst = congestion.burst_bytes().map(|_| Box::default());
        Pacer { flow: congestion.flow(), next_at: Time::ZERO, waits_by: 0.0, burst }
    }

    /// As if `packets` more had been sent.
    pub(super) fn skip(&mut self, packets: u64) {
        if let Some(burst) = &mut self.burst {
            burst.next_sequence += packets;
        }
    }

    /// When the rate lets the next data packet leave.
    #[inline]
    pub fn next_at(&self) -> Time {
        self.next_at
    }

    /// When to look again whether a data packet may leave, if only the rate stops it after `from`: at its time, or earlier if
    /// the rate may rise before.
    #[inline]
    pub fn look_at(&self, congestion: &Congestion, from: Time) -> Time {
        self.next_at.max(from).min(self.flow.rises_at(congestion))
    }

    /// The rate may have risen while that packet waits: where its sender stands, which waits until it is to be looked at again.
    /// `limit`: who else has a say in the rate.
    pub fn look_again(
        &mut self,
        congestion: &Congestion,
        now: Time,
        from: Time,
        limit: impl FnOnce(f64) -> f64,
    ) -> Standing {
        self.follow_rate(congestion, now, limit);
        if self.next_at.max(from) <= now {
            Standing::Ready
        } else {
            Standing::Waits(self.look_at(congestion, from))
        }
    }

    fn follow_rate(&mut self, congestion: &Congestion, now: Time, limit: impl FnOnce(f64) -> f64) {
        let Some(rate) = self.flow.followed_rate(congestion, now).map(limit) else { return };
        if self.next_at <= now || rate <= self.waits_by {
            return;
        }
        let left = (self.next_at - now).0 as f64 * (self.waits_by / rate);
        self.next_at = now + Time(left as u64);
        self.waits_by = rate;
    }

    /// A packet of `wire_bytes` is being sent; `rate` in bit/s paces the next one.
    #[inline]
    pub fn pace(&mut self, now: Time, wire_bytes: u32, rate: f64) {
        // Below 2^53 ps the product and the quotient are exact to a picosecond. Through a signed number, because that is
        // one instruction of the processor.
        self.next_at = now + Time((wire_bytes as f64 * 8e12 / rate) as i64 as u64);
        self.waits_by = rate;
    }

    /// The same of a limiter that lets `burst_bytes` go at once, and then waits as long as they take at `rate`.
    pub fn pace_limited(&mut self, now: Time, wire_bytes: u32, rate: f64, burst_bytes: NonZeroU64) {
        let Some(burst) = &mut self.burst else { return self.pace(now, wire_bytes, rate) };
        burst.wire_bytes += wire_bytes as u64;
        let owed =
            if burst.wire_bytes < burst_bytes.get() { 0 } else { std::mem::take(&mut burst.wire_bytes) };
        self.next_at = now + Time((owed as f64 * 8e12 / rate) as u64);
        self.waits_by = rate;
    }

    /// The same of a packet of a burst, if there are bursts, at `line_rate`. Returns the packet's time stamp: the burst's begin,
    /// and the burst's time on the link up to this packet's end, since what comes back later was not spent on sending it.
    pub fn pace_burst(&mut self, now: Time, packet: &BurstPacket, rate: f64, line_rate: f64) -> Time {
        let &BurstPacket { sequence, wire_bytes, is_last } = packet;
        let Some(burst) = &mut self.burst else {
            self.pace(now, wire_bytes, rate);
            return now;
        };
        if burst.wire_bytes == 0 || sequence != burst.next_sequence {
            **burst = Burst { began_at: now, wire_bytes: 0, next_sequence: sequence };
        }
        burst.wire_bytes += wire_bytes as u64;
        burst.next_sequence += 1;
        let takes = |rate: f64| Time((burst.wire_bytes as f64 * 8e12 / rate) as u64);
        let stamp = burst.began_at + takes(line_rate);
        self.next_at = if is_last { burst.began_at + takes(rate) } else { now };
        self.waits_by = rate;
        if is_last {
            burst.wire_bytes = 0;
        }
        stamp
    }
}

// The send queue of a queue pair: messages cut into packets on their way out, and what their answers mean for them.
//
// Which packet is sent when, and what an ACK acknowledges, is for [`SendingHalf`] to say. What is here knows that a READ is answered by its data and by nothing else: an ACK of something later says that a response was lost (the implied
// NAK, IBTA 9.7.5.1.2 and 9.7.6.1), and a response acknowledges all that came before it.

/// Sequence numbers that may be under way: half of those that there are, so that new ones differ from old ones (IBTA
/// 9.7.2).
const MAX_IN_FLIGHT: u64 = 1 << 23;

/// A message that was posted and is not completed.
#[derive(Clone, Copy, Debug)]
struct Message {
    /// Its first sequence number.
    first: u64,
    /// One past its last.
    end: u64,
    request: SendRequest,
    /// Payload that was posted before it: its own begins there in the stream of what this end sends.
    position: u64,
    /// It is a READ whose request is out and whose responses are awaited.
    awaited: bool,
}

impl Message {
    fn is_read(&self) -> bool {
        matches!(self.request.operation, Operation::Read { .. })
    }

    /// Payload that this end sends for it.
    fn sent_bytes(&self) -> u64 {
        if self.is_read() {
            0
        } else {
            self.request.length as u64
        }
    }
}

/// Requests that are posted and not completed.
#[derive(Clone, Debug)]
struct Requests {
    path_mtu: u32,
    list: VecDeque<Message>,
    /// Payload posted so far.
    posted_bytes: u64,
}

impl Requests {
    fn place_of(&self, sequence: u64) -> usize {
        self.list.partition_point(|message| message.end <= sequence)
    }

    fn at(&self, sequence: u64) -> &Message {
        &self.list[self.place_of(sequence)]
    }

    /// Opcode, extended headers and payload of a packet.
    fn packet(&self, sequence: u64) -> (Opcode, Extension, Payload) {
        let Message { first, end, request, .. } = *self.at(sequence);
        let offset = ((sequence - first) * self.path_mtu as u64) as u32;
        let rest = request.length - offset;
        let (is_first, is_last) = (offset == 0, sequence + 1 == end);
        let (opcode, extension) = match request.operation {
            Operation::Read { remote_address, r_key } => {
                let reth = Reth { va: remote_address.wrapping_add(offset as u64), r_key, dma_len: rest };
                return (Opcode::ReadRequest, Extension::Reth(reth), Payload::NONE);
            }
            Operation::Send { immediate } => send_headers(is_first, is_last, immediate),
            Operation::Write { remote_address, r_key, immediate } => {
                let reth = Reth { va: remote_address, r_key, dma_len: request.length };
                write_headers(is_first, is_last, immediate, reth)
            }
        };
        let address = request.address.wrapping_add(offset as u64);
        (opcode, extension, Payload { address, length: rest.min(self.path_mtu) })
    }
}

impl Messages for Requests {
    fn segment(&self, sequence: u64) -> Segment {
        let (opcode, _, payload) = self.packet(sequence);
        Segment { payload_bytes: payload.length, frame_bytes: roce_frame_bytes(opcode, payload.length) }
    }

    fn responses(&self, sequence: u64) -> Option<u64> {
        let message = self.at(sequence);
        message.is_read().then(|| message.end - sequence)
    }

    fn position(&self, sequence: u64) -> u64 {
        match self.list.get(self.place_of(sequence)) {
            None => self.posted_bytes,
            Some(message) => {
                let offset = (sequence - message.first) * self.path_mtu as u64;
                message.position + offset.min(message.sent_bytes())
            }
        }
    }

    /// The request of a READ is a burst.
    fn ends_burst(&self, sequence: u64, burst_bytes: NonZeroU64) -> bool {
        let message = self.list.get(self.place_of(sequence));
        message.filter(|message| message.first <= sequence).is_some_and(|message| {
            let after = sequence - message.first + 1;
            let is_full = after.is_multiple_of(burst_bytes.get().div_ceil(self.path_mtu as u64));
            message.is_read() || sequence + 1 == message.end || is_full
        })
    }
}

/// The effect of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answered {
    /// It acknowledged what it could, or this end goes back.
    Acknowledged,
    /// The peer had no receive. This end waits.
    NotReady,
    /// No retry is left.
    RnrRetriesExceeded,
    /// The peer refuses a request.
    Refused(NakCode),
    /// It cannot be an answer to what was asked.
    BadResponse,
}

#[derive(Debug)]
pub(super) struct SendQueue {
    pub half: SendingHalf,
    requests: Requests,
    /// Time stamps of packets that asked for an ACK, and were sent once.
    stamps: VecDeque<(u64, Time)>,
    /// Round-trip time that the last ACK shows.
    rtt: Option<Time>,
    /// READs awaited.
    reads_awaited: u32,
    /// The answer that was found missing last: once is enough for each.
    missed: Option<u64>,
}

impl SendQueue {
    pub fn new(c: &Connection, congestion: &Congestion) -> Self {
        SendQueue {
            half: SendingHalf::new(c.sq_psn, congestion),
            requests: Requests { path_mtu: c.path_mtu, list: VecDeque::new(), posted_bytes: 0 },
            stamps: VecDeque::new(),
            rtt: None,
            reads_awaited: 0,
            missed: None,
        }
    }

    pub fn post(&mut self, request: SendRequest) {
        let Requests { path_mtu, list, posted_bytes } = &mut self.requests;
        let packets = request.length.div_ceil(*path_mtu).max(1) as u64;
        let first = self.half.requester.posted();
        self.half.requester.post(packets);
        let message =
            Message { first, end: first + packets, request, position: *posted_bytes, awaited: false };
        *posted_bytes += message.sent_bytes();
        list.push_back(message);
    }

    /// When the next packet may leave, its rate aside; none: there is none.
    pub fn next_at(&self, c: &Connection) -> Option<Time> {
        if !self.half.may_send(&self.requests) {
            return None;
        }
        let requester = &self.half.requester;
        let message = self.requests.at(requester.next_sequence());
        let next = if message.is_read() { message.end } else { requester.next_sequence() + 1 };
        let may = next - requester.acknowledged() <= MAX_IN_FLIGHT
            && (!message.is_read() || self.reads_awaited < c.max_rd_atomic as u32);
        may.then_some(self.half.held_until())
    }

    /// Where the next packet begins in the stream of payload.
    pub fn next_bytes(&self) -> u64 {
        self.requests.position(self.half.requester.next_sequence())
    }

    /// The next packet: call only while [`Self::next_at`] and the rate allow.
    pub fn send(
        &mut self,
        c: &Connection,
        common: &Common,
        now: Time,
        counters: &mut Counters,
    ) -> (TransportHeaders, Payload) {
        let Sent { sequence, psn, ack_request, is_retransmission, stamp, .. } =
            self.half.send(common, now, &self.requests, 0, |_, rate| rate);
        counters.retransmitted_packets += is_retransmission as u64;
        if ack_request && !is_retransmission {
            self.stamps.push_back((sequence, stamp));
        }
        let (opcode, extension, payload) = self.requests.packet(sequence);
        let place = self.requests.place_of(sequence);
        let message = &mut self.requests.list[place];
        if message.is_read() {
            message.awaited = true;
            self.reads_awaited += 1;
        }
        let bth = Bth { ack_req: ack_request, ..Bth::new(opcode, c.dest_qp, psn, payload.length as usize) };
        (TransportHeaders { bth, extension }, payload)
    }

    /// An ACK or NAK.
    pub fn on_acknowledge(
        &mut self,
        c: &Connection,
        common: &Common,
        now: Time,
        psn: u32,
        aeth: &Aeth,
        counters: &mut Counters,
    ) -> Answered {
        let requester = &self.half.requester;
        let Some(sequence) = requester.sequence_of(psn) else { return Answered::Acknowledged };
        if sequence < requester.acknowledged() {
            return Answered::Acknowledged; // an old one
        }
        match aeth.syndrome {
            Syndrome::Ack { .. } => {
                self.time(now, sequence);
                self.acknowledge(common, now, sequence + 1, counters);
                Answered::Acknowledged
            }
            Syndrome::Reserved(_) => Answered::Acknowledged,
            Syndrome::Nak(code) if code != NakCode::PsnSequenceError => {
                self.acknowledge(common, now, sequence, counters);
                Answered::Refused(code)
            }
            // All packets before the named one were received, except for READs that are not answered.
            _ if self.unanswered_before(sequence) < sequence => {
                self.acknowledge(common, now, sequence, counters);
                Answered::Acknowledged
            }
            Syndrome::Nak(_) => {
                self.moving(|half| half.on_nak(common, now, psn, counters));
                Answered::Acknowledged
            }
            Syndrome::RnrNak { timer } => {
                let rnr_retry = c.rnr_retry;
                match self.moving(|half| half.requester.on_rnr_nak(common.rc, now, psn, rnr_retry)) {
                    Some(_) => {
                        self.half.hold(now + rnr_timer(timer));
                        Answered::NotReady
                    }
                    None => Answered::RnrRetriesExceeded,
                }
            }
        }
    }

    /// A READ response came. Returns what it did, and where its payload goes.
    pub fn on_read_response(
        &mut self,
        common: &Common,
        now: Time,
        bth: &Bth,
        payload_len: u32,
        counters: &mut Counters,
    ) -> (Answered, Option<u64>) {
        let nothing = (Answered::Acknowledged, None);
        let requester = &self.half.requester;
        let Some(sequence) = requester.sequence_of(bth.psn) else { return nothing };
        if sequence < requester.acknowledged() {
            return nothing;
        }
        let awaited = self.unanswered_before(sequence + 1);
        if awaited > sequence {
            return (Answered::BadResponse, None); // the answer to no READ
        }
        if awaited < sequence {
            self.go_back_for(common, now, awaited, counters);
            return nothing;
        }
        let message = self.requests.at(sequence);
        let offset = (sequence - message.first) * self.requests.path_mtu as u64;
        let length = (message.request.length as u64 - offset).min(self.requests.path_mtu as u64) as u32;
        let is_last = matches!(bth.opcode, Opcode::ReadResponseLast | Opcode::ReadResponseOnly);
        if payload_len != length || is_last != (sequence + 1 == message.end) {
            return (Answered::BadResponse, None);
        }
        let address = message.request.address.wrapping_add(offset);
        self.moving(|half| half.on_ack(common, now, bth.psn));
        (Answered::Acknowledged, Some(address))
    }

    /// Takes the time of the packet that an ACK answers. A packet that was sent twice has no time, since it is not known which
    /// copy is answered (as in TCP: Karn and Partridge, SIGCOMM 1987).
    fn time(&mut self, now: Time, sequence: u64) {
        while let Some(&(stamped, at)) = self.stamps.front().filter(|(stamped, _)| *stamped <= sequence) {
            self.stamps.pop_front();
            if stamped == sequence {
                self.rtt = Some(now - at);
            }
        }
    }

    /// Tells the controller of the ACK that was last, if it listens and the packet's time is known.
    pub fn inform_controller(
        &mut self,
        congestion: &Congestion,
        now: Time,
        marked: bool,
        counters: &mut Counters,
    ) {
        let rtt = self.rtt.take();
        if let Some(rtt) = rtt.filter(|_| self.half.uses.acks) {
            let echo =
                Echo { rtt, receiver_delay: Time::ZERO, marked, hop_count: 0, hops: &[], digest: None };
            self.half.inform_controller(congestion, now, &self.requests, true, &echo, counters);
        }
    }

    /// Acknowledges all before `upto`, or before the first READ there that is not answered.
    fn acknowledge(&mut self, common: &Common, now: Time, upto: u64, counters: &mut Counters) {
        let end = self.unanswered_before(upto);
        if end < upto {
            self.go_back_for(common, now, end, counters);
        } else if end > self.half.requester.acknowledged() {
            self.moving(|half| half.on_ack(common, now, wire_psn(end - 1)));
        }
    }

    /// The responses from `missing` on are lost; what came before was received. Asks for them again, once.
    fn go_back_for(&mut self, common: &Common, now: Time, missing: u64, counters: &mut Counters) {
        if self.missed.replace(missing) != Some(missing) {
            counters.implied_nak_seq_err += 1;
            self.moving(|half| half.go_back_to(common, now, wire_psn(missing), counters));
        }
    }

    /// The first sequence number of the first READ before `upto` that is not answered; `upto`, if there is none.
    fn unanswered_before(&self, upto: u64) -> u64 {
        // Those looked at are about to be completed, except for the last.
        let mut before = self.requests.list.iter().take_while(|message| message.first < upto);
        let read = before.find(|message| message.is_read());
        read.map_or(upto, |read| read.first.max(self.half.requester.acknowledged()))
    }

    /// The transport timer.
    pub fn on_timeout(&mut self, common: &Common, now: Time, counters: &mut Counters) -> Timeout {
        let timeout = self.moving(|half| half.on_timeout(common, now, counters));
        if timeout == Timeout::Retry {
            self.missed = None; // it is asked for again, and may be found missing again
        }
        timeout
    }

    pub fn next_timeout(&self) -> Option<Time> {
        self.half.requester.next_timeout()
    }

    /// Takes the next message that is acknowledged.
    pub fn pop_completed(&mut self) -> Option<SendRequest> {
        let acknowledged = self.half.requester.acknowledged();
        let message = self.requests.list.front().filter(|message| message.end <= acknowledged)?;
        self.reads_awaited -= message.awaited as u32;
        self.requests.list.pop_front().map(|message| message.request)
    }

    /// The queue pair is in error.
    pub fn fail(&mut self) {
        self.half.requester.fail();
    }

    /// Takes the next message of a queue pair in error.
    pub fn pop_flushed(&mut self) -> Option<SendRequest> {
        self.requests.list.pop_front().map(|message| message.request)
    }

    /// Does something that may go back. READs that will be sent again are not awaited any more.
    fn moving<T>(&mut self, act: impl FnOnce(&mut SendingHalf) -> T) -> T {
        let next = self.half.requester.next_sequence();
        let result = act(&mut self.half);
        if self.half.requester.next_sequence() < next {
            self.requests.list.iter_mut().for_each(|message| message.awaited = false);
            self.reads_awaited = 0;
            self.stamps.clear();
        }
        result
    }
}

fn send_headers(first: bool, last: bool, immediate: Option<ImmDt>) -> (Opcode, Extension) {
    match (first, last, immediate) {
        (true, true, None) => (Opcode::SendOnly, Extension::None),
        (true, true, Some(immediate)) => (Opcode::SendOnlyWithImmediate, Extension::ImmDt(immediate)),
        (true, false, _) => (Opcode::SendFirst, Extension::None),
        (false, false, _) => (Opcode::SendMiddle, Extension::None),
        (false, true, None) => (Opcode::SendLast, Extension::None),
        (false, true, Some(immediate)) => (Opcode::SendLastWithImmediate, Extension::ImmDt(immediate)),
    }
}

fn write_headers(first: bool, last: bool, immediate: Option<ImmDt>, reth: Reth) -> (Opcode, Extension) {
    match (first, last, immediate) {
        (true, true, None) => (Opcode::WriteOnly, Extension::Reth(reth)),
        (true, true, Some(immediate)) => {
            (Opcode::WriteOnlyWithImmediate, Extension::RethImmDt(reth, immediate))
        }
        (true, false, _) => (Opcode::WriteFirst, Extension::Reth(reth)),
        (false, false, _) => (Opcode::WriteMiddle, Extension::None),
        (false, true, None) => (Opcode::WriteLast, Extension::None),
        (false, true, Some(immediate)) => (Opcode::WriteLastWithImmediate, Extension::ImmDt(immediate)),
    }
}

// The receiving half of a queue pair: what is accepted, what is answered, and how marks are reported to the sender.

/// The receiving half of a queue pair.
#[derive(Clone, Debug, Default)]
pub struct ReceivingHalf {
    /// Its packets by number.
    pub responder: Responder,
}

impl ReceivingHalf {
    /// For a connection whose first packet has this PSN.
    pub fn new(psn: u32) -> Self {
        ReceivingHalf { responder: Responder::new(psn) }
    }

    /// It keeps what comes out of order, if these settings say so.
    pub fn with_recovery(mut self, rc: &RcParameters) -> Self {
        self.responder = self.responder.with_recovery(rc);
        self
    }

    /// A packet came with a CE mark, in sequence or not. Returns whether a CNP is to follow: by a notification point,
    /// which other queue pairs may share, where its sender lives on CNPs.
    #[inline]
    pub fn on_marked(
        &self,
        now: Time,
        point: Option<&mut NotificationPoint>,
        min_time_between_cnps: Time,
        counters: &mut Counters,
    ) -> bool {
        counters.np_ecn_marked_roce_packets += 1;
        point.is_some_and(|point| point.on_ecn_marked(now, min_time_between_cnps))
    }

    /// A request came that takes `packets` sequence numbers.
    #[inline]
    pub fn on_request(
        &mut self,
        psn: u32,
        packets: u64,
        ack_request: bool,
        counters: &mut Counters,
    ) -> Verdict {
        let verdict = self.responder.on_request(psn, packets, ack_request);
        match verdict {
            Verdict::Accepted { .. } => {}
            Verdict::Placed => counters.out_of_sequence += 1,
            // mlx5 counts a gap once, however many packets follow it (published: as many as NAKs).
            Verdict::OutOfSequence { nak } => counters.out_of_sequence += nak as u64,
            Verdict::Duplicate { .. } => counters.duplicate_request += 1,
        }
        verdict
    }
}

// The receive side of a queue pair: assembles requests into messages, checks them, and answers them.
//
// Whether a packet is the one expected is up to [`crate::transport::rc`]. Answers leave in the order of
// their requests (IBTA 9.7.5.1). An ACK waits behind the responses of an earlier READ, and ACKs that wait
// with nothing between them are merged. An ACK or NAK acknowledges all packets before it.

/// A message whose first packet came and whose last did not yet.
#[derive(Clone, Copy, Debug)]
enum Inbound {
    Write { next_address: u64, rest: u32, length: u32 },
    Send { receive: ReceiveRequest, received: u32 },
}

/// A reply to be sent.
#[derive(Clone, Copy, Debug)]
enum Reply {
    /// An ACK of all packets up to `sequence`, or a NAK that names it. `is_marked`: a packet that it answers
    /// carried a CE mark.
    Acknowledge { sequence: u64, aeth: Aeth, is_marked: bool },
    /// Responses of a READ, from sequence number `next` to before `end`. Each READ has one such entry.
    Read {
        next: u64,
        end: u64,
        address: u64,
        rest: u32,
        is_first: bool,
        /// The READ was answered before.
        is_again: bool,
        msn: u32,
    },
}

impl Reply {
    /// The last sequence number that the reply is about: replies leave in this order.
    fn key(&self) -> u64 {
        match *self {
            Reply::Acknowledge { sequence, .. } => sequence,
            Reply::Read { end, .. } => end - 1,
        }
    }
}

/// A receive that a message completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Completed {
    pub receive: ReceiveRequest,
    pub length: u32,
    pub immediate: Option<ImmDt>,
}

/// What became of a request packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It was in order, and its payload goes to this address.
    Accepted { address: u64, completed: Option<Completed> },
    /// Discarded, or answered again: a packet before it is missing, or it was received before.
    Unexpected,
    /// No receive was posted for it.
    NotReady,
    /// It is refused, and the queue pair is in error.
    Refused(NakCode),
}

/// Why a request is not accepted.
enum Refusal {
    NotReady,
    Nak(NakCode),
}

/// The effect of accepting a request.
struct Step {
    address: u64,
    /// The message under way afterwards.
    inbound: Option<Inbound>,
    takes_receive: bool,
    completed: Option<Completed>,
    ends_message: bool,
    read: Option<Reth>,
}

#[derive(Clone, Debug)]
pub(super) struct ReceiveQueue {
    pub half: ReceivingHalf,
    posted: VecDeque<ReceiveRequest>,
    inbound: Option<Inbound>,
    replies: VecDeque<Reply>,
    /// READs among the replies that are answered for the first time, and READs that are answered again.
    reads: u32,
    reads_again: u32,
    /// Messages completed, modulo 2^24.
    msn: u32,
    /// True if a packet since the last ACK or NAK carried a CE mark.
    pub is_marked: bool,
    /// When the NAK of the open gap joins the replies. None: it has joined them, or there is no gap.
    nak_due: Option<Time>,
}

impl ReceiveQueue {
    pub fn new(psn: u32) -> Self {
        ReceiveQueue {
            half: ReceivingHalf::new(psn),
            posted: VecDeque::new(),
            inbound: None,
            replies: VecDeque::new(),
            reads: 0,
            reads_again: 0,
            msn: 0,
            is_marked: false,
            nak_due: None,
        }
    }

    /// When the NAK of a gap is due, if the responder's slow path holds one.
    pub fn nak_due(&self) -> Option<Time> {
        self.nak_due
    }

    /// The NAK of a gap may be due.
    pub fn on_timeout(&mut self, now: Time) {
        if self.nak_due.is_some_and(|at| at <= now) {
            self.nak_due = None;
            self.acknowledge(self.half.responder.received(), Syndrome::Nak(NakCode::PsnSequenceError));
        }
    }

    pub fn post(&mut self, request: ReceiveRequest) {
        self.posted.push_back(request);
    }

    /// Takes the next receive of a queue pair in error. That of a message under way comes first.
    pub fn pop_flushed(&mut self) -> Option<ReceiveRequest> {
        if let Some(Inbound::Send { receive, .. }) = self.inbound.take() {
            return Some(receive);
        }
        self.posted.pop_front()
    }

    /// Handles a request with this many bytes of payload.
    pub fn on_request(
        &mut self,
        c: &Connection,
        regions: &Regions,
        now: Time,
        headers: &TransportHeaders,
        payload_len: u32,
        counters: &mut Counters,
    ) -> Outcome {
        let bth = &headers.bth;
        if !self.half.responder.expects(bth.psn) {
            self.on_unexpected(c, regions, now, headers, counters);
            return Outcome::Unexpected;
        }
        self.nak_due = None; // the gap is filled
        let step = match self.check(c, regions, headers, payload_len) {
            Ok(step) => step,
            Err(Refusal::NotReady) => {
                self.half.responder.on_not_ready();
                let timer = c.min_rnr_timer;
                self.acknowledge(self.half.responder.received(), Syndrome::RnrNak { timer });
                return Outcome::NotReady;
            }
            Err(Refusal::Nak(code)) => {
                self.acknowledge(self.half.responder.received(), Syndrome::Nak(code));
                return Outcome::Refused(code);
            }
        };
        let sequence = self.half.responder.received();
        let packets = step.read.map_or(1, |reth| packets_of(c, reth.dma_len));
        let verdict = self.half.on_request(bth.psn, packets, bth.ack_req, counters);
        self.inbound = step.inbound;
        if step.takes_receive {
            self.posted.pop_front();
        }
        // A READ counts as completed as soon as it is accepted (IBTA 9.7.5.1, C9-148).
        self.msn = (self.msn + step.ends_message as u32) & MAX_24_BITS;
        if let Some(reth) = step.read {
            self.answer_read(c, sequence, &reth, false);
        } else if verdict == (Verdict::Accepted { ack: true }) {
            self.acknowledge_received();
        }
        Outcome::Accepted { address: step.address, completed: step.completed }
    }

    /// Handles a request that is not the one expected.
    fn on_unexpected(
        &mut self,
        c: &Connection,
        regions: &Regions,
        now: Time,
        headers: &TransportHeaders,
        counters: &mut Counters,
    ) {
        let bth = &headers.bth;
        match self.half.on_request(bth.psn, 1, bth.ack_req, counters) {
            Verdict::Accepted { .. } | Verdict::Placed => unreachable!("it is not expected"),
            Verdict::OutOfSequence { nak } => {
                if nak {
                    self.nak_due = Some(now + c.rc.nak_delay);
                    self.on_timeout(now);
                }
            }
            Verdict::Duplicate { ack } => match (bth.opcode, headers.extension) {
                (Opcode::ReadRequest, Extension::Reth(reth)) => self.read_again(c, regions, bth.psn, &reth),
                _ if ack => self.acknowledge_received(),
                _ => {}
            },
        }
    }

    /// A READ, or the rest of one, is asked for again: its responses were lost, or the request came twice
    /// (IBTA 9.7.4.5). If too many wait already, this one is ignored, and the requester will ask once more.
    fn read_again(&mut self, c: &Connection, regions: &Regions, psn: u32, reth: &Reth) {
        let Some(sequence) = self.half.responder.sequence_of(psn) else { return };
        let end_asked = sequence + packets_of(c, reth.dma_len);
        let may = regions.allow(reth.r_key, reth.va, reth.dma_len, |access| access.remote_read);
        if end_asked > self.half.responder.received() || !may {
            return;
        }
        for reply in &mut self.replies {
            match reply {
                Reply::Read { next, end, address, rest, is_first, .. } if *end == end_asked => {
                    if *next > sequence {
                        (*next, *address, *rest, *is_first) = (sequence, reth.va, reth.dma_len, true);
                    }
                    return;
                }
                _ => {}
            }
        }
        if self.reads_again < c.max_dest_rd_atomic as u32 {
            self.answer_read(c, sequence, reth, true);
        }
    }

    fn answer_read(&mut self, c: &Connection, next: u64, reth: &Reth, is_again: bool) {
        let &Reth { va: address, dma_len: rest, .. } = reth;
        let end = next + packets_of(c, rest);
        self.reads += !is_again as u32;
        self.reads_again += is_again as u32;
        let reply = Reply::Read { next, end, address, rest, is_first: true, is_again, msn: self.msn };
        // A READ that is answered again goes before later replies: its requester accepts nothing else.
        let place = self.replies.iter().position(|waiting| waiting.key() >= reply.key());
        self.replies.insert(place.unwrap_or(self.replies.len()), reply);
    }

    fn acknowledge_received(&mut self) {
        if let Some(last) = self.half.responder.received().checked_sub(1) {
            self.acknowledge(last, Syndrome::ACK);
        }
    }

    /// Adds an ACK or NAK to the replies, merged with one that waits right before it. An ACK adds nothing to
    /// a NAK after which nothing came: that NAK says it all.
    fn acknowledge(&mut self, sequence: u64, syndrome: Syndrome) {
        let is_marked = std::mem::take(&mut self.is_marked);
        let aeth = Aeth { syndrome, msn: self.msn };
        match self.replies.back_mut() {
            Some(Reply::Acknowledge { sequence: before, aeth: said, is_marked: was_marked }) => {
                *was_marked |= is_marked;
                let says_it_all = said.syndrome != Syndrome::ACK && *before > sequence;
                if syndrome != Syndrome::ACK || !says_it_all {
                    (*before, *said) = (sequence, aeth);
                }
            }
            _ => self.replies.push_back(Reply::Acknowledge { sequence, aeth, is_marked }),
        }
    }

    /// True if the expected request may be carried out, and what that does.
    fn check(
        &self,
        c: &Connection,
        regions: &Regions,
        headers: &TransportHeaders,
        payload_len: u32,
    ) -> Result<Step, Refusal> {
        use Opcode::*;
        let invalid = Err(Refusal::Nak(NakCode::InvalidRequest));
        let immediate = match headers.extension {
            Extension::ImmDt(immediate) | Extension::RethImmDt(_, immediate) => Some(immediate),
            _ => None,
        };
        let reth = match headers.extension {
            Extension::Reth(reth) | Extension::RethImmDt(reth, _) => reth,
            _ => Reth::default(),
        };
        let opcode = headers.bth.opcode;
        let is_last = !matches!(opcode, SendFirst | SendMiddle | WriteFirst | WriteMiddle);
        if payload_len > c.path_mtu || (!is_last && payload_len != c.path_mtu) {
            return invalid;
        }
        let receive = self.posted.front().copied();
        match (opcode, self.inbound) {
            (WriteFirst | WriteOnly | WriteOnlyWithImmediate, None) => {
                let Reth { va, r_key, dma_len } = reth;
                let is_too_long = dma_len > MAX_MESSAGE_BYTES;
                if is_too_long || dma_len < payload_len || (dma_len > payload_len) == is_last {
                    return invalid;
                }
                if !regions.allow(r_key, va, dma_len, |access| access.remote_write) {
                    return Err(Refusal::Nak(NakCode::RemoteAccessError));
                }
                self.write(va, dma_len - payload_len, dma_len, payload_len, immediate, receive)
            }
            (
                WriteMiddle | WriteLast | WriteLastWithImmediate,
                Some(Inbound::Write { next_address, rest, length }),
            ) => {
                if payload_len == 0 || payload_len > rest || (rest > payload_len) == is_last {
                    return invalid;
                }
                self.write(next_address, rest - payload_len, length, payload_len, immediate, receive)
            }
            (SendFirst | SendOnly | SendOnlyWithImmediate, None) => {
                let Some(receive) = receive else { return Err(Refusal::NotReady) };
                if !regions.allow(receive.l_key, receive.address, receive.length, |_| true) {
                    return Err(Refusal::Nak(NakCode::RemoteOperationalError));
                }
                self.take(receive, 0, payload_len, is_last, immediate)
            }
            (SendMiddle | SendLast | SendLastWithImmediate, Some(Inbound::Send { receive, received })) => {
                if payload_len == 0 {
                    return invalid;
                }
                self.take(receive, received, payload_len, is_last, immediate)
            }
            (ReadRequest, None) => {
                let Reth { va, r_key, dma_len } = reth;
                let is_too_much = self.reads >= c.max_dest_rd_atomic as u32;
                if is_too_much || dma_len > MAX_MESSAGE_BYTES || payload_len > 0 {
                    return invalid;
                }
                if !regions.allow(r_key, va, dma_len, |access| access.remote_read) {
                    return Err(Refusal::Nak(NakCode::RemoteAccessError));
                }
                Ok(Step {
                    address: 0,
                    inbound: None,
                    takes_receive: false,
                    completed: None,
                    ends_message: true,
                    read: Some(reth),
                })
            }
            _ => invalid,
        }
    }

    /// A packet of a WRITE of `length` bytes, of which `rest` are to come after it.
    fn write(
        &self,
        address: u64,
        rest: u32,
        length: u32,
        payload_len: u32,
        immediate: Option<ImmDt>,
        receive: Option<ReceiveRequest>,
    ) -> Result<Step, Refusal> {
        let completed = match (immediate, receive) {
            (None, _) => None,
            (Some(_), None) => return Err(Refusal::NotReady),
            (Some(_), Some(receive)) => Some(Completed { receive, length, immediate }),
        };
        let next_address = address.wrapping_add(payload_len as u64);
        Ok(Step {
            address,
            inbound: (rest > 0).then_some(Inbound::Write { next_address, rest, length }),
            takes_receive: completed.is_some(),
            completed,
            ends_message: rest == 0,
            read: None,
        })
    }

    /// A packet of a SEND, of which `before` bytes came before.
    fn take(
        &self,
        receive: ReceiveRequest,
        before: u32,
        payload_len: u32,
        is_last: bool,
        immediate: Option<ImmDt>,
    ) -> Result<Step, Refusal> {
        let received = before + payload_len;
        if received > receive.length {
            return Err(Refusal::Nak(NakCode::InvalidRequest));
        }
        Ok(Step {
            address: receive.address.wrapping_add(before as u64),
            inbound: (!is_last).then_some(Inbound::Send { receive, received }),
            takes_receive: before == 0,
            completed: is_last.then_some(Completed { receive, length: received, immediate }),
            ends_message: is_last,
            read: None,
        })
    }

    /// True if the next reply is an ACK or NAK, which no pacing holds up.
    pub fn has_acknowledge(&self) -> bool {
        matches!(self.replies.front(), Some(Reply::Acknowledge { .. }))
    }

    /// True if the next reply is a READ response.
    pub fn has_response(&self) -> bool {
        matches!(self.replies.front(), Some(Reply::Read { .. }))
    }

    /// The next reply.
    pub fn reply(&mut self, c: &Connection) -> Option<(TransportHeaders, Payload)> {
        match self.replies.front_mut()? {
            &mut Reply::Acknowledge { sequence, aeth, is_marked } => {
                self.replies.pop_front();
                let new = Bth::new(Opcode::Acknowledge, c.dest_qp, wire_psn(sequence), 0);
                let bth = Bth { becn: is_marked, ..new };
                let headers = TransportHeaders { bth, extension: Extension::Aeth(aeth) };
                Some((headers, Payload { address: 0, length: 0 }))
            }
            Reply::Read { next, address, rest, is_first, is_again, msn, .. } => {
                let length = (*rest).min(c.path_mtu);
                let is_last = length == *rest;
                let aeth = Extension::Aeth(Aeth { syndrome: Syndrome::ACK, msn: *msn });
                let (opcode, extension) = match (*is_first, is_last) {
                    (true, true) => (Opcode::ReadResponseOnly, aeth),
                    (true, false) => (Opcode::ReadResponseFirst, aeth),
                    (false, false) => (Opcode::ReadResponseMiddle, Extension::None),
                    (false, true) => (Opcode::ReadResponseLast, aeth),
                };
                let bth = Bth::new(opcode, c.dest_qp, wire_psn(*next), length as usize);
                let payload = Payload { address: *address, length };
                (*next, *address, *rest, *is_first) =
                    (*next + 1, address.wrapping_add(length as u64), *rest - length, false);
                if is_last {
                    self.reads -= !*is_again as u32;
                    self.reads_again -= *is_again as u32;
                    self.replies.pop_front();
                }
                Some((TransportHeaders { bth, extension }, payload))
            }
        }
    }
}

/// Sequence numbers that a READ takes: one for each response.
fn packets_of(c: &Connection, length: u32) -> u64 {
    length.div_ceil(c.path_mtu).max(1) as u64
}
