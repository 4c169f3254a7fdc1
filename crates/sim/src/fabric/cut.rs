//! A fabric that is cut in parts, each with a core of its own: what crosses a cut leaves as mail, and becomes one fabric again.
//!
//! Each part has the whole fabric, and acts on its own nodes alone. The part of the receiving node keeps the packets on a
//! link; the part of the sending port keeps what it sent in a window and was not fetched yet.

use tailback_proto::units::Time;

use super::packet::Entry;
use super::packet::Packet;
use super::pfc::PauseFrame;
use super::port::{CUT, LOSSY};
use super::Fabric;
use super::{lane, CLASSES};
use crate::engine::Fifo;
use crate::event::Event;

/// Packets and pauses that crossed from one part to another in a window.
#[derive(Debug, Default)]
pub(crate) struct Mail {
    /// Packets on links, by the port that sent each; those of a port in their order.
    packets: Vec<(u32, Packet)>,
    /// Their telemetry, if packets carry any.
    telemetry: Vec<Entry>,
    /// PFC frames, likewise, and when each takes effect.
    pauses: Vec<(u32, Time, PauseFrame)>,
    /// Payload of messages of hosts that reached memory elsewhere.
    pub goodput: Vec<(u32, u64)>,
    /// Payload of traffic items at their senders that did, for the one part that adds them up.
    pub items: Vec<(u32, u64)>,
}

/// Which part simulates which node.
#[derive(Debug, Default)]
pub(crate) struct Cut {
    /// By node; empty: the fabric is whole.
    part_of: Vec<u8>,
    own: u8,
    /// Ports with the first packet of this window on a link that is cut.
    sent: Vec<u32>,
    /// PFC frames of this window on such links, and when each takes effect.
    paused: Vec<(u32, Time)>,
}

impl Cut {
    /// The cut as part `own` sees it; `part_of` has the part of each node.
    pub fn new(part_of: Vec<u8>, own: u8) -> Cut {
        Cut { part_of, own, sent: Vec::new(), paused: Vec::new() }
    }

    /// True if a node is this part's own.
    #[inline]
    pub fn owns(&self, node: usize) -> bool {
        self.part_of.get(node).is_none_or(|&part| part == self.own)
    }

    /// A node's part.
    pub fn part_of(&self, node: usize) -> usize {
        self.part_of[node] as usize
    }
}

impl Fabric {
    /// Acts on its own nodes alone from now on.
    pub fn cut(&mut self, cut: Cut) {
        for port in &mut self.ports {
            let crosses = cut.part_of(port.owner as usize) != cut.part_of(port.peer_owner as usize);
            debug_assert!(!crosses || port.flags & LOSSY == 0, "who loses a packet counts it");
            port.flags |= if crosses { CUT } else { 0 };
        }
        self.cut = cut;
    }

    /// The first packet of this window is on a link that is cut.
    #[cold]
    pub(super) fn note_sent_across(&mut self, port: usize) {
        self.cut.sent.push(port as u32);
    }

    /// A PFC frame is on a link that is cut.
    pub(super) fn note_paused_across(&mut self, port: usize, takes_effect: Time) {
        self.cut.paused.push((port as u32, takes_effect));
    }

    /// Puts what crossed in this window into the mail, by part; and says when the first of it arrives.
    pub fn send_mail(&mut self, mail: &mut [Mail]) -> Time {
        let mut first = Time::NEVER;
        let mut sent = std::mem::take(&mut self.cut.sent);
        for port in sent.drain(..) {
            let p = &mut self.ports[port as usize];
            let to = &mut mail[self.cut.part_of(p.peer_owner as usize)];
            first = first.min(self.packets[p.in_flight.head().expect("it was sent")].arrival);
            while let Some(packet) = p.in_flight.pop(&self.packets) {
                to.packets.push((port, self.packets[packet]));
                to.telemetry.extend(self.telemetry.carried(packet));
                self.packets.remove(packet);
            }
        }
        self.cut.sent = sent;
        let mut paused = std::mem::take(&mut self.cut.paused);
        for (port, takes_effect) in paused.drain(..) {
            let to = &mut mail[self.cut.part_of(self.ports[port as usize].peer_owner as usize)];
            let frame = self.pause_frames.on_links[port as usize].pop_front().expect("it was sent");
            to.pauses.push((port, takes_effect, frame));
            first = first.min(takes_effect);
        }
        self.cut.paused = paused;
        first
    }

