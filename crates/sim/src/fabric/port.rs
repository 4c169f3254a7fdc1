//! A port: its transmitter, the link behind it and its eight egress queues.
//!
//! A hop costs at most two events: the packet's arrival at the other end, and the transmitter's becoming free where
//! something waits for it. Packets on a link arrive in order, so only the first has an event.
//!
//! Store and forward; the latency of the node at the other end is added to the propagation. Leaves out: cut-through
//! switching, cells (buffers count bytes), and lane skew or FEC latency (part of the link's delay).

use std::collections::BTreeMap;
use tailback_proto::congestion::HopTelemetry;
use tailback_proto::scheduling::{pick_round_robin, Ets};
use tailback_proto::units::{Rate, Time, BIT_PS_PER_BYTE};

use super::packet::{Packet, PacketKind, CE};
use super::{lane, Arrived, Fabric};
use crate::engine::{prefetch, uniform, Fifo};
use crate::event::Event;
use crate::gauge::OverTime;
#[cfg(debug_assertions)]
use crate::gauge::QueuedAt;

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
    /// Time of a byte by its own clock, in 2^-`byte_shift` ps; 0: see the rate of its link.
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
    /// Fates of packets behind it, [`LOSSY`] and [`RECLASSIFIES`]; who else is notified of what it sends:
    /// [`WEIGHTED`], [`TAPPED`]; and whether another core has the node behind it: [`CUT`].
    pub flags: u8,
    /// True if the link behind it works.
    pub up: bool,
    /// See `ps_per_byte`.
    pub byte_shift: u8,
}

/// The link behind a port loses packets at random.
pub(crate) const LOSSY: u8 = 1;

/// The node at the other end may put a packet in another class.
pub(crate) const RECLASSIFIES: u8 = 2;

/// The classes of the port share by weights: see `Fabric::ets`.
pub(crate) const WEIGHTED: u8 = 4;

/// The port is captured: see [`crate::fabric::port`].
pub(crate) const TAPPED: u8 = 8;

/// Another part of the fabric has the node at the other end: see [`super::cut`].
pub(crate) const CUT: u8 = 16;

/// Time of a byte at a rate, by a clock that is `ppm` millionths fast, and by how many bits it is shifted; 0: it is no whole
/// number of picoseconds, and the clock is exact.
pub(crate) fn byte_time(rate: Rate, ppm: f64) -> (u32, u8) {
    if ppm == 0.0 {
        let whole = BIT_PS_PER_BYTE.is_multiple_of(rate.0);
        return (if whole { (BIT_PS_PER_BYTE / rate.0) as u32 } else { 0 }, 0);
    }
    let mut scaled = BIT_PS_PER_BYTE as f64 / (rate.bps() * (1.0 + ppm * 1e-6));
    let mut shift = 0;
    while scaled * 2.0 < u32::MAX as f64 {
        scaled *= 2.0;
        shift += 1;
    }
    (scaled as u32, shift)
}

impl Port {
    /// Puts a packet, which comes out of `queue` or passed it, on the wire for a time of `takes`. Returns whether it is
    /// the first on the link.
    #[inline(always)]
    pub fn begin(
        &mut self,
        now: Time,
        takes: Time,
        packets: &mut [Packet],
        index: u32,
        queue: &mut ClassQueue,
    ) -> bool {
        debug_assert!(self.busy_until <= now, "one thing at a time is on the wire");
        let packet = &mut packets[index as usize];
        self.busy_until = now + takes;
        self.wire_bytes += packet.wire_bytes as u64;
        packet.arrival = self.busy_until + self.arrival_delay;
        queue.tx_packets += 1;
        queue.tx_bytes += packet.frame_bytes() as u64;
        self.in_flight.push(packets, index)
    }

    /// Which of the `eligible` classes goes next, at the port of this number.
    #[inline(always)] // the caller has looked up the port
    pub fn next_class(&mut self, ets: &mut [Ets], port: usize, eligible: u8) -> u8 {
        if self.flags & WEIGHTED != 0 {
            return ets[port].pick(eligible);
        }
        self.last_class = pick_round_robin(eligible, self.strict, self.last_class);
        self.last_class
    }

    /// How loaded it is, after a packet left `queue`.
    pub fn telemetry(&self, at: Time, queue: &ClassQueue, link: &Link) -> HopTelemetry {
        HopTelemetry { at, tx_bytes: self.wire_bytes, queue_bytes: queue.bytes as u64, rate: link.rate }
    }

    /// Time that `bytes` take on its wire.
    #[inline]
    pub fn serialization(&self, links: &[Link], port: usize, bytes: u32) -> Time {
        match self.ps_per_byte {
            0 => by_rate(links, port, bytes),
            ps => Time((ps as u64 * bytes as u64) >> self.byte_shift),
        }
    }

