//! What ports do: a packet is queued, sent, and comes out at the other end of a link.

use tailback_proto::units::Time;

use super::drops::DropReason;
use super::packet::Packet;
use super::port::{Port, CUT, LOSSY, RECLASSIFIES, TAPPED, WEIGHTED};
use super::{lane, Arrived, Fabric};
use crate::engine::{prefetch, uniform};
use crate::event::Event;
#[cfg(debug_assertions)]
use crate::gauge::Came;

/// What is to be known of a port after a packet began to leave by it.
pub(super) struct Leaves {
    /// Node at the other end.
    to: u32,
    /// When it will be there.
    arrival: Time,
    /// The port's.
    pub flags: u8,
}

impl Leaves {
    #[inline(always)]
    pub fn of(port: &Port) -> Leaves {
        let &Port { peer_owner, busy_until, arrival_delay, flags, .. } = port;
        Leaves { to: peer_owner, arrival: busy_until + arrival_delay, flags }
    }
}

impl Fabric {
    /// Which of the `eligible` classes goes next.
    #[inline]
    pub fn next_class(&mut self, port: usize, eligible: u8) -> u8 {
        self.ports[port].next_class(&mut self.ets, port, eligible)
    }

    /// Appends a packet to an egress queue of `port`.
    #[inline]
    pub fn enqueue(&mut self, port: usize, packet: u32) {
        let class = self.packets[packet].class;
        self.queues[(port, class)].append(self.run.now, &mut self.packets, packet);
        self.ports[port].backlogged |= 1 << class;
    }

    /// Takes the first packet of an egress queue that is not empty.
    #[inline]
    pub fn dequeue(&mut self, port: usize, class: u8) -> u32 {
        #[cfg(debug_assertions)]
        self.note_wait(port, class);
        let queue = &mut self.queues[(port, class)];
        let packet = queue.take_first(self.run.now, &self.packets);
        if queue.fifo.is_empty() {
            self.ports[port].backlogged &= !(1 << class);
        }
        packet
    }

    /// The first packet has waited in an egress queue of `port`, and of a switch's for the ingress group that it is charged to.
    #[cfg(debug_assertions)]
    pub(super) fn note_wait(&mut self, port: usize, class: u8) {
        let packet = self.queues[(port, class)].fifo.head().expect("backlogged means not empty");
        let Packet { arrival, ingress, .. } = self.packets[packet];
        let (bytes, came) = (self.packets[packet].frame_bytes() as u64, Came::at(arrival));
        self.queues[(port, class)].over_time.law.left(bytes, came, self.run.now);
        if let Some(switch) = self.switch_of(port) {
            let in_port = self.switches[switch].first_port as usize + ingress as usize;
            self.groups[(in_port, class)].over_time.law.left(bytes, came, self.run.now);
        }
    }

    /// Lets `port` send if it can, now or when its transmitter is free. Gives back the host whose turn it is, where it is a
    /// host's.
    #[inline(never)] // the event loop has its own
    pub fn kick(&mut self, port: usize) -> Option<usize> {
        self.let_send(port)
    }

    #[inline(always)]
    fn let_send(&mut self, port: usize) -> Option<usize> {
        if !self.has_turn(port) {
            return None;
        }
        let owner = self.ports[port].owner as usize;
        if owner < self.hosts {
            return Some(owner);
        }
        self.switch_transmit(port);
        None
    }

    /// Whether `port` may send a packet now. Where its transmitter is busy it looks again when that is free; a pause or a
    /// resume that waits goes first.
    #[inline]
    pub fn has_turn(&mut self, port: usize) -> bool {
        let p = &self.ports[port];
        let busy_until = p.busy_until;
        if busy_until > self.run.now {
            self.wake_port(port, busy_until);
            return false;
        }
        if p.up && p.pfc_pending != 0 {
            self.send_pfc(port);
            return false;
        }
        p.up
    }

    /// Makes sure that `port` looks for something to send at `time` or before.
    #[inline]
    pub fn wake_port(&mut self, port: usize, time: Time) {
        if time < self.ports[port].wake_at {
            self.ports[port].wake_at = time;
            self.run.schedule(time, Event::PortWake(port as u32));
        }
    }

    /// A wake-up event of `port`. Gives back the host whose turn it is, where it is a host's.
    #[inline(always)] // it is the event loop's
    pub fn on_port_wake(&mut self, port: usize) -> Option<usize> {
        let p = &mut self.ports[port];
        if p.wake_at != self.run.now {
            return None; // stale: an earlier one took its place
        }
        p.wake_at = Time::NEVER;
        if p.busy_until > self.run.now || p.pfc_pending != 0 || !p.up {
            return self.kick(port);
        }
        let owner = p.owner as usize;
        if owner < self.hosts {
            return Some(owner);
        }
        self.switch_transmit(port);
        None
    }

