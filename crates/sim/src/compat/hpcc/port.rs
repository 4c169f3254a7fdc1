//! Ports with their queues, switches' buffers, hosts' NICs: the state, without what happens to it.

use tailback_proto::units::Time;

use super::calendar::Place;
use crate::engine::Fifo;
use crate::gauge::{Came, LittlesLaw};

/// Bytes of a port's buffer that are its own.
pub(super) const RESERVE_BYTES: u32 = 4096;
/// Priorities of a port.
pub(super) const LANES: usize = 8;

/// One end of a link: transmitter, and where it belongs. What most packets need is in its first cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Port {
    /// It is sending, or was when it was last looked at.
    pub busy: bool,
    /// Whether the end of what it sends is in the calendar. Otherwise nothing waits for it, and its place is free.
    pub awaited: bool,
    pub up: bool,
    pub is_switch: bool,
    /// A bit for each priority that is paused.
    pub paused: u8,
    /// A bit for each queue that is not empty.
    pub waiting: u8,
    /// Queue served last, for the round robin.
    pub last_served: u8,
    /// Right shift from free buffer to threshold.
    pub shift: u8,
    pub peer: u32,
    /// Number of the switch or of the host's port.
    pub owner: u32,
    /// Place of the first serialization time of its rate.
    pub times: u32,
    pub headroom: u32,
    pub delay: u64,
    /// Place in the calendar of the end of what it sends.
    pub free_at: Place,
    pub tx_bytes: u64,
    /// Bytes in all queues.
    pub queued: u32,
    pub error_model: u32,
    pub rate: u64,
    pub pmax: f64,
    pub kmin: u32,
    pub kmax: u32,
    pub node: u32,
    /// Number of the port at its node, from 1.
    pub number: u16,
}

/// A priority of a port: its egress queue and its ingress accounting. One cache line.
#[derive(Clone, Debug, Default)]
#[repr(align(64))]
pub(super) struct Lane {
    pub queue: Fifo,
    pub egress: u32,
    pub ingress: u32,
    pub headroom: u32,
    /// Largest `egress` in this bin.
    pub max_egress: u32,
    /// Bytes times nanoseconds in this bin.
    pub byte_ns: u64,
    /// Until when, a whole nanosecond.
    pub since: u64,
    pub tx_packets: u64,
    pub tx_bytes: u64,
    /// Whether this port has paused its peer.
    pub pausing: bool,
    pub law: LittlesLaw,
}

/// Counters of a lane that few packets change.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LaneCounters {
    pub marked: u64,
    /// Packets that came in and found no room.
    pub dropped: u64,
    pub dropped_bytes: u64,
    /// Packets that were lost on the way here, or in this port's own queue when it went down.
    pub lost: u64,
    pub lost_bytes: u64,
}

impl Lane {
    /// Bytes that came in by this port and take of the switch's shared buffer.
    #[inline]
    pub fn shared(&self) -> u32 {
        self.ingress.saturating_sub(RESERVE_BYTES)
    }

    /// Adds up what stood in the queue until now.
    #[inline]
    pub fn integrate(&mut self, now: u64) {
        let ns = (now - self.since) / 1000;
        self.byte_ns += self.egress as u64 * ns;
        let since = self.since + ns * 1000;
        self.law.held(self.egress as u64, Time(self.since), Time(since));
        self.since = since;
    }
}

/// A packet comes to a queue now, as the queue's integral has it: in whole nanoseconds.
#[inline(always)]
pub(super) fn comes(now: u64) -> Came {
    Came::at(Time(now / 1000 * 1000))
}

/// What a port was told about one priority.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Heard {
    pub since: Option<u64>,
    pub paused: u64,
    pub pauses: u64,
    pub resumes: u64,
    /// Resumes that ended a pause.
    pub transitions: u64,
    /// Frames that the port sent about it.
    pub sent: u64,
}

/// A switch's shared buffer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Switch {
    /// It is inside of a server: it neither marks nor pauses.
    pub inner: bool,
    /// Buffer less all headroom and reserve, in 32 bits as there.
    pub shareable: u32,
    pub shared_used: u32,
}

impl Switch {
    /// What one group may hold of the buffer, whose port has this shift. 32-bit arithmetic as there: a buffer that is too small
    /// wraps.
    #[inline]
    pub fn threshold(&self, shift: u8) -> u32 {
        self.shareable.wrapping_sub(self.shared_used) >> shift
    }
}

/// A host's port.
#[derive(Debug, Default)]
pub(super) struct Nic {
    pub acks: Fifo,
    /// Queue pairs in the order of the round robin; finished ones are dropped while looking for a packet.
    pub qps: Vec<u32>,
    /// When each may send next, `u64::MAX` when nothing is left to send.
    pub ready: Vec<u64>,
    pub last_served: u32,
    /// Finished ones among `qps`.
    pub finished: u32,
    /// When it wakes to send.
    pub wake_at: Option<Place>,
}

/// Counters of a host.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HostCounters {
    pub goodput_tx: u64,
    pub goodput_rx: u64,
    pub marked: u64,
    pub cnp_sent: u64,
    pub cnp_handled: u64,
    pub out_of_sequence: u64,
    pub packet_seq_err: u64,
    pub delay_probes: u64,
    pub duplicate: u64,
    pub timeouts: u64,
}
