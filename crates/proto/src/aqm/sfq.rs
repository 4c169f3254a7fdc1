//! Stochastic fairness queueing: one queue per flow, served by deficit round robin; when too many packets wait, the longest
//! queue drops its last packet.
//!
//! Sources: McKenney, "Stochastic Fairness Queueing", INFOCOM 1990; Linux net/sched/sch_sfq.c (6.13 and later, where
//! the allotment counts bytes and no longer units of eight).
//!
//! Leaves out: perturbation (`perturb` is 0, the default: the hash stays the same), `headdrop` and `redflowlimit`.

use super::qdisc::{DropReason, Enqueue, Skb};
use super::qdisc::{List, Slab, NONE};
use super::{LIMIT_PACKETS, QUANTUM_BYTES};
use crate::units::{Bytes, Time};

crate::parameters! {
    /// A queue for each flow, served in turn; when full, the longest queue drops its last packet.
    pub struct SfqParameters {
        /// Most packets that wait.
        limit: u32 = 127, in LIMIT_PACKETS, source SOURCE;
        /// Most packets of a flow that wait.
        depth: u32 = 127, in 1..=127, source SOURCE;
        /// Most flows that wait.
        flows: u32 = 128, in 1..=65_408, source SOURCE;
        /// Values of the hash, a power of two.
        divisor: u32 = 1024, in 1..=65_536, source SOURCE;
        /// Bytes that a flow sends in a round; null: the device's MTU and 14 B of Ethernet header.
        quantum: Bytes, or null, in QUANTUM_BYTES, source SOURCE;
    }
}

const SOURCE: &str = "Linux net/sched/sch_sfq.c";

/// A slot: a flow with packets, or room for one.
#[derive(Clone, Debug)]
struct Slot {
    packets: List,
    qlen: u32,
    /// The next slot in the round.
    next: u32,
    /// Neighbours in the list of slots with equally many packets.
    deeper: u32,
    shallower: u32,
    /// Hash value of the flow.
    hash: u32,
    allot: i64,
}

/// State of the discipline.
#[derive(Clone, Debug)]
pub struct Sfq {
    parameters: SfqParameters,
    slots: Vec<Slot>,
    /// The slot of each hash value.
    of_hash: Vec<u32>,
    /// For each number of packets: the slot that reached it last, which heads the list of such slots.
    by_depth: Vec<u32>,
    /// Length of the longest queue, packets.
    deepest: u32,
    /// The slot served last; the one after it is served next.
    tail: u32,
    slab: Slab,
    backlog_bytes: u64,
    qlen: u32,
}

impl Sfq {
    /// An empty discipline. Limits are capped as in the kernel: flows by the number of hash values and by the
    /// limit of packets, packets by what all flows may hold.
    pub fn new(parameters: &SfqParameters) -> Self {
        let mut p = *parameters;
        p.flows = p.flows.min(p.divisor);
        p.limit = p.limit.min(p.depth * p.flows);
        p.flows = p.flows.min(p.limit);
        let empty = Slot {
            packets: List::EMPTY,
            qlen: 0,
            next: NONE,
            deeper: NONE,
            shallower: NONE,
            hash: 0,
            allot: 0,
        };
        let mut sfq = Sfq {
            parameters: p,
            slots: vec![empty; p.flows as usize],
            of_hash: vec![NONE; p.divisor as usize],
            by_depth: vec![NONE; p.depth as usize + 1],
            deepest: 0,
            tail: NONE,
            slab: Slab::new(),
            backlog_bytes: 0,
            qlen: 0,
        };
        for slot in 0..p.flows {
            sfq.link(slot);
        }
        sfq
    }

    /// Puts a slot at the head of the list for its number of packets.
    fn link(&mut self, index: u32) {
        let depth = self.slots[index as usize].qlen as usize;
        let first = std::mem::replace(&mut self.by_depth[depth], index);
        self.slots[index as usize].deeper = NONE;
        self.slots[index as usize].shallower = first;
        if first != NONE {
            self.slots[first as usize].deeper = index;
        }
    }

    fn unlink(&mut self, index: u32) {
        let Slot { qlen, deeper, shallower, .. } = self.slots[index as usize];
        match deeper {
            NONE => self.by_depth[qlen as usize] = shallower,
            deeper => self.slots[deeper as usize].shallower = shallower,
        }
        if shallower != NONE {
            self.slots[shallower as usize].deeper = deeper;
        }
    }

