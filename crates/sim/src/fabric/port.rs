//! A port: its transmitter, the link behind it and its eight egress queues.
//!
//! A hop costs at most two events: the packet's arrival at the other end, and the transmitter's becoming free where
//! something waits for it. Packets on a link arrive in order, so only the first has an event.
//!
//! Store and forward; the latency of the node at the other end is added to the propagation. Leaves out: cut-through
//! switching, cells (buffers count bytes), and lane skew or FEC latency (part of the link's delay).

use tailback_proto::scheduling::ets::pick_round_robin;
use tailback_proto::units::{Rate, Time};

use super::packet::{Fifo, Packet};

use crate::event::Event;
use crate::world::World;

/// The hot part of a port: one cache line.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Port {
    /// When the transmitter is free.
    pub busy_until: Time,
    /// When the wake-up event that counts is due; others are stale.
    pub wake_at: Time,
    /// From the end of a transmission to the packet's arrival in the other node.
    pub arrival_delay: Time,
    /// Packets on the link.
    pub in_flight: Fifo,
    /// Bytes put on the wire, preamble and gap included.
    pub wire_bytes: u64,
    /// Port at the other end.
    pub peer: u32,
    /// Node that it belongs to: hosts first, then switches.
    pub owner: u32,
    /// Node at the other end.
    pub peer_owner: u32,
    /// Time of a byte, where it is a whole number of picoseconds; else 0.
    pub ps_per_byte: u32,
    /// Classes with a packet in their queue.
    pub backlogged: u8,
    /// Classes that the peer has paused.
    pub paused: u8,
    /// Classes with strict priority.
    pub strict: u8,
    /// Class served last in the round.
    pub last_class: u8,
    /// Classes whose pause or resume waits to be sent.
    pub pfc_pending: u8,
    /// What happens to packets behind it: [`LOSSY`], [`RECLASSIFIES`], [`BRIDGE`].
    pub behind: u8,
    /// Whether the link behind it works.
    pub up: bool,
    /// Whether its classes share by weights: see [`World::ets`].
    pub weighted: bool,
}

/// The link behind a port loses packets at random.
pub(crate) const LOSSY: u8 = 1;
/// The node at the other end may put a packet in another class.
pub(crate) const RECLASSIFIES: u8 = 2;
/// The node at the other end is a Linux bridge.
pub(crate) const BRIDGE: u8 = 4;

impl Port {
    /// Whether a packet of `class` that comes now would be sent at once.
    #[inline]
    pub fn is_idle(&self, now: Time, class: u8) -> bool {
        self.busy_until <= now
            && self.up
            && (self.backlogged | self.pfc_pending | (self.paused & 1 << class)) == 0
    }
}

/// The cold part of a port.
#[derive(Debug)]
pub(crate) struct Link {
    /// `node:peer`.
    pub name: String,
    pub rate: Rate,
    pub delay: Time,
    pub loss: f64,
    pub headroom_bytes: u64,
    pub loss_stream: crate::engine::Stream,
}

/// Unit of the integrals of a queue over time, in picoseconds: 64 bits then hold 16 MB for 280 s.
pub(crate) const TICK: u64 = 256;

/// Whole ticks from one instant to another. Spans that follow each other add up exactly.
#[inline]
pub(crate) fn ticks_between(from: Time, to: Time) -> u64 {
    to.0 / TICK - from.0 / TICK
}

/// The mean over a bin of `span` that ends now, from its integral in ticks: over as many as it has, so that no mean is
/// above the maximum.
pub(crate) fn mean_of_ticks(integral: u64, now: Time, span: Time) -> f64 {
    integral as f64 / ticks_between(now - span, now).max(1) as f64
}

/// One egress queue: a cache line, counters included.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(crate) struct ClassQueue {
    pub fifo: Fifo,
    pub bytes: u32,
    pub max_bytes: u32,
    /// Integral of `bytes` over time since the last sample, byte-[`TICK`]s.
    pub byte_ticks: u64,
    pub changed_at: Time,
    /// What came in: by what waited here, or was sent at once.
    pub rx_packets: u64,
    pub rx_bytes: u64,
    pub tx_packets: u64,
    pub tx_bytes: u64,
}

