//! The send queue of a queue pair: messages cut into packets on their way out, and what their answers mean for them.
//!
//! Which packet is sent next, and what an ACK acknowledges, is for [`crate::transport::rc`] to say. What is here knows that
//! a READ is answered by its data and by nothing else: an ACK of something later says that a response was lost (the implied
//! NAK, IBTA 9.7.5.1.2 and 9.7.6.1), and a response acknowledges all that came before it.

use std::collections::VecDeque;
use std::num::NonZeroU64;

use super::work::{Operation, SendRequest};
use super::{Connection, Payload};
use crate::transport::rc::{wire_psn, Requester, Timeout};
use crate::units::Time;
use crate::wire::aeth::rnr_timer;
use crate::wire::{Aeth, Bth, Extension, ImmDt, NakCode, Opcode, Reth, Syndrome, TransportHeaders};

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

/// What an answer did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answered {
    /// It acknowledged what it could.
    Acknowledged,
    /// A packet of this end was lost, as a NAK says.
    Nak,
    /// An answer was lost: this end goes back for it.
    ImpliedNak,
    /// The peer had no receive. This end waits.
    NotReady,
    /// No retry is left.
    RnrRetriesExceeded,
    /// The peer refuses a request.
    Refused(NakCode),
    /// It cannot be an answer to what was asked.
    BadResponse,
}

/// A packet that is being sent.
pub(super) struct Sent {
    pub sequence: u64,
    pub headers: TransportHeaders,
    pub payload: Payload,
    pub is_retransmission: bool,
}

#[derive(Clone, Debug)]
pub(super) struct SendQueue {
    requester: Requester,
    messages: VecDeque<Message>,
    /// Payload posted so far.
    posted_bytes: u64,
    /// Time stamps of packets that asked for an ACK, and were sent once.
    stamps: VecDeque<(u64, Time)>,
    /// Round-trip time that the last ACK shows.
    rtt: Option<Time>,
    /// READs awaited.
    reads_awaited: u32,
    /// Nothing is sent before: a NAK or an RNR NAK said so.
    held_until: Time,
    /// The answer that was found missing last: once is enough for each.
    missed: Option<u64>,
}

impl SendQueue {
    pub fn new(psn: u32) -> Self {
        SendQueue {
            requester: Requester::new(psn),
            messages: VecDeque::new(),
            posted_bytes: 0,
            stamps: VecDeque::new(),
            rtt: None,
            reads_awaited: 0,
            held_until: Time::ZERO,
            missed: None,
        }
    }

    pub fn post(&mut self, c: &Connection, request: SendRequest) {
        let packets = request.length.div_ceil(c.path_mtu).max(1) as u64;
        let first = self.requester.posted();
        self.requester.post(packets);
        let position = self.posted_bytes;
        let message = Message { first, end: first + packets, request, position, awaited: false };
        self.posted_bytes += message.sent_bytes();
        self.messages.push_back(message);
    }

    /// When the next packet may leave, as far as this queue goes; none: there is none.
    pub fn next_at(&self, c: &Connection) -> Option<Time> {
        if !self.requester.has_work() {
            return None;
        }
        let message = self.message_of(self.requester.next_sequence());
        let next = if message.is_read() { message.end } else { self.requester.next_sequence() + 1 };
        let may = next - self.requester.acknowledged() <= MAX_IN_FLIGHT
            && (!message.is_read() || self.reads_awaited < c.max_rd_atomic as u32);
        may.then_some(self.held_until)
    }

    /// Where a sequence number begins in the stream of payload.
    fn position_of_bytes(&self, c: &Connection, sequence: u64) -> u64 {
        match self.messages.get(self.position_of(sequence)) {
            None => self.posted_bytes,
            Some(message) => {
                let offset = (sequence - message.first) * c.path_mtu as u64;
                message.position + offset.min(message.sent_bytes())
            }
        }
    }

    /// All payload acknowledged so far.
    pub fn acknowledged_bytes(&self, c: &Connection) -> u64 {
        self.position_of_bytes(c, self.requester.acknowledged())
    }

    /// Where the next packet begins in the stream of payload.
    pub fn next_bytes(&self, c: &Connection) -> u64 {
        self.position_of_bytes(c, self.requester.next_sequence())
    }

    /// The round-trip time that the last ACK showed.
    pub fn take_rtt(&mut self) -> Option<Time> {
        self.rtt.take()
    }

    /// Whether the next packet is the last of a burst.
    pub fn next_ends_burst(&self, c: &Connection, burst_bytes: NonZeroU64) -> bool {
        self.ends_burst(c, self.requester.next_sequence(), burst_bytes)
    }

