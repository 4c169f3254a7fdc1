//! Hosts: flows start, data and ACKs are sent and received.

use super::cc::dcqcn::ReactionPoint;
use super::cc::Start;
use super::packet::{Kind, Packet, CNP, NONE};
use super::plan::Flow;
use super::port::Nic;
use super::qp::SendQp;
use super::routing::{murmur3, NIC_SEED};
use super::world::{wake_event, Event, Fct, World};

/// First source port of a pair of hosts.
const FIRST_SPORT: u16 = 10_000;
/// The priority whose pause also stops a host's ACKs, unless they have a priority of their own.
const ACK_PRIORITY: u8 = 3;

impl Nic {
    /// Notes when a queue pair may send next.
    #[inline]
    pub fn note_ready(&mut self, qp: &SendQp) {
        if let Some(ready) = self.ready.get_mut(qp.slot as usize) {
            *ready = if qp.bytes_left() == 0 { u64::MAX } else { qp.next_avail };
        }
    }
}

impl World {
    /// Reads the list of flows on: sets up all that start now, then waits for the next.
    pub fn on_flow_input(&mut self) {
        while let Some(flow) = self.plan.flows.get(self.next_flow) {
            if flow.start_ps() != self.now {
                self.schedule(flow.start_ps(), Event::FlowInput, 0);
                return;
            }
            let flow = *flow;
            self.set_up(self.next_flow, flow);
            self.next_flow += 1;
        }
    }

    /// Makes the queue pair of the next flow, in this place.
    pub fn set_up(&mut self, place: usize, flow: Flow) {
        let (src, dst) = (self.routes.host(flow.0), self.routes.host(flow.1));
        let mut qp = SendQp::new(&flow, src, dst);
        let sport = self.sports.entry((src, dst)).or_insert(FIRST_SPORT);
        qp.sport = *sport;
        *sport = sport.wrapping_add(1);
        qp.number = self.over.messages;
        self.over.messages += 1;
        self.take_place(place, qp);
        // The application's set-up and its start are an event each, both at this instant.
        self.schedule(self.now, Event::AppStart, place as u32);
    }

    pub fn on_app_start(&mut self, flow: u32) {
        self.schedule(self.now, Event::QpStart, flow);
    }

    pub fn on_qp_start(&mut self, flow: u32) {
        let mut qp = self.send[flow as usize].clone();
        qp.started = true;
        let port = self.nic_of(qp.src_node, qp.key(false), qp.dst);
        if port == NONE {
            // No way since a link failed; that simulator's behaviour is undefined here.
            self.send[flow as usize] = qp;
            return;
        }
        qp.port = port;
        self.recv[flow as usize].port = self.nic_of(qp.dst_node, qp.key(true), qp.src);
        qp.line_rate = self.ports[port as usize].rate;
        qp.reaction = ReactionPoint::new(qp.line_rate);
        qp.next_avail = self.now;
        self.note_start(flow, port);
        let window = self.plan.window;
        if window.enabled {
            let bdp = if window.global { self.largest_bdp } else { self.pairs[flow as usize].bdp };
            qp.window = bdp as u32;
        }
        let base_rtt = self.base_rtt(flow as usize);
        if let Some(acks) = &mut self.acks {
            acks.begin(flow, Start { line_rate: qp.line_rate, base_rtt_ns: base_rtt, window: qp.window });
        }
        (qp.data_route, qp.route_lengths.0) = self.add_route(port, qp.key(false), qp.dst);
        let back = self.recv[flow as usize].port;
        (self.recv[flow as usize].ack_route, qp.route_lengths.1) = self.add_route(back, qp.key(true), qp.src);
        if let Some(table) = self.qp_tables.get_mut(qp.src as usize) {
            table.insert(qp.table_key(), flow);
        }
        self.send[flow as usize] = qp;
        self.join(flow);
        self.transmit(port);
    }

    /// The port that a host uses for a flow.
    pub fn nic_of(&mut self, node: u32, key: [u32; 3], towards: u32) -> u32 {
        match self.routes.next_ports(node, towards) {
            [] => NONE,
            ports => ports[murmur3(key, NIC_SEED) as usize % ports.len()],
        }
    }