    /// Time that `bytes` take on the wire of `port`.
    #[inline]
    pub fn serialization(&self, port: usize, bytes: u32) -> Time {
        self.ports[port].serialization(&self.links, port, bytes)
    }

    /// Puts a packet on the wire; the transmitter must be free.
    #[inline(always)]
    pub fn send(&mut self, port: usize, index: u32) {
        let packets: &mut [Packet] = &mut self.packets;
        let packet = &packets[index as usize];
        let (kind, class) = (packet.kind, packet.class);
        let p = &mut self.ports[port];
        let takes = p.serialization(&self.links, port, packet.wire_bytes as u32);
        let queue = &mut self.queues[(port, class)];
        let first = p.begin(self.run.now, takes, packets, index, queue);
        let flags = p.flags;
        self.transmissions[kind as usize] += 1;
        if flags & (WEIGHTED | TAPPED) != 0 {
            self.tell_sent(port, index);
        }
        if first {
            self.expect_arrival(port, Leaves::of(&self.ports[port]));
        }
    }

    /// A host's new packet goes out by its port at once: with the time stamp that it carries, if it carries one. When the
    /// transmitter is free again.
    #[inline(always)] // what a packet needs is looked up once
    pub fn send_new(&mut self, port: usize, packet: Packet, stamp: Option<Time>) -> Time {
        let index = self.packets.add(packet);
        if let Some(stamp) = stamp {
            self.telemetry.begin(index, stamp);
        }
        self.send_past::<false>(port, index, &packet)
    }

    /// A packet goes out by its port at once, past its queue, which counts it as the most in it if `COUNTS`. When the transmitter
    /// is free again.
    #[inline(always)] // as above
    fn send_past<const COUNTS: bool>(&mut self, port: usize, index: u32, packet: &Packet) -> Time {
        let &Packet { kind, class, wire_bytes, .. } = packet;
        let (wire_bytes, frame_bytes) = (wire_bytes as u32, packet.frame_bytes());
        let p = &mut self.ports[port];
        let takes = p.serialization(&self.links, port, wire_bytes);
        let queue = &mut self.queues[(port, class)];
        if COUNTS {
            queue.max_bytes = queue.max_bytes.max(frame_bytes);
        }
        queue.rx_packets += 1;
        queue.rx_bytes += frame_bytes as u64;
        let first = p.begin(self.run.now, takes, &mut self.packets, index, queue);
        let (busy_until, leaves) = (p.busy_until, Leaves::of(p));
        self.transmissions[kind as usize] += 1;
        if leaves.flags & (WEIGHTED | TAPPED) != 0 {
            self.tell_sent(port, index);
        }
        if first {
            self.expect_arrival(port, leaves);
        }
        busy_until
    }

    /// Sends a packet at once by a port of a host for which nothing else waits, if that is idle. Whether it was.
    #[inline(always)] // where a CNP is made, and for other answers
    pub fn pass(&mut self, port: usize, index: u32) -> bool {
        let packet = self.packets[index];
        let p = &mut self.ports[port];
        let is_idle = p.is_idle(self.run.now, packet.class) && p.flags & WEIGHTED == 0;
        if is_idle {
            p.last_class = packet.class;
            self.send_past::<true>(port, index, &packet);
        }
        is_idle
    }

    /// Tells the port's scheduler and its capture of a packet that begins.
    #[inline(never)] // what most runs never need stays out of the way of what they do
    pub(super) fn tell_sent(&mut self, port: usize, index: u32) {
        let Packet { class, wire_bytes, .. } = self.packets[index];
        if self.ports[port].flags & WEIGHTED != 0 {
            self.ets[port].on_sent(class, wire_bytes as u32);
        }
        if self.ports[port].flags & TAPPED != 0 {
            self.note_sent(port, index, self.run.now);
        }
    }

    /// A packet that just began is the first on the link behind `port`.
    #[inline(always)] // the caller has looked up the port
    pub(super) fn expect_arrival(&mut self, port: usize, leaves: Leaves) {
        if leaves.flags & CUT == 0 {
            self.run.schedule_across(leaves.to, leaves.arrival, Event::Arrival(port as u32));
        } else {
            self.note_sent_across(port);
        }
    }

