//! Events of a network do not depend on other networks in the same run: the order of simultaneous events follows from the
//! events alone, and every link and writer has random numbers of its own.

mod common;

use std::collections::BTreeSet;

use common::fabric::FatTree;
use common::host::memory_pair;
use common::tcp::{connections, cpu, tcp};
use common::{ecn, run_with_faults, star, writer, US};
use proptest::prelude::*;
use tailback_proto::units::{Bytes, Time};
use tailback_sim::plan::*;
use tailback_sim::record::Recording;

/// A network, and what its hosts and switches are called in front.
struct Part {
    plan: Plan,
    prefix: &'static str,
}

/// Two networks without a link between them in one plan. `turns`: whose is the next host, switch, link or writer of each
/// list; what is left comes at the end.
fn side_by_side(parts: [Part; 2], turns: &[bool]) -> Plan {
    let mut both = parts[0].plan.clone();
    (both.hosts, both.switches, both.links) = (vec![], vec![], vec![]);
    (both.writers, both.tcp_connections, both.memory_loads) = (vec![], vec![], vec![]);
    (both.nics, both.switch_models) = (vec![], vec![]);
    let renamed = parts.map(|Part { mut plan, prefix }| {
        let rename = |name: &mut String| *name = format!("{prefix}{name}");
        let (first_nic, first_model) = (both.nics.len(), both.switch_models.len());
        both.nics.append(&mut plan.nics);
        both.switch_models.append(&mut plan.switch_models);
        for host in &mut plan.hosts {
            rename(&mut host.name);
            host.nic += first_nic;
        }
        for switch in &mut plan.switches {
            rename(&mut switch.name);
            switch.model += first_model;
        }
        for link in &mut plan.links {
            rename(&mut link.a);
            rename(&mut link.b);
        }
        for writer in &mut plan.writers {
            rename(&mut writer.src);
            rename(&mut writer.dst);
        }
        for item in &mut plan.tcp_connections {
            rename(&mut item.src);
            rename(&mut item.dst);
        }
        plan.memory_loads.iter_mut().for_each(|load| rename(&mut load.host));
        plan
    });
    let [one, other] = renamed;
    both.hosts = merged(one.hosts, other.hosts, turns);
    both.switches = merged(one.switches, other.switches, turns);
    both.links = merged(one.links, other.links, turns);
    both.writers = merged(one.writers, other.writers, turns);
    both.tcp_connections = merged(one.tcp_connections, other.tcp_connections, turns);
    both.memory_loads = merged(one.memory_loads, other.memory_loads, turns);
    both
}

fn merged<T>(one: Vec<T>, other: Vec<T>, turns: &[bool]) -> Vec<T> {
    let (mut one, mut other) = (one.into_iter(), other.into_iter());
    let mut found: Vec<T> =
        turns.iter().filter_map(|&others| if others { other.next() } else { one.next() }).collect();
    found.extend(one);
    found.extend(other);
    found
}

