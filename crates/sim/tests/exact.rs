//! Runs that skip what repeats exactly: all that they leave behind is that of the same runs by packets, to the bit.

mod common;

use common::*;
use proptest::prelude::*;
use tailback_proto::congestion::dcqcn::DcqcnParameters;
use tailback_proto::units::{Bytes, Time};
use tailback_sim::plan::{CongestionPlan, Plan, Skip, WriterPlan};
use tailback_sim::record::Recording;
use tailback_sim::Simulation;

/// Runs it in calls of `step` events.
fn run_in_steps(plan: Plan, step: u64) -> Recording {
    let mut simulation = Simulation::new(plan).expect("it is possible");
    while !simulation.advance(step).done {}
    simulation.finish()
}

/// All that is left behind but what was skipped.
fn left(mut recording: Recording) -> String {
    recording.meta.skipped.clear();
    recording.meta.not_skipped = None;
    format!("{recording:#?}")
}

/// What a run skips in ps, of which all else is as by packets.
fn skipped_by(plan: &Plan, step: u64) -> u64 {
    let mut exact = plan.clone();
    exact.run.skip = Skip::Exact;
    let exact = run_in_steps(exact, step);
    let skipped = exact.meta.skipped.iter().map(|span| span.to_ps - span.from_ps).sum();
    assert_eq!(exact.meta.not_skipped.is_some(), skipped == 0);
    assert!(exact.meta.skipped.iter().all(|span| span.exact && span.packet_hops > 0));
    let (exact, whole) = (left(exact), left(run_in_steps(plan.clone(), u64::MAX)));
    if exact != whole {
        let differ =
            exact.lines().zip(whole.lines()).enumerate().filter(|(_, (exact, whole))| exact != whole);
        let lines: Vec<String> =
            differ.take(20).map(|(at, (exact, whole))| format!("{at}: {exact} is not {whole}")).collect();
        panic!("skipped {skipped} ps; {}", lines.join("\n"));
    }
    skipped
}

fn pairs(count: usize, rate_mbps: u32) -> Plan {
    paced_pairs(count, 1, rate_mbps, Time(100 * MS))
}

#[test]
fn paced_writers_repeat() {
    assert!(skipped_by(&pairs(3, 30_000), u64::MAX) > 50 * MS);
}

/// A period that does not last a whole number of the ticks in which queues are measured is repeated at once.
#[test]
fn an_odd_period_repeats_at_once() {
    let mut plan = paced_pairs(2, 1, 30_000, Time(40 * MS));
    plan.run.clock_ppm = 0.0;
    plan.writers.iter_mut().for_each(|writer| writer.dst = "h3".into());
    for bins in [20, 300, 1_000] {
        plan.record.max_bins = bins;
        assert!(skipped_by(&plan, u64::MAX) > 30 * MS);
    }
}

#[test]
fn a_long_message_repeats_within() {
    let mut plan = pairs(1, 0);
    plan.writers[0] =
        WriterPlan { message: Bytes(1_000_000_000), depth: 1, messages: Some(1), ..plan.writers[0].clone() };
    assert!(skipped_by(&plan, u64::MAX) > 50 * MS);
}

/// What begins, ends or fails at a time of the plan does so then, and a message that is the last one ends.
#[test]
fn times_of_the_plan_and_ends_of_messages_stay() {
    let mut plan = pairs(3, 30_000);
    plan.writers[1].start = Time(37 * MS + 123);
    plan.writers[2].stop = Some(Time(70 * MS));
    plan.writers[0].messages = Some(2_000);
    plan.failures = vec![failure(4, 87 * MS, Some(88 * MS))];
    assert!(skipped_by(&plan, 1_000) > 20 * MS);
}

/// Short messages share a completion, and traffic items are added up.
#[test]
fn short_messages_and_items_repeat() {
    let mut plan = pairs(2, 10_000);
    plan.writers.iter_mut().for_each(|writer| (writer.message, writer.depth) = (Bytes(3_000), 128));
    plan.writers[1].item = "other".into();
    plan.record.max_bins = 100;
    assert!(skipped_by(&plan, u64::MAX) > 20 * MS);
}

#[test]
fn what_never_repeats_is_not_skipped() {
    let mut plan = incast(4);
    plan.run.duration = Time(20 * MS);
    assert_eq!(skipped_by(&plan, u64::MAX), 0);
    let mut plan = pairs(1, 30_000);
    plan.run.duration = Time(20 * MS);
    for loss in [1e-4, 1e-9] {
        plan.links[0].loss = loss;
        assert_eq!(skipped_by(&plan, u64::MAX), 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_skipped_all_is_as_by_packets(
        (count, rates, seed) in (1usize..4, prop::collection::vec(prop::sample::select(vec![2_000u32, 5_000, 30_000, 0]), 2), 0u64..1000),
        sizes in prop::collection::vec(prop::sample::select(vec![1u64, 3_000, 8_192, 65_536, 100_000, 400_000_000]), 2),
        (depth, qps, ppm) in (1u32..9, 1u32..3, prop::sample::select(vec![0.0, 100.0])),
        (bins, duration) in (20u32..1000, 10u64..40),
        (to_one, messages) in (any::<bool>(), prop::option::of(1u64..3_000)),
        (start, lasts) in (0u64..10 * MS, prop::option::of(1..30 * MS)),
        step in prop::sample::select(vec![777u64, 100_000, u64::MAX]),
    ) {
        let mut plan = pairs(count, rates[0]);
        (plan.run.seed, plan.record.max_bins, plan.run.duration) = (seed, bins, Time(duration * MS));
        plan.run.clock_ppm = ppm;
        if count > 1 {
            let paced = DcqcnParameters { rpg_max_rate: rates[1], release_at_max_rate: false, ..connectx() };
            plan.nics.push(plan.nics[0].clone());
            plan.nics[1].congestion = vec![CongestionPlan::Dcqcn(paced)];
            plan.hosts[1].nic = 1;
        }
        for (number, writer) in plan.writers.iter_mut().enumerate() {
            (writer.message, writer.depth, writer.qps) = (Bytes(sizes[number % 2]), depth, qps);
            if to_one {
                writer.dst = format!("h{}", 2 * count - 1);
            }
        }
        (plan.writers[0].start, plan.writers[0].messages) = (Time(start), messages);
        plan.writers[count - 1].stop = lasts.map(|lasts| Time(start + lasts));
        let skipped = skipped_by(&plan, step);
        println!("skipped {:.2} of {duration} ms", skipped as f64 / MS as f64);
    }
}
