//! The receiving host's data path: two published experiments in small, and what must always hold.

mod common;

use common::host::*;
use common::{run, run_with_faults, MS, US};
use proptest::prelude::*;
use tailback_proto::units::{Bytes, Rate, Time};
use tailback_sim::plan::*;
use tailback_sim::record::Recording;
use tailback_sim::Simulation;

const ERRORS: [&str; 5] =
    ["rx_out_of_buffer", "rx_discards_phy", "out_of_sequence", "packet_seq_err", "local_ack_timeout_err"];

fn run_for(mut plan: Plan, ms: u64) -> Recording {
    plan.run.duration = Time(ms * MS);
    run(plan)
}

/// Measures of the h1 of `memory_pair` under a load of its cores.
fn under_load(lossless: bool, lines: u32) -> Recording {
    run_for(memory_pair(lossless, 65_536, 1, lines), 20)
}

#[test]
fn host_memory_keeps_up_with_25_gbit() {
    let recording = run_for(point_to_point(), 50);
    let rate = mib_per_second(&recording);
    assert!((rate / 5830.79 - 1.0).abs() < 0.005, "{rate} MiB/s");
    for host in ["h0", "h1"] {
        for name in ["rx_prio0_pause", "tx_prio0_pause"].into_iter().chain(ERRORS) {
            assert_eq!(counter(&recording, host, name), 0, "{host} {name}");
        }
    }
}

#[test]
fn the_path_is_at_the_top_of_the_chart() {
    let recording = run_for(point_to_point(), 1);
    let names: Vec<(&str, &str, u32)> = recording
        .meta
        .queues
        .iter()
        .filter(|queue| queue.queue.starts_with("h1") || queue.kind == "send")
        .map(|queue| (queue.queue.as_str(), queue.kind, queue.order))
        .collect();
    let expected = [
        ("h1/memory", "memory", 0),
        ("h1/iio", "iio", 1),
        ("h1/pcie", "pcie", 2),
        ("h1/nic-rx", "nic-rx", 3),
        ("h0/sq0", "send", 4),
        ("h1/sq0", "send", 4),
    ];
    assert_eq!(names, expected);
}

/// Longer ways alone do not stop 25 Gbit/s: what is outstanding covers them.
#[test]
fn a_gpu_behind_more_hops_keeps_up() {
    let recording = run_for(point_to_point_gpu([0, 2], [None, None]), 20);
    assert!(mib_per_second(&recording) > 5800.0);
    assert_eq!(counter(&recording, "h1", "tx_prio0_pause"), 0);
}

/// But with little outstanding they do: Little's law.
#[test]
fn latency_limits_what_is_outstanding() {
    let rate = |hops| {
        let mut plan = point_to_point_gpu([0, hops], [None, None]);
        plan.nics[1].host_path.as_mut().unwrap().reads = None;
        let recording = run_for(plan, 5);
        mean(&recording, "h1", "goodput_rx_bps", 0.5) / 8.0
    };
    assert!(rate(2) > 3.0e9, "the link's rate");
    // 8,192 B over 150 ns of the IIO, 200 ns of credits and 150 ns a hop.
    let (found, expected) = (rate(16), 8192.0 / (350e-9 + 16.0 * 150e-9));
    assert!(found < expected && found > expected * 0.85, "{found} of {expected}");
}

#[test]
fn a_gpu_that_stalls_pauses_its_peer_and_both_ways_lose_alike() {
    let stalls = Some((4_750 * US, 485 * US));
    let plan = point_to_point_gpu([0, 2], [None, stalls]);
    let recording = run_for(plan, 3_000);
    let rate = mib_per_second(&recording);
    assert!((rate / 5295.75 - 1.0).abs() < 0.05, "{rate} MiB/s");
    let ways: Vec<f64> = recording.flows.iter().map(|flow| flow.bytes_delivered as f64).collect();
    assert!((ways[0] / ways[1] - 1.0).abs() < 0.02, "{ways:?}");
    let frames = counter(&recording, "h0", "rx_prio0_pause");
    let transitions = counter(&recording, "h0", "rx_prio0_pause_transition");
    assert!((600..2500).contains(&frames), "{frames} frames where 1,267 were seen in 3 s");
    let each = frames as f64 / transitions as f64;
    assert!((2.1..2.7).contains(&each), "{each} frames a transition");
    assert_eq!(frames, counter(&recording, "h1", "tx_prio0_pause"));
    assert_eq!(counter(&recording, "h0", "tx_prio0_pause"), 0);
    // What waits at the GPU is what may be outstanding, 8 KiB of writes and 16 KiB of reads, and packets just begun; a
    // stall adds no bytes.
    let waiting = most(&recording, "h1/gpu", "queue_max_bytes");
    assert!((8_192.0..40_000.0).contains(&waiting), "{waiting} B wait at the GPU");
    for name in ERRORS {
        assert_eq!(counter(&recording, "h1", name), 0, "{name}");
    }
}

