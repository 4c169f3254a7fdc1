//! FlowQueue CoDel: one queue per flow, each with CoDel, served by deficit round robin; flows that were empty go first.
//!
//! Sources: RFC 8290; Linux net/sched/sch_fq_codel.c. CoDel's exemption of a backlog of one MTU looks at the backlog of
//! the whole discipline, not of the flow: packets of a sparse flow can be dropped while another flow has the backlog.
//!
//! Leaves out: filters of `tc`, `ce_threshold`, and that a packet that finds the discipline empty and the device ready
//! may bypass it (`TCQ_F_CAN_BYPASS`): here it passes through and sees no wait.

use super::codel::{CodelParameters, CodelState, CodelStatistics, Law, Source};
use super::lists::{List, Slab, NONE};
use super::skb::{DropReason, Enqueue, Skb};
use super::{PACKETS, QUANTUM};
use crate::units::{Bytes, Time};

crate::parameters! {
    /// A queue for each flow, served in turn, with CoDel in each.
    pub struct FqCodelParameters {
        /// Most packets that wait.
        limit: u32 = 10_240, in PACKETS, source SOURCE;
        /// Queues that flows are hashed to.
        flows: u32 = 1024, in 1..=65_536, source SOURCE;
        /// Bytes that a flow sends in a round; null: the device's MTU and 14 B of Ethernet header.
        quantum: Bytes, or null, in QUANTUM, source SOURCE;
        /// Mark ECT packets instead of dropping them.
        ecn: bool = true, source SOURCE;
        /// Most memory that waiting packets take.
        memory_limit: Bytes = Bytes(32 << 20), in Bytes(1)..=Bytes(1 << 31), source SOURCE;
        /// Most packets that are dropped at once when it is full.
        drop_batch: u32 = 64, in PACKETS, source SOURCE;
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
    /// Whether it is in one of the lists of flows, and the flow after it there.
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

/// What is queued, over all flows.
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

struct Head<'a> {
    backlog: &'a mut Backlog,
    packets: &'a mut List,
    flow: u32,
    drops: &'a mut Vec<(Skb, DropReason)>,
}

impl Source for Head<'_> {
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
                Head { backlog: &mut self.backlog, packets: &mut flow.packets, flow: index, drops };
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
