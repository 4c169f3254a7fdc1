//! The plan: what a configuration, a topology and a flow file of that simulator say, in base units.

use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use tailback_proto::parameters::Declared;

use tailback_sim::engine::EventQueue;
use tailback_sim::plan::PlanError;

pub use tailback_sim::record::RecordParameters;

/// Priorities of a port.
pub(super) const PRIORITIES: u32 = 8;

/// Most different rates of links: there is a table of times for each, with an entry for every size of a packet.
const MOST_RATES: usize = 256;

/// A whole run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HpccPlan {
    /// Name of the scenario.
    pub name: String,
    /// Kept for the recording; the draws follow `rng`.
    pub seed: u64,
    /// Which of that simulator's forks.
    #[serde(default)]
    pub variant: Variant,
    /// Hosts and switches.
    pub nodes: u32,
    /// Nodes that are switches.
    pub switches: Vec<u32>,
    /// Switches of them that are inside of servers: hosts prefer them among equal ways; they neither mark nor pause.
    #[serde(default)]
    pub inner_switches: Vec<u32>,
    /// Links; their order numbers the ports of a node.
    pub links: Vec<Link>,
    /// Messages, each on a queue pair of its own, in order of start.
    pub flows: Vec<Flow>,
    /// End of the run; events at this very instant are not executed.
    pub stop_ns: u64,
    /// Payload of a full data packet.
    pub payload_bytes: u32,
    /// In-band telemetry in each data packet and each ACK.
    pub telemetry_bytes: u32,
    /// Congestion control.
    pub cc: Cc,
    /// Off: packets are paced at line rate whatever the rate says.
    pub rate_bound: bool,
    /// Cap on what is in flight.
    pub window: Window,
    /// True if a pause of priority 3 does not stop a host's ACKs.
    pub ack_high_priority: bool,
    /// Unit of back-to-zero; also acknowledged at its multiples. 0 = none.
    pub l2_chunk_bytes: u32,
    /// Packets are acknowledged from this many bytes of a message on.
    pub l2_ack_interval_bytes: u32,
    /// After a loss go back to the start of the chunk.
    pub back_to_zero: bool,
    /// Marking.
    pub ecn: Ecn,
    /// Buffer of a switch, 2^20 B.
    pub buffer_mib: u32,
    /// Headroom of a port: this times what its link holds in flight one way.
    #[serde(default = "three")]
    pub headroom_factor: u32,
    /// Time in a PFC frame. Only 0 has an effect: such a pause is read as a resume.
    pub pause_time_us: u32,
    /// A link that fails, its routes with it.
    #[serde(default)]
    pub link_down: Option<LinkDown>,
    /// Sampling of the switches' queues.
    #[serde(default)]
    pub queue_monitor: Option<QueueMonitor>,
    /// ns-3's generator.
    pub rng: Rng,
    /// Probability that a packet is lost on a link whose own error rate is 0; those links share one stream.
    #[serde(default)]
    pub error_rate_per_link: f64,
    /// Deliberate differences.
    #[serde(default)]
    pub departures: Departures,
    pub record: RecordParameters,
}

/// A link: two nodes, bit/s, ns one way, probability that a packet is lost.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Link(pub u32, pub u32, pub u64, pub u64, pub f64);

/// A message: source, destination, priority, destination port, bytes, start in ns.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Flow(pub u32, pub u32, pub u32, pub u32, pub u64, pub u64);

impl Flow {
    /// Its start. A flow may start long after the end of any run: never.
    pub(super) fn start_ps(&self) -> u64 {
        self.5.saturating_mul(1000).min(EventQueue::HORIZON.0)
    }
}

/// When (ns), and which two nodes lose their link.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct LinkDown(pub u64, pub u32, pub u32);

/// Start and end (ns) of the samples for the queue-length file, one in 100 ns.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct QueueMonitor(pub u64, pub u64);

