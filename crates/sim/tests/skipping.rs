//! Runs that skip what is steady, beside the same runs by packets.

mod common;

use common::*;
use proptest::prelude::*;
use tailback_proto::units::{Bytes, Time};
use tailback_sim::plan::{CongestionPlan, Plan, Skip, WriterPlan};
use tailback_sim::record::Recording;
use tailback_sim::Simulation;

/// The same plan, which skips.
fn skipping(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    plan.run.skip = Skip::Steady;
    plan
}

fn skipped_ps(recording: &Recording) -> u64 {
    recording.meta.skipped.iter().map(|span| span.to_ps - span.from_ps).sum()
}

fn delivered(recording: &Recording) -> u64 {
    recording.flows.iter().map(|flow| flow.bytes_delivered).sum()
}

/// A series: its entity and metric, and its values.
fn series<'a>(recording: &'a Recording, entity: &str, metric: &str) -> &'a [f64] {
    let found = recording
        .series
        .columns()
        .find(|(at, name, _)| recording.series.entities[*at].name == entity && *name == metric);
    found.unwrap_or_else(|| panic!("there is no {metric} of {entity}")).2
}

fn pairs(count: usize, rate_mbps: u32) -> Plan {
    paced_pairs(count, 2, rate_mbps, Time(200 * MS))
}

fn close(found: f64, expected: f64, error: f64) -> bool {
    (found / expected - 1.0).abs() <= error
}

#[test]
fn paced_writers_go_on_as_they_were() {
    let plan = pairs(3, 30_000);
    let (whole, fast) = (run(plan.clone()), run(skipping(&plan)));
    assert!(skipped_ps(&fast) > 150 * MS, "{:?}", fast.meta.skipped);
    assert_eq!(fast.meta.end_ps, whole.meta.end_ps);
    assert!(whole.meta.skipped.is_empty());
    assert!(close(delivered(&fast) as f64, delivered(&whole) as f64, 1e-3));
    for (fast, whole) in fast.flows.iter().zip(&whole.flows) {
        assert!(close(fast.goodput_bps, whole.goodput_bps, 2e-3));
        let per_message = fast.bytes_delivered / 100_000;
        assert!(fast.messages_completed.abs_diff(per_message) <= 1, "{fast:?}");
        assert!(fast.messages_posted >= fast.messages_completed);
    }
    assert!(close(fast.meta.packet_hops as f64, whole.meta.packet_hops as f64, 1e-3));
    assert!(fast.meta.events < whole.meta.events / 5);
}

/// The bins of what was skipped add up to what the counters say, as all bins do.
#[test]
fn series_and_counters_agree() {
    let mut plan = incast(4);
    plan.run.duration = Time(600 * MS);
    plan.record.max_bins = 500;
    let fast = run(skipping(&plan));
    assert!(skipped_ps(&fast) > 0);
    let marked = series(&fast, "sw0:h16/tc3", "ecn_marked").iter().sum::<f64>();
    assert_eq!(marked as u64, total(&fast, "ecn_marked_tc_3"));
    let goodput = series(&fast, "h16", "goodput_rx_bps");
    let bin_s = fast.series.bin.0 as f64 * 1e-12;
    assert!(close(goodput.iter().sum::<f64>() * bin_s / 8.0, delivered(&fast) as f64, 1e-9));
    let cnps: u64 = fast.flows.iter().map(|flow| flow.np_cnp_sent).sum();
    assert_eq!(total(&fast, "np_cnp_sent"), cnps);
    let logged =
        fast.signals.rows.iter().filter(|row| fast.signals.who[row.who as usize].signal.name() == "cnp");
    assert_eq!(logged.map(|row| row.amount).sum::<u64>(), cnps);
}

#[test]
fn an_incast_is_within_what_it_states() {
    let mut plan = incast(4);
    (plan.run.duration, plan.run.clock_ppm, plan.record.max_bins) = (Time(1_000 * MS), 100.0, 5_000);
    for seed in [3, 4] {
        plan.run.seed = seed;
        let (whole, fast) = (run(plan.clone()), run(skipping(&plan)));
        assert!(skipped_ps(&fast) > 100 * MS, "{:?}", fast.meta.skipped);
        assert!(close(delivered(&fast) as f64, delivered(&whole) as f64, 0.01));
        let mean = |recording: &Recording| {
            let length = series(recording, "sw0:h16/tc3", "queue_mean_bytes");
            let latter = &length[length.len() / 2..];
            latter.iter().sum::<f64>() / latter.len() as f64
        };
        assert!(close(mean(&fast), mean(&whole), 0.04), "{} {}", mean(&fast), mean(&whole));
    }
}

#[test]
fn a_message_ends_when_it_would() {
    let mut plan = pairs(2, 30_000);
    plan.run.duration = Time(1_000 * MS);
    plan.writers[0].messages = Some(10_000);
    plan.writers[1] =
        WriterPlan { message: Bytes(1_000_000_000), depth: 1, messages: Some(1), ..plan.writers[1].clone() };
    let (whole, fast) = (run(plan.clone()), run(skipping(&plan)));
    assert!(skipped_ps(&fast) > fast.meta.end_ps / 2, "{:?}", fast.meta.skipped);
    for (fast, whole) in fast.flows.iter().zip(&whole.flows) {
        assert_eq!((fast.state, fast.bytes_delivered), ("done", whole.bytes_delivered));
        assert_eq!(fast.packets_sent, whole.packets_sent);
        assert_eq!(fast.messages_completed, whole.messages_completed);
        assert!(close(fast.end_ps.unwrap() as f64, whole.end_ps.unwrap() as f64, 0.01));
    }
}

