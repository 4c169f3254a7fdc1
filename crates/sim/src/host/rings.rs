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

/// What a core handed to the NIC.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Descriptor {
    /// When it did.
    pub ready_at: Time,
    pub work: Work,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    /// A packet as it is.
    Packet(u32),
    Burst(TxBurst),
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
pub(super) struct TxRing {
    pub(super) descriptors: VecDeque<Descriptor>,
    pub(super) port: u32,
    pub(super) class: u8,
    /// Whether it is in the NIC's ready ring, or has an event that will put it there.
    pub(super) scheduled: bool,
}

impl TxRing {
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
            self.rings.push(TxRing { descriptors: VecDeque::new(), port, class, scheduled: false });
            self.rings.len() as u32 - 1
        })
    }

    /// Class of what goes out by a ring.
    pub fn class(&self, ring: u32) -> u8 {
        self.rings[ring as usize].class
    }
}
