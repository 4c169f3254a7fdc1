//! Channels of a port's device: they take packets from the wire and put them on it, interrupt and are polled.

use std::collections::VecDeque;
use tailback_proto::flow_control::byte_queue_limits::Dql;
use tailback_proto::interrupts::{Dim, Profile, Sample, RX_CQE, TX_EQE};
use tailback_proto::units::Time;
use tailback_proto::wire::FCS_BYTES;

use super::settings::CoalescingParameters;
use super::softirq::{Unit, NAPI_WEIGHT};
use super::Linux;
use crate::cores::Purpose;
use crate::engine::Fifo;
use crate::event::Event;
use crate::fabric::port::DropReason;
use crate::fabric::Fabric;
use crate::gauge::QueuedAt;

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
                self.channels[channel as usize].doing = ChannelState::Send(packet);
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
                    c.doing = ChannelState::Completion;
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
        c.doing = ChannelState::Receive(index);
        let cost = c.costs.receive + Time((bytes as f64 * c.costs.receive_ps_per_byte) as u64);
        let port = c.port as usize - self.first_bridge_port;
        let backlog = &mut self.bridge_ports[port].rx_backlog;
        backlog.change(now, -(bytes as i64));
        backlog.left(bytes as u64, QueuedAt::at(fabric.packets[index].arrival), now);
        unit(cost, 1)
    }

    /// A unit of a channel's poll ends.
    pub(super) fn channel_unit_ends(&mut self, fabric: &mut Fabric, core: u32, channel: u32) {
        let c = &mut self.channels[channel as usize];
        match std::mem::replace(&mut c.doing, ChannelState::Nothing) {
            ChannelState::Nothing => unreachable!("a unit is something"),
            ChannelState::Completion => {}
            ChannelState::Receive(packet) => self.forward(fabric, core, channel, packet),
            ChannelState::Send(packet) => self.egress_unit_ends(fabric, packet),
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
        c.tx.sent.push_back((left, bytes, QueuedAt::at(now)));
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

// A channel of a port's device: a receive ring, a transmit ring, and the NAPI instance that serves both.
//
// Source: Linux drivers/net/ethernet/mellanox/mlx5/core: en_txrx.c (`mlx5e_napi_poll`: first transmit completions, up
// to 128, then up to `budget` packets; then free descriptors are posted; then, unless either had more, interrupts are
// enabled and moderation is tuned), en_tx.c (`mlx5e_poll_tx_cq`: byte queue limits hear of all completions of a poll at
// once; a stopped queue is woken), en.h (`MLX5E_TX_CQ_POLL_BUDGET`).
//
// Descriptors of polled packets return to the device when the poll ends: a ring is refilled in bursts.
// The device sends packets of all its transmit rings in the order of their doorbells.
//
// Leaves out: descriptors that hold several packets, segmentation, and the completion of several packets by one entry.

/// Work of a core on a channel.
#[derive(Clone, Copy, Debug)]
pub(super) enum ChannelState {
    Nothing,
    Completion,
    /// A packet.
    Receive(u32),
    /// Handing a packet to a device.
    Send(u32),
}

/// Time that a packet takes on the core of a channel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Costs {
    pub receive: Time,
    pub receive_ps_per_byte: f64,
    pub complete: Time,
}

/// A channel.
#[derive(Debug)]
pub(crate) struct Channel {
    /// Port of the world, and of the bridge.
    pub port: u32,
    pub number: u32,
    pub core: u32,
    pub napi: u32,
    pub costs: Costs,
    pub(super) doing: ChannelState,
    /// Interrupts are off: the channel is on a poll list or being polled.
    pub(super) scheduled: bool,
    /// When its interrupt event is due; any other event is stale.
    pub(super) irq_at: Time,
    /// Packets received but not polled; descriptors used by the current poll.
    pub ring: Fifo,
    pub waiting: u32,
    pub(super) taken: u32,
    pub(super) descriptors: u32,
    /// Arrival of the first and last waiting packet, and of the one that completed the moderation's frame count.
    pub(super) first_at: Time,
    pub(super) last_at: Time,
    pub(super) full_at: Option<Time>,
    pub(super) since_interrupt: u32,
    pub rx: Moderation,
    pub rx_out_of_buffer: u64,
    /// The egress that the current poll runs.
    pub running: Option<u32>,
    /// True if the current poll still looks for completions, and how many it has found.
    pub(super) completing: bool,
    pub(super) completed: u32,
    pub(super) completed_bytes: u32,
    pub tx: TxQueue,
}

/// A transmit queue.
#[derive(Debug)]
pub(crate) struct TxQueue {
    /// Packets handed to the device but not completed: when each left, and its length.
    pub(super) sent: VecDeque<(Time, u32, QueuedAt)>,
    pub(super) descriptors: usize,
    pub dql: Option<Dql>,
    /// BQL's limit is reached (`__QUEUE_STATE_STACK_XOFF`), the ring is full (`__QUEUE_STATE_DRV_XOFF`).
    pub(super) over_limit: bool,
    pub(super) full: bool,
    pub moderation: Moderation,
    /// The egress to run when the queue wakes.
    pub egress: u32,
    /// Stops by BQL, and stops by a full ring.
    pub bql_stops: u64,
    pub ring_stops: u64,
}

impl TxQueue {
    pub fn new(descriptors: u32, dql: Option<Dql>, moderation: Moderation, egress: u32) -> Self {
        TxQueue {
            sent: VecDeque::with_capacity(descriptors as usize),
            descriptors: descriptors as usize,
            dql,
            over_limit: false,
            full: false,
            moderation,
            egress,
            bql_stops: 0,
            ring_stops: 0,
        }
    }

    pub fn is_stopped(&self) -> bool {
        self.over_limit | self.full
    }

    /// Bytes awaiting completion.
    pub fn bytes(&self) -> u64 {
        self.sent.iter().map(|&(_, bytes, _)| bytes as u64).sum()
    }

    /// The same by packet, and since when.
    #[cfg(debug_assertions)]
    pub fn waits(&self) -> impl Iterator<Item = (u64, QueuedAt)> + '_ {
        self.sent.iter().map(|&(_, bytes, came)| (bytes as u64, came))
    }

    pub(super) fn due(&self) -> Time {
        let Some(&(first, ..)) = self.sent.front() else { return Time::NEVER };
        let frames = self.moderation.profile().frames as usize;
        self.moderation.due(first, first, self.sent.get(frames - 1).map(|&(at, ..)| at))
    }
}