impl ClassQueue {
    pub const EMPTY: ClassQueue = ClassQueue {
        fifo: Fifo::EMPTY,
        bytes: 0,
        max_bytes: 0,
        byte_ticks: 0,
        changed_at: Time::ZERO,
        rx_packets: 0,
        rx_bytes: 0,
        tx_packets: 0,
        tx_bytes: 0,
    };

    /// A packet comes in and leaves at once.
    #[inline]
    pub fn pass(&mut self, bytes: u32) {
        self.max_bytes = self.max_bytes.max(bytes);
        self.rx_packets += 1;
        self.rx_bytes += bytes as u64;
    }

    /// Brings the integral up to `now`, before `bytes` changes.
    #[inline]
    pub fn integrate(&mut self, now: Time) {
        self.byte_ticks += self.bytes as u64 * ticks_between(self.changed_at, now);
        self.changed_at = now;
    }
}

impl World {
    /// Which of the `eligible` classes goes next.
    #[inline]
    pub(crate) fn next_class(&mut self, port: usize, eligible: u8) -> u8 {
        let p = &mut self.ports[port];
        if p.weighted {
            return self.ets[port].pick(eligible);
        }
        p.last_class = pick_round_robin(eligible, p.strict, p.last_class);
        p.last_class
    }

    /// Appends a packet to an egress queue of `port`.
    #[inline]
    pub(crate) fn enqueue(&mut self, port: usize, packet: u32) {
        let class = self.packets[packet].class;
        let bytes = self.packets[packet].frame_bytes();
        let queue = &mut self.queues[(port, class)];
        queue.integrate(self.now);
        queue.fifo.push(&mut self.packets, packet);
        queue.bytes += bytes;
        queue.max_bytes = queue.max_bytes.max(queue.bytes);
        queue.rx_packets += 1;
        queue.rx_bytes += bytes as u64;
        self.ports[port].backlogged |= 1 << class;
    }

    /// Takes the first packet of an egress queue that is not empty.
    #[inline(always)] // a hop has it once: with what follows it looks up the queue and the packet once
    pub(crate) fn dequeue(&mut self, port: usize, class: u8) -> u32 {
        let queue = &mut self.queues[(port, class)];
        queue.integrate(self.now);
        let packet = queue.fifo.pop(&self.packets).expect("backlogged means not empty");
        self.packets.prefetch(queue.fifo.head());
        queue.bytes -= self.packets[packet].frame_bytes();
        if queue.fifo.is_empty() {
            self.ports[port].backlogged &= !(1 << class);
        }
        packet
    }

    /// Lets `port` send if it can, now or when its transmitter is free.
    #[inline]
    pub(crate) fn kick(&mut self, port: usize) {
        let busy_until = self.ports[port].busy_until;
        if busy_until > self.now {
            self.wake_port(port, busy_until);
        } else {
            self.transmit_next(port);
        }
    }

    /// Makes sure that `port` looks for something to send at `time` or before.
    #[inline]
    pub(crate) fn wake_port(&mut self, port: usize, time: Time) {
        if time < self.ports[port].wake_at {
            self.ports[port].wake_at = time;
            self.schedule(time, Event::PortWake(port as u32));
        }
    }

    /// A wake-up event of `port`.
    #[inline]
    pub(crate) fn on_port_wake(&mut self, port: usize) {
        if self.ports[port].wake_at != self.now {
            return; // stale: an earlier one took its place
        }
        self.ports[port].wake_at = Time::NEVER;
        self.kick(port);
    }

    fn transmit_next(&mut self, port: usize) {
        if !self.ports[port].up {
            return;
        }
        if self.ports[port].pfc_pending != 0 {
            self.send_pfc(port);
            // What follows is found out when the frame has left.
            let busy_until = self.ports[port].busy_until;
            self.wake_port(port, busy_until);
        } else if (self.ports[port].owner as usize) < self.nics.len() {
            self.nic_transmit(port);
        } else {
            self.switch_transmit(port);
        }
    }

