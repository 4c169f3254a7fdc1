//! Dynamic queue limits: how much a driver lets into its ring, as BQL uses it.
//!
//! Source: Linux lib/dynamic_queue_limits.c, include/linux/dynamic_queue_limits.h. The limit grows when the queue was
//! starved: it was stopped at the limit and then ran empty before the completion was reported. It shrinks by the least
//! slack that was seen over a hold time. What is counted (bytes, or packets) is the caller's choice.
//!
//! Leaves out: jiffies (the hold time is exact here) and the detection of stalls.

use std::collections::VecDeque;

use crate::units::Time;

/// Most that can be queued at once: `DQL_MAX_OBJECT`.
const MAX_OBJECT: u32 = u32::MAX / 16;

/// Greatest limit: `DQL_MAX_LIMIT`.
pub const MAX_LIMIT: u32 = u32::MAX / 2 - MAX_OBJECT;

/// Time over which the least slack is taken: 1 s (net/core/dev.c, `netdev_init_one_queue`: HZ).
pub const HOLD_TIME: Time = Time::from_ms(1000);

/// Parameters: the files limit_min, limit_max and hold_time of /sys/class/net/DEV/queues/tx-N/byte_queue_limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DqlParameters {
    /// The limit is not below this.
    pub min_limit: u32,
    /// Nor above this, which is at most `MAX_LIMIT`.
    pub max_limit: u32,
    /// Time over which the least slack is taken.
    pub hold_time: Time,
}

impl Default for DqlParameters {
    fn default() -> Self {
        DqlParameters { min_limit: 0, max_limit: MAX_LIMIT, hold_time: HOLD_TIME }
    }
}

/// State. Counts wrap, as the kernel's do.
#[derive(Clone, Debug)]
pub struct Dql {
    parameters: DqlParameters,
    limit: u32,
    num_queued: u32,
    num_completed: u32,
    /// Size of the last queued object.
    last_object: u32,
    /// At the completion before: what had been queued, by how much that was above the limit, and what was queued last.
    prev_num_queued: u32,
    prev_over_limit: u32,
    prev_last_object: u32,
    lowest_slack: u32,
    slack_start: Time,
}

/// `a - b`, or 0 where that is below 0 as a difference of counts that wrap.
fn positive(a: u32, b: u32) -> u32 {
    let difference = a.wrapping_sub(b);
    if difference as i32 > 0 {
        difference
    } else {
        0
    }
}

impl Dql {
    /// Nothing queued, and a limit of 0: the first that is queued is over it.
    pub fn new(parameters: DqlParameters, now: Time) -> Self {
        Dql {
            parameters,
            limit: 0,
            num_queued: 0,
            num_completed: 0,
            last_object: 0,
            prev_num_queued: 0,
            prev_over_limit: 0,
            prev_last_object: 0,
            lowest_slack: u32::MAX,
            slack_start: now,
        }
    }

    /// The limit.
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// Queued and not completed (`inflight`).
    pub fn in_flight(&self) -> u32 {
        self.num_queued.wrapping_sub(self.num_completed)
    }

    /// Room below the limit; the queue is stopped while this is negative.
    pub fn available(&self) -> i64 {
        self.limit as i64 - self.in_flight() as i64
    }

    /// `count` was queued. The queue must be stopped if `available` is now below 0.
    pub fn queued(&mut self, count: u32) {
        debug_assert!(count <= MAX_OBJECT);
        self.last_object = count;
        self.num_queued = self.num_queued.wrapping_add(count);
    }

