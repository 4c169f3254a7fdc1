//! Memory asked for ahead of the events that will touch it.

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
    #[inline]
    pub fn look_ahead(&self) {
        if self.fabric.ports.len() < MANY_PORTS {
            return;
        }
        let event = |ahead| self.fabric.run.events.upcoming(ahead).map(Event::decode);
        match event(4) {
            Some(Event::Arrival(port) | Event::PortWake(port)) => prefetch(&self.fabric.ports, port as usize),
            Some(Event::PacingDue(qp)) => prefetch(&self.nics.send_qps, qp as usize),
            _ => {}
        }
        match event(3) {
            Some(Event::Arrival(port)) => {
                self.fabric.packets.prefetch(self.fabric.ports[port as usize].in_flight.head())
            }
            Some(Event::PortWake(port)) => self.fabric.queues.prefetch(port as usize, self.first_class(port)),
            Some(Event::PacingDue(qp)) => {
                let s = &self.nics.send_qps[qp as usize];
                prefetch(&self.nics.nics, s.src as usize);
                prefetch(&self.nics.writers, s.writer as usize);
            }
            _ => {}
        }
        match event(2) {
            Some(Event::Arrival(port)) => {
                let port = &self.fabric.ports[port as usize];
                let Some(head) = port.in_flight.head() else { return };
                let packet = &self.fabric.packets[head];
                self.fabric.groups.prefetch(port.peer as usize, packet.class);
                self.fabric.packets.prefetch(Some(packet.next));
                match (port.peer_owner as usize).checked_sub(self.fabric.hosts) {
                    Some(switch) => self.fabric.routes.prefetch(switch, packet.dst),
                    None => {
                        prefetch(&self.nics.recv_qps, packet.qp as usize);
                        prefetch(&self.nics.send_qps, packet.qp as usize);
                    }
                }
            }
            Some(Event::PortWake(port)) => {
                let class = self.first_class(port);
                if (class as usize) < CLASSES {
                    self.fabric.packets.prefetch(self.fabric.queues[(port as usize, class)].fifo.head());
                }
            }
            Some(Event::PacingDue(qp)) => {
                let nic = &self.nics[self.nics.send_qps[qp as usize].src as usize];
                prefetch(&self.fabric.ports, nic.port as usize);
            }
            _ => {}
        }
        if let Some(Event::Arrival(port)) = event(1) {
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

    /// The first class of a port with a packet in its queue; past the last class where there is none.
    fn first_class(&self, port: u32) -> u8 {
        self.fabric.ports[port as usize].backlogged.trailing_zeros() as u8
    }
}
