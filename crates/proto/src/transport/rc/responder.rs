//! The receiving side of a connection: what is taken, and what is answered.

use super::{widen, wire_psn};
use crate::transport::selective::Ahead;
use crate::transport::settings::RcParameters;

/// What the responder does with a packet.
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

    /// Whether a packet would be accepted.
    pub fn expects(&self, psn: u32) -> bool {
        widen(psn, self.expected) == Some(self.expected)
    }

    /// Whether a packet of a WRITE would go to memory.
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

    /// What was placed ahead of the packet expected.
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
