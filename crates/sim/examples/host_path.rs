//! The two published experiments on receiving hosts, in numbers: `cargo run --release --example host_path -- gpu`, or
//! `memory` and lines that the cores keep outstanding. Settings by environment: see `env` below.

#[path = "../tests/common/mod.rs"]
mod common;

use common::host::*;
use common::{run, MS, US};
use tailback_proto::units::{Bytes, Rate, Time};

fn gpu() {
    for (name, plan) in [
        ("host memory", point_to_point()),
        ("GPUs, no stalls", point_to_point_gpu([0, 2], [None, None])),
        ("GPUs, h1's stalls", point_to_point_gpu([0, 2], [None, Some((4_750 * US, 485 * US))])),
        ("GPUs, 5.2 GB/s for reads and writes", {
            let mut plan = point_to_point_gpu([0, 2], [None, None]);
            for nic in &mut plan.nics {
                if let Some(tailback_sim::plan::TargetPlan::Gpu(gpu)) =
                    nic.host_path.as_mut().map(|path| &mut path.target)
                {
                    gpu.own.bandwidth = Rate(41_600_000_000);
                }
            }
            plan
        }),
        (
            "GPUs, both stall",
            point_to_point_gpu([0, 2], [Some((880 * MS, 485 * US)), Some((4_750 * US, 485 * US))]),
        ),
    ] {
        let mut plan = plan;
        plan.run.duration = Time(30_000 * MS);
        let r = run(plan);
        let way =
            |flow: usize| r.flows[flow].bytes_delivered as f64 / 1048576.0 / (r.meta.end_ps as f64 / 1e12);
        println!("{name}: {:.2} MiB/s ({:.2} + {:.2})", mib_per_second(&r), way(0), way(1));
        for host in ["h0", "h1"] {
            for name in [
                "rx_prio0_pause",
                "tx_prio0_pause",
                "rx_prio0_pause_transition",
                "rx_prio0_pause_duration",
                "rx_discards_phy",
                "out_of_sequence",
                "packet_seq_err",
                "local_ack_timeout_err",
                "outbound_pci_stalled_wr",
                "bar1_stalled_us",
            ] {
                print!("  {name} {}", counter(&r, host, name));
            }
            println!();
        }
    }
}

fn memory() {
    let env = |name: &str, default: u64| std::env::var(name).ok().map_or(default, |v| v.parse().unwrap());
    let lines: Vec<u32> = std::env::args().skip(2).map(|word| word.parse().unwrap()).collect();
    let lines = if lines.is_empty() { vec![0, 14, 33, 78] } else { lines };
    for lossless in [true, false] {
        let mut idle = 0.0;
        for &load in &lines {
            let mut plan = memory_pair(lossless, env("MSG", 65536), env("QPS", 1) as u32, load);
            plan.run.duration = Time(env("RUN", 40) * MS);
            let path = plan.nics[1].host_path.as_mut().unwrap();
            if let tailback_sim::plan::TargetPlan::Memory(memory) = &mut path.target {
                memory.own.write_wait = env("WAIT", 700) as f64 / 100.0;
                memory.own.write_queue = env("QUEUE", 64) as u32;
            }
            path.pcie.iio_lines = env("CREDITS", 93) as u32;
            if !lossless {
                path.receive_buffer.cnp_threshold = Some(Bytes(env("CNP", 131072)));
            }
            plan.writers[0].depth = env("DEPTH", 128) as u32;
            plan.nics.iter_mut().for_each(|nic| nic.mtu = Bytes(env("MTU", 4096)));
            for nic in &mut plan.nics {
                if let tailback_sim::plan::CongestionPlan::Dcqcn(dcqcn) = &mut nic.congestion[0] {
                    dcqcn.byte_reset_unit_bytes = env("UNIT", 1) as u32;
                    dcqcn.release_at_max_rate = env("RELEASE", 1) == 1;
                }
            }
            if env("ECN", 1) == 0 {
                plan.switch_models[0].ecn.clear();
            }
            let r = common::run_with_faults(plan);
            let rate = mean(&r, "h1", "goodput_rx_bps", 0.5) / 8e9;
            if load == lines[0] {
                idle = rate;
            }
            let of = |entity, metric| mean(&r, entity, metric, 0.5);
            let (cpu, nic) =
                (of("h1/memory", "memory_cpu_bps") / 8e9, of("h1/memory", "memory_nic_bps") / 8e9);
            println!(
                "{} lines {load}: {rate:.2} GB/s, loss {:.0} %, cpu {cpu:.1} nic {nic:.1} total {:.1}, processing {:.0} ns, write {:.0} ns, miss {:.2}, iio {:.0} B, stalled {:.2}, rx {:.0}, paused {:.3}, pauses {}, cnp {}, marked {}, drops {}, retransmitted {}",
                if lossless { "PFC" } else { "no PFC" },
                100.0 * (1.0 - rate / idle),
                cpu + nic,
                of("h1/iio", "processing_ps") / 1e3,
                of("h1/memory", "write_latency_ps") / 1e3,
                of("h1/memory", "ddio_miss_share"),
                of("h1/iio", "queue_mean_bytes"),
                of("h1/pcie", "stalled_share"),
                of("h1/nic-rx", "queue_mean_bytes"),
                if lossless { of("h1/nic-rx", "pausing_share") } else { 0.0 },
                counter(&r, "h1", "tx_prio3_pause"),
                counter(&r, "h1", "np_cnp_sent"),
                counter(&r, "h1", "np_ecn_marked_roce_packets"),
                counter(&r, "h1", "rx_discards_phy"),
                r.flows.iter().map(|flow| flow.packets_retransmitted).sum::<u64>()
            );
        }
    }
}

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("gpu") => gpu(),
        _ => memory(),
    }
}
