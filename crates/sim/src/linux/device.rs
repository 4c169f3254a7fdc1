//! What the channels of a port's device do: they take packets from the wire and put them on it, interrupt and are polled.

use tailback_proto::units::Time;
use tailback_proto::wire::FCS_BYTES;

use super::channel::Doing;
use super::core::{Unit, NAPI_WEIGHT};
use super::Linux;
use crate::cores::Purpose;
use crate::event::Event;
use crate::fabric::drops::DropReason;
use crate::fabric::Fabric;
use crate::gauge::Came;

/// Most transmit completions of a poll.
const TX_BUDGET: u32 = 128;
/// A transmit queue stops while it has fewer free descriptors than a packet may take (`mlx5e_stop_room_for_wqe`: 16
/// blocks of the largest request and one of padding, at one block a packet here).
const STOP_ROOM: usize = 17;

impl Linux {
    /// A packet arrives from the wire for a channel's ring.
    pub(super) fn channel_receive(&mut self, fabric: &mut Fabric, channel: u32, index: u32) {
        let now = fabric.run.now;
        let c = &mut self.channels[channel as usize];
        if c.waiting + c.taken == c.descriptors {
            c.rx_out_of_buffer += 1;
            let port = c.port as usize;
            fabric.drop_packet(port, index, DropReason::ReceiveRing);
            return;
        }
        let bytes = fabric.packets[index].frame_bytes();
        c.ring.push(&mut fabric.packets, index);
        if c.waiting == 0 {
            c.first_at = now;
        }
        c.waiting += 1;
        c.last_at = now;
        c.since_interrupt += 1;
        if c.full_at.is_none() && c.since_interrupt >= c.rx.profile().frames {
            c.full_at = Some(now);
        }
        let port = c.port as usize - self.first_bridge_port;
        let scheduled = c.scheduled;
        self.bridge_ports[port].rx_backlog.change(now, bytes as i64);
        if !scheduled {
            self.moderate(fabric, channel);
        }
    }

    /// Interrupts the core of a channel if that is due, or schedules it.
    fn moderate(&mut self, fabric: &mut Fabric, channel: u32) {
        let now = fabric.run.now;
        let c = &mut self.channels[channel as usize];
        let (rx, tx) = (c.rx_due(), c.tx.due());
        let due = rx.min(tx);
        if due > now {
            if due < c.irq_at {
                c.irq_at = due;
                let napi = c.napi;
                fabric.run.schedule(due, Event::LinuxIrq(napi));
            }
            return;
        }
        c.irq_at = Time::NEVER;
        c.scheduled = true;
        if rx <= now {
            c.rx.on_interrupt(now);
        }
        if tx <= now {
            c.tx.moderation.on_interrupt(now);
        }
        c.since_interrupt = 0;
        c.full_at = None;
        let (core, napi) = (c.core, c.napi);
        self.interrupt_core(fabric, core, napi);
    }

    /// The interrupt of a channel may be due.
    pub(super) fn on_moderation(&mut self, fabric: &mut Fabric, channel: u32) {
        let c = &mut self.channels[channel as usize];
        if c.irq_at != fabric.run.now {
            return; // stale: replaced by an earlier one
        }
        c.irq_at = Time::NEVER;
        if !c.scheduled {
            self.moderate(fabric, channel);
        }
    }

    /// Begins the next unit of a channel's poll. `None`: the poll is over.
    pub(super) fn channel_unit(
        &mut self,
        fabric: &mut Fabric,
        core: u32,
        channel: u32,
        used: u32,
    ) -> Option<Unit> {
        let unit = |cost, weight| Some(Unit { cost, weight, purpose: Purpose::Soft });
        if let Some(egress) = self.channels[channel as usize].running {
            if let Some((packet, cost)) = self.egress_unit(fabric, core, egress) {
                self.channels[channel as usize].doing = Doing::Send(packet);
                return unit(cost, 0);
            }
            self.channels[channel as usize].running = None;
        }
        let now = fabric.run.now;
        let c = &mut self.channels[channel as usize];
        if c.completing {
            match c.tx.sent.front() {
                Some(&(at, bytes, came)) if at <= now && c.completed < TX_BUDGET => {
                    c.tx.sent.pop_front();
                    c.completed += 1;
                    c.completed_bytes += bytes;
                    c.doing = Doing::Completion;
                    let (port, cost) = (c.port as usize, c.costs.complete);
                    let port = port - self.first_bridge_port;
                    let backlog = &mut self.bridge_ports[port].tx_backlog;
                    backlog.change(now, -(bytes as i64));
                    backlog.left(bytes as u64, came, now);
                    return unit(cost, 0);
                }
                _ => {
                    c.completing = false;
                    self.end_completions(fabric, core, channel);
                }
            }
        }
        let c = &mut self.channels[channel as usize];
        if used == NAPI_WEIGHT {
            return None;
        }
        let index = c.ring.pop(&fabric.packets)?;
        let bytes = fabric.packets[index].frame_bytes();
        c.waiting -= 1;
        c.taken += 1;
        c.rx.count(bytes);
        c.doing = Doing::Receive(index);
        let cost = c.costs.receive + Time((bytes as f64 * c.costs.receive_ps_per_byte) as u64);
        let port = c.port as usize - self.first_bridge_port;
        let backlog = &mut self.bridge_ports[port].rx_backlog;
        backlog.change(now, -(bytes as i64));
        backlog.left(bytes as u64, Came::at(fabric.packets[index].arrival), now);
        unit(cost, 1)
    }

