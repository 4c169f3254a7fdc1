//! CoDel: once every packet has waited longer than a target for a whole interval, packets are dropped at the head, more and more often.
//!
//! Sources: RFC 8289; Linux include/net/codel_impl.h and net/sched/sch_codel.c, with their arithmetic: time in units of
//! 1024 ns in 32 bits, and 1 / sqrt(count) as a 16-bit fraction, refined by one Newton step per drop.
//!
//! Leaves out: `ce_threshold`.

use super::qdisc::{DropReason, Enqueue, Fifo, FifoLimit, List, Skb, Slab, NONE};
use super::{LIMIT_PACKETS, QUANTUM_BYTES};
use crate::units::{Bytes, Time};

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

/// True if `a` is before `b`, where the clock may have wrapped.
fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

crate::parameters! {
    /// CoDel's settings, for one queue or for each of many.
    pub struct CodelParameters {
        /// Acceptable wait.
        target: Time = Time::from_ms(5), in CODEL_TIMES, source "RFC 8289, section 4.3";
        /// How long the wait must exceed the target before the first drop.
        interval: Time = Time::from_ms(100), in CODEL_TIMES, source "RFC 8289, section 4.3";
        /// Whether a flow whose queue ran empty still counts as waiting too long, so that its next packet can be dropped.
        stale: bool = false,
            source "Linux 7.0 (commit 815980fe6dbb) and stable kernels that took it over; all before them: true";
    }
}

crate::parameters! {
    /// One queue, whose packets are dropped or marked when they have waited too long for an interval.
    pub struct CodelQueueParameters {
        /// Most packets that wait.
        limit: u32 = 1000, in LIMIT_PACKETS, source "Linux net/sched/sch_codel.c";
        /// Mark ECT packets instead of dropping them.
        ecn: bool = false, source "Linux net/sched/sch_codel.c";
    }
}

/// Times that `tc` takes in microseconds and the kernel keeps in 32 bits.
const CODEL_TIMES: std::ops::RangeInclusive<Time> = Time::from_us(1)..=Time::from_ms(1_000_000);

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
    /// True if `first_above_time` survives an empty queue.
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

    /// True if packets have been above the target for an interval, judged by the one at the head.
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

// FlowQueue CoDel: one queue per flow, each with CoDel, served by deficit round robin; flows that were empty go first.
//
// Sources: RFC 8290; Linux net/sched/sch_fq_codel.c. CoDel's exemption of a backlog of one MTU looks at the backlog of
// the whole discipline, not of the flow: packets of a sparse flow can be dropped while another flow has the backlog.
//
// Leaves out: filters of `tc`, `ce_threshold`, and that a packet that finds the discipline empty and the device ready
// may bypass it (`TCQ_F_CAN_BYPASS`): here it passes through and sees no wait.

crate::parameters! {
    /// A queue for each flow, served in turn, with CoDel in each.
    pub struct FqCodelParameters {
        /// Most packets that wait.
        limit: u32 = 10_240, in LIMIT_PACKETS, source SOURCE;
        /// Queues that flows are hashed to.
        flows: u32 = 1024, in 1..=65_536, source SOURCE;
        /// Bytes that a flow sends in a round; null: the device's MTU and 14 B of Ethernet header.
        quantum: Bytes, or null, in QUANTUM_BYTES, source SOURCE;
        /// Mark ECT packets instead of dropping them.
        ecn: bool = true, source SOURCE;
        /// Most memory that waiting packets take.
        memory_limit: Bytes = Bytes(32 << 20), in Bytes(1)..=Bytes(1 << 31), source SOURCE;
        /// Most packets that are dropped at once when it is full.
        drop_batch: u32 = 64, in LIMIT_PACKETS, source SOURCE;
    }
}

const SOURCE: &str = "Linux net/sched/sch_fq_codel.c";

/// Counters, as `tc -s qdisc` prints them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FqCodelStatistics {
    /// Largest packet that was at a head, bytes.
    pub maxpacket: u32,
    /// Packets dropped because the discipline was full, of packets or of memory.
    pub drop_overlimit: u64,
    /// Those of them for which memory was the limit.
    pub drop_overmemory: u64,
    /// How often a packet arrived at a flow that was on neither list.
    pub new_flow_count: u64,
    /// Packets marked.
    pub ecn_mark: u64,
    /// Memory of waiting packets, bytes.
    pub memory_usage: u64,
    /// Flows in the list of new flows.
    pub new_flows_len: u32,
    /// Flows in the list of old flows.
    pub old_flows_len: u32,
}

