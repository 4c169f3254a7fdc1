//! Down: from the stack through the qdisc into the ring.

use rand_core::Rng;
use tailback_proto::aqm::skb::{Enqueue, Skb};
use tailback_proto::flow_control::veth_queue::Transmit;
use tailback_proto::units::Time;

use super::{Datagram, Dropped, Kind, NONE};
use crate::cores::Purpose;
use crate::engine::splitmix64;
use crate::event::Event;
use crate::fabric::Fabric;
use crate::gauge::Came;
use crate::linux::core::Unit;
use crate::linux::Linux;

/// Hash of the flow that a packet belongs to, well mixed as `skb_get_hash` is.
fn flow_hash(kind: Kind) -> u32 {
    let (class, index) = match kind {
        Kind::Datagram(index) => (1u64, index),
        Kind::EchoRequest(index) => (2, index),
        Kind::EchoReply(index) => (3, index),
        Kind::Frame(index) => (4, index),
    };
    splitmix64(class << 32 | index as u64) as u32
}

impl Linux {
    /// A new packet of the stack goes to a device (`dev_queue_xmit`); `core` runs it.
    pub(super) fn veth_send(
        &mut self,
        fabric: &mut Fabric,
        core: u32,
        end: u32,
        kind: Kind,
        sequence: u32,
        bytes: u32,
    ) {
        let mut skb = Skb::new(0, bytes, flow_hash(kind), false);
        let charged = match kind {
            Kind::Datagram(flood) => {
                let truesize = skb.truesize();
                self.veths.floods[flood as usize].charged_bytes += truesize as u64;
                truesize
            }
            _ => 0,
        };
        let came = Came::at(fabric.run.now);
        let packet = Datagram { kind, sequence, bytes, charged, next_free: NONE, came };
        skb.packet = self.veths.packets.add(packet);
        let now = fabric.run.now;
        let e = &mut self.veths.ends[end as usize];
        e.counted.offered.count(bytes);
        if e.qdisc.is_noqueue() {
            self.veth_xmit(fabric, core, end, skb);
            return;
        }
        let mut drops = std::mem::take(&mut self.veths.drops);
        let random = &mut e.random;
        if let Enqueue::Dropped(_) = e.qdisc.enqueue(skb, now, || random.next_u32(), &mut drops) {
            self.veth_drop(fabric, end, skb.packet, Dropped::ByQdisc);
        }
        self.veths.drops = drops;
        self.veth_free_drops(fabric, end);
        self.veth_run_qdisc(fabric, core, end);
    }

    /// Hands packets from the qdisc to the device while it accepts them (`__qdisc_run`).
    fn veth_run_qdisc(&mut self, fabric: &mut Fabric, core: u32, end: u32) {
        while self.veth_restart_qdisc(fabric, core, end) {}
        self.veth_record_qdisc(fabric, end);
        self.veth_arm_watchdog(fabric, end);
    }

    /// One packet from the qdisc to the device; whether there may be more (`qdisc_restart`).
    fn veth_restart_qdisc(&mut self, fabric: &mut Fabric, core: u32, end: u32) -> bool {
        let now = fabric.run.now;
        let e = &mut self.veths.ends[end as usize];
        if e.queue.is_stopped() {
            return false;
        }
        let mut drops = std::mem::take(&mut self.veths.drops);
        let next = e.qdisc.dequeue(now, &mut drops);
        self.veths.drops = drops;
        self.veth_free_drops(fabric, end);
        match next {
            Some((skb, _)) => {
                let taken = self.veth_xmit(fabric, core, end, skb);
                if taken {
                    let waiting = &mut self.veths.ends[end as usize].waiting;
                    waiting.left(now, skb.bytes, Came::at(skb.enqueued));
                }
                taken
            }
            None => {
                self.veth_arm_shaper(fabric, core, end);
                false
            }
        }
    }

