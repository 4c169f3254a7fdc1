//! Equally short ways and who takes which, where it is not a hash that decides.
//!
//! Sources: Dixit et al., "On the impact of packet spraying in data center networks", INFOCOM 2013 (a random port for each
//! packet); Vanini et al., "Let it flow", NSDI 2017 (a random port for each flowlet); Alizadeh et al., "CONGA", SIGCOMM
//! 2014, section 3.4 (the flowlet table: entries by a hash, which connections may share); NVIDIA, "Adaptive routing" of
//! Spectrum switches (the egress queue with the lowest load, of packets that NICs allow it for).
//!
//! What is divided is data. ACKs, NAKs, CNPs and probes keep to the hash, and so does TCP except for flowlets, as on switches
//! that route adaptively only what a NIC says may come out of order.
//!
//! Leaves out: load further away than the switch's own queues, weights, and packets that carry what the sender wants.

use rand_core::Rng;
use tailback_proto::units::Time;

use super::packet::{Kind, Packet};
use crate::engine::{mix, stream, Stream};
use crate::plan::LoadBalancing;

/// Flowlets that a switch tells apart: a power of two. Assumption: CONGA's chip has 64K, more than matter here.
const FLOWLETS: usize = 4096;

/// How a switch divides packets.
#[derive(Debug)]
pub(crate) struct Balancer {
    pub how: LoadBalancing,
    gap: Time,
    stream: Stream,
    /// By hash of the connection; empty where there are no flowlets.
    flowlets: Vec<Flowlet>,
}

#[derive(Clone, Copy, Debug)]
struct Flowlet {
    /// When a packet of it came last.
    at: Time,
    /// The port that it takes; `u32::MAX`: none yet.
    port: u32,
}

const SILENT: Flowlet = Flowlet { at: Time::ZERO, port: u32::MAX };

impl Balancer {
    pub fn new(how: LoadBalancing, gap: Time, seed: u64, switch: usize) -> Balancer {
        let flowlets = if how == LoadBalancing::Flowlet { vec![SILENT; FLOWLETS] } else { Vec::new() };
        Balancer { how, gap, stream: stream(seed, "load balancing", switch as u64), flowlets }
    }

    /// Whether it decides about packets of this kind.
    pub fn divides(&self, kind: Kind) -> bool {
        match self.how {
            LoadBalancing::Ecmp => false,
            LoadBalancing::Flowlet => kind.is_data(),
            LoadBalancing::Spray | LoadBalancing::Adaptive => kind == Kind::Data,
        }
    }

    /// A number below `count`, by chance.
    pub fn pick(&mut self, count: usize) -> usize {
        ((self.stream.next_u32() as u64 * count as u64) >> 32) as usize
    }

    /// Ways have changed: flowlets begin anew.
    pub fn forget(&mut self) {
        self.flowlets.fill(SILENT);
    }

    /// The port of a packet's flowlet, one of these.
    pub fn of_flowlet(&mut self, now: Time, packet: &Packet, ports: &[u32]) -> u32 {
        let hash = mix((packet.qp as u64) << 32 | packet.dst as u64);
        let at = hash as usize % FLOWLETS;
        let Flowlet { at: last, mut port } = self.flowlets[at];
        // Another connection's port may be none of these.
        if now - last > self.gap || !ports.contains(&port) {
            port = ports[self.pick(ports.len())];
        }
        self.flowlets[at] = Flowlet { at: now, port };
        port
    }
}
