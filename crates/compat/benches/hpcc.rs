//! Packet-hops per CPU-second of the HPCC profile, beside that simulator's own where it was measured.
//!
//! A hop is one transmission of a packet over a link, as that simulator's counters have it; its figures are of the
//! machine that its cases were made on. Run with `make bench`.

#[path = "../../sim/tests/common/mod.rs"]
mod common;
#[path = "../tests/common/hpcc.rs"]
mod hpcc;

use common::fabric::{web_search, FatTree};
use common::MS;
use std::collections::HashMap;
use tailback_compat::hpcc::plan::{Flow, HpccPlan, Link};
use tailback_compat::hpcc::HpccSimulation;
use tailback_sim::Progress;

const FAT_TREE: &str = "fatk4_16h_ws50_10ms";
const HPCC: &str = "modes/hpcc_fatk4_16h_ws50_10ms";
const TIMELY: &str = "modes/timely_fatk4_16h_ws50_10ms";
const DCTCP: &str = "modes/dctcp_fatk4_16h_ws50_10ms";
const PINT: &str = "modes/pint_fatk4_16h_ws50_10ms";
/// Million hops per CPU-second that they are to reach.
const AIM: f64 = 14.0;
/// How often each case runs; the fastest counts.
const REPEATS: usize = 3;

/// CPU time of this thread in seconds, from the kernel's accounting.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux with schedstats");
    let nanoseconds = text.split(' ').next().and_then(|word| word.parse::<f64>().ok());
    nanoseconds.expect("the first number is time on a CPU") / 1e9
}

/// Runs to the end. A function of its own, for profilers to find.
#[inline(never)]
fn drive(simulation: &mut HpccSimulation) -> Progress {
    loop {
        let progress = simulation.advance(1_000_000);
        if progress.done {
            return progress;
        }
    }
}

/// Packet-hops, events, and CPU time of the run proper and of building the world.
fn measure(plan: &HpccPlan) -> (f64, f64, f64, f64) {
    let start = cpu_seconds();
    let mut simulation = HpccSimulation::new(plan).expect("the plan is possible");
    let set_up = cpu_seconds() - start;
    let start = cpu_seconds();
    let progress = drive(&mut simulation);
    let seconds = cpu_seconds() - start;
    assert!(simulation.finish().recording.meta.conservation.ok);
    (progress.packet_hops as f64, progress.events as f64, seconds, set_up)
}

/// WebSearch at half load on a fat tree, in the configuration of that simulator's own case; until all are done.
fn web_search_on(tree: &FatTree, span_ps: u64) -> HpccPlan {
    let base = hpcc::plan(FAT_TREE);
    let native = tree.plan();
    let hosts = tree.host_count() as u32;
    let names = (0..hosts).map(|host| format!("h{host}"));
    let names = names.chain(native.switches.iter().map(|switch| switch.name.clone()));
    let ids: HashMap<String, u32> = names.zip(0..).collect();
    let links = native.links.iter();
    let start = base.flows[0].5;
    let mut flows: Vec<Flow> = web_search(hosts as usize, tree.host_gbps, 0.5, span_ps)
        .iter()
        .map(|flow| Flow(flow.0, flow.1, 3, 100, flow.4, start + flow.5 / 1000))
        .collect();
    flows.sort_by_key(|flow| flow.5);
    HpccPlan {
        name: "WebSearch".into(),
        nodes: ids.len() as u32,
        switches: (hosts..ids.len() as u32).collect(),
        inner_switches: Vec::new(),
        links: links
            .map(|link| Link(ids[&link.a], ids[&link.b], link.rate.0, link.delay.0 / 1000, 0.0))
            .collect(),
        flows,
        stop_ns: start + 1_000_000_000,
        ..base
    }
}

type Case = (&'static str, fn() -> HpccPlan, Option<&'static str>);

/// Name, plan, and the case of that simulator which says how fast it was.
const CASES: [Case; 11] = [
    ("fatk4_16h_ws50_10ms", || hpcc::plan(FAT_TREE), Some(FAT_TREE)),
    ("incast16_4MB_pfconly", || hpcc::plan("incast16_4MB_pfconly"), Some("incast16_4MB_pfconly")),
    ("modes/hpcc_fatk4_16h_ws50_10ms", || hpcc::plan(HPCC), Some(HPCC)),
    ("modes/timely_fatk4_16h_ws50_10ms", || hpcc::plan(TIMELY), Some(TIMELY)),
    ("modes/dctcp_fatk4_16h_ws50_10ms", || hpcc::plan(DCTCP), Some(DCTCP)),
    ("modes/pint_fatk4_16h_ws50_10ms", || hpcc::plan(PINT), Some(PINT)),
    ("modes/hpcc_incast16_4MB", || hpcc::plan("modes/hpcc_incast16_4MB"), Some("modes/hpcc_incast16_4MB")),
    (
        "modes/timely_incast16_4MB",
        || hpcc::plan("modes/timely_incast16_4MB"),
        Some("modes/timely_incast16_4MB"),
    ),
    (
        "modes/dctcp_nowin_incast16_4MB",
        || hpcc::plan("modes/dctcp_nowin_incast16_4MB"),
        Some("modes/dctcp_nowin_incast16_4MB"),
    ),
    ("modes/pint_incast16_4MB", || hpcc::plan("modes/pint_incast16_4MB"), Some("modes/pint_incast16_4MB")),
    ("WebSearch 50 %, 320 hosts", || web_search_on(&FatTree::hosts_320(), 2 * MS), None),
];

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(at) = arguments.iter().position(|argument| argument == "--case") {
        let (_, plan, _) =
            CASES.iter().find(|case| case.0 == arguments[at + 1]).expect("a case of this name");
        let (hops, events, seconds, set_up) = measure(&plan());
        println!("{hops} {events} {seconds} {set_up}");
        return;
    }
    println!("HPCC profile, recording on; the fastest of {REPEATS}");
    println!(
        "  {:<34}{:>8}{:>14}{:>7}{:>13}{:>10}{:>18}{:>9}",
        "", "Mhops", "Mhops/CPU-s", "aim", "events/hop", "set-up", "that simulator's", "times"
    );
    let arguments: Vec<String> = std::env::args().collect();
    let wanted =
        arguments.iter().position(|argument| argument == "--case").map(|at| arguments[at + 1].as_str());
    let repeats = if wanted.is_some() { 1 } else { REPEATS };
    for (name, plan, counted) in CASES.into_iter().filter(|case| wanted.is_none_or(|wanted| case.0 == wanted))
    {
        let plan = plan();
        let (hops, events, seconds, set_up) =
            (0..repeats).map(|_| measure(&plan)).min_by(|a, b| a.2.total_cmp(&b.2)).expect("it ran");
        let theirs = counted
            .map(|case| hpcc::counted(case, "packet_hops_total") as f64 / hpcc::recorded_seconds(case) / 1e6);
        println!(
            "  {:<34}{:>8.1}{:>14.1}{AIM:>7.1}{:>13.2}{:>8.2} s{:>18}{:>9}",
            name,
            hops / 1e6,
            hops / seconds / 1e6,
            events / hops,
            set_up,
            theirs.map_or("-".into(), |theirs| format!("{theirs:.1}")),
            theirs.map_or("-".into(), |theirs| format!("{:.1}", hops / seconds / 1e6 / theirs)),
        );
    }
}