#[derive(Clone, Debug)]
struct Flow {
    packets: List,
    deficit: i64,
    codel: CodelState,
    /// True if it is in one of the lists of flows, and the flow after it there.
    listed: bool,
    next: u32,
}

/// Flows in the order in which they are served.
#[derive(Clone, Copy, Debug)]
struct Round {
    head: u32,
    tail: u32,
    len: u32,
}

impl Round {
    const EMPTY: Round = Round { head: NONE, tail: NONE, len: 0 };

    fn push(&mut self, flows: &mut [Flow], index: u32) {
        flows[index as usize].next = NONE;
        match self.tail {
            NONE => self.head = index,
            tail => flows[tail as usize].next = index,
        }
        self.tail = index;
        self.len += 1;
    }

    fn pop(&mut self, flows: &[Flow]) -> u32 {
        let index = self.head;
        self.head = flows[index as usize].next;
        if self.head == NONE {
            self.tail = NONE;
        }
        self.len -= 1;
        index
    }
}

/// Packets and bytes queued, over all flows.
#[derive(Clone, Debug)]
struct Backlog {
    slab: Slab,
    /// Bytes of each flow, in an array of their own: a full discipline scans them all.
    of_flow: Vec<u32>,
    bytes: u64,
    memory: u64,
    packets: usize,
}

impl Backlog {
    fn take(&mut self, list: &mut List, flow: u32) -> Option<Skb> {
        let skb = self.slab.pop_front(list)?;
        self.of_flow[flow as usize] -= skb.bytes;
        self.bytes -= skb.bytes as u64;
        self.memory -= skb.truesize() as u64;
        self.packets -= 1;
        Some(skb)
    }
}

struct FlowHead<'a> {
    backlog: &'a mut Backlog,
    packets: &'a mut List,
    flow: u32,
    drops: &'a mut Vec<(Skb, DropReason)>,
}

impl Source for FlowHead<'_> {
    fn pop(&mut self) -> Option<Skb> {
        self.backlog.take(self.packets, self.flow)
    }

    fn backlog_bytes(&self) -> u64 {
        self.backlog.bytes
    }

    fn drop(&mut self, skb: Skb) {
        self.drops.push((skb, DropReason::Sojourn));
    }
}

/// State.
#[derive(Clone, Debug)]
pub struct FqCodel {
    parameters: FqCodelParameters,
    /// CoDel in each flow.
    law: Law,
    flows: Vec<Flow>,
    backlog: Backlog,
    new_flows: Round,
    old_flows: Round,
    codel: CodelStatistics,
    drop_overlimit: u64,
    drop_overmemory: u64,
    new_flow_count: u64,
}

impl FqCodel {
    /// All flows empty. `mtu_bytes`: of the device, with the Ethernet header.
    pub fn new(parameters: &FqCodelParameters, codel: &CodelParameters, mtu_bytes: u32) -> Self {
        let flow = Flow {
            packets: List::EMPTY,
            deficit: 0,
            codel: CodelState::default(),
            listed: false,
            next: NONE,
        };
        let flows = parameters.flows as usize;
        FqCodel {
            parameters: *parameters,
            law: Law::new(codel, mtu_bytes, parameters.ecn),
            flows: vec![flow; flows],
            backlog: Backlog { slab: Slab::new(), of_flow: vec![0; flows], bytes: 0, memory: 0, packets: 0 },
            new_flows: Round::EMPTY,
            old_flows: Round::EMPTY,
            codel: CodelStatistics::default(),
            drop_overlimit: 0,
            drop_overmemory: 0,
            new_flow_count: 0,
        }
    }

