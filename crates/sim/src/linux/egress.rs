//! How packets get from a queueing discipline to a device.
//!
//! Sources: Linux net/core/dev.c (`__dev_xmit_skb`, `net_tx_action`), net/sched/sch_generic.c (`__qdisc_run`
//! and its quota of `dev_tx_weight`, `sch_direct_xmit`, `dev_requeue_skb`, `TCQ_F_CAN_BYPASS`). Only one core
//! at a time runs a discipline (`__QDISC_STATE_RUNNING`); other cores that queue a packet meanwhile leave it
//! to that core. A discipline with a single transmit queue is not dequeued while that queue is stopped
//! (`TCQ_F_ONETXQUEUE`). With several transmit queues, or when the discipline is bypassed, a packet that
//! finds its transmit queue stopped is put back (a requeue) and waits until the queue is woken. The core that
//! wakes the queue, on a completion, resumes the discipline.
//!
//! Leaves out: lock contention between cores, and bulk dequeue.

use rand_core::Rng;
use tailback_proto::aqm::qdisc::{Discipline, Enqueue, Qdisc, Skb};
use tailback_proto::units::Time;
use tailback_proto::wire::FCS_BYTES;

use super::softirq::{flow_hash, Unit};
use super::Linux;
use crate::cores::Purpose;
use crate::engine::Stream;
use crate::event::Event;
use crate::fabric::packet::{CE, ECT};
use crate::fabric::port::DropReason;
use crate::fabric::Fabric;
use crate::gauge::QueuedAt;

/// A queueing discipline in front of one or several transmit queues of a port.
#[derive(Debug)]
pub(crate) struct Egress {
    pub qdisc: Qdisc,
    /// The port, by its index in the world.
    pub port: u32,
    /// The port's transmit queue, if it has only one.
    pub(super) only_queue: Option<u32>,
    /// Index among the cores' transmit queues.
    pub(super) output: u32,
    /// Index among the timers.
    pub(super) timer: u32,
    /// True if a packet that finds the discipline empty goes straight to the device.
    pub(super) bypass: bool,
    pub(super) random: Stream,
    /// True if a core is running the discipline, and how many packets are left of that core's quota.
    pub(super) running: bool,
    pub(super) quota: u32,
    /// True if the current packet bypassed the queue.
    pub(super) direct: bool,
    /// True if the discipline is scheduled on a core (`__QDISC_STATE_SCHED`).
    pub(super) scheduled: bool,
    /// The core whose softirq runs the discipline.
    pub(super) output_core: Option<u32>,
    /// The packet that this softirq is handing to the device.
    pub(super) sending: Option<u32>,
    /// The transmit queue of the packet that was put back.
    pub(super) held_for: Option<u32>,
    /// When the watchdog timer is due, and the core that armed it and that it interrupts
    /// (`HRTIMER_MODE_ABS_PINNED`).
    pub(super) watchdog_at: Time,
    pub(super) watchdog_core: u32,
    /// Data packets that wait here, for the audit.
    pub data_packets: u64,
    pub marked: u64,
}

impl Egress {
    pub fn new(
        qdisc: Qdisc,
        port: u32,
        only_queue: Option<u32>,
        output: u32,
        timer: u32,
        random: Stream,
    ) -> Self {
        let bypass = match qdisc.discipline() {
            Discipline::Noqueue
            | Discipline::Fifo(_)
            | Discipline::Codel(_)
            | Discipline::FqCodel(_)
            | Discipline::Sfq(_) => true,
            Discipline::Red(_) | Discipline::Tbf(..) => false,
        };
        Egress {
            qdisc,
            port,
            only_queue,
            output,
            timer,
            bypass,
            random,
            running: false,
            quota: 0,
            direct: false,
            scheduled: false,
            output_core: None,
            sending: None,
            held_for: None,
            watchdog_at: Time::NEVER,
            watchdog_core: 0,
            data_packets: 0,
            marked: 0,
        }
    }

    /// The packet that a softirq is handing to the device, if any.
    pub fn in_hand(&self) -> Option<u32> {
        self.sending
    }
}

