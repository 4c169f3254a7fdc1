//! Packet-hops per CPU-second of whole runs, recording on, beside the bare event queue on the same machine.
//!
//! A hop is one transmission of a packet over a link, ACKs and CNPs included. Run with `make bench`.

#[path = "../tests/common/mod.rs"]
mod common;

use common::fabric::{permutation, web_search, FatTree};
use common::tcp::tcp_incast;
use common::{incast, star, MS};
use tailback_proto::units::{Bytes, Time};
use tailback_sim::engine::EventQueue;
use tailback_sim::plan::{Plan, WriterPlan};
use tailback_sim::record::Recording;
use tailback_sim::{Progress, Simulation};

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

/// One run, in a process of its own so that its peak memory is its own.
#[derive(Debug)]
struct Measured {
    hops: f64,
    events: f64,
    /// CPU time of the run proper.
    seconds: f64,
    /// CPU time of building the world.
    setup_seconds: f64,
    /// CPU time of ending it: the recording, and freeing all.
    end_seconds: f64,
    peak_mib: f64,
}

impl Measured {
    fn new(plan: Plan) -> Self {
        let start = cpu_seconds();
        let mut simulation = Simulation::new(plan).expect("the plan is possible");
        let setup_seconds = cpu_seconds() - start;
        let start = cpu_seconds();
        let progress = drive(&mut simulation);
        let seconds = cpu_seconds() - start;
        let (hops, events) = (progress.packet_hops as f64, progress.events as f64);
        let start = cpu_seconds();
        let recording = end(simulation);
        let end_seconds = cpu_seconds() - start;
        assert!(recording.meta.conservation.ok);
        Measured { hops, events, seconds, setup_seconds, end_seconds, peak_mib: peak_mib() }
    }

    /// Has a child measure the case, and reads what it prints.
    fn of_child(case: &str) -> Self {
        let program = std::env::current_exe().expect("this program has a path");
        let output =
            std::process::Command::new(program).args(["--case", case]).output().expect("it runs again");
        assert!(output.status.success(), "{case}: {}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).expect("numbers");
        let numbers: Vec<f64> = text.split_whitespace().map(|word| word.parse().expect("a number")).collect();
        let [hops, events, seconds, setup_seconds, end_seconds, peak_mib] = numbers[..] else {
            panic!("{case}: {text}")
        };
        Measured { hops, events, seconds, setup_seconds, end_seconds, peak_mib }
    }
}

/// Runs to the end. A function of its own, for profilers to find.
#[inline(never)]
fn drive(simulation: &mut Simulation) -> Progress {
    loop {
        let progress = simulation.advance(1_000_000);
        if progress.done {
            return progress;
        }
    }
}

/// Ends a run. The same.
#[inline(never)]
fn end(simulation: Simulation) -> Recording {
    simulation.finish()
}

/// Largest resident size of this process so far.
fn peak_mib() -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = text.lines().find(|line| line.starts_with("VmHWM:")).expect("proc(5) has it");
    line.split_whitespace().nth(1).and_then(|word| word.parse::<f64>().ok()).expect("kB") / 1024.0
}

/// 16:1 at 100 Gbit/s, 64 queue pairs a sender, messages of one packet, as the published incast.
fn published_incast(mtu: u32) -> Plan {
    let mut plan = incast(64);
    plan.run.duration = Time(400 * MS);
    plan.nics[0].mtu = Bytes(mtu as u64);
    for (index, writer) in plan.writers.iter_mut().enumerate() {
        writer.message = Bytes(mtu as u64);
        writer.start = Time(index as u64 * 5 * MS);
    }
    plan
}

/// 16:1 on one switch, one queue pair a sender, long messages.
fn incast_16() -> Plan {
    let mut plan = incast(1);
    plan.run.duration = Time(200 * MS);
    for writer in &mut plan.writers {
        writer.message = Bytes(1 << 20);
        writer.depth = 4;
    }
    plan
}

/// The same with a data path to memory behind every NIC, and memory traffic at the receiver.
fn incast_16_with_paths() -> Plan {
    let mut plan = incast_16();
    let pair = common::host::memory_pair(true, 1 << 20, 1, 14);
    plan.nics[0].host_path = pair.nics[1].host_path.clone();
    plan.memory_loads = pair.memory_loads;
    plan.memory_loads[0].host = "h16".into();
    plan
}

/// TCP: 16:1 on one switch, 64 connections a sender, CPUs that cost what they cost.
fn tcp_incast_16() -> Plan {
    let mut plan = tcp_incast(64);
    plan.run.duration = Time(400 * MS);
    plan
}

fn permutation_on(mut plan: Plan, mtu: u32, bytes: u64) -> Plan {
    plan.nics[0].mtu = Bytes(mtu as u64);
    plan.flows.items = vec!["flows".into()];
    plan.flows.list = permutation(plan.hosts.len(), bytes);
    plan.run.duration = Time(1000 * MS);
    plan
}

/// A permutation of writers with several queue pairs each, cut short: much to build and to record.
fn queue_pairs_on(mut plan: Plan, qps: u32) -> Plan {
    let hosts = plan.hosts.len();
    let writer = common::incast(1).writers.remove(0);
    let between = |src: usize| WriterPlan {
        item: "write0".into(),
        src: plan.hosts[src].name.clone(),
        dst: plan.hosts[(src + hosts / 2) % hosts].name.clone(),
        qps,
        ..writer.clone()
    };
    plan.writers = (0..hosts).map(between).collect();
    plan.run.duration = Time(MS / 20);
    plan
}

