//! A switch with one shared buffer, for frames as bytes: no clock and no I/O. Its buffer is the simulator's
//! ([`tailback_proto::flow_control::shared_buffer`]), and it marks by the queue that a packet leaves behind.
//!
//! Leaves out: weights of classes, the watchdog of pause storms, and routes that are learned.

use std::collections::{BTreeMap, VecDeque};

use rand_pcg::Pcg64Mcg;
use serde::Serialize;
use tailback_proto::aqm::red::{EcnParameters, EcnThresholds};
use tailback_proto::flow_control::pfc::{pause_span, PauseSink, PauseSource};
use tailback_proto::flow_control::shared_buffer::{class_bits, Group, Refusal, SharedBuffer};
use tailback_proto::scheduling::pick_round_robin;
use tailback_proto::units::Time;
use tailback_proto::wire::{EtherType, Ethernet, MacAddress, Pfc, FCS_BYTES};

use crate::counted::{wire_bytes, Sending};
use crate::direction::{seeded, uniform};
use crate::frame::{dscp, layout, mark};
use crate::plan::{class_table, ClassOf, LinkPlan, PortPlan, SwitchPlan, CLASSES};

/// Most frames in the pipeline: more than a socket holds.
const MOST_ARRIVING: usize = 1 << 16;

/// Counters of a class of a port, both ways.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct LaneCounters {
    pub tx_packets: u64,
    pub tx_bytes: u64,
    pub rx_packets: u64,
    pub rx_bytes: u64,
    pub marked: u64,
    pub dropped: u64,
    pub dropped_bytes: u64,
    pub headroom_dropped: u64,
    pub paused_ps: u64,
    pub pausing_ps: u64,
    pub pauses_sent: u64,
    pub pauses_received: u64,
    pub most_queued: u64,
    pub most_held: u64,
}

/// A class of a port: its egress queue, and its ingress group.
#[derive(Debug, Default)]
pub struct Lane {
    queue: VecDeque<Held>,
    queued: u64,
    /// Largest since the last look, and bytes times picoseconds.
    max_queued: u64,
    queued_ps: u128,
    sink: PauseSink,
    group: Group,
    max_held: u64,
    held_ps: u128,
    source: PauseSource,
    changed: Time,
    pub counters: LaneCounters,
}

/// A frame that waits.
#[derive(Debug)]
struct Held {
    frame: Vec<u8>,
    ip: Option<usize>,
    ingress: usize,
}

/// The values of a lane in a bin of the series.
#[derive(Clone, Copy, Debug, Default)]
pub struct LaneBin {
    pub queued_byte_ps: u128,
    pub max_queued: u64,
    pub held_byte_ps: u128,
    pub max_held: u64,
}

impl Lane {
    fn integrate(&mut self, now: Time) {
        let span = now.saturating_sub(self.changed).ps() as u128;
        self.queued_ps += self.queued as u128 * span;
        self.held_ps += self.group.bytes() as u128 * span;
        self.changed = now;
    }

    /// Takes the values since the last look.
    pub fn take_bin(&mut self, now: Time) -> LaneBin {
        self.integrate(now);
        let bin = LaneBin {
            queued_byte_ps: std::mem::take(&mut self.queued_ps),
            max_queued: std::mem::replace(&mut self.max_queued, self.queued),
            held_byte_ps: std::mem::take(&mut self.held_ps),
            max_held: std::mem::replace(&mut self.max_held, self.group.bytes() as u64),
        };
        self.counters.most_queued = self.counters.most_queued.max(bin.max_queued);
        self.counters.most_held = self.counters.most_held.max(bin.max_held);
        bin
    }

    /// Its counters at `now`.
    pub fn told(&self, now: Time) -> LaneCounters {
        let [paused, pausing] = self.pauses(now);
        LaneCounters {
            paused_ps: paused.ps(),
            pausing_ps: pausing.ps(),
            most_queued: self.counters.most_queued.max(self.max_queued),
            most_held: self.counters.most_held.max(self.max_held),
            ..self.counters
        }
    }

    /// Time that it was paused, and time that it paused its peer, until `now`.
    pub fn pauses(&self, now: Time) -> [Time; 2] {
        let since = |at: Option<Time>| at.map_or(0, |at| now.saturating_sub(at).ps());
        [
            Time(self.counters.paused_ps + since(self.sink.paused_since())),
            Time(self.counters.pausing_ps + since(self.source.asserted_at())),
        ]
    }
}

