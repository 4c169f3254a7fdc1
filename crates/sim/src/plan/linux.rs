//! Plan of Linux bridges.

#[cfg(test)]
#[path = "../../../proto/tests/red_arguments/mod.rs"]
mod red_arguments;

use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use tailback_proto::aqm::codel::{Codel, FqCodel};
use tailback_proto::aqm::qdisc::{Discipline, Fifo, FifoLimit, Qdisc};
use tailback_proto::aqm::red::Red;
use tailback_proto::aqm::sfq::Sfq;
use tailback_proto::flow_control::byte_queue_limits::MAX_TX_USECS;
use tailback_proto::units::{Bytes, Time};

use super::traffic::{traffic, ENDS, INSTANTS};
use super::{impossible, in_bounds, PlanError};

pub use crate::linux::device::CoalescingParameters;
pub use crate::linux::softirq::{BqlParameters, BridgeCosts, BridgeParameters};
pub use crate::linux::veth::{ConsumerParameters, Kernel, Polling, VethBql, VethSettings};
pub use tailback_proto::aqm::codel::{CodelParameters, CodelQueueParameters, FqCodelParameters};
pub use tailback_proto::aqm::qdisc::{BfifoParameters, PfifoParameters, TbfParameters};
pub use tailback_proto::aqm::red::RedArguments;
pub use tailback_proto::aqm::sfq::SfqParameters;

/// A Linux host that forwards between its ports.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BridgePlan {
    /// Unique name.
    pub name: String,
    /// Index into [`crate::plan::Plan::bridge_models`].
    pub model: usize,
}

/// A kind of bridge.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BridgeModelPlan {
    /// Its cores that take part.
    pub cores: Vec<BridgeCorePlan>,
    /// Its rings and times.
    pub host: BridgeParameters,
    /// What a packet costs.
    pub costs: BridgeCosts,
    /// Its ports, in the order of its links.
    pub ports: Vec<BridgePortPlan>,
    /// Interrupts of received packets.
    pub rx: CoalescingParameters,
    /// Interrupts of transmit completions.
    pub tx: CoalescingParameters,
    /// Byte queue limits; none: off.
    pub bql: Option<BqlParameters>,
    /// Queueing discipline of every port.
    pub qdisc: QdiscPlan,
    /// Largest frame of its devices, without FCS: the MTU and the Ethernet header.
    pub frame_bytes: u32,
    /// Each transmit queue has one of its own (mq); else all of a port share one.
    pub multiqueue: bool,
}

tailback_proto::parameters! {
    /// A core of the bridge.
    pub struct BridgeCorePlan {
        /// Its number.
        cpu: u32, in 0..=65_535;
        /// Its NUMA node.
        numa: u32 = 0, in NUMA_NODES, source "assumption: one node";
        /// A virtual CPU that never sleeps runs on it.
        guest: bool = false, source "assumption: no virtual machine";
    }
}

tailback_proto::parameters! {
    /// A port: which core serves which of its channels, each with a receive and a transmit ring.
    pub struct BridgePortPlan {
        /// NUMA node of its device.
        numa: u32 = 0, in NUMA_NODES, source "assumption: one node";
    }
    worked out {
        /// By channel: the core that takes its interrupt, an index into [`BridgeModelPlan::cores`].
        irq_cores: Vec<u32>;
        /// Channels that a hash spreads received flows over.
        rss: Vec<u32>;
    }
}

const NUMA_NODES: std::ops::RangeInclusive<u32> = 0..=1023;

impl BridgeModelPlan {
    /// Refuses settings outside of their bounds.
    pub(super) fn check_settings(&self, place: &str) -> Result<(), PlanError> {
        in_bounds(&format!("{place}.host"), &self.host)?;
        in_bounds(&format!("{place}.costs"), &self.costs)?;
        in_bounds(&format!("{place}.rx"), &self.rx)?;
        in_bounds(&format!("{place}.tx"), &self.tx)?;
        for (index, core) in self.cores.iter().enumerate() {
            in_bounds(&format!("{place}.cores[{index}]"), core)?;
        }
        for (index, port) in self.ports.iter().enumerate() {
            in_bounds(&format!("{place}.ports[{index}]"), port)?;
        }
        self.bql.map_or(Ok(()), |bql| in_bounds(&format!("{place}.bql"), &bql))
    }

    /// What is impossible, in a line. The queueing discipline is checked elsewhere.
    pub fn problem(&self) -> Option<String> {
        let cores = self.cores.len() as u32;
        let costs = &self.costs;
        for (index, port) in self.ports.iter().enumerate() {
            let channels = port.irq_cores.len() as u32;
            if channels == 0 || channels > 256 || port.rss.is_empty() {
                return Some(format!("ports[{index}] has no channel or more than 256, or no channel in rss"));
            }
            if port.irq_cores.iter().any(|&core| core >= cores) {
                return Some(format!("ports[{index}] interrupts a core that is not in cores"));
            }
            if port.rss.iter().any(|&channel| channel >= channels) {
                return Some(format!("ports[{index}] has no such channel as rss names"));
            }
        }
        // A poll that costs nothing could go on for ever in an instant.
        let least = costs.receive.min(costs.transmit).min(costs.complete);
        if least == Time::ZERO || self.host.interrupt == Time::ZERO || self.host.poll == Time::ZERO {
            return Some("an interrupt, a poll or a packet costs nothing".into());
        }
        if self.bql.is_some_and(|bql| bql.limit_min > bql.limit_max) {
            return Some("bql.limit_min is above limit_max".into());
        }
        None
    }
}

