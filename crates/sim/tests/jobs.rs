//! Jobs: collectives against closed forms, and graphs of operations drawn at random.

mod common;

use common::{run, run_with_faults, star, MS, US};
use proptest::prelude::*;
use tailback_proto::units::{Rate, Time};
use tailback_sim::plan::*;
use tailback_sim::record::Recording;
use tailback_sim::work::JobRecord;
use tailback_sim::Simulation;

/// A star of ranks without congestion control, whose messages ask for one ACK each.
fn plan(ranks: u32, steps: Vec<StepPlan>) -> Plan {
    let mut plan = star(ranks as usize);
    plan.run.duration = Time(1000 * MS);
    plan.nics[0].congestion = vec![CongestionPlan::None(Default::default())];
    plan.nics[0].transport.ack_every = 65_536;
    plan.links.iter_mut().for_each(|link| link.headroom_bytes = 10_000);
    plan.flows.items = vec!["job0".into()];
    plan.jobs = vec![JobPlan {
        name: "job0".into(),
        item: 0,
        code_point: 3,
        ranks: (0..ranks).collect(),
        servers: (0..ranks).collect(),
        domain: None,
        reduce_rate: None,
        queue_pairs: QueuePairs::Pair,
        start_ps: 0,
        repeat: 1,
        steps,
    }];
    plan
}

fn collective(kind: CollectiveKind, algorithm: Algorithm, bytes: u64) -> CollectivePlan {
    CollectivePlan { kind, algorithm, bytes, channels: 1, chunks: 1, overlapped: false }
}

fn ended(recording: &Recording) -> &JobRecord {
    let job = &recording.meta.jobs[0];
    assert_eq!(job.operations, job.ended);
    assert!(job.finished_ps.iter().all(Option::is_some));
    job
}

/// ps of a byte at 100 Gbit/s; of a link and the switch or NIC behind it; of an ACK of 86 B.
const BYTE: u64 = 80;
const HOP: u64 = 800_000;
const ACK: u64 = 86 * BYTE;

/// From the posting of a message to its last byte in memory: each packet is received whole before it goes on, and has 82 B
/// around it, the first one 16 more.
fn one_way(bytes: u64) -> u64 {
    let (mut sent, mut forwarded) = (0, 0);
    for packet in 0..bytes.div_ceil(1024) {
        let payload = (bytes - packet * 1024).min(1024).next_multiple_of(4);
        let takes = (payload + 82 + if packet == 0 { 16 } else { 0 }) * BYTE;
        sent += takes;
        forwarded = (sent + HOP).max(forwarded) + takes;
    }
    forwarded + HOP
}

/// `steps` messages one after the other; an ACK of the one before goes first.
fn in_turn(steps: u64, bytes: u64) -> u64 {
    steps * one_way(bytes) + (steps - 1) * ACK
}

#[test]
fn a_ring_takes_what_the_closed_form_says() {
    for ranks in 2..=64u32 {
        for bytes in [1, 4097, 100_000, 1_000_003] {
            let share = (bytes as u64).div_ceil(ranks as u64);
            let step = collective(CollectiveKind::AllReduce, Algorithm::Ring, bytes as u64);
            let recording = run(plan(ranks, vec![StepPlan::Collective(step)]));
            let job = ended(&recording);
            let expected = in_turn(2 * (ranks as u64 - 1), share);
            assert_eq!(job.parts[0].end_ps, expected, "{ranks} ranks, {bytes} B");
            assert_eq!(job.parts[0].first_end_ps, expected);
            assert_eq!(job.parts[0].chain.excess_ps, (2 * ranks as u64 - 3) * ACK);
        }
    }
}

