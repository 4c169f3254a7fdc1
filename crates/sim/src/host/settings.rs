//! Settings of a host: its TCP stack, its CPU, and the path from its NIC to memory.

use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;
use tailback_proto::flow_control::pcie_credits::DATA_CREDIT_BYTES;
use tailback_proto::flow_control::pfc::PauseParameters;
use tailback_proto::parameters::{DELAYS, SPANS};
use tailback_proto::transport::tcp::{TcpSettings, BURST_BYTES};
use tailback_proto::units::{Bytes, Hertz, Rate, Time};

use crate::declare::{impossible, in_bounds, PlanError, LONGEST_TIME};
use crate::fabric::settings::CLASSES;

pub use tailback_proto::congestion::host::HostCcParameters;
pub use tailback_proto::congestion::rhcc::{ReceiverParameters as RhccReceiverParameters, RhccParameters};

/// A stack that no host can have.
pub(crate) fn check_stack(place: &str, tcp: &TcpSettings) -> Result<(), PlanError> {
    in_bounds(place, tcp)?;
    tcp.parameters().check().map_err(|problem| impossible(place, problem))
}

tailback_proto::parameters! {
    /// The CPU of every host, of which TCP takes a part and RDMA none; no effect where no traffic is tcp.
    pub struct CpuParameters {
        /// Cores, each with a receive ring and an interrupt; a hash spreads connections over them (RSS).
        cores: u32 = 16, in 1..=1024,
            source "assumption: a server of 2016 or 2017 with two processors of 8 cores (Xeon E5-2600 v4)";
        /// Cycles of a core in a second.
        clock: Hertz = Hertz(2_600_000_000), in Hertz(1_000_000)..=Hertz(100_000_000_000),
            source "assumption: Xeon E5-2600 v4 at 8 cores";
        /// Packets that a receive ring holds; more are dropped.
        rx_ring: u32 = 1024, in 1..=1_048_576, source "Linux mlx5 en.h: MLX5E_PARAMS_DEFAULT_LOG_RQ_SIZE = 10";
        /// An interrupt comes at most this long after a packet.
        interrupt_delay: Time = Time::from_us(8), in DELAYS,
            source "Linux mlx5 en.h: MLX5E_PARAMS_DEFAULT_RX_CQ_MODERATION_USEC_FROM_CQE";
        /// An interrupt comes at once when this many packets wait.
        interrupt_packets: u32 = 32, in 1..=65_535,
            source "Linux mlx5 en.h: MLX5E_PARAMS_DEFAULT_RX_CQ_MODERATION_PKTS";
        /// Packets of a poll.
        napi_budget: u32 = 64, in 1..=65_535, source "Linux netdevice.h: NAPI_POLL_WEIGHT";
        /// Most that neighbouring segments of a connection are merged into before they go up the stack (GRO); 0: off.
        gro: Bytes = Bytes(64 << 10), in BURST_BYTES, source "Linux netdevice.h: GRO_LEGACY_MAX_SIZE";
        /// Cycles of an interrupt and of the begin and end of its polls.
        cycles_per_interrupt: f64 = 2500.0, in CYCLES_PER_UNIT,
            source "assumption: about a microsecond, the usual price of an interrupt and a softirq";
        /// Cycles of a packet in the driver and in GRO.
        cycles_per_packet: f64 = 700.0, in CYCLES_PER_UNIT,
            source format!("assumption: of the order of {CAI}, section 3: about a million packets per second and core \
                without GRO");
        /// Cycles of each unit that goes through the stack: merged segments up, an ACK or a burst down.
        cycles_per_segment: f64 = 3000.0, in CYCLES_PER_UNIT,
            source format!("assumption: of the order of {CAI}, section 3; a microsecond of IP, TCP and the socket");
        /// Cycles of copying a byte between kernel and application.
        cycles_per_byte: f64 = 0.32, in CYCLES_PER_UNIT,
            source format!("assumption: worked out from {CAI}: 42 Gbit/s a receiving core of 3.4 GHz are 0.65 cycles \
                a byte, half of them copying");
    }
}

const CAI: &str = "Cai et al., \"Understanding Host Network Stack Overheads\", SIGCOMM 2021";
const CYCLES_PER_UNIT: std::ops::RangeInclusive<f64> = 0.0..=1e9;