    /// Follows a flow from a host's port and notes the ports that it leaves the switches by: where, and how many.
    fn add_route(&mut self, first: u32, key: [u32; 3], host: u32) -> (u32, u32) {
        let mut route = std::mem::take(&mut self.over.route);
        route.clear();
        let mut port = first;
        while port != NONE {
            let peer = &self.ports[self.ports[port as usize].peer as usize];
            if !peer.is_switch {
                break;
            }
            port = self.choose_for(peer.node, key, host);
            route.push(port);
        }
        let place = (self.over.place_route(&route, &mut self.route_ports), route.len() as u32);
        self.over.route = route;
        place
    }

    /// Puts a queue pair at the end of its port's round robin.
    pub fn join(&mut self, flow: u32) {
        let qp = &mut self.send[flow as usize];
        let nic = &mut self.nics[self.ports[qp.port as usize].owner as usize];
        qp.slot = nic.qps.len() as u32;
        nic.qps.push(flow);
        nic.ready.push(if qp.bytes_left() == 0 { u64::MAX } else { qp.next_avail });
    }

    /// Notes when a queue pair may send next.
    #[inline]
    pub fn update_ready(&mut self, flow: u32) {
        let qp = &self.send[flow as usize];
        if qp.port != NONE {
            self.nics[self.ports[qp.port as usize].owner as usize].note_ready(qp);
        }
    }

    #[inline]
    pub fn transmit_host(&mut self, port: u32) {
        let p = &self.ports[port as usize];
        let (owner, paused) = (p.owner as usize, p.paused);
        let ack_priority = if self.plan.ack_high_priority { 0 } else { ACK_PRIORITY };
        let nic = &mut self.nics[owner];
        if !nic.acks.is_empty() && paused & 1 << ack_priority == 0 {
            if let Some(packet) = nic.acks.pop(&self.packets) {
                self.start(port, packet);
                return;
            }
        }
        let found =
            if nic.finished > 0 { self.pick_and_clean(owner, paused) } else { self.pick(owner, paused) };
        if let Some(slot) = found {
            let nic = &mut self.nics[owner];
            nic.last_served = slot as u32;
            let flow = nic.qps[slot];
            self.send_data(port, flow);
            return;
        }
        // Nothing to send: wake when the first pacing gap ends. A queue pair that is held back by a pause or by its
        // window counts too, and in the forks one that has sent everything; if its gap is over, nothing is scheduled.
        let nic = &mut self.nics[owner];
        if nic.wake_at.is_some() {
            return;
        }
        let mut first = nic.ready.iter().copied().min().unwrap_or(u64::MAX);
        if first > self.now && !self.plan.variant.wake_skips_sent() {
            let gap_ends = nic.qps.iter().map(|&flow| self.send[flow as usize].next_avail);
            first = gap_ends.fold(first, u64::min);
        }
        if first < u64::MAX && first > self.now {
            self.wake(port, first);
        }
    }

    /// Wakes a host's port at a time.
    #[inline]
    pub fn wake(&mut self, port: u32, at: u64) {
        let place = self.events.reserve(at);
        self.nics[self.ports[port as usize].owner as usize].wake_at = Some(place);
        if at <= self.stop {
            self.events.push_at(&mut self.packets, place, wake_event(port));
        }
    }

    #[inline]
    pub fn on_wake(&mut self, port: u32) {
        let nic = &mut self.nics[self.ports[port as usize].owner as usize];
        nic.wake_at = None;
        self.transmit(port);
    }

    /// The next queue pair of the round robin that may send now.
    #[inline]
    fn pick(&self, owner: usize, paused: u8) -> Option<usize> {
        let nic = &self.nics[owner];
        let variable = self.plan.window.variable;
        let may = |slot: usize| {
            let qp = &self.send[nic.qps[slot] as usize];
            paused & 1 << qp.priority == 0 && !qp.is_window_bound(variable)
        };
        let count = match nic.ready[..] {
            [] => return None,
            // Mostly there is one, and no turn to look for.
            [ready] => return (ready <= self.now && may(0)).then_some(0),
            _ => nic.qps.len(),
        };
        let next = nic.last_served as usize + 1;
        let first = match next {
            next if next < count => next,
            next if next == count => 0,
            _ => next % count,
        };
        let find = |from: usize, ready: &[u64]| {
            let mut slots = (from..).zip(ready);
            slots.find(|&(slot, &ready)| ready <= self.now && may(slot)).map(|(slot, _)| slot)
        };
        let (before, behind) = nic.ready.split_at(first);
        find(first, behind).or_else(|| find(0, before))
    }

