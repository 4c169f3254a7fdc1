//! The send queue of a queue pair: messages cut into packets on their way out, and what their answers mean for them.
//!
//! Which packet is sent when, and what an ACK acknowledges, is for [`SendingHalf`] to say. What is here knows that a READ is answered by its data and by nothing else: an ACK of something later says that a response was lost (the implied
//! NAK, IBTA 9.7.5.1.2 and 9.7.6.1), and a response acknowledges all that came before it.

use std::collections::VecDeque;
use std::num::NonZeroU64;

use super::work::{Operation, SendRequest};
use super::{Common, Connection, Counters, Echo, Messages, Payload, Segment, SendingHalf, Sent};
use crate::congestion::builtin::Congestion;
use crate::transport::rc::{wire_psn, Timeout};
use crate::units::Time;
use crate::wire::aeth::rnr_timer;
use crate::wire::{
    roce_frame_bytes, Aeth, Bth, Extension, ImmDt, NakCode, Opcode, Reth, Syndrome, TransportHeaders,
};

/// Sequence numbers that may be under way: half of those that there are, so that new ones and old ones are told apart
/// (IBTA 9.7.2).
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

/// What was posted and is not completed.
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

    /// What a packet is, and its payload.
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

/// What an answer did.
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