// What hosts' data paths are set by.

tailback_proto::parameters! {
    /// What a packet meets behind the NIC's port, on a host and a PCIe link as a preset has them.
    pub struct PcieParameters {
        /// What PCIe has for TLPs, each way. null: the preset's.
        rate: Rate, or null, in RATES,
            source "PCI Express: transfers * lanes * 128/130; assumption: less 2 % for DLLPs";
        /// Payload per second of packets of one queue pair that follow each other out of the receive buffer; those of
        /// several queue pairs do not wait for each other. null: a queue pair alone is as fast as PCIe.
        queue_pair_rate: Option<Rate> = None, in RATES,
            source "assumption: no document says. A ConnectX-5 (openfabric-systems/simllm) drops at its receive buffer \
                where one queue pair sends more than 94 Gbit/s, and not where two send 97.7 together";
        /// Payload of a full write, a power of two.
        max_payload: Bytes = Bytes(256), in Bytes(128)..=Bytes(MAX_PAYLOAD_BYTES),
            source "assumption: what root ports of servers offer most";
        /// Writes that may be on their way: posted header credits.
        header_credits: u32 = 128, in 1..=1 << 20,
            source "assumption: more than data credits allow, so that these decide";
        /// Buffer of the IIO in cache lines of 64 B: posted data credits. null: the preset's.
        iio_lines: u32, or null, in 2..=1 << 22,
            source format!("assumption: pcie3: 93, {HOSTCC}; twice as many with each generation, as its rate needs");
        /// From a write's end to the return of its credits at the NIC.
        credit_latency: Time = Time::from_ns(213), in DELAYS,
            source format!("assumption: what the IIO's occupancy at 100 Gbit/s leaves, {HOSTCC}");
        /// From a write's last bit on PCIe to its end, with nothing in its way.
        iio_latency: Time = Time::from_ns(113), in DELAYS,
            source format!("assumption: calibrated on the 120 ns of an idle receiver in {WAN}, section 4");
    }
}

/// Largest payload of a write.
pub(crate) const MAX_PAYLOAD_BYTES: u64 = 4096;

const HOSTCC: &str = "recollection of Agarwal et al. (hostCC), SIGCOMM 2023, not verified";

tailback_proto::parameters! {
    /// The NIC's receive buffer: a part for its lossless priorities, and one for all others.
    pub struct ReceiveBufferParameters {
        /// Size of the part of the lossless priorities.
        lossless_size: Bytes = Bytes(256 << 10), in BUFFER_PART_BYTES,
            source "assumption: about the 262,016 B that mlnx_qos shows of a ConnectX at 25 Gbit/s";
        /// Size of the part of all others.
        lossy_size: Bytes = Bytes(256 << 10), in BUFFER_PART_BYTES, source "assumption: as large as the lossless part";
        /// Above this fill of the lossy part the NIC sends CNPs of its own, under DCQCN; null: it never does.
        cnp_threshold: Option<Bytes> = Some(Bytes(128 << 10)), in Bytes(1)..=Bytes(1 << 30),
            source format!("assumption: half of lossy_size; {WAN}, section 2.2, sees such CNPs and gives no threshold");
        /// Least time between two such CNPs of a queue pair. null: min_time_between_cnps, which marks share.
        cnp_interval: Option<Time> = None, in SPANS,
            source "assumption: no document says; a ConnectX-5 was seen to send one per 3.54 ms and queue pair";
    }
}