/// The rounding of a step to whole messages is made up for: half a message too few of these would end 0.5 % late.
#[test]
fn no_part_of_a_message_is_lost() {
    let mut plan = pairs(3, 30_000);
    plan.run.duration = Time(1_000 * MS);
    for writer in &mut plan.writers {
        (writer.message, writer.messages) = (Bytes(10_000_000), Some(100));
    }
    let (whole, fast) = (run(plan.clone()), run(skipping(&plan)));
    assert!(skipped_ps(&fast) > 80 * MS, "{:?}", fast.meta.skipped);
    for (fast, whole) in fast.flows.iter().zip(&whole.flows) {
        assert_eq!((fast.state, fast.bytes_delivered), ("done", whole.bytes_delivered));
        let (fast, whole) = (fast.end_ps.unwrap() as f64, whole.end_ps.unwrap() as f64);
        assert!(close(fast, whole, 1e-4), "ends at {fast}, by packets at {whole}");
    }
}

/// Traffic begins at its time in the plan, and everything before it happens.
#[test]
fn nothing_of_the_plan_is_skipped() {
    let mut plan = pairs(2, 30_000);
    plan.writers[1].start = Time(77 * MS + 123);
    plan.writers[0].stop = Some(Time(150 * MS));
    plan.failures = vec![failure(3, 177 * MS, Some(178 * MS))];
    let fast = run_with_faults(skipping(&plan));
    assert_eq!(fast.flows[2].start_ps, Some(77 * MS + 123));
    let starts = [77 * MS + 123, 150 * MS, 177 * MS, 178 * MS];
    for span in &fast.meta.skipped {
        assert!(starts.iter().all(|at| !(span.from_ps..=span.to_ps).contains(at)), "{span:?}");
    }
    assert!(fast.meta.skipped.len() > 3);
    assert_eq!(fast.flows[0].state, "done");
    let stopped = fast.flows[0].end_ps.unwrap();
    assert!((150 * MS..151 * MS).contains(&stopped), "{stopped}");
}

#[test]
fn pauses_and_losses_are_not_skipped() {
    let mut plan = pairs(2, 30_000);
    plan.links[0].loss = 1e-4;
    assert_eq!(skipped_ps(&run(skipping(&plan))), 0);
    let mut plan = incast(8);
    plan.writers.iter_mut().for_each(|writer| writer.depth = 4096);
    plan.nics[0].congestion = vec![CongestionPlan::None(Default::default())];
    plan.run.duration = Time(20 * MS);
    let fast = run(skipping(&plan));
    assert!(fast.meta.packets["pfc"] > 0);
    assert_eq!(skipped_ps(&fast), 0);
}

#[test]
fn what_does_not_go_with_it_is_refused() {
    let refused = |change: fn(&mut Plan)| {
        let mut plan = skipping(&pairs(1, 30_000));
        change(&mut plan);
        Simulation::new(plan).err().expect("it is refused").to_string()
    };
    let words =
        refused(|plan| plan.switch_models[0].load_balancing = tailback_sim::plan::LoadBalancing::Spray);
    assert_eq!(
        words,
        "run.skip: found steady, expected never: it has switches that divide packets of a connection"
    );
    let mut plan = skipping(&tcp::tcp_star(2));
    plan.tcp_connections = vec![tcp::connections(0, 1, 1)];
    let words = Simulation::new(plan).err().expect("it is refused").to_string();
    assert_eq!(words, "run.skip: found steady, expected never: it has TCP connections");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever it skips, the books balance, it is the same each time, and it ends no earlier or later than by packets.
    #[test]
    fn the_books_balance(
        (count, rate, seed) in (1usize..4, prop::sample::select(vec![5_000u32, 30_000, 0]), 0u64..1000),
        (size, depth) in (1u64..300_000, 1u32..9),
        bins in 20u32..3000,
        to_one in any::<bool>(),
        step in 1u64..50_000,
    ) {
        let mut plan = pairs(count, rate);
        (plan.run.seed, plan.record.max_bins, plan.run.duration) = (seed, bins, Time(60 * MS));
        for writer in &mut plan.writers {
            (writer.message, writer.depth) = (Bytes(size), depth);
            if to_one {
                writer.dst = format!("h{}", 2 * count - 1);
            }
        }
        let plan = skipping(&plan);
        let fast = run_with_faults(plan.clone());
        let mut again = Simulation::new(plan.clone()).expect("it is possible");
        while !again.advance(step).done {}
        let again = again.finish();
        prop_assert_eq!(format!("{:?}", fast.flows), format!("{:?}", again.flows));
        prop_assert_eq!(format!("{:?}", fast.series), format!("{:?}", again.series));
        prop_assert_eq!(fast.meta.end_ps, plan.run.duration.0);
        let bins = fast.meta.end_ps.div_ceil(fast.series.bin.0);
        prop_assert_eq!(fast.series.bins as u64, bins);
    }
}
