//! A queueing discipline of Linux: what stands between the stack and a device's ring.
//!
//! The caller does what net/core/dev.c and net/sched/sch_generic.c do: it offers a packet (`enqueue`), and takes packets
//! (`dequeue`) while the device accepts them: after each packet offered, when the device wakes its queue, and at
//! `next_at`. A packet that the device then refuses goes back (`requeue`) and is the next one.
//!
//! Every packet that is offered comes out once: as the result of `enqueue` where it was dropped at once, in `drops`
//! if it was dropped later, or from `dequeue`.
//!
//! Leaves out: what a drop tells the sender of the packet (`NET_XMIT_CN`), that a packet which finds the discipline empty may
//! bypass it, and that the packet that was put back counts in the limits of pfifo, bfifo, CoDel, FQ-CoDel and SFQ (`dev_requeue_skb`
//! adds it to `qlen` and `backlog`): here it waits beside them, one more than the limit.

use std::collections::VecDeque;

use super::codel::{Codel, CodelReadout, FqCodel, FqCodelStatistics};
use super::red::{Red, RedStatistics};
use super::sfq::Sfq;
use super::{LIMIT_BYTES, LIMIT_PACKETS};
use crate::units::{Bytes, Rate, Time};

/// The disciplines.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant)]
pub enum Discipline {
    /// No queue at all: the caller hands packets to the device and drops those it refuses.
    Noqueue,
    Fifo(Fifo),
    Red(Red),
    /// And where packets wait for tokens.
    Tbf(Tbf, Box<Qdisc>),
    Codel(Codel),
    FqCodel(FqCodel),
    Sfq(Sfq),
}

impl Discipline {
    /// A token bucket over a queue.
    pub fn tbf(parameters: &TbfParameters, child: Qdisc) -> Self {
        Discipline::Tbf(Tbf::new(parameters), Box::new(child))
    }
}

/// Counters of every discipline, as `tc -s qdisc` prints them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QdiscStatistics {
    /// Bytes given to the device, or to the discipline above.
    pub sent_bytes: u64,
    /// The same in packets.
    pub sent_packets: u64,
    /// Packets dropped, for any reason.
    pub dropped: u64,
    /// RED: packets marked or dropped early. TBF: how often a packet had to wait for tokens.
    pub overlimits: u64,
    /// Packets that the device refused.
    pub requeues: u64,
}

/// Counters of one discipline only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnStatistics {
    None,
    Red(RedStatistics),
    Codel(CodelReadout),
    FqCodel(FqCodelStatistics),
}

/// A discipline with its counters, and the packets that were taken from it but did not leave.
#[derive(Clone, Debug)]
pub struct Qdisc {
    discipline: Discipline,
    /// Refused by the device, or looked at by the discipline above (`gso_skb` of the kernel's struct Qdisc).
    held: VecDeque<(Skb, bool)>,
    sent_bytes: u64,
    sent_packets: u64,
    /// By [`DropReason`].
    dropped: [u64; DropReason::ALL.len()],
    requeues: u64,
}

impl From<Discipline> for Qdisc {
    fn from(discipline: Discipline) -> Self {
        let dropped = [0; DropReason::ALL.len()];
        Qdisc { discipline, held: VecDeque::new(), sent_bytes: 0, sent_packets: 0, dropped, requeues: 0 }
    }
}

impl Qdisc {
    /// True if packets go straight to the device: then nothing is offered here, and nothing comes out.
    pub fn is_noqueue(&self) -> bool {
        matches!(self.discipline, Discipline::Noqueue)
    }

    /// The discipline.
    pub fn discipline(&self) -> &Discipline {
        &self.discipline
    }

    /// Offers a packet. `random` gives 32 random bits and is asked for at most once. Packets that were queued before and
    /// are dropped now come out in `drops`.
    pub fn enqueue(
        &mut self,
        skb: Skb,
        now: Time,
        random: impl FnOnce() -> u32,
        drops: &mut Vec<(Skb, DropReason)>,
    ) -> Enqueue {
        let before = drops.len();
        let result = self.offer(skb, now, random, drops);
        if let Enqueue::Dropped(reason) = result {
            self.dropped[reason as usize] += 1;
        }
        self.count_drops(&drops[before..]);
        result
    }

    fn count_drops(&mut self, drops: &[(Skb, DropReason)]) {
        for (_, reason) in drops {
            self.dropped[*reason as usize] += 1;
        }
    }

