//! CoDel: once every packet has waited longer than a target for a whole interval, packets are dropped at the head, more and more often.
//!
//! Sources: RFC 8289; Linux include/net/codel_impl.h and net/sched/sch_codel.c, with their arithmetic: time in units of
//! 1024 ns in 32 bits, and 1 / sqrt(count) as a 16-bit fraction, refined by one Newton step per drop.
//!
//! Leaves out: `ce_threshold`.

use super::fifo::{Fifo, FifoLimit};
use super::skb::{DropReason, Enqueue, Skb};
use super::PACKETS;
use crate::units::Time;

/// Shift from a 16-bit fraction to a 32-bit one.
const FRACTION_SHIFT: u32 = 16;
/// If dropping starts again within this many intervals of the last drop, the old drop rate is resumed: RFC 8289, section 5.5.
const RECENT_INTERVALS: u32 = 16;

/// Nanoseconds as CoDel counts time, in units of 1024 ns (`CODEL_SHIFT` is 10).
fn units(ns: u64) -> u32 {
    (ns >> 10) as u32
}

/// Uptime of the machine when a run starts, ns. For a queue that has never dropped, the kernel takes the last drop
/// to be at time 0, so time 0 must lie well in the past. Assumption: 100 s; anything from 1.6 s to 36 minutes gives the same.
const UPTIME_NS: u64 = 100_000_000_000;

/// An instant as CoDel counts it.
fn clock(now: Time) -> u32 {
    units(now.ps() / 1000 + UPTIME_NS)
}

/// Whether `a` is before `b`, where the clock may have wrapped.
fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

crate::parameters! {
    /// CoDel's settings, for one queue or for each of many.
    pub struct CodelParameters {
        /// Acceptable wait.
        target: Time = Time::from_ms(5), in TIMES, source "RFC 8289, section 4.3";
        /// How long the wait must exceed the target before the first drop.
        interval: Time = Time::from_ms(100), in TIMES, source "RFC 8289, section 4.3";
        /// Whether a flow whose queue ran empty still counts as waiting too long, so that its next packet can be dropped.
        stale: bool = false,
            source "Linux 7.0 (commit 815980fe6dbb) and stable kernels that took it over; all before them: true";
    }
}

crate::parameters! {
    /// One queue, whose packets are dropped or marked when they have waited too long for an interval.
    pub struct CodelQueueParameters {
        /// Most packets that wait.
        limit: u32 = 1000, in PACKETS, source "Linux net/sched/sch_codel.c";
        /// Mark ECT packets instead of dropping them.
        ecn: bool = false, source "Linux net/sched/sch_codel.c";
    }
}

/// Times that `tc` takes in microseconds and the kernel keeps in 32 bits.
const TIMES: std::ops::RangeInclusive<Time> = Time::from_us(1)..=Time::from_ms(1_000_000);

/// CoDel's parameters as the kernel keeps them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Law {
    /// Acceptable time in the queue, units of 1024 ns.
    target: u32,
    /// How long the target must be exceeded before the first drop, units of 1024 ns.
    interval: u32,
    /// Nothing is dropped while at most this many bytes wait: the device's MTU plus the Ethernet header.
    mtu_bytes: u32,
    /// Mark ECN-capable packets instead of dropping them.
    ecn: bool,
    /// Whether `first_above_time` survives an empty queue.
    stale: bool,
}

impl Law {
    /// The parameters as `tc` hands them to the kernel, in whole microseconds.
    pub fn new(parameters: &CodelParameters, mtu_bytes: u32, ecn: bool) -> Self {
        let of_us = |time: Time| units(time.0 / Time::from_us(1).0 * 1000);
        Law {
            target: of_us(parameters.target),
            interval: of_us(parameters.interval),
            mtu_bytes,
            ecn,
            stale: parameters.stale,
        }
    }
}

/// Counters over all queues of a discipline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CodelStatistics {
    /// Packets marked.
    pub ecn_mark: u64,
    /// Largest packet that was at a head, bytes.
    pub maxpacket: u32,
}