    /// Arms the timer of a shaping qdisc for its next packet, on the core that found none
    /// (`qdisc_watchdog`).
    fn veth_arm_shaper(&mut self, fabric: &mut Fabric, core: u32, end: u32) {
        let e = &mut self.veths.ends[end as usize];
        if let Some(at) = e.qdisc.next_at().filter(|&at| at < e.shaper_at) {
            (e.shaper_at, e.shaper_core) = (at, core);
            let timer = e.shaper;
            fabric.run.schedule(at, Event::LinuxTimer(timer));
        }
    }

    /// A shaping qdisc may release a packet.
    pub(in crate::linux) fn on_veth_shaper(&mut self, fabric: &mut Fabric, end: u32) {
        let e = &mut self.veths.ends[end as usize];
        if e.shaper_at != fabric.run.now {
            return;
        }
        e.shaper_at = Time::NEVER;
        let core = e.shaper_core;
        self.veth_schedule_output(fabric, core, end);
    }

    /// The device gets a packet (`veth_xmit`); whether it took or freed it.
    fn veth_xmit(&mut self, fabric: &mut Fabric, core: u32, end: u32, skb: Skb) -> bool {
        let now = fabric.run.now;
        let e = &mut self.veths.ends[end as usize];
        match e.queue.transmit(skb.packet, skb.bytes, now) {
            Transmit::Queued => {
                e.in_ring.add(now, 1, skb.bytes as i64);
                self.veths.packets.packets[skb.packet as usize].came = Came::at(now);
                self.veths.hops += 1;
                self.veth_schedule_poll(fabric, core, end);
                true
            }
            Transmit::Freed => {
                self.veth_drop(fabric, end, skb.packet, Dropped::ByRing);
                true
            }
            Transmit::Busy => {
                e.qdisc.requeue(skb);
                self.veth_schedule_poll(fabric, core, end);
                false
            }
        }
    }

    /// A batch of XDP frames bypasses the qdisc; frames that find no room in the ring are freed (`veth_xdp_xmit`).
    pub(super) fn veth_send_frames(
        &mut self,
        fabric: &mut Fabric,
        core: u32,
        end: u32,
        source: u32,
        count: u32,
        bytes: u32,
    ) {
        let now = fabric.run.now;
        for _ in 0..count {
            let kind = Kind::Frame(source);
            let came = Came::at(now);
            let packet = Datagram { kind, sequence: 0, bytes, charged: 0, next_free: NONE, came };
            let index = self.veths.packets.add(packet);
            let e = &mut self.veths.ends[end as usize];
            e.counted.offered.count(bytes);
            if e.queue.transmit_frame(index) {
                e.in_ring.add(now, 1, bytes as i64);
                self.veths.hops += 1;
            } else {
                self.veth_drop(fabric, end, index, Dropped::Frame);
            }
        }
        self.veth_schedule_poll(fabric, core, end);
    }

    /// The queue of an end goes on: a softirq of `core` runs its qdisc (`netif_schedule_queue`).
    pub(super) fn veth_schedule_output(&mut self, fabric: &mut Fabric, core: u32, end: u32) {
        let e = &mut self.veths.ends[end as usize];
        if !e.output_scheduled && !e.qdisc.is_noqueue() {
            e.output_scheduled = true;
            let output = e.output;
            self.schedule_output(fabric, core, output);
        }
    }

    /// The softirq that runs a qdisc takes the next packet.
    pub(in crate::linux) fn veth_output_unit(&mut self, end: u32) -> Option<Unit> {
        let e = &mut self.veths.ends[end as usize];
        if e.output_ends || e.queue.is_stopped() || e.qdisc.qlen() == 0 {
            (e.output_scheduled, e.output_ends) = (false, false);
            return None;
        }
        Some(Unit { cost: e.output_cost, weight: 0, purpose: Purpose::Soft })
    }

    /// It gives that packet to the device.
    pub(in crate::linux) fn veth_output_unit_ends(&mut self, fabric: &mut Fabric, core: u32, end: u32) {
        let more = self.veth_restart_qdisc(fabric, core, end);
        self.veths.ends[end as usize].output_ends = !more;
        self.veth_record_qdisc(fabric, end);
        self.veth_arm_watchdog(fabric, end);
    }

