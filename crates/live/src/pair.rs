//! Queue pairs of a host, each an end of a flow: who the other end is, and what is received.

use std::net::Ipv4Addr;

use tailback_proto::units::Time;
use tailback_proto::wire::MacAddress;

use crate::counted::Sends;
use crate::pattern::Pattern;
use crate::plan::{FlowPlan, LivePlan, RemotePlan, Verb};

/// Number of a host's first queue pair.
pub const FIRST_QPN: u32 = 0x100;
/// Where the memory of the first queue pair begins.
const MEMORY: u64 = 0x7f00_0000_0000;
/// Addresses of a queue pair: another program writes where it likes in these.
pub(crate) const ADDRESSES: u64 = 1 << 32;

/// Where the memory of a queue pair begins.
pub fn memory_of(qpn: u32) -> u64 {
    MEMORY + (qpn - FIRST_QPN) as u64 * ADDRESSES
}

/// A queue pair and the flow that it is an end of.
#[derive(Debug)]
pub(crate) struct Pair {
    pub flow: usize,
    pub plan: FlowPlan,
    pub qpn: u32,
    pub peer_mac: MacAddress,
    pub peer_ip: Ipv4Addr,
    /// Where it writes to, or reads from, and the key of that.
    pub peer_memory: (u64, u32),
    /// None: the other end asks.
    pub sends: Option<Sends>,
    pub delivered: u64,
    messages: u64,
    buffer: Vec<u8>,
}

impl Pair {
    pub fn new(flow: usize, plan: &FlowPlan, qpn: u32, writes: bool, peer: &RemotePlan) -> Pair {
        let mut pair = Pair {
            flow,
            plan: plan.clone(),
            qpn,
            peer_mac: MacAddress(peer.mac),
            peer_ip: peer.ip,
            peer_memory: (peer.address, peer.r_key),
            sends: writes.then(Sends::default),
            delivered: 0,
            messages: 0,
            buffer: Vec::new(),
        };
        if pair.is_sink() && plan.remote.is_none() {
            pair.buffer = vec![0; plan.message as usize];
        }
        pair
    }

    /// True if payload comes here: it is written or sent to, or reads.
    pub fn is_sink(&self) -> bool {
        self.sends.is_some() == (self.plan.verb == Verb::Read)
    }

    /// When it starts, if it has not.
    pub fn starts_at(&self) -> Option<Time> {
        self.sends.filter(|sends| !sends.started).map(|_| Time(self.plan.start_ps))
    }

    /// Puts what a packet brings to where it goes; whether there is such a place.
    pub fn place(&mut self, address: u64, payload: &[u8]) -> bool {
        if self.plan.remote.is_none() {
            let offset = address.wrapping_sub(memory_of(self.qpn)) as usize;
            let Some(room) = self.buffer.get_mut(offset..offset + payload.len()) else { return false };
            room.copy_from_slice(payload);
        }
        self.delivered += payload.len() as u64;
        true
    }

    /// A message has arrived. Returns whether it is what was sent; `None` if that is not known here.
    pub fn complete(&mut self) -> Option<bool> {
        // Who reads gets what the other's memory has, each time the same.
        let read = self.peer_memory.0 >> 32;
        let number = if self.plan.verb == Verb::Read { read } else { self.messages };
        let pattern = Pattern::of(self.flow as u32, number);
        self.messages += 1;
        self.plan.remote.is_none().then(|| pattern.is(&self.buffer))
    }
}

/// The ends of flows at a host: flow, whether it is the one that writes, number of its queue pair, and the other end.
pub(crate) fn ends_at(plan: &LivePlan, host: usize) -> Vec<(usize, bool, u32, RemotePlan)> {
    let mut found = Vec::new();
    for (flow, (f, qpns)) in plan.flows.iter().zip(numbers(plan)).enumerate() {
        for end in (0..2).filter(|&end| [f.src, f.dst][end] == host) {
            let (peer, qpn) = (&plan.hosts[[f.dst, f.src][end]], qpns[1 - end]);
            let of_plan = || RemotePlan {
                mac: peer.mac,
                ip: peer.ip,
                qpn,
                psn: first_psn(plan.seed, flow, 1 - end),
                own_psn: first_psn(plan.seed, flow, end),
                r_key: qpn,
                address: memory_of(qpn),
            };
            found.push((flow, end == 0, qpns[end], f.remote.clone().unwrap_or_else(of_plan)));
        }
    }
    found
}

/// Numbers of the queue pairs of each flow, at its source and at its destination: the same wherever they are worked out.
fn numbers(plan: &LivePlan) -> Vec<[u32; 2]> {
    let mut next = vec![FIRST_QPN; plan.hosts.len()];
    let mut take = |host: usize| {
        next[host] += 1;
        next[host] - 1
    };
    plan.flows.iter().map(|flow| [take(flow.src), take(flow.dst)]).collect()
}

/// First PSN of what an end of a flow sends: spread, so that packets of another run are none of this one.
fn first_psn(seed: u64, flow: usize, end: usize) -> u32 {
    (Pattern::of(flow as u32, seed.wrapping_mul(2).wrapping_add(end as u64)).number() & 0xff_ffff) as u32
}