tailback_proto::parameters! {
    /// When the lossless part of a receive buffer asks for pauses, and when they end.
    pub struct ReceiveThresholdParameters {
        /// The NIC pauses its peer from this fill on. auto: below lossless_size by what switch.pfc.headroom: auto
        /// would be with this response delay and host.rx_latency; or, with cable_len, as the mlx5 driver has it.
        xoff: Bytes, or auto, in THRESHOLD_BYTES,
            source "IEEE 802.1Q annex N (the terms of the sum); with cable_len Linux mlx5 en/port_buffer.c";
        /// The pause ends at this fill. auto: 10,000 B below xoff, or 0; with cable_len, as the mlx5 driver has it.
        xon: Bytes, or auto, in THRESHOLD_BYTES,
            source "mlnx_qos of a ConnectX at 25 Gbit/s: xoff 91,392 B, xon 81,408 B, 9,984 B below; with cable_len Linux mlx5 en/port_buffer.c";
        /// Length of the cable in metres, as mlnx_qos --cable_len takes it: an xoff that is auto then lies (301 + 2.16 *
        /// cable_len) B for each Gbit/s of the link, of at least 40, and 2.72 * interface_mtu below lossless_size; xon another
        /// 9978 B below; both in cells of 128 B. null: xoff from the link's delay.
        cable_len: Option<u32> = None, in 0..=1000,
            source "Linux mlx5 en/port_buffer.c: calculate_xoff, update_xoff_threshold";
        /// MTU of the interface, as ip link shows it, where cable_len is given. null: the least that host.mtu fits into, or
        /// host.tcp.mtu with TCP.
        interface_mtu: Option<Bytes> = None, in Bytes(68)..=Bytes(9978),
            source "assumption: set no larger than RoCE needs";
    }
}

/// Within a part.
const THRESHOLD_BYTES: RangeInclusive<Bytes> = Bytes(0)..=Bytes(1 << 30);

/// From a jumbo frame on.
const BUFFER_PART_BYTES: RangeInclusive<Bytes> = Bytes(9216)..=Bytes(1 << 30);

tailback_proto::parameters! {
    /// The memory controller, which the NIC shares with the cores.
    pub struct MemoryParameters {
        /// All channels together. null: the preset's.
        bandwidth: Rate, or null, in RATES,
            source format!("pcie3: {WAN}, section 3.2: 33.2 GB/s; assumption for pcie4 and pcie5: 80 % of 8 channels of DDR4-3200 and DDR5-4800");
        /// Mean time of a request in a bank: the scale of its wait under load.
        service: Time = Time::from_ns(10), in DELAYS, source "assumption: of the order of a row hit in DDR4";
        /// Entries of the queue of pending writes, in cache lines of 64 B, all channels together. A write of I/O ends when it
        /// gets one. null: the preset's.
        write_queue: u32, or null, in 2..=1 << 20,
            source format!("Intel uncore guide 327043-001: 32 a channel, WPQ_OCCUPANCY; {WAN}, section 2.2: two channels, pcie3; assumption for pcie4 and pcie5: as many a channel, 8 channels");
        /// A write stays in the full queue this many times as long as a read waits, beside its time on the bus.
        write_wait: f64 = 7.0, in 0.0..=1e6,
            source format!("assumption: calibrated on the 62 % that {WAN}, figure 2, loses with PFC at the highest load");
        /// Reads are served for some time before a batch of writes: that time varies by this share of its mean, evenly up and
        /// down.
        read_spread: f64 = 0.0, in 0.0..=1.0, source "assumption: a fluid; the real distribution is not known";
        /// Time between two refreshes of a bank, which then serves neither reads nor writes.
        refresh_interval: Time = Time::from_ns(7800), in Time::from_ns(1000)..=Time::from_ms(1000),
            source "JEDEC JESD79-4, tREFI: 7.8 us of DDR4; DDR5 has 3.9 us";
        /// Length of a refresh, of all channels at once; 0s: there is no refresh. bandwidth, which is measured,
        /// includes it.
        refresh_time: Time = Time::ZERO, in Time::ZERO..=Time::from_ns(900),
            source format!("assumption: a fluid; JEDEC JESD79-4, tRFC1, has 350 ns of chips of 8 Gbit and 550 ns of 16 Gbit, but all channels at once is too harsh: the sender's half of {WAN} would keep 3 of 38 Gbit/s");
        /// A read of a core, with nothing in its way.
        cpu_latency: Time = Time::from_ns(90), in SPANS,
            source "assumption: what Intel MLC shows of a local DRAM read on Xeon servers";
    }
}

