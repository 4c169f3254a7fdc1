//! Hosts: flows start, data and ACKs are sent and received.

use super::cc::dcqcn::ReactionPoint;
use super::cc::{Ack, Start};
use super::packet::{serialization, EntryKind, Packet, Rounding, CE, CNP, NONE};
use super::plan::Flow;
use super::routing::{address, flow_key, murmur3, NIC_SEED};
use super::switch::Nic;
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
            ..Packet::new(EntryKind::Data, qp.priority)
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
        if kind == EntryKind::Nack {
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

// Queue pairs: one for each message.

/// The sending half.
#[derive(Clone, Debug)]
#[repr(C, align(64))] // what each packet needs is in the first two cache lines
pub(super) struct SendQp {
    pub snd_nxt: u32,
    pub snd_una: u32,
    pub size: u32,
    /// Furthest byte ever sent.
    pub furthest: u32,
    /// Port that it sends from.
    pub port: u32,
    /// Place in that port's round robin.
    pub slot: u32,
    /// Where the route of its data begins.
    pub data_route: u32,
    /// Size on the wire of the packet sent last.
    pub last_wire: u32,
    pub next_avail: u64,
    pub packets_sent: u64,
    /// Cap on what is in flight at full rate; 0 = none.
    pub window: u32,
    /// Number among the hosts, as `dst`.
    pub src: u32,
    pub priority: u8,
    pub started: bool,
    pub done: bool,
    pub timeout_pending: bool,
    gap_wire: u32,
    /// The gap worked out last, and the size on the wire and the rate that it belongs to.
    gap: u64,
    gap_rate: u64,
    pub line_rate: u64,
    pub reaction: ReactionPoint,
    pub cnps: u64,
    /// When the increase timer is due; an entry of the calendar for another time is a cancelled one.
    pub increase_due: u64,
    /// Cancelled entries at that very time, before the one that counts.
    pub increase_stale: u32,
    /// Entries of the calendar that name it.
    pub timers: u32,
    /// Number of its message in the run.
    pub number: u32,
    /// How many ports follow each other on its routes, each way.
    pub route_lengths: (u32, u32),
    pub dst: u32,
    pub src_node: u32,
    pub dst_node: u32,
    pub sport: u16,
    pub dport: u16,
    pub start: u64,
    pub end: u64,
    /// Departure: when nothing sent or acknowledged counts as a loss.
    pub timeout_at: u64,
    pub nacks: u64,
    pub timeouts: u64,
}

impl SendQp {
    pub fn new(flow: &Flow, src: u32, dst: u32) -> Self {
        let &Flow(src_node, dst_node, priority, dport, bytes, _) = flow;
        SendQp {
            number: 0,
            snd_nxt: 0,
            snd_una: 0,
            size: bytes as u32,
            port: NONE,
            slot: NONE,
            priority: priority as u8,
            started: false,
            done: false,
            window: 0,
            line_rate: 0,
            next_avail: 0,
            reaction: ReactionPoint::new(0),
            gap: 0,
            gap_wire: 0,
            gap_rate: 0,
            increase_due: 0,
            increase_stale: 0,
            data_route: 0,
            route_lengths: (0, 0),
            timers: 0,
            src,
            dst,
            src_node,
            dst_node,
            sport: 0,
            dport: dport as u16,
            start: flow.start_ps(),
            end: 0,
            timeout_at: 0,
            timeout_pending: false,
            packets_sent: 0,
            last_wire: 0,
            furthest: 0,
            nacks: 0,
            cnps: 0,
            timeouts: 0,
        }
    }

    #[inline]
    pub fn bytes_left(&self) -> u32 {
        self.size.saturating_sub(self.snd_nxt)
    }

    /// Time that one of its packets takes at a rate. The last one is kept: the next packet asks for it again, and so does a change
    /// of the rate.
    #[inline]
    pub fn gap(&mut self, wire: u32, rate: u64, rounding: Rounding) -> u64 {
        if (self.gap_wire, self.gap_rate) != (wire, rate) {
            (self.gap_wire, self.gap_rate) = (wire, rate);
            self.gap = serialization(wire, rate, rounding);
        }
        self.gap
    }

    /// True if the window is closed. Bytes in flight are unsigned there, too: after a go-back that a late ACK overtook,
    /// they are huge, and the queue pair stops for ever.
    #[inline]
    pub fn is_window_bound(&self, variable: bool) -> bool {
        if self.window == 0 {
            return false;
        }
        let window = self.window as u64;
        let flying = (self.snd_nxt as u64).wrapping_sub(self.snd_una as u64);
        if !variable {
            return flying >= window;
        }
        // Its share of the line rate, cut to whole bytes and at least one: without a division.
        let scaled = window.wrapping_mul(self.reaction.rate);
        flying > 0 && (flying as u128 + 1) * self.line_rate as u128 > scaled as u128
    }

    /// Its key in the host's table: receiver's address, source port, priority.
    pub fn table_key(&self) -> u64 {
        (address(self.dst_node) as u64) << 32 | (self.sport as u64) << 16 | self.priority as u64
    }

    /// The ECMP hash key of its data packets, or of its ACKs.
    pub fn key(&self, ack: bool) -> [u32; 3] {
        if ack {
            flow_key(self.dst_node, self.src_node, self.dport, self.sport)
        } else {
            flow_key(self.src_node, self.dst_node, self.sport, self.dport)
        }
    }
}

/// The receiving half. It is made by the first packet and deleted when the sender is done, so a new one equals this.
#[derive(Clone, Debug)]
pub(super) struct RecvQp {
    pub expected: u32,
    pub last_nack: u32,
    pub nack_timer: u64,
    /// Port that its ACKs leave by, and where the route from there begins.
    pub port: u32,
    pub ack_route: u32,
    /// Number among the hosts.
    pub host: u32,
    /// Departure: when it last flagged an ACK.
    pub flagged: Option<u64>,
    pub delivered: u64,
    pub marked: u64,
    pub cnp_sent: u64,
    pub out_of_sequence: u64,
    pub duplicate: u64,
}

impl RecvQp {
    pub fn new(host: u32) -> Self {
        RecvQp {
            host,
            ack_route: 0,
            expected: 0,
            last_nack: 0,
            nack_timer: 0,
            port: NONE,
            flagged: None,
            delivered: 0,
            marked: 0,
            cnp_sent: 0,
            out_of_sequence: 0,
            duplicate: 0,
        }
    }

    /// The sender is done: a late packet would find a new queue pair.
    pub fn forget(&mut self) {
        self.expected = 0;
        self.last_nack = 0;
        self.nack_timer = 0;
    }
}

// Receivers: in order, early or late, and what is answered.

/// Time in which a receiver repeats no NACK for the same byte.
const NACK_INTERVAL: u64 = 500_000_000;

impl World {
    /// A data packet has come in at its receiver.
    #[inline]
    pub fn on_data(&mut self, packet: u32) {
        let Packet { flow, seq, wire, flags, .. } = self.packets[packet];
        let payload = wire as u32 - self.data_overhead;
        let plan = &self.plan;
        let recv = &mut self.recv[flow as usize];
        let host = &mut self.host_counters[recv.host as usize];
        let marked = flags & CE != 0;
        host.marked += marked as u64;
        recv.marked += marked as u64;
        let kind = if seq == recv.expected {
            recv.expected = recv.expected.wrapping_add(payload);
            recv.delivered += payload as u64;
            self.delivered += 1;
            host.goodput_rx += payload as u64;
            let due = recv.expected >= plan.l2_ack_interval_bytes
                || plan.l2_chunk_bytes > 0 && recv.expected.is_multiple_of(plan.l2_chunk_bytes);
            due.then_some(EntryKind::Ack)
        } else if seq > recv.expected {
            recv.out_of_sequence += 1;
            host.out_of_sequence += 1;
            let due = self.now >= recv.nack_timer || recv.last_nack != recv.expected;
            if due {
                recv.nack_timer = self.now + NACK_INTERVAL;
                recv.last_nack = recv.expected;
                if plan.back_to_zero {
                    recv.expected = recv.expected / plan.l2_chunk_bytes * plan.l2_chunk_bytes;
                }
            }
            due.then_some(EntryKind::Nack)
        } else {
            recv.duplicate += 1;
            host.duplicate += 1;
            // Not there; but without it a timer's repetitions after a lost ACK would never be answered.
            (plan.departures.retransmission_timeout_ns > 0).then_some(EntryKind::Ack)
        };
        let (Some(kind), true) = (kind, recv.port != NONE) else {
            self.packets.remove(packet);
            return;
        };
        let mut flag = marked;
        if flag && plan.departures.cnp_interval_ns > 0 {
            let interval = plan.departures.cnp_interval_ns * 1000;
            flag = recv.flagged.is_none_or(|last| self.now - last >= interval);
            if flag {
                recv.flagged = Some(self.now);
            }
        }
        recv.cnp_sent += flag as u64;
        host.cnp_sent += flag as u64;
        // The packet becomes its own ACK.
        let (expected, port, route) = (recv.expected, recv.port, recv.ack_route);
        let ack = &mut self.packets[packet];
        ack.kind = kind;
        ack.seq = expected;
        ack.wire = self.ack_bytes as u16;
        ack.route = route;
        ack.flag(if flag { CNP } else { 0 });
        let owner = self.ports[port as usize].owner as usize;
        self.nics[owner].acks.push(&mut self.packets, packet);
        self.transmit(port);
    }
}

// Senders under modes 3, 7, 8 and 10: each ACK goes to its flow's controller, whose rate moves the pacing.

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

#[cfg(test)]
mod host_tests {
    use super::super::plan::{Flow, Link};
    use super::super::routing::tests::network;
    use super::super::world::World;
    use crate::hpcc::plan::Variant;

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

#[cfg(test)]
mod qp_tests {
    use super::*;
    use proptest::prelude::*;

    fn qp(window: u32, rate: u64, line_rate: u64, flying: u32) -> SendQp {
        let mut qp = SendQp::new(&Flow(0, 1, 3, 100, 1_000_000, 0), 0, 1);
        (qp.window, qp.line_rate, qp.reaction.rate, qp.snd_nxt) = (window, line_rate, rate, flying);
        qp
    }

    proptest! {
        /// As that simulator divides: the window's share is cut to whole bytes, and at least one.
        #[test]
        fn a_share_of_the_window_needs_no_division(
            window in 1u32..2_000_000,
            rate in 0u64..400_000_000_001,
            line_rate in 1u64..400_000_000_001,
            beside in -1i64..2,
        ) {
            let share = (window as u64 * rate / line_rate).max(1);
            let flying = share.saturating_add_signed(beside).min(u32::MAX as u64) as u32;
            prop_assert_eq!(qp(window, rate, line_rate, flying).is_window_bound(true), flying as u64 >= share);
            prop_assert_eq!(qp(window, rate, line_rate, window).is_window_bound(false), true);
        }
    }

    /// Unsigned as there: bytes that were acknowledged after a go-back are more than any window.
    #[test]
    fn what_flies_after_a_late_ack_is_huge() {
        let mut late = qp(1000, 1, 1, 0);
        late.snd_una = 1;
        assert!(late.is_window_bound(true) && late.is_window_bound(false));
        late.window = 0;
        assert!(!late.is_window_bound(true));
    }

    #[test]
    fn a_gap_is_that_of_the_size_and_the_rate_asked_for() {
        let mut qp = qp(0, 1, 1, 0);
        for (wire, rate) in
            [(1090, 1_000_000_000), (1090, 1_000_000_000), (90, 1_000_000_000), (90, 2_000_000_000)]
        {
            let gap = serialization(wire, rate, Rounding::Down);
            assert_eq!(qp.gap(wire, rate, Rounding::Down), gap);
        }
    }
}