// What a queueing discipline of a bridge does: it is offered packets, and cores run it.

/// Most packets that one run of a discipline hands to the device (sysctl `net.core.dev_weight`).
const QUOTA: u32 = 64;

impl Linux {
    /// Offers a packet to an egress. `true`: the calling core must run it.
    pub(super) fn egress_enqueue(&mut self, fabric: &mut Fabric, egress: u32, index: u32) -> bool {
        let now = fabric.run.now;
        let packet = &fabric.packets[index];
        let (kind, flags) = (packet.kind, packet.flags);
        // The kernel does not count the FCS.
        let bytes = packet.frame_bytes() - FCS_BYTES;
        let skb = Skb::new(index, bytes, flow_hash(packet), flags & (ECT | CE) != 0);
        let e = &mut self.egresses[egress as usize];
        let empty = e.qdisc.qlen() == 0;
        let mut drops = std::mem::take(&mut self.drops);
        let random = &mut e.random;
        let result = e.qdisc.enqueue(skb, now, || random.next_u32(), &mut drops);
        if let Enqueue::Queued { marked } = result {
            e.data_packets += kind.is_data() as u64;
            e.direct = empty && e.bypass && !e.running;
            let port = e.port as usize - self.first_bridge_port;
            self.bridge_ports[port].qdisc_backlog.change(now, bytes as i64);
            if marked {
                e.marked += 1;
                fabric.packets[index].flags |= CE;
            }
        }
        self.drop_victims(fabric, egress, &mut drops);
        self.drops = drops;
        let e = &mut self.egresses[egress as usize];
        if matches!(result, Enqueue::Dropped(_)) {
            let port = e.port as usize;
            fabric.drop_packet(port, index, DropReason::Qdisc);
        }
        // __dev_xmit_skb runs the discipline whatever became of the packet: one that shapes may have another to send.
        let e = &mut self.egresses[egress as usize];
        if e.running {
            return false;
        }
        e.running = true;
        e.quota = QUOTA;
        true
    }

    /// Accounts for packets that a discipline dropped from its queue.
    fn drop_victims(
        &mut self,
        fabric: &mut Fabric,
        egress: u32,
        drops: &mut Vec<(Skb, tailback_proto::aqm::qdisc::DropReason)>,
    ) {
        for (skb, _) in drops.drain(..) {
            self.leave_egress(fabric, egress, &skb);
            let port = self.egresses[egress as usize].port as usize;
            fabric.drop_packet(port, skb.packet, DropReason::Qdisc);
        }
    }

    fn leave_egress(&mut self, fabric: &mut Fabric, egress: u32, skb: &Skb) {
        let data = fabric.packets[skb.packet].kind.is_data() as u64;
        let e = &mut self.egresses[egress as usize];
        e.data_packets -= data;
        let port = e.port as usize - self.first_bridge_port;
        let backlog = &mut self.bridge_ports[port].qdisc_backlog;
        backlog.change(fabric.run.now, -(skb.bytes as i64));
        backlog.left(skb.bytes as u64, QueuedAt::at(skb.enqueued), fabric.run.now);
    }

