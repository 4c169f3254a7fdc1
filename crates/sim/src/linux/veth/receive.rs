//! Up: the peer's NAPI takes packets from the ring, GRO collects them, the stack gets them.

use tailback_proto::units::Time;

use super::{Datagram, Kind};
use crate::cores::Purpose;
use crate::engine::uniform;
use crate::fabric::Fabric;
use crate::gauge::Came;
use crate::linux::core::{Unit, NAPI_WEIGHT};
use crate::linux::Linux;

impl Linux {
    /// Schedules the poll of an end's ring after `core` sent to it (`__veth_xdp_flush`).
    pub(super) fn veth_schedule_poll(&mut self, fabric: &mut Fabric, core: u32, end: u32) {
        let veths = &mut self.veths;
        let threaded = veths.namespaces[veths.ends[end as usize ^ 1].namespace as usize].threaded;
        let e = &mut veths.ends[end as usize];
        if std::mem::replace(&mut e.poll.scheduled, true) {
            return;
        }
        if threaded {
            let (core, thread) = (e.poll_core, e.thread);
            self.wake_linux_thread(fabric, core, thread);
        } else {
            e.poll_core = core;
            let napi = e.napi;
            self.schedule_napi(fabric, core, napi);
        }
    }

    /// The next piece of a poll's work. `None`: the poll is over.
    pub(in crate::linux) fn veth_poll_unit(&mut self, fabric: &mut Fabric, end: u32) -> Option<Unit> {
        let veths = &mut self.veths;
        let namespace = &veths.namespaces[veths.ends[end as usize ^ 1].namespace as usize];
        let e = &mut veths.ends[end as usize];
        if e.poll.used == 0 && e.poll.list.is_empty() {
            e.poll.factor = 1.0 + namespace.jitter * (2.0 * uniform(&mut e.jitter) - 1.0);
        }
        if !e.poll.in_stack {
            if !e.poll.last && e.poll.used < NAPI_WEIGHT && !e.queue.is_empty() {
                return Some(Unit { cost: namespace.take, weight: 1, purpose: Purpose::Sys });
            }
            if e.poll.list.is_empty() {
                return None;
            }
            // An empty ring ends the poll, and what comes while the stack is at the last list is for the next one.
            e.poll.last = true;
            self.veth_list_goes_up(fabric, end);
        }
        Some(Unit { cost: self.veth_stack_cost(end), weight: 0, purpose: Purpose::Sys })
    }

    /// The cost of the next packet of the list in the stack.
    fn veth_stack_cost(&self, end: u32) -> Time {
        let veths = &self.veths;
        let namespace = &veths.namespaces[veths.ends[end as usize ^ 1].namespace as usize];
        let poll = &veths.ends[end as usize].poll;
        let cost = match veths.packets.packets[poll.list[poll.at] as usize].kind {
            Kind::EchoRequest(_) => namespace.echo,
            _ => namespace.stack,
        };
        Time((cost.0 as f64 * poll.factor) as u64)
    }

    /// The same for a thread, which polls again where there is more.
    pub(in crate::linux) fn veth_thread_unit(
        &mut self,
        fabric: &mut Fabric,
        core: u32,
        end: u32,
    ) -> Option<Unit> {
        let unit = self.veth_poll_unit(fabric, end);
        if unit.is_none() && self.veth_poll_ends(fabric, core, end) {
            // The thread enables softirqs between two polls, so a restarted qdisc goes first.
            let thread = self.veths.ends[end as usize].thread;
            self.wake_linux_thread(fabric, core, thread);
        }
        unit
    }