    /// The first packet on the link behind `port` reaches the node at its end, and goes to whom it is for.
    #[inline(always)] // it has one caller, the event loop
    pub fn on_arrival(&mut self, port: usize) -> Option<Arrived> {
        let p = &mut self.ports[port];
        let packets: &mut [Packet] = &mut self.packets;
        let arrived = p.in_flight.first(packets).filter(|packet| packet.arrival == self.run.now);
        let arrived = *arrived?; // else the link failed with the packet on it
        let index = p.in_flight.drop_first(&arrived);
        let (peer, node, flags) = (p.peer as usize, p.peer_owner as usize, p.flags);
        let mut next_at = Time::NEVER;
        if let Some(next) = p.in_flight.first(packets) {
            prefetch(packets, next.next as usize);
            next_at = next.arrival;
        }
        let mut class = Some(arrived.class);
        if flags & (LOSSY | RECLASSIFIES) != 0 {
            class = self.class_on_arrival(port, index);
        }
        if let Some(class) = class {
            let group = &mut self.groups[(peer, class)];
            group.rx_packets += 1;
            group.rx_bytes += arrived.frame_bytes() as u64;
        }
        // Last, for nothing else is kept over the call.
        if next_at != Time::NEVER {
            self.run.schedule(next_at, Event::Arrival(port as u32));
        }
        class?;
        Some(Arrived { node, port: peer, packet: index })
    }

    /// The class of a packet that has arrived, which the link behind `port` may have lost, and the node there may put in another
    /// one. `None`: it is lost.
    #[inline(never)] // what most runs never need stays out of the way of what they do
    fn class_on_arrival(&mut self, port: usize, index: u32) -> Option<u8> {
        let Port { flags, peer_owner, .. } = self.ports[port];
        if flags & LOSSY != 0 && self.is_lost(port) {
            self.drop_packet(port, index, DropReason::LinkLoss);
            return None;
        }
        let packet = &mut self.packets[index];
        if flags & RECLASSIFIES != 0 {
            packet.class = self.classes.of(peer_owner as usize)[packet.code_point as usize];
        }
        Some(packet.class)
    }

    fn is_lost(&mut self, port: usize) -> bool {
        let link = &mut self.links[port];
        uniform(&mut link.loss_stream) < link.loss
    }

    /// Ends a packet's life, with a reason. `port`: the one that it was lost at (for headroom, the ingress port), or
    /// behind.
    pub fn drop_packet(&mut self, port: usize, index: u32, reason: DropReason) {
        self.count_drop(port, index, reason);
        self.packets.remove(index);
    }

    /// Notes that a packet, or what it carries, is dropped.
    pub(super) fn count_drop(&mut self, port: usize, index: u32, reason: DropReason) {
        let Packet { kind, class, .. } = self.packets[index];
        self.drops[lane(port, class)][reason as usize].count(self.packets[index].frame_bytes());
        self.dropped[(port, class)][reason.is_ingress() as usize] += 1;
        if kind.is_data() {
            self.data.dropped += 1;
        }
        self.note_dropped(port, index, reason);
    }

    /// Bytes that a port of a bridge was given and has not put on the wire yet: its device takes packets ahead.
    pub fn unsent_bytes(&self, port: usize) -> u64 {
        let p = &self.ports[port];
        let begun = |packet: &Packet| {
            let left = packet.arrival.saturating_sub(p.arrival_delay);
            left.saturating_sub(self.serialization(port, packet.wire_bytes as u32)) <= self.run.now
        };
        let waiting = p.in_flight.iter(&self.packets).filter(|&packet| !begun(packet));
        waiting.map(|packet| packet.wire_bytes as u64).sum()
    }

    /// Puts a packet on the link behind a port; it has left completely at `left`. Calls must come in the order of `left`.
    pub fn send_at(&mut self, port: usize, index: u32, left: Time) {
        let packet = &mut self.packets[index];
        let (class, wire_bytes, kind, frame) =
            (packet.class, packet.wire_bytes, packet.kind, packet.frame_bytes());
        let p = &mut self.ports[port];
        p.busy_until = left;
        p.wire_bytes += if p.up { wire_bytes as u64 } else { 0 };
        let arrival = left + p.arrival_delay;
        packet.arrival = arrival;
        let (first, up, tapped) = (p.in_flight.is_empty(), p.up, p.flags & TAPPED != 0);
        let peer_owner = p.peer_owner;
        let queue = &mut self.queues[(port, class)];
        queue.pass(frame);
        queue.tx_packets += 1;
        queue.tx_bytes += frame as u64;
        self.transmissions[kind as usize] += 1;
        if !up {
            self.drop_packet(port, index, DropReason::LinkDown);
            return;
        }
        self.ports[port].in_flight.push(&mut self.packets, index);
        if tapped {
            self.note_sent(port, index, left - self.serialization(port, wire_bytes as u32));
        }
        if first {
            self.run.schedule_across(peer_owner, arrival, Event::Arrival(port as u32));
        }
    }
}
