//! A switch: output queues behind one shared buffer.
//!
//! The buffer is [`tailback_proto::flow_control::shared_buffer`]. ECN is decided at dequeue, by the queue that the packet
//! leaves behind.

use tailback_proto::aqm::red::{EcnParameters, EcnThresholds};
use tailback_proto::flow_control::pfc::WatchdogParameters;
use tailback_proto::flow_control::shared_buffer::{class_bits, Group, Refusal, SharedBuffer};
use tailback_proto::units::Time;
use tailback_proto::wire::PREAMBLE_AND_GAP_BYTES;

use super::packet::{Amount, Packet, PacketKind, CE, ECT};
use super::port::{Departure, DropReason};
use super::routing::Balancer;
use super::{class_table, lane, ClassOf, Fabric, CLASSES};
use crate::engine::{prefetch, uniform};
use crate::event::Event;
use crate::fabric::settings::{LoadBalancing, SwitchModelPlan, TrimmingPlan};
use crate::gauge::OverTime;

/// A (port, class) pair of the switch is in a pause storm.
pub(crate) const IN_PAUSE_STORM: u8 = 1;

/// It divides packets among equally short ways by other means than a hash.
pub(crate) const BALANCES: u8 = 2;

/// It trims packets.
pub(crate) const TRIMS: u8 = 4;

/// The part of a switch that every packet needs: one cache line.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Switch {
    pub buffer: SharedBuffer,
    pub first_port: u32,
    /// Why packets do not simply go where ECMP has them go: [`IN_PAUSE_STORM`], [`BALANCES`], [`TRIMS`].
    pub detours: u8,
    /// The rest.
    pub cold: Box<ColdSwitch>,
}

/// The part of a switch that few packets need.
#[derive(Debug)]
pub(crate) struct ColdSwitch {
    /// Its (port, class) pairs in a pause storm.
    pub pause_storms: u32,
    pub watchdog: Option<WatchdogParameters>,
    /// Class of each code point.
    pub class_of: ClassOf,
    pub strict: u8,
    /// Shares of the classes that are not strict; none: packets in turns.
    pub weights: Option<[u32; CLASSES]>,
    pub balancer: Balancer,
    pub trimming: Option<TrimmingPlan>,
}

impl Switch {
    /// Switch number `number` of a run with this seed.
    pub fn new(model: &SwitchModelPlan, first_port: u32, seed: u64, number: usize) -> Self {
        Switch {
            buffer: SharedBuffer::new(&model.buffer_settings()),
            first_port,
            detours: if model.load_balancing == LoadBalancing::Ecmp { 0 } else { BALANCES }
                | if model.trimming.is_some() { TRIMS } else { 0 },
            cold: Box::new(ColdSwitch {
                pause_storms: 0,
                watchdog: model.watchdog,
                class_of: class_table(&model.class_of),
                strict: class_bits(&model.strict),
                weights: model.weights,
                balancer: Balancer::new(model.load_balancing, model.flowlet_gap, seed, number),
                trimming: model.trimming.clone(),
            }),
        }
    }

    /// Gives back the buffer of a packet that leaves, which came by `group`. Returns true if that group's pause ends.
    #[inline(always)]
    pub(super) fn give_back(&mut self, now: Time, group: &mut IngressGroup, packet: &Packet) -> bool {
        group.integrate(now);
        self.buffer.release(&mut group.held, packet.class, packet.frame_bytes())
    }
}

/// ECN thresholds by lane. Lanes are many and thresholds few, so a lane has a number.
#[derive(Debug)]
pub(crate) struct Marking {
    /// By number; the first never marks.
    kinds: Vec<EcnThresholds>,
    number: Vec<u8>,
}

impl Marking {
    const NEVER: EcnThresholds = EcnThresholds { k_min_bytes: u64::MAX, k_max_bytes: u64::MAX, p_max: 0.0 };

    /// No lane marks yet.
    pub fn new() -> Marking {
        Marking { kinds: vec![Marking::NEVER], number: Vec::new() }
    }

    /// Adds the next lane; refuses more than 255 different thresholds.
    pub fn add(&mut self, ecn: Option<&EcnParameters>) -> Result<(), &'static str> {
        let thresholds = ecn.map_or(Marking::NEVER, EcnParameters::thresholds);
        let known = self.kinds.iter().position(|kind| *kind == thresholds);
        let number = known.unwrap_or(self.kinds.len());
        if known.is_none() {
            self.kinds.push(thresholds);
        }
        self.number.push(u8::try_from(number).map_err(|_| "more than 255 different thresholds of ecn")?);
        Ok(())
    }

    /// Thresholds of a lane.
    #[inline]
    pub fn of(&self, lane: usize) -> &EcnThresholds {
        &self.kinds[self.number[lane] as usize]
    }

    /// Thresholds of a lane, if it marks.
    pub fn thresholds(&self, lane: usize) -> Option<&EcnThresholds> {
        Some(self.of(lane)).filter(|ecn| **ecn != Marking::NEVER)
    }
}