    fn grow(&mut self, index: u32) {
        self.unlink(index);
        self.slots[index as usize].qlen += 1;
        self.deepest = self.deepest.max(self.slots[index as usize].qlen);
        self.link(index);
    }

    fn shrink(&mut self, index: u32) {
        self.unlink(index);
        let slot = &mut self.slots[index as usize];
        if slot.qlen == self.deepest && self.by_depth[slot.qlen as usize] == NONE {
            self.deepest -= 1;
        }
        slot.qlen -= 1;
        self.link(index);
    }

    /// Queues a packet; above the limit, the longest flow drops its last packet.
    pub fn enqueue(&mut self, mut skb: Skb, now: Time, drops: &mut Vec<(Skb, DropReason)>) -> Enqueue {
        let hash = skb.flow_hash & (self.parameters.divisor - 1);
        let mut index = self.of_hash[hash as usize];
        if index == NONE {
            index = self.by_depth[0];
            if index == NONE {
                return Enqueue::Dropped(DropReason::Flows);
            }
            self.of_hash[hash as usize] = index;
            self.slots[index as usize].hash = hash;
        } else if self.slots[index as usize].qlen >= self.parameters.depth {
            return Enqueue::Dropped(DropReason::FlowLimit);
        }
        skb.enqueued = now;
        self.slab.push_back(&mut self.slots[index as usize].packets, skb);
        self.backlog_bytes += skb.bytes as u64;
        self.qlen += 1;
        self.grow(index);
        if self.slots[index as usize].qlen == 1 {
            self.join(index);
        }
        if self.qlen <= self.parameters.limit {
            return Enqueue::Queued { marked: false };
        }
        let (victim, of) = self.drop_longest();
        if of == index {
            return Enqueue::Dropped(DropReason::Overlimit);
        }
        drops.push((victim, DropReason::Overlimit));
        Enqueue::Queued { marked: false }
    }

    /// Adds a flow that was empty to the end of the round.
    fn join(&mut self, index: u32) {
        match self.tail {
            NONE => self.slots[index as usize].next = index,
            tail => {
                self.slots[index as usize].next = self.slots[tail as usize].next;
                self.slots[tail as usize].next = index;
            }
        }
        self.tail = index;
        self.slots[index as usize].allot = self.parameters.quantum.0 as i64;
    }

    /// Removes the flow after the tail, which has become empty.
    fn leave(&mut self, index: u32) {
        let next = self.slots[index as usize].next;
        self.of_hash[self.slots[index as usize].hash as usize] = NONE;
        match next == index {
            true => self.tail = NONE,
            false => self.slots[self.tail as usize].next = next,
        }
    }

    /// Takes the last packet of the longest queue. That queue has at least two packets: there are never more
    /// flows than the limit of packets.
    fn drop_longest(&mut self) -> (Skb, u32) {
        let index = self.by_depth[self.deepest as usize];
        let victim = self.slab.pop_back(&mut self.slots[index as usize].packets).expect("it has packets");
        self.taken(index, &victim);
        (victim, index)
    }

    fn taken(&mut self, index: u32, skb: &Skb) {
        self.shrink(index);
        self.qlen -= 1;
        self.backlog_bytes -= skb.bytes as u64;
    }

    /// The next packet.
    pub fn dequeue(&mut self) -> Option<Skb> {
        let index = loop {
            let index = self.slots.get(self.tail as usize)?.next;
            let slot = &mut self.slots[index as usize];
            if slot.allot > 0 {
                break index;
            }
            slot.allot += self.parameters.quantum.0 as i64;
            self.tail = index;
        };
        let skb = self.slab.pop_front(&mut self.slots[index as usize].packets).expect("it has packets");
        self.taken(index, &skb);
        match self.slots[index as usize].qlen {
            0 => self.leave(index),
            _ => self.slots[index as usize].allot -= skb.bytes as i64,
        }
        Some(skb)
    }

    /// Bytes waiting.
    pub fn backlog_bytes(&self) -> u64 {
        self.backlog_bytes
    }

    /// Packets waiting.
    pub fn qlen(&self) -> usize {
        self.qlen as usize
    }
}