#[test]
fn halving_and_doubling_take_what_the_closed_form_says() {
    for steps in 1..=6u32 {
        let ranks = 1 << steps;
        let bytes = 64 * 1024u64;
        let step = collective(CollectiveKind::AllReduce, Algorithm::HalvingDoubling, bytes);
        let recording = run(plan(ranks, vec![StepPlan::Collective(step)]));
        let messages: u64 = (1..=steps).map(|step| 2 * one_way(bytes >> step)).sum();
        assert_eq!(ended(&recording).parts[0].end_ps, messages + (2 * steps as u64 - 1) * ACK);
    }
}

#[test]
fn a_broadcast_along_a_chain_takes_what_the_closed_form_says() {
    for ranks in [2, 3, 8] {
        let step = collective(CollectiveKind::Broadcast, Algorithm::Ring, 70_000);
        let recording = run(plan(ranks, vec![StepPlan::Collective(step)]));
        assert_eq!(ended(&recording).parts[0].end_ps, in_turn(ranks as u64 - 1, 70_000));
    }
}

#[test]
fn trees_bring_both_halves_to_all_once() {
    for ranks in [2, 3, 5, 8, 13] {
        let step = collective(CollectiveKind::Broadcast, Algorithm::DoubleBinaryTree, 80_000);
        let recording = run(plan(ranks, vec![StepPlan::Collective(step)]));
        ended(&recording);
        let mut came = vec![0; ranks as usize];
        for flow in &recording.flows {
            came[flow.dst[1..].parse::<usize>().unwrap()] += flow.bytes_delivered;
        }
        assert!(came[0] == 0 && came[1..].iter().all(|&bytes| bytes == 80_000), "{ranks}: {came:?}");
    }
}

#[test]
fn reducing_takes_its_time() {
    let (share, rate) = (50_000u64, 1_000_000_000_000);
    let step = collective(CollectiveKind::AllReduce, Algorithm::Ring, 2 * share);
    let mut plan = plan(2, vec![StepPlan::Collective(step)]);
    plan.jobs[0].reduce_rate = Some(Rate(rate));
    let recording = run(plan);
    let part = &ended(&recording).parts[0];
    // 8 ps a byte; the ACK of the first message goes meanwhile.
    assert_eq!(part.end_ps, 2 * one_way(share) + 8 * share);
    assert_eq!(part.chain.reduce_ps, 8 * share);
    assert_eq!(part.chain.excess_ps, 0);
}

#[test]
fn who_sends_to_two_sends_one_behind_the_other() {
    let share = 30_000;
    let step = collective(CollectiveKind::AllToAll, Algorithm::Direct, 3 * share);
    let recording = run(plan(3, vec![StepPlan::Collective(step)]));
    let chain = &ended(&recording).parts[0].chain;
    assert_eq!(chain.operations, 2);
    assert_eq!(chain.ideal_ps, one_way(share));
    let sent = share + 30 * 82 + 16;
    assert_eq!(chain.behind_ps, sent * BYTE);
}

#[test]
fn all_collectives_move_what_they_have_to() {
    use {Algorithm as A, CollectiveKind as K};
    let (ranks, bytes) = (8u64, 80_000u64);
    let gathers = (ranks - 1) * bytes;
    for (kind, algorithms) in [
        (K::AllReduce, vec![A::Ring, A::Direct, A::HalvingDoubling, A::DoubleBinaryTree, A::Hierarchical]),
        (K::AllGather, vec![A::Ring, A::Direct, A::HalvingDoubling, A::Hierarchical]),
        (K::ReduceScatter, vec![A::Ring, A::Direct, A::HalvingDoubling, A::Hierarchical]),
        (K::AllToAll, vec![A::Direct, A::Hierarchical]),
        (K::Broadcast, vec![A::Ring, A::Direct, A::DoubleBinaryTree, A::Hierarchical]),
    ] {
        for algorithm in algorithms {
            for (channels, chunks) in [(1, 1), (2, 1), (2, 5)] {
                let one = CollectivePlan { channels, chunks, ..collective(kind, algorithm, bytes) };
                let mut plan = plan(ranks as u32, vec![StepPlan::Collective(one)]);
                plan.jobs[0].servers = (0..8).map(|rank| rank / 4).collect();
                plan.jobs[0].repeat = 3;
                let recording = run(plan);
                let job = ended(&recording);
                assert_eq!(job.parts.len(), 3);
                let moved: u64 = recording.flows.iter().map(|flow| flow.bytes_delivered).sum();
                let expected = match (kind, algorithm) {
                    (K::AllReduce, _) => 2 * gathers,
                    // Two steps: three of eight parts inside of a server, half of all across.
                    (K::AllToAll, A::Hierarchical) => 8 * (3 * bytes / 4 + bytes / 2),
                    _ => gathers,
                };
                let expected = 3 * expected;
                assert_eq!(moved, expected, "{kind:?} {algorithm:?}");
            }
        }
    }
}

