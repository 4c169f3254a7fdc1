//! What is recorded of the hosts' data paths.

use tailback_proto::units::Time;

use super::entity::Entity;
use super::quantity::Kind;
use super::recording::Counter;
use crate::fabric::lane;
use crate::fabric::port::{mean_of_ticks, TICK};
use crate::host::path::{HostPath, Target};
use crate::plan::Plan;
use crate::world::World;

/// A value of one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathSource {
    BufferMean,
    BufferMax,
    BufferDropped,
    Xoff(u8),
    CreditsMean,
    CreditsMax,
    Stalled,
    IioMean,
    Processing,
    IioMax,
    TargetMean,
    TargetMax,
    WriteLatency,
    MissShare,
    CpuBytes,
    NicBytes,
}

/// Queues of a path, from memory towards the wire: kind, name in the chart, what is recorded.
pub(super) const ROWS: [&str; 4] = ["memory", "iio", "pcie", "nic-rx"];

impl PathSource {
    #[inline(never)]
    pub fn kind(self) -> Kind {
        use PathSource::*;
        match self {
            BufferMax | CreditsMax | IioMax | TargetMax => Kind::Max,
            BufferDropped => Kind::Count,
            Stalled => Kind::Share,
            CpuBytes | NicBytes => Kind::Rate,
            BufferMean | Xoff(_) | CreditsMean | IioMean | TargetMean | Processing | WriteLatency
            | MissShare => Kind::Mean,
        }
    }

    pub fn metric(self) -> &'static str {
        use PathSource::*;
        match self {
            BufferMean | CreditsMean | IioMean | TargetMean => "queue_mean_bytes",
            BufferMax | CreditsMax | IioMax | TargetMax => "queue_max_bytes",
            BufferDropped => "dropped",
            Xoff(_) => "xoff_bytes",
            Stalled => "stalled_share",
            Processing => "processing_ps",
            WriteLatency => "write_latency_ps",
            MissShare => "ddio_miss_share",
            CpuBytes => "memory_cpu_bps",
            NicBytes => "memory_nic_bps",
        }
    }
}

/// Name of a path's last row: `memory` or `gpu`.
pub(super) fn row_name(plan: &Plan, path: &HostPath, row: &str) -> String {
    let row = match (&path.target, row) {
        (Target::Gpu(_), "memory") => "gpu",
        _ => row,
    };
    format!("{}/{row}", plan.hosts[path.host as usize].name)
}

/// A row as an entity.
pub(super) fn entity(plan: &Plan, path: &HostPath, row: &'static str) -> Entity {
    let kind = if row == "memory" && matches!(path.target, Target::Gpu(_)) { "gpu" } else { row };
    Entity::new(row_name(plan, path, row), kind, &plan.hosts[path.host as usize].name)
}

/// What is recorded of a row. `class`: one that the host receives.
pub(super) fn sources(path: &HostPath, row: &str, class: Option<u8>) -> Vec<PathSource> {
    use PathSource::*;
    match row {
        "nic-rx" => {
            let xoff = class.filter(|&class| path.buffers.part_of(class).1.is_some()).map(Xoff);
            [BufferMean, BufferMax, BufferDropped].into_iter().chain(xoff).collect()
        }
        "pcie" => vec![CreditsMean, CreditsMax, Stalled],
        "iio" => vec![IioMean, IioMax, Processing],
        _ => match &path.target {
            Target::Memory(_) => vec![TargetMean, TargetMax, WriteLatency, MissShare, CpuBytes, NicBytes],
            Target::Gpu(_) => vec![TargetMean, TargetMax, WriteLatency, NicBytes],
        },
    }
}

/// Reads a value: a counter, or what is there now.
#[inline(never)] // what most runs never need stays out of the way of what they do
pub(super) fn read(world: &mut World, path: usize, source: PathSource, before: &mut u64, span: Time) -> f64 {
    use PathSource::*;
    let now = world.fabric.run.now;
    let path = &mut world.nics.paths[path];
    let mut mean = |byte_time: u128| {
        // In ticks, which 64 bits hold for long.
        let ticks = (byte_time / TICK as u128) as u64;
        (ticks - std::mem::replace(before, ticks)) as f64 * TICK as f64 / span.0 as f64
    };
    let counter = match source {
        BufferMean => {
            path.buffers.level.integrate(now);
            return mean_of_ticks(std::mem::take(&mut path.buffers.level.byte_ticks), now, span);
        }
        BufferMax => {
            let bytes = path.buffers.level.bytes;
            return std::mem::replace(&mut path.buffers.level.max_bytes, bytes) as f64;
        }
        CreditsMean => return mean(path.pcie.away.byte_time(now)),
        IioMean => return mean(path.iio.byte_time(now)),
        CreditsMax => return path.pcie.away.take_max(now) as f64,
        IioMax => return path.iio.take_max(now) as f64,
        TargetMean => {
            let level = path.target.level();
            level.integrate(now);
            return mean_of_ticks(std::mem::take(&mut level.byte_ticks), now, span);
        }
        TargetMax => {
            let level = path.target.level();
            return std::mem::replace(&mut level.max_bytes, level.bytes) as f64;
        }
        Xoff(class) => return path.buffers.part_of(class).1.unwrap_or(0) as f64,
        Processing => return path.processing.0 as f64,
        WriteLatency => return path.target.write_latency(now).0 as f64,
        MissShare => return path.target.as_memory().map_or(0.0, |memory| memory.miss_share),
        BufferDropped => path.buffers.dropped,
        Stalled => path.stalled_until(now).0,
        CpuBytes => path.target.as_memory().map_or(0, |memory| memory.cpu_bytes(now).iter().sum()),
        NicBytes => match &path.target {
            Target::Memory(memory) => memory.counters.io_write_bytes + memory.counters.io_read_bytes,
            Target::Gpu(gpu) => gpu.write_bytes + gpu.read_bytes,
        },
    };
    let difference = counter - std::mem::replace(before, counter);
    source.kind().of_difference(difference, span)
}

