//! What is recorded of the hosts' data paths.

use super::entity::Entity;
use super::ports;
use super::quantity::{counters, quantities, Table, PICOSECONDS_TO_MICROSECONDS};
use crate::fabric::{lane, port_and_class};
use crate::gauge::TICK;
use crate::host::path::gpu::Gpu;
use crate::host::path::memory::MemoryCounters;
use crate::host::path::{HostPath, Target};
use crate::plan::Plan;
use crate::world::World;

/// Queues of a path, from memory towards the wire: kind, name in the chart, what is recorded.
pub(super) const ROWS: [&str; 4] = ["memory", "iio", "pcie", "nic-rx"];

quantities! {
    /// The NIC's receive buffer.
    BUFFER of ["nic-rx"], |bin, host_path| {
        "queue_mean_bytes": Mean, "bytes", "bytes in the NIC's receive buffer, weighted by time"
            = bin.world.nics.host_paths[host_path].buffers.level.take_mean(bin.now, bin.span);
        "queue_max_bytes": Max, "bytes", "most bytes in it"
            = bin.world.nics.host_paths[host_path].buffers.level.take_max() as f64;
        "dropped": Count ("rx_discards_phy") [Drop], "packets", "packets that it had no room for"
            = bin.world.nics.host_paths[host_path].buffers.dropped;
    }
}

quantities! {
    /// Of a lossless part of it: of a path and a class.
    XOFF of ["nic-rx"], |bin, at| {
        "xoff_bytes": Now, "bytes", "its threshold at the end of the bin" = {
            let (host_path, class) = port_and_class(at);
            bin.world.nics.host_paths[host_path].buffers.part_of(class).1.unwrap_or(0) as f64
        };
    }
}

quantities! {
    /// PCIe.
    PCIE of ["pcie"], |bin, host_path| {
        "queue_mean_bytes": Integral, "bytes", "bytes whose PCIe credits are away, weighted by time"
            = ticks(bin.world.nics.host_paths[host_path].pcie.away.byte_time(bin.now));
        "queue_max_bytes": Max, "bytes", "most bytes whose credits are away"
            = bin.world.nics.host_paths[host_path].pcie.away.take_max(bin.now) as f64;
        "stalled_share": Share [PcieCreditStall], "share", "time for which a write waited for credits"
            = bin.world.nics.host_paths[host_path].stalled_until(bin.now).0;
    }
}

quantities! {
    /// The IIO.
    IIO of ["iio"], |bin, host_path| {
        "queue_mean_bytes": Integral, "bytes", "bytes in the IIO's buffer, weighted by time"
            = ticks(bin.world.nics.host_paths[host_path].iio.byte_time(bin.now));
        "queue_max_bytes": Max, "bytes", "most bytes in it"
            = bin.world.nics.host_paths[host_path].iio.take_max(bin.now) as f64;
        "processing_ps": Now, "ps", "how long the latest write was worked on there"
            = bin.world.nics.host_paths[host_path].processing.0 as f64;
    }
}

quantities! {
    /// What writes wait for in the end.
    TARGET of ["memory", "gpu"], |bin, host_path| {
        "queue_mean_bytes": Mean, "bytes", "bytes that wait for it, weighted by time"
            = bin.world.nics.host_paths[host_path].target.level().take_mean(bin.now, bin.span);
        "queue_max_bytes": Max, "bytes", "most bytes that wait for it"
            = bin.world.nics.host_paths[host_path].target.level().take_max() as f64;
        "write_latency_ps": Now, "ps", "what a write that comes now takes"
            = bin.world.nics.host_paths[host_path].target.write_latency(bin.now).0 as f64;
    }
}

quantities! {
    /// Memory that cores share with the NIC.
    MEMORY of ["memory"], |bin, host_path| {
        "ddio_miss_share": Now, "share", "writes of the NIC that miss the cache"
            = bin.world.nics.host_paths[host_path].target.as_memory().map_or(0.0, |memory| memory.miss_share);
        "memory_cpu_bps": Rate, "bit/s", "what the cores read and write"
            = bin.world.nics.host_paths[host_path].target.as_memory().map_or(0, |memory| memory.cpu_bytes(bin.now).iter().sum());
    }
}

