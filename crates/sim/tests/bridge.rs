//! Linux bridges: two ends against each other, what limits them, and their books.

mod common;
use common::bridge::*;
use common::*;
use tailback_sim::plan::*;

/// A packet costs 1.5 us + 0.5 us, and each poll of 64 another 0.2 us: 498.8 k packets/s.
const PACKETS_PER_SECOND: f64 = 1e9 / (2_000.0 + 200.0 / 64.0);

#[test]
fn one_core_limits_the_throughput() {
    let mut plan = bridged(model());
    plan.duration_ps = 40 * MS;
    plan.writers = vec![write_bw()];
    let recording = run(plan);
    let packets = recording.flows[0].bytes_delivered as f64 / 4096.0;
    let expected = PACKETS_PER_SECOND * 0.04;
    println!("{packets} {expected} {:?}", recording.meta.bridge_cores);
    for row in &recording.counters {
        println!("{} {} {}", row.port, row.counter, row.value);
    }
    assert!((packets / expected - 1.0).abs() < 0.06, "{packets}, expected {expected}");
}
