//! Settings of traffic: writers, single messages, TCP connections, and traffic of cores to memory.

use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;
use tailback_proto::units::{Bytes, Time};

use crate::declare::{impossible, in_bounds, traffic, PlanError, ENDS, INSTANTS};

traffic! {
    spread
    /// RDMA WRITEs from one host to another, as `ib_write_bw` posts them.
    pub struct WriterPlan {
        /// Queue pairs of each pair of hosts.
        qps: u32 = 1, in 1..=1_000_000, source format!("{PERFTEST} -q");
        /// Size of a message.
        message: Bytes = Bytes(64 << 10), in MESSAGE_BYTES, source format!("{PERFTEST} -s");
        /// Messages outstanding on a queue pair. Above 8 KiB each is posted when another is done; smaller ones are posted
        /// 100 at a time, or depth at a time if that is less, when all of the last ones are done.
        depth: u32 = 128, in 1..=1 << 20, source format!("{PERFTEST} -t (tx-depth)");
        /// Messages of each queue pair; null: until stop or the end of the run.
        messages: Option<u64> = None, in 1..=1 << 40, source format!("{PERFTEST} -D: for a duration");
    }
    worked out {
        /// Sending host.
        src: String;
        /// Receiving host.
        dst: String;
        /// Code point of data and ACKs.
        code_point: u8;
        /// Its own congestion control; none: the sending host's.
        #[serde(default)]
        congestion: Option<usize>;
        /// The other side of a latency test; none: no message waits for another.
        partner: Option<PartnerPlan>;
        /// True if its connections come and go by themselves, so that they are never steady.
        #[serde(default)]
        passing: bool;
    }
}

impl WriterPlan {
    pub(crate) fn check(&self, place: &str, code_points: usize) -> Result<(), PlanError> {
        in_bounds(place, self)?;
        if self.src == self.dst {
            return Err(impossible(place, "src and dst are the same host"));
        }
        if self.code_point as usize >= code_points {
            return Err(impossible(place, "its code_point is not in code_points"));
        }
        if self.stop.is_some_and(|stop| stop <= self.start) {
            return Err(impossible(place, "stop is not after start"));
        }
        Ok(())
    }
}

/// The other side of a latency test, `ib_write_lat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartnerPlan {
    /// Writer of the answers to this one, back from its receiver.
    pub writer: usize,
    /// True if it sends the first message.
    pub begins: bool,
}

/// Single messages, each on a queue pair of its own. There may be very many, so they are rows of numbers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowsPlan {
    /// The traffic items that they belong to.
    pub items: Vec<String>,
    /// The congestion control of each traffic item; none, or missing: the sending host's.
    #[serde(default)]
    pub congestion: Vec<Option<usize>>,
    /// The messages.
    pub list: Vec<FlowPlan>,
    /// True if messages of the first item, with the first code point, are sent during the run.
    #[serde(default)]
    pub of_work: bool,
}

/// A message: `[src, dst, item, code_point, bytes, start_ps]` in JSON; hosts, item and code point by index.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct FlowPlan(pub u32, pub u32, pub u32, pub u8, pub u64, pub u64);

impl FlowPlan {
    /// Sending host.
    pub fn src(&self) -> usize {
        self.0 as usize
    }

    /// Receiving host.
    pub fn dst(&self) -> usize {
        self.1 as usize
    }

    /// Index into [`FlowsPlan::items`].
    pub fn item(&self) -> usize {
        self.2 as usize
    }

    /// Code point of data and ACKs.
    pub fn code_point(&self) -> u8 {
        self.3
    }

    /// Size of the message.
    pub fn bytes(&self) -> u64 {
        self.4
    }

    /// When it is posted.
    pub fn start(&self) -> Time {
        Time(self.5)
    }
}

traffic! {
    spread
    /// TCP connections from one host to another, as `iperf3` has them.
    pub struct TcpConnectionPlan {
        /// Connections of each pair of hosts.
        connections: u32 = 1, in 1..=MOST_CONNECTIONS, source format!("{IPERF} -P");
        /// What each connection sends; null: until stop or the end of the run.
        bytes: Option<Bytes> = None, in Bytes(1)..=Bytes(1 << 60), source format!("{IPERF} -t: for a duration");
    }
    worked out {
        /// Sending host.
        src: String;
        /// Receiving host.
        dst: String;
        /// Code point of segments and ACKs.
        code_point: u8;
    }
}

traffic! {
    /// Traffic of cores to memory, as Intel MLC makes it: each core keeps cache lines outstanding.
    pub struct MemoryLoadPlan {
        /// Cores that do so.
        cores: u32, in 1..=4096;
        /// Cache lines of 64 B that each keeps outstanding.
        lines_per_core: u32 = 10, in 1..=4096,
            source "assumption: the line fill buffers of an Intel core before Ice Lake";
        /// Share of the traffic that is read.
        read_share: f64 = 0.5, in 0.0..=1.0,
            source "Wan et al. (RHCC), APNet 2024, section 2.2: reads and writes 1:1";
    }
    worked out {
        /// Host.
        host: String;
    }
}

const PERFTEST: &str = "perftest, ib_write_bw";
const IPERF: &str = "iperf3";
/// The longest message of an RDMA WRITE is of 2 GiB (IB specification 9.7.6).
pub(crate) const MESSAGE_BYTES: RangeInclusive<Bytes> = Bytes(1)..=Bytes(1 << 31);
/// A port has 16 bits.
const MOST_CONNECTIONS: u32 = 65_536;
