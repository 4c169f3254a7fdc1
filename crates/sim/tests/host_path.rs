//! The receiving host's data path.

mod common;

use common::host::*;
use common::{run, MS};

#[test]
fn b_like() {
    let mut plan = point_to_point();
    plan.duration_ps = 100 * MS;
    let recording = run(plan);
    println!("host memory {} MiB/s", mib_per_second(&recording));
    for (queue, order) in recording.meta.queues.iter().map(|q| (&q.queue, q.order)) {
        println!("{queue} {order}");
    }
    for row in &recording.counters {
        println!("{} {} {}", row.node, row.counter, row.value);
    }
}