/// Congestion control of every host.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Cc {
    /// Line rate.
    None {},
    /// DCQCN's reaction point as that simulator has it.
    Dcqcn(Dcqcn),
    /// HPCC.
    Hpcc(Hpcc),
    /// TIMELY.
    Timely(Timely),
    /// DCTCP with a rate.
    Dctcp(Dctcp),
    /// HPCC with PINT.
    Pint(Pint),
}

/// HPCC under that simulator's names.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hpcc {
    /// eta.
    pub target_utilization: f64,
    /// Additive steps before a multiplicative one.
    pub max_stage: u32,
    pub rate_ai_bps: u64,
    pub min_rate_bps: u64,
    /// Units of the telemetry's fields: 128 B sent and 80 B waiting, times this.
    pub int_multi: u32,
    /// Every ACK changes the rate, not only the first of a round trip.
    pub fast_react: bool,
    /// A rate for each hop; the lowest counts.
    pub multi_rate: bool,
    /// Within a round trip, hops without a queue do not count.
    pub sample_feedback: bool,
}

/// HPCC with PINT under that simulator's names.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pint {
    /// eta.
    pub target_utilization: f64,
    /// Additive steps before a multiplicative one.
    pub max_stage: u32,
    pub rate_ai_bps: u64,
    pub min_rate_bps: u64,
    /// Base of the logarithm that a packet carries.
    pub log_base: f64,
    /// Share of the ACKs that count.
    pub probability: f64,
}

/// TIMELY under that simulator's names.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timely {
    pub rate_ai_bps: u64,
    pub rate_hai_bps: u64,
    pub min_rate_bps: u64,
}

/// DCTCP under that simulator's names.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dctcp {
    /// g.
    pub ewma_gain: f64,
    pub rate_ai_bps: u64,
    pub min_rate_bps: u64,
}

/// DCQCN under that simulator's names.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dcqcn {
    /// Period of alpha.
    pub alpha_resume_us: u32,
    /// Period of the cuts.
    pub rate_decrease_us: u32,
    /// Every cut sets the target, not only the first one after an increase.
    pub clamp_target_rate: bool,
    /// Period of the increases.
    pub rp_timer_us: u32,
    /// g.
    pub ewma_gain: f64,
    /// Increases that leave the target as it is.
    pub fast_recovery_times: u32,
    pub rate_ai_bps: u64,
    pub rate_hai_bps: u64,
    pub min_rate_bps: u64,
}

/// Cap on what is in flight.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// True if there is one.
    pub enabled: bool,
    /// The largest bandwidth-delay product of all pairs for every pair.
    pub global: bool,
    /// In proportion to the rate.
    pub variable: bool,
}

/// Marking at the egress queues of switches.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ecn {
    /// True if switches mark.
    pub enabled: bool,
    /// By rate of the link.
    pub thresholds: Vec<Threshold>,
}

/// Rate of the link in bit/s, kmin and kmax in 1000 B, probability at kmax.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Threshold(pub u64, pub u32, pub u32, pub f64);

/// ns-3's `RngSeed` and `RngRun`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rng {
    pub seed: u32,
    pub run: u32,
}

/// Deliberate differences from that simulator; nothing by default.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Departures {
    /// Serialization to the picosecond, where that simulator drops what is below a nanosecond.
    pub exact_time: bool,
    /// A receiver flags at most one ACK of a queue pair in this time. 0 = every marked packet.
    pub cnp_interval_ns: u64,
    /// Goes back to the last byte acknowledged when nothing was sent or acknowledged for this long, and
    /// acknowledges duplicates. 0 = never.
    pub retransmission_timeout_ns: u64,
    /// Header bytes of a data packet on the wire. 0 = those of the variant.
    pub wire_overhead_bytes: u32,
}

/// The headroom factor where there is no key for it.
fn three() -> u32 {
    3
}

fn impossible(place: impl Into<String>, problem: impl Into<String>) -> PlanError {
    PlanError::Impossible { place: place.into(), problem: problem.into() }
}

/// Refuses `place` with `problem` unless `ok`.
fn require(ok: bool, place: impl Into<String>, problem: impl Into<String>) -> Result<(), PlanError> {
    if ok {
        Ok(())
    } else {
        Err(impossible(place, problem))
    }
}