quantities! {
    /// What the NIC makes of it.
    MEMORY_OF_NIC of ["memory", "gpu"], |bin, host_path| {
        "memory_nic_bps": Rate, "bit/s", "what the NIC reads and writes" = match &bin.world.nics.host_paths[host_path].target {
            Target::Memory(memory) => memory.counters.io_write_bytes + memory.counters.io_read_bytes,
            Target::Gpu(gpu) => gpu.write_bytes + gpu.read_bytes,
        };
    }
}

/// In ticks, which 64 bits hold for long.
fn ticks(byte_time: u128) -> u64 {
    (byte_time / TICK as u128) as u64
}

/// Name of a path's last row: `memory` or `gpu`.
pub(super) fn row_name(plan: &Plan, host_path: &HostPath, row: &str) -> String {
    let row = match (&host_path.target, row) {
        (Target::Gpu(_), "memory") => "gpu",
        _ => row,
    };
    format!("{}/{row}", plan.hosts[host_path.host as usize].name)
}

/// A row as an entity.
pub(super) fn entity(plan: &Plan, host_path: &HostPath, row: &'static str) -> Entity {
    let kind = if row == "memory" && matches!(host_path.target, Target::Gpu(_)) { "gpu" } else { row };
    Entity::new(row_name(plan, host_path, row), kind, &plan.hosts[host_path.host as usize].name)
}

/// What is recorded of a row. `number`: of the path. `class`: one that the host receives.
pub(super) fn tables(
    host_path: &HostPath,
    number: usize,
    row: &str,
    class: Option<u8>,
) -> Vec<(&'static Table, usize)> {
    match row {
        "nic-rx" => {
            let xoff = class.filter(|&class| host_path.buffers.part_of(class).1.is_some());
            let pausing = class.map(|class| (&ports::PAUSING, lane(host_path.port as usize, class)));
            let xoff = xoff.map(|class| (&XOFF, lane(number, class)));
            [(&BUFFER, number)].into_iter().chain(xoff).chain(pausing).collect()
        }
        "pcie" => vec![(&PCIE, number)],
        "iio" => vec![(&IIO, number)],
        _ => match &host_path.target {
            Target::Memory(_) => vec![(&TARGET, number), (&MEMORY, number), (&MEMORY_OF_NIC, number)],
            Target::Gpu(_) => vec![(&TARGET, number), (&MEMORY_OF_NIC, number)],
        },
    }
}

const SECOND_PS: u64 = 1_000_000_000_000;
/// `outbound_pci_stalled_wr_events` counts seconds above this share.
const STALLED_SECOND: f64 = 0.3;

counters! {
    /// Of a path, under the names of mlx5 (NVIDIA, "Understanding mlx5 ethtool counters").
    COUNTS of ["host"], |world: World, host_path| {
        "rx_out_of_buffer": "packets", "packets without a receive descriptor; 0: an RDMA WRITE takes none" = 0;
        "outbound_pci_stalled_wr": "percent", "of the last whole second, or of a shorter run, in which a write waited for PCIe credits"
            = stalled_percent(world, host_path);
        "outbound_pci_stalled_wr_events": "seconds", "whole seconds of which they waited for more than 30 %"
            = stalled_seconds(world, host_path);
        "pcie_write_bytes": "bytes", "written over PCIe" = world.nics.host_paths[host_path].pcie.write_bytes;
    }
}

/// Share of the last whole second, or of a shorter run, percent.
fn stalled_percent(world: &World, host_path: usize) -> u64 {
    let log = stalls(world, host_path);
    let share = match whole_seconds(world).checked_sub(1) {
        Some(second) => log[second] as f64 / SECOND_PS as f64,
        None => log.first().map_or(0.0, |&ps| ps as f64 / world.fabric.run.now.0.max(1) as f64),
    };
    (share * 100.0) as u64
}

fn stalled_seconds(world: &World, host_path: usize) -> u64 {
    let log = stalls(world, host_path);
    let stalled = log.iter().take(whole_seconds(world));
    stalled.filter(|&&ps| ps as f64 / SECOND_PS as f64 > STALLED_SECOND).count() as u64
}

