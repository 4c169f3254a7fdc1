//! Traffic sources: threads that flood, pings, batches of XDP frames.
//!
//! A flood's thread calls `sendto` again and again. What it sent counts for its socket (`sk_wmem_alloc`) until it is
//! dropped or the receiver's stack has it; at `sk_sndbuf` the call waits until half of that is free (net/core/sock.c,
//! `sock_def_write_space`), or, with MSG_DONTWAIT in a loop, fails until there is room for one.
//!
//! Leaves out: the cost of failing calls in a loop; nothing else wants that core here.

use tailback_proto::units::Time;

use crate::engine::Stream;

/// What a flood's thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Its start, or the next turn of its rate.
    Timer,
    /// It runs.
    Running,
    /// Room in its socket's buffer.
    Room,
    Stopped,
}

/// A thread that sends datagrams.
#[derive(Debug)]
pub(crate) struct Flood {
    pub(super) end: u32,
    pub(super) frame_bytes: u32,
    pub(super) send: Time,
    pub(super) interval: Time,
    pub(super) sndbuf: u64,
    pub(super) blocks: bool,
    pub(super) stop: Time,
    pub(super) core: u32,
    pub(super) thread: u32,
    pub(super) timer: u32,
    pub(super) state: State,
    pub(super) next_at: Time,
    /// Memory that counts for its socket, bytes.
    pub charged_bytes: u64,
    pub sent: u64,
    pub delivered: u64,
    pub dropped: u64,
    /// How often it waited for room.
    pub waits: u64,
}

/// What became of an echo request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub sent_at: Time,
    pub rtt: Option<Time>,
    pub lost: bool,
}

/// Echo requests at regular intervals.
#[derive(Debug)]
pub(crate) struct Ping {
    pub(super) end: u32,
    pub(super) frame_bytes: u32,
    pub(super) interval: Time,
    pub(super) spread: Time,
    /// When the next request is due, and how much later it is sent.
    pub(super) due: Time,
    pub(super) random: Stream,
    pub(super) stop: Time,
    pub(super) core: u32,
    pub(super) timer: u32,
    pub samples: Vec<Sample>,
    /// The latest answer's round trip.
    pub rtt: Time,
}

impl Ping {
    pub(super) fn answered(&mut self, sequence: u32, now: Time) {
        let sample = &mut self.samples[sequence as usize];
        self.rtt = now - sample.sent_at;
        sample.rtt = Some(self.rtt);
    }
}

/// Batches of XDP frames.
#[derive(Debug)]
pub(crate) struct Frames {
    pub(super) end: u32,
    pub(super) frame_bytes: u32,
    pub(super) batch: u32,
    pub(super) interval: Time,
    pub(super) stop: Time,
    pub(super) core: u32,
    pub(super) timer: u32,
    pub sent: u64,
    pub delivered: u64,
    pub dropped: u64,
}
