//! A channel of a port's device: a receive ring, a transmit ring, and the NAPI instance that serves both.
//!
//! Source: Linux drivers/net/ethernet/mellanox/mlx5/core: en_txrx.c (`mlx5e_napi_poll`: first transmit completions, up
//! to 128, then up to `budget` packets; then free descriptors are posted; then, unless either had more, interrupts are
//! enabled and moderation is tuned), en_tx.c (`mlx5e_poll_tx_cq`: byte queue limits hear of all completions of a poll at
//! once; a stopped queue is woken), en.h (`MLX5E_TX_CQ_POLL_BUDGET`).
//!
//! Descriptors of polled packets return to the device when the poll ends: a ring is refilled in bursts.
//! The device sends packets of all its transmit rings in the order of their doorbells.
//!
//! Leaves out: descriptors that hold several packets, segmentation, and the completion of several packets by one entry.

use std::collections::VecDeque;
use tailback_proto::flow_control::dql::Dql;
use tailback_proto::units::Time;

use super::moderation::Moderation;
use crate::engine::Fifo;
use crate::gauge::Came;

/// What a core is doing with a channel.
#[derive(Clone, Copy, Debug)]
pub(super) enum Doing {
    Nothing,
    Completion,
    /// A packet.
    Receive(u32),
    /// Handing a packet to a device.
    Send(u32),
}

/// What a packet costs the core of a channel.
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
    pub(super) doing: Doing,
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
    /// Whether the current poll still looks for completions, and how many it has found.
    pub(super) completing: bool,
    pub(super) completed: u32,
    pub(super) completed_bytes: u32,
    pub tx: TxQueue,
}

/// A transmit queue.
#[derive(Debug)]
pub(crate) struct TxQueue {
    /// Packets handed to the device but not completed: when each left, and its length.
    pub(super) sent: VecDeque<(Time, u32, Came)>,
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
    pub fn waits(&self) -> impl Iterator<Item = (u64, Came)> + '_ {
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
            doing: Doing::Nothing,
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
            Doing::Receive(packet) | Doing::Send(packet) => Some(packet),
            Doing::Nothing | Doing::Completion => None,
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