    /// Takes what came from another part.
    pub fn take_mail(&mut self, mail: &mut Mail) {
        let mut telemetry = mail.telemetry.drain(..);
        for (port, packet) in mail.packets.drain(..) {
            let index = self.packets.add(packet);
            if let Some(entry) = telemetry.next() {
                self.telemetry.set(index, entry);
            }
            let p = &mut self.ports[port as usize];
            let first = p.in_flight.is_empty();
            p.in_flight.push(&mut self.packets, index);
            if first {
                self.run.schedule_across(p.peer_owner, packet.arrival, Event::Arrival(port));
            }
        }
        for (port, takes_effect, frame) in mail.pauses.drain(..) {
            self.pause_frames.put(port as usize, frame);
            let to = self.ports[port as usize].peer_owner;
            self.run.schedule_across(to, takes_effect, Event::PauseEffect(port));
        }
    }

    /// Takes a packet out of a part that ends.
    pub fn adopt(&mut self, other: &mut Fabric, packet: u32) -> u32 {
        let index = self.packets.add(other.packets[packet]);
        if let Some(entry) = other.telemetry.carried(packet) {
            self.telemetry.set(index, entry);
        }
        index
    }

    fn adopt_all(&mut self, other: &mut Fabric, mut fifo: Fifo) -> Fifo {
        let mut own = Fifo::EMPTY;
        while let Some(packet) = fifo.pop(&other.packets) {
            let index = self.adopt(other, packet);
            own.push(&mut self.packets, index);
        }
        own
    }

    /// Takes over all that another part did. No mail is on its way, and it owned part `other.cut.own`.
    pub fn absorb(&mut self, other: &mut Fabric) {
        let cut = std::mem::take(&mut other.cut);
        for port in 0..self.ports.len() {
            let (owner, peer_owner) = (self.ports[port].owner as usize, self.ports[port].peer_owner as usize);
            let on_link = if cut.owns(peer_owner) {
                let frames = other.pause_frames.on_links.get_mut(port).map(std::mem::take);
                frames.into_iter().flatten().for_each(|frame| self.pause_frames.put(port, frame));
                let fifo = other.ports[port].in_flight;
                self.adopt_all(other, fifo)
            } else {
                self.ports[port].in_flight
            };
            if cut.owns(owner) {
                self.absorb_port(other, port);
            }
            self.ports[port].in_flight = on_link;
        }
        for (index, switch) in self.switches.iter_mut().enumerate() {
            if cut.owns(self.hosts + index) {
                std::mem::swap(switch, &mut other.switches[index]);
            }
        }
        self.drops.append(&mut other.drops);
        self.pause_logs.append(&mut other.pause_logs);
        self.watchdogs.append(&mut other.watchdogs);
        self.lossless_drops.append(&mut other.lossless_drops);
        self.pause_frames.sent += other.pause_frames.sent;
        self.data.add(&other.data);
        for (own, others) in self.transmissions.iter_mut().zip(other.transmissions) {
            *own += others;
        }
    }

    fn absorb_port(&mut self, other: &mut Fabric, port: usize) {
        std::mem::swap(&mut self.ports[port], &mut other.ports[port]);
        std::mem::swap(&mut self.links[port].loss_stream, &mut other.links[port].loss_stream);
        std::mem::swap(&mut self.ecn_streams[port], &mut other.ecn_streams[port]);
        self.telemetry.absorb_port(&mut other.telemetry, port);
        if let Some(ets) = self.ets.get_mut(port) {
            std::mem::swap(ets, &mut other.ets[port]);
        }
        for at in (0..CLASSES as u8).map(|class| lane(port, class)) {
            let waiting = other.queues[at].fifo;
            std::mem::swap(&mut self.queues[at], &mut other.queues[at]);
            self.queues[at].fifo = self.adopt_all(other, waiting);
            std::mem::swap(&mut self.marked[at], &mut other.marked[at]);
            std::mem::swap(&mut self.groups[at], &mut other.groups[at]);
            std::mem::swap(&mut self.pausing[at], &mut other.pausing[at]);
            std::mem::swap(&mut self.pauses[at], &mut other.pauses[at]);
            std::mem::swap(&mut self.dropped[at], &mut other.dropped[at]);
        }
    }

    /// All parts are one again.
    pub fn end_cut(&mut self) {
        self.cut = Cut::default();
        self.ports.iter_mut().for_each(|port| port.flags &= !CUT);
    }
}