    /// As [`Self::pick`], and drops finished queue pairs from the list if the search came past one that could not
    /// send: then all of them, and the place found moves with them while the place served last does not.
    #[cold]
    fn pick_and_clean(&mut self, owner: usize, paused: u8) -> Option<usize> {
        let variable = self.plan.window.variable;
        let now = self.now;
        let nic = &mut self.nics[owner];
        let count = nic.qps.len();
        let mut found = None;
        let mut first_finished = None;
        for step in 1..=count {
            let slot = (nic.last_served as usize + step) % count;
            let qp = &self.send[nic.qps[slot] as usize];
            if paused & 1 << qp.priority == 0 && qp.bytes_left() > 0 && !qp.is_window_bound(variable) {
                if qp.next_avail > now {
                    continue;
                }
                found = Some(slot);
                break;
            } else if qp.done {
                first_finished = Some(first_finished.map_or(slot, |first: usize| first.min(slot)));
            }
        }
        let Some(mut kept) = first_finished else { return found };
        self.send[nic.qps[kept] as usize].slot = NONE;
        for slot in kept + 1..count {
            let flow = nic.qps[slot];
            let qp = &mut self.send[flow as usize];
            if qp.done {
                qp.slot = NONE;
                continue;
            }
            if found == Some(slot) {
                found = Some(kept);
            }
            qp.slot = kept as u32;
            nic.qps[kept] = flow;
            nic.ready[kept] = nic.ready[slot];
            kept += 1;
        }
        nic.finished -= (count - kept) as u32;
        nic.qps.truncate(kept);
        nic.ready.truncate(kept);
        found.filter(|&slot| slot < kept)
    }

    fn send_data(&mut self, port: u32, flow: u32) {
        let (mtu, overhead) = (self.plan.payload_bytes, self.data_overhead);
        let qp = &mut self.send[flow as usize];
        let payload = qp.bytes_left().min(mtu);
        let wire = payload + overhead;
        let packet = Packet {
            flow,
            seq: qp.snd_nxt,
            route: qp.data_route,
            wire: wire as u16,
            ..Packet::new(Kind::Data, qp.priority)
        };
        qp.snd_nxt += payload;
        qp.furthest = qp.furthest.max(qp.snd_nxt);
        qp.packets_sent += 1;
        qp.last_wire = wire;
        let is_last = qp.bytes_left() == 0;
        let packet = self.packets.add(packet);
        if let Some(acks) = &mut self.acks {
            acks.depart(packet, self.now / 1000);
        }
        if is_last && self.plan.variant.tells_sent() {
            self.schedule(self.now + self.serialization(port, wire as u16), Event::WorkSent, flow);
        }
        self.start(port, packet);
        let qp = &mut self.send[flow as usize];
        let rate = if self.plan.rate_bound { qp.reaction.rate } else { qp.line_rate };
        qp.next_avail = self.now + qp.gap(wire, rate, self.rounding);
        self.update_ready(flow);
        self.restart_timeout(flow);
    }