    /// A piece of a poll's work ends.
    pub(in crate::linux) fn veth_poll_unit_ends(&mut self, fabric: &mut Fabric, core: u32, end: u32) {
        let now = fabric.run.now;
        let veths = &mut self.veths;
        let batch = veths.namespaces[veths.ends[end as usize ^ 1].namespace as usize].gro_batch;
        let e = &mut veths.ends[end as usize];
        if !e.poll.in_stack {
            let packet = e.queue.take().expect("a unit was begun for it");
            let p = &mut veths.packets.packets[packet as usize];
            let bytes = p.bytes as i64;
            e.in_ring.add(now, -1, -bytes);
            e.in_ring.left(now, p.bytes, p.came);
            e.in_list.add(now, 1, bytes);
            p.came = Came::at(now);
            e.poll.used += 1;
            e.poll.list.push(packet);
            if e.poll.list.len() >= batch {
                self.veth_list_goes_up(fabric, end);
            } else {
                e.poll.goes_on |= e.queue.done(now);
            }
            return;
        }
        let packet = e.poll.list[e.poll.at];
        e.poll.at += 1;
        if e.poll.at == e.poll.list.len() {
            e.poll.list.clear();
            e.poll.at = 0;
            e.poll.in_stack = false;
            if !e.poll.last {
                // `napi_gro_receive` of the packet that filled the list returns.
                e.poll.goes_on |= e.queue.done(now);
            }
        }
        self.veth_deliver(fabric, core, end, packet);
    }

    /// GRO hands its list to the stack: its packets no longer count for the senders' sockets (net/ipv4/ip_input.c,
    /// `ip_rcv_core`, for the whole list before the rules see the first).
    fn veth_list_goes_up(&mut self, fabric: &mut Fabric, end: u32) {
        let poll = &mut self.veths.ends[end as usize].poll;
        poll.in_stack = true;
        for index in 0..poll.list.len() {
            let packet = self.veths.ends[end as usize].poll.list[index];
            self.veth_orphan(fabric, packet);
        }
    }

    /// A poll is over. `true`: there is more to poll.
    pub(in crate::linux) fn veth_poll_ends(&mut self, fabric: &mut Fabric, core: u32, end: u32) -> bool {
        let now = fabric.run.now;
        let e = &mut self.veths.ends[end as usize];
        let used = std::mem::take(&mut e.poll.used);
        e.poll.last = false;
        let more = used == NAPI_WEIGHT || !e.queue.is_empty();
        e.counted.polls += 1;
        e.counted.full_polls += (used == NAPI_WEIGHT) as u64;
        e.poll.scheduled = more;
        let completed = std::mem::take(&mut e.poll.goes_on);
        if e.queue.poll_ends(now) || completed {
            self.veth_schedule_output(fabric, core, end);
        }
        more
    }

    /// The stack has finished a packet.
    fn veth_deliver(&mut self, fabric: &mut Fabric, core: u32, end: u32, packet: u32) {
        let now = fabric.run.now;
        let veths = &mut self.veths;
        let Datagram { kind, sequence, bytes, came, .. } = veths.packets.packets[packet as usize];
        veths.packets.remove(packet);
        let e = &mut veths.ends[end as usize];
        e.in_list.add(now, -1, -(bytes as i64));
        e.in_list.left(now, bytes, came);
        e.counted.delivered.count(bytes);
        let receiver = veths.ends[end as usize ^ 1].namespace as usize;
        let namespace = &mut veths.namespaces[receiver];
        match kind {
            Kind::Datagram(flood) => {
                namespace.delivered_packets += 1;
                namespace.delivered_bytes += bytes as u64;
                veths.floods[flood as usize].delivered += 1;
            }
            Kind::Frame(source) => {
                namespace.delivered_packets += 1;
                namespace.delivered_bytes += bytes as u64;
                veths.frames[source as usize].delivered += 1;
            }
            Kind::EchoRequest(ping) => {
                self.veth_send(fabric, core, end ^ 1, Kind::EchoReply(ping), sequence, bytes)
            }
            Kind::EchoReply(ping) => {
                let wakeup = namespace.wakeup;
                veths.pings[ping as usize].answered(sequence, now + wakeup);
            }
        }
    }
}
