//! Plans of the HPCC profile that nobody would write: refused with one line, or run without a panic.

#[path = "common/hpcc.rs"]
mod common;
#[path = "common/seeds.rs"]
mod seeds;

use common::{plan, run};
use proptest::prelude::*;
use tailback_compat::hpcc::plan::*;
use tailback_compat::hpcc::{HpccPlan, HpccSimulation};

/// Odd values are rare: most plans should run.
fn value<T: Clone + std::fmt::Debug + 'static>(ordinary: &[T], odd: &[T]) -> impl Strategy<Value = T> {
    let (ordinary, odd) = (ordinary.to_vec(), odd.to_vec());
    prop_oneof![100 => prop::sample::select(ordinary), 1 => prop::sample::select(odd)]
}

fn rate() -> impl Strategy<Value = u64> {
    value(
        &[100_000_000_000, 400_000_000_000, 10_000_000_000],
        &[0, 1, 1_000, 1_000_000_000_000_000, u64::MAX],
    )
}

prop_compose! {
    fn links(nodes: u32)(
        links in prop::collection::vec(
            (0..nodes + 1, 0..nodes, rate(), value(&[0u64, 1000, 5_000], &[u64::MAX]), value(&[0.0, 0.0, 0.01], &[-1.0, 1.0, f64::NAN])),
            1..12)
    ) -> Vec<Link> {
        links.into_iter().map(|(a, b, rate, delay, error)| Link(a, b, rate, delay, error)).collect()
    }
}

prop_compose! {
    fn flows(nodes: u32)(
        flows in prop::collection::vec(
            (0..nodes + 1, 0..nodes, value(&[3u32, 3, 0, 1, 7], &[8]), value(&[1u64, 999, 1_000, 50_000, 300_000], &[0, u32::MAX as u64, 1 << 32]), 0u64..20_000),
            1..12)
    ) -> Vec<Flow> {
        let mut flows: Vec<Flow> =
            flows.into_iter().map(|(src, dst, priority, bytes, start)| Flow(src, dst, priority, 100, bytes, start)).collect();
        flows.sort_by_key(|flow| flow.5);
        flows
    }
}