/// All that was recorded of hosts and switches with this prefix, in lines. Series only where both runs have the same: their
/// bins are longer where there are many, and traffic items have some where there are several.
fn of(recording: &Recording, prefix: &str, other: &Recording) -> Vec<String> {
    let is_own = |name: &str| name.starts_with(prefix);
    let flows = recording.flows.iter().filter(|flow| is_own(&flow.src)).map(|flow| format!("{flow:?}"));
    let entities = |recording: &Recording| -> BTreeSet<String> {
        recording.series.columns().map(|column| recording.series.entities[column.0].to_string()).collect()
    };
    let others = if recording.series.bin == other.series.bin { entities(other) } else { BTreeSet::new() };
    let series = recording.series.columns().filter_map(|(entity, metric, values)| {
        let entity = &recording.series.entities[entity];
        (is_own(entity) && others.contains(&**entity)).then(|| format!("{entity} {metric} {values:?}"))
    });
    let counters = recording.counters.iter().filter(|row| is_own(&row.node)).map(|row| format!("{row:?}"));
    let meta = &recording.meta;
    let drops = meta.drops.iter().filter(|drop| is_own(&drop.r#where)).map(|drop| format!("{drop:?}"));
    let pauses = meta.pauses.iter().filter(|pause| is_own(&pause.port)).map(|pause| format!("{pause:?}"));
    flows.chain(series).chain(counters).chain(drops).chain(pauses).collect()
}

/// The first part alone, and beside the other.
fn assert_alone_as_beside(plan: &Plan, other: &Plan, turns: &[bool]) {
    let part = || Part { plan: plan.clone(), prefix: "a:" };
    let mut nothing = star(0);
    (nothing.switches, nothing.run) = (vec![], plan.run);
    let alone = run_with_faults(side_by_side([part(), Part { plan: nothing, prefix: "n:" }], &[]));
    let both = run_with_faults(side_by_side([part(), Part { plan: other.clone(), prefix: "b:" }], turns));
    assert!(alone.flows.iter().any(|flow| flow.bytes_delivered > 0));
    let (alone, both) = (of(&alone, "a:", &both), of(&both, "a:", &alone));
    for (alone, both) in alone.iter().zip(&both) {
        assert_eq!(alone, both);
    }
    assert_eq!(alone.len(), both.len());
}

/// Hosts with writers that start together and so have many ties: a class without loss and one with, several to one.
fn star_with(hosts: usize, writers: &[(usize, usize, bool, u32)], mtu: u32) -> Plan {
    let mut plan = star(hosts);
    plan.run.duration = Time(120 * US);
    plan.nics[0].mtu = Bytes(mtu as u64);
    plan.record.qps = 1000;
    // A step draws no random numbers; little buffer makes pauses and drops.
    plan.switch_models[0].ecn = vec![ecn(None, 20_000)];
    (plan.switch_models[0].buffer, plan.switch_models[0].shared_bytes) = (Bytes(1_000_000), 100_000);
    plan.writers = (writers.iter())
        .map(|&(src, dst, lossless, qps)| WriterPlan {
            code_point: if lossless { 3 } else { 5 },
            ..writer(
                src % hosts,
                if dst % hosts == src % hosts { (dst + 1) % hosts } else { dst % hosts },
                qps,
            )
        })
        .collect();
    plan
}

fn any_star() -> impl Strategy<Value = Plan> {
    let writers = prop::collection::vec((0usize..6, 0usize..3, any::<bool>(), 1u32..4), 1..8);
    (3usize..7, writers, prop::sample::select(vec![1024, 4096]), any::<bool>()).prop_map(
        |(hosts, writers, mtu, controlled)| {
            let mut plan = star_with(hosts, &writers, mtu);
            if !controlled {
                plan.nics[0].congestion = vec![CongestionPlan::None(Default::default())];
            }
            plan
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever stands between its hosts, links and writers in the plan.
    #[test]
    fn a_network_runs_alone_as_it_runs_among_another(
        plan in any_star(),
        other in any_star(),
        turns in prop::collection::vec(any::<bool>(), 0..20),
    ) {
        assert_alone_as_beside(&plan, &other, &turns);
    }

    /// With random marks and losses and several ways, which go by numbers in the plan: behind it.
    #[test]
    fn a_network_runs_alone_as_it_runs_before_another(
        other in any_star(),
        writers in prop::collection::vec((0usize..16, 0usize..16, any::<bool>(), 1u32..4), 4..16),
        seed in 0u64..100,
    ) {
        let mut plan = FatTree::k_ary(4).plan();
        let traffic = star_with(16, &writers, 1024);
        (plan.run.seed, plan.run.duration, plan.writers) = (seed, traffic.run.duration, traffic.writers);
        (plan.record, plan.flows) = (traffic.record, traffic.flows);
        plan.switch_models[0].ecn = vec![EcnParameters { k_max: Bytes(60_000), p_max: 0.5, ..ecn(None, 5_000) }];
        plan.links.iter_mut().for_each(|link| link.loss = 1e-3);
        assert_alone_as_beside(&plan, &other, &[]);
    }
}

/// TCP and the cores that serve it, and a receiving host's data path.
#[test]
fn hosts_run_alone_as_they_run_among_others() {
    let mut speaks_tcp = star_with(4, &[], 1024);
    (speaks_tcp.nics[0].tcp, speaks_tcp.nics[0].cpu) = (Some(tcp()), Some(cpu()));
    speaks_tcp.tcp_connections = (0..3).map(|src| connections(src, 3, 4)).collect();
    let writes = star_with(5, &[(0, 4, true, 2), (1, 4, true, 2), (2, 4, false, 2), (3, 4, false, 2)], 1024);
    let mut has_path = memory_pair(true, 1 << 20, 4, 14);
    has_path.run.duration = writes.run.duration;
    for other in [&writes, &has_path, &speaks_tcp] {
        for plan in [&writes, &has_path, &speaks_tcp] {
            let comes_first = plan.tcp_connections.is_empty() || other.tcp_connections.is_empty();
            let turns = if comes_first { vec![] } else { vec![false; 20] };
            assert_alone_as_beside(plan, other, &turns);
        }
    }
}