    /// Whether the last packet acknowledged was, if its message has not been taken.
    pub fn acknowledged_ends_burst(&self, c: &Connection, burst_bytes: NonZeroU64) -> bool {
        let last = self.requester.acknowledged().checked_sub(1);
        last.is_some_and(|last| self.ends_burst(c, last, burst_bytes))
    }

    /// Bursts begin with their message, and a message's last may be shorter. The request of a READ is one.
    fn ends_burst(&self, c: &Connection, sequence: u64, burst_bytes: NonZeroU64) -> bool {
        let message = self.messages.get(self.position_of(sequence));
        message.filter(|message| message.first <= sequence).is_some_and(|message| {
            let after = sequence - message.first + 1;
            let is_full = after.is_multiple_of(burst_bytes.get().div_ceil(c.path_mtu as u64));
            message.is_read() || sequence + 1 == message.end || is_full
        })
    }

    /// A packet that asks for an ACK, and was not sent before, has this time stamp.
    pub fn stamp(&mut self, sequence: u64, stamp: Time) {
        self.stamps.push_back((sequence, stamp));
    }

    /// The next packet: call only while [`Self::next_at`] allows. `ask`: it asks for an ACK, whatever its turn.
    pub fn send(&mut self, c: &Connection, now: Time, ask: bool) -> Sent {
        let sequence = self.requester.next_sequence();
        let at = self.position_of(sequence);
        let message = &mut self.messages[at];
        let request = message.request;
        let offset = ((sequence - message.first) * c.path_mtu as u64) as u32;
        let rest = request.length - offset;
        if let Operation::Read { remote_address, r_key } = request.operation {
            message.awaited = true;
            self.reads_awaited += 1;
            let packets = message.end - sequence;
            let out = self.requester.send_spanning(&c.rc, now, true, packets);
            let bth = Bth { ack_req: true, ..Bth::new(Opcode::ReadRequest, c.dest_qp, out.psn, 0) };
            let reth = Reth { va: remote_address.wrapping_add(offset as u64), r_key, dma_len: rest };
            let headers = TransportHeaders { bth, extension: Extension::Reth(reth) };
            return Sent { sequence, headers, payload: Payload::NONE, is_retransmission: out.retransmission };
        }
        let length = rest.min(c.path_mtu);
        let (first, last) = (offset == 0, sequence + 1 == message.end);
        let out = self.requester.send(&c.rc, now, ask);
        let (opcode, extension) = match request.operation {
            Operation::Send { immediate } => send_headers(first, last, immediate),
            Operation::Write { remote_address, r_key, immediate } => write_headers(
                first,
                last,
                immediate,
                Reth { va: remote_address, r_key, dma_len: request.length },
            ),
            Operation::Read { .. } => unreachable!("done"),
        };
        let bth = Bth { ack_req: out.ack_request, ..Bth::new(opcode, c.dest_qp, out.psn, length as usize) };
        let payload = Payload { address: request.address.wrapping_add(offset as u64), length };
        let headers = TransportHeaders { bth, extension };
        Sent { sequence, headers, payload, is_retransmission: out.retransmission }
    }

    /// An ACK or NAK.
    pub fn on_acknowledge(&mut self, c: &Connection, now: Time, psn: u32, aeth: &Aeth) -> Answered {
        let Some(sequence) = self.requester.sequence_of(psn) else { return Answered::Acknowledged };
        if sequence < self.requester.acknowledged() {
            return Answered::Acknowledged; // an old one
        }
        match aeth.syndrome {
            Syndrome::Ack { .. } => {
                self.time(now, sequence);
                self.acknowledge(c, now, sequence + 1)
            }
            Syndrome::Reserved(_) => Answered::Acknowledged,
            Syndrome::Nak(code) if code != NakCode::PsnSequenceError => {
                self.acknowledge(c, now, sequence);
                Answered::Refused(code)
            }
            // What comes before the packet named was received, but for READs that are not answered.
            _ if self.unanswered_before(sequence) < sequence => self.acknowledge(c, now, sequence),
            Syndrome::Nak(_) => {
                self.moving(|requester| requester.on_nak(&c.rc, now, psn));
                self.held_until = self.held_until.max(now + c.nak_reaction);
                Answered::Nak
            }
            Syndrome::RnrNak { timer } => {
                match self.moving(|requester| requester.on_rnr_nak(&c.rc, now, psn, c.rnr_retry)) {
                    Some(_) => {
                        self.held_until = self.held_until.max(now + rnr_timer(timer));
                        Answered::NotReady
                    }
                    None => Answered::RnrRetriesExceeded,
                }
            }
        }
    }

