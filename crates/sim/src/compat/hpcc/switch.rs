//! Switches: shared buffer, PFC, ECN, ECMP.

use tailback_proto::units::Time;

use super::cc::Leaving;
use super::packet::{Kind, Packet, CE, NONE, PAUSE};
use super::port::{comes, LANES, RESERVE_BYTES};
use super::routing::murmur3;
use super::world::World;

/// How far below the threshold a paused group must fall.
const RESUME_OFFSET_BYTES: u32 = 3072;

impl World {
    /// A packet has come into a switch.
    #[inline]
    pub fn forward(&mut self, ingress: u32, packet: u32) {
        let arrived = &mut self.packets[packet];
        let Packet { route, wire, .. } = *arrived;
        let priority = arrived.priority();
        arrived.route = route.wrapping_add(1);
        let came_by = &self.ports[ingress as usize];
        let (shift, headroom, owner) = (came_by.shift, came_by.headroom, came_by.owner as usize);
        let egress = match self.rerouted {
            false => self.route_ports[route as usize],
            true => self.choose(came_by.node, packet),
        };
        if egress == NONE {
            self.lose(ingress, packet);
            return;
        }
        let size = wire as u32;
        let from = ingress as usize * LANES + priority as usize;
        let to = egress as usize * LANES + priority as usize;
        let threshold = self.switches[owner].threshold(shift);
        if self.passes(egress, priority, size, (from, to), threshold) {
            self.leave(egress, packet);
            return;
        }
        if priority != 0 {
            let lane = &mut self.lanes[from];
            let has_headroom = size.wrapping_add(lane.headroom) <= headroom;
            if !has_headroom && size.wrapping_add(lane.shared()) > threshold {
                self.lane_counters[from].dropped += 1;
                self.lane_counters[from].dropped_bytes += size as u64;
                self.discard(packet);
                return;
            }
            let switch = &mut self.switches[owner];
            let held = lane.ingress.wrapping_add(size);
            if held <= RESERVE_BYTES {
                lane.ingress = held;
            } else if held - RESERVE_BYTES > threshold {
                lane.headroom = lane.headroom.wrapping_add(size);
            } else {
                lane.ingress = held;
                switch.shared_used = switch.shared_used.wrapping_add(size.min(held - RESERVE_BYTES));
            }
            // Pause before the packet is queued: the frame may leave at once.
            let pauses = !switch.inner
                && !lane.pausing
                && (lane.headroom > 0 || lane.shared() >= switch.threshold(shift));
            lane.pausing |= pauses;
            self.count_samples(egress as usize);
            let queue = &mut self.lanes[to];
            queue.integrate(self.now);
            queue.egress = queue.egress.wrapping_add(size);
            queue.max_egress = queue.max_egress.max(queue.egress);
            if pauses {
                self.send_pfc(ingress, priority, true);
            }
        }
        self.enqueue(egress, packet, priority, size);
    }

    /// Whether a packet that has come in leaves again at once and changes nothing on its way: the port that it leaves by is
    /// idle, and it fits in the reserve of the one that it came by. What it would take of the buffer it would give back at this
    /// instant, in between nothing would be marked, paused or drawn, and an empty queue adds nothing to its integral. It is
    /// seen in the round robin and in the queue's greatest length alone.
    #[inline]
    fn passes(
        &mut self,
        egress: u32,
        priority: u8,
        size: u32,
        (from, to): (usize, usize),
        threshold: u32,
    ) -> bool {
        let p = &mut self.ports[egress as usize];
        let is_idle = p.up
            && p.waiting | p.paused & (1 << priority) == 0
            && !(p.busy && (p.awaited || !self.events.is_past(p.free_at)));
        if !is_idle || priority == 0 {
            return is_idle;
        }
        let lane = &self.lanes[from];
        let is_free = !lane.pausing
            && lane.headroom == 0
            && lane.ingress.wrapping_add(size) <= RESERVE_BYTES
            && size <= threshold;
        let queue = &mut self.lanes[to];
        if !is_free || queue.egress != 0 {
            return false;
        }
        p.last_served = priority;
        queue.max_egress = queue.max_egress.max(size);
        true
    }

    /// Queues a packet at a switch's port and lets the port send.
    #[inline]
    fn enqueue(&mut self, port: u32, packet: u32, priority: u8, size: u32) {
        let p = &mut self.ports[port as usize];
        p.waiting |= 1 << priority;
        p.queued = p.queued.wrapping_add(size);
        self.packets[packet].came = comes(self.now);
        self.lanes[port as usize * LANES + priority as usize].queue.push(&mut self.packets, packet);
        self.transmit(port);
    }

    /// Sends a PFC frame out of an ingress port, in queue 0.
    fn send_pfc(&mut self, port: u32, priority: u8, pause: bool) {
        // For the frame's IPv4 identification.
        self.streams.skip();
        self.heard[port as usize * LANES + priority as usize].sent += 1;
        let size = self.plan.variant.pfc_bytes();
        let frame = self.packets.add(Packet {
            seq: priority as u32,
            wire: size as u16,
            flags: if pause && self.plan.pause_time_us > 0 { PAUSE } else { 0 },
            came: comes(self.now),
            ..Packet::new(Kind::Pfc, 0)
        });
        self.enqueue(port, frame, 0, size);
    }