tailback_proto::parameters! {
    /// A GPU's memory behind another root port, peer to peer.
    pub struct GpuParameters {
        /// Reads and writes together. null: the preset's.
        bandwidth: Rate, or null, in GPU_RATES,
            source "assumption: what writes of max_payload leave of a PCIe link like the NIC's, both ways together";
        /// Hops between NUMA nodes on the way.
        hops: u32 = 0, in 0..=16, source "assumption: the GPU is at the NIC's own node";
        /// What each hop adds.
        hop_latency: Time = Time::from_ns(150), in DELAYS,
            source "assumption: the order of a remote read's extra time on Xeon servers";
        /// Most bytes of writes on their way between the root ports.
        outstanding: Bytes = Bytes(8 << 10), in Bytes(MAX_PAYLOAD_BYTES)..=Bytes(1 << 30),
            source "assumption: no vendor document says; of the order of the IIO's buffer";
    }
}

tailback_proto::parameters! {
    /// Times in which a GPU's memory answers nothing; gaps and durations are drawn.
    pub struct StallsParameters {
        /// Mean time from the end of one to the next.
        interval: Time, in Time(1)..=LONGEST_TIME;
        /// Mean duration; all from 0 to twice this are equally likely.
        duration: Time, in SPANS;
    }
}

/// Down to what the slowest link leaves: what a preset or a rate gives may be set, too.
const GPU_RATES: RangeInclusive<Rate> = Rate::from_mbps(100)..=Rate::from_gbps(100_000);

tailback_proto::parameters! {
    /// How the NIC fetches what it sends.
    pub struct ReadsParameters {
        /// Read requests outstanding times their size.
        outstanding: Bytes = Bytes(16 << 10), in Bytes(1)..=Bytes(1 << 30),
            source "assumption: 32 requests of 512 B";
        /// From a read request to its last completion.
        latency: Time = Time::from_ns(700), in SPANS,
            source "assumption: the order of a PCIe read of memory; a GPU's takes longer";
    }
}

const WAN: &str = "Wan et al. (RHCC), APNet 2024";

/// Of a link or a memory.
const RATES: RangeInclusive<Rate> = Rate::from_gbps(1)..=Rate::from_gbps(100_000);

tailback_proto::parameters! {
    /// Direct cache access: writes of the NIC go to some ways of the last-level cache.
    pub struct DdioParameters {
        /// What these ways hold.
        capacity: Bytes = Bytes(4_000_000), in CACHE_BYTES, source format!("{WAN}, section 2.2");
        /// Share of the cores' cache lines that are allocated in these ways.
        cpu_share: f64 = 0.181818, in 0.0..=1.0,
            source "assumption: fills spread evenly, and I/O has 2 of 11 ways (Intel IIO_LLC_WAYS 0x600)";
        /// Bytes that are written before the first of them is written again; null: messages outstanding times their size,
        /// over all queue pairs to the host.
        working_set: Option<Bytes> = None, in CACHE_BYTES,
            source "assumption: applications use their buffers in turn, and no more of them than are outstanding";
    }
}

const CACHE_BYTES: std::ops::RangeInclusive<Bytes> = Bytes(1)..=Bytes(1_000_000_000_000);

/// Bytes of a cache line.
pub(crate) const LINE_BYTES: u64 = 64;

// RHCC and hostCC.

/// RHCC; a half that is none is off.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RhccPlan {
    pub sender: Option<RhccParameters>,
    pub receiver: Option<RhccReceiverParameters>,
}

// The receiving host's data path in a plan: from the NIC's receive buffer to memory.

/// The data path between a NIC's port and memory.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostPathPlan {
    /// Sizes of the NIC's receive buffer.
    pub receive_buffer: ReceiveBufferParameters,
    /// The buffers that it is divided into. One with an xoff has the lossless size, one without has the lossy
    /// size.
    pub receive_buffers: Vec<ReceiveBufferPlan>,
    /// How the NIC pauses its peer.
    pub pause: PauseParameters,
    /// The link between the NIC and the root port, and its buffer there.
    pub pcie: PcieParameters,
    /// Bytes that a write takes besides its payload: framing, sequence number, header, LCRC.
    pub tlp_overhead_bytes: u64,
    /// Where the payload is written to and read from.
    pub target: TargetPlan,
    /// How the NIC fetches what it sends. None: the data is always at hand.
    pub reads: Option<ReadsParameters>,
}

/// One of a NIC's receive buffers (`mlnx_qos` shows them).
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReceiveBufferPlan {
    /// Fill at which the NIC pauses its peer. None: the buffer is lossy.
    pub xoff_bytes: Option<u64>,
    /// Fill at which the pause ends.
    pub xon_bytes: Option<u64>,
    /// Priorities that share the buffer.
    pub priorities: Vec<u8>,
}