    fn offer(
        &mut self,
        skb: Skb,
        now: Time,
        random: impl FnOnce() -> u32,
        drops: &mut Vec<(Skb, DropReason)>,
    ) -> Enqueue {
        match &mut self.discipline {
            Discipline::Noqueue => Enqueue::Dropped(DropReason::NoQueue),
            Discipline::Fifo(fifo) => fifo.enqueue(skb, now),
            Discipline::Red(red) => red.enqueue(skb, now, random),
            Discipline::Tbf(tbf, _) if !tbf.admits(skb.bytes) => Enqueue::Dropped(DropReason::TooLarge),
            Discipline::Tbf(_, child) => child.enqueue(skb, now, random, drops),
            Discipline::Codel(codel) => codel.enqueue(skb, now),
            Discipline::FqCodel(fq_codel) => fq_codel.enqueue(skb, now, drops),
            Discipline::Sfq(sfq) => sfq.enqueue(skb, now, drops),
        }
    }

    /// Takes the next packet; true: it gets a CE mark now. Packets dropped on the way come out in `drops`.
    pub fn dequeue(&mut self, now: Time, drops: &mut Vec<(Skb, DropReason)>) -> Option<(Skb, bool)> {
        if let Some(held) = self.held.pop_front() {
            return Some(held);
        }
        let before = drops.len();
        let next = match &mut self.discipline {
            Discipline::Noqueue => None,
            Discipline::Fifo(fifo) => fifo.dequeue().map(|skb| (skb, false)),
            Discipline::Red(red) => red.dequeue(now).map(|skb| (skb, false)),
            Discipline::Tbf(tbf, child) => {
                let head = child.peek_bytes(now, drops);
                if tbf.lets_go(now, head) {
                    child.dequeue(now, drops)
                } else {
                    None
                }
            }
            Discipline::Codel(codel) => codel.dequeue(now, drops),
            Discipline::FqCodel(fq_codel) => fq_codel.dequeue(now, drops),
            Discipline::Sfq(sfq) => sfq.dequeue().map(|skb| (skb, false)),
        };
        self.count_drops(&drops[before..]);
        if let Some((skb, _)) = &next {
            self.sent_packets += 1;
            self.sent_bytes += skb.bytes as u64;
        }
        next
    }

    /// Length of the packet that `dequeue` would give. A queue without a peek hands it over, and it is held here.
    fn peek_bytes(&mut self, now: Time, drops: &mut Vec<(Skb, DropReason)>) -> Option<u32> {
        if let Some((skb, _)) = self.held.front() {
            return Some(skb.bytes);
        }
        match &self.discipline {
            Discipline::Fifo(fifo) => fifo.peek().map(|skb| skb.bytes),
            Discipline::Red(red) => red.peek().map(|skb| skb.bytes),
            _ => {
                let next = self.dequeue(now, drops)?;
                self.held.push_back(next);
                Some(next.0.bytes)
            }
        }
    }

    /// The device did not take a packet that `dequeue` gave: it goes behind others of that kind, and before all that wait.
    pub fn requeue(&mut self, skb: Skb) {
        self.held.push_back((skb, false));
        self.requeues += 1;
    }

    /// True if `dequeue` gives a packet that it gave before.
    pub fn has_requeued(&self) -> bool {
        !self.held.is_empty()
    }

    /// When to call `dequeue` even if nothing was offered and the device did not wake its queue.
    pub fn next_at(&self) -> Option<Time> {
        match &self.discipline {
            Discipline::Tbf(tbf, _) => tbf.next_at(),
            _ => None,
        }
    }

    /// Counters that all disciplines have.
    pub fn statistics(&self) -> QdiscStatistics {
        let overlimits = match &self.discipline {
            Discipline::Red(red) => red.statistics().marked + red.statistics().early,
            Discipline::Tbf(tbf, _) => tbf.overlimits(),
            _ => 0,
        };
        QdiscStatistics {
            sent_bytes: self.sent_bytes,
            sent_packets: self.sent_packets,
            dropped: self.dropped.iter().sum(),
            overlimits,
            requeues: self.requeues,
        }
    }

    /// Packets dropped by reason, by the disciplines below too.
    pub fn dropped_for(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        DropReason::ALL.into_iter().zip(self.dropped)
    }

    /// Counters that only this discipline has.
    pub fn own_statistics(&self, now: Time) -> OwnStatistics {
        match &self.discipline {
            Discipline::Red(red) => OwnStatistics::Red(*red.statistics()),
            Discipline::Codel(codel) => OwnStatistics::Codel(codel.readout(now)),
            Discipline::FqCodel(fq_codel) => OwnStatistics::FqCodel(fq_codel.statistics()),
            _ => OwnStatistics::None,
        }
    }