    /// True if a packet of `class` that comes now would be sent at once.
    #[inline]
    pub fn is_idle(&self, now: Time, class: u8) -> bool {
        self.busy_until <= now
            && self.up
            && (self.backlogged | self.pfc_pending | (self.paused & 1 << class)) == 0
    }
}

#[inline(never)]
fn by_rate(links: &[Link], port: usize, bytes: u32) -> Time {
    links[port].rate.serialization(bytes as u64)
}

/// The cold part of a port.
#[derive(Debug)]
pub(crate) struct Link {
    /// `node:peer`.
    pub name: String,
    pub rate: Rate,
    pub delay: Time,
    pub loss: f64,
    /// False while it has failed, noticed or not.
    pub works: bool,
    pub headroom_bytes: u64,
    pub loss_stream: crate::engine::Stream,
}

/// One egress queue: a cache line, counters included.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(crate) struct ClassQueue {
    pub fifo: Fifo,
    pub bytes: u32,
    pub max_bytes: u32,
    pub over_time: OverTime,
    /// Packets that came in, whether they waited here or were sent at once.
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
        over_time: OverTime::NEW,
        rx_packets: 0,
        rx_bytes: 0,
        tx_packets: 0,
        tx_bytes: 0,
    };

    /// True if no packet ever was in it or was counted.
    pub fn is_untouched(&self) -> bool {
        let counted = self.rx_packets | self.rx_bytes | self.tx_packets | self.tx_bytes | self.bytes as u64;
        counted == 0 && self.fifo.is_empty()
    }

    /// A packet comes in and leaves at once.
    #[inline]
    pub fn pass(&mut self, bytes: u32) {
        self.max_bytes = self.max_bytes.max(bytes);
        self.rx_packets += 1;
        self.rx_bytes += bytes as u64;
    }

    /// Appends a packet.
    #[inline(always)] // as below
    pub fn append(&mut self, now: Time, packets: &mut [Packet], index: u32) {
        let packet = &mut packets[index as usize];
        let bytes = packet.frame_bytes();
        #[cfg(debug_assertions)]
        {
            packet.arrival = now;
        }
        self.integrate(now);
        self.bytes += bytes;
        self.max_bytes = self.max_bytes.max(self.bytes);
        self.rx_packets += 1;
        self.rx_bytes += bytes as u64;
        self.fifo.push(packets, index);
    }

    /// Takes the first packet; the queue is not empty.
    #[inline(always)] // a hop has it once: with what follows it looks up the packet once
    pub fn take_first(&mut self, now: Time, packets: &[Packet]) -> u32 {
        self.integrate(now);
        let packet = self.fifo.first(packets).expect("backlogged means not empty");
        self.bytes -= packet.frame_bytes();
        self.fifo.drop_first(packet)
    }

    /// Brings the integral up to `now`, before `bytes` changes.
    #[inline]
    pub fn integrate(&mut self, now: Time) {
        self.over_time.held(now, self.bytes as u64);
    }
}

// What ports do: a packet is queued, sent, and comes out at the other end of a link.

/// Where a packet that has begun to leave a port goes, and when it arrives.
pub(super) struct Departure {
    /// Node at the other end.
    to: u32,
    /// When it will be there.
    arrival: Time,
    /// The port's flags.
    pub flags: u8,
}

impl Departure {
    #[inline(always)]
    pub fn of(port: &Port) -> Departure {
        let &Port { peer_owner, busy_until, arrival_delay, flags, .. } = port;
        Departure { to: peer_owner, arrival: busy_until + arrival_delay, flags }
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
        let (bytes, came) = (self.packets[packet].frame_bytes() as u64, QueuedAt::at(arrival));
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

    /// True if `port` may send a packet now. If its transmitter is busy, it is woken when that is free; a waiting PFC
    /// frame goes first.
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
        let is_first = p.begin(self.run.now, takes, packets, index, queue);
        let flags = p.flags;
        self.began(port, (index, kind), flags, is_first, |fabric| Departure::of(&fabric.ports[port]));
    }

