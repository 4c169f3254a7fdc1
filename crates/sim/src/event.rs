//! What can happen. An event is 32 bits: 5 of kind, 27 of index.
//!
//! They are its place among simultaneous events, too: first by kind, in the order in which kinds are listed here, then by
//! their source, which is the link, port, queue pair, core or timer that the event belongs to. What one source brings at one
//! instant is the same event, or is told apart by a number of the source's own. So the order of events follows from what
//! happens at a node, and not from when, where and beside what else it was scheduled: it stays when other nodes are added, or
//! are simulated elsewhere.
//!
//! A pause comes behind all that may begin a packet at that instant: nothing lets a sender see it coming, and headroom is
//! for the worst case. What concerns the whole network comes last: a link fails, then a bin closes.

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The first packet on the link behind a port arrives.
    Arrival(u32),
    /// A port's transmitter is free.
    PortWake(u32),
    /// The pacing of a queue pair lets it send again.
    PacingDue(u32),
    /// The transport timer of a queue pair may be due.
    TransportTimer(u32),
    /// A controller's own timer of a queue pair may be due.
    ControllerTimer(u32),
    /// The write of a probe (a packet) has ended in its receiver's memory.
    ProbeAnswer(u32),
    /// The NAK of a gap (a packet) leaves the responder's slow path.
    DelayedNak(u32),
    /// A writer begins.
    WriterStart(u32),
    /// A writer posts no more.
    WriterStop(u32),
    /// A message of the flow list is posted.
    FlowStart(u32),
    /// A message that something waits for is done (by queue pair).
    MessageDone(u32),
    /// A message that something waits for is in its receiver's memory (by queue pair).
    MessageArrived(u32),
    /// A time that work waits for has come.
    Work(u32),
    /// The connections of a group begin.
    TcpStart(u32),
    /// The applications of a group write no more.
    TcpStop(u32),
    /// A generator of memory traffic begins or ends.
    MemoryLoad(u32),
    /// The agent of a host reads its counters.
    AgentSample(u32),
    /// The first packet that waits in a host's receive buffer has left it (by path).
    HostPathDrain(u32),
    /// A core's batch of work ends, or an interrupt is due that was held back.
    Core(u32),
    /// The first descriptor of a transmit ring is ready.
    RingDue(u32),
    /// A timer of a TCP connection may be due: twice the connection, plus one for its receiver.
    TcpTimer(u32),
    /// A unit of work of a Linux core ends.
    LinuxCore(u32),
    /// The moderated interrupt of a NAPI instance may be due.
    LinuxIrq(u32),
    /// A timer of the Linux path that is no core's.
    LinuxTimer(u32),
    /// The first PFC frame on the link behind a port takes effect.
    PauseEffect(u32),
    /// The quanta of a lane may have run out.
    PauseExpiry(u32),
    /// A lane repeats its pause, if it still holds it.
    PauseRefresh(u32),
    /// The PFC watchdog of a lane may be due.
    Watchdog(u32),
    /// A link fails or is repaired.
    LinkChange(u32),
    /// The recorder closes a bin.
    Sample,
}

const INDEX_BITS: u32 = 27;

/// Most ports times classes, packets or queue pairs that an event can name.
pub(crate) const MAX_INDEX: u32 = (1 << INDEX_BITS) - 1;