    /// The discipline below this one.
    pub fn child(&self) -> Option<&Qdisc> {
        match &self.discipline {
            Discipline::Tbf(_, child) => Some(child),
            _ => None,
        }
    }

    /// Bytes waiting.
    pub fn backlog_bytes(&self) -> u64 {
        let held: u64 = self.held.iter().map(|(skb, _)| skb.bytes as u64).sum();
        held + match &self.discipline {
            Discipline::Noqueue => 0,
            Discipline::Fifo(fifo) => fifo.backlog_bytes(),
            Discipline::Red(red) => red.backlog_bytes(),
            Discipline::Tbf(_, child) => child.backlog_bytes(),
            Discipline::Codel(codel) => codel.backlog_bytes(),
            Discipline::FqCodel(fq_codel) => fq_codel.backlog_bytes(),
            Discipline::Sfq(sfq) => sfq.backlog_bytes(),
        }
    }

    /// The packets that wait, in no order: for books that are closed.
    pub fn waiting(&self, now: Time) -> Vec<Skb> {
        let held = self.held.iter().map(|&(skb, _)| skb);
        if let Some(child) = self.child() {
            return held.chain(child.waiting(now)).collect();
        }
        // Those that the discipline would drop wait, too.
        let (mut rest, mut drops) = (self.clone(), Vec::new());
        let taken: Vec<Skb> =
            std::iter::from_fn(|| rest.dequeue(now, &mut drops)).map(|(skb, _)| skb).collect();
        taken.into_iter().chain(drops.into_iter().map(|(skb, _)| skb)).collect()
    }

    /// Packets waiting.
    pub fn qlen(&self) -> usize {
        let held = self.held.len();
        held + match &self.discipline {
            Discipline::Noqueue => 0,
            Discipline::Fifo(fifo) => fifo.qlen(),
            Discipline::Red(red) => red.qlen(),
            Discipline::Tbf(_, child) => child.qlen(),
            Discipline::Codel(codel) => codel.qlen(),
            Discipline::FqCodel(fq_codel) => fq_codel.qlen(),
            Discipline::Sfq(sfq) => sfq.qlen(),
        }
    }
}

// What a queueing discipline knows about a packet, and what happens to it.

/// A packet in a queueing discipline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skb {
    /// The caller's handle; never interpreted here.
    pub packet: u32,
    /// Length as the kernel counts it (`qdisc_pkt_len`): the Ethernet frame without preamble, gap and FCS.
    pub bytes: u32,
    /// Hash over addresses and ports (`skb_get_hash`), equal for all packets of a flow. All 32 bits must be well mixed.
    pub flow_hash: u32,
    /// True if the IP header says ECT(0), ECT(1) or CE, so that it can be marked (`INET_ECN_set_ce`).
    pub ect: bool,
    /// When it was queued; set by the discipline.
    pub enqueued: Time,
}

impl Skb {
    /// A packet that is to be queued.
    pub fn new(packet: u32, bytes: u32, flow_hash: u32, ect: bool) -> Self {
        Skb { packet, bytes, flow_hash, ect, enqueued: Time::ZERO }
    }

    /// Memory that the kernel charges for it, bytes (`skb->truesize`): `struct sk_buff`, and the buffer with its headroom
    /// and `struct skb_shared_info` in a power of two from `kmalloc` (net/core/skbuff.c, `__alloc_skb`).
    ///
    /// Assumption: the packet is linear. How much is charged for page fragments depends on the driver.
    pub fn truesize(&self) -> u32 {
        const SK_BUFF: u32 = 256;
        const HEADROOM: u32 = 64;
        const SHARED_INFO: u32 = 320;
        SK_BUFF + (self.bytes + HEADROOM + SHARED_INFO).next_power_of_two()
    }
}

/// The fate of an offered packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enqueue {
    /// It is queued.
    Queued {
        /// True if it was marked CE.
        marked: bool,
    },
    /// It was dropped.
    Dropped(DropReason),
}

/// Why a queueing discipline dropped a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DropReason {
    /// The queue is at its limit of packets or bytes.
    Overlimit,
    /// The queue is at its limit of memory.
    Memory,
    /// RED, between its thresholds.
    EarlyProbability,
    /// RED, above its upper threshold.
    EarlyForced,
    /// CoDel, at the head of the queue.
    Sojourn,
    /// SFQ: the flow is at its limit of packets.
    FlowLimit,
    /// SFQ: no slot is free for another flow.
    Flows,
    /// TBF: the packet is larger than the bucket.
    TooLarge,
    /// There is no queue.
    NoQueue,
}

