//! What hosts' data paths are set by.

use std::ops::RangeInclusive;
use tailback_proto::parameters::{DELAY, SPAN};
use tailback_proto::units::{Bytes, Rate, Time};

tailback_proto::parameters! {
    /// What a packet meets behind the NIC's port, on a host and a PCIe link as a preset has them.
    pub struct PcieParameters {
        /// What PCIe has for TLPs, each way. null: the preset's.
        rate: Rate, or null, in RATES,
            source "PCI Express: transfers * lanes * 128/130; assumption: less 2 % for DLLPs";
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
        credit_latency: Time = Time::from_ns(213), in DELAY,
            source format!("assumption: what the IIO's occupancy at 100 Gbit/s leaves, {HOSTCC}");
        /// From a write's last bit on PCIe to its end, with nothing in its way.
        iio_latency: Time = Time::from_ns(113), in DELAY,
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
        lossless_size: Bytes = Bytes(256 << 10), in PARTS,
            source "assumption: about the 262,016 B that mlnx_qos shows of a ConnectX at 25 Gbit/s";
        /// Size of the part of all others.
        lossy_size: Bytes = Bytes(256 << 10), in PARTS, source "assumption: as large as the lossless part";
        /// Above this fill of the lossy part the NIC sends CNPs of its own, under DCQCN; null: it never does.
        cnp_threshold: Option<Bytes> = Some(Bytes(128 << 10)), in Bytes(1)..=Bytes(1 << 30),
            source format!("assumption: half of lossy_size; {WAN}, section 2.2, sees such CNPs and gives no threshold");
        /// Least time between two such CNPs of a queue pair. null: min_time_between_cnps, which marks share.
        cnp_interval: Option<Time> = None, in SPAN,
            source "assumption: no document says; a ConnectX-5 was seen to send one per 3.54 ms and queue pair";
    }
}

tailback_proto::parameters! {
    /// When the lossless part of a receive buffer asks for pauses, and when they end.
    pub struct ReceiveThresholdParameters {
        /// The NIC pauses its peer from this fill on. auto: below lossless_size by what switch.pfc.headroom: auto
        /// would be with this response delay and host.rx_latency; or, with cable_len, as the mlx5 driver has it.
        xoff: Bytes, or auto, in THRESHOLDS,
            source "IEEE 802.1Q annex N (the terms of the sum); with cable_len Linux mlx5 en/port_buffer.c";
        /// The pause ends at this fill. auto: 10,000 B below xoff, or 0; with cable_len, as the mlx5 driver has it.
        xon: Bytes, or auto, in THRESHOLDS,
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
const THRESHOLDS: RangeInclusive<Bytes> = Bytes(0)..=Bytes(1 << 30);
/// From a jumbo frame on.
const PARTS: RangeInclusive<Bytes> = Bytes(9216)..=Bytes(1 << 30);

tailback_proto::parameters! {
    /// The memory controller, which the NIC shares with the cores.
    pub struct MemoryParameters {
        /// All channels together. null: the preset's.
        bandwidth: Rate, or null, in RATES,
            source format!("pcie3: {WAN}, section 3.2: 33.2 GB/s; assumption for pcie4 and pcie5: 80 % of 8 channels of DDR4-3200 and DDR5-4800");
        /// Mean time of a request in a bank: the scale of its wait under load.
        service: Time = Time::from_ns(10), in DELAY, source "assumption: of the order of a row hit in DDR4";
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
        cpu_latency: Time = Time::from_ns(90), in SPAN,
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
        hop_latency: Time = Time::from_ns(150), in DELAY,
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
        interval: Time, in Time(1)..=LONGEST;
        /// Mean duration; all from 0 to twice this are equally likely.
        duration: Time, in SPAN;
    }
}

/// Down to what the slowest link leaves: what a preset or a rate gives may be set, too.
const GPU_RATES: RangeInclusive<Rate> = Rate::from_mbps(100)..=Rate::from_gbps(100_000);
/// Ten hours.
const LONGEST: Time = Time::from_ms(36_000_000);

tailback_proto::parameters! {
    /// How the NIC fetches what it sends.
    pub struct ReadsParameters {
        /// Read requests outstanding times their size.
        outstanding: Bytes = Bytes(16 << 10), in Bytes(1)..=Bytes(1 << 30),
            source "assumption: 32 requests of 512 B";
        /// From a read request to its last completion.
        latency: Time = Time::from_ns(700), in SPAN,
            source "assumption: the order of a PCIe read of memory; a GPU's takes longer";
    }
}

pub(super) const WAN: &str = "Wan et al. (RHCC), APNet 2024";
/// Of a link or a memory.
const RATES: RangeInclusive<Rate> = Rate::from_gbps(1)..=Rate::from_gbps(100_000);