/// Total memory traffic of 19, 25 and 30 GB/s.
const LOADS: [u32; 4] = [0, 14, 33, 78];

#[test]
fn memory_traffic_slows_the_receiver() {
    let runs: Vec<Recording> = LOADS.iter().map(|&lines| under_load(true, lines)).collect();
    let of = |entity, metric| -> Vec<f64> {
        runs.iter().map(|recording| mean(recording, entity, metric, 0.5)).collect()
    };
    let grows = |values: &[f64]| values.windows(2).all(|pair| pair[1] > pair[0]);
    let mut rates = of("h1", "goodput_rx_bps");
    let loss = 1.0 - rates[3] / rates[0];
    assert!((0.55..0.70).contains(&loss), "{loss} is lost; 0.62 were seen");
    assert!((rates[1] / rates[0] - 1.0).abs() < 0.01, "the queue of pending writes is drained: {rates:?}");
    rates.reverse();
    assert!(grows(&rates[..3]), "{rates:?}");
    for (entity, metric) in [
        ("h1/pcie", "stalled_share"),
        ("h1/nic-rx", "pausing_share"),
        ("h1/memory", "ddio_miss_share"),
        ("h1/iio", "processing_ps"),
        ("h1/iio", "queue_mean_bytes"),
    ] {
        let values = of(entity, metric);
        assert!(grows(&values[1..]) && values[1] >= values[0], "{metric} of {entity}: {values:?}");
    }
    let processing = of("h1/iio", "processing_ps");
    assert!((700e3..1200e3).contains(&processing[3]), "{processing:?}; about 900 ns were seen");
    let [cpu, nic] = ["memory_cpu_bps", "memory_nic_bps"].map(|metric| of("h1/memory", metric));
    for (at, seen) in [(1, 19.0), (2, 25.3), (3, 30.3)] {
        let total = (cpu[at] + nic[at]) / 8e9;
        assert!((total / seen - 1.0).abs() < 0.08, "{total} GB/s where {seen} were seen");
    }
    for recording in &runs {
        assert_eq!(counter(recording, "h1", "rx_discards_phy"), 0);
    }
}

#[test]
fn without_pfc_the_nic_sends_cnps_of_its_own() {
    let [quiet, loaded] = [0, 78].map(|lines| under_load(false, lines));
    assert_eq!(counter(&quiet, "h1", "np_cnp_sent"), 0);
    assert!(counter(&loaded, "h1", "np_cnp_sent") > 100);
    assert_eq!(counter(&loaded, "h1", "np_ecn_marked_roce_packets"), 0);
    assert_eq!(counter(&loaded, "h0", "rp_cnp_handled"), counter(&loaded, "h1", "np_cnp_sent"));
    let goodput = |recording| mean(recording, "h1", "goodput_rx_bps", 0.5);
    assert!(goodput(&loaded) < 0.5 * goodput(&quiet));
}