    /// A unit of a channel's poll ends.
    pub(super) fn channel_unit_ends(&mut self, fabric: &mut Fabric, core: u32, channel: u32) {
        let c = &mut self.channels[channel as usize];
        match std::mem::replace(&mut c.doing, Doing::Nothing) {
            Doing::Nothing => unreachable!("a unit is something"),
            Doing::Completion => {}
            Doing::Receive(packet) => self.forward(fabric, core, channel, packet),
            Doing::Send(packet) => self.egress_unit_ends(fabric, packet),
        }
    }

    /// A poll has taken all completions: report them to BQL, and wake the queue if it may go on.
    fn end_completions(&mut self, fabric: &mut Fabric, core: u32, channel: u32) {
        let now = fabric.run.now;
        let c = &mut self.channels[channel as usize];
        let bytes = std::mem::take(&mut c.completed_bytes);
        if bytes == 0 {
            return;
        }
        let was_stopped = c.tx.is_stopped();
        if let Some(dql) = &mut c.tx.dql {
            dql.completed(bytes, now);
            c.tx.over_limit &= dql.available() < 0;
        }
        c.tx.full &= c.tx.sent.len() + STOP_ROOM > c.tx.descriptors;
        if was_stopped && !c.tx.is_stopped() {
            let egress = c.tx.egress;
            self.schedule_egress(fabric, core, egress);
        }
    }

    /// A poll ends. `true`: there is more to poll.
    pub(super) fn channel_poll_ends(&mut self, fabric: &mut Fabric, channel: u32, used: u32) -> bool {
        let now = fabric.run.now;
        let c = &mut self.channels[channel as usize];
        let more = used == NAPI_WEIGHT || c.completed == TX_BUDGET;
        c.taken = 0;
        // Packets polled with interrupts off do not count towards the next interrupt.
        c.since_interrupt = c.waiting;
        c.full_at = None;
        c.tx.moderation.sample.packets += c.completed as u64;
        c.completing = true;
        c.completed = 0;
        if more {
            return true;
        }
        c.scheduled = false;
        c.tx.moderation.on_poll_complete(now);
        c.rx.on_poll_complete(now);
        self.moderate(fabric, channel);
        false
    }

    /// Hands a packet to the device of a channel.
    pub(super) fn post_to_device(&mut self, fabric: &mut Fabric, channel: u32, index: u32) {
        let now = fabric.run.now;
        let c = &mut self.channels[channel as usize];
        let port = c.port as usize;
        // BQL does not count the FCS, which the device adds.
        let bytes = fabric.packets[index].frame_bytes() - FCS_BYTES;
        let p = &mut self.bridge_ports[port - self.first_bridge_port];
        p.tx_backlog.change(now, bytes as i64);
        let latency = p.tx_latency;
        let wire = fabric.packets[index].wire_bytes as u32;
        let begin = fabric.ports[port].busy_until.max(now + latency);
        let left = begin + fabric.serialization(port, wire);
        fabric.send_at(port, index, left);
        let c = &mut self.channels[channel as usize];
        c.tx.moderation.sample.bytes += bytes as u64;
        c.tx.sent.push_back((left, bytes, Came::at(now)));
        if let Some(dql) = &mut c.tx.dql {
            dql.queued(bytes);
            if dql.available() < 0 {
                c.tx.bql_stops += !c.tx.over_limit as u64;
                c.tx.over_limit = true;
            }
        }
        if c.tx.sent.len() + STOP_ROOM > c.tx.descriptors {
            c.tx.ring_stops += !c.tx.full as u64;
            c.tx.full = true;
        }
        if !c.scheduled {
            self.moderate(fabric, channel);
        }
    }
}
