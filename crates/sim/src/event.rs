//! What can happen. An event is 32 bits: 5 of kind, 27 of index.

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
    /// A PFC frame (a packet) takes effect.
    PauseEffect(u32),
    /// The quanta of a lane may have run out.
    PauseExpiry(u32),
    /// A lane repeats its pause, if it still holds it.
    PauseRefresh(u32),
    /// The PFC watchdog of a lane may be due.
    Watchdog(u32),
    /// A writer begins.
    WriterStart(u32),
    /// A writer posts no more.
    WriterStop(u32),
    /// A message of the flow list is posted.
    FlowStart(u32),
    /// A link fails or is repaired.
    LinkChange(u32),
    /// A core's batch of work ends, or an interrupt is due that was held back.
    Core(u32),
    /// The first descriptor of a transmit ring is ready.
    RingDue(u32),
    /// A timer of a TCP connection may be due: twice the connection, plus one for its receiver.
    TcpTimer(u32),
    /// The connections of an item begin.
    TcpStart(u32),
    /// The applications of an item write no more.
    TcpStop(u32),
    /// The own timer of a queue pair's controller may be due.
    ControllerTimer(u32),
    /// The write of a probe (a packet) has ended in its receiver's memory.
    ProbeAnswer(u32),
    /// The agent of a host reads its counters.
    AgentSample(u32),
    /// The first packet that waits in a host's receive buffer has left it (by path).
    PathDrain(u32),
    /// A generator of memory traffic begins or ends.
    MemoryLoad(u32),
    /// A unit of work of a Linux core ends.
    LinuxCore(u32),
    /// The moderated interrupt of a NAPI instance may be due.
    LinuxIrq(u32),
    /// A timer of the Linux path that is no core's.
    LinuxTimer(u32),
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
            Event::TransportTimer(index) => (2, index),
            Event::PauseEffect(index) => (3, index),
            Event::PauseExpiry(index) => (4, index),
            Event::PauseRefresh(index) => (5, index),
            Event::WriterStart(index) => (6, index),
            Event::WriterStop(index) => (7, index),
            Event::PacingDue(index) => (8, index),
            Event::Sample => (9, 0),
            Event::FlowStart(index) => (10, index),
            Event::LinkChange(index) => (11, index),
            Event::Core(index) => (12, index),
            Event::RingDue(index) => (13, index),
            Event::TcpTimer(index) => (14, index),
            Event::TcpStart(index) => (15, index),
            Event::TcpStop(index) => (16, index),
            Event::Watchdog(index) => (17, index),
            Event::PathDrain(index) => (18, index),
            Event::MemoryLoad(index) => (19, index),
            Event::ControllerTimer(index) => (20, index),
            Event::ProbeAnswer(index) => (21, index),
            Event::AgentSample(index) => (22, index),
            Event::LinuxCore(index) => (23, index),
            Event::LinuxIrq(index) => (24, index),
            Event::LinuxTimer(index) => (25, index),
        };
        debug_assert!(index <= MAX_INDEX);
        kind << INDEX_BITS | index
    }

    #[inline]
    pub fn decode(code: u32) -> Event {
        let index = code & MAX_INDEX;
        match code >> INDEX_BITS {
            0 => Event::Arrival(index),
            1 => Event::PortWake(index),
            2 => Event::TransportTimer(index),
            3 => Event::PauseEffect(index),
            4 => Event::PauseExpiry(index),
            5 => Event::PauseRefresh(index),
            6 => Event::WriterStart(index),
            7 => Event::WriterStop(index),
            8 => Event::PacingDue(index),
            9 => Event::Sample,
            10 => Event::FlowStart(index),
            11 => Event::LinkChange(index),
            12 => Event::Core(index),
            13 => Event::RingDue(index),
            14 => Event::TcpTimer(index),
            15 => Event::TcpStart(index),
            16 => Event::TcpStop(index),
            17 => Event::Watchdog(index),
            18 => Event::PathDrain(index),
            19 => Event::MemoryLoad(index),
            20 => Event::ControllerTimer(index),
            21 => Event::ProbeAnswer(index),
            22 => Event::AgentSample(index),
            23 => Event::LinuxCore(index),
            24 => Event::LinuxIrq(index),
            _ => Event::LinuxTimer(index),
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
            Event::LinkChange(9),
            Event::Core(10),
            Event::RingDue(11),
            Event::TcpTimer(12),
            Event::TcpStart(13),
            Event::TcpStop(14),
            Event::Watchdog(15),
            Event::PathDrain(10),
            Event::MemoryLoad(11),
            Event::ControllerTimer(12),
            Event::ProbeAnswer(13),
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
