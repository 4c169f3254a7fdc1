//! Hosts with a data path.

use super::*;
use tailback_proto::parameters::FallingRates;
use tailback_proto::units::{Bytes, Rate, Time};

/// GT/s times lanes, 128b/130b, and what DLLPs leave (about 98 %: `docs/models/host-path.md`).
pub fn pcie3(lanes: u64, iio_lines: u32) -> PcieParameters {
    PcieParameters {
        rate: Rate(8_000_000_000 * lanes / 130 * 128 / 100 * 98),
        queue_pair_rate: None,
        max_payload: Bytes(256),
        header_credits: 128,
        iio_lines,
        credit_latency: Time(200_000),
        iio_latency: Time(150_000),
    }
}

/// A NIC whose peer is quiet soon.
const PAUSE: PauseParameters = PauseParameters { quanta: 65_535, response_delay: Time(300_000) };

fn memory(gigabytes_per_second: u64, write_wait: f64) -> MemoryParameters {
    MemoryParameters {
        bandwidth: Rate(8 * gigabytes_per_second * 1_000_000_000),
        service: Time(10_000),
        write_queue: 64,
        write_wait,
        read_spread: 0.0,
        cpu_latency: Time(90_000),
        refresh_interval: Time(7_800_000),
        refresh_time: Time(350_000),
    }
}

/// Sizes of a receive buffer, in bytes.
pub fn sizes(lossless: u64, lossy: u64, cnp_threshold: Option<u64>) -> ReceiveBufferParameters {
    ReceiveBufferParameters {
        lossless_size: Bytes(lossless),
        lossy_size: Bytes(lossy),
        cnp_threshold: cnp_threshold.map(Bytes),
        cnp_interval: None,
    }
}

/// Priorities `lossless` with xoff and xon in a buffer of their own.
pub fn buffers(lossless: &[u8], xoff: u64, xon: u64) -> Vec<ReceiveBufferPlan> {
    let others = (0..8).filter(|priority| !lossless.contains(priority)).collect();
    let mut buffers = vec![ReceiveBufferPlan { xoff_bytes: None, xon_bytes: None, priorities: others }];
    if !lossless.is_empty() {
        buffers.push(ReceiveBufferPlan {
            xoff_bytes: Some(xoff),
            xon_bytes: Some(xon),
            priorities: lossless.to_vec(),
        });
    }
    buffers
}

/// Two hosts of the GPUDirect experiment, 25 GbE, point to point; both write to memory.
pub fn point_to_point() -> Plan {
    let mut plan = star(2);
    plan.switches.clear();
    plan.switch_models.clear();
    let link = &mut plan.links[0];
    (link.a, link.b, link.rate, link.delay) = ("h0".into(), "h1".into(), Rate(25_000_000_000), Time(5_000));
    plan.links.truncate(1);
    plan.nics[0].mtu = Bytes(4096);
    plan.nics[0].host_path = Some(HostPathPlan {
        receive_buffer: sizes(114_944, 147_072, None),
        receive_buffers: buffers(&[0], 91_392, 81_408),
        pause: PAUSE,
        pcie: pcie3(8, 256),
        tlp_overhead_bytes: 24,
        target: TargetPlan::Memory(MemoryPlan { own: memory(40, 8.0), ddio: None }),
        reads: Some(ReadsParameters::default()),
    });
    plan.nics.push(plan.nics[0].clone());
    plan.hosts[1].nic = 1;
    plan.writers = vec![writer(0, 1, 1), writer(1, 0, 1)];
    for writer in &mut plan.writers {
        writer.code_point = 0;
        writer.message = Bytes(65_536);
    }
    plan
}

/// The same with GPUs; `stalls` of each host: mean interval and duration.
pub fn point_to_point_gpu(hops: [u32; 2], stalls: [Option<(u64, u64)>; 2]) -> Plan {
    let mut plan = point_to_point();
    for host in 0..2 {
        let path = plan.nics[host].host_path.as_mut().unwrap();
        path.target = TargetPlan::Gpu(GpuPlan {
            own: GpuParameters {
                bandwidth: Rate(8 * 7_100_000_000),
                hops: hops[host],
                hop_latency: Time(150_000),
                outstanding: Bytes(8_192),
            },
            stalls: stalls[host].map(|(interval, duration)| StallsParameters {
                interval: Time(interval),
                duration: Time(duration),
            }),
        });
        path.reads = Some(ReadsParameters { latency: Time(1_500_000), ..ReadsParameters::default() });
    }
    plan
}