/// Where a host's payload lies.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum TargetPlan {
    /// Host memory.
    Memory(MemoryPlan),
    /// GPU memory, peer to peer.
    Gpu(GpuPlan),
}

/// A memory controller and the part of the last-level cache that I/O writes to.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryPlan {
    /// The controller.
    pub own: MemoryParameters,
    /// How I/O writes into the cache. None: I/O writes to memory.
    pub ddio: Option<DdioParameters>,
}

/// A GPU's BAR1 behind another root port.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuPlan {
    /// The GPU's memory and the way to it.
    pub own: GpuParameters,
    /// Stalls, during which the GPU serves nothing, if any.
    pub stalls: Option<StallsParameters>,
}

impl HostPathPlan {
    /// Refuses settings that are out of bounds.
    pub(crate) fn check_settings(&self, place: &str) -> Result<(), PlanError> {
        in_bounds(&format!("{place}.receive_buffer"), &self.receive_buffer)?;
        in_bounds(&format!("{place}.pause"), &self.pause)?;
        in_bounds(&format!("{place}.pcie"), &self.pcie)?;
        if let Some(reads) = &self.reads {
            in_bounds(&format!("{place}.reads"), reads)?;
        }
        match &self.target {
            TargetPlan::Memory(MemoryPlan { own, ddio }) => {
                in_bounds(&format!("{place}.memory"), own)?;
                ddio.map_or(Ok(()), |ddio| in_bounds(&format!("{place}.ddio"), &ddio))
            }
            TargetPlan::Gpu(GpuPlan { own, stalls }) => {
                in_bounds(&format!("{place}.gpu"), own)?;
                stalls.map_or(Ok(()), |stalls| in_bounds(&format!("{place}.stalls"), &stalls))
            }
        }
    }

    /// The first problem of the plan, if there is one.
    pub(crate) fn problem(&self) -> Option<String> {
        self.buffers_problem().or_else(|| self.pcie_problem())
    }

    fn buffers_problem(&self) -> Option<String> {
        let mut seen = 0u8;
        for (index, buffer) in self.receive_buffers.iter().enumerate() {
            let place = format!("receive_buffers[{index}]");
            for &priority in &buffer.priorities {
                if priority as usize >= CLASSES {
                    return Some(format!("{place}: a priority is above 7"));
                }
                if seen & (1 << priority) != 0 {
                    return Some(format!("{place}: priority {priority} is in two buffers"));
                }
                seen |= 1 << priority;
            }
            match (buffer.xoff_bytes, buffer.xon_bytes) {
                (None, None) => {}
                (Some(xoff), Some(xon)) if xon < xoff && xoff <= self.receive_buffer.lossless_size.0 => {}
                (Some(_), Some(_)) => {
                    return Some(format!("{place}: expected xon below xoff, and xoff at most lossless_size"))
                }
                _ => return Some(format!("{place}: xoff_bytes and xon_bytes go together")),
            }
        }
        if self.receive_buffers.len() > CLASSES || seen != u8::MAX {
            return Some("receive_buffers: expected up to 8 that take each priority once".into());
        }
        None
    }

    fn pcie_problem(&self) -> Option<String> {
        let pcie = &self.pcie;
        if !pcie.max_payload.0.is_power_of_two() {
            Some("pcie.max_payload is not a power of two".into())
        } else if !(12..=64).contains(&self.tlp_overhead_bytes) {
            Some("tlp_overhead_bytes is not in 12 to 64".into())
        } else if (pcie.iio_lines as u64) < pcie.max_payload.0.div_ceil(LINE_BYTES) {
            Some("pcie.iio_lines is below a full write".into())
        } else {
            None
        }
    }

    /// Data credits for writes: the root port's, or what may be in flight to a GPU where that is less.
    pub(crate) fn data_credits(&self) -> u64 {
        let buffer = self.pcie.iio_lines as u64 * LINE_BYTES;
        let bytes = match &self.target {
            TargetPlan::Memory(_) => buffer,
            TargetPlan::Gpu(gpu) => buffer.min(gpu.own.outstanding.0),
        };
        bytes / DATA_CREDIT_BYTES
    }
}