#[test]
fn a_full_lossy_buffer_drops() {
    let mut plan = memory_pair(false, 65_536, 8, 78);
    plan.nics.iter_mut().for_each(|nic| nic.congestion = vec![CongestionPlan::None(Default::default())]);
    let recording = run_for(plan, 2);
    let dropped = counter(&recording, "h1", "rx_discards_phy");
    assert!(dropped > 0);
    let row = recording.meta.drops.iter().find(|row| row.r#where == "h1/nic-rx").expect("it is named");
    assert_eq!((row.packets, row.reason), (dropped, "receive buffer of the NIC full"));
}

#[test]
fn too_little_headroom_is_a_fault_that_names_the_buffer() {
    let mut plan = memory_pair(true, 65_536, 1, 78);
    let path = plan.nics[1].host_path.as_mut().unwrap();
    path.receive_buffers[1].xoff_bytes = Some(262_000);
    plan.run.duration = Time(5 * MS);
    let recording = run_with_faults(plan);
    let fault = &recording.meta.faults[0];
    assert_eq!((fault.kind, fault.r#where.as_str()), ("lossless_drop", "h1/nic-rx"));
    assert!(fault.text.contains("its buffer of 262144 B overflowed"), "{}", fault.text);
}

/// Cores that stop leave the memory to the NIC.
#[test]
fn a_load_that_ends_is_over() {
    let mut plan = memory_pair(true, 65_536, 1, 78);
    plan.memory_loads[0].stop = Some(Time(5 * MS));
    plan.nics.iter_mut().for_each(|nic| nic.congestion = vec![CongestionPlan::None(Default::default())]);
    let recording = run_for(plan, 10);
    let late = mean(&recording, "h1", "goodput_rx_bps", 0.6);
    assert!(late > 95e9, "{late}");
    assert_eq!(mean(&recording, "h1/memory", "memory_cpu_bps", 0.6), 0.0);
}

#[test]
fn the_same_seed_gives_the_same_recording_and_looking_changes_nothing() {
    let recording = |seed, bins| {
        let mut plan = memory_pair(true, 65_536, 2, 33);
        plan.run.seed = seed;
        plan.run.duration = Time(2 * MS);
        plan.record.max_bins = bins;
        let path = plan.nics[1].host_path.as_mut().unwrap();
        if let TargetPlan::Memory(memory) = &mut path.target {
            memory.own.read_spread = 1.0;
        }
        let mut simulation = Simulation::new(plan).unwrap();
        while !simulation.advance(1000).done {}
        simulation.finish()
    };
    let first = recording(1, 2048);
    assert!(format!("{first:?}") == format!("{:?}", recording(1, 2048)));
    assert!(format!("{:?}", first.flows) == format!("{:?}", recording(1, 20).flows));
    assert!(format!("{:?}", first.flows) != format!("{:?}", recording(2, 2048).flows));
}

#[test]
fn what_cannot_be_is_refused() {
    type Change<'a> = &'a dyn Fn(&mut Plan);
    let path = |plan: &mut Plan| plan.nics[1].host_path.take().unwrap();
    let cases: [(&str, Change); 6] = [
        ("xon below xoff", &|plan| {
            let mut changed = path(plan);
            changed.receive_buffers[1].xon_bytes = Some(200_000);
            plan.nics[1].host_path = Some(changed);
        }),
        ("each priority once", &|plan| {
            let mut changed = path(plan);
            changed.receive_buffers[1].priorities.clear();
            plan.nics[1].host_path = Some(changed);
        }),
        ("is in two buffers", &|plan| {
            let mut changed = path(plan);
            changed.receive_buffers[1].priorities.push(0);
            plan.nics[1].host_path = Some(changed);
        }),
        ("iio_lines", &|plan| {
            let mut changed = path(plan);
            changed.pcie.iio_lines = 3;
            plan.nics[1].host_path = Some(changed);
        }),
        ("h0 has no host_path to memory", &|plan| plan.memory_loads[0].host = "h0".into()),
        ("read_share", &|plan| plan.memory_loads[0].read_share = 1.5),
    ];
    for (problem, change) in cases {
        let mut plan = memory_pair(true, 65_536, 1, 14);
        change(&mut plan);
        let error = plan.check().expect_err(problem).to_string();
        assert!(error.contains(problem), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Whatever cores do and however the path is made, nothing is lost where xoff leaves headroom; credits, bandwidths
    /// and sizes are checked with the books.
    #[test]
    fn nothing_is_lost_under_any_memory_load(
        seed in 0..=i64::MAX as u64,
        loads in prop::collection::vec((1u32..400, 0u64..300, 1u64..300), 0..4),
        lines in 4u32..250,
        headers in 1u32..200,
        latencies in (0u64..2_000_000, 0u64..1_000_000),
        (wait, queue, spread) in (0.0f64..100.0, 2u32..500, 0.0f64..1.0),
        ddio in prop::option::of(10_000u64..10_000_000),
        mtu in 0usize..3,
        message in 1u64..200_000,
        gpu in prop::option::of((8u64..100, 4096u64..100_000, 1u64..200)),
        xoff in 20_000u64..100_000,
    ) {
        let mut plan = memory_pair(true, message, 2, 0);
        plan.run.seed = seed;
        plan.run.duration = Time(MS / 2);
        for nic in &mut plan.nics {
            nic.mtu = Bytes([256, 1024, 4096][mtu] as u64);
            nic.congestion = vec![CongestionPlan::None(Default::default())];
        }
        let path = plan.nics[1].host_path.as_mut().unwrap();
        path.pcie.iio_latency = Time(latencies.0);
        path.pcie.credit_latency = Time(latencies.1);
        path.pcie.iio_lines = lines;
        path.pcie.header_credits = headers;
        let buffer = &mut path.receive_buffers[1];
        buffer.xoff_bytes = Some(xoff);
        buffer.xon_bytes = Some(xoff / 2);
        // Until the switch is quiet: a packet in transmission each way, the way there and back, the response.
        path.receive_buffer.lossless_size = Bytes(xoff + 2 * 4200 + 12_500 * (2 * 10 + 300 + 300) / 1000 + 4200);
        if let TargetPlan::Memory(memory) = &mut path.target {
            let own = &mut memory.own;
            (own.write_wait, own.write_queue, own.read_spread) = (wait, queue, spread);
            memory.ddio = ddio.map(|bytes| DdioParameters { capacity: Bytes(bytes), cpu_share: 0.2, working_set: None });
        }
        if let Some((gbps, outstanding, interval)) = gpu {
            path.target = TargetPlan::Gpu(GpuPlan {
                own: GpuParameters {
                    bandwidth: Rate(gbps * 1_000_000_000),
                    hops: 1,
                    hop_latency: Time(100_000),
                    outstanding: Bytes(outstanding),
                },
                stalls: Some(StallsParameters { interval: Time(interval * US), duration: Time(30 * US) }),
            });
        } else {
            plan.memory_loads = loads
                .iter()
                .map(|&(lines_per_core, start, span)| MemoryLoadPlan {
                    item: "load".into(),
                    host: "h1".into(),
                    start: Time(start * US),
                    stop: Some(Time((start + span) * US)),
                    cores: 2,
                    lines_per_core,
                    read_share: 0.5,
                })
                .collect();
        }
        let recording = run_with_faults(plan);
        prop_assert!(recording.meta.faults.is_empty(), "{:?}", recording.meta.faults);
        prop_assert_eq!(counter(&recording, "h1", "rx_discards_phy"), 0);
    }
}

/// TCP's packets wait in the receive buffer like RoCE's: the books count both.
#[test]
fn books_balance_with_tcp_in_the_receive_buffer() {
    let mut plan = memory_pair(true, 65_536, 1, 0);
    let path = plan.nics[1].host_path.as_mut().unwrap();
    path.pcie.header_credits = 1;
    path.pcie.iio_latency = Time(20 * US);
    for nic in &mut plan.nics {
        nic.tcp = Some(common::tcp::tcp());
        nic.cpu = Some(common::tcp::cpu());
    }
    plan.tcp_connections = vec![common::tcp::connections(0, 1, 1), common::tcp::connections(1, 0, 1)];
    for us in [40, 80, 200] {
        plan.run.duration = Time(us * US);
        run(plan.clone());
    }
}

/// No mean is above the maximum of its bin, whatever stalls: credits and the IIO are booked ahead.
#[test]
fn no_mean_is_above_the_maximum() {
    let with_few_credits = |mut plan: Plan| {
        let path = plan.nics[1].host_path.as_mut().unwrap();
        path.pcie.header_credits = 4;
        path.pcie.iio_latency = Time(3 * US);
        plan
    };
    let stalls = [None, Some((50 * US, 40 * US))];
    for plan in [
        memory_pair(true, 65_536, 4, 80),
        with_few_credits(memory_pair(true, 65_536, 4, 0)),
        point_to_point_gpu([0, 2], stalls),
    ] {
        let recording = run_for(plan, 1);
        let series = &recording.series;
        let mut bins = 0;
        for (entity, metric, means) in series.columns() {
            if metric != "queue_mean_bytes" {
                continue;
            }
            let of = |column: &(usize, &str, &[f64])| (column.0, column.1) == (entity, "queue_max_bytes");
            let most = series.columns().find(of).expect("a maximum beside each mean").2;
            for (at, (mean, most)) in means.iter().zip(most).enumerate() {
                // Both are whole bytes except for those that are half over PCIe.
                assert!(*mean <= most + 1.0, "{} bin {at}: {mean} above {most}", series.entities[entity]);
                bins += 1;
            }
        }
        assert!(bins > 1000, "{bins}");
    }
}