impl HpccPlan {
    /// Reads and checks a plan.
    ///
    /// # Errors
    /// One line, where it is not readable or impossible.
    pub fn from_json(json: &str) -> Result<HpccPlan, PlanError> {
        Self::with_flows(json, Vec::new())
    }

    /// As [`Self::from_json`], with flows after those that it lists.
    ///
    /// # Errors
    /// The same.
    pub fn with_flows(json: &str, flows: Vec<Flow>) -> Result<HpccPlan, PlanError> {
        let mut plan: HpccPlan =
            serde_json::from_str(json).map_err(|error| PlanError::Format(error.to_string()))?;
        plan.flows.extend(flows);
        plan.check()?;
        Ok(plan)
    }

    /// Bytes of a full data packet's headers on the wire.
    pub(super) fn data_overhead(&self) -> u32 {
        let header = match self.departures.wire_overhead_bytes {
            0 => self.variant.data_header_bytes(),
            bytes => bytes,
        };
        header + self.telemetry_bytes
    }

    /// Bytes of an ACK on the wire.
    pub(super) fn ack_bytes(&self) -> u32 {
        self.variant.ack_bytes(self.telemetry_bytes)
    }

    /// Refuses what cannot run.
    ///
    /// # Errors
    /// One line on the first thing that is impossible.
    pub fn check(&self) -> Result<(), PlanError> {
        let last = EventQueue::HORIZON.0 / 2 / 1000;
        require((1..=last).contains(&self.stop_ns), "stop_ns", format!("not in 1 to {last}"))?;
        require((2..=65_536).contains(&self.nodes), "nodes", "not in 2 to 65,536: node ids are 16 bits")?;
        let mut switches = HashSet::new();
        for &id in &self.switches {
            require(id < self.nodes, "switches", format!("{id} is not below nodes ({})", self.nodes))?;
            require(switches.insert(id), "switches", format!("{id} is there twice"))?;
        }
        require(switches.len() < self.nodes as usize, "switches", "there is no host")?;
        for id in &self.inner_switches {
            require(switches.contains(id), "inner_switches", format!("{id} is not one of the switches"))?;
        }
        self.check_packets()?;
        self.check_links(&switches)?;
        self.check_cc()?;
        // There may be millions of flows.
        let mut is_switch = vec![false; self.nodes as usize];
        self.switches.iter().for_each(|&id| is_switch[id as usize] = true);
        for (index, flow) in self.flows.iter().enumerate() {
            self.check_flow(index, flow, &is_switch)?;
        }
        if let Some(LinkDown(at, a, b)) = self.link_down {
            require(at <= last, "link_down", format!("the time is above {last} ns"))?;
            let known = self.links.iter().any(|l| (l.0, l.1) == (a, b) || (l.1, l.0) == (a, b));
            require(known, "link_down", format!("there is no link between {a} and {b}"))?;
        }
        require((1..4_294_944_443).contains(&self.rng.seed), "rng", "seed is not in 1 to 4,294,944,442")?;
        let d = &self.departures;
        for (name, ns) in [
            ("cnp_interval_ns", d.cnp_interval_ns),
            ("retransmission_timeout_ns", d.retransmission_timeout_ns),
        ] {
            require(ns <= last, "departures", format!("{name} is above {last}"))?;
        }
        self.record.check().map_err(|refused| impossible("record", refused.to_string()))
    }