    /// Time that `bytes` take on the wire of `port`.
    #[inline]
    pub(crate) fn serialization(&self, port: usize, bytes: u32) -> Time {
        match self.ports[port].ps_per_byte {
            0 => self.links[port].rate.serialization(bytes as u64),
            ps => Time(ps as u64 * bytes as u64),
        }
    }

    /// Puts a packet on the wire; the transmitter must be free.
    #[inline(always)]
    pub(crate) fn send(&mut self, port: usize, index: u32) {
        let wire_bytes = self.packets[index].wire_bytes as u32;
        let busy_until = self.now + self.serialization(port, wire_bytes);
        let p = &mut self.ports[port];
        debug_assert!(p.busy_until <= self.now, "one thing at a time is on the wire");
        p.busy_until = busy_until;
        p.wire_bytes += wire_bytes as u64;
        let arrival = busy_until + p.arrival_delay;
        let (first, weighted) = (p.in_flight.is_empty(), p.weighted);
        let packet = &mut self.packets[index];
        packet.arrival = arrival;
        let (kind, class, frame_bytes) = (packet.kind, packet.class, packet.frame_bytes());
        p.in_flight.push(&mut self.packets, index);
        let queue = &mut self.queues[(port, class)];
        queue.tx_packets += 1;
        queue.tx_bytes += frame_bytes as u64;
        self.transmissions[kind as usize] += 1;
        if weighted {
            self.ets[port].on_sent(class, wire_bytes);
        }
        if first {
            self.schedule(arrival, Event::Arrival(port as u32));
        }
    }

    /// The first packet on the link behind `port` reaches the node at its end.
    #[inline]
    pub(crate) fn on_arrival(&mut self, port: usize) {
        let p = &mut self.ports[port];
        match p.in_flight.head() {
            Some(head) if self.packets[head].arrival == self.now => {}
            _ => return, // the link failed with the packet on it
        }
        let index = p.in_flight.pop(&self.packets).expect("it has a head");
        let (peer, node, behind) = (p.peer as usize, p.peer_owner as usize, p.behind);
        if let Some(next) = p.in_flight.head() {
            let arrival = self.packets[next].arrival;
            self.schedule(arrival, Event::Arrival(port as u32));
        }
        if behind != 0 {
            if behind & LOSSY != 0 && self.is_lost(port) {
                self.drop_packet(port, index, DropReason::LinkLoss);
                return;
            }
            if behind & RECLASSIFIES != 0 {
                self.reclassify(node, index);
            }
            if behind & BRIDGE != 0 {
                let group = &mut self.groups[(peer, self.packets[index].class)];
                group.rx_packets += 1;
                group.rx_bytes += self.packets[index].frame_bytes() as u64;
                self.bridge_receive(peer, index);
                return;
            }
        }
        let group = &mut self.groups[(peer, self.packets[index].class)];
        group.rx_packets += 1;
        group.rx_bytes += self.packets[index].frame_bytes() as u64;
        if node < self.nics.len() {
            self.nic_receive(node, index);
        } else {
            self.switch_receive(node - self.nics.len(), peer, index);
        }
    }

    /// Puts a packet in its class at `node`.
    fn reclassify(&mut self, node: usize, index: u32) {
        let mark = self.packets[index].code_point;
        self.packets[index].class = self.class_of(node)[mark as usize];
    }

    fn is_lost(&mut self, port: usize) -> bool {
        let link = &mut self.links[port];
        crate::engine::uniform(&mut link.loss_stream) < link.loss
    }

