//! Memory asked for ahead of the events that will touch it.

use tailback_proto::units::Time;

use crate::engine::prefetch;
use crate::event::Event;
use crate::fabric::CLASSES;
use crate::world::World;

/// Ports from which on a fabric does not fit the nearest cache.
const MANY_PORTS: usize = 2048;

impl World {
    /// Asks for the memory that the next events will touch. In a large fabric little of it is in the nearest cache, and
    /// waiting for it would take most of the time. What an event touches is found step by step, from what was asked
    /// for one event earlier.
    #[inline(always)] // the test alone: a call for each event would cost small fabrics 2 % of all instructions
    pub fn look_ahead(&self) {
        if self.looks_ahead() {
            self.ask_ahead();
        }
    }

    /// Whether the fabric is so large that it pays.
    #[inline]
    pub fn looks_ahead(&self) -> bool {
        self.fabric.ports.len() >= MANY_PORTS
    }

    #[inline(never)]
    fn ask_ahead(&self) {
        let event = |ahead| self.fabric.run.events.upcoming(ahead).map(Event::decode);
        event(4).into_iter().for_each(|event| self.ask_first(event));
        event(3).into_iter().for_each(|event| self.ask_second(event));
        event(2).into_iter().for_each(|event| self.ask_third(event));
        event(1).into_iter().for_each(|event| self.ask_fourth(event));
    }

    #[inline]
    fn ask_first(&self, event: Event) {
        match event {
            Event::Arrival(port) | Event::PortWake(port) => prefetch(&self.fabric.ports, port as usize),
            Event::PacingDue(qp) => prefetch(&self.nics.send_qps, self.nics.slots.of(qp) as usize),
            _ => {}
        }
    }

    #[inline]
    fn ask_second(&self, event: Event) {
        match event {
            Event::Arrival(port) => {
                self.fabric.packets.prefetch(self.fabric.ports[port as usize].in_flight.head())
            }
            Event::PortWake(port) => self.fabric.queues.prefetch(port as usize, self.first_class(port)),
            Event::PacingDue(qp) => {
                let s = &self.nics.send_qps[self.nics.slots.of(qp) as usize];
                prefetch(&self.nics.nics, s.src as usize);
                prefetch(&self.nics.writers, s.writer as usize);
            }
            _ => {}
        }
    }

    #[inline]
    fn ask_third(&self, event: Event) {
        match event {
            Event::Arrival(port) => {
                let port = &self.fabric.ports[port as usize];
                let Some(head) = port.in_flight.head() else { return };
                let packet = &self.fabric.packets[head];
                self.fabric.groups.prefetch(port.peer as usize, packet.class);
                self.fabric.packets.prefetch(Some(packet.next));
                match (port.peer_owner as usize).checked_sub(self.fabric.hosts) {
                    Some(switch) => self.fabric.routes.prefetch(switch, packet.dst),
                    None => {
                        let qp = self.nics.slots.of(packet.qp) as usize;
                        prefetch(&self.nics.recv_qps, qp);
                        prefetch(&self.nics.send_qps, qp);
                    }
                }
            }
            Event::PortWake(port) => {
                let class = self.first_class(port);
                if (class as usize) < CLASSES {
                    self.fabric.packets.prefetch(self.fabric.queues[(port as usize, class)].fifo.head());
                }
            }
            Event::PacingDue(qp) => {
                let qp = self.nics.slots.of(qp) as usize;
                let nic = &self.nics[self.nics.send_qps[qp].src as usize];
                prefetch(&self.fabric.ports, nic.port as usize);
            }
            _ => {}
        }
    }

    #[inline]
    fn ask_fourth(&self, event: Event) {
        if let Event::Arrival(port) = event {
            let port = &self.fabric.ports[port as usize];
            let Some(head) = port.in_flight.head() else { return };
            let packet = &self.fabric.packets[head];
            if let Some(switch) = (port.peer_owner as usize).checked_sub(self.fabric.hosts) {
                if let Some(out) = self.fabric.routes.next_port(switch, packet.dst, packet.qp) {
                    prefetch(&self.fabric.ports, out);
                    self.fabric.queues.prefetch(out, packet.class);
                }
            }
        }
    }

    /// The same at the beginning of a node's turn, for all that happens in it up to `last` as far as it is known, and for the
    /// node that has its turn next.
    #[inline]
    pub fn look_ahead_in_turn(&self, last: Time, next: Option<usize>) {
        if !self.looks_ahead() {
            return;
        }
        let turns = &self.fabric.run.turns;
        if let Some(next) = next {
            turns.prefetch(next);
        }
        for step in [World::ask_first, World::ask_second, World::ask_third, World::ask_fourth] {
            turns.coming(last).for_each(|code| step(self, Event::decode(code)));
        }
    }

    /// The first class of a port with a packet in its queue; past the last class where there is none.
    fn first_class(&self, port: u32) -> u8 {
        self.fabric.ports[port as usize].backlogged.trailing_zeros() as u8
    }
}