    fn veth_record_qdisc(&mut self, fabric: &mut Fabric, end: u32) {
        let now = fabric.run.now;
        let e = &mut self.veths.ends[end as usize];
        e.waiting.set(now, e.qdisc.qlen() as u64, e.qdisc.backlog_bytes());
    }

    /// Frees what the qdisc dropped.
    fn veth_free_drops(&mut self, fabric: &mut Fabric, end: u32) {
        while let Some((skb, _)) = self.veths.drops.pop() {
            let e = &mut self.veths.ends[end as usize];
            e.waiting.left(fabric.run.now, skb.bytes, Came::at(skb.enqueued));
            self.veth_drop(fabric, end, skb.packet, Dropped::ByQdisc);
        }
    }

    /// A packet is freed, and its sender may continue.
    fn veth_drop(&mut self, fabric: &mut Fabric, end: u32, packet: u32, by: Dropped) {
        let Datagram { kind, bytes, .. } = self.veths.packets.packets[packet as usize];
        self.veths.ends[end as usize].counted.dropped[by as usize].count(bytes);
        self.veth_orphan(fabric, packet);
        match kind {
            Kind::Datagram(flood) => self.veths.floods[flood as usize].dropped += 1,
            Kind::Frame(source) => self.veths.frames[source as usize].dropped += 1,
            Kind::EchoRequest(ping) | Kind::EchoReply(ping) => {
                let sequence = self.veths.packets.packets[packet as usize].sequence;
                self.veths.pings[ping as usize].samples[sequence as usize].lost = true;
            }
        }
        self.veths.packets.remove(packet);
    }

    /// A packet no longer counts for its socket (`skb_orphan`).
    pub(super) fn veth_orphan(&mut self, fabric: &mut Fabric, packet: u32) {
        let p = &mut self.veths.packets.packets[packet as usize];
        let charged = std::mem::take(&mut p.charged);
        if let (Kind::Datagram(flood), 1..) = (p.kind, charged) {
            self.flood_may_go_on(fabric, flood, charged);
        }
    }

    /// Schedules the watchdog of a stopped queue.
    fn veth_arm_watchdog(&mut self, fabric: &mut Fabric, end: u32) {
        let e = &mut self.veths.ends[end as usize];
        if let (false, Some(at)) = (e.watchdog_armed, e.queue.next_timeout()) {
            e.watchdog_armed = true;
            let timer = e.watchdog;
            fabric.run.schedule(at, Event::LinuxTimer(timer));
        }
    }

    /// The watchdog of an end may be due (`dev_watchdog`, which calls `veth_tx_timeout`).
    pub(in crate::linux) fn on_veth_watchdog(&mut self, fabric: &mut Fabric, end: u32) {
        let now = fabric.run.now;
        let e = &mut self.veths.ends[end as usize];
        e.watchdog_armed = false;
        if e.queue.on_timeout(now) {
            let core = e.poll_core;
            self.veth_schedule_output(fabric, core, end);
        }
        self.veth_arm_watchdog(fabric, end);
    }
}

#[cfg(test)]
mod tests {
    use crate::cores::Purpose;
    use crate::plan::Plan;
    use crate::Simulation;
    use tailback_proto::units::Time;

    const PLAN: &str = include_str!("../../../tests/data/veth.json");

    /// XDP frames fill the ring, and the core that redirected them polls it, for longer than the watchdog waits. There the
    /// queue that the flood found full goes on, and not on the first core of the run, the flood's, which polls nothing.
    #[test]
    fn the_watchdog_wakes_the_queue_where_it_is_polled() {
        let mut simulation =
            Simulation::new(Plan::from_json(PLAN).expect("it is a plan")).expect("it is possible");
        while !simulation.advance(100_000).done {}
        let world = simulation.world_mut();
        let end = &world.linux.veths.ends[0];
        assert_eq!((end.queue.timeouts, end.poll_core), (1, 1));
        let spent = |core: usize| world.linux.cores[core].core.spent(Purpose::Soft, world.fabric.run.now);
        assert!(spent(1) > Time::from_ms(16_000));
        assert_eq!(spent(0), Time::ZERO);
    }
}
