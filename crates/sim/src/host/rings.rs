//! Ethernet transmit rings: one for each core and class, next to the queue pairs in the NIC's arbiter.
//!
//! A ring takes a turn of its class like a queue pair does, a packet each. A burst (TSO) is cut into segments by the
//! NIC, which follow each other at line rate unless others of the class have their turns in between.
//!
//! Leaves out: the number of descriptors of a ring (TCP small queues keep them few), what fetching them takes, and the
//! interrupts that tell the driver what has left.

use std::collections::{HashMap, VecDeque};
use tailback_proto::units::Time;

use crate::event::Event;
use crate::fabric::drops::DropReason;
use crate::fabric::packet::CWR;
use crate::fabric::CLASSES;
use crate::world::World;

/// In a class's ready ring: the entry is a transmit ring, and not a queue pair.
pub(crate) const ETHERNET: u32 = 1 << 31;

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
struct TxRing {
    descriptors: VecDeque<Descriptor>,
    port: u32,
    class: u8,
    /// Whether it is in the NIC's ready ring, or has an event that will put it there.
    scheduled: bool,
}

/// All transmit rings.
#[derive(Debug, Default)]
pub(crate) struct TxRings {
    rings: Vec<TxRing>,
    known: HashMap<(u32, u8), u32>,
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

impl World {
    /// A core hands something to the NIC, at `descriptor.ready_at`, which is now or later.
    pub(crate) fn ring_push(&mut self, ring: u32, descriptor: Descriptor) {
        let r = &mut self.tx_rings.rings[ring as usize];
        let bytes = match descriptor.work {
            Work::Packet(_) => 0,
            Work::Burst(burst) => burst.bytes,
        };
        r.descriptors.push_back(descriptor);
        let host = self.fabric.ports[r.port as usize].owner as usize;
        self.nics[host].backlog_bytes[r.class as usize] += bytes as i64;
        if r.scheduled {
            return;
        }
        r.scheduled = true;
        if descriptor.ready_at <= self.fabric.run.now {
            self.on_ring_due(ring);
        } else {
            self.fabric.run.schedule(descriptor.ready_at, Event::RingDue(ring));
        }
    }

    /// The first descriptor of a ring is ready: the ring joins its class's turns.
    #[inline(never)] // what most runs never need stays out of the way of what they do
    pub(crate) fn on_ring_due(&mut self, ring: u32) {
        let port = self.tx_rings.rings[ring as usize].port as usize;
        if self.fabric.ports[port].up {
            self.join_turns(ring);
            self.kick(port);
        } else {
            self.drain(ring);
        }
    }

    fn join_turns(&mut self, ring: u32) {
        let TxRing { port, class, .. } = self.tx_rings.rings[ring as usize];
        let nic = &mut self.nics[self.fabric.ports[port as usize].owner as usize];
        nic.ready[class as usize].push_back(ETHERNET | ring);
        nic.ready_classes |= 1 << class;
    }

    /// Sends the next packet of a ring, whose turn it is.
    #[inline(never)] // what most runs never need stays out of the way of what they do
    pub(crate) fn send_from_ring(&mut self, port: usize, ring: u32) {
        let (index, sent) = self.take_packet(ring);
        self.fabric.send(port, index);
        let r = &mut self.tx_rings.rings[ring as usize];
        match r.descriptors.front().map(|next| next.ready_at) {
            None => r.scheduled = false,
            Some(at) if at <= self.fabric.ports[port].busy_until => self.join_turns(ring),
            Some(at) => self.fabric.run.schedule(at, Event::RingDue(ring)),
        }
        if let Some(burst) = sent {
            self.on_burst_sent(&burst);
        }
    }

    /// The next packet of a ring, and the burst that ends with it.
    fn take_packet(&mut self, ring: u32) -> (u32, Option<TxBurst>) {
        let r = &mut self.tx_rings.rings[ring as usize];
        let (port, class) = (r.port as usize, r.class);
        let front = r.descriptors.front_mut().expect("a ring that takes a turn has work");
        let mut sent = None;
        let index = match &mut front.work {
            Work::Packet(index) => {
                let index = *index;
                r.descriptors.pop_front();
                index
            }
            Work::Burst(burst) => {
                let cut = *burst;
                let payload = cut.bytes.min(self.sockets.mss(cut.connection));
                burst.position += payload as u64;
                burst.bytes -= payload;
                burst.flags &= !CWR;
                if burst.bytes == 0 {
                    r.descriptors.pop_front();
                    sent = Some(cut);
                }
                let host = self.fabric.ports[port].owner as usize;
                self.nics[host].backlog_bytes[class as usize] -= payload as i64;
                self.data_packet(&cut, payload, class)
            }
        };
        let queue = &mut self.fabric.queues[(port, class)];
        queue.rx_packets += 1;
        queue.rx_bytes += self.fabric.packets[index].frame_bytes() as u64;
        (index, sent)
    }

    /// The link of a NIC fails: what waits in its rings is lost, as what waits at a switch's port is.
    pub(crate) fn fail_rings(&mut self, host: usize) {
        for class in 0..CLASSES {
            let nic = &mut self.nics[host];
            let rings: Vec<u32> =
                nic.ready[class].iter().copied().filter(|entry| entry & ETHERNET != 0).collect();
            nic.ready[class].retain(|entry| entry & ETHERNET == 0);
            if nic.ready[class].is_empty() {
                nic.ready_classes &= !(1 << class);
            }
            rings.into_iter().for_each(|ring| self.drain(ring & !ETHERNET));
        }
    }

    /// Drops what is ready in a ring whose link is down.
    fn drain(&mut self, ring: u32) {
        loop {
            let r = &mut self.tx_rings.rings[ring as usize];
            match r.descriptors.front().map(|next| next.ready_at) {
                None => {
                    r.scheduled = false;
                    return;
                }
                Some(at) if at > self.fabric.run.now => {
                    self.fabric.run.schedule(at, Event::RingDue(ring));
                    return;
                }
                Some(_) => {}
            }
            let port = r.port as usize;
            let (index, sent) = self.take_packet(ring);
            self.fabric.drop_packet(port, index, DropReason::PortDown);
            if let Some(burst) = sent {
                self.on_burst_sent(&burst);
            }
        }
    }

    /// Payload of the bursts that wait in transmit rings, by connection: for the books.
    pub(crate) fn ring_payload(&self, connections: usize) -> Vec<u64> {
        let mut waiting = vec![0; connections];
        for descriptor in self.tx_rings.rings.iter().flat_map(|ring| &ring.descriptors) {
            if let Work::Burst(burst) = descriptor.work {
                waiting[burst.connection as usize] += burst.whole as u64;
            }
        }
        waiting
    }
}