/// Two hosts of the RHCC experiment at a switch, 100 GbE; h0 writes to h1's memory, whose cores keep `lines` cache
/// lines outstanding. The switch marks nothing.
pub fn memory_pair(lossless: bool, message_bytes: u64, qps: u32, lines: u32) -> Plan {
    let mut plan = star(2);
    for link in &mut plan.links {
        (link.delay, link.headroom_bytes) = (Time(10_000), 100_000);
    }
    plan.nics[0].mtu = Bytes(4096);
    plan.switch_models[0].ecn.clear();
    let mut nic = plan.nics[0].clone();
    nic.host_path = Some(HostPathPlan {
        receive_buffer: sizes(262_144, 262_144, (!lossless).then_some(131_072)),
        receive_buffers: buffers(if lossless { &[3] } else { &[] }, 196_608, 180_224),
        pause: PAUSE,
        pcie: PcieParameters { credit_latency: Time(213_000), iio_latency: Time(113_000), ..pcie3(16, 93) },
        tlp_overhead_bytes: 24,
        target: TargetPlan::Memory(MemoryPlan {
            own: MemoryParameters { bandwidth: Rate(8 * 33_200_000_000), ..memory(40, 7.0) },
            ddio: Some(DdioParameters { cpu_share: 2.0 / 11.0, ..DdioParameters::default() }),
        }),
        reads: None,
    });
    plan.nics.push(nic);
    plan.hosts[1].nic = 1;
    plan.writers = vec![writer(0, 1, qps)];
    plan.writers[0].message = Bytes(message_bytes);
    if !lossless {
        plan.switch_models[0].lossless.clear();
    }
    if lines > 0 {
        plan.memory_loads = vec![MemoryLoadPlan {
            item: "mlc".into(),
            host: "h1".into(),
            start: Time(0),
            stop: None,
            cores: 1,
            lines_per_core: lines,
            read_share: 0.5,
        }];
    }
    plan
}

/// The value of a host's counter.
pub fn counter(recording: &Recording, host: &str, name: &str) -> u64 {
    let row = |row: &&tailback_sim::record::Counter| row.node == host && row.counter == name;
    recording.counters.iter().find(row).map_or(0, |row| row.value)
}

/// A series' mean over the bins from a share of the run on.
pub fn mean(recording: &Recording, entity: &str, metric: &str, from: f64) -> f64 {
    let series = &recording.series;
    let of = |name: &str| series.entities.iter().position(|entity| entity == name);
    let column = series.columns().find(|column| Some(column.0) == of(entity) && column.1 == metric);
    let values = &column.unwrap_or_else(|| panic!("no {metric} of {entity}")).2;
    let values = &values[(values.len() as f64 * from) as usize..];
    values.iter().sum::<f64>() / values.len() as f64
}

/// The largest value of a series.
pub fn most(recording: &Recording, entity: &str, metric: &str) -> f64 {
    let series = &recording.series;
    let of = series.entities.iter().position(|name| name == entity);
    let column = series.columns().find(|column| Some(column.0) == of && column.1 == metric);
    column.unwrap_or_else(|| panic!("no {metric} of {entity}")).2.iter().copied().fold(0.0, f64::max)
}

/// Both ways, MiB/s.
pub fn mib_per_second(recording: &Recording) -> f64 {
    let bytes: u64 = recording.flows.iter().map(|flow| flow.bytes_delivered).sum();
    bytes as f64 / (1 << 20) as f64 / (recording.meta.end_ps as f64 / 1e12)
}

/// RHCC's receiver, with this threshold in cache lines.
pub fn receiver(iio_threshold: f64) -> RhccReceiverParameters {
    RhccReceiverParameters {
        sample_interval: Time(US),
        iio_clock_mhz: 500,
        iio_threshold,
        levels: levels(),
        write_time: Time(20 * US),
        raise_interval: Time(150 * US),
    }
}

/// HostCC with its module's constants, and the levels of RHCC's paper.
pub fn hostcc() -> HostCcParameters {
    HostCcParameters {
        sample_interval: Time(US),
        iio_clock_mhz: 500,
        iio_threshold: 70.0,
        iio_weight: 0.125,
        pcie_threshold: Rate::from_gbps(84),
        pcie_weight: 1.0 / 256.0,
        levels: levels(),
        write_time: Time(20 * US),
        raise_interval: Time(150 * US),
        mark: true,
    }
}

fn levels() -> FallingRates {
    [265_600, 212_000, 160_000, 120_000, 80_000].map(Rate::from_mbps).into()
}
