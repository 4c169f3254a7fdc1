//! What packets carry for congestion control besides their headers: a timestamp, and what each hop wrote.
//!
//! It lies beside the packet arena, indexed like it, and takes no memory where no NIC asks for it. A data packet's
//! entry begins when it is sent; switches add to it; the ACK that answers it takes a copy back.
//!
//! Source of what a hop writes: Li et al., "HPCC", SIGCOMM 2019, section 4. Bytes sent are those on the wire, preamble
//! and gap included, so that a full link reads as full whatever the packet size.
//!
//! Where a controller asks for digests, switches make one number of their load, and a packet keeps the largest
//! ([`tailback_proto::congestion::pint`]). Their average is of an egress queue: the load of the link, and that queue.
//!
//! Leaves out: that the header grows from hop to hop (its size on the wire is the same from the start).

use rand_core::Rng;
use std::num::NonZeroU16;
use tailback_proto::congestion::builtin::Congestion;
use tailback_proto::congestion::hpcc::MAX_HOPS;
use tailback_proto::congestion::pint::{Digests, EgressLoad};
use tailback_proto::congestion::HopTelemetry;
use tailback_proto::units::{Rate, Time};

use super::lanes::{lane, Lanes, CLASSES};
use crate::engine::{mix, stream, uniform, Stream};

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
    /// Largest load of its route.
    pub digest: Option<NonZeroU16>,
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
    digest: None,
    hop: [HopTelemetry { at: Time::ZERO, tx_bytes: 0, queue_bytes: 0, rate: Rate(1) }; MAX_HOPS],
};

/// What switches keep for digests.
#[derive(Debug)]
struct Digesting {
    digests: Digests,
    /// Of the hash that says which packets carry one.
    key: u64,
    /// By egress queue.
    loads: Lanes<EgressLoad>,
    /// By port: chance takes a load up or down.
    streams: Vec<Stream>,
}

impl Digesting {
    fn new(digests: Digests, seed: u64, streams: impl Iterator<Item = u64>) -> Self {
        let streams: Vec<Stream> = streams.map(|number| stream(seed, "digest", number)).collect();
        let loads = Lanes::new(streams.len(), EgressLoad::default());
        Digesting { digests, key: stream(seed, "digest carriers", 0).next_u64(), loads, streams }
    }

    /// A data packet of a queue pair leaves an egress queue: its digest of that, if it carries one.
    fn digest(&mut self, port: usize, class: u8, id: (u32, u32), hop: &HopTelemetry) -> Option<NonZeroU16> {
        let load = self.digests.measure(&mut self.loads[(port, class)], hop);
        let hash = mix(self.key ^ ((id.0 as u64) << 32 | id.1 as u64));
        let is_carrier = self.digests.is_carrier(hash as u32);
        is_carrier.then(|| self.digests.code(load, uniform(&mut self.streams[port])))
    }
}

/// The telemetry of all packets.
#[derive(Debug)]
pub(crate) struct Telemetry {
    entries: Vec<Entry>,
    /// Whether switches write anything.
    pub is_on: bool,
    /// Whether each writes its load.
    hops: bool,
    digesting: Option<Box<Digesting>>,
}

impl Telemetry {
    /// None.
    pub const OFF: Telemetry = Telemetry { entries: Vec::new(), is_on: false, hops: false, digesting: None };

    /// What these controllers ask for. `streams`: the numbers of the ports' random streams.
    ///
    /// # Errors
    /// They disagree on digests.
    pub fn asked_for<'a>(
        controllers: impl Iterator<Item = &'a Congestion>,
        seed: u64,
        streams: impl Iterator<Item = u64>,
    ) -> Result<Self, &'static str> {
        let (mut hops, mut agreed) = (false, None);
        for controller in controllers {
            let (uses, digests) = (controller.uses(), controller.digests());
            hops |= uses.hop_count || uses.telemetry && digests.is_none();
            if digests.is_some_and(|digests| *agreed.get_or_insert(digests) != digests) {
                return Err("digests that differ; expected one base_rtt, base, probability and telemetry: a switch has one average");
            }
        }
        let digesting = agreed.map(|digests| Box::new(Digesting::new(digests.clone(), seed, streams)));
        Ok(Telemetry { is_on: hops || digesting.is_some(), hops, digesting, ..Telemetry::OFF })
    }

    /// A data packet leaves its sender, which stamps it with this time.
    pub fn begin(&mut self, packet: u32, stamp: Time) {
        let entry = self.entry(packet);
        entry.sent_at = stamp;
        (entry.passed, entry.hops, entry.digest) = (0, 0, None);
    }

    /// A data packet, a queue pair's by its PSN, leaves a queue of a switch. Hops beyond the header's room write nothing.
    pub fn add_hop(&mut self, packet: u32, id: (u32, u32), port: usize, class: u8, hop: HopTelemetry) {
        let digest = self.digesting.as_mut().and_then(|digesting| digesting.digest(port, class, id, &hop));
        // A packet of a NIC without telemetry may lie beyond the entries: it has none.
        let Some(entry) = self.entries.get_mut(packet as usize) else { return };
        entry.digest = entry.digest.max(digest);
        if self.hops {
            entry.passed = entry.passed.saturating_add(1);
            if let Some(place) = entry.hop.get_mut(entry.hops as usize) {
                *place = hop;
                entry.hops += 1;
            }
        }
    }

    /// Takes over what switches kept of a port in another part of the fabric.
    pub fn absorb_port(&mut self, other: &mut Telemetry, port: usize) {
        if let (Some(own), Some(other)) = (&mut self.digesting, &mut other.digesting) {
            std::mem::swap(&mut own.streams[port], &mut other.streams[port]);
            for at in (0..CLASSES as u8).map(|class| lane(port, class)) {
                std::mem::swap(&mut own.loads[at], &mut other.loads[at]);
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