/// One priority group of an ingress port: a cache line. What only a pause changes is in
/// [`Pausing`](crate::fabric::pfc::Pausing).
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(crate) struct IngressGroup {
    pub held: Group,
    pub max_bytes: u32,
    /// The most of each since the start of the run: watermarks.
    pub max_shared: u32,
    pub max_headroom: u32,
    pub over_time: OverTime,
    pub rx_packets: u64,
    pub rx_bytes: u64,
}

impl IngressGroup {
    pub const EMPTY: IngressGroup = IngressGroup {
        held: Group::EMPTY,
        max_bytes: 0,
        max_shared: 0,
        max_headroom: 0,
        over_time: OverTime::NEW,
        rx_packets: 0,
        rx_bytes: 0,
    };

    /// Brings the integral up to `now`, before the bytes change.
    #[inline]
    pub fn integrate(&mut self, now: Time) {
        self.over_time.held(now, self.held.bytes() as u64);
    }
}

// What a switch does with a packet: it admits it to the buffer or drops it, and gives the buffer back when it leaves.

impl Fabric {
    /// A packet has passed the pipeline of a switch: admit it to the buffer, or drop it.
    #[inline(always)] // it is the event loop's
    pub fn switch_receive(&mut self, switch: usize, in_port: usize, index: u32) {
        let detours = self.switches[switch].detours;
        let out_port = if detours == 0 {
            let packet = &self.packets[index];
            self.routes.next_port(switch, packet.dst, packet.qp)
        } else {
            let out_port = self.balanced_port(switch, index);
            if detours & IN_PAUSE_STORM != 0 && self.is_dropped_in_pause_storm(in_port, out_port, index) {
                return;
            }
            if detours & TRIMS != 0 {
                if let Some(out_port) = out_port.filter(|&port| self.trims_at(switch, port, index)) {
                    self.trim(switch, out_port, index);
                }
            }
            out_port
        };
        let Some(out_port) = out_port else {
            self.drop_packet(in_port, index, DropReason::NoRoute);
            return;
        };
        self.admit(switch, in_port, out_port, index);
    }

    /// Admits a packet that leaves by `out_port` to the buffer, or drops it.
    #[inline(always)] // as if it had one caller: the other is cold
    pub(super) fn admit(&mut self, switch: usize, in_port: usize, out_port: usize, index: u32) {
        let packet = &mut self.packets[index];
        let bytes = packet.frame_bytes();
        let class = packet.class;
        let s = &mut self.switches[switch];
        packet.ingress = (in_port as u32 - s.first_port) as u16;
        let group = &mut self.groups[(in_port, class)];
        let queued = || self.queues[(out_port, class)].bytes as u64;
        let headroom = || self.links[in_port].headroom_bytes;
        let admission = match s.buffer.admit(&group.held, class, bytes, queued, headroom) {
            Ok(admission) => admission,
            Err(Refusal::HeadroomOverflow) => {
                let pausing = group.held.pausing;
                self.lossless_drop(in_port, class);
                self.drop_packet(in_port, index, DropReason::HeadroomOverflow);
                if !pausing {
                    // The packet did not fit below xoff: the pause is due although it was not kept.
                    self.assert_pause(in_port, class);
                }
                return;
            }
            Err(refusal) => {
                let reason = match refusal {
                    Refusal::EgressThreshold => DropReason::EgressThreshold,
                    Refusal::BufferFull => DropReason::BufferFull,
                    _ => DropReason::IngressThreshold,
                };
                self.refuse(switch, in_port, out_port, index, reason);
                return;
            }
        };
        let mut p = &mut self.ports[out_port];
        if p.is_idle(self.run.now, class) && !admission.in_headroom && !group.held.pausing {
            // It leaves at once: what follows would come to the same.
            group.max_bytes = group.max_bytes.max(group.held.bytes() + bytes);
            group.max_shared = group.max_shared.max(group.held.shared + bytes);
            let (kind, wire_bytes) = (packet.kind, packet.wire_bytes as u32);
            if self.telemetry.is_on && kind == PacketKind::Data {
                self.write_telemetry(out_port, class, index);
                p = &mut self.ports[out_port];
            }
            p.last_class = class;
            let queue = &mut self.queues[(out_port, class)];
            queue.pass(bytes);
            let takes = p.serialization(&self.links, out_port, wire_bytes);
            let is_first = p.begin(self.run.now, takes, &mut self.packets, index, queue);
            let departure = Departure::of(p);
            self.began(out_port, (index, kind), departure.flags, is_first, |_| departure);
            return;
        }
        group.integrate(self.run.now);
        let pauses = s.buffer.charge(&mut group.held, bytes, admission);
        group.max_shared = group.max_shared.max(group.held.shared);
        group.max_headroom = group.max_headroom.max(group.held.headroom);
        group.max_bytes = group.max_bytes.max(group.held.bytes());
        if pauses {
            self.assert_pause(in_port, class);
            p = &mut self.ports[out_port];
        }
        self.queues[(out_port, class)].append(self.run.now, &mut self.packets, index);
        p.backlogged |= 1 << class;
        if p.busy_until > self.run.now && p.wake_at <= p.busy_until {
            return; // as mostly: it looks when it is free
        }
        let host = self.kick(out_port);
        debug_assert_eq!(host, None, "the port is a switch's");
    }

