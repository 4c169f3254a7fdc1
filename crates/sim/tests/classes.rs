//! Properties of classes over random configurations: scheduling, pauses, pools, classification.

mod common;

use common::*;
use proptest::prelude::*;
use tailback_proto::units::{Bytes, Rate, Time};
use tailback_sim::plan::*;
use tailback_sim::record::Recording;

const GBPS: u64 = 1_000_000_000;

/// Of a host's or a switch's port: bytes that each class put on the wire.
fn wire_bytes(recording: &Recording, node: &str, port: &str) -> [u64; 8] {
    let value = |name: String| {
        let found =
            |c: &&tailback_sim::record::Counter| c.node == node && c.port == port && c.counter == name;
        recording.counters.iter().find(found).map_or(0, |counter| counter.value)
    };
    let of = |class| value(format!("tx_prio{class}_bytes")) + 20 * value(format!("tx_prio{class}_packets"));
    std::array::from_fn(of)
}

/// True if the classes with a weight have their shares of what these sent, to 1 % of the link.
fn check_shares(bytes: [u64; 8], weights: [u32; 8]) -> Result<(), TestCaseError> {
    let all: u64 = bytes.iter().sum();
    let sum: u32 = weights.iter().sum();
    for class in (0..8).filter(|&class| weights[class] > 0) {
        let (share, due) = (bytes[class] as f64 / all as f64, weights[class] as f64 / sum as f64);
        prop_assert!((share - due).abs() < 0.01, "class {class} of {bytes:?}: {share}, not {due}");
    }
    Ok(())
}

/// A star in which every host has a NIC of its own.
fn star_of_own_nics(hosts: usize) -> Plan {
    let mut plan = star(hosts);
    plan.nics[0].congestion = vec![CongestionPlan::None(Default::default())];
    plan.nics = vec![plan.nics[0].clone(); hosts];
    for (index, host) in plan.hosts.iter_mut().enumerate() {
        host.nic = index;
    }
    plan.run.duration = Time(2 * MS);
    plan
}

/// Weights of some of the eight classes, at least two; strict classes, which are none of these.
fn weights() -> impl Strategy<Value = ([u32; 8], Vec<u8>)> {
    let weights = prop::array::uniform8(prop_oneof![Just(0u32), 1u32..=100]);
    let weights = weights.prop_filter("two share", |w| w.iter().filter(|&&weight| weight > 0).count() > 1);
    (weights, any::<u8>()).prop_map(|(weights, strict)| {
        let strict = (0..8).filter(|&class| weights[class as usize] == 0 && strict & (1 << class) != 0);
        (weights, strict.collect())
    })
}

/// Enough messages outstanding to fill the link whatever their size is.
fn saturating(src: usize, dst: usize) -> WriterPlan {
    WriterPlan { depth: 4096, ..writer(src, dst, 2) }
}

