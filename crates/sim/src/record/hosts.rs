//! Quantities of hosts: their NICs, and agents that control congestion inside of them.

use tailback_proto::nic::Counters as NicCounters;

use super::ports;
use super::quantity::{counters, quantities, recorded, Table, PICOSECONDS_TO_MICROSECONDS};
use super::recording::Entity;
use crate::fabric::{lane, port_and_class};
use crate::gauge::TICK_PS;
use crate::host::path::memory::{Gpu, MemoryCounters};
use crate::host::path::{HostPath, Target};
use crate::plan::Plan;
use crate::world::World;

recorded! {
    quantities {
        /// Traffic and errors of a NIC.
        NIC of ["host"] always, |bin, host| {
            "goodput_tx_bps": Rate, "bit/s", "payload of its messages, delivered in order at their receivers"
                = bin.world.nics[host].goodput_tx_bytes;
            "goodput_rx_bps": Rate, "bit/s", "payload that it received in order"
                = bin.world.nics[host].goodput_rx_bytes;
            "wire_tx_bps": Rate, "bit/s", "all packets that it sent, with preamble and gap"
                = bin.world.fabric.ports[bin.world.nics[host].port as usize].wire_bytes;
            "wire_rx_bps": Rate, "bit/s", "all packets for it, in order or not, with preamble and gap, as they leave the peer"
                = wire_rx(bin.world, host);
            "packet_seq_err": Count ("packet_seq_err") [Nak], "packets", "NAKs that it received as a requester"
                = bin.world.nics[host].counters.rdma.packet_seq_err;
            "out_of_sequence": Count ("out_of_sequence"), "packets", "packets that came out of order to it as a responder"
                = bin.world.nics[host].counters.rdma.out_of_sequence;
            "local_ack_timeout_err": Count ("local_ack_timeout_err"), "timeouts", "timeouts of it as a requester"
                = bin.world.nics[host].counters.rdma.local_ack_timeout_err;
            "np_cnp_sent": Count ("np_cnp_sent") [Cnp], "packets", "CNPs that it sent"
                = bin.world.nics[host].counters.rdma.np_cnp_sent;
            "rp_cnp_handled": Count ("rp_cnp_handled"), "packets", "CNPs that it received and that set a rate; losses, too, where `losses_are_cnps`"
                = bin.world.nics[host].counters.rdma.rp_cnp_handled;
            "cnp_delay_ns": Count, "ns", "how long the CNPs that it handled had been on their way, all together: to be divided by `rp_cnp_handled`"
                = bin.world.nics[host].counters.cnp_delay_ns;
        }
    }

    quantities {
        /// Delay probes of a NIC.
        DELAY of ["host"], |bin, host| {
            "delay_probes": Count [DelayProbe], "packets", "answers that brought it a delay which its congestion control acts on: each ACK of TIMELY and Swift, each answer to a probe of RHCC"
                = bin.world.nics[host].counters.rdma.delay_probes;
        }
    }

    counters {
        /// Further counters of a NIC.
        NIC_COUNTS of ["host"], |counts: NicCounters, _| {
            "np_ecn_marked_roce_packets": "packets", "data packets with a CE mark that it received"
                = counts.np_ecn_marked_roce_packets;
            "rp_cnp_ignored": "packets", "CNPs that it received without effect: no DCQCN, or the queue pair had ended"
                = counts.rp_cnp_ignored;
            "duplicate_request": "packets", "packets that it had received before, as a responder"
                = counts.duplicate_request;
            "roce_adp_retrans": "timeouts", "timeouts of it as a requester by a timer that adapts"
                = counts.roce_adp_retrans;
            "roce_slow_restart": "restarts", "times that a queue pair restarted slowly after a loss"
                = counts.roce_slow_restart;
            "roce_slow_restart_cnps": "timeouts", "timeouts that were CNPs to its congestion control, which `rp_cnp_handled` counts, too"
                = counts.roce_slow_restart_cnps;
            "nak_cnps": "packets", "NAKs that were, likewise; no NIC shows this one"
                = counts.nak_cnps;
            "req_transport_retries_exceeded": "queue pairs", "queue pairs that ran out of retries"
                = counts.req_transport_retries_exceeded;
        }
    }

    quantities {
        /// Inputs of an agent.
        AGENT of ["host"], |bin, agent| {
            "iio_occupancy_lines": Now, "cache lines", "occupancy of the IIO's buffer that its agent acts on"
                = bin.world.agents[agent].occupancy();
            "mba_level": Now, "level", "level of memory bandwidth that its agent leaves its cores; 0: all of it"
                = bin.world.agents[agent].level() as f64;
        }
    }

    counters {
        /// Of RHCC's senders.
        PROBES of ["host"], |probes: Probes, _| {
            "rhcc_probes_sent": "packets", "probes that RHCC's senders sent" = probes.sent;
            "rhcc_probe_answers": "packets", "answers that they got" = probes.answers;
        }
    }

    counters {
        /// Of an agent.
        LEVEL_CHANGES of ["host"], |changes: u64, _| {
            "mba_level_changes": "changes", "changes of the level of memory bandwidth" = *changes;
        }
    }

    quantities {
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

    quantities {
        /// Of a lossless part of it: of a path and a class.
        XOFF of ["nic-rx"], |bin, at| {
            "xoff_bytes": Now, "bytes", "its threshold at the end of the bin" = {
                let (host_path, class) = port_and_class(at);
                bin.world.nics.host_paths[host_path].buffers.part_of(class).1.unwrap_or(0) as f64
            };
        }
    }

    quantities {
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

    quantities {
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

    quantities {
        /// The target of writes: memory or a GPU.
        TARGET of ["memory", "gpu"], |bin, host_path| {
            "queue_mean_bytes": Mean, "bytes", "bytes that wait for it, weighted by time"
                = bin.world.nics.host_paths[host_path].target.level().take_mean(bin.now, bin.span);
            "queue_max_bytes": Max, "bytes", "most bytes that wait for it"
                = bin.world.nics.host_paths[host_path].target.level().take_max() as f64;
            "write_latency_ps": Now, "ps", "what a write that comes now takes"
                = bin.world.nics.host_paths[host_path].target.write_latency(bin.now).0 as f64;
        }
    }

    quantities {
        /// Memory that cores share with the NIC.
        MEMORY of ["memory"], |bin, host_path| {
            "ddio_miss_share": Now, "share", "writes of the NIC that miss the cache"
                = bin.world.nics.host_paths[host_path].target.as_memory().map_or(0.0, |memory| memory.miss_share);
            "memory_cpu_bps": Rate, "bit/s", "what the cores read and write"
                = bin.world.nics.host_paths[host_path].target.as_memory().map_or(0, |memory| memory.cpu_bytes(bin.now).iter().sum());
        }
    }

    quantities {
        /// Use of the memory by the NIC.
        MEMORY_OF_NIC of ["memory", "gpu"], |bin, host_path| {
            "memory_nic_bps": Rate, "bit/s", "what the NIC reads and writes" = match &bin.world.nics.host_paths[host_path].target {
                Target::Memory(memory) => memory.counters.io_write_bytes + memory.counters.io_read_bytes,
                Target::Gpu(gpu) => gpu.write_bytes + gpu.read_bytes,
            };
        }
    }

    counters {
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

    counters {
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

    counters {
        /// Of a GPU.
        GPU_COUNTS of ["host"], |gpu: Gpu, _| {
            "bar1_read_bytes": "bytes", "read from the GPU's memory" = gpu.read_bytes;
            "bar1_write_bytes": "bytes", "written to it" = gpu.write_bytes;
            "bar1_stalled_us": "us", "time for which it took no write" = gpu.stalled.0 / PICOSECONDS_TO_MICROSECONDS;
        }
    }
}

/// True if a host may have queue pairs that act on delays.
pub(super) fn hears_delay(world: &World, host: usize) -> bool {
    let model = &world.nics.models[world.nics[host].model as usize];
    model.rhcc.is_some() || model.congestion.iter().any(|congestion| congestion.uses().delay)
}

/// Bytes that the peer of a host's port put on the wire towards it.
fn wire_rx(world: &World, host: usize) -> u64 {
    let port = world.fabric.ports[world.nics[host].port as usize].peer as usize;
    let unsent = if world.fabric.is_bridge(port) { world.fabric.unsent_bytes(port) } else { 0 };
    world.fabric.ports[port].wire_bytes - unsent
}

/// Counters of RHCC's senders and of a host's agent, where it has them.
#[derive(Clone, Default)]
pub(super) struct HostControl {
    probes: Option<Probes>,
    level_changes: Option<u64>,
}

#[derive(Clone, Default)]
pub(crate) struct Probes {
    sent: u64,
    answers: u64,
}

impl HostControl {
    /// By host.
    pub fn of_hosts(world: &World) -> Vec<HostControl> {
        let mut found = vec![HostControl::default(); world.nics.nics.len()];
        for s in &world.nics.send_qps {
            if let Some(prober) = &s.prober {
                let probes = found[s.src as usize].probes.get_or_insert_default();
                probes.sent += prober.probes_sent;
                probes.answers += prober.answers;
            }
        }
        for agent in &world.agents {
            found[agent.host as usize].level_changes = Some(agent.level_changes);
        }
        found
    }

    pub fn count(&self, add: &mut dyn FnMut(&'static str, u64)) {
        if let Some(probes) = &self.probes {
            (PROBES.count)(probes, 0, add);
        }
        if let Some(changes) = &self.level_changes {
            (LEVEL_CHANGES.count)(changes, 0, add);
        }
    }
}

// What is recorded of the hosts' data paths.

/// Queues of a path, from memory towards the wire: kind, name in the chart, what is recorded.
pub(super) const ROWS: [&str; 4] = ["memory", "iio", "pcie", "nic-rx"];

/// In ticks, which 64 bits hold for long.
fn ticks(byte_time: u128) -> u64 {
    (byte_time / TICK_PS as u128) as u64
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

/// Tables of a row, each with its place. `number`: of the path. `class`: one that the host receives.
pub(super) fn tables(
    host_path: &HostPath,
    number: usize,
    row: &str,
    class: Option<u8>,
) -> Vec<(&'static Table<World>, usize)> {
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

/// Who used memory until now.
pub(crate) struct MemoryUse {
    counters: MemoryCounters,
    cpu: [u64; 2],
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
        let tally = &world.fabric.drops[at][crate::fabric::port::DropReason::ReceiveBufferFull as usize];
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
