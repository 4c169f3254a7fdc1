//! Switches: shared buffer, PFC, ECN, ECMP.

use tailback_proto::units::Time;

use super::calendar::EventKey;
use super::cc::Leaving;
use super::packet::{EntryKind, Packet, CE, NONE, ON_WIRE, PAUSE};
use super::routing::{murmur3, Routes};
use super::world::{sent_event, PfcEvent, World};
use tailback_sim::engine::Fifo;
use tailback_sim::gauge::{LittlesLaw, QueuedAt};

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

    /// True if a packet that has come in leaves again at once and changes nothing on its way: the port that it leaves
    /// by is idle, and it fits in the reserve of the one that it came by. What it would take of the buffer it would
    /// give back at this instant, in between nothing would be marked, paused or drawn, and an empty queue adds nothing
    /// to its integral. It is seen in the round robin and in the queue's greatest length alone.
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
            let queue = &mut self.lanes[to];
            queue.max_egress = queue.max_egress.max(if is_idle { size } else { 0 });
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
        let lane = &mut self.lanes[port as usize * LANES + priority as usize];
        if priority == 0 {
            // The buffer's accounting leaves queue 0 out, as in that simulator. What waits there is recorded all the same.
            lane.integrate(self.now);
            lane.egress = lane.egress.wrapping_add(size);
            lane.max_egress = lane.max_egress.max(lane.egress);
        }
        lane.queue.push(&mut self.packets, packet);
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
            ..Packet::new(EntryKind::Pfc, 0)
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
        let lane = &mut self.lanes[port as usize * LANES + priority as usize];
        let Some(packet) = lane.queue.pop(&self.packets) else { return };
        match lane.queue.head() {
            None => p.waiting &= !(1 << priority),
            // It is the next to be sent here, and lies where it came in.
            behind => self.packets.prefetch(behind),
        }
        let size = self.packets[packet].wire as u32;
        p.queued = p.queued.wrapping_sub(size);
        if priority == 0 {
            lane.integrate(self.now);
            lane.law.left(size as u64, self.packets[packet].came, Time(lane.since));
            lane.egress = lane.egress.wrapping_sub(size);
        } else {
            self.on_dequeue(port, packet);
        }
        self.leave(port, packet);
    }

    /// Sends a packet off a switch, with what the controllers want written.
    #[inline(always)]
    fn leave(&mut self, port: u32, packet: u32) {
        if let Some(acks) = &mut self.acks {
            let Packet { kind, wire, .. } = self.packets[packet];
            if kind != EntryKind::Data {
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
        self.choose_for(
            node,
            qp.key(kind != EntryKind::Data),
            if kind == EntryKind::Data { qp.dst } else { qp.src },
        )
    }

    pub fn choose_for(&mut self, node: u32, key: [u32; 3], host: u32) -> u32 {
        match self.routes.next_ports(node, host) {
            [] => NONE,
            [only] => *only,
            ports => ports[murmur3(key, node) as usize % ports.len()],
        }
    }
}

// Ports with their queues, switches' buffers, hosts' NICs: the state, without what happens to it.

/// Bytes of a port's buffer that are its own.
pub(super) const RESERVE_BYTES: u32 = 4096;

/// Priorities of a port.
pub(super) const LANES: usize = 8;

/// One end of a link: transmitter, and where it belongs. What most packets need is in its first cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Port {
    /// It is sending, or was when it was last looked at.
    pub busy: bool,
    /// True if the end of what it sends is in the calendar. Otherwise nothing waits for it, and its place is free.
    pub awaited: bool,
    pub up: bool,
    pub is_switch: bool,
    /// A bit for each priority that is paused.
    pub paused: u8,
    /// A bit for each queue that is not empty.
    pub waiting: u8,
    /// Queue served last, for the round robin.
    pub last_served: u8,
    /// Right shift from free buffer to threshold.
    pub shift: u8,
    pub peer: u32,
    /// Number of the switch or of the host's port.
    pub owner: u32,
    /// Place of the first serialization time of its rate.
    pub times: u32,
    pub headroom: u32,
    pub delay: u64,
    /// Place in the calendar of the end of what it sends.
    pub free_at: EventKey,
    pub tx_bytes: u64,
    /// Bytes in all queues.
    pub queued: u32,
    pub error_model: u32,
    pub rate: u64,
    pub pmax: f64,
    pub kmin: u32,
    pub kmax: u32,
    pub node: u32,
    /// Number of the port at its node, from 1.
    pub number: u16,
}

/// A priority of a port: its egress queue and its ingress accounting. One cache line.
#[derive(Clone, Debug, Default)]
#[repr(align(64))]
pub(super) struct Lane {
    pub queue: Fifo,
    pub egress: u32,
    pub ingress: u32,
    pub headroom: u32,
    /// Largest `egress` in this bin.
    pub max_egress: u32,
    /// Bytes times nanoseconds in this bin.
    pub byte_ns: u64,
    /// Until when, a whole nanosecond.
    pub since: u64,
    pub tx_packets: u64,
    pub tx_bytes: u64,
    /// True if this port has paused its peer.
    pub pausing: bool,
    pub law: LittlesLaw,
}

/// Counters of a lane that few packets change.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LaneCounters {
    pub marked: u64,
    /// Packets that came in and found no room.
    pub dropped: u64,
    pub dropped_bytes: u64,
    /// Packets that were lost on the way here, or in this port's own queue when it went down.
    pub lost: u64,
    pub lost_bytes: u64,
}

impl Lane {
    /// Bytes that came in by this port and take of the switch's shared buffer.
    #[inline]
    pub fn shared(&self) -> u32 {
        self.ingress.saturating_sub(RESERVE_BYTES)
    }

