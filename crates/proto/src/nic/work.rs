//! What is asked of a queue pair, and what it reports (IBTA 10.8 and 11.4: work requests and completions).

use crate::wire::{ImmDt, NakCode};

/// Most bytes in one message (IBTA 9.7.7: 2^31).
pub const MAX_MESSAGE_BYTES: u32 = 1 << 31;

/// A send work request. Addresses are those of the host's own memory, which its driver reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendRequest {
    /// Chosen by whoever posts it; its completion has it, too.
    pub wr_id: u64,
    /// What to do.
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
        /// Where to.
        remote_address: u64,
        /// Key of the peer's memory region.
        r_key: u32,
        /// For the receive's completion.
        immediate: Option<ImmDt>,
    },
    /// From the peer's memory.
    Read {
        /// Where from.
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