const SECOND_PS: u64 = 1_000_000_000_000;
/// `outbound_pci_stalled_wr_events` counts seconds above this share.
const STALLED_SECOND: f64 = 0.3;

/// Counters of a path: mlx5's (NVIDIA, "Understanding mlx5 ethtool counters") and those that PCM prints (`pcm-pcie`,
/// `pcm-memory`).
pub(super) fn counters(world: &World, path: &HostPath, node: &str, rows: &mut Vec<Counter>) {
    let mut log = path.stalls.per_second.clone();
    log.resize(world.fabric.run.now.0.div_ceil(SECOND_PS) as usize, 0);
    let whole = (world.fabric.run.now.0 / SECOND_PS) as usize;
    let last = match whole.checked_sub(1) {
        Some(second) => log[second] as f64 / SECOND_PS as f64,
        None => log.first().map_or(0.0, |&ps| ps as f64 / world.fabric.run.now.0.max(1) as f64),
    };
    let stalled_seconds = log.iter().take(whole).filter(|&&ps| ps as f64 / SECOND_PS as f64 > STALLED_SECOND);
    let mut values = vec![
        ("rx_discards_phy", path.buffers.dropped),
        ("rx_out_of_buffer", 0), // an RDMA WRITE takes no receive descriptor
        ("outbound_pci_stalled_wr", (last * 100.0) as u64),
        ("outbound_pci_stalled_wr_events", stalled_seconds.count() as u64),
        ("pcie_write_bytes", path.pcie.write_bytes),
    ];
    match &path.target {
        Target::Memory(memory) => {
            let c = &memory.counters;
            let [cpu_read, cpu_written] = memory.cpu_bytes(world.fabric.run.now);
            values.extend([
                ("ItoM_total", c.write_hits + c.write_misses),
                ("ItoM_miss", c.write_misses),
                ("ItoM_hit", c.write_hits),
                ("PCIRdCur_total", c.lines_read),
                ("memory_read_bytes_cpu", cpu_read),
                ("memory_write_bytes_cpu", cpu_written),
                ("memory_read_bytes_nic", c.io_read_bytes),
                ("memory_write_bytes_nic", c.io_write_bytes),
            ]);
        }
        Target::Gpu(gpu) => values.extend([
            ("bar1_read_bytes", gpu.read_bytes),
            ("bar1_write_bytes", gpu.write_bytes),
            ("bar1_stalled_us", gpu.stalled.0 / 1_000_000),
        ]),
    }
    rows.extend(values.into_iter().map(|(counter, value)| Counter {
        node: node.into(),
        port: String::new(),
        counter: counter.into(),
        value,
    }));
}

/// Checks a path's books. Returns the data packets that it holds, and a line for each error.
pub(super) fn audit(world: &World, plan_name: &str, path: &HostPath) -> (u64, Vec<(String, String)>) {
    let mut errors = Vec::new();
    let (mut held, mut held_bytes, mut data) = (0u64, 0u64, 0u64);
    for (index, part) in path.buffers.parts.iter().enumerate() {
        let mut bytes = 0;
        for packet in part.fifo.iter(&world.fabric.packets) {
            bytes += packet.frame_bytes() as u64;
            held += 1;
            data += packet.kind.is_data() as u64;
        }
        held_bytes += bytes;
        let name = || format!("{plan_name}/nic-rx");
        if bytes != part.bytes {
            errors.push((name(), format!("buffer {index} counts {} B but holds {bytes} B", part.bytes)));
        }
        if part.max_bytes > part.size {
            errors.push((name(), format!("buffer {index} held {} of {} B", part.max_bytes, part.size)));
        }
    }
    let (mut came, mut dropped) = ((0u64, 0u64), (0u64, 0u64));
    for class in 0..crate::fabric::CLASSES as u8 {
        let at = lane(path.port as usize, class);
        let group = &world.fabric.groups[at];
        let tally = &world.fabric.drops[at][crate::fabric::drops::DropReason::ReceiveBufferFull as usize];
        came = (came.0 + group.rx_packets, came.1 + group.rx_bytes);
        dropped = (dropped.0 + tally.packets, dropped.1 + tally.bytes);
    }
    let went = (path.accepted_packets + dropped.0 + held, path.accepted_bytes + dropped.1 + held_bytes);
    if came != went {
        errors.push((
            format!("{plan_name}/nic-rx"),
            format!(
                "got {} packets of {} B and took, dropped or holds {} of {} B",
                came.0, came.1, went.0, went.1
            ),
        ));
    }
    let pcie = &path.pcie;
    let name = || format!("{plan_name}/pcie");
    if pcie.credits.consumed() != pcie.given_back {
        errors.push((name(), "credits were consumed that never come back".into()));
    }
    let (in_use, granted) =
        (pcie.credits.in_use(world.fabric.run.now.max(pcie.free_at)), pcie.credits.granted());
    if in_use.header > granted.header || in_use.data > granted.data {
        errors.push((name(), format!("{in_use:?} are in use of {granted:?}")));
    }
    let possible = pcie.rate.bytes_in(world.fabric.run.now.max(pcie.free_at));
    if pcie.link_bytes > possible {
        errors.push((name(), format!("carried {} B where {possible} B are possible", pcie.link_bytes)));
    }
    if path.iio.passed_bytes != pcie.write_bytes {
        let passed = path.iio.passed_bytes;
        errors.push((format!("{plan_name}/iio"), format!("got {passed} of {} B", pcie.write_bytes)));
    }
    (data, errors)
}