// Queueing disciplines in a plan.

/// A queueing discipline, as `tc qdisc add` sets it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum QdiscPlan {
    Noqueue,
    Pfifo(PfifoParameters),
    Bfifo(BfifoParameters),
    Red(RedArguments),
    /// Packets wait in `child`, without one in a `bfifo` of the limit of `own`.
    Tbf {
        own: TbfParameters,
        child: Option<Box<QdiscPlan>>,
    },
    Codel {
        own: CodelQueueParameters,
        codel: CodelParameters,
    },
    FqCodel {
        own: FqCodelParameters,
        codel: CodelParameters,
    },
    Sfq(SfqParameters),
}

impl QdiscPlan {
    /// Refuses what `tc` or the kernel refuses.
    ///
    /// # Errors
    /// One line that names `place` and the number.
    pub fn check(&self, place: &str, mtu_bytes: u32) -> Result<(), PlanError> {
        self.build(place, mtu_bytes).map(|_| ())
    }

    /// The empty discipline of a device with this MTU, bytes with the Ethernet header.
    ///
    /// # Errors
    /// As `check`.
    pub fn build(&self, place: &str, mtu_bytes: u32) -> Result<Qdisc, PlanError> {
        let discipline = match self {
            QdiscPlan::Noqueue => Discipline::Noqueue,
            QdiscPlan::Pfifo(own) => {
                in_bounds(place, own)?;
                Discipline::Fifo(Fifo::new(FifoLimit::Packets(own.limit)))
            }
            QdiscPlan::Bfifo(own) => {
                in_bounds(place, own)?;
                Discipline::Fifo(Fifo::new(FifoLimit::Bytes(own.limit.0 as u32)))
            }
            QdiscPlan::Red(red) => {
                let parameters = red.parameters().map_err(|problem| impossible(place, problem))?;
                Discipline::Red(Red::new(&parameters))
            }
            QdiscPlan::Tbf { own, child } => {
                in_bounds(place, own)?;
                let child = match (child, own.limit) {
                    (Some(child), _) => child.build(place, mtu_bytes)?,
                    (None, Some(limit)) => {
                        QdiscPlan::Bfifo(BfifoParameters { limit }).build(place, mtu_bytes)?
                    }
                    (None, None) => return Err(impossible(place, "a tbf has neither limit nor child")),
                };
                if child.is_noqueue() {
                    return Err(impossible(place, "a tbf needs a queue below it"));
                }
                Discipline::tbf(own, child)
            }
            QdiscPlan::Codel { own, codel } => {
                in_bounds(place, own)?;
                in_bounds(place, codel)?;
                Discipline::Codel(Codel::new(own, codel, mtu_bytes))
            }
            QdiscPlan::FqCodel { own, codel } => {
                in_bounds(place, own)?;
                in_bounds(place, codel)?;
                Discipline::FqCodel(FqCodel::new(own, codel, mtu_bytes))
            }
            QdiscPlan::Sfq(own) => {
                in_bounds(place, own)?;
                if !own.divisor.is_power_of_two() {
                    return Err(impossible(place, format!("divisor is {}, not a power of two", own.divisor)));
                }
                Discipline::Sfq(Sfq::new(own))
            }
        };
        Ok(discipline.into())
    }
}

// Network namespaces joined by veth pairs, in a plan.

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

#[cfg(test)]
mod tests {
    use super::red_arguments::RED;
    use super::*;
    use tailback_proto::units::{Bytes, Rate};

    const TBF: TbfParameters = TbfParameters { rate: Rate(100_000_000), burst: Bytes(10_000), limit: None };

    fn refused(plan: QdiscPlan) -> String {
        plan.check("ports[0].qdisc", 1514).expect_err("it should be refused").to_string()
    }

    #[test]
    fn what_tc_refuses_is_refused_in_one_line() {
        assert!(QdiscPlan::Red(RED).check("q", 1514).is_ok());
        // min is 33.3 packets, and burst + 1 - 33.3 must not be below 1.
        let small = RedArguments { burst: 32, ..RED };
        assert_eq!(
            refused(QdiscPlan::Red(small)),
            "ports[0].qdisc: burst is 32, too small for this min and avpkt; 34 is enough"
        );
        assert!(refused(QdiscPlan::Red(RedArguments { max: Bytes(50_000), ..RED }))
            .contains("max is not above min"));
        assert!(refused(QdiscPlan::Red(RedArguments { probability: 1.0, ..RED })).contains("probability"));
        assert!(
            refused(QdiscPlan::Pfifo(PfifoParameters { limit: 0 })).contains("qdisc.limit: expected 1 to")
        );
        let child = Some(Box::new(QdiscPlan::Noqueue));
        let tbf = QdiscPlan::Tbf { own: TBF, child };
        assert!(refused(tbf).contains("needs a queue"));
    }

    #[test]
    fn a_plan_is_read_as_it_was_written() {
        let child = Some(Box::new(QdiscPlan::Red(RED)));
        let plan = QdiscPlan::Tbf { own: TBF, child };
        let text = serde_json::to_string(&plan).expect("it can be written");
        assert!(text.starts_with(r#"{"tbf":{"own":{"rate":100000000,"#), "{text}");
        assert_eq!(serde_json::from_str::<QdiscPlan>(&text).expect("it can be read"), plan);
        assert_eq!(serde_json::from_str::<QdiscPlan>("\"noqueue\"").expect("a word"), QdiscPlan::Noqueue);
    }
}