    /// `count` was completed; the queue may go on if `available` is not below 0 now. A count of 0 is no completion (the
    /// driver's `netdev_tx_completed_queue` returns at once).
    ///
    /// # Panics
    /// More was completed than was queued.
    pub fn completed(&mut self, count: u32, now: Time) {
        assert!(count <= self.in_flight(), "{count} completed of {}", self.in_flight());
        if count == 0 {
            return;
        }
        let completed = self.num_completed.wrapping_add(count);
        let over_limit = positive(self.in_flight(), self.limit);
        let left = self.num_queued.wrapping_sub(completed);
        let beyond = positive(completed, self.prev_num_queued);

        // All that was queued at the completion before is done (`AFTER_EQ`: also when nothing was queued since).
        let all_of_then = completed.wrapping_sub(self.prev_num_queued) as i32 >= 0;

        let mut limit = self.limit;
        if (over_limit > 0 && left == 0) || (self.prev_over_limit > 0 && all_of_then) {
            limit = limit.wrapping_add(beyond).wrapping_add(self.prev_over_limit);
            self.restart(now);
        } else if left > 0 && !all_of_then {
            // Busy throughout: now, and at the completion before, since all that is completed now was there then.
            let slack = positive(limit.wrapping_add(self.prev_over_limit), count.wrapping_mul(2));
            let of_last_object = match self.prev_over_limit {
                0 => 0,
                over => positive(self.prev_last_object, over),
            };
            self.lowest_slack = self.lowest_slack.min(slack.max(of_last_object));
            if now.saturating_sub(self.slack_start) > self.parameters.hold_time {
                limit = positive(limit, self.lowest_slack);
                self.restart(now);
            }
        }
        limit = limit.clamp(self.parameters.min_limit, self.parameters.max_limit);
        self.prev_over_limit = if limit == self.limit { over_limit } else { 0 };
        self.limit = limit;
        self.prev_last_object = self.last_object;
        self.num_completed = completed;
        self.prev_num_queued = self.num_queued;
    }

    fn restart(&mut self, now: Time) {
        self.slack_start = now;
        self.lowest_slack = u32::MAX;
    }
}

// A transmit queue of a veth device: the ring to its peer, what stops the queue, and its byte queue limits.
//
// Sources: Linux drivers/net/veth.c (`VETH_RING_SIZE`; a full ring frees the packet up to 6.1, and stops the queue of
// a device with a qdisc since commit dc82a33297fc; the peer's poll wakes it at its end, commit 5442a9da6978),
// include/linux/ptr_ring.h (the consumer clears entries in batches of 16), and the series "veth: add Byte Queue Limits
// (BQL) support", v7, of June 2026: one unit a packet is charged, and completed as packets are taken from the ring;
// over `tx-usecs` completions are collected, and reported at once when more than the limit are (`n_bql` above
// `dql.limit`). XDP frames are not charged. The text of v7's patches was not at hand, only its cover letter and list
// of changes.
//
// The caller is the stack: it asks `is_stopped`, hands packets to `transmit`, and runs its qdisc when notified that
// the queue goes on. The peer's poll calls `take` and `poll_ends`.
//
// Leaves out: several queues, races between the two ends (an operation is done before the next one begins), and that a
// device without a qdisc has a limit at all (it cannot be stopped; assumption: then nothing is charged).

/// Entries of the ring: `VETH_RING_SIZE`.
pub const RING_ENTRIES: u32 = 256;

/// Longest wait for a stopped queue: 64 packets of a poll, 250 ms each (v7, patch 3: `VETH_WATCHDOG_TIMEOUT_MS`).
pub const TX_WATCHDOG_TIMEOUT: Time = Time::from_ms(64 * 250);

/// Most that `tx-usecs` may be: half the watchdog (v7, patch 5; more gives `ERANGE`).
pub const MAX_TX_USECS: Time = Time::from_ms(64 * 250 / 2);

/// Entries that the consumer clears at once: two cache lines of pointers (ptr_ring.h, `__ptr_ring_set_size`).
const CLEARED_AT_ONCE: u32 = 16;

/// What a full ring does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFull {
    /// The packet is freed: kernels up to 6.1, and newer ones without a qdisc.
    Free,
    /// The queue stops and the packet goes back to the qdisc: kernels from 6.16 on.
    Stop,
}