#[test]
fn what_a_server_does_by_itself_does_not_touch_the_fabric() {
    let one = collective(CollectiveKind::AllReduce, Algorithm::Direct, 4 << 20);
    let mut plan = plan(4, vec![StepPlan::Collective(one)]);
    plan.jobs[0].servers = vec![0; 4];
    plan.jobs[0].domain = Some(DomainPlan { rate: Rate(800_000_000_000), latency: Time(US) });
    let recording = run(plan);
    assert!(recording.flows.is_empty());
    // Three messages of 1 MiB each way, twice; a byte takes 10 ps.
    assert_eq!(ended(&recording).parts[0].end_ps, 2 * (3 * (10 << 20) + US));
}

#[test]
fn computing_overlaps_where_it_may() {
    let share = 64 * 1024;
    let one = collective(CollectiveKind::AllReduce, Algorithm::Ring, 4 * share);
    let time = in_turn(6, share);
    let long = 2 * time;
    for (overlapped, compute, each) in [(false, long, long + time), (true, long, long), (true, US, time)] {
        let steps =
            vec![StepPlan::Collective(CollectivePlan { overlapped, ..one }), StepPlan::Compute(compute)];
        let mut plan = plan(4, steps);
        plan.jobs[0].repeat = 3;
        plan.jobs[0].start_ps = 5 * US;
        let recording = run(plan);
        let iterations = &ended(&recording).iterations_ps;
        assert_eq!(iterations.len(), 3);
        let spans = &ended(&recording).spans;
        assert_eq!(spans.len(), 4 * 2 * 3);
        assert!(spans.iter().all(|span| span.3 >= 5 * US && Some(span.3) < span.4));
        let computed = spans.iter().filter(|span| span.2 == 1).map(|span| span.4.unwrap() - span.3);
        assert!(computed.into_iter().all(|time| time == compute));
        // What is repeated at once begins behind the last ACK of the one before.
        let late = if each == time { ACK } else { 0 };
        assert_eq!(iterations[2], 5 * US + 3 * each + 2 * late, "{overlapped} {compute}");
    }
}

#[test]
fn a_rank_computes_no_longer_than_a_run_may_be() {
    let refused = |step| Simulation::new(plan(2, vec![step])).map(|_| ()).unwrap_err().to_string();
    let most = 1 << 55;
    let text = format!("jobs[0].steps[0]: compute is {}, above {}", u64::MAX, most - 1);
    assert_eq!(refused(StepPlan::Compute(u64::MAX)), text);
    let operations = vec![
        OperationPlan(0, StepWork::Compute(US), vec![]),
        OperationPlan(1, StepWork::Compute(u64::MAX), vec![]),
    ];
    assert_eq!(refused(StepPlan::Graph(operations.into())), text);
    // As long as may be, again and again: time does not run over.
    let long = OperationPlan(0, StepWork::Compute(most - 1), vec![]);
    let recording = run_with_faults(plan(2, vec![StepPlan::Graph(vec![long; 1000].into())]));
    assert!(recording.meta.faults[0].text.contains("computing, had not ended"));
}

