//! What a switch does with a packet: it admits it to the buffer or drops it, and gives the buffer back when it leaves.

use tailback_proto::congestion::HopTelemetry;

use super::drops::DropReason;
use super::lanes::lane;
use super::packet::{Kind, CE, ECT};
use super::switch::{IN_STORM, TRIMS};
use super::Fabric;
use crate::engine::{uniform, Stream};
use crate::plan::LoadBalancing;

impl Fabric {
    /// A packet has passed the pipeline of a switch: admit it to the buffer, or drop it.
    pub fn switch_receive(&mut self, switch: usize, in_port: usize, index: u32) {
        let detours = self.switches[switch].detours;
        let out_port = if detours == 0 {
            let packet = &self.packets[index];
            self.routes.next_port(switch, packet.dst, packet.qp)
        } else {
            let out_port = self.balanced_port(switch, index);
            if detours & IN_STORM != 0 && self.is_dropped_in_storm(in_port, out_port, index) {
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
        let free = s.free[pool];
        let group = &mut self.groups[(in_port, class)];
        let lossless = s.lossless & (1 << class) != 0;
        let fits_group =
            group.shared as u64 + bytes as u64 <= s.ingress_threshold(pool) && bytes as u64 <= free;
        if lossless {
            let overflows =
                !fits_group && (group.headroom + bytes) as u64 > self.links[in_port].headroom_bytes;
            if overflows {
                let overflow = &mut self.pausing[(in_port, class)].overflow;
                *overflow += bytes as u64;
                let enough = group.headroom as u64 + *overflow;
                let asserted = group.asserted;
                self.lossless_drop(in_port, class, enough);
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
            } else if bytes as u64 > free {
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
        let p = &mut self.ports[out_port];
        if p.is_idle(self.run.now, class) && fits_group && !group.asserted {
            // It leaves at once: what follows would come to the same.
            group.max_bytes = group.max_bytes.max(group.bytes() + bytes);
            group.max_shared = group.max_shared.max(group.shared + bytes);
            p.last_class = class;
            let is_data = packet.kind == Kind::Data;
            self.queues[(out_port, class)].pass(bytes);
            if self.telemetry.is_on && is_data {
                self.write_telemetry(out_port, class, index);
            }
            self.send(out_port, index);
            return;
        }
        group.integrate(self.run.now);
        if fits_group {
            group.shared += bytes;
            group.max_shared = group.max_shared.max(group.shared);
            s.free[pool] -= bytes as u64;
        } else {
            group.headroom += bytes;
            group.max_headroom = group.max_headroom.max(group.headroom);
        }
        group.max_bytes = group.max_bytes.max(group.bytes());
        if lossless
            && !group.asserted
            && (group.headroom > 0 || group.shared as u64 >= s.ingress_threshold(pool))
        {
            self.pausing[(in_port, class)].overflow = 0;
            self.assert_pause(in_port, class);
        }
        self.enqueue(out_port, index);
        if self.has_turn(out_port) {
            self.switch_transmit(out_port);
        }
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
    pub fn switch_transmit(&mut self, port: usize) {
        let p = &self.ports[port];
        let eligible = p.backlogged & !p.paused;
        if eligible == 0 {
            return;
        }
        let class = self.next_class(port, eligible);
        let index = self.dequeue(port, class);
        if self.telemetry.is_on && self.packets[index].kind == Kind::Data {
            self.write_telemetry(port, class, index);
        }
        // A pause that ends with this packet's room is told by the port that it came by, which may be this one.
        self.send(port, index);
        self.release(port, index);
        let p = &self.ports[port];
        if p.backlogged & !p.paused != 0 {
            let busy_until = p.busy_until;
            self.wake_port(port, busy_until);
        }
    }

    /// A data packet leaves a queue: it takes along how loaded the port is.
    #[inline(never)] // what most runs never need stays out of the way of what they do
    fn write_telemetry(&mut self, port: usize, class: u8, packet: u32) {
        let hop = HopTelemetry {
            at: self.run.now,
            tx_bytes: self.ports[port].wire_bytes,
            queue_bytes: self.queues[(port, class)].bytes as u64,
            rate: self.links[port].rate,
        };
        let id = (self.packets[packet].qp, self.packets[packet].psn());
        self.telemetry.add_hop(packet, id, port, class, hop);
    }

    /// Gives back the buffer of a packet that leaves by `port`, and marks it if it leaves a queue behind.
    #[inline(always)]
    pub fn release(&mut self, port: usize, index: u32) {
        let s = &mut self.switches[self.ports[port].owner as usize - self.hosts];
        let packet = &mut self.packets[index];
        let bytes = packet.frame_bytes();
        let class = packet.class;
        let in_port = s.first_port as usize + packet.ingress as usize;
        let group = &mut self.groups[(in_port, class)];
        group.integrate(self.run.now);
        let from_headroom = group.headroom.min(bytes);
        group.headroom -= from_headroom;
        group.shared -= bytes - from_headroom;
        let pool = s.pool(class);
        s.free[pool] += (bytes - from_headroom) as u64;
        if packet.flags & ECT != 0 {
            let queued = self.queues[(port, class)].bytes as u64;
            let stream: &mut Stream = &mut self.ecn_streams[port];
            if self.marking.of(lane(port, class)).mark(queued, || uniform(stream)) {
                packet.flags |= CE;
                self.marked[(port, class)] += 1;
            }
        }
        if group.asserted && group.headroom == 0 && s.below_xon(pool, group.shared as u64) {
            self.release_pause(in_port, class);
        }
    }
}
