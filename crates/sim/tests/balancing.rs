//! Who takes which of several equally short ways: a hash, chance, or the queues.

mod common;

use common::{failure, run, star, writer, MS, US};
use tailback_proto::units::{Bytes, Rate, Time};
use tailback_sim::plan::*;
use tailback_sim::record::Recording;

/// Two leaves with two hosts each, two spines; the links to the spines have these rates.
fn two_ways(load_balancing: LoadBalancing, gbps: [u64; 2]) -> Plan {
    let mut plan = star(4);
    let names = ["leaf0", "leaf1", "spine0", "spine1"];
    plan.switches = names.map(|name| SwitchPlan { name: name.into(), model: 0 }).into();
    plan.switch_models[0].load_balancing = load_balancing;
    for (host, link) in plan.links.iter_mut().enumerate() {
        link.b = names[host / 2].into();
    }
    let template = plan.links[0].clone();
    for leaf in 0..2 {
        for spine in 0..2 {
            plan.links.push(LinkPlan {
                a: names[leaf].into(),
                b: names[2 + spine].into(),
                rate: Rate::from_gbps(gbps[spine]),
                ..template.clone()
            });
        }
    }
    plan.run.duration = Time(5 * MS);
    plan.nics[0].congestion = vec![CongestionPlan::None(Default::default())];
    plan
}

/// The same, and a queue pair from one leaf to the other that never waits for long.
fn one_pair(load_balancing: LoadBalancing, gbps: [u64; 2]) -> Plan {
    let mut plan = two_ways(load_balancing, gbps);
    plan.writers = vec![WriterPlan { message: Bytes(100_000), depth: 2, ..writer(0, 2, 1) }];
    plan
}

/// Packets in the class of data that a leaf sent to each spine.
fn by_spine(recording: &Recording, leaf: &str) -> [f64; 2] {
    ["spine0", "spine1"].map(|spine| {
        let is_it = |row: &&tailback_sim::record::Counter| {
            row.port == format!("{leaf}:{spine}") && row.counter == "tx_prio3_packets"
        };
        recording.counters.iter().filter(is_it).map(|row| row.value as f64).sum()
    })
}

#[test]
fn a_hash_keeps_a_connection_on_one_way_and_spraying_uses_both_alike() {
    let data = |how| by_spine(&run(one_pair(how, [100, 100])), "leaf0");
    let [first, second] = data(LoadBalancing::Ecmp);
    assert!(first == 0.0 || second == 0.0, "{first} and {second}");
    let [first, second] = data(LoadBalancing::Spray);
    let share = first / (first + second);
    // Of more than 1,000 packets; five standard errors.
    assert!(first + second > 1000.0 && (share - 0.5).abs() < 0.08, "{first} and {second}");
}

#[test]
fn answers_keep_to_their_hash() {
    for how in [LoadBalancing::Flowlet, LoadBalancing::Spray, LoadBalancing::Adaptive] {
        let [first, second] = by_spine(&run(one_pair(how, [100, 100])), "leaf1");
        assert!((first == 0.0) != (second == 0.0), "{how:?}: {first} and {second}");
    }
}

/// Two hosts send to two others over links of 160 and 40 Gbit/s. The queue of the slow one is shorter for one packet of five.
#[test]
fn adaptive_routing_follows_the_queues() {
    let mut plan = two_ways(LoadBalancing::Adaptive, [160, 40]);
    // Packets that come out of order are sent again and again: what counts is where they are sent.
    plan.writers = (0..2)
        .map(|host| WriterPlan { message: Bytes(1_000_000), depth: 2, ..writer(host, 2 + host, 4) })
        .collect();
    plan.nics[0].transport.slow_restart = SlowRestart::Never;
    let [fast, slow] = by_spine(&run(plan), "leaf0");
    assert!((3.4..4.6).contains(&(fast / slow)), "{fast} and {slow}");
}

#[test]
fn a_flowlet_ends_with_a_gap() {
    let spines_used = |gap: Time| {
        let mut plan = one_pair(LoadBalancing::Flowlet, [100, 100]);
        plan.switch_models[0].flowlet_gap = gap;
        // A message at a time: silence of a round trip, some 6 us, lies between two.
        plan.writers[0].message = Bytes(1024);
        plan.writers[0].depth = 1;
        let recording = run(plan);
        assert_eq!(common::total(&recording, "packet_seq_err"), 0, "none is overtaken");
        by_spine(&recording, "leaf0").iter().filter(|&&packets| packets > 0.0).count()
    };
    assert_eq!([Time(20 * US), Time(2 * US)].map(spines_used), [1, 2]);
}

#[test]
fn the_seed_decides_and_nothing_else() {
    let sent = |seed| {
        let mut plan = one_pair(LoadBalancing::Spray, [100, 100]);
        plan.run.seed = seed;
        by_spine(&run(plan), "leaf0")
    };
    assert_eq!(sent(1), sent(1));
    assert_ne!(sent(1), sent(2));
}

#[test]
fn queues_of_all_ways_are_listed() {
    let listed = |how| {
        let recording = run(one_pair(how, [100, 100]));
        let egress = recording.meta.queues.iter().filter(|queue| queue.kind == "egress");
        egress.map(|queue| (queue.order, queue.port.clone())).collect::<Vec<_>>()
    };
    let spray = listed(LoadBalancing::Spray);
    let ports = ["leaf1:h2", "spine0:leaf1", "spine1:leaf1", "leaf0:spine0", "leaf0:spine1"];
    assert_eq!(spray, ports.iter().zip([1, 3, 3, 5, 5]).map(|(p, o)| (o, p.to_string())).collect::<Vec<_>>());
    assert_eq!(listed(LoadBalancing::Ecmp).len(), 3);
}

#[test]
fn a_failed_link_is_passed_by() {
    for how in [LoadBalancing::Flowlet, LoadBalancing::Spray, LoadBalancing::Adaptive] {
        let mut plan = one_pair(how, [100, 100]);
        plan.writers[0].messages = Some(100);
        // That of leaf 1 to spine 0: leaf 0 has to know.
        plan.failures = vec![failure(6, 20 * US, None)];
        plan.run.duration = Time(100 * MS);
        let recording = run(plan);
        assert!(recording.flows.iter().all(|flow| flow.state == "done"), "{how:?}");
    }
}