    /// Counts a packet that just began to leave by `port`, and schedules its arrival if it is the first on the link.
    #[inline(always)] // the caller has looked up the port, and says when to look it up again
    pub(super) fn began(
        &mut self,
        port: usize,
        (index, kind): (u32, PacketKind),
        flags: u8,
        is_first: bool,
        departure: impl FnOnce(&Fabric) -> Departure,
    ) {
        self.transmissions[kind as usize] += 1;
        if flags & (WEIGHTED | TAPPED) != 0 {
            self.note_begun(port, index);
        }
        if is_first {
            let departure = departure(self);
            self.expect_arrival(port, departure);
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
        let is_first = p.begin(self.run.now, takes, &mut self.packets, index, queue);
        let (busy_until, departure) = (p.busy_until, Departure::of(p));
        self.began(port, (index, kind), departure.flags, is_first, |_| departure);
        busy_until
    }

    /// Sends a packet at once by a port of a host for which nothing else waits, if that is idle. Returns whether it
    /// was.
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
    #[inline(never)]
    fn note_begun(&mut self, port: usize, index: u32) {
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
    fn expect_arrival(&mut self, port: usize, departure: Departure) {
        if departure.flags & CUT == 0 {
            self.run.schedule_across(departure.to, departure.arrival, Event::Arrival(port as u32));
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
    #[inline(never)]
    fn class_on_arrival(&mut self, port: usize, index: u32) -> Option<u8> {
        let Port { flags, peer_owner, .. } = self.ports[port];
        if flags & LOSSY != 0 {
            if let Some(reason) = self.loss_on_link(port) {
                self.drop_packet(port, index, reason);
                return None;
            }
        }
        let packet = &mut self.packets[index];
        if flags & RECLASSIFIES != 0 {
            packet.class = self.classes.of(peer_owner as usize)[packet.code_point as usize];
        }
        Some(packet.class)
    }

    fn loss_on_link(&mut self, port: usize) -> Option<DropReason> {
        let link = &mut self.links[port];
        if !link.works {
            return Some(DropReason::LinkDown);
        }
        (uniform(&mut link.loss_stream) < link.loss).then_some(DropReason::LinkLoss)
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

// Why packets are dropped, and how many were.

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
    PauseStormQueued,
    PauseStormEgress,
    PauseStormIngress,
    Qdisc,
    Trimmed,
}

impl DropReason {
    pub const ALL: [DropReason; 15] = [
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
        DropReason::PauseStormQueued,
        DropReason::PauseStormEgress,
        DropReason::PauseStormIngress,
        DropReason::Qdisc,
        DropReason::Trimmed,
    ];

    /// True if it is the ingress group that refused the packet, and not the egress queue.
    pub fn is_ingress(self) -> bool {
        use DropReason::*;
        matches!(self, HeadroomOverflow | NoRoute | ReceiveBufferFull | PauseStormIngress)
    }

    /// True if the packet had been queued at the port.
    pub fn was_queued(self) -> bool {
        matches!(self, DropReason::PortDown | DropReason::PauseStormQueued)
    }

    /// True if a switch had no buffer left for it.
    pub fn lacks_buffer(self) -> bool {
        use DropReason::*;
        matches!(self, EgressThreshold | IngressThreshold | BufferFull | HeadroomOverflow | Trimmed)
    }

    /// True if a PFC watchdog dropped it.
    pub fn is_pause_storm(self) -> bool {
        matches!(
            self,
            DropReason::PauseStormQueued | DropReason::PauseStormEgress | DropReason::PauseStormIngress
        )
    }

    /// True if the packet was on the link.
    pub fn was_on_link(self) -> bool {
        matches!(self, DropReason::LinkLoss | DropReason::LinkDown)
    }

    pub fn text(self) -> &'static str {
        match self {
            DropReason::EgressThreshold => "egress queue above its share of the free buffer",
            DropReason::IngressThreshold => "ingress group above its share of the free buffer",
            DropReason::BufferFull => "shared buffer full",
            DropReason::HeadroomOverflow => "headroom of a lossless group, or the pool of headroom, full",
            DropReason::LinkLoss => "lost on the link",
            DropReason::LinkDown => "on a link that had failed",
            DropReason::PortDown => "waiting at a port whose link failed",
            DropReason::NoRoute => "no route to its host",
            DropReason::ReceiveBufferFull => "receive buffer of the NIC full",
            DropReason::ReceiveRing => "receive ring of its core full",
            DropReason::PauseStormQueued => "PFC watchdog: waiting at the port in a pause storm",
            DropReason::PauseStormEgress => "PFC watchdog: came for the port in a pause storm",
            DropReason::Qdisc => "dropped by the queueing discipline",
            DropReason::Trimmed => "trimmed: its headers went on",
            DropReason::PauseStormIngress => "PFC watchdog: came from the port in a pause storm",
        }
    }
}

/// Packets, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub packets: u64,
    pub bytes: u64,
}

impl Tally {
    /// One more.
    #[inline]
    pub fn count(&mut self, bytes: u32) {
        *self += Tally { packets: 1, bytes: bytes.into() };
    }
}

impl std::ops::AddAssign for Tally {
    #[inline]
    fn add_assign(&mut self, other: Tally) {
        self.packets += other.packets;
        self.bytes += other.bytes;
    }
}

impl std::iter::Sum for Tally {
    fn sum<I: Iterator<Item = Tally>>(tallies: I) -> Tally {
        tallies.fold(Tally::default(), |mut sum, one| {
            sum += one;
            sum
        })
    }
}

/// Drops of a queue, by reason.
pub(crate) type Drops = [Tally; DropReason::ALL.len()];

/// Drops by lane, of those lanes that dropped anything: of very many ports most never do.
#[derive(Debug, Default)]
pub(crate) struct DropsByLane(BTreeMap<usize, Drops>);

static NO_DROPS: Drops = [Tally { packets: 0, bytes: 0 }; DropReason::ALL.len()];

impl DropsByLane {
    /// Takes in those of other lanes.
    pub fn append(&mut self, other: &mut DropsByLane) {
        self.0.append(&mut other.0);
    }

    /// The drops of a lane, if there are any.
    pub fn get(&self, lane: usize) -> Option<&Drops> {
        self.0.get(&lane)
    }

    /// Lanes that dropped anything, in their order.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &Drops)> {
        self.0.iter().map(|(&lane, drops)| (lane, drops))
    }
}

impl std::ops::Index<usize> for DropsByLane {
    type Output = Drops;
    fn index(&self, lane: usize) -> &Drops {
        self.0.get(&lane).unwrap_or(&NO_DROPS)
    }
}

impl std::ops::IndexMut<usize> for DropsByLane {
    fn index_mut(&mut self, lane: usize) -> &mut Drops {
        self.0.entry(lane).or_default()
    }
}

// What is noted of ports that are captured: what they send, and what is dropped at them or behind them. Whoever captures takes
// it after each event.

/// One action of a captured port.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CaptureNote {
    /// It sends a packet, whose first bit leaves at `at`. `marked`: whether it was marked CE before this port.
    Sent { port: usize, index: u32, at: Time, marked: bool },
    /// It sends a PFC frame: the classes that it names, and those of them that it pauses.
    Pause { port: usize, named: u8, paused: u8 },
    /// A packet is dropped at it or behind it.
    Dropped { port: usize, index: u32, packet: Packet, reason: DropReason },
}

impl Fabric {
    /// Notes from now on what a port does.
    pub fn tap(&mut self, port: usize) {
        self.ports[port].flags |= TAPPED;
    }