impl Event {
    #[inline]
    pub fn encode(self) -> u32 {
        let (kind, index) = match self {
            Event::Arrival(index) => (0, index),
            Event::PortWake(index) => (1, index),
            Event::PacingDue(index) => (2, index),
            Event::TransportTimer(index) => (3, index),
            Event::ControllerTimer(index) => (4, index),
            Event::ProbeAnswer(index) => (5, index),
            Event::DelayedNak(index) => (6, index),
            Event::WriterStart(index) => (7, index),
            Event::WriterStop(index) => (8, index),
            Event::FlowStart(index) => (9, index),
            Event::MessageDone(index) => (10, index),
            Event::MessageArrived(index) => (11, index),
            Event::Work(index) => (12, index),
            Event::TcpStart(index) => (13, index),
            Event::TcpStop(index) => (14, index),
            Event::MemoryLoad(index) => (15, index),
            Event::AgentSample(index) => (16, index),
            Event::HostPathDrain(index) => (17, index),
            Event::Core(index) => (18, index),
            Event::RingDue(index) => (19, index),
            Event::TcpTimer(index) => (20, index),
            Event::LinuxCore(index) => (21, index),
            Event::LinuxIrq(index) => (22, index),
            Event::LinuxTimer(index) => (23, index),
            Event::PauseEffect(index) => (24, index),
            Event::PauseExpiry(index) => (25, index),
            Event::PauseRefresh(index) => (26, index),
            Event::Watchdog(index) => (27, index),
            Event::LinkChange(index) => (28, index),
            Event::Sample => (29, 0),
        };
        debug_assert!(index <= MAX_INDEX);
        kind << INDEX_BITS | index
    }

    /// Whether it is set for a time by the plan.
    pub fn is_of_plan(self) -> bool {
        use Event::*;
        matches!(self, WriterStart(_) | WriterStop(_) | FlowStart(_) | LinkChange(_))
    }

    /// The port, if it is an arrival.
    #[inline(always)]
    pub fn arrival(code: u32) -> Option<u32> {
        (code <= MAX_INDEX).then_some(code)
    }

    #[inline]
    pub fn decode(code: u32) -> Event {
        let index = code & MAX_INDEX;
        match code >> INDEX_BITS {
            0 => Event::Arrival(index),
            1 => Event::PortWake(index),
            2 => Event::PacingDue(index),
            3 => Event::TransportTimer(index),
            4 => Event::ControllerTimer(index),
            5 => Event::ProbeAnswer(index),
            6 => Event::DelayedNak(index),
            7 => Event::WriterStart(index),
            8 => Event::WriterStop(index),
            9 => Event::FlowStart(index),
            10 => Event::MessageDone(index),
            11 => Event::MessageArrived(index),
            12 => Event::Work(index),
            13 => Event::TcpStart(index),
            14 => Event::TcpStop(index),
            15 => Event::MemoryLoad(index),
            16 => Event::AgentSample(index),
            17 => Event::HostPathDrain(index),
            18 => Event::Core(index),
            19 => Event::RingDue(index),
            20 => Event::TcpTimer(index),
            21 => Event::LinuxCore(index),
            22 => Event::LinuxIrq(index),
            23 => Event::LinuxTimer(index),
            24 => Event::PauseEffect(index),
            25 => Event::PauseExpiry(index),
            26 => Event::PauseRefresh(index),
            27 => Event::Watchdog(index),
            28 => Event::LinkChange(index),
            29..=31 => Event::Sample,
            _ => unreachable!("5 bits"), // without which the range would be checked
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decode_inverts_encode() {
        for event in [
            Event::Arrival(0),
            Event::PortWake(MAX_INDEX),
            Event::TransportTimer(1),
            Event::PauseEffect(2),
            Event::PauseExpiry(3),
            Event::PauseRefresh(4),
            Event::WriterStart(5),
            Event::WriterStop(6),
            Event::PacingDue(7),
            Event::FlowStart(8),
            Event::MessageDone(9),
            Event::MessageArrived(9),
            Event::Work(10),
            Event::LinkChange(9),
            Event::Core(10),
            Event::RingDue(11),
            Event::TcpTimer(12),
            Event::TcpStart(13),
            Event::TcpStop(14),
            Event::Watchdog(15),
            Event::HostPathDrain(10),
            Event::MemoryLoad(11),
            Event::ControllerTimer(12),
            Event::ProbeAnswer(13),
            Event::DelayedNak(14),
            Event::AgentSample(MAX_INDEX),
            Event::LinuxCore(14),
            Event::LinuxIrq(15),
            Event::LinuxTimer(MAX_INDEX),
            Event::Sample,
        ] {
            assert_eq!(Event::decode(event.encode()), event);
        }
    }
}