    fn check_packets(&self) -> Result<(), PlanError> {
        let total = |bytes: u32| bytes as u64 + self.telemetry_bytes as u64;
        let overhead = self.departures.wire_overhead_bytes.max(self.variant.data_header_bytes());
        let place = "payload_bytes";
        require(self.payload_bytes > 0, place, "must be above 0")?;
        require(
            total(overhead) + self.payload_bytes as u64 <= u16::MAX as u64,
            place,
            "a packet with its headers is above 65,535 B",
        )?;
        require(
            self.l2_ack_interval_bytes > 0,
            "l2_ack_interval_bytes",
            "must be above 0: nothing would be acknowledged",
        )?;
        // Only packets below the interval are looked at for whole chunks.
        let first = self.flows.iter().map(|flow| flow.4.min(self.payload_bytes as u64)).min();
        let below = first.is_some_and(|bytes| bytes < self.l2_ack_interval_bytes as u64);
        let chunk_needed = self.back_to_zero || below;
        require(
            self.l2_chunk_bytes > 0 || !chunk_needed,
            "l2_chunk_bytes",
            "must be above 0 with back_to_zero, or where a flow's first packet is below the ACK interval",
        )?;
        require((1..=4095).contains(&self.buffer_mib), "buffer_mib", "not in 1 to 4095")
    }

    fn check_links(&self, switches: &HashSet<u32>) -> Result<(), PlanError> {
        require(self.links.len() <= 1 << 20, "links", "more than 1,048,576")?;
        let rates: HashSet<u64> = self.links.iter().map(|link| link.2).collect();
        require(rates.len() <= MOST_RATES, "links", format!("more than {MOST_RATES} different rates"))?;
        let mut ports = vec![0u32; self.nodes as usize];
        let probability = |p: f64| (0.0..=1.0).contains(&p);
        for (index, &Link(a, b, rate, delay, error)) in self.links.iter().enumerate() {
            let place = || format!("links[{index}]");
            for end in [a, b] {
                require(
                    end < self.nodes,
                    place(),
                    format!("node {end} is not below nodes ({})", self.nodes),
                )?;
                ports[end as usize] += 1;
            }
            require(a != b, place(), format!("both ends are {a}"))?;
            require(
                (1_000..=1_000_000_000_000_000).contains(&rate),
                place(),
                "the rate is not in 1 kbit/s to 1 Pbit/s",
            )?;
            require(delay <= 1_000_000_000_000, place(), "the delay is above 1000 s")?;
            require(probability(error), place(), "the error rate is not in 0 to 1")?;
            let known = self.ecn.thresholds.iter().any(|t| t.0 == rate);
            let marks = |node| switches.contains(node) && !self.inner_switches.contains(node);
            let to_switch = marks(&a) || marks(&b);
            require(
                known || !to_switch || !self.ecn.enabled,
                "ecn",
                format!("there is no threshold for links of {rate} bit/s"),
            )?;
        }
        require(
            probability(self.error_rate_per_link),
            "error_rate_per_link",
            "the error rate is not in 0 to 1",
        )?;
        if let Some(node) = ports.iter().position(|&count| count > u16::MAX as u32 / 2) {
            return Err(impossible("links", format!("node {node} has more than 32,767 ports")));
        }
        for Threshold(rate, kmin, kmax, pmax) in &self.ecn.thresholds {
            let place = || format!("ecn threshold of {rate} bit/s");
            require(kmin <= kmax, place(), format!("kmin ({kmin}) is above kmax ({kmax})"))?;
            require(*kmax <= u32::MAX / 1000, place(), "kmax is above 4,294,967 kB")?;
            require(probability(*pmax), place(), "the probability is not in 0 to 1")?;
        }
        Ok(())
    }