/// A port.
pub struct Port {
    /// Name of the node behind it.
    pub peer: String,
    link: LinkPlan,
    /// By class.
    pub lanes: [Lane; CLASSES],
    ecn: [Option<EcnThresholds>; CLASSES],
    free_at: Time,
    last_class: u8,
    /// Classes whose pause or resume waits for the link.
    pending: u8,
    on_link: VecDeque<Sending>,
    /// Frames lost on the link towards it.
    pub lost: u64,
}

/// A switch.
pub struct Switch {
    plan: SwitchPlan,
    buffer: SharedBuffer,
    strict: u8,
    class_of: ClassOf,
    routes: BTreeMap<[u8; 6], usize>,
    /// Its ports.
    pub ports: Vec<Port>,
    arriving: VecDeque<(Time, usize, Vec<u8>)>,
    pauses: VecDeque<(Time, usize, Pfc)>,
    at: Time,
    random: Pcg64Mcg,
    spare: Vec<Vec<u8>>,
    /// Frames to addresses that it does not know.
    pub unknown: u64,
    /// PFC frames that it sent.
    pub pause_frames: u64,
}

impl Switch {
    /// A switch of a plan.
    pub fn new(plan: &SwitchPlan, seed: u64, number: usize) -> Switch {
        let port = |port: &PortPlan| Port {
            peer: port.peer.clone(),
            link: port.link,
            lanes: std::array::from_fn(|_| Lane::default()),
            ecn: std::array::from_fn(|class| {
                EcnParameters::of(&plan.ecn, port.link.rate(), class as u8).map(EcnParameters::thresholds)
            }),
            free_at: Time::ZERO,
            last_class: 0,
            pending: 0,
            on_link: VecDeque::new(),
            lost: 0,
        };
        Switch {
            buffer: SharedBuffer::new(&plan.buffer),
            strict: class_bits(&plan.strict),
            class_of: class_table(&plan.class_of),
            routes: plan.routes.iter().copied().collect(),
            ports: plan.ports.iter().map(port).collect(),
            arriving: VecDeque::new(),
            pauses: VecDeque::new(),
            at: Time::ZERO,
            random: seeded(seed, 2000 + number as u64),
            spare: Vec::new(),
            unknown: 0,
            pause_frames: 0,
            plan: plan.clone(),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.plan.name
    }

    /// Bytes that a group of a class may hold in the shared buffer.
    pub fn ingress_threshold(&self, class: usize) -> u64 {
        self.buffer.ingress_threshold(self.buffer.pool(class as u8))
    }

    /// Classes that are in use, as bits.
    pub fn classes(&self) -> u8 {
        self.plan.class_of.iter().fold(0, |classes, (_, class)| classes | 1 << (class & 7))
    }

    /// True if a class is lossless.
    pub fn is_lossless(&self, class: usize) -> bool {
        self.buffer.is_lossless(class as u8)
    }

    pub fn buffer(&self) -> &SharedBuffer {
        &self.buffer
    }

    /// A frame arrives at a port.
    pub fn on_frame(&mut self, now: Time, port: usize, bytes: &[u8]) {
        if self.ports[port].link.loss > 0.0 && uniform(&mut self.random) < self.ports[port].link.loss {
            self.ports[port].lost += 1;
            return;
        }
        let Ok((ethernet, _)) = Ethernet::parse(bytes) else { return };
        if ethernet.ether_type == EtherType::MAC_CONTROL {
            if let (Ok(pfc), true) = (Pfc::parse(bytes), self.pauses.len() < MOST_ARRIVING) {
                let response = Time(self.ports[port].link.response_delay_ps);
                self.pauses.push_back((now + response, port, pfc));
            }
            return;
        }
        if self.arriving.len() >= MOST_ARRIVING {
            return;
        }
        let mut frame = self.spare.pop().unwrap_or_default();
        frame.clear();
        frame.extend_from_slice(bytes);
        self.arriving.push_back((now + Time(self.plan.latency_ps), port, frame));
    }

    /// Carries out all that happened by `now`.
    pub fn advance(&mut self, now: Time) {
        while let Some(next) = self.next_internal().filter(|next| *next <= now) {
            self.at = self.at.max(next);
            self.happen();
        }
        self.at = self.at.max(now);
    }

    fn next_internal(&self) -> Option<Time> {
        let arriving = self.arriving.front().map(|(due, ..)| *due);
        let pause = self.pauses.front().map(|(due, ..)| *due);
        let port = self.ports.iter().filter_map(Port::next_internal).min();
        [arriving, pause, port].into_iter().flatten().min()
    }

    fn happen(&mut self) {
        let now = self.at;
        while self.pauses.front().is_some_and(|(due, ..)| *due <= now) {
            let Some((_, port, pfc)) = self.pauses.pop_front() else { break };
            let rate = self.ports[port].link.rate();
            for class in (0..CLASSES).filter(|class| pfc.class_enable_vector & 1 << class != 0) {
                let lane = &mut self.ports[port].lanes[class];
                lane.counters.pauses_received += 1;
                let ended = lane.sink.on_frame(now, pause_span(pfc.time[class], rate));
                lane.counters.paused_ps += ended.map_or(0, |(from, to)| (to - from).ps());
            }
        }
        while self.arriving.front().is_some_and(|(due, ..)| *due <= now) {
            let Some((_, port, frame)) = self.arriving.pop_front() else { break };
            self.admit(port, frame);
        }
        for port in 0..self.ports.len() {
            for class in 0..CLASSES {
                let lane = &mut self.ports[port].lanes[class];
                let ended = lane.sink.on_timeout(now);
                lane.counters.paused_ps += ended.map_or(0, |(from, to)| (to - from).ps());
                if lane.source.next_timeout().is_some_and(|at| at <= now) {
                    self.pause(port, class);
                }
            }
            self.transmit(port);
        }
    }

    /// A frame has passed the pipeline: it enters the buffer or is dropped.
    fn admit(&mut self, ingress: usize, frame: Vec<u8>) {
        let found = layout(&frame);
        let class = self.class_of[found.ip.map_or(0, |ip| dscp(&frame, ip)) as usize] as usize;
        let bytes = (frame.len() + FCS_BYTES as usize) as u64;
        let now = self.at;
        let group = &mut self.ports[ingress].lanes[class].counters;
        group.rx_packets += 1;
        group.rx_bytes += bytes;
        let mut to = [0; 6];
        to.copy_from_slice(&frame[..6]);
        let Some(&egress) = self.routes.get(&to) else {
            self.unknown += 1;
            return;
        };
        let queued = self.ports[egress].lanes[class].queued;
        let headroom_bytes = self.ports[ingress].link.headroom_bytes;
        let group = &mut self.ports[ingress].lanes[class];
        let admission =
            self.buffer.admit(&group.group, class as u8, bytes as u32, || queued, || headroom_bytes);
        let admission = match admission {
            Ok(admission) => admission,
            Err(refusal) => {
                let overflow = refusal == Refusal::HeadroomOverflow;
                let is_due = overflow && !group.source.asserted();
                let dropped_at = if overflow { ingress } else { egress };
                let counters = &mut self.ports[dropped_at].lanes[class].counters;
                counters.headroom_dropped += overflow as u64;
                counters.dropped += 1;
                counters.dropped_bytes += bytes;
                self.spare.push(frame);
                if is_due {
                    self.pause(ingress, class);
                }
                return;
            }
        };
        group.integrate(now);
        let pauses = self.buffer.charge(&mut group.group, bytes as u32, admission);
        group.max_held = group.max_held.max(group.group.bytes() as u64);
        if pauses {
            self.pause(ingress, class);
        }
        let lane = &mut self.ports[egress].lanes[class];
        lane.integrate(now);
        lane.queued += bytes;
        lane.max_queued = lane.max_queued.max(lane.queued);
        lane.queue.push_back(Held { frame, ip: found.ip, ingress });
    }

    /// Asks the peer of a port for a pause of a class, or renews it.
    fn pause(&mut self, port: usize, class: usize) {
        let span = pause_span(self.plan.quanta, self.ports[port].link.rate());
        let lane = &mut self.ports[port].lanes[class];
        lane.group.pausing = true;
        lane.source.pause(self.at, span);
        self.ports[port].pending |= 1 << class;
    }

    fn transmit(&mut self, number: usize) {
        let now = self.at;
        while self.ports[number].free_at <= now {
            if self.ports[number].pending != 0 {
                self.send_pauses(number);
                continue;
            }
            let eligible = self.ports[number].eligible();
            if eligible == 0 {
                return;
            }
            let port = &mut self.ports[number];
            let class = pick_round_robin(eligible, self.strict, port.last_class);
            port.last_class = class;
            let lane = &mut port.lanes[class as usize];
            lane.integrate(now);
            let Some(mut held) = lane.queue.pop_front() else { return };
            let bytes = (held.frame.len() + FCS_BYTES as usize) as u64;
            lane.queued -= bytes;
            if let Some(ecn) = port.ecn[class as usize] {
                if ecn.mark(lane.queued, || uniform(&mut self.random)) {
                    lane.counters.marked += held.ip.is_some_and(|ip| mark(&mut held.frame, ip)) as u64;
                }
            }
            lane.counters.tx_packets += 1;
            lane.counters.tx_bytes += bytes;
            port.free_at = now + port.link.rate().serialization(wire_bytes(held.frame.len()));
            let due = port.free_at + Time(port.link.delay_ps);
            port.on_link.push_back(Sending { due, frame: held.frame });
            self.release(held.ingress, class as usize, bytes);
        }
    }

    /// Frees the buffer of a packet, headroom first.
    fn release(&mut self, ingress: usize, class: usize, bytes: u64) {
        let now = self.at;
        let group = &mut self.ports[ingress].lanes[class];
        group.integrate(now);
        if self.buffer.release(&mut group.group, class as u8, bytes as u32) {
            group.counters.pausing_ps += group.source.resume(now).ps();
            self.ports[ingress].pending |= 1 << class;
            self.flush(ingress);
        }
    }

    /// Sends a pending pause or resume at once where the link is free.
    fn flush(&mut self, port: usize) {
        if self.ports[port].free_at <= self.at {
            self.send_pauses(port);
        }
    }

    fn send_pauses(&mut self, number: usize) {
        let port = &mut self.ports[number];
        let named = std::mem::take(&mut port.pending);
        let mut time = [0; 8];
        for (class, lane) in port.lanes.iter_mut().enumerate().filter(|(class, _)| named & 1 << class != 0) {
            lane.counters.pauses_sent += 1;
            time[class] = if lane.source.asserted() { self.plan.quanta } else { 0 };
        }
        let mut frame = vec![0; Pfc::LEN];
        // A switch's own, locally administered address.
        let source = MacAddress([0x02, 0x54, 0x42, 0xff, 0, number as u8]);
        Pfc { source, class_enable_vector: named, time }.emit(&mut frame);
        self.pause_frames += 1;
        port.free_at = self.at + port.link.rate().serialization(wire_bytes(frame.len()));
        port.on_link.push_back(Sending { due: port.free_at + Time(port.link.delay_ps), frame });
    }

    /// The next frame that has crossed the link behind a port by `now`.
    pub fn next_output(&mut self, now: Time, port: usize) -> Option<Sending> {
        let on_link = &mut self.ports[port].on_link;
        on_link.front().filter(|sending| sending.due <= now)?;
        on_link.pop_front()
    }

    /// Takes back a frame's memory for the next one.
    pub fn give_back(&mut self, frame: Vec<u8>) {
        self.spare.push(frame);
    }

    /// When something happens here without a frame coming.
    pub fn next_timeout(&self) -> Option<Time> {
        let outputs = self.ports.iter().filter_map(|port| port.on_link.front().map(|sending| sending.due));
        outputs.chain(self.next_internal()).min()
    }
}

impl Port {
    /// Classes with a packet that may leave.
    fn eligible(&self) -> u8 {
        let may = |lane: &Lane| !lane.queue.is_empty() && !lane.sink.is_paused();
        self.lanes.iter().enumerate().fold(0, |bits, (class, lane)| bits | (may(lane) as u8) << class)
    }

    fn next_internal(&self) -> Option<Time> {
        let sinks = self.lanes.iter().filter_map(|lane| lane.sink.next_timeout());
        let sources = self.lanes.iter().filter_map(|lane| lane.source.next_timeout());
        let turn = (self.pending != 0 || self.eligible() != 0).then_some(self.free_at);
        sinks.chain(sources).chain(turn).min()
    }

    /// Its rate, bit/s.
    pub fn rate_bps(&self) -> u64 {
        self.link.rate_bps
    }
}