    /// The port by which a packet leaves a switch that may divide packets by other means than a hash.
    #[inline(never)]
    fn balanced_port(&mut self, switch: usize, index: u32) -> Option<usize> {
        let packet = &self.packets[index];
        let balancer = &mut self.switches[switch].cold.balancer;
        let ports = self.routes.next_ports(switch, packet.dst);
        if ports.len() <= 1 || !balancer.divides(packet.kind) {
            return self.routes.next_port(switch, packet.dst, packet.qp);
        }
        if balancer.how == LoadBalancing::Flowlet {
            return Some(balancer.of_flowlet(self.run.now, packet, ports) as usize);
        }
        let first = balancer.pick(ports.len());
        if balancer.how == LoadBalancing::Spray {
            return Some(ports[first] as usize);
        }
        // Of equal queues the first from a random one on.
        let load = |port: u32| self.queues[(port as usize, packet.class)].bytes;
        ports[first..]
            .iter()
            .chain(&ports[..first])
            .min_by_key(|&&port| load(port))
            .map(|&port| port as usize)
    }

    /// A port of a switch is free: send the next packet, if one may go.
    #[inline(always)] // it has one caller, which is the event loop's
    pub(super) fn switch_transmit(&mut self, port: usize) {
        // What a departure needs is looked up once.
        let p = &mut self.ports[port];
        let eligible = p.backlogged & !p.paused;
        if eligible == 0 {
            return;
        }
        let class = p.next_class(&mut self.ets, port, eligible);
        #[cfg(debug_assertions)]
        let p = {
            self.note_wait(port, class);
            &mut self.ports[port]
        };
        let now = self.run.now;
        let packets: &mut [Packet] = &mut self.packets;
        let queue = &mut self.queues[(port, class)];
        let index = queue.take_first(now, packets);
        match queue.fifo.head() {
            Some(next) => prefetch(packets, next as usize),
            None => p.backlogged &= !(1 << class),
        }
        let packet = &packets[index as usize];
        if self.telemetry.is_on && packet.kind == PacketKind::Data {
            let hop = p.telemetry(now, queue, &self.links[port]);
            self.telemetry.add_hop(index, (packet.qp, packet.psn()), port, class, hop);
        }
        let s = &mut self.switches[p.owner as usize - self.hosts];
        let in_port = s.first_port as usize + packet.ingress as usize;
        let group = &mut self.groups[(in_port, class)];
        let ends_pause = s.give_back(now, group, packet);
        let draw = || uniform(&mut self.ecn_streams[port]);
        let marked =
            packet.flags & ECT != 0 && self.marking.of(lane(port, class)).mark(queue.bytes as u64, draw);
        let kind = packet.kind;
        let takes = p.serialization(&self.links, port, packet.wire_bytes as u32);
        let is_first = p.begin(now, takes, packets, index, queue);
        let flags = p.flags;
        if p.backlogged & !p.paused != 0 && p.busy_until < p.wake_at {
            p.wake_at = p.busy_until;
            // Mostly the next packet joins this one on the link, which has the event of an arrival then.
            self.run.schedule_quiet(p.busy_until, Event::PortWake(port as u32));
        }
        // The first on its link is seldom, so nothing of the port is kept for it.
        self.began(port, (index, kind), flags, is_first, |fabric| Departure::of(&fabric.ports[port]));
        if marked {
            self.mark(port, index);
        }
        if ends_pause {
            // The resume leaves by the port that the packet came in by, which may be this one.
            self.release_pause(in_port, class);
        }
    }

    /// A data packet passes a port that is idle: it takes along how loaded the port is.
    #[inline(never)]
    fn write_telemetry(&mut self, port: usize, class: u8, index: u32) {
        let (packet, queue) = (&self.packets[index], &self.queues[(port, class)]);
        let hop = self.ports[port].telemetry(self.run.now, queue, &self.links[port]);
        self.telemetry.add_hop(index, (packet.qp, packet.psn()), port, class, hop);
    }