    /// An ACK or NACK has come in at its sender; its last hop began at `sent`.
    #[inline]
    pub fn on_ack(&mut self, packet: u32, sent: u64) {
        let Packet { flow, seq, kind, flags, .. } = self.packets[packet];
        let plan = &self.plan;
        let qp = &mut self.send[flow as usize];
        if qp.done {
            self.packets.remove(packet);
            return;
        }
        let acknowledged =
            if plan.back_to_zero { seq / plan.l2_chunk_bytes * plan.l2_chunk_bytes } else { seq };
        if acknowledged > qp.snd_una {
            self.host_counters[qp.src as usize].goodput_tx += (acknowledged - qp.snd_una) as u64;
            qp.snd_una = acknowledged;
        }
        let (port, done) = (qp.port, qp.snd_una >= qp.size);
        if done {
            self.complete(flow);
        }
        if kind == Kind::Nack {
            let qp = &mut self.send[flow as usize];
            qp.snd_nxt = qp.snd_una;
            qp.nacks += 1;
            self.host_counters[qp.src as usize].packet_seq_err += 1;
            self.update_ready(flow);
        }
        if flags & CNP != 0 {
            self.on_cnp(flow, sent);
        }
        if self.acks.is_some() {
            self.tell(flow, packet, seq, flags & CNP != 0);
        }
        self.packets.remove(packet);
        self.restart_timeout(flow);
        if done {
            self.note_over(flow);
        }
        self.transmit(port);
    }

    fn on_cnp(&mut self, flow: u32, sent: u64) {
        let qp = &mut self.send[flow as usize];
        qp.cnps += 1;
        self.host_counters[qp.src as usize].cnp_handled += 1;
        // In the HPCC simulator, timers that start after the last ACK run on forever, without a visible effect.
        let (Some(reaction), false) = (&self.reaction, qp.done) else { return };
        if qp.reaction.on_cnp(reaction, self.now, sent) {
            let first = self.now + reaction.first_cut();
            qp.timers += 1;
            self.schedule(first, Event::CutTimer, flow);
        }
    }

    pub fn on_cut_timer(&mut self, flow: u32) {
        let Some(reaction) = self.reaction else { return };
        let qp = &mut self.send[flow as usize];
        if qp.done {
            qp.timers -= 1;
            return;
        }
        self.schedule(self.now + reaction.cut_period, Event::CutTimer, flow);
        let qp = &mut self.send[flow as usize];
        if qp.reaction.on_cut_timer(&reaction, self.now) {
            self.schedule_increase(flow, self.now + reaction.increase_period);
        }
    }

    /// Cancels the increase that is due and schedules another.
    fn schedule_increase(&mut self, flow: u32, due: u64) {
        let qp = &mut self.send[flow as usize];
        qp.increase_stale = if qp.increase_due == due { qp.increase_stale + 1 } else { 0 };
        qp.increase_due = due;
        qp.timers += 1;
        self.schedule(due, Event::IncreaseTimer, flow);
    }

    pub fn on_increase_timer(&mut self, flow: u32) {
        let Some(reaction) = self.reaction else { return };
        let qp = &mut self.send[flow as usize];
        qp.timers -= 1;
        if qp.done || qp.increase_due != self.now {
            return;
        }
        if qp.increase_stale > 0 {
            qp.increase_stale -= 1;
            return;
        }
        self.schedule_increase(flow, self.now + reaction.increase_period);
        let qp = &mut self.send[flow as usize];
        // The limit is the rate of the NIC that it has by now; its window goes by the first one's.
        qp.reaction.on_increase_timer(&reaction, self.ports[qp.port as usize].rate);
    }

    fn complete(&mut self, flow: u32) {
        let qp = &mut self.send[flow as usize];
        qp.done = true;
        qp.end = self.now;
        if let Some(table) = self.qp_tables.get_mut(qp.src as usize) {
            table.remove(flow);
        }
        if qp.slot != NONE {
            self.nics[self.ports[qp.port as usize].owner as usize].finished += 1;
        }
        self.recv[flow as usize].forget();
        self.completed += 1;
        self.fct.push(Fct {
            src: qp.src_node,
            dst: qp.dst_node,
            sport: qp.sport,
            dport: qp.dport,
            bytes: qp.size as u64,
            start_ns: qp.start / 1000,
            fct_ns: (self.now - qp.start) / 1000,
            standalone_ns: self.standalone_ns(flow as usize),
        });
        self.let_work(|work, world| work.on_done(flow, world));
    }

