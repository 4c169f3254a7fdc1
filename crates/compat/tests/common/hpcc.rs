//! Cases of the HPCC ns-3 simulator in `tests/data/hpcc`: its inputs as a plan, its outputs as text.
#![allow(dead_code)] // each test uses its own part

use std::collections::HashMap;
use std::path::PathBuf;
use tailback_compat::hpcc::plan::Variant;
use tailback_compat::hpcc::{plan::*, HpccRecording, HpccSimulation};

/// A file of a case.
pub fn text(case: &str, file: &str) -> String {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests/data/hpcc", case, file].iter().collect();
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// `12.5Gb/s`, `100Gbps`, `1000ns` in base units.
fn quantity(word: &str) -> u64 {
    let split = word.find(|c: char| c.is_alphabetic()).unwrap_or(word.len());
    let (number, unit) = word.split_at(split);
    let factor = match unit {
        "Gbps" | "Gb/s" => 1e9,
        "Mbps" | "Mb/s" => 1e6,
        "us" => 1e3,
        "ms" => 1e6,
        "ns" => 1.0,
        other => panic!("unit {other}"),
    };
    (number.parse::<f64>().expect("a number") * factor) as u64
}

fn number<T: std::str::FromStr>(words: &mut std::str::SplitWhitespace) -> T {
    words.next().and_then(|word| word.parse().ok()).expect("a number")
}

/// Words by key, without it.
type Config<'a> = HashMap<&'a str, Vec<&'a str>>;

fn value(config: &Config, key: &str) -> f64 {
    config[key][0].parse().expect("a number")
}

/// The congestion control that a configuration asks for.
fn control(config: &Config) -> Cc {
    let value = |key: &str| value(config, key);
    let flag = |key: &str| value(key) != 0.0;
    let rate = |key: &str| quantity(config[key][0]);
    match value("CC_MODE") as u32 {
        1 => Cc::Dcqcn(Dcqcn {
            alpha_resume_us: value("ALPHA_RESUME_INTERVAL") as u32,
            rate_decrease_us: value("RATE_DECREASE_INTERVAL") as u32,
            clamp_target_rate: flag("CLAMP_TARGET_RATE"),
            rp_timer_us: value("RP_TIMER") as u32,
            ewma_gain: value("EWMA_GAIN"),
            fast_recovery_times: value("FAST_RECOVERY_TIMES") as u32,
            rate_ai_bps: rate("RATE_AI"),
            rate_hai_bps: rate("RATE_HAI"),
            min_rate_bps: rate("MIN_RATE"),
        }),
        3 => Cc::Hpcc(Hpcc {
            target_utilization: value("U_TARGET"),
            max_stage: value("MI_THRESH") as u32,
            rate_ai_bps: rate("RATE_AI"),
            min_rate_bps: rate("MIN_RATE"),
            int_multi: value("INT_MULTI") as u32,
            fast_react: flag("FAST_REACT"),
            multi_rate: flag("MULTI_RATE"),
            sample_feedback: flag("SAMPLE_FEEDBACK"),
        }),
        7 => Cc::Timely(Timely {
            rate_ai_bps: rate("RATE_AI"),
            rate_hai_bps: rate("RATE_HAI"),
            min_rate_bps: rate("MIN_RATE"),
        }),
        8 => Cc::Dctcp(Dctcp {
            ewma_gain: value("EWMA_GAIN"),
            rate_ai_bps: rate("DCTCP_RATE_AI"),
            min_rate_bps: rate("MIN_RATE"),
        }),
        10 => Cc::Pint(Pint {
            target_utilization: value("U_TARGET"),
            max_stage: value("MI_THRESH") as u32,
            rate_ai_bps: rate("RATE_AI"),
            min_rate_bps: rate("MIN_RATE"),
            log_base: value("PINT_LOG_BASE"),
            probability: value("PINT_PROB"),
        }),
        _ => Cc::None {},
    }
}

/// The plan of a case.
pub fn plan(case: &str) -> HpccPlan {
    let config_text = text(case, "config.txt");
    let config: Config = config_text
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            Some((words.next()?, words.collect()))
        })
        .collect();
    let value = |key: &str| value(&config, key);
    let flag = |key: &str| value(key) != 0.0;
    let map = |key: &str| -> Vec<(u64, f64)> {
        let pairs = config[key][1..].chunks(2);
        pairs.map(|pair| (pair[0].parse().expect("a rate"), pair[1].parse().expect("a number"))).collect()
    };
    let topology = text(case, "topology.txt");
    let mut words = topology.split_whitespace();
    let nodes: u32 = number(&mut words);
    let (switches, links): (usize, usize) = (number(&mut words), number(&mut words));
    let switches = (0..switches).map(|_| number(&mut words)).collect();
    let links = (0..links)
        .map(|_| {
            let ends: (u32, u32) = (number(&mut words), number(&mut words));
            let (rate, delay) = (words.next().expect("a rate"), words.next().expect("a delay"));
            Link(ends.0, ends.1, quantity(rate), quantity(delay), number(&mut words))
        })
        .collect();
    let flows = text(case, "flow.txt");
    let mut words = flows.split_whitespace();
    let count: usize = number(&mut words);
    let flows = (0..count)
        .map(|_| {
            let w = &mut words;
            let mut flow = Flow(number(w), number(w), number(w), number(w), number(w), 0);
            flow.5 = floor_ns(number(w));
            flow
        })
        .collect();
    let (kmin, kmax, pmax) = (map("KMIN_MAP"), map("KMAX_MAP"), map("PMAX_MAP"));
    HpccPlan {
        name: case.into(),
        seed: 1,
        variant: Variant::Hpcc,
        nodes,
        switches,
        inner_switches: Vec::new(),
        links,
        flows,
        stop_ns: floor_ns(value("SIMULATOR_STOP_TIME")),
        payload_bytes: value("PACKET_PAYLOAD_SIZE") as u32,
        telemetry_bytes: match value("CC_MODE") as u32 {
            3 => 42,
            7 => 8,
            10 => 2,
            _ => 0,
        },
        cc: control(&config),
        rate_bound: flag("RATE_BOUND"),
        window: Window { enabled: flag("HAS_WIN"), global: flag("GLOBAL_T"), variable: flag("VAR_WIN") },
        ack_high_priority: flag("ACK_HIGH_PRIO"),
        l2_chunk_bytes: value("L2_CHUNK_SIZE") as u32,
        l2_ack_interval_bytes: value("L2_ACK_INTERVAL") as u32,
        back_to_zero: flag("L2_BACK_TO_ZERO"),
        ecn: Ecn {
            enabled: flag("ENABLE_QCN"),
            thresholds: (0..kmin.len())
                .map(|i| Threshold(kmin[i].0, kmin[i].1 as u32, kmax[i].1 as u32, pmax[i].1))
                .collect(),
        },
        buffer_mib: value("BUFFER_SIZE") as u32,
        headroom_factor: 3,
        pause_time_us: 5,
        link_down: (value("LINK_DOWN") > 0.0).then(|| {
            let end = |at: usize| config["LINK_DOWN"][at].parse().expect("a node");
            LinkDown(2_000_000_000 + value("LINK_DOWN") as u64 * 1000, end(1), end(2))
        }),
        queue_monitor: (value("QLEN_MON_END") < 9e9)
            .then(|| QueueMonitor(value("QLEN_MON_START") as u64, value("QLEN_MON_END") as u64)),
        rng: Rng { seed: 1, run: 1 },
        error_rate_per_link: value("ERROR_RATE_PER_LINK"),
        departures: Departures::default(),
        record: RecordParameters { max_bins: 2000, qps: 16, queues: None },
    }
}