    /// Queues a packet. If that exceeds a limit, up to `drop_batch` packets are dropped from the head of the fattest flow,
    /// or half of its bytes, whichever comes first.
    pub fn enqueue(&mut self, mut skb: Skb, now: Time, drops: &mut Vec<(Skb, DropReason)>) -> Enqueue {
        // reciprocal_scale()
        let index = ((skb.flow_hash as u64 * self.flows.len() as u64) >> 32) as u32;
        let flow = &mut self.flows[index as usize];
        skb.enqueued = now;
        self.backlog.slab.push_back(&mut flow.packets, skb);
        self.backlog.of_flow[index as usize] += skb.bytes;
        self.backlog.bytes += skb.bytes as u64;
        self.backlog.memory += skb.truesize() as u64;
        self.backlog.packets += 1;
        if !flow.listed {
            flow.listed = true;
            flow.deficit = self.parameters.quantum.0 as i64;
            self.new_flow_count += 1;
            self.new_flows.push(&mut self.flows, index);
        }
        let over_memory = self.backlog.memory > self.parameters.memory_limit.0;
        if self.backlog.packets <= self.parameters.limit as usize && !over_memory {
            return Enqueue::Queued { marked: false };
        }
        let reason = if over_memory { DropReason::Memory } else { DropReason::Overlimit };
        let before = drops.len();
        let fattest = self.drop_batch(reason, drops);
        let dropped = (drops.len() - before) as u64;
        self.drop_overlimit += dropped;
        if over_memory {
            self.drop_overmemory += dropped;
        }
        if fattest == index && self.flows[index as usize].packets.is_empty() {
            drops.pop();
            return Enqueue::Dropped(reason);
        }
        Enqueue::Queued { marked: false }
    }

    fn drop_batch(&mut self, reason: DropReason, drops: &mut Vec<(Skb, DropReason)>) -> u32 {
        let mut most = 0;
        let mut fattest = 0;
        for (index, &bytes) in self.backlog.of_flow.iter().enumerate() {
            if bytes > most {
                most = bytes;
                fattest = index as u32;
            }
        }
        let flow = &mut self.flows[fattest as usize];
        let (mut bytes, mut packets) = (0, 0);
        while let Some(skb) = self.backlog.take(&mut flow.packets, fattest) {
            bytes += skb.bytes;
            packets += 1;
            drops.push((skb, reason));
            if packets >= self.parameters.drop_batch || bytes >= most >> 1 {
                break;
            }
        }
        flow.codel.count = flow.codel.count.wrapping_add(packets);
        fattest
    }

    /// The next packet, and whether it is to be marked.
    pub fn dequeue(&mut self, now: Time, drops: &mut Vec<(Skb, DropReason)>) -> Option<(Skb, bool)> {
        loop {
            let from_new = self.new_flows.head != NONE;
            let round = if from_new { &mut self.new_flows } else { &mut self.old_flows };
            let index = round.head;
            let flow = self.flows.get_mut(index as usize)?;
            if flow.deficit <= 0 {
                flow.deficit += self.parameters.quantum.0 as i64;
                round.pop(&self.flows);
                self.old_flows.push(&mut self.flows, index);
                continue;
            }
            let mut head =
                FlowHead { backlog: &mut self.backlog, packets: &mut flow.packets, flow: index, drops };
            match flow.codel.dequeue(&self.law, &mut self.codel, now, &mut head) {
                Some((skb, marked)) => {
                    flow.deficit -= skb.bytes as i64;
                    return Some((skb, marked));
                }
                None => {
                    round.pop(&self.flows);
                    // A new flow that ran empty waits behind the old ones: else they could starve (RFC 8290, 4.2).
                    if from_new && self.old_flows.head != NONE {
                        self.old_flows.push(&mut self.flows, index);
                    } else {
                        self.flows[index as usize].listed = false;
                    }
                }
            }
        }
    }

    /// Counters.
    pub fn statistics(&self) -> FqCodelStatistics {
        FqCodelStatistics {
            maxpacket: self.codel.maxpacket,
            drop_overlimit: self.drop_overlimit,
            drop_overmemory: self.drop_overmemory,
            new_flow_count: self.new_flow_count,
            ecn_mark: self.codel.ecn_mark,
            memory_usage: self.backlog.memory,
            new_flows_len: self.new_flows.len,
            old_flows_len: self.old_flows.len,
        }
    }

    /// Bytes waiting.
    pub fn backlog_bytes(&self) -> u64 {
        self.backlog.bytes
    }

    /// Packets waiting.
    pub fn qlen(&self) -> usize {
        self.backlog.packets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Drops of a full discipline count for CoDel too, which then drops faster.
    #[test]
    fn a_batch_of_drops_counts() {
        let (quantum, memory_limit) = (Bytes(1514), Bytes(u32::MAX as u64));
        let p = FqCodelParameters { limit: 11, flows: 4, quantum, ecn: true, memory_limit, drop_batch: 64 };
        let mut queue = FqCodel::new(&p, &CodelParameters::default(), 1514);
        let mut drops = vec![];
        (0..12).for_each(|n| _ = queue.enqueue(Skb::new(n, 1000, 0, false), Time::ZERO, &mut drops));
        assert_eq!((drops.len(), queue.flows[0].codel.count), (6, 6));
    }
}