impl DropReason {
    /// All of them, in order.
    pub const ALL: [DropReason; 9] = [
        DropReason::Overlimit,
        DropReason::Memory,
        DropReason::EarlyProbability,
        DropReason::EarlyForced,
        DropReason::Sojourn,
        DropReason::FlowLimit,
        DropReason::Flows,
        DropReason::TooLarge,
        DropReason::NoQueue,
    ];
}

// The packets of many queues in one slab: once the slab has reached its full size, queues grow and shrink without allocating.

/// No packet, no queue.
pub(super) const NONE: u32 = u32::MAX;

#[derive(Clone, Debug)]
struct Node {
    skb: Skb,
    next: u32,
    previous: u32,
}

/// A queue of packets in a slab.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    head: u32,
    tail: u32,
}

impl List {
    pub const EMPTY: List = List { head: NONE, tail: NONE };

    pub fn is_empty(&self) -> bool {
        self.head == NONE
    }
}

/// The packets of all queues.
#[derive(Clone, Debug)]
pub(super) struct Slab {
    nodes: Vec<Node>,
    free: u32,
}

impl Slab {
    pub fn new() -> Self {
        Slab { nodes: Vec::new(), free: NONE }
    }

    pub fn push_back(&mut self, list: &mut List, skb: Skb) {
        let node = Node { skb, next: NONE, previous: list.tail };
        let index = match self.free {
            NONE => {
                self.nodes.push(node);
                self.nodes.len() as u32 - 1
            }
            index => {
                self.free = self.nodes[index as usize].next;
                self.nodes[index as usize] = node;
                index
            }
        };
        match list.tail {
            NONE => list.head = index,
            tail => self.nodes[tail as usize].next = index,
        }
        list.tail = index;
    }

    pub fn pop_front(&mut self, list: &mut List) -> Option<Skb> {
        let index = list.head;
        let Node { skb, next, .. } = *self.nodes.get(index as usize)?;
        list.head = next;
        match next {
            NONE => list.tail = NONE,
            next => self.nodes[next as usize].previous = NONE,
        }
        self.release(index);
        Some(skb)
    }

    pub fn pop_back(&mut self, list: &mut List) -> Option<Skb> {
        let index = list.tail;
        let Node { skb, previous, .. } = *self.nodes.get(index as usize)?;
        list.tail = previous;
        match previous {
            NONE => list.head = NONE,
            previous => self.nodes[previous as usize].next = NONE,
        }
        self.release(index);
        Some(skb)
    }

    fn release(&mut self, index: u32) {
        self.nodes[index as usize].next = self.free;
        self.free = index;
    }
}

// `pfifo` and `bfifo`: first in, first out, with a limit in packets or bytes; the packet that finds it full is dropped.
//
// Source: Linux net/sched/sch_fifo.c.

crate::parameters! {
    /// First in, first out, with a limit in packets.
    pub struct PfifoParameters {
        /// Most packets that wait.
        limit: u32 = 1000, in LIMIT_PACKETS, source "Linux: txqueuelen, of Ethernet 1000";
    }
}

crate::parameters! {
    /// First in, first out, with a limit in bytes.
    pub struct BfifoParameters {
        /// Most bytes that wait; null: 1000 times the device's MTU and 14 B.
        limit: Bytes, or null, in LIMIT_BYTES,
            source "Linux net/sched/sch_fifo.c: txqueuelen times psched_mtu";
    }
}

/// The limit of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FifoLimit {
    /// `pfifo`.
    Packets(u32),
    /// `bfifo`; a packet that would bring the queue above this is dropped.
    Bytes(u32),
}

/// State.
#[derive(Clone, Debug)]
pub struct Fifo {
    limit: FifoLimit,
    packets: VecDeque<Skb>,
    backlog_bytes: u64,
}

impl Fifo {
    /// An empty queue.
    pub fn new(limit: FifoLimit) -> Self {
        Fifo { limit, packets: VecDeque::new(), backlog_bytes: 0 }
    }

    /// Puts a packet at the end, or drops it.
    pub fn enqueue(&mut self, mut skb: Skb, now: Time) -> Enqueue {
        let fits = match self.limit {
            FifoLimit::Packets(limit) => self.packets.len() < limit as usize,
            FifoLimit::Bytes(limit) => self.backlog_bytes + skb.bytes as u64 <= limit as u64,
        };
        if !fits {
            return Enqueue::Dropped(DropReason::Overlimit);
        }
        skb.enqueued = now;
        self.backlog_bytes += skb.bytes as u64;
        self.packets.push_back(skb);
        Enqueue::Queued { marked: false }
    }