#[test]
fn a_circle_is_named() {
    let operations = vec![
        OperationPlan(0, StepWork::Compute(US), vec![2]),
        OperationPlan(0, StepWork::Send { to: 1, bytes: 9, channel: 0 }, vec![0]),
        OperationPlan(0, StepWork::Reduce(5), vec![1]),
        OperationPlan(1, StepWork::Receive, vec![1]),
    ];
    let refused = Simulation::new(plan(2, vec![StepPlan::Graph(operations.into())])).map(|_| ()).unwrap_err();
    assert_eq!(refused.to_string(), "jobs[0]: operations 0, 1, 2 wait for each other in a circle");
}

#[test]
fn what_never_comes_is_a_fault() {
    let one = collective(CollectiveKind::Broadcast, Algorithm::Ring, 100_000);
    let mut plan = plan(3, vec![StepPlan::Collective(one)]);
    plan.links[1].loss = 0.9999;
    plan.nics[0].transport.retry_count = 0;
    let recording = run_with_faults(plan);
    assert!(recording.meta.faults.iter().any(|fault| fault.kind == "unfinished" && fault.node == "h2"));
    let job = &recording.meta.jobs[0];
    assert!(job.ended < job.operations);
    assert!(job.spans.iter().any(|span| span.0 == 2 && span.4.is_none()), "{:?}", job.spans);
}

/// Operations with what they wait for; each only for earlier ones, so that there is no circle.
fn graphs() -> impl Strategy<Value = (u32, Vec<OperationPlan>)> {
    (2u32..6).prop_flat_map(|ranks| {
        let one = (
            0..ranks,
            0u8..5,
            0..ranks - 1,
            1u64..30_000,
            proptest::collection::vec(any::<prop::sample::Index>(), 0..4),
        );
        proptest::collection::vec(one, 1..60).prop_map(move |drawn| {
            let mut operations: Vec<OperationPlan> = Vec::new();
            for (rank, what, other, amount, after) in drawn {
                let what = match what {
                    0 => StepWork::Compute(amount * 1000),
                    1 => StepWork::Reduce(amount),
                    2 => StepWork::Barrier,
                    3 => StepWork::Receive,
                    _ => StepWork::Send { to: (rank + 1 + other) % ranks, bytes: amount, channel: 0 },
                };
                let mut known: Vec<u32> = Vec::new();
                for one in after.iter().filter(|_| !operations.is_empty()) {
                    let one = one.index(operations.len());
                    let by_message = matches!(operations[one].1, StepWork::Send { to, .. } if to == rank);
                    let by_barrier = what == StepWork::Barrier || operations[one].1 == StepWork::Barrier;
                    if operations[one].0 == rank || by_message || by_barrier {
                        known.push(one as u32);
                    }
                }
                operations.push(OperationPlan(rank, what, known));
            }
            (ranks, operations)
        })
    })
}