impl Channel {
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        port: u32,
        number: u32,
        core: u32,
        napi: u32,
        costs: Costs,
        descriptors: u32,
        rx: Moderation,
        tx: TxQueue,
    ) -> Self {
        Channel {
            port,
            number,
            core,
            napi,
            costs,
            doing: ChannelState::Nothing,
            scheduled: false,
            irq_at: Time::NEVER,
            ring: Fifo::EMPTY,
            waiting: 0,
            taken: 0,
            descriptors,
            first_at: Time::ZERO,
            last_at: Time::ZERO,
            full_at: None,
            since_interrupt: 0,
            rx,
            rx_out_of_buffer: 0,
            running: None,
            completing: true,
            completed: 0,
            completed_bytes: 0,
            tx,
        }
    }

    /// The packet its core is working on, if any.
    pub fn in_hand(&self) -> Option<u32> {
        match self.doing {
            ChannelState::Receive(packet) | ChannelState::Send(packet) => Some(packet),
            ChannelState::Nothing | ChannelState::Completion => None,
        }
    }

    /// Bytes in flight as BQL sees them: completions of the current poll are not reported yet.
    pub fn charged(&self) -> u64 {
        self.tx.bytes() + self.completed_bytes as u64
    }

    pub(super) fn rx_due(&self) -> Time {
        match self.waiting {
            0 => Time::NEVER,
            _ => self.rx.due(self.first_at, self.last_at, self.full_at),
        }
    }
}

// Interrupt moderation: when the completions of a queue raise an interrupt.
//
// Sources: `ethtool -C` (usecs and frames, whichever is first; adaptive: lib/dim), Linux mlx5 (two modes of the timer: of
// receive queues restart it with every packet, CQE mode; transmit queues with every interrupt, EQE mode).

/// Event that starts the timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The last packet.
    Packet,
    /// The last interrupt.
    Interrupt,
}

/// Moderation of one completion queue.
#[derive(Clone, Debug)]
pub(crate) struct Moderation {
    mode: Mode,
    dim: Option<Dim>,
    profile: Profile,
    last_interrupt: Time,
    /// Interrupts, packets and bytes so far.
    pub sample: Sample,
}

impl Moderation {
    pub fn new(plan: &CoalescingParameters, mode: Mode) -> Self {
        let dim = plan.adaptive.then(Dim::default);
        let profile = Profile { usecs: plan.usecs, frames: plan.frames };
        let mut moderation =
            Moderation { mode, dim, profile, last_interrupt: Time::ZERO, sample: Sample::default() };
        moderation.apply();
        moderation
    }

    /// The profile in use.
    pub fn profile(&self) -> Profile {
        self.profile
    }

    fn apply(&mut self) {
        if let Some(dim) = &self.dim {
            let profiles = match self.mode {
                Mode::Packet => &RX_CQE,
                Mode::Interrupt => &TX_EQE,
            };
            self.profile = profiles[dim.profile()];
        }
    }

    /// When a queue interrupts, given the times of its first and last completion, and of the one that completes `frames`,
    /// if there are that many.
    pub fn due(&self, first: Time, last: Time, full: Option<Time>) -> Time {
        let span = Time::from_us(self.profile.usecs as u64);
        let timer = match self.mode {
            Mode::Packet => last + span,
            Mode::Interrupt => first.max(self.last_interrupt + span),
        };
        full.map_or(timer, |full| timer.min(full))
    }

    /// It interrupts.
    pub fn on_interrupt(&mut self, now: Time) {
        self.last_interrupt = now;
        self.sample.events += 1;
    }

    pub fn count(&mut self, bytes: u32) {
        self.sample.packets += 1;
        self.sample.bytes += bytes as u64;
    }

    /// A poll is over.
    pub fn on_poll_complete(&mut self, now: Time) {
        if self.dim.as_mut().is_some_and(|dim| dim.on_poll_complete(now, self.sample)) {
            self.apply();
        }
    }
}
