//! TCP and the CPU in a plan.

use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use tailback_proto::transport::tcp::TcpParameters;
use tailback_proto::wire::{IPV4_BYTES, TCP_BYTES, TCP_TIMESTAMP_BYTES};

use super::{impossible, Plan, PlanError};

/// Bytes of the IPv4 and TCP headers of a data segment, timestamps included (RFC 9293, RFC 7323): what the MSS is
/// below the MTU.
const HEADERS_BYTES: u32 = IPV4_BYTES + TCP_BYTES + TCP_TIMESTAMP_BYTES;
/// Smallest MTU of IPv4 (RFC 791), and the largest of a packet whose size has 16 bits with its Ethernet framing.
const MTU_BYTES: std::ops::RangeInclusive<u32> = 68..=9216;
/// Most bytes of a TSO burst or a merged segment: Linux, `include/linux/netdevice.h`, `GSO_MAX_SIZE`.
const MAX_BURST_BYTES: u32 = 8 * 65536;
/// Most cores of a host.
const MAX_CORES: u32 = 1024;
/// Most connections of a plan: each end of each has an event of its own kind.
const MAX_CONNECTIONS: usize = 1 << 24;

/// The TCP stack of a kind of host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct TcpPlan {
    pub control: TcpControlPlan,
    /// IP MTU: segments carry 52 bytes less.
    pub mtu_bytes: u32,
    pub sack: bool,
    pub ecn: bool,
    pub initial_window_segments: u32,
    pub initial_rto_ps: u64,
    pub min_rto_ps: u64,
    pub max_rto_ps: u64,
    pub delayed_ack_ps: u64,
    pub ack_every_segments: u32,
    pub receive_buffer_bytes: u64,
    /// Most bytes of a burst that the NIC cuts into segments.
    pub tso_bytes: u32,
    /// A connection hands nothing more down while this much of it waits in the NIC.
    pub small_queue_bytes: u32,
}

/// Congestion control of TCP, with the constants of its RFC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum TcpControlPlan {
    NewReno,
    Cubic,
    Dctcp,
}

/// The CPU of a kind of host, as far as it serves packets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpuPlan {
    /// Cores, each with a receive and a transmit ring.
    pub cores: u32,
    /// Cycles a second.
    pub clock_hz: f64,
    /// Descriptors of a receive ring.
    pub rx_ring: u32,
    /// An interrupt comes this long after the first packet, or
    pub interrupt_delay_ps: u64,
    /// with this many.
    pub interrupt_packets: u32,
    /// Most packets of a NAPI poll.
    pub napi_budget: u32,
    /// Largest payload that GRO merges.
    pub gro_bytes: u32,
    /// Entering and leaving an interrupt and its softirq.
    pub cycles_per_interrupt: f64,
    /// A packet through driver and GRO.
    pub cycles_per_packet: f64,
    /// A merged segment up the stack, an ACK taken or sent, a burst down the stack.
    pub cycles_per_segment: f64,
    /// Copying to or from the application.
    pub cycles_per_byte: f64,
}

/// TCP connections from one host to another: `iperf -P`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TcpConnectionPlan {
    /// Name of the traffic item.
    pub name: String,
    /// Sending host.
    pub src: String,
    /// Receiving host.
    pub dst: String,
    /// Code point of segments and ACKs.
    pub code_point: u8,
    /// Connections.
    pub connections: u32,
    /// What each sends; none: until stopped.
    pub bytes: Option<u64>,
    /// Earliest start.
    pub start_ps: u64,
    /// The start is drawn uniformly from this span after `start_ps`.
    pub start_spread_ps: u64,
    /// The application writes no more from here on.
    pub stop_ps: Option<u64>,
}

impl TcpPlan {
    /// Payload of a full segment.
    pub fn mss(&self) -> u32 {
        self.mtu_bytes - HEADERS_BYTES
    }

    pub(super) fn check(&self, place: &str) -> Result<(), PlanError> {
        if !MTU_BYTES.contains(&self.mtu_bytes) {
            return Err(impossible(place, format!("mtu_bytes is not in {MTU_BYTES:?}")));
        }
        if self.tso_bytes > MAX_BURST_BYTES {
            return Err(impossible(place, format!("tso_bytes is above {MAX_BURST_BYTES}")));
        }
        if self.small_queue_bytes == 0 || self.small_queue_bytes > 1 << 30 {
            return Err(impossible(place, "small_queue_bytes is not in 1 to 2^30"));
        }
        self.parameters().check().map_err(|problem| impossible(place, problem))
    }