    /// A core running an egress takes the next packet, with the cost of handing it to the device. `None`: the run is
    /// over.
    pub(super) fn egress_unit(&mut self, fabric: &mut Fabric, core: u32, egress: u32) -> Option<(u32, Time)> {
        let now = fabric.run.now;
        let e = &mut self.egresses[egress as usize];
        if e.quota == 0 {
            e.running = false;
            self.schedule_egress(fabric, core, egress);
            return None;
        }
        let only_queue = e.only_queue.filter(|_| !e.direct);
        if let Some(queue) = e.held_for.or(only_queue) {
            if self.channels[queue as usize].tx.is_stopped() {
                e.running = false;
                return None;
            }
            e.held_for = None;
        }
        let mut drops = std::mem::take(&mut self.drops);
        let next = e.qdisc.dequeue(now, &mut drops);
        let next_at = e.qdisc.next_at();
        self.drop_victims(fabric, egress, &mut drops);
        self.drops = drops;
        let Some((skb, marked)) = next else {
            let e = &mut self.egresses[egress as usize];
            e.running = false;
            if let Some(at) = next_at.filter(|&at| at < e.watchdog_at) {
                (e.watchdog_at, e.watchdog_core) = (at, core);
                let timer = e.timer;
                fabric.run.schedule(at, Event::LinuxTimer(timer));
            }
            return None;
        };
        let e = &mut self.egresses[egress as usize];
        if marked {
            e.marked += 1;
            fabric.packets[skb.packet].flags |= CE;
        }
        let queue = self.transmit_queue(fabric, skb.packet);
        let e = &mut self.egresses[egress as usize];
        if self.channels[queue as usize].tx.is_stopped() {
            e.qdisc.requeue(skb);
            e.held_for = Some(queue);
            e.running = false;
            return None;
        }
        e.quota -= 1;
        let direct = std::mem::take(&mut e.direct);
        let p = &self.bridge_ports[e.port as usize - self.first_bridge_port];
        let costs = p.send_costs[(core - self.bridges[p.bridge as usize].first_core) as usize];
        let cost = costs.transmit + if direct { Time::ZERO } else { costs.qdisc };
        self.leave_egress(fabric, egress, &skb);
        Some((skb.packet, cost))
    }

    /// A core has handed a packet of an egress to the device.
    pub(super) fn egress_unit_ends(&mut self, fabric: &mut Fabric, packet: u32) {
        let queue = self.transmit_queue(fabric, packet);
        self.post_to_device(fabric, queue, packet);
    }

    /// Schedules an egress on a core unless it is scheduled already (`__netif_schedule`).
    pub(super) fn schedule_egress(&mut self, fabric: &mut Fabric, core: u32, egress: u32) {
        let e = &mut self.egresses[egress as usize];
        if std::mem::replace(&mut e.scheduled, true) {
            return;
        }
        let output = e.output;
        self.schedule_output(fabric, core, output);
    }

    /// The timer of an egress.
    pub(super) fn on_watchdog_of(&mut self, fabric: &mut Fabric, egress: u32) {
        let e = &mut self.egresses[egress as usize];
        if e.watchdog_at != fabric.run.now {
            return;
        }
        e.watchdog_at = Time::NEVER;
        let core = e.watchdog_core;
        self.schedule_egress(fabric, core, egress);
    }

    /// Begins the next unit of an egress that a softirq runs. `None`: the run is over.
    pub(super) fn output_egress_unit(&mut self, fabric: &mut Fabric, core: u32, egress: u32) -> Option<Unit> {
        let e = &mut self.egresses[egress as usize];
        if e.output_core != Some(core) {
            e.scheduled = false;
            // Another core runs it and continues until it is empty (`qdisc_run_begin`).
            if e.running {
                return None;
            }
            e.running = true;
            e.quota = QUOTA;
            e.output_core = Some(core);
        }
        let next = self.egress_unit(fabric, core, egress);
        let e = &mut self.egresses[egress as usize];
        match next {
            Some((packet, cost)) => {
                e.sending = Some(packet);
                Some(Unit { cost, weight: 0, purpose: Purpose::Soft })
            }
            None => {
                e.output_core = None;
                None
            }
        }
    }

