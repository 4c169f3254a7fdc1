//! Network namespaces joined by veth pairs, in a plan.

use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use tailback_proto::flow_control::veth_queue::MAX_TX_USECS;
use tailback_proto::units::{Bytes, Time};

pub use crate::linux::veth::settings::{ConsumerParameters, Kernel, Polling, VethBql, VethSettings};

use super::traffic::{traffic, ENDS, INSTANTS};
use super::{impossible, in_bounds, PlanError, QdiscPlan};

/// Namespaces of one machine, the veth pairs between them, and what is sent over these.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VethNetworkPlan {
    /// Network namespaces.
    pub namespaces: Vec<NamespacePlan>,
    /// veth pairs.
    pub veths: Vec<VethPlan>,
    /// Senders of UDP datagrams.
    pub datagrams: Vec<DatagramsPlan>,
    /// Pings.
    pub pings: Vec<PingsPlan>,
    /// Senders of XDP frames.
    pub frames: Vec<FramesPlan>,
}

/// A network namespace, and what receiving costs in it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamespacePlan {
    /// Unique name.
    pub name: String,
    /// What receiving costs in it.
    pub costs: ConsumerParameters,
}

/// A veth pair. Both ends are alike.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VethPlan {
    /// Namespace of one end.
    pub a: String,
    /// Namespace of the other end.
    pub b: String,
    /// Its settings.
    pub veth: VethSettings,
    /// Largest frame of its devices: the MTU and the Ethernet header.
    pub frame_bytes: u32,
    /// The queueing discipline of both ends.
    pub qdisc: QdiscPlan,
}

traffic! {
    /// UDP datagrams through one socket, as fast as a thread can call sendto, or at a rate.
    pub struct DatagramsPlan {
        /// A call of sendto, down to the device.
        send: Time = Time::from_ns(1500), in Time(1)..=Time::from_ms(10_000),
            source "assumption: about 0.7 million calls a second of one core, of datagrams of 1400 B";
        /// Time between two calls; 0us: as fast as it can.
        interval: Time = Time::ZERO, in INSTANTS, source "assumption: a flood";
        /// Memory that the socket's packets may take until the receiver has them, as the kernel counts it: twice what
        /// setsockopt is given.
        sndbuf: Bytes = Bytes(212_992), in Bytes(1)..=Bytes(1 << 40),
            source "Linux net/core/sock.c: sysctl net.core.wmem_default";
        /// A sender that finds no room sleeps until half of it is free; false: it tries again at once (MSG_DONTWAIT in a loop).
        blocking: bool = true, source "POSIX: a socket blocks";
    }
    worked out {
        /// Sending namespace.
        src: String;
        /// Receiving namespace.
        dst: String;
        /// Ethernet frame without FCS.
        frame_bytes: u32;
    }
}

traffic! {
    /// ICMP echo requests at regular intervals, and the round trips of their answers.
    pub struct PingsPlan {
        /// Time between two requests.
        interval: Time = Time::from_ms(200), in ENDS, source format!("{TEST}: ping -i 0.2");
        /// Each request is sent up to this much later, drawn uniformly; less than interval.
        spread: Time = Time::from_ms(4), in INSTANTS,
            source "iputils: ping sleeps in recvmsg with SO_RCVTIMEO, which counts in jiffies; assumption: HZ is 250";
    }
    worked out {
        /// Who asks.
        src: String;
        /// Who answers.
        dst: String;
        /// Ethernet frame without FCS.
        frame_bytes: u32;
    }
}

traffic! {
    /// XDP frames that are redirected to the sender's device in batches: past its qdisc and its limit.
    pub struct FramesPlan {
        /// Frames of a batch.
        batch: u32 = 64, in 1..=4096, source "v7 of the series: batches of 16 to 64";
        /// Time between two batches.
        interval: Time, in ENDS;
    }
    worked out {
        /// Namespace of the device that they are redirected to.
        src: String;
        /// Receiving namespace.
        dst: String;
        /// Ethernet frame without FCS.
        frame_bytes: u32;
    }
}

const TEST: &str = "the authors' veth_bql_test.sh";
/// An Ethernet frame without FCS: header and IP header at least, at most what a packet's length can say.
const FRAME_BYTES: std::ops::RangeInclusive<u32> = 34..=65_535;
/// Longest time of a piece of work: the engine's horizon is far beyond.
const MAX_WORK_PS: u64 = 100_000_000_000_000;

impl VethNetworkPlan {
    pub(super) fn check(&self) -> Result<(), PlanError> {
        let mut number: HashMap<&str, usize> = HashMap::new();
        for (index, space) in self.namespaces.iter().enumerate() {
            let place = format!("veth.namespaces[{index}]");
            if number.insert(&space.name, index).is_some() {
                return Err(impossible(place, format!("two are named {}", space.name)));
            }
            in_bounds(&format!("{place}.costs"), &space.costs)?;
            let ConsumerParameters { rules, rule, echo, .. } = space.costs;
            if (rules as u64 * rule.0) as f64 * echo > MAX_WORK_PS as f64 {
                return Err(impossible(place, "a packet takes longer than 100 s"));
            }
        }
        for (index, veth) in self.veths.iter().enumerate() {
            let place = format!("veth.veths[{index}]");
            if veth.a == veth.b || !number.contains_key(&*veth.a) || !number.contains_key(&*veth.b) {
                return Err(impossible(place, "its ends are not two namespaces"));
            }
            in_bounds(&format!("{place}.veth"), &veth.veth)?;
            if veth.veth.tx_usecs > MAX_TX_USECS {
                return Err(impossible(place, "tx_usecs is above half the watchdog, 8 s (ERANGE)"));
            }
            veth.qdisc.check(&format!("{place}.qdisc"), veth.frame_bytes)?;
        }
        let joined = |src: &str, dst: &str| {
            self.veths.iter().any(|v| (v.a == src && v.b == dst) || (v.b == src && v.a == dst))
        };
        let check = |place: String, src: &str, dst: &str, bytes: u32, start: Time, stop: Option<Time>| {
            if !joined(src, dst) {
                return Err(impossible(place, format!("no veth joins {src} and {dst}")));
            }
            if !FRAME_BYTES.contains(&bytes) {
                return Err(impossible(place, format!("frame_bytes is {bytes}, not in {FRAME_BYTES:?}")));
            }
            if stop.is_some_and(|stop| stop <= start) {
                return Err(impossible(place, "stop is not after start"));
            }
            Ok(())
        };
        for (index, one) in self.datagrams.iter().enumerate() {
            let place = format!("veth.datagrams[{index}]");
            in_bounds(&place, one)?;
            check(place, &one.src, &one.dst, one.frame_bytes, one.start, one.stop)?;
        }
        for (index, one) in self.pings.iter().enumerate() {
            let place = format!("veth.pings[{index}]");
            in_bounds(&place, one)?;
            if one.spread >= one.interval {
                return Err(impossible(place, "interval is not above spread"));
            }
            check(place, &one.src, &one.dst, one.frame_bytes, one.start, one.stop)?;
        }
        for (index, one) in self.frames.iter().enumerate() {
            let place = format!("veth.frames[{index}]");
            in_bounds(&place, one)?;
            check(place, &one.src, &one.dst, one.frame_bytes, one.start, one.stop)?;
        }
        Ok(())
    }
}