/// State of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CodelState {
    /// Drops since dropping began.
    pub count: u32,
    /// `count` when dropping last began.
    lastcount: u32,
    dropping: bool,
    /// 1 / sqrt(count), in units of 2^-16.
    rec_inv_sqrt: u16,
    /// When packets will have been above the target for an interval (`first_above_time`); 0: they are not above it.
    first_above: u32,
    drop_next: u32,
    /// Wait of the last packet at the head.
    ldelay: u32,
}

/// The queue that CoDel takes packets from.
pub(super) trait Source {
    fn pop(&mut self) -> Option<Skb>;
    /// Bytes in the whole discipline, not only in this queue.
    fn backlog_bytes(&self) -> u64;
    fn drop(&mut self, skb: Skb);
}

impl CodelState {
    /// A step of Newton's method for 1 / sqrt(count): x * (3 - count * x^2) / 2.
    fn newton_step(&mut self) {
        let x = (self.rec_inv_sqrt as u64) << FRACTION_SHIFT;
        let square = (x * x) >> 32;
        let rest = (3u64 << 32).wrapping_sub(self.count as u64 * square);
        self.rec_inv_sqrt = (((rest >> 2).wrapping_mul(x) >> 31) >> FRACTION_SHIFT) as u16;
    }

    /// `from` plus interval / sqrt(count).
    fn control_law(&self, from: u32, p: &Law) -> u32 {
        let fraction = (self.rec_inv_sqrt as u64) << FRACTION_SHIFT;
        from.wrapping_add(((p.interval as u64 * fraction) >> 32) as u32)
    }

    /// Whether packets have been above the target for an interval, judged by the one at the head.
    fn too_long(
        &mut self,
        skb: Option<&Skb>,
        backlog_bytes: u64,
        p: &Law,
        statistics: &mut CodelStatistics,
        now: u32,
    ) -> bool {
        let Some(skb) = skb else {
            self.first_above = 0;
            return false;
        };
        self.ldelay = now.wrapping_sub(clock(skb.enqueued));
        statistics.maxpacket = statistics.maxpacket.max(skb.bytes);
        if before(self.ldelay, p.target) || backlog_bytes <= p.mtu_bytes as u64 {
            self.first_above = 0;
            return false;
        }
        if self.first_above == 0 {
            self.first_above = now.wrapping_add(p.interval);
            return false;
        }
        before(self.first_above, now)
    }

    /// The next packet, and whether to mark it. Packets dropped on the way go to `source`.
    pub fn dequeue(
        &mut self,
        p: &Law,
        statistics: &mut CodelStatistics,
        now: Time,
        source: &mut impl Source,
    ) -> Option<(Skb, bool)> {
        let now = clock(now);
        let Some(mut skb) = source.pop() else {
            self.dropping = false;
            if !p.stale {
                self.first_above = 0;
            }
            return None;
        };
        let too_long = self.too_long(Some(&skb), source.backlog_bytes(), p, statistics, now);
        if !too_long {
            self.dropping = false;
            return Some((skb, false));
        }
        let marks = p.ecn && skb.ect;
        if !self.dropping {
            let next = if marks {
                statistics.ecn_mark += 1;
                Some(skb)
            } else {
                source.drop(skb);
                let next = source.pop();
                self.too_long(next.as_ref(), source.backlog_bytes(), p, statistics, now);
                next
            };
            self.begin_dropping(p, now);
            return next.map(|skb| (skb, marks));
        }
        while self.dropping && !before(now, self.drop_next) {
            self.count = self.count.wrapping_add(1);
            self.newton_step();
            if p.ecn && skb.ect {
                statistics.ecn_mark += 1;
                self.drop_next = self.control_law(self.drop_next, p);
                return Some((skb, true));
            }
            source.drop(skb);
            let next = source.pop();
            if self.too_long(next.as_ref(), source.backlog_bytes(), p, statistics, now) {
                self.drop_next = self.control_law(self.drop_next, p);
            } else {
                self.dropping = false;
            }
            skb = next?;
        }
        Some((skb, false))
    }

