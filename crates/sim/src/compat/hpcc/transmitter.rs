//! The transmitter that all ports share: packets onto links, off them, and lost; and PFC frames.

use tailback_proto::units::Time;

use super::packet::{Kind, Packet, NONE, ON_WIRE, PAUSE};
use super::port::{Port, LANES};
use super::world::{sent_event, PfcEvent, World};

impl World {
    /// Puts a packet on the wire. The end of the sending comes before the arrival in the order of scheduling; it is an
    /// event only if there is something to send next.
    #[inline(always)] // a call would cost a sixth of it
    pub fn start(&mut self, port: u32, packet: u32) {
        let p = &mut self.ports[port as usize];
        let leaves = &mut self.packets[packet];
        leaves.ingress = p.peer;
        let (Packet { wire, kind, .. }, priority) = (*leaves, leaves.priority());
        p.tx_bytes += wire as u64;
        let sent = self.now + self.times[p.times as usize + wire as usize];
        let arrived = sent + p.delay;
        p.busy = true;
        p.free_at = self.events.reserve(sent);
        p.awaited = if p.is_switch {
            p.waiting & (!p.paused | 1) != 0
        } else {
            let nic = &self.nics[p.owner as usize];
            !nic.acks.is_empty() || !nic.qps.is_empty()
        };
        let is_switch = p.is_switch;
        if p.awaited && sent <= self.stop {
            self.await_sent(port);
        }
        self.transmissions[is_switch as usize][kind as usize] += 1;
        let lane = &mut self.lanes[port as usize * LANES + priority as usize];
        lane.tx_packets += 1;
        lane.tx_bytes += wire as u64;
        if arrived <= self.stop {
            self.events.push(&mut self.packets, arrived, packet);
        } else {
            self.packets[packet].next = ON_WIRE;
        }
    }

    /// The end of what a port sends is an event.
    #[inline(never)]
    fn await_sent(&mut self, port: u32) {
        let place = self.ports[port as usize].free_at;
        self.events.push_at(&mut self.packets, place, sent_event(port));
    }

    /// The port may send its next packet, if it is idle. If not, it looks again when it is.
    #[inline]
    pub fn transmit(&mut self, port: u32) {
        let p = &mut self.ports[port as usize];
        if !p.up || p.busy && p.awaited {
            return;
        }
        if p.busy && !self.events.is_past(p.free_at) {
            p.awaited = true;
            self.await_sent(port);
            return;
        }
        p.busy = false;
        let is_switch = p.is_switch;
        self.transmit_next(port, is_switch);
    }

    #[inline(never)] // most that ask find a port that is busy, and need no registers for this
    fn transmit_next(&mut self, port: u32, is_switch: bool) {
        if is_switch {
            self.transmit_switch(port);
        } else {
            self.transmit_host(port);
        }
    }

    #[inline]
    pub fn on_sent(&mut self, port: u32) {
        let p = &mut self.ports[port as usize];
        (p.busy, p.awaited) = (false, false);
        self.transmit(port);
    }

    pub fn on_arrival(&mut self, packet: u32) {
        let Packet { ingress: port, kind, wire, .. } = self.packets[packet];
        let &Port { up, is_switch, error_model, peer, .. } = &self.ports[port as usize];
        if !up {
            self.lose(port, packet);
            return;
        }
        if error_model != NONE {
            let (rate, stream) = &mut self.error_models[error_model as usize];
            if stream.draw() < *rate {
                self.lose(port, packet);
                return;
            }
        }
        match (kind, is_switch) {
            (Kind::Pfc, _) => self.on_pfc(port, packet),
            (_, true) => self.forward(port, packet),
            (Kind::Data, false) => self.on_data(packet),
            _ => {
                let peer = &self.ports[peer as usize];
                let took = self.times[peer.times as usize + wire as usize] + peer.delay;
                self.on_ack(packet, self.now - took);
            }
        }
    }

    /// A packet is lost at a port.
    pub fn lose(&mut self, port: u32, packet: u32) {
        let lost = &self.packets[packet];
        let (&Packet { wire, .. }, priority) = (lost, lost.priority());
        let counters = &mut self.lane_counters[port as usize * LANES + priority as usize];
        counters.lost += 1;
        counters.lost_bytes += wire as u64;
        self.discard(packet);
    }

    /// A packet ends before its destination.
    pub fn discard(&mut self, packet: u32) {
        self.data_lost += (self.packets[packet].kind == Kind::Data) as u64;
        self.packets.remove(packet);
    }

    /// A PFC frame acts when it is here in full; a packet under way is not stopped.
    fn on_pfc(&mut self, port: u32, packet: u32) {
        let Packet { flags, seq: priority, .. } = self.packets[packet];
        self.packets.remove(packet);
        let pause = flags & PAUSE != 0;
        let p = &mut self.ports[port as usize];
        self.pfc.push(PfcEvent {
            t_ns: self.now / 1000,
            node: p.node,
            is_switch: p.is_switch,
            port: p.number,
            pause,
        });
        let bit = 1 << priority;
        let was_paused = p.paused & bit != 0;
        let heard = &mut self.heard[port as usize * LANES + priority as usize];
        if pause {
            p.paused |= bit;
            heard.pauses += 1;
            if !was_paused {
                heard.since = Some(self.now);
            }
            return;
        }
        p.paused &= !bit;
        heard.resumes += 1;
        if let Some(since) = heard.since.take() {
            heard.paused += self.now - since;
            heard.transitions += 1;
            let lane = port as usize * LANES + priority as usize;
            self.pause_logs
                .entry(lane)
                .or_default()
                .add(Time(since - self.origin), Time(self.now - self.origin));
        }
        self.transmit(port);
    }
}