    /// Gives back the buffer of a packet that leaves by `port`, and marks it if it leaves a queue behind.
    pub fn release(&mut self, port: usize, index: u32) {
        let packet = &self.packets[index];
        let class = packet.class;
        let s = &mut self.switches[self.ports[port].owner as usize - self.hosts];
        let in_port = s.first_port as usize + packet.ingress as usize;
        let ends_pause = s.give_back(self.run.now, &mut self.groups[(in_port, class)], packet);
        let queued = self.queues[(port, class)].bytes as u64;
        let draw = || uniform(&mut self.ecn_streams[port]);
        if packet.flags & ECT != 0 && self.marking.of(lane(port, class)).mark(queued, draw) {
            self.mark(port, index);
        }
        if ends_pause {
            self.release_pause(in_port, class);
        }
    }

    fn mark(&mut self, port: usize, index: u32) {
        let packet = &mut self.packets[index];
        packet.flags |= CE;
        self.marked[(port, packet.class)] += 1;
    }
}

// Packet trimming: what a switch has no room for loses its payload, and its headers go on in a class of their own.
//
// Sources: Handley et al., "Re-architecting datacenter networks and stacks for low latency and high performance" (NDP), SIGCOMM
// 2017, section 3 (a short queue of packets, and headers before them); SAI, "Packet Trimming" (1.14: a packet that is refused the
// buffer is dropped and counted as dropped, a copy cut to a size goes on in another queue, with another DSCP and the IP length
// and checksum made right).
//
// Trimmed is RoCE's data in lossy classes. Trimmed headers keep to the hash where data is sprayed; where there is no room for
// them either, they are dropped.
//
// Leaves out: NDP's choice between the packet that comes and the last one that waits, headers returned to their sender, pulls.

impl Fabric {
    /// A packet of a lossy class has come, and the switch trims: whether it is to be trimmed for the queue that it would join.
    #[inline(never)]
    pub(super) fn trims_at(&self, switch: usize, out_port: usize, index: u32) -> bool {
        let packet = &self.packets[index];
        let s = &self.switches[switch];
        let limit = s.cold.trimming.as_ref().and_then(|trimming| trimming.queue);
        let queued = self.queues[(out_port, packet.class)].bytes + packet.frame_bytes();
        let lossless = s.buffer.is_lossless(packet.class);
        limit.is_some_and(|limit| !lossless && queued as u64 > limit.0) && self.can_trim(switch, packet)
    }

    /// The buffer has no room for a packet of a lossy class: its headers go on, or it is dropped.
    #[cold]
    pub(super) fn refuse(
        &mut self,
        switch: usize,
        in_port: usize,
        out_port: usize,
        index: u32,
        reason: DropReason,
    ) {
        if self.can_trim(switch, &self.packets[index]) {
            self.trim(switch, out_port, index);
            self.admit(switch, in_port, out_port, index);
        } else {
            self.drop_packet(out_port, index, reason);
        }
    }

    fn can_trim(&self, switch: usize, packet: &Packet) -> bool {
        let trimming = self.switches[switch].cold.trimming.as_ref();
        trimming.is_some_and(|trimming| {
            packet.kind == PacketKind::Data && packet.frame_bytes() as u64 > trimming.size.0
        })
    }

    /// The payload is dropped, and the headers take the packet's place.
    pub(super) fn trim(&mut self, switch: usize, out_port: usize, index: u32) {
        self.count_drop(out_port, index, DropReason::Trimmed);
        let cold = &self.switches[switch].cold;
        let &TrimmingPlan { size, code_point, .. } = cold.trimming.as_ref().expect("the switch trims");
        let class = cold.class_of[code_point as usize];
        let packet = &mut self.packets[index];
        packet.kind = PacketKind::Trimmed;
        packet.wire_bytes = size.0 as u16 + PREAMBLE_AND_GAP_BYTES as u16;
        packet.amount = Amount::NONE;
        (packet.class, packet.code_point) = (class, code_point);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_adds_up_its_bytes_over_time() {
        let ticks = |count: u64| Time(count * crate::gauge::TICK_PS);
        let mut group = IngressGroup {
            held: Group { shared: 300, headroom: 200, pausing: false },
            ..IngressGroup::EMPTY
        };
        group.integrate(ticks(4));
        group.held.headroom = 0;
        group.integrate(ticks(10));
        assert_eq!(
            group.over_time.take_mean((ticks(10), ticks(10)), 300),
            (500.0 * 4.0 + 300.0 * 6.0) / 10.0
        );
    }
}