    /// Takes the packet at the head.
    pub fn dequeue(&mut self) -> Option<Skb> {
        let skb = self.packets.pop_front()?;
        self.backlog_bytes -= skb.bytes as u64;
        Some(skb)
    }

    /// The packet at the head.
    pub fn peek(&self) -> Option<&Skb> {
        self.packets.front()
    }

    /// Bytes waiting.
    pub fn backlog_bytes(&self) -> u64 {
        self.backlog_bytes
    }

    /// Packets waiting.
    pub fn qlen(&self) -> usize {
        self.packets.len()
    }
}

// Token bucket filter: a rate and a burst; packets wait in a child discipline until there are tokens.
//
// Source: Linux net/sched/sch_tbf.c and `psched_l2t_ns` of include/net/sch_generic.h: tokens are nanoseconds, and a
// packet's length is converted by a 32-bit multiplication and a shift.
//
// Leaves out: `peakrate`, `overhead`, `mpu`, and the segmentation of GSO packets larger than the bucket.

crate::parameters! {
    /// A rate and a burst: packets wait in another discipline until there are tokens for them.
    pub struct TbfParameters {
        /// Rate that is not exceeded.
        rate: Rate, in Rate(8)..=Rate(100_000_000_000_000);
        /// Size of the bucket: what may be sent at once. Larger packets are dropped.
        burst: Bytes, in LIMIT_BYTES;
        /// Most bytes that wait, where there is no child.
        limit: Option<Bytes> = None, in LIMIT_BYTES, source "assumption: child is set";
    }
}

/// Nanoseconds of a packet at a rate: bytes * `multiplier` >> `shift`.
#[derive(Clone, Copy, Debug)]
struct Pace {
    multiplier: u32,
    shift: u32,
}

impl Pace {
    /// Uses as many bits as the multiplier holds.
    fn new(bytes_per_second: u64) -> Self {
        let mut factor = 1_000_000_000u64;
        let mut shift = 0;
        loop {
            let multiplier = (factor / bytes_per_second) as u32;
            if multiplier >> 31 != 0 || factor >> 63 != 0 {
                return Pace { multiplier, shift };
            }
            factor <<= 1;
            shift += 1;
        }
    }

    fn ns(self, bytes: u32) -> i64 {
        ((bytes as u64 * self.multiplier as u64) >> self.shift) as i64
    }
}

/// State.
#[derive(Clone, Debug)]
pub struct Tbf {
    pace: Pace,
    burst_bytes: u32,
    /// The bucket's size, ns.
    depth: i64,
    /// Tokens at `checked`, ns.
    tokens: i64,
    checked: i64,
    /// When there are tokens for the packet at the head.
    watchdog: Option<Time>,
    overlimits: u64,
}

impl Tbf {
    /// A full bucket.
    pub fn new(parameters: &TbfParameters) -> Self {
        let pace = Pace::new((parameters.rate.0 / 8).max(1));
        let burst_bytes = parameters.burst.0 as u32;
        let depth = pace.ns(burst_bytes);
        Tbf { pace, burst_bytes, depth, tokens: depth, checked: 0, watchdog: None, overlimits: 0 }
    }

    /// How often the packet at the head had to wait for tokens (`overlimits`).
    pub fn overlimits(&self) -> u64 {
        self.overlimits
    }

    /// When there are tokens for the packet at the head, if it waits for them.
    pub fn next_at(&self) -> Option<Time> {
        self.watchdog
    }

    /// True if a packet of this size ever gets enough tokens.
    pub fn admits(&self, bytes: u32) -> bool {
        bytes <= self.burst_bytes
    }

    /// True if the packet at the head, `head` bytes long, may go; it then takes its tokens. None: there is no packet.
    pub fn lets_go(&mut self, now: Time, head: Option<u32>) -> bool {
        self.watchdog = None;
        let Some(bytes) = head else { return false };
        let now_ns = (now.ps() / 1000) as i64;
        let gained = (now_ns - self.checked).min(self.depth);
        let tokens = (gained + self.tokens).min(self.depth) - self.pace.ns(bytes);
        if tokens < 0 {
            self.watchdog = Some(Time::from_ns((now_ns - tokens) as u64));
            self.overlimits += 1;
            return false;
        }
        self.checked = now_ns;
        self.tokens = tokens;
        true
    }
}