    /// Settings of a connection.
    pub fn parameters(&self) -> TcpParameters {
        use tailback_proto::transport::tcp::{ControlParameters, CubicParameters, DctcpParameters};
        use tailback_proto::units::Time;
        TcpParameters {
            mss: self.mss(),
            control: match self.control {
                TcpControlPlan::NewReno => ControlParameters::NewReno,
                TcpControlPlan::Cubic => {
                    ControlParameters::Cubic(CubicParameters { c: 0.4, beta: 0.7, fast_convergence: true })
                }
                TcpControlPlan::Dctcp => {
                    ControlParameters::Dctcp(DctcpParameters { g: 1.0 / 16.0, initial_alpha: 1.0 })
                }
            },
            initial_window: self.initial_window_segments as u64 * self.mss() as u64,
            initial_rto: Time(self.initial_rto_ps),
            min_rto: Time(self.min_rto_ps),
            max_rto: Time(self.max_rto_ps),
            sack: self.sack,
            ecn: self.ecn,
            delayed_ack: Time(self.delayed_ack_ps),
            ack_every: self.ack_every_segments,
            receive_buffer: self.receive_buffer_bytes,
            max_burst: self.tso_bytes,
        }
    }
}

impl CpuPlan {
    pub(super) fn check(&self, place: &str) -> Result<(), PlanError> {
        let problem = if self.cores == 0 || self.cores > MAX_CORES {
            format!("cores is not in 1 to {MAX_CORES}")
        } else if !(1e6..=1e12).contains(&self.clock_hz) {
            "clock_hz is not in 1e6 to 1e12".into()
        } else if self.rx_ring == 0 || self.interrupt_packets == 0 || self.napi_budget == 0 {
            "rx_ring, interrupt_packets and napi_budget must be above 0".into()
        } else if self.gro_bytes > MAX_BURST_BYTES {
            format!("gro_bytes is above {MAX_BURST_BYTES}")
        } else if [
            self.cycles_per_interrupt,
            self.cycles_per_packet,
            self.cycles_per_segment,
            self.cycles_per_byte,
        ]
        .iter()
        .any(|cycles| !(0.0..=1e9).contains(cycles))
        {
            "a cost is not in 0 to 1e9 cycles".into()
        } else {
            return Ok(());
        };
        Err(impossible(place, problem))
    }
}

impl Plan {
    pub(super) fn check_tcp(&self, names: &HashMap<&str, usize>, marks: usize) -> Result<(), PlanError> {
        let mut connections = 0usize;
        for (index, item) in self.tcp_connections.iter().enumerate() {
            let place = format!("tcp_connections[{index}]");
            connections = connections.saturating_add(item.connections as usize);
            let mut stacks = Vec::new();
            for end in [&item.src, &item.dst] {
                let Some(host) = names.get(end.as_str()).and_then(|&node| self.hosts.get(node)) else {
                    return Err(impossible(place, format!("{end} is not a host")));
                };
                let nic = &self.nics[host.nic];
                match (&nic.tcp, &nic.cpu) {
                    (Some(tcp), Some(_)) => stacks.push(tcp),
                    _ => return Err(impossible(place, format!("{end} has no tcp or no cpu"))),
                }
            }
            let agreed = |tcp: &TcpPlan| (tcp.mtu_bytes, tcp.sack, tcp.ecn);
            let problem = if item.src == item.dst {
                "src and dst are the same host"
            } else if agreed(stacks[0]) != agreed(stacks[1]) {
                "tcp of src and of dst differ in mtu_bytes, sack or ecn"
            } else if item.code_point as usize >= marks {
                "its code_point is not in code_points"
            } else if item.connections == 0 {
                "connections must be above 0"
            } else if connections > MAX_CONNECTIONS {
                "more than 2^24 connections in all"
            } else if item.bytes.is_some_and(|bytes| bytes == 0 || bytes > 1 << 60) {
                "bytes is not in 1 to 2^60"
            } else if item.stop_ps.is_some_and(|stop| stop <= item.start_ps) {
                "stop_ps is not after start_ps"
            } else {
                continue;
            };
            return Err(impossible(place, problem));
        }
        Ok(())
    }
}
