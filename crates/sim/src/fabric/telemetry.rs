//! What packets carry for congestion control besides their headers: a timestamp, and what each hop wrote.
//!
//! It lies beside the packet arena, indexed like it, and takes no memory where no NIC asks for it. A data packet's
//! entry begins when it is sent; switches add to it; the ACK that answers it takes a copy back.
//!
//! Source of what a hop writes: Li et al., "HPCC", SIGCOMM 2019, section 4. Bytes sent are those on the wire, preamble
//! and gap included, so that a full link reads as full whatever the packet size.
//!
//! Leaves out: that the header grows from hop to hop (its size on the wire is the same from the start).

use tailback_proto::congestion::hpcc::MAX_HOPS;
use tailback_proto::congestion::HopTelemetry;
use tailback_proto::units::{Rate, Time};

#[derive(Clone, Copy, Debug)]
struct Entry {
    sent_at: Time,
    hops: u8,
    hop: [HopTelemetry; MAX_HOPS],
}

const EMPTY: Entry = Entry {
    sent_at: Time::ZERO,
    hops: 0,
    hop: [HopTelemetry { at: Time::ZERO, tx_bytes: 0, queue_bytes: 0, rate: Rate(1) }; MAX_HOPS],
};

/// The telemetry of all packets.
#[derive(Debug)]
pub(crate) struct Telemetry {
    entries: Vec<Entry>,
    /// Whether switches write.
    pub hops: bool,
}

impl Telemetry {
    pub fn new(hops: bool) -> Self {
        Telemetry { entries: Vec::new(), hops }
    }

    /// A data packet leaves its sender, which stamps it with this time.
    pub fn begin(&mut self, packet: u32, stamp: Time) {
        let entry = self.entry(packet);
        entry.sent_at = stamp;
        entry.hops = 0;
    }

    /// A data packet leaves a queue of a switch. Hops beyond the header's room write nothing.
    pub fn add_hop(&mut self, packet: u32, hop: HopTelemetry) {
        // A packet of a NIC without telemetry may lie beyond the entries: it has none.
        if let Some(entry) = self.entries.get_mut(packet as usize) {
            if let Some(place) = entry.hop.get_mut(entry.hops as usize) {
                *place = hop;
                entry.hops += 1;
            }
        }
    }

    /// `answer` carries back what `packet` brought.
    pub fn echo(&mut self, packet: u32, answer: u32) {
        if packet != answer {
            *self.entry(answer) = *self.entry(packet);
        }
    }

    /// When the packet that this one answers was sent, and what its hops wrote.
    pub fn of(&mut self, packet: u32) -> (Time, &[HopTelemetry]) {
        let entry = self.entry(packet);
        (entry.sent_at, &entry.hop[..entry.hops as usize])
    }

    fn entry(&mut self, packet: u32) -> &mut Entry {
        let index = packet as usize;
        if index >= self.entries.len() {
            self.entries.resize(index + 1, EMPTY);
        }
        &mut self.entries[index]
    }
}