/// The unit of the limit: bytes or packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charge {
    /// No limit: kernels without the series.
    Off,
    /// One unit (`VETH_BQL_UNIT`): from v2 of the series on.
    Packets,
    /// Its length: v1 of the series.
    Bytes,
}

/// Settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VethParameters {
    /// Entries of the ring.
    pub ring: u32,
    /// What a full ring does.
    pub on_full: OnFull,
    /// What the limit counts.
    pub charge: Charge,
    /// Over how long completions are collected (`ethtool -C DEV tx-usecs`); 0: each is reported.
    pub tx_usecs: Time,
    /// The limit.
    pub dql: DqlParameters,
}

/// What became of a packet that was handed to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transmit {
    /// It is in the ring.
    Queued,
    /// The ring was full and it was freed.
    Freed,
    /// The ring was full and the queue is stopped: it goes back to the qdisc (`NETDEV_TX_BUSY`).
    Busy,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    packet: u32,
    charge: u32,
}

/// State.
#[derive(Clone, Debug)]
pub struct VethQueue {
    parameters: VethParameters,
    ring: VecDeque<Entry>,
    /// Entries taken that the producer still sees, and where in the ring the next is taken.
    uncleared: u32,
    head: u32,
    /// `__QUEUE_STATE_DRV_XOFF`: the ring was full.
    drv_xoff: bool,
    /// `__QUEUE_STATE_STACK_XOFF`: the limit is exceeded.
    stack_xoff: bool,
    dql: Dql,
    /// Taken and not yet reported as completed, and when completions were last reported.
    pending: u32,
    completed_at: Time,
    /// When a packet was queued last: what the watchdog looks at (`trans_start`).
    queued_at: Time,
    /// How often the ring stopped the queue, the limit did, and the watchdog fired (`tx_timeout`).
    pub drv_stops: u64,
    /// See `drv_stops`.
    pub stack_stops: u64,
    /// See `drv_stops`.
    pub timeouts: u64,
}

impl VethQueue {
    /// Nothing queued.
    pub fn new(parameters: VethParameters, now: Time) -> Self {
        VethQueue {
            parameters,
            ring: VecDeque::with_capacity(parameters.ring as usize),
            uncleared: 0,
            head: 0,
            drv_xoff: false,
            stack_xoff: false,
            dql: Dql::new(parameters.dql, now),
            pending: 0,
            completed_at: now,
            queued_at: now,
            drv_stops: 0,
            stack_stops: 0,
            timeouts: 0,
        }
    }

    /// True if the stack may hand over packets (`netif_xmit_stopped`).
    pub fn is_stopped(&self) -> bool {
        self.drv_xoff || self.stack_xoff
    }

    /// Packets in the ring.
    pub fn len(&self) -> usize {
        self.ring.len()
    }