    /// Adds up what stood in the queue until now.
    #[inline]
    pub fn integrate(&mut self, now: u64) {
        let ns = (now - self.since) / 1000;
        self.byte_ns += self.egress as u64 * ns;
        let since = self.since + ns * 1000;
        self.law.held(self.egress as u64, Time(self.since), Time(since));
        self.since = since;
    }
}

/// A packet comes to a queue now, as the queue's integral has it: in whole nanoseconds.
#[inline(always)]
pub(super) fn comes(now: u64) -> QueuedAt {
    QueuedAt::at(Time(now / 1000 * 1000))
}

/// Pauses that a port has received for one priority.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Heard {
    pub since: Option<u64>,
    pub paused: u64,
    pub pauses: u64,
    pub resumes: u64,
    /// Resumes that ended a pause.
    pub transitions: u64,
    /// Frames that the port sent about it.
    pub sent: u64,
}

/// A switch's shared buffer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Switch {
    /// It is inside of a server: it neither marks nor pauses.
    pub inner: bool,
    /// Buffer less all headroom and reserve, in 32 bits as there.
    pub shareable: u32,
    pub shared_used: u32,
}

impl Switch {
    /// What one group may hold of the buffer, whose port has this shift. 32-bit arithmetic as there: a buffer that is too small
    /// wraps.
    #[inline]
    pub fn threshold(&self, shift: u8) -> u32 {
        self.shareable.wrapping_sub(self.shared_used) >> shift
    }
}

/// A host's port.
#[derive(Debug, Default)]
pub(super) struct Nic {
    pub acks: Fifo,
    /// Queue pairs in the order of the round robin; finished ones are dropped while looking for a packet.
    pub qps: Vec<u32>,
    /// When each may send next, `u64::MAX` when nothing is left to send.
    pub ready: Vec<u64>,
    pub last_served: u32,
    /// Finished ones among `qps`.
    pub finished: u32,
    /// When it wakes to send.
    pub wake_at: Option<EventKey>,
}

/// Counters of a host.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HostCounters {
    pub goodput_tx: u64,
    pub goodput_rx: u64,
    pub marked: u64,
    pub cnp_sent: u64,
    pub cnp_handled: u64,
    pub out_of_sequence: u64,
    pub packet_seq_err: u64,
    pub delay_probes: u64,
    pub duplicate: u64,
    pub timeouts: u64,
}

// The transmitter that all ports share: packets onto links, off them, and lost; and PFC frames.

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
            (EntryKind::Pfc, _) => self.on_pfc(port, packet),
            (_, true) => self.forward(port, packet),
            (EntryKind::Data, false) => self.on_data(packet),
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
        self.data_lost += (self.packets[packet].kind == EntryKind::Data) as u64;
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

// A link fails during the run.

impl World {
    /// Takes the plan's link down: new routes, empty queues at both ends, and every queue pair chooses its NIC anew.
    ///
    /// What the dropped packets held of the switches' buffers is not given back. Queue pairs rejoin host by host, those
    /// of a host in the order of a hash table.
    pub fn on_link_down(&mut self) {
        let Some(down) = self.plan.link_down else { return };
        self.rerouted = true;
        self.routes = Routes::new(&self.plan, Some(down));
        // Round trips, and products with them, are not worked out anew there.
        for (flow, pair) in self.plan.flows.iter().zip(&mut self.pairs) {
            let rate = self.routes.pair(self.routes.host(flow.0), self.routes.host(flow.1)).rate;
            pair.rate = if rate == 0 { pair.rate } else { rate };
        }
        // Of several links between two nodes only the last is known by name and goes down.
        let ends = self
            .plan
            .links
            .iter()
            .rposition(|l| (l.0, l.1) == (down.1, down.2) || (l.1, l.0) == (down.1, down.2));
        for port in ends.into_iter().flat_map(|link| [link * 2, link * 2 + 1]) {
            self.take_down(port);
        }
        for nic in &mut self.nics {
            nic.qps.clear();
            nic.ready.clear();
            nic.finished = 0;
        }
        for flow in 0..self.send.len() {
            let qp = &self.send[flow];
            let (started, node, key, src) = (qp.started, qp.dst_node, qp.key(true), qp.src);
            let back = self.nic_of(node, key, src);
            if started && back != NONE {
                self.recv[flow].port = back;
            }
            self.send[flow].slot = NONE;
        }
        for host in 0..self.qp_tables.len() {
            for flow in self.qp_tables[host].flows() {
                let qp = &self.send[flow as usize];
                let (node, key, dst) = (qp.src_node, qp.key(false), qp.dst);
                let port = self.nic_of(node, key, dst);
                if port != NONE {
                    self.send[flow as usize].port = port;
                    self.join(flow);
                    self.transmit(port);
                }
            }
        }
    }

    fn take_down(&mut self, port: usize) {
        self.ports[port].up = false;
        if !self.ports[port].is_switch {
            let owner = self.ports[port].owner as usize;
            while let Some(packet) = self.nics[owner].acks.pop(&self.packets) {
                self.lose(port as u32, packet);
            }
            return;
        }
        self.ports[port].paused = 0;
        self.ports[port].waiting = 0;
        self.ports[port].queued = 0;
        let first = &mut self.lanes[port * LANES];
        first.integrate(self.now);
        first.egress = 0;
        for lane in port * LANES..(port + 1) * LANES {
            if let Some(since) = self.heard[lane].since.take() {
                self.heard[lane].paused += self.now - since;
            }
            while let Some(packet) = self.lanes[lane].queue.pop(&self.packets) {
                self.lose(port as u32, packet);
            }
        }
    }
}
