//! Tests of runs whose nodes take turns. Each node acts on all that happens to it in a window before the next node does, in
//! any order of nodes, as if each had its own core. No packet crosses a link within a window, so the results must be those
//! of a run in order of time, to the byte: the place of an event may depend only on what happened at its node.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use proptest::prelude::*;
use tailback_proto::congestion::builtin::Settings;
use tailback_proto::congestion::hpcc::HpccParameters;
use tailback_proto::congestion::hpcc::PintParameters;
use tailback_proto::congestion::parameters::RoundTrip;
use tailback_proto::units::Time;

use super::windows::node_of;
use super::Simulation;
use crate::engine::mix;
use crate::event::Event;
use crate::plan::{LinkPlan, Plan, SwitchPlan, WriterPlan};
use crate::record::Recording;
use crate::world::World;

const PLAN: &str = include_str!("../../tests/data/two_to_one.json");

/// A time, and the event, which is also its place at that time.
type Entry = Reverse<(Time, u32)>;

/// Hands every scheduled event to its node. Returns the time of the next sample if there is a new one.
fn sort(world: &mut World, waiting: &mut [BinaryHeap<Entry>]) -> Option<Time> {
    // Nodes are at different times, so each event is scheduled in an empty queue.
    let mut queue = std::mem::take(&mut world.fabric.run.events);
    let mut sample = None;
    while let Some((time, code)) = queue.pop() {
        match node_of(world, Event::decode(code)) {
            None => sample = Some(time),
            Some(node) => waiting[node].push(Reverse((time, code))),
        }
    }
    sample
}

/// Runs a plan in windows that no packet crosses a link in; `turns` sets the order of nodes in each.
fn run_by_node(plan: Plan, turns: u64) -> Recording {
    let window = plan.links.iter().map(|link| link.delay).min().expect("there are links");
    let end = plan.run.duration;
    let mut simulation = Simulation::new(plan).expect("the plan is possible");
    let nodes = simulation.world.fabric.nodes;
    let mut waiting: Vec<BinaryHeap<Entry>> = (0..nodes).map(|_| BinaryHeap::new()).collect();
    let mut sample = sort(&mut simulation.world, &mut waiting).expect("bins close");
    let mut window_number = 0;
    loop {
        let first = waiting.iter().filter_map(|own| Some(own.peek()?.0 .0)).min().unwrap_or(Time::NEVER);
        // Events at the instant at which a bin closes belong to it.
        let last = (Time(first.0.saturating_add(window.0 - 1))).min(sample).min(end);
        let mut order: Vec<usize> = (0..nodes).collect();
        order.sort_by_key(|&node| mix(turns ^ mix(window_number << 16 | node as u64)));
        window_number += 1;
        for node in order {
            while waiting[node].peek().is_some_and(|Reverse((time, ..))| *time <= last) {
                let Some(Reverse((time, code))) = waiting[node].pop() else { break };
                simulation.world.fabric.run.now = time;
                simulation.events += 1;
                simulation.dispatch(Event::decode(code));
                sort(&mut simulation.world, &mut waiting);
            }
        }
        if last == sample {
            simulation.world.fabric.run.now = sample;
            simulation.events += 1;
            simulation.dispatch(Event::Sample);
            sample = sort(&mut simulation.world, &mut waiting).expect("bins close");
        }
        if last == end {
            simulation.world.fabric.run.now = end;
            simulation.world.fabric.run.finished = true;
            return simulation.finish();
        }
    }
}

/// Three hosts on each of two switches with a link between them; losses, marks and pauses.
pub(super) fn two_switches(writers: &[(usize, usize, u32)], loss: f64, seed: u64) -> Plan {
    let mut plan = Plan::from_json(PLAN).expect("it is a plan");
    plan.run.seed = seed;
    plan.run.duration = Time(200_000_000);
    let host = plan.hosts[0].clone();
    let name = |host: usize| format!("h{host}");
    plan.hosts = (0..6).map(|at| crate::plan::HostPlan { name: name(at), ..host.clone() }).collect();
    plan.switches = ["sw0", "sw1"].map(|name| SwitchPlan { name: name.into(), model: 0 }).to_vec();
    let link = LinkPlan { loss, headroom_bytes: 100_000, ..plan.links[0].clone() };
    let ends = (0..6).map(|at| (name(at), format!("sw{}", at / 3))).chain([("sw0".into(), "sw1".into())]);
    plan.links = ends.map(|(a, b)| LinkPlan { a, b, ..link.clone() }).collect();
    plan.switch_models[0].shared_bytes = 200_000;
    let writer = WriterPlan { start: Time::ZERO, stop: None, messages: None, ..plan.writers[0].clone() };
    plan.writers = (writers.iter())
        .map(|&(src, to, qps)| WriterPlan {
            src: name(src),
            dst: name((src + to) % 6),
            qps,
            ..writer.clone()
        })
        .collect();
    plan
}

/// Every third host runs HPCC, and every third PINT, with a digest in a quarter of the packets.
pub(super) fn ask_for_telemetry(plan: &mut Plan) {
    let base_rtt = RoundTrip(Time::from_us(13));
    plan.nics[0].congestion.extend([
        Settings::Hpcc(HpccParameters { base_rtt, ..Default::default() }),
        Settings::Pint(PintParameters { base_rtt, probability: 0.25, ..Default::default() }),
    ]);
    for (at, host) in plan.hosts.iter_mut().enumerate() {
        host.congestion = at % 3;
    }
}

pub(super) fn text(recording: &Recording) -> String {
    format!("{recording:?}")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nodes_in_any_order_give_the_same_results(
        writers in prop::collection::vec((0usize..6, 1usize..6, 1u32..5), 1..9),
        loss in prop::sample::select(vec![0.0, 1e-3]),
        (telemetry, seed) in (any::<bool>(), 0u64..100),
        turns in any::<u64>(),
    ) {
        let mut plan = two_switches(&writers, loss, seed);
        if telemetry {
            ask_for_telemetry(&mut plan);
        }
        let mut simulation = Simulation::new(plan.clone()).expect("the plan is possible");
        while !simulation.advance(1 << 20).done {}
        let in_order = simulation.finish();
        let by_node = run_by_node(plan, turns);
        prop_assert!(in_order.meta.conservation.ok && in_order.flows.iter().any(|flow| flow.bytes_delivered > 0));
        prop_assert_eq!(in_order.meta.events, by_node.meta.events);
        prop_assert!(text(&in_order) == text(&by_node));
    }
}