/// MTU and message size of each class: frames of any size.
fn sizes() -> impl Strategy<Value = [(u32, u64); 8]> {
    prop::array::uniform8((prop::sample::select(vec![256, 1024, 4096]), 200u64..9000))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// A sender for each class, all to one receiver.
    #[test]
    fn a_switch_port_divides_as_its_weights_say((weights, strict) in weights(), sizes in sizes()) {
        let mut plan = star_of_own_nics(9);
        let model = &mut plan.switch_models[0];
        (model.weights, model.strict, model.lossless) = (Some(weights), strict, (0..8).collect());
        (model.buffer, model.shared_bytes) = (Bytes(32_000_000), 20_000_000);
        for class in (0..8).filter(|&class| weights[class] > 0) {
            plan.nics[class].mtu = Bytes(sizes[class].0 as u64);
            let code_point = class as u8;
            let message = Bytes(sizes[class].1);
            plan.writers.push(WriterPlan { message, code_point, ..saturating(class, 8) });
        }
        let recording = run(plan);
        check_shares(wire_bytes(&recording, "sw0", "sw0:h8"), weights)?;
    }

    /// One sender, a receiver for each class.
    #[test]
    fn a_nic_divides_as_its_weights_say((weights, strict) in weights(), sizes in sizes()) {
        let mut plan = star_of_own_nics(9);
        (plan.nics[8].weights, plan.nics[8].strict) = (Some(weights), strict);
        plan.nics[8].mtu = Bytes(sizes[0].0 as u64);
        for class in (0..8).filter(|&class| weights[class] > 0) {
            let code_point = class as u8;
            let message = Bytes(sizes[class].1);
            plan.writers.push(WriterPlan { message, code_point, ..saturating(8, class) });
        }
        let recording = run(plan);
        check_shares(wire_bytes(&recording, "h8", ""), weights)?;
    }

    /// Two switches; bulk traffic in lossless classes pauses the ports on the way, and now and then a small message in
    /// another class, as small as a CNP, passes by. On each port it waits for one frame in transmission and, where it
    /// is not strict, for one turn of each other class (with weights: for their parts of a round and what they
    /// overdraw); a pause of the others never adds to that.
    #[test]
    fn a_paused_class_does_not_hold_up_another(
        probe in 0u8..8,
        strict: bool,
        shares in any::<bool>(),
        others in prop::collection::btree_set(0u8..8, 1..4),
        mtu in prop::sample::select(vec![256u32, 1024, 4096]),
        bytes in 1u64..=64,
    ) {
        let others: Vec<u8> = others.into_iter().filter(|&class| class != probe).collect();
        prop_assume!(!others.is_empty());
        let mut plan = star(6);
        plan.nics[0].congestion = vec![CongestionPlan::None(Default::default())];
        plan.nics[0].mtu = Bytes(mtu as u64);
        plan.switches.push(SwitchPlan { name: "sw1".into(), model: 0 });
        // h0 to h2 at sw0, h3 to h5 at sw1; h3 is slow, so that all ports on the way to it are paused.
        for link in &mut plan.links[3..] {
            link.b = "sw1".into();
        }
        plan.links[3].rate = Rate(5 * GBPS);
        plan.links.push(LinkPlan { a: "sw0".into(), b: "sw1".into(), ..plan.links[0].clone() });
        let model = &mut plan.switch_models[0];
        (model.lossless, model.buffer, model.shared_bytes) = (others.clone(), Bytes(2_000_000), 400_000);
        let strict_classes = if strict { vec![probe] } else { vec![] };
        let weights = shares.then(|| std::array::from_fn(|_| 12));
        (model.strict, model.weights) = (strict_classes.clone(), weights);
        (plan.nics[0].strict, plan.nics[0].weights) = (strict_classes, weights);
        for &code_point in &others {
            plan.writers.extend((0..2).map(|src| WriterPlan { code_point, ..writer(src, 3, 2) }));
        }
        plan.flows.items = vec!["probe".into()];
        plan.flows.list = (1..100).map(|at| FlowPlan(0, 5, 0, probe, bytes, at * 10 * US)).collect();
        plan.run.duration = Time(2 * MS);
        let recording = run(plan);
        let paused: u64 = recording.meta.pauses.iter().map(|pause| pause.paused_ps).sum();
        prop_assert!(paused > MS, "nothing was paused: {paused}");
        // Bits at 100 Gbit/s, 10 ps each. Three ports there; on the way back ACKs of the others, which are smaller.
        let frame = (mtu as u64 + 98) * 8 * 10;
        let pause_frame = 84 * 8 * 10;
        let round = 100 * 64 * 8 * 10;
        let turns = match (strict, shares) {
            (true, _) => frame,
            (false, false) => frame * (1 + others.len() as u64),
            (false, true) => frame * (1 + others.len() as u64) + round,
        };
        let most = 6 * (turns + pause_frame);
        for flow in &recording.flows[plan_flows(&recording)..] {
            let (fct, ideal) = (flow.fct_ps.expect("it is done"), flow.ideal_fct_ps.expect("a message"));
            prop_assert!(fct <= ideal + most, "{} ps beyond the ideal, at most {most}", fct - ideal);
        }
    }

    /// Full queues of three other classes on every port of the way, and a packet as small as a CNP in a strict class: on
    /// each port it waits for no more than one frame, whatever the shares of the others are and whether they are strict
    /// in a lower place.
    #[test]
    fn a_strict_class_waits_for_one_frame(
        probe in 3u8..8,
        lower in prop::sample::subsequence(vec![0u8, 1, 2], 0..=3),
        shares in prop::option::of(1u32..=100),
        mtu in prop::sample::select(vec![1024u32, 4096]),
        bytes in 1u64..=64,
    ) {
        let mut plan = star(4);
        plan.nics[0].congestion = vec![CongestionPlan::None(Default::default())];
        plan.nics[0].mtu = Bytes(mtu as u64);
        plan.switches.push(SwitchPlan { name: "sw1".into(), model: 0 });
        plan.links[3].b = "sw1".into();
        plan.links.push(LinkPlan { a: "sw0".into(), b: "sw1".into(), ..plan.links[0].clone() });
        let strict: Vec<u8> = lower.into_iter().chain([probe]).collect();
        let weights = shares.map(|share| std::array::from_fn(|class| if class == 0 { share } else { 30 }));
        let model = &mut plan.switch_models[0];
        (model.lossless, model.strict, model.weights) = (vec![0, 1, 2], strict.clone(), weights);
        (plan.nics[0].strict, plan.nics[0].weights) = (strict, weights);
        for code_point in 0..3 {
            // The link between the switches is fuller than that of h0.
            plan.writers.extend((0..3).map(|src| WriterPlan { code_point, ..saturating(src, 3) }));
        }
        plan.flows.items = vec!["probe".into()];
        plan.flows.list = (0..150).map(|at| FlowPlan(0, 3, 0, probe, bytes, (200 + 7 * at) * US)).collect();
        plan.run.duration = Time(2 * MS);
        let recording = run(plan);
        // Bits at 100 Gbit/s, 10 ps each: data on three ports, ACKs of the others on the way back, and PFC frames.
        let most = 3 * (mtu as u64 + 98 + 86 + 2 * 84) * 8 * 10;
        for flow in &recording.flows[plan_flows(&recording)..] {
            let (fct, ideal) = (flow.fct_ps.expect("it is done"), flow.ideal_fct_ps.expect("a message"));
            prop_assert!(fct <= ideal + most, "{} ps beyond the ideal, at most {most}", fct - ideal);
        }
    }

    /// Whatever is lossless, strict or in a pool: the books add up (which `run_with_faults` checks) and a lossless
    /// class loses nothing.
    #[test]
    fn the_books_add_up_with_pools(
        lossless in prop::collection::btree_set(0u8..8, 0..4),
        strict in prop::collection::btree_set(0u8..8, 0..3),
        weights in prop::option::of(prop::array::uniform8(0u32..=100)),
        pools in (20_000u64..600_000, 20_000u64..600_000),
        nic_class in prop::option::of(prop::array::uniform8(0u8..8)),
        cnps in prop::option::of(0u8..8),
        loss: bool,
    ) {
        let mut plan = star(5);
        let model = &mut plan.switch_models[0];
        model.lossless = lossless.into_iter().collect();
        model.strict = strict.into_iter().collect();
        (model.weights, plan.nics[0].weights) = (weights, weights);
        model.pools = Some(PoolSizes { lossless_bytes: pools.0, lossy_bytes: pools.1 });
        model.shared_bytes = pools.0 + pools.1;
        plan.nics[0].cnp_code_point = cnps;
        plan.links[0].loss = if loss { 0.01 } else { 0.0 };
        for class in 0..8 {
            let code_point = class as u8;
            plan.writers.push(WriterPlan { code_point, ..writer(class % 4, 4, 2) });
        }
        plan.run.duration = Time(MS / 2);
        if let Some(class_of) = nic_class {
            // Pauses that name other classes than the NIC's stop nobody.
            plan.nics[0].class_of = class_of.to_vec();
            run_with_faults(plan);
        } else {
            run(plan);
        }
    }
}