    /// A softirq has handed its packet to the device.
    pub(super) fn output_egress_unit_ends(&mut self, fabric: &mut Fabric, egress: u32) {
        let packet = self.egresses[egress as usize].sending.take().expect("it sends");
        self.egress_unit_ends(fabric, packet);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::packet::{Amount, Detail, Packet, PacketKind, NONE};
    use crate::linux::settings::{CoalescingParameters, PfifoParameters, QdiscPlan};
    use crate::plan::Plan;
    use crate::world::World;
    use crate::Simulation;
    use tailback_proto::wire::PREAMBLE_AND_GAP_BYTES;

    /// Bytes that BQL counts for a packet: without preamble, gap and FCS.
    const WIRE_BYTES: u16 = 1500;
    const BYTES: u64 = (WIRE_BYTES as u32 - PREAMBLE_AND_GAP_BYTES - FCS_BYTES) as u64;

    const PLAN: &str = include_str!("../../tests/data/bridge.json");

    /// A bridge to which nothing is sent yet, and whose ports interrupt late.
    fn bridge() -> Simulation {
        let mut plan = Plan::from_json(PLAN).unwrap();
        plan.writers.iter_mut().for_each(|writer| writer.start = Time(plan.run.duration.0));
        let model = &mut plan.bridge_models[0];
        (model.qdisc, model.bql) = (QdiscPlan::Pfifo(PfifoParameters::default()), None);
        model.rx = CoalescingParameters { adaptive: false, usecs: 60_000, frames: 60_000 };
        model.tx = model.rx;
        Simulation::new(plan).unwrap()
    }

    /// A packet in the transmit queue of a channel.
    fn packet(world: &mut World, channel: u32) -> u32 {
        world.fabric.packets.add(Packet {
            arrival: Time::ZERO,
            qp: 0,
            detail: Detail::NONE,
            next: NONE,
            wire_bytes: WIRE_BYTES,
            amount: Amount::NONE,
            dst: 0,
            ingress: channel as u16,
            kind: PacketKind::Ack,
            class: 0,
            flags: 0,
            code_point: 0,
        })
    }

    /// Packets wait in the egress of a channel, which is to run.
    fn fill(world: &mut World, core: u32, channel: u32, packets: u32) {
        let egress = world.linux.channels[channel as usize].tx.egress;
        for _ in 0..packets {
            let index = packet(world, channel);
            world.linux.egress_enqueue(&mut world.fabric, egress, index);
        }
        world.linux.egresses[egress as usize].running = false;
        world.linux.schedule_egress(&mut world.fabric, core, egress);
    }

    /// `net_tx_action` runs what waited when it began; a discipline that used up its quota goes on in the next round, after
    /// the `net_rx_action` of this one.
    #[test]
    fn what_a_round_raises_is_for_the_next() {
        let mut simulation = bridge();
        let world = simulation.world_mut();
        let (core, others) = (0, world.linux.bridge_ports[1].first_channel);
        // While a first packet keeps the core busy a queue of more than a quota and a packet to receive come.
        fill(world, core, 0, 1);
        fill(world, core, others, QUOTA + 1);
        let received = packet(world, 0);
        world.linux.channel_receive(&mut world.fabric, 0, received);
        let napi = world.linux.channels[0].napi;
        world.linux.schedule_napi(&mut world.fabric, core, napi);
        while simulation.world_mut().linux.channels[0].waiting > 0 {
            simulation.advance(1);
        }
        let world = simulation.world_mut();
        let egress = &world.linux.egresses[world.linux.channels[others as usize].tx.egress as usize];
        assert_eq!(egress.qdisc.qlen(), 1, "packets wait");
    }

    /// A second core that is to run a discipline leaves it to the one that does.
    #[test]
    fn one_core_at_a_time_runs_a_discipline() {
        let mut simulation = bridge();
        let world = simulation.world_mut();
        let channel = world.linux.bridge_ports[1].first_channel;
        let egress = world.linux.channels[channel as usize].tx.egress;
        fill(world, 0, channel, QUOTA);
        while simulation.world_mut().linux.egresses[egress as usize].sending.is_none() {
            simulation.advance(1);
        }
        let world = simulation.world_mut();
        world.linux.schedule_egress(&mut world.fabric, 1, egress);
        while simulation.world_mut().linux.egresses[egress as usize].running {
            simulation.advance(1);
        }
        let linux = &simulation.world_mut().linux;
        let run = &linux.egresses[egress as usize];
        assert_eq!((run.qdisc.qlen(), run.sending), (0, None));
        assert_eq!(linux.channels[channel as usize].tx.bytes(), QUOTA as u64 * BYTES, "a packet is gone");
    }
}