    fn check_cc(&self) -> Result<(), PlanError> {
        let top = 1_000_000_000_000_000;
        let (min, additive, hyper) = match &self.cc {
            Cc::None {} => return Ok(()),
            Cc::Dcqcn(cc) => (cc.min_rate_bps, cc.rate_ai_bps, cc.rate_hai_bps),
            Cc::Hpcc(cc) => (cc.min_rate_bps, cc.rate_ai_bps, 0),
            Cc::Timely(cc) => (cc.min_rate_bps, cc.rate_ai_bps, cc.rate_hai_bps),
            Cc::Dctcp(cc) => (cc.min_rate_bps, cc.rate_ai_bps, 0),
            Cc::Pint(cc) => (cc.min_rate_bps, cc.rate_ai_bps, 0),
        };
        require((1_000..=top).contains(&min), "cc", "min_rate_bps is not in 1 kbit/s to 1 Pbit/s")?;
        for (name, value) in [("rate_ai_bps", additive), ("rate_hai_bps", hyper)] {
            require(value <= top, "cc", format!("{name} is above 1 Pbit/s"))?;
        }
        let cc = match &self.cc {
            Cc::Dcqcn(cc) => cc,
            Cc::Hpcc(cc) => {
                require(cc.target_utilization > 0.0, "cc", "target_utilization must be above 0")?;
                return require(cc.int_multi > 0, "cc", "int_multi must be above 0");
            }
            Cc::Pint(cc) => {
                require(cc.target_utilization > 0.0, "cc", "target_utilization must be above 0")?;
                require(cc.log_base > 1.0, "cc", "log_base must be above 1")?;
                return require(cc.probability >= 0.0, "cc", "probability is below 0");
            }
            Cc::Dctcp(cc) => {
                return require((0.0..=1.0).contains(&cc.ewma_gain), "cc", "ewma_gain is not in 0 to 1");
            }
            Cc::None {} | Cc::Timely(_) => return Ok(()),
        };
        for (name, value) in [
            ("alpha_resume_us", cc.alpha_resume_us),
            ("rate_decrease_us", cc.rate_decrease_us),
            ("rp_timer_us", cc.rp_timer_us),
        ] {
            require(value > 0, "cc", format!("{name} must be above 0"))?;
        }
        require((0.0..=1.0).contains(&cc.ewma_gain), "cc", "ewma_gain is not in 0 to 1")
    }

    fn check_flow(&self, index: usize, flow: &Flow, is_switch: &[bool]) -> Result<(), PlanError> {
        let &Flow(src, dst, priority, port, bytes, start) = flow;
        let nodes = self.nodes;
        let problem = match [src, dst].into_iter().find(|&end| is_switch.get(end as usize) != Some(&false)) {
            Some(end) if end >= nodes => format!("node {end} is not below nodes ({nodes})"),
            Some(end) => format!("node {end} is a switch"),
            None if src == dst => format!("source and destination are both {src}"),
            None if priority >= PRIORITIES => format!("priority {priority} is not in 0 to 7"),
            None if port > u16::MAX as u32 => format!("port {port} is above 65,535"),
            None if !(1..=u32::MAX as u64).contains(&bytes) => {
                format!("{bytes} B is not in 1 to 4,294,967,295: sizes are 32 bits")
            }
            None if index > 0 && start < self.flows[index - 1].5 => {
                "starts before the flow above it: flows must be in order of start".into()
            }
            None => return Ok(()),
        };
        Err(impossible(format!("flows[{index}]"), problem))
    }
}

// Forks of that simulator whose network differs in a few figures and in nothing else.

/// The fork of the simulator whose figures a run has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Variant {
    /// The HPCC simulator itself, on ns-3.18 (commit 9f4be2a).
    #[default]
    Hpcc,
    /// What ASTRA-sim carries, on ns-3.42 (astra-network-ns3, commit f764bed).
    AstraSim,
    /// What SimAI carries, on ns-3.36 (ns-3-alibabacloud, commit c2bfbf4).
    Simai,
}

/// IPv4, UDP, sequence number and priority of a data packet.
const DATA_HEADER_BYTES: u32 = 34;

/// IPv4 and 12 B of an ACK's own.
const ACK_HEADER_BYTES: u32 = 32;

/// IPv4 and 9 B of a PFC frame's own.
const PFC_HEADER_BYTES: u32 = 29;

/// What Ethernet pads a frame to, without its header.
const MIN_BYTES: u32 = 46;

impl Variant {
    /// The link's header: an Ethernet one, or PPP's.
    fn link_header_bytes(self) -> u32 {
        match self {
            Variant::Hpcc | Variant::Simai => 14,
            Variant::AstraSim => 2,
        }
    }

    /// What its sequence numbers take beyond 32 bits.
    fn wider_bytes(self) -> u32 {
        match self {
            Variant::Hpcc | Variant::AstraSim => 0,
            Variant::Simai => 4,
        }
    }

