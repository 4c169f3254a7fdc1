//! The receive side of a queue pair: assembles requests into messages, checks them, and answers them.
//!
//! Whether a packet is the one expected is up to [`crate::transport::rc`]. Answers leave in the order of
//! their requests (IBTA 9.7.5.1). An ACK waits behind the responses of an earlier READ, and ACKs that wait
//! with nothing between them are merged. An ACK or NAK acknowledges all packets before it.

use std::collections::VecDeque;

use super::memory::Regions;
use super::work::{ReceiveRequest, MAX_MESSAGE_BYTES};
use super::{Connection, Counters, Payload, ReceivingHalf};
use crate::transport::rc::{wire_psn, Verdict};
use crate::units::Time;
use crate::wire::bth::MAX_24_BITS;
use crate::wire::{Aeth, Bth, Extension, ImmDt, NakCode, Opcode, Reth, Syndrome, TransportHeaders};

/// A message whose first packet came and whose last did not yet.
#[derive(Clone, Copy, Debug)]
enum Inbound {
    Write { next_address: u64, rest: u32, length: u32 },
    Send { receive: ReceiveRequest, received: u32 },
}

/// What is to be sent back.
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

/// What accepting a request does.
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
    /// Whether a packet since the last ACK or NAK carried a CE mark.
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

    /// Whether the expected request may be carried out, and what that does.
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

    /// Whether the next reply is an ACK or NAK, which no pacing holds up.
    pub fn has_acknowledge(&self) -> bool {
        matches!(self.replies.front(), Some(Reply::Acknowledge { .. }))
    }

    /// Whether the next reply is a READ response.
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
