//! Packets that a capture has twice: of both ports of a mirror, or where they enter a switch and where they leave it.
//!
//! A copy has the bytes of the first from its IP header on, without those that hops change. A retransmission may have that, too, so more must
//! hold: no NAK asked for it since, and it comes sooner than a sender's timer would. Where senders number their packets (identification
//! of IPv4) that is [`COUNTED_PS`]; where they do not, it is [`UNCOUNTED_PS`], the shortest timer there is.

use crate::clock::{since, Time, NO_TIME};

/// A sender that is silent for less did not wait for its timer. An assumption: NICs' timers are longer.
pub const LEAST_TIMEOUT_PS: u64 = 100_000_000;
/// Between a packet with a number of its own and its copy: a switch's queue may lie between the two points.
const COUNTED_PS: u64 = LEAST_TIMEOUT_PS;
/// The shortest local ACK timeout: 4.096 us times 2 (IBTA 9.7.6.1.3).
const UNCOUNTED_PS: u64 = 8_192_000;
/// CNPs have no PSN and are repeated; a NIC's shortest interval by default is 4 us.
const CNP_PS: u64 = 2_000_000;
/// Equal packets of which one may be a copy, though nothing says so.
const PERHAPS_PS: u64 = 10_000_000_000;
const ENTRIES: usize = 1 << 16;
const MARKED: u32 = 1 << 31;

/// A packet, as far as copies are told by it.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// Which way, and what kind of packet: those of two are never copies.
    pub way: u32,
    /// [`crate::connections::Kind`] as a number.
    pub kind: u32,
    /// Its PSN.
    pub psn: u32,
    /// Over its bytes.
    pub digest: u32,
    /// Whether it is marked CE.
    pub marked: bool,
    /// When.
    pub at: Time,
    /// How many packets were looked at before.
    pub packet_number: u32,
}

/// What else is known where an equal packet is found.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// Its sender numbers its packets.
    pub counted: bool,
    /// Nothing else explains that it comes again: its sender was not silent, and it is no answer, which another request may ask for.
    pub unexplained: bool,
    /// It is a CNP.
    pub is_cnp: bool,
    /// Other packets of the connection were captured twice.
    pub others_are_copies: bool,
    /// When, in packets, a NAK was last seen that asks for it.
    pub asked_at: Option<u32>,
}

/// What a packet is to the newest equal one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Equal {
    /// There is none, or this one was retransmitted.
    No,
    /// It may be a copy.
    Perhaps,
    /// It is a copy. `newly_marked`: it is marked, and the first was not.
    Copy { newly_marked: bool },
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    at: Time,
    way: u32,
    psn_and_mark: u32,
    digest: u32,
    packet_number: u32,
}

/// The newest packets, one for each of so many numbers.
#[derive(Debug, Default)]
pub struct Copies {
    entries: Vec<Entry>,
}

impl Copies {
    /// A packet passes.
    pub fn on_packet(&mut self, packet: &Packet, known: impl FnOnce() -> Known) -> Equal {
        if self.entries.is_empty() {
            let none = Entry { at: NO_TIME, way: u32::MAX, psn_and_mark: 0, digest: 0, packet_number: 0 };
            self.entries = vec![none; ENTRIES];
        }
        // Packets that follow each other stay neighbours: the table is larger than a cache.
        let place = (packet.way.wrapping_mul(8).wrapping_add(packet.kind)).wrapping_mul(0x9e37_79b1) >> 8;
        let entry = &mut self.entries[place.wrapping_add(packet.psn) as usize % ENTRIES];
        let same = entry.way == packet.way
            && entry.psn_and_mark & !MARKED == packet.psn
            && entry.digest == packet.digest;
        let equal = if same { told_apart(entry, packet, known()) } else { Equal::No };
        if let Equal::Copy { newly_marked } = equal {
            entry.psn_and_mark |= if newly_marked { MARKED } else { 0 };
            return equal;
        }
        *entry = Entry {
            at: packet.at,
            way: packet.way,
            psn_and_mark: packet.psn | if packet.marked { MARKED } else { 0 },
            digest: packet.digest,
            packet_number: packet.packet_number,
        };
        equal
    }
}

fn told_apart(entry: &Entry, packet: &Packet, known: Known) -> Equal {
    let asked = known.asked_at.is_some_and(|at| at.wrapping_sub(entry.packet_number) < u32::MAX / 2);
    if asked {
        return Equal::No;
    }
    let copy = Equal::Copy { newly_marked: packet.marked && entry.psn_and_mark & MARKED == 0 };
    // Two ports of a mirror may write in any order.
    let apart = since(packet.at, entry.at).or_else(|| since(entry.at, packet.at));
    let perhaps = if known.unexplained { Equal::Perhaps } else { Equal::No };
    let Some(apart) = apart else {
        return if known.counted { copy } else { perhaps };
    };
    let most = match known {
        Known { counted: true, .. } => COUNTED_PS,
        Known { is_cnp: true, others_are_copies: true, .. } => CNP_PS,
        Known { is_cnp: true, .. } => return Equal::No,
        _ => UNCOUNTED_PS,
    };
    let most_perhaps = if known.is_cnp { UNCOUNTED_PS } else { PERHAPS_PS };
    match apart {
        _ if apart <= most => copy,
        _ if apart <= most_perhaps => perhaps,
        _ => Equal::No,
    }
}