    /// Header bytes of a data packet by that simulator's formula of an empty network.
    pub(super) fn formula_header_bytes(self) -> u32 {
        Variant::Hpcc.data_header_bytes() + self.wider_bytes()
    }

    /// Header bytes of a data packet on the wire, without telemetry.
    pub(super) fn data_header_bytes(self) -> u32 {
        self.link_header_bytes() + DATA_HEADER_BYTES + self.wider_bytes()
    }

    /// Bytes of an ACK on the wire.
    pub(super) fn ack_bytes(self, telemetry: u32) -> u32 {
        self.link_header_bytes() + (ACK_HEADER_BYTES + self.wider_bytes() + telemetry).max(MIN_BYTES)
    }

    /// Bytes of a PFC frame on the wire.
    pub(super) fn pfc_bytes(self) -> u32 {
        self.link_header_bytes() + PFC_HEADER_BYTES
    }

    /// True if times on the wire are rounded to the nearest nanosecond, and not down.
    pub(super) fn rounds_to_nearest(self) -> bool {
        self == Variant::AstraSim
    }

    /// True if the work is notified when a message has left its sender's NIC.
    pub(super) fn tells_sent(self) -> bool {
        self == Variant::Simai
    }

    /// True if a host's port, when it works out when to wake, skips queue pairs that have sent everything. The gap of
    /// such a queue pair is mostly over; where it counts, the port does not wake, and the others wait for the next ACK.
    pub(super) fn wake_skips_sent(self) -> bool {
        self == Variant::Hpcc
    }

    /// Random streams that building a network takes for each node.
    pub(super) fn streams_per_node(self) -> u64 {
        match self {
            // One in its global routing and five in its IPv6 extensions: hop-by-hop, destination, fragment, routing,
            // loose routing.
            Variant::Hpcc => 6,
            Variant::Simai => 8,
            Variant::AstraSim => 9,
        }
    }
}

// `flow.txt`: the number of flows, then `src dst pg dport bytes start` for each, sorted by start.
//
// Read as C++ streams read it: tokens between white space, line breaks or not; what follows the last token that is
// needed is never looked at. A start is in seconds and becomes whole nanoseconds, rounded down from the exact binary
// number: a flow at 2.000000577 may start at ...576 ns.

const TOKENS_A_FLOW: usize = 6;

/// No number that means something is longer.
const LONGEST_NUMBER: usize = 400;

/// What 63 bits of nanoseconds hold, as seconds.
const LAST_START_S: f64 = i64::MAX as f64 / 1e9;

/// Why a flow list is refused.
#[derive(Debug, PartialEq, Eq)]
pub struct Refused {
    /// Line of the token, from 1; that of the last token where the file ends too early.
    pub line: usize,
    /// The token; none at the end of the file.
    pub token: Option<Vec<u8>>,
    /// What belongs there.
    pub expected: String,
}

/// The hosts of a network, by node id.
pub struct Hosts<'a> {
    /// True if a node is one.
    pub is_host: &'a [bool],
    /// Groups of switches that each node is linked to, in order: two hosts have a route if they share one.
    pub zones: &'a [Vec<u32>],
}

impl Hosts<'_> {
    fn are_connected(&self, a: u32, b: u32) -> bool {
        let (a, b) = (&self.zones[a as usize], &self.zones[b as usize]);
        a.iter().any(|zone| b.contains(zone))
    }
}

/// Reads a list of flows between the hosts of a network.
///
/// # Errors
/// The first token that is not what belongs there.
pub fn read(data: &[u8], hosts: &Hosts<'_>) -> Result<Vec<Flow>, Refused> {
    let mut tokens = Tokens { data, at: 0, line: 1 };
    let what = "the number of flows";
    let (first, count) = tokens.integer(what, 0, u32::MAX as u64)?;
    // The count is checked against the file before anything is made of it.
    let there = tokens.clone().count() / TOKENS_A_FLOW;
    if (there as u64) < count {
        // traffic_gen.py writes an estimate first and goes back to put the count over it; a shorter count leaves
        // the estimate's last digit behind.
        let stray = if count / 10 == there as u64 && count >= 10 {
            format!(" ({there} and a stray digit?)")
        } else {
            String::new()
        };
        return Err(first.refuse(format!("{what}: {there} of {TOKENS_A_FLOW} tokens each follow{stray}")));
    }
    let mut flows = Vec::with_capacity(count as usize);
    let mut last = 0;
    for _ in 0..count {
        let flow = tokens.flow(hosts, last)?;
        last = flow.5;
        flows.push(flow);
    }
    Ok(flows)
}

