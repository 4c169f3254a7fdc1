//! What transmit rings do: they join the turns of the NIC's arbiter, and send a packet when theirs comes.

use super::rings::{Descriptor, TxBurst, TxRing, Work};
use super::Tcp;
use crate::event::Event;
use crate::fabric::drops::DropReason;
use crate::fabric::lanes::CLASSES;
use crate::fabric::packet::CWR;
use crate::fabric::Fabric;
use crate::nic::{Nics, ETHERNET};
use tailback_proto::nic::Standing;

impl Tcp {
    /// A core hands something to the NIC, at `descriptor.ready_at`, which is now or later.
    pub fn ring_push(&mut self, fabric: &mut Fabric, nics: &mut Nics, ring: u32, descriptor: Descriptor) {
        let r = &mut self.rings.rings[ring as usize];
        let bytes = match descriptor.work {
            Work::Packet(_) => 0,
            Work::Burst(burst) => burst.bytes,
        };
        r.note_comes(fabric.run.now, &fabric.packets, &descriptor);
        r.descriptors.push_back(descriptor);
        let host = fabric.ports[r.port as usize].owner as usize;
        nics[host].backlog_bytes[r.class as usize] += bytes as i64;
        if r.scheduled {
            return;
        }
        r.scheduled = true;
        if descriptor.ready_at <= fabric.run.now {
            self.on_ring_due(fabric, nics, ring);
        } else {
            fabric.run.schedule(descriptor.ready_at, Event::RingDue(ring));
        }
    }

    /// The first descriptor of a ring is ready: the ring joins its class's turns.
    #[inline(never)] // what most runs never need stays out of the way of what they do
    pub fn on_ring_due(&mut self, fabric: &mut Fabric, nics: &mut Nics, ring: u32) {
        let port = self.rings.rings[ring as usize].port as usize;
        if fabric.ports[port].up {
            self.join_turns(fabric, nics, ring);
            let host = fabric.ports[port].owner as usize;
            nics.kick(fabric, self, host);
        } else {
            self.drain(fabric, nics, ring);
        }
    }

    #[inline(always)] // every packet's turn ends with it
    fn join_turns(&mut self, fabric: &mut Fabric, nics: &mut Nics, ring: u32) {
        let TxRing { port, class, .. } = self.rings.rings[ring as usize];
        let nic = &mut nics[fabric.ports[port as usize].owner as usize];
        nic.arbiter.join(class, ETHERNET | ring);
    }

    /// Sends the next packet of a ring, whose turn it is.
    #[inline(never)] // what most runs never need stays out of the way of what they do
    pub fn send_from_ring(&mut self, fabric: &mut Fabric, nics: &mut Nics, port: usize, ring: u32) {
        let (index, sent) = self.take_packet(fabric, nics, ring);
        fabric.send(port, index);
        let r = &mut self.rings.rings[ring as usize];
        match r.standing(fabric.ports[port].busy_until) {
            Standing::Idle => r.scheduled = false,
            Standing::Ready => self.join_turns(fabric, nics, ring),
            Standing::Waits(until) => fabric.run.schedule(until, Event::RingDue(ring)),
        }
        if let Some(burst) = sent {
            self.on_burst_sent(fabric, nics, &burst);
        }
    }

    /// The next packet of a ring, and the burst that ends with it.
    #[inline(always)] // in each packet's turn; the burst then stays in registers
    fn take_packet(&mut self, fabric: &mut Fabric, nics: &mut Nics, ring: u32) -> (u32, Option<TxBurst>) {
        let r = &mut self.rings.rings[ring as usize];
        let (port, class) = (r.port as usize, r.class);
        let front = r.descriptors.front_mut().expect("a ring that takes a turn has work");
        let came = front.came;
        let mut sent = None;
        let index = match &mut front.work {
            Work::Packet(index) => {
                let index = *index;
                r.descriptors.pop_front();
                r.note_left(fabric.run.now, || fabric.packets[index].frame_bytes(), came);
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
                r.note_left(fabric.run.now, || payload, came);
                let host = fabric.ports[port].owner as usize;
                nics[host].backlog_bytes[class as usize] -= payload as i64;
                self.data_packet(fabric, &cut, payload, class)
            }
        };
        let queue = &mut fabric.queues[(port, class)];
        queue.rx_packets += 1;
        queue.rx_bytes += fabric.packets[index].frame_bytes() as u64;
        (index, sent)
    }

    /// The link of a NIC fails: what waits in its rings is lost, as what waits at a switch's port is.
    pub fn fail_rings(&mut self, fabric: &mut Fabric, nics: &mut Nics, host: usize) {
        for class in 0..CLASSES as u8 {
            let rings = nics[host].arbiter.take_all(class, |sender| sender & ETHERNET != 0);
            rings.into_iter().for_each(|ring| self.drain(fabric, nics, ring & !ETHERNET));
        }
    }

    /// Drops what is ready in a ring whose link is down.
    fn drain(&mut self, fabric: &mut Fabric, nics: &mut Nics, ring: u32) {
        loop {
            let r = &mut self.rings.rings[ring as usize];
            match r.standing(fabric.run.now) {
                Standing::Idle => {
                    r.scheduled = false;
                    return;
                }
                Standing::Waits(until) => {
                    fabric.run.schedule(until, Event::RingDue(ring));
                    return;
                }
                Standing::Ready => {}
            }
            let port = r.port as usize;
            let (index, sent) = self.take_packet(fabric, nics, ring);
            fabric.drop_packet(port, index, DropReason::PortDown);
            if let Some(burst) = sent {
                self.on_burst_sent(fabric, nics, &burst);
            }
        }
    }

    /// Payload of the bursts that wait in transmit rings, by connection: for the books.
    pub fn ring_payload(&self, connections: usize) -> Vec<u64> {
        let mut waiting = vec![0; connections];
        for descriptor in self.rings.rings.iter().flat_map(|ring| &ring.descriptors) {
            if let Work::Burst(burst) = descriptor.work {
                waiting[burst.connection as usize] += burst.whole as u64;
            }
        }
        waiting
    }
}