fn web_search_on(tree: FatTree, span_ps: u64) -> Plan {
    let mut plan = tree.plan();
    plan.flows.list = web_search(tree.host_count(), tree.host_gbps, 0.5, span_ps);
    plan
}

struct Case {
    name: &'static str,
    plan: fn() -> Plan,
    /// Million hops per CPU-second that it is to reach.
    aim: Option<f64>,
    /// Million hops per CPU-second of a bare inner loop on the same traffic: a fat tree, FIFO ports, PFC's counters, one ACK in 16
    /// packets, and no congestion control, loss, timers or recording.
    prototype: Option<f64>,
}

const fn case(name: &'static str, plan: fn() -> Plan, aim: Option<f64>, prototype: Option<f64>) -> Case {
    Case { name, plan, aim, prototype }
}

const CASES: [Case; 14] = [
    case("small permutation, k=8", || permutation_on(FatTree::k_ary(8).plan(), 1024, 1 << 20), None, None),
    case("published incast, MTU 1024", || published_incast(1024), Some(16.0), None),
    case("published incast, MTU 4096", || published_incast(4096), Some(16.0), None),
    case("incast 16:1, MTU 1024", incast_16, Some(16.0), Some(25.0)),
    case("incast 16:1, hosts with a path", incast_16_with_paths, Some(5.0), None),
    case("TCP incast 16:1, 64 connections", tcp_incast_16, None, None),
    case("permutation, 16 hosts, MTU 1024", || permutation_on(star(16), 1024, 200 << 20), None, None),
    case(
        "permutation, k=8, MTU 1024",
        || permutation_on(FatTree::k_ary(8).plan(), 1024, 20 << 20),
        Some(14.0),
        Some(18.8),
    ),
    case(
        "permutation, k=8, MTU 4096",
        || permutation_on(FatTree::k_ary(8).plan(), 4096, 80 << 20),
        Some(14.0),
        None,
    ),
    case(
        "permutation, k=16, MTU 1024",
        || permutation_on(FatTree::k_ary(16).plan(), 1024, 2 << 20),
        Some(10.0),
        Some(9.8),
    ),
    case("WebSearch 50 %, 128 hosts", || web_search_on(FatTree::k_ary(8), 3 * MS), None, None),
    case("WebSearch 50 %, 320 hosts", || web_search_on(FatTree::hosts_320(), 2 * MS), Some(14.0), None),
    case(
        "permutation, 8,192 hosts",
        || permutation_on(FatTree::k_ary(32).plan(), 1024, 1 << 20),
        Some(5.0),
        Some(3.2),
    ),
    case(
        "16 queue pairs each, 8,192 hosts",
        || queue_pairs_on(FatTree::k_ary(32).plan(), 16),
        Some(5.0),
        None,
    ),
];

/// How often each case runs; the fastest counts.
const REPEATS: usize = 3;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(at) = arguments.iter().position(|argument| argument == "--case") {
        let plan =
            CASES.iter().find(|case| case.name == arguments[at + 1]).expect("a case of this name").plan;
        if let Some(threads) = arguments.get(at + 2) {
            let start = std::time::Instant::now();
            let mut simulation = Simulation::new(plan()).expect("the plan is possible");
            let (had, why) = simulation.use_threads(Some(threads.parse().expect("a number")));
            let built = start.elapsed().as_secs_f64();
            let start = std::time::Instant::now();
            let progress = drive(&mut simulation);
            let took = start.elapsed().as_secs_f64();
            println!(
                "{had} {why:?} built {built:.3} s, took {took:.3} s, {:.1} Mhops/s, {:.0} MiB",
                progress.packet_hops as f64 / took / 1e6,
                peak_mib()
            );
            return;
        }
        let m = Measured::new(plan());
        let times = (m.seconds, m.setup_seconds, m.end_seconds);
        println!("{} {} {} {} {} {}", m.hops, m.events, times.0, times.1, times.2, m.peak_mib);
        return;
    }
    println!("bare event queue (one pop and one push)");
    let mut reference = 0.0;
    for pending in [100, 1_000, 10_000, 100_000] {
        let nanoseconds = hold(pending);
        if pending == 1_000 {
            reference = nanoseconds;
        }
        println!("  {pending:>7} pending   {nanoseconds:6.1} ns an event");
    }
    println!("\nwhole runs, recording on; the fastest of {REPEATS}");
    println!(
        "  {:<34}{:>8}{:>14}{:>7}{:>11}{:>13}{:>15}{:>10}{:>10}{:>11}",
        "",
        "Mhops",
        "Mhops/CPU-s",
        "aim",
        "prototype",
        "events/hop",
        "queue's share",
        "set-up",
        "end",
        "peak"
    );
    let wanted = arguments.iter().skip(1).find(|argument| !argument.starts_with('-'));
    let figure = |known: Option<f64>| known.map_or("-".into(), |value| format!("{value:.1}"));
    for case in CASES.iter().filter(|case| wanted.is_none_or(|wanted| case.name.contains(wanted.as_str()))) {
        let best = (0..REPEATS)
            .map(|_| Measured::of_child(case.name))
            .min_by(|a, b| a.seconds.total_cmp(&b.seconds))
            .expect("it ran");
        println!(
            "  {:<34}{:>8.1}{:>14.1}{:>7}{:>11}{:>13.2}{:>13.0} %{:>8.2} s{:>8.2} s{:>7.0} MiB",
            case.name,
            best.hops / 1e6,
            best.hops / best.seconds / 1e6,
            figure(case.aim),
            figure(case.prototype),
            best.events / best.hops,
            100.0 * best.events * reference / 1e9 / best.seconds,
            best.setup_seconds,
            best.end_seconds,
            best.peak_mib,
        );
    }
}
