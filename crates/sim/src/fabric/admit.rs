//! What a switch does with a packet: it admits it to the buffer or drops it, and gives the buffer back when it leaves.

use super::drops::DropReason;
use super::lanes::lane;
use super::packet::{Kind, Packet, CE, ECT};
use super::port::{TAPPED, WEIGHTED};
use super::switch::{IN_PAUSE_STORM, TRIMS};
use super::transmit::Leaves;
use super::Fabric;
use crate::engine::{prefetch, uniform};
use crate::event::Event;
use crate::plan::LoadBalancing;

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
        let pool = s.pool(class);
        let room = s.room(pool);
        let group = &mut self.groups[(in_port, class)];
        let lossless = s.lossless & (1 << class) != 0;
        let fits_group =
            group.shared as u64 + bytes as u64 <= s.ingress_threshold(pool) && bytes as u64 <= room;
        if lossless {
            let overflows = !fits_group
                && ((group.headroom + bytes) as u64 > self.links[in_port].headroom_bytes
                    || bytes as u64 > s.cold.free_headroom);
            if overflows {
                let asserted = group.asserted;
                self.lossless_drop(in_port, class);
                self.drop_packet(in_port, index, DropReason::HeadroomOverflow);
                if !asserted {
                    // The packet did not fit below xoff: the pause is due although it was not kept.
                    self.assert_pause(in_port, class);
                }
                return;
            }
        } else {
            let queued = self.queues[(out_port, class)].bytes as u64;
            let reason = if queued + bytes as u64 > s.egress_threshold(pool) {
                Some(DropReason::EgressThreshold)
            } else if bytes as u64 > room {
                Some(DropReason::BufferFull)
            } else if !fits_group {
                Some(DropReason::IngressThreshold)
            } else {
                None
            };
            if let Some(reason) = reason {
                self.refuse(switch, in_port, out_port, index, reason);
                return;
            }
        }
        let mut p = &mut self.ports[out_port];
        if p.is_idle(self.run.now, class) && fits_group && !group.asserted {
            // It leaves at once: what follows would come to the same.
            group.max_bytes = group.max_bytes.max(group.bytes() + bytes);
            group.max_shared = group.max_shared.max(group.shared + bytes);
            let (kind, wire_bytes) = (packet.kind, packet.wire_bytes as u32);
            if self.telemetry.is_on && kind == Kind::Data {
                self.write_telemetry(out_port, class, index);
                p = &mut self.ports[out_port];
            }
            p.last_class = class;
            let queue = &mut self.queues[(out_port, class)];
            queue.pass(bytes);
            let takes = p.serialization(&self.links, out_port, wire_bytes);
            let first = p.begin(self.run.now, takes, &mut self.packets, index, queue);
            let leaves = Leaves::of(p);
            self.transmissions[kind as usize] += 1;
            if leaves.flags & (WEIGHTED | TAPPED) != 0 {
                self.tell_sent(out_port, index);
            }
            if first {
                self.expect_arrival(out_port, leaves);
            }
            return;
        }
        group.integrate(self.run.now);
        if fits_group {
            group.shared += bytes;
            group.max_shared = group.max_shared.max(group.shared);
            s.free[pool] -= bytes as u64;
        } else {
            group.headroom += bytes;
            s.cold.free_headroom -= bytes as u64;
            group.max_headroom = group.max_headroom.max(group.headroom);
        }
        group.max_bytes = group.max_bytes.max(group.bytes());
        if lossless
            && !group.asserted
            && (group.headroom > 0 || group.shared as u64 >= s.ingress_threshold(pool))
        {
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
    #[inline(never)] // what most runs never need stays out of the way of what they do
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
        if self.telemetry.is_on && packet.kind == Kind::Data {
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
        self.transmissions[packet.kind as usize] += 1;
        let takes = p.serialization(&self.links, port, packet.wire_bytes as u32);
        let first = p.begin(now, takes, packets, index, queue);
        let flags = p.flags;
        if p.backlogged & !p.paused != 0 && p.busy_until < p.wake_at {
            p.wake_at = p.busy_until;
            // Mostly the next packet joins this one on the link, which has the event of an arrival then.
            self.run.schedule_quiet(p.busy_until, Event::PortWake(port as u32));
        }
        if flags & (WEIGHTED | TAPPED) != 0 {
            self.tell_sent(port, index);
        }
        if first {
            // Seldom, so nothing of it is kept over the calls above.
            self.expect_arrival(port, Leaves::of(&self.ports[port]));
        }
        if marked {
            self.mark(port, index);
        }
        if ends_pause {
            // It is told by the port that the packet came by, which may be this one.
            self.release_pause(in_port, class);
        }
    }

    /// A data packet passes a port that is idle: it takes along how loaded the port is.
    #[inline(never)] // what most runs never need stays out of the way of what they do
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