/// Where the single messages begin in the flow table: after the queue pairs of writers.
fn plan_flows(recording: &Recording) -> usize {
    recording.flows.iter().position(|flow| flow.item == "probe").expect("there are probes")
}

/// The NIC and the switch may have the same packet in different classes. Its pauses then name a class in which the NIC has
/// nothing: they stop nobody, and the headroom overflows.
#[test]
fn each_node_classifies_for_itself() {
    let mut plan = star(3);
    plan.nics[0].congestion = vec![CongestionPlan::None(Default::default())];
    // The switch trusts nothing: all in class 0, which is lossless.
    plan.switch_models[0].class_of = vec![0; 8];
    plan.switch_models[0].lossless = vec![0];
    plan.switch_models[0].shared_bytes = 300_000;
    plan.writers = vec![writer(0, 2, 2), writer(1, 2, 2)];
    let recording = run_with_faults(plan);
    let nic = wire_bytes(&recording, "h0", "");
    assert!(nic[3] > 1_000_000 && nic[0] == 0, "{nic:?}");
    let switch = wire_bytes(&recording, "sw0", "sw0:h2");
    assert!(switch[0] > 1_000_000 && switch[3] == 0, "{switch:?}");
    let paused: Vec<u8> = recording.meta.pauses.iter().map(|pause| pause.priority).collect();
    assert!(!paused.is_empty() && paused.iter().all(|&class| class == 0), "{paused:?}");
    assert_eq!(recording.meta.faults[0].kind, "lossless_drop");
}

/// CNPs go in the class of the data that they answer where they have no marks of their own.
#[test]
fn cnps_may_share_the_class_of_the_data() {
    let mut plan = incast(1);
    plan.nics[0].cnp_code_point = None;
    plan.nics[0].strict.clear();
    let recording = run(plan);
    assert!(recording.meta.packets["cnp"] > 0);
    assert_eq!(wire_bytes(&recording, "h16", "")[6], 0);
}

/// Only the class with thresholds is marked, and by its own.
#[test]
fn each_class_has_its_own_thresholds() {
    let mut plan = star(4);
    plan.nics[0].congestion = vec![CongestionPlan::None(Default::default())];
    let low = EcnParameters { priorities: vec![1], ..ecn(None, 20_000) };
    let high = EcnParameters { priorities: vec![2], ..ecn(None, 10_000_000) };
    plan.switch_models[0].ecn = vec![low, high];
    plan.writers = (0..3).map(|src| WriterPlan { code_point: 1 + src as u8, ..writer(src, 3, 1) }).collect();
    let recording = run_with_faults(plan);
    let marked = |class: u8| total(&recording, &format!("ecn_marked_tc_{class}"));
    assert!(marked(1) > 0);
    assert_eq!((marked(2), marked(3)), (0, 0));
}