prop_compose! {
    fn any_plan()(nodes in 2u32..7)(
        nodes in Just(nodes),
        tidy in prop::bool::weighted(0.95),
        kind in 0..10,
        more_switches in prop::sample::subsequence((1..nodes).collect::<Vec<_>>(), 0..=nodes as usize / 3),
        links in links(nodes),
        flows in flows(nodes),
        (payload, telemetry, chunk, interval) in
            (value(&[1000u32, 1, 4000], &[0, 70_000]), value(&[0u32, 42], &[u32::MAX]), value(&[4000u32, 1], &[0]), value(&[1u32, 5000], &[0, u32::MAX])),
        (buffer, pause, error_rate) in (value(&[1u32, 32], &[0, 4095, 4096]), 0u32..3, value(&[0.0, 0.001], &[2.0])),
        (min_rate, gain, ecn) in (rate(), value(&[0.00390625, 1.0], &[-1.0, f64::NAN]), any::<[bool; 7]>()),
        (down, timeout, cnp, overhead) in
            (prop::option::of((0u64..50_000, Just(0), 1..nodes)), value(&[0u64, 20_000], &[u64::MAX]), value(&[0u64, 50_000], &[u64::MAX]), value(&[0u32, 78], &[u32::MAX])),
        (kmin, kmax) in (value(&[0u32, 5], &[50, u32::MAX]), value(&[10u32, 40], &[0, u32::MAX])),
    ) -> HpccPlan {
        let rates = [100_000_000_000, 400_000_000_000, 10_000_000_000, 1_000, 1_000_000_000_000_000];
        let switches: Vec<u32> = std::iter::once(0).chain(more_switches).collect();
        let (mut links, mut flows) = (links, flows);
        if tidy {
            let host = |node: u32| node < nodes && !switches.contains(&node);
            links.retain(|link| link.0 != link.1 && link.0 < nodes);
            flows.retain(|flow| flow.0 != flow.1 && host(flow.0) && host(flow.1));
        }
        // A star about switch 0, and links at random.
        let star = (1..nodes).map(|node| Link(0, node, 100_000_000_000, 1_000, 0.0));
        HpccPlan {
            nodes,
            switches,
            inner_switches: Vec::new(),
            links: star.chain(links).collect(),
            flows,
            stop_ns: 300_000,
            payload_bytes: payload,
            telemetry_bytes: telemetry,
            cc: match kind {
                0 => Cc::None {},
                1 => Cc::Hpcc(Hpcc {
                    target_utilization: gain,
                    max_stage: 5,
                    rate_ai_bps: 50_000_000,
                    min_rate_bps: min_rate,
                    int_multi: pause,
                    fast_react: ecn[1],
                    multi_rate: ecn[2],
                    sample_feedback: ecn[6],
                }),
                4 => Cc::Pint(Pint {
                    target_utilization: gain,
                    max_stage: 5,
                    rate_ai_bps: 50_000_000,
                    min_rate_bps: min_rate,
                    log_base: 1.0 + gain,
                    probability: if ecn[1] { 1.0 } else { gain },
                }),
                2 => Cc::Timely(Timely { rate_ai_bps: 50_000_000, rate_hai_bps: 100_000_000, min_rate_bps: min_rate }),
                3 => Cc::Dctcp(Dctcp { ewma_gain: gain, rate_ai_bps: 50_000_000, min_rate_bps: min_rate }),
                _ => Cc::Dcqcn(Dcqcn {
                alpha_resume_us: 1,
                rate_decrease_us: 4,
                clamp_target_rate: ecn[1],
                rp_timer_us: 30,
                ewma_gain: gain,
                fast_recovery_times: 1,
                rate_ai_bps: 20_000_000,
                rate_hai_bps: 200_000_000,
                min_rate_bps: min_rate,
            })},
            rate_bound: ecn[2],
            window: Window { enabled: ecn[3], global: ecn[4], variable: ecn[5] },
            l2_chunk_bytes: chunk,
            l2_ack_interval_bytes: interval,
            back_to_zero: ecn[6],
            ecn: Ecn { enabled: ecn[0], thresholds: rates.map(|rate| Threshold(rate, kmin, kmax, 0.2)).to_vec() },
            buffer_mib: buffer,
            pause_time_us: pause,
            link_down: down.map(|(at, a, b)| LinkDown(at, a, b)),
            error_rate_per_link: error_rate,
            departures: Departures {
                exact_time: overhead == 78,
                cnp_interval_ns: cnp,
                retransmission_timeout_ns: timeout,
                wire_overhead_bytes: overhead,
            },
            record: RecordParameters { max_bins: 20, qps: 3, queues: None },
            ..plan("single_flow")
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn any_plan_runs_or_is_refused(plan in any_plan()) {
        match HpccSimulation::new(&plan) {
            Err(error) => prop_assert!(!error.to_string().contains('\n')),
            Ok(mut simulation) => {
                while !simulation.advance(1_000).done && simulation.progress().events < 300_000 {}
                let meta = simulation.finish().recording.meta;
                prop_assert!(meta.conservation.ok, "{:?}", meta.faults);
            }
        }
    }
}

/// Each mistake is refused, and by name.
#[test]
fn mistakes_are_named() {
    type Change = fn(&mut HpccPlan);
    let changes: [(Change, &str); 12] = [
        (|plan| plan.flows[0].1 = 0, "flows[0]: node 0 is a switch"),
        (|plan| plan.flows[0].2 = 8, "flows[0]: priority 8 is not in 0 to 7"),
        (|plan| plan.flows[0].4 = 0, "flows[0]: 0 B is not in 1 to 4,294,967,295: sizes are 32 bits"),
        (|plan| plan.flows[0].0 = plan.flows[0].1, "flows[0]: source and destination are both 1"),
        (
            |plan| plan.flows[1].5 = 0,
            "flows[1]: starts before the flow above it: flows must be in order of start",
        ),
        (|plan| plan.links[0].2 = 0, "links[0]: the rate is not in 1 kbit/s to 1 Pbit/s"),
        (|plan| plan.links[2].1 = 4, "links[2]: node 4 is not below nodes (4)"),
        (|plan| plan.links.truncate(2), "flows[1]: no way from 3 to 1"),
        (|plan| plan.ecn.thresholds.clear(), "ecn: there is no threshold for links of 100000000000 bit/s"),
        (
            |plan| plan.ecn.thresholds[0].1 = 9999,
            "ecn threshold of 100000000000 bit/s: kmin (9999) is above kmax (1600)",
        ),
        (
            |plan| plan.l2_ack_interval_bytes = 0,
            "l2_ack_interval_bytes: must be above 0: nothing would be acknowledged",
        ),
        (|plan| plan.rng.seed = 0, "rng: seed is not in 1 to 4,294,944,442"),
    ];
    for (change, expected) in changes {
        let mut plan = plan("two_flows");
        change(&mut plan);
        let error = HpccSimulation::new(&plan).err().map(|error| error.to_string());
        assert_eq!(error.as_deref(), Some(expected));
    }
}

/// A plan survives the way through JSON, and unknown keys do not.
#[test]
fn plans_are_json() {
    let json = serde_json::to_string(&plan("two_flows")).expect("JSON");
    assert!(HpccPlan::from_json(&json).is_ok());
    let odd = json.replacen('{', "{\"speed\":1,", 1);
    assert!(HpccPlan::from_json(&odd).is_err_and(|error| error.to_string().contains("speed")));
}

/// Each departure does what it says, and nothing else moves the result.
#[test]
fn departures_change_the_result_and_their_absence_does_not() {
    let base = plan("single_flow");
    let fct = |plan: &HpccPlan| run(plan).fct[0].fct_ns;
    let before = fct(&base);
    let with = |departures: Departures| fct(&HpccPlan { departures, ..base.clone() });
    assert_eq!(with(Departures::default()), before);
    // 10,000 packets of 1048 B at 83.84 ns in place of 83 ns; one more hop, and the ACK's two of 4.8 ns.
    let exact = with(Departures { exact_time: true, ..Departures::default() });
    assert_eq!(exact, (10_001 * 83_840 + 2 * 4_800 + 4_000_000) / 1000);
    let wider = with(Departures { wire_overhead_bytes: 82, ..Departures::default() });
    assert!(wider > before + before / 50, "{wider} ns after {before} ns");

    // A lost last packet hangs the flow for ever, unless it has a timer.
    let mut lossy = plan("single_flow");
    lossy.flows[0].4 = 3_000;
    lossy.links[0].4 = 0.5;
    assert!(run(&lossy).fct.is_empty());
    lossy.departures.retransmission_timeout_ns = 100_000;
    let recording = run(&lossy);
    assert_eq!(recording.fct.len(), 1);
    assert!(recording.recording.flows[0].packets_retransmitted > 0);

    // A receiver that may flag one ACK in 50 us flags fewer.
    let mut rare = plan("two_flows");
    let often = run(&rare).totals.cnp_echo_rx;
    rare.departures.cnp_interval_ns = 50_000;
    let seldom = run(&rare).totals.cnp_echo_rx;
    assert!(seldom > 0 && seldom < often, "{seldom} of {often}");
}

/// Controllers keep a queue shorter than no control does, and everybody finishes.
#[test]
fn controllers_of_acknowledgements_control() {
    let mut plan = plan("two_flows");
    plan.stop_ns += 80_000_000;
    let longest = |plan: &HpccPlan| {
        let recording = run(plan);
        assert!(recording.recording.meta.conservation.ok, "{:?}", recording.recording.meta.faults);
        assert_eq!(recording.fct.len(), 2);
        // After the first 10 us, in which both send at line rate.
        let series = &recording.recording.series;
        let skip = (10_000_000 / series.bin.0) as usize + 1;
        let queues = series.columns().filter(|column| column.1 == "queue_mean_bytes");
        let sums = queues.map(|column| column.2[skip..].iter().sum::<f64>());
        sums.fold(0.0, f64::max) * series.bin.as_secs_f64()
    };
    plan.cc = Cc::None {};
    let none = longest(&plan);
    let (rate_ai_bps, min_rate_bps) = (50_000_000, 100_000_000);
    let hpcc = Hpcc {
        target_utilization: 0.95,
        max_stage: 5,
        rate_ai_bps,
        min_rate_bps,
        int_multi: 1,
        fast_react: true,
        multi_rate: false,
        sample_feedback: false,
    };
    let pint = Pint {
        target_utilization: 0.95,
        max_stage: 5,
        rate_ai_bps,
        min_rate_bps,
        log_base: 1.05,
        probability: 1.0,
    };
    plan.window.enabled = true;
    for (cc, telemetry_bytes) in [
        (Cc::Hpcc(hpcc), 42),
        (Cc::Hpcc(Hpcc { multi_rate: true, ..hpcc }), 42),
        (Cc::Pint(pint), 2),
        (Cc::Timely(Timely { rate_ai_bps, rate_hai_bps: 2 * rate_ai_bps, min_rate_bps }), 8),
        (Cc::Dctcp(Dctcp { ewma_gain: 1.0 / 16.0, rate_ai_bps, min_rate_bps }), 0),
    ] {
        let controlled = longest(&HpccPlan { cc: cc.clone(), telemetry_bytes, ..plan.clone() });
        assert!(controlled < none / 2.0, "{cc:?}: {controlled} B s after {none} B s");
    }
}

#[test]
fn seeds_of_the_fuzzing_can_run() {
    for plan in seeds::hpcc() {
        let plan = HpccPlan::from_json(&plan.to_string()).expect("a seed is a plan");
        HpccSimulation::new(&plan).expect("a seed can run");
    }
}

/// A flow of the HPCC simulator's files that begins long after the end never does.
#[test]
fn an_hpcc_flow_may_start_after_the_end() {
    let mut plan = seeds::hpcc().swap_remove(0);
    for flow in plan["flows"].as_array_mut().expect("a list") {
        flow[5] = u64::MAX.into();
    }
    let plan = HpccPlan::from_json(&plan.to_string()).expect("it is a plan");
    let mut simulation = HpccSimulation::new(&plan).expect("it can run");
    while !simulation.advance(1000).done {}
    let recording = simulation.finish();
    assert!(recording.recording.meta.conservation.ok);
    assert_eq!((recording.fct.len(), recording.totals.host_data), (0, 0));
}