fn whole_seconds(world: &World) -> usize {
    (world.fabric.run.now.0 / SECOND_PS) as usize
}

/// By second of the run: how long writes waited for credits.
fn stalls(world: &World, host_path: usize) -> Vec<u64> {
    let mut log = world.nics.host_paths[host_path].stalls.per_second.clone();
    log.resize(world.fabric.run.now.0.div_ceil(SECOND_PS) as usize, 0);
    log
}

counters! {
    /// Of memory, under the names that PCM prints (`pcm-pcie`, `pcm-memory`), and who uses it.
    MEMORY_COUNTS of ["host"], |memory: MemoryUse, _| {
        "ItoM_total": "cache lines", "lines that the NIC wrote" = memory.counters.write_hits + memory.counters.write_misses;
        "ItoM_miss": "cache lines", "of these, those that missed the cache" = memory.counters.write_misses;
        "ItoM_hit": "cache lines", "of these, those that hit it" = memory.counters.write_hits;
        "PCIRdCur_total": "cache lines", "lines that the NIC read" = memory.counters.lines_read;
        "memory_read_bytes_cpu": "bytes", "read by the cores" = memory.cpu[0];
        "memory_write_bytes_cpu": "bytes", "written by the cores" = memory.cpu[1];
        "memory_read_bytes_nic": "bytes", "read by the NIC" = memory.counters.io_read_bytes;
        "memory_write_bytes_nic": "bytes", "written by the NIC" = memory.counters.io_write_bytes;
    }
}

/// Who used memory until now.
pub(super) struct MemoryUse {
    counters: MemoryCounters,
    cpu: [u64; 2],
}

counters! {
    /// Of a GPU.
    GPU_COUNTS of ["host"], |gpu: Gpu, _| {
        "bar1_read_bytes": "bytes", "read from the GPU's memory" = gpu.read_bytes;
        "bar1_write_bytes": "bytes", "written to it" = gpu.write_bytes;
        "bar1_stalled_us": "us", "time for which it took no write" = gpu.stalled.0 / PICOSECONDS_TO_MICROSECONDS;
    }
}

/// Counters of a path.
pub(super) fn count(world: &World, host_path: usize, add: &mut dyn FnMut(&'static str, u64)) {
    (COUNTS.count)(world, host_path, add);
    match &world.nics.host_paths[host_path].target {
        Target::Memory(memory) => {
            let counters = memory.counters;
            let cpu = memory.cpu_bytes(world.fabric.run.now);
            (MEMORY_COUNTS.count)(&MemoryUse { counters, cpu }, 0, add);
        }
        Target::Gpu(gpu) => (GPU_COUNTS.count)(gpu, 0, add),
    }
}

/// Checks a path's books. Returns the data packets that it holds, and a line for each error.
pub(super) fn audit(world: &World, plan_name: &str, host_path: &HostPath) -> (u64, Vec<(String, String)>) {
    let mut errors = Vec::new();
    let (mut held, mut held_bytes, mut data) = (0u64, 0u64, 0u64);
    for (index, part) in host_path.buffers.parts.iter().enumerate() {
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
        let at = lane(host_path.port as usize, class);
        let group = &world.fabric.groups[at];
        let tally = &world.fabric.drops[at][crate::fabric::drops::DropReason::ReceiveBufferFull as usize];
        came = (came.0 + group.rx_packets, came.1 + group.rx_bytes);
        dropped = (dropped.0 + tally.packets, dropped.1 + tally.bytes);
    }
    let went =
        (host_path.accepted_packets + dropped.0 + held, host_path.accepted_bytes + dropped.1 + held_bytes);
    if came != went {
        errors.push((
            format!("{plan_name}/nic-rx"),
            format!(
                "got {} packets of {} B and took, dropped or holds {} of {} B",
                came.0, came.1, went.0, went.1
            ),
        ));
    }
    let pcie = &host_path.pcie;
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
    if host_path.iio.passed_bytes != pcie.write_bytes {
        let passed = host_path.iio.passed_bytes;
        errors.push((format!("{plan_name}/iio"), format!("got {passed} of {} B", pcie.write_bytes)));
    }
    (data, errors)
}