    /// Ends a packet's life, with a reason. `port`: the one that it was lost at (for headroom, the ingress port), or
    /// behind.
    pub(crate) fn drop_packet(&mut self, port: usize, index: u32, reason: DropReason) {
        let Packet { kind, class, .. } = self.packets[index];
        let tally = &mut self.drops[(port, class)][reason as usize];
        tally.packets += 1;
        tally.bytes += self.packets[index].frame_bytes() as u64;
        self.dropped[(port, class)][reason.is_ingress() as usize] += 1;
        if kind.is_data() {
            self.data.dropped += 1;
        }
        self.packets.remove(index);
    }
}

/// Why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum DropReason {
    EgressThreshold,
    IngressThreshold,
    BufferFull,
    HeadroomOverflow,
    LinkLoss,
    LinkDown,
    PortDown,
    NoRoute,
    ReceiveBufferFull,
    ReceiveRing,
    StormQueued,
    StormEgress,
    StormIngress,
    Qdisc,
}

impl DropReason {
    pub const ALL: [DropReason; 14] = [
        DropReason::EgressThreshold,
        DropReason::IngressThreshold,
        DropReason::BufferFull,
        DropReason::HeadroomOverflow,
        DropReason::LinkLoss,
        DropReason::LinkDown,
        DropReason::PortDown,
        DropReason::NoRoute,
        DropReason::ReceiveBufferFull,
        DropReason::ReceiveRing,
        DropReason::StormQueued,
        DropReason::StormEgress,
        DropReason::StormIngress,
        DropReason::Qdisc,
    ];

    /// Whether it is the ingress group that refused the packet, and not the egress queue.
    pub fn is_ingress(self) -> bool {
        use DropReason::*;
        matches!(self, HeadroomOverflow | NoRoute | ReceiveBufferFull | StormIngress)
    }

    /// Whether the packet had been queued at the port.
    pub fn was_queued(self) -> bool {
        matches!(self, DropReason::PortDown | DropReason::StormQueued)
    }

    /// Whether a switch had no buffer left for it.
    pub fn lacks_buffer(self) -> bool {
        use DropReason::*;
        matches!(self, EgressThreshold | IngressThreshold | BufferFull | HeadroomOverflow)
    }

    /// Whether a PFC watchdog dropped it.
    pub fn is_storm(self) -> bool {
        matches!(self, DropReason::StormQueued | DropReason::StormEgress | DropReason::StormIngress)
    }

    /// Whether the packet was on the link.
    pub fn was_on_link(self) -> bool {
        matches!(self, DropReason::LinkLoss | DropReason::LinkDown)
    }

    pub fn text(self) -> &'static str {
        match self {
            DropReason::EgressThreshold => "egress queue above its share of the free buffer",
            DropReason::IngressThreshold => "ingress group above its share of the free buffer",
            DropReason::BufferFull => "shared buffer full",
            DropReason::HeadroomOverflow => "headroom of a lossless group full",
            DropReason::LinkLoss => "lost on the link",
            DropReason::LinkDown => "on the link when it failed",
            DropReason::PortDown => "waiting at a port whose link failed",
            DropReason::NoRoute => "no path to its host",
            DropReason::ReceiveBufferFull => "receive buffer of the NIC full",
            DropReason::ReceiveRing => "receive ring of its core full",
            DropReason::StormQueued => "PFC watchdog: waiting at the port in a storm",
            DropReason::StormEgress => "PFC watchdog: came for the port in a storm",
            DropReason::Qdisc => "dropped by the queueing discipline",
            DropReason::StormIngress => "PFC watchdog: came from the port in a storm",
        }
    }
}

/// Packets and bytes dropped for one reason at one queue.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub packets: u64,
    pub bytes: u64,
}

pub(crate) type Drops = [Tally; DropReason::ALL.len()];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hot_structures_fit_a_cache_line() {
        assert!(std::mem::size_of::<Port>() <= 64, "{}", std::mem::size_of::<Port>());
        assert!(std::mem::size_of::<super::super::switch::IngressGroup>() <= 64);
        assert!(std::mem::size_of::<super::super::switch::Switch>() <= 64);
        assert!(std::mem::size_of::<ClassQueue>() <= 64, "{}", std::mem::size_of::<ClassQueue>());
    }
}
