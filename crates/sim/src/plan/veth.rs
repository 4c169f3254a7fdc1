//! Network namespaces joined by veth pairs, in a plan.

use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use tailback_proto::flow_control::veth_queue::MAX_TX_USECS;

pub use crate::linux::veth::settings::{ConsumerParameters, Kernel, Polling, VethBql, VethSettings};

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

/// A thread that sends UDP datagrams as fast as it can, or at a rate, through one socket.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatagramsPlan {
    /// Name of the traffic item.
    pub name: String,
    /// Sending namespace.
    pub src: String,
    /// Receiving namespace.
    pub dst: String,
    /// Ethernet frame without FCS.
    pub frame_bytes: u32,
    /// A call of `sendto`, down to the device.
    pub send_ps: u64,
    /// Time between two calls; 0: at once.
    pub interval_ps: u64,
    /// Memory that packets of the socket may take until the receiver has them (`sk_sndbuf`).
    pub sndbuf_bytes: u64,
    /// A sender that may not go on waits for half of that (a socket that blocks); else it tries again and again.
    pub blocks: bool,
    /// First datagram.
    pub start_ps: u64,
    /// No datagram from here on.
    pub stop_ps: Option<u64>,
}

/// ICMP echo requests at regular intervals.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PingsPlan {
    /// Name of the traffic item.
    pub name: String,
    /// Who asks.
    pub src: String,
    /// Who answers.
    pub dst: String,
    /// Ethernet frame without FCS.
    pub frame_bytes: u32,
    /// Time between two requests.
    pub interval_ps: u64,
    /// Each is sent up to this much later, drawn uniformly.
    pub spread_ps: u64,
    /// First request.
    pub start_ps: u64,
    /// No request from here on.
    pub stop_ps: Option<u64>,
}

/// XDP frames that are redirected to a veth device (`ndo_xdp_xmit`), in batches.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FramesPlan {
    /// Name of the traffic item.
    pub name: String,
    /// Namespace of the device that they are redirected to.
    pub src: String,
    /// Receiving namespace.
    pub dst: String,
    /// Ethernet frame without FCS.
    pub frame_bytes: u32,
    /// Frames of a batch.
    pub batch: u32,
    /// Time between two batches.
    pub interval_ps: u64,
    /// First batch.
    pub start_ps: u64,
    /// No batch from here on.
    pub stop_ps: Option<u64>,
}

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
        let check = |place: String, src: &str, dst: &str, bytes: u32, start: u64, stop: Option<u64>| {
            if !joined(src, dst) {
                return Err(impossible(place, format!("no veth joins {src} and {dst}")));
            }
            if !FRAME_BYTES.contains(&bytes) {
                return Err(impossible(place, format!("frame_bytes is {bytes}, not in {FRAME_BYTES:?}")));
            }
            if stop.is_some_and(|stop| stop <= start) {
                return Err(impossible(place, "stop_ps is not after start_ps"));
            }
            Ok(())
        };
        for (index, item) in self.datagrams.iter().enumerate() {
            let place = format!("veth.datagrams[{index}]");
            if item.send_ps == 0 || item.send_ps > MAX_WORK_PS || item.sndbuf_bytes == 0 {
                return Err(impossible(place, "send_ps and sndbuf_bytes must be above 0"));
            }
            check(place, &item.src, &item.dst, item.frame_bytes, item.start_ps, item.stop_ps)?;
        }
        for (index, item) in self.pings.iter().enumerate() {
            let place = format!("veth.pings[{index}]");
            if item.interval_ps == 0 || item.spread_ps >= item.interval_ps {
                return Err(impossible(place, "interval_ps is not above spread_ps"));
            }
            check(place, &item.src, &item.dst, item.frame_bytes, item.start_ps, item.stop_ps)?;
        }
        for (index, item) in self.frames.iter().enumerate() {
            let place = format!("veth.frames[{index}]");
            if item.interval_ps == 0 || item.batch == 0 {
                return Err(impossible(place, "interval_ps and batch must be above 0"));
            }
            check(place, &item.src, &item.dst, item.frame_bytes, item.start_ps, item.stop_ps)?;
        }
        Ok(())
    }
}
