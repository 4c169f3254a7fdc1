//! Settings of Linux: bridges, veth pairs, queueing disciplines.

#[cfg(test)]
#[path = "../../../proto/tests/red_arguments/mod.rs"]
mod red_arguments;

use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::ops::{Bound, RangeInclusive};
use tailback_proto::aqm::codel::{Codel, FqCodel};
use tailback_proto::aqm::qdisc::{Discipline, Fifo, FifoLimit, Qdisc};
use tailback_proto::aqm::red::Red;
use tailback_proto::aqm::sfq::Sfq;
use tailback_proto::flow_control::byte_queue_limits::MAX_TX_USECS;
use tailback_proto::parameters::DELAYS;
use tailback_proto::units::{Bytes, Time};

use crate::declare::{impossible, in_bounds, traffic, PlanError, ENDS, INSTANTS};

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
    /// Index into the plan's `bridge_models`.
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
    /// Times that a packet takes on a core.
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
    pub(crate) fn check_settings(&self, place: &str) -> Result<(), PlanError> {
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

    /// The first problem, in a line. The queueing discipline is checked elsewhere.
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

// Interrupt moderation.

tailback_proto::parameters! {
    /// When completions interrupt a core, as ethtool -C has it.
    pub struct CoalescingParameters {
        /// Dynamic moderation chooses usecs and frames (adaptive-rx, adaptive-tx).
        adaptive: bool = true, source "Linux mlx5 en.h: on";
        /// An interrupt comes this long after a packet; without effect where it is adaptive.
        usecs: u32 = 16, in 0..=65_535,
            source "Linux mlx5 en.h: MLX5E_PARAMS_DEFAULT_TX_CQ_MODERATION_USEC; of receive queues the driver's default is adaptive";
        /// An interrupt comes with this many packets; without effect where it is adaptive.
        frames: u32 = 32, in 1..=65_535, source "Linux mlx5 en.h: MLX5E_PARAMS_DEFAULT_TX_CQ_MODERATION_PKTS";
    }
}

// What forwarding costs a core, and how much may wait in a transmit ring: settings of a bridge.

/// The order of what forwarding costs.
const COST: &str = "assumption: the order of what forwarding costs a core of 3 GHz; a measurement decides";

tailback_proto::parameters! {
    /// What a packet costs a core.
    pub struct BridgeCosts {
        /// Receiving it and looking up its port, up to the queueing discipline.
        receive: Time = Time::from_ns(1500), in DELAYS, source COST;
        /// The same, ns for each byte of the frame.
        per_byte: f64 = 0.0, in 0.0..=1000.0, source "assumption: forwarding touches headers only";
        /// Queueing it and taking it out again, where the discipline is not bypassed.
        qdisc: Time = Time::ZERO, in DELAYS, source "assumption: part of receive and transmit";
        /// Handing it to the device.
        transmit: Time = Time::from_ns(400), in DELAYS, source COST;
        /// Its transmit completion: unmapping and freeing it.
        complete: Time = Time::from_ns(150), in DELAYS, source COST;
        /// Factor of all of these, where the core is not on the NUMA node of the device.
        remote_factor: f64 = 1.0, in 1.0..=100.0,
            source "assumption: no document says; 1 = it makes no difference";
    }
}

tailback_proto::parameters! {
    /// Byte queue limits: how much may wait in a transmit ring.
    pub struct BqlParameters {
        /// The limit is not below this.
        limit_min: Bytes = Bytes(0), in LIMIT, source "Linux lib/dynamic_queue_limits.c";
        /// The limit is not above this.
        limit_max: Bytes = Bytes(1 << 30), in LIMIT,
            source "Linux lib/dynamic_queue_limits.c: DQL_MAX_LIMIT, about 1.9 GB";
        /// Time over which slack is observed before the limit is lowered.
        hold_time: Time = Time::from_ms(1000), in DELAYS, source "Linux net/core/dev.c: HZ";
    }
}

/// Below the kernel's greatest limit, `DQL_MAX_LIMIT`.
const LIMIT: std::ops::RangeInclusive<Bytes> = Bytes(0)..=Bytes(1 << 30);

tailback_proto::parameters! {
    /// The Linux host that forwards, in softirq, between its ports.
    pub struct BridgeParameters {
        /// Descriptors of each receive ring (ethtool -G rx).
        rx_ring: u32 = 1024, in RING, source "Linux mlx5 en.h: MLX5E_PARAMS_DEFAULT_LOG_RQ_SIZE";
        /// Descriptors of each transmit ring (ethtool -G tx).
        tx_ring: u32 = 1024, in RING, source "Linux mlx5 en.h: MLX5E_PARAMS_DEFAULT_LOG_SQ_SIZE";
        /// A hard interrupt, entry and exit included.
        interrupt: Time = Time::from_ns(500), in DELAYS, source COST;
        /// From an interrupt to its handler on a core that sleeps.
        idle_exit: Time = Time::from_us(1), in DELAYS,
            source "assumption: a shallow idle state (C1) and the message over PCIe";
        /// The start of a poll, with its softirq.
        poll: Time = Time::from_ns(200), in DELAYS, source COST;
        /// From a packet's last bit on the wire to its completion in memory.
        rx_latency: Time = Time::from_ns(500), in DELAYS,
            source "assumption: NIC and PCIe; no vendor document says";
        /// From the doorbell to a packet's first bit on the wire.
        tx_latency: Time = Time::from_ns(500), in DELAYS,
            source "assumption: NIC and PCIe; no vendor document says";
    }
}

/// More than drivers offer (`ethtool -g`; mlx5: 8192).
const RING: std::ops::RangeInclusive<u32> = 64..=65_536;

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

// What a veth pair and the namespaces at its ends are set by.

tailback_proto::choice! {
    /// Action of a full ring.
    pub enum Kernel {
        /// The packet is freed.
        Frees = "6.1",
        /// The queue stops.
        Stops = "6.18",
    }
}

tailback_proto::choice! {
    /// Unit of byte queue limits.
    pub enum VethBql {
        /// Nothing: there are none.
        Off = "none",
        /// Packets, one unit each.
        Packets = "packets",
        /// Their lengths.
        Bytes = "bytes",
    }
}

tailback_proto::choice! {
    /// Where rings are polled.
    pub enum Polling {
        /// Each in a thread with a core of its own.
        Threaded = "threaded",
        /// In softirqs of the core that sent to it first.
        Softirq = "softirq",
    }
}

tailback_proto::parameters! {
    /// The veth pair of a topology of kind veth.
    pub struct VethSettings {
        /// What a full ring does. 6.1 (and older): the packet is freed. 6.18 (6.16 and newer): the queue of a device with a
        /// qdisc stops until the peer's next poll ends.
        kernel: Kernel = Kernel::Stops, of Kernel::ALL, source "Linux commits dc82a33297fc and 5442a9da6978";
        /// Entries of the ring of each end.
        ring: u32 = 256, in 1..=1 << 20, source "drivers/net/veth.c: VETH_RING_SIZE";
        /// Byte queue limits: none, as in kernels without the series; packets: one unit each, as from its v2 on; bytes:
        /// their lengths, as in v1.
        bql: VethBql = VethBql::Off, of VethBql::ALL, source "Linux up to 7.3: veth has none";
        /// Time over which completions are coalesced before the limit sees them; 0us: it sees each at once. Without
        /// effect where bql is none.
        tx_usecs: Time = Time::from_us(100), source "v7 of the series, patch 5: ethtool tx-usecs, 100 us";
        /// The device has several transmit queues and uses one, as `ip link add` makes it on a machine with several CPUs. Its
        /// qdisc hands over up to nine packets at once, whether the queue is stopped or not, and what cannot go then goes
        /// before all that come later, a ping's included. false: one at a time, as with numtxqueues 1.
        multiqueue: bool = true, source "drivers/net/veth.c: veth_get_num_queues; net/sched/sch_generic.c: \
            try_bulk_dequeue_skb_slow, and no TCQ_F_ONETXQUEUE";
        /// To take a packet from the qdisc and put it into the ring, where a softirq does that.
        output: Time = Time::from_ns(500), in WORK, source "assumption: a third of a call of sendto";
    }
}

tailback_proto::parameters! {
    /// What receiving costs in the consumer's namespace. The producer's is alike, but has no rules.
    pub struct ConsumerParameters {
        /// Rules of iptables that each packet is compared with.
        rules: u32 = 0, in 0..=1_000_000, source "assumption: none";
        /// A comparison with one rule.
        rule: Time = Time(7_700), in CONSUMER_COST, source format!("{SWEEP}: 10,000 rules, 13,000 packets per second");
        /// A packet's way up the stack, without rules.
        stack: Time = Time::from_ns(270), in WORK,
            source format!("{SWEEP}: 0.57 us a packet without rules, less take");
        /// To take a packet from the ring and hand it to GRO.
        take: Time = Time::from_ns(300), in WORK,
            source "the authors' sweep of intervals (interval.csv): 0.3 to 0.4 us between two completions of a list";
        /// An echo request costs this many times as much as another packet, rules included.
        echo: f64 = 1.0, in 1.0..=1000.0, source "assumption: the same";
        /// A poll's packets take up to this share less or more, drawn anew for each poll.
        jitter: f64 = 0.0, in BELOW_ALL, source "assumption: none";
        /// From the wake-up of a thread, or of a core that sleeps, to its first instruction.
        wakeup: Time = Time::from_us(5), in CONSUMER_COST,
            source "assumption: no document says; the order of a context switch and a short sleep of a core";
        /// Where rings are polled: each in a thread with a core of its own, or in softirqs of the core that sent to it first.
        napi: Polling = Polling::Threaded, of Polling::ALL,
            source "the authors' veth_bql_test.sh: without threads both ends share a core, and nothing builds up";
        /// Packets that GRO collects before the stack sees them.
        gro_batch: u32 = 8, in 1..=64, source "Linux net/core: sysctl net.core.gro_normal_batch";
    }
}

const SWEEP: &str = "the authors' sweep on a Ryzen 5 5600X (text_sweep.txt)";
const CONSUMER_COST: RangeInclusive<Time> = Time(0)..=Time::from_ms(10_000);
const WORK: RangeInclusive<Time> = Time(1)..=Time::from_ms(10_000);
const BELOW_ALL: (Bound<f64>, Bound<f64>) = (Bound::Included(0.0), Bound::Excluded(1.0));

impl ConsumerParameters {
    /// A packet's way up the stack, rules included.
    pub(crate) fn way_up(&self) -> Time {
        Time(self.stack.0 + self.rules as u64 * self.rule.0)
    }

    /// The same of an echo request.
    pub(crate) fn way_up_of_echo(&self) -> Time {
        Time((self.way_up().0 as f64 * self.echo).round_ties_even() as u64)
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
    /// Times of receiving in it.
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
    pub(crate) fn check(&self) -> Result<(), PlanError> {
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