#[derive(Clone, Copy)]
struct Token<'a> {
    line: usize,
    word: &'a [u8],
}

impl Token<'_> {
    fn refuse(&self, expected: String) -> Refused {
        Refused { line: self.line, token: Some(self.word.to_vec()), expected }
    }

    /// Decimal digits, a plus before them or not.
    fn integer(&self) -> Option<u64> {
        let digits = self.word.strip_prefix(b"+").unwrap_or(self.word);
        let digit = |byte: u8| byte.is_ascii_digit().then_some(u64::from(byte & 0xf));
        let add = |value: u64, &byte: &u8| value.checked_mul(10)?.checked_add(digit(byte)?);
        (1..=20).contains(&digits.len()).then(|| digits.iter().try_fold(0, add))?
    }

    /// A decimal number, with or without an exponent.
    fn real(&self) -> Option<f64> {
        let known = |byte: &u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
        let plain = self.word.len() <= LONGEST_NUMBER && self.word.iter().all(known);
        // What is left of what Rust reads is what C's streams read: no names of infinity, and no NaN.
        plain.then(|| std::str::from_utf8(self.word).ok()?.parse().ok())?
    }
}

#[derive(Clone)]
struct Tokens<'a> {
    data: &'a [u8],
    at: usize,
    /// That of the last token.
    line: usize,
}

/// The white space of the C locale.
fn is_space(byte: u8) -> bool {
    byte == b' ' || (b'\t'..=b'\r').contains(&byte)
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        let blank = self.data[self.at..].iter().take_while(|&&byte| is_space(byte)).count();
        let begin = self.at + blank;
        let end = begin + self.data[begin..].iter().take_while(|&&byte| !is_space(byte)).count();
        if begin == end {
            return None;
        }
        self.line += self.data[self.at..begin].iter().filter(|&&byte| byte == b'\n').count();
        self.at = end;
        Some(Token { line: self.line, word: &self.data[begin..end] })
    }
}

impl<'a> Tokens<'a> {
    fn take(&mut self, expected: &str) -> Result<Token<'a>, Refused> {
        let line = self.line;
        self.next().ok_or_else(|| Refused { line, token: None, expected: expected.to_owned() })
    }

    /// The next token as a whole number of `low` to `high`.
    fn integer(&mut self, what: &str, low: u64, high: u64) -> Result<(Token<'a>, u64), Refused> {
        let token = self.take(what)?;
        match token.integer().filter(|value| (low..=high).contains(value)) {
            Some(value) => Ok((token, value)),
            None => Err(token.refuse(format!("{what}, a whole number from {low} to {high}"))),
        }
    }

    /// The next flow; the one above it starts at `last` ns.
    fn flow(&mut self, hosts: &Hosts<'_>, last: u64) -> Result<Flow, Refused> {
        let most = hosts.is_host.len().saturating_sub(1) as u64;
        let (from, src) = self.integer("the id of the sending host", 0, most)?;
        let (to, dst) = self.integer("the id of the receiving host", 0, most)?;
        for (token, node) in [(from, src), (to, dst)] {
            if !hosts.is_host[node as usize] {
                return Err(token.refuse(format!("a host, found switch {node}")));
            }
        }
        if src == dst {
            return Err(to.refuse("another host than the sender".into()));
        }
        let (_, priority) = self.integer("a priority", 0, 7)?;
        let (_, port) = self.integer("a destination port", 0, u16::MAX as u64)?;
        let (_, bytes) = self.integer("bytes to send", 1, u32::MAX as u64)?;
        let what = "the start in seconds";
        let at = self.take(what)?;
        let Some(seconds) = at.real().filter(|value| (0.0..=LAST_START_S).contains(value)) else {
            return Err(at.refuse(format!("{what}, a number from 0 to 9223372036.85478")));
        };
        let start = nanoseconds(seconds);
        if start < last {
            let rule = "flows are sorted by start";
            return Err(at.refuse(format!("a start not before that of the flow above, {last} ns ({rule})")));
        }
        let (src, dst) = (src as u32, dst as u32);
        if !hosts.are_connected(src, dst) {
            return Err(to.refuse(format!("a host that host {src} has a route to")));
        }
        Ok(Flow(src, dst, priority as u32, port as u32, bytes, start))
    }
}