    /// Takes the next packet of an idle port off its queue and sends it: queue 0 first, whatever is paused, then a round robin.
    #[inline]
    pub fn transmit_switch(&mut self, port: u32) {
        let p = &mut self.ports[port as usize];
        let priority = if p.waiting & 1 != 0 {
            0
        } else {
            let may = p.waiting & !p.paused;
            if may == 0 {
                return;
            }
            let first = (p.last_served + 1) % LANES as u8;
            let served = (may.rotate_right(first as u32).trailing_zeros() as u8 + first) % LANES as u8;
            p.last_served = served;
            served
        };
        let queue = &mut self.lanes[port as usize * LANES + priority as usize].queue;
        let Some(packet) = queue.pop(&self.packets) else { return };
        match queue.head() {
            None => p.waiting &= !(1 << priority),
            // It is the next to be sent here, and lies where it came in.
            behind => self.packets.prefetch(behind),
        }
        p.queued = p.queued.wrapping_sub(self.packets[packet].wire as u32);
        if priority != 0 {
            self.on_dequeue(port, packet);
        }
        self.leave(port, packet);
    }

    /// Sends a packet off a switch, with what the controllers want written.
    #[inline(always)]
    fn leave(&mut self, port: u32, packet: u32) {
        if let Some(acks) = &mut self.acks {
            let Packet { kind, wire, .. } = self.packets[packet];
            if kind != Kind::Data {
                acks.pass_other(port, self.now / 1000, wire as u32);
            } else if acks.uses_switches() {
                self.write_telemetry(port, packet);
            }
        }
        self.start(port, packet);
    }

    #[inline(never)]
    fn write_telemetry(&mut self, port: u32, packet: u32) {
        let (p, leaves) = (&self.ports[port as usize], &self.packets[packet]);
        let leaving = Leaving {
            port,
            now_ns: self.now / 1000,
            tx_bytes: p.tx_bytes,
            queued: p.queued,
            rate: p.rate,
            wire: leaves.wire as u32,
            data: packet,
        };
        if let Some(acks) = &mut self.acks {
            acks.pass(&leaving);
        }
        #[cfg(test)]
        self.log_written(&leaving);
    }

    /// Gives the packet's buffer back, marks, resumes: in this order, before it is sent.
    #[inline]
    fn on_dequeue(&mut self, port: u32, packet: u32) {
        let leaves = &self.packets[packet];
        let (&Packet { ingress, wire, .. }, priority) = (leaves, leaves.priority());
        let size = wire as u32;
        let from = ingress as usize * LANES + priority as usize;
        let to = port as usize * LANES + priority as usize;
        let came_by = &self.ports[ingress as usize];
        let (shift, owner) = (came_by.shift, came_by.owner as usize);
        let lane = &mut self.lanes[from];
        let from_headroom = lane.headroom.min(size);
        let from_shared = (size - from_headroom).min(lane.shared());
        lane.headroom -= from_headroom;
        lane.ingress = lane.ingress.wrapping_sub(size - from_headroom);
        let switch = &mut self.switches[owner];
        switch.shared_used = switch.shared_used.wrapping_sub(from_shared);
        let resumes = lane.pausing && lane.headroom == 0 && {
            let shared = lane.shared();
            shared == 0 || shared.wrapping_add(RESUME_OFFSET_BYTES) <= switch.threshold(shift)
        };
        lane.pausing &= !resumes;
        let marks = self.plan.ecn.enabled && !switch.inner;
        self.count_samples(port as usize);
        let queue = &mut self.lanes[to];
        queue.integrate(self.now);
        queue.law.left(size as u64, self.packets[packet].came, Time(queue.since));
        queue.egress = queue.egress.wrapping_sub(size);
        let left = queue.egress;
        if marks && self.should_mark(port, left) {
            self.packets[packet].flags |= CE;
            self.lane_counters[to].marked += 1;
        }
        if resumes {
            self.send_pfc(ingress, priority, false);
        }
    }

    #[inline]
    fn should_mark(&mut self, port: u32, queued: u32) -> bool {
        let p = &self.ports[port as usize];
        if queued > p.kmax {
            return true;
        }
        if queued <= p.kmin {
            return false;
        }
        self.ecn_draws += 1;
        let probability = p.pmax * (queued - p.kmin) as f64 / (p.kmax - p.kmin) as f64;
        self.streams.draw() < probability
    }

    /// Next port of a packet, by the hash of its addresses and ports; none where there is no way.
    pub fn choose(&mut self, node: u32, packet: u32) -> u32 {
        let Packet { flow, kind, .. } = self.packets[packet];
        let qp = &self.send[flow as usize];
        self.choose_for(node, qp.key(kind != Kind::Data), if kind == Kind::Data { qp.dst } else { qp.src })
    }

    pub fn choose_for(&mut self, node: u32, key: [u32; 3], host: u32) -> u32 {
        match self.routes.next_ports(node, host) {
            [] => NONE,
            [only] => *only,
            ports => ports[murmur3(key, node) as usize % ports.len()],
        }
    }
}