/// The same operations in another order.
fn shuffled(operations: &[OperationPlan], keys: u64) -> Vec<OperationPlan> {
    let mut places: Vec<usize> = (0..operations.len()).collect();
    places.sort_by_key(|&place| tailback_sim::engine::mix(keys ^ place as u64));
    let mut moved = vec![0; places.len()];
    (0..).zip(&places).for_each(|(number, &place)| moved[place] = number);
    let one = |&place: &usize| {
        let OperationPlan(rank, what, after) = &operations[place];
        OperationPlan(*rank, *what, after.iter().rev().map(|&one| moved[one as usize]).collect())
    };
    places.iter().map(one).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn every_operation_ends_once((ranks, operations) in graphs(), own: bool, reduces: bool, keys: u64) {
        let count = operations.len() as u64;
        let bytes: u64 = operations
            .iter()
            .map(|one| if let StepWork::Send { bytes, .. } = one.1 { bytes } else { 0 })
            .sum();
        let make = || {
            let mut plan = plan(ranks, vec![StepPlan::Graph(operations.clone().into())]);
            plan.jobs[0].repeat = 2;
            plan.jobs[0].queue_pairs = if own { QueuePairs::Message } else { QueuePairs::Pair };
            plan.jobs[0].reduce_rate = reduces.then_some(Rate(1_000_000_000));
            plan
        };
        let recording = run(make());
        let job = ended(&recording);
        prop_assert_eq!(job.ended, 2 * count);
        prop_assert_eq!(recording.flows.iter().map(|flow| flow.bytes_delivered).sum::<u64>(), 2 * bytes);
        // The parts of its chain are the time of a graph.
        for part in &job.parts {
            let chain = &part.chain;
            let sum = chain.late_ps + chain.compute_ps + chain.reduce_ps + chain.ideal_ps + chain.behind_ps + chain.excess_ps;
            prop_assert_eq!(sum, part.end_ps - part.begin_ps);
        }
        // Whether or not messages that are done leave their slots.
        let mut kept = make();
        kept.failures.push(FailurePlan { link: 0, at: kept.run.duration, repair: None, detection: Time::ZERO });
        let kept = run(kept);
        prop_assert_eq!(format!("{:?}", kept.flows), format!("{:?}", recording.flows));
        prop_assert_eq!(format!("{:?}", kept.meta), format!("{:?}", recording.meta));
        // However it is listed.
        let mut other = make();
        other.jobs[0].steps = vec![StepPlan::Graph(shuffled(&operations, keys).into())];
        let other = run(other);
        prop_assert_eq!(&other.meta.jobs[0].iterations_ps, &job.iterations_ps);
        prop_assert_eq!(&other.meta.jobs[0].parts, &job.parts);
        prop_assert_eq!(other.meta.events, recording.meta.events);
    }
}

/// Seven ranks send two messages each to one, three times, each message with a queue pair of its own: with marks, or with losses, too.
fn incast_of_messages(lossy: bool) -> Plan {
    let send =
        |n: u32| OperationPlan(1 + n % 7, StepWork::Send { to: 0, bytes: 100_000, channel: 0 }, vec![]);
    let operations: Vec<OperationPlan> = (0..14).map(send).collect();
    let mut plan = plan(8, vec![StepPlan::Graph(operations.into())]);
    plan.nics[0].congestion = star(8).nics[0].congestion.clone();
    plan.nics[0].transport = star(8).nics[0].transport;
    plan.jobs[0].queue_pairs = QueuePairs::Message;
    plan.jobs[0].repeat = 3;
    let model = &mut plan.switch_models[0];
    model.ecn = vec![common::ecn(None, 20_000)];
    if lossy {
        (model.lossless, model.shared_bytes) = (vec![], 100_000);
    }
    plan
}

/// Messages that are done leave their slots to others, unless a link may fail: the same is recorded, to the last bit.
#[test]
fn a_slot_that_is_used_again_changes_nothing() {
    for lossy in [false, true] {
        let free = run(incast_of_messages(lossy));
        let mut plan = incast_of_messages(lossy);
        plan.failures.push(FailurePlan {
            link: 0,
            at: plan.run.duration,
            repair: None,
            detection: Time::ZERO,
        });
        let kept = run(plan);
        assert_eq!(free.flows.len(), 3 * 14);
        let again: u64 = free.flows.iter().map(|flow| flow.packets_retransmitted).sum();
        let cnps: u64 = free.flows.iter().map(|flow| flow.rp_cnp_handled).sum();
        assert_eq!((again > 0, cnps > 0), (lossy, true));
        assert_eq!(format!("{:?}", free.flows), format!("{:?}", kept.flows));
        assert_eq!((&free.series.names, &free.series.values), (&kept.series.names, &kept.series.values));
        assert_eq!(free.counters, kept.counters);
        assert_eq!(format!("{:?}", free.meta), format!("{:?}", kept.meta));
    }
}