    /// True if the ring has nothing for the peer.
    pub fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    /// Packets in the ring, the next to be taken first.
    pub fn packets(&self) -> impl Iterator<Item = u32> + '_ {
        self.ring.iter().map(|entry| entry.packet)
    }

    /// The limit, in units of its charge.
    pub fn limit(&self) -> u32 {
        self.dql.limit()
    }

    /// Charged and not completed (`inflight`), in units of its charge.
    pub fn in_flight(&self) -> u32 {
        self.dql.in_flight()
    }

    /// The charge of all packets in the ring and of those taken and not reported: `in_flight` must equal it.
    pub fn charged(&self) -> u32 {
        self.ring.iter().map(|entry| entry.charge).sum::<u32>() + self.pending
    }

    /// Entries that the producer sees as taken: the consumer clears them late.
    fn is_full(&self) -> bool {
        self.ring.len() as u32 + self.uncleared >= self.parameters.ring
    }

    /// A packet of the stack, for a queue that is not stopped.
    pub fn transmit(&mut self, packet: u32, bytes: u32, now: Time) -> Transmit {
        if self.is_full() {
            if self.parameters.on_full == OnFull::Free {
                return Transmit::Freed;
            }
            self.drv_xoff = true;
            self.drv_stops += 1;
            return Transmit::Busy;
        }
        let charge = match self.parameters.charge {
            Charge::Off => 0,
            Charge::Packets => 1,
            Charge::Bytes => bytes,
        };
        self.ring.push_back(Entry { packet, charge });
        self.queued_at = now;
        if charge > 0 {
            self.dql.queued(charge);
            if self.dql.available() < 0 && !self.stack_xoff {
                self.stack_xoff = true;
                self.stack_stops += 1;
            }
        }
        Transmit::Queued
    }

    /// An XDP frame, redirected here (`ndo_xdp_xmit`): past the qdisc, not charged. `false`: the ring was full and it was
    /// freed.
    pub fn transmit_frame(&mut self, packet: u32) -> bool {
        if self.is_full() {
            return false;
        }
        self.ring.push_back(Entry { packet, charge: 0 });
        true
    }

    /// The peer's poll takes the next packet.
    pub fn take(&mut self) -> Option<u32> {
        let entry = self.ring.pop_front()?;
        self.uncleared += 1;
        self.head += 1;
        let at_once = if CLEARED_AT_ONCE > self.parameters.ring / 2 { 1 } else { CLEARED_AT_ONCE };
        if self.head == self.parameters.ring {
            self.head = 0;
            self.uncleared = 0;
        } else if self.uncleared >= at_once {
            self.uncleared = 0;
        }
        self.pending += entry.charge;
        Some(entry.packet)
    }

    /// The poll has done with the packet that it took: what is completed is reported, if it is time or the limit would
    /// starve the queue. True: the queue goes on (`netif_schedule_queue`), and its qdisc is to run.
    pub fn done(&mut self, now: Time) -> bool {
        let is_due = now.saturating_sub(self.completed_at) >= self.parameters.tx_usecs;
        if !is_due && self.pending <= self.dql.limit() {
            return false;
        }
        self.complete(now)
    }

    fn complete(&mut self, now: Time) -> bool {
        self.completed_at = now;
        if self.pending == 0 {
            return false;
        }
        self.dql.completed(std::mem::take(&mut self.pending), now);
        self.dql.available() >= 0 && std::mem::take(&mut self.stack_xoff)
    }

    /// A poll of the peer ends. True: the ring had stopped the queue, which goes on.
    pub fn poll_ends(&mut self, now: Time) -> bool {
        if self.drv_xoff {
            self.queued_at = now;
        }
        std::mem::take(&mut self.drv_xoff)
    }

    /// When a stopped queue is to be woken by the watchdog.
    pub fn next_timeout(&self) -> Option<Time> {
        self.is_stopped().then(|| self.queued_at + TX_WATCHDOG_TIMEOUT)
    }

    /// The watchdog looks at the queue. True: it was stopped for too long, and goes on.
    pub fn on_timeout(&mut self, now: Time) -> bool {
        if self.next_timeout().is_none_or(|at| at > now) {
            return false;
        }
        self.drv_xoff = false;
        self.stack_xoff = false;
        self.queued_at = now;
        self.timeouts += 1;
        true
    }

    /// The peer's poll is taken away (`veth_napi_del_range`): what is in the ring is handed to `free`, every charge is
    /// completed, and the queue wakes. True: it was stopped.
    pub fn tear_down(&mut self, now: Time, mut free: impl FnMut(u32)) -> bool {
        while let Some(entry) = self.ring.pop_front() {
            self.pending += entry.charge;
            free(entry.packet);
        }
        self.uncleared = 0;
        self.head = 0;
        let was_stopped = self.is_stopped();
        self.complete(now);
        self.drv_xoff = false;
        was_stopped
    }
}
