//! Packet-hops per CPU-second of whole runs, recording on, beside the bare event queue on the same machine.
//!
//! A hop is one transmission of a packet over a link, ACKs and CNPs included. Run with `make bench`.

#[path = "../tests/common/mod.rs"]
mod common;

use common::{incast, MS};
use tailback_proto::units::Time;
use tailback_sim::engine::EventQueue;
use tailback_sim::plan::Plan;
use tailback_sim::Simulation;

/// CPU time of this thread in seconds, from the kernel's accounting.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux with schedstats");
    let nanoseconds = text.split(' ').next().and_then(|word| word.parse::<f64>().ok());
    nanoseconds.expect("the first number is time on a CPU") / 1e9
}

/// The hold model: each event taken schedules one, a random while later. Nanoseconds for both.
fn hold(pending: u64) -> f64 {
    const EVENTS: u64 = 5_000_000;
    let mut queue = EventQueue::default();
    let mut state = 1u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    // Spans like those of a fabric: up to 2 us, pending events set how many fall into a slice.
    for payload in 0..pending {
        queue.push(Time(random() % 2_000_000), payload as u32);
    }
    let start = cpu_seconds();
    for _ in 0..EVENTS {
        let (time, payload) = queue.pop().expect("as many are pushed as are popped");
        queue.push(time + Time(random() % 2_000_000), payload);
    }
    (cpu_seconds() - start) / EVENTS as f64 * 1e9
}

struct Measured {
    hops: u64,
    events: u64,
    seconds: f64,
}

fn measure(plan: Plan) -> Measured {
    let mut simulation = Simulation::new(plan).expect("the plan is possible");
    let start = cpu_seconds();
    let progress = loop {
        let progress = simulation.advance(1_000_000);
        if progress.done {
            break progress;
        }
    };
    let seconds = cpu_seconds() - start;
    assert!(simulation.finish().meta.conservation.ok);
    Measured { hops: progress.packet_hops, events: progress.events, seconds }
}

/// 16:1 at 100 Gbit/s, 64 queue pairs a sender, messages of one packet, as the published incast.
fn published_incast(mtu: u32) -> Plan {
    let mut plan = incast(64);
    plan.duration_ps = 400 * MS;
    plan.nics[0].mtu_bytes = mtu;
    for (index, writer) in plan.writers.iter_mut().enumerate() {
        writer.message_bytes = mtu as u64;
        writer.start_ps = index as u64 * 5 * MS;
    }
    plan
}

fn main() {
    println!("bare event queue (one pop and one push)");
    let mut reference = 0.0;
    for pending in [100, 1_000, 10_000, 100_000] {
        let nanoseconds = hold(pending);
        if pending == 1_000 {
            reference = nanoseconds;
        }
        println!("  {pending:>7} pending   {nanoseconds:6.1} ns an event");
    }
    println!("\nwhole runs, recording on");
    println!(
        "  {:<28}{:>9}{:>16}{:>14}{:>22}",
        "", "Mhops", "Mhops/CPU-s", "events/hop", "event queue's share"
    );
    for mtu in [1024, 4096] {
        let best = (0..3)
            .map(|_| measure(published_incast(mtu)))
            .min_by(|a, b| a.seconds.total_cmp(&b.seconds))
            .expect("three runs");
        println!(
            "  {:<28}{:>9.1}{:>16.1}{:>14.2}{:>20.0} %",
            format!("incast 16:1, MTU {mtu}"),
            best.hops as f64 / 1e6,
            best.hops as f64 / best.seconds / 1e6,
            best.events as f64 / best.hops as f64,
            100.0 * best.events as f64 * reference / 1e9 / best.seconds,
        );
    }
}
