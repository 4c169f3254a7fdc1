//! Senders under modes 3, 7, 8 and 10: each ACK goes to its flow's controller, whose rate moves the pacing.

use super::cc::Ack;
use super::world::{wake_event, World};

impl World {
    /// Tells a flow's controller of an ACK or NACK, also of the one that completed the flow.
    #[inline(never)]
    pub fn tell(&mut self, flow: u32, packet: u32, seq: u32, marked: bool) {
        let Some(acks) = &mut self.acks else { return };
        let qp = &mut self.send[flow as usize];
        let done = qp.done;
        if acks.hears_delay() {
            self.host_counters[qp.src as usize].delay_probes += 1;
        }
        let ack = Ack { now_ns: self.now / 1000, seq, snd_nxt: qp.snd_nxt, marked };
        match acks.on_ack(flow, packet, &ack) {
            Some(rate) if acks.shifts_pacing() => self.change_rate(flow, rate),
            Some(rate) => qp.reaction.rate = rate,
            None => {}
        }
        #[cfg(test)]
        self.log_ack(flow, packet, &ack);
        if let (Some(acks), true) = (&mut self.acks, done) {
            acks.end(flow);
        }
    }

    /// Sets a rate and moves the gap that runs: as if the packet sent last had gone out at the new rate. The NIC wakes
    /// earlier if need be.
    fn change_rate(&mut self, flow: u32, rate: u64) {
        let qp = &mut self.send[flow as usize];
        let before = std::mem::replace(&mut qp.reaction.rate, rate);
        if before != rate {
            let old = qp.gap(qp.last_wire, before, self.rounding);
            let new = qp.gap(qp.last_wire, rate, self.rounding);
            qp.next_avail = (qp.next_avail + new).saturating_sub(old);
        }
        let (next, port) = (qp.next_avail, qp.port);
        let nic = &mut self.nics[self.ports[port as usize].owner as usize];
        nic.note_ready(qp);
        if let Some(place) = nic.wake_at.filter(|place| next < place.time) {
            if place.time <= self.stop {
                self.events.cancel(&mut self.packets, place.time, wake_event(port));
                self.cancelled = self.cancelled.max(place);
            }
            self.wake(port, next.max(self.now));
        }
    }
}