    #[inline(never)]
    pub(super) fn note_sent(&mut self, port: usize, index: u32, at: Time) {
        let marked = self.packets[index].flags & CE != 0;
        self.taps.push(CaptureNote::Sent { port, index, at, marked });
    }

    pub(super) fn note_pause(&mut self, port: usize, named: u8, paused: u8) {
        if self.ports[port].flags & TAPPED != 0 {
            self.taps.push(CaptureNote::Pause { port, named, paused });
        }
    }

    /// `port`: as [`Fabric::drop_packet`] has it. A packet that the node behind a link refuses is noted at the port that
    /// it left by.
    pub(super) fn note_dropped(&mut self, port: usize, index: u32, reason: DropReason) {
        let refused = reason.is_ingress() || reason == DropReason::ReceiveRing;
        let port = if refused { self.ports[port].peer as usize } else { port };
        if self.ports[port].flags & TAPPED != 0 {
            self.taps.push(CaptureNote::Dropped { port, index, packet: self.packets[index], reason });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_fast_sends_a_byte_sooner() {
        let takes = |rate: Rate, ppm, bytes: u64| {
            let (time, shift) = byte_time(rate, ppm);
            (time as u64 * bytes) >> shift
        };
        let gbit = Rate::from_gbps;
        assert_eq!(byte_time(gbit(100), 0.0), (80, 0));
        assert_eq!(byte_time(Rate::from_mbps(70_000), 0.0), (0, 0), "no whole number of picoseconds");
        // 4,096 B take 327,680 ps at 100 Gbit/s; 100 ppm of that are 33 ps.
        assert_eq!(takes(gbit(100), 100.0, 4096), 327_647);
        assert_eq!(takes(gbit(100), -100.0, 4096), 327_712);
        assert_eq!(takes(Rate::from_mbps(1), 100.0, 4096), 32_764_723_520);
        assert_eq!(takes(gbit(100_000), -100.0, 9600), 768);
    }

    #[test]
    fn hot_structures_fit_a_cache_line() {
        assert!(std::mem::size_of::<Port>() <= 64, "{}", std::mem::size_of::<Port>());
        assert!(std::mem::size_of::<super::super::switch::Switch>() <= 64);
        // With Little's law they are more.
        #[cfg(not(debug_assertions))]
        {
            assert!(std::mem::size_of::<super::super::switch::IngressGroup>() <= 64);
            assert!(std::mem::size_of::<ClassQueue>() <= 64, "{}", std::mem::size_of::<ClassQueue>());
        }
    }
}
