//! Ethernet transmit rings: one for each core and class, next to the queue pairs in the NIC's arbiter.
//!
//! A ring takes a turn of its class like a queue pair does, a packet each. A burst (TSO) is cut into segments by the
//! NIC, which follow each other at line rate unless others of the class have their turns in between.
//!
//! Leaves out: the number of descriptors of a ring (TCP small queues keep them few), what fetching them takes, and the
//! interrupts that tell the driver what has left.

use std::collections::{HashMap, VecDeque};
use tailback_proto::nic::Standing;
use tailback_proto::units::Time;

use crate::engine::Arena;
use crate::fabric::packet::Packet;
use crate::gauge::Came;

/// What a core handed to the NIC.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Descriptor {
    /// When it did.
    pub ready_at: Time,
    pub work: Work,
    pub came: Came,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    /// A packet as it is.
    Packet(u32),
    Burst(TxBurst),
}

impl Work {
    /// Of a burst what was not sent yet, of a packet its frame.
    #[cfg(debug_assertions)]
    fn bytes(&self, packets: &Arena<Packet>) -> u64 {
        match self {
            Work::Packet(index) => packets[*index].frame_bytes() as u64,
            Work::Burst(burst) => burst.bytes as u64,
        }
    }
}

/// A burst, as far as it was not sent yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TxBurst {
    pub connection: u32,
    pub position: u64,
    pub bytes: u32,
    /// Whole length, bytes.
    pub whole: u32,
    /// Its timestamp.
    pub sent_at: Time,
    /// Whether it was sent before.
    pub retransmission: bool,
    /// Of its next packet.
    pub flags: u8,
}

#[derive(Debug)]
pub(crate) struct TxRing {
    pub(super) descriptors: VecDeque<Descriptor>,
    pub(super) port: u32,
    pub(super) class: u8,
    /// Whether it is in the NIC's ready ring, or has an event that will put it there.
    pub(super) scheduled: bool,
    /// What waits in it, which nothing records: payload of bursts, and frames.
    #[cfg(debug_assertions)]
    pub waiting: crate::gauge::Gauge,
}

impl TxRing {
    /// What a core hands over comes into it.
    #[inline(always)]
    pub(super) fn note_comes(&mut self, _now: Time, _packets: &Arena<Packet>, _descriptor: &Descriptor) {
        #[cfg(debug_assertions)]
        self.waiting.change(_now, _descriptor.work.bytes(_packets) as i64);
    }

    /// `_bytes` of what came at `_came` leave.
    #[inline(always)]
    pub(super) fn note_left(&mut self, _now: Time, _bytes: impl FnOnce() -> u32, _came: Came) {
        #[cfg(debug_assertions)]
        {
            let bytes = _bytes();
            self.waiting.change(_now, -(bytes as i64));
            self.waiting.left(bytes as u64, _came, _now);
        }
    }

    /// Bytes that wait, and since when.
    #[cfg(debug_assertions)]
    pub fn waits<'a>(&'a self, packets: &'a Arena<Packet>) -> impl Iterator<Item = (u64, Came)> + 'a {
        self.descriptors.iter().map(|descriptor| (descriptor.work.bytes(packets), descriptor.came))
    }

    /// Where it stands when it may send from `by` on.
    pub(super) fn standing(&self, by: Time) -> Standing {
        Standing::new(self.descriptors.front().map(|next| next.ready_at), by)
    }
}

/// All transmit rings.
#[derive(Debug, Default)]
pub(crate) struct TxRings {
    pub(super) rings: Vec<TxRing>,
    pub(super) known: HashMap<(u32, u8), u32>,
}

impl TxRings {
    /// The ring of a core and class, of a NIC with this port.
    pub fn ring(&mut self, core: u32, class: u8, port: u32) -> u32 {
        *self.known.entry((core, class)).or_insert_with(|| {
            self.rings.push(TxRing {
                descriptors: VecDeque::new(),
                port,
                class,
                scheduled: false,
                #[cfg(debug_assertions)]
                waiting: Default::default(),
            });
            self.rings.len() as u32 - 1
        })
    }

    /// All of them.
    #[cfg(debug_assertions)]
    pub fn rings(&self) -> &[TxRing] {
        &self.rings
    }

    #[cfg(all(test, debug_assertions))]
    pub fn rings_mut(&mut self) -> &mut [TxRing] {
        &mut self.rings
    }

    /// Class of what goes out by a ring.
    pub fn class(&self, ring: u32) -> u8 {
        self.rings[ring as usize].class
    }
}
