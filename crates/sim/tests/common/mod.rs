//! Plans for tests: a star of hosts, with what a test wants different.
#![allow(dead_code)] // each test uses its own part

pub mod bridge;
pub mod fabric;
pub mod host;
pub mod seeds;
pub mod tcp;

use tailback_proto::congestion::dcqcn::DcqcnParameters;
use tailback_proto::units::{Bytes, Rate, Time};
use tailback_sim::plan::*;
use tailback_sim::record::Recording;
use tailback_sim::Simulation;

pub const US: u64 = 1_000_000;
pub const MS: u64 = 1_000 * US;

/// Code points of all tests: the index is the priority in both headers, and the class.
pub fn code_points() -> Vec<CodePointPlan> {
    (0..8).map(|priority| CodePointPlan { dscp: 8 * priority, pcp: priority }).collect()
}

/// A step in every class but that of CNPs.
pub fn ecn(rate_bps: Option<u64>, k_bytes: u64) -> EcnParameters {
    let priorities = vec![0, 1, 2, 3, 4, 5, 7];
    EcnParameters { rate_bps, priorities, k_min: Bytes(k_bytes), k_max: Bytes(k_bytes), p_max: 1.0 }
}

/// A star: hosts h0, h1, ... around switch sw0; nothing is sent.
pub fn star(hosts: usize) -> Plan {
    Plan {
        name: "test".into(),
        run: RunParameters {
            duration: Time(5 * MS),
            seed: 1,
            ecmp_by_seed: false,
            clock_ppm: 0.0,
            skip: tailback_sim::plan::Skip::Never,
            skip_error: 0.01,
        },
        hosts: (0..hosts).map(|i| HostPlan { name: format!("h{i}"), nic: 0, congestion: 0 }).collect(),
        nics: vec![NicPlan {
            mtu: Bytes(1024),
            rx_latency: Time(300_000),
            class_of: (0..8).collect(),
            ect: true,
            cnp_code_point: Some(6),
            strict: vec![6],
            weights: None,
            transport: TransportParameters {
                adaptive_timeout: Some(Time(2_097_152_000)),
                ..TransportParameters::default()
            },
            congestion: vec![CongestionPlan::Dcqcn(connectx())],
            rhcc: None,
            hostcc: None,
            host_path: None,
            tcp: None,
            cpu: None,
        }],
        switches: vec![SwitchPlan { name: "sw0".into(), model: 0 }],
        switch_models: vec![SwitchModelPlan {
            buffer: Bytes(16_000_000),
            shared_bytes: 15_000_000,
            latency: Time(300_000),
            class_of: (0..8).collect(),
            lossless: vec![3],
            strict: vec![6],
            weights: None,
            pools: None,
            ecn: vec![EcnParameters { k_max: Bytes(1_500_000), ..ecn(None, 150_000) }],
            ingress_alpha: 1.0,
            egress_alpha: 2.0,
            load_balancing: LoadBalancing::Ecmp,
            flowlet_gap: Time(500 * US),
            pfc: PfcParameters::default(),
            pause: PauseParameters { response_delay: Time(300_000), ..PauseParameters::default() },
            watchdog: None,
            trimming: None,
        }],
        bridges: vec![],
        bridge_models: vec![],
        links: (0..hosts)
            .map(|i| LinkPlan {
                a: format!("h{i}"),
                b: "sw0".into(),
                rate: Rate(100_000_000_000),
                delay: Time(500_000),
                loss: 0.0,
                headroom_bytes: 30_000,
            })
            .collect(),
        code_points: code_points(),
        writers: vec![],
        flows: FlowsPlan::default(),
        jobs: vec![],
        memory_loads: vec![],
        tcp_connections: vec![],
        failures: vec![],
        veth: None,
        record: RecordParameters { max_bins: 2048, qps: 64, queues: None },
    }
}

/// DCQCN's defaults (NVIDIA, "DCQCN CC Parameters").
pub fn connectx() -> DcqcnParameters {
    DcqcnParameters::default()
}

/// Writers from `src` to `dst` that never stop, 1 KiB messages.
pub fn writer(src: usize, dst: usize, qps: u32) -> WriterPlan {
    WriterPlan {
        item: "write".into(),
        src: format!("h{src}"),
        dst: format!("h{dst}"),
        code_point: 3,
        congestion: None,
        qps,
        message: Bytes(1024),
        depth: 128,
        messages: None,
        start: Time(0),
        start_spread: Time(0),
        stop: None,
        partner: None,
        passing: false,
    }
}

/// Sixteen senders, one receiver.
pub fn incast(qps: u32) -> Plan {
    let mut plan = star(17);
    plan.writers = (0..16).map(|src| writer(src, 16, qps)).collect();
    plan
}

/// Runs a plan to its end and checks the books.
pub fn run(plan: Plan) -> Recording {
    let recording = run_with_faults(plan);
    assert!(recording.meta.faults.is_empty(), "{:?}", recording.meta.faults);
    recording
}

/// Runs a plan that may have faults; the books must add up all the same.
pub fn run_with_faults(plan: Plan) -> Recording {
    let mut simulation = Simulation::new(plan).expect("the plan is possible");
    while !simulation.advance(100_000).done {}
    let recording = simulation.finish();
    assert!(recording.meta.conservation.ok, "{:?}", recording.meta.faults);
    recording
}

/// The total of one counter over all nodes and ports.
pub fn total(recording: &Recording, counter: &str) -> u64 {
    recording.counters.iter().filter(|row| row.counter == counter).map(|row| row.value).sum()
}

/// A link that fails, and is repaired or not; times in picoseconds.
pub fn failure(link: usize, at: u64, repair: Option<u64>) -> FailurePlan {
    FailurePlan { at: Time(at), repair: repair.map(Time), detection: Time::ZERO, link }
}

/// Pairs of hosts, each of which has links of its own, at a rate that their controllers hold.
pub fn paced_pairs(count: usize, queue_pairs: u32, rate_mbps: u32, duration: Time) -> Plan {
    let mut plan = star(2 * count);
    plan.run.clock_ppm = 100.0;
    let paced = DcqcnParameters { rpg_max_rate: rate_mbps, release_at_max_rate: false, ..connectx() };
    plan.nics[0].congestion = vec![CongestionPlan::Dcqcn(paced)];
    plan.writers = (0..count).map(|src| writer(src, count + src, queue_pairs)).collect();
    plan.writers.iter_mut().for_each(|writer| (writer.message, writer.depth) = (Bytes(100_000), 4));
    plan.run.duration = duration;
    plan
}