    /// A READ response with so much payload: what it did, and where its payload goes.
    pub fn on_read_response(
        &mut self,
        c: &Connection,
        now: Time,
        bth: &Bth,
        payload_len: u32,
    ) -> (Answered, Option<u64>) {
        let nothing = (Answered::Acknowledged, None);
        let Some(sequence) = self.requester.sequence_of(bth.psn) else { return nothing };
        if sequence < self.requester.acknowledged() {
            return nothing;
        }
        let awaited = self.unanswered_before(sequence + 1);
        if awaited > sequence {
            return (Answered::BadResponse, None); // the answer to no READ
        }
        if awaited < sequence {
            return (self.go_back_for(c, now, awaited), None);
        }
        let message = self.message_of(sequence);
        let offset = (sequence - message.first) * c.path_mtu as u64;
        let length = (message.request.length as u64 - offset).min(c.path_mtu as u64) as u32;
        let is_last = matches!(bth.opcode, Opcode::ReadResponseLast | Opcode::ReadResponseOnly);
        if payload_len != length || is_last != (sequence + 1 == message.end) {
            return (Answered::BadResponse, None);
        }
        let address = message.request.address.wrapping_add(offset);
        self.moving(|requester| requester.on_ack(&c.rc, now, bth.psn));
        (Answered::Acknowledged, Some(address))
    }

    /// Takes the time of the packet that an ACK answers. What was sent twice has none: nobody knows which one it answers (as of
    /// TCP: Karn and Partridge, SIGCOMM 1987).
    fn time(&mut self, now: Time, sequence: u64) {
        while let Some(&(stamped, at)) = self.stamps.front().filter(|(stamped, _)| *stamped <= sequence) {
            self.stamps.pop_front();
            if stamped == sequence {
                self.rtt = Some(now - at);
            }
        }
    }

    /// Acknowledges all before `upto`, or before the first READ there that is not answered.
    fn acknowledge(&mut self, c: &Connection, now: Time, upto: u64) -> Answered {
        let end = self.unanswered_before(upto);
        if end < upto {
            return self.go_back_for(c, now, end);
        }
        if end > self.requester.acknowledged() {
            self.moving(|requester| requester.on_ack(&c.rc, now, wire_psn(end - 1)));
        }
        Answered::Acknowledged
    }

    /// The responses from `missing` on are lost; what came before was received. Asks for them again, once.
    fn go_back_for(&mut self, c: &Connection, now: Time, missing: u64) -> Answered {
        if self.missed.replace(missing) == Some(missing) {
            return Answered::Acknowledged;
        }
        self.moving(|requester| requester.on_nak(&c.rc, now, wire_psn(missing)));
        Answered::ImpliedNak
    }

    /// The first sequence number of the first READ before `upto` that is not answered; `upto`, if there is none.
    fn unanswered_before(&self, upto: u64) -> u64 {
        // Those looked at are about to be completed, but for the last.
        let mut before = self.messages.iter().take_while(|message| message.first < upto);
        let read = before.find(|message| message.is_read());
        read.map_or(upto, |read| read.first.max(self.requester.acknowledged()))
    }

    /// The transport timer.
    pub fn on_timeout(&mut self, c: &Connection, now: Time) -> Timeout {
        let timeout = self.moving(|requester| requester.on_timeout(&c.rc, now));
        if timeout == Timeout::Retry {
            self.missed = None; // it is asked for again, and may be found missing again
        }
        timeout
    }

    pub fn next_timeout(&self) -> Option<Time> {
        self.requester.next_timeout()
    }

    /// Takes the next message that is acknowledged.
    pub fn pop_completed(&mut self) -> Option<SendRequest> {
        let message = self.messages.front().filter(|message| message.end <= self.requester.acknowledged())?;
        self.reads_awaited -= message.awaited as u32;
        self.messages.pop_front().map(|message| message.request)
    }

    /// The queue pair is in error.
    pub fn fail(&mut self) {
        self.requester.fail();
    }

    /// Takes the next message of a queue pair in error.
    pub fn pop_flushed(&mut self) -> Option<SendRequest> {
        self.messages.pop_front().map(|message| message.request)
    }

    /// Does something that may go back. READs that will be sent again are not awaited any more.
    fn moving<T>(&mut self, act: impl FnOnce(&mut Requester) -> T) -> T {
        let next = self.requester.next_sequence();
        let result = act(&mut self.requester);
        if self.requester.next_sequence() < next {
            self.messages.iter_mut().for_each(|message| message.awaited = false);
            self.reads_awaited = 0;
            self.stamps.clear();
        }
        result
    }

    fn position_of(&self, sequence: u64) -> usize {
        self.messages.partition_point(|message| message.end <= sequence)
    }

    fn message_of(&self, sequence: u64) -> &Message {
        &self.messages[self.position_of(sequence)]
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
