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

/// What a packet carries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// Of an answer: of the packet that it answers.
    pub sent_at: Time,
    /// Of an answer: what the receiving host took to make it.
    pub receiver_delay: Time,
    /// Switches that it passed.
    pub passed: u8,
    hops: u8,
    hop: [HopTelemetry; MAX_HOPS],
}

impl Entry {
    /// What its hops wrote.
    pub fn hops(&self) -> &[HopTelemetry] {
        &self.hop[..self.hops as usize]
    }
}

const EMPTY: Entry = Entry {
    sent_at: Time::ZERO,
    receiver_delay: Time::ZERO,
    passed: 0,
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
        (entry.passed, entry.hops) = (0, 0);
    }

    /// A data packet leaves a queue of a switch. Hops beyond the header's room write nothing.
    pub fn add_hop(&mut self, packet: u32, hop: HopTelemetry) {
        // A packet of a NIC without telemetry may lie beyond the entries: it has none.
        if let Some(entry) = self.entries.get_mut(packet as usize) {
            entry.passed = entry.passed.saturating_add(1);
            if let Some(place) = entry.hop.get_mut(entry.hops as usize) {
                *place = hop;
                entry.hops += 1;
            }
        }
    }

    /// `answer` carries back what `packet` brought.
    pub fn echo(&mut self, packet: u32, answer: u32, receiver_delay: Time) {
        let entry = *self.entry(packet);
        *self.entry(answer) = Entry { receiver_delay, ..entry };
    }

    /// What a packet carries.
    pub fn of(&mut self, packet: u32) -> &Entry {
        self.entry(packet)
    }

    /// A packet's entry, where it has one: for another part of the fabric.
    pub fn carried(&self, packet: u32) -> Option<Entry> {
        (!self.entries.is_empty()).then(|| self.entries.get(packet as usize).copied().unwrap_or(EMPTY))
    }

    /// The entry that a packet has there.
    pub fn set(&mut self, packet: u32, entry: Entry) {
        *self.entry(packet) = entry;
    }

    fn entry(&mut self, packet: u32) -> &mut Entry {
        let index = packet as usize;
        if index >= self.entries.len() {
            self.entries.resize(index + 1, EMPTY);
        }
        &mut self.entries[index]
    }
}
