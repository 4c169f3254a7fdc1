//! Packets, and all else that stands in the calendar.

use tailback_sim::engine::Linked;
use tailback_sim::gauge::QueuedAt;

/// No packet, no route, no slot.
pub(super) use tailback_sim::engine::NONE;

/// Stands for the next packet of one that arrives after the end of the run, and so is in no list.
pub(super) const ON_WIRE: u32 = NONE - 1;

/// What a packet is, or what else happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryKind {
    Data,
    Ack,
    Nack,
    Pfc,
    /// A port has sent its packet. Its place is its port's.
    Sent,
    /// A host's port may have something to send. So is this one's.
    Wake,
    /// Something else, which its `route` names.
    Event,
}

/// Congestion was experienced.
pub(super) const CE: u8 = 1;

/// An ACK's CNP flag.
pub(super) const CNP: u8 = 2;

/// Of a PFC frame: it pauses. Else it resumes.
pub(super) const PAUSE: u8 = 4;

/// The bits above the flags are the priority.
const PRIORITY_SHIFT: u32 = 5;

/// A packet, or another event: two share a cache line, and what comes in is found where the calendar has it.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))] // in one cache line, wherever the first one lies
pub(super) struct Packet {
    /// Order among the events of a list of the calendar.
    pub key: u64,
    /// What stands behind it in a list.
    pub next: u32,
    /// Port at the end of the link that it is on, or that it came by.
    pub ingress: u32,
    /// Of another event: what it is about.
    pub flow: u32,
    /// Position in the flow's bytes: of data its first; of an ACK or NACK the one that is expected. Of a PFC frame the priority
    /// that it is about.
    pub seq: u32,
    /// Place in the routes of the port that it leaves the next switch by. Of another event: which.
    pub route: u32,
    pub wire: u16,
    pub kind: EntryKind,
    /// And its priority.
    pub flags: u8,
    /// To the queue of a switch.
    pub came: QueuedAt,
}

impl Packet {
    /// Nothing yet, of a kind.
    pub fn new(kind: EntryKind, priority: u8) -> Self {
        Packet {
            key: 0,
            next: NONE,
            ingress: NONE,
            flow: NONE,
            seq: 0,
            route: 0,
            wire: 0,
            kind,
            flags: priority << PRIORITY_SHIFT,
            came: QueuedAt::default(),
        }
    }

    #[inline]
    pub fn priority(&self) -> u8 {
        self.flags >> PRIORITY_SHIFT
    }

    /// Has these flags, and no others.
    #[inline]
    pub fn flag(&mut self, flags: u8) {
        self.flags = self.priority() << PRIORITY_SHIFT | flags;
    }
}

impl Linked for Packet {
    #[inline]
    fn next(&self) -> u32 {
        self.next
    }

    #[inline]
    fn set_next(&mut self, next: u32) {
        self.next = next;
    }
}

// Two share a cache line; with assertions each has what Little's law needs besides.
#[cfg(not(debug_assertions))]
const _: () = assert!(size_of::<Packet>() == 32);

// Serialization times. The engine counts picoseconds; that simulator's clock counts nanoseconds.

const PS_PER_S: u128 = 1_000_000_000_000;

/// What becomes of the part of a nanosecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rounding {
    Down,
    Nearest,
    /// A departure: it stays.
    Exact,
}

/// Time that `bytes` take at `rate` bit/s, in ps.
///
/// Unless exact, as ns-3 has it: seconds as a double, cut to a multiple of 2^-64 s, rounded to whole nanoseconds. Rounded
/// down, 1000 B at 100 Gbit/s take 79 ns.
pub(super) fn serialization(bytes: u32, rate: u64, rounding: Rounding) -> u64 {
    let half = match rounding {
        Rounding::Exact => return (bytes as u128 * 8 * PS_PER_S / rate as u128) as u64,
        Rounding::Down => 0,
        Rounding::Nearest => 1 << 63,
    };
    let seconds = bytes as f64 * 8.0 / rate as f64;
    let fixed = seconds * 18_446_744_073_709_551_616.0;
    // Below a second, as all but the slowest are, a conversion to 64 bits is the same and no call.
    let fixed = if seconds < 1.0 { fixed as u64 as u128 } else { fixed as u128 };
    ((fixed * 1_000_000_000 + half) >> 64) as u64 * 1000
}

#[cfg(test)]
mod tests {
    use super::{serialization, Rounding};

    #[test]
    fn times_are_cut_as_in_ns3() {
        let g100 = 100_000_000_000;
        for (bytes, rate, ns) in [
            (1000, g100, 79),
            (1250, g100, 99),
            (1500, g100, 119),
            (4096, g100, 327),
            (1048, g100, 83),
            (60, g100, 4),
            (43, g100, 3),
            (1048, 4 * g100, 20),
        ] {
            assert_eq!(serialization(bytes, rate, Rounding::Down), ns * 1000, "{bytes} B");
        }
        assert_eq!(serialization(1048, g100, Rounding::Exact), 83_840);
        assert_eq!(serialization(1000, g100, Rounding::Nearest), 80_000);
        assert_eq!(serialization(1036, 4 * g100, Rounding::Nearest), 21_000);
    }
}
