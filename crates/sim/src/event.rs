//! Events of a run. An event is 32 bits: 5 of kind, 27 of index.
//!
//! They are its place among simultaneous events, too: first by kind, in the order in which kinds are listed here, then
//! by their source, which is the link, port, queue pair, core or timer that the event belongs to. What one source
//! brings at one instant is the same event, or has a number of the source's own. So the order of events follows from
//! what happens at a node, and not from when, where and beside what else it was scheduled: it stays when other nodes
//! are added, or are simulated elsewhere.
//!
//! A pause comes behind all that may begin a packet at that instant: nothing lets a sender see it coming, and headroom is
//! for the worst case. What concerns the whole network comes last: a link fails, then a bin closes.

/// Declares the kinds of events, in the order of simultaneous ones. Each has an index but the last.
macro_rules! events {
    ($($(#[$about:meta])* $Kind:ident,)*; $(#[$last_about:meta])* $Last:ident) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Event {
            $($(#[$about])* $Kind(u32),)*
            $(#[$last_about])* $Last,
        }

        #[allow(non_upper_case_globals)]
        mod number {
            enum Kind {
                $($Kind,)*
                $Last,
            }
            $(pub const $Kind: u32 = Kind::$Kind as u32;)*
            pub const $Last: u32 = Kind::$Last as u32;
        }

        impl Event {
            #[inline]
            pub fn encode(self) -> u32 {
                let (kind, index) = match self {
                    $(Event::$Kind(index) => (number::$Kind, index),)*
                    Event::$Last => (number::$Last, 0),
                };
                debug_assert!(index <= MAX_INDEX);
                kind << INDEX_BITS | index
            }

            #[inline]
            pub fn decode(code: u32) -> Event {
                let index = code & MAX_INDEX;
                match code >> INDEX_BITS {
                    $(number::$Kind => Event::$Kind(index),)*
                    number::$Last..=31 => Event::$Last,
                    _ => unreachable!("5 bits"), // without which the range would be checked
                }
            }
        }
    };
}

events! {
    /// The first packet on the link behind a port arrives.
    Arrival,
    /// A port's transmitter is free.
    PortWake,
    /// The pacing of a queue pair lets it send again.
    PacingDue,
    /// The transport timer of a queue pair may be due.
    TransportTimer,
    /// A controller's own timer of a queue pair may be due.
    ControllerTimer,
    /// The write of a probe (a packet) has ended in its receiver's memory.
    ProbeAnswer,
    /// The NAK of a gap (a packet) leaves the responder's slow path.
    DelayedNak,
    /// A writer begins.
    WriterStart,
    /// A writer posts no more.
    WriterStop,
    /// A message of the flow list is posted.
    FlowStart,
    /// A message that something waits for is done (by queue pair).
    MessageDone,
    /// A message that something waits for is in its receiver's memory (by queue pair).
    MessageArrived,
    /// A time that work waits for has come.
    Work,
    /// The connections of a group begin.
    TcpStart,
    /// The applications of a group write no more.
    TcpStop,
    /// A generator of memory traffic begins or ends.
    MemoryLoad,
    /// The agent of a host reads its counters.
    AgentSample,
    /// The first packet that waits in a host's receive buffer has left it (by path).
    HostPathDrain,
    /// A core's batch of work ends, or an interrupt is due that was held back.
    Core,
    /// The first descriptor of a transmit ring is ready.
    RingDue,
    /// A timer of a TCP connection may be due: twice the connection, plus one for its receiver.
    TcpTimer,
    /// A unit of work of a Linux core ends.
    LinuxCore,
    /// The moderated interrupt of a NAPI instance may be due.
    LinuxIrq,
    /// A timer of the Linux path that is no core's.
    LinuxTimer,
    /// The first PFC frame on the link behind a port takes effect.
    PauseEffect,
    /// The quanta of a lane may have run out.
    PauseExpiry,
    /// A lane repeats its pause, if it still holds it.
    PauseRefresh,
    /// The PFC watchdog of a lane may be due.
    Watchdog,
    /// A link fails or is repaired.
    LinkChange,
    ;
    /// The recorder closes a bin.
    Sample
}

const INDEX_BITS: u32 = 27;

/// Most ports times classes, packets or queue pairs that an event can name.
pub(crate) const MAX_INDEX: u32 = (1 << INDEX_BITS) - 1;

impl Event {
    /// True if the plan sets its time.
    pub fn is_of_plan(self) -> bool {
        use Event::*;
        matches!(self, WriterStart(_) | WriterStop(_) | FlowStart(_) | LinkChange(_))
    }

    /// The port, if it is an arrival: the first kind, so that one comparison tells.
    #[inline(always)]
    pub fn arrival(code: u32) -> Option<u32> {
        (code <= MAX_INDEX).then_some(code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decode_inverts_encode_for_every_kind() {
        for kind in 0..=number::Sample {
            for index in [0, 1, MAX_INDEX] {
                let event = Event::decode(kind << INDEX_BITS | index);
                assert_eq!(event.encode() >> INDEX_BITS, kind);
                assert_eq!(Event::decode(event.encode()), event);
            }
        }
        assert_eq!(Event::arrival(Event::Arrival(MAX_INDEX).encode()), Some(MAX_INDEX));
        assert_eq!(Event::arrival(Event::PortWake(0).encode()), None);
    }
}