/// Nanoseconds of the exact value of a double in seconds, cut.
fn floor_ns(seconds: f64) -> u64 {
    let whole = seconds as u64;
    let fraction = ((seconds - whole as f64) * 18_446_744_073_709_551_616.0) as u128;
    whole * 1_000_000_000 + ((fraction * 1_000_000_000) >> 64) as u64
}

/// Runs a plan to its end.
pub fn run(plan: &HpccPlan) -> HpccRecording {
    let mut simulation = HpccSimulation::new(plan).expect("the plan is possible");
    while !simulation.advance(1_000_000).done {}
    simulation.finish()
}

/// Lines as in that simulator's pfc file.
pub fn pfc_text(recording: &HpccRecording) -> String {
    let line = |p: &tailback_compat::hpcc::PfcEvent| {
        format!("{} {} {} {} {}\n", p.t_ns, p.node, p.is_switch as u8, p.port, p.pause as u8)
    };
    recording.pfc.iter().map(line).collect()
}

/// CPU seconds that that simulator took for a case.
pub fn recorded_seconds(case: &str) -> f64 {
    let counters = text(case, "counters.txt");
    let line = counters.lines().find_map(|line| line.strip_prefix("run_cpu_s "));
    line.and_then(|word| word.parse().ok()).expect("CPU seconds")
}

/// A number of a case's counters.txt: the first after the name.
pub fn counted(case: &str, name: &str) -> u64 {
    let counters = text(case, "counters.txt");
    let line =
        counters.lines().find(|line| line.split(' ').next() == Some(name)).expect("a counter of that name");
    line.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("a number")
}
