//! Large runs end with books that add up, and within memory that a laptop has.

mod common;

use common::fabric::{permutation, random, FatTree};
use common::{run, star, writer, MS, US};
use tailback_proto::units::{Bytes, Time};
use tailback_sim::plan::*;
use tailback_sim::record::{Cells, FlowBlock, Recording, COLUMNS};
use tailback_sim::Simulation;

fn assert_the_books(recording: &Recording) {
    let meta = &recording.meta;
    assert!(meta.complete);
    assert!(meta.faults.is_empty(), "{:?}", meta.faults[0]);
    assert!(meta.conservation.ok);
    assert!(meta.conservation.checked_queues > 0);
    let data = &meta.conservation.data_packets;
    let accounted = data.delivered
        + data.dropped
        + data.discarded_out_of_order
        + data.discarded_duplicate
        + data.in_flight;
    assert_eq!(data.sent, accounted);
    if let Some(mib) = peak_mib() {
        println!("peak memory so far: {mib} MiB");
        // All tests of this file together; measured: 500 MiB.
        assert!(mib < 1500, "{mib} MiB");
    }
}

/// The most memory that this process ever had, where the kernel says so (proc(5), `VmHWM`).
/// A column of the flow table, whose rows all have a value.
fn column(rows: &[FlowBlock], name: &str) -> Vec<u64> {
    let at = COLUMNS.iter().position(|column| column.name == name).expect("it is a column");
    let values = |block: &FlowBlock| match &block.columns[at] {
        Cells::Integer(values) => values.iter(block.rows).collect::<Vec<u64>>(),
        other => panic!("{name}: {other:?}"),
    };
    rows.iter().flat_map(values).collect()
}

fn rows(recording: Recording) -> Vec<FlowBlock> {
    let rest = FlowBlock::new(&recording.flows);
    recording.blocks.map(|block| block.expect("it is in memory")).chain([rest]).collect()
}

fn peak_mib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib / 1024)
}

/// A list of 100,000 messages over 320 hosts.
#[test]
fn a_hundred_thousand_flows() {
    const FLOWS: u64 = 100_000;
    let tree = FatTree::hosts_320();
    let mut plan = tree.plan();
    let hosts = tree.host_count() as u64;
    let mut random = random(3);
    plan.flows.list = (0..FLOWS)
        .map(|number| {
            let src = (random() * hosts as f64) as u64;
            let dst = (src + 1 + (random() * (hosts - 1) as f64) as u64) % hosts;
            FlowPlan(src as u32, dst as u32, 0, 3, 1 + (random() * 4096.0) as u64, number * 1000)
        })
        .collect();
    let bytes: u64 = plan.flows.list.iter().map(|flow| flow.bytes()).sum();
    let recording = run(plan);
    assert_the_books(&recording);
    // A message that is not done has no completion time.
    let rows = rows(recording);
    let (took, ideal) = (column(&rows, "fct_ps"), column(&rows, "ideal_fct_ps"));
    assert_eq!(took.len() as u64, FLOWS);
    assert!(took.iter().zip(&ideal).all(|(took, ideal)| took >= ideal));
    assert_eq!(column(&rows, "bytes_delivered").iter().sum::<u64>(), bytes);
}

/// 10,000 queue pairs of one NIC share its port in turn: nobody is left behind.
#[test]
fn ten_thousand_queue_pairs_on_one_nic() {
    const QPS: u32 = 10_000;
    let mut plan = star(2);
    let span = 5 * MS;
    plan.run.duration = Time(span);
    plan.nics[0].congestion = vec![CongestionPlan::None(Default::default())];
    plan.writers = vec![WriterPlan { qps: QPS, message: Bytes(1024), ..writer(0, 1, 1) }];
    let recording = run(plan);
    assert_the_books(&recording);
    assert_eq!(recording.flows.len(), QPS as usize);
    let sent = recording.flows.iter().map(|flow| flow.packets_sent);
    let (least, most) = (sent.clone().min().unwrap(), sent.clone().max().unwrap());
    // Packets of 1,122 B on the wire: a payload of 1,024 B, 82 B of headers and framing, and the RETH of 16 B.
    let full = (span / (1122 * 80)) as f64;
    assert!((sent.sum::<u64>() as f64 / full - 1.0).abs() < 0.01);
    assert!(least >= 5 && most - least <= 2, "{least} to {most}");
}

/// Every host of a fat tree of 8,192 sends a message.
#[test]
fn eight_thousand_hosts() {
    let tree = FatTree::k_ary(32);
    let mut plan = tree.plan();
    plan.run.duration = Time(MS);
    plan.flows.list = permutation(tree.host_count(), 4096);
    let recording = run(plan);
    assert_the_books(&recording);
    assert!(recording.flows.iter().all(|flow| flow.state == "done"));
    assert!(recording.meta.end_ps < 100 * US);
}

/// Ending a run looks at each queue pair once, not once for each host: 16 of each of 8,192 hosts take 0.6 CPU-seconds, and
/// took 5 of a release build where each host looked at all.
#[test]
fn a_hundred_thousand_queue_pairs_of_eight_thousand_hosts() {
    const MOST_CPU_SECONDS: f64 = 3.0;
    let tree = FatTree::k_ary(32);
    let hosts = tree.host_count();
    let mut plan = tree.plan();
    plan.run.duration = Time(US);
    plan.writers = (0..hosts).map(|src| writer(src, (src + hosts / 2) % hosts, 16)).collect();
    let mut simulation = Simulation::new(plan).unwrap();
    while !simulation.advance(1 << 20).done {}
    let before = cpu_seconds();
    let recording = simulation.finish();
    let took = before.zip(cpu_seconds()).map(|(before, after)| after - before);
    println!("ending took {took:?} CPU-seconds");
    assert!(took.is_none_or(|took| took < MOST_CPU_SECONDS));
    assert_the_books(&recording);
    assert_eq!(column(&rows(recording), "packets_sent").len(), 16 * hosts);
}

/// CPU time of this thread, where the kernel accounts for it.
fn cpu_seconds() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split(' ').next()?.parse::<f64>().ok().map(|nanoseconds| nanoseconds / 1e9)
}