    /// What a flow takes by formula in an empty network; sizes in 32 bits, telemetry not counted, the link's header
    /// that of the HPCC simulator in any variant.
    pub fn standalone_ns(&self, flow: usize) -> u64 {
        let pair = self.pairs[flow];
        let size = self.plan.flows[flow].4 as u32;
        let packets = (size - 1) / self.plan.payload_bytes + 1;
        let total = size.wrapping_add(packets.wrapping_mul(self.plan.variant.formula_header_bytes())) as u64;
        pair.rtt_ns + total.wrapping_mul(8_000_000_000) / pair.rate.max(1)
    }

    /// The ports that a flow's data leave by, from the sender on; none where there is no way.
    pub fn route(&mut self, flow: usize) -> Option<Vec<usize>> {
        let qp = &self.send[flow];
        let (key, dst) = (qp.key(false), qp.dst);
        let mut hops = vec![qp.port as usize];
        while let Some(&last) = hops.last().filter(|&&last| last != NONE as usize) {
            let peer = &self.ports[self.ports[last].peer as usize];
            if !peer.is_switch {
                return Some(hops);
            }
            hops.push(self.choose_for(peer.node, key, dst) as usize);
        }
        None
    }

    /// Departure: puts the retransmission timer off.
    #[inline]
    fn restart_timeout(&mut self, flow: u32) {
        let timeout = self.plan.departures.retransmission_timeout_ns * 1000;
        if timeout == 0 {
            return;
        }
        let qp = &mut self.send[flow as usize];
        qp.timeout_at = self.now + timeout;
        if !qp.timeout_pending && !qp.done {
            qp.timeout_pending = true;
            qp.timers += 1;
            self.schedule(self.now + timeout, Event::RetransmissionTimer, flow);
        }
    }

    pub fn on_retransmission_timer(&mut self, flow: u32) {
        let qp = &mut self.send[flow as usize];
        qp.timeout_pending = false;
        qp.timers -= 1;
        if qp.done || qp.snd_nxt == qp.snd_una {
            return;
        }
        if qp.timeout_at > self.now {
            qp.timeout_pending = true;
            qp.timers += 1;
            let at = qp.timeout_at;
            self.schedule(at, Event::RetransmissionTimer, flow);
            return;
        }
        qp.snd_nxt = qp.snd_una;
        qp.timeouts += 1;
        self.host_counters[qp.src as usize].timeouts += 1;
        let port = qp.port;
        self.update_ready(flow);
        self.transmit(port);
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::{Flow, Link};
    use super::super::routing::tests::network;
    use super::super::variant::Variant;
    use super::super::world::World;

    /// A host's port at 5 us with two queue pairs: one has sent everything and waits for its ACKs, one may send at 9 us.
    /// When the port wakes, in ns.
    fn wakes_at(variant: Variant, sent_gap_ends_ns: u64) -> Option<u64> {
        const RATE: u64 = 100_000_000_000;
        let mut plan = network(3, vec![2], vec![Link(0, 2, RATE, 1000, 0.0), Link(1, 2, RATE, 1000, 0.0)]);
        plan.variant = variant;
        plan.flows = vec![Flow(0, 1, 3, 100, 5000, 0); 2];
        let mut world = World::new(&plan, None);
        for place in 0..2 {
            world.set_up(place, plan.flows[place]);
            world.send[place].port = 0;
            world.join(place as u32);
        }
        world.now = 5_000_000;
        (world.send[0].snd_nxt, world.send[0].next_avail) = (5000, sent_gap_ends_ns * 1000);
        world.send[1].next_avail = 9_000_000;
        (0..2).for_each(|flow| world.update_ready(flow));
        world.transmit_host(0);
        world.nics[0].wake_at.map(|place| place.time / 1000)
    }

    #[test]
    fn the_forks_do_not_wake_while_a_queue_pair_that_has_sent_everything_waits_for_its_acks() {
        for (sent_gap_ends_ns, expected) in [(4000, None), (7000, Some(7000)), (9500, Some(9000))] {
            assert_eq!(wakes_at(Variant::Hpcc, sent_gap_ends_ns), Some(9000));
            for fork in [Variant::AstraSim, Variant::Simai] {
                assert_eq!(wakes_at(fork, sent_gap_ends_ns), expected, "{fork:?}, {sent_gap_ends_ns} ns");
            }
        }
    }
}