    fn begin_dropping(&mut self, p: &Law, now: u32) {
        self.dropping = true;
        let last = self.count.wrapping_sub(self.lastcount);
        let recent = before(now.wrapping_sub(self.drop_next), RECENT_INTERVALS.wrapping_mul(p.interval));
        if last > 1 && recent {
            self.count = last;
            self.newton_step();
        } else {
            self.count = 1;
            self.rec_inv_sqrt = u16::MAX;
        }
        self.lastcount = self.count;
        self.drop_next = self.control_law(now, p);
    }
}

/// What `tc -s qdisc` prints about `codel` besides the counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CodelReadout {
    /// Drops since dropping began.
    pub count: u32,
    /// `count` when dropping last began.
    pub lastcount: u32,
    /// Wait of the last packet at the head, us.
    pub ldelay_us: u32,
    /// Time to the next drop, us. Below 0: a drop is due. `None`: not dropping.
    pub drop_next_us: Option<i64>,
    /// Largest packet that was at the head, bytes.
    pub maxpacket: u32,
    /// Packets marked.
    pub ecn_mark: u64,
    /// Packets dropped because the queue was full.
    pub drop_overlimit: u64,
}

/// `codel`: one queue.
#[derive(Clone, Debug)]
pub struct Codel {
    law: Law,
    fifo: Fifo,
    state: CodelState,
    statistics: CodelStatistics,
    drop_overlimit: u64,
}

struct Head<'a> {
    fifo: &'a mut Fifo,
    drops: &'a mut Vec<(Skb, DropReason)>,
}

impl Source for Head<'_> {
    fn pop(&mut self) -> Option<Skb> {
        self.fifo.dequeue()
    }

    fn backlog_bytes(&self) -> u64 {
        self.fifo.backlog_bytes()
    }

    fn drop(&mut self, skb: Skb) {
        self.drops.push((skb, DropReason::Sojourn));
    }
}

impl Codel {
    /// An empty queue. `mtu_bytes` is the device's MTU plus the Ethernet header.
    pub fn new(queue: &CodelQueueParameters, codel: &CodelParameters, mtu_bytes: u32) -> Self {
        Codel {
            law: Law::new(codel, mtu_bytes, queue.ecn),
            fifo: Fifo::new(FifoLimit::Packets(queue.limit)),
            state: CodelState::default(),
            statistics: CodelStatistics::default(),
            drop_overlimit: 0,
        }
    }

    /// Appends a packet, or drops it if the queue is full.
    pub fn enqueue(&mut self, skb: Skb, now: Time) -> Enqueue {
        let result = self.fifo.enqueue(skb, now);
        self.drop_overlimit += matches!(result, Enqueue::Dropped(_)) as u64;
        result
    }

    /// The next packet, and whether to mark it.
    pub fn dequeue(&mut self, now: Time, drops: &mut Vec<(Skb, DropReason)>) -> Option<(Skb, bool)> {
        let mut head = Head { fifo: &mut self.fifo, drops };
        self.state.dequeue(&self.law, &mut self.statistics, now, &mut head)
    }

    /// State and counters.
    pub fn readout(&self, now: Time) -> CodelReadout {
        let us = |time: i64| (time << 10) / 1000;
        let s = &self.state;
        CodelReadout {
            count: s.count,
            lastcount: s.lastcount,
            ldelay_us: us(s.ldelay as i64) as u32,
            drop_next_us: s.dropping.then(|| us(s.drop_next.wrapping_sub(clock(now)) as i32 as i64)),
            maxpacket: self.statistics.maxpacket,
            ecn_mark: self.statistics.ecn_mark,
            drop_overlimit: self.drop_overlimit,
        }
    }

    /// Bytes waiting.
    pub fn backlog_bytes(&self) -> u64 {
        self.fifo.backlog_bytes()
    }

    /// Packets waiting.
    pub fn qlen(&self) -> usize {
        self.fifo.qlen()
    }
}