/// Seconds as ns-3 holds them: whole nanoseconds, rounded down from its fixed-point number with 64 bits behind the
/// point (`int64x64_t`).
fn nanoseconds(seconds: f64) -> u64 {
    let whole = seconds.floor();
    let behind = ((seconds - whole) * 2f64.powi(64)) as u64;
    whole as u64 * 1_000_000_000 + ((u128::from(behind) * 1_000_000_000) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> (usize, Option<String>, String) {
        let zones = [vec![0], vec![0, 1], vec![], vec![1]];
        let hosts = Hosts { is_host: &[true, true, false, true], zones: &zones };
        match read(text.as_bytes(), &hosts) {
            Ok(flows) => panic!("{flows:?}"),
            Err(one) => {
                (one.line, one.token.map(|word| String::from_utf8(word).expect("text")), one.expected)
            }
        }
    }

    #[test]
    fn starts_are_rounded_down_from_the_exact_binary_number() {
        assert_eq!(nanoseconds(2.000000577), 2_000_000_576);
        assert_eq!(nanoseconds(0.0), 0);
        assert_eq!(nanoseconds(1e-300), 0);
        assert_eq!(nanoseconds(9223372036.0), 9_223_372_036_000_000_000);
        // 0.3 is 5404319552844595 / 2^54, a little below; 0.1 is above.
        assert_eq!((nanoseconds(0.3), nanoseconds(0.1)), (299_999_999, 100_000_000));
    }

    #[test]
    fn tokens_are_read_with_or_without_lines() {
        let hosts = Hosts { is_host: &[true, true], zones: &[vec![0], vec![0]] };
        let flows = read(b"2 0 1\x0b3 +100 7\t.5\r\n1 0 3 100 8 1e0 and more", &hosts).expect("a list");
        let rows: Vec<_> = flows.iter().map(|f| (f.0, f.1, f.2, f.3, f.4, f.5)).collect();
        assert_eq!(rows, [(0, 1, 3, 100, 7, 500_000_000), (1, 0, 3, 100, 8, 1_000_000_000)]);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let start = "the start in seconds, a number from 0 to 9223372036.85478";
        for word in ["inf", "nan", "1e999", "-1", "0x1", "1_0", "e5", "."] {
            assert_eq!(refused(&format!("1\n0 1 3 100 5 {word}")), (2, Some(word.into()), start.into()));
        }
        assert_eq!(refused(" \n"), (1, None, "the number of flows".into()));
        assert_eq!(refused("1\n\n0 2 3 100 5 1").1, Some("2".into()));
        assert_eq!(refused("1\n\n0 3 3 100 5 1").2, "a host that host 0 has a route to");
        assert_eq!(refused("2\n0 1 3 100 5 1\n\n0 1 3 100 5 0.9").0, 4);
        assert_eq!(
            refused("12 0 1 3 100 5 1").2,
            "the number of flows: 1 of 6 tokens each follow (1 and a stray digit?)"
        );
        assert_eq!(refused("5 0 1 3 100 5").2, "the number of flows: 0 of 6 tokens each follow");
        assert_eq!(refused("1 0 1 3 100 99999999999999999999 1").1, Some("99999999999999999999".into()));
    }
}
